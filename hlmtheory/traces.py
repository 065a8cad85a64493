"""Reading stored logits of a draft and a target model: a folder that ``hlm validate``, ``collect`` or ``import`` wrote.

``arrays/`` is a zarr group with checksums: ``draft_logits`` and ``target_logits`` (N, V) in float16 or float32, and
``tokens``, ``prompt_index`` and ``position`` (N,) in int32. ``manifest.json`` is written when the trace is finished.
"""

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import brief
from hlmtheory._domains import DomainError

__all__ = ["open_trace"]

_VERSION = 2
_INDEX = ("tokens", "prompt_index", "position")
_LOGITS = ("draft_logits", "target_logits")


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace on disk, rows of one text together and in order; logits (N, V) are read when they are indexed."""

    draft_logits: Any
    target_logits: Any
    tokens: NDArray[np.int32]
    prompt_index: NDArray[np.int32]
    position: NDArray[np.int32]
    prompts: tuple[dict[str, Any], ...]


def open_trace(path: str | PathLike[str]) -> StoredTrace:
    """Open a finished trace.

    Parameters
    ----------
    path : str or PathLike
        A folder.

    Returns
    -------
    StoredTrace
        ``draft_logits`` and ``target_logits`` (N, V), read when indexed; ``tokens``, ``prompt_index`` and ``position``
        (N,); ``prompts``.

    Raises
    ------
    ValueError
        If the folder holds no finished trace of version 2, or a part is missing.
    """
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"path must be a str or a Path; got {brief(path)}; give the folder of a trace")
    if "://" in str(path):
        raise DomainError(
            f"path must be a folder; got {str(path)!r}, an address; give it to "
            "validation.trace.reader.open_trace, or copy the trace"
        )
    folder = Path(path)
    manifest = _manifest(folder)
    arrays = {name: _stored_array(folder, name) for name in (*_LOGITS, *_INDEX)}
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if set(lengths.values()) != {manifest.get("positions")}:
        what = f"whose arrays have lengths {lengths}, not {manifest.get('positions')}"
        raise _refusal(folder, what, "restore it from a copy")
    index = {name: np.asarray(arrays[name][:]) for name in _INDEX}
    logits = {name: arrays[name] for name in _LOGITS}
    return StoredTrace(**logits, **index, prompts=tuple(manifest.get("prompts", ())))


def _manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a finished trace."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        missing = "no manifest.json" if not isinstance(error, ValueError) else "no readable manifest.json"
        raise _refusal(folder, f"which has {missing}", "collect one with `hlm validate`") from error
    if not isinstance(manifest, dict) or manifest.get("format") != "hlm-trace":
        raise _refusal(folder, "whose manifest does not describe a trace", "collect one with `hlm validate`")
    if manifest.get("version") != _VERSION:
        what = f"whose format version is {manifest.get('version')!r}, not {_VERSION}"
        raise _refusal(folder, what, "collect the trace again")
    if manifest.get("kind", "logits") != "logits":
        what = "which holds top-k lists and not logits"
        raise _refusal(folder, what, "check the claims that lists decide with `hlm validate --trace`")
    return manifest


def _stored_array(folder: Path, name: str) -> Any:
    """Return an array of a trace; raise if a chunk is missing, since zarr would fill it with its fill value."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("A trace is read with zarr; install it: pip install zarr") from error
    try:
        array = zarr.open_array(str(folder / "arrays" / name), mode="r", zarr_format=3)
    except (OSError, KeyError, ValueError) as error:
        raise _refusal(folder, f"where {name} cannot be read ({error})", "restore it from a copy") from error
    if array.nchunks_initialized != array.nchunks:
        found = f"{array.nchunks_initialized} of {array.nchunks} chunks of {name}"
        raise _refusal(folder, f"which has {found}", "restore it from a copy")
    return array


def _refusal(folder: Path, what: str, remedy: str) -> DomainError:
    return DomainError(f"path must be the folder of a finished trace; got {str(folder)!r}, {what}; {remedy}")
