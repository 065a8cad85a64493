"""The result of a request: rows, verdict, sensitivity and limits, as plain values for the screen, JSON and the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from validation.planning.bound import gap
from validation.planning.menu import DEVICE, OURS, SERVER, STREAM
from validation.planning.plan import Planner
from validation.planning.request import OTHERS, VARIED, Request, variants
from validation.planning.rounds import COUNTS
from validation.planning.rows import Number, Row, interval_in_words


@dataclass(frozen=True, slots=True)
class Varied:
    """One line of the sensitivity table."""

    option: str
    value: str
    tokens_per_s: float
    change: float
    regret: float
    plan: str

    def plain(self) -> dict[str, Any]:
        """Return the line as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Result:
    """A plan.

    Attributes
    ----------
    rows : list of Row
    verdict : str
    sensitivity : list of Varied
    mattered : str
        The sentence about the default that mattered most.
    gap : Number, optional
        By how much a better plan of the class could be faster, relative.
    notes : list of str
    """

    rows: list[Row]
    verdict: str
    sensitivity: list[Varied]
    mattered: str
    gap: Number | None
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
            "verdict": self.verdict,
            "gap": None if self.gap is None else self.gap.plain(),
            "sensitivity": [one.plain() for one in self.sensitivity],
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
    return Result(
        rows,
        _verdict(planner, rows),
        sensitivity,
        _mattered(sensitivity),
        _gap(planner),
        _notes(planner),
    )


def _gap(planner: Planner) -> Number | None:
    option, _ = planner.ours(planner.setting)
    found = gap(planner, option)
    if found is None:
        return None
    return Number(found, "dual bound in the model of mean rounds", planner.split.prompts["train"])


def _sensitivity(planner: Planner, request: Request, names: list[str]) -> list[Varied]:
    ours, _ = planner.ours(planner.setting)
    now = planner.value_of(ours, planner.setting)
    found = []
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
            best, kept = planner.value_of(option, setting), planner.value_of(ours, setting)
            allowed = planner.safe(ours, setting)
            speed = float(np.mean(setting.speeds(planner.totals([option])[0])))
            label = f"{option.family} {option.label}" if option.family != OURS else option.label
            regret = 1.0 - kept / best if allowed and best > 0 else 1.0
            found.append(Varied(name, shown, speed, best / now - 1.0, regret, label))
    return found


def _mattered(lines: list[Varied]) -> str:
    if not lines:
        return "Every option that the plan depends on was given."
    one = max(lines, key=lambda line: abs(line.change))
    worst = max(lines, key=lambda line: line.regret)
    said = (
        f"Of the defaults, {one.option} mattered most: at {one.value} the best plan changes by {one.change:+.0%} "
        f"({one.plan})."
    )
    if worst.regret > 1e-6:
        said += f" This plan would lose most, {worst.regret:.1%}, at {worst.option} {worst.value}."
    return said


def _verdict(planner: Planner, rows: list[Row]) -> str:
    ours = next(row for row in rows if row.policy == OURS)
    option, _ = planner.ours(planner.setting)
    alone = next(row for row in rows if row.policy == SERVER)
    binds = planner.binding(option)
    low, high = planner.crossings(SERVER)
    now = 1e3 * planner.setting.link.round_trip_s
    if option.family in (SERVER, DEVICE):
        first = f"Use the {'server' if option.family == SERVER else 'device'} alone: {_speed(ours)}; {binds}."
    else:
        share = f"{ours.gain.value:.2f} times{interval_in_words(ours.gain)}"
        first = f"Use {ours.option}: {_speed(ours)}, {share} the best of the two models alone; {binds}."
    if low == np.inf:
        second = f"Nothing beats the server alone ({_speed(alone)}), whatever the round trip."
    elif low is not None:
        second = f"Nothing beats the server alone below {1e3 * low:.3g} ms of round trip (now {now:g} ms)."
    elif high is not None:
        second = f"Nothing beats the server alone above {1e3 * high:.3g} ms of round trip (now {now:g} ms)."
    else:
        second = f"The plan beats a server that waits for each token's round trip at every round trip (now {now:g} ms)."
    _, stream = planner.crossings(STREAM)
    streaming = next((row for row in rows if row.policy == STREAM), None)
    if streaming is None:
        return f"{first} {second}"
    if stream == -np.inf:
        where = "at no round trip"
    elif stream is not None:
        where = f"only below {1e3 * stream:.3g} ms of round trip"
    else:
        where = "at every round trip"
    if (streaming.tokens_per_s_median.value or 0.0) > (ours.tokens_per_s_median.value or 0.0):
        lead = f"A server that may stream its tokens is faster here ({_speed(streaming)}); a plan beats it {where}."
        return f"{lead} Where each token needs an exchange: {first[0].lower()}{first[1:]} {second}"
    return f"{first} {second} A server that streams its tokens ({_speed(streaming)}) is beaten {where}."


def _speed(row: Row) -> str:
    value = row.tokens_per_s_median.value
    return f"{value:.3g} tokens/s" if value is not None else "no tokens"


def _notes(planner: Planner) -> list[str]:
    found = []
    if not planner.split.enough:
        found.append(
            f"There are {planner.split.prompts['test']} prompt(s), too few to split: numbers are measured on the texts "
            "that the plan was chosen on, and no threshold is calibrated. Still proved: lossless policies have the "
            "target model's law, and a certified message keeps its Bias."
        )
    elif planner.setting.risk_limit > 0:
        found.append(_promise(planner))
    return found


def _promise(planner: Planner) -> str:
    """Return what is promised of the risk, or why nothing may be skipped."""
    setting, n = planner.setting, planner.split.prompts["calibrate"]
    kind, limit, sure = setting.risk_kind, setting.risk_limit, setting.confidence
    codec = 0 if sure is None else planner.codec(setting)
    if codec is not None and planner.threshold(setting, codec) > -np.inf:
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
    return f"No token may be skipped at --risk {kind}={limit:g}: {why}; the plan is lossless."
