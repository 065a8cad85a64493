"""One bill for a position, and for a whole round: what skipping and distorted messages add to the distance from p.

A draft d is skipped with probability s_d, else verified with q_d and replaced from r̂⁽ᵈ⁾ = (p - q̂⁽ᵈ⁾)⁺, normalised. q̂⁽ᵈ⁾
is ``decoded``, Δ⁽ᵈ⁾ = TV(q, q̂⁽ᵈ⁾) ``deviation``, T = TV(q, p), S = Σ q (1 - s) β and A = Σ q s. The bonus costs 0.
"""

from typing import Any

from hlmtheory._array import Array, arrays, in_kind, upward, widest
from hlmtheory._domains import UNIT_INTERVAL, DomainError, leading_dimensions
from hlmtheory._simplex import distributions, excess, normalised, quotient, skip_probabilities
from hlmtheory.skipping.risk import pair_and_skip
from hlmtheory.truncation.reconstruction import NOISE


def position_bill(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return the bill, a bound on TV(law, p), rounded up: Σ_d q_d s_d β_d + Σ_d q_d (1 - s_d) β_d TV(r, r̂⁽ᵈ⁾).

    ``decoded`` has a row (..., V, V) for each draft, or one (..., 1, V). Where r̂⁽ᵈ⁾ is 0/0, TV(r, r̂⁽ᵈ⁾) counts as 1.
    """
    xp, kind, p, q, s, known = position_arrays(target, draft, skip, decoded)
    lost = excess(xp, q, p)  # q β
    gap = distortions(xp, p, q, known)
    bill = xp.sum(s * lost, axis=-1) + xp.sum((1.0 - s) * lost * gap, axis=-1)
    return upward(xp, xp.clip(bill, max=1.0), kind)


def bill_bound(target: Array, draft: Array, skip: Array, deviation: Array) -> Array:
    """Return an upper bound on the bill, rounded up: Σ_d q_d s_d β_d + Σ_d q_d (1 - s_d) β_d min(1, Δ⁽ᵈ⁾/T)."""
    xp, kind, p, q, s = pair_and_skip(target, draft, skip)
    lost = excess(xp, q, p)
    delta = _deviation(xp, deviation, lost)
    share = xp.clip(quotient(xp, delta, xp.sum(lost, axis=-1, keepdims=True) + xp.zeros_like(delta)), max=1.0)
    bound = xp.sum(s * lost, axis=-1) + xp.sum((1.0 - s) * lost * share, axis=-1)
    return upward(xp, xp.clip(bound, max=1.0), kind)


def bill_bound_on_device(draft: Array, skip: Array, deviation: Array) -> Array:
    """Return an upper bound on the bill of a position that the device knows before anything is sent."""
    xp, kind, q = distributions(draft=draft)
    s = skip_probabilities(xp, skip, q)
    largest = xp.max(xp.where(q * (1.0 - s) > 0, _deviation(xp, deviation, q), 0.0), axis=-1)
    skipped = xp.clip(xp.sum(q * s, axis=-1), max=1.0)
    return upward(xp, skipped + (1.0 - skipped) * largest, kind)


def distortions(xp: Any, p: Array, q: Array, known: Array) -> Array:
    """Return TV(r, r̂) of p, q (..., V) and rows of q̂ (..., D, V), shape (..., D); 1 where r̂ is 0/0."""
    true = normalised(xp, excess(xp, p, q))[0]
    made, mass = normalised(xp, excess(xp, p[..., None, :], known))
    gap = xp.clip(0.5 * xp.sum(xp.abs(made - true[..., None, :]), axis=-1), max=1.0)
    return xp.where(mass > NOISE, gap, 1.0)


def position_arrays(target: Array, draft: Array, skip: Array, decoded: Array) -> tuple[Any, ...]:
    """Return the namespace, the result dtype, and p, q, s (..., V) and q̂ (..., D, V) in float64."""
    xp, target, draft, skip, decoded = arrays(target=target, draft=draft, skip=skip, decoded=decoded)
    _, _, p, q, s = pair_and_skip(target, draft, skip)
    _, _, known = distributions(decoded=decoded)
    size = q.shape[-1]
    if known.ndim < 2 or known.shape[-1] != size or known.shape[-2] not in (1, size):
        raise DomainError(
            f"decoded must have shape (..., {size}, {size}) or (..., 1, {size}); got {tuple(decoded.shape)}; "
            "give a row for each draft, or one for all"
        )
    leading_dimensions(draft=tuple(q.shape[:-1]), decoded=tuple(known.shape[:-2]))
    return xp, widest(xp, target, draft, decoded), p, q, s, known


def _deviation(xp: Any, deviation: Array, q: Array) -> Array:
    """Return Δ for each draft in float64, of the shape of q and with its leading dimensions."""
    _, _, delta = arrays(draft=q, deviation=deviation)
    UNIT_INTERVAL.check(xp, "deviation", delta)
    leading_dimensions(draft=tuple(q.shape), deviation=tuple(delta.shape))
    return in_kind(xp, delta, xp.float64) + xp.zeros_like(q)
