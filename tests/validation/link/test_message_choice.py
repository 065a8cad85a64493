"""A message and a draft length that follow the rounds and the link, within a lossless policy."""

from __future__ import annotations

import itertools
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory.codec import MalformedError
from hlmtheory.policy import (
    CertifiedRows,
    DevicePolicy,
    LatticeRows,
    StreamedTokens,
    UncertaintyLine,
    threshold_rule,
)
from tests.validation.command_line import one_sentence, run
from tests.validation.link.served import device_of, relayed, served, small_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.switched import Chosen, Switched
from validation.decoding.policy_file import write_policy
from validation.errors import UserError
from validation.link import message_choice
from validation.link.engine import ServedText
from validation.link.formats import SERVER_WRITES, Terms
from validation.link.message_choice import OWN, SEEDED, TRIED, Following, MessageChoice, rate_of
from validation.link.relay import LinkModel
from validation.link.wire import LinkError, Opening
from validation.models.pair import Pair

POSITIONS = 6
POLICY = DevicePolicy(3, 1.0, threshold_rule(2), LatticeRows(20, top_k=3))
ACCEPTED = {"rows": 0.8, "tokens": 0.5}
SIZES = {"rows": 200, "tokens": 2}
DRAFT, FIXED, HEAD = 0.003, 0.03, 20


@pytest.fixture(scope="module")
def pair() -> Pair:
    return small_pair(POSITIONS)


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


def test_where_the_rate_stayed_the_rest_has_changed() -> None:
    choice = MessageChoice({"rows": (4,)})
    asked(choice, 1e6, [0.045] * 40)
    found = asked(choice, 1e6, [0.145] * 30)
    assert found[0] <= 8  # more than half of the last rounds waited too long
    assert sum(10 < number < 20 for number in found) <= 3  # 10 ms are a fiftieth of 3.3 rounds
    assert statistics.median(choice.fixed_s) > 0.14


def test_a_message_that_the_intervals_rule_out_is_not_taken() -> None:
    choice = MessageChoice({"rows": (4,), "tokens": (4,)})
    choice.link(1e9, 0.01)
    for _ in range(2000):
        choice.learn("rows", 4, 4, 4 * DRAFT, FIXED, 100)
        choice.learn("tokens", 4, 0, 4 * DRAFT, FIXED, 30)
    assert choice.choose() == Chosen("rows", 4)


def test_bad_choices_are_refused() -> None:
    for lengths in ({}, {"rows": ()}, {"rows": (0, 1)}):
        with pytest.raises(UserError, match="have no lengths of 1 or more"):
            MessageChoice(lengths)
    with pytest.raises(UserError, match="rate is 0 bit/s"):
        MessageChoice({"rows": (1,)}).link(0.0, 0.01)


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


def test_the_rate_of_a_link_is_told_by_pings(pair: Pair) -> None:
    with (
        served(pair) as server,
        relayed(LinkModel(200e3, 200e3, 0.01), server.address) as relay,
        device_of(pair, relay.address) as device,
    ):
        assert 20e3 < rate_of(device.remote) < 400e3  # a busy machine makes pings late


@pytest.mark.parametrize(
    "policy",
    [
        replace(POLICY, rule=threshold_rule(2, 0.5), line=UncertaintyLine(1.0, 0.0)),
        replace(POLICY, messages=CertifiedRows()),
        DevicePolicy(3, 1.0, threshold_rule(1), StreamedTokens(), bonus=False),
    ],
)
def test_a_policy_that_is_not_lossless_keeps_its_message(policy: DevicePolicy) -> None:
    with pytest.raises(UserError, match="leave --adapt out"):
        Following(policy, 3)


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
    for more, said in (
        (("--record", tmp_path / "r.jsonl"), "leave --record and --out out"),
        (("--out", tmp_path / "o.jsonl"), "leave --record and --out out"),
        (("--audit", "0.1"), "nothing to audit"),
        (("--openai", "127.0.0.1:0"), "learns from the texts of --prompts"),
    ):
        one_sentence(run(*line, *policy, *more), said)
