"""What a decoding method is to the loop: the decisions, and speculative decoding as the answer to leave or change.

The loop (``decoding/loop.py``) asks a method, in this order and for all texts at once: how many drafts a round has
(:meth:`Method.lengths`); what a draft is drawn from (:meth:`Method.propose`); whether it is kept unseen
(:meth:`Method.skip`); what the server will know of its row (:meth:`Method.server_distributions`); how it is written
(:meth:`Method.message`); and tells it what came of it (:meth:`Method.learn`). A new method overrides what it does
differently. Nothing here draws a token or runs a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.session import Draft, Message, Outcome, Proposal, Session, Step
from validation.decoding.wire import index_bits, pack

Array = NDArray[Any]


class Method:
    """Speculative decoding with drafts from the draft model's rows: what all methods share.

    Attributes
    ----------
    name : str
        What the results call it.
    runs_draft, runs_target : bool
        Which models it runs.
    bonus : bool
        Whether the server adds a token to drafts that were all kept.
    by_argmax : bool
        Whether a draft is accepted when it is the target model's likeliest token, as flexspec prints it.
    samples_target : bool
        Whether a rejected draft is replaced from p, as flexspec prints it, and not from the residual.
    truncates : bool
        Whether q̂ differs from what drafts are drawn from, so that the residual is distorted.
    wants_likeliest : bool
        Whether it is told the target model's likeliest tokens of a round.
    real_bytes : bool
        Whether the link carries the bytes as encoded, or the formula's bits.
    follows_rate : bool
        Whether its decisions depend on the link's rate. If not, its texts are the same over every link, and a link's
        seconds can be put on later.
    """

    name = "method"
    runs_draft = runs_target = bonus = real_bytes = True
    by_argmax = samples_target = truncates = wants_likeliest = follows_rate = False
    max_draft_length = 1

    def begin(self, session: Session) -> None:
        """Make ready for a batch of texts."""
        self.session = session

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        """Drafts of each text's next round at most; ``rates`` are the uplink's, where there is one."""
        return np.full(len(sequences), self.max_draft_length)

    def guess(self, sequence: int, tokens: Array) -> Sequence[int]:
        """Drafts of a method without a draft model, given a text so far: none."""
        return ()

    def propose(self, step: Step) -> Proposal:
        """What the drafts are drawn from."""
        return Proposal(step.distributions)

    def skip(self, step: Step, tokens: Array) -> Array:
        """Which drafts are kept unseen, (n,) bool: none. Only the first draft of a round is asked about."""
        return np.zeros(len(tokens), dtype=bool)

    def server_distributions(
        self, step: Step, tokens: Array, skip: Array
    ) -> tuple[Sequence[Any], Sequence[Any] | None] | None:
        """The n rows that the server will know and n notes for the messages, where they depend on the tokens."""
        return None

    def message(self, drafts: list[Draft]) -> Message:
        """Drafts as they are sent: each token, and its row in float32; at temperature 0 the token is the row."""
        vocabulary = self.session.vocabulary
        head = tokens_message(drafts, vocabulary)
        if self.session.temperature == 0:
            return head
        rows = [
            draft.server_distribution.float().cpu().numpy().tobytes()
            for draft in drafts
            if draft.server_distribution is not None
        ]
        return Message(head.bits + 32.0 * vocabulary * len(rows), b"".join([head.payload, *rows]))

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Bytes of the answer: how many drafts were kept, and the server's token."""
        return -(-(len(drafts).bit_length() + index_bits(self.session.vocabulary)) // 8)

    def distortion(self, drafts: list[Draft]) -> tuple[float, float]:
        """Σ dropped mass and Σ i(K - i)/(Kℓ) of drafts that were looked at."""
        return 0.0, 0.0

    def learn(self, outcome: Outcome) -> float | None:
        """Take note of a round; the threshold, of a method that has one."""
        return None


def tokens_message(drafts: list[Draft], vocabulary: int) -> Message:
    """The tokens alone, after their number."""
    width = index_bits(vocabulary)
    tokens = np.array([draft.token for draft in drafts], dtype=np.int64)
    return Message(float(width * len(drafts)), pack([(len(drafts), 16), (tokens, width)]))
