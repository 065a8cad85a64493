"""What a device records and audits, and how it adapts its draft length, its message and its skips."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from hlmtheory import wire
from hlmtheory.skipping import audit_bound
from tests.validation.command_line import run
from tests.validation.link.served import Relayed, Running, device_of, looped
from tests.validation.planning.test_from_run import round_of, write
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import Dssd, FixedLength, PromptLookup
from validation.decoding.methods.planned import Audited, Planned, write_policy
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import UHlm
from validation.decoding.methods.switched import Chosen, Switched
from validation.decoding.records import Round
from validation.link import message_choice, timing
from validation.link.formats import SERVER_WRITES, Terms
from validation.link.message_choice import KEPT, OWN, RECENT, SEEDED, TRIED, Following, MessageChoice, _Message
from validation.link.recording import Recording
from validation.link.relay import LinkModel
from validation.link.skip_choice import OwnThreshold, SkipChoice
from validation.link.timing import measure_times
from validation.link.wire import LinkError
from validation.planning.from_run import planner_of_run
from validation.planning.run_record import read_record
from validation.planning.setting import Setting, constant_link
from validation.planning.times import read_times

SETTINGS = {"seed": 2, "temperature": 1.0, "top_p": 1.0}
POSITIONS = 6


@pytest.mark.parametrize(
    "make", [partial(SharedSeed, 3), partial(FixedLength, 2), partial(UHlm, 0.4), SharedSeedStreamed]
)
def test_the_rounds_of_a_record_are_those_of_the_loop(pair, tmp_path, make):
    texts, names = [], [f"text {number}" for number in range(3)]
    with Running(pair) as server, device_of(pair, server.address) as device:
        recording = Recording(tmp_path / "run.jsonl", device, make(), SETTINGS)
        for name in names:
            recording.begin(name, "m", POSITIONS)
            watched = {"on_exchange": recording.exchange, "on_answer": recording.answer}
            texts.append(device.generate(make(), [0], name=name, new_tokens=POSITIONS, **watched, **SETTINGS))
            recording.end(texts[-1])
    for name, text, found in zip(names, read_record(tmp_path / "run.jsonl").texts, texts, strict=True):
        expected = looped(pair, make(), name, POSITIONS)
        assert expected.tokens == found.tokens
        assert text.end is not None
        assert text.end["tokens"] == len(found.tokens)
        if make is SharedSeedStreamed:
            assert not text.rounds
            assert sum(one["tokens"] for one in text.answers) == len(found.tokens)
            assert all(one["tokens"] - one["accepted"] in (0, 1) for one in text.answers)
            assert 0 < text.answers[-1]["seconds"] <= text.end["seconds"] < 600
            continue
        fields = ("position", "drafted", "accepted", "bonus", "skipped")
        told = [tuple(one[field] for field in fields) for one in text.rounds]
        assert told == [tuple(getattr(one, field) for field in fields) for one in expected.rounds]
        assert [one["opened"] for one in text.rounds] == [True] + [False] * (len(text.rounds) - 1)
        assert all(one["wait_s"] > 0 and one["draft_s"] > 0 and one["up_bytes"] > 9 for one in text.rounds)
        assert text.end["seconds"] >= sum(one["wait_s"] + one["draft_s"] for one in text.rounds)


def test_the_command_records_and_adapts_and_the_plan_reads_it(address, tmp_path):
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


def test_times_are_measured_by_batch_and_width(tmp_path, monkeypatch):
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
    assert found.rounds.drafts == 4
    assert 0 < found.rounds.passing.median_s < found.rounds.waiting.median_s  # a round waits for its pass and more
    assert found.rounds.drafting.median_s > found.serialisation[0].time.median_s
    assert found.exchange_s() >= found.socket.median_s


POLICY = wire.DevicePolicy(3, 1.0, wire.threshold_rule(2), wire.LatticeRows(20, top_k=3))
ACCEPTED = {"rows": 0.8, "tokens": 0.5}
SIZES = {"rows": 200, "tokens": 2}
DRAFT, FIXED, HEAD = 0.003, 0.03, 20


def played(choice: MessageChoice, rate: float, rounds: int, seed: int = 0) -> list[Chosen]:
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
    tokens = sum(ACCEPTED[message] ** depth for depth in range(length + 1))
    return tokens / (FIXED + length * DRAFT + 8.0 * (HEAD + SIZES[message] * length) / rate)


def test_the_message_follows_the_link_both_ways():
    choice = MessageChoice(dict.fromkeys(SIZES, tuple(range(1, 7))))
    assert [one.message for one in played(choice, 10e6, 2 * TRIED)] == ["rows"] * TRIED + ["tokens"] * TRIED
    played(choice, 10e6, 200)
    for number, rate in enumerate((100e3, 10e6, 100e3)):
        best = max(speed(message, length, rate) for message in SIZES for length in range(1, 7))
        chosen = played(choice, rate, 200, seed=number)
        best_message = "rows" if rate > 1e6 else "tokens"
        assert sum(one.message == best_message for one in chosen[20:]) > 150
        assert speed(chosen[-1].message, chosen[-1].length, rate) > 0.9 * best


@pytest.mark.parametrize(("rate", "kept"), [(1e6, RECENT), (1.1e6, RECENT), (2e6, KEPT)])
def test_waits_before_a_jump_are_forgotten_unless_the_rate_explains_it(rate, kept):
    choice, waits = MessageChoice({SEEDED: (1,)}), [0.03] * KEPT + [0.5] * RECENT
    choice.link(1e6, 0.01)
    for wait in waits:
        choice.learn(SEEDED, 1, 1, DRAFT, wait, 0)
    choice.link(rate, 0.01)
    assert list(choice.fixed_s) == waits[-kept:]


def test_the_bytes_of_a_round_are_a_line_in_its_drafts_and_never_none():
    message = _Message((1, 2, 3), 0.95)
    for drafted, frames in ((1, 40), (3, 4)):
        message.add(drafted, 0, frames)
    assert message.bytes_of(np.array([1, 2, 3, 6])).tolist() == [40.0, 22.0, 4.0, 1.0]


def test_messages_change_in_a_text_that_is_cut_and_the_loop_writes_it_again(pair, monkeypatch):
    monkeypatch.setattr(message_choice, "TRIED", 1)
    follows, cuts = Following(POLICY, 3), np.cumsum([1500, *[4000] * 20]).tolist()
    settings = {"new_tokens": POSITIONS, "seed": 2}
    changed = 0
    with (
        Running(pair) as server,
        Relayed(LinkModel(1e9, 1e9, cut_bytes=cuts), server.address) as relay,
        device_of(pair, relay.address) as device,
    ):
        follows.remote = device.remote
        for number in range(12):
            made, name = follows.method(), f"text {number}"
            found = device.generate(made, [0], name=name, on_exchange=made.exchange, **settings)
            again = Switched(follows.policies, iter(made.choices).__next__)
            assert found.tokens == looped(pair, again, name, **settings).tokens
            changed += len({one.message for one in made.choices[: len(found.rounds)]}) > 1
        assert relay.relay.resets > 1
    assert changed


PLAIN = [one.plain() for one in Terms.each_of(Following(POLICY, 2).method())]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "1 to 4 terms; got 0"),
        (PLAIN * 3, "1 to 4 terms; got 6"),
        ([PLAIN[0], SERVER_WRITES.plain()], "has one message"),
        ([3], "terms with other fields than format"),
        *(
            ([Terms.of(other).plain() | {"by_block": True}], "verified together by their whole distributions alone")
            for other in (Dssd(3), SharedSeed(3), PromptLookup())
        ),
    ],
)
def test_terms_that_no_device_sends_are_refused(given, said):
    with pytest.raises(LinkError, match=said):
        Terms.each_from_plain(given, 3)


def test_the_command_changes_messages(address, tmp_path, monkeypatch):
    monkeypatch.setattr(message_choice, "TRIED", 2)
    write_policy(
        wire.DevicePolicy(4096, 1.0, wire.threshold_rule(2), wire.LatticeRows(50, top_k=32)), tmp_path / "policy.json"
    )
    line = ("device", "--server", address, "--texts", "3", "--new-tokens", "12", "--json")
    policy = ("--policy", tmp_path / "policy.json", "--adapt", "3")
    done = run(*line, *policy)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["method"] == "policy, adapts"
    assert {name for text in told["texts"] for name, _ in text["choices"]} == {OWN, SEEDED}


PROMISED = wire.Guarantee("mean one-step risk of a token", 0.1, "calibrated", 9)
SKIPPING = wire.DevicePolicy(
    3, 1.0, wire.threshold_rule(2, 0.6), wire.SeededTokens(), wire.UncertaintyLine(1.0, 0.0), guarantees=(PROMISED,)
)
MESSAGES = {
    "seeded": wire.SeededTokens(),
    "probabilities": wire.DraftProbabilities(),
    "lattice": wire.LatticeRows(20, top_k=3),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_audited_skips_run_over_a_link_as_in_the_loop(pair, tmp_path, name):
    policy = replace(SKIPPING, messages=MESSAGES[name])
    names = [f"{name} {n}" for n in range(8)]
    made = Audited(policy, 0.5)
    expected = [looped(pair, made, one, POSITIONS) for one in names]
    with Running(pair) as server, device_of(pair, server.address) as device:
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


def test_an_audit_sends_its_share_of_what_the_policy_would_keep(pair):
    """The two runs decide the same first position of each text alike; the coin sends a third of the kept ones."""
    prompts = [Prompt(str(n), "0", "") for n in range(300)]
    policy = replace(SKIPPING, rule=wire.threshold_rule(2, 1.0))  # everything is kept
    every = decode(pair, prompts, Planned(policy), new_tokens=1, seed=1)
    some = decode(pair, prompts, Audited(policy, 1 / 3), new_tokens=1, seed=1)
    assert all(one.total("skipped") == 1 for one in every)
    assert 70 < sum(one.total("skipped") == 0 for one in some) < 130
    audited = decode(pair, prompts, Audited(policy, 1.0), new_tokens=1, seed=1)
    none = decode(pair, prompts, Planned(replace(policy, rule=wire.threshold_rule(2))), new_tokens=1, seed=1)
    assert [one.tokens for one in audited] == [one.tokens for one in none]  # the text of a policy without skips


def test_a_record_states_the_risk_of_its_skips(tmp_path):
    rounds = [round_of(2, skipped=5), round_of(0, audited=True), round_of(3, audited=True, skipped=1)]
    path = write(tmp_path / "run.jsonl", rounds, texts=4, audit=0.2, lossless=False)
    found = json.loads(run("plan", "--run", path, "--json").stdout)["skips"]
    assert (found["tokens"], found["skipped"], found["audited"], found["rejected"]) == (120, 24, 8, 4)
    bound = float(audit_bound([1.0] * 4 + [0.0] * 116, 0.2, 0.05)[-1])
    assert found["mean_risk_bound"] == bound
    assert found["text_bound"] == min(1.0, bound * 30)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert json.loads(run("plan", "--run", path, "--json").stdout)["skips"]["tokens"] == 93  # 3 of the last text


def skips_played(
    choice: SkipChoice, risk_of: Callable[[float, int], float], tokens: int, seed: int
) -> tuple[float, float]:
    """Return the sum of the risks of what was kept or audited, and the least room of the promise after any token."""
    rng = np.random.default_rng(seed)
    total, room = 0.0, np.inf
    for token in range(tokens):
        if token % 40 == 0:
            choice.begin()
        estimate = float(rng.random())
        risk = risk_of(estimate, token)
        kept = choice.keeps(estimate)
        total += risk * kept
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
    "the draft model turns bad": lambda estimate, token: 0.01 if token < 800 else 1.0,
    "no draft is wrong": lambda estimate, token: 0.0,
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("kind", "limit"), [("token", 0.2), ("text", 0.9)])
def test_the_promise_is_never_left(world, kind, limit):
    choice = SkipChoice(kind, limit, 0.3)
    total, room = skips_played(choice, WORLDS[world], 1600, 0)
    assert room >= 0
    assert choice.bound >= total  # what is proved is above what is true
    assert choice.tokens == 1600
    if world in ("the estimate is right", "no draft is wrong") and kind == "token":
        assert choice.kept > 150


def test_a_device_with_its_own_threshold_begins_without_skips(pair):
    choice = SkipChoice("token", 0.1, 0.5)
    lossless = Planned(replace(SKIPPING, rule=wire.threshold_rule(2)))
    with Running(pair) as server, device_of(pair, server.address) as device:
        for name in "abc":
            made = OwnThreshold(SKIPPING, choice)
            settings = {"name": name, "new_tokens": POSITIONS, **SETTINGS}
            found = device.generate(made, [0], on_exchange=made.exchange, **settings)
            assert found.tokens == device.generate(lossless, [0], **settings).tokens
    assert (choice.texts, choice.kept) == (3, 0)
    assert choice.tokens == 3 * POSITIONS
