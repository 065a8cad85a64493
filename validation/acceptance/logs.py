"""Read counts of accepted drafts from the logs of vLLM and llama.cpp.

They print totals and rounded rates by position, but not the number of steps. It is one for which each rate is a count
over the steps, and the counts add up to the total. A line of vLLM covers a window of a few seconds. Windows add up.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from validation.acceptance.other_engines import llama_timings
from validation.acceptance.record import CUT, LeftOut, Read, of_totals
from validation.acceptance.sanity import differing
from validation.errors import UserError

VLLM_LOG = re.compile(r"SpecDecoding metrics:")
_VLLM = (
    re.compile(r"Accepted: (\d+) tokens"),
    re.compile(r"Drafted: (\d+) tokens"),
    re.compile(r"Mean acceptance length: ([\d.]+)"),
    re.compile(r"Per-position acceptance rate: ((?:\d\.\d+(?:, )?)+)"),
)
VLLM_OLD_LOG = re.compile(
    r"Speculative metrics:.*?System efficiency: (\S+), Number of speculative tokens: ([1-9]\d*), "
    r"Number of accepted tokens: (\d+), Number of draft tokens: (\d+)"
)
_SERVICE = re.compile(r"^(?:\x1b\[[\d;]*m)*([\w.-]+)\s*\|")
_SERVER = re.compile(r"(?:\(Api\w*Server\w* pid=|^\[pod/)([\w.-]+)", re.I)
_MODEL = re.compile(r"served_model_name=([^,\s]+)")
LLAMA_LOG = re.compile(
    r"draft acceptance(?: rate)?\s*=\s*\S+\s*\(\s*(?P<accepted>\d+) accepted /\s*(?P<drafted>\d+) generated\)"
    r"(?:.*mean (?:acceptance length|len)\s*=\s*(?P<length>[\d.]+))?"
)
LLAMA_PLACES = re.compile(r"(?:acceptance rate per position|acc per pos)\s*=\s*\((?P<rates>(?:\d\.\d+[, ]*)+)\)")
LLAMA_STATISTICS = re.compile(
    r"statistics\s+(?P<name>[\w-]+):\s+#calls(?:\(b,g,a\) = +\d+ +\d+| = +\d+, #gen drafts =) +(?P<steps>\d+),.*?"
    r"#gen tokens\s*=\s*(?P<drafted>\d+),\s*#acc tokens\s*=\s*(?P<accepted>\d+)"
    r"(?:.*?#acc rate/pos\s*=\s*\((?P<rates>(?:\d\.\d+[, ]*)+)\))?"
)
LLAMA_EVAL = re.compile(r"(?<!prompt )eval time\s*=\s*([\d.]+) ms /\s*(\d+) tokens")
LLAMA_EXAMPLE = re.compile(r"n_predict\s*=\s*(\d+)[^=]*n_drafted\s*=\s*(\d+)[^=]*n_accept\s*=\s*(\d+)")
HALF_LENGTH, HALF_RATE, MOST_STEPS = 0.005 + 1e-9, 0.0005 + 1e-9, 20_000
"""Half of the last digit of a mean length and of a rate; most numbers of steps that are tried for a line."""
Window = tuple[int, tuple[int, ...], bool]
FEW = (
    "{accepted:,} of {drafted:,} drafts were accepted, and the log does not say in how many steps; without it the "
    "acceptance is too high: give the answers or /metrics instead"
)


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",") if number.strip()]


def counts_of(rates: Sequence[float], steps: int, accepted: int) -> tuple[int, ...] | None:
    """Return counts by position near rate × steps. They fall, and their sum is the total. None: no such counts."""
    near = np.asarray(rates) * steps
    low, high = np.ceil(near - HALF_RATE * steps), np.minimum(np.floor(near + HALF_RATE * steps), steps)
    if (low > high).any() or not low.sum() <= accepted <= high.sum():
        return None
    first = np.linspace(1e-7, 0.0, len(near))  # of equal rates the first is rounded up before the others
    ends, counts = [-HALF_RATE * steps - 1.0, HALF_RATE * steps + 1.0], low
    for _ in range(60):  # bisection for the shift of all rates
        tried = np.clip(np.floor(near + sum(ends) / 2.0 + first + 0.5), low, high)
        counts = tried if tried.sum() <= accepted else counts
        ends[int(tried.sum() > accepted)] = sum(ends) / 2.0
    return tuple(counts.astype(int).tolist()) if counts.sum() == accepted and (np.diff(counts) <= 0).all() else None


def steps_of(accepted: int, drafted: int, length: float, rates: Sequence[float]) -> Window | None:
    """Return the steps, their counts by position and whether the digits leave one choice; None if nothing fits.

    Of several fitting numbers, that of drafts of full length is taken, or else the one nearest to the mean length.
    """
    full = max(-(-drafted // len(rates)), 1)
    fewest, most = full, drafted
    if accepted:
        fewest = max(fewest, math.ceil(accepted / (length - 1.0 + HALF_LENGTH)))
        most = min(most, math.floor(accepted / max(length - 1.0 - HALF_LENGTH, 1e-9)))
    tried = ((steps, counts_of(rates, steps, accepted)) for steps in range(fewest, min(most, fewest + MOST_STEPS) + 1))
    fitting = {steps: counts for steps, counts in tried if counts is not None}
    if not fitting:
        return None
    steps = min(fitting, key=lambda number: (number != full, abs(accepted - (length - 1.0) * number)))
    exact = steps * len(rates) == drafted or len(fitting) == 1
    return steps, fitting[steps], exact and 2 * HALF_RATE * steps < 1.0


def vllm_log(path: str, text: str) -> list[Read]:
    """Return the sum of vLLM's windows with drafts: of each service if a log has several, and of each draft length."""
    lines, read = text.splitlines(), list[Read]()
    marked = [(n, line) for n, line in enumerate(lines, 1) if VLLM_LOG.search(line) and "Drafted: 0 tokens" not in line]
    models = sorted({model[1] for line in lines if (model := _MODEL.search(line))})
    services, servers = ({name[1] for _, line in marked if (name := key.search(line))} for key in (_SERVICE, _SERVER))
    key = _SERVICE if len(services) > 1 else _SERVER if len(models) > 1 else None
    if len(models) > 1 and len(services) < 2 and len(servers) < 2:
        raise UserError(f"{path} serves {len(models)} models ({', '.join(models)}), whose windows look alike; cut it.")
    groups: dict[tuple[str, int], list[tuple[int, Window]]] = defaultdict(list)
    for number, line in marked:
        window = _vllm_window(f"{path}, line {number}", line, number == len(lines) and not text.endswith("\n"))
        if isinstance(window, LeftOut):
            read.append(window)
        else:
            named = key.search(line) if key else None
            groups[named[1] if named else "", len(window[1][1])].append(window)
    added = f"{len(servers)} server processes are added (ranks, restarts, or several models)."
    for (service, length), windows in groups.items():
        where = path if len(groups) == 1 else f"{path}, {service or 'windows'} of {length} drafts"
        read += _vllm_sum(where, service, windows, [added] if key is None and len(servers) > 1 else [])
    return read


def _vllm_window(where: str, line: str, unfinished: bool) -> tuple[int, Window] | LeftOut:
    fields = [field.search(line) for field in _VLLM]
    accepted, drafted, mean, rates = ("0" if field is None else field[1] for field in fields)
    window = steps_of(int(accepted), int(drafted), float(mean), _numbers(rates)) if all(fields) else None
    if window is not None:
        return int(drafted), window
    if unfinished and (fields[2] or not fields[0]):
        return LeftOut(where, CUT)
    if not all(fields):
        lacking = (name.pattern.partition(":")[0] for name, field in zip(_VLLM, fields, strict=True) if not field)
        raise UserError(f"{where} lacks {' and '.join(lacking)}, as older releases do; give /metrics instead.")
    raise UserError(
        f"{where}: no number of steps gives {accepted} accepted of {drafted} drafts, a mean length of {mean} "
        f"and the rates {rates}; the line is damaged."
    )


def _vllm_sum(where: str, service: str, windows: Sequence[tuple[int, Window]], added: Sequence[str]) -> list[Read]:
    drafted, sums = zip(*windows, strict=True)
    steps, counts, exact = zip(*sums, strict=True)
    places = tuple(map(sum, zip(*counts, strict=True)))
    by_position = {"accepted_per_position": places, "num_spec_tokens": len(places)}
    record = of_totals(f"vllm {service}".strip(), where, (sum(steps), sum(drafted), sum(places)), **by_position)
    notes = [f"{where}: {len(windows):,} windows add up to {sum(steps):,} steps; counts are rates x steps."]
    if loose := [count for count, sure in zip(steps, exact, strict=True) if not sure]:
        notes.append(f"Digits of {len(loose):,} leave a rate open by {max(2 * HALF_RATE, 1.0 / min(loose)):.3f}.")
    alike = differing("windows", [(row[0], n) for row, n in zip(counts, steps, strict=True)])
    return [record, " ".join([*notes, *added, *alike])]


def vllm_old_log(path: str, text: str) -> list[Read]:
    """Return the totals of vLLM's logs until 2025: they grow, or with no efficiency cover windows."""
    totals = [(word, *map(int, numbers)) for word, *numbers in VLLM_OLD_LOG.findall(text)]
    pairs = zip(totals, [*totals[1:], ("", 0, 0, 0)], strict=True)
    ends = [line for line, after in pairs if line[0] == "nan" or after[1] != line[1] or after[3] < line[3]]
    records = list[Read]()
    for length in sorted({line[1] for line in ends}):
        accepted, drafted = (sum(line[i] for line in ends if line[1] == length) for i in (2, 3))
        records.append(of_totals("vllm", path, (-(-drafted // length), drafted, accepted), num_spec_tokens=length))
    return records


def llama_statistics(path: str, text: str) -> list[Read]:
    """Return the totals of each of llama.cpp's drafters; they grow with every request, and restart with the server."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    last: dict[str, tuple[dict[str, int], str]] = {}
    for line in LLAMA_STATISTICS.finditer(text):
        counts = {name: int(line[name]) for name in ("steps", "drafted", "accepted")}
        before, _ = last.get(line["name"], ({}, ""))
        if any(counts[name] < value for name, value in before.items()):
            totals[line["name"]].update(before)
        last[line["name"]] = counts, line["rates"] or ""
    several = sum(counts["steps"] > 0 for counts, _ in last.values()) > 1
    records = list[Read]()
    for name, (counts, rates) in last.items():
        steps, drafted, accepted = (count + totals[name][kind] for kind, count in counts.items())
        places = counts_of(_numbers(rates), steps, accepted) if rates and not totals[name] else None
        engine = f"llama.cpp {name}" if several else "llama.cpp"
        record = of_totals(engine, f"{path}, {name}", (steps, drafted, accepted), accepted_per_position=places)
        records.append(replace(record, copied=name.startswith("ngram")))
    return records


def llama_log(path: str, text: str) -> list[Read]:
    records, lines = list[Read](), text.splitlines()
    for number, line in enumerate(lines):
        if (totals := LLAMA_LOG.search(line)) is None:
            continue
        where, accepted, drafted = f"{path}, line {number + 1}", int(totals["accepted"]), int(totals["drafted"])
        length = float(totals["length"] or 0)
        if not totals["length"] and (evals := LLAMA_EVAL.findall("\n".join(lines[max(number - 6, 0) : number]))):
            printed = {"draft_n": drafted, "draft_n_accepted": accepted, "predicted_n": int(evals[-1][1])}
            records += llama_timings(where, {"timings": printed | {"predicted_ms": float(evals[-1][0])}})
            continue
        if not totals["length"] and accepted:
            raise UserError(
                f"{where} has neither a mean acceptance length nor the line 'eval time' before it, so its number of "
                "steps is not known; give the whole log."
            )
        if length <= 1.0 and drafted:
            records.append(LeftOut(where, FEW.format(accepted=accepted, drafted=drafted)))
            continue
        places = LLAMA_PLACES.search(line) or LLAMA_PLACES.search("".join(lines[number + 1 : number + 2]))
        rates = _numbers(places["rates"]) if places else []
        if rates and length - 1.0 > len(rates) + HALF_LENGTH:
            raise UserError(
                f"{where} has {length:g} tokens a step, but a step drafts at most {len(rates)}: the server counted its "
                "steps wrongly; give /metrics instead."
            )
        fitted = steps_of(accepted, drafted, length, rates) if rates and accepted else None
        steps, counts, exact = fitted or (0, (), False)
        if not exact and accepted:
            steps = round(accepted / (length - 1.0))
        by_position = {"accepted_per_position": counts if exact else None}
        records.append(of_totals("llama.cpp", where, (steps, drafted, accepted), **by_position))
    return records


def llama_example(path: str, text: str) -> list[Read]:
    """Return a record of each run of llama-speculative; its tokens are those of the steps."""
    runs = [tuple(map(int, numbers)) for numbers in LLAMA_EXAMPLE.findall(text)]
    return [of_totals("llama.cpp", path, (tokens - accepted, n, accepted)) for tokens, n, accepted in runs]
