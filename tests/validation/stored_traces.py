"""Traces of random logits, written and opened."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from validation.trace.format import FIELDS
from validation.trace.journal import JOURNAL, line_of
from validation.trace.reader import Trace, TraceWriter, open_trace

TEXTS, LENGTH, VOCABULARY = 40, 8, 20


def random_fields(count: int, seed: int = 0, vocabulary: int = VOCABULARY) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    found = {}
    for name, field in FIELDS.items():
        shape, dtype = (count, *field.row(vocabulary)), field.stored_dtype("float16")
        numbers = rng.normal(size=shape) if dtype.kind == "f" else rng.integers(0, vocabulary, shape)
        found[name] = numbers.astype(dtype)
    return found


def stored(path: Path, *, seed: int = 1, noise: float = 1.0, flip: bool = False, repeat: int = 1, **more: Any) -> Trace:
    rng = np.random.default_rng(seed)
    with TraceWriter(path, VOCABULARY, more) as writer:
        for text in range(TEXTS):
            scale = rng.uniform(0.3, 6.0, (LENGTH, 1))
            draft = scale * rng.normal(size=(LENGTH, VOCABULARY))
            shift = noise * (scale if flip else 1.0) * rng.normal(size=draft.shape)
            target = np.where(flip & (scale < 3), draft, draft + shift)
            index = np.full(LENGTH, text, dtype=np.int32)
            tokens = np.zeros(LENGTH, dtype=np.int32)
            rows = (draft.astype(np.float16), target.astype(np.float16))
            for _ in range(repeat):
                writer.append(*rows, tokens, index, np.arange(LENGTH, dtype=np.int32))
    return open_trace(path)


def forged(path: Path, **changes: Any) -> None:
    *lines, last = (path / JOURNAL).read_bytes().splitlines(keepends=True)
    record = json.loads(last)
    del record["crc"]
    (path / JOURNAL).write_bytes(b"".join([*lines, line_of(record | changes)]))
