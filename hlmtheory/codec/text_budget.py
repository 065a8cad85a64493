"""The fewest bits of a whole text under one budget of bias: the dual of the choice for one row.

By ``skipping.bill_text`` the total variation between the text's law and the target's is at most half the mean sum of
the positions' biases, if the choice at each position depends on its prefix alone. So a text may share one budget, and a
row that is hard to write gets more of it than an easy one. A plan for rows that are all known, as here, looks ahead: it
is what rules that keep the same budget on the text can be compared with. For a price λ each row takes the choice with
the smallest bits + λ · bias, a corner of its lower convex hull. The sum of these, less λ times the budget, is a lower
bound on the bits of every plan (weak duality).
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays
from hlmtheory._domains import DomainError, number, numbers
from hlmtheory._quantities import not_negative

Numbers = NDArray[np.float64]

NEAR = 1e-9
"""A running sum this near to the budget is computed again, exactly."""
_DEAREST = 1e290  # bits for a unit of bias; products with a higher price may overflow

BITS = not_negative("give bits of messages")
BIAS = not_negative("give certified biases, each in [0, 2]")


@dataclass(frozen=True, slots=True)
class CodecAllocation:
    """The column (T,) of each row's choice, Σ bits, Σ bias rounded up, and a lower bound on the bits of every plan."""

    index: Array
    bits: float
    bias: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How many bits ``bits`` can be from the optimum; less than the largest step of one row's hull."""
        return self.bits - self.lower_bound


def optimal_codecs(bits: Array, bias: Array, bias_budget: float) -> CodecAllocation:
    """The choice of each row, with few bits in all, for one budget of bias over a text.

    Parameters
    ----------
    bits, bias : array, shape (T, J)
        Of J choices of each row, such as :func:`cheapest_codec` at J tolerances; 0 or more.
    bias_budget : float
        E, 0 or more: the largest Σ_t bias.

    Returns
    -------
    CodecAllocation
        By the lower hulls, O(T J log(T J)), then each row's cheapest choice that the unspent budget allows.

    Raises
    ------
    ValueError
        If a number is negative or not finite, the shapes differ or are not (T, J), or no plan keeps the budget.

    Examples
    --------
    >>> found = optimal_codecs([[20.0, 4.0], [90.0, 10.0]], [[0.0, 0.5], [0.0, 0.5]], 0.5)
    >>> found.index.tolist(), found.bits, round(found.lower_bound, 9)
    ([0, 1], 30.0, 30.0)
    """
    xp, given, _ = arrays(bits=bits, bias=bias)
    cost, loss = numbers(BITS, "bits", bits), numbers(BIAS, "bias", bias)
    budget = number(BIAS, "bias_budget", bias_budget)
    if cost.ndim != 2 or cost.shape != loss.shape or 0 in cost.shape:
        raise DomainError(f"bits and bias must have one shape (T, J); got {cost.shape} and {loss.shape}; stack choices")
    least = total_bias(loss.min(axis=1))
    if least > budget:
        raise DomainError(
            f"bias_budget must be at least {least * 1.0005:.4g}, the least that the choices add up to; got {budget:g}"
        )
    index, price = _by_hull(cost, loss, budget)
    index = _spend(cost, loss, budget, index)
    rows = np.arange(len(cost))
    total = math.fsum(cost[rows, index].tolist())
    answer = xp.asarray(index, device=device(given))
    return CodecAllocation(answer, total, total_bias(loss[rows, index]), min(_dual(cost, loss, budget, price), total))


def total_bias(bias: Numbers) -> float:
    """The sum, rounded up unless it is exact."""
    total = math.fsum(bias.tolist())
    return total if math.fsum([*bias.tolist(), -total]) <= 0.0 else math.nextafter(total, math.inf)


def hull_corners(cost: Numbers, loss: Numbers) -> list[int]:
    """The corners of a row's lower convex hull of (bias, bits), from the fewest bits to the least bias."""
    order = np.lexsort((loss, cost)).tolist()
    front: list[int] = []
    for j in order:  # by bits, and of equal bits the least bias first
        if front and loss[j] >= loss[front[-1]]:
            continue
        while len(front) > 1 and _above(cost, loss, front[-2], front[-1], j):
            front.pop()
        front.append(j)
    return front


def _above(cost: Numbers, loss: Numbers, a: int, b: int, c: int) -> bool:
    """Whether b lies on or above the line from a to c."""
    return bool((cost[b] - cost[a]) * (loss[a] - loss[c]) >= (cost[c] - cost[a]) * (loss[a] - loss[b]))


def _by_hull(cost: Numbers, loss: Numbers, budget: float) -> tuple[NDArray[np.int64], float]:
    """Steps by rising price until the budget is kept, and the price of the last step."""
    # Step 1: each row at its fewest bits; the steps of all rows by bits for each unit of bias
    corners = [hull_corners(*row) for row in zip(cost, loss, strict=True)]
    index = np.asarray([corner[0] for corner in corners], dtype=np.int64)
    with np.errstate(over="ignore"):
        steps = [
            ((cost[t, b] - cost[t, a]) / (loss[t, a] - loss[t, b]), t, b)
            for t, one in enumerate(corners)
            for a, b in pairwise(one)
        ]
    steps.sort(key=lambda step: step[0])  # stable: each row's own steps stay in order
    # Step 2: take steps until the budget is kept; the sum is exact only once it may be
    rows, spent, price = np.arange(len(cost)), total_bias(loss[np.arange(len(cost)), index]), 0.0
    for price_of_step, t, b in steps:
        if spent <= budget * (1.0 + NEAR) and total_bias(loss[rows, index]) <= budget:
            break
        price = float(price_of_step)
        spent += float(loss[t, b] - loss[t, index[t]])
        index[t] = b
    return index, price


def _dual(cost: Numbers, loss: Numbers, budget: float, price: float) -> float:
    """Σ_t min_j (bits + λ bias) - λ E, rounded down; at least its value at λ = 0, where a sum may be exact."""
    fewest = cost.min(axis=1).tolist()
    free = math.fsum(fewest)
    free = free if math.fsum([*fewest, -free]) >= 0.0 else math.nextafter(free, 0.0)
    if not 0.0 < price < _DEAREST:  # a step between subnormal biases has an infinite price
        return free
    each = math.fsum((cost + price * loss).min(axis=1).tolist())
    error = (len(cost) + 8) * (2.0**-52 * (each + price * budget) + 2.0**-1074)
    return max(each - price * budget - error, free)


def _spend(cost: Numbers, loss: Numbers, budget: float, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spend what is left of the budget: again and again the choice that saves most bits and still fits."""
    rows = np.arange(len(cost))
    while True:
        left = budget - total_bias(loss[rows, index])
        saved = cost[rows, index][:, None] - cost
        saved[loss - loss[rows, index][:, None] > left] = 0.0
        t, j = np.unravel_index(int(np.argmax(saved)), saved.shape)
        kept, tried = index, index.copy()
        tried[t] = j
        if saved[t, j] <= 0.0 or total_bias(loss[rows, tried]) > budget:
            return kept
        index = tried
