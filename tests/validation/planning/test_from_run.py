"""The record of a run: what survives a kill, what is refused, and what a plan takes from it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.validation.command_line import one_sentence, run
from validation.errors import UserError
from validation.planning.from_run import measured_in, records_of
from validation.planning.run_record import Recorder, read_record

RUN: dict[str, Any] = {
    **{"method": "shared seed (K = 4)", "messages": "tokens", "shared_seed": True, "lossless": True, "streamed": False},
    **{"adapts": False, "vocabulary": 4096, "tokenizer": "t", "draft": "q", "target": "p", "keyed": False},
    **{"temperature": 1.0, "top_p": 1.0, "seed": 1, "audit": 0.0},
}
RATE, TRIP, DRAFT, PASS = 1e6, 0.04, 0.005, 0.02
ACCEPTED = (4, 2, 0, 1, 4, 3, 0, 2)


def round_of(accepted: int, *, drafted: int = 4, opened: bool = False, **more: Any) -> dict[str, Any]:
    wait = 9.0 if opened else TRIP + PASS + 8 * (19 + 13 + 8) / RATE
    counts = {"position": 0, "length": drafted, "drafted": drafted, "accepted": accepted, "bonus": 1, "skipped": 0}
    times = {"draft_s": 9.0 if opened else drafted * DRAFT, "wait_s": wait}
    return counts | {"up_bytes": 19, "down_bytes": 13} | times | {"opened": opened, "audited": False} | more


def write(path: Path, rounds: list[dict[str, Any]], texts: int = 2, **changed: Any) -> Path:
    recorder = Recorder(path, RUN | changed)
    for frames, up, down in ((1, 10, 6), (16, 131, 127), (128, 131, 127)):
        seconds = TRIP + 8 * (up * frames + down) / RATE
        recorder.add("probe", frames=frames, up_bytes=up, down_bytes=down, seconds=seconds)
    for text in range(texts):
        recorder.add("text", prompt=f"text {text}", mark="m", new_tokens=40)
        for one in rounds:
            recorder.add("round", **one)
        recorder.add("end", tokens=30, ended=False, seconds=1.0)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "run.jsonl", [round_of(0, opened=True), *map(round_of, ACCEPTED)])


def test_rate_round_trip_draft_and_pass_are_those_of_the_run(path: Path) -> None:
    assert {option: one.value for option, one in measured_in(read_record(path)).items()} == pytest.approx(
        {"--rate": RATE, "--rtt": TRIP, "--draft-time": DRAFT, "--verify-time": PASS}, rel=1e-6
    )
    known = measured_in(read_record(path), 2 * RATE)
    assert "--rate" not in known
    assert known["--verify-time"].value > PASS  # bits that take less time leave more to the pass


def test_a_plan_says_what_was_measured_and_what_is_assumed(path: Path) -> None:
    found = run("plan", "--run", path, "--json")
    assert found.exit_code == 0, found.output
    plan = json.loads(found.stdout)
    asked = plan["request"]
    assert (asked["rate_bps"], asked["round_trip_s"], asked["draft_s"]) == pytest.approx((RATE, TRIP, DRAFT), rel=1e-3)
    assert plan["evidence"]["steps"] == 2 * (1 + len(ACCEPTED))
    assert plan["evidence"]["depths"]["acceptances"][0] == pytest.approx(6 / 9)
    assert plan["evidence"]["depths"]["intervals"] == "exact"
    two = json.loads(run("plan", "--run", path, "--json", "--users", "2").stdout)
    alone, both = (next(row for row in of["rows"] if row["policy"] == "server alone, streaming") for of in (plan, two))
    assert both["decides"]["value"] == pytest.approx(2 * alone["decides"]["value"], rel=1e-3)  # in one pass
    given = json.loads(run("plan", "--run", path, "--json", "--verify-time", "50ms", "--rate", "5M").stdout)["request"]
    assert (given["verify_s"], given["rate_bps"]) == pytest.approx((0.05, 5e6))
    assert {row["policy"] for row in plan["rows"]} >= {"ours", "server alone", "server with its own draft"}


def test_the_speed_of_the_plan_is_that_of_the_rounds(tmp_path: Path) -> None:
    """Of K drafts all or none are accepted, in turn: the predicted speed is 1 + K/2 tokens over a round's time."""
    path = write(tmp_path / "run.jsonl", [round_of(n) for n in (4, 0) * 4])
    plan = json.loads(run("plan", "--run", path, "--json").stdout)
    ours = next(row for row in plan["rows"] if row["policy"] == "ours")
    k = int(ours["draft_length"]["value"])
    tokens = 1 + k / 2
    header = 8 * 9  # an envelope each way
    seconds = k * DRAFT + PASS + TRIP + (16 + 12 * k + header + 16 + header) / RATE
    assert ours["tokens_per_s_median"]["value"] == pytest.approx(tokens / seconds, rel=0.02)


def test_a_half_line_is_ignored_and_taken_away(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind": "round", "posi')
    assert len(read_record(path).texts) == 2
    Recorder(path, RUN)
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes()[len(whole) :].count(b"\n") == 1
    assert len(read_record(path).texts) == 2


def test_a_text_that_was_killed_counts(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    record = read_record(path)
    assert [text.end is None for text in record.texts] == [False, True]
    assert sum(one.num_spec_steps for one in records_of(record, "r")) == 18
    assert "1 text did not end" in run("plan", "--run", path, "--json").stdout


@pytest.mark.parametrize(
    ("number", "line", "said"),
    [
        (0, b'{"kind": "text", "prompt": "a", "mark": "m", "new_tokens": 4}\n', "does not begin with a run"),
        (0, b'{"kind": "run", "format": "hlm record", "version": 1}\n', "is a record of version 1, and this is 2"),
        (5, b"[]\n", "line 6 does not belong to a record"),
        (5, json.dumps({"kind": "round"} | round_of(5)).encode() + b"\n", "line 6 has a value that no run gives"),
        (5, json.dumps({"kind": "round"} | round_of(1, wait_s=-1.0)).encode() + b"\n", "line 6 has a value"),
        (5, json.dumps({"kind": "round"} | round_of(1, draft_s=float("nan"))).encode() + b"\n", "line 6 has a value"),
        (1, b'{"kind": "round"}\n', "line 2 does not belong to a record"),
        (1, b'{"kind": "end", "tokens": 1, "ended": true, "seconds": 1}\n', "line 2, end, comes before any text"),
    ],
)
def test_a_damaged_line_is_named(path: Path, number: int, line: bytes, said: str) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number] = line
    path.write_bytes(b"".join(lines))
    with pytest.raises(UserError, match=said):
        read_record(path)


def test_other_files_and_other_runs_are_refused(path: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    for text, held in {"": "no line of a record", '{"kind": "run", "form': "half a line, because its run"}.items():
        cut.write_text(text)
        with pytest.raises(UserError, match=f"holds {held}"):
            read_record(cut)
    Recorder(cut, RUN)
    assert read_record(cut).texts == []
    with pytest.raises(UserError, match="holds a run with another target"):
        Recorder(path, RUN | {"target": "other"})
    begin = json.loads(path.read_text().splitlines()[0])
    with path.open("a") as file:
        file.write(json.dumps(begin | {"draft": "other"}) + "\n")
    with pytest.raises(UserError, match="begins a run of other models or settings"):
        read_record(path)


@pytest.mark.parametrize(
    ("changed", "more", "said"),
    [
        ({"streamed": True}, {}, "has no rounds of a draft length"),
        ({"messages": "server"}, {}, "has no rounds of a draft length"),
        ({}, {"skipped": 1}, "kept drafts without verification"),
        ({"messages": "lattice", "shared_seed": False}, {}, "tells this message alone"),
        ({"lossless": False, "messages": "rows", "shared_seed": False}, {}, "accepted by another rule"),
        ({"shared_seed": False}, {}, "tells this message alone"),
    ],
)
def test_what_a_record_cannot_tell_is_refused(tmp_path: Path, changed: Any, more: Any, said: str) -> None:
    one_sentence(run("plan", "--run", write(tmp_path / "run.jsonl", [round_of(2, **more)], **changed)), said)


def test_a_number_that_is_not_in_the_record_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder = Recorder(path, RUN)
    recorder.add("text", prompt="a", mark="m", new_tokens=4)
    for one in (round_of(2), round_of(3)):
        recorder.add("round", **one)
    one_sentence(run("plan", "--run", path), "does not tell --rate: it has no trains of pings of two lengths; give it")
    one_sentence(run("plan", "--run", path, "--rate", "1M"), "does not tell --rtt: it has no pings; give it")
