"""A device and its server over one text: every message and answer carries its round, the policy, and proof of both.

The two sides share a policy, a session's name, perhaps a key, and a seed if the policy drafts by one.
"""

from collections.abc import MutableSet, Sequence
from typing import Any

import numpy as np

from hlmtheory._array import Array, brief
from hlmtheory._domains import COUNT, DomainError, flag, generator, instance, number
from hlmtheory.codec.envelope import CHECK, DOWN, HMAC, MARK, MOST_ROUNDS, UP, Envelope
from hlmtheory.codec.frame import varint
from hlmtheory.policy.answers import answer_bytes, answer_length, answer_of
from hlmtheory.policy.device import DevicePolicy
from hlmtheory.policy.device_parts import Coded, DeviceDraft, SeededTokens, StreamedTokens
from hlmtheory.policy.server import ServerPolicy
from hlmtheory.shared_seed.stream import SEED

_LEAST, _MOST = {"session": 8, "key": 16}, 64  # bytes


def envelope_bits(rounds: int, *, authenticated: bool) -> int:
    """Return the bits that the envelope adds to a message, and to its answer, in a text of 1 to 2^32 rounds.

    With a key (``authenticated``) it has 16 bytes of HMAC, without one 4 of CRC-32. Other numbers raise a ValueError.
    """
    last = number(COUNT, "rounds", rounds) - 1
    if not 0 <= last < MOST_ROUNDS:
        raise DomainError(f"rounds must be in 1..{MOST_ROUNDS}; got {rounds}; give those of one text")
    return 8 * (len(varint(last)) + MARK + (HMAC if flag("authenticated", authenticated) else CHECK))


class DeviceSession:
    """The device's side of a session.

    ``session`` is its name, 8 to 64 bytes, one for each text; ``key`` 16 to 64 secret bytes, or None: messages are
    checked for damage alone; ``seed`` the text's, in 0..2^63 - 1, for :class:`SeededTokens`.

    Examples
    --------
    >>> from hlmtheory.wire import LatticeRows, threshold_rule
    >>> policy = DevicePolicy(4, 1.0, threshold_rule(1), LatticeRows(100, top_k=2))
    >>> device, server = (side(policy, session=b"text 0001", key=b"k" * 16) for side in (DeviceSession, ServerSession))
    >>> rng = np.random.default_rng(0)
    >>> message = device.message([policy.draft([9.0, 0.0, 9.0, 0.0], rng=rng)])
    >>> answer = server.verify(message, [[0.0, 0.0, 0.0, 1.0]] * 2, rng=rng)
    >>> device.tokens(answer, rng=rng), len(message), len(answer)
    ([3], 35, 22)
    """

    def __init__(
        self, policy: DevicePolicy, *, session: bytes, key: bytes | None = None, seed: int | None = None
    ) -> None:
        self._policy = _in_rounds(policy)
        self._envelope = _envelope(self._policy, session, key, _seed(self._policy, seed))
        self._round = 0
        self._sent: tuple[DeviceDraft, ...] | None = None  # drafts that wait for their answer

    def message(self, drafts: Sequence[DeviceDraft]) -> bytes:
        """Return the bytes of the next round; ``drafts`` as for :meth:`DevicePolicy.message`."""
        if self._sent is not None:
            raise DomainError(f"drafts must follow the answer to round {self._round}; got others; wait for the answer")
        body, given = self._policy.message(drafts), tuple(drafts)
        if self._round >= MOST_ROUNDS:
            raise DomainError(f"drafts must be of the first {MOST_ROUNDS} rounds; got one more; begin another session")
        self._sent = given
        return self._envelope.seal(body, direction=UP, place=self._round)

    def tokens(self, answer: bytes, *, rng: np.random.Generator) -> list[int]:
        """Return the tokens of the round that is answered; ``rng`` as for :meth:`DevicePolicy.tokens`.

        Wrong answers raise a ForeignError, AuthenticationError, ReplayedError, OutOfOrderError or ValueError.
        """
        rng, data, sent = generator("rng", rng), _bytes("answer", answer), self._sent
        if sent is None:
            raise DomainError("answer must follow a message; got one before it; send the round first")
        longest = answer_length(self._policy, len(sent))
        body = self._envelope.unseal(data, direction=DOWN, place=self._round, longest=longest)
        found = self._policy.tokens(sent, answer_of(self._policy, body, len(sent)), rng=rng)
        self._round, self._sent = self._round + 1, None
        return found


class ServerSession:
    """The server's side of a session; a refused message changes nothing, so that the right one may still come.

    ``used`` holds the seeds of earlier texts, for :class:`SeededTokens`: a repeated one is refused, since two texts
    with one seed are not independent; this one is added.
    """

    def __init__(
        self,
        policy: DevicePolicy,
        *,
        session: bytes,
        key: bytes | None = None,
        seed: int | None = None,
        used: MutableSet[int] | None = None,
    ) -> None:
        self._server = ServerPolicy(_in_rounds(policy))
        self._seed = _seed(policy, seed)
        self._envelope = _envelope(policy, session, key, self._seed)
        _use(self._seed, used)
        self._round = 0

    def received(self, message: bytes) -> tuple[Coded, ...]:
        """Return the drafts of the next round; the round stays open. Errors are as of :meth:`DeviceSession.tokens`."""
        data, longest = _bytes("message", message), self._server.longest
        body = self._envelope.unseal(data, direction=UP, place=self._round, longest=longest)
        return self._server.received(body)

    def verify(self, message: bytes, target: Array, *, rng: np.random.Generator, position: int | None = None) -> bytes:
        """Return the answer to the next round, and close it; as :meth:`received` and :meth:`ServerPolicy.verify`."""
        drafts = self.received(message)
        answer = self._server._answer(drafts, target, generator("rng", rng), self._seed, position)
        sent = answer_bytes(self._server.policy, answer, len(drafts))
        sealed = self._envelope.seal(sent, direction=DOWN, place=self._round)
        self._round += 1
        return sealed


def _in_rounds(policy: Any) -> DevicePolicy:
    if isinstance(instance("policy", policy, DevicePolicy).messages, StreamedTokens):
        raise DomainError("policy must send in rounds; got StreamedTokens; use StreamedDevice and StreamedServer")
    return policy  # type: ignore[no-any-return]


def _seed(policy: DevicePolicy, seed: Any) -> int | None:
    needed = isinstance(policy.messages, SeededTokens)
    if needed and seed is None:
        raise DomainError(f"seed must be that of the text under a shared seed; got None; {SEED.remedy}")
    known = None if seed is None else int(number(SEED, "seed", seed))
    return known if needed else None


def _use(seed: int | None, used: Any) -> None:
    if seed is None and used is None:
        return
    if not isinstance(used, MutableSet):
        raise TypeError(f"used must be the set of seeds of earlier texts; got {brief(used)}; give set() to begin")
    if seed is None:
        return
    if seed in used:
        raise DomainError(
            f"seed must be new, since two texts with one seed are not independent; got {seed} again; draw it with "
            "secrets.randbits(63)"
        )
    used.add(seed)


def _envelope(policy: DevicePolicy, session: Any, key: Any, seed: int | None) -> Envelope:
    given = {"session": session} if key is None else {"session": session, "key": key}
    for name, value in given.items():
        if not _LEAST[name] <= len(_bytes(name, value)) <= _MOST:
            raise DomainError(
                f"{name} must have {_LEAST[name]} to {_MOST} bytes; got {len(value)}; draw it with secrets.token_bytes"
            )
    text = policy.to_json() + ("" if seed is None else f"seed {seed}\n")
    return Envelope.of(text, bytes(session), None if key is None else bytes(key))


def _bytes(name: str, value: Any) -> bytes:
    """The value itself: it is as long as its sender wants, so it is not copied."""
    if not isinstance(value, bytes):
        raise TypeError(f"{name} must be bytes; got {brief(value)}; give bytes(...) of it")
    return value
