"""What a device records, and how it adapts its draft length and its message."""

from __future__ import annotations

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory.codec import MalformedError
from hlmtheory.policy import (
    DevicePolicy,
    LatticeRows,
    threshold_rule,
)
from tests.validation.command_line import run
from tests.validation.link.served import device_of, relayed, served, small_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.planned import write_policy
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import UHlm
from validation.decoding.methods.switched import Chosen, Switched
from validation.link import message_choice, timed_rounds, timing
from validation.link.adapt import AdaptiveSeed, LengthChoice
from validation.link.engine import Engine, ServedText
from validation.link.formats import SERVER_WRITES, Terms
from validation.link.message_choice import OWN, SEEDED, TRIED, Following, MessageChoice
from validation.link.passes import Limits
from validation.link.recording import Recording
from validation.link.relay import LinkModel
from validation.link.timed_rounds import time_rounds
from validation.link.timing import measure_times
from validation.link.wire import LinkError, Opening
from validation.models.pair import Pair
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


POLICY = DevicePolicy(3, 1.0, threshold_rule(2), LatticeRows(20, top_k=3))
ACCEPTED = {"rows": 0.8, "tokens": 0.5}
SIZES = {"rows": 200, "tokens": 2}
DRAFT, FIXED, HEAD = 0.003, 0.03, 20


def played(choice: MessageChoice, rate: float, rounds: int, seed: int = 0) -> list[Chosen]:
    """Play rounds over a link of this rate, which is measured in 60 ms; return what was chosen."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(rounds):
        if choice.wants_link():
            choice.link(rate, 0.06)
        one = choice.choose()
        found.append(one)
        accepted = int(np.argmin([*(rng.random(one.length) < ACCEPTED[one.message]), False]))
        frames = HEAD + SIZES[one.message] * one.length
        times = (one.length * DRAFT, FIXED + 8.0 * frames / rate)
        choice.learn(one.message, one.length, accepted, *times, frames)
    return found


def speed(message: str, length: int, rate: float) -> float:
    """Return the true tokens a second."""
    tokens = sum(ACCEPTED[message] ** depth for depth in range(length + 1))
    return tokens / (FIXED + length * DRAFT + 8.0 * (HEAD + SIZES[message] * length) / rate)


def test_the_message_follows_the_link_both_ways() -> None:
    choice = MessageChoice(dict.fromkeys(SIZES, tuple(range(1, 7))))
    assert [one.message for one in played(choice, 10e6, 2 * TRIED)] == ["rows"] * TRIED + ["tokens"] * TRIED
    played(choice, 10e6, 200)
    for number, rate in enumerate((100e3, 10e6, 100e3)):
        best = max(speed(message, length, rate) for message in SIZES for length in range(1, 7))
        chosen = played(choice, rate, 200, seed=number)
        best_message = "rows" if rate > 1e6 else "tokens"
        assert sum(one.message == best_message for one in chosen[20:]) > 150
        assert speed(chosen[-1].message, chosen[-1].length, rate) > 0.9 * best


def asked(choice: MessageChoice, rate: float, waits: list[float]) -> list[int]:
    """Return the rounds before which the link is measured, in 10 ms; others wait so many seconds, and draft 5 ms."""
    found = []
    for number, wait in enumerate(waits):
        if choice.wants_link():
            choice.link(rate, 0.01)
            found.append(number)
        choice.learn("rows", 4, 2, 0.005, wait, 100)
    return found


def test_the_link_is_measured_now_and_then_and_where_the_waits_change() -> None:
    choice = MessageChoice({"rows": (4,)})
    assert asked(choice, 1e6, [0.046] * 25) == [0, 10, 20]  # 10 ms are a fiftieth of 9.8 rounds
    assert asked(choice, 100e3, [0.0532] * 20) == [5, 14]  # 7.2 ms of 45 ms more are less than a quarter


def test_messages_change_within_a_text_that_the_loop_writes_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_choice, "TRIED", 1)
    follows = Following(POLICY, 3)
    settings: dict[str, Any] = {"new_tokens": POSITIONS, "seed": 2}
    changed = 0
    with served(pair) as server, device_of(pair, server.address) as device:
        follows.remote = device.remote
        for number in range(12):
            made, name = follows.method(), f"text {number}"
            found = device.generate(made, [0], name=name, on_exchange=made.exchange, **settings)
            again = Switched(follows.policies, iter(made.choices).__next__)
            (expected,) = decode(pair, [Prompt(name, "0", "")], again, **settings)
            assert found.tokens == expected.tokens
            assert [one.message for one in made.choices[: len(found.rounds)]] == [
                one.message for one in again.choices[: len(found.rounds)]
            ]
            changed += len({one.message for one in made.choices}) > 1
    assert changed


def test_messages_change_in_a_text_that_is_cut(pair: Pair) -> None:
    names, settings = (OWN, SEEDED), {"new_tokens": POSITIONS, "seed": 3}
    policies = Following(POLICY, 2).policies
    for number in range(6):
        turns = itertools.cycle([Chosen(one, 1 + number % 2) for one in names])
        made, name = Switched(policies, turns.__next__), f"cut {number}"
        cuts = LinkModel(1e9, 1e9, cut_bytes=[1400 + 150 * number, 2600 + 170 * number])
        with (
            served(pair) as server,
            relayed(cuts, server.address) as relay,
            device_of(pair, relay.address) as device,
        ):
            found = device.generate(made, [0], name=name, **settings)
            assert relay.relay.resets
        (expected,) = decode(pair, [Prompt(name, "0", "")], Switched(policies, iter(made.choices).__next__), **settings)
        assert found.tokens == expected.tokens


def test_an_opening_names_few_messages_and_a_round_one_of_them(pair: Pair) -> None:
    plain = [one.plain() for one in Terms.each_of(Following(POLICY, 2).method())]
    assert len(Terms.each_from_plain(plain, 3)) == 2
    for given, said in (
        ([], "1 to 4 terms; got 0"),
        (plain * 3, "1 to 4 terms; got 6"),
        ([plain[0], SERVER_WRITES.plain()], "has one message"),
        ([3], "terms with other fields than format"),
    ):
        with pytest.raises(LinkError, match=said):
            Terms.each_from_plain(given, 3)
    opening = Opening("t", "q", plain, "a", 1, 1.0, 1.0, 4, [0], [], "s")
    text = ServedText(pair, opening, *Terms.each_from_plain(plain, 3))
    for body in (b"", b"\2"):
        with pytest.raises(MalformedError, match="names none of its text's messages"):
            text.received(body)


def test_the_command_changes_messages(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_choice, "TRIED", 2)
    write_policy(DevicePolicy(4096, 1.0, threshold_rule(2), LatticeRows(50, top_k=32)), tmp_path / "policy.json")
    line = ("device", "--server", address, "--texts", "3", "--new-tokens", "12", "--json")
    policy = ("--policy", tmp_path / "policy.json", "--adapt", "3")
    done = run(*line, *policy)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["method"] == "policy, adapts"
    assert {name for text in told["texts"] for name, _ in text["choices"]} == {OWN, SEEDED}
