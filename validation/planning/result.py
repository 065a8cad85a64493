"""The result of a request: rows, verdict, sensitivity and limits, as plain values for the screen, JSON and the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from validation.acceptance.summary import RoundTimes, loses_from
from validation.decoding.intervals import ratio
from validation.planning.menu import CERTIFIED, COLOCATED, OURS, SERVER, STREAMED
from validation.planning.padding import said
from validation.planning.plan import Planner
from validation.planning.request import OTHERS, VARIED, Request, variants
from validation.planning.rounds import COUNTS
from validation.planning.rows import Number, Row
from validation.planning.verdict import Standing, standing_of, verdict_of

_DUAL = "dual bound in the model of mean rounds"


@dataclass(frozen=True, slots=True)
class Varied:
    """One line of the sensitivity table."""

    option: str
    value: str
    tokens_per_s: float
    change: float
    regret: float
    plan: str
    rival: str
    rival_tokens_per_s: float

    def plain(self) -> dict[str, Any]:
        """Return the line as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Result:
    """A plan.

    Attributes
    ----------
    rows : list of Row
    standing : Standing
        What the device gains, against the strongest rival.
    verdict : str
    sensitivity : list of Varied
    mattered : str
        The sentence about the default that mattered most.
    gap : Number, optional
        By how much a better plan of the class could be faster, relative.
    message_gain : Number, optional
        By how much any other message could make a plan faster, with one draft a position and rounds of a fixed length.
    notes : list of str
    """

    rows: list[Row]
    standing: Standing
    verdict: str
    sensitivity: list[Varied]
    mattered: str
    gap: Number | None
    message_gain: Number | None
    notes: list[str]

    def plain(self, request: Request, planner: Planner, about: dict[str, Any]) -> dict[str, Any]:
        """Return the plan as plain values; see the documentation of ``hlm plan --json``."""
        link = planner.setting.link
        return {
            "format": "hlm plan",
            "version": 1,
            **about,
            "prompts": planner.split.prompts,
            "request": {
                name: getattr(request, name)
                for name in Request.__slots__
                if name not in ("recorded", "latency", "risk")
            }
            | {
                "risk": {"kind": request.risk[0], "limit": request.risk[1]},
                "latency": None
                if request.latency is None
                else {"share": request.latency[0], "seconds": request.latency[1]},
            },
            "link": {
                "name": link.name,
                "round_trip_s": link.round_trip_s,
                "down_bps": link.down_bps,
                "median_bps": link.quantile(0.5),
                "p95_bps": link.quantile(0.95),
                "late_bps": link.quantile(planner.setting.latency_share),
                "rates_bps": link.rates.tolist(),
            },
            "rows": [row.plain() for row in self.rows],
            "count_names": list(COUNTS),
            "menu": planner.menu(),
            "streamed": planner.streamed_menu(),
            "standing": self.standing.plain(),
            "verdict": self.verdict,
            "gap": None if self.gap is None else self.gap.plain(),
            "message_gain": None if self.message_gain is None else self.message_gain.plain(),
            "sensitivity": [line.plain() for line in self.sensitivity],
            "mattered": self.mattered,
            "notes": self.notes,
        }


def make(planner: Planner, request: Request, defaulted: Iterable[str]) -> Result:
    """Return the plan for a request.

    Parameters
    ----------
    planner : Planner
        With the setting of the request.
    request : Request
    defaulted : iterable of str
        Options that were left out.
    """
    rows = planner.table()
    sensitivity = _sensitivity(planner, request, [name for name in defaulted if name in VARIED or name in OTHERS])
    standing = standing_of(planner)
    gap, message_gain = _bounds(planner)
    return Result(
        rows,
        standing,
        verdict_of(planner, rows, standing),
        sensitivity,
        _mattered(sensitivity),
        gap,
        message_gain,
        [_server_draft(planner, request), *_crossover(planner), *_any_message(message_gain), *_notes(planner)],
    )


def _bounds(planner: Planner) -> tuple[Number | None, Number | None]:
    """Return the largest relative gains in speed over our plan that two bounds allow; None where they are unknown.

    The first is over the plan's own messages, the second over all messages.
    """
    setting, model = planner.setting, planner.model
    option, _ = planner.ours(setting)
    median = setting.link.quantile(0.5)
    if option.block:  # the bounds are those of drafts that are verified one by one
        return None, None
    if model is None or option.family not in (OURS, STREAMED) or setting.objective != "throughput" or median <= 0:
        return None, None
    streams = planner.candidates(STREAMED, setting)
    if option.family == STREAMED:
        total = planner.totals([option])[0]
        rate, risk = float(total[0] / setting.seconds(total, median)), 0.0
    else:
        rate, risk = model.rate(option, setting)
    alone = next(server for server in planner.options if server.family == SERVER)
    speed = float(setting.speeds(planner.totals([alone])[0], np.array([median]))[0])
    own, every = (
        max(
            model.upper_bound(setting, risk, speed, tokens_alone=tokens_alone),
            planner.streamed_bound(setting, tokens_alone=tokens_alone) if streams else 0.0,
            speed,
        )
        / rate
        - 1.0
        for tokens_alone in (False, True)
    )
    prompts = planner.split.prompts["train"]
    return Number(own, _DUAL, prompts), Number(every, _DUAL, prompts)


def _sensitivity(planner: Planner, request: Request, names: list[str]) -> list[Varied]:
    ours, _ = planner.ours(planner.setting)
    now = planner.value_of(ours, planner.setting)
    lines = []
    for name in names:
        if name in ("--snr", "--k-factor") and (request.fading == "none" or request.recorded is not None):
            continue
        if name == "--k-factor" and request.fading != "rician":
            continue
        if name in ("--rate", "--fading") and request.recorded is not None:
            continue
        if name in ("--server-price", "--time-price") and request.objective != "cost":
            continue
        if name in ("--device-w", "--transmit-w") and request.energy_j is None:
            continue
        for shown, other in variants(request, name):
            setting = replace(other, latency=None, energy_j=None).setting() if request.latency else other.setting()
            option, _ = planner.ours(setting)
            best, kept = planner.value_of(option, setting), planner.value_of(planner.again(ours, setting), setting)
            allowed = planner.safe(ours, setting)
            speed = float(np.mean(setting.speeds(planner.totals([option])[0])))
            label = f"{option.family} {option.label}" if option.family != OURS else option.label
            regret = 1.0 - kept / best if allowed and best > 0 else 1.0
            rival = planner.rival(setting)
            fastest = float(np.mean(setting.speeds(planner.totals([rival])[0])))
            named = f"{rival.family} {rival.label}".rstrip()
            lines.append(Varied(name, shown, speed, best / now - 1.0, regret, label, named, fastest))
    return lines


def _mattered(lines: list[Varied]) -> str:
    if not lines:
        return "Every option that the plan depends on was given."
    strongest = max(lines, key=lambda line: abs(line.change))
    worst = max(lines, key=lambda line: line.regret)
    said = (
        f"Of the defaults, {strongest.option} mattered most: at {strongest.value} the best plan changes by "
        f"{strongest.change:+.0%} ({strongest.plan})."
    )
    if worst.regret > 1e-6:
        said += f" This plan would lose most, {worst.regret:.1%}, at {worst.option} {worst.value}."
    return said


def _server_draft(planner: Planner, request: Request) -> str:
    """Return what is assumed of the server's own draft model."""
    said = f"A pass of the draft model on the server: {1e3 * planner.setting.own_draft_s:.3g} ms (--server-draft-ms)"
    if request.server_draft_s is None or request.server_draft_basis != "given":
        basis = request.server_draft_basis if request.server_draft_s is not None else "that of the device"
        said += f", assumed: {basis}"
    if planner.setting.own_draft_s <= planner.setting.draft_s:
        said += (
            ". The server is no slower at it than the device, so for one user no plan that loses nothing, drafts and "
            "waits in turn, is faster than the server with its own draft, if both draw from the same distributions and "
            "the downlink carries the tokens (proved: policy.colocated_speed)"
        )
    return said + "."


def _crossover(planner: Planner) -> list[str]:
    """Return from which batch on drafts of the server's own lose; nothing where a token of a pass takes no time."""
    setting, split = planner.setting, planner.split
    own = [one for one in planner.options if one.family == COLOCATED and one.label == f"K = {one.draft_length:g}"]
    if setting.verify_token_s == 0 or not own:
        return []
    times = RoundTimes(verify=setting.verify_s, verify_token=setting.verify_token_s, draft=setting.own_draft_s)
    found = [
        ratio(*(split.sums(one.counts, split.test)[:, COUNTS.index(name)] for name in ("tokens", "passes")))
        for one in own
    ]
    lengths = [one.draft_length for one in own]
    ends = [
        loses_from(np.array([getattr(one, end) for one in found]), times, np.array(lengths))
        for end in ("value", "low", "high")
    ]
    batch, low, high = (f"{end:,.0f}" if np.isfinite(end) else "never" for end in ends)
    said = "pay at every large batch" if batch == "never" else f"lose from a batch of {batch} on"
    interval = f" ({low} to {high}, 95% over prompts)" if split.prompts["test"] > 1 else ""
    return [
        f"Drafts of a server's own model {said}{interval}, if a pass takes {1e3 * setting.verify_s:.3g} ms and "
        f"{1e6 * setting.verify_token_s:.3g} us a token (--verify-us-per-token); the times of the cache and of a "
        "sequence in the draft's pass count as 0."
    ]


def _any_message(gain: Number | None) -> list[str]:
    """Return the sentence on what messages could still add, if it is known."""
    if gain is None or gain.value is None:
        return []
    return [
        "Even a message as short as token ids makes a plan with one draft a position and rounds of a fixed length, or "
        "a lossless one that drafts each position once while the server verifies what it gets, at most "
        f"{1.0 + gain.value:.2f} times as fast as this one ({gain.basis})."
    ]


def _notes(planner: Planner) -> list[str]:
    notes = []
    if not planner.split.enough:
        notes.append(
            f"There are {planner.split.prompts['test']} prompt(s), too few to split: numbers are measured on the texts "
            "that the plan was chosen on, and no threshold is calibrated. Still proved: lossless policies have the "
            "target model's law, and a certified message keeps its Bias."
        )
    elif planner.setting.risk_limit > 0:
        notes.append(_promise(planner))
    if planner.setting.leak_bits is not None:
        option, _ = planner.ours(planner.setting)
        notes.append(said(option, option.counts[:, COUNTS.index("tokens")]))
    return notes


def _promise(planner: Planner) -> str:
    """Return what is promised of the risk, or why nothing may be skipped."""
    setting, n = planner.setting, planner.split.prompts["calibrate"]
    option, _ = planner.ours(setting)
    kept, proved = "the plan is lossless", ""
    if option.family == CERTIFIED:
        kept = "the plan skips nothing"
        proved = (
            f"Proved: the law of each token, given those before it, is within {option.answer_limit:g} of the target's, "
            f"and that of a text as long as these within {option.loss.max():.3g}, whatever the models are. "
        )
    kind, limit, sure = setting.risk_kind, setting.risk_limit, setting.confidence
    codec = 0 if sure is None else planner.codec(setting)
    if codec is not None and planner.threshold(setting, codec) > -np.inf:
        if proved:
            return proved.rstrip()
        what = "a text's total variation" if kind == "text" else "a token's one-step risk"
        if sure is None:
            return (
                f"Promised: {what} is at most {limit:g} in the mean over prompts and over calibrations on {n} prompts. "
                "A single text, or a single calibration, may be above it; --confidence .95 keeps it in 95% of them."
            )
        return (
            f"Promised: {what} is at most {limit:g} in the mean over prompts, for {sure:.4g} of all calibrations on "
            f"{n} prompts. A single text may be above it."
        )
    if sure is not None and codec is not None and n:
        need = planner.confident(kind, limit, codec, sure)
        why = f"{n} calibration prompts are too few at confidence {sure:g}"
        if need is not None and np.isfinite(need.prompts_needed):
            why += f"; with losses like theirs about {np.ceil(need.prompts_needed):.0f} are needed"
        else:
            why = f"the smallest threshold already loses more on the {n} calibration prompts"
    elif n and (n + 1) * limit < 1:
        why = f"{n} calibration prompts, and {int(np.ceil(1 / limit)) - 1} are needed"
    else:
        why = f"the smallest threshold already loses more on the {n} calibration prompts"
    return f"{proved}No token may be skipped at --risk {kind}={limit:g}: {why}; {kept}."
