"""Write what a device does into a record: :mod:`validation.planning.run_record` has the format."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from validation.decoding.methods.base import Method
from validation.decoding.methods.planned import Audited
from validation.decoding.records import GenerationRecord, Round
from validation.link.device import Device
from validation.link.device_records import Exchange
from validation.link.formats import SERVER_WRITES, Terms
from validation.link.remote import Remote
from validation.planning.run_record import Recorder

SMALL, LARGE = 4, 125
"""Bytes of a ping."""
ALONE, TRAINS = 5, 2
"""Small pings of a probe, one after the other, and trains of each length, of large pings that are sent at once."""
SHORT, LEAST, LONG = 16, 24, 128
"""Pings of a short train, and of a long one: at least and at most."""
SLOW_S, LONGER_S = 0.4, 1.0
"""A round trip from which on two small pings are enough, and how much longer a long train takes at most, if it can."""
HEADERS = 6, 2
"""Bytes that a WebSocket adds to a frame of at most 125 bytes, up and down."""


class Recording:
    def __init__(
        self, path: Path, device: Device, method: Method | None, settings: dict[str, Any], *, adapts: bool = False
    ) -> None:
        terms = SERVER_WRITES if method is None else Terms.of(method)
        lossy = method is not None and (method.truncates or method.cuts_answer)
        greeting, self.remote = device.remote.greeting(), device.remote
        run: dict[str, Any] = {
            "method": "server" if method is None else method.name,
            "messages": terms.format,
            "shared_seed": terms.shared_seed,
            "lossless": not (terms.by_argmax or terms.samples_target or lossy),
            "streamed": terms.streamed,
            "adapts": adapts,
            "audit": method.probability if isinstance(method, Audited) else 0.0,
            "vocabulary": device.pair.vocabulary,
            "tokenizer": device.tokenizer,
            "draft": device.draft,
            "target": ", ".join(sorted(set(greeting.targets.values()))),  # all that it may switch between
            "keyed": greeting.keyed,
        }
        sampling = {name: settings[name] for name in ("temperature", "top_p", "seed")}
        self.recorder = Recorder(path, run | sampling)
        self.began = 0.0
        for probe in probes(self.remote):
            self.recorder.add("probe", **probe)

    def begin(self, prompt: str, mark: str, new_tokens: int) -> None:
        self.recorder.add("text", prompt=prompt, mark=mark, new_tokens=new_tokens)
        self.began = time.perf_counter()

    def exchange(self, one: Round, spent: Exchange) -> None:
        counts = {name: getattr(one, name) for name in ("position", "drafted", "accepted", "bonus", "skipped")}
        self.recorder.add("round", **counts, **asdict(spent))

    def answer(self, position: int, tokens: int, accepted: int) -> None:
        """Add tokens of a device that drafts on, or of a server that writes."""
        seconds = time.perf_counter() - self.began
        self.recorder.add("answer", position=position, tokens=tokens, accepted=accepted, seconds=seconds)

    def end(self, record: GenerationRecord) -> None:
        seconds = time.perf_counter() - self.began
        self.recorder.add("end", tokens=len(record.tokens), ended=record.ended, seconds=seconds)
        self.recorder.add("probe", **_ping(self.remote, 1, SMALL))


def probes(remote: Remote) -> list[dict[str, Any]]:
    """Time pings: one at a time for the round trip, and many at once for the rate; fewer of them on a slow link."""
    found = [_ping(remote, 1, SMALL)]
    trip = found[0]["seconds"]
    found += [_ping(remote, 1, SMALL) for _ in range(ALONE - 1 if trip < SLOW_S else 1)]
    trains = [_ping(remote, SHORT, LARGE) for _ in range(TRAINS)]
    each = max(min(one["seconds"] for one in trains) - trip, 0.0) / SHORT
    long = LONG if each * (LONG - SHORT) <= LONGER_S else max(LEAST, SHORT + int(LONGER_S / each))
    return found + trains + [_ping(remote, long, LARGE) for _ in range(TRAINS)]


def _ping(remote: Remote, frames: int, size: int) -> dict[str, Any]:
    up, down = (size + header for header in HEADERS)
    return {"frames": frames, "up_bytes": up, "down_bytes": down, "seconds": remote.probe(frames, size)}
