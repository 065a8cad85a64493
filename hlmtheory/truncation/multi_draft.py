"""Several drafts of one position, drawn from one truncated distribution and verified one after the other.

The m drafts are independent and come from q. Stage i accepts its draft v with probability min(1, p_i(v)/q_v), where
the exact q_v is sent with the draft. If it rejects, the target of the next stage is p_{i+1} = (p_i - q̂)⁺, normalised.
After m rejections the token is drawn from p_{m+1}. A node with m children in a tree of drafts is verified in this way
if its children are drawn independently, with replacement.
"""

from typing import Any, NamedTuple

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import Domain, leading_dimensions
from hlmtheory._remember import remembered
from hlmtheory._simplex import excess, normalised, rejection_by_token
from hlmtheory.claims import Assumption
from hlmtheory.truncation.reconstruction import NOISE, pair_and_size, truncate, truncated
from hlmtheory.verification import total_variation

MOST_DRAFTS = 64
DRAFT_COUNT = Domain(
    f"a whole number, 1 to {MOST_DRAFTS}",
    lambda xp, value: (value >= 1) & (value <= MOST_DRAFTS),
    "give how many drafts a position has",
    kind="integer",
)


def multi_draft_distribution(target: Array, draft: Array, top_k: Array, draft_count: Array) -> Array:
    """Return the law of the emitted token with m independent drafts of one position and k entries sent."""
    xp, kind, p, stages = _stages(target, draft, top_k, draft_count)
    law, last, left = xp.zeros_like(p), p, xp.ones_like(p[..., :1])
    for stage in stages:
        law = law + xp.where(stage.reached, left * stage.accepted, 0.0)
        left = xp.where(stage.reached, left * stage.rejected, left)
        last = xp.where(stage.reached, stage.after, last)
    return in_kind(xp, law + left * last, kind)


class _Stage(NamedTuple):
    accepted: Array  # q_v (1 - β_v), shape (..., V)
    rejected: Array  # T_i, shape (..., 1)
    after: Array  # the target of the next stage, shape (..., V)
    distance: Array  # TV(q̂, p_i), shape (..., 1)
    reached: Array  # whether m is at least i, shape (..., 1)


@remembered
def _stages(target: Array, draft: Array, k: Array, draft_count: Array) -> tuple[Any, Any, Array, list[_Stage]]:
    """Return the namespace, the caller's type, p, and the stages up to the largest m."""
    xp, kind, p, q, k = pair_and_size(target, draft, k)
    _, _, m = arrays(draft=q, draft_count=draft_count)
    m = DRAFT_COUNT.check(xp, "draft_count", m)
    leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]), draft_count=tuple(m.shape))
    m, rebuilt = m[..., None], truncated(xp, q, k)
    p, q, rebuilt, _ = xp.broadcast_arrays(p, q, rebuilt, xp.astype(m, q.dtype))
    stages, now = [], p
    for i in range(int(xp.max(m)) if 0 not in m.shape else 0):
        beta = rejection_by_token(xp, now, q)
        residual, mass = normalised(xp, excess(xp, now, rebuilt))
        mass = mass[..., None]
        after = xp.where(mass > NOISE, residual, now)
        stages.append(_Stage(q * (1.0 - beta), xp.sum(q * beta, axis=-1, keepdims=True), after, mass, m > i))
        now = after
    return xp, kind, p, stages


def bias(target: Array, draft: Array, k: Array, draft_count: Array) -> Array:
    """Return Σ_v |law_v - p_v|."""
    xp, _, p, _, k = pair_and_size(target, draft, k)
    return xp.sum(xp.abs(multi_draft_distribution(target, draft, k, draft_count) - p), axis=-1)


def _deviation(draft: Array, k: Array) -> Array:
    return total_variation(draft, truncate(draft, k))


def certificate(target: Array, draft: Array, k: Array, draft_count: Array) -> Array:
    """Return what ``truncation.multi_draft_certificate`` takes."""
    xp, m = arrays(draft_count=draft_count)
    return 2.0 * xp.astype(m, xp.float64) * _deviation(draft, k)


def _residuals_exist(target: Array, draft: Array, k: Array, draft_count: Array) -> Array:
    """Return whether (p_i - q̂)⁺ is positive at every stage that a rejection can reach."""
    _, _, p, stages = _stages(target, draft, k, draft_count)
    fine = p[..., :1] >= 0  # all true
    for stage in stages:
        fine = fine & ((stage.distance > NOISE) | (stage.rejected == 0) | ~stage.reached)
    return fine[..., 0]


def noise(target: Array, draft: Array, k: Array, draft_count: Array) -> Array:
    """Return the product of 1 + 1/TV(q̂, p_i), by which normalising the residuals magnifies a rounding of q̂."""
    xp, _, p, stages = _stages(target, draft, k, draft_count)
    factor = xp.ones_like(p[..., :1])
    for stage in stages:
        one = 1.0 + 1.0 / xp.where(stage.distance > NOISE, stage.distance, 1.0)
        factor = factor * xp.where(stage.reached, one, 1.0)
    return factor[..., 0]


EXISTS = Assumption("every r̂ exists: TV(q̂, p_i) > 2^-44, or nothing is rejected", _residuals_exist)
