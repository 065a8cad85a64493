"""The texts of ``hlm device``: written, told, stored, and found again."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.errors import UserError, naming

if TYPE_CHECKING:
    from validation.decoding.methods.base import Method
    from validation.link.completions import EngineDevice
    from validation.link.device import Device
    from validation.link.recording import Recording


class _Came:
    """When the tokens of a text came: how many with the first answer, and the seconds until then and until the last."""

    def __init__(self, *, answered: bool) -> None:
        self.answered, self.count, self.began = answered, 0, time.perf_counter()
        self.tokens, self.first_s, self.last_s = 0, 0.0, 0.0

    def plain(self) -> dict[str, float]:
        return {"tokens": self.tokens, "first_s": self.first_s, "last_s": self.last_s}

    def exchange(self, one: Any, spent: Any) -> None:
        self.answered = True

    def take(self, new: list[int]) -> None:
        self.count, self.last_s = self.count + len(new), time.perf_counter() - self.began
        if self.answered and not self.tokens:
            self.tokens, self.first_s = self.count, self.last_s


def write_text(
    device: Device | EngineDevice,
    method: Method | None,
    name: str,
    ids: list[int],
    settings: dict[str, Any],
    recording: Recording | None = None,
) -> dict[str, Any]:
    from validation.decoding.methods.switched import Switched
    from validation.link.message_choice import AdaptiveSeed, FollowingText
    from validation.link.skip_choice import OwnThreshold

    remote = device.remote
    came = _Came(answered=method is None or method.streamed)
    watching: list[Any] = [came.exchange, *([] if recording is None else [recording.exchange])]
    watching += [method.exchange] if isinstance(method, AdaptiveSeed | OwnThreshold | FollowingText) else []

    def on_exchange(one: Any, spent: Any) -> None:
        for watch in watching:
            watch(one, spent)

    if recording is not None:
        recording.begin(name, mark_of(ids), settings["new_tokens"])
    before = remote.sent_bytes, remote.received_bytes
    watched: dict[str, Any] = {"on_exchange": on_exchange, "on_answer": recording and recording.answer}
    record = device.generate(method, ids, name=name, on_tokens=came.take, **watched, **settings)
    seconds = time.perf_counter() - came.began
    if recording is not None:
        recording.end(record)
    return {
        "prompt": name,
        "prompt_mark": mark_of(ids),
        "text": device.pair.tokenizer.decode(record.tokens),
        "tokens": record.tokens,
        "ended": record.ended,
        "seconds": seconds,
        "came": came.plain(),
        "rounds": len(record.rounds),
        "drafted": record.total("drafted"),
        "accepted": record.total("accepted"),
        "skipped": record.total("skipped"),
        "writers": record.writers,
        **({"choices": [[one.message, one.length] for one in method.choices]} if isinstance(method, Switched) else {}),
        "alone": record.alone(),
        "up_bytes": remote.sent_bytes - before[0],
        "down_bytes": remote.received_bytes - before[1],
    }


def told(line: dict[str, Any]) -> str:
    from validation.link.device_records import ALONE

    count, seconds, said = len(line["tokens"]), line["seconds"], ""
    if line["alone"]:
        said = "; by the device alone, with the draft model's law: tokens " + _ranges(line["alone"])
    if len(versions := [one for one in line["writers"] if one[1] != ALONE]) > 1:
        said += "; versions: " + ", ".join(f"{name} from token {place + 1}" for place, name in versions)
    return (
        f"  {count} tokens in {seconds:.2f} s ({count / seconds:.1f} a second), {line['rounds']} rounds, "
        f"{line['accepted']} of {line['drafted']} drafts accepted, {line['up_bytes']} bytes up, "
        f"{line['down_bytes']} down{said}"
    )


def _ranges(parts: list[tuple[int, int]]) -> str:
    """Return parts (first, behind the last) with tokens counted from 1.

    >>> _ranges([(0, 1), (4, 7)])
    '1, 5 to 7'
    """
    return ", ".join(str(end) if end == first + 1 else f"{first + 1} to {end}" for first, end in parts)


def mark_of(ids: list[int]) -> str:
    return hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]


def stored_texts(out: Path | None, described: dict[str, Any], asked: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the texts of a file by prompt, written with these settings; a last line that was cut is taken away."""
    if out is None or not out.exists():
        return {}
    whole = out.read_bytes()
    lines = whole[: whole.rfind(b"\n") + 1].splitlines()
    try:
        found = {line["prompt"]: line for line in map(json.loads, lines)}
        same = all(line[name] == value for line in found.values() for name, value in described.items())
        same &= all(line["prompt_mark"] == asked.get(name, line["prompt_mark"]) for name, line in found.items())
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{out} holds no texts of `hlm device`; give --out another name.") from error
    if not same:
        raise UserError(
            f"{out} holds texts of other models, prompts or settings; use those, or give --out another name."
        )
    os.truncate(out, whole.rfind(b"\n") + 1)
    return found


def append_text(out: Path, line: dict[str, Any]) -> None:
    with naming(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
