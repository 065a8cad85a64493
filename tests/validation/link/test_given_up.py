"""A device that drafts on gives a draft up as soon as it hears that the tokens before it were wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hlmtheory.policy import DevicePolicy, StreamedServer, StreamedTokens, threshold_rule
from validation.decoding.kv_cache import CachedModel
from validation.link.device_records import LinkRecord
from validation.link.own_model import OwnModel
from validation.link.pace import Pace
from validation.link.received import Streamed
from validation.models.pair import load_pair

POLICY = DevicePolicy(4, 1.0, threshold_rule(1), StreamedTokens(), bonus=False)
KNOWN = {"session": b"text 0001", "seed": 5, "position": 2}
TOKENS = 6


class Server:
    """A server of one text that always writes token 1; it answers a message when the device next listens."""

    nonce, key, version = KNOWN["session"], None, "target"

    def __init__(self, *, deaf: int) -> None:
        self.side = StreamedServer(POLICY, **KNOWN, used=set())
        self.sent, self.deaf, self.quiet = 0, deaf, 0

    def send(self, message: bytes) -> None:
        self.sent += 1
        self.side.receive(message)
        self.quiet = self.deaf  # how often the device listens in vain

    def receive(self, seconds: float | None) -> bytes:
        if not self.side.waiting or (seconds is not None and self.quiet > 0):
            self.quiet -= 1
            raise TimeoutError
        return self.side.verify(np.eye(4)[[1]])

    def heard(self) -> None:
        """Take no note."""


class Draft:
    """A draft model of two layers that is sure of one token."""

    def __init__(self, token: int, pace: Pace) -> None:
        self.row, self.pace, self.begun = torch.eye(4)[token] * 50, pace, 0

    def logits(self, _text: list[int], at_layer: Callable[[], None]) -> torch.Tensor:
        self.begun += 1
        for _ in range(2):
            at_layer()
        return self.row


def received(token: int, deaf: int, pace: Pace) -> tuple[Streamed, Server, Draft]:
    one, remote, own = Streamed.__new__(Streamed), Server(deaf=deaf), Draft(token, pace)
    one.remote, one.own, one.policy, one.text = remote, own, POLICY, []
    one.session = SimpleNamespace(stream_keys=[5], new_tokens=TOKENS, pair=SimpleNamespace(end_tokens=()))
    one.opening, one.record = SimpleNamespace(prompt=[0, 0]), LinkRecord("streamed", "0", "here", 1, 1.0, 1.0)
    one.on_answer = one.on_tokens = None
    return one, remote, own


@pytest.mark.parametrize("deaf", [1, 2])
def test_a_draft_behind_a_mismatch_ends_in_its_layers(deaf: int) -> None:
    one, remote, own = received(0, deaf, Pace())
    one.once()
    assert one.text == [1] * TOKENS
    assert remote.sent == TOKENS  # none of the drafts behind a mismatch was sent
    assert own.begun == 2 * TOKENS - 1  # the last answer is heard in a layer of one that is not wanted either


def test_it_ends_while_it_is_stretched() -> None:
    one, remote, own = received(0, 3, Pace(0.05))  # deaf once after sending, and in two layers
    one.session.new_tokens = 2
    one.once()
    assert (one.text, remote.sent, own.begun) == ([1, 1], 2, 3)


def test_right_drafts_go_on() -> None:
    one, remote, own = received(1, 1, Pace())
    one.once()
    assert one.text == [1] * TOKENS
    assert remote.sent == own.begun == TOKENS
    assert [(each.accepted, each.resampled) for each in one.record.rounds] == [(1, 0)] * TOKENS


def test_a_pass_that_is_given_up_leaves_the_model_as_it_was() -> None:
    pair = load_pair("builtin", device="cpu")
    models = [CachedModel(pair.draft, pair.vocabulary, pair.device, 1, 12, pair.context) for _ in range(2)]
    own = [OwnModel.__new__(OwnModel) for _ in models]
    for each, model in zip(own, models, strict=True):
        each.model, each.prompt, each.tokens = model, [5, 6, 7], np.zeros((1, 12), dtype=np.int64)
        each.turn = threading.Lock()
    calls: list[int] = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError

    own[0].logits([8])
    with pytest.raises(KeyError):
        own[0].logits([8, 9], stop)
    assert len(calls) == 2
    assert torch.equal(own[0].logits([8, 4]), (own[1].logits([8]), own[1].logits([8, 4]))[1])
