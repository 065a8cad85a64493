"""Write what a device does into a record: :mod:`validation.planning.run_record` has the format."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.decoding.methods.audited import Audited
from validation.link.formats import SERVER_WRITES, Terms
from validation.planning.run_record import Recorder

if TYPE_CHECKING:
    from validation.decoding.methods.base import Method
    from validation.decoding.records import GenerationRecord, Round
    from validation.link.device import Device
    from validation.link.device_records import Exchange

SMALL, LARGE = 4, 125
"""Bytes of a ping."""
ALONE, TRAINS = 5, 2
"""Small pings of a probe, one after the other, and trains of each length, of large pings that are sent at once."""
SHORT, MIDDLE, LONG = 16, 48, 128
"""Pings of a train. The longer trains are of the middle length where a short one takes ``SLOW_S`` or more."""
SLOW_S = 0.4
HEADERS = 6, 2
"""Bytes that a WebSocket adds to a frame of at most 125 bytes, up and down."""


class Recording:
    """The record of a run, in which texts follow each other.

    Parameters
    ----------
    path : Path
    device : Device
    method : Method or None
        None: the server writes.
    settings : dict
        ``seed``, ``temperature``, ``top_p``.
    adapts : bool
        Whether draft lengths follow from earlier rounds.
    """

    def __init__(
        self, path: Path, device: Device, method: Method | None, settings: dict[str, Any], *, adapts: bool = False
    ) -> None:
        terms = SERVER_WRITES if method is None else Terms.of(method)
        greeting, self.remote = device.remote.greeting(), device.remote
        run: dict[str, Any] = {
            "method": "server" if method is None else method.name,
            "messages": terms.format,
            "shared_seed": terms.shared_seed,
            "lossless": not (terms.by_argmax or terms.samples_target or _loses(method)),
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
        self.probe()

    def probe(self) -> None:
        """Time pings: one at a time for the round trip, and many at once for the rate."""
        for _ in range(ALONE):
            self._ping(1, SMALL)
        shortest = min(self._ping(SHORT, LARGE) for _ in range(TRAINS))
        for _ in range(TRAINS):
            self._ping(LONG if shortest < SLOW_S else MIDDLE, LARGE)

    def _ping(self, frames: int, size: int) -> float:
        seconds = self.remote.probe(frames, size)
        up, down = (size + header for header in HEADERS)
        self.recorder.add("probe", frames=frames, up_bytes=up, down_bytes=down, seconds=seconds)
        return seconds

    def begin(self, prompt: str, mark: str, new_tokens: int) -> None:
        """Begin a text."""
        self.recorder.add("text", prompt=prompt, mark=mark, new_tokens=new_tokens)
        self.began = time.perf_counter()

    def exchange(self, one: Round, spent: Exchange) -> None:
        """Add a round."""
        counts = {"drafted": one.drafted, "accepted": one.accepted, "bonus": one.bonus, "skipped": one.skipped}
        times = {"draft_s": spent.draft_s, "wait_s": spent.wait_s, "opened": spent.opened, "audited": spent.audited}
        sizes = {"up_bytes": spent.up_bytes, "down_bytes": spent.down_bytes}
        self.recorder.add("round", position=one.position, length=spent.length, **counts, **sizes, **times)

    def answer(self, position: int, tokens: int, accepted: int) -> None:
        """Add tokens of a device that drafts on, or of a server that writes."""
        seconds = time.perf_counter() - self.began
        self.recorder.add("answer", position=position, tokens=tokens, accepted=accepted, seconds=seconds)

    def end(self, record: GenerationRecord) -> None:
        """End a text, and probe the link again."""
        seconds = time.perf_counter() - self.began
        self.recorder.add("end", tokens=len(record.tokens), ended=record.ended, seconds=seconds)
        self._ping(1, SMALL)


def _loses(method: Method | None) -> bool:
    """Return whether a method replaces rejected drafts by a part of what it needs."""
    return method is not None and (method.truncates or method.cuts_answer)
