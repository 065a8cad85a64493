"""Tokens a second of devices that adapt over links that change, beside the best plan in hindsight; time is simulated.

PYTHONPATH=. python3 figures/studies/adapting/regret.py --out figures/studies/adapting/regret.json --recorded LINKS.csv

The device's own code chooses: ``MessageChoice`` and ``LengthChoice`` of :mod:`validation.link`. Which drafts are
accepted, and the rounds of C-SQS, are those of the built-in pair (drafts.py). A round takes drafting, a round trip, a
pass, what both sides take between passes, and its bytes at the link's rate of that moment.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.channel import TraceLink
from hlmtheory.draft_length import AcceptanceTracker, optimal_draft_length, surrogate_draft_length
from validation.decoding.methods.switched import Chosen
from validation.decoding.recorded_links import load_link_file
from validation.link.adapt import LengthChoice
from validation.link.message_choice import HEADER, PING, SMALL, TRAIN, MessageChoice

DRAFTS = json.loads(Path(__file__).with_name("drafts.json").read_text(encoding="utf-8"))
ACCEPTED: dict[str, list[str]] = DRAFTS["accepted"]
DRAFT_BYTES: dict[str, float] = DRAFTS["draft_bytes"]
FRAME = 22.0
"""Bytes of a round's two frames without drafts."""
DRAFT_S, BETWEEN_S = 0.003, 0.003
MOST, SCALE = 8, 4.0
"""Most drafts of a round, and the divisor that makes an uplink of a recorded downlink."""
PASSES = {"a pass of 7 ms": (0.0065, 0.001), "a pass of 57 ms": (0.0565, 0.001)}
TRIPS = {"20 ms": 0.02}
SLOWEST = 1e3
"""Bit/s: a recording may say 0."""
Rate = Callable[[float], float]


@dataclass(slots=True)
class World:
    """A link over time, the times of a pass, and the texts in an order drawn by a seed."""

    rate: Rate
    base_s: float
    token_s: float
    trip_s: float
    rng: np.random.Generator
    draft_s: float = DRAFT_S
    open_s: float = 0.0
    now: float = 0.0
    tokens: int = 0
    text: int = 0
    place: int = 0

    def begin(self) -> None:
        """Begin a text."""
        self.text, self.place = int(self.rng.integers(DRAFTS["texts"])), 0
        self.now += self.open_s

    @property
    def left(self) -> int:
        """Tokens that are to come in this text."""
        return min(len(texts[self.text]) for texts in ACCEPTED.values()) - self.place

    def round(self, message: str, length: int) -> tuple[int, int, float, float, int]:
        """Play a round; return drafts, accepted drafts, seconds of drafting and waiting, and bytes."""
        drafted = min(length, self.left)
        bits = ACCEPTED[message][self.text][self.place : self.place + drafted]
        accepted = len(bits) - len(bits.lstrip("1"))
        new = min(accepted + 1, self.left)
        self.place += new
        return drafted, accepted, *self.spend(drafted, drafted, new, bytes_of(message, drafted))

    def spend(self, passes: int, drafted: int, tokens: int, frames: float) -> tuple[float, float, int]:
        """Let a round's time go by; return seconds of drafting and waiting, and bytes."""
        drafting = passes * self.draft_s
        wait = self.trip_s + BETWEEN_S + self.base_s + self.token_s * (drafted + 1)
        wait += 8.0 * frames / self.rate(self.now + drafting)
        self.now += drafting + wait
        self.tokens += tokens
        return drafting, wait, round(frames)

    def ping(self) -> tuple[float, float]:
        """Send what ``rate_of`` sends; return the rate that it tells, with an error of 5%, and the seconds."""
        rate = self.rate(self.now)
        sizes = TRAIN * (PING + HEADER) + 2 * (SMALL + HEADER)  # the answers come back meanwhile, but for the last
        seconds = 3 * self.trip_s + 8.0 * (sizes + PING + HEADER) / rate
        self.now += seconds
        return float(rate * np.exp(0.05 * self.rng.standard_normal())), seconds

    def speed(self, message: str, length: int, rate: float) -> float:
        """Return the expected tokens a second at a rate."""
        seconds = length * self.draft_s + self.trip_s + BETWEEN_S + self.base_s + self.token_s * (length + 1)
        return TOKENS[message, length] / (seconds + 8.0 * bytes_of(message, length) / rate)

    def best(self, rate: float) -> tuple[str, int]:
        """Return the fastest message and length at a rate, for known acceptances."""
        return max(EVERY, key=lambda one: self.speed(*one, rate))


def mean_tokens(texts: list[str], length: int) -> float:
    """Return the mean tokens of a round over all positions."""
    found = [
        1 + len(bits) - len(bits.lstrip("1"))
        for text in texts
        for place in range(len(text))
        if len(bits := text[place : place + length]) == length
    ]
    return sum(found) / len(found)


EVERY = [(message, length) for message in ACCEPTED for length in range(1, MOST + 1)]
TOKENS = {one: mean_tokens(ACCEPTED[one[0]], one[1]) for one in EVERY}


def bytes_of(message: str, length: int) -> float:
    """Return the bytes of a round's two frames."""
    return FRAME + DRAFT_BYTES[message] * length


# ------------------------------------------------------------------------------------------------------- devices


def ours(*, within: bool) -> Callable[[World], Callable[[], None]]:
    """Choose message and length by the rounds so far and by pings: before each round, or before each text."""

    def made(world: World) -> Callable[[], None]:
        choice = MessageChoice(dict.fromkeys(ACCEPTED, tuple(range(1, MOST + 1))))

        def text() -> None:
            looked, one = 0, None
            while world.left:
                if (within or one is None) and choice.wants_link():
                    choice.link(*world.ping())
                one = choice.choose() if within or one is None else one
                if one.message != "tokens" and looked > world.place:  # as Switched does
                    one = Chosen("tokens", min(looked - world.place, one.length))
                if one.message == "tokens":
                    looked = world.place + one.length
                choice.learn(one.message, *world.round(one.message, one.length))

        return text

    return made


def lengths_alone(message: str) -> Callable[[World], Callable[[], None]]:
    """Choose the length from round to round, as `hlm device --adapt` does with a shared seed."""

    def made(world: World) -> Callable[[], None]:
        choice = LengthChoice(4, MOST)

        def text() -> None:
            while world.left:
                drafted, accepted, drafting, wait, _ = world.round(message, choice.length)
                choice.learn(drafted, accepted, drafting, wait)

        return text

    return made


def flexspec(policy: str, message: str) -> Callable[[World], Callable[[], None]]:
    """Choose the length by flexspec's average of each text, with all times and the present rate known."""
    method, choose = {
        "printed": ("ema_printed", surrogate_draft_length),
        "exact": ("consistent", optimal_draft_length),
    }[policy]

    def made(world: World) -> Callable[[], None]:
        def text() -> None:
            tracker = AcceptanceTracker(step=0.1, method=method)
            while world.left:
                rate = world.rate(world.now)
                fixed = world.trip_s + BETWEEN_S + world.base_s + world.token_s + 8.0 * FRAME / rate
                each = world.draft_s + world.token_s + 8.0 * DRAFT_BYTES[message] / rate
                length = int(choose(tracker.estimate, fixed, each, MOST))
                drafted, accepted, *_ = world.round(message, length)
                tracker = tracker.update(accepted=accepted, draft_length=drafted)

        return text

    return made


def fixed(message: str, length: int) -> Callable[[World], Callable[[], None]]:
    """Send one message with one length."""

    def made(world: World) -> Callable[[], None]:
        def text() -> None:
            while world.left:
                world.round(message, length)

        return text

    return made


def c_sqs(world: World) -> Callable[[], None]:
    """Send what C-SQS sends: the rows that its threshold keeps, as many as its bits allow, whatever the link is."""

    def text() -> None:
        for drafted, accepted, size in DRAFTS["c_sqs"][world.text]:
            world.spend(drafted + 1, drafted, accepted + 1, FRAME + size)  # the draft beyond the bits is dropped
        world.place += world.left

    return text


def knows(world: World) -> Callable[[], None]:
    """Take before each round the fastest message and length of the present rate, for known acceptances."""

    def text() -> None:
        while world.left:
            world.round(*world.best(world.rate(world.now)))

    return text


# --------------------------------------------------------------------------------------------------------- links


def step(first: float, second: float, at: float) -> Rate:
    """Return a rate that falls or rises once."""
    return lambda now: first if now < at else second


def recorded(file: Path, runs: int, seconds: float) -> Callable[[int], Rate]:
    """Return links of a file, evenly from all that last long enough, divided by ``SCALE``: downlinks as uplinks."""
    links = [one for _, one in sorted(load_link_file(file).items()) if float(one.period_s()) >= seconds]

    def rate(link: TraceLink) -> Rate:
        times, rates = np.asarray(link.time_s), np.asarray(link.throughput_bps)
        return lambda now: max(float(rates[np.searchsorted(times, now, side="right") - 1]) / SCALE, SLOWEST)

    return lambda seed: rate(links[seed * len(links) // runs])


def run(device: Callable[[World], Callable[[], None]], world: World, seconds: float) -> float:
    """Write texts until the given seconds are over, and return tokens per second."""
    text = device(world)
    while world.now < seconds:
        world.begin()
        text()
    return world.tokens / world.now


def main() -> None:
    """Simulate, print, and store."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--recorded", type=Path, help="a file of recorded links, as for `hlm link --link-csv`")
    given.add_argument("--runs", type=int, default=5)
    given.add_argument("--seconds", type=float, default=120.0, help="of each run; a step comes at half of it")
    asked = given.parse_args()
    links: dict[str, Callable[[int], Rate]] = {
        "5 Mbit/s to 200 kbit/s": lambda seed: step(5e6, 200e3, asked.seconds / 2),
        "200 to 20 kbit/s": lambda seed: step(200e3, 20e3, asked.seconds / 2),
        "20 kbit/s to 5 Mbit/s": lambda seed: step(20e3, 5e6, asked.seconds / 2),
    }
    if asked.recorded is not None:
        links["recorded"] = recorded(asked.recorded, asked.runs, 2.0 * asked.seconds)
    rows: list[dict[str, Any]] = []
    for link, make in links.items():
        for name, (base, token) in PASSES.items():
            for trip, seconds in TRIPS.items():
                rows += rows_of(link, make, name, (base, token, seconds), trip, asked)
    about = {"runs": asked.runs, "seconds": asked.seconds, "draft_bytes": DRAFT_BYTES}
    about |= {"accepted": {name: "".join(texts).count("1") / sum(map(len, texts)) for name, texts in ACCEPTED.items()}}
    stored = json.dumps(about | {"rows": rows}, indent=1, ensure_ascii=False)
    asked.out.write_text(stored + "\n", encoding="utf-8")


def rows_of(
    link: str, make: Callable[[int], Rate], name: str, times: tuple[float, float, float], trip: str, asked: Any
) -> list[dict[str, Any]]:
    """Return the speeds of all devices over one link, and their shares of the best plan in hindsight."""

    def speeds(device: Callable[[World], Callable[[], None]]) -> np.ndarray:
        worlds = (World(make(seed), *times, np.random.default_rng(1000 + seed)) for seed in range(asked.runs))
        return np.array([run(device, world, asked.seconds) for world in worlds])

    every = {one: speeds(fixed(*one)) for one in EVERY}
    hindsight = max(every, key=lambda one: float(every[one].mean()))
    first = World(make(0), *times, np.random.default_rng(0))
    plans = [first.best(make(seed)(0.0)) for seed in range(asked.runs)]
    planned = np.array([every[one][seed] for seed, one in enumerate(plans)])
    devices: dict[str, np.ndarray] = {
        "message and length from round to round (ours)": speeds(ours(within=True)),
        "message and length from text to text (ours)": speeds(ours(within=False)),
        "length of a shared seed (--adapt)": speeds(lengths_alone("tokens")),
        "flexspec's length as printed, rows": speeds(flexspec("printed", "rows")),
        "flexspec's length, exact, rows": speeds(flexspec("exact", "rows")),
        "c-sqs's threshold, rows": speeds(c_sqs),
        "the plan of the first rate": planned,
        "the best fixed plan in hindsight": every[hindsight],
        "the best plan of each moment": speeds(knows),
    }
    rows = []
    for device, found in devices.items():
        regret = 1.0 - found / every[hindsight]
        row = {"link": link, "pass": name, "round_trip": trip, "device": device, "tokens_per_s": float(found.mean())}
        row |= {"regret": float(regret.mean()), "spread": float(regret.std(ddof=1)), "hindsight": list(hindsight)}
        rows.append(row)
        print(json.dumps(row, ensure_ascii=False), flush=True)
    return rows


if __name__ == "__main__":
    main()
