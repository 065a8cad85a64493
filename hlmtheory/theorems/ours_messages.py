"""Our theorems on messages: truncated distributions from lists, any codec, the cheapest codec, budgets."""

import numpy as np

from hlmtheory._array import arrays
from hlmtheory.claims import IMPLIED, NEW, SOFTWARE, Assumption, Source, eq, le, theorem
from hlmtheory.codec.messages import truncated_message
from hlmtheory.codec.selection import cheapest_codec
from hlmtheory.sides import codec_sides, lattice_sides, partial_sides, truncation_sides
from hlmtheory.sides import conformal_sides as sides
from hlmtheory.sides.any_codec_sides import bias, certificate_side, distances, noise, residuals_exist
from hlmtheory.sides.truncation_sides import deviation, rebuilt_deviation
from hlmtheory.theorems import c_sqs, cu_hlm
from hlmtheory.truncation._known import least_distance, most_distance, outside_both
from hlmtheory.truncation.box_sizes import box_bias
from hlmtheory.truncation.message import message_certificate
from hlmtheory.truncation.multi_draft import EXISTS as RESIDUAL_EXISTS
from hlmtheory.truncation.multi_draft import bias as truncation_bias
from hlmtheory.truncation.multi_draft import certificate
from hlmtheory.truncation.multi_draft import noise as multi_draft_noise
from hlmtheory.truncation.reconstruction import resampling_bias, truncate
from hlmtheory.verification import acceptance_rate, total_variation
from hlmtheory.verification.intervals import decoded_acceptance_rate

EACH = Source("bhattacharjee2025csqs", "Section 4, and oh2025cuhlm IV-B: each with one codec for all rows")
ROW = {"draft": [0.5, 0.25, 0.125, 0.125], "bias_tolerance": 0.5}
AGAINST = "draft", "bias_tolerance", "k", "resolution", "width"
ONE_STEP = {"bits": [[64.0, 0.0], [0.0, 0.0]], "bias": [[0.0, 1.0], [0.0, 0.0]], "bias_budget": 1 - 2.0**-10}
SPENT = {"drafts": [[0.75, 0.25]] * 4, "epsilon": 0.25}
SPARED = [[True, True, False, False, False], [True, False, False, False, False]]
TWO_ROWS = [[0.75, 0.25, 0.0, 0.0, 0.0], [0.5, 0.125, 0.125, 0.125, 0.125]]
THIRDS = {"draft": [1 / 3, 1 / 3, 1 / 3], "k": 3, "resolution": 1}
EXIST = Assumption("every r̂^(d) exists: TV(q̂^(d), p) > 2^-44, or d is not rejected", residuals_exist)
ONE_REJECTED = {
    "target": [0.0, 0.75, 0.25],
    "draft": [0.25, 0.75, 0.0],
    "decoded": [[0.25, 0.5, 0.25], [0.25, 0.75, 0.0], [0.25, 0.75, 0.0]],
}
SOURCE = Source("oh2025cuhlm", "(17), for any reconstruction")
LISTS = Source("oh2025cuhlm", "(16)-(17), from lists of the k most likely tokens")
NEAR = {"target": [0.125, 0.375, 0.375, 0.125], "draft": [0.625, 0.125, 0.125, 0.125], "k": 2}
TAIL = {"draft": [0.25, 0.375, 0.375, 0.0], "k": 2}


@theorem(
    "codec.round_trip",
    Source("bhattacharjee2025csqs", "Alg. 1, line 10, and Alg. 2, line 18"),
    SOFTWARE,
    tight={"counts": [6, 0, 4, 0], "support": [True, False, True, False], "token": 2},
)
def round_trip(counts, support, token):
    """decode(encode(message)) = message.

    Each step has an inverse: mixed radix, colexicographic places, units and bars, the frame.
    """
    return eq(
        codec_sides.side_side(codec_sides.comes_back, "counts", "support", "token")(
            counts=counts, support=support, token=token
        ),
        0 * arrays(token=token)[1] + 1,
    )


@theorem(
    "codec.certificate",
    Source("oh2025cuhlm", "IV-B, and V-A for b_prob = 8"),
    NEW,
    tight={"draft": [0.6, 0.24, 0.16], "token": 0, "k": 1},
    ceiling=2.0,
)
def codec_certificate():
    """Σ |q − q̂^(d)| ≤ 2 Δ_k for the row decoded from the bytes of any draft d, 8 bits a value: the largest Bias over
    all p if each rejected draft is replaced from it.

    This is truncation.certificate with q̂^(d) in the server's float64 numbers. The choice of k and the encoder
    compute the levels by one function of the canonical row, and the choice of k and the server compute the values by
    one function of the level. All other rounding is below the slack in message_deviations.
    """
    return le(
        codec_sides.side_side(
            lambda draft, token, k: codec_sides.received(
                truncated_message(draft, top_k=int(k), token=int(token), bits=8), draft
            ),
            *("draft", "token", "k"),
        ),
        message_certificate,
    )


@theorem("codec.cheapest_certificate", EACH, NEW, tight={**ROW, "token": 0}, ceiling=2.0)
def cheapest_certificate():
    """Σ |q − q̂| ≤ certified bias ≤ the tolerance, for the row decoded from the bytes of the cheapest codec.

    Σ |q - q̂| = 2 TV(q, q̂) = 2 Σ (q - q̂)⁺. On the support of a lattice, the entries that are rounded up lose
    nothing and the others their remainder; the rest loses all, or in a mixture what it has above its share. The
    choice, the encoder and the server take one function of the canonical row to the counts. The sums have at most 15
    V terms of size 1 in all, each rounded by 2^-53, less than the slack that is added. Top-k: codec.certificate.
    """
    return le(
        codec_sides.side_side(codec_sides.mixed_distance, "draft", "bias_tolerance", "token"),
        codec_sides.side_side(codec_sides.certified_side, "draft", "bias_tolerance", "token"),
    )


@theorem(
    "codec.cheapest",
    EACH,
    NEW,
    assuming=(
        Assumption(
            "the competitor is on the menu, and Σ |q − q̂| ≤ the tolerance − 10⁻⁹",
            codec_sides.side_side(codec_sides.competes, *AGAINST, dtype=np.bool_),
        ),
    ),
    tight={"draft": [0.9, 0.1], "bias_tolerance": 0.25, "k": 1, "resolution": 1, "width": 1},
)
def cheapest():
    """bits of the cheapest codec ≤ bits of any top-k (k, b_prob) and any lattice (K, ℓ) within the tolerance.

    Entries of the menu are tried by ascending bits, and one is left out only if a lower bound on its distance
    exceeds the tolerance. (1) least_distance: m entries have a unit or more and take at least max(m, ℓ Σ q - m)
    units. Each unit that is left raises one entry at most, so the others below a unit lose all that they have. (2)
    Bounds: the sum of the n largest of some numbers f is at most n θ + Σ (f - θ)⁺ for every θ ≥ 0. (3) Top-k: the
    distance is E_k + Σ (q_i - μ)⁺ over the rest, μ = (rest + E_k)/(V - k). It is at least E_k, and it rises with
    E_k, so it is at least Δ_k of unrounded values; k = V is tried apart, and for it the second holds, Δ_V = 0. So of
    each b_prob the smallest k is found, and bits rise with k. Of all counts on the K largest entries with sum ℓ, the
    choice's are nearest (lattice.nearest, with q in place of q̄), so a competitor with other counts is farther.
    """
    return le(
        codec_sides.side_side(
            lambda draft, bias_tolerance, **others: float(cheapest_codec(draft, bias_tolerance).bits), *AGAINST
        ),
        codec_sides.side_side(codec_sides.competitor_side, *AGAINST),
    )


@theorem(
    "codec.text_gap",
    Source("oh2025cuhlm", "end of IV, the dual objective, for any codec"),
    NEW,
    condition=codec_sides.of_text(codec_sides.priced_bias),
    assuming=(
        Assumption(
            "some plan keeps the budget",
            codec_sides.side_side(codec_sides.attainable, "bits", "bias", "bias_budget", dtype=np.bool_),
        ),
    ),
    tight=ONE_STEP,
    ratio=64 / (64 + 2.0**-4),
)
def text_gap():
    """bits of the plan by the lower hulls ≤ its lower bound on the bits of any plan + the most bits of one hull step.

    The steps are taken by rising bits for each unit of bias until the budget is kept. Let λ be the price of the last
    one. Before and after it, each row has the least bits + λ bias. So the bound is the bits before it plus λ times
    (bias before it - E), which is positive: without the last step the budget is not kept. The plan has the bits
    before it plus those of the step, or fewer, since what is done afterwards only saves bits.
    """
    return le(codec_sides.of_text(codec_sides.plan_side), codec_sides.of_text(codec_sides.with_one_step))


@theorem(
    "conformal.budget",
    c_sqs.CSQS("(9), with a budget of dropped mass in place of the threshold"),
    NEW,
    tight=SPENT,
    ceiling=1.0,
)
def budget():
    """(1/n) Σ_{i≤n} d_i ≤ ε at every n ≤ T, for every sequence of rows: no regret and no learning rate.

    With the allowance a_n = b_{n-1} + ε, d_n ≤ a_n and b_n = a_n - d_n, b_n ≥ 0 for all n. Sum over n ≤ T: Σ d_n =
    εT - b_T ≤ εT. Only d_n ≤ a_n is used. So it holds for every sequence of rows, even if it is chosen with
    knowledge of the controller, and also if τ keeps more tokens. It is c-sqs (9) without the regret. A support
    always exists: a_n > 0, and the whole row drops 0.
    """
    return le(sides.largest_mean, sides.target)


@theorem(
    "conformal.hindsight",
    c_sqs.CSQS("(6), with the threshold chosen afterwards"),
    NEW,
    assuming=(Assumption("τ > 0", sides.is_positive),),
    tight={"drafts": TWO_ROWS, "supports": SPARED, "threshold": 0.25},
    condition=sides.price_roundings,
)
def hindsight():
    """any supports have Σ K_n ≥ Σ |{q ≥ τ}| − (Σ d_n − Σ_{q<τ} q)/τ, for every τ > 0: a fixed τ is best.

    Let B be the tokens with q < τ and A those that the supports drop, over all positions. Tokens of A outside B have
    q ≥ τ, and tokens of B outside A have q < τ. So |A| - |B| = |A∖B| - |B∖A| ≤ (mass(A∖B) - mass(B∖A))/τ = (Σ d_n -
    mass(B))/τ. So no supports that drop the same mass as a fixed threshold have a smaller total. Which threshold
    uses up the budget is known only afterwards.
    """
    return le(sides.price, sides.others_total)


@theorem(
    "lattice.distortion_sharp",
    Source("reznik2011", "Proposition 2, extended to ℓ < ⌊K/2⌋"),
    NEW,
    assuming=(c_sqs.POSITIVE,),
    tight=THIRDS,
    ceiling=1.0,
)
def distortion_sharp():
    """TV(q̄, q̂) ≤ D = i(K − i)/(Kℓ), i = min(ℓ, ⌊K/2⌋): attained for every K and ℓ, below 1.

    With the r largest remainders rounded up, ℓ·TV = Σ_up (1 - f) = r - Σ_up f ≤ r - r·(r/K), since the r largest of K
    numbers with sum r have a sum of at least r²/K. r(K - r) grows up to r = ⌊K/2⌋, and r ≤ ℓ, so TV ≤ i(K - i)/(Kℓ). It
    is attained if all remainders are i/K, as for x = (ℓ - i + i/K, i/K, …, i/K). Since i ≤ ℓ it is at most (K - i)/K <
    1.
    """
    return le(lattice_sides.distortion, lattice_sides.bound_sharp)


@theorem("truncation.any_codec", SOURCE, NEW, assuming=(EXIST,), tight=ONE_REJECTED, condition=noise, ceiling=2.0)
def any_codec():
    """Bias ≤ 2 max_d TV(q, q̂^(d)) for any rows q̂^(d), if draft d is accepted by its exact q_d.

    Let T = TV(q, p). Draft d is rejected with probability q_d β_d, and Σ_d q_d β_d = T. It is replaced from r̂^(d)
    where r would be exact, so law - p = Σ_d q_d β_d (r̂^(d) - r). By truncation.tvd_sharp, whose proof only uses
    that q̂ is a distribution, TV(r, r̂^(d)) ≤ TV(q, q̂^(d))/T. So the Bias is at most 2 Σ_d (q_d β_d/T) TV(q,
    q̂^(d)): a mean over the rejected drafts, which is at most the maximum.
    """
    return le(bias, certificate_side)


@theorem(
    "truncation.any_codec_mean", SOURCE, IMPLIED, assuming=(EXIST,), false=ONE_REJECTED, condition=noise, ceiling=2.0
)
def any_codec_mean(target, draft, decoded):
    """Bias ≤ 2 Σ_d q_d TV(q, q̂^(d)): on average over the drafts, as the messages are sent.

    False: see the counterexample. The mean is over the rejected drafts, not over all drafts.
    Instead: truncation.any_codec.
    """
    left = bias(target, draft, decoded)
    xp, q, far = distances(draft, decoded)
    return le(left, 2.0 * xp.sum(q * far, axis=-1))


@theorem(
    "truncation.misdeclared",
    Source("oh2025cuhlm", "(17), with drafts from another distribution"),
    NEW,
    assuming=(cu_hlm.EXISTS,),
    tight={
        "target": [6 / 15, 5 / 15, 4 / 15],
        "draft": [6 / 12, 1 / 12, 5 / 12],
        "actual_draft": [4 / 7, 0.0, 3 / 7],
        "k": 0,
    },
    ceiling=1.0,
    condition=truncation_sides.noise,
)
def misdeclared(target, draft, actual_draft, k):
    """if drafts are drawn from q′ and the server gets k entries of q, then TV(law, p) ≤ TV(q′, q) + Δ_k.

    The server is a fixed kernel: it keeps v with probability 1 - β_v, else it draws from r̂. It maps q to a law at
    most Δ_k from p (certificate), and q′ to a law at most TV(q′, q) from that one.
    """
    return le(
        truncation_sides.misdeclared_side(target, draft, actual_draft, k),
        total_variation(actual_draft, draft) + total_variation(draft, truncate(draft, k)),
    )


@theorem(
    "truncation.decoded_rate",
    Source("oh2025cuhlm", "(15)-(17), for the acceptance rate"),
    NEW,
    tight={"target": [1.0, 0.0], "draft": [1.0, 0.0], "k": 0},
    ceiling=1.0,
)
def decoded_rate(target, draft, k):
    """|Σ min(p, q̂) − Σ min(p, q)| ≤ Δ_k: the acceptance rate that the server knows from k entries.

    Σ min(p, q) = 1 - TV(p, q), and the total variation obeys the triangle inequality.
    """
    exact, (decoded, _) = acceptance_rate(target, draft), decoded_acceptance_rate(target, truncate(draft, k), 0.0)
    xp, exact, decoded = arrays(exact=exact, decoded=decoded)
    return le(xp.abs(decoded - exact), deviation(target, draft, k))


@theorem(
    "truncation.multi_draft_certificate",
    Source("oh2025cuhlm", "(17), with several drafts"),
    NEW,
    assuming=(RESIDUAL_EXISTS,),
    tight={"target": [0.0, 0.5, 0.5], "draft": [1 - 2.0**-12, 2.0**-12, 0.0], "k": 1, "draft_count": 2},
    ratio=1 - 2.0**-13,
    condition=multi_draft_noise,
    ceiling=2.0,
)
def multi_draft_certificate():
    """Bias ≤ 2 m Δ_k for m independent drafts: certified by the draft distribution alone.

    T_i ≤ 1.
    """
    return le(truncation_bias, certificate)


@theorem("truncation.partial_most", LISTS, NEW, tight=partial_sides.FAR)
def partial_most(target, draft, k):
    """TV(q, p) ≤ max_S [p(S ∩ A) + min(R_p, c_p y) − q(S ∩ B) − (R_q − c_q x)⁺], p listed on A, q on B.

    TV = max_S p(S) - q(S). For a set S with y places for p's rest, which leaves x places for q's, the largest p(S) -
    q(S) is p(S ∩ A) + min(R_p, c_p y) - q(S ∩ B) - (R_q - c_q x)⁺, attained by rows that fill the places evenly. Let
    S leave out i tokens that p alone lists, take j that q alone lists, and m of the n that none lists: y = m + j and
    x = n - m + i. The best i tokens have the smallest p_v, the best j the smallest q_v. For a given m the choices of
    i and j are independent. Each maximum, a supremal convolution of functions that are concave on the integers, is
    concave in m, as is their sum. So bisection on m finds the largest.
    """
    left = partial_sides.distance_side(target, draft, k)
    xp, p, q = partial_sides.known_side(target, draft, k)
    return le(left, most_distance(xp, p, q, outside_both(xp, p, q)))


@theorem("truncation.partial_least", LISTS, NEW, tight=NEAR, ceiling=1.0)
def partial_least(target, draft, k):
    """TV(q, p) ≥ max(Σ (l − h′)⁺, Σ (l′ − h)⁺, 1 − Σ min(h, h′), Σ max(l, l′) − 1), unlisted in [0, c].

    The lists are boxes, [p_v, p_v] on A and [0, c_p] elsewhere. See partial_box_least and partial_box_attained.
    """
    xp, p, q = partial_sides.known_side(target, draft, k)
    return le(least_distance(xp, p, q, outside_both(xp, p, q)), partial_sides.distance_side(target, draft, k))


@theorem("truncation.partial_deviation", LISTS, NEW, tight=TAIL, ceiling=1.0)
def partial_deviation(draft, k):
    """Δ_j ≤ Σ_list (q − μ)⁺ + ⌊R/c⌋ (c − μ)⁺ + (R − ⌊R/c⌋ c − μ)⁺ from the top k of q, j = ⌊k/2⌋.

    If all entries that are sent are listed, the mean μ of the tail is known. Δ_k is the sum of (q_v - μ)⁺ over the
    listed tail, which is known, and over the rest, which is convex in the rest. Its maximum under the cap is at a
    corner: as many entries as possible at the cap, one with the remainder, the others 0.
    """
    return le(rebuilt_deviation(draft, arrays(k=k)[1] // 2), partial_sides.deviations(draft, k)[1])


@theorem(
    "truncation.partial_bias",
    LISTS,
    NEW,
    tight={"target": [0.25, 0.5, 0.125, 0.125], "draft": [0.25, 0.375, 0.375, 0.0], "k": 2},
    ceiling=2.0,
)
def partial_bias(target, draft, k):
    """Bias ≤ 2 min(max Δ_k, max TV(q, p), 1 − p(A ∩ B)) from the top k of both; outer, not sharp.

    Bias ≤ 2 TV(q, p) and ≤ 2 Δ_k (truncation.bias_worst). Let G be the tokens that p lists and q sends: there q̂ = q, so
    (p - q)⁺ = (p - q̂)⁺, and r and r̂ differ by the factor T̂/T alone. If T ≥ T̂, r ≤ r̂ on G, so Bias = 2 T Σ (r - r̂)⁺ ≤ 2
    Σ_{v ∉ G} (p_v - q_v)⁺ ≤ 2 p(Gᶜ). If T < T̂, Bias = 2 T Σ (r̂ - r)⁺ ≤ 2 (T/T̂) Σ_{v ∉ G} (p_v - q̂_v)⁺ ≤ 2 p(Gᶜ).
    """
    left = resampling_bias(target, draft, k)
    xp, p, q = partial_sides.known_side(target, draft, k)
    most = most_distance(xp, p, q, outside_both(xp, p, q))
    unlisted = xp.count_nonzero(~q.mask, axis=-1)
    mean = q.rest / xp.astype(xp.where(unlisted > 0, unlisted, 1), q.rest.dtype)
    full = xp.floor(q.rest / xp.where(q.cap > 0, q.cap, 1.0))
    deviation = full * xp.clip(q.cap - mean, min=0.0) + xp.clip(q.rest - full * q.cap - mean, min=0.0)
    outside = 1.0 - xp.sum(xp.where(p.mask & q.mask, p.value, 0.0), axis=-1)
    return le(left, 2.0 * xp.minimum(xp.minimum(deviation, most), xp.clip(outside, min=0.0)))


@theorem(
    "truncation.partial_draft",
    LISTS,
    NEW,
    tight={"target": [0.125, 0.25, 0.25, 0.375], "draft": [0.125, 0.375, 0.375, 0.125], "token": 2, "k": 2},
    ceiling=1.0,
)
def partial_draft(target, draft, token, k):
    """min(1, p_d/q_d) ≤ min(1, max p_d / min q_d); unlisted: (R − (n − 1) c)⁺ to min(c, R), n of them.

    p_d and q_d are each listed, or between (R - (n - 1) c)⁺ and min(c, R), where n entries are not listed. The two
    take every pair of values there, and min(1, p_d/q_d) rises with p_d and falls with q_d.
    """
    return le(partial_sides.acceptance(target, draft, token), partial_sides.draft_ends_side(target, draft, token, k)[1])


@theorem(
    "truncation.partial_box_bias",
    Source("oh2025cuhlm", "(15)-(17), from quantised log-probabilities"),
    NEW,
    tight={"target": [0.125, 0.5, 0.375], "draft": [0.5, 0.375, 0.125], "k": 1, "error": 0.0},
    ceiling=2.0,
)
def partial_box_bias(target, draft, k, error):
    """Bias ≤ 2 min(max T, max Σ (γ − ω T/T̂)⁺, max Σ (ω T/T̂ − γ)⁺) over what the log-probabilities may have been before
    they were quantised; an outer bound, not sharp.

    T = Σ γ and T̂ = Σ ω. So law - p = ω T/T̂ - γ, whose sum is 0, and Bias = 2 Σ (γ - ω T/T̂)⁺ = 2 Σ (ω T/T̂ - γ)⁺ ≤ 2 T.
    Bounds of γ, ω and T/T̂ give bounds of each sum. Also γ ≤ (l - l')⁺ + (p - l) and ω ≤ (l - q̂)⁺ + (p - l), where
    Σ (p - l) = 1 - Σ l. A token is sent if no more than k tokens, itself
    included, can be as large; it is not sent if k others cannot be smaller. Otherwise q̂_v is q_v or μ. Where T̂ ≤
    2^-44 is possible, Bias may be 2 T by definition, and only Bias ≤ 2 T is used.
    """
    left = resampling_bias(target, draft, k) + 0.0 * arrays(draft=draft, error=error)[2]
    low, high, low_q, high_q = partial_sides.rounded_boxes(target, draft, error)
    return le(left, box_bias(low, high, low_q, high_q, k).upper)
