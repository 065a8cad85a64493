"""Claims of top-k lists and of boxes: bounds of TV(q, p), Δ_k, the Bias and a draft, and rows that attain them."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, take
from hlmtheory._domains import token_of
from hlmtheory._remember import remembered
from hlmtheory._simplex import distance, rejection_by_token
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.truncation._claim_sides import rebuilt_deviation
from hlmtheory.truncation._known import Known, known_of, least_distance, most_distance, outside_both
from hlmtheory.truncation.box_sizes import box_bias
from hlmtheory.truncation.boxes import quantised_box
from hlmtheory.truncation.partial import deviation_ends, draft_ends
from hlmtheory.truncation.reconstruction import draft_and_size, pair_and_size, resampling_bias

# Proofs, by the last part of the id.
#
# Notation: p is known on A, q on B; the other entries are at most c_p and c_q, with sums R_p and R_q.
#
# partial_least. The lists are boxes, [p_v, p_v] on A and [0, c_p] elsewhere. See
#   partial_box_least and partial_box_attained.
# partial_most. TV = max_S p(S) - q(S). For a set S with y places for p's rest, which leaves x
#   places for q's, the largest p(S) - q(S) is p(S ∩ A) + min(R_p, c_p y) - q(S ∩ B) - (R_q - c_q x)⁺, attained by rows
#   that fill the places evenly. Let S leave out i tokens that p alone lists, take j that q alone lists, and m of the n
#   that none lists: y = m + j and x = n - m + i. The best i tokens have the smallest p_v, the best j the smallest q_v.
#   For a given m the choices of i and j are independent. Each maximum, a supremal convolution of functions that are
#   concave on the integers, is concave in m, as is their sum. So bisection on m finds the largest.
# partial_deviation. If all entries that are sent are listed, the mean μ of the tail is
#   known. Δ_k is the sum of (q_v - μ)⁺ over the listed tail, which is known, and over the rest, which is convex in the
#   rest. Its maximum under the cap is at a corner: as many entries as possible at the cap, one with the remainder, the
#   others 0.
# partial_bias. Bias ≤ 2 TV(q, p) and ≤ 2 Δ_k (truncation.bias_worst). Let G be the tokens that p lists and q sends:
#   there q̂ = q, so (p - q)⁺ = (p - q̂)⁺, and r and r̂ differ by the factor T̂/T alone. If T ≥ T̂, r ≤ r̂ on G, so
#   Bias = 2 T Σ (r - r̂)⁺ ≤ 2 Σ_{v ∉ G} (p_v - q_v)⁺ ≤ 2 p(Gᶜ). If T < T̂, Bias = 2 T Σ (r̂ - r)⁺ ≤
#   2 (T/T̂) Σ_{v ∉ G} (p_v - q̂_v)⁺ ≤ 2 p(Gᶜ).
# partial_draft. p_d and q_d are each listed, or between (R - (n - 1) c)⁺ and min(c, R), where n
#   entries are not listed. The two take every pair of values there, and min(1, p_d/q_d) rises with p_d and falls with
#   q_d.


def _known(target: Array, draft: Array, k: Array) -> tuple[Any, Known, Known]:
    """Return the k largest entries of each row as known entries."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    p, q, wide = xp.broadcast_arrays(p, q, xp.astype(k, p.dtype)[..., None])
    k = xp.astype(wide[..., 0], xp.int64)
    return xp, known_of(xp, p, k), known_of(xp, q, k)


def _most(target: Array, draft: Array, k: Array) -> Array:
    xp, p, q = _known(target, draft, k)
    return most_distance(xp, p, q, outside_both(xp, p, q))


def _least(target: Array, draft: Array, k: Array) -> Array:
    xp, p, q = _known(target, draft, k)
    return least_distance(xp, p, q, outside_both(xp, p, q))


def _distance(target: Array, draft: Array, k: Array) -> Array:
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return distance(xp, p, q) + 0.0 * xp.astype(k, p.dtype)


@remembered
def _deviations(draft: Array, k: Array) -> tuple[Array, Array]:
    """Return the ends of Δ_j for j = ⌊k/2⌋ from the k largest entries of q."""
    xp, _, q, k = draft_and_size(draft, k)
    q, wide = xp.broadcast_arrays(q, xp.astype(k, q.dtype)[..., None])
    k = xp.astype(wide[..., 0], xp.int64)
    row = known_of(xp, q, k)
    value = xp.sort(row.value, axis=-1, descending=True, stable=False)
    return deviation_ends(xp, value, row.rest, row.cap, k // 2, q.shape[-1])


def _half_deviation(draft: Array, k: Array) -> Array:
    return rebuilt_deviation(draft, arrays(k=k)[1] // 2)


def _bias_bound(target: Array, draft: Array, k: Array) -> Array:
    """Return 2 min(max Δ_k, max TV(q, p), p outside both lists), with all k listed entries of q sent."""
    xp, p, q = _known(target, draft, k)
    most = most_distance(xp, p, q, outside_both(xp, p, q))
    unlisted = xp.count_nonzero(~q.mask, axis=-1)
    mean = q.rest / xp.astype(xp.where(unlisted > 0, unlisted, 1), q.rest.dtype)
    full = xp.floor(q.rest / xp.where(q.cap > 0, q.cap, 1.0))
    deviation = full * xp.clip(q.cap - mean, min=0.0) + xp.clip(q.rest - full * q.cap - mean, min=0.0)
    outside = 1.0 - xp.sum(xp.where(p.mask & q.mask, p.value, 0.0), axis=-1)
    return 2.0 * xp.minimum(xp.minimum(deviation, most), xp.clip(outside, min=0.0))


def _acceptance(target: Array, draft: Array, token: Array) -> Array:
    """Return min(1, p_d/q_d)."""
    xp, _, p, q, _ = pair_and_size(target, draft, 0)
    token = token_of(q.shape[-1]).check(xp, "token", arrays(draft=q, token=token)[2])
    beta = rejection_by_token(xp, *xp.broadcast_arrays(p, q))
    return 1.0 - take(xp, beta, xp.broadcast_to(token, beta.shape[:-1])[..., None])[..., 0]


def _draft_ends(target: Array, draft: Array, token: Array, k: Array) -> tuple[Array, Array]:
    xp, p, q = _known(target, draft, k)
    _, _, token = arrays(draft=q.value, token=token)
    at = (
        xp.arange(q.value.shape[-1], device=q.value.device)
        == token_of(q.value.shape[-1]).check(xp, "token", token)[..., None]
    )
    return draft_ends(xp, at, p, q, q.value.shape[-1])


_FINEST = 1e-9
"""Rows are not rounded to a finer step: the stored value is then the true one, which is within the error as well."""


def _rounded_boxes(target: Array, draft: Array, error: Array) -> tuple[Any, ...]:
    """Return bounds of each row from log-probabilities rounded to steps of twice the error, with a floor."""
    xp, _, p, q, _ = pair_and_size(target, draft, 0)
    _, _, error = arrays(draft=q, error=error)
    ends = []
    for row in (p, q):
        coarse = error > _FINEST
        step = xp.where(coarse, 2.0 * error, 1.0)[..., None]
        log = xp.log(xp.where(row > 0, row, 1.0))
        log = xp.where(row > 0, log, -800.0)
        stored = xp.clip(xp.where(coarse[..., None], xp.round(log / step) * step, log), max=0.0)
        floor = xp.max(stored, axis=-1) - 16.0  # as in llama.cpp's file
        box = quantised_box(stored, error * (1 + 2.0**-40), floor)
        ends += [box.lower * (1 - 2.0**-40), xp.clip(box.upper * (1 + 2.0**-40), max=1.0)]
    return tuple(xp.broadcast_arrays(*ends))


def _bias(target: Array, draft: Array, k: Array, error: Array) -> Array:
    return resampling_bias(target, draft, k) + 0.0 * arrays(draft=draft, error=error)[2]


def _most_bias(target: Array, draft: Array, k: Array, error: Array) -> Array:
    low, high, low_q, high_q = _rounded_boxes(target, draft, error)
    return box_bias(low, high, low_q, high_q, k).upper


_LISTS = Source("oh2025cuhlm", "(16)-(17), from lists of the k most likely tokens")
_FAR = {"target": [0.25, 0.125, 0.375, 0.25], "draft": [0.5, 0.375, 0.125, 0.0], "k": 2}
_NEAR = {"target": [0.125, 0.375, 0.375, 0.125], "draft": [0.625, 0.125, 0.125, 0.125], "k": 2}
_TAIL = {"draft": [0.25, 0.375, 0.375, 0.0], "k": 2}

CLAIMS = (
    Claim(
        id="truncation.partial_most",
        source=_LISTS,
        statement="TV(q, p) ≤ max_S [p(S ∩ A) + min(R_p, c_p y) − q(S ∩ B) − (R_q − c_q x)⁺], p listed on A, q on B",
        lhs=_distance,
        rhs=_most,
        attained=Attained(_FAR),
    ),
    Claim(
        id="truncation.partial_least",
        source=_LISTS,
        statement="TV(q, p) ≥ max(Σ (l − h′)⁺, Σ (l′ − h)⁺, 1 − Σ min(h, h′), Σ max(l, l′) − 1), unlisted in [0, c]",
        lhs=_least,
        rhs=_distance,
        attained=Attained(_NEAR),
        ceiling=1.0,
    ),
    Claim(
        id="truncation.partial_deviation",
        source=_LISTS,
        statement="Δ_j ≤ Σ_list (q − μ)⁺ + ⌊R/c⌋ (c − μ)⁺ + (R − ⌊R/c⌋ c − μ)⁺ from the top k of q, j = ⌊k/2⌋",
        lhs=_half_deviation,
        rhs=lambda draft, k: _deviations(draft, k)[1],
        attained=Attained(_TAIL),
        ceiling=1.0,
    ),
    Claim(
        id="truncation.partial_bias",
        source=_LISTS,
        statement="Bias ≤ 2 min(max Δ_k, max TV(q, p), 1 − p(A ∩ B)) from the top k of both; outer, not sharp",
        lhs=resampling_bias,
        rhs=_bias_bound,
        attained=Attained({"target": [0.25, 0.5, 0.125, 0.125], "draft": [0.25, 0.375, 0.375, 0.0], "k": 2}),
        ceiling=2.0,
    ),
    Claim(
        id="truncation.partial_draft",
        source=_LISTS,
        statement="min(1, p_d/q_d) ≤ min(1, max p_d / min q_d); unlisted: (R − (n − 1) c)⁺ to min(c, R), n of them",
        lhs=_acceptance,
        rhs=lambda target, draft, token, k: _draft_ends(target, draft, token, k)[1],
        attained=Attained(
            {"target": [0.125, 0.25, 0.25, 0.375], "draft": [0.125, 0.375, 0.375, 0.125], "token": 2, "k": 2}
        ),
        ceiling=1.0,
    ),
    Claim(
        id="truncation.partial_box_bias",
        source=Source("oh2025cuhlm", "(15)-(17), from quantised log-probabilities"),
        statement="Bias ≤ 2 min(max T, max Σ (a − s b)⁺, max Σ (s b − a)⁺), log-probabilities within ±e; outer",
        lhs=_bias,
        rhs=_most_bias,
        attained=Attained({"target": [0.125, 0.5, 0.375], "draft": [0.5, 0.375, 0.125], "k": 1, "error": 0.0}),
        ceiling=2.0,
    ),
)
