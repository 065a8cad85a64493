"""Intervals of the acceptance rate that hold after every round at once, though a round stops at its first rejection.

Number the examined drafts 1, 2, ... across the rounds. Draft i is accepted with probability α_i given the past, which
also decides whether it is examined at all. So A_i - α_i are martingale differences, wherever a round stops, and the
intervals hold for S accepted of n examined drafts with any rule of stopping.
"""

import math
from collections.abc import Callable
from typing import Any

from hlmtheory._array import Array, Interval, arrays, in_kind, interval, sum_up, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, broadcast, leading_dimensions, option
from hlmtheory._quantities import not_negative, open_unit
from hlmtheory._simplex import distributions

FORMS = ("constant", "varying")
_MOST = 2**40
_EXAMINED = Domain(
    f"a whole number, 0 to 2^{_MOST.bit_length() - 1}",
    lambda xp, value: (value >= 0) & (value <= _MOST),
    "give the number of drafts that the server examined",
    kind="integer",
)
_ACCEPTED = not_negative("give how many of the examined drafts were accepted")
_ERROR = open_unit("δ is the probability that an interval ever misses, such as 0.05")
_TILTS = tuple(sign * 2.0**power for sign in (-1, 1) for power in range(3, -13, -1))
_HALVINGS = 60
_SLACK = 2.0**-44  # relative; covers the rounding of sums of logarithms


def acceptance_interval(accepted: Array, examined: Array, error: Array, *, form: str) -> Interval:
    """Return an interval of the acceptance rate that holds after every draft at once, with probability 1 - δ.

    "constant": every examined draft is accepted with the same probability α. The interval holds all α with
    P(Binomial(n, α) = S) > δ/(n + 1). It may miss the mean of rates that vary.

    "varying": the rates may depend on the past in any way, and the interval is of their mean (α_1 + ... + α_n)/n. It
    holds all m at which the mean over fixed tilts η of exp(ηS) / (1 + m(exp(η) - 1))^n is below 1/δ.

    Parameters
    ----------
    accepted : array, shape (...)
        S, from 0 to n. It may be a fraction: a sum of values in [0, 1].
    examined : integer array, shape (...)
        n, 0 to 2^40. A round of K drafts with τ accepted examines min(τ + 1, K).
    error : array, shape (...)
        δ in (0, 1).
    form : {"constant", "varying"}

    Returns
    -------
    Interval
        Rounded outward; [0, 1] for n = 0.

    Raises
    ------
    ValueError
        If a value is outside its range, S exceeds n, the form is unknown, or the shapes do not match.

    Examples
    --------
    >>> interval = acceptance_interval(80, 100, 0.05, form="constant")
    >>> round(float(interval.lower), 3), round(float(interval.upper), 3)
    (0.652, 0.907)
    """
    option("form", form, FORMS)
    xp, count, total, delta = arrays("error", accepted=accepted, examined=examined, error=error)
    kind = widest(xp, _ACCEPTED.check(xp, "accepted", count))
    total = _EXAMINED.check(xp, "examined", total)
    _ERROR.check(xp, "error", delta)
    broadcast(accepted=tuple(count.shape), examined=tuple(total.shape), error=tuple(delta.shape))
    s, n, delta = (in_kind(xp, value, xp.float64) for value in (count, total, delta))
    if not bool(xp.all(s <= n)):
        raise DomainError(f"accepted must be at most examined; got {accepted} of {examined}; count each draft once")
    limit = -xp.log(delta) + _SLACK * (1.0 + (n + 2.0) * xp.log(n + 2.0))
    evidence = (_constant if form == "constant" else _varying)(xp, s, n)
    share = s / xp.where(n > 0, n, 1.0) + 0.0 * delta

    def outside(rate: Array) -> Array:
        return evidence(rate) >= limit

    lower = _edge(xp, share, xp.zeros_like(share), outside)
    upper = _edge(xp, xp.where(n > 0, share, 1.0), xp.ones_like(share), outside)
    return interval(xp, lower, upper, kind)


def decoded_acceptance_rate(target: Array, decoded: Array, deviation: Array) -> Interval:
    """Return the interval Σ min(p, q̂) ± TV(q, q̂) of the acceptance that a server knows from a decoded row.

    ``deviation`` (...) is TV(q, q̂) or a bound on it, such as Δ_k. Clipped to [0, 1] and rounded outward.
    """
    xp, kind, p, q = distributions(target=target, decoded=decoded)
    _, _, delta = arrays("deviation", p=p, deviation=deviation)
    UNIT_INTERVAL.check(xp, "deviation", delta)
    leading_dimensions(target=tuple(p.shape[:-1]), decoded=tuple(q.shape[:-1]), deviation=tuple(delta.shape))
    overlap, delta = xp.sum(xp.minimum(p, q), axis=-1), in_kind(xp, delta, xp.float64)
    # an entry and the sum each have half of it at most; a tiny product may be rounded to 0
    error = (q.shape[-1] + 10) * 2.0**-52 * overlap + q.shape[-1] * 2.0**-1072
    lower = xp.clip(-sum_up(xp, -(overlap - error), delta), min=0.0)
    upper = xp.clip(sum_up(xp, overlap + error, delta), max=1.0)
    return interval(xp, lower, upper, kind)


def _constant(xp: Any, s: Array, n: Array) -> Callable[[Array], Array]:
    """Return α ↦ log of ∫ θ^S (1 - θ)^(n - S) dθ / (α^S (1 - α)^(n - S)), infinite where α excludes the outcome."""
    mixture = _log_factorial(xp, s) + _log_factorial(xp, n - s) - _log_factorial(xp, n + 1.0)
    return lambda rate: mixture - _times_log(xp, s, rate) - _times_log(xp, n - s, 1.0 - rate)


def _varying(xp: Any, s: Array, n: Array) -> Callable[[Array], Array]:
    """Return m ↦ log of the mean over the tilts of exp(ηS) / (1 + m(exp(η) - 1))^n."""
    tilts = xp.asarray(_TILTS, dtype=xp.float64, device=s.device)
    tilted, slopes = tilts * s[..., None], xp.expm1(tilts)

    def evidence(rate: Array) -> Array:
        powers = tilted - n[..., None] * xp.log1p(rate[..., None] * slopes)
        top = xp.max(powers, axis=-1, keepdims=True)
        return top[..., 0] + xp.log(xp.mean(xp.exp(powers - top), axis=-1))

    return evidence


def _edge(xp: Any, inside: Array, end: Array, outside: Any) -> Array:
    """Return the last rate outside on the way from ``end`` to ``inside``, or the end if it is inside itself.

    The evidence is convex in the rate, and at most 0 at S/n, which is inside. The halving keeps one point outside, so
    it errs outward.
    """
    near, far = inside, end
    for _ in range(_HALVINGS):
        middle = 0.5 * (near + far)
        out = outside(middle)
        near, far = xp.where(out, near, middle), xp.where(out, middle, far)
    return xp.where(outside(end), far, end)


def _times_log(xp: Any, count: Array, rate: Array) -> Array:
    """Return count · log(rate), 0 where the count is 0 and -inf where only the rate is."""
    possible = rate > 0
    product = count * xp.log(xp.where(possible, rate, 1.0))
    return xp.where((count > 0) & ~possible, -xp.inf, product)


def _log_factorial(xp: Any, x: Array) -> Array:
    """Return log Γ(x + 1) for x ≥ 0 by Stirling's series at x + 9."""
    z = x + 9.0
    inverse = 1.0 / (z * z)
    series = xp.zeros_like(z)
    for term in (-691 / 360_360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = series * inverse + term
    rising = x + 1.0
    for step in range(2, 9):
        rising = rising * (x + step)
    return (z - 0.5) * xp.log(z) - z + 0.5 * math.log(2.0 * math.pi) + series / z - xp.log(rising)
