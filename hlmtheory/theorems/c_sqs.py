"""Theorems of c-sqs (bhattacharjee2025csqs): the lattice and the adaptive support.

First Section 2: (20) and Lemma 1, then Theorem 1, which adds them up, then Algorithm 2. Then Section 3: Algorithm 1 and
Theorem 2, and after them Lemmas 2 and 4, which prove them, (28) and (30). Section 4 is last. Others on c-sqs are in
``ours_messages``. ε and τ are the paper's α and β; q, p, q̂, K, ℓ, η, T, V and N_rej are its own. An index n is a
position: q_n is a distribution, K_n tokens that it keeps, d_n the mass that it drops; q_x and q_i are the probabilities
of a token. The paper's α_n, (4), is the mean of d_n over prefixes ~ p; here d_n is of one run. A bound that every run
keeps holds for these means too, at a fixed T. X is the set of the K kept tokens, q̄ is q on X, normalised, and q̂ is q̄
rounded to multiples of 1/ℓ that sum to 1; dropped is Σ_{x ∉ X} q_x. C-SQS keeps the tokens with q_x ≥ τ_n by (6), here
always the top token too, and sets τ_{n+1} = τ_n - η(d_n - ε) by (8). Lemma 3, (26), is (8) with 0 ≤ d_n ≤ 1: no claim.
Only here: D = i(K - i)/(Kℓ), i = min(ℓ, ⌊K/2⌋), in place of K/(4ℓ); B, bits of a message; c₁ and c₂, scales of ε and η.
The bound that (7) is for is composed in the proof of conformal.kept. It is not a claim: its check needs C-SQS's τ on
every text and at every end of a round.
"""

from functools import partial

from hlmtheory._array import arrays
from hlmtheory.claims import CORRECTED, IMPLIED, MISPRINT, NEW, PRINTED, SOFTWARE, Assumption, Source, eq, le, theorem
from hlmtheory.sides import conformal_sides, verification_sides
from hlmtheory.sides import lattice_sides as sides

CSQS = partial(Source, "bhattacharjee2025csqs")
POSITIVE = Assumption("1 ≤ K ≤ number of non-zero probabilities", sides.all_positive)
HALVES = {"draft": [0.5, 0.5], "k": 2, "resolution": 1}
HALF_UNITS = {"target": [0.505, 0.495], "draft": [0.505, 0.495], "k": 2}
ONE_PREFIX = {"drafts": [[0.5, 0.5]], "targets": [[0.5, 0.5]], "k": [2], "resolution": [1], "draft_length": 4}
THREE_TOKENS = {"drafts": [[1 / 3] * 3], "targets": [[1 / 3] * 3], "k": [3], "resolution": [1], "draft_length": 4}
"""An odd number of tokens, at which D is below K/(4ℓ)."""
POSITIVE_TREE = Assumption(
    "1 ≤ K ≤ number of non-zero probabilities of every row; the prefix fixes K_n, ℓ_n (C-SQS: with the rounds' ends)",
    sides.positive_on_tree,
)
FIRST = Assumption("τ₁ ≥ −η(1 − ε)", conformal_sides.high_enough)
TWO_BATCHES = {
    "drafts": [[[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], [[0.75, 0.25, 0.0], [0.25, 0.25, 0.5]]],
    "accepted": [0, 2],
    "epsilon": 0.25,
    "learning_rate": 0.5,
    "threshold": 0.5,
}
EASY_THEN_FLAT = [[[1.0] + [0.0] * 127, [1 / 128] * 128]] * 100
PEAKED_ROW = [1.0] + [0.0] * 2047
FLAT_ROW = [1 / 2048] * 2048
LATE_DROP = {"drafts": [PEAKED_ROW, FLAT_ROW], "epsilon": 1 / 1024, "learning_rate": 1.0, "threshold": 0.0}
"""The first row drops nothing and sets τ₂ = ηε = 1/1024, and the second drops all but its top token."""
DROPPED = 2047 / 2048
TIGHT = DROPPED / (1 + 1 / 1024)
SMALL = Assumption("η(1 − 2ε) ≤ 1", conformal_sides.small_step)
PEAKED = [[1.0, 0.0]]


@theorem(
    "lattice.lossless",
    CSQS("Section 2, quantize-and-sample, at ℓ = 100"),
    PRINTED,
    assuming=(POSITIVE,),
    tight={"target": [0.25, 0.75], "draft": [0.505, 0.495], "k": 2},
)
def lossless():
    """drafts drawn from q̂ and verified with q̂ leave the law p: its overlap with p is 1.

    This is verification.unbiased with q̂ in place of q; its proof holds for any q̂, so for any ℓ. Checked at ℓ = 100.
    """
    return eq(sides.lossless, verification_sides.ones_side)  # 1 - TV(law, p) = 1


@theorem(
    "lattice.misdeclared",
    CSQS("Section 2, were the drafts drawn before they are quantised"),
    IMPLIED,
    assuming=(POSITIVE,),
    false={"target": [0.51, 0.49], "draft": [0.505, 0.495], "k": 2},
    law=partial(sides.law, drawn_from_draft=True),
)
def misdeclared():
    """drafts drawn from q and verified with q̂ leave the law p.

    False: drafts from q, tested and resampled with q̂, have the law q_v min(1, p_v/q̂_v) + (1 - Σ …) r_v. With p =
    q̂ nothing is rejected and the law is q. Instead: lattice.lossless.
    """
    return eq(sides.misdeclared, verification_sides.ones_side)  # 1 - TV(law, p) = 1


@theorem("lattice.bits", CSQS("(1), (2), (5)"), SOFTWARE, tight={"vocabulary": 4096, "k": 64, "resolution": 100})
def bits():
    """the bits of a message, log₂ C(V, K) + log₂ C(ℓ+K−1, K−1), are the same by Stirling's series and by whole numbers.

    Supports: K of V. Counts: ℓ units and K - 1 bars in a row. Four terms of the series give ln n! to 2e-14
    for n ≥ 16; below, it is tabulated.
    """
    return eq(sides.stirling_bits, sides.exact_bits)  # log₂ by Stirling = log₂ of whole numbers


@theorem("lattice.distortion", CSQS("(20)"), PRINTED, assuming=(POSITIVE,), tight=HALVES, ceiling=1.0)
def distortion():
    """TV(q̄, q̂) ≤ K/(4ℓ).

    r units are missing after rounding down, and the r largest remainders are rounded up, as by Algorithm 2. These add
    1 - f each, and the others lose as much in all, so ℓ TV = Σ_up (1 - f) = r - Σ_up f. The r largest of K numbers with
    the sum r have a sum of at least r²/K. So ℓ TV ≤ r - r²/K = r(K - r)/K ≤ K/4, as r(K - r) ≤ K²/4.
    """
    return le(sides.distortion, sides.bound)  # TV(q̄, q̂) ≤ K/(4ℓ)


@theorem(
    "lattice.dropped_mass", CSQS("Lemma 1"), PRINTED, assuming=(POSITIVE,), tight={"draft": [0.5, 0.25, 0.25], "k": 1}
)
def dropped_mass():
    """TV(q, q̄) = Σ_{x ∉ X} q_x.

    With S the kept mass, q̄ = q/S ≥ q on the support, so TV(q, q̄) = Σ (q - q̄)⁺ = the mass outside.
    """
    return eq(sides.distance_to_kept, sides.dropped)  # TV(q, q̄) = Σ_{x ∉ X} q_x


@theorem(
    "lattice.rejection_rate",
    CSQS("Theorem 1, one position of (3), at ℓ = 100"),
    PRINTED,
    assuming=(POSITIVE,),
    tight=HALF_UNITS,
    ceiling=1.0,
)
def rejection_rate():
    """P(reject) = TV(q̂, p) ≤ TV(q, p) + Σ_{x ∉ X} q_x + K/(4ℓ), ℓ = 100.

    TV(q̂, p) ≤ TV(q, p) + TV(q, q̄) + TV(q̄, q̂), by dropped_mass and lattice.distortion, for any ℓ; checked at ℓ = 100.
    """
    return le(sides.rejection_rate, sides.position_bound)  # TV(q̂, p) ≤ TV(q, p) + Σ_{x ∉ X} q_x + K/(4ℓ)


@theorem(
    "lattice.rejection_rate_sharp",
    CSQS("Theorem 1, one position of (3), at ℓ = 100"),
    NEW,
    assuming=(POSITIVE,),
    tight=HALF_UNITS,
    ceiling=1.0,
)
def rejection_rate_sharp():
    """P(reject) = TV(q̂, p) ≤ TV(q, p) + Σ_{x ∉ X} q_x + D, ℓ = 100.

    As lattice.rejection_rate, for any ℓ, with TV(q̄, q̂) ≤ D = i(K - i)/(Kℓ), i = min(ℓ, ⌊K/2⌋) (distortion_sharp).
    """
    return le(sides.rejection_rate, sides.position_bound_sharp)  # the same with D for K/(4ℓ)


@theorem(
    "lattice.informative",
    CSQS("Theorem 1, one position of (3), at ℓ = 100"),
    IMPLIED,
    assuming=(POSITIVE,),
    false={"target": [1 / 512] * 512, "draft": [1 / 512] * 512, "k": 512},
)
def informative():
    """TV(q, p) + Σ_{x ∉ X} q_x + K/(4ℓ) ≤ 1: Theorem 1 always says something.

    False: for any ℓ, from K = 4ℓ on, the last term alone is at least 1. The sharper bound is no larger, and says
    something where TV(q, p) + Σ_{x ∉ X} q_x + D < 1. Instead: lattice.rejection_rate_sharp.
    """
    return le(sides.position_bound, verification_sides.ones_side)  # TV(q, p) + Σ_{x ∉ X} q_x + K/(4ℓ) ≤ 1


@theorem(
    "lattice.rejections",
    CSQS("Theorem 1, where the random K_n is printed outside the expectation"),
    CORRECTED,
    assuming=(POSITIVE_TREE,),
    tight=ONE_PREFIX,
)
def rejections():
    """E[N_rej] ≤ Σ_n E_{prefix ~ p}[TV(q_n, p_n) + dropped_n + K_n/(4ℓ_n)], K_n and ℓ_n of the prefix.

    Printed is Σ_n E[TV(q_n, p_n)] + Σ_n (E[dropped_n] + K_n/(4ℓ_n)): the random K_n is outside of E. Σ_n is over all
    positions, those of bonus tokens too. Given its prefix, every emitted token has law p (lossless). So a position
    with a draft adds at most E_{prefix ~ p}[TV(q̂, p)], and a position with a bonus token adds 0. There TV(q̂, p) ≤
    TV(q, p) + TV(q, q̄) + TV(q̄, q̂), where TV(q, q̄) = dropped (dropped_mass) and TV(q̄, q̂) ≤ K/(4ℓ)
    (lattice.distortion). Attained without bonus tokens. From K = 4ℓ on it says nothing. In C-SQS the mean is also
    over the ends of rounds, by the same proof. As printed (3) holds for K-SQS, where K_n = K.
    """
    return le(sides.tree_rejections, sides.tree_bound_published)  # E[N_rej] over a tree of rows ≤ Σ_n E[…]


@theorem("lattice.rejections_sharp", CSQS("Theorem 1"), NEW, assuming=(POSITIVE_TREE,), tight=THREE_TOKENS)
def rejections_sharp():
    """E[N_rej] ≤ Σ_n E_{prefix ~ p}[TV(q_n, p_n) + dropped_n + D_n], D = i(K − i)/(Kℓ), i = min(ℓ, ⌊K/2⌋).

    As lattice.rejections, with TV(q̄, q̂) ≤ D by lattice.distortion_sharp of ``ours_messages``.
    """
    return le(sides.tree_rejections, sides.tree_bound_sharp)  # the same with D for K/(4ℓ)


@theorem("lattice.quantize", CSQS("Alg. 2, renormalised as in (17)"), CORRECTED, assuming=(POSITIVE,), tight=HALVES)
def quantize(draft, k, resolution):
    """|Σ_i ⌊ℓ q̄_i + ½⌋ − ℓ| ≤ ⌊K/2⌋: one correction of an entry by 1 is enough.

    Each of the K roundings to the nearest integer is off by at most ½. Their sum, which would be ℓ without rounding,
    is off by a whole number of at most K/2.
    """
    return le(sides.corrections_renormalised(draft, k, resolution), arrays(k=k)[1] // 2)


@theorem(
    "lattice.quantize_printed",
    CSQS("Alg. 2 as printed, the kept part not renormalised"),
    MISPRINT,
    assuming=(POSITIVE,),
    false={"draft": [0.25, 0.25, 0.25, 0.25], "k": 1, "resolution": 100},
)
def quantize_printed(draft, k, resolution):
    """|Σ_i ⌊ℓ q_i + ½⌋ − ℓ| ≤ K over the support, so that each entry is corrected once at most.

    False: without the renormalisation the sum is ℓ(1 - dropped) up to K/2. As printed, one correction for each entry
    does not reach ℓ once ℓ·dropped > 3K/2. Line 4 extracts q as it is; for normalised q, as q̃ in Algorithm 1, line 7,
    the other lines are right. Instead: lattice.quantize.
    """
    return le(sides.corrections_printed(draft, k, resolution), arrays(k=k)[1])


@theorem(
    "conformal.update",
    CSQS("(8) and Algorithm 1, line 12 with the rejected position's own dropped mass"),
    CORRECTED,
    tight=TWO_BATCHES,
)
def update():
    """drafting ahead and rolling back gives the threshold of the accepted and rejected positions alone, from any τ₁.

    The controller rolls back to the state after the accepted drafts and the update of the rejected draft. This is its
    state if it had seen these positions only.
    """
    return eq(conformal_sides.rolled_back, conformal_sides.kept_threshold)  # τ = τ by (8) over kept positions


@theorem(
    "conformal.resampled",
    CSQS("(9) with Algorithm 1, line 12 by its formula, read as a bound on the sum of Theorem 1"),
    IMPLIED,
    assuming=(SMALL,),
    false={"drafts": EASY_THEN_FLAT, "accepted": [1] * 100, "epsilon": 0.005, "learning_rate": 1.0, "threshold": 0.0},
)
def resampled():
    """with line 12's formula (9) holds over the positions of Theorem 1: mean d_n over accepted and rejected positions ≤
    ε + (|τ₁| + 1 + ηε)/(ηT).

    False: where each batch accepts a draft of a peaked q (d_n = 0) and rejects one of a flat q, τ only rises, and the
    mean is .491, the bound .010.

    Line 12's formula, with our letters and m for T^t, the accepted drafts, is "τ_{m+1} = τ_m - η(d_m - ε)". This
    repeats line 8's step from the last accepted token. So the rejected position's d_{m+1} is in the sum of Theorem 1,
    but in no update.

    (7) promises less: its "index n runs over the accepted tokens", and over these alone (9) holds with the formula
    (conformal.accepted; regret_small_step). But the paper says of the sum in Theorem 1 that (7) "ensures that the term
    in the upper bound (1) … is asymptotically no larger than a target value": this takes the rejected positions too.

    Line 12's words, "Apply the update (8) on the new token", and above it "a further iteration is done for the new,
    (T^t + 1)-th token", favour d_{m+1}. With it (9) is true (conformal.kept).

    At m = 0 the formula reads τ_0 and d_0, which are undefined. Here τ then stays as it was before the batch; the
    counterexample has m = 1. Instead: conformal.kept, conformal.accepted.
    """
    return le(conformal_sides.kept_mean_printed, conformal_sides.kept_bound_published)  # (9)


@theorem(
    "conformal.kept",
    CSQS("Algorithm 1, line 12 with the rejected position's own dropped mass"),
    CORRECTED,
    assuming=(FIRST,),
    tight={**LATE_DROP, "drafts": [[PEAKED_ROW], [FLAT_ROW]], "accepted": [0, 0]},
    ratio=TIGHT,
    ceiling=1.0,
)
def kept():
    """mean d_n over accepted and rejected positions ≤ ε + (τ₁ + η(1 − ε))/(ηT), if line 12 takes the d_n of the
    rejected position.

    By conformal.update the state is as if the controller had seen these positions only. So regret_sharp holds for them.
    Composed with lattice.rejections, whose drafts are at these positions alone, at most T of a text of T tokens:
    E[N_rej] ≤ Σ_n E[TV(q_n, p_n) + K_n/(4ℓ_n)] + εT + (τ₁ + η(1 − ε))/η.
    """
    return le(conformal_sides.kept_mean, conformal_sides.kept_bound)  # mean d_n ≤ ε + (τ₁ + η(1 - ε))/(ηT)


@theorem(
    "conformal.accepted",
    CSQS("Theorem 2 with Algorithm 1, line 12 as printed"),
    NEW,
    assuming=(FIRST,),
    tight={**LATE_DROP, "drafts": [[PEAKED_ROW, FLAT_ROW]], "accepted": [2]},
    ratio=TIGHT,
    ceiling=1.0,
)
def accepted():
    """mean d_n over accepted positions ≤ ε + (τ₁ + η(1 − ε))/(ηT), if line 12 takes the d_n of the last accepted
    position.

    By line 12's formula (conformal.resampled) the state is as if the controller had seen the accepted positions only,
    the tokens that the proof of Theorem 2 counts. So regret_sharp holds for them.
    """
    return le(conformal_sides.accepted_mean_printed, conformal_sides.accepted_bound)  # the same, T accepted


@theorem(
    "conformal.regret",
    CSQS("Theorem 2, (9), for any η > 0, as printed"),
    PRINTED,
    false={"drafts": [[1 / 200] * 200] * 2, "epsilon": 0.001, "learning_rate": 10.0, "threshold": 0.0},
)
def regret():
    """mean d_n ≤ ε + (|τ₁| + 1 + ηε)/(ηT) for any η > 0.

    False: at η = 10 the first row drops nothing, τ rises to 0.01 > 1/200, and the second row drops all but its top
    token, 199/200. The mean is 0.4975, the bound 0.0515. These rows do not depend on the prefix, so the means of (4)
    are the same. With (6) as printed the second row drops that token too, and the mean is .5: false as well. For τ₁ = 0
    the bound allows τ to fall to -(1 + ηε) at most; one step can take it to -η(1 - ε).

    For η(1 - 2ε) > 1 it fails at T = 1: a flat row of many tokens drops d₁ near 1 at a small τ₁ > 0, and (9) allows 2ε
    + (1 + τ₁)/η, which is less. It fails at T = 3, τ₁ = 0 too: by the proof of regret_sharp Σ d_n comes near 2ε + 1
    there, and (9) allows 4ε + 1/η, which is less. For η(1 - 2ε) ≤ 1 it holds, as at the paper's η = 0.001, where it
    says nothing for T ≤ 1,000. Instead: conformal.regret_small_step, conformal.regret_proof, conformal.regret_sharp.
    """
    return le(conformal_sides.mean_dropped, conformal_sides.published)  # Σ d_n/T ≤ ε + (|τ₁| + 1 + ηε)/(ηT)


@theorem(
    "conformal.regret_small_step",
    CSQS("Theorem 2, (9)"),
    CORRECTED,
    assuming=(SMALL,),
    tight=LATE_DROP,
    ratio=DROPPED / (1 + 3 / 1024),
    ceiling=1.0,
)
def regret_small_step():
    """mean d_n ≤ ε + (|τ₁| + 1 + ηε)/(ηT) from any τ₁, where η(1 − 2ε) ≤ 1.

    If -τ_{T+1} ≤ η(1 - ε), then Σ d_n = εT + (τ₁ - τ_{T+1})/η ≤ εT + (τ₁ + η(1 - ε))/η, by conformal.telescope. Where
    η(1 - 2ε) ≤ 1, η(1 - ε) ≤ 1 + ηε, and this is at most εT + (|τ₁| + 1 + ηε)/η. Else, by conformal.iterates, every τ_n
    is below -η(1 - ε): from a τ_n that is not, no later one is. So all tokens are kept, and Σ d_n = 0. With (6) as
    printed it holds too: the proof uses 0 ≤ d_n ≤ 1 and, where τ_n < 0, d_n = 0.
    """
    return le(conformal_sides.mean_dropped, conformal_sides.published)  # Σ d_n/T ≤ ε + (|τ₁| + 1 + ηε)/(ηT)


@theorem(
    "conformal.regret_sharp", CSQS("Theorem 2, (9)"), NEW, assuming=(FIRST,), tight=LATE_DROP, ratio=TIGHT, ceiling=1.0
)
def regret_sharp():
    """mean d_n ≤ ε + (τ₁ + η(1 − ε))/(ηT) for every η and V; at τ₁ = 0, Σ d_n ≤ εT + 1 − ε.

    Insert the lower bound of conformal.iterates in conformal.telescope: Σ d_n ≤ εT + (τ₁ + η(1 - ε))/η. With (6) as
    printed it holds too, by the same proof. From a lower τ₁ the bound holds too, unless Σ d_n = 0, where it can be
    negative (regret_small_step). For τ₁ = 0 and ε ≤ 1/2 no smaller constant holds at T = 3 for all V: d_1 = 0, d_2 = 2ε
    - δ sets τ₃ = ηδ, and a flat row then drops 1 - 1/V, so that Σ d_n = 2ε + 1 - δ - 1/V.
    """
    return le(conformal_sides.mean_dropped, conformal_sides.sharp)  # Σ d_n/T ≤ ε + (τ₁ + η(1 - ε))/(ηT)


@theorem(
    "conformal.telescope",
    CSQS("Lemma 2 without the absolute value"),
    CORRECTED,
    tight=LATE_DROP,
    condition=conformal_sides.roundings,
)
def telescope():
    """Σ (d_n − ε) = (τ₁ − τ_{T+1})/η, from any τ₁.

    Sum the updates (8).
    """
    return eq(conformal_sides.excess, conformal_sides.movement)  # Σ (d_n - ε) = (τ₁ - τ_{T+1})/η


@theorem(
    "conformal.telescope_printed",
    CSQS("Lemma 2, (25)"),
    MISPRINT,
    false={"drafts": PEAKED, "epsilon": 0.25, "learning_rate": 1.0, "threshold": 0.0},
    condition=conformal_sides.roundings,
)
def telescope_printed():
    """Σ (d_n − ε) = |τ₁ − τ_{T+1}|/η, from any τ₁.

    False: the left side is negative where the threshold rises. Instead: conformal.telescope.
    """
    return eq(conformal_sides.excess, conformal_sides.absolute_movement)  # Σ (d_n - ε) = |τ₁ - τ_{T+1}|/η


@theorem(
    "conformal.iterates_printed",
    CSQS("Lemma 4, for all n ≥ 0 without a condition on τ₁, with (6) as printed"),
    MISPRINT,
    false={"drafts": PEAKED, "epsilon": 0.5, "learning_rate": 0.5, "threshold": 2.0},
)
def iterates_printed():
    """−η(1 − ε) ≤ τ_n ≤ 1 + ηε for all n, from any τ₁.

    False: at τ₁ = 2 > 1 + ηε already τ₁ is above, at τ₁ < −η(1 - ε) below, and small steps stay there for long. A first
    threshold within the bounds is meant, and then they hold. The sides are the largest excess over a bound, and 0.
    Instead: conformal.iterates, conformal.iterates_upper_empty.
    """
    return le(conformal_sides.beyond_printed, conformal_sides.nothing)  # max(-τ_n - η(1 - ε), τ_n - 1 - ηε) ≤ 0


@theorem(
    "conformal.iterates",
    CSQS("Lemma 4, lower half"),
    CORRECTED,
    assuming=(FIRST,),
    tight=LATE_DROP,
    ratio=(DROPPED - 2 / 1024) / (1 - 1 / 1024),
)
def iterates():
    """−τ_n ≤ η(1 − ε) for all n.

    If τ_n ≥ 0, then τ_{n+1} ≥ -η(1 - ε), as d_n ≤ 1. If τ_n < 0, every token is kept, d_n = 0 and τ rises. So from any
    τ_n ≥ -η(1 - ε) on, the first or a later one, all are. Print has no condition on τ₁: ours is the bound itself at
    n = 1.
    """
    return le(conformal_sides.lowest, conformal_sides.undershoot)  # -min τ_n ≤ η(1 - ε)


@theorem(
    "conformal.iterates_upper_empty",
    CSQS("Lemma 4, upper half, with (6) as printed"),
    CORRECTED,
    assuming=(Assumption("τ₁ ≤ 1 + ηε", conformal_sides.low_enough),),
    tight={"drafts": PEAKED, "epsilon": 0.5, "learning_rate": 0.5, "threshold": 1.0},
)
def iterates_upper_empty():
    """τ_n ≤ 1 + ηε for all n, if no token is kept where τ_n > max q_n, so that d_n = 1.

    If τ_n ≤ max q_n ≤ 1, then τ_{n+1} ≤ 1 + ηε, as d_n ≥ 0. If τ_n > max q_n, then d_n = 1 and τ falls by η(1 - ε).
    No draft can be drawn there. Print has no condition on τ₁: ours is the bound itself at n = 1.
    """
    return le(conformal_sides.highest_printed, conformal_sides.overshoot)  # max τ_n ≤ 1 + ηε


@theorem(
    "conformal.iterates_upper",
    CSQS("Lemma 4, upper half, with the top token kept, as in its proof's words"),
    IMPLIED,
    false={"drafts": PEAKED * 8, "epsilon": 0.5, "learning_rate": 0.5, "threshold": 0.0},
)
def iterates_upper():
    """τ_n ≤ 1 + ηε for all n > 1, if the top token is always kept.

    False: τ has no upper bound. Once only the top token is left, d_n = 1 - max q_n. While that is below ε, the
    threshold keeps rising. The printed proof says that "thresholding discards all but the top outcome", and d_n = 1,
    which is so only if that is discarded too. The lower half of Lemma 4 is all that Theorem 2 needs. Instead:
    conformal.iterates_upper_empty, conformal.iterates.
    """
    return le(conformal_sides.highest, conformal_sides.overshoot)  # max τ_n ≤ 1 + ηε


@theorem(
    "conformal.regret_proof",
    CSQS("(28), in the proof of Theorem 2; (30) follows"),
    PRINTED,
    tight={**LATE_DROP, "learning_rate": 1024.0},
    ratio=DROPPED / (1 + 3 / 1024),
    ceiling=1.0,
)
def regret_proof():
    """mean d_n ≤ ε + (|τ₁| + 1 + η)/(ηT) for any τ₁ and η > 0: (9) has ηε for this η.

    By the proof of regret_small_step Σ d_n is 0 or at most εT + (τ₁ + η(1 - ε))/η, and (|τ₁| + 1 + η) - (τ₁ + η(1 - ε))
    ≥ 1 + ηε. Of Lemma 4 only the proof of its lower half is needed.
    """
    return le(conformal_sides.mean_dropped, conformal_sides.published_in_proof)  # (28)


@theorem(
    "conformal.rate",
    CSQS("(30), O(√T) in print, with its constants"),
    NEW,
    assuming=(Assumption("τ₁ ≥ −(c₂/√T)(1 − c₁/√T)", conformal_sides.first_high_enough),),
    tight={"drafts": [PEAKED_ROW, FLAT_ROW], "target_scale": 2**0.5 / 1024, "learning_scale": 2**0.5, "threshold": 0.0},
    ratio=TIGHT,
)
def rate():
    """Σ d_n ≤ (c₁ + τ₁/c₂)√T + 1 − c₁/√T = O(√T), with ε = c₁/√T and η = c₂/√T.

    regret_sharp with these ε and η, times T. (30) as printed, O(√T) from a fixed τ₁, is true by regret_proof,
    without the condition on τ₁. From a lower τ₁ the same bound holds, or Σ d_n = 0.
    """
    return le(conformal_sides.summed, conformal_sides.rate_bound)  # Σ d_n ≤ (c₁ + τ₁/c₂)√T + 1 - c₁/√T


@theorem(
    "lattice.allocate",
    CSQS("Section 4, where ℓ = 100 is fixed"),
    NEW,
    assuming=(POSITIVE, Assumption("the competitor's bits are within the budget", sides.affordable)),
    tight={"draft": [0.5, 0.5], "budget_bits": 3.0, "k": 2, "resolution": 3},
    ceiling=1.0,
)
def allocate():
    """min over (K, ℓ) within B bits of dropped + D ≤ dropped + D of any (K, ℓ) within B bits.

    D never rises with ℓ: (i/ℓ)(K - i)/K falls with ℓ if i = ℓ, and is proportional to 1/ℓ if i = ⌊K/2⌋. The bits
    rise with ℓ. So for each K the finest ℓ within the budget is best, and the smallest over K is taken.
    """
    return le(sides.allocated, sides.other_distortion)  # dropped + D at the best (K, ℓ) ≤ dropped + D at another
