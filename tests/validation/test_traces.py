"""The store: what goes in comes out, complete or not at all."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation import traces
from validation.errors import UserError
from validation.traces import ARRAYS, TraceWriter, check_disk_space, open_trace, probabilities

V = 5


def rows(count: int, seed: int = 0) -> dict[str, Any]:
    """Random positions as ``TraceWriter.append`` takes them."""
    rng = np.random.default_rng(seed)
    logits = {name: rng.normal(size=(count, V)).astype(np.float16) for name in ARRAYS[:2]}
    return logits | {name: rng.integers(0, V, count).astype(np.int32) for name in ARRAYS[2:]}


def write(path: Path, *counts: int) -> list[dict[str, Any]]:
    """A trace of several appends."""
    pieces = [rows(count, seed) for seed, count in enumerate(counts)]
    with TraceWriter(path, V, {"seed": 3}) as writer:
        for piece in pieces:
            writer.append(**piece)
        writer.manifest["notes"] = ["übrig"]
    return pieces


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_round_trip(tmp_path: Path, size: int) -> None:
    pieces = write(tmp_path / "t", 3, 1, 6)
    trace = open_trace(tmp_path / "t")
    assert (trace.positions, trace.vocabulary) == (10, V)
    assert trace.manifest["notes"] == ["übrig"]
    assert (trace.manifest["seed"], trace.manifest["dtype"]) == (3, "float16")
    chunks = list(trace.chunks(size))
    assert [len(chunk.tokens) for chunk in chunks] == [min(size, 10 - start) for start in range(0, 10, size)]
    for name in ARRAYS:
        read = np.concatenate([getattr(chunk, name) for chunk in chunks])
        expected = np.concatenate([piece[name] for piece in pieces])
        assert read.dtype == expected.dtype
        assert np.array_equal(read, expected)


def test_arrays_are_plain_npy(tmp_path: Path) -> None:
    (piece,) = write(tmp_path / "t", 4)
    assert np.array_equal(np.load(tmp_path / "t" / "draft_logits.npy"), piece["draft_logits"])


def test_what_was_written_cannot_be_overruled(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t", V, {"positions": 99, "format": "other"}) as writer:
        writer.append(**rows(2))
    assert open_trace(tmp_path / "t").manifest["positions"] == 2


def test_nothing_at_the_path_before_the_end(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t", V) as writer:
        writer.append(**rows(2))
        assert not (tmp_path / "t").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_killed_writer_leaves_nothing(tmp_path: Path, kind: type[BaseException]) -> None:
    with pytest.raises(kind):  # noqa: PT012, SIM117
        with TraceWriter(tmp_path / "t", V) as writer:
            writer.append(**rows(2))
            raise kind
    assert list(tmp_path.iterdir()) == []


def test_no_positions(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No positions were collected for"), TraceWriter(tmp_path / "t", V):
        pass
    assert list(tmp_path.iterdir()) == []


def test_something_lies_there(tmp_path: Path) -> None:
    write(tmp_path / "t", 1)
    with pytest.raises(UserError, match=r"Something lies at .* already; remove it"), TraceWriter(tmp_path / "t", V):
        pass
    assert open_trace(tmp_path / "t").positions == 1


def test_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made"), TraceWriter(tmp_path / "file" / "t", V):
        pass


def test_wrong_shape(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"target_logits has shape \(2, 4\); \(2, 5\) is needed"):  # noqa: SIM117
        with TraceWriter(tmp_path / "t", V) as writer:
            writer.append(**(rows(2) | {"target_logits": np.zeros((2, 4), dtype=np.float16)}))


@pytest.mark.parametrize(
    ("code", "message"), [(errno.ENOSPC, "The disk is full while writing .*t; free some"), (errno.EIO, "failed")]
)
def test_disk_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str) -> None:
    def fail(_: int) -> None:
        raise OSError(code, "input/output error")

    monkeypatch.setattr(traces.os, "fsync", fail)
    with pytest.raises(UserError, match=message):
        write(tmp_path / "t", 2)
    assert list(tmp_path.iterdir()) == []


def test_disk_space(tmp_path: Path) -> None:
    check_disk_space(tmp_path / "not" / "yet", 10, V)
    with pytest.raises(UserError, match=r"needs about [\d,]+ MB for 1,000,000,000,000 positions, but only [\d,]+ MB"):
        check_disk_space(tmp_path / "t", 10**12, 4096)


def test_no_trace(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no trace at .*gone; collect one first"):
        open_trace(tmp_path / "gone")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "has format version 2, this program reads 1"),
        ({"format": "x"}, r"manifest\.json is not that of a trace"),
        ({"positions": 4}, r"draft_logits\.npy holds float16 of shape \(3, 5\), but the manifest says .* \(4, 5\)"),
        ({"vocabulary": 6}, r"shape \(3, 5\), but the manifest says float16 of shape \(3, 6\)"),
    ],
)
def test_manifest_disagrees(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    write(tmp_path / "t", 3)
    file = tmp_path / "t" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "t")


def test_damaged_files(tmp_path: Path) -> None:
    write(tmp_path / "t", 3)
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    (tmp_path / "t" / "manifest.json").write_text("{")
    with pytest.raises(UserError, match=r"The manifest of .*t cannot be read"):
        open_trace(tmp_path / "t")
    tokens = tmp_path / "u" / "tokens.npy"
    np.save(tokens, np.zeros(3))
    with pytest.raises(UserError, match=r"tokens\.npy holds float64 of shape \(3,\)"):
        open_trace(tmp_path / "u")
    tokens.write_bytes(b"")
    with pytest.raises(UserError, match=r"tokens\.npy cannot be read"):
        open_trace(tmp_path / "u")
    tokens.unlink()
    with pytest.raises(UserError, match=r"tokens\.npy cannot be read .*No such file"):
        open_trace(tmp_path / "u")


def test_empty_trace(tmp_path: Path) -> None:
    write(tmp_path / "t", 1)
    for name in ARRAYS:
        file = tmp_path / "t" / f"{name}.npy"
        np.save(file, np.load(file)[:0])
    file = tmp_path / "t" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"positions": 0}))
    with pytest.raises(UserError, match=r"The trace at .*t is empty; collect it again"):
        open_trace(tmp_path / "t")


def test_chunk_size(tmp_path: Path) -> None:
    write(tmp_path / "t", 1)
    with pytest.raises(UserError, match="The chunk size is 0; it must be at least 1"):
        next(open_trace(tmp_path / "t").chunks(0))


def test_probabilities() -> None:
    from scipy.special import softmax

    logits = np.random.default_rng(1).normal(0, 9, (3, 4, 17)).astype(np.float16)
    before = logits.copy()
    found = probabilities(logits)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, softmax(logits.astype(np.float64), axis=-1), rtol=1e-13)
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-14)
    assert np.array_equal(logits, before)
    assert probabilities(np.array([65504, -65504], dtype=np.float16)).tolist() == [1.0, 0.0]
