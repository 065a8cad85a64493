"""Trees of drafts: children drawn without replacement, tried in turn (miao2024specinfer, jeon2024recursive).

Child x_i of m is drawn from q_i = q without x_1 … x_{i-1} and accepted with min(1, p_i/q_i); p_1 = p, p_{i+1} = (p_i -
q_i)⁺, normalised, from which the token is drawn if all are rejected. π_v = P(v is among the children).
"""

from __future__ import annotations

import math
from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import Domain, DomainError, leading_dimensions, tree_levels
from hlmtheory._simplex import distributions, excess, normalised
from hlmtheory.claims import Attained, Claim, Relation, Source

# Proofs, by the last part of the id.
#
# tree. One node first. Condition on x_1 … x_{i-1}, all rejected. Let the law of the output from try i on be p_i; for
#   i = m + 1 that is the rule. Try i emits v as its accepted child with probability min(q_i(v), p_i(v)), and rejects
#   with probability Σ (q_i - p_i)⁺ = Σ (p_i - q_i)⁺. Whichever child was rejected, the law of the rest is p_{i+1} by
#   the step i + 1, so it adds (p_i - q_i)⁺, and the sum is p_i. So by induction the law of try 1 is p. Only this is
#   used of q_i: it may depend on x_1 … x_{i-1}, and x_i is drawn from it and tried. So a certain child (q_i a point
#   mass) is allowed too, and so is a number of children that depends on those before. Now the tree: the children of
#   an accepted child v are drawn and tried with distributions that depend on the path to v and on draws that are
#   independent of what came before, so the next token has the law p after that path; a token that no child gave ends
#   the round, and the later tokens are the target's. By the chain rule the law of the text is the target's.
# tree_coverage. The output Y has the law p by tree. If a child is accepted, Y is that child: Y is among the children.
#   So P(accepted) ≤ Σ_v P(Y = v, v among the children) ≤ Σ_v min(p_v, π_v). No other exact rule accepts more either.

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


def _checked(draft_count: Array, **rows: Array) -> tuple[Any, Any, Array, Array, Array]:
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
    xp, kind, p, q, m = _checked(draft_count, **rows)
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


def _overlap_of_texts(targets: Array, drafts: Array, draft_count: Array) -> Array:
    """Return 1 - ½ Σ |law - P| over all texts, with P the product of the target's rows."""
    law = tree_distribution(targets, drafts, draft_count)
    xp, _, p, _, _ = _checked(draft_count, targets=targets, drafts=drafts)
    own = xp.ones_like(p[..., :1, :1])
    for place in tree_levels("targets", p):
        own = xp.reshape(own, (*own.shape[:-2], -1, 1)) * p[..., place, :]
    return 1.0 - 0.5 * xp.sum(xp.abs(law - xp.reshape(own, law.shape)), axis=-1)


def _one(targets: Array, drafts: Array, draft_count: Array) -> Array:
    xp, _, p, _, _ = _checked(draft_count, targets=targets, drafts=drafts)
    return xp.ones_like(p[..., 0, 0])


def _acceptance(targets: Array, drafts: Array, draft_count: Array) -> Array:
    """Return the mean over the nodes of the probability that a child is accepted."""
    xp, _, p, q, m = _checked(draft_count, targets=targets, drafts=drafts)
    return xp.mean(sibling_acceptance(p, q, m[..., 0]), axis=-1)


def _coverage(targets: Array, drafts: Array, draft_count: Array) -> Array:
    """Return the mean over the nodes of Σ_v min(p_v, π_v)."""
    xp, _, p, q, m = _checked(draft_count, targets=targets, drafts=drafts)
    size, included = p.shape[-1], xp.zeros_like(p)
    tokens = xp.arange(size, device=p.device)

    def draw(number: int, weight: Array, left: Array) -> None:
        nonlocal included
        draft, _ = normalised(xp, left)
        chosen = xp.where(m >= number, weight * draft, 0.0)
        included = included + chosen
        if number < min(int(xp.max(m)), size):
            for token in range(size):
                draw(number + 1, chosen[..., token : token + 1], xp.where(tokens == token, 0.0, left))

    draw(1, xp.ones_like(p[..., :1]), q)
    return xp.mean(xp.sum(xp.minimum(p, included), axis=-1), axis=-1)


_SOURCE = Source("jeon2024recursive", "recursive rejection sampling")

CLAIMS = (
    Claim(
        id="verification.tree",
        source=_SOURCE,
        statement=(
            "a tree's texts have the law p if its children are drawn from q without replacement and tried with "
            "(p_i, q_i)"
        ),
        relation=Relation.EQ,
        lhs=_overlap_of_texts,
        rhs=_one,
        attained=Attained({"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]], "draft_count": 2}),
        condition=lambda targets, drafts, draft_count: 16.0,
    ),
    Claim(
        id="verification.tree_coverage",
        source=_SOURCE,
        statement="P(a child is accepted) ≤ Σ_v min(p_v, π_v), π_v = P(v is among the children), for any exact rule",
        lhs=_acceptance,
        rhs=_coverage,
        attained=Attained({"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]], "draft_count": 1}, ratio=1.0),
        condition=lambda targets, drafts, draft_count: 16.0,
        ceiling=1.0,
    ),
)
