"""The decision by M samples: whether u ≤ u_th, when M u is Binomial(M, E[u])."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, is_kind, to_numpy, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions
from hlmtheory._quantities import open_unit

DRAWS = 20

_DOMAINS = {
    "expected": UNIT_INTERVAL,
    "threshold": Domain("finite", lambda xp, value: xp.isfinite(value), "give the uncertainty up to which to skip"),
    "draws": Domain(
        "a whole number, 1 to 2^52",
        lambda xp, value: (value >= 1) & (value <= 2**52),
        "an uncertainty is a share of at least one sample, and beyond 2^52 float64 cannot count them",
        kind="integer",
    ),
    "error": open_unit("a decision that is never wrong takes endless draws, one that may always be wrong none"),
}


def skip_probability(expected: Array, threshold: Array, draws: Array = DRAWS) -> Array:
    """Probability that the sampled uncertainty is at the threshold or below: P(Binomial(M, E[u]) ≤ M u_th).

    Given z and d the M samples are i.i.d., temperatures included, and each differs from d with probability E[u].

    Parameters
    ----------
    expected : array, shape (...)
        E[u], from :func:`expected_uncertainty` or :func:`vocabulary_uncertainty`.
    threshold : array, shape (...)
        u_th, any finite number: below 0 nothing is skipped, from 1 on everything. It is compared with u = j/M in its
        own type, a number in float64: a float32 array with a u in float32.
    draws : integer array, shape (...)
        M, 1 to 2^52.

    Returns
    -------
    array, shape (...)
        In [0, 1]; the rule is cu-hlm (10).

    Raises
    ------
    ValueError
        If E[u] is outside [0, 1], u_th is not finite, or M is no whole number in 1..2^52.

    Examples
    --------
    >>> skip_probability([0.0, 0.5, 1.0], 0.5, 2).tolist()
    [1.0, 0.75, 0.0]
    """
    return _binomial(False, expected, threshold, draws)


def decision_error(expected: Array, threshold: Array, draws: Array = DRAWS) -> Array:
    """Probability that M samples decide differently from E[u]: skip although E[u] > u_th, or the reverse.

    A sawtooth in M, as M u_th passes whole numbers; near ½ where E[u] is close to u_th.

    Parameters
    ----------
    expected, threshold, draws
        As of :func:`skip_probability`.

    Returns
    -------
    array, shape (...)
        In [0, 1].

    Raises
    ------
    ValueError
        As :func:`skip_probability`.

    Examples
    --------
    >>> decision_error([0.25, 0.75], 0.5, 1).tolist()
    [0.25, 0.25]
    """
    xp, (e, th) = checked_together(expected=expected, threshold=threshold)
    above = in_kind(xp, e, xp.float64) > in_kind(xp, th, xp.float64)
    skipped, sent = (_binomial(upper, expected, threshold, draws) for upper in (False, True))
    return xp.where(above, skipped, sent)


def draws_needed(expected: Array, threshold: Array, error: Array) -> Array:
    """Number of draws M from which on the decision is wrong with at most a given probability.

    ln(1/error) / KL(u_th ‖ E[u]) by Chernoff's bound, so it is safe at every M from there on, across the sawtooth; the
    least M that happens to do is smaller.

    Parameters
    ----------
    expected : array, shape (...)
        E[u] in [0, 1], not at the threshold itself: there no M is enough, unless E[u] is 0 or 1 and nothing is random.
    threshold : array, shape (...)
        u_th, finite.
    error : array, shape (...)
        Wanted decision error, in (0, 1).

    Returns
    -------
    integer array, shape (...)
        1 or more; 1 where the threshold is outside [0, 1) or E[u] is 0 or 1, as nothing is left to chance there.

    Raises
    ------
    ValueError
        If an argument is outside its domain, or E[u] is so near to the threshold that M would pass 2^52.

    Examples
    --------
    >>> draws_needed([0.5, 0.125], 0.25, 0.01).tolist()
    [36, 80]
    """
    xp, given = checked_together(expected=expected, threshold=threshold, error=error)
    e, th, wanted = (to_numpy(in_kind(xp, value, xp.float64)) for value in given)
    chance = (th >= 0) & (th < 1) & (e > 0) & (e < 1)
    divergence = np.where(chance, _divergence(np.where(chance, th, 0.0), np.where(chance, e, 0.5)), np.inf)
    with np.errstate(divide="ignore", over="ignore"):
        draws = np.where(divergence > 0, np.ceil(-np.log(wanted) / divergence), np.inf)
    if not np.all(draws <= 2.0**52):
        stray = np.broadcast_to(e, draws.shape)[~(draws <= 2.0**52)].flat[0]
        raise DomainError(
            f"expected must differ from the threshold; got {float(stray)!r}; at the threshold itself no number of "
            "draws decides"
        )
    return xp.asarray(np.maximum(draws, 1.0).astype(np.int64), device=given[0].device)


def checked_together(**values: Any) -> tuple[Array, list[Array]]:
    """The namespace and the values, each checked, of compatible shapes; numbers in float64."""
    xp, *near = arrays(**values)
    given = [unnarrowed(xp, value, array) for value, array in zip(values.values(), near, strict=True)]
    for name, value in zip(values, given, strict=True):
        _DOMAINS[name].check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in zip(values, given, strict=True)})
    return xp, given


def unnarrowed(xp: Any, value: Any, beside: Array) -> Array:
    """The value as an array: one as it is, a number or sequence in its own type and not that of its neighbours.

    In float32 a threshold of 0.35 is below 7/20, and a whole atom of u would be on the wrong side of it.
    """
    if beside is value or not is_kind(xp, beside.dtype, "real floating"):
        return beside
    return xp.asarray(np.asarray(value), device=beside.device)


def _divergence(one: Any, other: Any) -> Any:
    """KL of two Bernoulli laws; where they are close by their difference, as the logarithms would cancel."""
    from scipy.special import rel_entr

    apart = other - one
    close = np.abs(apart) < 0.5 * np.minimum(one, 1.0 - one)
    gap, safe = np.where(close, apart, 0.0), np.where(close, one, 0.5)
    near = -safe * np.log1p(gap / safe) - (1.0 - safe) * np.log1p(-gap / (1.0 - safe))
    return np.where(close, near, rel_entr(one, other) + rel_entr(1.0 - one, 1.0 - other))


def _binomial(upper: bool, expected: Array, threshold: Array, draws: Array) -> Array:
    """P(Binomial(M, E[u]) ≤ j), or > j, at the largest count j with j/M ≤ u_th; j = -1 where there is none."""
    from scipy.special import betainc, betaincc

    xp, given = checked_together(expected=expected, threshold=threshold, draws=draws)
    kind = widest(xp, *arrays(expected=expected, threshold=threshold)[1:])
    e, m = (to_numpy(in_kind(xp, value, xp.float64)) for value in (given[0], given[2]))
    th = _as_compared(to_numpy(in_kind(xp, given[1], widest(xp, given[1]))))
    count = np.floor(m * th)
    count = np.where((count + 1.0) / m <= th, count + 1.0, count)  # as u = j/M is compared, not j = M u
    count = np.clip(np.where(count / m > th, count - 1.0, count), -1.0, m)
    inner = (count >= 0) & (count < m)
    j = np.where(inner, count, 0.0)
    # the incomplete beta function takes any M; scipy's binomial functions count in 32 bits
    tail = (betainc if upper else betaincc)(j + 1.0, np.where(inner, m - j, 1.0), e)
    value = np.where(inner, tail, (count < 0) == upper)
    return in_kind(xp, xp.asarray(value, device=given[0].device), kind)


def _as_compared(threshold: Any) -> Any:
    """The largest float64 that is not above the threshold once rounded to the threshold's type."""
    th = np.clip(threshold, -1.0, 1.0)  # beyond, nothing changes
    if th.dtype == np.float64:
        return th
    half_way = (np.float64(th) + np.float64(np.nextafter(th, np.float32(2.0)))) / 2.0  # a tie goes to the even one
    return np.where(half_way.astype(th.dtype) <= th, half_way, np.nextafter(half_way, -2.0))
