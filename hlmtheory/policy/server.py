"""The server's side of a device's policy: the bytes of a round and the target's distributions in, a token out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hlmtheory._array import Array, brief
from hlmtheory._domains import DomainError, generator, instance
from hlmtheory._simplex import canonical
from hlmtheory.codec.coding import decoded
from hlmtheory.codec.frame import UnexpectedError
from hlmtheory.codec.messages import LatticeDraft, MixedDraft, TokenDraft, TruncatedMessage
from hlmtheory.policy import device_parts as parts
from hlmtheory.policy.answers import cut_answer, received_answer
from hlmtheory.policy.costs import Numbers
from hlmtheory.policy.device import REQUEST, DevicePolicy, row_of
from hlmtheory.policy.sendable import Sendable
from hlmtheory.verification.block import block_acceptance, block_weights


@dataclass(frozen=True, slots=True)
class ServerPolicy:
    """The server of devices that run one policy.

    Examples
    --------
    >>> from hlmtheory.wire import LatticeRows, threshold_rule
    >>> policy = DevicePolicy(4, 1.0, threshold_rule(1, None), LatticeRows(100, top_k=2))
    >>> rng = np.random.default_rng(0)
    >>> message = policy.message([policy.draft([9.0, 0.0, 9.0, 0.0], rng=rng)])
    >>> answer = ServerPolicy(policy).verify(message, [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]], rng=rng)
    >>> answer.accepted, answer.token
    (0, 3)
    """

    policy: DevicePolicy
    _sendable: Sendable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sendable", Sendable.of(instance("policy", self.policy, DevicePolicy)))

    @property
    def longest(self) -> int:
        """The most bytes of a message."""
        return max(self._sendable.longest, *self.policy.message_sizes, 0)

    def received(self, message: bytes) -> tuple[parts.Coded, ...]:
        """Return the drafts of a message; empty if one token is requested.

        Bytes that the policy's device sends for no distribution are refused, the plain ones before decoding.
        """
        if not isinstance(message, (bytes, bytearray, memoryview)):
            raise TypeError(f"message must be bytes; got {brief(message)}; give what the device sent")
        expected, sizes = self._sendable, self.policy.message_sizes
        try:
            if not sizes or memoryview(message).nbytes not in sizes:
                expected.limits().check_length(memoryview(message).nbytes)  # before it is copied
            body = parts.unpadded(bytes(message), sizes)
            if body == REQUEST:
                return ()
            batch = decoded(body, expected.limits())
            drafts: tuple[parts.Coded, ...] = () if isinstance(batch, TruncatedMessage) else batch.drafts
            for place, draft in enumerate(drafts):
                expected.check_draft(place, draft)
        except UnexpectedError as error:
            policy = self.policy
            raise DomainError(
                f"message must be of at most {policy.rule.draft_length} drafts over V = {policy.vocabulary}, coded as "
                f"{type(policy.messages).__name__} of the policy; got {error}; use one policy on both sides"
            ) from error
        return drafts

    def verify(
        self,
        message: bytes,
        target: Array,
        *,
        rng: np.random.Generator,
        seed: int | None = None,
        position: int | None = None,
    ) -> parts.ServerAnswer:
        """Return how many drafts are accepted, and the token that follows.

        ``target`` (n + 1, V) has p at each draft and after the last. ``rng`` draws a number for each verified draft,
        then the token. ``seed``, and ``position`` of the round's first token, are for :class:`SeededTokens` alone.
        """
        rng = generator("rng", rng)
        return self._answer(self.received(message), target, rng, seed, position)

    def _answer(
        self,
        drafts: tuple[parts.Coded, ...],
        target: Array,
        rng: np.random.Generator,
        seed: int | None,
        position: int | None,
    ) -> parts.ServerAnswer:
        p: Numbers = canonical("target", target)
        wanted = (len(drafts) + 1, self.policy.vocabulary)
        if p.shape != wanted:
            raise DomainError(
                f"target must have shape {wanted}, a row for each draft and one more; got {p.shape}; read the target "
                "model once for all drafts"
            )
        bonus = self.policy.bonus or not drafts
        where = parts.stream_place(self.policy.messages, seed, position)
        if where is not None:
            return _raced(drafts, p, bonus, *where)
        if self.policy.block and drafts:
            return self._by_block([one for one in drafts if isinstance(one, LatticeDraft)], p, rng)
        for place, draft in enumerate(drafts):
            if isinstance(draft, TokenDraft):
                raise TypeError("drafts must be those of this policy; got tokens alone; give what was received")
            known = row_of(draft, self.policy.vocabulary)
            own = draft.probability if isinstance(draft, MixedDraft) else None
            q_d = float(known[draft.token]) if own is None else own
            if rng.random() * q_d < p[place, draft.token]:  # u < p/q, without a quotient
                continue
            messages = self.policy.messages
            if isinstance(messages, parts.CertifiedAnswers):
                cut = cut_answer(p[place], draft.token, messages.limit)
                return parts.ServerAnswer(place, None, received_answer(cut, self.policy.vocabulary), cut)
            if isinstance(messages, parts.DraftProbabilities):
                return parts.ServerAnswer(place, None, p[place])
            return parts.ServerAnswer(place, parts.replacement(p[place], known, rng))
        return parts.ServerAnswer(len(drafts), parts.drawn(p[-1], rng) if bonus else None)

    def _by_block(self, drafts: Sequence[LatticeDraft], p: Numbers, rng: np.random.Generator) -> parts.ServerAnswer:
        """Keep the longest block of drafts that passes; each has a random number of its own."""
        q = np.stack([row_of(draft, self.policy.vocabulary) for draft in drafts])
        tokens = np.array([draft.token for draft in drafts])
        passed = rng.random(len(drafts)) < np.asarray(block_acceptance(p[:-1], q, tokens))
        kept = int(np.flatnonzero(passed).max(initial=-1)) + 1
        if kept == len(drafts):
            return parts.ServerAnswer(kept, parts.drawn(p[-1], rng) if self.policy.bonus else None)
        weight = float(block_weights(p[:-1], q, tokens)[kept - 1]) if kept else 1.0
        residual = np.maximum(weight * p[kept] - q[kept], 0.0)
        return parts.ServerAnswer(kept, parts.drawn(residual if residual.max() > 0 else p[kept], rng))


def _raced(
    drafts: tuple[parts.Coded, ...], target: Numbers, bonus: bool, seed: int, position: int
) -> parts.ServerAnswer:
    """The drafts before the first that differs from the server's own token, and that token."""
    accepted, own = 0, parts.raced(target[0], (seed, position))
    while accepted < len(drafts) and own == drafts[accepted].token:
        accepted += 1
        own = parts.raced(target[accepted], (seed, position + accepted))
    return parts.ServerAnswer(accepted, own if accepted < len(drafts) or bonus else None)
