"""A device and a server over a socket write the in-process loop's text."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from hlmtheory import wire
from hlmtheory.policy.costs import DeviceRule
from tests.validation.link.served import Running, device_of, looped, write
from tests.validation.tiny_texts import table_pair
from validation.collection.collect import encode_prompts
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import (
    BlockVerification,
    Dssd,
    DssdCertified,
    FixedLength,
    FlexSpec,
    GreedyDrafts,
    PromptLookup,
)
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.quantized import CSqs, DenseQs, KSqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import CloudOnly, CuHlmCertified, CuHlmOffline, Hlm, RandHlm, UHlm
from validation.errors import UserError
from validation.link.device import Device
from validation.link.device_records import Exchange
from validation.link.formats import Terms
from validation.link.remote import RefusedError, Remote
from validation.link.wire import LinkError
from validation.models.pair import load_pair

METHODS: list[Callable[[], Method]] = [SharedSeedStreamed, Hlm, DenseQs, PromptLookup, CloudOnly]
METHODS += [partial(kind, 3) for kind in (FixedLength, BlockVerification, SharedSeed, Dssd, GreedyDrafts)]
METHODS += [partial(kind, 0.4) for kind in (UHlm, CuHlmCertified, RandHlm)]
METHODS += [partial(CuHlmOffline, 0.4, k=2), partial(DssdCertified, 0.1, 3), partial(KSqs, 2), partial(CSqs, 0.1)]
METHODS += [partial(FlexSpec, "exact"), partial(FlexSpec, "linear", printed_acceptance=True)]
POSITIONS = 6
LINE = wire.UncertaintyLine(1.0, 0.0)
POLICIES = {
    "lattice rows": wire.DevicePolicy(3, 1.0, wire.threshold_rule(3), wire.LatticeRows(100, top_k=2)),
    "lattice rows, skipping": wire.DevicePolicy(3, 1.0, wire.threshold_rule(2, 0.4), wire.LatticeRows(100), LINE),
    "certified rows": wire.DevicePolicy(
        3, 1.0, DeviceRule(3, False, 2.0**-8, 4.0, (2.0,), 1.0, 0.0), wire.CertifiedRows()
    ),
    "probabilities": wire.DevicePolicy(3, 1.0, wire.threshold_rule(3), wire.DraftProbabilities()),
    "probabilities, cold": wire.DevicePolicy(3, 0.0, wire.threshold_rule(3), wire.DraftProbabilities()),
    "certified answers": wire.DevicePolicy(3, 1.0, wire.threshold_rule(3), wire.CertifiedAnswers(0.1)),
    "seeded": wire.DevicePolicy(3, 1.0, wire.threshold_rule(3), wire.SeededTokens()),
    "seeded, sampled uncertainty": wire.DevicePolicy(
        3, 0.8, wire.threshold_rule(2, 0.4), wire.SeededTokens(), wire.UncertaintyLine(1.0, 0.0, draws=4)
    ),
    "streamed": wire.DevicePolicy(3, 1.0, wire.threshold_rule(1), wire.StreamedTokens(), bonus=False),
    "server alone": wire.DevicePolicy(3, 1.0, wire.threshold_rule(0), wire.LatticeRows(100)),
}

EVERY = [*METHODS, *(partial(Planned, policy) for policy in POLICIES.values())]


@pytest.mark.parametrize("make", EVERY, ids=[*(make().name for make in METHODS), *POLICIES])
def test_the_text_is_that_of_the_loop(pair, make):
    method, names = make(), [f"text {n}" for n in range(4)]
    warm = method.policy.temperature if isinstance(method, Planned) else 1.0
    settings = {"new_tokens": POSITIONS, "seed": 2, "temperature": warm}
    expected = [looped(pair, make(), name, **settings) for name in names]
    with Running(pair) as server, device_of(pair, server.address) as device:
        found = [device.generate(make(), [0], name=name, **settings) for name in names]
        assert device.remote.connections == (len(names) if method.streamed else 1)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    if not method.streamed:  # whose rounds depend on the times
        told = [[(r.drafted, r.accepted, r.skipped, r.bytes) for r in one.rounds] for one in found]
        assert told == [[(r.drafted, r.accepted, r.skipped, r.bytes) for r in one.rounds] for one in expected]


def test_a_policy_for_other_models_and_another_tokenizer_are_refused_by_name(pair):
    with Running(pair, tokenizer="another") as server, pytest.raises(RefusedError, match="fingerprint another"):
        Device(pair, Remote(server.address), tokenizer="t", draft="q")
    mine, other = (Planned(replace(POLICIES["seeded"], planned_for=f"3 q {target}")) for target in ("p", "other"))
    with Running(pair) as server, device_of(pair, server.address) as device:
        assert len(device.generate(mine, [0], name="a", seed=1, new_tokens=2).tokens) == 2
        with pytest.raises(RefusedError, match="planned for other models"):
            device.generate(other, [0], name="a", seed=1, new_tokens=2)
        with pytest.raises(UserError, match="is for temperature 1"):
            device.generate(mine, [0], name="a", seed=1, new_tokens=2, temperature=0.5)
    with pytest.raises(LinkError, match=r"for V = 3.* this server has V = 4"):
        Terms.from_plain(Terms.of(mine).plain(), 4)


@pytest.mark.parametrize("draft_length", [0, 3])
def test_a_server_writes_the_text_of_the_shared_seed(pair, monkeypatch, draft_length):
    told, answers, slept, made = [], [], [], {"draft_length": draft_length, "stretch_s": 0.25}
    monkeypatch.setattr("validation.link.engine.time", SimpleNamespace(sleep=slept.append))
    watched = {"on_tokens": told.extend, "on_answer": lambda *one: answers.append(one)}
    with Running(pair, made=made) as server, device_of(pair, server.address) as device:
        found = device.generate(None, [0], name="a", seed=2, new_tokens=POSITIONS, **watched)
    assert {accepted for _, _, accepted in answers} == {0}  # no draft is the device's
    assert set(slept) == {0.25}
    assert POSITIONS <= (1 + draft_length) * len(slept) <= (1 + draft_length) * POSITIONS
    assert told == found.tokens == looped(pair, SharedSeed(2), new_tokens=POSITIONS).tokens


def test_drafts_that_do_not_wait_end_at_an_end_token():
    ends = table_pair(*(np.full((1, 3), 1 / 3) for _ in range(2)), end_tokens=(2,))
    for name in "abc":
        with Running(ends) as server, device_of(ends, server.address) as device:
            assert write(device, SharedSeedStreamed(), name, 20).ended


HEAD = 11
"""Bytes of a frame beside the message: number, kind, no skipped tokens, and the envelope's mark and checksum."""


@pytest.mark.parametrize(
    ("messages", "sizes"),
    [
        (wire.SeededTokens(), (24,)),
        (wire.LatticeRows(100, threshold=0.02), (400,)),
        (wire.LatticeRows(100, threshold=0.02), (40, 70, 400)),
    ],
)
def test_sizes_are_the_policys_and_texts_do_not_change(messages, sizes):
    pair, watched = load_pair("builtin"), list[Exchange]()
    plain = wire.DevicePolicy(pair.vocabulary, 1.0, wire.threshold_rule(3), messages)
    policy, prompts = replace(plain, message_sizes=sizes), builtin_prompts(limit=2)
    wanted = decode(pair, prompts, Planned(plain), new_tokens=12, seed=4)
    with Running(pair) as server, device_of(pair, server.address) as device:
        for prompt, tokens, own in zip(prompts, encode_prompts(pair, prompts, 12), wanted, strict=True):
            settings = {"name": prompt.id, "seed": 4, "new_tokens": 12}
            found = device.generate(
                Planned(policy), tokens, on_exchange=lambda _, spent: watched.append(spent), **settings
            )
            assert found.tokens == own.tokens
    later = [one for one in watched if not one.opened]
    assert {one.up_bytes - HEAD for one in later} <= set(sizes)
    assert len({one.down_bytes for one in later}) == 1
    openings = [one.up_bytes - HEAD - size - (1 << 12) for one in watched if one.opened for size in sizes]
    assert sum(0 <= rest < 32 for rest in openings) == len(prompts)
