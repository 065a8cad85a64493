"""What one receiver expects of a message, compared with each field before anything is decoded or allocated for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hlmtheory.codec.frame import UnexpectedError


@dataclass(frozen=True, slots=True)
class Limits:
    """The messages that one receiver expects.

    Attributes
    ----------
    kind : int
        Of the frame: ``LATTICE_ROWS``, ``MIXED_ROWS`` or ``TOKENS``.
    vocabulary, drafts : int
        V, and the most drafts.
    longest : int
        The most bytes of a whole message.
    row : callable
        Takes the place of a draft in the message, the kind of its row, K, and b or ℓ. Raises an UnexpectedError for a
        row that is not expected.
    """

    kind: int
    vocabulary: int
    drafts: int
    longest: int
    row: Callable[[int, str, int, int], None]

    def check_length(self, length: int) -> None:
        """Refuse a message of more bytes than expected."""
        if length > self.longest:
            raise UnexpectedError(f"{length:,} bytes, and at most {self.longest:,} are expected")

    def check_kind(self, kind: int) -> None:
        """Refuse another kind of frame."""
        if kind != self.kind:
            raise UnexpectedError(f"kind {kind} of message, and kind {self.kind} is expected")

    def check_head(self, vocabulary: int, drafts: int) -> None:
        """Refuse another vocabulary, or too many drafts."""
        if vocabulary != self.vocabulary or drafts > self.drafts:
            raise UnexpectedError(f"{drafts} drafts over V = {vocabulary}")
