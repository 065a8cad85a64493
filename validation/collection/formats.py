"""Find the format of a file of logits or log-probabilities by looking at it, and open top-k lists."""

from __future__ import annotations

from pathlib import Path

from validation.collection.answers import JSON, open_answers
from validation.collection.array_files import open_source
from validation.collection.distillkit import CONFIG, open_distillkit
from validation.collection.processing import Processing
from validation.collection.top_k import ListSource
from validation.errors import UserError

ROWS = ("array", "llama.cpp")
"""Formats of whole rows: an array file, and the store of ``llama-perplexity --kl-divergence-base``."""
ANSWERS = ("vllm", "sglang", "llama-server")
FORMATS = (*ROWS, "distillkit", *ANSWERS)


def holds_lists(where: str | Path, wanted: str | None = None) -> bool:
    """Return whether a file or folder holds top-k lists, and not whole rows."""
    path = Path(where)
    lists = (path.is_dir() and (path / CONFIG).is_file()) or (path.is_file() and path.name.lower().endswith(JSON))
    if wanted is not None and (wanted not in ROWS) != lists and (path.exists() or wanted not in ROWS):
        _refuse_other(path, wanted)
    if wanted in ROWS:
        found = "array" if open_source(where).store is None else "llama.cpp"
        if found != wanted:
            raise UserError(f"{path} is of the format {found}, not {wanted}; leave out --format.")
    return lists


def _refuse_other(path: Path, wanted: str) -> None:
    if not path.exists():
        raise UserError(f"There is no file {path}; check the path.")
    needed = {"distillkit": f"a folder with {CONFIG}"} | dict.fromkeys(ANSWERS, f"a file {' or '.join(JSON[:2])}")
    raise UserError(f"{path} is not of the format {wanted}, which is {needed.get(wanted, 'no file of lists')}.")


def open_lists(where: str | Path, processing: Processing, wanted: str | None = None) -> ListSource:
    """Return the top-k lists of a file of an engine's answers, or of a folder of DistillKit."""
    path = Path(where)
    if path.is_dir():
        if wanted not in (None, "distillkit"):
            _refuse_other(path, wanted)
        return open_distillkit(path)
    if wanted is not None and wanted not in ANSWERS:
        _refuse_other(path, wanted)
    return open_answers(path, processing, wanted)
