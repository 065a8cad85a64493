"""Tokens lost by rules that learn the draft length on line, over recorded links; time is simulated.

PYTHONPATH=. python3 figures/studies/learned_length/learn.py TRACES figures/studies/learned_length/learned.json

TRACES is a file with the columns trace_id, time_s and throughput_mbps. A round takes its drafts, a round trip with a
random part, a pass of the server, and its bytes at the recorded rate. No rule knows the acceptances. flexspec's average
knows the times and the rate of the moment; the others learn the seconds of a round.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.draft_length import AcceptanceTracker, optimal_draft_length, optimistic_draft_length
from validation.link.adapt import LengthChoice

MOST, ROUNDS, LINKS = 8, (200, 1000), 12
DRAFT_S, BYTES, FRAME = 0.005, 60.0, 62.0
"""Assumed: seconds and bytes of a draft, and bytes of a round without drafts."""
PROFILES = {"accepted alike, .7": [0.7] * MOST, "rising with depth, .5 to .9": np.linspace(0.5, 0.9, MOST).tolist()}
DELAYS = {"20 ms": (0.02, 0.01), "150 ms": (0.15, 0.05)}
"""Assumed: the round trip and the pass, and the mean of an exponential part."""
Rule = Callable[["World"], Callable[[], int]]


class World:
    """A device's rounds over a recorded link, from a random place in it."""

    def __init__(self, link: np.ndarray, profile: list[float], delay: tuple[float, float], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.link, self.profile, self.delay = link, np.array(profile), delay
        self.now = float(self.rng.uniform(link[0, 0], link[-1, 0]))
        self.begin, self.tokens = self.now, 0
        self.rounds: list[tuple[int, int, float, float]] = []

    def rate(self) -> float:
        """Return the bytes a second of the moment; the link starts again at its end."""
        at = self.link[0, 0] + (self.now - self.link[0, 0]) % (self.link[-1, 0] - self.link[0, 0])
        return max(float(self.link[np.searchsorted(self.link[:, 0], at, side="right") - 1, 1]), 0.01) * 125e3

    def play(self, length: int) -> None:
        """Play a round with this many drafts."""
        accepted = int(np.argmin([*(self.rng.random(length) < self.profile[:length]), False]))
        drafting = length * DRAFT_S
        wait = self.delay[0] + self.rng.exponential(self.delay[1]) + (FRAME + BYTES * length) / self.rate()
        self.rounds.append((length, accepted, drafting, wait))
        self.now += drafting + wait
        self.tokens += accepted + 1


def fixed(length: int) -> Rule:
    """Take one length."""
    return lambda world: lambda: length


def adapt(world: World) -> Callable[[], int]:
    """`hlm device --adapt`: intervals for all times, and a quarter of the way to their upper ends."""
    choice = LengthChoice(4, MOST)

    def length() -> int:
        if world.rounds:
            choice.learn(*world.rounds[-1])
        return choice.length

    return length


def shared(hopeful: float | None) -> Rule:
    """Estimate each depth from all rounds; take upper ends with error ``hopeful``, or the estimates alone."""

    def made(world: World) -> Callable[[], int]:
        seen, kept = np.zeros((2, MOST), dtype=np.int64)

        def length() -> int:
            if not world.rounds:
                return MOST
            drafted, accepted, _, _ = world.rounds[-1]
            seen[:drafted] += 1
            kept[:accepted] += 1
            wait = float(np.mean([one[3] for one in world.rounds]))
            if hopeful is not None:
                return max(int(optimistic_draft_length(seen, kept, wait, DRAFT_S, error=hopeful)), 1)
            tokens = 1.0 + np.cumsum(np.where(seen > 0, kept / np.maximum(seen, 1), 1.0))
            return int(np.argmax(tokens / (wait + DRAFT_S * np.arange(1, MOST + 1)))) + 1

        return length

    return made


def drawn(world: World) -> Callable[[], int]:
    """Thompson sampling: draw each depth's acceptance from its posterior, and take the best length for it."""
    yes, no = np.ones((2, MOST))

    def length() -> int:
        if world.rounds:
            drafted, accepted, _, _ = world.rounds[-1]
            yes[:accepted] += 1
            no[accepted : accepted + (accepted < drafted)] += 1
        tokens = 1.0 + np.cumsum(np.cumprod(world.rng.beta(yes, no)))
        wait = float(np.mean([one[3] for one in world.rounds])) if world.rounds else 0.1
        return int(np.argmax(tokens / (wait + DRAFT_S * np.arange(1, MOST + 1)))) + 1

    return length


def by_length(strength: float) -> Rule:
    """UCB-SpecStop: seconds over tokens of each length on its own, less β √(n ln t)/tokens; β in mean rounds' seconds."""

    def made(world: World) -> Callable[[], int]:
        seconds, tokens, count = np.zeros((3, MOST))

        def length() -> int:
            if world.rounds:
                drafted, accepted, drafting, wait = world.rounds[-1]
                seconds[drafted - 1] += drafting + wait
                tokens[drafted - 1] += accepted + 1
                count[drafted - 1] += 1
            if (count == 0).any():
                return int(np.argmin(count)) + 1
            beta = strength * seconds.sum() / count.sum()
            return int(np.argmin((seconds - beta * np.sqrt(count * math.log(count.sum()))) / tokens)) + 1

        return length

    return made


def flexspec(world: World) -> Callable[[], int]:
    """flexspec's exact length by its average of the acceptance, with the times and the rate known."""
    tracker = AcceptanceTracker(step=0.1, method="consistent")

    def length() -> int:
        nonlocal tracker
        if world.rounds:
            tracker = tracker.update(accepted=world.rounds[-1][1], draft_length=world.rounds[-1][0])
        rate = world.rate()
        start = sum(world.delay) + FRAME / rate
        return int(optimal_draft_length(tracker.estimate, start, DRAFT_S + BYTES / rate, MOST))

    return length


RULES: dict[str, Rule] = {
    "estimates alone, depths shared": shared(None),
    "Thompson sampling, depths shared": drawn,
    "hlm device --adapt": adapt,
    "optimistic, depths shared (proved)": shared(0.05),
    "UCB-SpecStop, β = 1": by_length(1.0),
    "UCB-SpecStop, β = 0.1": by_length(0.1),
    "flexspec's average, times known": flexspec,
    "K = 4": fixed(4),
}


def links(path: Path) -> list[np.ndarray]:
    """Return the longest recordings, each (n, 2): seconds and Mbit/s."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            found[row["trace_id"]].append((float(row["time_s"]), float(row["throughput_mbps"])))
    longest = sorted(found, key=lambda name: (-found[name][-1][0], name))[:LINKS]
    return [np.array(found[name]) for name in longest]


def speeds(rule: Rule, every: list[np.ndarray], profile: list[float], delay: tuple[float, float]) -> np.ndarray:
    """Return tokens a second over each link after each number of rounds, (links, numbers)."""
    found = []
    for seed, link in enumerate(every):
        world = World(link, profile, delay, seed)
        choose, row = rule(world), []
        for played in range(1, max(ROUNDS) + 1):
            world.play(choose())
            if played in ROUNDS:
                row.append(world.tokens / (world.now - world.begin))
        found.append(row)
    return np.array(found)


def main() -> None:
    """Simulate, print, and store."""
    every, rows = links(Path(sys.argv[1])), list[dict[str, Any]]()
    for name, profile in PROFILES.items():
        for trip, delay in DELAYS.items():
            lengths = np.array([speeds(fixed(one), every, profile, delay) for one in range(1, MOST + 1)])
            best = lengths[:, :, -1].mean(axis=1).argmax()
            for rule, make in RULES.items():
                lost = 1.0 - speeds(make, every, profile, delay) / lengths[best]
                row = {"acceptance": name, "round_trip": trip, "rule": rule, "best": int(best) + 1}
                row |= {"lost": lost.mean(axis=0).tolist(), "error": (lost.std(axis=0) / len(every) ** 0.5).tolist()}
                rows.append(row)
                print(json.dumps(row, ensure_ascii=False), flush=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    about = {"rounds": ROUNDS, "links": len(every), "rows": rows, "commit": head.stdout.strip()}
    Path(sys.argv[2]).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
