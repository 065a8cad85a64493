"""Several users of one band and one server: each one's draft length and share, and what they can have together.

A user with a share w of the band has w times the rate; a pass of the server verifies at most ``server_batch`` rounds.
"""

from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.policy import BandUser, SharedServer, lower_hulls, plan_served
from hlmtheory.policy.hulls import Hulls
from hlmtheory.policy.served import ServedPlan
from validation.arrays import Array
from validation.decoding.methods.rows import OURS, SERVER
from validation.errors import UserError
from validation.input_files import read_csv, read_number
from validation.planning.bound import Model
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.profile import CODECS
from validation.planning.quantities import read_rate, read_time
from validation.planning.rounds import COUNTS
from validation.planning.setting import PlanLink, Setting
from validation.planning.shared import Served, Shared, User
from validation.printable import printable

COLUMNS, OTHERS = ("name", "rate"), ("rtt", "draft_time", "weight")
MOST_USERS = 1000


def equal_users(count: int, setting: Setting) -> list[User]:
    rate = setting.link.quantile(0.5)
    return [User(str(n + 1), rate, setting.link.round_trip_s, setting.draft_s) for n in range(count)]


def read_users(file: Path, setting: Setting) -> list[User]:
    """Read users from a CSV file: ``name`` and ``rate``, and perhaps ``rtt``, ``draft_time`` and ``weight``."""
    rows = list(islice(read_csv(file, COLUMNS), MOST_USERS + 1))
    if not 0 < len(rows) <= MOST_USERS:
        raise UserError(f"{file} needs a line for each user, 1 to {MOST_USERS:,}; it has {'more' if rows else 'none'}.")
    users = []
    for number, (where, row) in enumerate(rows, 2):
        rate = read_rate(f"{where}: rate", row["rate"])
        if rate == 0:
            raise UserError(f"{where}: the rate is 0; leave out a user without a link.")
        if unknown := row.keys() - {"", *COLUMNS, *OTHERS}:
            raise UserError(f"{where}: there is no column {min(unknown)!r}; it may have {', '.join(OTHERS)} too.")
        trip = read_time(f"{where}: rtt", row["rtt"]) if row.get("rtt") else setting.link.round_trip_s
        draft = read_time(f"{where}: draft_time", row["draft_time"]) if row.get("draft_time") else setting.draft_s
        if draft == 0:
            raise UserError(f"{where}: draft_time is 0; give a time above 0, such as 12ms.")
        weight = read_number(where, "weight", row["weight"], 0.0, above=True) if row.get("weight") else 1.0
        users.append(User(printable(row["name"], keep="") or str(number), rate, trip, draft, weight))
    return users


def plan_band(planner: Planner, users: list[User], server_batch: int) -> tuple[Planner, Shared, dict[str, Any] | None]:
    """Return a planner, the users for every policy of a plan, and our lossless plan for each as plain values.

    A user's codec is the best one at an equal share. Policies have equal shares, and those of our plan. If the users
    differ, the planner has one option more: our plan, with an option for each user. A planner without a model has none.
    """
    setting, many = planner.setting, len(users)
    rate, trip, draft = (
        float(np.mean([getattr(user, name) for user in users])) for name in ("rate_bps", "round_trip_s", "draft_s")
    )
    link = PlanLink(f"a share of {setting.link.name}", np.array([rate / many]), trip, setting.link.down_bps)
    fair = setting.objective == "fair"
    shared = Shared(users, replace(setting, link=link, draft_s=draft), fair, [np.full(many, 1.0 / many)])
    if planner.model is None:
        return planner, shared, None
    members, codecs = members_of(planner.model, setting, users)
    server = SharedServer(setting.verify_s, setting.verify_token_s, server_batch)
    known = {(o.codec, o.draft_length): o for o in planner.options if o.family == OURS and o.lossless}
    known |= {(codec, 0): o for codec in range(len(CODECS)) for o in planner.options if o.family == SERVER}
    tried: list[tuple[float, ServedPlan, list[Option], Served]] = []
    # A pass has fewer rounds than it could while few users wait, so that plans for smaller batches may be better
    for batch in sorted({server_batch, *(1 << n for n in range(server_batch.bit_length()))}):
        plan = plan_served(members, replace(server, batch=batch), utility="log" if fair else "linear")
        each = [known[codec, int(planned.draft_length)] for codec, planned in zip(codecs, plan.users, strict=True)]
        served = shared.served(each, np.maximum(plan.shares, 1e-9), planner.split.train)
        tried.append((shared.made_of(served.rates), plan, each, served))
        if not plan.server_price > 0:
            break  # larger batches do not bind either
    largest = tried[-1][1]  # a larger batch only relaxes the server's limit, so its bound holds for all
    _, best, each, served = max(tried, key=lambda trial: trial[0])
    if len(set(map(_kind, users))) > 1:
        counts = np.mean([option.counts for option in each], axis=0)
        joint = replace(each[0], label="an option for each user", counts=counts, by_user=tuple(each))
        planner = replace(planner, options=[*planner.options, joint])
        shared.shares.append(np.maximum(best.shares, 1e-9))
    plain = _plain(best, served, users, codecs, server)
    value, bound = float(best.value), float(largest.upper_bound)  # both in the model of mean rounds, before any waits
    gap = bound - value if fair else bound / value - 1.0
    plain = {"utility": "log" if fair else "linear", **plain, "value": value, "upper_bound": bound, "gap": gap}
    return planner, shared, plain


def members_of(model: Model, setting: Setting, users: list[User]) -> tuple[list[BandUser], list[int]]:
    kept: dict[tuple[float, ...], tuple[BandUser, int]] = {}
    hulls: dict[float, Hulls] = {}
    for user in users:
        if _kind(user) not in kept:
            equal = replace(setting, draft_s=user.draft_s, link=_link(user, setting, 1.0 / len(users)))
            speeds = model.counts[..., 0] / equal.seconds(model.counts, equal.link.rates[0])
            length, codec = map(int, np.unravel_index(np.argmax(speeds), speeds.shape))
            whole = replace(equal, link=_link(user, setting, 1.0))
            costs, _, bits = model.costs(length + 1, codec, whole)
            steps = np.diff(_concave(np.append(1.0, model.counts[:, codec, COUNTS.index("tokens")])))
            alpha = np.minimum(steps / np.append(1.0, steps[:-1]), 1.0)
            if bits not in hulls:  # users with the same object are planned together
                hulls[bits] = lower_hulls([[bits]], [[0.0]])
            kept[_kind(user)] = BandUser(hulls[bits], costs, alpha, skipping=False, utility_weight=user.weight), codec
    members = [kept[_kind(user)] for user in users]
    return [member for member, _ in members], [codec for _, codec in members]


def _concave(tokens: Array) -> Array:
    """Return the least concave numbers that are no smaller, so that acceptances of at most 1 give them by length."""
    least = tokens.copy()
    for i, j in combinations(range(len(tokens)), 2):
        least[i : j + 1] = np.maximum(least[i : j + 1], np.linspace(tokens[i], tokens[j], j - i + 1))
    return least


def _kind(user: User) -> tuple[float, ...]:
    return user.rate_bps, user.round_trip_s, user.draft_s, user.weight


def _plain(
    plan: ServedPlan, served: Served, users: list[User], codecs: list[int], server: SharedServer
) -> dict[str, Any]:
    queue, waits = served.queue, np.zeros(len(users))
    if queue is not None:
        waits[served.sends] = queue.waits_s
    each = zip(users, plan.shares, plan.users, codecs, served.rates, waits, strict=True)
    return {
        "server": {
            "batch": server.batch,
            "utilisation": float(queue.busy) if queue is not None else 0.0,
            "rounds_of_a_pass": float(queue.batch) if queue is not None else 0.0,
            "waits_for_rounds": served.company,
            "waits_at_most_s": served.patience_s if served.company > 1 else 0.0,
            "at_once_tokens_per_s": served.at_once,
        },
        "users": [
            {
                "name": user.name,
                "share": float(share),
                "draft_length": int(planned.draft_length),
                "codec": CODECS[codec],
                "tokens_per_s": float(rate),
                "wait_s": float(wait),
                "skip_share": float(planned.skip_share),
                "risk_per_token": float(planned.risk),
            }
            for user, share, planned, codec, rate, wait in each
        ],
        "total_tokens_per_s": float(served.rates.sum()),
        "free_server_tokens_per_s": float(sum(planned.rate for planned in plan.users)),
        "least_tokens_per_s": float(served.rates.min()),
    }


def _link(user: User, setting: Setting, share: float) -> PlanLink:
    rate = np.array([user.rate_bps * share])
    return PlanLink(user.name, rate, user.round_trip_s, setting.link.down_bps)
