"""A device with a padded policy: the sizes on the wire are the policy's, and the texts are as without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hlmtheory.policy import DevicePolicy, LatticeRows, SeededTokens, threshold_rule
from hlmtheory.policy.device_parts import Messages
from tests.validation.link.served import Running, device_of
from validation.collection.collect import encode_prompts
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.planned import Planned
from validation.link.device import Device
from validation.models.pair import Pair, load_pair

TOKENS, K = 12, 3
HEAD = 11
"""Bytes of a frame beside the message: number, kind, no skipped tokens, and the envelope's mark and checksum."""
POLICIES: dict[str, tuple[Messages, tuple[int, ...]]] = {
    "tokens in one size": (SeededTokens(), (24,)),
    "quantised in one size": (LatticeRows(100, threshold=0.02), (400,)),
    "quantised in three sizes": (LatticeRows(100, threshold=0.02), (40, 70, 400)),
}


@pytest.fixture(scope="module")
def pair() -> Pair:
    """Return the built-in pair."""
    return load_pair("builtin")


@contextmanager
def watched(device: Device) -> Iterator[tuple[list[int], list[int]]]:
    """Note the bytes of each frame up, and of each answer."""
    up, down, remote = list[int](), list[int](), device.remote
    send, receive = remote.send, remote.receive

    def sent(data: bytes) -> None:
        up.append(len(data))
        send(data)

    def received(timeout_s: float | None = None) -> bytes:
        data = receive(timeout_s)
        down.append(len(data))
        return data

    remote.send, remote.receive = sent, received  # type: ignore[method-assign]
    yield up, down


@pytest.mark.parametrize("name", POLICIES)
def test_sizes_are_the_policys_and_texts_do_not_change(pair: Pair, name: str) -> None:
    messages, sizes = POLICIES[name]
    plain = DevicePolicy(pair.vocabulary, 1.0, threshold_rule(K), messages)
    policy = replace(plain, message_sizes=sizes)
    assert DevicePolicy.from_json(policy.to_json()) == policy != plain
    prompts = builtin_prompts(limit=2)
    ids = encode_prompts(pair, prompts, TOKENS)
    wanted = decode(pair, prompts, Planned(plain), new_tokens=TOKENS, seed=4)
    here = decode(pair, prompts, Planned(policy), new_tokens=TOKENS, seed=4)
    assert [one.tokens for one in here] == [one.tokens for one in wanted]
    assert {one.bytes for text in here for one in text.rounds} <= set(sizes)
    assert len({one.down_bytes for text in here for one in text.rounds}) == 1
    with Running(pair) as server, device_of(pair, server.address) as device, watched(device) as (up, down):
        for prompt, tokens, own in zip(prompts, ids, wanted, strict=True):
            up.clear(), down.clear()
            found = device.generate(Planned(policy), tokens, name=prompt.id, seed=4, new_tokens=TOKENS)
            assert found.tokens == own.tokens
            opening, *rounds = up
            assert {size - HEAD for size in rounds} <= set(sizes)
            assert 1 << 12 <= opening < (1 << 12) + 32
            assert len(set(down[1:])) == 1, down
