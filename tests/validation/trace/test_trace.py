"""The store returns what was written, and names what is damaged."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.validation.stored_traces import random_fields
from validation.errors import UserError
from validation.trace import reader
from validation.trace import zarr_store as chunk_files
from validation.trace.format import FIELDS, Field, array_dtypes
from validation.trace.journal import JOURNAL, line_of, read_journal
from validation.trace.reader import ARRAYS, Trace, TraceChunk, TraceWriter, check_disk_space, open_trace, probabilities

V = 5
VERSION_1 = r"^The trace at .* has format version 1, but this program reads version 2 only; collect the trace again\.$"
rows = partial(random_fields, vocabulary=V)


def write(path: Path, *counts: int, vocabulary: int = V, **options: Any) -> dict[str, Any]:
    """Write a trace in several appends, each committed; return the arrays that it should hold."""
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
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 4 and 16 rows."""
    monkeypatch.setattr(chunk_files, "LOGIT_ROWS", 4)
    monkeypatch.setattr(chunk_files, "INDEX_ROWS", 16)


# ------------------------------------------------------------------------------------------- in and out


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_round_trip(tmp_path: Path, size: int) -> None:
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


def test_float32(tmp_path: Path) -> None:
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
def test_arrays_are_indexed_like_those_of_numpy(tmp_path: Path) -> None:
    expected = write(tmp_path / "t", 30)
    trace = open_trace(tmp_path / "t")
    mask = np.arange(30) % 7 == 0
    keys: list[Any] = [0, -1, np.int64(3), slice(2, 9), slice(-3, None), slice(None, None, 4), slice(20, 3, -3), mask]
    keys += [[3, 3, 29, 0], np.array([[1, 2], [28, 5]]), slice(9, 2), ..., (2, 1), (slice(3, 8), 2), ([1, 2], slice(2))]
    for key in keys:
        assert np.array_equal(trace.arrays["draft_logits"][key], expected["draft_logits"][key]), key
    assert np.array_equal(np.flatnonzero(trace.arrays["tokens"] == 2), np.flatnonzero(expected["tokens"] == 2))
    assert trace.arrays["tokens"].ndim == 1
    assert np.asarray(trace.arrays["tokens"], dtype=np.float64).dtype == np.float64
    with pytest.raises(IndexError, match="row 30 of an array with 30"):
        trace.arrays["tokens"][30]


@pytest.mark.usefixtures("small_chunks")
def test_the_first_positions_are_those_of_the_whole(tmp_path: Path) -> None:
    expected = write(tmp_path / "t", 30, 40)
    whole = open_trace(tmp_path / "t")
    trace = whole.first(33)
    assert (trace.positions, trace.vocabulary, whole.positions) == (33, V, 70)
    chunks = list(trace.chunks(10))
    assert [len(chunk.tokens) for chunk in chunks] == [10, 10, 10, 3]
    for name in ARRAYS:
        np.testing.assert_array_equal(np.concatenate([chunk.arrays[name] for chunk in chunks]), expected[name][:33])
        np.testing.assert_array_equal(trace.arrays[name][-2:], expected[name][31:33])
        np.testing.assert_array_equal(trace.arrays[name][::7], expected[name][:33:7])
        np.testing.assert_array_equal(trace.arrays[name][np.arange(33) % 2 == 0], expected[name][:33:2])
    for count in (0, 71):
        with pytest.raises(UserError, match=f"{count} are asked for"):
            whole.first(count)


def test_other_programs_read_the_arrays(tmp_path: Path) -> None:
    import zarr

    expected = write(tmp_path / "t", 300)
    group = zarr.open_group(str(tmp_path / "t" / "arrays"), mode="r")
    assert all(np.array_equal(group[name][:], expected[name]) for name in ARRAYS)
    codecs = [codec.to_dict()["name"] for codec in group["draft_logits"].metadata.codecs]
    assert codecs == ["bytes", "blosc", "crc32c"]
    assert np.isnan(group["draft_logits"].fill_value)


@pytest.mark.usefixtures("small_chunks")
def test_rows_that_equal_the_fill_value_are_written(tmp_path: Path) -> None:
    piece = rows(20) | {"tokens": np.full(20, -1), "draft_logits": np.full((20, V), np.nan)}
    with TraceWriter(tmp_path / "t", V) as writer:
        writer.append(**piece)
    assert len(list((tmp_path / "t" / "arrays" / "draft_logits").glob("c.*"))) == 5
    assert np.isnan(open_trace(tmp_path / "t", verify=True).arrays["draft_logits"][:]).all()


def test_the_caller_may_use_its_arrays_again(tmp_path: Path) -> None:
    piece = rows(300)
    with TraceWriter(tmp_path / "t", V) as writer:
        for seed in range(5):
            for name, values in rows(300, seed).items():
                piece[name][:] = values
            writer.append(**piece)
    read = open_trace(tmp_path / "t").arrays["draft_logits"]
    assert np.array_equal(read[300:600], rows(300, 1)["draft_logits"])


def test_what_was_written_cannot_be_overruled(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t", V, {"positions": 99, "format": "other"}) as writer:
        writer.append(**rows(2))
    assert open_trace(tmp_path / "t").manifest["positions"] == 2


def test_the_same_rows_give_the_same_files(tmp_path: Path) -> None:
    write(tmp_path / "a", 700, 9)
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / "c", V, settings={}) as writer:  # noqa: PT012
        writer.append(**rows(700, 0))
        writer.commit()
        raise KeyboardInterrupt
    with TraceWriter(tmp_path / "c", V, settings={}) as writer:
        writer.append(**rows(9, 1))
    files = [{f.name: f.read_bytes() for f in (tmp_path / n / "arrays" / "tokens").iterdir()} for n in "ac"]
    assert files[0] == files[1]


def test_no_positions(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No positions were collected for"), TraceWriter(tmp_path / "t", V):
        pass
    assert list(tmp_path.iterdir()) == []


def test_wrong_shape(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"target_logits has shape \(2, 4\); \(2, 5\) is needed"):  # noqa: SIM117
        with TraceWriter(tmp_path / "t", V) as writer:
            writer.append(**(rows(2) | {"target_logits": np.zeros((2, 4), dtype=np.float16)}))
    assert list(tmp_path.iterdir()) == []


def test_disk_space(tmp_path: Path) -> None:
    check_disk_space(tmp_path / "not" / "yet", 10, V)
    with pytest.raises(UserError, match=r"needs about [\d,]+ MB for 1,000,000,000,000 positions, but only [\d,]+ MB"):
        check_disk_space(tmp_path / "t", 10**12, 4096)


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


def test_zarr_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t", 1)
    monkeypatch.setitem(sys.modules, "zarr", None)
    monkeypatch.setattr(chunk_files, "_STORE", None)
    with pytest.raises(UserError, match=r"zarr, which is not installed .*; install it: pip install zarr"):
        open_trace(tmp_path / "t")


# ------------------------------------------------------------------------------------------- other formats


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
def test_a_manifest_without_a_journal_is_refused(tmp_path: Path, manifest: str, message: str) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "manifest.json").write_text(manifest)
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "t")


def test_no_trace(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no trace at .*gone; collect one with `python3 hlm validate`"):
        open_trace(tmp_path / "gone")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            {"format": "hlm-trace", "version": 3},
            VERSION_1.replace("1,", "3,"),
        ),
        ({"format": "other", "version": 2}, r"journal\.jsonl is not that of a trace"),
    ],
)
def test_a_newer_store_is_refused(tmp_path: Path, header: dict[str, Any], message: str) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / JOURNAL).write_bytes(line_of({"n": 0, **header}))
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "t")
    with pytest.raises(UserError, match=message), TraceWriter(tmp_path / "t", V, settings={}):
        pass


# ------------------------------------------------------------------------------------------- damage


def flip(file: Path, place: int, bit: int) -> Callable[[], None]:
    """Flip one bit; return a function that restores the file."""
    content = file.read_bytes()
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    file.write_bytes(changed)

    def restore() -> None:
        file.write_bytes(content)

    return restore


@pytest.mark.usefixtures("small_chunks")
def test_a_flipped_bit_in_any_file_is_detected_and_named(tmp_path: Path) -> None:
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
def test_a_damaged_chunk_is_named_when_it_is_read(tmp_path: Path) -> None:
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
def test_chunks_that_are_swapped_missing_or_cut_are_named(tmp_path: Path) -> None:
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


def test_a_damaged_line_of_the_journal(tmp_path: Path) -> None:
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


# ------------------------------------------------------------------------------------------- fields


def test_the_stored_types_are_little_endian() -> None:
    for dtype, logits in (("float16", "<f2"), ("float32", "<f4")):
        found = {name: stored.str for name, stored in array_dtypes(dtype).items()}
        assert [found[name] for name in ("draft_logits", "tokens", "prompt_index", "position")] == [
            logits,
            *3 * ["<i4"],
        ]
        assert found["target_logits"] == logits
        assert not any(stored.startswith(">") for stored in found.values())


def test_a_chunk_has_the_fields_of_the_table_in_order() -> None:
    assert [field.name for field in dataclasses.fields(TraceChunk)] == list(FIELDS)


@pytest.mark.parametrize("named", [0, 2, len(FIELDS)])
def test_arrays_are_given_in_order_or_by_name(tmp_path: Path, named: int) -> None:
    piece = rows(9)
    with TraceWriter(tmp_path / "t", V) as writer:
        ordered = list(piece)[: len(piece) - named]
        writer.append(*(piece[name] for name in ordered), **{k: v for k, v in piece.items() if k not in ordered})
    assert same(open_trace(tmp_path / "t"), piece)


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        (rows(3) | {"entropi": np.zeros(3)}, (), r"A trace has no field 'entropi'; its fields are draft_logits, targ"),
        (
            {k: v for k, v in rows(3).items() if k != "tokens"},
            (),
            r"tokens is missing; give it, since this field has no",
        ),
        ({k: v for k, v in rows(3).items() if k != "position"}, (), r"position is missing; give it"),
        (rows(3), (np.zeros((3, V)),), r"draft_logits was given twice, in order and by name; give it once"),
        ({}, [np.zeros(3)] * (len(FIELDS) + 1), rf"{len(FIELDS) + 1} arrays were given, but a trace has {len(FIELDS)}"),
        (rows(3) | {"position": np.zeros(2)}, (), r"position has shape \(2,\); \(3,\) is needed"),
        (rows(3) | {"tokens": np.zeros((3, 1))}, (), r"tokens has shape \(3, 1\); \(3,\) is needed"),
        (rows(1) | {"tokens": np.int32(7)}, (), r"tokens has shape \(\); \(1,\) is needed"),
        (rows(3) | {"tokens": [1, 2, 2**31]}, (), r"tokens holds values that int32 cannot hold; give integers in its"),
        (rows(3) | {"tokens": [1, 2, 0.5]}, (), r"tokens holds values that int32 cannot hold"),
        (rows(3) | {"tokens": [1, 2, np.nan]}, (), r"tokens holds values that int32 cannot hold"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path: Path, given: dict[str, Any], more: Any, message: str) -> None:
    with pytest.raises(UserError, match=message), TraceWriter(tmp_path / "t", V) as writer:
        writer.append(*more, **given)
    assert list(tmp_path.iterdir()) == []


MASS = Field("float32", default=0.25)
ADDED = {
    "mass": MASS,
    "calls": Field("uint8", default=7),
    "hidden": Field(None, wide=True, default=-2.5),
    "needed": Field("int32"),
}


def interrupted(path: Path, count: int) -> None:
    """Leave an unfinished trace with some committed positions."""
    with pytest.raises(KeyboardInterrupt), TraceWriter(path, V, settings={}) as writer:  # noqa: PT012
        writer.append(**rows(count))
        writer.commit()
        raise KeyboardInterrupt


def added(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Add fields to the table of fields and to the chunks."""
    for name in names:
        monkeypatch.setitem(FIELDS, name, ADDED[name])
    wider = dataclasses.make_dataclass("Wider", [(n, Any) for n in names], bases=(TraceChunk,), frozen=True)
    monkeypatch.setattr(reader, "TraceChunk", wider)


@pytest.mark.usefixtures("small_chunks")
def test_a_finished_trace_without_an_added_field_is_read_with_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = write(tmp_path / "t", 9, 12)
    added(monkeypatch, "mass", "calls", "hidden")
    trace = open_trace(tmp_path / "t", verify=True)
    assert same(trace, expected)
    for name, shape, dtype, value in (
        ("mass", (21,), "<f4", 0.25),
        ("calls", (21,), "|u1", 7),
        ("hidden", (21, V), "<f2", -2.5),
    ):
        array = trace.arrays[name]
        assert (array.shape, array.dtype.str) == (shape, dtype)
        assert np.array_equal(array[[20, 3]], np.full((2, *shape[1:]), value))
        pieces = [getattr(chunk, name) for chunk in trace.chunks(8)]
        assert [len(piece) for piece in pieces] == [8, 8, 5]
        assert np.array_equal(np.concatenate(pieces), np.full(shape, value))
    assert next(trace.chunks(8))[2:5].calls.tolist() == [7, 7, 7]


@pytest.mark.usefixtures("small_chunks")
def test_an_added_field_is_stored_or_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some appends give it and some omit it; a writer that continues keeps the stored values."""
    added(monkeypatch, "mass", "calls", "hidden")
    given = random_fields(9, 1, V)
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / "t", V, settings={}) as writer:  # noqa: PT012
        writer.append(**given)
        writer.commit()
        raise KeyboardInterrupt
    part = open_trace(tmp_path / "t", partial=True)
    assert all(np.array_equal(part.arrays[name], given[name]) for name in FIELDS)
    with TraceWriter(tmp_path / "t", V, settings={}) as writer:
        writer.append(*(given[name] for name in ARRAYS))
    trace = open_trace(tmp_path / "t", verify=True)
    for name, field in FIELDS.items():
        rest = given[name] if name in ARRAYS else np.full_like(given[name], field.default)
        assert np.array_equal(trace.arrays[name], np.concatenate([given[name], rest]))
        assert trace.arrays[name].dtype == given[name].dtype
    with (
        pytest.raises(UserError, match=r"hidden has shape \(9,\); \(9, 5\) is needed"),
        TraceWriter(tmp_path / "u", V) as writer,
    ):
        writer.append(**given | {"hidden": given["mass"]})
    with pytest.raises(UserError, match="calls holds values that uint8"), TraceWriter(tmp_path / "u", V) as writer:
        writer.append(**given | {"calls": np.full(9, 256)})


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("count", [3, 16])
def test_an_unfinished_trace_without_an_added_field_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """With 3 positions all of them are in the tail, with 16 none."""
    interrupted(tmp_path / "t", count)
    assert open_trace(tmp_path / "t", partial=True).positions == count
    added(monkeypatch, "mass")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    message = r"The unfinished trace at .*t has no mass, so it cannot be continued .* collect it again with --fresh"
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "t", partial=True)
    with pytest.raises(UserError, match=message), TraceWriter(tmp_path / "t", V, settings={}):
        pass
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    with TraceWriter(tmp_path / "t", V, settings={}, fresh=True) as writer:
        writer.append(**random_fields(4, 2, V))
    assert open_trace(tmp_path / "t", verify=True).arrays["mass"].shape == (4,)


@pytest.mark.usefixtures("small_chunks")
def test_a_trace_without_a_field_that_has_no_default_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "t", 9)
    added(monkeypatch, "needed")
    with pytest.raises(UserError, match=r"The trace at .*t has no needed, which has no default; collect the trace ag"):
        open_trace(tmp_path / "t")


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("count", [3, 16])
def test_a_field_that_is_not_known_is_named(tmp_path: Path, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        added(patch, "mass")
        write(tmp_path / "whole", 9)
        interrupted(tmp_path / "part", count)
    message = r"The trace at .* has a field 'mass', which this program does not know; use the program that wrote it"
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "whole")
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "part", partial=True)
    with pytest.raises(UserError, match=message), TraceWriter(tmp_path / "part", V, settings={}):
        pass


def test_the_disk_space_counts_every_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def needed() -> int:
        with pytest.raises(UserError) as caught:
            check_disk_space(tmp_path, 10**12, 1000)
        return int(str(caught.value).split("about ")[1].split(" MB")[0].replace(",", ""))

    row = sum(array.nbytes for array in random_fields(1, vocabulary=1000).values())
    assert needed() == row * 10**6 + 1  # and a mebibyte
    monkeypatch.setitem(FIELDS, "hidden", ADDED["hidden"])
    monkeypatch.setitem(FIELDS, "mass", MASS)
    assert needed() == (row + 2 * 1000 + 4) * 10**6 + 1
