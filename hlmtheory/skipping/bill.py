"""One bill for a position, and for a whole round: what skipping and distorted messages add to the distance from p.

A draft d is skipped with probability s_d. Otherwise the server accepts it by the exact q_d. It replaces a rejected
draft from r̂⁽ᵈ⁾ = (p - q̂⁽ᵈ⁾)⁺, normalised, where q̂⁽ᵈ⁾ is what the server decoded: truncated, quantised, or both.

======== ==================================================================== ====
symbol   name                                                                 unit
======== ==================================================================== ====
q̂⁽ᵈ⁾     ``decoded``, what the server knows of q if the draft is d            1
Δ⁽ᵈ⁾     ``deviation``, TV(q, q̂⁽ᵈ⁾): the device knows it                      1
T        TV(q, p), the probability that a draft is rejected if all are sent   1
S        Σ_d q_d (1 - s_d) β_d, the probability that a draft is rejected      1
A        Σ_d q_d s_d, the probability that a draft is skipped                 1
======== ==================================================================== ====

The bill of a position is Σ_d q_d s_d β_d + Σ_d q_d (1 - s_d) β_d TV(r, r̂⁽ᵈ⁾). A bonus token is drawn from p and costs
0. The bills of the positions of a text, with the prefixes that the system itself reaches, bound the total variation of
the whole text: see the claims ``skipping.bill*``.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, in_kind, upward, widest
from hlmtheory._domains import UNIT_INTERVAL, DomainError, leading_dimensions
from hlmtheory._simplex import distributions, excess, normalised, quotient, skip_probabilities
from hlmtheory.skipping.risk import pair_and_skip
from hlmtheory.truncation.reconstruction import NOISE


def position_bill(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return the bill of a position: a bound on the total variation between the emitted token's law and p.

    The bill, which is new, is Σ_d q_d s_d β_d + Σ_d q_d (1 - s_d) β_d TV(r, r̂⁽ᵈ⁾). :func:`truncated_step_risk` is its
    value where q̂⁽ᵈ⁾ is truncated as in cu-hlm (15). It is the total variation itself if nothing is
    distorted, or if nothing is skipped at a loss and the server decodes the same q̂ for every draft.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Distributions p and q.
    skip : array, shape (..., V) or broadcastable to it
        Probability s_d in [0, 1] that draft d skips verification, or true and false.
    decoded : array, shape (..., V, V) or (..., 1, V)
        q̂⁽ᵈ⁾ in row d, or one row for all drafts.

    Returns
    -------
    array, shape (...)
        In [0, TV(q, p)], rounded up to the caller's type. Where r̂⁽ᵈ⁾ is 0/0 (TV(q̂⁽ᵈ⁾, p) ≤ 2^-44), any token may be
        drawn, so TV(r, r̂⁽ᵈ⁾) is taken as 1.

    Raises
    ------
    ValueError
        If a row is no distribution, a skip probability is outside [0, 1], or the shapes do not match.

    Examples
    --------
    >>> p, q = [0.5, 0.25, 0.25], [0.625, 0.25, 0.125]
    >>> float(position_bill(p, q, skip=0.5, decoded=[[0.625, 0.1875, 0.1875]]))
    0.09375
    """
    xp, kind, p, q, s, known = position_arrays(target, draft, skip, decoded)
    lost = excess(xp, q, p)  # q β
    gap = distortions(xp, p, q, known)
    bill = xp.sum(s * lost, axis=-1) + xp.sum((1.0 - s) * lost * gap, axis=-1)
    return upward(xp, xp.clip(bill, max=1.0), kind)


def bill_bound(target: Array, draft: Array, skip: Array, deviation: Array) -> Array:
    """Return an upper bound on the bill of a position from Δ⁽ᵈ⁾ = TV(q, q̂⁽ᵈ⁾) in place of q̂⁽ᵈ⁾.

    The bound, which is new, is Σ_d q_d s_d β_d + Σ_d q_d (1 - s_d) β_d min(1, Δ⁽ᵈ⁾/T). With the largest Δ of the drafts
    that may be sent it is at most Σ q s β + min(S, (S/T) max_d Δ⁽ᵈ⁾).

    Parameters
    ----------
    target, draft, skip
        See :func:`position_bill`.
    deviation : array, shape (..., V) or broadcastable to it
        Δ⁽ᵈ⁾ in [0, 1] for each draft, or one for all; 0 for a distribution that is sent in full.

    Returns
    -------
    array, shape (...)
        In [0, TV(q, p)], rounded up to the caller's type.

    Raises
    ------
    ValueError
        If a row is no distribution, a probability is outside [0, 1], or the shapes do not match.

    Examples
    --------
    >>> p, q = [0.5, 0.25, 0.25], [0.625, 0.25, 0.125]
    >>> float(bill_bound(p, q, skip=0.5, deviation=0.0625))
    0.09375
    """
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
