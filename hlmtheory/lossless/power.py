"""How much a number of draws can show: the smallest distance that is found, and how many draws a distance needs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array
from hlmtheory._domains import DomainError, entry_for_each, number, numbers
from hlmtheory._quantities import open_unit, whole_from_one
from hlmtheory.lossless.evidence import BETS, DOMAINS, SHARE

MOST_DRAWS = 10**12
"""Largest number of draws that :func:`draws_to_find` considers."""

_WHOLE = {name: whole_from_one(f"count the {name}") for name in ("draws", "tests")}
OPEN = {
    "distance": open_unit("a total variation, such as 0.01"),
    "power": open_unit("the probability that the distance is found, such as 0.9"),
    "event": open_unit("the target's probability of the event that shows the difference, such as 0.5"),
    "error": DOMAINS["error"],
}


def power_to_find(
    draws: int, distance: float, error: float, tests: int = 1, event: float = 0.5, bets: Array = BETS
) -> float:
    """Return a lower bound on the probability that a distance is found within a number of draws.

    The sampler's law differs from the target's on one of the K events that are tested: the event has probability a
    under the target's law and a + TV under the sampler's. The wealth of that event and one λ, divided by the number K J
    of wealths in the mean, reaches 1/δ from some number of successes on, which is binomial.

    Parameters
    ----------
    draws : int
        n.
    distance : float
        TV in (0, 1), with a + TV < 1.
    error : float
        δ in (0, 1).
    tests : int
        K, the number of test functions.
    event : float
        a in (0, 1).
    bets : array, shape (J,)
        See :func:`law_wealth`.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        If a value is outside its range, or the event would have a probability of 1 or more.

    Examples
    --------
    >>> round(power_to_find(10_000, 0.05, error=0.001), 2)
    1.0
    """
    n, count = (number(_WHOLE[name], name, value) for name, value in (("draws", draws), ("tests", tests)))
    given = (("distance", distance), ("error", error), ("event", event))
    apart, delta, mean = (number(OPEN[name], name, value) for name, value in given)
    if mean + apart >= 1.0:
        raise DomainError(f"distance must be below 1 - event = {1 - mean:g}; got {apart:g}; give a smaller one")
    return _power(n, apart, mean, _needed(n, mean, math.log(count / delta), _shares(bets)))


def smallest_found(
    draws: int, error: float, tests: int = 1, power: float = 0.9, event: float = 0.5, bets: Array = BETS
) -> float:
    """Return the smallest distance that a number of draws finds with a given probability.

    Parameters
    ----------
    draws, error, tests, event, bets
        See :func:`power_to_find`.
    power : float
        In (0, 1).

    Returns
    -------
    float
        In (0, 1 - a], rounded up to 1e-6 relative; 1 - a if these draws are too few for any distance.

    Raises
    ------
    ValueError
        See :func:`power_to_find`.

    Examples
    --------
    >>> round(smallest_found(100_000, error=0.001), 4)
    0.0091
    """
    n, count = (number(_WHOLE[name], name, value) for name, value in (("draws", draws), ("tests", tests)))
    given = (("error", error), ("power", power), ("event", event))
    delta, wanted, mean = (number(OPEN[name], name, value) for name, value in given)
    needed = _needed(n, mean, math.log(count / delta), _shares(bets))
    low, high = 0.0, 1.0 - float(mean)
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _power(n, middle, mean, needed) >= wanted else (middle, high)
    return high


def draws_to_find(
    distance: float, error: float, tests: int = 1, power: float = 0.9, event: float = 0.5, bets: Array = BETS
) -> int:
    """Return how many draws find a distance with a given probability.

    Parameters
    ----------
    distance, error, tests, power, event, bets
        See :func:`power_to_find` and :func:`smallest_found`.

    Returns
    -------
    int
        At most ``MOST_DRAWS``. Every larger number finds the distance as well, up to the steps of the binomial law.

    Raises
    ------
    ValueError
        If a value is outside its range, or ``MOST_DRAWS`` are not enough.

    Examples
    --------
    >>> draws_to_find(0.05, error=0.001) < 5000
    True
    """
    count, wanted = number(_WHOLE["tests"], "tests", tests), number(OPEN["power"], "power", power)
    low, high = 0, 64
    while power_to_find(high, distance, error, count, event, bets) < wanted:
        low, high = high, 2 * high
        if high > MOST_DRAWS:
            raise DomainError(f"distance must be one that {MOST_DRAWS:g} draws find; got {distance:g}")
    while high - low > 1:
        middle = (low + high) // 2
        found = power_to_find(middle, distance, error, count, event, bets) >= wanted
        low, high = (low, middle) if found else (middle, high)
    return high


def _shares(bets: Array) -> NDArray[np.float64]:
    """Return the checked bets."""
    found: NDArray[np.float64] = numbers(DOMAINS["bets"], "bets", bets)
    entry_for_each("bet", bets=found.shape)
    if found.ndim > 1:
        raise DomainError(f"bets must have one dimension; got shape {found.shape}; give a list")
    return found


def _needed(n: int, mean: float, limit: float, bets: NDArray[np.float64]) -> int:
    """Return the fewest successes of n with which one of the J wealths, over J, is at least 1/δ; n + 1 if none."""
    used = np.minimum(bets, SHARE / mean)
    gain, loss = np.log1p(used * (1.0 - mean)), np.log1p(-used * mean)
    least = np.ceil((limit + math.log(len(used)) - n * loss) / (gain - loss) * (1.0 + 1e-12))
    return int(min(max(float(least.min()), 0.0), n + 1))


def _power(n: int, distance: float, mean: float, needed: int) -> float:
    """Return P(Bin(n, a + TV) ≥ needed)."""
    from scipy.special import betainc

    if needed > n:
        return 0.0
    return 1.0 if needed <= 0 else float(betainc(needed, n - needed + 1, mean + distance))
