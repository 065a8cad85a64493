"""Evidence from draws that a sampler has another law than its target, and how far apart the two laws are at least.

Draw i is x_i. Given all earlier draws its law is Q_i, and the target's law for the same prompt is P_i. A test function
f_i has values in [0, 1] and is fixed before draw i. Its mean under P_i is known. So D_i = f_i(x_i) - P_i f_i has a mean
of 0 if the sampler keeps the target's law, and in general of at most TV(Q_i, P_i).

With λ_i = min(λ, 0.9/P_i f_i), the wealth is W_t = Π_{i ≤ t} (1 + λ_i D_i), averaged over test functions and λ. A
wealth of 1/δ shows that the law is not kept: whenever one looks, this is wrong with probability at most δ.
"""

import math
from typing import Any

from hlmtheory._array import Array, arrays, in_kind, is_array, widest
from hlmtheory._betting import SLACK, checked_bets, crossing, down, mean_wealth, running_down
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, entry_for_each, leading_dimensions, number
from hlmtheory._quantities import open_unit

BETS = tuple(2.0**power for power in range(-8, 9))
"""Values of λ. The best one is near 4 TV for an event of probability 1/2, and larger for a rarer one."""

SHARE = 0.9
"""Largest part of the wealth that one draw can lose."""

DOMAINS = {
    "outcome": UNIT_INTERVAL,
    "expected": UNIT_INTERVAL,
    "error": open_unit("δ is the probability of a wrong statement, such as 0.001"),
    "bets": Domain(
        "in [0.000001, 1000000]",
        lambda xp, value: (value >= 1e-6) & (in_kind(xp, value, xp.float64) <= 1e6),  # float16 ends at 65,504
        "a bet is a factor of f - P f, such as 0.1",
    ),
}


def law_wealth(outcome: Array, expected: Array, bets: Array = BETS) -> Array:
    """Return log W_t (..., T), rounded down; at log(1/δ) or above, the sampler's law is not the target's.

    ``outcome`` and ``expected`` (..., K, T) are f(x) and P f of K test functions; the mean is over K and the bets (...,
    J).
    """
    xp, kind, seen, mean, _, shares = _inputs(outcome, expected, bets)
    gains = running_down(xp, _gains(xp, seen[..., None], mean[..., None], shares[..., None, None, :]))
    return down(xp, mean_wealth(xp, gains, (-3, -1)), kind)


def distance_bound(outcome: Array, expected: Array, error: Array, bets: Array = BETS) -> Array:
    """Return a lower bound (..., T) on the mean of TV(Q_1, P_1), ..., TV(Q_t, P_t), valid at all t; rounded down.

    The bound on the sum is the S at which the mean over functions and bets of W_t exp(-λS) is 1/δ.
    """
    xp, kind, seen, mean, delta, shares = _inputs(outcome, expected, bets, error=error)
    gains = running_down(xp, _gains(xp, seen[..., None], mean[..., None], shares[..., None, None, :]))
    gains = xp.moveaxis(gains, -2, -3)  # (..., T, K, J)
    draws = xp.arange(1, seen.shape[-1] + 1, dtype=xp.float64, device=seen.device)
    return down(xp, _least_sum(xp, gains, shares[..., None, :], delta[..., None]) / draws, kind)


class LawTest:
    """Test of a sampler's law, chunk by chunk: the same numbers as the functions of whole sequences.

    Memory does not grow with the number of draws.

    Parameters
    ----------
    tests : int
        K, the number of test functions.
    error : float
        δ in (0, 1).
    bets : array, shape (J,)
        See :func:`law_wealth`.

    Attributes
    ----------
    draws : int
        Draws so far.
    log_wealth, bound : float
        As :func:`law_wealth` and :func:`distance_bound` give them after the last draw.

    Raises
    ------
    ValueError
        If a value is outside its range.

    Examples
    --------
    >>> test = LawTest(tests=1, error=0.001)
    >>> test.update([[1.0] * 2000], [[0.5] * 2000])
    >>> test.draws, round(test.bound, 2)
    (2000, 0.45)
    """

    def __init__(self, tests: int, error: float, bets: Array = BETS) -> None:
        self._tests = number(_TESTS, "tests", tests)
        self._error = number(DOMAINS["error"], "error", error)
        xp, given = arrays(bets=bets)
        given = checked_bets(xp, DOMAINS["bets"], given, one_list=True)
        self._bets: Any = given if is_array(bets) else given.tolist()  # numbers go with arrays of every library
        self.draws = 0
        self._gain: Any = None

    def update(self, outcome: Array, expected: Array) -> None:
        """Take further draws.

        Parameters
        ----------
        outcome, expected : array, shape (K, n)
            f(x) of the n draws in order, and P f.

        Raises
        ------
        ValueError
            If a value is outside [0, 1], or the shapes do not match.
        """
        xp, _, seen, mean, _, bets = _inputs(outcome, expected, self._bets)
        if seen.ndim != 2 or seen.shape[0] != self._tests:
            raise DomainError(f"outcome must have the shape ({self._tests}, n); got {tuple(seen.shape)}")
        gains = _gains(xp, seen[..., None], mean[..., None], bets)
        gain, size = xp.sum(gains, axis=-2), xp.sum(xp.abs(gains), axis=-2)
        gain = gain - 2.0**-52 * (seen.shape[-1] + 8.0) * size  # a bound on the rounding of the sum
        if self._gain is not None:
            gain = self._gain + gain
            gain = gain - 2.0**-52 * xp.abs(gain)
        self._gain = gain
        self.draws += seen.shape[-1]

    @property
    def log_wealth(self) -> float:
        """Return log W, 0 before the first draw."""
        if self._gain is None:
            return 0.0
        xp, gain = arrays(gain=self._gain)
        return float(down(xp, mean_wealth(xp, gain, (-2, -1)), xp.float64))

    @property
    def bound(self) -> float:
        """Return the lower bound on the mean total variation of the draws so far, 0 before the first."""
        if self._gain is None or self.log_wealth < -math.log(self._error):  # too little wealth for any bound above 0
            return 0.0
        xp, gain, bets = arrays(gain=self._gain, bets=self._bets)
        error = xp.asarray(self._error, dtype=xp.float64, device=gain.device)
        return float(down(xp, _least_sum(xp, gain, bets, error) / self.draws, xp.float64))


_TESTS = Domain("a whole number, 1 or more", lambda xp, value: value >= 1, "count the test functions", kind="integer")


def _inputs(outcome: Array, expected: Array, bets: Array, **other: Array) -> tuple[Any, ...]:
    """Return the namespace, the result dtype, f(x) and P f (..., K, T), the other value or None, and λ (..., J)."""
    xp, seen, mean, shares, *level = arrays(
        "expected", "bets", *other, outcome=outcome, expected=expected, bets=bets, **other
    )
    for label, one in (("outcome", seen), ("expected", mean), *zip(other, level, strict=True)):
        DOMAINS[label].check(xp, label, one)
    kind, shares = widest(xp, seen), checked_bets(xp, DOMAINS["bets"], shares)
    for label, one in (("outcome", seen), ("expected", mean)):
        entry_for_each("draw", **{label: tuple(one.shape)})
        if one.ndim < 2 or one.shape[-2] == 0:
            raise DomainError(f"{label} must have the shape (..., K, T) with K test functions; got {tuple(one.shape)}")
    if seen.shape[-2:] != mean.shape[-2:]:
        raise DomainError(f"outcome and expected must share (K, T); got {tuple(seen.shape)} and {tuple(mean.shape)}")
    leading_dimensions(
        outcome=tuple(seen.shape[:-2]),
        expected=tuple(mean.shape[:-2]),
        bets=tuple(shares.shape[:-1]),
        **{name: tuple(one.shape) for name, one in zip(other, level, strict=True)},
    )
    wide = [in_kind(xp, one, xp.float64) for one in (seen, mean, *level)]
    return (xp, kind, wide[0], wide[1], wide[2] if level else None, shares)


def _gains(xp: Any, seen: Array, mean: Array, bets: Array) -> Array:
    """Return log(1 + λ_i D_i) with λ_i = min(λ, 0.9/P f)."""
    capped = mean * bets > SHARE
    used = xp.where(capped, SHARE / xp.where(capped, mean, 1.0), bets)
    return xp.log1p(used * (seen - mean))


def _least_sum(xp: Any, gains: Array, bets: Array, error: Array) -> Array:
    """Return the S of :func:`distance_bound`, at least 0, from log W (..., K, J), λ (..., J) and δ (...)."""
    shape = (*gains.shape[:-2], gains.shape[-2] * gains.shape[-1])
    stakes = xp.reshape(xp.broadcast_to(bets[..., None, :], gains.shape), shape)
    return xp.clip(-crossing(xp, xp.reshape(gains, shape), stakes, error), min=0.0) * (1.0 - SLACK)
