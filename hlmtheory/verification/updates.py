"""Acceptance after an update of the target model: bounds from the acceptance before it and the distance of versions.

A draft model q stays, the target model changes from version 0 with p_0 to version v with p_v. Given the prefix,
TV = TV(p_0, p_v) and KL is the divergence of the two, in either order, in nats: what fine-tuning reports.
"""

import math
from typing import Any

from hlmtheory._array import Array, Interval, arrays, in_kind, interval, sum_up, upward, widest
from hlmtheory._domains import UNIT_INTERVAL, leading_dimensions
from hlmtheory._quantities import not_negative

_DIVERGENCE = not_negative("give the divergence KL of the two versions in nats")
_SHARP_FROM = 1e-4  # nats; below, Pinsker's bound is used, which is larger by at most 3e-6 of itself
_HALVINGS = 64
_FEW_ULPS = 1.0 + 2.0**-50  # a square root and an exponential, each rounded
_ROUNDING = 2.0**-34  # relative; the divergence of a pair is known to about 1e-11 of itself
_LOG_RANGE = -4.0, 41.0  # log s for KL from below _SHARP_FROM to 41 nats, where the distance is 1 up to rounding


def acceptance_after_update(acceptance: Array, distance: Array) -> Interval:
    """Return the interval α(0) ± TV(p_0, p_v) of the acceptance after an update, on a prefix or a mean over prefixes.

    Clipped to [0, 1] and rounded outward; both ends are attained. Each version's own texts are not covered.

    ``acceptance`` α(0) and ``distance`` have shape (...); a value outside [0, 1] raises a ValueError.
    """
    xp, rate, moved = arrays(acceptance=acceptance, distance=distance)
    kind = widest(xp, UNIT_INTERVAL.check(xp, "acceptance", rate), UNIT_INTERVAL.check(xp, "distance", moved))
    leading_dimensions(acceptance=tuple(rate.shape), distance=tuple(moved.shape))
    rate, moved = (in_kind(xp, value, xp.float64) for value in (rate, moved))
    lower, upper = xp.clip(-sum_up(xp, -rate, moved), min=0.0), xp.clip(sum_up(xp, rate, moved), max=1.0)
    return interval(xp, lower, upper, kind)


def largest_distance(divergence: Array) -> Array:
    """Return the largest TV of two distributions with divergence KL (nats) at most this, rounded up.

    Attained on two tokens, at most √(KL/2) and √(1 - e^-KL), and concave, so it holds for mean KL and mean distance.
    """
    xp, given = arrays(divergence=divergence)
    kind = widest(xp, _DIVERGENCE.check(xp, "divergence", given))
    limit = in_kind(xp, given, xp.float64)
    low, high = (xp.full_like(limit, end) for end in _LOG_RANGE)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        beyond = _pair(xp, xp.exp(middle))[1] >= limit
        low, high = xp.where(beyond, low, middle), xp.where(beyond, middle, high)
    sharp = _pair(xp, xp.exp(high))[0] * (1.0 + _ROUNDING)
    simple = xp.clip(xp.minimum(math.sqrt(0.5) * xp.sqrt(limit), xp.sqrt(-xp.expm1(-limit))) * _FEW_ULPS, max=1.0)
    within = (limit >= _SHARP_FROM) & (limit < _LOG_RANGE[1] - 1.0)
    return upward(xp, xp.where(within, xp.minimum(sharp, simple), simple), kind)


def _pair(xp: Any, s: Array) -> tuple[Array, Array]:
    """Return distance and divergence of the pair b = 1/s - 1/(e^s - 1), a = b + s b(1 - b); both rise with s."""
    share = -xp.expm1(-s)  # 1 - e^(-s)
    tail = xp.exp(-s) / share  # 1/(e^s - 1)
    b = 1.0 / s - tail
    # s a - log((e^s - 1)/s), with s(a - 1) = -s² tail (1 - b), so that nothing large cancels
    return s * b * (1.0 - b), xp.log(s / share) - s * s * tail * (1.0 - b)
