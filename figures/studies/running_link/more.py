"""A real language model, several devices and a recorded link: predicted and measured tokens per second.

PYTHONPATH=. python3 figures/studies/running_link/more.py --work WORK --links LINKS.csv --out more.json

Passes last a stated time here (``hlm serve --pass-time``, ``hlm device --draft-time``), so a busy machine matters
little. Predicted: expected counts of a trace of the pair × the stated times, rate and round trip; for several devices
the simulated queue of :func:`hlmtheory.policy.queue_rates`; over a recording the mean over its time. Measured: tokens
by the clock of the devices, each text from its first answer on; of several devices while all of them write. LINKS.csv
has one recorded link as ``hlm link --link-csv`` takes it;
WORK holds ``PAIR/trace`` of each pair. A run that was stopped continues.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "papers_on_a_link"))

from measure import HERE, K, at_server, environment, option_of, policy, serving, total
from systems import OWN, SEEDED, STREAM, STREAMED

from hlmtheory.policy import SharedServer, queue_rates
from validation.collection.collect import ids_of
from validation.collection.fingerprint import marks_of_model
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.methods.base import Method
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import Hlm
from validation.decoding.policy_file import read_policy
from validation.decoding.recorded_links import load_link_file
from validation.link.device import Device
from validation.link.device_records import LinkRecord
from validation.link.remote import Remote
from validation.models.machine import machine
from validation.models.pair import PAIRS, load_single
from validation.planning.measure import planner_of_trace
from validation.planning.menu import HLM, OURS
from validation.planning.profile import CODECS
from validation.planning.profile import SEEDED as SEEDED_CODEC
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link, recorded_link

SEED = 1
ROWS, WIDE = "SQS rows", "rows, k = 256, ℓ = 1000"
LATTICES = {ROWS: "lattice k = 64, ℓ = 100", WIDE: "lattice k = 256, ℓ = 1000"}
"""The codecs of rows; the second one is the widest that a plan knows."""
BUILTIN, SMOLLM2, BITS = "builtin", "smollm2-small", "smollm2"
SMALL_TIMES, LARGE_TIMES, SLOW_TIMES, BITS_TIMES = (0.025, 0.1), (0.1, 0.3), (0.2, 0.6), (0.6, 1.0)
"""Seconds of a draft and of a pass. On a busy machine SmolLM2's passes take longer than ``LARGE_TIMES``. A draft with its
weights at 3 bits is computed as slowly as SmolLM2 here."""
SPREAD = 0.02
"""Of the times away from the server in the simulated queue, as in a plan for several users."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pair, a link, times of a draft and a pass, methods, and how many devices write at the same time."""

    name: str
    pair: str
    rate_bps: float | None  # None: the recording
    rtt_s: float
    times: tuple[float, float]
    methods: tuple[str, ...]
    devices: int = 1


CASES = (
    Case("SmolLM2, 1 Mbit/s, 50 ms", SMOLLM2, 1e6, 0.05, LARGE_TIMES, (STREAM, OWN, STREAMED, SEEDED)),
    Case("SmolLM2, 1 Mbit/s, 40 ms", SMOLLM2, 1e6, 0.04, SLOW_TIMES, (STREAM, OWN, STREAMED)),
    Case("SmolLM2, 10 Mbit/s, 20 ms", SMOLLM2, 1e7, 0.02, SLOW_TIMES, (STREAM, OWN, STREAMED)),
    Case("SmolLM2 at 3 bits, 1 Mbit/s, 40 ms", BITS, 1e6, 0.04, BITS_TIMES, (WIDE,)),
    Case("SmolLM2 at 3 bits, 10 Mbit/s, 20 ms", BITS, 1e7, 0.02, BITS_TIMES, (WIDE,)),
    Case("1 device, 1 Mbit/s, 50 ms", BUILTIN, 1e6, 0.05, SMALL_TIMES, (SEEDED, ROWS), 1),
    Case("2 devices, 1 Mbit/s, 50 ms", BUILTIN, 1e6, 0.05, SMALL_TIMES, (SEEDED, ROWS), 2),
    Case("4 devices, 1 Mbit/s, 50 ms", BUILTIN, 1e6, 0.05, SMALL_TIMES, (SEEDED, ROWS), 4),
    Case("recorded 3G link, 50 ms", BUILTIN, None, 0.05, SMALL_TIMES, (STREAMED, SEEDED, ROWS, HLM)),
)


def main() -> None:
    """Predict, run, compare, and store."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--work", type=Path, required=True, help="PAIR/trace is the trace of a pair")
    given.add_argument("--links", type=Path, help="a CSV with one recorded link, for the case that has no rate")
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--cases", nargs="+", metavar="NAME", help="only these")
    given.add_argument("--texts", type=int, default=8, help="of each device")
    given.add_argument("--new-tokens", type=int, default=32)
    asked = given.parse_args()
    found: dict[str, Any] = json.loads(asked.out.read_text()) if asked.out.exists() else {"rows": []}
    found |= {"machine": machine()}
    done = {(one["case"], one["method"]) for one in found["rows"]}
    for case in [one for one in CASES if not asked.cases or one.name in asked.cases]:
        missing = [one for one in case.methods if (case.name, one) not in done]
        with tempfile.TemporaryDirectory() as folder:
            told = predicted(case, asked, Path(folder)) if missing else {}
            for method in missing:
                speed = measured(case, method, asked, Path(folder))
                row = {"case": case.name, "method": method, "predicted": told[method], **speed}
                row |= {"error": told[method] / speed["measured"] - 1.0, "load": os.getloadavg()[0]}
                row |= {"texts": asked.texts, "new_tokens": asked.new_tokens}
                found["rows"].append(row)
                asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                print(json.dumps(row, ensure_ascii=False), flush=True)


# ------------------------------------------------------------------------------------------------------- predict


def predicted(case: Case, asked: Any, folder: Path) -> dict[str, float]:
    """Return the tokens per second of each method of a case; write the policy of quantised rows."""
    if case.rate_bps is None:
        (source,) = load_link_file(asked.links).values()
        link = recorded_link(source, case.rtt_s)
    else:
        link = constant_link(case.rate_bps, case.rtt_s)
    draft_s, verify_s = case.times
    setting = Setting(link, draft_s, verify_s, server_draft_s=draft_s)
    trace = asked.work / case.pair / "trace"
    planner, about = planner_of_trace(trace, setting, cache=trace.parent / "plan", seal="checksum")
    seeded = option_of(planner, OURS, f"{CODECS[SEEDED_CODEC]}, K = {K}")
    counts = {SEEDED: total(seeded), HLM: total(option_of(planner, HLM, ""))}
    for name, codec in LATTICES.items():
        lattice = option_of(planner, OURS, f"{codec}, K = {K}")
        policy(lattice, planner, about, folder / f"{name}.json")
        counts[name] = total(lattice)
    counts |= {STREAM: total(option_of(planner, STREAM, None)), OWN: at_server(planner, seeded)}
    if planner.streamed is not None and (drafting_on := planner.streamed.option(setting)) is not None:
        counts[STREAMED] = total(drafting_on)
    if case.devices == 1:
        return {name: float(np.mean(setting.speeds(one))) for name, one in counts.items()}
    return {name: together(setting, counts[name], case.devices) for name in case.methods}


def together(setting: Setting, counts: Any, devices: int) -> float:
    """Return the tokens per second of several devices, whose rounds share passes of at most four."""
    rounds = counts[COUNTS.index("exchanges")]
    away = replace(setting, verify_s=0.0).seconds(counts, setting.link.quantile(0.5)) / rounds
    server = SharedServer(setting.verify_s, 0.0, 4)
    rng = np.random.default_rng(1)
    queue = queue_rates([float(away)] * devices, [K] * devices, server, spread=SPREAD, rng=rng)
    return float(np.sum(queue.rates) * counts[0] / rounds)


# ----------------------------------------------------------------------------------------------------------- run


def measured(case: Case, method: str, asked: Any, folder: Path) -> dict[str, float]:
    """Run a method; return tokens per second, with the interval over texts if one device writes."""
    server, device = sorted(os.sched_getaffinity(0))[0], sorted(os.sched_getaffinity(0))[-1]
    draft, target = (f"{1000 * seconds:g}ms" for seconds in case.times)
    serve = ("serve", "--target", case.pair, "--listen", "127.0.0.1:0", "--pass-time", target)
    if method == OWN:
        serve += ("--draft", case.pair, "--draft-length", str(K), "--draft-time", draft)
    rate = ("--link-csv", str(asked.links)) if case.rate_bps is None else ("--rate", f"{case.rate_bps:.0f}bit/s")
    relay = ("link", "--listen", "127.0.0.1:0", *rate, "--rtt", f"{1000 * case.rtt_s:g}ms")
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(serving(server, *serve)).removeprefix("ws://")
        address = stack.enter_context(serving(device, *relay, "--to", address))
        words = (case.pair, address, str(case.times[0]), method, str(folder / f"{method}.json"))
        counts = str(asked.texts), str(asked.new_tokens)
        calls = [[*words, str(n * asked.texts), *counts] for n in range(case.devices)]
        script = f"import os; os.sched_setaffinity(0, {{{device}}}); from more import write; write()"
        places = [os.getcwd(), str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = environment() | {"PYTHONPATH": os.pathsep.join(places)}
        running = [
            stack.enter_context(subprocess.Popen([*HERE, script, *call], env=own, stdout=subprocess.PIPE, text=True))
            for call in calls
        ]
        said = [json.loads(one.communicate()[0]) for one in running]
    return while_all_write(said) if case.devices > 1 else each_text(said[0])


def write() -> None:
    """Be a device: write some texts, and print when how many tokens came."""
    pair_name, address, draft_s, method, file, first, texts, new_tokens = sys.argv[1:]
    pair = load_single(PAIRS[pair_name].draft)
    tokenizer, weights = marks_of_model(pair)
    makes: dict[str, Any] = {SEEDED: lambda: SharedSeed(K), STREAMED: SharedSeedStreamed, HLM: Hlm}
    makes |= dict.fromkeys(LATTICES, lambda: Planned(read_policy(Path(file))))
    chosen = builtin_prompts()[int(first) : int(first) + int(texts)]
    found = []
    with Remote(address) as remote:
        device = Device(pair, remote, tokenizer=tokenizer, draft=weights, least_draft_s=float(draft_s))
        for prompt, ids in zip(chosen, ids_of(pair.tokenizer, chosen, chat=False), strict=True):
            made = None if method not in makes else makes[method]()
            found.append(written(device, made, prompt, ids, new_tokens=int(new_tokens))[1])
    print(json.dumps(found))


def written(
    device: Device, method: Method | None, prompt: Prompt, ids: list[int], **sampling: Any
) -> tuple[LinkRecord, list[tuple[float, int]]]:
    """Write a text; return its record, and when how many tokens came, from the first answer on."""
    answered = method is None or method.streamed
    events: list[tuple[float, int]] = []

    def on_exchange(*_: object) -> None:
        nonlocal answered
        answered = True

    def on_tokens(new: list[int]) -> None:
        if answered:
            events.append((time.monotonic(), len(new)))

    watched: dict[str, Any] = {"on_tokens": on_tokens, "on_exchange": on_exchange}
    return device.generate(method, ids, name=prompt.id, seed=SEED, **sampling, **watched), events


def each_text(texts: list[list[tuple[float, int]]]) -> dict[str, Any]:
    """Return the tokens per second of texts that one device writes, each from its first answer on."""
    kept = [one for one in texts if len(one) > 1]
    tokens = np.array([sum(count for _, count in one[1:]) for one in kept], dtype=np.float64)
    speed = ratio(tokens, np.array([one[-1][0] - one[0][0] for one in kept]))
    return {"measured": speed.value, "low": speed.low, "high": speed.high}


def while_all_write(devices: list[list[list[tuple[float, int]]]]) -> dict[str, Any]:
    """Return the tokens per second of all devices together, from the last one's first answer to the first one's end.

    The time between two texts, an opening with its prompt, counts for no device.
    """
    begin, end = max(one[0][0][0] for one in devices), min(one[-1][-1][0] for one in devices)
    speed = 0.0
    for texts in devices:
        tokens = seconds = 0.0
        for text in texts:
            inside = [(moment, count) for moment, count in text if begin <= moment <= end]
            if len(inside) > 1:
                tokens += sum(count for _, count in inside[1:])
                seconds += inside[-1][0] - inside[0][0]
        speed += tokens / seconds
    return {"measured": speed, "seconds": end - begin}


if __name__ == "__main__":
    main()
