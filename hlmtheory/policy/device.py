"""The policy that a device runs, with numpy alone: keep a draft without verification, or send it as the plan says.

``policy.json`` is the text of :meth:`DevicePolicy.to_json`; the server's side is :class:`ServerPolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from hlmtheory._array import NUMPY, Array, brief, softmax
from hlmtheory._domains import COUNT, DomainError, flag, generator, instance, instances, number, token_of
from hlmtheory._quantities import not_negative, whole_from_one, whole_in
from hlmtheory._simplex import over_exact_sums
from hlmtheory.codec import coded_message, decoded_rows, encode
from hlmtheory.codec.frame import LONGEST_MESSAGE
from hlmtheory.codec.messages import (
    LONGEST_BATCH,
    TOP_K,
    LatticeDraft,
    LatticeMessage,
    MixedDraft,
    MixedMessage,
    TokenDraft,
    TokenMessage,
)
from hlmtheory.codec.selection import VOCABULARY, CodecChoice
from hlmtheory.lattice import quantize, top_support
from hlmtheory.policy import device_parts as parts
from hlmtheory.policy.codec_hulls import codec_hulls
from hlmtheory.policy.costs import DeviceRule, Numbers
from hlmtheory.policy.device_json import policy_of, text_of
from hlmtheory.policy.hulls import Hulls, choice_of

REQUEST = b"\0"
"""The message of a round without drafts: a request for one token."""

ANSWER_BITS = 24
"""Bits of a probability in a certified answer."""

MOST_SIZES = 64
"""Sizes of padded messages."""

_PRICE = not_negative("give a price in tokens")
_RULE = {
    "draft_length": whole_in(0, LONGEST_BATCH, "K counts the drafts of a round"),
    "bit_price": _PRICE,
    "first_risk_price": _PRICE,
    "skip_slope": parts.FINITE,
    "skip_level": parts.FINITE,
}
_PLACE = whole_from_one("give the place of the draft in its round, from 1")
_TEMPERATURE = not_negative("give the temperature of both models; 0 takes the likeliest token")
_BITS = whole_from_one("give the most bits of a distribution in a message, or None")
_BYTES = whole_in(1, LONGEST_MESSAGE, "give the sizes that padded messages have, in bytes")


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """A plan as a device runs it.

    Parameters
    ----------
    vocabulary, temperature : int, float
        V, and the temperature of both models; 0 takes the likeliest token.
    rule, messages, line
        When to skip, what is sent of a draft, and the estimate β̂; None only if the rule never skips.
    planned_for : str, optional
        A mark of the models that it was planned for.
    bonus : bool
        Whether the server adds a token if it accepts all drafts of a round.
    bits_limit : int, optional
        The most bits of a certified row. Without such a row a first draft is skipped if the rule skips any.
    guarantees : sequence of Guarantee
    alone : bool
        Whether a device may go on by itself while its server is away; no guarantee is of such tokens.
    message_sizes : tuple of int
        Bytes to which messages are padded, ascending; empty: none. For a rule that never skips.
    block : bool
        Whether the server verifies the drafts of a round together: for :class:`LatticeRows` without skips.

    Examples
    --------
    >>> from hlmtheory.wire import LatticeRows, UncertaintyLine, threshold_rule
    >>> policy = DevicePolicy(4, 1.0, threshold_rule(1, 0.25), LatticeRows(100, top_k=4), UncertaintyLine(1.0, 0.0))
    >>> rng = np.random.default_rng(0)
    >>> sure, unsure = policy.draft([99.0, 0.0, 0.0, 0.0], rng=rng), policy.draft([0.0, 0.5, 0.0, 0.5], rng=rng)
    >>> sure.skip, unsure.skip, len(policy.message([unsure]))
    (True, False, 15)
    """

    vocabulary: int
    temperature: float
    rule: DeviceRule
    messages: parts.Messages
    line: parts.UncertaintyLine | None = None
    planned_for: str | None = None
    bonus: bool = True
    bits_limit: int | None = None
    guarantees: tuple[parts.Guarantee, ...] = ()
    alone: bool = False
    message_sizes: tuple[int, ...] = ()
    block: bool = False

    def __post_init__(self) -> None:
        rule = instance("rule", self.rule, DeviceRule)
        values = {field.name: getattr(rule, field.name) for field in fields(rule)}
        values |= {name: number(domain, name, values[name]) for name, domain in _RULE.items()}
        values["later_risk_prices"] = _later_prices(rule.later_risk_prices, values["draft_length"])
        values["skips"] = flag("skips", rule.skips)
        if not isinstance(
            self.messages, (parts.CertifiedRows, parts.LatticeRows, parts.DraftProbabilities, parts.SeededTokens)
        ):
            raise TypeError(
                "messages must be CertifiedRows, LatticeRows, DraftProbabilities or SeededTokens; got another; make one"
            )
        if self.line is not None:
            instance("line", self.line, parts.UncertaintyLine)
        elif rule.skips:
            raise DomainError("line must be given for a rule that skips; got None; fit one to the uncertainty")
        if self.planned_for is not None:
            parts.a_text("planned_for", self.planned_for)
        limit = None if self.bits_limit is None else number(_BITS, "bits_limit", self.bits_limit)
        for name, value in (
            ("vocabulary", number(VOCABULARY, "vocabulary", self.vocabulary)),
            ("temperature", float(number(_TEMPERATURE, "temperature", self.temperature))),
            ("rule", DeviceRule(**values)),
            ("bonus", flag("bonus", self.bonus)),
            ("bits_limit", limit),
            ("guarantees", instances("guarantees", self.guarantees, parts.Guarantee)),
            ("alone", flag("alone", self.alone)),
            ("message_sizes", _sizes(self.message_sizes)),
            ("block", flag("block", self.block)),
        ):
            object.__setattr__(self, name, value)
        if self.message_sizes and (
            rule.skips or isinstance(self.messages, (parts.DraftProbabilities, parts.StreamedTokens))
        ):
            raise DomainError(
                f"message_sizes must be left out if skips, answers with a distribution or the number of messages tell "
                f"what the sizes hide; got them with {type(self.messages).__name__} and skips = {rule.skips}; send "
                "LatticeRows or SeededTokens, and skip nothing"
            )
        streams = isinstance(self.messages, parts.StreamedTokens)
        if streams and (values["draft_length"] != 1 or values["skips"] or self.bonus):
            raise DomainError(
                "rule and bonus must be threshold_rule(1) and False for StreamedTokens, which send every token as a "
                f"message of its own; got K = {rule.draft_length}, skips = {rule.skips}, bonus = "
                f"{self.bonus}; change them"
            )
        if self.block and (values["skips"] or not isinstance(self.messages, parts.LatticeRows)):
            raise DomainError(
                "block must be False unless every draft is sent as LatticeRows; got True for "
                f"{type(self.messages).__name__}, skips = {rule.skips}; verify token by token"
            )
        if isinstance(self.messages, parts.CertifiedAnswers):
            _answerable(self.messages.limit, self.vocabulary, self.temperature)
        if isinstance(self.messages, parts.LatticeRows) and (self.messages.top_k or 0) > self.vocabulary:
            raise DomainError(f"top_k must be at most V = {self.vocabulary}; got {self.messages.top_k}; keep fewer")

    @classmethod
    def from_json(cls, text: str) -> DevicePolicy:
        """Return the policy of a text of :meth:`to_json`; a ValueError names a field that is wrong or unknown."""
        return policy_of(text, cls)

    def to_json(self) -> str:
        """Return the policy as JSON, with a final newline."""
        return text_of({field.name: getattr(self, field.name) for field in fields(self)})

    def distribution(self, logits: Array) -> Numbers:
        """Return what a token is drawn from, float64 (V,): q at the policy's temperature, or the quantised q̂."""
        row = parts.one_row(logits)
        if len(row) != self.vocabulary:
            raise DomainError(f"logits must have V = {self.vocabulary} entries; got {len(row)}; cut padded heads")
        if self.temperature == 0:
            q: Numbers = np.eye(1, self.vocabulary, int(row.argmax()))[0]
        else:
            q = over_exact_sums(np.asarray(softmax(NUMPY, (row - row.max()) / self.temperature)))
        if isinstance(self.messages, parts.LatticeRows):
            q = _quantised(q, self.messages) / self.messages.resolution
        return q

    def draft(
        self,
        logits: Array,
        *,
        place: int = 1,
        rng: np.random.Generator,
        seed: int | None = None,
        position: int | None = None,
    ) -> parts.DeviceDraft:
        """Return a drawn token, and whether it is skipped or how it is sent, from the draft model's ``logits`` (V,).

        Only ``place`` 1 may be skipped. Under :class:`SeededTokens` the token is drawn by ``seed``, of the text, and
        ``position``, its index in it, prompt included; else by ``rng``, which also draws the uncertainty's samples.
        """
        rng, place, row = generator("rng", rng), number(_PLACE, "place", place), self.distribution(logits)
        where = parts.stream_place(self.messages, seed, position)
        token = parts.drawn(row, rng) if where is None else parts.raced(row, where)
        return self._decide(row, logits, token, place, rng)

    def decide(self, logits: Array, token: int, *, place: int = 1, rng: np.random.Generator) -> parts.DeviceDraft:
        """Return how a token drawn from :meth:`distribution` is sent, or that it is skipped; as :meth:`draft`."""
        rng, place, row = generator("rng", rng), number(_PLACE, "place", place), self.distribution(logits)
        token = number(token_of(self.vocabulary), "token", token)
        if not row[token] > 0:
            raise DomainError(f"token must have a positive probability; got {token}; draw it from distribution(logits)")
        return self._decide(row, logits, token, place, rng)

    def message(self, drafts: Sequence[parts.DeviceDraft]) -> bytes:
        """Return the bytes of a round: of its drafts that are sent, K or fewer; of none for a request of one token."""
        given = instances("drafts", drafts, parts.DeviceDraft)
        if len(given) > self.rule.draft_length:
            raise DomainError(f"drafts must be at most K = {self.rule.draft_length}; got {len(given)}; send a round")
        coded = [draft.coded for draft in given if draft.coded is not None]
        if len(coded) < len(given):
            raise DomainError("drafts must be those that are sent; got one that is skipped; leave it out")
        return parts.padded(encode(self._batch(coded)) if coded else REQUEST, self.message_sizes)

    def server_row(self, draft: parts.DeviceDraft) -> Numbers | None:
        """Return the q̂ (V,) by which a rejected draft is replaced; None if it is skipped or sent by a shared seed."""
        coded = instance("draft", draft, parts.DeviceDraft).coded
        if coded is None or isinstance(coded, TokenDraft):
            return None
        return (
            draft.distribution
            if isinstance(self.messages, parts.DraftProbabilities)
            else row_of(coded, self.vocabulary)
        )

    def tokens(
        self, drafts: Sequence[parts.DeviceDraft], answer: parts.ServerAnswer, *, rng: np.random.Generator
    ) -> list[int]:
        """Return the tokens of a round: the accepted ``drafts`` of the message, and the token that follows."""
        rng, given = generator("rng", rng), instances("drafts", drafts, parts.DeviceDraft)
        accepted = number(COUNT, "answer", instance("answer", answer, parts.ServerAnswer).accepted)
        if accepted + (answer.target is not None) > len(given):
            raise DomainError(f"answer must be to the {len(given)} drafts; got {accepted} accepted; use one round's")
        kept = [draft.token for draft in given[:accepted]]
        if answer.target is not None:
            return [*kept, parts.replacement(answer.target, given[accepted].distribution, rng)]
        return kept if answer.token is None else [*kept, number(token_of(self.vocabulary), "answer", answer.token)]

    def _decide(
        self, row: Numbers, logits: Array, token: int, place: int, rng: np.random.Generator
    ) -> parts.DeviceDraft:
        rule = self.rule
        if rule.draft_length == 0:
            raise DomainError("logits must be of a draft; got them under a policy of K = 0; send message(()) instead")
        # 1. the message: for certified rows the corner of the row's hull with the least price
        cost, fits, choice, bias = 0.0, True, None, 0.0
        if isinstance(self.messages, parts.CertifiedAnswers):
            bias = 2.0 * self.messages.limit
        elif isinstance(self.messages, parts.CertifiedRows):
            hulls = codec_hulls(row[None], menu=self.messages.menu)
            corner, fits = cheapest_corner(hulls, rule.bit_price, rule.risk_price(place), self.bits_limit)
            cost = rule.bit_price * float(hulls.bits[corner])
            choice = choice_of(hulls, corner)
            bias = float(choice.bias)
        # 2. skip, if the message costs more than the risk
        beta: float | None = None
        if place == 1 and rule.skips:
            beta = instance("line", self.line, parts.UncertaintyLine).rejection(logits, token, rng=rng)
            if not fits or cost - rule.skip_slope * beta + rule.skip_level >= 0:
                return parts.DeviceDraft(token, True, None, None, beta, row)
        # 3. or code it
        return parts.DeviceDraft(token, False, self._coded(row, token, choice), bias, beta, row)

    def _batch(self, coded: Sequence[parts.Coded]) -> MixedMessage | LatticeMessage | TokenMessage:
        kind: Callable[..., MixedMessage | LatticeMessage | TokenMessage] = MixedMessage
        if isinstance(self.messages, (parts.LatticeRows, parts.SeededTokens)):
            kind = LatticeMessage if isinstance(self.messages, parts.LatticeRows) else TokenMessage
        return kind(self.vocabulary, tuple(coded))

    def _coded(self, row: Numbers, token: int, choice: CodecChoice | None) -> parts.Coded:
        if isinstance(self.messages, parts.SeededTokens):
            return TokenDraft(token)
        if isinstance(self.messages, parts.LatticeRows):
            counts = np.rint(row * self.messages.resolution).astype(np.int64)
            kept = np.flatnonzero(counts)
            return LatticeDraft(kept, counts[kept], token)
        if choice is None:  # q_d alone
            nothing = np.empty(0, dtype=np.int64)
            return MixedDraft(TOP_K, nothing, nothing, None, 1, token, float(row[token]))
        return coded_message(row, choice, token=token).drafts[0]


def _later_prices(prices: Any, length: int) -> tuple[float, ...]:
    if not isinstance(prices, (tuple, list)) or len(prices) > max(length - 1, 0):
        raise DomainError(
            f"later_risk_prices must be at most {max(length - 1, 0)} prices, of places 2 to K; got {brief(prices)}; "
            "leave out the others"
        )
    return tuple(float(number(_PRICE, "later_risk_prices", price)) for price in prices)


def _answerable(limit: float, vocabulary: int, temperature: float) -> None:
    """Refuse answers with a certificate that may fail, or that are for one token."""
    least = vocabulary * 2.0**-ANSWER_BITS
    if limit < least:
        raise DomainError(
            f"limit must be at least {least:.2g} for V = {vocabulary}, since a probability has {ANSWER_BITS} bits; got "
            f"{limit}; send DraftProbabilities for an exact answer"
        )
    if temperature == 0:
        raise DomainError(
            "messages must be DraftProbabilities at temperature 0; got CertifiedAnswers, and p is one token; send those"
        )


def _sizes(sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(f"message_sizes must be a row of sizes; got {brief(sizes)}; give () for none")
    found = tuple(number(_BYTES, "message_sizes", size) for size in sizes)
    if len(found) > MOST_SIZES:
        raise DomainError(f"message_sizes must be at most {MOST_SIZES}; got {len(found)}; join some")
    if any(one >= other for one, other in pairwise(found)):
        raise DomainError(f"message_sizes must ascend; got {brief(list(found))}; sort them, and repeat none")
    return found


def row_of(coded: MixedDraft | LatticeDraft, vocabulary: int) -> Numbers:
    """The distribution that the server decodes from a draft."""
    if isinstance(coded, MixedDraft):
        return np.asarray(decoded_rows(MixedMessage(vocabulary, (coded,)))[0])
    row: Numbers = np.zeros(vocabulary)
    row[coded.support] = coded.counts / coded.resolution
    return row


def cheapest_corner(hulls: Hulls, bit_price: float, risk_price: float, limit: int | None) -> tuple[int, bool]:
    """The corner of one row with the least price among those within the limit, and whether there is one.

    Of equal ones it is that with the fewest bits. Without one within the limit it is the row's first.
    """
    many = len(hulls.bits) if limit is None else int(np.searchsorted(hulls.bits, limit, side="right"))
    if many <= 1 or risk_price <= 0:
        return 0, many > 0
    bits, risk = hulls.bits[:many], hulls.risk[:many]
    slope = (risk[:-1] - risk[1:]) / np.diff(bits)  # falling: of a lower hull
    return int(np.count_nonzero(slope > bit_price / risk_price)), True


def _quantised(q: Numbers, messages: parts.LatticeRows) -> Numbers:
    support = (q >= messages.threshold) & (q > 0)
    support[q.argmax()] = True
    if messages.top_k is not None:
        support &= np.asarray(top_support(q, min(messages.top_k, int(np.count_nonzero(q)))))
    return np.asarray(quantize(q, support=support, resolution=messages.resolution), dtype=np.float64)
