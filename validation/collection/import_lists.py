"""Import top-k lists of both models as a trace that knows what it does not know."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.answers import JSON, open_answers
from validation.collection.distillkit import CONFIG, open_distillkit
from validation.collection.fingerprint import finished_trace
from validation.collection.processing import Processing, processing_note
from validation.collection.top_k import Lists, ListSource, Progress, pair_lists
from validation.errors import UserError
from validation.trace.format import LISTS, list_fields
from validation.trace.reader import LOGITS, Trace, TraceWriter, check_disk_space, open_trace
from validation.trace.remote import RemotePath, place

COMMIT_ROWS = 2**18
MASKED = -60_000.0  # stored for a probability of 0: float32's softmax of it is 0
CORPUS, TARGET = "corpus", "target"  # who wrote the texts: a corpus, or the target model


def holds_lists(where: str | Path) -> bool:
    path = Path(where)
    return (path / CONFIG).is_file() if path.is_dir() else path.is_file() and path.name.lower().endswith(JSON)


def open_lists(where: str | Path, processing: Processing) -> ListSource:
    path = Path(where)
    return open_distillkit(path) if path.is_dir() else open_answers(path, processing)


def import_lists(
    draft: ListSource,
    target: ListSource,
    store_path: str | Path | RemotePath,
    *,
    vocabulary: int | None,
    processing: tuple[Processing, Processing],
    text_origin: str = CORPUS,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Trace:
    """Build a trace from top-k lists; lists of all V tokens of both models become an ordinary trace of whole rows."""
    path = place(store_path)
    settings: dict[str, Any] = {"draft": draft.mark(), "target": target.mark(), "vocabulary": vocabulary}
    settings |= {"processing": [asdict(one) for one in processing], "texts": text_origin}
    if not fresh and (finished := finished_trace(path, settings)) is not None:
        return finished
    pair = pair_lists(draft, target, vocabulary, progress)
    whole = pair.draft_k == pair.target_k == pair.vocabulary and draft.rounding.exact and target.rounding.exact
    widths = pair.draft_k, pair.target_k
    for source, one in zip((draft, target), processing, strict=True):
        if not source.normalised and not whole:
            raise UserError(
                f"{source.path} holds {one.values} of {widths[source is target]:,} of {pair.vocabulary:,} tokens: "
                "without the others their sum is not known; ask for log-probabilities (vLLM's logprobs_mode)."
            )
    notes = [processing_note(*processing), _note(widths, pair.vocabulary, whole)]
    manifest: dict[str, Any] = {
        "pair": {"name": "imported", "small_name": draft.label, "large_name": target.label},
        "imported": {"draft": draft.label, "target": target.label, "formats": [draft.format, target.format]},
        "rounding": {"draft": asdict(draft.rounding), "target": asdict(target.rounding)},
        "processing": {name: asdict(one) for name, one in zip(("draft", "target"), processing, strict=True)},
        "texts": text_origin,
        "notes": notes + ([CORPUS_NOTE] if text_origin == CORPUS else []),
        "prompts": [],
    }
    if whole:
        del manifest["rounding"]
    lists = None if whole else widths
    dtype = "float32" if whole else "float16"
    with TraceWriter(
        path, pair.vocabulary, manifest, dtype=dtype, settings=settings, fresh=fresh, lists=lists
    ) as writer:
        fields = None if whole else list_fields(*widths)
        check_disk_space(path, pair.rows - writer.positions, pair.vocabulary, dtype, fields)
        skipped, uncommitted = writer.positions, 0
        for block, tokens, number, position in pair.blocks():
            rest = slice(skipped, None)
            skipped = max(0, skipped - len(tokens))
            if not len(tokens[rest]):
                continue
            writer.append(*(part[rest] for part in (*_stored(block, whole), tokens, number, position)))
            uncommitted += len(tokens[rest])
            if uncommitted >= COMMIT_ROWS:
                writer.commit()
                uncommitted = 0
            if progress:
                progress(writer.positions, pair.rows, "storing")
    return open_trace(path, kinds=(LOGITS, LISTS))


CORPUS_NOTE = (
    "The texts are a corpus's, so results about texts that the target model writes do not apply to them; if the target "
    "model wrote them, import with --text-origin target."
)


def _note(widths: tuple[int, int], vocabulary: int, whole: bool) -> str:
    if whole:
        return f"The lists hold all {vocabulary:,} tokens, so they are whole rows."
    return (
        f"Known are the {widths[0]:,} most probable tokens of the draft model and {widths[1]:,} of the target model, "
        f"of {vocabulary:,}. A claim is checked where the intervals that they leave decide it."
    )


def _stored(block: Lists, whole: bool) -> tuple[NDArray[Any], ...]:
    pairs = ((block.draft_tokens, block.draft_log_probabilities), (block.target_tokens, block.target_log_probabilities))
    if not whole:
        return tuple(array for pair in pairs for array in pair)
    rows = []
    for tokens, values in pairs:
        row = np.full((len(tokens), block.vocabulary), MASKED, np.float32)
        np.put_along_axis(row, tokens, np.maximum(values, MASKED).astype(np.float32), axis=1)
        rows.append(row)
    return tuple(rows)
