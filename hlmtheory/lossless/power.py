"""How much a number of draws can show: the smallest distance that is found, and how many draws a distance needs."""

import math

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, to_numpy, upward
from hlmtheory._betting import checked_bets
from hlmtheory._domains import UNIT_INTERVAL, DomainError, number
from hlmtheory._quantities import checked, open_unit, whole_from_one
from hlmtheory.lossless.evidence import BETS, DOMAINS, SHARE

MOST_DRAWS = 10**12
"""Largest number of draws that :func:`draws_to_find` considers."""
_ROUNDING = 1e-11  # relative, of a tail of the binomial law

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
    """Return a lower bound on P(a distance is found within n draws) for one of K tested events, of probability a.

    Under the sampler's law it has a + TV. The wealth of that event and one λ, over the K J in the mean, reaches 1/δ
    from some number of successes on, which is binomial.
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
    """Return the smallest distance that n draws find with a given power, rounded up to 1e-6; 1 - a if none is."""
    n, count = (number(_WHOLE[name], name, value) for name, value in (("draws", draws), ("tests", tests)))
    given = (("error", error), ("power", power), ("event", event))
    delta, wanted, mean = (number(OPEN[name], name, value) for name, value in given)
    needed = _needed(n, mean, math.log(count / delta), _shares(bets))
    low, high = 0.0, 1.0 - float(mean)
    while high - low > max(1e-6 * high, 1e-300):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _reaches(n, middle, mean, needed, wanted) else (middle, high)
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
    xp, given = arrays(bets=bets)
    return np.asarray(to_numpy(checked_bets(xp, DOMAINS["bets"], given, one_list=True)))


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


def _reaches(n: int, distance: float, mean: float, needed: int, wanted: float) -> bool:
    """Return whether P(Bin(n, a + TV) ≥ needed) is the wanted power at least, whatever the rounding."""
    from scipy.special import betainc, betaincc

    if not 0 < needed <= n:
        return needed <= 0
    given = needed, n - needed + 1, math.nextafter(mean + distance, 0.0)
    if wanted < 0.5:
        return math.nextafter(float(betainc(*given)) * (1.0 - _ROUNDING), -1.0) >= wanted
    return float(betaincc(*given)) * (1.0 + _ROUNDING) <= 1.0 - wanted  # a power near 1 would lose its digits


STEP = {"step_distance": UNIT_INTERVAL, "tokens": whole_from_one("count the tokens of the text")}


def text_distance(step_distance: Array, tokens: Array) -> Array:
    """Return the largest TV of texts of T tokens with steps of at most τ, rounded up: 1 - (1 - τ)^T.

    ``step_distance`` τ in [0, 1], the TV of a step given the text before it, and whole ``tokens`` T, of shape (...);
    other values raise a ValueError.
    """
    xp, tau, count = checked(STEP, step_distance=step_distance, tokens=tokens)
    kind = tau.dtype
    wide, many = xp.astype(tau, xp.float64), xp.astype(count, xp.float64)
    apart = -xp.expm1(many * xp.log1p(-xp.where(wide < 1, wide, 0.0))) * (1.0 + 2.0**-50)  # right for every small τ
    return upward(xp, xp.where(wide < 1, xp.clip(apart, max=1.0), 1.0), kind)
