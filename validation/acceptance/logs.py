"""Read counts of accepted drafts from the logs of vLLM and llama.cpp.

vLLM prints a window of some seconds a line: two totals, and rounded rates by position. The number of steps is not
printed; it is the one for which each rate is a count over the steps, and the counts add up to the total.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from validation.acceptance.record import AcceptanceRecord, LeftOut, Note, Read
from validation.acceptance.sanity import differing
from validation.errors import UserError

VLLM_LOG = re.compile(r"SpecDecoding metrics:")
_FIELDS = {
    "length": re.compile(r"Mean acceptance length: ([\d.]+)"),
    "accepted": re.compile(r"Accepted: (\d+) tokens"),
    "drafted": re.compile(r"Drafted: (\d+) tokens"),
    "rates": re.compile(r"Per-position acceptance rate: ((?:\d\.\d+(?:, )?)+)"),
}
_SERVICE = re.compile(r"^(?:\x1b\[[\d;]*m)*([\w.-]+)\s*\|")
_SERVER = re.compile(r"\((?:APIServer|ApiServer)\w* pid=(\d+)\)")
_MODEL = re.compile(r"served_model_name=([^,\s]+)")
_HALF = {"length": 0.005 + 1e-9, "rate": 0.0005 + 1e-9}
_MOST_STEPS = 20_000
"""Most numbers of steps that are tried for a window; of a larger window all digits fit thousands of them."""


@dataclass(frozen=True, slots=True)
class _Window:
    line: int
    who: str
    steps: int
    drafted: int
    places: tuple[int, ...]
    exact: bool  # whether the digits leave one choice


def vllm_log(path: str, text: str) -> list[Read]:
    """Return the sum of vLLM's windows, by service where a log has several, and by draft length."""
    lines = text.splitlines()
    marked = [number for number, line in enumerate(lines, start=1) if VLLM_LOG.search(line)]
    services = {name for number in marked if (name := _who(lines[number - 1], _SERVICE))}
    models = sorted({found[1] for line in lines if (found := _MODEL.search(line))})
    key = _SERVICE if len(services) > 1 else _SERVER
    named = len(services) > 1 or len(models) > 1
    windows, read = [], list[Read]()
    for number in marked:
        line, where = lines[number - 1], f"{path}, line {number}"
        try:
            windows.append(_window(where, number, _who(line, key) if named else "", line))
        except UserError as error:
            if number != len(lines) or text.endswith("\n"):
                raise
            read.append(LeftOut(where, f"the log is cut off there ({error})"))
    if len(models) > 1 and len({window.who for window in windows}) < 2:
        raise UserError(f"{path} serves {len(models)} models ({', '.join(models)}), whose windows look alike; cut it.")
    groups: dict[tuple[str, int], list[_Window]] = defaultdict(list)
    for window in windows:
        groups[window.who, len(window.places)].append(window)
    processes = set() if named else {_who(lines[number - 1], _SERVER) for number in marked} - {""}
    for (who, _), group in groups.items():
        where = path if len(groups) == 1 else f"{path}, lines {group[0].line} to {group[-1].line}"
        read += [_sum(where, f"vllm {who}".strip(), group), _note(where, group, processes)]
    return read


def _who(line: str, pattern: re.Pattern[str]) -> str:
    found = pattern.search(line)
    return "" if found is None else found[1]


def _window(where: str, number: int, who: str, line: str) -> _Window:
    texts = {name: found[1] for name, field in _FIELDS.items() if (found := field.search(line))}
    if missing := [name for name in _FIELDS if name not in texts]:
        raise UserError(f"{where}: vLLM's line has no {missing[0]}; give the log of a newer vLLM, or the whole line.")
    rates = [float(rate) for rate in texts["rates"].split(",") if rate.strip()]
    accepted, drafted, length = int(texts["accepted"]), int(texts["drafted"]), float(texts["length"])
    full = max(-(-drafted // len(rates)), 1)
    fewest, most = full, drafted
    if accepted:
        fewest = max(fewest, math.ceil(accepted / (length - 1.0 + _HALF["length"])))
        most = min(most, math.floor(accepted / max(length - 1.0 - _HALF["length"], 1e-9)))
    tried = range(fewest, min(most, fewest + _MOST_STEPS) + 1)
    fitting = [steps for steps in tried if _counts(rates, steps, accepted) is not None]
    if not fitting:
        raise UserError(
            f"{where}: no number of steps gives {accepted:,} accepted of {drafted:,} drafts, a mean length of "
            f"{length:g} and these rates; the line is damaged."
        )
    nearest = min(fitting, key=lambda steps: abs(accepted - (length - 1.0) * steps))
    steps = full if full in fitting else nearest
    places = _counts(rates, steps, accepted) or ()
    exact = (steps * len(rates) == drafted or len(fitting) == 1) and 2 * _HALF["rate"] * steps < 1.0
    return _Window(number, who, steps, drafted, tuple(places), exact)


def _counts(rates: Sequence[float], steps: int, accepted: int) -> list[int] | None:
    """Return falling counts by position, near rate × steps, that add up to a total; None if there are none."""
    low = [max(math.ceil((rate - _HALF["rate"]) * steps), 0) for rate in rates]
    high = [min(math.floor((rate + _HALF["rate"]) * steps), steps) for rate in rates]
    if any(a > b for a, b in zip(low, high, strict=True)) or not sum(low) <= accepted <= sum(high):
        return None
    counts = [min(max(round(rate * steps), a), b) for rate, a, b in zip(rates, low, high, strict=True)]
    while (missing := accepted - sum(counts)) != 0:
        step = 1 if missing > 0 else -1
        ends, edge = (high, [steps, *counts]) if step > 0 else (low, [*counts[1:], 0])
        free = [i for i, count in enumerate(counts) if count != ends[i] and count != edge[i]]
        if not free:
            return None
        at = max(free, key=lambda i: step * (rates[i] * steps - counts[i]))
        counts[at] += step
    return counts if sorted(counts, reverse=True) == counts else None


def _sum(where: str, engine: str, windows: Sequence[_Window]) -> AcceptanceRecord:
    places = tuple(map(sum, zip(*(window.places for window in windows), strict=True)))
    return AcceptanceRecord(
        engine=engine,
        source=where,
        num_spec_steps=sum(window.steps for window in windows),
        num_draft_tokens=sum(window.drafted for window in windows),
        num_accepted_draft_tokens=sum(places),
        num_spec_tokens=len(places),
        accepted_per_position=places,
    )


def _note(where: str, windows: Sequence[_Window], processes: set[str]) -> Note:
    steps = sum(window.steps for window in windows)
    said = [f"{where}: {len(windows):,} windows of vLLM's log add up to {steps:,} steps; counts are rate times steps."]
    if loose := [window for window in windows if not window.exact]:
        share = max(2 * _HALF["rate"], *(1.0 / window.steps for window in loose))
        said.append(
            f"The digits of {len(loose):,} windows leave several counts: a rate by position may be {share:.3f} off; "
            "/metrics has the counts themselves."
        )
    if len(processes) > 1:
        said.append(f"Added are {len(processes)} server processes: ranks of one model, restarts, or several models.")
    return Note(" ".join([*said, *differing("windows", [(window.places[0], window.steps) for window in windows])]))


LLAMA_STATISTICS = re.compile(
    r"statistics\s+(?P<name>[\w-]+):\s+#calls\(b,g,a\)\s*=\s*\d+\s+\d+\s+(?P<steps>\d+),.*?"
    r"#gen tokens\s*=\s*(?P<drafted>\d+),\s*#acc tokens\s*=\s*(?P<accepted>\d+)"
    r"(?:.*?#acc rate/pos\s*=\s*\((?P<rates>[\d., ]+)\))?"
)


def llama_statistics(path: str, text: str) -> list[Read]:
    """Return the totals of each of llama.cpp's drafters; they grow with every request, and restart with the server."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    last: dict[str, tuple[dict[str, int], str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if (found := LLAMA_STATISTICS.search(line)) is None:
            continue
        counts = {name: int(found[name]) for name in ("steps", "drafted", "accepted")}
        before, _ = last.get(found["name"], ({}, ""))
        if any(counts[name] < value for name, value in before.items()):
            totals[found["name"]].update(before)
        last[found["name"]] = counts, found["rates"] or ""
        where = f"{path}, line {number}"
        if counts["accepted"] > counts["drafted"]:
            raise UserError(f"{where}: {counts['accepted']:,} of {counts['drafted']:,} drafts are accepted; damaged.")
    several = sum(counts["steps"] > 0 for counts, _ in last.values()) > 1
    records: list[Read] = []
    for name, (counts, written) in last.items():
        rates = [float(rate) for rate in written.split(",") if rate.strip()]
        places = None if totals[name] or not rates else _counts(rates, counts["steps"], counts["accepted"])
        totals[name].update(counts)
        records.append(
            AcceptanceRecord(
                engine=f"llama.cpp {name}" if several else "llama.cpp",
                source=f"{path}, {name}",
                num_spec_steps=totals[name]["steps"],
                num_draft_tokens=totals[name]["drafted"],
                num_accepted_draft_tokens=totals[name]["accepted"],
                accepted_per_position=None if places is None else tuple(places),
                copied=name.startswith("ngram"),
            )
        )
    return records
