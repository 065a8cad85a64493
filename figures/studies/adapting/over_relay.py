"""The same devices over the real relay, which follows the step, beside a simulation with the times that were measured.

PYTHONPATH=. python3 figures/studies/adapting/over_relay.py --out figures/studies/adapting/over_relay.json

Server, relay and device are three processes of this machine. Passes last at least 120 ms and drafts 25 ms, longer than
they take by themselves, so that all devices meet the same times. A device writes texts from the relay's start on, and
every token counts that it has before the end. Simulated: the same minute, with the mean seconds of a draft, of a
round's wait without its bytes, and of an opening, of this run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import regret

from hlmtheory.draft_length import AcceptanceTracker, optimal_draft_length, surrogate_draft_length
from hlmtheory.policy import DevicePolicy, LatticeRows, SeededTokens, threshold_rule
from validation.collection.collect import ids_of
from validation.collection.fingerprint import marks_of_model
from validation.collection.prompts import builtin_prompts
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.quantized import CSqs
from validation.link.adapt import AdaptiveSeed, LengthChoice
from validation.link.device import Device
from validation.link.message_choice import Following
from validation.link.remote import Remote
from validation.models.machine import machine
from validation.models.pair import load_pair

FIRST, SECOND, TRIP_S, PASS_S, DRAFT_S = 5e6, 200e3, 0.02, 0.12, 0.025
ROWS, SEEDED = LatticeRows(100, top_k=64), SeededTokens()


class FlexRows(Planned):
    """Rows in rounds of flexspec's length, with all times and the present rate known."""

    def __init__(self, policy: DevicePolicy, kind: str, now: Callable[[], float], times: tuple[float, float]) -> None:
        super().__init__(policy)
        self.now, (self.draft_s, self.fixed_s) = now, times
        method, self.choose = {
            "printed": ("ema_printed", surrogate_draft_length),
            "exact": ("consistent", optimal_draft_length),
        }[kind]
        self.tracker = AcceptanceTracker(step=0.1, method=method)

    def lengths(self, sequences: Any, rates: Any) -> Any:
        """Return the length for the rate of this moment."""
        byte_s = 8.0 / self.now()
        fixed, each = self.fixed_s + regret.FRAME * byte_s, self.draft_s + regret.DRAFT_BYTES["rows"] * byte_s
        return np.full(len(sequences), int(self.choose(self.tracker.estimate, fixed, each, regret.MOST)))

    def learn(self, outcome: Any) -> None:
        """Update the average."""
        self.tracker = self.tracker.update(accepted=outcome.accepted, draft_length=len(outcome.drafts))


def main() -> None:
    """Measure, simulate, and store."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--seconds", type=float, default=60.0, help="of each run; the step comes at half of it")
    given.add_argument("--only", nargs="+", help="these devices; the rows of others stay")
    asked = given.parse_args()
    pair = load_pair("builtin")
    marks = marks_of_model(pair)
    prompts = builtin_prompts(limit=regret.DRAFTS["texts"])
    asks = list(zip(prompts, ids_of(pair.tokenizer, prompts, chat=False), strict=True))
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("serve", "--listen", "127.0.0.1:0", "--pass-time", f"{PASS_S}s") as server,
    ):
        csv = Path(folder, "step.csv")
        lines = (f"step,{n},{(FIRST if n < asked.seconds / 2 else SECOND) / 1e6}\n" for n in range(10 * 60))
        csv.write_text("trace_id,time_s,throughput_mbps\n" + "".join(lines), encoding="utf-8")
        link = ("link", "--link-csv", str(csv), "--rtt", f"{TRIP_S}s", "--listen", "127.0.0.1:0")
        times = (DRAFT_S, TRIP_S + PASS_S)
        for name in asked.only or DEVICES:
            with (
                serving(*link, "--to", server.removeprefix("ws://")) as relay,
                Remote(relay, answer_s=60.0, patience_s=60.0) as remote,
            ):
                began = time.perf_counter()
                device = Device(pair, remote, tokenizer=marks[0], draft=marks[1], least_draft_s=DRAFT_S)
                found, times = measured(
                    device,
                    DEVICES[name](pair.vocabulary, remote, began, asked.seconds, times),
                    asks,
                    began,
                    asked.seconds,
                )
            rows.append({"device": name} | found)
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    for row in rows:
        row["simulated"] = simulated(row, asked.seconds)
    if asked.only:
        fresh = {row["device"]: row for row in rows}
        rows = [fresh.get(row["device"], row) for row in json.loads(asked.out.read_text(encoding="utf-8"))["rows"]]
    about = {"seconds": asked.seconds, "pass_s": PASS_S, "draft_s": DRAFT_S, "machine": machine()}
    stored = json.dumps(about | {"rows": rows}, indent=1, ensure_ascii=False)
    asked.out.write_text(stored + "\n", encoding="utf-8")


# ------------------------------------------------------------------------------------------------------- devices


def policy(vocabulary: int, messages: Any, length: int) -> DevicePolicy:
    """Return a lossless policy."""
    return DevicePolicy(vocabulary, 1.0, threshold_rule(length), messages)


def rate_at(seconds: float, total: float) -> float:
    """Return the rate of the step."""
    return FIRST if seconds < total / 2 else SECOND


def _ours(vocabulary: int, remote: Remote, *rest: Any) -> Callable[[], Any]:
    follows = Following(policy(vocabulary, ROWS, 4), regret.MOST)
    follows.remote = remote
    return follows.method


def _length(*given: Any) -> Callable[[], Any]:
    choice = LengthChoice(4, regret.MOST)
    return lambda: AdaptiveSeed(choice)


def _fixed(messages: Any, length: int) -> Callable[..., Callable[[], Any]]:
    return lambda vocabulary, *rest: lambda: Planned(policy(vocabulary, messages, length))


def _flexspec(kind: str) -> Callable[..., Callable[[], Any]]:
    def made(vocabulary: int, remote: Remote, began: float, total: float, times: Any) -> Callable[[], Any]:
        def now() -> float:
            return rate_at(time.perf_counter() - began, total)

        return lambda: FlexRows(policy(vocabulary, ROWS, regret.MOST), kind, now, times)

    return made


DEVICES: dict[str, Callable[..., Callable[[], Any]]] = {
    "rows, K = 4": _fixed(ROWS, 4),
    "message and length from round to round (ours)": _ours,
    "length of a shared seed (--adapt)": _length,
    "flexspec's length, exact, rows": _flexspec("exact"),
    "flexspec's length as printed, rows": _flexspec("printed"),
    "c-sqs's threshold, rows": lambda *given: CSqs,
    "tokens, K = 3": _fixed(SEEDED, 3),
}
SIMULATED: dict[str, Callable[[regret.World], Callable[[], None]]] = {
    "rows, K = 4": regret.fixed("rows", 4),
    "message and length from round to round (ours)": regret.ours(within=True),
    "length of a shared seed (--adapt)": regret.lengths_alone("tokens"),
    "flexspec's length, exact, rows": regret.flexspec("exact", "rows"),
    "flexspec's length as printed, rows": regret.flexspec("printed", "rows"),
    "c-sqs's threshold, rows": regret.c_sqs,
    "tokens, K = 3": regret.fixed("tokens", 3),
}


# ----------------------------------------------------------------------------------------------- measure, simulate


def measured(
    device: Device, make: Callable[[], Any], asks: list[Any], began: float, seconds: float
) -> tuple[dict[str, Any], tuple[float, float]]:
    """Write texts until the time is over; return tokens a second, of both halves too, and mean seconds."""
    marks: list[tuple[float, int]] = []
    drafts: list[float] = []
    waits: list[float] = []
    openings: list[float] = []
    messages: list[list[str]] = [[], []]

    def tell(tokens: list[int]) -> None:
        marks.append((time.perf_counter() - began, len(tokens)))
        if marks[-1][0] > seconds:
            raise _OverError

    for number in range(10**6):
        prompt, ids = asks[number % len(asks)]
        method = make()

        def learn(one: Any, spent: Any, method: Any = method) -> None:
            at = time.perf_counter() - began
            if spent.opened:
                openings.append(spent.wait_s)
            elif one.drafted:
                passes = one.drafted + isinstance(method, CSqs)  # its last draft is beyond the bits, and dropped
                drafts.append(spent.draft_s / passes)
                waits.append(spent.wait_s - 8.0 * (spent.up_bytes + spent.down_bytes) / rate_at(at, seconds))
            if hasattr(method, "exchange"):
                method.exchange(one, spent)
            if hasattr(method, "choices"):
                messages[at > seconds / 2].append(method.choices[-1].message)

        try:
            name = f"{prompt.id} {number}"
            device.generate(
                method,
                ids,
                name=name,
                seed=1,
                new_tokens=regret.DRAFTS["new_tokens"],
                on_tokens=tell,
                on_exchange=learn,
            )
        except _OverError:
            break
    halves = [sum(n for at, n in marks if low <= at < low + seconds / 2) for low in (0.0, seconds / 2)]
    found: dict[str, Any] = {"tokens_per_s": sum(halves) / seconds}
    found |= {"before": 2 * halves[0] / seconds, "after": 2 * halves[1] / seconds}
    if any(messages):
        found["rows_chosen"] = [one.count("policy") / max(len(one), 1) for one in messages]
    times = statistics.mean(drafts), statistics.mean(waits)
    opening = statistics.mean(openings) - times[1]
    return found | {"draft_s": times[0], "fixed_s": times[1], "open_s": opening}, times


class _OverError(Exception):
    """The time of a run is over."""


def simulated(row: dict[str, Any], seconds: float, runs: int = 5) -> float:
    """Return the mean tokens a second over the same step."""
    rate = regret.step(FIRST, SECOND, seconds / 2)
    base = row["fixed_s"] - TRIP_S - regret.BETWEEN_S
    found = []
    for seed in range(runs):
        times = {"draft_s": row["draft_s"], "open_s": row["open_s"]}
        world = regret.World(rate, base, 0.0, TRIP_S, np.random.default_rng(seed), **times)
        found.append(regret.run(SIMULATED[row["device"]], world, seconds))
    return float(np.mean(found))


@contextlib.contextmanager
def serving(*words: str) -> Iterator[str]:
    """Run a command that serves; yield its address, and end it."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "validation", *words], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if (where := re.search(r"at (ws://\S+?);", line)) is not None:
                yield where[1]
                return
        raise SystemExit(f"hlm {' '.join(words)} does not serve.")
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
