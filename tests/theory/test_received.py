"""What a server accepts: every message that the policy's device sends, and of all others none, at a bounded cost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from hlmtheory import codec, wire
from hlmtheory.codec.frame import framed, varint
from hlmtheory.codec.messages import LatticeDraft, MixedDraft
from hlmtheory.policy.costs import DeviceRule

from .mutated_messages import POLICIES, V, honest, is_sent, logits_of, mutations

NONE = np.empty(0, dtype=np.int64)


def message_of(*drafts, vocabulary=60):
    kind = wire.LatticeMessage if isinstance(drafts[0], LatticeDraft) else wire.MixedMessage
    return codec.encode(kind(vocabulary, drafts))


def refused(policy, message, words="message must be of at most"):
    with pytest.raises(ValueError, match=words):
        wire.ServerPolicy(policy).received(message)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("kind", range(5))
def test_a_long_or_foreign_message_is_refused_before_it_is_decoded(name, kind, monkeypatch):
    """13 MB took 3.8 GB and 13 s, 1.7 kB took 0.4 s: the decoder is not reached."""
    monkeypatch.setattr("hlmtheory.codec.enumerative.unrank", lambda *_: pytest.fail("it is decoded"))
    head = varint(2**18) + varint(1)
    for length in (300, 1700, 273_000, 13_000_000):
        refused(POLICIES[name], framed(kind, head + b"\1" + bytes(length)))
    refused(POLICIES[name], framed(kind, head + b"\1" + bytes(3)))


@given(st.integers(0, 2**32 - 1))
def test_no_message_of_a_device_is_refused(seed):
    rng = np.random.default_rng(seed)
    for policy in POLICIES.values():
        if policy.vocabulary == 60 and (message := honest(policy, rng)) is not None:
            assert is_sent(policy, wire.ServerPolicy(policy).received(message))


@pytest.mark.parametrize("seed", range(3))
def test_of_mutated_messages_a_server_takes_what_some_device_sends(seed):
    servers, taken = {name: wire.ServerPolicy(policy) for name, policy in POLICIES.items()}, 0
    for name, message, changed in mutations(POLICIES, 400, seed):
        try:
            drafts = servers[name].received(message)
        except ValueError:
            continue
        if changed and POLICIES[name].vocabulary == V:
            taken += 1
            assert is_sent(POLICIES[name], drafts), (name, message.hex(), drafts)
    assert taken > 0


widths = st.lists(st.integers(1, 24), min_size=1, max_size=3).map(tuple)
sizes = st.none() | st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple)
menus = st.builds(
    codec.CodecMenu,
    kinds=st.lists(st.sampled_from(("top-k", "lattice", "mixture")), min_size=1, unique=True).map(tuple),
    widths=widths,
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=3).map(tuple),
    resolutions=st.lists(st.sampled_from((1, 2, 7, 100, 2**20)), min_size=1, max_size=3).map(tuple),
)
prices = st.sampled_from((0.0, 2.0**-12, 2.0**-6, 1.0, 8.0))
rules = st.lists(prices, max_size=2).flatmap(
    lambda later: st.builds(
        DeviceRule,
        st.integers(len(later) + 1, 3),
        st.booleans(),
        prices,
        prices,
        st.just(tuple(later)),
        prices,
        st.floats(-1.0, 1.0),
    )
)


def test_at_temperature_0_each_place_has_the_entry_of_its_own_price():
    """The first price sends the whole row, the second one nothing of it."""
    menu = codec.CodecMenu(kinds=("top-k",), widths=(1,), sizes=(1,), resolutions=(1,))
    policy = wire.DevicePolicy(2, 0.0, DeviceRule(2, False, 0.0, 2.0**-12, (0.0,), 0.0, 0.0), wire.CertifiedRows(menu))
    drafts = [policy.draft([0.0, 1.0], place=place, rng=np.random.default_rng(1)) for place in (1, 2)]
    assert list(wire.ServerPolicy(policy).received(policy.message(drafts))) == [draft.coded for draft in drafts]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from((2, 3, 7, 12)),
    st.sampled_from((0.0, 0.05, 1.0, 3.0)),
    st.builds(wire.CertifiedRows, menus)
    | st.builds(wire.LatticeRows, st.integers(1, 40), st.sampled_from((None, 1, 2)), st.floats(0.0, 1.0))
    | st.sampled_from((wire.DraftProbabilities(), wire.SeededTokens())),
    rules,
    st.none() | st.integers(1, 60),
)
def test_no_message_of_any_policy_s_device_is_refused(seed, vocabulary, temperature, messages, rule, limit):
    """Rows with ties, zeros and a single 1, at prices of 0, with limits that nothing keeps."""
    policy = wire.DevicePolicy(
        vocabulary, temperature, rule, messages, wire.UncertaintyLine(0.7, 0.1), bits_limit=limit
    )
    try:
        server, rng = wire.ServerPolicy(policy), np.random.default_rng(seed)
    except ValueError as error:
        if "menu must hold a message" not in str(error):  # such as a mixture of two tokens at V = 2
            raise
        reject()
    for _ in range(10):
        where = {"seed": seed, "position": 0}
        drafts = [policy.draft(logits_of(rng, vocabulary), rng=rng, **where)]
        while len(drafts) < rule.draft_length:
            drafts.append(policy.draft(logits_of(rng, vocabulary), place=len(drafts) + 1, rng=rng, **where))
        if not drafts[0].skip:
            assert list(server.received(policy.message(drafts))) == [draft.coded for draft in drafts]


def probability(own, width=1):
    return MixedDraft("top-k", NONE, NONE, None, width, 7, own)


def top_k(levels, own, token=7, width=9, support=None):
    support = np.arange(len(levels)) if support is None else support
    return MixedDraft("top-k", np.asarray(support), np.asarray(levels), None, width, token, own)


def lattice(counts, own, token=7, kind="lattice", rest=None):
    return MixedDraft(kind, np.arange(len(counts)), np.asarray(counts), rest, 0, token, own)


def counts(*values, token=0):
    return LatticeDraft(np.arange(len(values)), np.asarray(values), token)


@pytest.mark.parametrize(
    ("name", "draft"),
    [
        ("probabilities", probability(0.0)),  # a token of probability 0 is never drawn
        ("probabilities", probability(None)),
        ("probabilities", probability(0.5, width=2)),
        ("cold probabilities", probability(0.5)),  # the likeliest token has probability 1
        ("cold lattice", counts(60, 40)),
        ("cold menu", top_k([511], 1.0, token=0)),  # dearer than a lattice of one token
        ("top-k on a lattice", counts(60, 39)),  # ℓ
        ("top-k on a lattice", counts(60, 40, 0)),  # a token without a count
        ("top-k on a lattice", counts(*[6] * 15, 5, 5)),  # 17 tokens
        ("threshold on a lattice", counts(98, 1, 1)),  # far below the threshold
        ("threshold on a lattice", counts(94, 3, 3)),  # 3.4 units each take 0.8 from the first, which gives 0.6
        ("coarse lattice", counts(*[1] * 7)),
        ("menu", probability(0.5, width=8)),  # b
        ("menu", top_k([3, 2, 1, 0], 0.1)),  # k
        ("menu", top_k([100, 50], 0.25)),  # the token that is not written is more likely than those that are
        ("menu", top_k([100, 50], 0.25, token=1)),  # its level is another
        ("menu", top_k([511, 0], 0.5)),  # more than 1
        ("menu", lattice([99, 1], 0.5, token=1)),  # q_d = 0.5 has 50 of 100 units or more
        ("menu", lattice([2, 2], 0.9, token=1)),
        ("menu", lattice([1, 1, 1, 1, 0], 0.6)),
        ("menu", lattice([50, 2], 0.9, kind="mixture", rest=48)),  # q_d is more than the rest
        ("menu", lattice([99], 0.5, token=0)),  # ℓ is not on the menu
        ("menu with a limit", lattice([30, 25, 20, 10, 5, 5, 3, 2], 0.3, token=0)),  # more bits than the limit
    ],
)
def test_a_message_that_no_device_sends_is_refused(name, draft):
    refused(POLICIES[name], message_of(draft))


def test_a_threshold_near_zero_keeps_every_token():
    """1 over the smallest positive number is infinite."""
    policy = wire.DevicePolicy(60, 1.0, wire.threshold_rule(1), wire.LatticeRows(100, threshold=5e-324))
    message = policy.message([policy.draft(np.zeros(60), rng=np.random.default_rng(0))])
    assert len(wire.ServerPolicy(policy).received(message)) == 1


def test_prices_of_zero_leave_the_shortest_row():
    """At a risk price of 0 the device sends the fewest bits: no probability but q_d."""
    free = replace(POLICIES["menu"], rule=DeviceRule(4, False, 2.0**-8, 4.0, (0.0,), 1.0, 0.0))
    dear, cheap = lattice([60, 40], 0.6, token=0), probability(0.6, width=4)
    wire.ServerPolicy(free).received(message_of(dear, cheap))
    refused(free, message_of(dear, dear), "draft 1 as lattice of 2 tokens at 100")
    refused(replace(free, rule=replace(free.rule, first_risk_price=0.0)), message_of(dear, cheap), "draft 0")


def test_a_first_draft_that_is_always_skipped_is_refused():
    every = wire.DevicePolicy(
        60, 1.0, wire.threshold_rule(4, 1.0), wire.DraftProbabilities(), wire.UncertaintyLine(1.0, 0.0)
    )
    refused(every, message_of(probability(0.5)))
    assert wire.ServerPolicy(every).received(every.message([])) == ()
    wire.ServerPolicy(replace(every, rule=wire.threshold_rule(4, 0.99))).received(message_of(probability(0.5)))
    limit = replace(POLICIES["menu that skips"], bits_limit=1)
    refused(limit, message_of(probability(0.6, width=4)))  # no row is within the limit: it is skipped
