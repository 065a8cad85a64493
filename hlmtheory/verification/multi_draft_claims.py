"""Claims of ``verification.multi_draft``: first the proofs, then the functions of both sides, then the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hlmtheory._array import Array
from hlmtheory._simplex import excess, normalised
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.verification.multi_draft import checked_rows, multi_draft_optimum, sure_and_drawn, top_draft_optimum

# Proofs, by the last part of the id.
#
# multi_draft_optimum. A rule is a flow of 1 from the drafted sets A, with capacity P(A), to tokens v ∈ A, with capacity
#   p_v: what flows is accepted, and the rest of A's mass goes to the rest of p. So the most that is accepted is a
#   maximal flow, and that is the least cut. A cut has the tokens H and the sets A ⊆ H on the source's side, and costs
#   p(H) + 1 - P(A ⊆ H). For independent drafts P(A ⊆ H) = q(H)ⁿ. Let H be best, s = q(H), λ = n sⁿ⁻¹. xⁿ is convex, so
#   each H′ has p(H′) - q(H′)ⁿ ≤ p(H′) - sⁿ - λ(q(H′) - s). H′ = {p < λ q} makes the right side least, so it is at most
#   its value at H, p(H) - sⁿ. So H′ is best too, and it begins every order by descending q/p.
# multi_draft_tried. Trying independent drafts in turn, each with the residual of those before as its target, is a rule
#   (truncation.multi_draft with k = V), so the optimum is at least that.
# multi_draft_covered. P(Y = v and v drafted) ≤ min(p_v, P(v drafted)), and P(v drafted) = 1 - (1 - q_v)ⁿ.
# top_drafts. A is G with one token d ∉ G, P(A ⊆ H) = q′(H \ G) if G ⊆ H, else 0. The cut of the empty H costs 1. With
#   G ⊆ H the cost is 1 + p(G) + Σ_{v ∈ H\G} (p_v - q′_v), least at {p < q′}: 1 + p(G) - Σ_{v ∉ G} (q′_v - p_v)⁺
#   = p(G) + Σ_{v ∉ G} min(p_v, q′_v). This is at most 1. If q has no token outside of G, A = G, and it is p(G).


def subsets(xp: Any, size: int, like: Array) -> Iterator[Array]:
    """Yield a mask (V,) of each set of tokens."""
    for number in range(2**size):
        yield xp.asarray([bool(number >> v & 1) for v in range(size)], device=like.device)


def _counted(xp: Any, n: Array) -> range:
    """Return 0, 1, .. for the largest number of drafts."""
    return range(int(xp.max(n)) if 0 not in n.shape else 0)


def _least_cut(xp: Any, p: Array, n: Array, within: Callable[[Array], Array]) -> Array:
    """Return the least of 1 and 1 + p(H) - P(A ⊆ H) over all sets H; ``within`` returns P(A ⊆ H)."""
    best = xp.ones_like(n)
    for inside in subsets(xp, p.shape[-1], p):
        best = xp.minimum(best, 1.0 + xp.sum(xp.where(inside, p, 0.0), axis=-1) - within(inside))
    return best


def _independent_cut(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the least cut over all sets H, with P(A ⊆ H) = q(H)ⁿ multiplied out."""
    xp, _, p, q, n = checked_rows(target, draft, draft_count)

    def within(inside: Array) -> Array:
        mass, found = xp.sum(xp.where(inside, q, 0.0), axis=-1), xp.ones_like(n)
        for number in _counted(xp, n):
            found = xp.where(n > number, found * mass, found)
        return found

    return _least_cut(xp, p, n, within)


def _top_cut(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the least cut over all sets H, with P(A ⊆ H) summed over the drawn draft."""
    xp, _, p, q, n = checked_rows(target, draft, draft_count)
    p, sure, last = sure_and_drawn(xp, p, q, n)
    alone = ~xp.any(last > 0, axis=-1)  # nothing is left to draw

    def within(inside: Array) -> Array:
        drawn = xp.where(alone, 1.0, xp.sum(xp.where(inside, last, 0.0), axis=-1))
        return xp.where(xp.all(inside | ~sure, axis=-1), drawn, 0.0)

    return _least_cut(xp, p, n, within)


def _tried(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the probability that one of n independent drafts is accepted if each is tried with the residual."""
    xp, _, p, q, n = checked_rows(target, draft, draft_count)
    left = xp.ones_like(n)
    for number in _counted(xp, n):
        left = xp.where(n > number, left * xp.sum(excess(xp, q, p), axis=-1), left)
        after, mass = normalised(xp, excess(xp, p, q))
        p = xp.where((mass > 0)[..., None], after, p)
    return 1.0 - left


def _covered(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return Σ_v min(p_v, 1 - (1 - q_v)ⁿ), as 1 minus what p has beyond it: exactly 1 where it has nothing."""
    xp, _, p, q, n = checked_rows(target, draft, draft_count)
    return 1.0 - xp.sum(excess(xp, p, 1.0 - (1.0 - q) ** n[..., None]), axis=-1)


_OPTIMUM, _SURE = Source("hu2025multidraft", "abstract, the dual"), Source("hu2025multidraft", "greedy drafts")
_POINT = {"target": [0.5, 0.5], "draft": [1.0, 0.0], "draft_count": 2}
_ROWS = {"target": [0.5, 0.25, 0.25], "draft": [0.25, 0.5, 0.25], "draft_count": 2}

_OF_TOP: dict[str, Any] = {"source": _SURE, "rhs": top_draft_optimum}
_AT_MOST: dict[str, Any] = {"relation": Relation.LE, "ceiling": 1.0}

CLAIMS = (
    Claim(
        id="verification.multi_draft_optimum",
        source=_OPTIMUM,
        origin=Origin.PUBLISHED,
        statement=(
            "the best acceptance of n independent drafts, 1 + min_H (p(H) − q(H)ⁿ) over all sets, is attained at a set "
            "of the tokens with the largest q/p"
        ),
        relation=Relation.EQ,
        lhs=_independent_cut,
        rhs=multi_draft_optimum,
        attained=Attained(_ROWS),
    ),
    Claim(
        id="verification.multi_draft_tried",
        source=Source("miao2024specinfer", "multi-step speculative sampling"),
        statement="n independent drafts that are tried in turn are accepted at most with 1 + min_H (p(H) − q(H)ⁿ)",
        lhs=_tried,
        rhs=multi_draft_optimum,
        attained=Attained(_ROWS | {"draft_count": 1}, ratio=1.0),
        **_AT_MOST,
    ),
    Claim(
        id="verification.multi_draft_covered",
        source=_OPTIMUM,
        statement="1 + min_H (p(H) − q(H)ⁿ) ≤ Σ_v min(p_v, 1 − (1 − q_v)ⁿ)",
        lhs=multi_draft_optimum,
        rhs=_covered,
        attained=Attained(_POINT, ratio=1.0),
        **_AT_MOST,
    ),
    Claim(
        id="verification.top_drafts",
        statement=(
            "with the n − 1 most probable tokens G of q as sure drafts and one drawn from q′ = q without G, the best "
            "acceptance is p(G) + Σ_{v ∉ G} min(p_v, q′_v)"
        ),
        relation=Relation.EQ,
        lhs=_top_cut,
        attained=Attained(_ROWS),
        **_OF_TOP,
    ),
)
