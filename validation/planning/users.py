"""Several users of one band: each one's draft length and share, and an upper bound on what they can have together.

A user with a share w of the band has w times the rate. The server serves all users side by side: its passes do not grow
with their number.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.policy import BandUser, SharedPlan, lower_hulls, plan_users, share_rates
from validation.errors import UserError
from validation.planning.bound import Model
from validation.planning.menu import OURS
from validation.planning.plan import Planner
from validation.planning.profile import CODECS, DRAFT_LENGTHS
from validation.planning.quantities import read_rate
from validation.planning.setting import PlanLink, Setting

COLUMNS = ("name", "rate")
OPTIONAL = {"rtt_ms": 1e-3, "draft_ms": 1e-3, "weight": 1.0}
MOST_USERS = 1000
ROWS = 64
"""Positions that stand for those of the training texts."""


@dataclass(frozen=True, slots=True)
class User:
    """A user: its rate on the whole band, its round trip, its device's pass time, and its weight."""

    name: str
    rate_bps: float
    round_trip_s: float
    draft_s: float
    weight: float = 1.0


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
        found.append(User(row["name"] or str(number), rate, values["rtt_ms"], values["draft_ms"], values["weight"]))
    return found


def plan_band(planner: Planner, users: list[User]) -> tuple[SharedPlan, dict[str, Any]]:
    """Return the plans and shares of users of one band, and the same as plain values.

    The objective "fair" maximises Σ ω log X, any other one Σ ω X. A user's codec is the best one at an equal share.
    """
    setting = planner.setting
    if planner.model is None:
        raise UserError("Users of one band need a trace whose rejection rises with the uncertainty; plan for one user.")
    model = planner.model.thinned(ROWS)
    option, _ = planner.ours(setting)
    risk = model.rate(option, setting)[1] if option.family == OURS and option.threshold > -np.inf else 0.0
    if setting.risk_kind == "token" and setting.risk_limit > 0:
        risk = min(risk, setting.risk_limit)
    kept: dict[tuple[float, ...], BandUser] = {}
    members, codecs = [], []
    flat = {bits: lower_hulls(np.full((ROWS, 1), bits), np.zeros((ROWS, 1))) for bits in _bits(model)}
    for user in users:
        own = replace(setting, draft_s=user.draft_s, link=_link(user, setting, 1.0 / len(users)))
        codec, k = _best_codec(model, own)
        whole = replace(own, link=_link(user, setting, 1.0))
        key = (user.rate_bps, user.round_trip_s, user.draft_s, user.weight)
        if key not in kept:
            costs, _, bits = model.costs(k, codec, whole)
            _, alpha, _ = model.costs(max(DRAFT_LENGTHS), codec, whole)
            kept[key] = BandUser(
                flat[round(bits, 6)],
                costs,
                alpha,
                rejection=model.scaled(alpha[0]),
                risk_limit=risk,
                skipping=risk > 0,
                utility_weight=user.weight,
            )
        members.append(kept[key])
        codecs.append(codec)
    utility = "log" if setting.objective == "fair" else "linear"
    found = plan_users(members, utility=utility)
    tokens, fixed, air = (
        np.array([getattr(one, name) for one in found.users]) for name in ("tokens", "fixed_s", "band_s")
    )
    even = np.asarray(share_rates(tokens, fixed, air * found.shares, np.full(len(users), 1.0 / len(users))))
    rates = found.rates
    sent = np.array([(1.0 - one.skip_share) / one.tokens for one in found.users])  # passes of the target for a token
    busy = setting.verify_s * float(sent @ rates) / float(rates.sum())
    plain = {
        "utility": utility,
        "one_pass_at_a_time_tokens_per_s": float(1.0 / busy) if busy > 0 else None,
        "users": [
            {
                "name": user.name,
                "share": float(share),
                "draft_length": int(one.draft_length),
                "codec": CODECS[codec],
                "tokens_per_s": float(rate),
                "skip_share": float(one.skip_share),
                "risk_per_token": float(one.risk),
            }
            for user, share, one, codec, rate in zip(users, found.shares, found.users, codecs, rates, strict=True)
        ],
        "total_tokens_per_s": float(rates.sum()),
        "equal_shares_tokens_per_s": float(even.sum()),
        "least_tokens_per_s": float(rates.min()),
        "value": float(found.value),
        "upper_bound": float(found.upper_bound),
        "gap": float(found.gap),
    }
    return found, plain


def _link(user: User, setting: Setting, share: float) -> PlanLink:
    rate = np.array([user.rate_bps * share])
    return PlanLink(user.name, rate, user.round_trip_s, setting.link.down_bps)


def _bits(model: Model) -> set[float]:
    place = len(DRAFT_LENGTHS)
    return {round(model.bits_of(k, codec), 6) for codec in range(len(CODECS)) for k in range(1, place + 1)}


def _best_codec(model: Model, setting: Setting) -> tuple[int, int]:
    """Return the codec and draft length with the most tokens per second without skipping."""
    total = model.counts
    speeds = total[..., 0] / setting.seconds(total, setting.link.rates[0])
    k, codec = np.unravel_index(int(np.argmax(speeds)), speeds.shape)
    return int(codec), int(k) + 1
