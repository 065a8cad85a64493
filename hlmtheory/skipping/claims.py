"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

from hlmtheory._array import Array, arrays
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.skipping.audit_claims import CLAIMS as _AUDIT_CLAIMS
from hlmtheory.skipping.bill_claims import CLAIMS as _BILL_CLAIMS
from hlmtheory.skipping.calibration import held_out_risk
from hlmtheory.skipping.chains import HORIZON, from_target, law_of_chain, text_distance
from hlmtheory.skipping.confident import CLAIMS as _CONFIDENT_CLAIMS
from hlmtheory.skipping.holder import (
    holder_bound,
    holder_bound_discrete,
    line,
    rejection_risk,
    rejection_risk_discrete,
    skip_thresholds,
)
from hlmtheory.skipping.risk import non_acceptance, one_step_risk
from hlmtheory.skipping.text_risk import CLAIMS as _TEXT_RISK_CLAIMS
from hlmtheory.verification import output_distribution, rejection_probability, total_variation

# Proofs, by the last part of the id.
#
# threshold. Solve a u + b = Δ.
# averse_threshold. Solve a u + b = 0.
# mean_rejection. q_v β_v = (q_v - p_v)⁺ ≤ q_v 1{p_v < q_v}; sum over v.
# holder. Hölder on I; with t = a u + b the s-norm of the line is (∫_0^Δ t^s dt / a)^{1/s}.
# holder_discrete. Hölder for sums.
# risk_is_tv. See the docstring of ``one_step_risk``.
# sequence. Let law j emit its first j tokens by the target model and the rest by the hybrid system, a kernel of the
#   prefix alone. Laws j - 1 and j agree in the first j - 1 tokens, by the target model, and in the kernels after token
#   j. They differ in the law of token j given the prefix, by TV_j(prefix). So their distance is at most E[TV_j], with
#   prefixes from the target model. Sum over j.
# overlap. Two laws have 1 - TV = Σ_x min(Π_t p_t, Π_t S_t) ≥ Σ_x Π_t min(p_t, S_t) = E_{x~p} Π_t min(1, S_t/p_t).
# calibrated. Let λ* be the largest threshold with Σ_{i≤n+1} L_i(λ) ≤ (n + 1) ε. Without prompt i the rule
#   requires Σ_{j≠i} L_j(λ) + B ≤ (n + 1) ε, which is stricter, as L_i ≤ B. So λ̂_i ≤ λ*, L_i(λ̂_i) ≤ L_i(λ*), and the
#   mean over i is at most ε. If the prompts are exchangeable, each of the n + 1 is equally likely to be the last,
#   for all n + 1 curves.


def _line_at_prone(slope: Array, intercept: Array, non_acceptance: Array) -> Array:
    """Return the line a u + b at the risk-prone threshold."""
    _, a, b, delta = line(slope, intercept, non_acceptance)
    return a * skip_thresholds(a, b, non_acceptance=delta).risk_prone + b


def _rise_to_averse(slope: Array, intercept: Array, non_acceptance: Array) -> Array:
    """Return a u, the rise of the line from u = 0 to the risk-averse threshold."""
    _, a, b, delta = line(slope, intercept, non_acceptance)
    return a * skip_thresholds(a, b, non_acceptance=delta).risk_averse


def _below_zero(intercept: Array) -> Array:
    return -arrays(intercept=intercept)[1]


def _given_share(non_acceptance: Array) -> Array:
    return arrays(non_acceptance=non_acceptance)[1]


def _mean_rejection(target: Array, draft: Array) -> Array:
    """Return E[β_d] = Σ_v q_v β_v."""
    xp, q = arrays(draft=draft)
    return xp.sum(q * rejection_probability(target, draft), axis=-1)


def _printed_bound(cell_probabilities: Array, slope: Array, intercept: Array, non_acceptance: Array) -> Array:
    return holder_bound(cell_probabilities, slope, intercept, non_acceptance=non_acceptance)


def _distance_of_law(target: Array, draft: Array, skip: Array) -> Array:
    return total_variation(output_distribution(target, draft, skip=skip), target)


def _overlap_bound(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """Return 1 - Σ_x Π_t min(p_t, S_t) over all texts of a chain, token by token."""
    xp, p, _, _, law = law_of_chain(target_chain, draft_chain, skip_chain)
    rows = xp.minimum(p, law)
    mass = rows[..., 0, :]
    for _ in range(HORIZON - 1):
        mass = xp.sum(mass[..., None] * rows, axis=-2)
    return 1.0 - xp.sum(mass, axis=-1)


def _enough(losses: Array, risk: Array, bound: Array) -> Array:
    _, table, wanted, most = arrays(losses=losses, risk=risk, bound=bound)
    return table.shape[-2] * wanted >= most


def _given_risk(risk: Array) -> Array:
    return arrays(risk=risk)[1]


_CELLS = 64
_RISING = {"slope": 1.0, "intercept": 0.0, "non_acceptance": 1.0}
_MATCHED = {"cell_probabilities": [(2 * cell + 1) / _CELLS**2 for cell in range(_CELLS)], **_RISING}
_BRANCH = {
    "target_chain": [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
    "skip_chain": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
}
"""After token 2 the draft model is wrong and skips verification; only verification can emit token 2."""
_STAYING = {
    "target_chain": [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
    "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "skip_chain": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
}
"""The target model leaves token 2 at once, and the hybrid system stays there."""
_EVEN_LOSSES = {"losses": [[0.5]] * 64, "risk": 32.5 / 64, "bound": 1.0}

CLAIMS = (
    Claim(
        id="skipping.threshold",
        source=Source("oh2025cuhlm", "(12), (14)"),
        origin=Origin.PUBLISHED,
        statement="a u + b = Δ at the risk-prone threshold u_th = (Δ − b)/a, for a > 0",
        relation=Relation.EQ,
        lhs=_line_at_prone,
        rhs=_given_share,
        attained=Attained({"slope": 0.5, "intercept": -0.25, "non_acceptance": 0.5}),
        condition=lambda intercept: 1.0 + abs(intercept),
    ),
    Claim(
        id="skipping.averse_threshold",
        source=Source("oh2025cuhlm", "(14) and below"),
        origin=Origin.PUBLISHED,
        statement="a u + b = 0 at the risk-averse threshold u_th = −b/a, for a > 0",
        relation=Relation.EQ,
        lhs=_rise_to_averse,
        rhs=_below_zero,
        attained=Attained({"slope": 0.5, "intercept": -0.25, "non_acceptance": 0.5}),
    ),
    Claim(
        id="skipping.mean_rejection",
        source=Source("oh2025cuhlm", "(11), proof of Theorem 1"),
        origin=Origin.PUBLISHED,
        statement="E[β_d] ≤ Δ = P(p_d < q_d)",
        lhs=_mean_rejection,
        rhs=non_acceptance,
        attained=Attained({"target": [0.0, 1.0], "draft": [0.5, 0.5]}),
        ceiling=1.0,
    ),
    Claim(
        id="skipping.holder",
        source=Source("oh2025cuhlm", "Theorem 1, (13)"),
        origin=Origin.PUBLISHED,
        statement="R = ∫_I (a u + b) f(u) du ≤ Δ^{3/2}/√(3a) · ‖f‖_{2,I}, I = [−b/a, (Δ − b)/a]",
        lhs=rejection_risk,
        rhs=_printed_bound,
        attained=Attained(_MATCHED, ratio=0.9999694819561996),
        ceiling=1.0,
    ),
    Claim(
        id="skipping.holder_discrete",
        source=Source("oh2024uhlm", "IV-A, (13) with an empirical density"),
        statement="for u on {0, 1/M, …, 1}: R ≤ (Σ_I (a u + b)^s)^{1/s} (Σ_I f^{s′})^{1/s′}",
        lhs=rejection_risk_discrete,
        rhs=holder_bound_discrete,
        attained=Attained({**_RISING, "mass": [0.0, 1 / 3, 2 / 3], "exponent": 2.0}),
    ),
    Claim(
        id="skipping.risk_is_tv",
        source=Source("oh2025cuhlm", "Theorem 1, the exact form of R"),
        statement="TV(law of U-HLM's token, p) = Σ_v q_v s_v β_v = E[s_d β_d]",
        relation=Relation.EQ,
        lhs=_distance_of_law,
        rhs=one_step_risk,
        attained=Attained({"target": [0.25, 0.75], "draft": [0.5, 0.5], "skip": [1.0, 0.0]}),
    ),
    Claim(
        id="skipping.sequence",
        source=Source("oh2025cuhlm", "(10)"),
        statement="TV(law of the text, target model's) ≤ Σ_t E[one-step TV], prefixes from the target model",
        lhs=text_distance,
        rhs=from_target,
        attained=Attained(_STAYING),
        ceiling=1.0,
    ),
    Claim(
        id="skipping.calibrated",
        source=Source("angelopoulos2022crc", "Theorem 1"),
        statement="(1/(n+1)) Σ_i L_i(λ̂ of the other n) ≤ ε: for exchangeable prompts E[L_{n+1}(λ̂)] ≤ ε",
        lhs=held_out_risk,
        rhs=_given_risk,
        assumptions=(Assumption("n + 1 ≥ B/ε", _enough),),
        attained=Attained(_EVEN_LOSSES, ratio=64 / 65),
    ),
    Claim(
        id="skipping.overlap",
        source=Source("oh2025cuhlm", "(10)"),
        statement="TV(law of the text, target model's) ≤ 1 − E_x Π_t min(1, S_t(x_t)/p_t(x_t)), x ~ the target model",
        lhs=text_distance,
        rhs=_overlap_bound,
        attained=Attained(_BRANCH),
        ceiling=1.0,
    ),
    *_AUDIT_CLAIMS,
    *_CONFIDENT_CLAIMS,
    *_TEXT_RISK_CLAIMS,
    *_BILL_CLAIMS,
)
