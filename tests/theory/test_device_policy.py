"""A device's policy: its decisions, the bytes, the server's answer, the law of the text, and the strict file."""

import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import codec, policy, truncation, uncertainty, wire
from hlmtheory.codec.messages import KINDS as CODEC_KINDS
from hlmtheory.codec.selection import CodecChoice
from hlmtheory.policy.costs import DeviceRule
from hlmtheory.policy.device import REQUEST
from hlmtheory.policy.device_parts import drawn, numbers_for

MENU = codec.CodecMenu(kinds=("top-k", "lattice"), widths=(4, 8, 16), sizes=(1, 2, 3, 4, 8), resolutions=(1, 10, 100))
CERTIFIED, LATTICE, PROBABILITIES = wire.CertifiedRows(MENU), wire.LatticeRows(16, top_k=4), wire.DraftProbabilities()
ANSWERS = wire.CertifiedAnswers(0.1)
KINDS = (CERTIFIED, LATTICE, wire.LatticeRows(50, threshold=0.125), PROBABILITIES, ANSWERS)
SEEDED = wire.SeededTokens()
RULE = DeviceRule(3, True, 2.0**-8, 4.0, (2.0, 1.0), 3.0, 0.25)
LINE = wire.UncertaintyLine(0.9, 0.01)
PROMISES = (
    wire.Guarantee("total variation of a token", 0.05, "proved", None),
    wire.Guarantee("speed", 31.5, "measured", 53),
)
FULL = wire.DevicePolicy(8, 0.7, RULE, CERTIFIED, LINE, "8 ab cd", False, 400, PROMISES)


def make(messages=CERTIFIED, rule=RULE, vocabulary=8, temperature=1.0, line=LINE, **others):
    return wire.DevicePolicy(vocabulary, temperature, rule, messages, line, **others)


class Replay(np.random.Generator):
    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = list(numbers)

    def random(self, size=None):
        count = int(np.prod(size)) if size is not None else 1
        found, self.numbers = self.numbers[:count], self.numbers[count:]
        assert len(found) == count
        return found[0] if size is None else np.reshape(found, size)


finite = st.floats(-1e6, 1e6)
prices = st.floats(0.0, 1e6)
words = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=20)
some = st.integers(1, 500)
menus = st.builds(
    codec.CodecMenu,
    kinds=st.lists(st.sampled_from(("top-k", "lattice", "mixture")), min_size=1, unique=True).map(tuple),
    widths=st.lists(st.integers(1, 24), min_size=1, max_size=4).map(tuple),
    sizes=st.none() | st.lists(some, min_size=1, max_size=4).map(tuple),
    resolutions=st.none() | st.lists(some, min_size=1, max_size=4).map(tuple),
)
policies = st.builds(
    wire.DevicePolicy,
    vocabulary=st.integers(512, 2**18),
    temperature=st.floats(0.0, 10.0),
    rule=st.builds(
        lambda k, skips, later, *others: DeviceRule(k, skips, *others[:2], tuple(later[: max(k - 1, 0)]), *others[2:]),
        *(st.integers(0, 64), st.booleans(), st.lists(prices, max_size=4), prices, prices, finite, finite),
    ),
    messages=st.builds(wire.CertifiedRows, st.none() | menus)
    | st.builds(wire.LatticeRows, some, top_k=st.none() | some, threshold=st.floats(0.0, 1.0))
    | st.sampled_from((PROBABILITIES, SEEDED)),
    line=st.builds(wire.UncertaintyLine, finite, finite, st.floats(0.0, 4.0), st.none() | st.integers(1, 100)),
    planned_for=st.none() | words,
    bonus=st.booleans(),
    bits_limit=st.none() | some,
    guarantees=st.lists(
        st.builds(wire.Guarantee, words, finite, st.just("proved"), st.none())
        | st.builds(wire.Guarantee, words, finite, st.sampled_from(("calibrated", "measured")), some),
        max_size=3,
    ).map(tuple),
    alone=st.booleans(),
)


@given(policies)
def test_a_policy_survives_its_text(one):
    text = one.to_json()
    again = wire.DevicePolicy.from_json(text)
    assert again == one
    assert again.to_json() == text


def test_padded_sizes_are_in_the_text_of_a_policy_that_pads():
    plain = make(SEEDED, wire.threshold_rule(2), line=None)
    one = replace(plain, message_sizes=(24, 40))
    assert wire.DevicePolicy.from_json(one.to_json()) == one != plain
    assert json.loads(one.to_json()) == json.loads(plain.to_json()) | {"message_sizes": [24, 40]}
    for value, said in (
        ((40, 24), "message_sizes must ascend"),
        (24, "must be a row of sizes"),
        (tuple(range(1, 99)), "at most 64"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            replace(plain, message_sizes=value)
    for messages, rule in ((SEEDED, RULE), (PROBABILITIES, wire.threshold_rule(2))):
        with pytest.raises(ValueError, match=r"^message_sizes must be left out"):
            make(messages, rule, message_sizes=(99,))
    drafts = [one.draft(np.zeros(8), rng=np.random.default_rng(0), seed=1, position=4)]
    message = one.message(drafts)
    assert len(message) == 24
    assert wire.ServerPolicy(one).received(message) == wire.ServerPolicy(plain).received(plain.message(drafts))
    for damaged in (message[:-1], message + b"\0", message[:-1] + b"\1", bytes(24), plain.message(drafts)):
        with pytest.raises(ValueError):
            wire.ServerPolicy(one).received(damaged)


def test_only_a_policy_that_verifies_by_block_says_so():
    one = make(LATTICE, wire.threshold_rule(2, None), line=None)
    together = replace(one, block=True)
    assert "block" not in one.to_json()
    assert json.loads(together.to_json())["block"] is True
    assert wire.DevicePolicy.from_json(together.to_json()) == together != one
    for wrong in (
        lambda: make(LATTICE, block=True),
        lambda: make(PROBABILITIES, wire.threshold_rule(2, None), block=True),
    ):
        with pytest.raises(ValueError, match="block must be False unless every draft is sent as LatticeRows"):
            wrong()


def answer(text):
    """Return the policy of a text, or the refusal; no other error may appear."""
    try:
        return wire.DevicePolicy.from_json(text)
    except ValueError as error:
        return str(error)


@given(st.data())
def test_a_changed_text_is_refused_or_another_policy(data):
    text = FULL.to_json()
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from('0123456789.-+eE"{}[],:nulltrefas \\\x00é') | st.just(""))
    found = answer(text[:place] + other + text[place + 1 :])
    if not isinstance(found, str):
        assert wire.DevicePolicy.from_json(found.to_json()) == found


PLAIN = json.loads(FULL.to_json())
PARTS = {"": PLAIN, **{name: one for name, one in PLAIN.items() if isinstance(one, dict)}}
PARTS |= {"messages.menu": PLAIN["messages"]["menu"], "guarantees.0": PLAIN["guarantees"][0]}
PLACES = [(section, name) for section, part in PARTS.items() for name in part]
WRONG = [True, "x", -1.5, 1e400, {}, [[]], 10**400, "\x00", [1, None], -7]
MAY_BE = {  # what a field allows of these
    ("", "planned_for"): ["x"],
    ("", "bonus"): [True],
    ("rule", "skips"): [True],
    ("rule", "skip_slope"): [-1.5, -7],
    ("rule", "skip_level"): [-1.5, -7],
    ("guarantees.0", "quantity"): ["x"],
    ("guarantees.0", "value"): [-1.5, -7],
    ("uncertainty", "slope"): [-1.5, -7],
    ("uncertainty", "intercept"): [-1.5, -7],
}


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_wrong_field_is_refused_by_its_name(place):
    section, name = place

    def changed(change):
        plain = json.loads(FULL.to_json())
        part = plain
        for step in filter(None, section.split(".")):
            part = part[int(step) if step.isdigit() else step]
        change(part)
        return answer(json.dumps(plain))

    for value in WRONG:
        if any(type(one) is type(value) and one == value for one in MAY_BE.get(place, [])):
            continue
        found = changed(lambda part, value=value: part.update({name: value}))
        assert isinstance(found, str), (place, value)
        assert name in found or "finite numbers" in found, (value, found)
    assert f"{name} must be" in changed(lambda part: part.pop(name))
    assert "no field 'surplus'" in changed(lambda part: part.update(surplus=1))


def lattice_rows(top_k, threshold):
    return {"kind": "lattice rows", "resolution": 5, "top_k": top_k, "threshold": threshold}


def answers(**fields):
    return lambda plain: plain | {"messages": {"kind": "draft probabilities, certified answer"} | fields}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plain: plain | {"version": 1}, "version must be 2; got 1"),
        (lambda plain: plain | {"format": "hlm-trace"}, "format must be 'hlm-policy'"),
        (lambda plain: [plain], "the policy must be an object"),
        (lambda plain: plain | {"uncertainty": None}, "line must be given for a rule that skips"),
        (lambda plain: plain | {"messages": {"kind": "smoke"}}, "kind must be one of certified rows"),
        (lambda plain: plain | {"messages": {"kind": "draft probabilities", "k": 1}}, "no field 'k'"),
        (
            answers(limit=0.0),
            "messages: limit must be above 0 and below 1; got 0.0; DraftProbabilities sends the whole",
        ),
        (answers(limit=1e-9), "limit must be at least 4.8e-07 for V = 8"),
        (lambda plain: answers(limit=0.1)(plain) | {"temperature": 0.0}, "must be DraftProbabilities at temperature 0"),
        (lambda plain: plain | {"messages": {"kind": "shared seed"}}, "stream must be a field of shared seed"),
        (
            lambda plain: plain | {"messages": {"kind": "shared seed", "stream": "philox4x32-10 race 0"}},
            "messages: stream must be one of philox4x32-10 race 1",
        ),
        (lambda plain: plain | {"messages": lattice_rows(9, 0.0)}, "top_k must be at most V = 8"),
        (lambda plain: plain | {"messages": lattice_rows(8, None)}, "messages: threshold must be"),
    ],
)
def test_a_policy_of_another_kind_is_refused(change, words):
    assert words in answer(json.dumps(change(json.loads(FULL.to_json()))))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FULL.to_json().replace("0.7", "NaN"), "finite numbers; got NaN"),
        (FULL.to_json().replace("0.7", "Infinity"), "finite numbers; got Infinity"),
        (FULL.to_json().replace("0.7", "1e999"), "finite numbers; got 1e999"),
        (FULL.to_json().replace('"bonus"', '"version"'), "'version' must be there once"),
        ("[" * 100_000, "text must be JSON"),
        (FULL.to_json() + " " * 2**20, "at most 1,048,576 characters"),
        ("", "text must be JSON"),
    ],
)
def test_a_text_that_is_no_strict_json_is_refused(text, words):
    assert words in answer(text)


def logits_of(rng, vocabulary=8, scale=3.0):
    return rng.normal(scale=scale, size=vocabulary)


def test_a_token_is_drawn_with_its_probability():
    """All numbers of a grid, one in the middle of each cell, stand for all numbers: two levels of blocks at V = 128."""
    row = np.zeros(128)
    row[[3, 70, 71, 127]] = 0.25, 0.375, 0.125, 0.25
    assert numbers_for(128) == 2
    assert numbers_for(64) == numbers_for(1) == 1
    cells = 24
    middle = (np.arange(cells) + 0.5) / cells
    counts = Counter(drawn(row, Replay(pair)) for pair in itertools.product(middle, middle))
    assert {token: count / cells**2 for token, count in counts.items()} == {3: 0.25, 70: 0.375, 71: 0.125, 127: 0.25}
    assert drawn(row, Replay([np.nextafter(1.0, 0.0)] * 2)) == 127
    assert drawn(row, Replay([0.0, 0.0])) == 3


@cache
def every_message(row):
    """Return bits and half of 2 TV(q, q̂) of every row of the menu, by its bytes: encoded, decoded, compared."""
    row = np.array(row)
    kinds, sizes = CODEC_KINDS, [size for size in MENU.sizes if size <= len(row)]
    tried = [(kinds.index("top-k"), k, width) for k in (0, *sizes) for width in MENU.widths]
    tried += [(kinds.index("lattice"), k, units) for k in sizes for units in MENU.resolutions]
    found = []
    for kind, k, parameter in tried:
        mixture = kinds[kind] == "top-k"
        choice = CodecChoice(*map(np.asarray, (kind, k, parameter, mixture, 0, 0.0)))
        message = codec.coded_message(row, choice, token=0, probability=False)
        (decoded,) = codec.decoded_rows(codec.decode(codec.encode(message)))
        found.append((bits_of(*message.drafts), 0.5 * float(np.abs(row - decoded).sum())))
    return np.array(found).T


def bits_of(draft):
    gamma = lambda n: 2 * int(n).bit_length() - 1  # noqa: E731
    k, units = draft.support.size, draft.resolution
    if draft.kind == "top-k":
        return 2 + gamma(k + 1) + gamma(draft.bits) + k * (3 + draft.bits)
    number = math.comb(8, k) * math.comb(units + k - 1, k - 1)
    return 2 + gamma(k) + gamma(units) + (number - 1).bit_length()


@pytest.mark.parametrize("limit", [None, 12, 30])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_the_message_has_the_least_price_and_the_skip_is_the_rule(place, limit):
    rng = np.random.default_rng(5)
    kept = 0
    for _ in range(10):
        logits = logits_of(rng)
        x, *y = rng.choice([0.001, 0.01, 0.1, 1.0, 10.0], 3)
        y.append(y[1] / 4)
        rule = DeviceRule(3, True, x, y[0], tuple(y[1:]), *rng.normal(size=2))
        one = make(rule=rule, bits_limit=limit)
        found = one.draft(logits, place=place, rng=rng)
        bits, risk = every_message(tuple(one.distribution(logits).tolist()))
        allowed = bits <= (limit or np.inf)
        prices = np.where(allowed, x * bits + y[place - 1] * risk, np.inf)
        least = prices.min()
        cost = x * bits[np.flatnonzero(prices <= least * (1 + 1e-12))].min() if allowed.any() else np.inf
        u = float(uncertainty.expected_uncertainty(logits, found.token))
        beta = min(max(LINE.slope * u + LINE.intercept, 0.0), 1.0)
        assert found.skip == (place == 1 and rule.skip_slope * beta - cost <= rule.skip_level)
        assert found.rejection == (beta if place == 1 else None)
        kept += found.skip
        if not found.skip and allowed.any():
            sent = bits_of(found.coded)
            assert x * sent + y[place - 1] * found.bias / 2 == pytest.approx(least, rel=1e-9)
            assert sent <= (limit or np.inf)
    assert (place == 1) == (kept > 0)


def test_the_distribution_is_that_of_the_temperature_or_its_lattice():
    logits = np.array([3.0, 1.0, 0.5, 0.0, -1.0, -2.0, -np.inf, 2.0])
    for temperature in (0.5, 1.0, 2.0):
        weights = np.exp(logits / temperature)
        np.testing.assert_allclose(make(temperature=temperature).distribution(logits), weights / weights.sum())
    q = make().distribution(logits)
    assert make(wire.LatticeRows(10, threshold=1.0)).distribution(logits).tolist() == [1.0, *[0.0] * 7]
    for messages in (
        wire.LatticeRows(40, top_k=3),
        wire.LatticeRows(40, threshold=0.05),
        wire.LatticeRows(40, 2, 0.05),
    ):
        kept = np.argsort(-q)[: messages.top_k or 8]
        kept = kept[q[kept] >= messages.threshold]
        found = make(messages).distribution(logits)
        assert set(np.flatnonzero(found)) <= set(kept.tolist())
        assert np.abs(found[kept] - q[kept] / q[kept].sum()).max() < 1 / 40


def test_an_estimated_rejection_is_a_probability():
    rng = np.random.default_rng(0)
    for slope, intercept, beta in ((5.0, 0.0, 1.0), (-5.0, 0.0, 0.0), (0.0, 0.25, 0.25)):
        assert wire.UncertaintyLine(slope, intercept).rejection([0.0, 0.0], 0, rng=rng) == beta


@pytest.mark.parametrize("messages", [*KINDS, wire.CertifiedRows(codec.CodecMenu(kinds=("lattice",), sizes=(8,)))])
def test_a_draft_is_accepted_by_its_own_probability(messages):
    """Below p/q, and not at it, with the exact q_d of a certified row and the q̂_d of a lattice."""
    one = make(messages, DeviceRule(1, False, 1.0, 0.0, (), 0.0, 0.0), line=None)
    draft = one.decide(np.linspace(0.0, 1.0, 8), 7, rng=np.random.default_rng(0))
    target = np.full(8, (1 - 0.0625) / 7)
    target[7] = 0.0625
    border = 0.0625 / draft.distribution[7]
    for u, accepted in ((border * (1 - 1e-12), 1), (border * (1 + 1e-12), 0)):
        answer = wire.ServerPolicy(one).verify(one.message([draft]), [target, target], rng=Replay([u, 0.5]))
        assert answer.accepted == accepted


@pytest.mark.parametrize("length", [1, 3])
def test_a_device_decides_as_its_plan_on_the_plan_s_own_rows(length):
    rng = np.random.default_rng(3)
    rows = rng.normal(scale=4.0, size=(80, 8))
    probe = make(PROBABILITIES, wire.threshold_rule(1, 0.5))
    q = np.stack([probe.distribution(row) for row in rows])
    hulls = policy.codec_hulls(q, menu=MENU)
    token = q.argmax(axis=-1)
    beta = np.clip(LINE.slope * uncertainty.expected_uncertainty(rows, token) + LINE.intercept, 0.0, 1.0)
    costs = policy.StageCosts(
        draft_s=0.01, verify_s=0.03, seconds_per_bit=1e-4, round_trip_s=0.02, header_bits=2, token_bits=1
    )
    options = {"rejection": beta, "risk_limit": 0.02, "draft_lengths": [length], "mixing": False}
    plan = policy.plan_user(hulls, costs, [0.7] * 3, **options)
    one = make(rule=plan.rule)
    for n, row in enumerate(rows):
        first, *later = (one.decide(row, token[n], place=place, rng=rng) for place in range(1, length + 1))
        assert first.skip == plan.skip[n]
        if not first.skip:
            assert first.bias == pytest.approx(2 * hulls.risk[plan.first[n]], rel=1e-12)
        for draft, corners in zip(later, plan.later, strict=True):
            assert draft.bias == pytest.approx(2 * hulls.risk[corners[n]], rel=1e-12)
    assert 0 < plan.skip.sum() < len(rows)


@pytest.mark.parametrize("messages", KINDS, ids=lambda one: type(one).__name__)
@given(st.integers(0, 2**32))
def test_the_server_decodes_what_the_device_used(messages, seed):
    rng = np.random.default_rng(seed)
    one = make(messages, replace(RULE, skips=False))
    target = rng.dirichlet([0.3] * 8)
    drafts = [one.draft(logits_of(rng), place=n + 1, rng=rng) for n in range(3)]
    received = wire.ServerPolicy(one).received(one.message(drafts))
    assert list(received) == [draft.coded for draft in drafts]
    for draft, sent in zip(drafts, received, strict=True):
        assert sent.token == draft.token
        known = one.server_row(draft)
        if isinstance(messages, wire.LatticeRows):
            np.testing.assert_array_equal(known, draft.distribution)  # what the draft was drawn from
            np.testing.assert_array_equal(sent.counts / messages.resolution, known[sent.support])
            assert draft.bias == 0.0
            continue
        assert sent.probability == draft.distribution[draft.token]
        if isinstance(messages, wire.DraftProbabilities):
            np.testing.assert_array_equal(known, draft.distribution)
            assert draft.bias == (2.0 * ANSWERS.limit if messages == ANSWERS else 0.0)
            continue
        (decoded,) = codec.decoded_rows(wire.MixedMessage(8, (sent,)))
        np.testing.assert_array_equal(known, decoded)
        certificate = codec.decoded_rows(wire.MixedMessage(8, (replace(sent, probability=None),)))[0]
        assert np.abs(draft.distribution - certificate).sum() <= draft.bias  # what it was computed from
        emitted = truncation.decoded_output_distribution(target, draft.distribution, certificate)
        assert np.abs(emitted - target).sum() <= draft.bias * (1 + 1e-12)


def law_of_a_round(one, logits, target, cells):
    """Return the exact law of the first token of a round: q is of quarters, and a grid stands for the other numbers."""
    found, middle, server = Counter(), (np.arange(cells) + 0.5) / cells, wire.ServerPolicy(one)
    for draw in (0.125, 0.375, 0.625, 0.875):
        draft = one.draft(logits, rng=Replay([draw]))
        if draft.skip:
            found[draft.token] += cells**2
            continue
        message = one.message([draft])
        for accept, replace_ in itertools.product(middle, middle):
            answer = server.verify(message, np.stack([target] * 2), rng=Replay([accept, replace_]))
            found[one.tokens([draft], answer, rng=Replay([replace_]))[0]] += 1
    return np.array([found[token] for token in range(len(target))]) / (4 * cells**2)


Q, P = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])


@pytest.mark.parametrize("messages", [wire.LatticeRows(4, top_k=3), PROBABILITIES], ids=lambda one: type(one).__name__)
def test_without_skipping_a_round_has_the_target_s_law(messages):
    one = make(messages, wire.threshold_rule(1, None), vocabulary=3, line=None)
    np.testing.assert_allclose(law_of_a_round(one, np.log(Q), P, 4), P, atol=1e-12)


def test_a_certified_answer_moves_a_token_by_less_than_its_limit():
    q, p = np.array([0.75, 0.25, 0.0, 0.0]), np.array([0.25, 0.25, 0.375, 0.125])
    laws = [
        law_of_a_round(
            make(wire.CertifiedAnswers(limit), wire.threshold_rule(1), vocabulary=4, line=None),
            np.log(q + 1e-300),
            p,
            12,
        )
        for limit in (0.1, 1e-6)
    ]
    assert 0.5 * np.abs(laws[0] - p).sum() == pytest.approx(1 / 24, abs=0.01)  # p̂ = (1/4, 3/16, 3/8, 3/16)
    assert 0.5 * np.abs(laws[1] - p).sum() < 0.02


def test_drafts_that_are_verified_by_block():
    """Of one message: how often each kept block and token occur, over a grid of numbers, by the law of the theory."""
    one = make(wire.LatticeRows(4, top_k=3), wire.threshold_rule(2, None), vocabulary=3, line=None, block=True)
    cells = [(np.arange(count) + 0.5) / count for count in (20, 20, 4)]

    def counts(tokens, rows):
        message = one.message([one.decide(np.log(Q), token, rng=np.random.default_rng(0)) for token in tokens])
        answers = (wire.ServerPolicy(one).verify(message, rows, rng=Replay(u)) for u in itertools.product(*cells))
        return Counter((answer.accepted, answer.token) for answer in answers)

    # w_1 = .5 and w_2 = min(1, .5 · 2) = 1: the block of both always passes, the first alone is never the longest
    assert counts((0, 1), [P, P, Q]) == {(2, 0): 800, (2, 1): 400, (2, 2): 400}
    # w = (.5, .25), S_1 = (.375 - .25)⁺ = .125, h_1 = .125/.625: kept 2, 1 and 0 with .25, .15 and .6; both residuals
    # are of token 1 alone
    assert counts((0, 0), [P, [0.25, 0.75, 0.0], Q]) == {
        **{(2, 0): 200, (2, 1): 100, (2, 2): 100},
        **{(1, 1): 240, (0, 1): 960},
    }


def test_a_skipped_token_has_the_draft_s_law_and_others_that_of_verification():
    """Skip token 0 alone: it is kept with q_0, and the others are verified."""
    u = [float(uncertainty.expected_uncertainty(np.log(Q), token)) for token in range(3)]
    assert u[0] < min(u[1:])
    one = make(PROBABILITIES, wire.threshold_rule(1, u[0]), vocabulary=3, line=wire.UncertaintyLine(1.0, 0.0))
    found = law_of_a_round(one, np.log(Q), P, 4)
    np.testing.assert_allclose(found, [0.5, 0.25, 0.25], atol=1e-12)  # tokens 1 and 2 are always accepted
    assert 0.5 * np.abs(found - P).sum() == pytest.approx(np.maximum(Q - P, 0.0)[0])


def test_a_coarse_certified_row_biases_a_round_by_its_certificate_at_most():
    target = np.array([0.0, 0.75, 0.25])
    rule = DeviceRule(1, False, 1.0, 0.0, (), 0.0, 0.0)  # the fewest bits
    one = make(CERTIFIED, rule, vocabulary=3, line=None)
    found = law_of_a_round(one, np.log(Q), target, 8)
    draft = one.decide(np.log(Q), 0, rng=np.random.default_rng(0))
    assert 0 < np.abs(found - target).sum() <= draft.bias


def test_the_server_answers_the_first_rejection_and_the_bonus():
    one = make(wire.LatticeRows(4, top_k=3), wire.threshold_rule(3, None), vocabulary=3, line=None)
    drafts = [one.decide(np.log(Q), token, place=2, rng=np.random.default_rng(0)) for token in (0, 1, 2)]
    rows, message = np.stack([P] * 4), one.message(drafts)
    server = wire.ServerPolicy(one)
    every = server.verify(message, rows, rng=Replay([0.4, 0.9, 0.9, 0.8]))  # p_0/q_0 = 1/2
    assert (every.accepted, every.token) == (3, 2)
    second = server.verify(message, np.stack([P, [1.0, 0.0, 0.0], P, P]), rng=Replay([0.4, 0.9, 0.3]))
    assert (second.accepted, second.token) == (1, 0)
    none = wire.ServerPolicy(replace(one, bonus=False)).verify(message, rows, rng=Replay([0.4, 0.9, 0.9]))
    assert (none.accepted, none.token) == (3, None)
    request = wire.ServerPolicy(replace(one, bonus=False)).verify(one.message([]), [P], rng=Replay([0.3]))
    assert (one.message([]), request.accepted, request.token) == (REQUEST, 0, 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (wire.ServerAnswer(2, 1), "answer must be to the 1 drafts; got 2 accepted"),
        (wire.ServerAnswer(1, None, P), "answer must be to the 1 drafts; got 1 accepted"),
        (wire.ServerAnswer(0, 3), "answer must be a token in 0..V-1 with V = 3"),
        (wire.ServerAnswer(-1, 1), "answer must be a whole number, 0 or more"),
        (wire.ServerAnswer(0, None, np.array([0.5, 0.5])), r"target must have shape \(3,\)"),
    ],
)
def test_an_answer_to_other_drafts_is_refused(answer, words):
    one = make(PROBABILITIES, wire.threshold_rule(1), vocabulary=3, line=None)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=words):
        one.tokens([one.draft(np.log(Q), rng=rng)], answer, rng=rng)


def test_temperature_zero_takes_the_likeliest_token():
    for messages in (one for one in KINDS if one != ANSWERS):
        one = make(messages, replace(RULE, skips=False), temperature=0.0)
        draft = one.draft(np.array([0.0, 3.0, 3.0, 1.0, 0.0, 0.0, 0.0, 0.0]), rng=np.random.default_rng(0))
        assert (draft.token, draft.distribution[1]) == (1, 1.0)
    np.testing.assert_allclose(make(temperature=0.5).distribution(np.log([0.25] * 4 + [1e-9] * 4))[:4], 0.25)


def test_other_messages_are_refused():
    rng = np.random.default_rng(0)
    drafts = {type(one): make(one, replace(RULE, skips=False)) for one in (CERTIFIED, LATTICE, PROBABILITIES, SEEDED)}
    where = {"seed": 1, "position": 0}
    sent = {kind: one.message([one.draft(logits_of(rng), rng=rng, **where)]) for kind, one in drafts.items()}
    for kind, one in drafts.items():
        server = wire.ServerPolicy(one)
        for other, message in sent.items():
            if other is kind:
                server.received(message)
            else:
                with pytest.raises(ValueError, match="message must be of at most 3 drafts over V = 8"):
                    server.received(message)
        with pytest.raises(ValueError, match="message must be of at most 3 drafts over V = 9"):
            wire.ServerPolicy(replace(one, vocabulary=9)).received(sent[kind])
        with pytest.raises(ValueError, match="at most 0 drafts"):
            wire.ServerPolicy(replace(one, rule=wire.threshold_rule(0, None))).received(sent[kind])
        with pytest.raises(ValueError, match="drafts must be at most K = 3"):
            one.message([one.draft(logits_of(rng), rng=rng, **where)] * 4)
        with pytest.raises(TypeError, match="message must be bytes"):
            server.received("x")
        with pytest.raises(ValueError, match=r"target must have shape \(2, 8\)"):
            server.verify(sent[kind], [[0.125] * 8], rng=rng, **where)
    wide, narrow = (make(wire.LatticeRows(16, top_k=k), replace(RULE, skips=False)) for k in (4, 2))
    with pytest.raises(ValueError, match="message must be of at most 3 drafts"):
        wire.ServerPolicy(narrow).received(wide.message([wide.draft([0.0] * 8, rng=rng)]))
    skipped = make(rule=wire.threshold_rule(1, 1.0)).draft(logits_of(rng), rng=rng)
    assert skipped.skip
    with pytest.raises(ValueError, match="drafts must be those that are sent"):
        make().message([skipped])
    assert make().server_row(skipped) is None


def test_a_device_needs_numpy_alone():
    texts = [replace(FULL, messages=messages, vocabulary=8).to_json() for messages in (*KINDS, SEEDED)]
    program = f"""
import sys
import numpy as np
from hlmtheory.wire import DevicePolicy, ServerPolicy
rng = np.random.default_rng(0)
for text in {texts!r}:
    policy = DevicePolicy.from_json(text)
    where = {{"seed": 7, "position": 3}}
    policy.draft(rng.normal(size=8), rng=rng, **where)
    draft = policy.draft(rng.normal(size=8), place=2, rng=rng, **where)
    ServerPolicy(policy).verify(policy.message([draft]), [[0.125] * 8] * 2, rng=rng, **where)
heavy = {{"torch", "scipy", "validation", "cvxpy", "sympy", "statsmodels", "pandas", "zarr"}}
print(sorted(heavy & {{name.split(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("missing", ["seed", "position"])
def test_a_shared_seed_needs_its_place_in_the_stream(missing):
    one, rng = make(SEEDED, wire.threshold_rule(2), line=None), Replay([])  # nothing is drawn beside the stream
    where = {"seed": 3, "position": 4}
    drafts = [one.draft([0.0] * 8, rng=rng, **where)]
    message = one.message(drafts)
    one.tokens(drafts, wire.ServerPolicy(one).verify(message, [[0.125] * 8] * 2, rng=rng, **where), rng=rng)
    part = {name: value for name, value in where.items() if name != missing}
    for call in (
        lambda some: one.draft([0.0] * 8, rng=rng, **some),
        lambda some: wire.ServerPolicy(one).verify(message, [[0.125] * 8] * 2, rng=rng, **some),
    ):
        with pytest.raises(ValueError, match=f"{missing} must be given to draw from the shared stream"):
            call(part)
        for wrong in (-1, 2**63, 0.5, True):
            with pytest.raises((ValueError, TypeError), match=missing):
                call(where | {missing: wrong})


def test_what_a_certified_bias_is_of_where_a_rule_skips():
    """The law's distance is at most bias + 2 Σ s q for every target, and above the bias alone for some."""
    rng, above = np.random.default_rng(3), 0
    device = make(rule=replace(RULE, skip_level=1.5))
    for _ in range(60):
        logits = rng.normal(0.0, 2.0, 8)
        q = device.distribution(logits)
        drafts = [device.decide(logits, token, rng=rng) for token in range(8)]
        skipped = np.array([draft.skip for draft in drafts])
        bias = max((draft.bias for draft in drafts if draft.bias is not None), default=0.0)
        for p in (*rng.dirichlet(np.full(8, 0.3), 5), np.eye(8)[int(q.argmin())]):
            law = np.where(skipped, q, 0.0)
            for draft in (draft for draft in drafts if not draft.skip):
                missing = np.maximum(p - device.server_row(draft), 0.0)
                kept = min(1.0, p[draft.token] / q[draft.token])
                law = law + q[draft.token] * kept * np.eye(8)[draft.token]
                law = law + q[draft.token] * (1.0 - kept) * missing / max(missing.sum(), 1e-300)
            distance = np.abs(law - p).sum()
            assert distance <= bias + 2.0 * q[skipped].sum() + 1e-9
            above += bool(0 < skipped.sum() < 8 and distance > bias + 1e-9)
    assert above
