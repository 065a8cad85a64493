"""The store returns what was written, and names what is damaged."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.validation.stored_traces import random_fields
from validation.errors import UserError
from validation.trace import zarr_store as chunk_files
from validation.trace.format import FIELDS
from validation.trace.journal import JOURNAL, read_journal
from validation.trace.reader import ARRAYS, Trace, TraceWriter, check_disk_space, open_trace, probabilities

V = 5
VERSION_1 = r"^The trace at .* has format version 1, but this program reads version 2 only; collect the trace again\.$"
rows = partial(random_fields, vocabulary=V)


def write(path: Path, *counts: int, vocabulary: int = V, **options: Any) -> dict[str, Any]:
    pieces = [random_fields(count, seed, vocabulary) for seed, count in enumerate(counts)]
    with TraceWriter(path, vocabulary, {"seed": 3}, **options) as writer:
        for number, piece in enumerate(pieces):
            writer.append(**piece)
            writer.commit({"number": number})
        writer.manifest["notes"] = ["übrig"]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in ARRAYS}


def same(trace: Trace, expected: dict[str, Any]) -> bool:
    return all(np.array_equal(trace.arrays[name], expected[name]) for name in ARRAYS)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunk_files, "LOGIT_ROWS", 4)
    monkeypatch.setattr(chunk_files, "INDEX_ROWS", 16)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_round_trip(tmp_path, size):
    expected = write(tmp_path / "t", 3, 1, 60, 6)
    trace = open_trace(tmp_path / "t", verify=True)
    assert (trace.positions, trace.vocabulary, trace.finished) == (70, V, True)
    assert trace.manifest["notes"] == ["übrig"]
    assert (trace.manifest["seed"], trace.manifest["dtype"]) == (3, "float16")
    chunks = list(trace.chunks(size))
    assert [len(chunk.tokens) for chunk in chunks] == [min(size, 70 - start) for start in range(0, 70, size)]
    for name in ARRAYS:
        read = np.concatenate([getattr(chunk, name) for chunk in chunks])
        assert read.dtype == expected[name].dtype
        assert np.array_equal(read, expected[name])


def test_float32(tmp_path):
    piece = rows(300)
    piece["draft_logits"] = np.random.default_rng(1).normal(0, 1e9, (300, V)).astype(np.float32)
    with TraceWriter(tmp_path / "t", V, dtype="float32") as writer:
        writer.append(**piece)
    trace = open_trace(tmp_path / "t")
    assert np.array_equal(trace.arrays["draft_logits"], piece["draft_logits"])
    assert trace.manifest["dtype"] == "float32"
    assert np.isfinite(probabilities(next(trace.chunks(9)).draft_logits)).all()
    with pytest.raises(UserError, match="cannot be stored as 'int8'; choose float16 or float32"):
        TraceWriter(tmp_path / "u", V, dtype="int8")


@pytest.mark.usefixtures("small_chunks")
def test_arrays_are_indexed_like_those_of_numpy(tmp_path):
    expected = write(tmp_path / "t", 30)
    trace = open_trace(tmp_path / "t")
    mask = np.arange(30) % 7 == 0
    keys = [0, -1, np.int64(3), slice(2, 9), slice(-3, None), slice(None, None, 4), slice(20, 3, -3), mask]
    keys += [[3, 3, 29, 0], np.array([[1, 2], [28, 5]]), slice(9, 2)]
    for key in keys:
        assert np.array_equal(trace.arrays["draft_logits"][key], expected["draft_logits"][key]), key
    assert np.array_equal(np.flatnonzero(trace.arrays["tokens"][:] == 2), np.flatnonzero(expected["tokens"] == 2))
    assert trace.arrays["tokens"].ndim == 1
    assert np.asarray(trace.arrays["tokens"], dtype=np.float64).dtype == np.float64
    with pytest.raises(IndexError, match="30"):
        trace.arrays["tokens"][30]


def test_other_programs_read_the_arrays(tmp_path):
    expected = write(tmp_path / "t", 300)
    group = zarr.open_group(str(tmp_path / "t" / "arrays"), mode="r")
    assert all(np.array_equal(group[name][:], expected[name]) for name in ARRAYS)
    codecs = [codec.to_dict()["name"] for codec in group["draft_logits"].metadata.codecs]
    assert codecs == ["bytes", "blosc", "crc32c"]
    assert np.isnan(group["draft_logits"].fill_value)


def test_the_caller_may_use_its_arrays_again(tmp_path):
    piece = rows(300)
    with TraceWriter(tmp_path / "t", V) as writer:
        for seed in range(5):
            for name, values in rows(300, seed).items():
                piece[name][:] = values
            writer.append(**piece)
    read = open_trace(tmp_path / "t").arrays["draft_logits"]
    assert np.array_equal(read[300:600], rows(300, 1)["draft_logits"])


def test_disk_space(tmp_path):
    check_disk_space(tmp_path / "not" / "yet", 10, V)
    with pytest.raises(UserError, match=r"needs about [\d,]+ MB for 1,000,000,000,000 positions, but only [\d,]+ MB"):
        check_disk_space(tmp_path / "t", 10**12, 4096)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ('{"format": "hlm-trace", "version": 1}', VERSION_1),
        ('{"format": "hlm-trace", "version": 3}', VERSION_1.replace("1,", "3,")),
        ('{"format": "hlm-trace", "version": 2}', r"journal\.jsonl is missing; restore it from a copy, or collect"),
        ('{"format": "x", "version": 2}', r"manifest\.json is not that of a trace"),
        ("[2]", r"manifest\.json is not that of a trace"),
        ("{", r"The manifest of .*t cannot be read .*; collect the trace again"),
        ("[" * 10**5, r"The manifest of .*t cannot be read .*; collect the trace again"),
    ],
)
def test_a_manifest_without_a_journal_is_refused(tmp_path, manifest, message):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "manifest.json").write_text(manifest)
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "t")


def flip(file: Path, place: int, bit: int) -> Callable[[], None]:
    content = file.read_bytes()
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    file.write_bytes(changed)

    def restore() -> None:
        file.write_bytes(content)

    return restore


@pytest.mark.usefixtures("small_chunks")
def test_a_flipped_bit_in_any_file_is_detected_and_named(tmp_path):
    write(tmp_path / "t", 9, 12)
    rng = random.Random(7)
    files = sorted(file for file in (tmp_path / "t").rglob("*") if file.is_file())
    names = {file.relative_to(tmp_path / "t").as_posix() for file in files}
    assert {"manifest.json", JOURNAL, "arrays/zarr.json", "arrays/tokens/zarr.json", "arrays/tokens/c.1"} <= names
    for file in files:
        size = file.stat().st_size
        for place in {0, size - 1, *(rng.randrange(size) for _ in range(4))}:
            restore = flip(file, place, rng.randrange(8))
            with pytest.raises(UserError) as caught:
                open_trace(tmp_path / "t", verify=True)
            said = str(caught.value)
            if file.name != JOURNAL:
                assert said.startswith(f"{file} is damaged: ")
                array, chunk = file.parent.name, file.name.split(".")
                assert (f"chunk {chunk[1]} of {array} " if chunk[0] == "c" else "json") in said
            else:  # a flip in the last line leaves a trace that is not finished
                assert "journal" in said
                assert "damaged" in said
            restore()
    assert open_trace(tmp_path / "t", verify=True).positions == 21


@pytest.mark.usefixtures("small_chunks")
def test_a_damaged_chunk_is_named_when_it_is_read(tmp_path):
    expected = write(tmp_path / "t", 21)
    file = tmp_path / "t" / "arrays" / "target_logits" / "c.2.0"
    flip(file, file.stat().st_size // 2, 3)
    trace = open_trace(tmp_path / "t")
    assert np.array_equal(trace.arrays["target_logits"][:8], expected["target_logits"][:8])
    message = r"target_logits/c\.2\.0 is damaged: chunk 2 of target_logits does not match its checksum; restore it"
    for read in (lambda: trace.arrays["target_logits"][7:9], lambda: list(trace.chunks(5))):
        with pytest.raises(UserError, match=message):
            read()


@pytest.mark.usefixtures("small_chunks")
def test_chunks_that_are_swapped_missing_or_cut_are_named(tmp_path):
    write(tmp_path / "t", 21)
    first, second = (tmp_path / "t" / "arrays" / "draft_logits" / f"c.{i}.0" for i in (0, 1))
    kept, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    with pytest.raises(UserError, match=r"c\.0\.0 is damaged: chunk 0 of draft_logits"):
        open_trace(tmp_path / "t", verify=True)
    first.write_bytes(kept[:-1])
    with pytest.raises(UserError, match=r"c\.0\.0 is damaged: chunk 0 of draft_logits has \d+ bytes, not \d+"):
        open_trace(tmp_path / "t")
    first.unlink()
    with pytest.raises(UserError, match=r"c\.0\.0 is missing \(chunk 0 of draft_logits\); restore it from a copy"):
        open_trace(tmp_path / "t")
    first.mkdir()
    with pytest.raises(UserError, match=r"c\.0\.0 cannot be read \(.*chunk 0 of draft_logits\)"):
        open_trace(tmp_path / "t")


def test_a_damaged_line_of_the_journal(tmp_path):
    write(tmp_path / "t", 9, 12)
    journal = tmp_path / "t" / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    for number in (0, 1, 2):
        flip(journal, sum(map(len, lines[:number])) + 9, 0)
        with pytest.raises(UserError, match=rf"journal\.jsonl is damaged: line {number + 1} does not match its check"):
            open_trace(tmp_path / "t")
        journal.write_bytes(b"".join(lines))
    journal.write_bytes(b"".join([lines[0], lines[2], lines[1], lines[3]]))
    with pytest.raises(UserError, match="line 2 does not match"):
        open_trace(tmp_path / "t")
    journal.write_bytes(b"".join(lines) + b"\0\0{half a li")
    assert open_trace(tmp_path / "t", verify=True).positions == 21
    assert read_journal(tmp_path / "t").dropped == 5
    journal.unlink()
    journal.mkdir()
    with pytest.raises(UserError, match=r"journal\.jsonl cannot be read"):
        open_trace(tmp_path / "t")


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        (
            rows(3) | {"entropi": np.zeros(3)},
            (),
            r"A trace has the fields draft_logits, .*entropi: give each field once",
        ),
        ({k: v for k, v in rows(3).items() if k != "tokens"}, (), r"A trace has the fields"),
        (rows(3), (np.zeros((3, V)),), r"1 arrays were given in order, and by name draft_logits"),
        ({}, [np.zeros(3)] * (len(FIELDS) + 1), rf"{len(FIELDS) + 1} arrays were given in order"),
        (rows(3) | {"position": np.zeros(2)}, (), r"position has shape \(2,\); \(3,\) is needed"),
        (rows(1) | {"tokens": np.int32(7)}, (), r"tokens has shape \(\); \(1,\) is needed"),
        (rows(3) | {"tokens": [1, 2, 2**31]}, (), r"tokens holds values that int32 cannot hold; give integers in its"),
        (rows(3) | {"tokens": [1, 2, np.nan]}, (), r"tokens holds values that int32 cannot hold"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path, given, more, message):
    with pytest.raises(UserError, match=message), TraceWriter(tmp_path / "t", V) as writer:
        writer.append(*more, **given)
    assert list(tmp_path.iterdir()) == []
