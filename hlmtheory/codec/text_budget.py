"""The fewest bits of a whole text under one budget of bias: the dual of the choice for one row.

By ``skipping.bill_text`` the total variation between the text's law and the target's is at most half the mean sum of
the positions' biases, if the choice at each position depends on its prefix alone. So a text may share one budget, and a
row that is hard to write gets more of it than an easy one. A plan for rows that are all known, as here, looks ahead: it
is what rules that keep the same budget on the text can be compared with. For a price λ each row takes the choice with
the smallest bits + λ · bias, a corner of its lower convex hull. The sum of these, less λ times the budget, is a lower
bound on the bits of every plan (weak duality).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import DomainError, number, numbers
from hlmtheory._quantities import not_negative
from hlmtheory.claims import Assumption, Attained, Claim, Source

# Proofs, by the last part of the id.
#
# text_gap. The steps are taken by rising bits for each unit of bias until the budget is kept. Let λ be the price of the
#   last one. Before and after it, each row has the least bits + λ bias. So the bound is the bits before it plus λ times
#   (bias before it - E), which is positive: without the last step the budget is not kept. The plan has the bits before
#   it plus those of the step, or fewer, since what is done afterwards only saves bits.

Numbers = NDArray[np.float64]

NEAR = 1e-9
"""A running sum this near to the budget is computed again, exactly."""
_DEAREST = 1e290  # bits for a unit of bias; products with a higher price may overflow

_BITS = not_negative("give bits of messages")
_BIAS = not_negative("give certified biases, each in [0, 2]")


@dataclass(frozen=True, slots=True)
class CodecAllocation:
    """Which choice each of T rows takes.

    Attributes
    ----------
    index : int64 array, shape (T,)
        The column of each row's choice.
    bits : float
        Σ_t bits.
    bias : float
        Σ_t bias, rounded up; at most the budget.
    lower_bound : float
        A lower bound on the bits of every plan within the budget, rounded down.
    """

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
    cost, loss = numbers(_BITS, "bits", bits), numbers(_BIAS, "bias", bias)
    budget = number(_BIAS, "bias_budget", bias_budget)
    if cost.ndim != 2 or cost.shape != loss.shape or 0 in cost.shape:
        raise DomainError(f"bits and bias must have one shape (T, J); got {cost.shape} and {loss.shape}; stack choices")
    least = _total(loss.min(axis=1))
    if least > budget:
        raise DomainError(
            f"bias_budget must be at least {least * 1.0005:.4g}, the least that the choices add up to; got {budget:g}"
        )
    index, price = _by_hull(cost, loss, budget)
    index = _spend(cost, loss, budget, index)
    rows = np.arange(len(cost))
    total = math.fsum(cost[rows, index].tolist())
    answer = xp.asarray(index, device=device(given))
    return CodecAllocation(answer, total, _total(loss[rows, index]), min(_dual(cost, loss, budget, price), total))


def _total(bias: Numbers) -> float:
    """The sum, rounded up unless it is exact."""
    total = math.fsum(bias.tolist())
    return total if math.fsum([*bias.tolist(), -total]) <= 0.0 else math.nextafter(total, math.inf)


def _hull(cost: Numbers, loss: Numbers) -> list[int]:
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
    corners = [_hull(*row) for row in zip(cost, loss, strict=True)]
    index = np.asarray([corner[0] for corner in corners], dtype=np.int64)
    with np.errstate(over="ignore"):
        steps = [
            ((cost[t, b] - cost[t, a]) / (loss[t, a] - loss[t, b]), t, b)
            for t, one in enumerate(corners)
            for a, b in pairwise(one)
        ]
    steps.sort(key=lambda step: step[0])  # stable: each row's own steps stay in order
    # Step 2: take steps until the budget is kept; the sum is exact only once it may be
    rows, spent, price = np.arange(len(cost)), _total(loss[np.arange(len(cost)), index]), 0.0
    for price_of_step, t, b in steps:
        if spent <= budget * (1.0 + NEAR) and _total(loss[rows, index]) <= budget:
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
        left = budget - _total(loss[rows, index])
        saved = cost[rows, index][:, None] - cost
        saved[loss - loss[rows, index][:, None] > left] = 0.0
        t, j = np.unravel_index(int(np.argmax(saved)), saved.shape)
        kept, tried = index, index.copy()
        tried[t] = j
        if saved[t, j] <= 0.0 or _total(loss[rows, tried]) > budget:
            return kept
        index = tried


# --------------------------------------------------------------------------------------------- claims


def _each(of: Callable[[Numbers, Numbers, float], float], bits: Array, bias: Array, bias_budget: Array) -> Array:
    """Return one number for each instance, computed on the host from its (T, J) arrays."""
    xp, bits, bias, budget = arrays(bits=bits, bias=bias, bias_budget=bias_budget)
    bits, bias = _BITS.check(xp, "bits", bits), _BIAS.check(xp, "bias", bias)
    budget = _BIAS.check(xp, "bias_budget", budget)
    cost, loss, limit = (to_numpy(value).astype(np.float64) for value in (bits, bias, budget))
    batch = np.broadcast_shapes(cost.shape[:-2], loss.shape[:-2], limit.shape)
    cost, loss = (np.broadcast_to(value, (*batch, *value.shape[-2:])) for value in (cost, loss))
    limit = np.broadcast_to(limit, batch)
    each = [_of_one(of, cost[n], loss[n], float(limit[n])) for n in np.ndindex(*batch)]
    found = np.asarray(each, dtype=np.float64)
    return xp.asarray(found.reshape(batch), device=device(bits))


def _of_one(of: Callable[[Numbers, Numbers, float], float], cost: Numbers, loss: Numbers, budget: float) -> float:
    """Return infinity where no plan keeps the budget, which is out of the claims' scope."""
    return of(cost, loss, budget) if _total(loss.min(axis=1)) <= budget else math.inf


def _plan(cost: Numbers, loss: Numbers, budget: float) -> float:
    """The bits of the public answer, infinite if it breaks the budget."""
    rows, index = np.arange(len(cost)), optimal_codecs(cost, loss, budget).index
    kept = math.fsum(loss[rows, index]) <= budget
    return math.fsum(cost[rows, index]) if kept else math.inf


def _bound(cost: Numbers, loss: Numbers, budget: float) -> float:
    return optimal_codecs(cost, loss, budget).lower_bound


def _with_one_step(cost: Numbers, loss: Numbers, budget: float) -> float:
    """The lower bound and the largest step in bits of any row's hull."""
    corners = [(row, _hull(row, other)) for row, other in zip(cost, loss, strict=True)]
    steps = [row[b] - row[a] for row, one in corners for a, b in pairwise(one)]
    return _bound(cost, loss, budget) + float(max(steps, default=0.0))


def _priced_bias(cost: Numbers, loss: Numbers, budget: float) -> float:
    """The steepest price of a bias times the biases: what their rounding changes in bits."""
    corners = [(row, other, _hull(row, other)) for row, other in zip(cost, loss, strict=True)]
    slopes = [abs((row[b] - row[a]) / (other[b] - other[a])) for row, other, one in corners for a, b in pairwise(one)]
    return float(max(slopes, default=0.0) * (budget + np.max(loss, axis=-1).sum()))


def _side(of: Callable[[Numbers, Numbers, float], float]) -> Callable[..., Array]:
    return lambda bits, bias, bias_budget: _each(of, bits, bias, bias_budget)


def _attainable(bits: Array, bias: Array, bias_budget: Array) -> Array:
    """Whether the least biases add up to the budget or less."""
    return _each(lambda cost, loss, budget: 0.0, bits, bias, bias_budget) == 0


_SOURCE = Source("oh2025cuhlm", "end of IV, the dual objective, for any codec")
_MET = Assumption("some plan keeps the budget", _attainable)
_ONE_STEP = {"bits": [[64.0, 0.0], [0.0, 0.0]], "bias": [[0.0, 1.0], [0.0, 0.0]], "bias_budget": 1 - 2.0**-10}

CLAIMS = (
    Claim(
        id="codec.text_gap",
        source=_SOURCE,
        statement="bits of the plan by the lower hulls ≤ its own lower bound + the most bits of one hull step",
        lhs=_side(_plan),
        rhs=_side(_with_one_step),
        condition=_side(_priced_bias),
        assumptions=(_MET,),
        # the supremum is 1: a budget just below what saves the step
        attained=Attained(_ONE_STEP, ratio=64 / (64 + 2.0**-4)),
    ),
)
