"""The device of a setting: the class behind ``hlm device``, with the papers' own thresholds, which that command lacks.

``measure.py`` starts it. For each method it prints one line of JSON: of each text the tokens and seconds behind the
first answer, and a mark of the text.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any

from systems import SETTINGS, Setting, System

from validation.collection.collect import ids_of
from validation.collection.fingerprint import marks_of_model
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.methods.base import Method
from validation.link.device import Device, LinkRecord
from validation.link.remote import Remote
from validation.models.pair import PAIRS, load_single

SEED, SOURCE = 1, "GSM8K"


def main() -> None:
    """Run methods of a setting: SETTING, addresses of the two links, texts, most new tokens, and names of methods."""
    name, alone, drafting, texts, most, *methods = sys.argv[1:]
    setting = next(one for one in SETTINGS if one.name == name)
    pair = load_single(PAIRS["builtin"].draft)
    tokenizer, weights = marks_of_model(pair)
    prompts = prompts_of(int(texts))
    ids = ids_of(pair.tokenizer, prompts, chat=False)
    for system in setting.systems:
        if system.name not in methods:
            continue
        with Remote(drafting if system.drafts else alone) as remote:
            device = Device(pair, remote, tokenizer=tokenizer, draft=weights, least_draft_s=setting.times[0])
            lines = [
                text_of(device, setting, system, prompt, one, int(most))
                for prompt, one in zip(prompts, ids, strict=True)
            ]
        print(json.dumps({"method": system.name, "measured": lines}), flush=True)


def prompts_of(count: int) -> list[Prompt]:
    """Return the first built-in prompts of the papers' set that is among them."""
    return [one for one in builtin_prompts() if one.source == SOURCE][:count]


def text_of(
    device: Device, setting: Setting, system: System, prompt: Prompt, ids: list[int], most: int
) -> dict[str, Any]:
    """Write a text; return tokens and seconds behind the first answer, which holds the opening and the prompt."""
    method = None if system.writes else system.make()
    sampling = {"temperature": setting.temperature, "top_p": setting.top_p}
    record, events = written(device, method, prompt, ids, new_tokens=min(system.new_tokens, most), **sampling)
    return {
        "tokens": sum(count for _, count in events[1:]),
        "seconds": events[-1][0] - events[0][0] if events else 0.0,
        "skipped": record.total("skipped") / len(record.tokens),
        "mark": mark(record.tokens),
    }


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


def mark(tokens: list[int]) -> str:
    """Return a hash of a text."""
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
