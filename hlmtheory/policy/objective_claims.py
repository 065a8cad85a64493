"""Claims on goodput, on the cost of a token, on coherence blocks and on batches, with their proofs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlmtheory import batching
from hlmtheory._domains import DomainError
from hlmtheory.channel import Rician
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.policy.band import BandUser
from hlmtheory.policy.batched import BatchedPlan, plan_batched
from hlmtheory.policy.costs import StageCosts, UserPlan
from hlmtheory.policy.goodput import GoodputPlan, plan_goodput
from hlmtheory.policy.hulls import lower_hulls
from hlmtheory.policy.money import CostPlan, plan_cost
from hlmtheory.policy.user import plan_user
from hlmtheory.policy.user_claims import Rival, host_side, mixed_rounds, played, rivals
from hlmtheory.serving import Device, ModelShape, Service, Task

# Competitors are mixtures of two plans with any of the J messages of a row at each place, any K and any skips, as for
# ``policy.user_bound``; for batches they are messages by place, with one l for all steps.
#
# Proofs, by the last part of the id.
#
# goodput_bound. Let the longest round of a plan be late in the share ε of the blocks, a ≤ ε ≤ b. The ε-quantile of the
#   rate is at most the b-quantile, so its rounds are in time there, too. The mean of 1/R over the blocks above the
#   ε-quantile falls as ε rises. So its rate is at most X*(b), and its goodput at most (1 - a) X*(b). The intervals
#   cover [0, 1], and the largest of their bounds is the bound. At b = 1 a bit takes no time.
# cost_optimum. The cost of a round is a sum over its decisions, as its time is, and positive. So the
#   proof of ``policy.user_optimum`` holds with money for seconds: most tokens for money is least money for a token.
# batched_bound. For one l, all plans have the same tokens of a step. So the fewest bits are those of the highest rate
#   E/(A + bits), which ``upper_bound`` bounds. For given batches and order, the latency is made of maxima and sums of
#   times that do not fall as the air time of a draft rises. So it is least with the fewest bits, and the bound over
#   batches there is below every product at this l. The lowest over l is below all.

_GAP = 0.25  # of the search for the outage
_NO_TIME = 1e-300  # seconds a bit, where the air time is counted apart
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_PANELS = 24
_MODEL, _EDGE, _CLOUD = ModelShape(1, 4, 8), Device(2.0**-16, 2.0**-7), Device(2.0**-16, 2.0**-5)


def _user(values: dict[str, Any], costs: StageCosts | None = None) -> BandUser:
    """The user with its limit on risk. Without a limit a skip would cost nothing, so no draft is skipped."""
    hulls = lower_hulls(values["bits"], values["risk"])
    made = costs or StageCosts(float(values["draft_s"]), float(values["verify_s"]), 1.0)
    limit = float(values.get("limit", math.inf))
    given = (values["acceptances"], values["rejection"])
    return BandUser(hulls, made, *given, risk_limit=limit, skipping=limit < math.inf)


# ---------------------------------------------------------------------------------------------------------- goodput


def _least_snr(values: dict[str, Any], part: Rival) -> float:
    """The lowest SNR at which the longest round of a part is in time; infinite if it never is."""
    length, skip, limit = part.length, part.skips, float(values["round_limit_s"])
    sent = [*part.bits[0][~skip], *np.ravel(part.bits[1:])] if length and not skip.all() else [0.0]
    fixed = length * float(values["draft_s"]) + float(values["verify_s"])
    left = limit - (fixed if not skip.all() else 0.0)
    if left < 0 or (skip.any() and values["draft_s"] > limit):
        return np.inf
    bits = length * max(sent)
    if bits == 0:
        return 0.0  # a round without air time is in time at any rate
    efficiency = bits / float(values["bandwidth_hz"]) / left if left > 0 else np.inf
    return float(np.expm1(efficiency * np.log(2.0))) if efficiency < 900.0 else np.inf


def _outage(values: dict[str, Any], parts: Sequence[Rival]) -> tuple[float, float]:
    """The share of the blocks in which the longest round is late, and the mean seconds of a bit in the others."""
    band, mean = float(values["bandwidth_hz"]), float(values["mean_snr"])
    cut = max(_least_snr(values, part) for part in parts)
    if cut == 0:
        return 0.0, 1.0  # no part sends a bit
    if cut > 60.0 * mean:
        return 1.0, 1.0
    late = float(Rician(mean, float(values["k_factor"])).distribution(cut))
    return (late, _mean_seconds(values, cut) / band / (1.0 - late)) if late < 1.0 else (1.0, 1.0)


def _mean_seconds(values: dict[str, Any], cut: float) -> float:
    """The mean of 1/log₂(1 + S) over S above the cut, times their share, by a quadrature."""
    mean = float(values["mean_snr"])
    link = Rician(mean, float(values["k_factor"]))
    ends = np.linspace(np.log(cut), np.log(80.0 * mean), _PANELS + 1)
    snr = np.exp(ends[:-1, None] + (1.0 + _NODES) / 2.0 * np.diff(ends)[:, None])
    share = snr * link.density(snr) * np.diff(ends)[:, None] / 2.0 * _WEIGHTS
    return float((share / np.log2(1.0 + snr)).sum())


def _goodput_of(values: dict[str, Any], parts: Sequence[Rival]) -> float:
    """That of a mixture, its mean by a quadrature of its own."""
    late, slow = _outage(values, parts)
    return (1.0 - late) * mixed_rounds(values | {"seconds_per_bit": slow}, parts)[0]


def _goodput(values: dict[str, Any]) -> float:
    return _goodput_of(values, rivals(values))


def _goodput_plan(values: dict[str, Any], *, skipping: bool) -> GoodputPlan | None:
    link = Rician(float(values["mean_snr"]), float(values["k_factor"]))
    limits = (float(values["bandwidth_hz"]), float(values["round_limit_s"]))
    try:
        return plan_goodput(replace(_user(values), skipping=skipping), link, *limits, tolerance=_GAP)
    except DomainError as error:
        if str(error).startswith(("round_limit_s", "risk_limit")):
            return None
        raise


def _goodput_bound(values: dict[str, Any], *, skipping: bool = True) -> float:
    plan = _goodput_plan(values, skipping=skipping)
    return 0.0 if plan is None else plan.upper_bound


def _in_time(values: dict[str, Any]) -> bool:
    return _outage(values, rivals(values))[0] < 0.999


def _keeps(values: dict[str, Any]) -> bool:
    """Whether the competing mixture keeps the limit on risk."""
    plain = {"draft_s": 1.0, "verify_s": 1.0, "seconds_per_bit": 1.0}
    return bool(mixed_rounds(values | plain, rivals(values))[1] <= values["limit"])


# ------------------------------------------------------------------------------------------------------------- cost


def _cost_plan(values: dict[str, Any]) -> CostPlan:
    plain = {name: float(values[name]) for name in ("draft_s", "verify_s", "seconds_per_bit", "round_j")}
    costs = StageCosts(**plain)
    prices = {name: float(values[name]) for name in ("server_price", "joule_price")}
    return plan_cost(_user(values, costs), 1.0, **prices)


def _cost(values: dict[str, Any]) -> float:
    """Money for each token of the competing mixture: a second costs 1; summed place by place."""
    tokens = money = 0.0
    for share, length, skips, bits, risk in rivals(values):
        sent = float(np.mean(~skips))
        own_tokens, seconds, _ = played(values, length, skips, bits, risk)
        server = sent * float(values["server_price"]) * float(values["verify_s"])
        joules = sent * float(values["joule_price"]) * float(values["round_j"])
        tokens, money = tokens + share * own_tokens, money + share * (seconds + server + joules)
    return money / tokens


# -------------------------------------------------------------------------------------------------------- coherence


def _short(values: dict[str, Any]) -> dict[str, Any]:
    """The same instance with at most two drafts."""
    return values | {"acceptances": values["acceptances"][:2]}


def _plan(values: dict[str, Any], costs: StageCosts) -> UserPlan | None:
    """The plan at given costs; None if none keeps the limit."""
    one, limit = _short(values), float(values["limit"])
    hulls = lower_hulls(one["bits"], one["risk"])
    try:
        return plan_user(hulls, costs, one["acceptances"], rejection=one["rejection"], risk_limit=limit)
    except DomainError as error:
        if str(error).startswith("risk_limit"):
            return None
        raise


# ---------------------------------------------------------------------------------------------------------- batches


def _service(values: dict[str, Any], air: float = 0.0) -> Service:
    return Service(_MODEL, _MODEL, Device(_EDGE.c1, _EDGE.c2 + air), _CLOUD, float(values["acceptance"]))


def _tasks(values: dict[str, Any]) -> list[Task]:
    return [Task(int(i), int(o)) for i, o in zip(values["input_tokens"], values["output_tokens"], strict=True)]


def _sent(values: dict[str, Any]) -> tuple[int, float, float]:
    """l, the mean bits of a draft and the risk for each token of the competing messages."""
    length, (rows, columns) = 1 + int(values["draft_length"]) % 2, values["bits"].shape
    first, later = (np.minimum(values[name], columns - 1) for name in ("first", "later"))
    place = np.arange(rows)
    bits, risk = (float(values[name][place, first].mean()) for name in ("bits", "risk"))
    alpha = float(values["acceptance"])
    tokens = 1.0 + sum(alpha**n for n in range(1, length + 1))
    bits += (length - 1) * values["bits"][place, later].mean()
    risk += sum(alpha**n for n in range(1, length)) * values["risk"][place, later].mean()
    return length, float(bits) / length, float(risk) / tokens


def _batched(values: dict[str, Any], limit: float) -> BatchedPlan:
    hulls = lower_hulls(values["bits"], values["risk"])
    given = (hulls, _tasks(values), _service(values), float(values["seconds_per_bit"]))
    return plan_batched(*given, risk_limit=limit, draft_lengths=[1, 2], method="exact")


def _batched_bound(values: dict[str, Any]) -> float:
    try:
        return _batched(values, float(values["limit"])).lower_bound
    except DomainError as error:
        if str(error).startswith("risk_limit"):
            return np.inf  # no messages keep the limit
        raise


def _latency(values: dict[str, Any]) -> float:
    """That of the competing messages in the competing batches."""
    length, bits, _ = _sent(values)
    batches = [np.flatnonzero(values["labels"] == one).tolist() for one in np.unique(values["labels"])]
    service = _service(values, bits * float(values["seconds_per_bit"]))
    return batching.plan_latency(_tasks(values), service, batches, length)


_ROWS = ("bits", "risk", "rejection", "acceptances")
_RIVAL = ("draft_length", "skips", "first", "later", "mix")
_LINK = ("mean_snr", "k_factor", "bandwidth_hz")
_GOODPUT = (*_ROWS, "draft_s", "verify_s", *_LINK, "round_limit_s")
_COST = (*_ROWS, "draft_s", "verify_s", "seconds_per_bit", "round_j", "server_price", "joule_price")
_BLOCKS = (*_ROWS, "draft_s", "verify_s", *_LINK, "coherence_s")
_BATCHES = ("bits", "risk", "acceptance", "seconds_per_bit", "input_tokens", "output_tokens")
_BATCH_RANK = {
    **{"bits": 2, "risk": 2, "first": 1, "later": 1},
    **{"input_tokens": 1, "output_tokens": 1, "labels": 1},
}
_ONE_ROW = {"bits": [[4096.0]], "risk": [[0.0]], "rejection": [0.25], "acceptances": [0.75]}
_ONE_USER = {**_ONE_ROW, "draft_s": 0.0078125, "verify_s": 0.125}
_FADING = {"mean_snr": 8.0, "k_factor": 0.0, "bandwidth_hz": 2.0**20}
_SENT = {"draft_length": [1], "skips": [0], "first": [0], "later": [[0]], "mix": 1.0}
_ALONE = {**_ONE_USER, "seconds_per_bit": 2.0**-20, "round_j": 0.5, "server_price": 0.5, "joule_price": 0.25}
_TWO_TASKS = {
    **{"bits": [[1024.0, 8192.0]], "risk": [[0.25, 0.0]], "acceptance": 0.75, "seconds_per_bit": 2.0**-20},
    **{"input_tokens": [4, 16], "output_tokens": [8, 16]},
}
_WITHIN = Assumption(
    "the competing plan keeps the limit on risk",
    host_side(_keeps, *_ROWS, *_RIVAL, "limit", test=True),
)

OBJECTIVE_CLAIMS = (
    Claim(
        id="policy.goodput_bound",
        source=Source("oh2025cuhlm", "(5), with an outage and a limit on each round"),
        origin=Origin.NEW,
        statement=(
            "goodput of any mixture of plans ≤ max over intervals (a, b) of (1 − a) X*(b), X* the best rate at an "
            "outage; goodput is tokens per second times the share of the blocks in which its longest round ends within "
            "D, by messages of at most an equal part"
        ),
        relation=Relation.LE,
        lhs=host_side(_goodput, *_GOODPUT, *_RIVAL),
        rhs=host_side(_goodput_bound, *_GOODPUT, "limit"),
        assumptions=(
            Assumption(
                "the competing plan is in time in 0.1% of the blocks",
                host_side(_in_time, *_GOODPUT, *_RIVAL, test=True),
            ),
            _WITHIN,
        ),
        attained=Attained({**_ONE_USER, **_FADING, **_SENT, "round_limit_s": 0.1875, "limit": 0.25, "skips": [1]}),
    ),
    Claim(
        id="policy.cost_optimum",
        source=Source("li2025flexspec", "(11), with money for seconds and joules"),
        origin=Origin.NEW,
        statement="money for each token of the plan found ≤ that of every mixture of plans that skip no draft",
        relation=Relation.LE,
        lhs=host_side(lambda one: _cost_plan(one).cost, *_COST),
        rhs=host_side(_cost, *_COST, "draft_length", "first", "later", "mix"),
        attained=Attained({**_ALONE, **{name: _SENT[name] for name in ("draft_length", "first", "later", "mix")}}),
    ),
    Claim(
        id="policy.batched_bound",
        source=Source("zhu2025edgesd", "(28), (33), with messages of few bits"),
        origin=Origin.NEW,
        statement=(
            "min over l of the bound on latency at the fewest bits ≤ the latency of any messages by row and "
            "place, of any l, the same for all steps, and of any batches"
        ),
        relation=Relation.LE,
        lhs=host_side(_batched_bound, *_BATCHES, "limit", rank=_BATCH_RANK),
        rhs=host_side(_latency, *_BATCHES, "draft_length", "first", "later", "labels", rank=_BATCH_RANK),
        assumptions=(
            Assumption(
                "the competing messages keep the limit",
                host_side(
                    lambda one: _sent(one)[2] <= one["limit"],
                    *_BATCHES[:3],
                    *("draft_length", "first", "later", "limit"),
                    rank=_BATCH_RANK,
                    test=True,
                ),
            ),
        ),
        attained=Attained(
            {**_TWO_TASKS, "limit": 0.25, "draft_length": 1, "first": [0], "later": [0], "labels": [0, 1]}
        ),
    ),
)
