"""A device that drafts on by a shared seed while the server verifies: each draft is a message, each pass an answer.

A draft's message is the number of starts so far and one token; an answer the drafts of its pass, how many are accepted,
and at a mismatch the server's token. Messages of an earlier start are dropped. The link must deliver in order.
"""

from collections.abc import MutableSet

from hlmtheory._array import Array, brief
from hlmtheory._domains import DomainError, instance, number
from hlmtheory._simplex import canonical
from hlmtheory.codec import encode
from hlmtheory.codec.envelope import DOWN, MOST_ROUNDS, UP
from hlmtheory.codec.frame import MalformedError, Reader, varint
from hlmtheory.codec.messages import LONGEST_BATCH, TokenDraft, TokenMessage
from hlmtheory.policy.answers import answer_bytes, answer_length, answer_of
from hlmtheory.policy.costs import Numbers
from hlmtheory.policy.device import DevicePolicy
from hlmtheory.policy.device_parts import ServerAnswer, StreamedTokens, raced
from hlmtheory.policy.server import ServerPolicy
from hlmtheory.policy.session import _bytes, _envelope, _use
from hlmtheory.shared_seed.stream import POSITION, SEED

_NUMBER = len(varint(MOST_ROUNDS))


class _Side:
    """What both sides know: the text so far, its place in the stream, and how often the drafts started again."""

    def __init__(
        self, policy: DevicePolicy, *, session: bytes, key: bytes | None = None, seed: int, position: int
    ) -> None:
        if not isinstance(instance("policy", policy, DevicePolicy).messages, StreamedTokens):
            raise TypeError(
                f"policy must have StreamedTokens; got {brief(policy.messages)}; use DeviceSession and ServerSession"
            )
        self._policy, self._seed = policy, int(number(SEED, "seed", seed))
        self._envelope = _envelope(policy, session, key, self._seed)
        self._first = int(number(POSITION, "position", position))
        self._text: list[int] = []
        self._waiting: list[int] = []  # drafts that no pass has verified
        self._sent = self._received = self._starts = 0

    @property
    def text(self) -> tuple[int, ...]:
        """The verified tokens, without the prompt."""
        return tuple(self._text)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The drafts behind the text that this side knows no answer to."""
        return tuple(self._waiting)

    def _close(self, verified: int, answer: ServerAnswer) -> list[int]:
        """Move the verified drafts into the text, and start again behind a mismatch; return the new tokens."""
        tokens = self._waiting[: answer.accepted]
        self._waiting = self._waiting[verified:]
        if answer.token is not None:
            tokens, self._waiting, self._starts = [*tokens, answer.token], [], self._starts + 1
        self._text += tokens
        return tokens

    def _place(self, counted: int) -> int:
        if counted >= MOST_ROUNDS:
            raise DomainError(f"a session has at most {MOST_ROUNDS} messages; got one more; begin another session")
        return counted


class StreamedDevice(_Side):
    """The device's side of a session whose drafts never stop; ``position`` is the prompt's length in tokens.

    Examples
    --------
    >>> from hlmtheory.wire import StreamedTokens, threshold_rule
    >>> policy = DevicePolicy(4, 1.0, threshold_rule(1), StreamedTokens(), bonus=False)
    >>> device = StreamedDevice(policy, session=b"text 0001", seed=5, position=3)
    >>> server = StreamedServer(policy, session=b"text 0001", seed=5, used=set(), position=3)
    >>> for logits in ([9.0, 0.0, 0.0, 0.0], [0.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 0.0]):
    ...     token, message = device.draft(logits)
    ...     waits = server.receive(message)
    >>> answer = server.verify([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])  # a pass over two of them
    >>> device.tokens(answer), device.waiting
    ([0, 3], ())
    """

    def draft(self, logits: Array) -> tuple[int, bytes]:
        """Return the draft of the next position, and its message; at most 4,096 drafts wait for an answer.

        ``logits`` (V,) are the draft model's behind the prompt, :attr:`text` and :attr:`waiting`.
        """
        if len(self._waiting) >= LONGEST_BATCH:
            raise DomainError(f"at most {LONGEST_BATCH} drafts may wait; got one more; wait for an answer")
        place = self._place(self._sent)
        where = (self._seed, self._first + len(self._text) + len(self._waiting))
        token = raced(self._policy.distribution(logits), where)
        body = varint(self._starts) + encode(TokenMessage(self._policy.vocabulary, (TokenDraft(token),)))
        self._waiting.append(token)
        self._sent += 1
        return token, self._envelope.seal(body, direction=UP, place=place)

    def tokens(self, answer: bytes) -> list[int]:
        """Return the tokens of the next answered pass; after a mismatch the drafts behind it are dropped."""
        longest = _NUMBER + answer_length(self._policy, LONGEST_BATCH)
        data = _bytes("answer", answer)
        body = self._envelope.unseal(data, direction=DOWN, place=self._received, longest=longest)
        reader = Reader(body)
        verified = reader.varint("the number of verified drafts", 1, LONGEST_BATCH)
        if verified > len(self._waiting):
            raise MalformedError(f"{verified} drafts are answered and {len(self._waiting)} wait; no server writes that")
        found = answer_of(self._policy, body[len(varint(verified)) :], verified)
        self._received += 1
        return self._close(verified, found)


class StreamedServer(_Side):
    """The server's side of a session whose drafts never stop; arguments as for :class:`StreamedDevice`."""

    def __init__(
        self,
        policy: DevicePolicy,
        *,
        session: bytes,
        key: bytes | None = None,
        seed: int,
        used: MutableSet[int],
        position: int,
    ) -> None:
        super().__init__(policy, session=session, key=key, seed=seed, position=position)
        self._server = ServerPolicy(policy)
        _use(self._seed, used)

    def receive(self, message: bytes) -> bool:
        """Read the next message; return whether its draft waits for a pass, or follows a mismatch and is dropped."""
        data, longest = _bytes("message", message), _NUMBER + self._server.longest
        body = self._envelope.unseal(data, direction=UP, place=self._received, longest=longest)
        start = Reader(body).varint("the number of starts", 0, MOST_ROUNDS)
        drafts = self._server.received(body[len(varint(start)) :])
        if len(drafts) != 1:
            raise MalformedError("a message without a draft; no device sends that")
        if start > self._starts:
            raise MalformedError(
                f"a draft of start {start}, and {self._starts} mismatches were told; no device sends that"
            )
        if len(self._waiting) >= LONGEST_BATCH:
            raise DomainError(f"at most {LONGEST_BATCH} drafts may wait; got one more; verify those that wait")
        self._received += 1
        if start < self._starts:
            return False
        self._waiting.append(drafts[0].token)
        return True

    def verify(self, target: Array) -> bytes:
        """Return the answer to a pass over the first n drafts that wait.

        ``target`` (n, V) has p behind the prompt, :attr:`text` and the drafts before each; 1 ≤ n ≤ drafts that wait.
        """
        p: Numbers = canonical("target", target)
        rows, place = len(p) if p.ndim == 2 else 0, self._place(self._sent)
        if p.ndim != 2 or p.shape[1] != self._policy.vocabulary or not 1 <= rows <= len(self._waiting):
            raise DomainError(
                f"target must have shape (n, {self._policy.vocabulary}) with n in 1..{len(self._waiting)}, a row for "
                f"each verified draft; got {p.shape}; read the target model once for the drafts that wait"
            )
        accepted, first = 0, self._first + len(self._text)
        own = raced(p[0], (self._seed, first))
        while own == self._waiting[accepted] and accepted + 1 < rows:
            accepted += 1
            own = raced(p[accepted], (self._seed, first + accepted))
        right = own == self._waiting[accepted]
        answer = ServerAnswer(accepted + right, None if right else own)
        body = varint(rows) + answer_bytes(self._policy, answer, rows)
        self._sent += 1
        self._close(rows, answer)
        return self._envelope.seal(body, direction=DOWN, place=place)
