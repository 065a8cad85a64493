"""Claims of :mod:`hlmtheory.lattice` and their proofs."""

from __future__ import annotations

from hlmtheory._array import arrays
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.lattice import _sides as sides

#
# Proofs, by the last part of the id.
#
# Notation: x = ℓ q̄, f = x - ⌊x⌋ the remainders, r = ℓ - Σ⌊x⌋ = Σ f the missing units; r < K, and r ≤ ℓ.
#
# quantize. Each of the K roundings to the nearest integer is off by at most ½. Their sum, which would be ℓ without
#   rounding, is off by a whole number of at most K/2.
# quantize_printed. False: without the renormalisation the sum is ℓ(1 - dropped) up to K/2. As printed, one correction
#   for each entry does not reach ℓ once ℓ·dropped > 3K/2.
# nearest. Minimise Σ |c - x| over integer c with Σ c = ℓ. c_i may be taken in {⌊x_i⌋, ⌊x_i⌋ + 1}: otherwise, moving a
#   unit from an entry that is too high to one that is too low does not raise the sum. Then r entries are up, and the
#   sum is Σ_up (1 - f) + Σ_down f = r + Σ f - 2 Σ_up f, smallest for the r largest remainders.
# distortion_sharp. With those up, ℓ·TV = Σ_up (1 - f) = r - Σ_up f ≤ r - r·(r/K), since the r largest of K numbers with
#   sum r have a sum of at least r²/K. r(K - r) grows up to r = ⌊K/2⌋, and r ≤ ℓ, so TV ≤ i(K - i)/(Kℓ). It is attained
#   if all remainders are i/K, as for x = (ℓ - i + i/K, i/K, …, i/K). Since i ≤ ℓ it is at most (K - i)/K < 1.
# distortion. i(K - i) ≤ K²/4.
# dropped_mass. With S the kept mass, q̄ = q/S ≥ q on the support, so TV(q, q̄) = Σ (q - q̄)⁺ = the mass outside.
# bits. Supports: K of V. Counts: ℓ units and K - 1 bars in a row.
# rejection_rate, rejection_rate_sharp. A draft from q̂ is rejected with probability TV(q̂, p) ≤ TV(q, p) + TV(q, q̄) +
#   TV(q̄, q̂).
# informative. False: from K = 4ℓ on the last term alone is 1.
# rejections, rejections_sharp. Given its prefix, every emitted token has law p (lossless). So a position with a draft
#   adds at most E_{prefix ~ p}[TV(q̂, p)], and a position with a bonus token adds 0. Attained without bonus tokens.
# lossless. This is verification.unbiased with q̂ in place of q; its proof holds for any q̂.
# misdeclared. False: drafts from q, tested and resampled with q̂, have the law q_v min(1, p_v/q̂_v) + (1 - Σ …) r_v.
#   With p = q̂ nothing is rejected and the law is q.
# allocate. D never rises with ℓ: (i/ℓ)(K - i)/K falls with ℓ if i = ℓ, and is proportional to 1/ℓ if
#   i = ⌊K/2⌋. The bits rise with ℓ. So for each K the finest ℓ within the budget is best, and the smallest over K is
#   taken.


_CSQS = "bhattacharjee2025csqs"
_POSITIVE = Assumption("1 ≤ K ≤ number of non-zero probabilities", sides.all_positive)
_POSITIVE_TREE = Assumption("1 ≤ K ≤ number of non-zero probabilities of every row", sides.positive_on_tree)
_HALVES = {"draft": [0.5, 0.5], "k": 2, "resolution": 1}
_THIRDS = {"draft": [1 / 3, 1 / 3, 1 / 3], "k": 3, "resolution": 1}
_HALF_UNITS = {"target": [0.505, 0.495], "draft": [0.505, 0.495], "k": 2}
_ONE_PREFIX = {"drafts": [[0.5, 0.5]], "targets": [[0.5, 0.5]], "k": 2, "resolution": 1, "draft_length": 4}

CLAIMS = (
    Claim(
        id="lattice.quantize",
        source=Source(_CSQS, "Alg. 2 with the renormalisation of (17)"),
        origin=Origin.CORRECTED,
        statement="|Σ_i ⌊ℓ q̄_i + ½⌋ − ℓ| ≤ ⌊K/2⌋: one correction of an entry by 1 is enough",
        lhs=sides.corrections_renormalised,
        rhs=lambda k: arrays(k=k)[1] // 2,
        assumptions=(_POSITIVE,),
        attained=Attained(_HALVES),
    ),
    Claim(
        id="lattice.quantize_printed",
        source=Source(_CSQS, "Alg. 2 as printed, the kept part not renormalised"),
        origin=Origin.MISPRINT,
        statement="|Σ_i ⌊ℓ q_i + ½⌋ − ℓ| ≤ K over the support, so that each entry is corrected once at most",
        lhs=sides.corrections_printed,
        rhs=lambda k: arrays(k=k)[1],
        assumptions=(_POSITIVE,),
        refuted={"draft": [0.25, 0.25, 0.25, 0.25], "k": 1, "resolution": 100},
    ),
    Claim(
        id="lattice.nearest",
        source=Source("reznik2011", "Section 2.2, Algorithm 1"),
        origin=Origin.PUBLISHED,
        statement="TV(q̄, q̂) ≤ TV(q̄, c/ℓ) for all counts c on the support with sum ℓ: no lattice point is nearer",
        lhs=sides.nearest,
        rhs=sides.farther,
        assumptions=(_POSITIVE, Assumption("the competitor has a count, and none off the support", sides.on_support)),
        attained=Attained({"draft": [0.5, 0.5], "k": 2, "counts": [1, 0]}),
        ceiling=1.0,
    ),
    Claim(
        id="lattice.distortion",
        source=Source(_CSQS, "(20)"),
        origin=Origin.PUBLISHED,
        statement="TV(q̄, q̂) ≤ K/(4ℓ)",
        lhs=sides.distortion,
        rhs=sides.bound,
        assumptions=(_POSITIVE,),
        attained=Attained(_HALVES),
        ceiling=1.0,
    ),
    Claim(
        id="lattice.distortion_sharp",
        source=Source("reznik2011", "Proposition 2, extended to ℓ < ⌊K/2⌋"),
        statement="TV(q̄, q̂) ≤ D = i(K − i)/(Kℓ), i = min(ℓ, ⌊K/2⌋): attained for every K and ℓ, below 1",
        lhs=sides.distortion,
        rhs=sides.bound_sharp,
        assumptions=(_POSITIVE,),
        attained=Attained(_THIRDS),
        ceiling=1.0,
    ),
    Claim(
        id="lattice.dropped_mass",
        source=Source(_CSQS, "Lemma 1"),
        origin=Origin.PUBLISHED,
        statement="TV(q, q̄) = Σ_{x ∉ X} q_x",
        relation=Relation.EQ,
        lhs=sides.distance_to_kept,
        rhs=sides.dropped,
        assumptions=(_POSITIVE,),
        attained=Attained({"draft": [0.5, 0.25, 0.25], "k": 1}),
    ),
    Claim(
        id="lattice.bits",
        source=Source(_CSQS, "(1), (2), (5)"),
        origin=Origin.PUBLISHED,
        statement="log₂C(V, K) + log₂C(ℓ+K−1, K−1) by Stirling's series = the same by whole numbers",
        relation=Relation.EQ,
        lhs=sides.stirling_bits,
        rhs=sides.exact_bits,
        attained=Attained({"vocabulary": 4096, "k": 64, "resolution": 100}),
    ),
    Claim(
        id="lattice.rejection_rate",
        source=Source(_CSQS, "Theorem 1, one position of (3), at ℓ = 100"),
        origin=Origin.PUBLISHED,
        statement="P(reject) = TV(q̂, p) ≤ TV(q, p) + Σ_{x ∉ X} q_x + K/(4ℓ), ℓ = 100",
        lhs=sides.rejection_rate,
        rhs=sides.position_bound,
        assumptions=(_POSITIVE,),
        attained=Attained(_HALF_UNITS),
        ceiling=1.0,
    ),
    Claim(
        id="lattice.rejection_rate_sharp",
        source=Source(_CSQS, "Theorem 1, one position of (3), at ℓ = 100"),
        statement="P(reject) = TV(q̂, p) ≤ TV(q, p) + Σ_{x ∉ X} q_x + D, ℓ = 100",
        lhs=sides.rejection_rate,
        rhs=sides.position_bound_sharp,
        assumptions=(_POSITIVE,),
        attained=Attained(_HALF_UNITS),
        ceiling=1.0,
    ),
    Claim(
        id="lattice.informative",
        source=Source(_CSQS, "Theorem 1, one position of (3), at ℓ = 100"),
        origin=Origin.IMPLIED,
        statement="TV(q, p) + Σ_{x ∉ X} q_x + K/(4ℓ) ≤ 1, so that Theorem 1 says something (it does not from K = 4ℓ)",
        relation=Relation.LE,
        lhs=sides.position_bound,
        rhs=sides.ones,
        assumptions=(_POSITIVE,),
        refuted={"target": [1 / 512] * 512, "draft": [1 / 512] * 512, "k": 512},
    ),
    Claim(
        id="lattice.rejections",
        source=Source(_CSQS, "Theorem 1 with the expectation over K_n"),
        origin=Origin.CORRECTED,
        statement="E[N_rej] ≤ Σ_n E_{prefix ~ p}[TV(q_n, p_n) + dropped_n + K_n/(4ℓ_n)], bonus positions included",
        lhs=sides.tree_rejections,
        rhs=sides.tree_bound_published,
        assumptions=(_POSITIVE_TREE,),
        attained=Attained(_ONE_PREFIX),
    ),
    Claim(
        id="lattice.rejections_sharp",
        source=Source(_CSQS, "Theorem 1"),
        statement="E[N_rej] ≤ Σ_n E_{prefix ~ p}[TV(q_n, p_n) + dropped_n + D_n]",
        lhs=sides.tree_rejections,
        rhs=sides.tree_bound_sharp,
        assumptions=(_POSITIVE_TREE,),
        attained=Attained(_ONE_PREFIX),
    ),
    Claim(
        id="lattice.lossless",
        source=Source(_CSQS, "Section 2, quantize-and-sample, at ℓ = 100"),
        origin=Origin.PUBLISHED,
        statement="drafts drawn from q̂ and verified with q̂ leave the law p: its overlap with p is 1",
        relation=Relation.EQ,
        lhs=sides.lossless,
        rhs=sides.ones,
        assumptions=(_POSITIVE,),
        attained=Attained({"target": [0.25, 0.75], "draft": [0.505, 0.495], "k": 2}),
    ),
    Claim(
        id="lattice.misdeclared",
        source=Source(_CSQS, "Section 2, were the drafts drawn before they are quantised"),
        origin=Origin.IMPLIED,
        statement="drafts drawn from q and verified with q̂ leave the law p",
        relation=Relation.EQ,
        lhs=sides.misdeclared,
        rhs=sides.ones,
        assumptions=(_POSITIVE,),
        refuted={"target": [0.51, 0.49], "draft": [0.505, 0.495], "k": 2},
    ),
    Claim(
        id="lattice.allocate",
        source=Source(_CSQS, "Section 4, where ℓ = 100 is fixed"),
        statement="min over (K, ℓ) within B bits of dropped + D ≤ dropped + D of any (K, ℓ) within B bits",
        lhs=sides.allocated,
        rhs=sides.other_distortion,
        assumptions=(_POSITIVE, Assumption("the competitor's bits are within the budget", sides.affordable)),
        attained=Attained({"draft": [0.5, 0.5], "budget_bits": 3.0, "k": 2, "resolution": 3}),
        ceiling=1.0,
    ),
)
