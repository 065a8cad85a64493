"""What is best for each aim: the fastest for one user, the most users of a full server, the fastest for N users.

Each aim lists every policy at its best option, chosen on the training texts. Between the listed options the test texts
decide, whose numbers the plan prints. A device is the answer only if it is better by more than plans of devices erred,
and a loss only if it is better by more than ``LOSS_WORTH``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hlmtheory.skipping import text_risk
from validation.arrays import Array
from validation.decoding.intervals import ratio
from validation.decoding.methods.rows import CERTIFIED, ROWS, STREAMED, UNRUN
from validation.errors import UserError
from validation.estimates import Estimate
from validation.planning.option import Option, error_of
from validation.planning.plan import EQUAL, Planner, Pool, load
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting
from validation.planning.shared import Shared

ONE_USER, FULL_SERVER = "one user", "a full server"
PROVED, MEASURED = "proved", "measured"
LOSS_WORTH = 0.05
"""Relative: a plan that loses something must be better than one without loss by more than this."""


@dataclass(frozen=True, slots=True)
class Number(Estimate):
    """A number of a plan, and what it rests on: "proved", "calibrated" or "measured", with the number of prompts."""

    basis: str = PROVED
    prompts: int | None = None

    def plain(self, digits: int | None = None) -> dict[str, Any]:
        return {**Estimate.plain(self, digits), "basis": self.basis, "prompts": self.prompts}


@dataclass(frozen=True, slots=True)
class Row:
    """One policy of a plan, at its best option that keeps the limits; ``decides`` is the number of the plan's aim."""

    policy: str
    option: str
    threshold: Number
    k_mean: Number
    k_p95: Number
    draft_length: Number
    bits: Number
    kilobytes_per_token: Number
    tokens_per_s_median: Number
    tokens_per_s_p95: Number
    tokens_per_s_mean: Number
    server_s_per_token: Number
    decides: Number
    gain: Number
    text_risk: Number
    token_risk: Number
    round_s: Number
    joules_per_token: Number
    breaks: tuple[str, ...]
    counts: dict[str, float]

    def plain(self) -> dict[str, Any]:
        values = ((name, getattr(self, name)) for name in self.__slots__)
        entries = {name: value.plain() if isinstance(value, Number) else value for name, value in values}
        return entries | {"breaks": list(self.breaks)}


def measured_number(estimate: Estimate, basis: str, prompts: int) -> Number:
    """Return a number with its interval, which one prompt does not give."""
    low, high = (estimate.low, estimate.high) if prompts > 1 else (None, None)
    return Number(estimate.value, low, high, basis=basis, prompts=prompts)


def measured_speed(above: Array, seconds: Array, prompts: int) -> Number:
    """Return Σ above/Σ seconds with its interval; 0 where nothing arrives."""
    if not np.isfinite(above).all():
        return Number(None, basis=MEASURED, prompts=prompts)
    if not np.isfinite(seconds).all():
        return Number(0.0, basis=MEASURED, prompts=prompts)
    return measured_number(ratio(above, seconds), MEASURED, prompts)


@dataclass(frozen=True, slots=True)
class Listed:
    family: str
    option: Option
    breaks: tuple[str, ...]  # The limits that it breaks
    value: float  # What the aim maximises, on the test texts
    second: float  # What decides between equal values
    crowded: float = np.nan  # Tokens a second of one user in passes of ``server_batch`` texts, in the mean over time

    @property
    def name(self) -> str:
        return f"{self.family}, {self.option.label}" if self.option.label else self.family


@dataclass(frozen=True, slots=True)
class Aim:
    name: str
    setting: Setting
    rows: list[Listed]  # One for each policy; the strongest of the policies that are not ours first
    listed: list[Listed]  # All options that were compared: of each policy the best for every aim, with loss and without
    best: Listed  # The answer, which an engine or a device is known to run
    shared: Shared | None = None  # Of an aim of several users

    @property
    def rival(self) -> Listed:
        return self.rows[0]

    def best_of(self, allowed: Callable[[Listed], bool]) -> Listed | None:
        """Return the best allowed option that keeps the limits and is known to run; None if there is none."""
        return best_kept([row for row in self.listed if allowed(row) and row.family not in UNRUN])

    def number(self, listed: Listed) -> float:
        """Return the number that decides: of a price and of a server's time the least is best, else the largest."""
        inverse = self.setting.objective in ("cost", "capacity") and self.name in (ONE_USER, FULL_SERVER)
        return 1.0 / listed.value if inverse and listed.value > 0 else listed.value


@dataclass(frozen=True, slots=True)
class Aims:
    one_user: Aim
    full_server: Aim
    together: Aim | None  # Of several users
    asked: Aim  # One of these, which the plan answers


def has_device(listed: Listed) -> bool:
    return listed.option.row.device


def best_kept(rows: Iterable[Listed]) -> Listed | None:
    """Return the best row that keeps the limits; of equal ones one of ours, which a device can run."""
    kept = [row for row in rows if not row.breaks]
    most = max((row.value for row in kept), default=0.0)
    equal = [row for row in kept if row.value >= most * (1.0 - EQUAL)]
    return max(equal, key=lambda row: (row.option.row.ours, row.second), default=None)


def chosen(runs: list[Listed]) -> Listed | None:
    """Return the best row that keeps the limits, but without a loss or a device that is worth too little.

    The loss is dropped first, by ``LOSS_WORTH``; then the device, by what plans of it were too fast; and then the loss
    again, which may be worth less without a device. None if no row keeps the limits.
    """
    if (best := best_kept(runs)) is None:
        return None
    for drop in ("loss", "device", "loss"):
        device, lossy = has_device(best) and drop != "device", not best.option.lossless and drop != "loss"
        simpler = best_kept(row for row in runs if has_device(row) <= device and (row.option.lossless or lossy))
        gain = LOSS_WORTH if drop == "loss" else error_of(best.family)
        if simpler is not None and simpler.value >= best.value / (1.0 + gain):
            best = simpler
    return best


def aims_of(planner: Planner, setting: Setting, shared: Shared | None = None) -> Aims:
    """Return the aims: one user, a full server, and the users that ``shared`` holds; the setting's is asked for."""
    usual = setting if setting.objective not in ("capacity", "fair") else replace(setting, objective="throughput")
    full = setting if setting.objective == "capacity" else replace(setting, objective="capacity")
    pools = {name: planner.pool(wanted) for name, wanted in ((ONE_USER, usual), (FULL_SERVER, full))}
    if shared is not None:
        pools[shared.name] = planner.pool(shared.setting)
    listed: dict[str, set[int]] = {family: set() for family in ROWS}
    for name, pool in pools.items():
        values = pool.value if shared is None or name != shared.name else shared.estimates(pool)
        for family, places in pool.places.items():
            for part in (places, places[pool.lossless[places]]):
                place = pool.best(part, values)
                if place is not None:
                    listed[family].add(place)
            if shared is not None:
                listed[family] |= {place for place in places.tolist() if pool.options[place].by_user}
    widest = max(pools.values(), key=lambda pool: len(pool.options))  # with a device that drafts on
    one, full_server, *others = (
        _aim(planner, name, pool, widest, listed, None if name in (ONE_USER, FULL_SERVER) else shared)
        for name, pool in pools.items()
    )
    together = others[0] if others else None
    return Aims(one, full_server, together, full_server if setting is full else together or one)


def _aim(
    planner: Planner, name: str, pool: Pool, widest: Pool, listed: dict[str, set[int]], shared: Shared | None
) -> Aim:
    setting, rows, every = pool.setting, [], []
    for family, places in listed.items():
        of_family = []
        for place in sorted(places):
            # pools list the planner's options in one order; a streamed one comes last
            limits = pool if place < len(pool.options) else widest
            option, total = widest.options[place], widest.test[place]
            value = float(setting.value(total)) if shared is None else shared.value(option, planner.split.test)
            speed = float(np.mean(setting.speeds(total)))
            second = speed if setting.objective == "capacity" or shared is not None else -float(load(setting, total))
            full = family != STREAMED or setting.server_batch == 1  # its passes a token follow a pass's time
            crowded = float(np.mean(setting.speeds(total, batch=setting.server_batch))) if full else np.nan
            of_family.append(Listed(family, option, limits.breaks(place), value, second, crowded))
        every += of_family
        if of_family:
            rows.append(best_kept(of_family) or max(of_family, key=lambda row: ("risk" not in row.breaks, row.value)))
    best = chosen([row for row in every if row.family not in UNRUN])
    if best is None:
        raise UserError(planner.nearest(pool))
    rows = [best if row.family == best.family else row for row in rows]
    others = [row for row in rows if not row.option.row.ours and row.family not in UNRUN]
    alone = [row for row in others if not has_device(row)]
    rival = best_kept(others) or max(alone, key=lambda row: row.value)
    return Aim(name, setting, [rival, *(row for row in rows if row is not rival)], every, best, shared)


def described(planner: Planner, aim: Aim, listed: Listed) -> Row:
    setting, split, family, option = aim.setting, planner.split, listed.family, listed.option
    test, n = split.test, split.prompts["test"]
    counts = split.sums(option.counts, test)
    total = counts.sum(axis=0)
    c = dict(zip(COUNTS, total.tolist(), strict=True))
    median, slow = setting.link.quantile(0.5), setting.link.quantile(0.95)
    base = split.sums(aim.rival.option.counts, test)
    sends, every = c["exchanges"] > 0, len(np.unique(split.prompt))

    def measured(value: float | None) -> Number:
        return Number(value if value is not None and np.isfinite(value) else None, basis=MEASURED, prompts=n)

    def size(value: float) -> Number:
        known = value if sends and value > 0 else None
        return Number(known, basis=PROVED if option.certified else MEASURED, prompts=every)

    def speed(rate: float) -> Number:
        return measured_speed(counts[:, 0], setting.seconds(counts, rate), n)

    limited = "risk" not in listed.breaks and setting.risk_limit < 1
    calibrated = option.row.calibrated and not option.lossless and limited
    basis = f"calibrated on {split.prompts['calibrate']} prompts" if calibrated else MEASURED
    loss, token = (
        measured_number(ratio(split.means(x, test), np.ones(n)), MEASURED, n) for x in (option.loss, option.token_loss)
    )
    if option.lossless:
        loss = token = Number(0.0, 0.0, 0.0)
    elif family == CERTIFIED:
        loss, token = (Number(planner.charged(option, kind)) for kind in ("text", "token"))
    elif calibrated and setting.risk_kind == "text":
        bound = text_risk(split.means(np.clip(option.loss, 0.0, 1.0), test))
        loss = Number(float(bound.mean), float(bound.low), float(bound.high), basis=basis, prompts=n)
    threshold = Number(None)
    if np.isfinite(option.threshold):
        prompts = split.prompts["calibrate" if calibrated else "train"]
        threshold = Number(float(option.threshold), basis=basis, prompts=prompts)
    up, joules = c["up_bits"], float(setting.joules(total, median))
    late = setting.link.quantile(setting.latency_share)
    round_s = float(setting.round_seconds(total, np.array([late]))[0])
    if family == STREAMED:  # it drafts and sends all the time; its counts hold only what is waited for
        whole = float(setting.seconds(total, median))
        up *= whole / (setting.draft_s * c["exchanges"])
        joules = whole * setting.device_w + up / max(median, 1e-9) * setting.transmit_w
        round_s = float(setting.seconds(total, late)) / c["exchanges"]
    return Row(
        policy=family,
        option=option.label,
        threshold=threshold,
        k_mean=size(option.top_k[0]),
        k_p95=size(option.top_k[1]),
        draft_length=Number(float(option.draft_length), basis=MEASURED, prompts=n),
        bits=measured(c["up_bits"] / c["exchanges"] if sends else None),
        kilobytes_per_token=measured((up + c["down_bits"]) / 8e3 / c["tokens"] or None),
        tokens_per_s_median=speed(median),
        tokens_per_s_p95=speed(slow),
        tokens_per_s_mean=measured_speed(counts[:, 0], setting.mean_seconds(counts), n),
        server_s_per_token=measured(float(load(setting, total))),
        decides=measured(aim.number(listed))
        if aim.shared is None
        else measured_number(aim.shared.estimate(option, split), MEASURED, n),
        gain=measured_speed(setting.mean_seconds(base), setting.mean_seconds(counts), n),
        text_risk=loss,
        token_risk=token,
        round_s=measured(round_s),
        joules_per_token=measured(joules / c["tokens"]),
        breaks=listed.breaks,
        counts={name: value / c["tokens"] for name, value in c.items()},
    )
