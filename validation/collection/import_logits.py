"""Import a user's logits of both models as a trace, from array files or llama.cpp's stores, in blocks.

The first pass checks the values and finds their range; the second stores them. Without tokens, the trace stores -1 for
each; without texts, all rows form one sequence.
"""

import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.array_files import ArraySource, open_source
from validation.collection.fingerprint import finished_trace
from validation.collection.import_lists import CORPUS, CORPUS_NOTE
from validation.collection.processing import Processing, processing_note
from validation.collection.top_k import Progress, Rounding
from validation.errors import UserError
from validation.trace.format import NO_TOKEN
from validation.trace.reader import Trace, TraceWriter, check_disk_space, open_trace
from validation.trace.remote import RemotePath, place

BLOCK_VALUES = 2**22  # logits of one model in memory at a time
COMMIT_BLOCKS = 32
LARGEST = {"float16": float(np.finfo(np.float16).max), "float32": float(np.finfo(np.float32).max)}


def import_logits(
    draft: str | Path,
    target: str | Path,
    store_path: str | Path | RemotePath,
    *,
    tokens: str | Path | None = None,
    texts: str | Path | None = None,
    dtype: str = "auto",
    processing: tuple[Processing, Processing] | None = None,
    text_origin: str | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Trace:
    report = progress or (lambda done, total, text: None)
    sources = {"draft": open_source(draft), "target": open_source(target)}
    rows, vocabulary = _common_shape(sources)
    index = {name: _integers(name, where, rows) for name, where in (("tokens", tokens), ("texts", texts)) if where}
    index = _stored_index(sources) | index
    if "tokens" in index and not ((index["tokens"] >= 0) & (index["tokens"] < vocabulary)).all():
        row = int(np.flatnonzero((index["tokens"] < 0) | (index["tokens"] >= vocabulary))[0])
        raise UserError(
            f"{tokens} holds the token {index['tokens'][row]} at row {row}; tokens lie in 0 to {vocabulary - 1}."
        )
    prompt_index, position = _texts(index.get("texts"), rows, str(texts))
    settings: dict[str, Any] = {name: source.mark() for name, source in sources.items()}
    settings |= {name: f"{zlib.crc32(values.tobytes()):08x}" for name, values in index.items()}
    settings["asked_dtype"] = dtype
    draft_values, target_values = (Processing(default_values(where), stated=False) for where in (draft, target))
    said = processing or (draft_values, target_values)
    stores = {name: source.store for name, source in sources.items() if source.store is not None}
    text_origin = text_origin or (CORPUS if stores else None)
    settings |= {"processing": [asdict(one) for one in said], "text_origin": text_origin}
    if stores and dtype == "float16":
        raise UserError(
            f"float16 would round {next(iter(stores.values())).path} more than the store did; leave out --dtype."
        )
    path = place(store_path)
    if not fresh and (finished := finished_trace(path, settings)) is not None:
        return finished
    largest = [_examine(name, source, report) for name, source in sources.items()]
    stored, note = _chosen_dtype(dtype, dict(zip(sources, largest, strict=True)), sources)
    stored = "float32" if stores else stored
    manifest: dict[str, Any] = {
        "pair": {"name": "imported", "small_name": sources["draft"].label, "large_name": sources["target"].label},
        "imported": {name: source.label for name, source in sources.items()},
        "processing": {name: asdict(one) for name, one in zip(sources, said, strict=True)},
        "notes": [*([note] if note else []), processing_note(*said)],
        "prompts": [],
    }
    if stores:
        rounding = {name: asdict(Rounding(store.error(), floored=True)) for name, store in stores.items()}
        manifest["rounding"] = dict.fromkeys(sources, asdict(Rounding())) | rounding
        manifest["notes"].append("The stores round. A claim is checked where the intervals that this leaves decide it.")
    if text_origin is not None:
        manifest["texts"] = text_origin
        manifest["notes"] += [CORPUS_NOTE] if text_origin == CORPUS else []
    with TraceWriter(path, vocabulary, manifest, dtype=stored, settings=settings, fresh=fresh) as writer:
        check_disk_space(path, rows - writer.positions, vocabulary, stored)
        first = writer.positions
        pairs = zip(*(source.blocks(_block_rows(vocabulary), first) for source in sources.values()), strict=True)
        for number, (draft_rows, target_rows) in enumerate(pairs, start=1):
            here = slice(writer.positions, writer.positions + len(draft_rows))
            given = index["tokens"][here] if "tokens" in index else np.full(len(draft_rows), NO_TOKEN)
            writer.append(draft_rows, target_rows, given, prompt_index[here], position[here])
            if number % COMMIT_BLOCKS == 0:
                writer.commit()
            report(writer.positions, rows, "storing")
    return open_trace(path)


def _stored_index(sources: dict[str, ArraySource]) -> dict[str, NDArray[np.int64]]:
    stores = {name: source.store for name, source in sources.items() if source.store is not None}
    if not stores:
        return {}
    first = next(iter(stores.values()))
    for store in stores.values():
        if store.context != first.context:
            raise UserError(
                f"{first.path} has chunks of {first.context} tokens, {store.path} of {store.context}; make both with "
                "the same -c."
            )
        if (store.tokens != first.tokens).any():
            row = int(np.flatnonzero(store.tokens != first.tokens)[0])
            raise UserError(
                f"The token at row {row} is {first.tokens[row]} in {first.path} and {store.tokens[row]} in "
                f"{store.path}; make both from the same text, with the same vocabulary."
            )
    return {"tokens": first.tokens, "texts": first.texts}


def default_values(where: str | Path) -> str:
    return "raw_logits" if open_source(where).store is None else "raw_logprobs"


def _common_shape(sources: dict[str, ArraySource]) -> tuple[int, int]:
    for name, source in sources.items():
        if source.dtype.kind != "f":
            raise UserError(
                f"{source.where} holds {source.dtype}, but the {name} logits must be floating-point numbers."
            )
        if len(source.shape) != 2:
            raise UserError(
                f"{source.where} has shape {source.shape}; the {name} logits must have shape (N, V), one row a "
                "position: reshape them."
            )
        if 0 in source.shape:
            raise UserError(f"{source.where} is empty (shape {source.shape}); give at least one row.")
    draft, target = sources.values()
    if draft.shape != target.shape:
        raise UserError(
            f"The shapes differ: {draft.shape} in {draft.where}, {target.shape} in {target.where}; both models' logits "
            "are needed for the same rows over the same vocabulary."
        )
    return draft.shape[0], draft.shape[1]


def _integers(name: str, where: str | Path, rows: int) -> NDArray[np.int64]:
    source = open_source(where)
    if source.shape != (rows,) or source.dtype.kind not in "iu":
        raise UserError(
            f"{source.where} holds {source.dtype} of shape {source.shape}; {name} must be ({rows},) integers."
        )
    return np.concatenate([np.asarray(block, np.int64) for block in source.blocks(2**20, 0)])


def _texts(texts: NDArray[np.int64] | None, rows: int, where: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    if texts is None:
        return np.zeros(rows, np.int32), np.arange(rows, dtype=np.int32)
    starts = np.flatnonzero(np.diff(texts, prepend=texts[0] - 1))
    if len(np.unique(texts[starts])) != len(starts):
        values, counts = np.unique(texts[starts], return_counts=True)
        raise UserError(
            f"The rows of text {values[counts > 1][0]} in {where} lie apart; put the rows of a text together, in order."
        )
    lengths = np.diff([*starts, rows])
    number = np.repeat(np.arange(len(starts), dtype=np.int32), lengths)
    return number, (np.arange(rows) - np.repeat(starts, lengths)).astype(np.int32)


def _examine(name: str, source: ArraySource, report: Progress) -> tuple[float, int, tuple[int, int]]:
    largest, beyond, first, bad, bad_at, shaped = 0.0, 0, (0, 0), 0, (0, 0, 0.0), True
    done = 0
    for block in source.blocks(_block_rows(source.shape[1]), 0):
        if not (finite := np.isfinite(block)).all():
            row, column = np.argwhere(~finite)[0].tolist()
            bad_at = bad_at if bad else (done + row, column, float(block[row, column]))
            bad += int(finite.size - np.count_nonzero(finite))
        else:
            magnitude = np.abs(block)
            largest = max(largest, float(magnitude.max()))
            if (too_large := magnitude > LARGEST["float16"]).any():
                row, column = np.argwhere(too_large)[0].tolist()
                first = first if beyond else (done + row, column)
                beyond += int(np.count_nonzero(too_large))
            sums = block.sum(axis=1, dtype=np.float64)
            shaped = shaped and bool((block >= 0).all() and (np.abs(sums - 1) < 0.01).all())
        done += len(block)
        report(done, source.shape[0], f"looking at the {name} logits")
    if bad:
        row, column, value = bad_at
        what = "value that is not a finite number" if bad == 1 else "values that are not finite numbers"
        raise UserError(
            f"{source.where} holds {bad:,} {what}, the first ({value}) at row {row}, column {column}; replace them (a "
            "masked entry by a large negative number such as -60000)."
        )
    if shaped and source.shape[1] > 1:
        raise UserError(
            f"{source.where} looks like probabilities (no entry below 0, every row sums to 1), but logits are needed; "
            "give their logarithms."
        )
    return largest, beyond, first


def _chosen_dtype(
    dtype: str, seen: dict[str, tuple[float, int, tuple[int, int]]], sources: dict[str, ArraySource]
) -> tuple[str, str]:
    for name, (largest, beyond, (row, column)) in seen.items():
        where = sources[name].where
        if largest > LARGEST["float32"]:
            raise UserError(
                f"{where} holds a value of magnitude {largest:.6g}, more than float32 holds; scale it down."
            )
        if beyond and dtype == "float16":
            raise UserError(
                f"{where} holds {beyond:,} {'value' if beyond == 1 else 'values'} beyond float16 (65504), the first at "
                f"row {row}, column {column}; store them with --dtype float32."
            )
    if dtype == "auto" and any(beyond for _, beyond, _ in seen.values()):
        count = sum(beyond for _, beyond, _ in seen.values())
        return "float32", f"{count:,} logits are beyond float16 (65504), so all are stored as float32."
    return ("float16" if dtype == "auto" else dtype), ""


def _block_rows(vocabulary: int) -> int:
    return max(1, BLOCK_VALUES // vocabulary)
