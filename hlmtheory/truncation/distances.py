"""Upper bounds on Δ_k by other distances: cu-hlm IV-C asks whether they give tighter bounds, and they do not.

TV(r, r̂) ≤ Δ_k / max(TV(q, p), TV(q̂, p)) is attained, and the device knows Δ_k = TV(q, q̂) itself. A bound that
replaces this total variation by another distance of q and q̂ can only be larger. Paper: cu-hlm (oh2025cuhlm) after (21).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, sort_descending, upward
from hlmtheory._simplex import distance
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.truncation._claim_sides import sorted_deviation
from hlmtheory.truncation.reconstruction import draft_and_size, truncated


@dataclass(frozen=True, slots=True)
class DeviationBounds:
    """Δ_k and upper bounds on it; every array has the shape (...).

    Attributes
    ----------
    total_variation : array
        Δ_k itself.
    divergence : array
        KL(q ‖ q̂) in nat.
    pinsker : array
        √(KL/2).
    bretagnolle_huber : array
        √(1 - e^{-KL}), always below 1; smaller than Pinsker's bound from KL ≈ 1.59 on.
    wasserstein : array
        Wasserstein distance over the ranks of the tokens in q: how many ranks the mass moves on average.
    """

    total_variation: Array
    divergence: Array
    pinsker: Array
    bretagnolle_huber: Array
    wasserstein: Array


def deviation_bounds(draft: Array, k: Array) -> DeviationBounds:
    """Δ_k and its upper bounds by Kullback-Leibler and Wasserstein distance, side by side.

    Divided by TV(q, p), each bounds the distortion; doubled, each certifies the Bias.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    k : integer array, shape (...) or broadcastable to it
        How many entries are sent, 0..V.

    Returns
    -------
    DeviationBounds

    Raises
    ------
    ValueError
        If a row is not a distribution, or k is not an integer in 0..V.

    Examples
    --------
    >>> found = deviation_bounds([0.5, 0.375, 0.125], 1)
    >>> [round(float(x), 4) for x in (found.total_variation, found.pinsker, found.wasserstein)]
    [0.125, 0.1808, 0.125]
    """
    xp, kind, q, k = draft_and_size(draft, k)
    flat = truncated(xp, q, k)
    q = xp.broadcast_to(q, flat.shape)
    some = flat > 0
    y = xp.where(some, (q - flat) / xp.where(some, flat, 1.0), 0.0)
    # Σ q ln(q/q̂) = Σ q̂ ((1 + y) ln(1 + y) - y), y = q/q̂ - 1: no cancellation between entries
    divergence = xp.sum(flat * _convex(xp, y), axis=-1)
    ahead = xp.cumulative_sum(sort_descending(xp, q) - sort_descending(xp, flat), axis=-1)
    bounds = (
        distance(xp, q, flat),
        divergence,
        xp.sqrt(0.5 * divergence),  # Pinsker
        xp.sqrt(-xp.expm1(-divergence)),  # Bretagnolle and Huber
        xp.sum(xp.abs(ahead), axis=-1),
    )
    return DeviationBounds(*(upward(xp, value, kind) for value in bounds))


def _convex(xp: Any, y: Array) -> Array:
    """(1 + y) ln(1 + y) - y for y ≥ -1; near 0, where the terms cancel, by the series Σ_{n≥2} (-y)ⁿ/(n(n - 1))."""
    near = xp.abs(y) < 0.125
    inner, small = xp.where(y > -1, y, 0.0), xp.where(near, y, 0.0)
    series = xp.zeros_like(y)
    for n in range(_TERMS, 1, -1):
        series = 1.0 / (n * (n - 1)) - small * series
    away = xp.where(y > -1, (1.0 + inner) * xp.log1p(inner), 0.0) - y
    return xp.where(near, small * small * series, xp.clip(away, min=0.0))


_TERMS = 18
"""Terms of the series: the next one is below 2^-53 of the first for |y| < 1/8."""


# --------------------------------------------------------------------------------------------- claims
#
# distance_pinsker, distance_bretagnolle_huber. They are the two inequalities for P = q, Q = q̂; KL is finite, since
#   q̂_i = 0 only where the tail is all zeros. Pinsker is tight as q → q̂ evenly. Bretagnolle-Huber needs all of q apart
#   from q̂.
# distance_wasserstein. A coupling of q and q̂ that attains TV moves at least that mass, by at least one rank.


_ASKED = "after (21)"
_EVEN = {"draft": [0.5625, 0.4375], "k": 0}
_KL_EVEN = 0.5625 * math.log(1.125) + 0.4375 * math.log(0.875)
_ONE_HOT = {"draft": [1.0] + [0.0] * 999, "k": 0}

CLAIMS = (
    Claim(
        id="truncation.distance_pinsker",
        source=Source("oh2025cuhlm", _ASKED),
        origin=Origin.NEW,
        statement="Δ_k ≤ √(KL(q ‖ q̂)/2): a bound by divergence is never tighter than Δ_k itself",
        relation=Relation.LE,
        lhs=sorted_deviation,
        rhs=lambda draft, k: deviation_bounds(draft, k).pinsker,
        attained=Attained(_EVEN, ratio=0.0625 / math.sqrt(_KL_EVEN / 2)),
    ),
    Claim(
        id="truncation.distance_bretagnolle_huber",
        source=Source("oh2025cuhlm", _ASKED),
        origin=Origin.NEW,
        statement="Δ_k ≤ √(1 − e^{−KL(q ‖ q̂)})",
        relation=Relation.LE,
        lhs=sorted_deviation,
        rhs=lambda draft, k: deviation_bounds(draft, k).bretagnolle_huber,
        attained=Attained(_ONE_HOT, ratio=0.999 / math.sqrt(0.999)),
        ceiling=1.0,
    ),
    Claim(
        id="truncation.distance_wasserstein",
        source=Source("oh2025cuhlm", _ASKED),
        origin=Origin.NEW,
        statement="Δ_k ≤ W₁(q, q̂) on the ranks of the tokens",
        relation=Relation.LE,
        lhs=sorted_deviation,
        rhs=lambda draft, k: deviation_bounds(draft, k).wasserstein,
        attained=Attained({"draft": [0.75, 0.25], "k": 0}),
    ),
)
