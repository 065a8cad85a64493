"""Trees of drafts: children drawn without replacement, tried in turn (miao2024specinfer, jeon2024recursive).

Child x_i of m is drawn from q_i = q without x_1 … x_{i-1} and accepted with min(1, p_i/q_i); p_1 = p, p_{i+1} = (p_i -
q_i)⁺, normalised, from which the token is drawn if all are rejected. π_v = P(v is among the children).
"""

import math
from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import Domain, DomainError, leading_dimensions, tree_levels
from hlmtheory._simplex import distributions, excess, normalised

MOST_CHOICES = 4096
DRAFT_COUNT = Domain(
    "a whole number, 1 or more", lambda xp, value: value >= 1, "give how many children a node has", kind="integer"
)


def tree_distribution(targets: Array, drafts: Array, draft_count: Array) -> Array:
    """Return the law of the first T tokens if a tree of drafts of depth T is verified."""
    xp, kind, p, accepted, resampled = _nodes(draft_count, targets=targets, drafts=drafts)
    *earlier, last = tree_levels("targets", p)
    law, own = accepted[..., last, :] + resampled[..., last, :], p[..., last, :]
    for place in reversed(earlier):
        # an accepted child goes on in the tree, any other token with the target
        law = followed(xp, accepted[..., place, :], law) + followed(xp, resampled[..., place, :], own)
        own = followed(xp, p[..., place, :], own)
    return in_kind(xp, law[..., 0, :], kind)


def sibling_acceptance(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the probability that one of m children, drawn without replacement, is accepted."""
    xp, kind, _, accepted, _ = _nodes(draft_count, target=target, draft=draft)
    return in_kind(xp, xp.clip(xp.sum(accepted, axis=-1), max=1.0), kind)


def flat(xp: Any, rows: Array) -> Array:
    """Return rows (..., n, V) as (..., n V)."""
    return xp.reshape(rows, (*rows.shape[:-2], rows.shape[-2] * rows.shape[-1]))


def followed(xp: Any, rows: Array, rest: Array) -> Array:
    """Return the law of longer texts, from rows (..., n, V) and the laws (..., n V, W) after each of their tokens."""
    after = xp.reshape(rest, (*rows.shape, rest.shape[-1]))
    return flat(xp, rows[..., None] * after)


def checked(draft_count: Array, **rows: Array) -> tuple[Any, Any, Array, Array, Array]:
    """Return the namespace, the caller's type, p, q and m (..., 1), broadcast to the rows."""
    xp, kind, p, q = distributions(**rows)
    name = next(iter(rows))
    m = DRAFT_COUNT.check(xp, "draft_count", arrays(rows=q, draft_count=draft_count)[2])
    if name == "targets":
        tree_levels(name, p), tree_levels("drafts", q)
        leading_dimensions(targets=tuple(p.shape[:-2]), draft_count=tuple(m.shape))
        m = m[..., None]
    else:
        leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]), draft_count=tuple(m.shape))
    most = int(xp.max(m)) if 0 not in m.shape else 1
    if most > 1 and min(most, q.shape[-1]) * math.log(q.shape[-1]) > math.log(MOST_CHOICES) + 1e-9:
        raise DomainError(
            f"draft_count must allow at most {MOST_CHOICES:,} choices of children; got {most} of {q.shape[-1]} tokens; "
            "give a smaller vocabulary or fewer children"
        )
    p, q, m = xp.broadcast_arrays(p, q, m[..., None])
    return xp, kind, p, q, m[..., :1]


def _nodes(draft_count: Array, **rows: Array) -> tuple[Any, Any, Array, Array, Array]:
    """Return the namespace, the caller's type, p, and the parts of the law: an accepted child v, another token v."""
    xp, kind, p, q, m = checked(draft_count, **rows)
    size, most = p.shape[-1], int(xp.max(m)) if 0 not in m.shape else 0
    accepted, resampled = xp.zeros_like(p), xp.zeros_like(p)

    def attempt(number: int, weight: Array, now: Array, left: Array) -> None:
        nonlocal accepted, resampled
        draft, mass = normalised(xp, left)
        drawn = (m >= number) & (mass > 0)[..., None]
        tried = xp.where(drawn, weight, 0.0)
        accepted = accepted + tried * xp.minimum(draft, now)
        resampled = resampled + (weight - tried) * now
        if number > min(most, size):
            return
        after, _ = normalised(xp, excess(xp, now, draft))
        lost = tried * excess(xp, draft, now)
        for token in range(size):
            rest = xp.where(xp.arange(size, device=left.device) == token, 0.0, left)
            attempt(number + 1, lost[..., token : token + 1], after, rest)

    attempt(1, xp.ones_like(p[..., :1]), p, q)
    return xp, kind, p, accepted, resampled


def one_side(targets: Array, drafts: Array, draft_count: Array) -> Array:
    """Return what ``verification.tree`` takes."""
    xp, _, p, _, _ = checked(draft_count, targets=targets, drafts=drafts)
    return xp.ones_like(p[..., 0, 0])
