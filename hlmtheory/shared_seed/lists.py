"""Lists of candidates: how often the server's token is among the L first of the device's race."""

from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, upward
from hlmtheory._domains import DomainError, leading_dimensions
from hlmtheory._simplex import distributions, quotient
from hlmtheory.shared_seed.match import SIZE, sorted_matches
from hlmtheory.shared_seed.stream import list_size

LARGEST_VOCABULARY = 4096
"""The exact probability costs V² L steps for each of the nodes."""

STEP, LOWEST, HIGHEST = 0.25, -38.0, 4.0
"""Nodes of ln τ. The trapezoidal rule misses 1/A = ∫ e^{-Aτ} dτ by less than 3e-16/A for each A, because
|Γ(1 + 2πi/STEP)| is 9e-17; the ends leave out 4e-17."""


def list_match_probability(target: Array, draft: Array, size: int) -> Array:
    """Return P(the server's token is among the L first of the device's race), for V ≤ 4,096.

    P = Σ_v p_v ∫ e^{-τ} P(fewer than L are ahead of v) dτ, where w is ahead with 1 - exp(-τ (q_w p_v/q_v - p_w)⁺); a
    trapezoidal sum over ln τ, right to 1e-13.
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    size = list_size("size", size, q.shape[-1])
    if q.shape[-1] > LARGEST_VOCABULARY:
        raise DomainError(
            f"target and draft must have at most {LARGEST_VOCABULARY} tokens; got {q.shape[-1]}; "
            "take list_match_bound, or simulate with race_list"
        )
    p, q = xp.broadcast_arrays(p, q)
    total = xp.sum(xp.where(q > 0, p * _mean_of_rank(xp, p, q, size), 0.0), axis=-1)
    return in_kind(xp, xp.clip(total, max=1.0), kind)


def _mean_of_rank(xp: Any, p: Array, q: Array, size: int) -> Array:
    """Return P(fewer than L tokens are ahead of v | b = v), shape (..., V)."""
    logarithm = np.arange(LOWEST, HIGHEST + STEP / 2, STEP)
    time = xp.asarray(np.exp(logarithm), device=p.device)
    weight = xp.asarray(STEP * np.exp(logarithm - np.exp(logarithm)), device=p.device)
    ones = xp.ones((*p.shape, time.shape[0]), dtype=xp.float64, device=p.device)
    ahead = [ones] + [xp.zeros_like(ones)] * (size - 1)  # of j tokens, among those seen so far
    for w in range(p.shape[-1]):
        scaled = xp.where(p > 0, quotient(xp, q[..., w : w + 1], q), 0.0) * p
        lead = xp.clip(scaled - p[..., w : w + 1], min=0.0)
        behind = xp.exp(-time * lead[..., None])
        for j in range(size - 1, 0, -1):
            ahead[j] = ahead[j] * behind + ahead[j - 1] * (1.0 - behind)
        ahead[0] = ahead[0] * behind
    total = ahead[0]
    for probability in ahead[1:]:
        total = total + probability
    return xp.sum(weight * total, axis=-1)


def list_match_bound(target: Array, draft: Array, size: Array) -> Array:
    """Return a lower bound of :func:`list_match_probability` by a sort, rounded down: Σ_v p_v (1 - (1 - t_v/p_v)^L)."""
    xp, kind, p, q = distributions(target=target, draft=draft)
    size = SIZE.check(xp, "size", arrays(draft=q, size=size)[2])
    leading_dimensions(draft=tuple(q.shape[:-1]), target=tuple(p.shape[:-1]), size=tuple(size.shape))
    matched, p, _ = sorted_matches(xp, p, q)
    share, count = quotient(xp, matched, p), xp.astype(size, xp.float64)[..., None]
    inside = -xp.expm1(count * xp.log1p(-xp.where(share < 1, share, 0.0)))  # right for every small share
    total = xp.sum(p * xp.where(share < 1, inside, 1.0), axis=-1)
    # The rows, Q, P and the total are sums over V tokens, of non-negative terms; a product may be below 2^-1022.
    error = (4 * p.shape[-1] + 64) * 2.0**-53 * total + p.shape[-1] * 2.0**-1072
    return -upward(xp, -xp.clip(total - error, 0.0, 1.0), kind)
