"""What a device gains, against the strongest rival, and the sentences that say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.planning.menu import (
    CERTIFIED,
    COLOCATED,
    DEVICE,
    NO_RIVALS,
    OURS,
    SERVER,
    STREAM,
    STREAMED,
    WITHOUT_DEVICE,
    Option,
)
from validation.planning.plan import Planner
from validation.planning.rows import Row, interval_in_words

Array = NDArray[Any]
SPEED, SKIPPING, LOSS, CAPACITY, NOTHING = "speed", "skipping", "loss", "capacity", "nothing"
WORTH = 1.05
"""Users of a full server, with devices that draft over without, from which a device gains capacity."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a device gains for a user, predicted on the test prompts.

    Attributes
    ----------
    gains : str
        "speed": a lossless plan is faster than any server without a device. "skipping": only one that skips
        verification is. "loss": only one whose answers hold a part of p is. "capacity": none is, but a full server
        carries more users. "nothing".
    rival, rival_option : str
        The strongest policy besides ours that keeps the limits.
    rival_tokens_per_s, server_tokens_per_s : float
        Of the strongest rival, and of the fastest server without a device.
    lossless_tokens_per_s : float or None
        Of the fastest lossless plan that keeps the limits.
    capacity : float or None
        Users of a full server that verifies one round a pass, with devices that draft over without; each side at its
        own best option for a full server. ``capacity_option`` and ``capacity_server`` are these options.
    """

    gains: str
    rival: str
    rival_option: str
    rival_tokens_per_s: float
    server_tokens_per_s: float
    lossless_tokens_per_s: float | None
    capacity: float | None
    capacity_option: str
    capacity_server: str

    def plain(self) -> dict[str, Any]:
        """Return the standing as plain values."""
        return asdict(self)


def standing_of(planner: Planner) -> Standing:
    """Return what a device gains in the planner's setting."""
    setting = planner.setting
    rival, server = planner.rival(setting), _fastest_server(planner)
    own = [one for one in planner.options if one.family in (OURS, DEVICE, CERTIFIED)]
    ours = [one for one in [*own, *planner.candidates(STREAMED, setting)] if not planner.broken(one, setting)]
    lossless = [one for one in ours if one.lossless]
    fastest, exact_one = (_largest(planner, pool) if pool else None for pool in (ours, lossless))
    best, exact = (None if one is None else _speed_of(planner, one) for one in (fastest, exact_one))
    most = _speed_of(planner, server)
    capacity, light, plain = _capacity(planner, ours)
    gains = NOTHING
    if exact is not None and exact > most:
        gains = SPEED
    elif best is not None and best > most:
        gains = LOSS if fastest is not None and fastest.family == CERTIFIED else SKIPPING
    elif capacity is not None and capacity >= WORTH:
        gains = CAPACITY
    return Standing(
        gains,
        rival.family,
        rival.label,
        _speed_of(planner, rival),
        most,
        exact,
        capacity,
        light,
        plain,
    )


def _fastest_server(planner: Planner) -> Option:
    """Return the best option without a device that keeps the limits, or of all if none does."""
    pool = [one for one in planner.options if one.family in WITHOUT_DEVICE]
    kept = [one for one in pool if not planner.broken(one, planner.setting)]
    return _largest(planner, kept or pool)


def _largest(planner: Planner, pool: Sequence[Option]) -> Option:
    return pool[int(np.argmax(planner.setting.value(planner.totals(pool))))]


def _speed_of(planner: Planner, option: Option) -> float:
    """Return tokens a second on the test prompts, at the median rate."""
    total = option.counts[planner.split.test].sum(axis=0)
    return float(total[0] / planner.setting.seconds(total, planner.setting.link.quantile(0.5)))


def _capacity(planner: Planner, ours: Sequence[Option]) -> tuple[float | None, str, str]:
    """Return how many times the users a full server carries with devices, and the options of both sides."""
    setting, test = planner.setting, planner.split.test
    light = [one for one in ours if one.family == OURS]
    if not light:
        return None, "", ""

    def least(pool: Sequence[Option]) -> Option:
        total = planner.totals(pool)
        return pool[int(np.argmin(setting.server_seconds(total) / total[:, 0]))]

    def load(option: Option) -> float:
        total = option.counts[test].sum(axis=0)
        return float(setting.server_seconds(total) / total[0])

    device, server = least(light), least([one for one in planner.options if one.family in WITHOUT_DEVICE])
    share = load(server) / load(device) if load(device) > 0 else None
    return share, device.label, f"{server.family} {server.label}"


# ------------------------------------------------------------------------------------------------------ words


def verdict_of(planner: Planner, rows: Sequence[Row], standing: Standing) -> str:
    """Return the verdict: what a device gains, the plan, and at which round trips each server is faster."""
    option, _ = planner.ours(planner.setting)
    plan = _plan(next(row for row in rows if row.policy == OURS), option, standing, planner.binding(option))
    said = (_lead(standing, plan), _faster(rows), _waiting(planner, rows), _streams(planner, rows))
    return " ".join(sentence for sentence in said if sentence)


def _faster(rows: Sequence[Row]) -> str:
    """Return the sentence on the fastest other method that drafts on a device, if it is faster than ours."""
    ours = next(row for row in rows if row.policy == OURS)
    others = [row for row in rows if row.policy not in (*WITHOUT_DEVICE, DEVICE, *NO_RIVALS) and not row.breaks]
    best = max(others, key=_value, default=None)
    if best is None or _value(best) <= _value(ours):
        return ""
    return f"Of the methods with a device {best.policy} is faster ({best.option}: {_speed(best)})."


def _value(row: Row) -> float:
    return row.tokens_per_s_median.value or 0.0


def _lead(standing: Standing, plan: str) -> str:
    if standing.gains == SPEED:
        return f"The device gains speed: {plan}"
    if standing.gains in (SKIPPING, LOSS):
        exact = standing.lossless_tokens_per_s
        least = "no lossless plan keeps the limits" if exact is None else f"without loss it is {exact:.3g} tokens/s"
        fastest = f"{standing.server_tokens_per_s:.3g} of a server without a device"
        how = "skipping only" if standing.gains == SKIPPING else "answers with a part of p only"
        return f"The device gains by {how} ({least}, against {fastest}): {plan}"
    option = f", {standing.rival_option}" if standing.rival_option else ""
    fastest = f"for one user the fastest is {standing.rival}{option}: {standing.rival_tokens_per_s:.3g} tokens/s"
    if standing.gains == CAPACITY:
        return (
            f"The device gains server capacity, not speed: {fastest}; but a full server carries "
            f"{standing.capacity:.2f} times as many users if devices draft ({standing.capacity_option}). "
            f"With drafts of the device {plan}"
        )
    return f"The device gains nothing: {fastest}. With drafts of the device {plan}"


def _plan(ours: Row, option: Option, standing: Standing, binds: str) -> str:
    """Return the plan, its speed, and its ratio to the strongest rival."""
    speed = _speed(ours)
    if option.family in (SERVER, DEVICE):
        return f"use the {option.family}: {speed}; {binds}."
    gain = ours.gain
    share = "no number of" if gain.value is None else f"{gain.value:.2f}"
    interval = interval_in_words(gain)
    rival = f"the strongest rival, {standing.rival}"
    return f"use {ours.option}: {speed}, {share} times{interval} that of {rival}; {binds}."


def _waiting(planner: Planner, rows: Sequence[Row]) -> str:
    """Return the sentence on a server that waits for each token."""
    alone = next(row for row in rows if row.policy == SERVER)
    low, high = planner.crossings(SERVER)
    now = 1e3 * planner.setting.link.round_trip_s
    if low == np.inf:
        return f"Nothing beats the server alone ({_speed(alone)}), whatever the round trip."
    if low is not None:
        return f"Nothing beats the server alone below {1e3 * low:.3g} ms of round trip (now {now:g} ms)."
    if high is not None:
        return f"Nothing beats the server alone above {1e3 * high:.3g} ms of round trip (now {now:g} ms)."
    return f"The plan beats a server that waits for each token's round trip at every round trip (now {now:g} ms)."


def _streams(planner: Planner, rows: Sequence[Row]) -> str:
    """Return the sentence on the servers that stream, without and with drafts of their own."""
    known = {row.policy: row for row in rows}
    said = []
    for family, name in ((STREAM, "A server that streams its tokens"), (COLOCATED, "one that also drafts for itself")):
        if family not in known:
            continue
        _, last = planner.crossings(family)
        where = "at every round trip" if last is None else f"only below {1e3 * last:.3g} ms of round trip"
        where = "at no round trip" if last == -np.inf else where
        said.append(f"{name} ({_speed(known[family])}) is beaten {where}")
    return f"{', '.join(said)}." if said else ""


def _speed(row: Row) -> str:
    value = row.tokens_per_s_median.value
    return f"{value:.3g} tokens/s" if value is not None else "no tokens"
