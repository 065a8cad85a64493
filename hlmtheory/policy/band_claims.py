"""Claims on several users of one band, each with its proof above its record.

A user has P plans, each with E tokens, A seconds without air time and b bits in a mean round. Its best rate where a bit
takes z seconds is X*(z) = max E/(A + b z). Here the curves are made from such a list, and not from rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.policy.band_shares import Curve, even_bound, grid_bound, price_bound
from hlmtheory.policy.user_claims import host_side

# Any positive ``parts``, divided by their sum, are shares. The curves know X* at 9 values of z.
#
# Proofs, by the last part of the id.
#
# rate_chord, log_rate_chord. Of one plan, 1/(A + b z) is convex in z, and so is -log(A + b z). A maximum of convex
#   functions is convex, and a convex function is nowhere above its chord.
# band_price, band_log_price. For ν ≥ 0 and Σ w ≤ 1, Σ ω U(X) ≤ Σ (ω U(X) - ν w) + ν, and each term is at most its
#   largest value over plans and shares. X* is bounded by its chords, on which the largest value is known in closed
#   form; for shares below the smallest of the curve by the rate there.
# band_grid. Let i/n be the share rounded up. X* rises with the share, so that the rate is at most that at i/n. The
#   numbers i - 1 add up to less than n. The program has the largest sum of all such i.
# band_even. If all X/ω are at least x, each share is at least the smallest one at which the bound of X* reaches ω x,
#   and these add up to at most 1. The largest such x is found by bisection, and its upper end is taken.

_POINTS = 9
_CELLS = 64
_LOW, _HIGH = 1.0, 256.0  # z over s: shares from 1 to 1/256


def _best(table: dict[str, Any], z: Any) -> Any:
    """X*(z) of each user, shape (..., U) or (...)."""
    return np.max(table["tokens"] / (table["fixed_s"] + table["plan_bits"] * z), axis=-1)


def _chord(one: dict[str, Any], *, log: bool) -> float:
    low, high = sorted((float(one["z"]), float(one["z"] * one["stretch"])))
    ends = np.asarray([_best(one, low), _best(one, high)])
    mix = float(one["mix"])
    if log:
        return float(np.exp((1.0 - mix) * np.log(ends[0]) + mix * np.log(ends[1])))
    return float((1.0 - mix) * ends[0] + mix * ends[1])


def _between(one: dict[str, Any]) -> float:
    low, high = sorted((float(one["z"]), float(one["z"] * one["stretch"])))
    return float(_best(one, low + float(one["mix"]) * (high - low)))


def _curves(one: dict[str, Any]) -> tuple[list[Curve], Any]:
    curves = []
    z = np.geomspace(_LOW, _HIGH, _POINTS)
    for tokens, fixed, bits in zip(one["tokens"], one["fixed_s"], one["plan_bits"], strict=True):
        upper = np.max(tokens / (fixed + bits * z[:, None]), axis=1)
        curves.append(Curve(z, upper, tokens, fixed, bits, (), (), 1.0))
    return curves, np.asarray(one["weights"], dtype=np.float64)


def _competitor(one: dict[str, Any], utility: str) -> float:
    shares = one["parts"] / one["parts"].sum()
    users = np.arange(len(shares))
    place = np.minimum(one["choice"], one["tokens"].shape[1] - 1)
    tokens, fixed, bits = (one[name][users, place] for name in ("tokens", "fixed_s", "plan_bits"))
    rates = tokens * shares / (fixed * shares + bits)
    if utility == "maxmin":
        return float(np.min(rates / one["weights"]))
    if utility == "linear":
        return float(one["weights"] @ rates)
    return math.exp(float(one["weights"] @ np.log(rates)) / float(one["weights"].sum()))


def _of(utility: str) -> Callable[[dict[str, Any]], float]:
    return lambda one: _competitor(one, utility)


def _priced(utility: str) -> Callable[[dict[str, Any]], float]:
    def side(one: dict[str, Any]) -> float:
        curves, weights = _curves(one)
        found = price_bound(curves, weights, float(one["band_price"]), utility)[0]
        return math.exp(min(found / float(weights.sum()), 700.0)) if utility == "log" else found

    return side


def _grid(one: dict[str, Any]) -> float:
    curves, weights = _curves(one)
    return grid_bound(curves, weights, "linear", cells=_CELLS)[1]


def _even(one: dict[str, Any]) -> float:
    return even_bound(*_curves(one))[1]


_line_side = partial(host_side, rank={"tokens": 1, "fixed_s": 1, "plan_bits": 1})
_band_side = partial(host_side, rank={"tokens": 2, "fixed_s": 2, "plan_bits": 2, "weights": 1, "parts": 1, "choice": 1})
_SOURCE = Source("zhu2025edgesd", "(26), with draft lengths and messages")
_TABLE = ("tokens", "fixed_s", "plan_bits")
_LINE = (*_TABLE, "z", "stretch", "mix")
_SHARED = (*_TABLE, "weights", "parts", "choice")
_ONE = {"tokens": [2.0], "fixed_s": [0.5], "plan_bits": [0.5], "z": 1.0, "stretch": 2.0, "mix": 0.0}
_TWO: dict[str, list[Any]] = {
    "tokens": [[2.0], [2.0]],
    "fixed_s": [[0.5], [0.5]],
    "plan_bits": [[0.5], [0.5]],
    "weights": [1.0, 1.0],
    "parts": [1.0, 1.0],
    "choice": [0, 0],
}
_ALONE = {name: value[:1] for name, value in _TWO.items()}
"""Shares of 1 and of a half are points of the curve, where the chords are exact."""

BAND_CLAIMS = (
    Claim(
        id="policy.rate_chord",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="between two values of z, X*(z) ≤ the straight line",
        relation=Relation.LE,
        lhs=_line_side(_between, *_LINE),
        rhs=_line_side(lambda one: _chord(one, log=False), *_LINE),
        attained=Attained(_ONE),
    ),
    Claim(
        id="policy.log_rate_chord",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="between two values of z, log X*(z) ≤ the straight line between the logarithms",
        relation=Relation.LE,
        lhs=_line_side(_between, *_LINE),
        rhs=_line_side(lambda one: _chord(one, log=True), *_LINE),
        attained=Attained(_ONE),
    ),
    Claim(
        id="policy.band_price",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="Σ ω X of any plans and shares ≤ g(ν) = ν + Σ max_w [ω X*(w) − ν w], X* bounded by its chords",
        relation=Relation.LE,
        lhs=_band_side(_of("linear"), *_SHARED),
        rhs=_band_side(_priced("linear"), *_TABLE, "weights", "band_price"),
        attained=Attained({**_ALONE, "band_price": 0.125}),
    ),
    Claim(
        id="policy.band_log_price",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="the geometric mean of X of any plans and shares ≤ exp(g(ν)/Σ ω), g with ω log X*",
        relation=Relation.LE,
        lhs=_band_side(_of("log"), *_SHARED),
        rhs=_band_side(_priced("log"), *_TABLE, "weights", "band_price"),
        attained=Attained({**_ALONE, "band_price": 0.125}),
    ),
    Claim(
        id="policy.band_grid",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="Σ ω X of any plans and shares ≤ max Σ ω X*(i/n) over whole i with Σ (i − 1) ≤ n",
        relation=Relation.LE,
        lhs=_band_side(_of("linear"), *_SHARED),
        rhs=_band_side(_grid, *_TABLE, "weights"),
        attained=Attained(_ALONE),
    ),
    Claim(
        id="policy.band_even",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="min X/ω of any plans and shares ≤ the largest x whose least shares add up to 1",
        relation=Relation.LE,
        lhs=_band_side(_of("maxmin"), *_SHARED),
        rhs=_band_side(_even, *_TABLE, "weights"),
        attained=Attained(_TWO),
    ),
)
