"""Claims on the decisions of one user, each with its proof above its record."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError
from hlmtheory._quantities import at_least_one, not_negative, positive
from hlmtheory.channel.fading import LAW
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.policy.costs import Numbers, StageCosts, UserPlan
from hlmtheory.policy.hulls import BITS, RISK, Priced, lower_hulls
from hlmtheory.policy.user import plan_user
from hlmtheory.serving.shapes import POSITIVE_COUNT

# A plan decides for each of N rows: whether it is skipped as the first draft of a round, and its message as a first and
# as a later draft; and K. A competitor is any such plan, with any of the J messages of a row.
#
# Proofs, by the last part of the id.
#
# hull. The corners have the least value of every linear function of (bits, risk) with weights 0 or more. The mean over
#   rows is least if each row's is. The steps of all hulls in the order of risk saved for each bit pass all these
#   minima.
# user_bound. Let n, t, r be the mean tokens, time and risk of a round. If r ≤ ρ n, then n - θ t ≤ n - θ t - μ (r - ρ n)
#   for every μ ≥ 0. Given K, the right side is a sum over rows: the value of a skip, or that of the first draft and,
#   the same for all rows, that of the later ones. V is its maximum. So n ≤ θ t + V, and n/t ≤ θ + V⁺/t, where t is at
#   least the mean of each row's shortest round. The largest of these over K is the bound. It is linear in the
#   probabilities of decisions at random, so that it holds for them, too.
# user_optimum, user_residual. Without a limit μ = 0. Dinkelbach: the decisions of V(θ) have n'/t' = θ + V/t' ≥ θ. When
#   θ no longer grows, V = 0, and the bound is θ, their rate.
# user_rate, user_risk. Place i of a round is reached if the drafts before it are accepted: the first with 1 - β̂ of its
#   row, the others with α_2, α_3 and so on. Each place that is reached emits a token, and the bonus one more. In the
#   risk, a place counts with Π_{j<i} α_j.
# user_limit. Of the decisions that are seen, those that break the limit are never returned. K = 0 keeps every limit.

_DOMAINS = {
    "bits": BITS,
    "risk": RISK,
    "rejection": UNIT_INTERVAL,
    "acceptances": UNIT_INTERVAL,
    "draft_s": positive("give a time in seconds"),
    "server_draft_s": positive("give a time in seconds"),
    "other_s": not_negative("give a time in seconds"),
    "users": POSITIVE_COUNT,
    "verify_s": positive("give a time in seconds"),
    "seconds_per_bit": positive("give 1/rate in seconds a bit"),
    "limit": not_negative("give the most risk for each token"),
    "skips": UNIT_INTERVAL,
    "first": COUNT,
    "later": COUNT,
    "draft_length": COUNT,
    "bit_price": positive("give a price"),
    "risk_price": not_negative("give a price"),
    "tokens": positive("give the tokens of a round"),
    "fixed_s": positive("give a time in seconds"),
    "plan_bits": not_negative("give bits of a round"),
    "plan_load": not_negative("give the seconds of the server for a round"),
    "use": UNIT_INTERVAL,
    "anchor": positive("give tokens a second"),
    "most": positive("give tokens a second"),
    "load_s": not_negative("give the seconds of the server for a token"),
    "away_s": not_negative("give a time in seconds"),
    "draft_lengths": COUNT,
    "pass_s": positive("give a time in seconds"),
    "token_s": not_negative("give a time in seconds"),
    "batch": POSITIVE_COUNT,
    "company": POSITIVE_COUNT,
    "patience_s": not_negative("give a time in seconds"),
    "z": positive("give the seconds that a bit takes"),
    "stretch": at_least_one("give the larger z over the smaller one"),
    "mix": UNIT_INTERVAL,
    "weights": positive("leave out users without a weight"),
    "parts": positive("give each user a part of the band"),
    "choice": COUNT,
    "band_price": positive("give a price"),
    "mean_snr": LAW["mean_snr"],
    "k_factor": LAW["k_factor"],
    "bandwidth_hz": LAW["bandwidth_hz"],
    "coherence_s": LAW["coherence_s"],
    "round_limit_s": positive("give the longest round in seconds"),
    "round_j": not_negative("give joules"),
    "server_price": not_negative("give a price"),
    "joule_price": not_negative("give a price"),
    "acceptance": UNIT_INTERVAL,
    "input_tokens": POSITIVE_COUNT,
    "output_tokens": POSITIVE_COUNT,
    "labels": COUNT,
}
_RANK = {"bits": 2, "risk": 2, "rejection": 1, "acceptances": 1, "skips": 1, "first": 1, "later": 1}


def host_side(
    of: Callable[[dict[str, Any]], float], *names: str, rank: Mapping[str, int] = _RANK, test: bool = False
) -> Callable[..., Array]:
    """A side of a claim that takes arrays of these names: one number for each instance, computed on the host.

    ``rank`` has the dimensions of an instance's arrays, and ``test`` asks for true and false.
    """

    def side(**values: Array) -> Array:
        xp, *given = arrays(**values)
        checked = [_DOMAINS[name].check(xp, name, one) for name, one in zip(values, given, strict=True)]
        plain = {name: to_numpy(one) for name, one in zip(values, checked, strict=True)}
        split = {name: one.ndim - rank.get(name, 0) for name, one in plain.items()}
        batch = np.broadcast_shapes(*(one.shape[: split[name]] for name, one in plain.items()))
        wide = {name: np.broadcast_to(one, (*batch, *one.shape[split[name] :])) for name, one in plain.items()}
        found = np.asarray([of({name: one[n] for name, one in wide.items()}) for n in np.ndindex(*batch)])
        return xp.asarray(found.reshape(batch).astype(np.bool_ if test else np.float64), device=device(given[0]))

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    side.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return side


def _costs(values: dict[str, Any]) -> StageCosts:
    return StageCosts(*(float(values[name]) for name in ("draft_s", "verify_s", "seconds_per_bit")))


def _plan(values: dict[str, Any], limit: float | None) -> UserPlan | None:
    """The public answer; None if no plan keeps the limit."""
    hulls = lower_hulls(values["bits"], values["risk"])
    try:
        return plan_user(hulls, _costs(values), values["acceptances"], rejection=values["rejection"], risk_limit=limit)
    except DomainError as error:
        if str(error).startswith("risk_limit"):
            return None
        raise


def played(
    values: dict[str, Any], length: int, skips: Array, bits: tuple[Numbers, Numbers], risk: tuple[Numbers, Numbers]
) -> tuple[float, float]:
    """Rate, and risk for each token, summed place by place; ``bits`` and ``risk`` as a first and as a later draft."""
    costs, alpha = _costs(values), values["acceptances"]
    tokens = seconds = lost = 0.0
    for n, skip in enumerate(skips):
        if skip and length:
            tokens, seconds, lost = tokens + 1.0, seconds + costs.draft_s, lost + values["rejection"][n]
            continue
        tokens, seconds = tokens + 1.0, seconds + costs.fixed_time(length)
        alive, reached = 1.0, 1.0
        for place in range(length):
            sent = bits[0][n] if place == 0 else float(np.mean(bits[1]))
            seconds += costs.seconds_per_bit * sent
            lost += reached * (risk[0][n] if place == 0 else float(np.mean(risk[1])))
            alive *= 1.0 - values["rejection"][n] if place == 0 else alpha[place]
            reached *= alpha[place]
            tokens += alive
    return tokens / seconds, lost / tokens


def _competitor(values: dict[str, Any]) -> tuple[float, float]:
    """Rate and risk of the competing plan."""
    rows, length = np.arange(len(values["bits"])), min(int(values["draft_length"]), len(values["acceptances"]))
    first, later = (np.minimum(values[name], values["bits"].shape[1] - 1) for name in ("first", "later"))
    bits, risk = ((values[name][rows, first], values[name][rows, later]) for name in ("bits", "risk"))
    return played(values, length, values["skips"] >= 0.5, bits, risk)


def _replayed(values: dict[str, Any], limit: float | None) -> tuple[float, float]:
    """Rate and risk of the public plan, summed place by place."""
    plan = _plan(values, limit)
    if plan is None:
        return math.inf, math.inf
    hulls = lower_hulls(values["bits"], values["risk"])
    bits, risk = ((column[plan.first], column[plan.later]) for column in (hulls.bits, hulls.risk))
    return played(values, plan.draft_length, plan.skip, bits, risk)


def _rate(plan: UserPlan | None) -> float:
    return math.inf if plan is None else plan.rate


def _risk(plan: UserPlan | None) -> float:
    return math.inf if plan is None else plan.risk


def _bound(plan: UserPlan | None) -> float:
    return math.inf if plan is None else plan.upper_bound


def _cheapest(values: dict[str, Any]) -> float:
    """The mean over rows of the least x bits + y risk, over all candidates."""
    price = values["bit_price"] * values["bits"] + values["risk_price"] * values["risk"]
    return float(np.mean(price.min(axis=1)))


def _cheapest_corner(values: dict[str, Any]) -> float:
    """The same, by the corners of the average hull."""
    weight = np.full(len(values["bits"]), 1.0 / len(values["bits"]))
    x, y = float(values["bit_price"]), float(values["risk_price"])
    bits, risk = Priced(lower_hulls(values["bits"], values["risk"]), weight).mean(x, y)
    return x * bits + y * risk


_USER = ("bits", "risk", "rejection", "acceptances", "draft_s", "verify_s", "seconds_per_bit")
_OTHER = (*_USER, "draft_length", "skips", "first", "later")
_PRICED = ("bits", "risk", "bit_price", "risk_price")

_SOURCE = Source("li2025flexspec", "(11), with skips and messages of few bits")
_KEEPS = Assumption(
    "the competing plan keeps the limit",
    host_side(lambda one: _competitor(one)[1] <= one["limit"], *_OTHER, "limit", test=True),
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
_TWO_ROWS = {
    "bits": [[8.0, 64.0], [8.0, 64.0]],
    "risk": [[0.25, 0.0], [0.25, 0.0]],
    "rejection": [0.75, 0.75],
    "acceptances": [0.25],
    "draft_s": 0.25,
    "verify_s": 64.0,
    "seconds_per_bit": 1.0,
    "limit": 0.2,
}
"""The best plan spends the whole limit on messages of few bits: they save more time for it than skips do."""

_THREE_PLACES = _ONE_ROW | {
    "risk": [[0.125]],
    "rejection": [0.25],
    "acceptances": [0.75] * 3,
    "draft_s": 0.03125,
    "seconds_per_bit": 2.0**-20,
    "limit": 0.125,
}
"""Three drafts are sent, and the third place is reached in 9 of 16 rounds."""

USER_CLAIMS = (
    Claim(
        id="policy.hull",
        source=_SOURCE,
        origin=Origin.NEW,
        statement=(
            "min x bits + y risk over all messages = min over the corners of the lower hulls, in the mean over "
            "positions"
        ),
        relation=Relation.EQ,
        lhs=host_side(_cheapest_corner, *_PRICED),
        rhs=host_side(_cheapest, *_PRICED),
        attained=Attained({"bits": [[8.0, 32.0]], "risk": [[0.25, 0.0]], "bit_price": 1.0, "risk_price": 64.0}),
    ),
    Claim(
        id="policy.user_bound",
        source=_SOURCE,
        origin=Origin.NEW,
        statement=(
            "tokens per second of every plan whose risk is at most ρ a token ≤ max over K of θ + V⁺(θ, μ)/T_min"
        ),
        relation=Relation.LE,
        lhs=host_side(lambda one: _competitor(one)[0], *_OTHER),
        rhs=host_side(lambda one: _bound(_plan(one, float(one["limit"]))), *_USER, "limit"),
        assumptions=(_KEEPS,),
        attained=Attained(_TWO_ROWS | {"draft_length": 1, "skips": [0, 0], "first": [0, 0], "later": [0, 0]}),
    ),
    Claim(
        id="policy.user_optimum",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="tokens per second of every plan ≤ that of the plan found, if the risk has no limit",
        relation=Relation.LE,
        lhs=host_side(lambda one: _competitor(one)[0], *_OTHER),
        rhs=host_side(lambda one: _rate(_plan(one, None)), *_USER),
        attained=Attained(_ONE_ROW | {"draft_length": 1, "skips": [1], "first": [0], "later": [0]}),
    ),
    Claim(
        id="policy.user_residual",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="certificate: θ + V⁺(θ)/T_min = the rate of the plan found, if the risk has no limit",
        relation=Relation.EQ,
        lhs=host_side(lambda one: _bound(_plan(one, None)), *_USER),
        rhs=host_side(lambda one: _rate(_plan(one, None)), *_USER),
        attained=Attained(_ONE_ROW),
        condition=host_side(lambda one: 1e7, "bits"),  # column generation stops within 1e-9 of the bound
    ),
    Claim(
        id="policy.user_rate",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="the rate of the plan found, summed over the positions = the rate that the plan states",
        relation=Relation.EQ,
        lhs=host_side(lambda one: _replayed(one, float(one["limit"]))[0], *_USER, "limit"),
        rhs=host_side(lambda one: _rate(_plan(one, float(one["limit"]))), *_USER, "limit"),
        attained=Attained(_TWO_ROWS),
    ),
    Claim(
        id="policy.user_risk",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="the risk a token of the plan found, summed over the positions = the risk that the plan states",
        relation=Relation.EQ,
        lhs=host_side(lambda one: _replayed(one, float(one["limit"]))[1], *_USER, "limit"),
        rhs=host_side(lambda one: _risk(_plan(one, float(one["limit"]))), *_USER, "limit"),
        attained=Attained(_THREE_PLACES),
    ),
    Claim(
        id="policy.user_limit",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="the risk a token of the plan found, summed over the positions ≤ the limit",
        relation=Relation.LE,
        lhs=host_side(lambda one: _replayed(one, float(one["limit"]))[1], *_USER, "limit"),
        rhs=host_side(lambda one: float(one["limit"]), *_USER, "limit"),
        attained=Attained(_TWO_ROWS),
    ),
)
