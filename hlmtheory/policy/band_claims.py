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
# band_price. For ν ≥ 0 and Σ w ≤ 1, Σ ω U(X) ≤ Σ (ω U(X) - ν w) + ν, and each term is at most its
#   largest value over plans and shares. X* is bounded by its chords, on which the largest value is known in closed
#   form; for shares below the smallest of the curve by the rate there.

_POINTS = 9
_CELLS = 64
_LOW, _HIGH = 1.0, 256.0  # z over s: shares from 1 to 1/256


def _best(table: dict[str, Any], z: Any) -> Any:
    """X*(z) of each user, shape (..., U) or (...)."""
    return np.max(table["tokens"] / (table["fixed_s"] + table["plan_bits"] * z), axis=-1)


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
        id="policy.band_price",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="Σ ω X of any plans and shares ≤ g(ν) = ν + Σ max_w [ω X*(w) − ν w], X* bounded by its chords",
        relation=Relation.LE,
        lhs=_band_side(_of("linear"), *_SHARED),
        rhs=_band_side(_priced("linear"), *_TABLE, "weights", "band_price"),
        attained=Attained({**_ALONE, "band_price": 0.125}),
    ),
)
