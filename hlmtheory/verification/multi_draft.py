"""The best acceptance of n drafts of one position by any exact rule (hu2025multidraft, sun2023spectr).

A rule sees the set A of drafts and emits Y with the law p; a draft is accepted if Y is one of them. G is the n - 1 most
probable tokens of q that have q_v > 0.
"""

from typing import Any

from hlmtheory._array import Array, arrays, in_kind, order_descending, running, tail_sums, take
from hlmtheory._domains import leading_dimensions
from hlmtheory._simplex import distributions, quotient
from hlmtheory.verification.tree import DRAFT_COUNT


def multi_draft_optimum(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the most that any exact rule accepts of n independent drafts: 1 + min_H p(H) - q(H)ⁿ, hu2025multidraft.

    The minimum is at a set of the tokens with the largest q_v/p_v, so it takes a sort.
    """
    xp, kind, p, q, n = checked_rows(target, draft, draft_count)
    order = order_descending(xp, quotient(xp, q, p))
    inside = running(xp, take(xp, p, order)) - running(xp, take(xp, q, order)) ** n[..., None]
    return in_kind(xp, 1.0 + xp.clip(xp.min(inside, axis=-1), max=0.0), kind)


def top_draft_optimum(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the most that is accepted if the n - 1 most probable tokens G are drafts, and one is drawn from q′.

    It is p(G) + Σ_{v ∉ G} min(p_v, q′_v), with q′ = q without G, normalised (``verification.top_drafts``).
    """
    xp, kind, p, q, n = checked_rows(target, draft, draft_count)
    p, sure, last = sure_and_drawn(xp, p, q, n)
    best = xp.sum(xp.where(sure, p, xp.minimum(p, last)), axis=-1)
    return in_kind(xp, xp.clip(best, max=1.0), kind)


def checked_rows(target: Array, draft: Array, draft_count: Array) -> tuple[Any, Any, Array, Array, Array]:
    """Return the namespace, the caller's type, p and q broadcast, and n in float64."""
    xp, kind, p, q = distributions(target=target, draft=draft)
    n = DRAFT_COUNT.check(xp, "draft_count", arrays(rows=q, draft_count=draft_count)[2])
    leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]), draft_count=tuple(n.shape))
    p, q, n = xp.broadcast_arrays(p, q, n[..., None])
    return xp, kind, p, q, in_kind(xp, n[..., 0], xp.float64)


def sure_and_drawn(xp: Any, p: Array, q: Array, n: Array) -> tuple[Array, Array, Array]:
    """Return, by descending q: p, a mask of the sure drafts G, and q′ (zeros if q has no token outside of G)."""
    order = order_descending(xp, q)
    p, q = take(xp, p, order), take(xp, q, order)
    place = xp.arange(q.shape[-1], dtype=xp.float64, device=q.device)
    sure = (place < n[..., None] - 1.0) & (q > 0)
    rest = xp.where(sure, 0.0, q)
    return p, sure, quotient(xp, rest, tail_sums(xp, rest)[..., :1])
