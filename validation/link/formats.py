"""The server's side of a method: what its messages say, and how they are verified.

A device names its :class:`Terms` when it opens a text; messages are those of :mod:`validation.decoding.methods`.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from hlmtheory import wire
from hlmtheory._domains import DomainError
from hlmtheory.codec import decoded_rows
from hlmtheory.codec.coding import decoded
from hlmtheory.codec.frame import LATTICE_ROWS, CodecError, Limits
from hlmtheory.codec.messages import MixedDraft, TokenDraft
from hlmtheory.policy.device import row_of
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import DssdCertified
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.rows import Absent, Format
from validation.decoding.methods.switched import Switched
from validation.decoding.session import Draft
from validation.decoding.wire import index_bits, unpack
from validation.errors import UserError
from validation.link.wire import LONGEST_ROUND, LinkError, answer_size, fields_of

ROWS, TOKENS, PROBABILITIES, LATTICE, TRUNCATED, POLICY = map(str, Format)
SERVER = "server"
"""The format of a text whose drafts, if any, are made on the server."""
_REQUEST = b"\0"
MOST_TERMS = 4
"""Messages among which the rounds of a text may choose."""


@dataclass(frozen=True)
class Terms:
    """How a device drafts, as far as the server must know; ``limit`` is ε of answers with p̂, or 0 for p."""

    format: str
    most: int
    bonus: bool
    by_argmax: bool
    shared_seed: bool
    streamed: bool
    samples_target: bool
    by_block: bool
    policy: str
    limit: float

    @classmethod
    def of(cls, method: Method) -> Self:
        """Return the terms of a method, or raise a UserError if it does not run over a link."""
        if isinstance(method.format, Absent):
            why = f"{method.name} does not run over a link, because {method.format}"
            raise UserError(f"{why}; choose another method, or a policy.json.")
        kind = TOKENS if method.format == PROBABILITIES and method.by_argmax else str(method.format)
        most = LONGEST_ROUND if kind == LATTICE else min(method.max_draft_length, LONGEST_ROUND)
        policy = method.text if isinstance(method, Planned) else ""
        flags = (method.bonus, method.by_argmax, method.shared_seed, method.streamed, method.samples_target)
        limit = method.limit if isinstance(method, DssdCertified) else 0.0
        return cls(kind, most, *flags, method.by_block, policy, limit)

    @classmethod
    def from_plain(cls, given: Any, vocabulary: int) -> Self:
        """Return the terms of an opening, or raise a LinkError or a DomainError."""
        terms = cls(**fields_of(cls, given))
        kind = terms.format
        whole = kind in (ROWS, LATTICE, POLICY) and not (terms.shared_seed or terms.by_argmax)
        known = kind in {*Format, SERVER} and 0 <= terms.most <= LONGEST_ROUND
        cuts = 0 < terms.limit < 1 and kind == PROBABILITIES
        for right, why in (
            (known, f"there are no messages of format {kind!r:.40} with {terms.most} of {LONGEST_ROUND} drafts"),
            (terms.limit == 0 or cuts, f"the limit {terms.limit} of answers is outside [0, 1), or of another format"),
            ((kind == POLICY) == bool(terms.policy), "a policy belongs to the format policy, and to no other"),
            (terms.shared_seed or not terms.streamed, "drafts are streamed by a shared seed alone; got another rule"),
            (kind != SERVER or terms == SERVER_WRITES, "a text that the server writes has no terms for drafts"),
            (whole or not terms.by_block, "drafts are verified together by their whole distributions alone"),
            (not terms.shared_seed or kind in (TOKENS, POLICY, SERVER), "drafts by a shared seed are sent as tokens"),
        ):
            if not right:
                raise LinkError(why)
        if kind == POLICY and (Terms.of(Planned(own := terms.known.policy)) != terms or own.vocabulary != vocabulary):
            raise LinkError(
                f"the policy is for V = {own.vocabulary}, or the terms are not its own; this server has V = "
                f"{vocabulary}; plan for these models"
            )
        return terms

    @classmethod
    def each_of(cls, method: Method) -> tuple[Self, ...]:
        """Return the terms of each message that a method may send, or raise a UserError."""
        return tuple(map(cls.of, method.parts.values() if isinstance(method, Switched) else (method,)))

    @classmethod
    def each_from_plain(cls, given: list[Any], vocabulary: int) -> tuple[Self, ...]:
        if not 1 <= len(given) <= MOST_TERMS:
            raise LinkError(f"an opening has 1 to {MOST_TERMS} terms; got {len(given)}; name fewer messages")
        each = tuple(cls.from_plain(plain, vocabulary) for plain in given)
        if len(each) > 1 and any(terms.streamed or terms.format == SERVER for terms in each):
            raise LinkError("a text without rounds has one message; got several; name one")
        return each

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def known(self) -> wire.ServerPolicy:
        return wire.ServerPolicy(wire.DevicePolicy.from_json(self.policy))

    def streamed_policy(self, vocabulary: int, temperature: float) -> wire.DevicePolicy:
        if self.format == POLICY:
            return self.known.policy
        return wire.DevicePolicy(vocabulary, temperature, wire.threshold_rule(1), wire.StreamedTokens(), bonus=False)

    @property
    def device_draws(self) -> bool:
        """Whether the device draws the replacement of a rejected draft, from p."""
        kind = wire.DraftProbabilities
        return self.format == PROBABILITIES or (self.format == POLICY and isinstance(self.known.policy.messages, kind))

    @property
    def cut_limit(self) -> float:
        """The limit ε of answers that carry p̂; 0: they carry p, or none."""
        messages = self.known.policy.messages if self.format == POLICY else None
        return messages.limit if isinstance(messages, wire.CertifiedAnswers) else self.limit

    @property
    def pads(self) -> bool:
        return self.format == POLICY and bool(self.known.policy.message_sizes)

    def least_answer(self, vocabulary: int) -> int:
        """Return the least bytes of an answer: those of one to all drafts, if answers are padded."""
        return answer_size(self.most, vocabulary) if self.pads else 0

    def longest(self, vocabulary: int, left: int) -> int:
        head = 8 + -(-left * index_bits(vocabulary) // 8)
        if self.format == POLICY:
            return head + self.known.longest
        row = {TOKENS: 0, PROBABILITIES: 4}.get(self.format, 4 * vocabulary + 64)
        return head + 16 + self.most * (row + 4)

    def method(self) -> Method:
        method = DssdCertified(self.cut_limit, self.most) if self.cut_limit else Method()
        method.bonus, method.by_argmax, method.samples_target = self.bonus, self.by_argmax, self.samples_target
        method.shared_seed, method.by_block, method.max_draft_length = self.shared_seed, self.by_block, self.most
        return method

    def received(self, payload: bytes, vocabulary: int, temperature: float) -> list[Draft]:
        """Return the drafts of a message; lengths are compared before anything is decoded."""
        if self.format == POLICY:
            return [_planned(coded, vocabulary) for coded in self.known.received(payload)]
        if payload == _REQUEST:
            return []
        if self.format in (LATTICE, TRUNCATED):
            return self._coded(payload, vocabulary)
        alone = self.format == TOKENS or temperature == 0
        return _plain(payload, vocabulary, self.most, None if alone else self.format)

    def _coded(self, payload: bytes, vocabulary: int) -> list[Draft]:
        import torch

        if self.format == TRUNCATED:
            message = decoded(payload, None)
            if not isinstance(message, wire.TruncatedMessage) or message.vocabulary != vocabulary:
                raise wire.UnexpectedError(
                    f"the message has no truncated rows over V = {vocabulary}; use one tokenizer"
                )
            if len(message.drafts) > self.most:
                raise wire.UnexpectedError(f"{len(message.drafts)} drafts, and at most {self.most} are expected")
            rows = torch.from_numpy(decoded_rows(message))
            return [Draft(d.token, float(row[d.token]), None, row) for d, row in zip(message.drafts, rows, strict=True)]
        limits = Limits(LATTICE_ROWS, vocabulary, self.most, len(payload), lambda *row: None)
        return [_lattice(draft, vocabulary) for draft in decoded(payload, limits).drafts]


def _plain(payload: bytes, vocabulary: int, most: int, extra: str | None) -> list[Draft]:
    import torch

    count, width = unpack(payload[:2].ljust(2, b"\0"), [16])[0], index_bits(vocabulary)
    each = width + (32 if extra == PROBABILITIES else 0)
    head = -(-(16 + count * each) // 8)
    size = head + (4 * vocabulary * count if extra == ROWS else 0)
    if count > most or len(payload) != size:
        raise wire.MalformedError(f"{len(payload)} bytes are no message of {count} drafts; no device sends that")
    values = unpack(payload[:head], [16, *([width, 32] if extra == PROBABILITIES else [width]) * count])[1:]
    tokens = values[::2] if extra == PROBABILITIES else values
    if any(token >= vocabulary for token in tokens):
        raise wire.MalformedError("a draft is outside the vocabulary; no device sends that")
    if extra is None:
        return [Draft(token) for token in tokens]
    if extra == PROBABILITIES:
        known = np.array(values[1::2], dtype=np.uint32).view(np.float32).astype(np.float64).tolist()
        if any(not 0 < probability <= 1.000001 for probability in known):
            raise wire.MalformedError("the probability of a draft is not in (0, 1]; no device sends that")
        return [Draft(*one) for one in zip(tokens, known, strict=True)]
    rows = np.frombuffer(payload[head:], dtype="<f4").reshape(count, vocabulary)
    whole = np.where(np.isfinite(rows) & (rows >= 0), rows, 2.0).sum(axis=1, dtype=np.float64)
    if not ((np.abs(whole - 1.0) < 1e-3).all() and all(rows[range(count), tokens] > 0)):
        raise wire.MalformedError("a row is no distribution, or its draft has no mass; no device sends that")
    held = torch.from_numpy(rows.copy())
    return [Draft(token, float(row[token]), None, row) for token, row in zip(tokens, held, strict=True)]


def _lattice(draft: Any, vocabulary: int) -> Draft:
    import torch

    counts = torch.zeros(vocabulary, dtype=torch.int64)
    counts[torch.from_numpy(np.asarray(draft.support, dtype=np.int64))] = torch.from_numpy(
        np.asarray(draft.counts, dtype=np.int64)
    )
    row = counts / counts.sum()  # as the device's method computes it
    if not row[draft.token] > 0:
        raise wire.MalformedError("a draft has no mass in its row; no device sends that")
    return Draft(draft.token, float(row[draft.token].double()), None, row)


def _planned(coded: Any, vocabulary: int) -> Draft:
    import torch

    if isinstance(coded, TokenDraft):
        return Draft(coded.token)
    row = torch.from_numpy(row_of(coded, vocabulary))
    own = coded.probability if isinstance(coded, MixedDraft) else None
    return Draft(coded.token, float(row[coded.token]) if own is None else own, None, row)


SERVER_WRITES = Terms(SERVER, 0, True, False, True, False, False, False, "", 0.0)
"""The terms of a text that the server writes: the tokens of the shared seed, whoever drafts."""

REFUSED = (CodecError, DomainError, UserError)
"""What is raised for frames and openings that a side does not accept."""
