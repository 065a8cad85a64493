"""The decoding methods: their decisions, and messages that the server can read."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hlmtheory import codec, wire
from hlmtheory.channel import vocabulary_payload_bits
from hlmtheory.draft_length import AcceptanceTracker
from hlmtheory.truncation import certified_size
from tests.validation.tiny_texts import nodes, table_pair
from tests.validation.unpacking import Unpacker, float_of
from tests.validation.watching import watched
from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import Dssd, FlexSpec, Lookahead, PromptLookup
from validation.decoding.methods.single_draft import CuHlmCertified, CuHlmOffline, CuHlmOnline, Hlm, UHlm
from validation.decoding.random_streams import Noise
from validation.decoding.session import Draft, Session, Step
from validation.decoding.wire import index_bits


def test_hlm_sends_whole_rows(pair):
    watch, rows = watched(pair, Hlm())
    width = index_bits(pair.vocabulary)
    for drafts, message in watch.rounds:
        (draft,) = drafts
        assert message.bits == vocabulary_payload_bits(pair.vocabulary, 8)
        bits = Unpacker(message.payload)
        assert (bits.take(16), bits.take(width)) == (1, draft.token)
        row = np.frombuffer(message.payload[-4 * pair.vocabulary :], dtype=np.float32)
        assert np.array_equal(row, draft.distribution.numpy())
    assert all(r.bonus == 0 and r.drafted == 1 for row in rows for r in row.rounds)


@pytest.mark.parametrize("draws", [None, 20])
def test_a_draft_at_the_threshold_itself_is_kept(draws):
    rng = np.random.default_rng(3)
    rows = torch.from_numpy(rng.dirichlet(np.ones(6), 40))
    pair = table_pair(rows.numpy(), rows.numpy())
    texts, tokens = np.arange(len(rows)), rng.integers(0, 6, len(rows))
    method = UHlm(0.5, draws=draws)
    assert UHlm(0.5).draws == 20
    numbers = Noise(1, [str(i) for i in texts], 1)
    method.begin(Session(pair, len(rows), numbers, None, 1.0, 1.0, 1))
    step = Step(texts, np.zeros(len(rows), dtype=np.int64), rows.log(), rows, np.ones(len(rows), dtype=bool))
    u = method.uncertainty(step, tokens)
    assert draws is None or set(u) <= {n / draws for n in range(draws + 1)}  # not what float32 makes of them
    for limit in (u[0], np.nextafter(u[0], -1.0)):
        method.threshold = float(limit)
        assert method.skip(step, tokens).tolist() == (u <= limit).tolist()
    assert not method.skip(step, tokens)[0]


@pytest.mark.parametrize(
    "method",
    [CuHlmOffline(-1.0, 12), CuHlmOnline(-1.0, slope=0.8, intercept=0.1), CuHlmCertified(-1.0, bias_tolerance=0.05)],
)
def test_a_truncated_message_holds_the_row_that_the_server_judges_by(pair, method):
    watch, _ = watched(pair, method)
    beyond = 0
    for (draft,), message in watch.rounds:
        decoded = codec.decode(message.payload)
        assert isinstance(decoded, wire.TruncatedMessage)
        (sent,) = decoded.drafts
        assert (sent.token, len(sent.support), decoded.bits) == (draft.token, *draft.note)
        assert draft.note.bits == method.bits
        assert sent.probability == pytest.approx(draft.probability)
        assert draft.server_distribution is not None
        np.testing.assert_allclose(codec.decoded_rows(decoded)[0], draft.server_distribution.numpy(), atol=1e-9)
        assert message.bits == draft.note.k * (index_bits(pair.vocabulary) + method.bits)
        beyond += draft.token not in sent.support
    assert beyond > 0 or not isinstance(method, CuHlmOffline)  # q_d is sent besides the k entries


def test_a_row_too_flat_for_16_bits_is_certified_with_more():
    heavy = 1.0 / np.arange(1, 100_001)
    peaked = heavy**3
    rows = torch.from_numpy(np.stack([row / row.sum() for row in (peaked, heavy, peaked)]))
    with pytest.raises(ValueError, match="16 bits can do no better"):
        certified_size(rows[1], 0.1, bits_per_probability=16)
    method = CuHlmCertified(-1.0)
    pair = replace(table_pair(np.full((1, 3), 1 / 3), np.full((1, 3), 1 / 3)), vocabulary=100_000)
    method.begin(Session(pair, 3, Noise(1, ["a", "b", "c"], 1), None, 1.0, 1.0, 1))
    method.u = np.ones(4)
    step = Step(np.arange(4), np.zeros(4, dtype=np.int64), rows, rows[[0, 0, 1, 2]], np.ones(4, dtype=bool))
    known, cuts = method.server_distributions(step, np.array([0, 5, 7, 9]), np.array([True, False, False, False]))
    assert known[0] is cuts[0] is None
    assert [cut.bits for cut in cuts[1:]] == [16, 24, 16]
    for row, decoded, cut, token in zip(rows, known[1:], cuts[1:], (5, 7, 9), strict=True):
        assert cut.k == int(certified_size(row, 0.1, bits_per_probability=cut.bits))
        assert 0 < float((row - decoded).abs().sum()) <= 0.1
        draft = Draft(token, float(row[token]), row, decoded, cut)
        message = method.message([draft])
        assert message.bits == cut.k * (cut.bits + 17)
        assert np.allclose(codec.decoded_rows(codec.decode(message.payload))[0], decoded.numpy(), atol=1e-12)


def test_split_verification_sends_probabilities_up_and_a_row_down(pair):
    watch, rows = watched(pair, Dssd(3))
    width = index_bits(pair.vocabulary)
    for drafts, message in watch.rounds:
        bits = Unpacker(message.payload)
        assert bits.take(16) == len(drafts)
        for draft in drafts:
            assert (bits.take(width), float_of(bits.take(32))) == (draft.token, pytest.approx(draft.probability))
    for row in rows:
        for one in row.rounds:
            assert one.down_bytes == (2 + 4 * pair.vocabulary if one.resampled else -(-(2 + width) // 8))


@pytest.mark.parametrize(
    "method", [Dssd(3), FlexSpec("linear", max_draft_length=3), FlexSpec("exact", max_draft_length=3)]
)
def test_at_temperature_0_split_verification_sends_tokens_alone(pair, method):
    watch, rows = watched(pair, method, temperature=0.0)
    width = index_bits(pair.vocabulary)
    for drafts, message in watch.rounds:
        bits = Unpacker(message.payload)
        assert [bits.take(16), *bits.several(len(drafts), width)] == [len(drafts), *(draft.token for draft in drafts)]
        assert message.bits == width * len(drafts)
        assert len(message.payload) == -(-(16 + width * len(drafts)) // 8)
    assert sum(row.total("resampled") for row in rows) > 0
    for row in rows:
        assert all(one.down_bytes == -(-(one.drafted.bit_length() + width) // 8) for one in row.rounds)


@pytest.mark.parametrize("policy", ["linear", "exact"])
def test_flexspec_drafts_as_many_as_link_and_acceptance_ask_for(pair, policy):
    costs = {"header_bits": 0.0}
    means = []
    for bandwidth in (1e2, 1e9):  # 0.41 s for a draft's bits, or nothing
        method = FlexSpec(policy, max_draft_length=6, costs=costs)
        watch, rows = watched(pair, method, link=FadingLink("steady", bandwidth, 1.0), new_tokens=24)
        lengths = [len(o.drafts) for o in watch.outcomes]
        full = [r.drafted for row in rows for r in row.rounds if not row.ended and r.position < 18]
        assert policy == "exact" or set(full) <= {1, 6}
        means.append(np.mean(lengths))
        tracker = AcceptanceTracker(step=0.1, method="ema_printed" if policy == "linear" else "consistent")
        for outcome in watch.outcomes:
            if outcome.sequence == 0 and outcome.drafts:
                tracker = tracker.update(outcome.accepted, len(outcome.drafts))
        assert method.trackers[0].estimate == pytest.approx(tracker.estimate)
    assert means[0] == 1.0 < means[1]


def test_prompt_lookup_copies_what_followed(pair):
    method = PromptLookup(max_draft_length=3, ngram=2)
    text = np.array([5, 6, 7, 8, 5, 6, 9, 1, 5, 6])
    assert list(method.guess(0, text)) == [9, 1, 5]
    assert list(method.guess(0, np.array([1, 2, 3, 4, 3]))) == [4, 3]
    assert list(method.guess(0, np.array([1, 2, 3]))) == []
    assert list(method.guess(0, np.array([1]))) == []
    watch, _ = watched(pair, method)
    assert all(
        draft.server_distribution is None and draft.probability == 1.0 for drafts, _ in watch.rounds for draft in drafts
    )


def test_lookahead_guesses_what_the_target_model_would_write():
    after = np.random.default_rng(2).integers(0, 3, 3)  # the next token depends on the last alone
    table = np.full((nodes(3, 6), 3), 0.02)
    for node in range(len(table)):
        last = (node - 1) % 3 if node else 0
        table[node, after[last]] = 0.96
    pair = table_pair(table, table)
    (row,) = decode(pair, [Prompt("a", "0", "test")], Lookahead(3), new_tokens=6, temperature=0.0)
    assert len(row.tokens) == 6
    assert all(row.tokens[i + 1] == after[row.tokens[i]] for i in range(5))
    assert len(row.rounds) <= 6
