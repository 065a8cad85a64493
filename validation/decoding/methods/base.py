"""The interface of a decoding method to the generation loop; the base class implements speculative decoding.

The loop calls the functions of :class:`Method` in the order in which they stand, each for all sequences together.
Nothing here draws a token or runs a model. A method without a draft model implements :meth:`Method.guess` in place of
``propose``, ``skip`` and ``server_distributions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.arrays import Array
from validation.decoding.methods.rows import Absent, Format, Law
from validation.decoding.session import Draft, Message, Outcome, Proposal, Session, Step
from validation.decoding.wire import index_bits, pack

if TYPE_CHECKING:
    import torch


class Method:
    """Speculative decoding with drafts from the draft model: the base of all methods."""

    name = "method"  # the stored name: a registered name, followed by the parameters
    source = ""  # the paper, as in references.bib, or the claim
    law = Law.KEPT
    format: Format | Absent = Format.ROWS  # of the messages that a server on a link reads
    row: str | Absent  # of a plan, whose options decide as the method does
    runs_draft = runs_target = True  # which models it runs
    bonus = True  # whether the server adds a token when it accepts all drafts
    real_bytes = True  # whether the link carries the encoded bytes, and not the formula's bits
    by_argmax = False  # whether a draft is accepted if it is the target's likeliest token, as flexspec prints it
    samples_target = False  # whether a rejected draft is replaced from p, as flexspec prints it
    by_block = False  # whether drafts are verified together (hlmtheory.verification.block)
    shared_seed = False  # whether drafts and the server's tokens are winners of races in one stream
    streamed = False  # whether the device drafts on while the server verifies (validation.decoding.streamed)
    truncates = False  # whether q̂ differs from the distribution that drafts are drawn from
    cuts_answer = False  # whether the device replaces a rejected draft from p̂, what the answer tells of p
    wants_likeliest = False  # whether ``learn`` receives the target model's likeliest tokens
    follows_rate = False  # whether its decisions depend on the link's rate; if not, texts are the same over every link
    max_draft_length = 1  # of a round
    tree_nodes = 0  # for trees of drafts: the most tokens that the target model reads in a pass

    def begin(self, session: Session) -> None:
        self.session = session

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        """Return the maximum draft length of each sequence's next round; ``rate``: uplink in bit/s (None: no link)."""
        return np.full(len(sequences), self.max_draft_length)

    def guess(self, sequence: int, tokens: Array) -> Sequence[int]:
        """Return the drafts that follow these tokens of a sequence, for a method without a draft model."""
        return ()

    def propose(self, step: Step) -> Proposal:
        """Return the distributions that the drafts are drawn from."""
        return Proposal(step.distributions)

    def audited(self, sequence: int) -> bool:
        """Return whether the first draft of a sequence's round would have skipped, and is sent to audit the skips."""
        return False

    def skip(self, step: Step, tokens: Array) -> Array:
        """Return which drafts skip verification, (n,) bool; the loop uses it for the first draft of a round only."""
        return np.zeros(len(tokens), dtype=bool)

    def server_distributions(
        self, step: Step, tokens: Array, skip: Array
    ) -> tuple[Sequence[Any], Sequence[Any] | None] | None:
        """Return n distributions that the server will know and n notes for messages; None: the proposed ones."""
        return None

    def message(self, drafts: list[Draft]) -> Message:
        """Return a message of each token with its distribution in float32, or of the tokens alone.

        The latter by the method's format, and at temperature 0.
        """
        vocabulary = self.session.vocabulary
        head = tokens_message(drafts, vocabulary)
        if self.session.temperature == 0 or self.format == Format.TOKENS:
            return head
        known = [draft.server_distribution for draft in drafts if draft.server_distribution is not None]
        rows = [distribution.float().cpu().numpy().tobytes() for distribution in known]
        return Message(head.bits + 32.0 * vocabulary * len(rows), b"".join([head.payload, *rows]))

    def answered(self, draft: Draft, target: torch.Tensor) -> torch.Tensor:
        """Return what the device learns of p (V,) after this draft was rejected; p itself, unless ``cuts_answer``."""
        return target

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the number of bytes of the answer: the number of accepted drafts, and the server's token."""
        return -(-(len(drafts).bit_length() + index_bits(self.session.vocabulary)) // 8)

    def distortion(self, drafts: list[Draft]) -> tuple[float, float]:
        """Return Σ dropped mass and Σ i(K - i)/(Kℓ) of verified drafts, for quantised distributions."""
        return 0.0, 0.0

    def learn(self, outcome: Outcome) -> float | None:
        """Update the method's state of a sequence; return the threshold, if the method has one."""
        return None


def tokens_message(drafts: list[Draft], vocabulary: int) -> Message:
    """Return a message of the tokens alone, after their number in 16 bits."""
    width = index_bits(vocabulary)
    tokens = np.array([draft.token for draft in drafts], dtype=np.int64)
    return Message(float(width * len(drafts)), pack([(len(drafts), 16), (tokens, width)]))
