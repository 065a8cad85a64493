"""A device and a server over a socket write the in-process loop's text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from websockets.sync.client import connect

from tests.validation.link.served import device_of, served
from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.collection.collect import encode_prompts
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength, FlexSpec, Lookahead, PromptLookup
from validation.decoding.methods.quantized import CSqs, DenseQs, KSqs
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import (
    CloudOnly,
    CuHlmCertified,
    CuHlmOffline,
    DraftOnly,
    Hlm,
    RandHlm,
    UHlm,
)
from validation.decoding.methods.trees import SampledTree
from validation.errors import UserError
from validation.link.device import RefusedError
from validation.link.formats import Terms
from validation.models.pair import Pair, load_pair

METHODS: list[Callable[[], Method]] = [
    lambda: FixedLength(3),
    lambda: SharedSeed(3),
    Hlm,
    lambda: RandHlm(0.5),
    lambda: UHlm(0.4),
    lambda: CuHlmOffline(0.4, k=2),
    lambda: CuHlmCertified(0.4),
    lambda: Dssd(3),
    lambda: FlexSpec("exact"),
    lambda: FlexSpec("linear", printed_acceptance=True),
    DenseQs,
    lambda: KSqs(2),
    lambda: CSqs(0.1),
    PromptLookup,
    CloudOnly,
]
POSITIONS = 6


@pytest.fixture(scope="module")
def pair() -> Pair:
    rng = np.random.default_rng(5)
    count = nodes(3, POSITIONS)
    return table_pair(*(quarters(rng, count) * 0.9 + 0.1 / 3 for _ in range(2)))


@pytest.mark.parametrize("make", METHODS, ids=lambda make: make().name)
def test_the_text_is_that_of_the_loop(pair: Pair, make: Callable[[], Method]) -> None:
    names = [f"text {n}" for n in range(4)]
    expected = [decode(pair, [Prompt(name, "0", "")], make(), new_tokens=POSITIONS, seed=2)[0] for name in names]
    with served(pair) as server, device_of(pair, server.address) as device:
        found = [device.generate(make(), [0], name=name, seed=2, new_tokens=POSITIONS) for name in names]
        assert device.remote.connections == 1
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    told = [[(r.drafted, r.accepted, r.skipped, r.bytes) for r in one.rounds] for one in found]
    assert told == [[(r.drafted, r.accepted, r.skipped, r.bytes) for r in one.rounds] for one in expected]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_full_rows_of_the_builtin_pair(temperature: float) -> None:
    builtin, prompts = load_pair("builtin"), builtin_prompts(limit=1)
    (ids,), sampling = encode_prompts(builtin, prompts, 6), {"temperature": temperature, "top_p": 0.9}
    (expected,) = decode(builtin, prompts, FixedLength(3), new_tokens=6, seed=4, **sampling)
    told: list[int] = []
    with served(builtin) as server, device_of(builtin, server.address) as device:
        found = device.generate(
            FixedLength(3), ids, name=prompts[0].id, seed=4, new_tokens=6, on_tokens=told.extend, **sampling
        )
    assert told == found.tokens == expected.tokens
    assert (found.ended, len(found.rounds)) == (expected.ended, len(expected.rounds))


def test_a_text_ends_at_an_end_token(pair: Pair) -> None:
    ends = table_pair(*(np.full((1, 3), 1 / 3) for _ in range(2)), end_tokens=(2,))
    (expected,) = decode(ends, [Prompt("a", "0", "")], FixedLength(2), new_tokens=40, seed=1)
    with served(ends) as server, device_of(ends, server.address) as device:
        found = device.generate(FixedLength(2), [0], name="a", seed=1, new_tokens=40)
    assert found.tokens == expected.tokens
    assert found.ended
    assert found.tokens[-1] == 2


def test_another_tokenizer_is_refused_by_name(pair: Pair) -> None:
    with (
        served(pair, tokenizer="another") as server,
        pytest.raises(RefusedError, match="fingerprint another"),
        device_of(pair, server.address),
    ):
        pass


@pytest.mark.parametrize("method", [DraftOnly(), Lookahead(), SampledTree((2, 1))], ids=lambda method: method.name)
def test_a_method_that_does_not_run_over_a_link_is_refused(method: Method) -> None:
    with pytest.raises(UserError, match="does not run over a link"):
        Terms.of(method)


def test_a_text_that_does_not_fit_is_refused(pair: Pair) -> None:
    with (
        served(pair) as server,
        device_of(pair, server.address) as device,
        pytest.raises(UserError, match="has 2 tokens, and 1 fit before 63"),
    ):
        device.generate(SharedSeed(2), [0, 1], name="long", seed=1, new_tokens=63)


def test_a_greeting_says_what_runs(pair: Pair) -> None:
    with served(pair) as server, connect(server.address) as socket:
        said = socket.recv(5)
    assert isinstance(said, bytes)
    assert said.startswith(b'{"protocol":1,"nonce":"')
    assert said.endswith(b'"vocabulary":3,"tokenizer":"t","target":"p","end_tokens":[],"context":64,"keyed":false}')
