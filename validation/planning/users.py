"""Several users of one band and one server: each one's draft length and share, and what they can have together.

A user with a share w of the band has w times the rate. A pass of the server verifies the rounds of at most
``server_batch`` users that wait; the others wait their turn. Each speed is simulated with the mean rounds of the plan.
No plan, share or order of service exceeds the upper bound, because the server has one second in a second.
"""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy import BandUser, SharedServer, lower_hulls, plan_served
from validation.errors import UserError
from validation.planning.bound import Model
from validation.planning.menu import OURS
from validation.planning.plan import Planner
from validation.planning.profile import CODECS, DRAFT_LENGTHS
from validation.planning.quantities import read_rate
from validation.planning.setting import PlanLink, Setting
from validation.planning.shared import Shared, User
from validation.planning.waits import SENDS, Band, predicted
from validation.printable import printable

Array = NDArray[Any]
COLUMNS = ("name", "rate")
OPTIONAL = {"rtt_ms": 1e-3, "draft_ms": 1e-3, "weight": 1.0}
MOST_USERS = 1000
ROWS = 64
"""Positions that stand for those of the training texts."""


def equal_users(count: int, setting: Setting) -> list[User]:
    """Return users that are all alike."""
    rate = setting.link.quantile(0.5)
    return [User(str(n + 1), rate, setting.link.round_trip_s, setting.draft_s) for n in range(count)]


def read_users(file: Path, setting: Setting) -> list[User]:
    """Read users from a CSV file: ``name`` and ``rate``, and perhaps ``rtt_ms``, ``draft_ms`` and ``weight``.

    Raises
    ------
    UserError
        The file cannot be read, a column is missing, or a value is not one; the message names the line.
    """
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file} cannot be read ({error}); give a CSV with name and rate.") from error
    if not rows or any(name not in rows[0] for name in COLUMNS):
        raise UserError(f"{file} needs a line for each user and the columns {', '.join(COLUMNS)}.")
    if len(rows) > MOST_USERS:
        raise UserError(f"{file} has {len(rows):,} users; at most {MOST_USERS:,} are planned together.")
    usual = {"rtt_ms": setting.link.round_trip_s, "draft_ms": setting.draft_s, "weight": 1.0}
    found = []
    for number, row in enumerate(rows, 2):
        where = f"{file}, line {number}"
        rate = read_rate(f"{where}: rate", row["rate"] or "")
        values = {}
        for name, unit in OPTIONAL.items():
            text = row.get(name)
            try:
                values[name] = usual[name] if not text else unit * float(text)
            except ValueError:
                raise UserError(f"{where}: {name} is {text!r}; write a number.") from None
            if not 0 <= values[name] < math.inf or (name != "rtt_ms" and values[name] == 0):
                raise UserError(f"{where}: {name} is {text}; it must be above 0.")
        if rate == 0:
            raise UserError(f"{where}: the rate is 0; leave out a user without a link.")
        found.append(
            User(
                printable(row["name"], keep="") or str(number),
                rate,
                values["rtt_ms"],
                values["draft_ms"],
                values["weight"],
            )
        )
    return found


def plan_band(planner: Planner, users: list[User], server_batch: int = 1) -> tuple[Band, list[int], dict[str, Any]]:
    """Return the plans and shares of our users of one band and one server, their codecs, and all as plain values.

    The objective "fair" maximises Σ ω log X, any other one Σ ω X. A user's codec is the best one at an equal share.

    Parameters
    ----------
    server_batch : int
        The most rounds that a pass of the target model verifies.
    """
    setting = planner.setting
    members, codecs = members_of(planner, users)
    utility = "log" if setting.objective == "fair" else "linear"
    server = SharedServer(setting.verify_s, setting.verify_token_s, server_batch)
    bound, tried = np.inf, []
    # A pass has fewer rounds than it could while few users wait, so that plans for smaller batches may be better
    for batch in sorted({server_batch, *(1 << n for n in range(server_batch.bit_length()))}):
        found = plan_served(members, replace(server, batch=batch), utility=utility)
        bound = found.upper_bound
        tried.append(predicted(found, members, server, utility))
        if not found.server_price > 0:
            break  # larger batches do not bind either
    best = max(tried, key=lambda one: one.value)
    plain = _plain(best, users, codecs, server, utility, max(bound, best.value))
    return best, codecs, plain


def members_of(planner: Planner, users: list[User]) -> tuple[list[BandUser], list[int]]:
    """Return the users as the theory takes them, and the codec of each."""
    setting = planner.setting
    if planner.model is None:
        raise UserError("Users of one band need a trace whose rejection rises with the uncertainty; plan for one user.")
    model = planner.model.thinned(ROWS)
    ours = planner.ours(setting, streams=False)  # a server that others wait for
    option = ours[0] if ours else None
    risk = 0.0
    if option is not None and option.family == OURS and option.threshold > -np.inf:
        risk = model.rate(option, setting)[1]
    if setting.risk_kind == "token" and setting.risk_limit > 0:
        risk = min(risk, setting.risk_limit)
    kept: dict[tuple[float, ...], tuple[BandUser, int]] = {}
    flat = {bits: lower_hulls(np.full((ROWS, 1), bits), np.zeros((ROWS, 1))) for bits in _bits(model)}
    for user in users:
        key = (user.rate_bps, user.round_trip_s, user.draft_s, user.weight)
        if key not in kept:
            own = replace(setting, draft_s=user.draft_s, link=_link(user, setting, 1.0 / len(users)))
            codec, k = _best_codec(model, own)
            whole = replace(own, link=_link(user, setting, 1.0))
            costs, _, bits = model.costs(k, codec, whole)
            _, alpha, _ = model.costs(max(DRAFT_LENGTHS), codec, whole)
            made = BandUser(
                flat[round(bits, 6)],
                costs,
                alpha,
                rejection=model.scaled(alpha[0]),
                risk_limit=risk,
                skipping=risk > 0,
                utility_weight=user.weight,
            )
            kept[key] = made, codec
    found = [kept[user.rate_bps, user.round_trip_s, user.draft_s, user.weight] for user in users]
    return [made for made, _ in found], [codec for _, codec in found]


def shared_users(planner: Planner, users: list[User], band: Band, codecs: list[int]) -> Shared:
    """Return the users for every policy of a plan: at equal shares, and at those of our plan.

    Where users differ, ours also has the option that the plan gives to each of them, without its skips.
    """
    setting, many = planner.setting, len(users)
    link = setting.link
    rates = np.array([float(np.mean([user.rate_bps for user in users]))]) / many
    trip, draft = (float(np.mean([getattr(user, name) for user in users])) for name in ("round_trip_s", "draft_s"))
    own = PlanLink(f"a share of {link.name}", rates, trip, link.down_bps)
    shares = [np.full(many, 1.0 / many)]
    found = Shared(users, replace(setting, link=own, draft_s=draft), setting.objective == "fair", shares)
    if len({(user.rate_bps, user.round_trip_s, user.draft_s, user.weight) for user in users}) == 1:
        return found
    shares.append(np.maximum(band.plan.shares, 1e-9))
    known = {(one.codec, one.draft_length): one for one in planner.options if one.family == OURS and one.lossless}
    each = [known[codec, one.draft_length] for codec, one in zip(codecs, band.plan.users, strict=True)]
    made = replace(each[0], label="an option for each user", counts=np.mean([one.counts for one in each], axis=0))
    planner.options = [*planner.options, made]
    found.own[id(made)] = each
    return found


def _plain(
    band: Band, users: list[User], codecs: list[int], server: SharedServer, utility: str, bound: float
) -> dict[str, Any]:
    plan, queue, rates = band.plan, band.queue, band.rates
    waits = np.zeros(len(users))
    if queue is not None:
        waits[np.array([one.skip_share for one in plan.users]) < SENDS] = queue.waits_s
    each = zip(users, plan.shares, plan.users, codecs, rates, waits, strict=True)
    return {
        "utility": utility,
        "server": {
            "batch": server.batch,
            "utilisation": float(queue.busy) if queue is not None else 0.0,
            "rounds_of_a_pass": float(queue.batch) if queue is not None else 0.0,
            "waits_for_rounds": band.company,
            "waits_at_most_s": band.patience_s if band.company > 1 else 0.0,
            "at_once_tokens_per_s": band.at_once,
        },
        "users": [
            {
                "name": user.name,
                "share": float(share),
                "draft_length": int(one.draft_length),
                "codec": CODECS[codec],
                "tokens_per_s": float(rate),
                "wait_s": float(wait),
                "skip_share": float(one.skip_share),
                "risk_per_token": float(one.risk),
            }
            for user, share, one, codec, rate, wait in each
        ],
        "total_tokens_per_s": float(rates.sum()),
        "free_server_tokens_per_s": float(sum(one.rate for one in plan.users)),
        "least_tokens_per_s": float(rates.min()),
        "value": band.value,
        "upper_bound": float(bound),
        "gap": float(bound - band.value if utility == "log" else bound / band.value - 1.0),
    }


def _link(user: User, setting: Setting, share: float) -> PlanLink:
    rate = np.array([user.rate_bps * share])
    return PlanLink(user.name, rate, user.round_trip_s, setting.link.down_bps)


def _bits(model: Model) -> set[float]:
    place = len(DRAFT_LENGTHS)
    return {round(model.bits_of(k, codec), 6) for codec in range(model.counts.shape[1]) for k in range(1, place + 1)}


def _best_codec(model: Model, setting: Setting) -> tuple[int, int]:
    """Return the codec and draft length with the most tokens per second without skipping."""
    total = model.counts
    speeds = total[..., 0] / setting.seconds(total, setting.link.rates[0])
    k, codec = np.unravel_index(int(np.argmax(speeds)), speeds.shape)
    return int(codec), int(k) + 1
