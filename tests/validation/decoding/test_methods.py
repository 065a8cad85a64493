"""The decoding methods: their decisions, and messages that the server can read."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import validation
from hlmtheory import codec
from hlmtheory.channel import vocabulary_payload_bits
from hlmtheory.draft_length import AcceptanceTracker, optimal_draft_length, round_costs
from hlmtheory.truncation import certified_size, decoded_draft, online_size, tail_deviation
from hlmtheory.uncertainty import expected_uncertainty
from tests.validation.tiny_texts import nodes, table_pair
from tests.validation.unpacking import Unpacker, float_of
from tests.validation.watching import FOUR as PROMPTS
from tests.validation.watching import watched
from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink
from validation.decoding.loop import DecodingError, decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import (
    BlockVerification,
    Dssd,
    FixedLength,
    FlexSpec,
    Lookahead,
    PromptLookup,
)
from validation.decoding.methods.quantized import AllocatedSqs, BudgetedCSqs, BudgetedSqs, CSqs, DenseQs, KSqs
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import (
    CloudOnly,
    CuHlmCertified,
    CuHlmOffline,
    CuHlmOnline,
    DraftOnly,
    Hlm,
    RandHlm,
    TargetOnly,
    UHlm,
)
from validation.decoding.random_streams import Noise
from validation.decoding.session import Draft, Outcome, Session, Step
from validation.decoding.wire import index_bits
from validation.errors import UserError
from validation.models.pair import Pair

ALL: list[Method] = [
    DraftOnly(),
    TargetOnly(),
    CloudOnly(),
    Hlm(),
    RandHlm(0.5),
    UHlm(0.5, "U-HLM risk-averse"),
    UHlm(0.7, "U-HLM risk-prone", draws=None),
    CuHlmOffline(0.5, 30),
    CuHlmOnline(0.5, slope=0.8, intercept=-0.05),
    CuHlmCertified(0.5),
    FixedLength(4),
    BlockVerification(4),
    Dssd(4),
    FlexSpec("linear", printed_acceptance=True),
    FlexSpec("linear"),
    FlexSpec("exact", printed_acceptance=True),
    FlexSpec("exact"),
    PromptLookup(),
    Lookahead(),
    SharedSeed(3),
    DenseQs(),
    KSqs(32),
    CSqs(0.001),
    CSqs(0.001, printed=True),
    CSqs(0.001, learning_rate=0.0),
    BudgetedSqs(),
    BudgetedCSqs(0.001),
    AllocatedSqs(300.0),
    KSqs(32, by_bytes=True),
]


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.0}, {"temperature": 1.0, "top_p": 0.9}], ids=["greedy", "top-p"]
)
@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_every_method_writes_texts_and_counts_them(pair: Pair, method: Method, settings: dict[str, float]) -> None:
    link = FadingLink("steady", 1e6, 3.0)
    for row in decode(pair, PROMPTS, method, new_tokens=8, link=link, risk=True, **settings):  # type: ignore[arg-type]
        sums = {name: row.total(name) for name in ("accepted", "resampled", "bonus", "skipped", "drafted", "bytes")}
        own = sums["accepted"] + sums["resampled"] + sums["bonus"] + sums["skipped"]
        assert own == len(row.tokens) == (8 if not row.ended else len(row.tokens))
        assert sums["accepted"] + sums["resampled"] <= max(sums["drafted"], sums["accepted"])
        assert (row.total("link_s") > 0) == (sums["bytes"] > 0)
        assert row.total("risk") >= 0
        assert [one.position for one in row.rounds] == sorted(one.position for one in row.rounds)


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_every_method_may_have_nothing_to_write(pair: Pair, method: Method) -> None:
    for row in decode(pair, PROMPTS, method, new_tokens=0, risk=True):
        assert (row.tokens, row.ended, row.rounds, row.total("draft_passes")) == ([], False, [], 0)


def test_hlm_sends_whole_rows(pair: Pair) -> None:
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


def test_rand_hlm_skips_its_share(pair: Pair) -> None:
    for share in (0.0, 0.5, 1.0):
        _, rows = watched(pair, RandHlm(share), new_tokens=30)
        tokens, skipped = sum(len(row.tokens) for row in rows), sum(row.total("skipped") for row in rows)
        assert abs(skipped - share * tokens) <= 4 * np.sqrt(tokens * share * (1 - share))


def test_u_hlm_skips_where_it_is_sure() -> None:
    rng = np.random.default_rng(1)
    draft, target = (rng.dirichlet(np.full(3, 0.5), nodes(3, 3)) for _ in range(2))
    pair = table_pair(draft, target)
    prompts = [Prompt(str(i), "0", "test") for i in range(40)]
    for draws in (None, 400):
        for row in decode(pair, prompts, UHlm(0.4, draws=draws), new_tokens=1):
            (token,) = row.tokens
            u = float(expected_uncertainty(np.log(draft[0]), token))
            if abs(u - 0.4) > 0.1 and row.total("skipped"):
                assert u < 0.4
    never, always = (decode(pair, prompts, UHlm(t), new_tokens=3) for t in (-0.1, 1.0))
    assert sum(row.total("skipped") for row in never) == 0
    assert sum(row.total("drafted") for row in always) == 0


@pytest.mark.parametrize("draws", [None, 20])
def test_a_draft_at_the_threshold_itself_is_kept(draws: int | None) -> None:
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
    assert draws is None or set(np.unique(u * draws)) <= set(range(draws + 1))
    for limit in (u[0], np.nextafter(u[0], -1.0)):
        method.threshold = float(limit)
        assert method.skip(step, tokens).tolist() == (u <= limit).tolist()
    assert not method.skip(step, tokens)[0]


@pytest.mark.parametrize(
    "method",
    [CuHlmOffline(-1.0, 12), CuHlmOnline(-1.0, slope=0.8, intercept=0.1), CuHlmCertified(-1.0, bias_tolerance=0.05)],
)
def test_a_truncated_message_holds_the_row_that_the_server_judges_by(pair: Pair, method: Any) -> None:
    watch, _ = watched(pair, method)
    beyond = 0
    for (draft,), message in watch.rounds:
        decoded = codec.decode(message.payload)
        assert isinstance(decoded, codec.TruncatedMessage)
        (sent,) = decoded.drafts
        assert (sent.token, len(sent.indices), decoded.bits) == (draft.token, *draft.note)
        assert draft.note.bits == method.bits
        assert sent.probability == pytest.approx(draft.probability)
        assert draft.server_distribution is not None
        np.testing.assert_allclose(codec.decoded_rows(decoded)[0], draft.server_distribution.numpy(), atol=1e-9)
        assert message.bits == draft.note.k * (index_bits(pair.vocabulary) + method.bits)
        beyond += draft.token not in sent.indices
    assert beyond > 0 or not isinstance(method, CuHlmOffline)  # q_d is sent besides the k entries


def test_sizes_are_the_theorys(pair: Pair) -> None:
    certified, online = (
        CuHlmCertified(-1.0, bias_tolerance=0.05),
        CuHlmOnline(-1.0, slope=0.8, intercept=0.1, draws=None),
    )
    for (draft,), _ in watched(pair, certified)[0].rounds:
        q = draft.distribution.double()
        assert draft.note == (int(certified_size(q, 0.05, bits_per_probability=16)), 16)
        assert draft.server_distribution is not None
        assert 2 * float(0.5 * (q / q.sum() - draft.server_distribution).abs().sum()) <= 0.05
    watch = watched(pair, online)[0]
    sizes = {draft.note.k for (draft,), _ in watch.rounds}
    assert len(sizes) > 1
    q, token = watch.rounds[-1][0][0].distribution.double(), watch.rounds[-1][0][0].token
    grid = [int(online_size(q, token, b, 0.1, sharpness=5.0)) for b in np.linspace(0.0, 1.0, 200)]
    assert min(grid) <= watch.rounds[-1][0][0].note.k <= max(grid)
    assert float(tail_deviation(q)[0]) > 0
    assert decoded_draft(q, 5).shape == q.shape


@pytest.mark.parametrize("bias", [0.05, 0.4])
def test_the_certified_size_keeps_the_bias_of_a_token_within_its_bound(pair: Pair, bias: float) -> None:
    """The mean of β_d TV(r, r̂) over the draft, as the loop sums it, is within ε; uncertified, it exceeds ε."""
    risks = {}
    for method in (CuHlmCertified(-1.0, bias_tolerance=bias), CuHlmOffline(-1.0, 1)):
        rows = decode(pair, PROMPTS, method, new_tokens=20, risk=True)
        rounds = [one for row in rows for one in row.rounds]
        risks[method.name] = sum(one.risk for one in rounds) / sum(one.drafted for one in rounds)
    certified, offline = risks.values()
    assert 0 < certified <= bias
    assert certified < offline


def test_a_row_too_flat_for_16_bits_is_certified_with_more() -> None:
    """Zipf's law over 100,000 tokens: with 16 bits no k is within 0.1, so the run would stop there."""
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


def test_split_verification_sends_probabilities_up_and_a_row_down(pair: Pair) -> None:
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
def test_at_temperature_0_split_verification_sends_tokens_alone(pair: Pair, method: Method) -> None:
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
def test_flexspec_drafts_as_many_as_link_and_acceptance_ask_for(pair: Pair, policy: str) -> None:
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


def test_flexspec_begins_with_the_best_length_for_its_first_belief(pair: Pair) -> None:
    costs = round_costs(1e12, bits_per_token=9.0 + 32, edge_slope_s=0.0256, cloud_base_s=0.1046, header_bits=320.0)
    rows = decode(pair, PROMPTS, FlexSpec(max_draft_length=6), new_tokens=20)
    assert max(row.rounds[0].drafted for row in rows) == int(optimal_draft_length(0.8, *costs, 6))


def test_prompt_lookup_copies_what_followed(pair: Pair) -> None:
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


def test_lookahead_guesses_what_the_target_model_would_write() -> None:
    rng = np.random.default_rng(2)
    after = rng.integers(0, 3, 3)  # the next token depends on the last alone
    table = np.full((nodes(3, 6), 3), 0.02)
    for node in range(len(table)):
        last = (node - 1) % 3 if node else 0
        table[node, after[last]] = 0.96
    pair = table_pair(table, table)
    (row,) = decode(pair, [Prompt("a", "0", "test")], Lookahead(3), new_tokens=6, temperature=0.0)
    assert len(row.tokens) == 6
    assert all(row.tokens[i + 1] == after[row.tokens[i]] for i in range(5))
    assert len(row.rounds) <= 6


def test_a_draft_without_a_row_says_so() -> None:
    with pytest.raises(ValueError, match="token 3 was not drafted by the draft model"):
        _ = Draft(3).distribution


def test_a_round_without_drafts_teaches_nothing(pair: Pair) -> None:
    flexspec, lookahead = FlexSpec(max_draft_length=2), Lookahead(2)
    for method in (flexspec, lookahead):
        decode(pair, PROMPTS[:1], method, new_tokens=2)
    before = flexspec.trackers[0], list(lookahead.guesses[0])
    for method in (flexspec, lookahead):
        method.learn(Outcome(0, [], 0, False, None))
    assert (flexspec.trackers[0], list(lookahead.guesses[0])) == before


# ------------------------------------------------------------------------------------------------- edges

TINY = [*(method for method in ALL if not isinstance(method, KSqs)), KSqs(2), KSqs(2, by_bytes=True)]
"""Every method with settings for three tokens."""


def any_pair(vocabulary: int = 3, **options: Any) -> Pair:
    rng = np.random.default_rng(4)
    return table_pair(*(rng.dirichlet(np.ones(vocabulary), nodes(vocabulary, 5)) for _ in range(2)), **options)


@pytest.mark.parametrize("method", TINY, ids=lambda m: m.name)
def test_every_method_may_write_the_end_at_once(method: Method) -> None:
    always = np.tile([0.0, 0.0, 1.0], (nodes(3, 5), 1))
    pair = table_pair(always, always, end_tokens=(2,), prompt="1 2 1")
    for row in decode(pair, [Prompt(name, "1 2 1", "test") for name in "abc"], method, new_tokens=4, risk=True):
        assert (row.tokens, row.ended) == ([2], True)
        assert sum(row.total(name) for name in ("accepted", "resampled", "bonus", "skipped")) == 1


@pytest.mark.parametrize("method", TINY, ids=lambda m: m.name)
def test_every_method_may_fill_the_context(method: Method) -> None:
    pair = any_pair(prompt="1 2", context=7)
    prompts = [Prompt(name, "1 2", "test") for name in "abcd"]
    assert {len(row.tokens) for row in decode(pair, prompts, method, new_tokens=5)} == {5}
    with pytest.raises(UserError, match="'a' of test is 2 tokens long, but only 1 fit"):
        decode(pair, prompts, method, new_tokens=6)
    whole = Prompt("whole", "0 1 2 0 1 2 0", "test")
    assert [row.tokens for row in decode(pair, [whole], method, new_tokens=0)] == [[]]
    with pytest.raises(UserError, match="'whole' of test is 7 tokens long, but only 6 fit"):
        decode(pair, [whole], method, new_tokens=1)


@pytest.mark.parametrize("method", TINY, ids=lambda m: m.name)
def test_no_method_writes_an_id_that_no_token_has(method: Method) -> None:
    pair = replace(any_pair(5), vocabulary=3)
    for model in (pair.draft, pair.target):
        model.table[:, 3:] += 5.0  # type: ignore[index, operator]
    rows = decode(pair, [Prompt(str(i), "0", "test") for i in range(20)], method, new_tokens=4)
    assert {token for row in rows for token in row.tokens} == {0, 1, 2}


@pytest.mark.parametrize(
    ("method", "broken"),
    [(method, name) for method in TINY for name in ("draft", "target") if getattr(method, f"runs_{name}")],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_method_stops_at_a_nan_and_keeps_what_is_finished(method: Method, broken: str) -> None:
    prompts = [Prompt(name, "0", "test") for name in "abcdefghijkl"]
    settings: dict[str, Any] = {"new_tokens": 5, "batch": 4}
    whole = decode(any_pair(end_tokens=(2,)), prompts, method, **settings)
    pair, finished = any_pair(end_tokens=(2,)), []
    model: Any = getattr(pair, broken)

    def call(self: Any, *args: Any, **options: Any) -> Any:
        output = type(model).__base__.forward(self, *args, **options)
        if len(finished) >= 5:  # in the second batch or the third
            output.logits[..., 1] = torch.nan
        return output

    model.__class__ = type("Broken", (type(model),), {"__call__": call})
    words = rf"The {broken} model \(tables/{broken}\) gives logits that are not finite, at prompt '[e-l]', new token \d"
    with pytest.raises(DecodingError, match=words) as caught:
        decode(pair, prompts, method, on_finished=finished.append, **settings)
    kept = caught.value.records
    assert len(kept) >= 5
    assert [row.tokens for row in kept] == [whole["abcdefghijkl".index(row.prompt)].tokens for row in kept]
    assert sorted(row.prompt for row in kept) == sorted(row.prompt for row in finished)


def code_lines(source: str, node: ast.ClassDef) -> int:
    """Return the lines of a class without docstrings and empty lines."""
    left = set(range(node.lineno, (node.end_lineno or 0) + 1))
    for inner in ast.walk(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(inner):
            left -= set(range(inner.body[0].lineno, (inner.body[0].end_lineno or 0) + 1))
    lines = source.splitlines()
    return sum(bool(lines[number - 1].strip()) for number in left)


def test_a_method_takes_under_40_lines() -> None:
    lengths = {}
    for file in (Path(validation.__file__).parent / "decoding" / "methods").glob("*.py"):
        source = file.read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                lengths[node.name] = code_lines(source, node)
    assert len(lengths) > 18
    assert {name for name, lines in lengths.items() if lines >= 40} <= {
        "Method",
        "LevelTree",
        "Sqs",
        "Switched",
        "Planned",
    }  # base classes; a policy in a file
