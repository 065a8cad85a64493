"""Claims on lossy acceptance, and both sides of each.

The proofs are in :mod:`hlmtheory.verification.lossy`.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import UNIT_INTERVAL, mask, tree_levels
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection_by_token, skip_probabilities
from hlmtheory.claims import Assumption, Attained, Claim, Relation, Source
from hlmtheory.verification.block_claims import text_laws, tree_rows
from hlmtheory.verification.rule import acceptance_rate, output_distribution, total_variation
from hlmtheory.verification.tokens import expected_tokens_profile
from hlmtheory.verification.tree import flat


def _masses(target: Array, draft: Array, accept: Array, replacement: Array) -> tuple[Any, ...]:
    """Return the namespace, p, q, q a and (1 - A) r."""
    xp, _, p, q, resampled = distributions(target=target, draft=draft, replacement=replacement)
    kept = q * skip_probabilities(xp, accept, q, "accept")
    return xp, p, q, kept, (1.0 - xp.sum(kept, axis=-1, keepdims=True)) * resampled


def _rate(target: Array, draft: Array, accept: Array, replacement: Array) -> Array:
    """Return A = Σ q a."""
    xp, _, _, kept, _ = _masses(target, draft, accept, replacement)
    return xp.sum(kept, axis=-1)


def _line(target: Array, draft: Array, accept: Array, replacement: Array) -> Array:
    """Return 1 - T + e, with e as half the sum of absolute differences."""
    xp, p, q, kept, resampled = _masses(target, draft, accept, replacement)
    return 1.0 - distance(xp, p, q) + 0.5 * xp.sum(xp.abs(kept + resampled - p), axis=-1)


def _below_line(target: Array, draft: Array, accept: Array, replacement: Array) -> Array:
    return _line(target, draft, accept, replacement) - _rate(target, draft, accept, replacement)


def _wasted(target: Array, draft: Array, accept: Array, replacement: Array) -> Array:
    """Return Σ (min(p, q) - q a)⁺ + Σ (y - (p - q a)⁺)⁺."""
    xp, p, q, kept, resampled = _masses(target, draft, accept, replacement)
    return xp.sum(excess(xp, xp.minimum(p, q), kept) + excess(xp, resampled, excess(xp, p, kept)), axis=-1)


def _skipping_accept(target: Array, draft: Array, skip: Array) -> Array:
    """Return a = 1 - (1 - s) β: any acceptance that is at least the lossless one."""
    xp, _, p, q = distributions(target=target, draft=draft)
    return 1.0 - (1.0 - skip_probabilities(xp, skip, q)) * rejection_by_token(xp, p, q)


def _skipping_rate(target: Array, draft: Array, skip: Array) -> Array:
    xp, _, q = distributions(draft=draft)
    return xp.sum(q * _skipping_accept(target, draft, skip), axis=-1)


def _skipping_line(target: Array, draft: Array, skip: Array) -> Array:
    """Return 1 - T + TV(law, p), with the law of :func:`output_distribution`."""
    law = output_distribution(target, draft, skip=skip)
    return 1.0 - total_variation(target, draft) + total_variation(law, target)


def _mixture(target: Array, draft: Array, mix: Array) -> Array:
    """Return π = (1 - δ) q + δ p."""
    xp, _, p, q = distributions(target=target, draft=draft)
    share = UNIT_INTERVAL.check(xp, "mix", arrays(rows=q, mix=mix)[2])[..., None]
    return (1.0 - share) * q + share * p


def _mixture_rate(target: Array, draft: Array, mix: Array) -> Array:
    return acceptance_rate(_mixture(target, draft, mix), draft)


def _mixture_line(target: Array, draft: Array, mix: Array) -> Array:
    return _cascade_line(target, draft, _mixture(target, draft, mix))


def _cascade_line(target: Array, draft: Array, cascade: Array) -> Array:
    _, _, p, q, law = distributions(target=target, draft=draft, cascade=cascade)
    return 1.0 - total_variation(p, q) + total_variation(law, p)


def _rounds(targets: Array, drafts: Array, skips: Array) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, p, q and a of every prefix, (..., N, V); skipped drafts are kept."""
    xp, p, q = tree_rows(targets, drafts)
    skipped = mask(xp, "skips", arrays(rows=q, skips=skips)[2])
    return xp, p, q, xp.where(skipped, 1.0, 1.0 - rejection_by_token(xp, p, q))


def _round_tokens(targets: Array, drafts: Array, skips: Array) -> Array:
    """Return E[N], the mean of the distribution of N, from the drafts that are kept and the next one's rejection."""
    xp, p, q, accept = _rounds(targets, drafts, skips)
    reached, total = xp.ones_like(p[..., 0, :1]), xp.zeros_like(p[..., 0, 0])
    for depth, place in enumerate(tree_levels("targets", p)):
        kept = q[..., place, :] * accept[..., place, :]
        total = total + (depth + 1) * xp.sum(reached * (1.0 - xp.sum(kept, axis=-1)), axis=-1)
        reached = flat(xp, reached[..., None] * kept)
    return total + (len(tree_levels("targets", p)) + 1) * xp.sum(reached, axis=-1)


def _round_line(targets: Array, drafts: Array, skips: Array) -> Array:
    """Return 1 + Σ_i 1 - TV(Q_i, P_i) + TV(L_i, P_i), if a text goes on with p after a rejection."""
    xp, p, q, accept = _rounds(targets, drafts, skips)
    own, drafted = text_laws(xp, p), text_laws(xp, q)
    kept, left = xp.ones_like(p[..., 0, :1]), xp.zeros_like(p[..., 0, :1])
    total = xp.ones_like(p[..., 0, 0])
    for i, place in enumerate(tree_levels("targets", p), start=1):
        rows, each = p[..., place, :], q[..., place, :] * accept[..., place, :]
        residual, _ = normalised(xp, excess(xp, rows, q[..., place, :]))
        rejected = kept * xp.clip(1.0 - xp.sum(each, axis=-1), min=0.0)
        left = flat(xp, left[..., None] * rows + rejected[..., None] * residual)
        kept = flat(xp, kept[..., None] * each)
        total = total + 1.0 - distance(xp, drafted[i], own[i]) + distance(xp, kept + left, own[i])
    return total


def _split(acceptances: Array, relaxed: Array) -> tuple[Any, Array, Array]:
    """Return the namespace, α_i (..., D) and e_i = (1 - α_i) times the relaxed share of draft i."""
    xp, alpha, share = arrays(acceptances=acceptances, relaxed=relaxed)
    alpha, share = (UNIT_INTERVAL.check(xp, name, one) for name, one in (("acceptances", alpha), ("relaxed", share)))
    alpha, share = xp.broadcast_arrays(alpha, share)
    return xp, alpha, (1.0 - alpha) * share


def _split_tokens(acceptances: Array, relaxed: Array) -> Array:
    """Return E[N] of rounds whose draft i is accepted with α_i + e_i."""
    _, alpha, spent = _split(acceptances, relaxed)
    return expected_tokens_profile(alpha + spent)


def _early_tokens(acceptances: Array, relaxed: Array) -> Array:
    """Return E[N] if the same expected cost is spent on the first drafts of a round."""
    xp, alpha, spent = _split(acceptances, relaxed)
    reached, cost = xp.ones_like(alpha[..., 0]), xp.zeros_like(alpha[..., 0])
    for i in range(alpha.shape[-1]):
        cost = cost + reached * spent[..., i]
        reached = reached * (alpha[..., i] + spent[..., i])
    tokens, reached = xp.ones_like(cost), xp.ones_like(cost)
    for i in range(alpha.shape[-1]):
        paid = xp.minimum(cost, reached * (1.0 - alpha[..., i]))
        reached, cost = reached * alpha[..., i] + paid, cost - paid
        tokens = tokens + reached
    return tokens


def _never_rises(acceptances: Array, relaxed: Array) -> Array:
    xp, alpha, _ = _split(acceptances, relaxed)
    return xp.all(alpha[..., 1:] <= alpha[..., :-1], axis=-1)


def _rounding(target: Array, draft: Array) -> float:
    return 16.0


_LINE = Source("yin2024theory", "Theorem 5, for one token; its body was not at hand")
_CASCADE = Source("narasimhan2025cascades", "speculative cascades; its body was not at hand")
_ROUND = Source("sun2025block", "Theorem 2, with a lossy rule")
_HALVES = {"target": [0.25, 0.75], "draft": [0.5, 0.5]}

CLAIMS = (
    Claim(
        id="verification.lossy_frontier",
        source=_LINE,
        statement="A = Σ q a ≤ 1 − T + TV(law, p), T = TV(q, p): no acceptance rule and no residual gives more",
        lhs=_rate,
        rhs=_line,
        attained=Attained(_HALVES | {"accept": [0.75, 1.0], "replacement": [0.0, 1.0]}),
        ceiling=1.0,
    ),
    Claim(
        id="verification.lossy_gap",
        source=_LINE,
        statement="1 − T + TV(law, p) − A = Σ (min(p, q) − q a)⁺ + Σ ((1 − A) r − (p − q a)⁺)⁺",
        relation=Relation.EQ,
        lhs=_below_line,
        rhs=_wasted,
        attained=Attained({"target": [0.5, 0.5], "draft": [1.0, 0.0], "accept": [0.5, 1.0], "replacement": [0.5, 0.5]}),
        condition=_rounding,
    ),
    Claim(
        id="verification.lossy_attained",
        source=_LINE,
        statement="A = 1 − T + TV(law, p) for any a ≥ min(1, p/q) with the lossless residual: a = 1 − (1 − s) β",
        relation=Relation.EQ,
        lhs=_skipping_rate,
        rhs=_skipping_line,
        attained=Attained(_HALVES | {"skip": [0.5, 0.0]}),
        condition=_rounding,
    ),
    Claim(
        id="verification.lossy_cascade",
        source=_CASCADE,
        statement="1 − TV(q, π) = 1 − T + TV(π, p) for a cascade with the target π = (1 − δ) q + δ p",
        relation=Relation.EQ,
        lhs=_mixture_rate,
        rhs=_mixture_line,
        attained=Attained(_HALVES | {"mix": 0.5}),
        condition=_rounding,
    ),
    Claim(
        id="verification.lossy_round",
        source=_ROUND,
        statement="E[N] ≤ 1 + Σ_i (1 − TV(Q_i, P_i) + TV(L_i, P_i)), laws of i drafts, target's and emitted tokens",
        lhs=_round_tokens,
        rhs=_round_line,
        attained=Attained({"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]], "skips": [[True, True]]}, ratio=1.0),
    ),
    Claim(
        id="verification.lossy_early",
        source=_ROUND,
        statement="E[N | α_i + e_i] ≤ E[N] of the split that spends the same Σ_i e_i P(i examined) on the first drafts",
        lhs=_split_tokens,
        rhs=_early_tokens,
        assumptions=(Assumption("α_1 ≥ α_2 ≥ … ≥ α_K", _never_rises),),
        attained=Attained({"acceptances": [0.5, 0.5, 0.5], "relaxed": [1.0, 0.5, 0.0]}, ratio=1.0),
    ),
)
