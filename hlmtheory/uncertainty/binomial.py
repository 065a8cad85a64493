"""The decision by M samples: whether u ≤ u_th, when M u is Binomial(M, E[u])."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions
from hlmtheory._quantities import open_unit, whole_from_one

DRAWS = 20

_DOMAINS = {
    "expected": UNIT_INTERVAL,
    "threshold": Domain("finite", lambda xp, value: xp.isfinite(value), "give the uncertainty up to which to skip"),
    "draws": whole_from_one("an uncertainty is a share of at least one sample"),
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
        u_th, any finite number: below 0 nothing is skipped, from 1 on everything.
    draws : integer array, shape (...)
        M, 1 or more.

    Returns
    -------
    array, shape (...)
        In [0, 1]; the rule is cu-hlm (10).

    Raises
    ------
    ValueError
        If E[u] is outside [0, 1], u_th is not finite, or M is no whole number from 1 on.

    Examples
    --------
    >>> skip_probability([0.0, 0.5, 1.0], 0.5, 2).tolist()
    [1.0, 0.75, 0.0]
    """
    from scipy.special import bdtr

    return _binomial(bdtr, 0.0, expected, threshold, draws)


def decision_error(expected: Array, threshold: Array, draws: Array = DRAWS) -> Array:
    """Probability that M samples decide otherwise than E[u] would: skip where E[u] > u_th, or not where E[u] ≤ u_th.

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
    from scipy.special import bdtrc

    xp, e, th, skipped = arrays(
        expected=expected, threshold=threshold, skipped=skip_probability(expected, threshold, draws)
    )
    sent = _binomial(bdtrc, 1.0, expected, threshold, draws)
    return xp.where(e > th, skipped, sent)


def draws_needed(expected: Array, threshold: Array, error: Array) -> Array:
    """Draws M from which on the decision is wrong with at most a given probability.

    ln(1/error) / KL(u_th ‖ E[u]) by Chernoff's bound, so it is safe at every M from there on, across the sawtooth; the
    least M that happens to do is smaller.

    Parameters
    ----------
    expected : array, shape (...)
        E[u] in [0, 1], not at the threshold itself: there no M is enough.
    threshold : array, shape (...)
        u_th, finite.
    error : array, shape (...)
        Wanted decision error, in (0, 1).

    Returns
    -------
    integer array, shape (...)
        1 or more; 1 where the threshold is outside [0, 1), as nothing is decided there.

    Raises
    ------
    ValueError
        If an argument is outside its domain, or E[u] is so near to the threshold that M would pass 2^53.

    Examples
    --------
    >>> draws_needed([0.5, 0.125], 0.25, 0.01).tolist()
    [36, 80]
    """
    from scipy.special import rel_entr

    xp, given = checked_together(expected=expected, threshold=threshold, error=error)
    e, th, wanted = (to_numpy(value).astype(np.float64) for value in given)
    inside = (th >= 0) & (th < 1)
    th = np.where(inside, th, 0.0)
    divergence = np.where(inside, rel_entr(th, e) + rel_entr(1.0 - th, 1.0 - e), np.inf)
    with np.errstate(divide="ignore"):
        draws = np.ceil(-np.log(wanted) / divergence)
    if not np.all(draws < 2.0**53):
        stray = np.broadcast_to(e, draws.shape)[~(draws < 2.0**53)].flat[0]
        raise DomainError(
            f"expected must differ from the threshold; got {float(stray)!r}; at the threshold itself no number of "
            "draws decides"
        )
    return xp.asarray(np.maximum(draws, 1.0).astype(np.int64), device=given[0].device)


def checked_together(**values: Any) -> tuple[Array, list[Array]]:
    """The namespace and the values, each in the domain of its name, their shapes compatible."""
    xp, *given = arrays(**values)
    for name, value in zip(values, given, strict=True):
        _DOMAINS[name].check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in zip(values, given, strict=True)})
    return xp, given


def _binomial(tail: Callable[..., Any], below_zero: float, expected: Array, threshold: Array, draws: Array) -> Array:
    """A tail of Binomial(M, E[u]) at the largest count j with j/M ≤ u_th, or its value where there is none."""
    xp, given = checked_together(expected=expected, threshold=threshold, draws=draws)
    e, th, m = (to_numpy(value).astype(np.float64) for value in given)
    th = np.clip(th, -1.0, 1.0)  # beyond, nothing changes
    count = np.floor(m * th)
    count = np.where((count + 1.0) / m <= th, count + 1.0, count)  # as u = j/M is compared, not j = M u
    count = np.where(count / m > th, count - 1.0, count)
    value = np.where(count < 0, below_zero, tail(np.maximum(count, 0.0), m.astype(np.int64), e))
    return in_kind(xp, xp.asarray(value, device=given[0].device), widest(xp, given[0], given[1]))
