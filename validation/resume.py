"""Whether a trace that lies somewhere is the one that is wanted: what its rows depend on, as plain values."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.models import Pair
from validation.prompts import Prompt
from validation.store.journal import LOCK, Lock, has_begun
from validation.store.layout import read_committed
from validation.store.reopening import differences
from validation.traces import Trace, open_trace

WEIGHTS_SEEN = 1024  # values of a tensor, evenly spread


def finished_trace(path: Path, settings: dict[str, Any]) -> Trace | None:
    """The trace at ``path`` if it is finished.

    Raises
    ------
    UserError
        It is finished, but of other settings.
    """
    if not has_begun(path):
        return None
    committed = read_committed(path)
    if not committed.finished:
        return None
    there = committed.header["settings"] or {}
    if there != settings:
        raise UserError(
            f"A trace of other settings lies at {path} ({differences(there, settings)}); use those, put the new run "
            f"elsewhere with --out FOLDER, or give --fresh, which deletes the {committed.rows:,} positions there."
        )
    if any(path.glob("tail-*.npz")) or (path / LOCK).exists():  # killed right after its last line
        with contextlib.suppress(UserError, OSError), Lock(path):
            for file in path.glob("tail-*.npz"):
                file.unlink()
    return open_trace(path)


def fingerprints(pair: Pair, prompts: Sequence[Prompt], encoded: list[list[int]]) -> dict[str, Any]:
    """What a trace depends on beside the numbers asked for: models, where and how they run, prompts."""
    asked = [[prompt.id, prompt.text, prompt.source, ids] for prompt, ids in zip(prompts, encoded, strict=True)]
    return {
        "device": str(pair.device),
        "model_dtype": pair.dtype,
        "vocabulary": pair.vocabulary,
        "end_tokens": list(pair.end_tokens),
        "small_weights": _weights_mark(pair.small),
        "large_weights": _weights_mark(pair.large),
        "prompts": hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16],
    }


def _weights_mark(model: Any) -> str:
    """A hash of names, shapes and some values of every weight."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        if not value.is_meta:  # a weight that lies on disk for now
            flat = value.detach().reshape(-1)
            digest.update(flat[:: max(1, flat.numel() // WEIGHTS_SEEN)].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
