"""Sealed rounds: what a session sends is what the policy sends, and all that is not of its round is refused by name."""

import hashlib
import hmac
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import codec, wire
from hlmtheory.codec.frame import framed, unframed
from hlmtheory.policy.answers import answer_bytes, answer_length, answer_of, cut_answer, longest_cut, received_answer
from hlmtheory.shared_seed import race_winner

KEY, NAME = b"0123456789abcdef", b"text 0001"
V = 8
POLICIES = [
    wire.DevicePolicy(V, 1.0, wire.threshold_rule(3), messages, bonus=bonus)
    for messages in (
        wire.LatticeRows(16, top_k=4),
        wire.DraftProbabilities(),
        wire.CertifiedRows(),
        wire.CertifiedAnswers(0.05),
    )
    for bonus in (True, False)
]
PLAIN = POLICIES[0]
KEYS = pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])


def sides(policy=PLAIN, key=KEY, session=NAME):
    return (side(policy, session=session, key=key) for side in (wire.DeviceSession, wire.ServerSession))


def drafts_of(policy, rng, count=3):
    return [policy.draft(rng.normal(size=V), place=n + 1, rng=rng) for n in range(count)]


def target_of(rng, count):
    return rng.dirichlet([0.3] * V, size=count + 1)


def opened(kind, call, *arguments, **options):
    with pytest.raises(kind) as refused:
        call(*arguments, **options)
    assert type(refused.value) is kind
    return str(refused.value)


@KEYS
@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: f"{type(one.messages).__name__}-{one.bonus}")
def test_a_session_gives_the_tokens_of_its_policy(policy, key):
    """The same numbers give the same tokens, round after round, as without a session."""
    device, server = sides(policy, key)
    bare, rng = wire.ServerPolicy(policy), np.random.default_rng(0)
    for n in range(150 if policy is PLAIN else 30):
        drafts = drafts_of(policy, rng, n % 4)
        target, seed = target_of(rng, len(drafts)), int(rng.integers(2**32))
        message = device.message(drafts)
        assert list(server.received(message)) == [draft.coded for draft in drafts]
        answer = server.verify(message, target, rng=np.random.default_rng(seed))
        plain = bare.verify(policy.message(drafts), target, rng=np.random.default_rng(seed))
        wanted = policy.tokens(drafts, plain, rng=np.random.default_rng(seed + 1))
        assert device.tokens(answer, rng=np.random.default_rng(seed + 1)) == wanted
        extra = wire.envelope_bits(n + 1, authenticated=key is not None) // 8
        assert len(message) == len(policy.message(drafts)) + extra == len(policy.message(drafts)) + len(message[:extra])
        assert len(answer) <= answer_length(policy, len(drafts)) + extra


def test_the_bytes_are_those_of_the_format():
    """Computed anew: the round, four bytes of a digest, the message, and 16 bytes of an HMAC or a CRC-32."""
    drafts = drafts_of(PLAIN, np.random.default_rng(1))
    for key, kind in ((KEY, b"mac"), (None, b"crc")):
        device, _ = sides(key=key)
        text = PLAIN.to_json().encode()
        context = hashlib.sha256(b"hlm-envelope-1" + kind + bytes([len(NAME)]) + NAME + text).digest()
        data = b"\0" + hashlib.sha256(b"up" + context).digest()[:4] + PLAIN.message(drafts)
        whole = b"up" + context + data
        seal = zlib.crc32(whole).to_bytes(4, "big") if key is None else hmac.digest(key, whole, "sha256")[:16]
        assert device.message(drafts) == data + seal


@pytest.mark.parametrize(
    ("rounds", "plain"), [(1, 9), (128, 9), (129, 10), (2**14, 10), (2**14 + 1, 11), (2**21 + 1, 12), (2**28 + 1, 13)]
)
def test_the_bits_of_an_envelope(rounds, plain):
    assert wire.envelope_bits(rounds, authenticated=False) == 8 * plain
    assert wire.envelope_bits(rounds, authenticated=True) == 8 * (plain + 12)


@KEYS
def test_replays_and_reordered_messages_are_refused_by_name(key):
    device, server = sides(key=key)
    rng, sent, answers = np.random.default_rng(2), [], []
    for _ in range(3):
        drafts = drafts_of(PLAIN, rng)
        sent.append(device.message(drafts))
        if answers:
            assert "round 0, and round" in opened(wire.ReplayedError, device.tokens, answers[0], rng=rng)
            assert "round 0, and round" in opened(wire.ReplayedError, server.received, sent[0])
        answers.append(server.verify(sent[-1], target_of(rng, 3), rng=rng))
        assert "is of round" in opened(wire.ReplayedError, server.verify, sent[-1], target_of(rng, 3), rng=rng)
        device.tokens(answers[-1], rng=rng)
    late, _ = sides(key=key)
    late.message(drafts)
    assert "of round 2, and round 0" in opened(wire.OutOfOrderError, late.tokens, answers[2], rng=rng)
    _, fresh = sides(key=key)
    assert "of round 1, and round 0" in opened(wire.OutOfOrderError, fresh.received, sent[1])
    assert len(fresh.received(sent[0])) == 3  # nothing has changed


@KEYS
def test_foreign_messages_are_refused_by_name(key):
    """Another temperature, another policy, another session, another key or none, and a message sent back."""
    rng = np.random.default_rng(3)
    drafts, target = drafts_of(PLAIN, rng), target_of(rng, 3)
    device, server = sides(key=key)
    message = device.message(drafts)
    answer = server.verify(message, target, rng=rng)
    others = [
        {"policy": replace(PLAIN, temperature=1.5)},
        {"policy": replace(PLAIN, bonus=False)},
        {"policy": replace(PLAIN, planned_for="other models")},
        {"session": b"text 0002"},
        {"key": None if key else KEY},
    ]
    for changed in others:
        other_device, other_server = sides(**{"key": key} | changed)
        opened(wire.ForeignError, other_server.received, message)
        other_device.message(drafts)
        opened(wire.ForeignError, other_device.tokens, answer, rng=rng)
    mirror, _ = sides(key=key)
    mirror.message(drafts)
    opened(wire.ForeignError, mirror.tokens, message, rng=rng)
    _, waiting = sides(key=key)
    opened(wire.ForeignError, waiting.received, answer)


def test_a_message_with_its_checksum_recomputed_is_refused_with_a_key():
    """A token was changed and the CRC-32 fitted: only the HMAC tells."""
    rng = np.random.default_rng(4)
    policy = POLICIES[2]
    device, server = sides(policy)
    message = device.message(drafts_of(policy, rng))
    kind, body = unframed(message[5:-16])
    token = bytearray(body)
    token[4] ^= 1
    other = message[:5] + framed(kind, bytes(token)) + message[-16:]
    assert "another key" in opened(wire.AuthenticationError, server.received, other)
    answer = server.verify(message, target_of(rng, 3), rng=rng)
    for place in range(5, len(answer)):
        changed = bytearray(answer)
        changed[place] ^= 1
        opened(wire.AuthenticationError, device.tokens, bytes(changed), rng=rng)
    assert device.tokens(answer, rng=rng)


@KEYS
def test_damaged_cut_and_extended_messages_are_refused_and_a_long_one_before_it_is_read(key):
    rng = np.random.default_rng(6)
    device, server = sides(key=key)
    message = device.message(drafts_of(PLAIN, rng))
    answer = server.verify(message, target_of(rng, 3), rng=rng)
    _, server = sides(key=key)
    calls = [(server.received, message), (lambda one: device.tokens(one, rng=rng), answer)]
    for call, data in calls:
        for place in range(8 * len(data)):
            changed = bytearray(data)
            changed[place // 8] ^= 1 << place % 8
            with pytest.raises(wire.CodecError):
                call(bytes(changed))
        for end in range(len(data)):
            with pytest.raises(wire.CodecError):
                call(data[:end])
        for more in (b"\0", bytes(40)):
            with pytest.raises(wire.CodecError):
                call(data + more)
    longer = [(call, data + bytes(13_000_000 - len(data))) for call, data in calls]
    tracemalloc.start()
    for call, data in longer:
        assert "13,000,000 bytes, and at most" in opened(wire.ExtendedError, call, data)
    assert tracemalloc.get_traced_memory()[1] < 1e5
    tracemalloc.stop()
    assert len(server.received(message)) == 3
    assert device.tokens(answer, rng=rng)


@KEYS
def test_a_sealed_message_that_the_device_could_not_send_is_refused(key):
    """The policy's own checks apply to what comes with the right seal."""
    device, server = sides(key=key)
    wide = replace(PLAIN, messages=wire.LatticeRows(16, top_k=6))
    body = wide.message([wide.draft([0.0] * V, rng=np.random.default_rng(0))])
    sealed = device._envelope.seal(body, direction=b"up", place=0)
    with pytest.raises(ValueError, match="got draft 0 as lattice of 6 tokens"):
        server.received(sealed)


def test_a_device_waits_for_its_answer():
    rng = np.random.default_rng(8)
    device, server = sides()
    with pytest.raises(ValueError, match="answer must follow a message"):
        device.tokens(b"x" * 30, rng=rng)
    with pytest.raises(ValueError, match="at most K = 3"):
        device.message(drafts_of(PLAIN, rng, 4))
    message = device.message([])
    with pytest.raises(ValueError, match="wait for the answer"):
        device.message([])
    assert len(device.tokens(server.verify(message, target_of(rng, 0), rng=rng), rng=rng)) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"session": b"short"}, "session must have 8 to 64 bytes; got 5"),
        ({"session": b"s" * 65}, "session must have 8 to 64 bytes; got 65"),
        ({"key": b"k" * 15}, "key must have 16 to 64 bytes; got 15"),
        ({"key": b"k" * 65}, "key must have 16 to 64 bytes; got 65"),
    ],
)
def test_names_and_keys_have_a_length(options, words):
    for side in (wire.DeviceSession, wire.ServerSession):
        with pytest.raises(ValueError, match=words):
            side(PLAIN, **{"session": NAME} | options)


SEEDED = wire.DevicePolicy(V, 1.0, wire.threshold_rule(3), wire.SeededTokens())


def seeded(key, seed, used):
    device = wire.DeviceSession(SEEDED, session=NAME, key=key, seed=seed)
    return device, wire.ServerSession(SEEDED, session=NAME, key=key, seed=seed, used=used)


@KEYS
def test_a_session_with_a_shared_seed_writes_the_target_s_own_text(key):
    rng, seed = np.random.default_rng(9), 123
    target, logits = rng.dirichlet([0.3] * V, size=V), rng.normal(size=(V, V))
    device, server = seeded(key, seed, set())
    text = [0]
    while len(text) < 60:
        drafts = []
        while len(drafts) < 3:
            last, position = drafts[-1].token if drafts else text[-1], len(text) + len(drafts)
            drafts.append(SEEDED.draft(logits[last], place=len(drafts) + 1, rng=rng, seed=seed, position=position))
        message = device.message(drafts)
        rows = target[[text[-1], *(draft.token for draft in server.received(message))]]
        text += device.tokens(server.verify(message, rows, rng=rng, position=len(text)), rng=rng)
    for position in range(1, 60):
        assert text[position] == int(race_winner(target[text[position - 1]], seed, position))


@KEYS
def test_another_seed_is_foreign_and_a_repeated_one_refused(key):
    used = set()
    device, server = seeded(key, 5, used)
    other, _ = seeded(key, 6, used)
    assert used == {5, 6}
    drafts = [SEEDED.draft([0.0] * V, rng=np.random.default_rng(0), seed=5, position=0)]
    opened(wire.ForeignError, server.received, other.message(drafts))
    assert len(server.received(device.message(drafts))) == 1
    with pytest.raises(ValueError, match=r"seed must be new.*got 5 again"):
        seeded(key, 5, used)
    seeded(key, 5, set())  # whoever repeats a text on purpose says so
    with pytest.raises(TypeError, match="used must be the set of seeds of earlier texts"):
        seeded(key, 7, None)


def test_a_policy_that_drafts_by_a_seed_needs_one():
    for side in (wire.DeviceSession, wire.ServerSession):
        with pytest.raises(ValueError, match="seed must be that of the text"):
            side(SEEDED, session=NAME)
        for wrong in (-1, 0.5, 2**63, True):
            with pytest.raises((ValueError, TypeError), match="seed"):
                side(SEEDED, session=NAME, seed=wrong)


@given(st.sampled_from(POLICIES), st.integers(0, 3), st.binary(max_size=40))
def test_any_bytes_are_an_answer_with_these_bytes_or_refused(policy, drafts, data):
    try:
        found = answer_of(policy, data, drafts)
    except wire.CodecError:
        return
    assert answer_bytes(policy, found, drafts) == data
    assert found.accepted <= drafts
    assert found.token is None or found.token < V


def test_a_certified_answer_of_other_models_is_refused():
    p = np.full(V, 1.0 / V)
    whole = cut_answer(p, 0, 1e-6)
    assert np.abs(received_answer(whole, V) - p).sum() <= 2e-6
    assert len(whole) <= longest_cut(V)
    for wrong, words in (
        (cut_answer(np.full(6, 1 / 6), 0, 0.1), "V = 6 and 24 bits"),
        (codec.encode(codec.truncated_message(p, top_k=2, token=0, bits=8)), "8 bits a probability"),
        (codec.encode(codec.truncated_message([p, p], top_k=2, token=[0, 1], bits=24)), "not one truncated"),
    ):
        with pytest.raises(wire.MalformedError, match=words):
            received_answer(wrong, V)
    assert len(cut_answer(np.random.default_rng(1).dirichlet(np.ones(4096)), 5, 1e-3)) < longest_cut(4096)


def test_wrong_answers_are_refused():
    other = POLICIES[2]
    for data in (b"", b"\0", np.zeros(V, dtype=">f4").tobytes(), b"\0" + np.full(V, np.nan, dtype=">f4").tobytes()):
        with pytest.raises(wire.MalformedError):
            answer_of(other, data, 3)
    good = b"\0" + np.full(V, 0.125, dtype=">f4").tobytes()
    assert answer_of(other, good, 3).target.tolist() == [0.125] * V
    for data in (good + b"\0", b"\1" + good[1:], b"\0" + np.full(V, 0.2, dtype=">f4").tobytes()):
        with pytest.raises(wire.MalformedError):
            answer_of(other, data, 3)
    six = replace(PLAIN, vocabulary=6)
    with pytest.raises(wire.MalformedError, match="not one to these drafts"):
        answer_of(six, bytes([0b11100000]), 0)
