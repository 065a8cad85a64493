"""Sides of the theorems on several users of one band and one server."""

import itertools
from typing import Any

import numpy as np

from hlmtheory.policy.band_shares import Curve, lines_of, price_bound
from hlmtheory.policy.capacity import SharedServer
from hlmtheory.policy.queueing import Pass, longest_response, passes
from hlmtheory.sides.host import Values

# A user has P plans, whose mean rounds have E tokens, A seconds without air time, b bits and σ seconds of the server. A
# competitor takes any plans and shares, and each user a part of the rate that these allow; all are slowed down alike
# if they would need more than the server's time.

_POINTS = 9
_LOW = 1.0
_HIGH = 256.0


def _curves(one: Values, weights: Any, price: float) -> list[Curve]:
    """Curves of the worth of each user's plans at a price of the server."""
    curves = []
    z = np.geomspace(_LOW, _HIGH, _POINTS)
    for user, weight in enumerate(weights.tolist()):
        fixed, bits = one["fixed_s"][user], one["plan_bits"][user]
        worth = np.maximum(one["tokens"][user] - price / weight * one["plan_load"][user], 0.0)
        upper = np.max(worth / (fixed + bits * z[:, None]), axis=1)
        curves.append(Curve(z, upper, worth, fixed, bits, (), (), 1.0))
    return curves


def competing_rates(one: Values) -> Any:
    shares = one["parts"] / one["parts"].sum()
    users = np.arange(len(shares))
    place = np.minimum(one["choice"], one["tokens"].shape[1] - 1)
    tokens, fixed, bits, load = (one[name][users, place] for name in ("tokens", "fixed_s", "plan_bits", "plan_load"))
    rates = one["use"] * tokens * shares / (fixed * shares + bits)
    return rates / max(1.0, float(np.sum(rates * load / tokens)))


def on_the_band(one: Values) -> Values:
    """The same instance with a server that has time for all."""
    return one | {"plan_load": 0.0 * one["tokens"], "use": 1.0, "server_price": 0.0}


def bound(one: Values, weights: Any) -> float:
    price = float(one["server_price"])
    return price_bound(lines_of(_curves(one, weights, price), weights, "linear"), float(one["band_price"]))[0] + price


def _passes(one: Values) -> tuple[SharedServer, list[Pass]]:
    server = SharedServer(float(one["pass_s"]), float(one["token_s"]), int(one["batch"]))
    found = passes(one["away_s"], one["draft_lengths"], server)
    return server, list(itertools.islice(found, one["away_s"].size))


def response(one: Values) -> float:
    return max(made.end - at for made in _passes(one)[1] for at in made.arrived)


def longest(one: Values) -> float:
    return longest_response(one["draft_lengths"], _passes(one)[0])
