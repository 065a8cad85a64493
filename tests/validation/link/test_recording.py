"""What ``hlm device`` records, how it adapts its draft length, and the times of ``hlm doctor --times``."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.link.served import device_of, relayed, served, small_pair
from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import UHlm
from validation.errors import UserError
from validation.link import timed_rounds, timing
from validation.link.adapt import AdaptiveSeed, LengthChoice
from validation.link.engine import Engine
from validation.link.passes import Limits
from validation.link.recording import Recording
from validation.link.relay import LinkModel
from validation.link.timed_rounds import time_rounds
from validation.link.timing import measure_times
from validation.models.pair import Pair, load_pair
from validation.planning.from_run import measured_in, planner_of_run
from validation.planning.run_record import read_record
from validation.planning.setting import Setting, constant_link
from validation.planning.times import read_times

SETTINGS = {"seed": 2, "temperature": 1.0, "top_p": 1.0}
POSITIONS = 6


@pytest.fixture(scope="module")
def pair() -> Pair:
    return small_pair(POSITIONS)


def recorded(pair: Pair, path: Path, make: type[Method] | partial[Method], texts: int = 3) -> list[list[int]]:
    """Write some texts with a record; return their tokens."""
    found = []
    with served(pair) as server, device_of(pair, server.address) as device:
        recording = Recording(path, device, make(), SETTINGS)
        for number in range(texts):
            recording.begin(f"text {number}", "m", POSITIONS)
            watched = {"on_exchange": recording.exchange, "on_answer": recording.answer}
            one = device.generate(make(), [0], name=f"text {number}", new_tokens=POSITIONS, **watched, **SETTINGS)
            recording.end(one)
            found.append(one.tokens)
    return found


@pytest.mark.parametrize("make", [partial(SharedSeed, 3), partial(FixedLength, 2), partial(UHlm, 0.4)])
def test_the_rounds_of_a_record_are_those_of_the_loop(pair: Pair, tmp_path: Path, make: partial[Method]) -> None:
    texts = recorded(pair, tmp_path / "run.jsonl", make)
    record = read_record(tmp_path / "run.jsonl")
    assert len(record.texts) == len(texts)
    for number, (text, tokens) in enumerate(zip(record.texts, texts, strict=True)):
        (expected,) = decode(pair, [Prompt(f"text {number}", "0", "")], make(), new_tokens=POSITIONS, seed=2)
        assert expected.tokens == tokens
        names = ("position", "drafted", "accepted", "bonus", "skipped")
        told = [tuple(one[name] for name in names) for one in text.rounds]
        assert told == [tuple(getattr(one, name) for name in names) for one in expected.rounds]
        assert [one["opened"] for one in text.rounds] == [True] + [False] * (len(text.rounds) - 1)
        assert all(one["wait_s"] > 0 and one["draft_s"] > 0 and one["up_bytes"] > 9 for one in text.rounds)
        assert text.end is not None
        assert text.end["tokens"] == len(tokens)
        assert text.end["seconds"] >= sum(one["wait_s"] + one["draft_s"] for one in text.rounds)


def test_answers_to_a_device_that_drafts_on_are_recorded(pair: Pair, tmp_path: Path) -> None:
    texts = recorded(pair, tmp_path / "run.jsonl", SharedSeedStreamed)
    for text, tokens in zip(read_record(tmp_path / "run.jsonl").texts, texts, strict=True):
        assert not text.rounds
        assert sum(one["tokens"] for one in text.answers) == len(tokens)
        assert all(one["tokens"] - one["accepted"] in (0, 1) for one in text.answers)


def test_rate_and_round_trip_of_a_link_are_found(pair: Pair, tmp_path: Path) -> None:
    """Over a relay of 400 kbit/s and 50 ms; a busy machine makes a link slower, never faster."""
    link = LinkModel(4e5, 4e5, 0.05)
    limits = Limits(opening_s=0.2)  # the probes take longer
    with (
        served(pair, limits=limits) as server,
        relayed(link, server.address) as relay,
        device_of(pair, relay.address) as device,
    ):
        recording = Recording(tmp_path / "run.jsonl", device, SharedSeed(2), SETTINGS)
        recording.begin("a", "m", POSITIONS)
        device.generate(SharedSeed(2), [0], name="a", new_tokens=POSITIONS, on_exchange=recording.exchange, **SETTINGS)
    found = measured_in(read_record(tmp_path / "run.jsonl"))
    assert 1e5 < (found["--rate"].value or 0) < 4.4e5
    assert 0.045 < (found["--rtt"].value or 0) < 0.5


def test_an_adapted_length_changes_no_token(pair: Pair) -> None:
    choice = LengthChoice(2, 4)
    lengths = list[int]()
    with served(pair) as server, device_of(pair, server.address) as device:
        for number in range(6):
            method, name = AdaptiveSeed(choice), f"text {number}"
            found = device.generate(
                method, [0], name=name, new_tokens=POSITIONS, on_exchange=method.exchange, **SETTINGS
            )
            (expected,) = decode(pair, [Prompt(name, "0", "")], SharedSeed(3), new_tokens=POSITIONS, seed=2)
            assert found.tokens == expected.tokens
            lengths.append(choice.length)
    assert choice.counts.sum() > 6
    assert set(lengths) <= {1, 2, 3, 4}


@pytest.mark.parametrize(("accepts", "best"), [(1.0, 8), (0.0, 1)])
def test_the_length_goes_to_the_best_one(accepts: float, best: int) -> None:
    choice = LengthChoice(4, 8)
    for _ in range(40):
        choice.learn(choice.length, int(accepts * choice.length), 0.01 * choice.length, 0.1)
    assert choice.length == best
    low, estimate, high = choice.speeds()
    assert (low <= estimate + 1e-9).all()
    assert (estimate <= high + 1e-9).all()


def test_a_length_that_is_ruled_out_is_not_taken() -> None:
    choice = LengthChoice(4, 8)
    for number in range(200):
        choice.learn(choice.length, min(number % 2, choice.length), 0.05 * choice.length, 0.01)
        low, _, high = choice.speeds() if number % 20 == 0 else (np.zeros(8), np.zeros(8), np.ones(8))
        assert high[choice.length - 1] >= low.max() or number < 20
    assert choice.length < 4


def test_a_length_out_of_range_is_refused() -> None:
    with pytest.raises(UserError, match=r"length of 9 is not in 1..8"):
        LengthChoice(9, 8)


def test_the_command_records_and_adapts_and_the_plan_reads_it(address: str, tmp_path: Path) -> None:
    line = ["device", "--server", address, "--texts", "2", "--new-tokens", "12", "--json"]
    plain = json.loads(run(*line).stdout)["texts"]
    path = tmp_path / "run.jsonl"
    adapted = run(*line, "--record", path, "--adapt", "6")
    assert adapted.exit_code == 0, adapted.output
    texts = json.loads(adapted.stdout)["texts"]
    assert [one["tokens"] for one in texts] == [one["tokens"] for one in plain]
    record = read_record(path)
    assert record.adapts
    assert sum(one["up_bytes"] for one in record.texts[0].rounds) == texts[0]["up_bytes"]
    planner, about = planner_of_run(path, Setting(constant_link(1e6, 0.02), 0.004, 0.01))
    assert about["evidence"]["depths"]["intervals"] == "anytime"
    assert planner.options


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--adapt", "6", "--method", "HLM"], "the text of --method 'HLM' depends on it"),
        (["--adapt", "6", "--method", "server"], "--method 'server'"),
        (["--adapt", "2"], "length of 4 is not in 1..2"),
        (["--record", "r.jsonl", "--openai", "127.0.0.1:0"], "--record writes the rounds of --prompts"),
    ],
)
def test_what_does_not_go_together_is_refused(address: str, more: list[str], said: str) -> None:
    one_sentence(run("device", "--server", address, *more), said)


def test_a_record_of_other_settings_is_refused(address: str, tmp_path: Path) -> None:
    line = ["device", "--server", address, "--texts", "1", "--new-tokens", "2", "--record", tmp_path / "run.jsonl"]
    assert run(*line).exit_code == 0
    one_sentence(run(*line, "--temperature", "0.5"), "holds a run with another temperature (1.0, now 0.5)")


def test_times_are_measured_by_batch_and_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = partial(measure_times, batches=(1, 2), widths=(1, 3), repeats=3)
    monkeypatch.setattr(timing, "measure_times", small)
    done = run("doctor", "--times", tmp_path / "times.json", "--json")
    assert done.exit_code == 0, done.output
    found = read_times(tmp_path / "times.json")
    assert json.loads(done.stdout)["times"]["draft"]["median_s"] == found.draft.median_s
    assert [(one.batch, one.width) for one in found.passes] == [(1, 1), (1, 3), (2, 1), (2, 3)]
    assert [one.format for one in found.serialisation] == ["tokens", "rows"]
    assert found.serialisation[0].up_bytes < 30 < 4 * 4 * 4096 < found.serialisation[1].up_bytes
    assert found.models["large_name"] == "builtin/large"
    rounds = found.rounds
    assert rounds.drafts == 4
    assert 0 < rounds.passing.median_s < rounds.waiting.median_s  # a round waits for its pass and more
    assert rounds.drafting.median_s > found.serialisation[0].time.median_s
    assert found.exchange_s() >= found.socket.median_s
    assert "Between passes device and server take" in " ".join(done.stderr.split())
    one_sentence(run("doctor", "--pair", "builtin"), "give --times FILE with it")
    with pytest.raises(UserError, match="with batch 1"):
        measure_times(load_pair("builtin"), batches=(2,))
    with pytest.raises(UserError, match="No round of 4 drafts fits behind"):
        time_rounds(load_pair("builtin"), [0] * (load_pair("builtin").context - 4), 4, repeats=3, warm_up=0)


def test_the_rounds_that_are_timed_have_their_drafts_and_passes(pair: Pair) -> None:
    """Each pass waits 20 ms at its end, so each round and each token takes longer than that."""
    made = partial(Engine, stretch_s=0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timed_rounds, "Engine", made)
        _, rounds, token = time_rounds(pair, [0], 2, repeats=3, warm_up=1)
    assert rounds.drafts == 2
    assert rounds.waiting.low_s > rounds.passing.low_s > 0.02
    assert rounds.drafting.median_s < 0.02
    assert token.median_s > 0.02


def test_rounds_that_never_have_their_drafts_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draft is accepted, so no text has room for a second round of four."""
    monkeypatch.setattr(timed_rounds, "MOST_TEXTS", 1)
    rows = quarters(np.random.default_rng(5), nodes(3, 5))
    same = table_pair(rows, rows)
    with pytest.raises(UserError, match="6 tokens had 0 rounds of 4 drafts; use a longer context"):
        time_rounds(same, [0] * (same.context - 7), 4, repeats=3, warm_up=1)
