"""Claims on several users of one band and one server, each with its proof above its record."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from hlmtheory._sides import Values, host_side
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.policy.band_shares import Curve, price_bound
from hlmtheory.policy.capacity import SharedServer
from hlmtheory.policy.queueing import Pass, longest_response, passes
from hlmtheory.policy.user_claims import DOMAINS as USER_DOMAINS

# A user has P plans, whose mean rounds have E tokens, A seconds without air time, b bits and σ seconds of the server. A
# competitor takes any plans and shares, and each user a part of the rate that these allow; all are slowed down alike
# if they would need more than the server's time.
#
# Proofs, by the last part of the id.
#
# band_price. For ν ≥ 0 and Σ w ≤ 1, Σ ω U(X) ≤ Σ (ω U(X) - ν w) + ν, and each term is at most its
#   largest value over plans and shares. X* is bounded by its chords, on which the largest value is known in closed
#   form; for shares below the smallest of the curve by the rate there.
# served_price. For ν, η ≥ 0, Σ w ≤ 1 and Σ X d ≤ 1, Σ ω X ≤ Σ (ω X - η X d - ν w) + ν + η. Each term is X (ω - η d) -
#   ν w with X ≤ E/(A + b z): at most ω (E - η σ/ω)⁺/(A + b z) - ν w, since d = σ/E. Of each plan with a positive worth
#   this is convex in z, and 0 is; so their maximum Y is below its chords.
# server_response. When a round arrives, a pass may run with one other user at least. Of the other N - 2 users each has
#   at most one round before it in the queue. So at most ⌊(N - 2)/B⌋ full passes follow before its own. Without a
#   running pass at most N - 1 rounds arrived at the same time, and ⌊(N - 1)/B⌋ ≤ 1 + ⌊(N - 2)/B⌋. In the running pass
#   and the full ones each user occurs once, and in its own B - 1 others.

_POINTS = 9
_LOW, _HIGH = 1.0, 256.0  # z over s: shares from 1 to 1/256


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


def _competing_rates(one: Values) -> Any:
    shares = one["parts"] / one["parts"].sum()
    users = np.arange(len(shares))
    place = np.minimum(one["choice"], one["tokens"].shape[1] - 1)
    tokens, fixed, bits, load = (one[name][users, place] for name in ("tokens", "fixed_s", "plan_bits", "plan_load"))
    rates = one["use"] * tokens * shares / (fixed * shares + bits)
    return rates / max(1.0, float(np.sum(rates * load / tokens)))


def _on_the_band(one: Values) -> Values:
    """The same instance with a server that has time for all."""
    return one | {"plan_load": 0.0 * one["tokens"], "use": 1.0, "server_price": 0.0}


def _bound(one: Values, weights: Any) -> float:
    price = float(one["server_price"])
    return price_bound(_curves(one, weights, price), weights, float(one["band_price"]), "linear")[0] + price


def _passes(one: Values) -> tuple[SharedServer, list[Pass]]:
    server = SharedServer(float(one["pass_s"]), float(one["token_s"]), int(one["batch"]))
    found = passes(one["away_s"], one["draft_lengths"], server)
    return server, list(itertools.islice(found, one["away_s"].size))


def _response(one: Values) -> float:
    return max(made.end - at for made in _passes(one)[1] for at in made.arrived)


def _longest(one: Values) -> float:
    return longest_response(one["draft_lengths"], _passes(one)[0])


_RANK = {
    **dict.fromkeys(("tokens", "fixed_s", "plan_bits", "plan_load", "away_s"), 2),
    **dict.fromkeys(("weights", "parts", "choice", "use", "draft_lengths"), 1),
}
_side = partial(host_side, USER_DOMAINS, _RANK)
_SOURCE = Source("zhu2025edgesd", "(26), with a server that all users share")
_QUEUE_SOURCE = Source("denning1978operational", "bounds on closed networks, with batches")
_TABLE = ("tokens", "fixed_s", "plan_bits", "plan_load")
_BAND = (*_TABLE[:3], "weights")
_SHARED = (*_TABLE, "parts", "choice", "use")
_PRICED = (*_TABLE, "weights", "band_price", "server_price")
_QUEUE = ("away_s", "draft_lengths", "pass_s", "token_s", "batch")
_ALONE: Values = {
    "tokens": [[2.0]],
    "fixed_s": [[0.5]],
    "plan_bits": [[0.5]],
    "plan_load": [[1.0]],
    "weights": [1.0],
    "parts": [1.0],
    "choice": [0],
    "use": [1.0],
    "band_price": 0.125,
    "server_price": 0.5,
}
"""The whole band gives 2 tokens a second, and they fill the server."""
_WAIT = {"away_s": [[0.0], [0.0]], "draft_lengths": [1, 1], "pass_s": 0.5, "token_s": 0.0, "batch": 1}

SERVED_CLAIMS = (
    Claim(
        id="policy.band_price",
        source=Source("zhu2025edgesd", "(26), with draft lengths and messages"),
        statement="Σ ω X of any plans and shares ≤ g(ν) = ν + Σ max_w [ω X*(w) − ν w], X* bounded by its chords",
        lhs=_side(lambda one: float(one["weights"] @ _competing_rates(_on_the_band(one))), *_BAND, "parts", "choice"),
        rhs=_side(lambda one: _bound(_on_the_band(one), one["weights"]), *_BAND, "band_price"),
        attained=Attained({name: _ALONE[name] for name in (*_BAND, "parts", "choice", "band_price")}),
    ),
    Claim(
        id="policy.served_price",
        source=_SOURCE,
        statement="Σ ω X of any plans, shares and order of service ≤ g(ν, η) = ν + η + Σ max_w [ω Y(w) − ν w]",
        lhs=_side(lambda one: float(one["weights"] @ _competing_rates(one)), *_SHARED, "weights"),
        rhs=_side(lambda one: _bound(one, one["weights"]), *_PRICED),
        attained=Attained(_ALONE),
    ),
    Claim(
        id="policy.server_response",
        source=_QUEUE_SOURCE,
        statement="a round's wait and pass ≤ (2 + ⌊(N − 2)/B⌋) s + s′ (Σ (K + 1) + the B − 1 largest K + 1)",
        lhs=_side(_response, *_QUEUE),
        rhs=_side(_longest, *_QUEUE),
        attained=Attained({**_WAIT, "away_s": [[0.0, 0.0], [0.0, 0.0]]}),
    ),
)
