"""Skips over a link: audits, the record that they make, and a threshold that never leaves the promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hlmtheory.policy import (
    DevicePolicy,
    DraftProbabilities,
    Guarantee,
    LatticeRows,
    SeededTokens,
    UncertaintyLine,
    threshold_rule,
)
from hlmtheory.skipping import audit_bound
from tests.validation.command_line import run
from tests.validation.link.served import device_of, served, small_pair
from tests.validation.planning.test_from_run import round_of, write
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.planned import Audited, Planned
from validation.decoding.records import Round
from validation.link.recording import Recording
from validation.link.skip_choice import OwnThreshold, SkipChoice
from validation.models.pair import Pair
from validation.planning.run_record import read_record

POSITIONS = 6
SETTINGS = {"seed": 2, "temperature": 1.0, "top_p": 1.0}
PROMISED = Guarantee("mean one-step risk of a token", 0.1, "calibrated", 9)
POLICY = DevicePolicy(3, 1.0, threshold_rule(2, 0.6), SeededTokens(), UncertaintyLine(1.0, 0.0), guarantees=(PROMISED,))
MESSAGES = {"seeded": SeededTokens(), "probabilities": DraftProbabilities(), "lattice": LatticeRows(20, top_k=3)}


@pytest.fixture(scope="module")
def pair() -> Pair:
    return small_pair(POSITIONS)


@pytest.mark.parametrize("name", MESSAGES)
def test_audited_skips_run_over_a_link_as_in_the_loop(pair: Pair, tmp_path: Path, name: str) -> None:
    policy = replace(POLICY, messages=MESSAGES[name])
    names = [f"{name} {n}" for n in range(8)]
    made = Audited(policy, 0.5)
    expected = [decode(pair, [Prompt(one, "0", "")], made, new_tokens=POSITIONS, seed=2)[0] for one in names]
    with served(pair) as server, device_of(pair, server.address) as device:
        recording = Recording(tmp_path / "run.jsonl", device, made, SETTINGS)
        for one in names:
            recording.begin(one, "m", POSITIONS)
            watched = {"on_exchange": recording.exchange, "name": one, "new_tokens": POSITIONS}
            recording.end(device.generate(made, [0], **watched, **SETTINGS))
            assert device.record.tokens == expected[names.index(one)].tokens
    record = read_record(tmp_path / "run.jsonl")
    assert record.run["audit"] == 0.5
    audited = [one for text in record.texts for one in text.rounds if one["audited"]]
    assert audited
    assert all(one["drafted"] for one in audited)
    told = json.loads(run("plan", "--run", tmp_path / "run.jsonl", "--json").stdout)["skips"]
    assert told["audited"] == len(audited)
    assert told["rejected"] == sum(one["accepted"] == 0 for one in audited)
    assert told["tokens"] == sum(len(one.tokens) for one in expected)


def test_an_audit_sends_its_share_of_what_the_policy_would_keep(pair: Pair) -> None:
    """The two runs decide the same first position of each text alike; the coin sends a third of the kept ones."""
    prompts = [Prompt(str(n), "0", "") for n in range(300)]
    policy = replace(POLICY, rule=threshold_rule(2, 1.0))  # everything is kept
    every = decode(pair, prompts, Planned(policy), new_tokens=1, seed=1)
    some = decode(pair, prompts, Audited(policy, 1 / 3), new_tokens=1, seed=1)
    assert all(one.total("skipped") == 1 for one in every)
    sent = sum(one.total("skipped") == 0 for one in some)
    assert 70 < sent < 130
    audited = decode(pair, prompts, Audited(policy, 1.0), new_tokens=1, seed=1)
    none = decode(pair, prompts, Planned(replace(policy, rule=threshold_rule(2))), new_tokens=1, seed=1)
    assert [one.tokens for one in audited] == [one.tokens for one in none]  # the text of a policy without skips


def test_a_record_states_the_risk_of_its_skips(tmp_path: Path) -> None:
    rounds = [round_of(2, skipped=5), round_of(0, audited=True), round_of(3, audited=True, skipped=1)]
    path = write(tmp_path / "run.jsonl", rounds, texts=4, audit=0.2, lossless=False)
    told = json.loads(run("plan", "--run", path, "--json").stdout)
    found = told["skips"]
    assert (found["tokens"], found["skipped"], found["audited"], found["rejected"]) == (120, 24, 8, 4)
    bound = float(audit_bound([1.0] * 4 + [0.0] * 116, 0.2, 0.05)[-1])
    assert found["mean_risk_bound"] == bound
    assert found["text_bound"] == min(1.0, bound * 30)
    killed = path.read_bytes().splitlines(keepends=True)[:-1]
    path.write_bytes(b"".join(killed))
    assert json.loads(run("plan", "--run", path, "--json").stdout)["skips"]["tokens"] == 93  # 3 of the last text


def played(choice: SkipChoice, risk_of: Callable[[float, int], float], tokens: int, seed: int) -> tuple[float, float]:
    """Play a device whose drafts are rejected with ``risk_of(estimate, token)``.

    Returns the sum of the risks of what was kept or audited, and the least room that the promise had left, after any
    token. A text has 40 tokens.
    """
    rng = np.random.default_rng(seed)
    total, room = 0.0, np.inf
    for token in range(tokens):
        if token % 40 == 0:
            choice.begin()
        estimate = float(rng.random())
        risk = risk_of(estimate, token)
        kept = choice.keeps(estimate)
        if kept:
            total += risk
        if kept and rng.random() >= choice.probability:
            choice.on_kept()
        else:
            rejected = rng.random() < risk
            choice.exchange(Round(token, drafted=1, accepted=int(not rejected), resampled=int(rejected)))
        whole = token + 1 if choice.kind == "token" else choice.texts
        room = min(room, choice.limit * whole - total)
    return total, room


WORLDS: dict[str, Callable[[float, int], float]] = {
    "the estimate is right": lambda estimate, token: estimate**2,
    "every draft is wrong": lambda estimate, token: 1.0,
    "the estimate is upside down": lambda estimate, token: (1.0 - estimate) ** 2,
    "the draft model turns bad": lambda estimate, token: 0.01 if token < 1500 else 1.0,
    "no draft is wrong": lambda estimate, token: 0.0,
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("kind", "limit"), [("token", 0.2), ("text", 0.9)])
def test_the_promise_is_never_left(world: str, kind: str, limit: float) -> None:
    for seed in range(2):
        choice = SkipChoice(kind, limit, 0.3)
        total, room = played(choice, WORLDS[world], 3000 if kind == "token" else 2400, seed)
        assert room >= 0
        assert choice.bound >= total  # what is proved is above what is true
        assert choice.tokens == (3000 if kind == "token" else 2400)
        if world in ("the estimate is right", "no draft is wrong") and kind == "token":
            assert choice.kept > 300


def test_without_the_first_rule_the_promise_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SkipChoice, "_allowed", lambda self: True)
    _, room = played(SkipChoice("token", 0.2, 0.3), WORLDS["the draft model turns bad"], 3000, 0)
    assert room < 0


def test_a_device_with_its_own_threshold_begins_without_skips(pair: Pair) -> None:
    choice = SkipChoice("token", 0.1, 0.5)
    lossless = Planned(replace(POLICY, rule=threshold_rule(2)))
    with served(pair) as server, device_of(pair, server.address) as device:
        for name in "abc":
            made = OwnThreshold(POLICY, choice)
            settings = {"name": name, "new_tokens": POSITIONS, **SETTINGS}
            found = device.generate(made, [0], on_exchange=made.exchange, **settings)
            assert found.tokens == device.generate(lossless, [0], **settings).tokens
    assert (choice.texts, choice.kept) == (3, 0)
    assert choice.tokens == 3 * POSITIONS
