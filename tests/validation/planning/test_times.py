"""Measured times: the line of a pass, the file, and a plan that takes them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from validation.errors import UserError
from validation.planning import times as planning_times
from validation.planning.request import Request
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link
from validation.trace.sealed import write_sealed


def exactly(seconds: float) -> planning_times.Timing:
    return planning_times.Timing(seconds, seconds, seconds)


def times(*passes: tuple[int, int, float], waiting: float = 0.0175, token: float = 0.0124) -> planning_times.Times:
    return planning_times.Times(
        exactly(0.004),
        tuple(planning_times.PassTiming(batch, width, exactly(seconds)) for batch, width, seconds in passes),
        (
            planning_times.Serialisation("tokens", 4, 19, exactly(0.0002)),
            planning_times.Serialisation("rows", 4, 65555, exactly(0.0009)),
        ),
        exactly(0.0003),
        planning_times.RoundTiming(4, exactly(0.0165), exactly(waiting), exactly(0.0155)),
        exactly(token),
        *(64, 21, {"small_name": "small", "large_name": "large"}, {"load": 0.1}, "2026-01-01T00:00:00+00:00"),
    )


LINE = times((1, 1, 0.011), (1, 3, 0.013), (1, 9, 0.019), (2, 1, 0.5))


def test_a_line_for_what_needs_one() -> None:
    assert planning_times.pass_line(LINE.table) == pytest.approx((0.010, 0.001))
    assert planning_times.pass_line(times((1, 5, 0.02)).table) == pytest.approx((0.02, 0.0))
    assert planning_times.pass_line(times((1, 1, 0.02), (1, 9, 0.01)).table)[1] == 0.0  # never faster for more tokens
    base, slope = planning_times.pass_line(times((1, 1, 0.001), (1, 9, 0.020)).table)
    assert base >= 0
    assert slope == pytest.approx(0.001)


def test_passes_are_those_that_were_measured() -> None:
    """A staircase of widths and batches: exact where it was measured, on lines between, the last slope beyond."""
    rows = [(1, 1, 0.010), (1, 2, 0.010), (1, 5, 0.016), (4, 1, 0.012), (4, 2, 0.018), (4, 5, 0.048)]
    passes = planning_times.table_of(rows)
    for batch, width, seconds in rows:
        assert passes.seconds(np.array(float(width)), batch) == pytest.approx(seconds, rel=1e-12)
    assert passes.seconds(np.array([3.0, 8.0])) == pytest.approx([0.012, 0.022])
    assert passes.seconds(np.array(2.0), 2) == pytest.approx(0.010 + 0.008 / 3)
    assert passes.seconds(np.array(5.0), 7) == pytest.approx(0.048 + 0.032)
    counts = np.zeros((2, len(COUNTS)))
    for name, values in {"tokens": (3, 1), "passes": (1, 1), "verified": (5, 1), "server_drafts": (2, 0)}.items():
        counts[:, COUNTS.index(name)] = values
    drafts = planning_times.table_of([(1, 1, 0.001), (2, 1, 0.003)])  # 7 ms for four texts
    setting = Setting(constant_link(1e6, 0.0), 0.001, 9.0, 9.0, passes=passes, draft_passes=drafts)
    assert setting.server_seconds(counts) == pytest.approx([0.018, 0.010])
    assert setting.server_seconds(counts, 4) == pytest.approx([0.0155, 0.003])


@pytest.mark.parametrize(("engine", "again"), [("", 0.0), ("llama.cpp", 0.0015)])
def test_a_table_of_passes(tmp_path: Path, engine: str, again: float) -> None:
    """A server with its own draft by passes of 51, 104, 151, 221 ms at widths 1, 2, 3, 5, and drafts of 3 ms.

    llama.cpp's draft model reads the verified tokens again: K + 1 wide, 3 + 1.5 K ms.
    """
    one = {"num_spec_steps": 191, "num_accepted_draft_tokens": 320, "num_draft_tokens": 764, "num_spec_tokens": 4}
    one["acceptance_histogram"] = [58, 48, 23, 22, 40]
    (tmp_path / "counts.json").write_text(json.dumps({"metrics": {"speculative_decoding": one}}))
    table = [f"1,{width},{ms},target,{engine}" for width, ms in ((1, 51), (2, 104), (3, 151), (5, 221))]
    table += [f"1,1,3,draft,{engine}", f"1,5,9,draft,{engine}"]
    file = tmp_path / "passes.csv"
    file.write_text("\n".join(["batch,width,ms,model,engine", *table]) + "\n")
    found = json.loads(run("plan", "--acceptance", tmp_path / "counts.json", "--times", file, "--json").stdout)
    own = next(row for row in found["rows"] if row["policy"] == "server with its own draft")
    length = int(own["draft_length"]["value"])
    tokens = 1 + sum(sum([58, 48, 23, 22, 40][j:]) for j in range(1, length + 1)) / 191
    seconds = length * 0.003 + again * (length + 2) + {1: 0.104, 2: 0.151, 3: 0.186, 4: 0.221}[length]
    assert own["tokens_per_s_median"]["value"] == pytest.approx(tokens / seconds, rel=1e-4)
    assert any("longest recorded" in note for note in found["notes"]) is (length == 4)
    assert any("reads the verified tokens again" in note for note in found["notes"]) is bool(engine)
    file.write_text("batch,width,ms\n1,1,-3\n")
    one_sentence(run("plan", "--acceptance", tmp_path / "counts.json", "--times", file), "line 2: ms is")


def test_the_draft_model_of_llama_cpp_makes_one_more_pass_a_round() -> None:
    scrape = Path(__file__).parents[1] / "acceptance" / "llama_server" / "metrics.txt"
    words = ("plan", "--acceptance", scrape, "--draft-length", "3", "--json", "--drafts")
    one_sentence(run(*words, "copied"), "n-grams need no draft model")
    found = run(*words, "greedy")
    own = next(row for row in json.loads(found.stdout)["rows"] if row["policy"] == "server with greedy drafts")
    passes = own["counts"]["server_drafts"] / own["counts"]["passes"]
    assert passes == pytest.approx(own["draft_length"]["value"] + 1)


def test_an_exchange_is_what_drafts_and_pass_leave_of_a_round() -> None:
    """Drafting 16.5 ms and waiting 17.5 ms, without 4 drafts of 4 ms and a pass of 10 + 5 ms, leave 3 ms."""
    assert LINE.exchange_s() == pytest.approx(0.003)
    assert LINE.exchange_s("rows") == pytest.approx(0.0037)
    with pytest.raises(UserError, match=r"format 'lattice' was timed; these were: rows, tokens"):
        LINE.exchange_s("lattice")
    quick = times((1, 1, 0.011), (1, 3, 0.013), waiting=0.0101)
    assert quick.exchange_s() == pytest.approx(0.0005)  # never less than the messages and the socket
    assert quick.exchange_s("rows") == pytest.approx(0.0012)


def test_a_plan_says_the_options_that_would_give_the_same() -> None:
    request, (said, *_), _ = planning_times.with_times(Request(), LINE, {"--draft-time", "--between-time"})
    options = {option: float(ms) / 1e3 for option, ms in re.findall(r"(--[\w-]+) ([\d.]+)ms", said)}
    assert options == pytest.approx({"--draft-time": request.draft_s, "--between-time": request.between_s})


@pytest.mark.parametrize("token", [0.0124, 0.0102])
def test_a_plan_with_these_times_gives_a_round_and_a_token_the_time_that_they_took(token: float) -> None:
    """Also where a token of a text took less than a pass of one token that was timed alone, 11 ms."""
    found = replace(LINE, token=exactly(token))
    link = constant_link(1e6, found.exchange_s())
    setting = Setting(link, found.draft.median_s, 9.0, 9.0, between_s=found.between_s(), passes=found.table)
    round_of = dict.fromkeys(COUNTS, 0.0) | {"drafts": 4, "passes": 1, "exchanges": 1, "verified": 5, "tokens": 3}
    token_of = dict.fromkeys(COUNTS, 0.0) | {"passes": 1, "verified": 1, "tokens": 1}
    counts = np.array([[one[name] for name in COUNTS] for one in (round_of, token_of)])
    assert setting.seconds(counts, 1e6) == pytest.approx([0.0165 + 0.0175, token])
    assert setting.server_seconds(counts) == pytest.approx([0.015, token])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"format": "other"}, "holds no times of this version"),
        ({"draft": {"median_s": -1.0, "low_s": 0.0, "high_s": 0.0}}, "no times that can be used"),
        ({"passes": []}, "no times that can be used"),
    ],
)
def test_a_file_with_something_else_is_refused(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    write_sealed(tmp_path / "times.json", LINE.plain() | changed)
    with pytest.raises(UserError, match=said):
        planning_times.read_times(tmp_path / "times.json")


def test_a_plan_takes_the_times_that_were_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "trace")
    planning_times.write_times(LINE, tmp_path / "times.json")
    line = ["plan", "--trace", "trace", "--rate", "1M", "--rtt", "40ms", "--json"]
    timed = json.loads(run(*line, "--times", "times.json").stdout)
    given = ("--draft-time", "4ms", "--verify-time", "10ms", "--verify-token-time", "1000us")
    given += ("--server-draft-time", "4ms", "--between-time", "1.4ms")
    by_hand = json.loads(run(*line[:6], "43ms", "--json", *given).stdout)
    speeds = [[row["tokens_per_s_median"]["value"] for row in plan["rows"]] for plan in (timed, by_hand)]
    assert speeds[0] == pytest.approx(speeds[1], rel=1e-9)
    assert not {"--draft-time", "--verify-time"} & set(timed["defaults"])
    own = json.loads(run(*line, "--times", "times.json", "--draft-time", "7ms").stdout)
    assert own["request"]["draft_s"] == pytest.approx(0.007)
    less = replace(LINE, token=exactly(0.0102))  # than a pass of 11 ms
    planning_times.write_times(less, tmp_path / "quick.json")
    quick = {row["policy"]: row for row in json.loads(run(*line, "--times", "quick.json").stdout)["rows"]}
    seconds = 0.0102 + quick["server alone, streaming"]["counts"]["down_bits"] / 1e6
    assert quick["server alone, streaming"]["tokens_per_s_median"]["value"] == pytest.approx(1 / seconds, rel=1e-9)
    one_sentence(run(*line, "--between-time", "-30ms"), "--between-time is -30")
    one_sentence(run(*line, "--times", "trace"), "trace")
    half = json.loads(run(*line, "--times", "times.json", "--verify-time", "30ms").stdout)
    assert (half["request"]["verify_s"], half["request"]["verify_token_s"]) == pytest.approx((0.03, 0.0))
