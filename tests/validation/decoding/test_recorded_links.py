"""Recorded links: read from the user's files, or refused in one sentence."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from validation.decoding.recorded_links import find_link, load_links
from validation.errors import UserError

HEAD = "trace_id,time_s,throughput_mbps\n"
BUS = "bus-1,0,4\nbus-1,0.5,0\nbus-1,2,1\n"
TRAM = "tram,0,1.5\ntram,1,2.5\n"
PACKED = gzip.compress((HEAD + "".join(f"x,{i},{i % 97}\n" for i in range(500))).encode())


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def test_every_trace_of_every_file_becomes_a_link(tmp_path):
    write(tmp_path, "3g.csv.gz", HEAD + BUS + TRAM)
    write(tmp_path, "more.v2.csv", HEAD + TRAM + "\n")
    write(tmp_path, "SOURCE.md", "whose they are")
    links = load_links(str(tmp_path))
    assert list(links) == ["3g/bus-1", "3g/tram", "more.v2/tram"]
    bus = links["3g/bus-1"]
    assert np.asarray(bus.throughput_bps).tolist() == [4e6, 0.0, 1e6]
    assert bus.period_s() == 3.5  # the last sample holds as long as the one before it
    assert bus.transfer_time([2e6, 2.5e6], start_s=0.0).tolist() == [0.5, 2.5]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "trace_id,time_s\n", r"a\.csv has no column throughput_mbps; it needs trace_id, time_s, thr"),
        ("a.csv", "", r"a\.csv has no column trace_id"),
        ("a.csv", HEAD + "x,0,1\nx,soon,1\n", r"a\.csv, line 3: time_s is 'soon'; give a finite number\."),
        ("a.csv", HEAD + "x,0,1\nx,1\n", r"a\.csv, line 3: throughput_mbps is ''; give"),
        ("a.csv", HEAD + "x,0,1\n", r"a\.csv: the trace x is not a valid link: .* from 2 up; got shapes"),
        ("a.csv", HEAD + "x,0,1\nx,0,1\n", r"the trace x is not a valid link: time_s must be finite and increasing"),
        ("a.csv", HEAD + "x,0,1\nx,1,-1\n", r"a\.csv, line 3: throughput_mbps is '-1'; give a finite number from 0"),
        ("a.csv", HEAD + "x,0,nan\nx,1,1\n", r"a\.csv, line 2: throughput_mbps is 'nan'"),
        ("a.csv", HEAD + "x,0,1\nx,inf,1\n", r"a\.csv, line 3: time_s is 'inf'; give a finite"),
        (
            "a.csv",
            HEAD + "x,0,0\nx,1,0\n",
            r"the trace x is not a valid link: throughput_bps must be positive somewhere",
        ),
        ("a.csv", HEAD + BUS + TRAM + BUS, r"the trace bus-1 occurs twice; keep its samples one after the other"),
        ("a.csv", HEAD, r"holds no samples"),
        ("a.txt", HEAD + BUS, r"holds no \.csv or \.csv\.gz file"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path, name, text, message):
    write(tmp_path, name, text)
    with pytest.raises(UserError, match=message):
        load_links(tmp_path)
    with pytest.raises(UserError, match=r"^There is no file or folder .*nowhere; give a CSV"):
        load_links(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "data", [b"no gzip", PACKED[:-20], gzip.compress(HEAD.encode() + b"x,0,\xff\n")], ids=["none", "cut", "bytes"]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, data):
    (tmp_path / "a.csv.gz").write_bytes(data)
    with pytest.raises(UserError, match=r"a\.csv\.gz.* cannot be read \(.*\); copy it again"):
        load_links(tmp_path)


def test_a_link_is_found_by_its_trace_or_with_its_family(tmp_path):
    file = write(tmp_path, "3g.csv", HEAD + BUS + TRAM)
    assert find_link(file)[0] == find_link(file, "bus-1")[0] == find_link(tmp_path, "3g/bus-1")[0] == "3g/bus-1"
    write(tmp_path, "4g.csv", HEAD + TRAM)
    assert find_link(tmp_path, "4g/tram")[0] == "4g/tram"
    for name, said in (("tram", r"holds 2 links 'tram'; give one of 3g/tram, 4g/tram"), ("x", "holds no link 'x'")):
        with pytest.raises(UserError, match=said):
            find_link(tmp_path, name)
