"""Check whether an existing trace matches the requested one, by fingerprints of everything its logits depend on."""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from validation.collection.prompts import Prompt
from validation.errors import UserError
from validation.models.devices import cores
from validation.models.pair import Pair
from validation.trace.format import TAIL, own_files, read_committed
from validation.trace.journal import LOCK, Lock, has_begun
from validation.trace.reader import LISTS, LOGITS, Trace, open_trace
from validation.trace.remote import Place
from validation.trace.reopen import differences, remove_strays

PIECE = 2**24  # number of values hashed at a time


def finished_trace(path: Place, settings: dict[str, Any]) -> Trace | None:
    if not has_begun(path):
        return None
    committed = read_committed(path)
    if not committed.finished:
        return None
    if (there := committed.header["settings"] or {}) != settings:
        raise UserError(
            f"A trace of other settings lies at {path} ({differences(there, settings)}); use those, put the new run "
            f"elsewhere with --out FOLDER, or give --fresh, which deletes the {committed.rows:,} positions there."
        )
    if any(TAIL.fullmatch(file.name) for file in own_files(path)) or (path / LOCK).exists():
        with contextlib.suppress(UserError, OSError), Lock(path):  # the process was killed right after the last line
            remove_strays(path, committed)
    return open_trace(path, kinds=(LOGITS, LISTS))


def fingerprints(pair: Pair, prompts: Sequence[Prompt], encoded: list[list[int]]) -> dict[str, Any]:
    """Return fingerprints of the models, device, dtype and prompts that a trace depends on."""
    asked = [[prompt.id, prompt.text, prompt.source, ids] for prompt, ids in zip(prompts, encoded, strict=True)]
    turns = {"chat": True} if pair.chat else {}  # a trace of plain prompts has the settings that it always had
    return turns | {
        "device": str(pair.device),
        "model_dtype": pair.dtype,
        "vocabulary": pair.vocabulary,
        "end_tokens": list(pair.end_tokens),
        "small_weights": weights_mark(pair.draft),
        "large_weights": weights_mark(pair.target),
        "prompts": hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16],
    }


def marks_of_model(pair: Pair) -> tuple[str, str]:
    return tokenizer_mark(pair.tokenizer), weights_mark(pair.target)


def tokenizer_mark(tokenizer: Any) -> str:
    """Return a hash of the tokenizer's entries, each with its id."""
    entries = sorted((index, token) for token, index in tokenizer.get_vocab().items())
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:16]


def weights_mark(model: Any) -> str:
    """Return a hash of the name, shape, dtype and bytes of every weight."""
    digest = hashlib.sha256(type(model).__name__.encode())
    weights = sorted(model.state_dict().items())
    offloaded = _offloaded(model)
    with ThreadPoolExecutor(cores()) as pool:
        sums = pool.map(lambda item: _sum(offloaded.get(item[0], item[1])), weights)
        for (name, value), found in zip(weights, sums, strict=True):
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode() + found)
    return digest.hexdigest()[:16]


def _sum(value: Any) -> bytes:
    import torch

    digest = hashlib.sha256()
    for piece in value.detach().reshape(-1).split(PIECE):
        digest.update(piece.contiguous().cpu().view(torch.uint8).numpy().data)
    return digest.digest()


def _offloaded(model: Any) -> dict[str, Any]:
    """Return, by name, the weights that accelerate keeps on the host or disk; the model holds empty placeholders."""
    found = {}
    for prefix, module in model.named_modules():
        kept: Any = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)] if kept else []
        for name, value in own:
            if value.is_meta:
                found[f"{prefix}.{name}".lstrip(".")] = kept[name]
    return found
