"""Predict speeds by the plan, run the same policies over a socket, and compare tokens per second."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from figures.studies.kit import given, legend, picture, read
from validation.decoding.intervals import ratio
from validation.decoding.methods.planned import write_policy
from validation.decoding.methods.rows import COLOCATED, HLM, OURS, STREAM, STREAMED
from validation.errors import UserError
from validation.models.machine import machine
from validation.planning.aims import Listed, aims_of, described
from validation.planning.deploy import policy_of
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.planners import planner_of_trace
from validation.planning.profile import CODECS, SEEDED
from validation.planning.quantities import read_rate, read_time
from validation.planning.request import Request
from validation.planning.times import Times, read_times, with_times
from validation.plots.common.style import COLUMN, DARK, LIGHT, MIDDLE

K = 4
LATTICE = CODECS.index("lattice k = 64, ℓ = 100")
LEFT_OUT = {"--draft-time", "--server-draft-time", "--between-time", "--verify-time", "--verify-token-time"}
"""Options for which the plan takes measured times."""
SETTINGS = ("2M,20ms,0ms", "500k,30ms,0ms", "10M,10ms,30ms")
"""Rate, round trip, and what each pass takes longer; about five minutes each on two idle cores."""
HERE = [sys.executable, "-c"]
PINNED = "import os; os.sched_setaffinity(0, {core}); from validation.cli.commands import main; main()"
WAITS_S = 240.0


@dataclass(frozen=True, slots=True)
class Way:
    """A policy: its name, the tokens per second that the plan prints, and the words of `hlm device`."""

    name: str
    predicted: float
    words: tuple[str, ...]
    drafts: bool = False  # whether the server drafts


def main() -> None:
    """Predict, run, compare, store and draw."""
    asked = given(
        __doc__,
        "out",
        settings=SETTINGS,
        trace=Path("runs/running_link/trace"),
        times=Path("runs/running_link/times.json"),
        positions=4000,
        texts=12,
        new_tokens=64,
        stated=str,
        pair="builtin",
        prompts=str,
        ways=tuple(MARKS),
    )
    cores = sorted(os.sched_getaffinity(0))
    if not asked.trace.exists():
        words = ("--positions", str(asked.positions), "--new-tokens", str(asked.new_tokens), "--out", str(asked.trace))
        words += ("--pair", asked.pair, "--chat", "--prompts", asked.prompts) if asked.prompts else ()
        command(cores[0], "collect", *words)
    if not (asked.stated or asked.times.exists()):
        command(cores[0], "doctor", "--times", str(asked.times))
    times = None if asked.stated else read_times(asked.times)
    found: dict[str, Any] = read(asked.out) if asked.out.exists() else {"rows": []}
    found |= {
        "times": times.plain() if times else {"stated": asked.stated},
        "texts": asked.texts,
        "new_tokens": asked.new_tokens,
    }
    done = {(one["setting"], one["method"]) for one in found["rows"]}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:

        @cache
        def address_of(*words: str) -> str:
            return servers.enter_context(serving(cores[0], "serve", *words))

        for setting in asked.settings:
            ways = ways_of(setting, asked, times, Path(folder))
            told = {one.name: one.predicted for one in ways}
            kept = [row for row in found["rows"] if row["setting"] != setting or row["method"] in told]
            for row in kept:
                if row["setting"] == setting:
                    row["predicted"] = told[row["method"]]
                    row["error"] = row["predicted"] / row["measured"] - 1.0
            found["rows"] = kept
            asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            new = [one for one in ways if one.name in asked.ways and (setting, one.name) not in done]
            for row in rows_of(setting, new, asked, cores[-1], address_of):
                found["machine"] = machine() | {"server_core": cores[0], "device_core": cores[-1]}
                found["rows"].append(row)
                asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                print(json.dumps(row, ensure_ascii=False), flush=True)
    draw(asked.out)


MARKS = {
    "shared seed": (DARK, "o"),
    "shared seed, streamed": (DARK, "^"),
    "plan's choice": (DARK, "*"),
    "SQS rows": (MIDDLE, "s"),
    "HLM": (MIDDLE, "D"),
    "server alone, streaming": ("0.55", "v"),
    "server with its own draft": ("0.55", "P"),
}


def draw(stored: Path) -> None:
    """Draw predicted against measured tokens per second."""
    rows = read(stored)["rows"]
    speeds = [one[name] for one in rows for name in ("predicted", "measured")]
    ends = np.array([0.8 * min(speeds), 1.25 * max(speeds)])
    with picture(stored, (1.4 * COLUMN[0], 3.4)) as (figure, (axes,)):
        axes.fill_between(ends, 0.9 * ends, 1.1 * ends, color=LIGHT, alpha=0.5, linewidth=0, label="within 10%")
        axes.plot(ends, ends, color="0.3", linewidth=0.8)
        methods = {one["method"] for one in rows}
        for method, (color, mark) in ((one, MARKS[one]) for one in MARKS if one in methods):
            own = [
                [one[k] for k in ("measured", "predicted", "low", "high")] for one in rows if one["method"] == method
            ]
            across, up, low, high = np.array(own).T
            spread = np.maximum([across - low, high - across], 0.0)
            axes.errorbar(across, up, xerr=spread, fmt=mark, color=color, label=method)
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        axes.set(xlabel="measured, tokens/s", ylabel="predicted, tokens/s")
        legend(figure, (axes,), 3)


def ways_of(text: str, asked: Any, times: Times | None, folder: Path) -> list[Way]:
    """Return the policies of a setting with the speeds that the plan prints."""
    rate, trip, stretch = (
        how("--settings", part) for how, part in zip((read_rate, read_time, read_time), text.split(","), strict=True)
    )
    request = Request(rate_bps=rate, round_trip_s=trip)
    if times is None:
        draft_s, verify_s = (read_time("--stated", part) for part in asked.stated.split(","))
        request = replace(request, draft_s=draft_s, server_draft_s=draft_s, verify_s=verify_s + stretch)
    else:
        request, _, _ = with_times(request, times, LEFT_OUT)
        assert request.passes is not None, "measured times hold passes"
        passes = replace(request.passes, table=tuple(tuple(s + stretch for s in row) for row in request.passes.table))
        request = replace(request, passes=passes, verify_s=request.verify_s + stretch)
    cache = asked.trace.parent / "plan"
    planner, about = planner_of_trace(asked.trace, request.setting(), cache=cache, seal="checksum")
    aim = aims_of(planner, planner.setting).asked

    def told(option: Option) -> float:
        row = described(planner, aim, Listed(option.family, option, (), 0.0, 0.0))
        return float(row.tokens_per_s_median.value or 0.0)

    def of(family: str, label: str | None = None) -> Option:
        return next(one for one in planner.options if one.family == family and label in (None, one.label))

    seeded, lattice = (of(OURS, f"{CODECS[codec]}, K = {K}") for codec in (SEEDED, LATTICE))
    best = planner.ours(planner.setting)
    assert best is not None, "without a limit some policy is always best"
    method = ("--draft-length", str(K), "--method")
    found = [
        Way("shared seed", told(seeded), (*method, "shared seed")),
        Way("SQS rows", told(lattice), policy(lattice, planner, about, folder / "lattice.json")),
        Way("HLM", told(of(HLM)), (*method, "HLM")),
        Way("server alone, streaming", told(of(STREAM)), (*method, "server")),
        Way("server with its own draft", told(of(COLOCATED, f"K = {K}")), (*method, "server"), drafts=True),
        Way("plan's choice", told(best), policy(best, planner, about, folder / "ours.json")),
    ]
    drafting_on = None if planner.streamed is None else planner.streamed.option(planner.setting)
    if drafting_on is not None:
        found.append(Way(STREAMED, told(drafting_on), (*method, "shared seed streamed")))
    return found


def policy(option: Option, planner: Planner, about: dict[str, Any], path: Path) -> tuple[str, ...]:
    """Write an option as a policy; return the words that run it."""
    evidence = about["evidence"]
    write_policy(policy_of(option, planner, evidence["vocabulary"], evidence["models"]), path)
    return ("--policy", str(path))


# ----------------------------------------------------------------------------------------------------------- run


def rows_of(
    setting: str, ways: Sequence[Way], asked: Any, device: int, address_of: Callable[..., str]
) -> Iterator[dict[str, Any]]:
    """Run policies over one link; yield predicted and measured speeds. Settings share a server, which loads once."""
    _, _, stretch = setting.split(",")
    draft_s, pass_s = (asked.stated or "0ms,0ms").split(",")
    for drafts in (False, True):
        own = [one for one in ways if one.drafts == drafts]
        if not own:
            continue
        words = ["--target", asked.pair, "--listen", "127.0.0.1:0", "--stretch", stretch, "--pass-time", pass_s]
        if drafts:
            words += ["--draft", asked.pair, "--draft-length", str(K), "--draft-time", draft_s]
        rate, trip, _ = setting.split(",")
        to = address_of(*words).removeprefix("ws://")
        link = ("link", "--listen", "127.0.0.1:0", "--to", to, "--rate", rate)
        with serving(device, *link, "--rtt", trip) as relay:
            for way in own:
                told = {"setting": setting, "method": way.name, "predicted": way.predicted}
                yield told | measured(way, relay, asked, device)


def measured(way: Way, address: str, asked: Any, core: int) -> dict[str, Any]:
    """Return tokens per second by the wall clock, with the interval over texts, and the error of the prediction."""
    line = ("device", "--server", address, "--draft", asked.pair, "--texts", str(asked.texts), "--json", *way.words)
    line += ("--chat", "--prompts", asked.prompts) if asked.prompts else ()
    line += ("--draft-time", asked.stated.split(",")[0]) if asked.stated else ()

    def written(count: int) -> Any:
        return json.loads(command(core, *line, "--new-tokens", str(count)))["texts"]

    every = written(asked.new_tokens)
    if asked.stated:  # from the first answer on: a large model is loaded once, not twice
        tokens = np.array([len(one["tokens"]) - one["came"]["tokens"] for one in every], dtype=np.float64)
        seconds = np.array([one["came"]["last_s"] - one["came"]["first_s"] for one in every])
    else:
        tokens = np.array([len(one["tokens"]) - 1.0 for one in every])
        seconds = np.array([one["seconds"] - begin["seconds"] for one, begin in zip(every, written(1), strict=True)])
    speed = ratio(tokens, seconds)
    if speed.value is None:
        raise UserError(f"{way.name} wrote no text of two tokens; ask for more texts.")
    return {
        "measured": speed.value,
        "low": speed.low,
        "high": speed.high,
        "error": way.predicted / speed.value - 1.0,
        "with_prompts": float(tokens.sum() + len(every)) / sum(one["seconds"] for one in every),
        "tokens": int(tokens.sum()),
    }


def command(core: int, *words: str) -> str:
    """Run a command on one core; return what it prints."""
    done = subprocess.run(
        [*HERE, PINNED.format(core={core}), *words], env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"`hlm {' '.join(words)}` ended with {done.returncode}: {done.stderr.strip()[-300:]}.")
    return done.stdout


@contextlib.contextmanager
def serving(core: int, *words: str) -> Iterator[str]:
    """Run a command that serves on one core; yield its address, and end it."""
    process = subprocess.Popen(
        [*HERE, PINNED.format(core={core}), *words], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        until = time.monotonic() + WAITS_S
        said = ""
        while time.monotonic() < until and (line := process.stdout.readline()):
            said += line
            if (where := re.search(r"at (ws://\S+?);", said)) is not None:
                yield where[1]
                return
        raise UserError(f"`hlm {' '.join(words)}` does not serve: {said.strip()[-300:]}.")
    finally:
        process.terminate()
        process.wait(20)


def environment() -> dict[str, str]:
    """Return the environment of a process with one thread."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}


if __name__ == "__main__":
    main()
