"""Claims on several users of one band, each with its proof above its record.

A user has P plans, each with E tokens, A seconds without air time and b bits in a mean round. Its best rate where a bit
takes z seconds is X*(z) = max E/(A + b z). Here the curves are made from such a list, and not from rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.policy.band_shares import Curve, price_bound
from hlmtheory.policy.user_claims import host_side

# Any positive ``parts``, divided by their sum, are shares. The curves know X* at 9 values of z.
#
# Proofs, by the last part of the id.
#
# band_price. For ν ≥ 0 and Σ w ≤ 1, Σ ω U(X) ≤ Σ (ω U(X) - ν w) + ν, and each term is at most its
#   largest value over plans and shares. X* is bounded by its chords, on which the largest value is known in closed
#   form; for shares below the smallest of the curve by the rate there.

_POINTS = 9
_LOW, _HIGH = 1.0, 256.0  # z over s: shares from 1 to 1/256


def _curves(one: dict[str, Any]) -> tuple[list[Curve], Any]:
    curves = []
    z = np.geomspace(_LOW, _HIGH, _POINTS)
    for tokens, fixed, bits in zip(one["tokens"], one["fixed_s"], one["plan_bits"], strict=True):
        upper = np.max(tokens / (fixed + bits * z[:, None]), axis=1)
        curves.append(Curve(z, upper, tokens, fixed, bits, (), (), 1.0))
    return curves, np.asarray(one["weights"], dtype=np.float64)


def _competitor(one: dict[str, Any]) -> float:
    shares = one["parts"] / one["parts"].sum()
    users = np.arange(len(shares))
    place = np.minimum(one["choice"], one["tokens"].shape[1] - 1)
    tokens, fixed, bits = (one[name][users, place] for name in ("tokens", "fixed_s", "plan_bits"))
    return float(one["weights"] @ (tokens * shares / (fixed * shares + bits)))


def _priced(one: dict[str, Any]) -> float:
    return price_bound(*_curves(one), float(one["band_price"]), "linear")[0]


_band_side = partial(host_side, rank={"tokens": 2, "fixed_s": 2, "plan_bits": 2, "weights": 1, "parts": 1, "choice": 1})
_SOURCE = Source("zhu2025edgesd", "(26), with draft lengths and messages")
_TABLE = ("tokens", "fixed_s", "plan_bits")
_SHARED = (*_TABLE, "weights", "parts", "choice")
_ALONE: dict[str, list[Any]] = {
    "tokens": [[2.0]],
    "fixed_s": [[0.5]],
    "plan_bits": [[0.5]],
    "weights": [1.0],
    "parts": [1.0],
    "choice": [0],
}

BAND_CLAIMS = (
    Claim(
        id="policy.band_price",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="Σ ω X of any plans and shares ≤ g(ν) = ν + Σ max_w [ω X*(w) − ν w], X* bounded by its chords",
        relation=Relation.LE,
        lhs=_band_side(_competitor, *_SHARED),
        rhs=_band_side(_priced, *_TABLE, "weights", "band_price"),
        attained=Attained({**_ALONE, "band_price": 0.125}),
    ),
)
