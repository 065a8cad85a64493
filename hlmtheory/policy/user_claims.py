"""Claims on the decisions of one user, each with its proof above its record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, SIMPLEX, UNIT_INTERVAL, DomainError
from hlmtheory._quantities import not_negative, positive
from hlmtheory._sides import host_side
from hlmtheory._simplex import canonical
from hlmtheory.claims import Assumption, Attained, Claim, Relation, Source
from hlmtheory.codec import CodecMenu
from hlmtheory.codec.messages import LATTICE, MIXTURE, TOP_K
from hlmtheory.policy.codec_hulls import codec_hulls
from hlmtheory.policy.costs import Numbers, StageCosts, UserPlan
from hlmtheory.policy.hulls import BITS, RISK, lower_hulls
from hlmtheory.policy.plan_law import Law, World, law_of
from hlmtheory.policy.user import plan_user
from hlmtheory.serving.shapes import POSITIVE_COUNT

# A plan decides for each of N rows: whether it is skipped as the first draft of a round, and its message at each place
# of a round; and K. A competitor is a mixture of two such plans of other K, with any of the J messages of a row.
#
# Proofs, by the last part of the id.
#
# user_bound. Let n, t, r be the mean tokens, time and risk of a mixture of plans. If r ≤ ρ n, then n - θ t ≤ n - θ t -
#   μ (r - ρ n) for every μ ≥ 0. The right side is linear in the shares of the parts, so at most Σ λ_K V_K with V_K the
#   largest value at one K; and t is at least Σ λ_K T_K, with T_K the mean of each row's shortest round. So n/t is at
#   most θ + max V_K⁺/T_K. Given K, the value is a sum over rows: a skip, or the first draft and the later ones. A later
#   place i costs bits, and μ times its risk where it is reached, with R_i = Π_{1<j<i} α_j times the acceptances 1 - β̂
#   of the rows that are sent. For a given set of sent rows, of mean acceptance m, the best corners of place i are those
#   of the price μ R_i m. So V_K is the largest, over m, of Σ w max(skip, send) with these corners. A row of acceptance
#   k pays with the corners of m at least what it pays with those of the point of any interval around m that is nearest
#   to k: the least cost is concave in k, and its tangents fall towards k. Between the ends it is above its chord. The
#   largest over intervals is above V_K. A skip that is charged more than β̂ has less value.
# user_optimum. Without a limit μ = 0. Dinkelbach: the decisions of V(θ) have n'/t' = θ + V/t' ≥ θ. When
#   θ no longer grows, V = 0, and the bound is θ, their rate.
# user_rate. Each place that is reached emits a token, and the bonus one more. Place 2 is reached with 1 - β of the rows
#   that are sent, place i with Π_{1<j<i} α_j times as much. If β̂ = β and α_j is the mean acceptance, this is the law.
# user_risk. The rows of a position have equal hulls, so one message at each place. With A the share of its skipped
#   drafts, the token's law is at most Σ q s β + min(1 - A, Δ) from p (``skipping.bill_joint``); each row is charged Δ,
#   and β̂ if it is skipped. Without a row that is sent 1 - A is 0. Later places have A = 0. The places that are reached
#   add up as in ``skipping.bill_round``, and a mixture is charged the mean of its parts.
# user_limit. Of the decisions that are seen, those that break the limit are never returned. K = 0 keeps every limit.

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


def _rate_and_bound(values: dict[str, Any], limit: float) -> tuple[float, float]:
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


def _competitor(values: dict[str, Any]) -> tuple[float, float]:
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


def _lawful_plan(values: dict[str, Any]) -> tuple[UserPlan, World]:
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
    plan, world = _lawful_plan(values)
    return law_of(world, plan, _costs(values))


def _lawful_distance(values: dict[str, Any]) -> float:
    law = _law(values)
    return law.distance / law.tokens


def _lawful_rate(values: dict[str, Any]) -> float:
    law = _law(values)
    return law.tokens / law.seconds


_side = partial(host_side, DOMAINS, _RANK)
_law_side = partial(host_side, DOMAINS, {"target_rows": 2, "draft_rows": 2})
_USER = ("bits", "risk", "rejection", "acceptances", "draft_s", "verify_s", "seconds_per_bit")
_OTHER = (*_USER, "draft_length", "skips", "first", "later", "mix")
_LAW = ("target_rows", "draft_rows", "kind", "draft_length", "draft_s", "verify_s", "seconds_per_bit", "limit")

_SOURCE = Source("li2025flexspec", "(11), with skips and messages of few bits")
_KEEPS = Assumption(
    "the competing plan keeps the limit",
    _side(lambda one: _competitor(one)[1] <= one["limit"], *_OTHER, "limit", test=True),
)
_ONE_ROW = {
    "bits": [[64.0]],
    "risk": [[0.25]],
    "rejection": [0.5],
    "acceptances": [0.5, 0.5],
    "draft_s": 0.25,
    "verify_s": 0.5,
    "seconds_per_bit": 0.0078125,
}
_BY_PLACE = {
    "bits": [[1024.0, 8192.0]],
    "risk": [[0.0625, 0.0]],
    "rejection": [0.5],
    "acceptances": [0.5, 0.5, 0.5],
    "draft_s": 2.0**-10,
    "verify_s": 2.0**-4,
    "seconds_per_bit": 2.0**-20,
    "limit": 0.015625 / 1.875,
}
"""The best plan spends the whole limit on the third place, which a quarter of the rounds reach."""

_ONE_POSITION = {
    "target_rows": [[0.75, 0.25]],
    "draft_rows": [[0.375, 0.625]],
    "kind": 2,
    "draft_length": 1,
    "draft_s": 2.0**-6,
    "verify_s": 2.0**-3,
    "seconds_per_bit": 2.0**-13,
    "limit": 0.125,
}
"""Some rounds are a skipped draft; the others skip token 0 and send two drafts, by lattices. All charges are tight."""

USER_CLAIMS = (
    Claim(
        id="policy.user_bound",
        source=_SOURCE,
        statement=(
            "tokens per second of every mixture of plans, of any skips, lengths and messages by row and place, whose "
            "risk is at most ρ a token ≤ θ + max over K of V_K⁺(θ, μ)/T_K, also if a skip is charged β̂ alone"
        ),
        lhs=_side(lambda one: _competitor(one)[0], *_OTHER),
        rhs=_side(lambda one: _rate_and_bound(one, float(one["limit"]))[1], *_USER, "limit"),
        assumptions=(_KEEPS,),
        attained=Attained(
            _BY_PLACE | {"draft_length": [3], "skips": [0], "first": [1], "later": [[1], [0]], "mix": 1.0}
        ),
    ),
    Claim(
        id="policy.user_optimum",
        source=_SOURCE,
        statement="tokens per second of every plan ≤ that of the plan found, if the risk has no limit",
        lhs=_side(lambda one: _competitor(one)[0], *_OTHER),
        rhs=_side(lambda one: _rate_and_bound(one, math.inf)[0], *_USER),
        attained=Attained(_ONE_ROW | {"draft_length": [1], "skips": [1], "first": [0], "later": [[0]], "mix": 1.0}),
    ),
    Claim(
        id="policy.user_rate",
        source=_SOURCE,
        statement="tokens per second of the plan found, by enumeration of its rounds = the rate that the plan states",
        relation=Relation.EQ,
        lhs=_law_side(_lawful_rate, *_LAW),
        rhs=_law_side(lambda one: _lawful_plan(one)[0].rate, *_LAW),
        attained=Attained(_ONE_POSITION),
    ),
    Claim(
        id="policy.user_risk",
        source=_SOURCE,
        statement=(
            "TV(law of a token, p), the mean over the tokens of the plan found, by enumeration of its rounds ≤ the "
            "risk that the plan states, if β̂ = β"
        ),
        lhs=_law_side(_lawful_distance, *_LAW),
        rhs=_law_side(lambda one: _lawful_plan(one)[0].risk, *_LAW),
        attained=Attained(_ONE_POSITION),
        ceiling=1.0,
    ),
    Claim(
        id="policy.user_limit",
        source=_SOURCE,
        statement=(
            "TV(law of a token, p), the mean over the tokens of the plan found, by enumeration of its rounds ≤ the "
            "limit, if β̂ = β"
        ),
        lhs=_law_side(_lawful_distance, *_LAW),
        rhs=_law_side(lambda one: float(one["limit"]), *_LAW),
        attained=Attained(_ONE_POSITION),
    ),
)
