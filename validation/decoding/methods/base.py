"""The interface of a decoding method to the generation loop; the base class implements speculative decoding.

The loop (:mod:`validation.decoding.loop`) calls these functions in this order, each for all sequences together. A new
method overrides the functions that differ. Nothing here draws a token or runs a model.

==================================== =====================================================================
function                             what it returns or does
==================================== =====================================================================
:meth:`Method.begin`                 the batch begins: set up what the method keeps for each sequence
:meth:`Method.lengths`               the maximum number of drafts of the next round
:meth:`Method.propose`               the distribution that the next draft is drawn from
:meth:`Method.skip`                  which drafts are kept without verification
:meth:`Method.server_distributions`  the part of each draft's distribution that the server will know
:meth:`Method.message`               how the drafts are sent: bits by the paper's formula, and bytes
:meth:`Method.answered`              what the device learns of p at a rejected draft
:meth:`Method.reply`                 the number of bytes of the server's answer
:meth:`Method.learn`                 the round is over: update what the method keeps
==================================== =====================================================================

A method without a draft model implements :meth:`Method.guess` in place of ``propose``, ``skip`` and
``server_distributions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.session import Draft, Message, Outcome, Proposal, Session, Step
from validation.decoding.wire import index_bits, pack

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]


class Method:
    """Speculative decoding with drafts from the draft model: the base of all methods.

    Attributes
    ----------
    name : str
        The stored name: a registered name, followed by the parameters.
    runs_draft, runs_target : bool
        Which models it runs.
    bonus : bool
        Whether the server adds a token when it accepts all drafts.
    by_argmax : bool
        Whether a draft is accepted if it is the target model's likeliest token, as flexspec prints it.
    by_block : bool
        Whether the drafts of a round are verified together (:mod:`hlmtheory.verification.block`). The server must know
        the distribution of each draft.
    shared_seed : bool
        Whether drafts and the server's tokens are winners of races in one stream (:mod:`hlmtheory.shared_seed`). A
        draft is accepted if it is the server's token.
    streamed : bool
        Whether the device drafts on while the server verifies (:mod:`validation.decoding.streamed`). The loop then
        finds which drafts match, and the rounds and their times are simulated.
    samples_target : bool
        Whether a rejected draft is replaced from p, as flexspec prints it, and not from the residual.
    cuts_answer : bool
        Whether the device replaces a rejected draft from p̂, what the server's answer tells of p
        (:meth:`Method.answered`).
    truncates : bool
        Whether q̂ differs from the distribution that drafts are drawn from, so that the residual is distorted.
    wants_likeliest : bool
        Whether ``learn`` receives the target model's likeliest tokens.
    real_bytes : bool
        Whether the link carries the encoded bytes, and not the formula's bits.
    follows_rate : bool
        Whether its decisions depend on the link's rate. If not, its sequences are the same over every link, and the
        time of each message is added in post-processing.
    max_draft_length : int
        Maximum number of drafts of a round.
    tree_nodes : int
        For a method whose drafts are trees (:class:`validation.decoding.methods.trees.TreeMethod`): maximum number of
        tokens that the target model reads in a pass; 0 for a chain of drafts.
    """

    name = "method"
    runs_draft = runs_target = bonus = real_bytes = True
    by_argmax = by_block = shared_seed = streamed = samples_target = truncates = cuts_answer = False
    wants_likeliest = follows_rate = False
    max_draft_length = 1
    tree_nodes = 0

    def begin(self, session: Session) -> None:
        """Prepare for a batch of sequences."""
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
        """Return n distributions that the server will know and n notes for messages; None: the proposed ones.

        For methods whose message depends on the drafted tokens.
        """
        return None

    def message(self, drafts: list[Draft]) -> Message:
        """Return a message of each token with its distribution in float32; at temperature 0, of the tokens alone."""
        vocabulary = self.session.vocabulary
        head = tokens_message(drafts, vocabulary)
        if self.session.temperature == 0:
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
