"""A device that never stops drafting: the text is the target's own at any delays; all else is refused by name."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import codec, wire
from hlmtheory.codec.envelope import DOWN, UP
from hlmtheory.codec.frame import varint
from hlmtheory.codec.messages import TokenDraft
from hlmtheory.policy.answers import answer_bytes
from hlmtheory.policy.device_parts import ServerAnswer
from hlmtheory.shared_seed import race_winner

KEY, NAME, V, PROMPT, SEED = b"0123456789abcdef", b"text 0001", 5, 4, 99
POLICY = wire.DevicePolicy(V, 1.0, wire.threshold_rule(1), wire.StreamedTokens(), bonus=False)


def sides(key=KEY, seed=SEED, session=NAME, position=PROMPT):
    common = {"session": session, "key": key, "seed": seed, "position": position}
    return wire.StreamedDevice(POLICY, **common), wire.StreamedServer(POLICY, **common, used=set())


def row(text, model):
    """A distribution that depends on the whole text; the two models agree in part."""
    common, own = (np.random.default_rng([*text, 7, one]).dirichlet([0.5] * V) for one in (0, model))
    return 0.7 * common + 0.3 * own


def targets(server, count):
    text = [*server.text]
    return np.stack([row((*text, *server.waiting[:n]), 1) for n in range(count)])


def drafted(device):
    return device.draft(np.log(row((*device.text, *device.waiting), 2)))


def alone(length):
    text = []
    while len(text) < length:
        text.append(int(race_winner(row(text, 1), SEED, PROMPT + len(text))))
    return text


@given(st.lists(st.sampled_from(("draft", "up", "pass", "part", "down")), max_size=120), st.sampled_from((None, KEY)))
def test_the_text_is_the_targets_own_whatever_the_delays(steps, key):
    """Links that deliver in order, with any delay; passes over all drafts that wait, or over one of them."""
    device, server = sides(key)
    up, down = deque(), deque()
    for step in [*steps, *["draft", "up", "pass", "down"] * 3]:
        if step == "draft":
            up.append(drafted(device)[1])
        elif step == "up" and up:
            server.receive(up.popleft())
        elif step in ("pass", "part") and server.waiting:
            down.append(server.verify(targets(server, len(server.waiting) if step == "pass" else 1)))
        elif step == "down" and down:
            before, found = device.text, device.tokens(down.popleft())
            assert device.text == (*before, *found)
        assert device.text == server.text[: len(device.text)]
    assert list(server.text) == alone(len(server.text))


def test_drafts_behind_a_mismatch_are_dropped_on_both_sides():
    device, server = sides()
    wrong = next(n for n in range(60) if race_winner(row(alone(n), 2), SEED, PROMPT + n) != alone(n + 1)[-1])
    late = []
    for n in range(wrong + 4):
        message = drafted(device)[1]
        if n <= wrong + 1:
            assert server.receive(message)
        else:
            late.append(message)
    answer = server.verify(targets(server, wrong + 1))
    assert server.waiting == ()
    assert [server.receive(message) for message in late] == [False, False]  # sent before the device knew
    assert device.tokens(answer) == alone(wrong + 1)
    assert device.waiting == ()
    assert server.receive(drafted(device)[1])  # the new start
    assert server.waiting == device.waiting


def opened(kind, call, *arguments):
    with pytest.raises(kind) as refused:
        call(*arguments)
    assert type(refused.value) is kind
    return str(refused.value)


@pytest.mark.parametrize("key", [None, KEY])
def test_messages_and_answers_out_of_order_are_refused_by_name_and_change_nothing(key):
    device, server = sides(key)
    sent = [drafted(device)[1] for _ in range(3)]
    opened(wire.OutOfOrderError, server.receive, sent[1])
    server.receive(sent[0])
    opened(wire.ReplayedError, server.receive, sent[0])
    answers = [server.verify(targets(server, 1))]
    opened(wire.ReplayedError, server.receive, sent[0])
    server.receive(sent[1])
    if server.waiting:
        answers.append(server.verify(targets(server, 1)))
        opened(wire.OutOfOrderError, device.tokens, answers[1])
    device.tokens(answers[0])
    opened(wire.ReplayedError, device.tokens, answers[0])
    assert list(device.text) == alone(len(device.text))


@pytest.mark.parametrize("change", [{"session": b"text 0002"}, {"seed": SEED + 1}, {"key": None}])
def test_foreign_messages_are_refused(change):
    device, server = sides()
    other, verifier = sides(**{"key": KEY} | change)
    opened(wire.ForeignError, server.receive, drafted(other)[1])
    message = drafted(device)[1]
    opened(wire.ForeignError, verifier.receive, message)
    server.receive(message)
    opened(wire.ForeignError, other.tokens, server.verify(targets(server, 1)))


@pytest.mark.parametrize("key", [None, KEY])
def test_cut_damaged_and_long_messages_are_refused(key):
    device, server = sides(key)
    message = drafted(device)[1]
    for size in range(len(message)):
        with pytest.raises(ValueError, match=r"."):
            server.receive(message[:size])
    for at in range(8 * len(message)):
        bad = bytearray(message)
        bad[at // 8] ^= 1 << at % 8
        with pytest.raises(ValueError, match=r"."):
            server.receive(bytes(bad))
    with pytest.raises(ValueError, match="expected"):
        server.receive(message + bytes(1000))
    assert server.receive(message)
    with pytest.raises(TypeError, match="message must be bytes"):
        server.receive("text")


def sealed(side, body, direction, place):
    return side._envelope.seal(body, direction=direction, place=place)


def test_a_sealed_message_that_no_device_or_server_writes_is_refused():
    device, server = sides()
    empty, draft = b"\0", POLICY.message([POLICY.draft([0.0] * V, rng=np.random.default_rng(0), seed=1, position=0)])
    assert "without a draft" in opened(wire.MalformedError, server.receive, sealed(device, varint(0) + empty, UP, 0))
    assert "of start 1" in opened(wire.MalformedError, server.receive, sealed(device, varint(1) + draft, UP, 0))
    two = codec.encode(wire.TokenMessage(V, (TokenDraft(1), TokenDraft(2))))
    with pytest.raises(ValueError, match="at most 1 drafts"):
        server.receive(sealed(device, varint(0) + two, UP, 0))
    drafted(device)
    for count, answer in ((2, ServerAnswer(2, None)), (1, ServerAnswer(0, 3))):
        bad = varint(count) + answer_bytes(POLICY, answer, count) + (b"" if count == 2 else b"\0")
        opened(wire.MalformedError, device.tokens, sealed(server, bad, DOWN, 0))
    with pytest.raises(ValueError, match="verified drafts"):
        device.tokens(sealed(server, varint(0), DOWN, 0))
    assert len(device.waiting) == 1
    assert device.text == server.text == server.waiting == ()


def test_rows_that_do_not_fit_the_drafts_are_refused():
    device, server = sides()
    for rows in (np.eye(V)[:1], np.zeros((0, V))):
        with pytest.raises(ValueError, match=r"target must"):
            server.verify(rows)
    server.receive(drafted(device)[1])
    for rows in (np.eye(V)[:2], np.eye(V)[0], np.eye(V + 1)[:1], np.full((1, V), 0.3)):
        with pytest.raises(ValueError, match=r"target must"):
            server.verify(rows)
    assert len(server.verify(targets(server, 1))) > 0


def test_so_many_drafts_may_wait_and_no_more(monkeypatch):
    monkeypatch.setattr("hlmtheory.policy.streaming.LONGEST_BATCH", 50)
    device, server = sides(None)
    logits = np.zeros(V)
    messages = [device.draft(logits)[1] for _ in range(50)]
    with pytest.raises(ValueError, match="at most 50 drafts may wait"):
        device.draft(logits)
    assert all(map(server.receive, messages))
    with pytest.raises(ValueError, match="at most 50 drafts may wait"):
        server.receive(sealed(device, varint(0) + codec.encode(wire.TokenMessage(V, (TokenDraft(0),))), UP, 50))


def test_a_streamed_policy_has_one_draft_a_message_and_no_skips():
    assert wire.DevicePolicy.from_json(POLICY.to_json()) == POLICY
    for rule, bonus in (
        (wire.threshold_rule(2), False),
        (wire.threshold_rule(1), True),
        (wire.threshold_rule(0), False),
    ):
        with pytest.raises(ValueError, match="rule and bonus must be"):
            wire.DevicePolicy(V, 1.0, rule, wire.StreamedTokens(), bonus=bonus)
    for side in (wire.DeviceSession, wire.ServerSession):
        with pytest.raises(ValueError, match="policy must send in rounds"):
            side(POLICY, session=NAME, seed=1)
    in_rounds = wire.DevicePolicy(V, 1.0, wire.threshold_rule(1), wire.SeededTokens(), bonus=False)
    for side in (wire.StreamedDevice, wire.StreamedServer):
        with pytest.raises(TypeError, match="policy must have StreamedTokens"):
            side(
                in_rounds, session=NAME, seed=1, position=0, **({} if side is wire.StreamedDevice else {"used": set()})
            )
        used = {} if side is wire.StreamedDevice else {"used": set()}
        with pytest.raises((TypeError, ValueError), match="seed"):
            side(POLICY, session=NAME, seed=None, position=0, **used)
        with pytest.raises(ValueError, match="position"):
            side(POLICY, session=NAME, seed=1, position=-1, **used)
    assert in_rounds.to_json() != POLICY.to_json()
