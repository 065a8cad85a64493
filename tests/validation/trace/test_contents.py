"""A trace is not trusted: values out of their range, rows that are not there, links that appear while it is written."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.validation.stored_traces import VOCABULARY, forged, random_fields
from validation.errors import UserError
from validation.trace.format import fields_of
from validation.trace.journal import JOURNAL, line_of
from validation.trace.reader import TraceWriter, open_trace

LENGTH = 600


def written(path: Path, **changes: int) -> Path:
    rows = random_fields(LENGTH)
    rows["prompt_index"] %= 2
    for name, value in changes.items():
        rows[name][LENGTH // 2] = value
    with TraceWriter(path, VOCABULARY, {"prompts": [{"text": "a"}, {"text": "b"}]}) as writer:
        writer.append(**rows)
    return path


@pytest.mark.parametrize(
    ("field", "value"), [("tokens", 99), ("tokens", -2), ("position", -5), ("prompt_index", 2), ("prompt_index", -1)]
)
def test_an_entry_out_of_its_range_is_named(field, value, tmp_path):
    trace = open_trace(written(tmp_path / "t", **{field: value}))
    with pytest.raises(UserError, match=f"{field} of the trace has a value at row 300 that is not in"):
        list(trace.chunks())
    with pytest.raises(UserError, match="at row 300"):
        trace.arrays[field][np.array([LENGTH // 2])]


def unfinished(path: Path) -> Path:
    with TraceWriter(path, VOCABULARY, settings={}, finish=False) as writer:
        writer.append(**random_fields(LENGTH))
        writer.commit()
    return path


@pytest.mark.parametrize("rows", [LENGTH - 1, LENGTH + 1, 10**15])
@pytest.mark.parametrize("finished", [True, False])
def test_rows_that_are_not_stored_are_refused(finished, rows, tmp_path):
    path = written(tmp_path / "t") if finished else unfinished(tmp_path / "t")
    assert open_trace(path, partial=True).positions == LENGTH
    forged(path, rows=rows)
    with pytest.raises(UserError, match=r"has not the form that journal\.jsonl says"):
        open_trace(path, partial=True)


@pytest.mark.parametrize("rows", [-1, 1.5, True, "600", None])
def test_a_number_of_rows_that_is_none_is_refused(rows, tmp_path):
    forged(written(tmp_path / "t"), rows=rows)
    with pytest.raises(UserError, match="is not the journal of a trace"):
        open_trace(tmp_path / "t")


def test_a_trace_of_another_kind_is_refused():
    with pytest.raises(UserError, match="not known to this program"):
        fields_of({"kind": "lists", "widths": [2, 3]})


@pytest.mark.parametrize("vocabulary", ["x", 0, -1, 2.5, True, None, 10**12, [20]])
def test_a_vocabulary_that_is_none_is_refused(vocabulary, tmp_path):
    path = written(tmp_path / "t")
    first, *rest = (path / JOURNAL).read_bytes().splitlines(keepends=True)
    record = json.loads(first)
    del record["crc"]
    (path / JOURNAL).write_bytes(b"".join([line_of(record | {"vocabulary": vocabulary}), *rest]))
    with pytest.raises(UserError, match="V is a whole number of at least 1"):
        open_trace(path)


@pytest.mark.parametrize("line", [b'{"n":1', b"[1]", b'"x"', b"[" * 10**5, b'{"n":1,"rows":[[[['])
def test_a_line_with_the_right_checksum_that_is_no_record_is_damage(line, tmp_path):
    path = written(tmp_path / "t")
    lines = (path / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[1] = line + b',"crc":"%08x"}\n' % zlib.crc32(line)
    (path / JOURNAL).write_bytes(b"".join(lines))
    with pytest.raises(UserError, match=r"is not finished|is damaged|is not the journal of a trace"):
        open_trace(path)


@pytest.mark.parametrize("place", ["arrays", "arrays/tokens", "tail", JOURNAL])
def test_a_link_that_appears_while_a_trace_is_written_is_not_followed(place, tmp_path):
    path, outside = tmp_path / "t", tmp_path / "outside"
    with pytest.raises(UserError, match="is a link to"), TraceWriter(path, VOCABULARY, settings={}) as writer:  # noqa: PT012
        writer.append(**random_fields(5000))  # more than a chunk
        writer.commit()
        name = next(path.glob("tail-*.npz")).name if place == "tail" else place
        if place == "tail":  # the next one
            name = f"tail-{int(name[5:-4]) + 1}.npz"
            outside.write_bytes(b"mine")
        else:
            (path / name).rename(outside)
        before = {f: f.read_bytes() for f in (outside, *outside.rglob("*")) if f.is_file()}
        (path / name).symlink_to(outside)
        writer.append(**random_fields(5000))
        writer.commit()
    assert {f: f.read_bytes() for f in (outside, *outside.rglob("*")) if f.is_file()} == before
