"""Sides of the theorems on the decisions of one user."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, SIMPLEX, UNIT_INTERVAL, DomainError
from hlmtheory._quantities import not_negative, positive
from hlmtheory._simplex import canonical
from hlmtheory.claims import Source
from hlmtheory.codec import CodecMenu
from hlmtheory.codec.messages import LATTICE, MIXTURE, TOP_K
from hlmtheory.policy.codec_hulls import codec_hulls
from hlmtheory.policy.costs import Numbers, StageCosts, UserPlan
from hlmtheory.policy.hulls import BITS, RISK, lower_hulls
from hlmtheory.policy.plan_law import Law, World, law_of
from hlmtheory.policy.user import plan_user
from hlmtheory.serving.shapes import POSITIVE_COUNT
from hlmtheory.sides.host import host_side

# A plan decides for each of N rows: whether it is skipped as the first draft of a round, and its message at each place
# of a round; and K. A competitor is a mixture of two such plans of other K, with any of the J messages of a row.

DOMAINS = {
    "bits": BITS,
    "risk": RISK,
    "context_law": SIMPLEX,
    "context_lengths": SIMPLEX,
    "seconds_per_bit": positive("give 1/rate in seconds a bit"),
    "tokens": positive("give the tokens of a round"),
    "weights": positive("leave out users without a weight"),
    "parts": positive("give each user a part of the band"),
    "band_price": positive("give a price"),
    "server_price": not_negative("give a price"),
    "limit": not_negative("give the most risk for each token"),
    "plan_bits": not_negative("give bits of a round"),
    "plan_load": not_negative("give the seconds of the server for a round"),
    **dict.fromkeys(("draft_s", "server_draft_s", "verify_s", "fixed_s", "pass_s"), positive("give a time in seconds")),
    **dict.fromkeys(("other_s", "away_s", "token_s"), not_negative("give a time in seconds")),
    **dict.fromkeys(("rejection", "acceptances", "context_acceptances", "skips", "use", "mix"), UNIT_INTERVAL),
    **dict.fromkeys(("target_rows", "draft_rows"), UNIT_INTERVAL),
    **dict.fromkeys(("first", "later", "draft_length", "draft_lengths", "choice", "kind"), COUNT),
    **dict.fromkeys(("users", "batch"), POSITIVE_COUNT),
}
_RANK = {
    **{"bits": 2, "risk": 2, "rejection": 1, "acceptances": 1},
    **{"draft_length": 1, "skips": 1, "first": 1, "later": 2},
}
_LEAST = 2.0**-1000
"""A draft that is less likely has no row: its weight may be no normal number."""


def _costs(values: dict[str, Any]) -> StageCosts:
    return StageCosts(*(float(values[name]) for name in ("draft_s", "verify_s", "seconds_per_bit")))


def rate_and_bound(values: dict[str, Any], limit: float) -> tuple[float, float]:
    """Rate and bound of the public plan; infinite if no plan keeps the limit."""
    hulls = lower_hulls(values["bits"], values["risk"])
    given = {"rejection": values["rejection"], "risk_limit": limit}
    try:
        plan = plan_user(hulls, _costs(values), values["acceptances"], **given)
    except DomainError as error:
        if str(error).startswith("risk_limit"):
            return math.inf, math.inf
        raise
    return plan.rate, plan.upper_bound


def _played(
    values: dict[str, Any], length: int, skips: Array, bits: Sequence[Numbers], risk: Sequence[Numbers]
) -> tuple[float, float, float]:
    """Mean tokens, seconds and risk of a round, row by row and place by place; a skipped row is charged β̂ alone."""
    costs, alpha, rows = _costs(values), values["acceptances"], len(skips)
    tokens = seconds = lost = 0.0
    for n, skip in enumerate(skips):
        if skip and length:
            tokens, seconds, lost = tokens + 1.0, seconds + costs.draft_s, lost + values["rejection"][n]
            continue
        tokens, seconds, alive = tokens + 1.0, seconds + costs.fixed_time(length), 1.0
        for place in range(length):
            seconds += costs.seconds_per_bit * (bits[0][n] if place == 0 else float(np.mean(bits[place])))
            lost += alive * (risk[0][n] if place == 0 else float(np.mean(risk[place])))
            alive *= 1.0 - values["rejection"][n] if place == 0 else alpha[place]
            tokens += alive
    return tokens / rows, seconds / rows, lost / rows


def competitor_side(values: dict[str, Any]) -> tuple[float, float]:
    """Rate and risk for each token of a mixture of two lengths."""
    rows, last, later = np.arange(len(values["bits"])), values["bits"].shape[1] - 1, values["later"]
    lengths, mix, means = values["draft_length"], float(values["mix"]), np.zeros(3)
    for share, given in ((mix, lengths[0]), (1.0 - mix, lengths[-1])):
        k = min(int(given), len(values["acceptances"]))
        chosen = [values["first"], *(later[place % len(later)] for place in range(k - 1))]
        bits, risk = ([values[name][rows, np.minimum(one, last)] for one in chosen] for name in ("bits", "risk"))
        means += share * np.asarray(_played(values, k, values["skips"] >= 0.5, bits, risk))
    tokens, seconds, lost = means.tolist()
    return tokens / seconds, lost / tokens


def _world(values: dict[str, Any]) -> World:
    """Positions that are all as likely, a row for each token that may be drafted, and messages of one kind of code."""
    q, p = canonical("draft_rows", values["draft_rows"]), canonical("target_rows", values["target_rows"])
    position, token = np.nonzero(q > _LEAST)
    kinds = ((TOP_K,), (LATTICE,), (MIXTURE,), (TOP_K, LATTICE, MIXTURE))[int(values["kind"]) % 4]
    menu = CodecMenu(kinds, widths=(1, 2, 4, 8), sizes=(1, 2, 3), resolutions=(1, 2, 4, 9, 16))
    return World(p, q, position, token, codec_hulls(q[position], menu=menu))


def lawful_plan(values: dict[str, Any]) -> tuple[UserPlan, World]:
    """The public plan of a world with its true acceptances, under a limit on the risk."""
    world = _world(values)
    own = (world.position, world.token)
    plan = plan_user(
        world.hulls,
        _costs(values),
        np.full(1 + int(values["draft_length"]) % 3, np.minimum(world.target, world.draft).sum(axis=1).mean()),
        rejection=np.maximum(1.0 - world.target[own] / world.draft[own], 0.0),
        weight=world.likely,
        risk_limit=float(values["limit"]),
    )
    return plan, world


def _law(values: dict[str, Any]) -> Law:
    plan, world = lawful_plan(values)
    return law_of(world, plan, _costs(values))


def lawful_distance(values: dict[str, Any]) -> float:
    law = _law(values)
    return law.distance / law.tokens


def lawful_rate(values: dict[str, Any]) -> float:
    law = _law(values)
    return law.tokens / law.seconds


side_side = partial(host_side, DOMAINS, _RANK)

SOURCE = Source("li2025flexspec", "(11), with skips and messages of few bits")
