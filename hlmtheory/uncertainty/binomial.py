"""The skip decision u ≤ u_th from M samples, where M u is Binomial(M, E[u])."""

from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, is_kind, to_numpy, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, leading_dimensions
from hlmtheory._quantities import open_unit

DRAWS = 20

_DOMAINS = {
    "expected": UNIT_INTERVAL,
    "threshold": Domain(
        "finite", lambda xp, value: xp.isfinite(value), "give the largest uncertainty at which verification is skipped"
    ),
    "draws": Domain(
        "a whole number, 1 to 2^52",
        lambda xp, value: (value >= 1) & (value <= 2**52),
        "an uncertainty is a share of at least one sample, and float64 cannot count beyond 2^52",
        kind="integer",
    ),
    "error": open_unit("an error of 0 needs infinitely many draws, an error of 1 needs none"),
}


def skip_probability(expected: Array, threshold: Array, draws: Array = DRAWS) -> Array:
    """Return P(sampled uncertainty ≤ threshold) = P(Binomial(M, E[u]) ≤ M u_th), the skip rule cu-hlm (10).

    u = j/M is compared in the type of the threshold, so a threshold such as 0.15 keeps its own count.
    """
    return _binomial(False, expected, threshold, draws)


def checked_together(**values: Any) -> tuple[Array, list[Array]]:
    """Check the values and their shapes, and return the namespace and the values; Python numbers become float64."""
    xp, *near = arrays(**values)
    given = [unnarrowed(xp, value, array) for value, array in zip(values.values(), near, strict=True)]
    for name, value in zip(values, given, strict=True):
        _DOMAINS[name].check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in zip(values, given, strict=True)})
    return xp, given


def unnarrowed(xp: Any, value: Any, beside: Array) -> Array:
    """Return the value as an array; a number or sequence keeps its own dtype, not the dtype of the other arguments."""
    if beside is value or not is_kind(xp, beside.dtype, "real floating"):
        return beside
    return xp.asarray(np.asarray(value), device=beside.device)


def bernoulli_divergence(one: Any, other: Any) -> Any:
    """Return KL of two Bernoulli laws; a term of close masses from their difference, because the logarithm cancels."""
    from scipy.special import rel_entr

    def term(mass: Any, mass_of_other: Any, apart: Any) -> Any:
        close = np.abs(apart) < 0.5 * mass
        near = -mass * np.log1p(np.where(close, apart / np.where(close, mass, 1.0), 0.0))
        return np.where(close, near, rel_entr(mass, mass_of_other))

    return term(one, other, other - one) + term(1.0 - one, 1.0 - other, one - other)


def _binomial(upper: bool, expected: Array, threshold: Array, draws: Array) -> Array:
    """Return P(Binomial(M, E[u]) ≤ j), or > j, for the largest count j with j/M ≤ u_th (-1 if no count has that)."""
    from scipy.special import betainc, betaincc

    xp, given = checked_together(expected=expected, threshold=threshold, draws=draws)
    kind = widest(xp, *arrays(expected=expected, threshold=threshold)[1:])
    e, m = (to_numpy(in_kind(xp, value, xp.float64)) for value in (given[0], given[2]))
    th = _as_compared(to_numpy(in_kind(xp, given[1], widest(xp, given[1]))))
    count = np.floor(m * th)
    count = np.where((count + 1.0) / m <= th, count + 1.0, count)  # the rule compares u = j/M, not j = M u
    count = np.clip(np.where(count / m > th, count - 1.0, count), -1.0, m)
    inner = (count >= 0) & (count < m)
    j = np.where(inner, count, 0.0)
    # the incomplete beta function accepts any M; the binomial functions of SciPy count in 32 bits
    tail = (betainc if upper else betaincc)(j + 1.0, np.where(inner, m - j, 1.0), e)
    value = np.where(inner, tail, (count < 0) == upper)
    return in_kind(xp, xp.asarray(value, device=given[0].device), kind)


def _as_compared(threshold: Any) -> Any:
    """Return the largest float64 that, rounded to the threshold's dtype, is not above the threshold."""
    th = np.clip(threshold, -1.0, 1.0)  # values outside [-1, 1] decide the same
    if th.dtype == np.float64:
        return th
    half_way = (np.float64(th) + np.float64(np.nextafter(th, np.float32(2.0)))) / 2.0  # a tie rounds to even
    return np.where(half_way.astype(th.dtype) <= th, half_way, np.nextafter(half_way, -2.0))
