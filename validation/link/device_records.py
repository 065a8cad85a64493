"""What a device keeps of a text: its tokens and writers, and what each round took."""

from __future__ import annotations

from dataclasses import dataclass, field

from validation.decoding.records import GenerationRecord

ALONE = "draft alone"
"""The writer of tokens that no server verified, since none was there; no version has a space in its name."""


@dataclass(slots=True)
class LinkRecord(GenerationRecord):
    """The record of a text over a link.

    Attributes
    ----------
    writers : list of (int, str)
        From which new token on which version of the target verified the text, or ``ALONE``.
    """

    writers: list[tuple[int, str]] = field(default_factory=list)

    def note(self, place: int, writer: str) -> None:
        """Say who writes from a place on."""
        if not self.writers or self.writers[-1][1] != writer:
            self.writers.append((place if self.writers else 0, writer))

    def alone(self) -> list[tuple[int, int]]:
        """Return the tokens that the draft wrote alone, as (first, behind the last)."""
        ends = [*(place for place, _ in self.writers[1:]), len(self.tokens)]
        return [(place, end) for (place, who), end in zip(self.writers, ends, strict=False) if who == ALONE]


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a round took, as the device sees it.

    Attributes
    ----------
    length : int
        Drafts that the round might have.
    draft_s : float
        Seconds from the last answer, or the text's begin, to the sending.
    wait_s : float
        Seconds from the sending to the answer.
    up_bytes, down_bytes : int
        Of its frames.
    opened : bool
        Whether the text was opened with it: in its first round, and again after a cut.
    audited : bool
        Whether its first draft would have been kept without verification, and was sent to audit such drafts.
    """

    length: int
    draft_s: float
    wait_s: float
    up_bytes: int
    down_bytes: int
    opened: bool
    audited: bool = False
