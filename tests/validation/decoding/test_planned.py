"""A policy in the generation loop, and the same policy driven by hand: device, bytes, server."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hlmtheory import wire
from hlmtheory.codec import CodecMenu
from hlmtheory.policy.costs import DeviceRule
from hlmtheory.policy.device_parts import DeviceDraft, drawn, numbers_for
from tests.validation import tiny_texts
from validation.collection.collect import encode_prompts
from validation.collection.fingerprint import fingerprints
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.planned import (
    Planned,
    models_mark,
    planned_methods,
    read_policy,
    refuse_other_models,
    write_policy,
)
from validation.decoding.methods.shared_seed import SharedSeedStreamed
from validation.decoding.random_streams import ACCEPT, REPLACE, Noise
from validation.decoding.sampling import distributions_of, draw, levels
from validation.errors import UserError
from validation.models.pair import Pair

MENU = CodecMenu(kinds=("top-k", "lattice", "mixture"), widths=(6, 12), sizes=(1, 4, 16), resolutions=(4, 16, 64))
U = wire.UncertaintyLine(1.0, 0.0)
ONE = np.array([0])
V = 300


def policies(vocabulary: int = V) -> list[wire.DevicePolicy]:
    priced = DeviceRule(3, True, 2.0**-9, 8.0, (4.0, 2.0), 10.0, 8.0)
    sharp = 0.3  # at 1 the tiny models are nearly even
    kinds = (
        wire.CertifiedRows(MENU),
        wire.LatticeRows(50, top_k=16),
        wire.LatticeRows(64, threshold=0.02),
        wire.DraftProbabilities(),
    )
    found = [wire.DevicePolicy(vocabulary, sharp, wire.threshold_rule(2, 0.93), kind, U) for kind in kinds]
    one = replace(priced, draft_length=1, later_risk_prices=())
    found += [wire.DevicePolicy(vocabulary, sharp, rule, kinds[0], U) for rule in (one, priced)]
    found += [
        wire.DevicePolicy(vocabulary, sharp, priced, kinds[0], wire.UncertaintyLine(0.8, 0.2, draws=4), bits_limit=60),
        wire.DevicePolicy(vocabulary, sharp, wire.threshold_rule(4, None), kinds[1], bonus=False),
        wire.DevicePolicy(vocabulary, 0.0, wire.threshold_rule(3, 0.93), kinds[3], U),
        wire.DevicePolicy(vocabulary, 1.0, wire.threshold_rule(3, 0.99), kinds[2], U),
        wire.DevicePolicy(vocabulary, 1.0, wire.threshold_rule(0, None), kinds[3]),
        wire.DevicePolicy(vocabulary, 1.0, wire.threshold_rule(1, 1.0), kinds[3], U),
        wire.DevicePolicy(vocabulary, sharp, wire.threshold_rule(3, 0.93), wire.SeededTokens(), U),
        wire.DevicePolicy(vocabulary, sharp, wire.threshold_rule(4, None), wire.SeededTokens(), bonus=False),
        wire.DevicePolicy(vocabulary, 0.0, wire.threshold_rule(2, None), wire.SeededTokens()),
    ]
    return found


POLICIES = policies()
AT_1 = next(policy for policy in POLICIES if policy.temperature == 1.0)


class Streams(np.random.Generator):
    def __init__(self, token: Callable[[int], Any], singles: Iterable[float] = ()) -> None:
        super().__init__(np.random.PCG64(0))
        self.token, self.singles = token, iter(singles)

    def random(self, size: Any = None) -> Any:
        return next(self.singles) if size in (None, ()) else self.token(*size)


class ByHand:
    def __init__(self, pair: Pair, prompt: Prompt, policy: wire.DevicePolicy, new_tokens: int, seed: int) -> None:
        self.device = wire.DevicePolicy.from_json(policy.to_json())
        self.server = wire.ServerPolicy(wire.DevicePolicy.from_json(policy.to_json()))
        self.pair, self.new_tokens, self.noise = pair, new_tokens, Noise(seed, [prompt.id], new_tokens)
        (self.read,) = encode_prompts(pair, [prompt], new_tokens)
        self.key = int(self.noise.stream_keys()[0])
        self.tokens: list[int] = []
        self.sent = self.rounds = self.skipped = 0

    def run(self) -> None:
        while len(self.tokens) < self.new_tokens and not self.ended:
            if (drafts := self.drafts()) is not None:
                self.exchange(drafts)

    @property
    def ended(self) -> bool:
        return bool(self.tokens) and self.tokens[-1] in self.pair.end_tokens

    def drafts(self) -> list[DeviceDraft] | None:
        found: list[DeviceDraft] = []
        most = min(self.device.rule.draft_length, self.new_tokens - len(self.tokens))
        while len(found) < most and not (found and found[-1].token in self.pair.end_tokens):
            logits = self.logits(self.pair.draft, [draft.token for draft in found], 1)[0]
            where = {"seed": self.key, "position": len(self.read) + len(self.tokens) + len(found)}
            draft = self.device.draft(logits, place=len(found) + 1, rng=self.numbers(len(found)), **where)
            if draft.skip:
                self.tokens.append(draft.token)
                self.skipped += 1
                return None
            found.append(draft)
        return found

    def numbers(self, ahead: int) -> Streams:
        place, line = np.array([len(self.tokens) + ahead]), self.device.line
        draws = line.draws if line is not None and line.draws else 0
        samples = self.noise.several(ONE, place, 2 * draws)[:, 0].tolist() if draws else []
        return Streams(lambda count: self.noise.drafts(ONE, place, np.array([ahead]), count)[0], samples)

    def exchange(self, drafts: list[DeviceDraft]) -> None:
        message, ahead, place = self.device.message(drafts), [draft.token for draft in drafts], len(self.tokens)
        self.sent += len(message)
        self.rounds += 1
        logits = self.logits(self.pair.target, ahead, len(drafts) + 1)
        target = distributions_of(logits, self.device.temperature, 1.0).double().numpy()
        uniform = [float(self.noise.uniform(ACCEPT, ONE, np.array([place + n]))[0]) for n in range(len(drafts))]
        where = {"seed": self.key, "position": len(self.read) + place}
        accepted = self.server.verify(message, target, rng=Streams(np.zeros, uniform), **where).accepted
        after = np.array([min(place + accepted, self.new_tokens)])
        own = Streams(lambda count: self.noise.uniforms(REPLACE, ONE, after, count)[0], uniform)
        answer = self.server.verify(message, target, rng=own, **where)
        assert answer.accepted == accepted
        new = self.device.tokens(drafts, answer, rng=own)
        self.tokens += new[:accepted]
        if accepted < len(drafts) or not drafts or (len(self.tokens) < self.new_tokens and not self.ended):
            self.tokens += new[accepted:]  # otherwise there is no room for a bonus token

    def logits(self, model: Any, ahead: list[int], rows: int) -> torch.Tensor:
        with torch.inference_mode():
            return model(torch.tensor([self.read + self.tokens + ahead])).logits[0, -rows:]


@pytest.fixture(params=["two models", "one model"])
def models(request, pair):
    return pair if request.param == "two models" else replace(pair, target=pair.draft)


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_a_device_and_a_server_write_the_method_s_texts(number, models):
    policy, prompts = POLICIES[number], tiny_texts.PROMPTS[:2]
    settings = {"new_tokens": 8, "temperature": policy.temperature, "seed": 3}
    records = decode(models, prompts, Planned(policy), batch=2, **settings)
    for prompt, record in zip(prompts, records, strict=True):
        hand = ByHand(models, prompt, policy, 8, 3)
        hand.run()
        assert hand.tokens == record.tokens
        assert hand.sent == record.total("bytes")
        assert (hand.rounds, hand.skipped) == (len(record.rounds), record.total("skipped"))


def test_the_policies_above_skip_send_accept_and_reject(pair):
    same = replace(pair, target=pair.draft)
    records = [
        decode(models, tiny_texts.PROMPTS[:2], Planned(policy), new_tokens=8, temperature=policy.temperature, seed=3)
        for policy in POLICIES[:8]
        for models in (pair, same)
    ]
    for name in ("skipped", "drafted", "accepted", "resampled"):
        assert sum(sum(one.total(name) for one in some) > 1 for some in records) >= 6, name


def test_a_streamed_policy_has_the_text_of_its_method_and_the_bytes_of_its_sessions(pair):
    policy = wire.DevicePolicy(V, 1.0, wire.threshold_rule(1, None), wire.StreamedTokens(), bonus=False)
    run = {"new_tokens": 12, "seed": 5, "times": (0.012, 0.030)}
    methods = Planned(policy), SharedSeedStreamed()
    planned, alone = (decode(pair, tiny_texts.PROMPTS[:3], method, **run) for method in methods)
    assert [one.tokens for one in planned] == [one.tokens for one in alone]
    planned_drafts, own_drafts = ([[t.drafted for t in one.rounds] for one in texts] for texts in (planned, alone))
    assert planned_drafts == own_drafts
    device = wire.StreamedDevice(policy, session=b"text 0001", seed=1, position=0)
    bare = len(device.draft(np.zeros(V))[1]) - wire.envelope_bits(1, authenticated=False) // 8
    assert all(turn.bytes == bare * turn.drafted for one in planned for turn in one.rounds)


def test_a_token_is_drawn_as_in_the_loop():
    rng = np.random.default_rng(0)
    for vocabulary in (1, 2, 63, 64, 65, 300, 4097):
        rows = rng.dirichlet(np.full(vocabulary, 0.1), size=20)
        assert numbers_for(vocabulary) == levels(vocabulary)
        uniform = rng.random((20, levels(vocabulary)))
        expected, _ = draw(torch.from_numpy(rows), uniform)
        found = [drawn(row, Streams(lambda count, one=one: one)) for row, one in zip(rows, uniform, strict=True)]
        assert found == expected.tolist()


@pytest.mark.parametrize(
    ("policy", "settings", "words"),
    [
        (AT_1, {"temperature": 0.5}, "The policy is for temperature 1 and top-p 1, and the run has 0.5 and 1"),
        (AT_1, {"top_p": 0.9}, "and the run has 1 and 0.9"),
        (replace(AT_1, vocabulary=301), {}, "The policy is for 301 tokens, and the models have 300"),
    ],
)
def test_another_run_than_the_planned_one_is_refused(policy, settings, words, pair):
    with pytest.raises(UserError, match=words):
        decode(pair, tiny_texts.PROMPTS[:1], Planned(policy), new_tokens=3, **settings)


@pytest.fixture
def marked(pair):
    return replace(POLICIES[1], planned_for=models_mark(fingerprints(pair, [], [])))


def test_a_file_holds_its_policy(tmp_path, marked):
    file = write_policy(marked, tmp_path)
    assert file == tmp_path / "policy.json" == write_policy(marked, tmp_path / "policy.json")
    assert read_policy(file) == read_policy(tmp_path) == marked
    assert [path.name for path in tmp_path.iterdir()] == ["policy.json"]


def test_a_file_gives_the_method_for_its_temperature_alone(tmp_path, marked):
    file = write_policy(marked, tmp_path)
    assert [method.policy for method in planned_methods(file, 0.3, 1.0)] == [marked]
    assert planned_methods(None, 1.0, 1.0) == []
    with pytest.raises(UserError, match=r"The policy is for temperature 0\.3"):
        planned_methods(file, 0.0, 1.0)


def test_a_policy_for_other_models_is_refused(pair, marked):
    refuse_other_models([Planned(marked), Planned(POLICIES[1])], pair)  # the second has no mark
    with pytest.raises(UserError, match="planned for other models"):
        refuse_other_models([Planned(replace(marked, planned_for="300 ab cd"))], pair)
    assert models_mark(None) is models_mark({"vocabulary": 3}) is None


def test_a_file_without_a_policy_is_refused(tmp_path, marked):
    with pytest.raises(UserError, match="There is no policy at"):
        read_policy(tmp_path / "other.json")
    file = write_policy(marked, tmp_path)
    file.write_text(marked.to_json().replace('"version": 2', '"version": 3'))
    with pytest.raises(UserError, match=r"policy\.json holds no policy: version must be 2; got 3"):
        read_policy(file)
    file.write_bytes(b"\xff{")
    with pytest.raises(UserError, match="holds no policy"):
        read_policy(file)
