"""Run the papers' systems as processes over their links, and time the same texts by the simulator.

PYTHONPATH=. python3 figures/studies/papers_on_a_link/measure.py --out figures/studies/papers_on_a_link/speeds.json

For each setting run two ``hlm serve`` (one with a draft of its own), an ``hlm link`` before each, and ``hlm device``.
Passes are made as long as the paper's. A run that was stopped continues.

Simulated: :func:`validation.decoding.loop.decode` in this process, with the same prompts and seed, so its counts are
those of the run; its times are the papers', and its link's are payload over rate plus the round trip. Measured: the
clock of the device, from the first answer to the last.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from systems import DOWN_BPS, SETTINGS, K, Setting, System

from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.records import GenerationRecord
from validation.errors import UserError
from validation.models.machine import machine
from validation.models.pair import Pair, load_pair

SEED, SOURCE = 1, "GSM8K"
LISTEN = ("--listen", "127.0.0.1:0")
WAITS_S, USUAL_S = 240.0, 50.0


class Stored:
    """The result on the disk: a row for each setting and method."""

    def __init__(self, path: Path, texts: int) -> None:
        self.path, self.lock = path, threading.Lock()
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": []}
        if self.found["rows"] and self.found["texts"] != texts:
            raise UserError(f"{path} has {self.found['texts']} texts a method; ask for as many, or name another file.")
        self.found |= {"machine": machine(), "texts": texts}

    def row(self, setting: Setting, system: System) -> dict[str, Any]:
        """Return the row of a method, or a new one."""
        place = {"setting": setting.name, "method": system.name}
        return next((one for one in self.found["rows"] if place.items() <= one.items()), place)

    def write(self, setting: Setting, system: System, found: dict[str, Any]) -> None:
        """Add to a row, and store it."""
        with self.lock:
            row = self.row(setting, system)
            if row not in self.found["rows"]:
                self.found["rows"].append(row)
            row |= found
            self.found["rows"].sort(key=order_of)
            text = json.dumps(self.found, indent=1, ensure_ascii=False)
            self.path.write_text(text + "\n", encoding="utf-8")


def order_of(row: dict[str, Any]) -> tuple[int, int]:
    """Return the place of a row in the tables."""
    number = next(i for i, one in enumerate(SETTINGS) if one.name == row["setting"])
    return number, [one.name for one in SETTINGS[number].systems].index(row["method"])


def main() -> None:
    """Simulate and run what is not stored yet."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--out", type=Path, required=True, help="the result; a run that was stopped continues")
    given.add_argument("--settings", nargs="+", metavar="NAME", help="only these")
    given.add_argument("--texts", type=int, default=8)
    given.add_argument("--new-tokens", type=int, default=64, help="most tokens of a text; fewer for a trial")
    given.add_argument("--at-once", type=int, default=4, help="settings at the same time; each waits most of the time")
    given.add_argument("--simulate", action="store_true", help="run nothing")
    asked = given.parse_args()
    stored = Stored(asked.out, asked.texts)
    chosen = [one for one in SETTINGS if not asked.settings or one.name in asked.settings]
    if not asked.simulate:
        with ThreadPoolExecutor(asked.at_once) as lanes:
            list(lanes.map(lambda lane: run_lane(lane, stored, asked), dealt(chosen, stored, asked.at_once)))
    pair = load_pair("builtin")
    for setting in chosen:
        for system in setting.systems:
            if "simulated" not in stored.row(setting, system):
                stored.write(setting, system, {"simulated": simulated(pair, setting, system, asked)})


def dealt(settings: Sequence[Setting], stored: Stored, lanes: int) -> list[list[Setting]]:
    """Return the settings in lanes of about equal time, by what was simulated if it was; longest first."""
    cost = {
        one.name: sum(
            sum(text["seconds"] for text in told) if (told := stored.row(one, system).get("simulated")) else USUAL_S
            for system in one.systems
        )
        for one in settings
    }
    found: list[list[Setting]] = [[] for _ in range(lanes)]
    for setting in sorted(settings, key=lambda one: -cost[one.name]):
        min(found, key=lambda lane: sum(cost[one.name] for one in lane)).append(setting)
    return found


# --------------------------------------------------------------------------------------------------------- simulate


def simulated(pair: Pair, setting: Setting, system: System, asked: Any) -> list[dict[str, Any]]:
    """Return tokens and seconds of each text behind its first answer, by the simulator."""
    records = decode(
        pair,
        prompts_of(asked.texts),
        system.make(),
        link=None if system.writes else setting.link,
        temperature=setting.temperature,
        top_p=setting.top_p,
        new_tokens=min(system.new_tokens, asked.new_tokens),
        batch=1,
        seed=SEED,
        times=setting.times,
    )
    return [behind_first(one) for one in records]


def behind_first(record: GenerationRecord) -> dict[str, Any]:
    """Return tokens and seconds behind the first round."""
    rounds = [*record.rounds[1:], record.last]
    counts = ("accepted", "resampled", "bonus", "skipped")
    return {
        "tokens": sum(getattr(one, name) for one in rounds for name in counts),
        "seconds": sum(one.draft_s + one.target_s + one.link_s - one.overlap_s for one in rounds),
        "mark": mark(record.tokens),
    }


# -------------------------------------------------------------------------------------------------------------- run


def run_lane(settings: Sequence[Setting], stored: Stored, asked: Any) -> None:
    """Run settings one after the other; servers with the same times serve all of them."""
    with contextlib.ExitStack() as stack:
        servers: dict[tuple[str, ...], str] = {}

        def server(*more: str) -> str:
            if more not in servers:
                servers[more] = stack.enter_context(serving("serve", *LISTEN, *more)).removeprefix("ws://")
            return servers[more]

        for setting in sorted(settings, key=lambda one: one.times):
            missing = [one for one in setting.systems if "measured" not in stored.row(setting, one)]
            draft, target = (f"{1000 * seconds:.6g}ms" for seconds in setting.times)
            own = ("--draft", "builtin", "--draft-length", str(K), "--draft-time", draft)
            if missing:
                servers_here = [server("--pass-time", target), server("--pass-time", target, *own)]
                run(setting, missing, servers_here, stored, asked)


def run(setting: Setting, missing: Sequence[System], servers: Sequence[str], stored: Stored, asked: Any) -> None:
    """Run methods of a setting, one after the other; the second server drafts itself."""
    with contextlib.ExitStack() as stack:
        rates = ("--rate", f"{setting.rate_bps:.0f}bit/s", "--down-rate", f"{DOWN_BPS:.0f}bit/s")
        relay = ("link", *LISTEN, *rates, "--rtt", f"{1000 * setting.rtt_s:.6g}ms")
        links = [stack.enter_context(serving(*relay, "--to", one)) for one in servers]
        prompts = Path(stack.enter_context(tempfile.TemporaryDirectory()), "prompts.jsonl")
        lines = [json.dumps({"id": one.id, "prompt": one.text}) for one in prompts_of(asked.texts)]
        prompts.write_text("\n".join(lines), encoding="utf-8")
        usual = ("--prompts", str(prompts), "--draft-time", f"{1000 * setting.times[0]:.6g}ms", "--seed", str(SEED))
        usual += ("--temperature", f"{setting.temperature:g}", "--top-p", f"{setting.top_p:g}", "--json")
        for system in missing:
            began, address = time.time(), links[system.drafts]
            most = str(min(system.new_tokens, asked.new_tokens))
            texts = device("--server", address, *usual, "--new-tokens", most, *system.words)
            about = {"load": os.getloadavg()[0], "wall_s": round(time.time() - began, 1)}
            stored.write(setting, system, {"measured": [behind_first_answer(one) for one in texts]} | about)
            print(setting.name, system.name, flush=True)


def device(*words: str) -> list[dict[str, Any]]:
    """Run ``hlm device``; return its texts."""
    call = [sys.executable, "-m", "validation", "device", *words]
    done = subprocess.run(call, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"`hlm device {' '.join(words)}` ended with {done.returncode}: {done.stderr.strip()[-300:]}.")
    texts: list[dict[str, Any]] = json.loads(done.stdout)["texts"]
    return texts


def behind_first_answer(text: dict[str, Any]) -> dict[str, Any]:
    """Return tokens and seconds behind the first answer, which holds the opening and the prompt."""
    return {
        "tokens": len(text["tokens"]) - text["came"]["tokens"],
        "seconds": text["came"]["last_s"] - text["came"]["first_s"],
        "skipped": text["skipped"] / len(text["tokens"]),
        "mark": mark(text["tokens"]),
    }


def prompts_of(count: int) -> list[Prompt]:
    """Return the first built-in prompts of the papers' set that is among them."""
    return [one for one in builtin_prompts() if one.source == SOURCE][:count]


def mark(tokens: list[int]) -> str:
    """Return a hash of a text."""
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16]


@contextlib.contextmanager
def serving(*words: str) -> Iterator[str]:
    """Run an ``hlm`` command that serves; yield its address, and end it."""
    call = [sys.executable, "-m", "validation", *words]
    process = subprocess.Popen(call, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        until, said = time.monotonic() + WAITS_S, ""
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
