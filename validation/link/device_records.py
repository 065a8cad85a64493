"""What a device keeps of a text: its tokens and writers, and what each round took."""

from dataclasses import dataclass, field

from validation.decoding.records import GenerationRecord

ALONE = "device alone"
"""The writer of tokens that no server verified, since none was there; no version has a space in its name."""


@dataclass(slots=True)
class LinkRecord(GenerationRecord):
    """The record of a text; ``writers`` says from which new token on which version verified it, or ``ALONE``."""

    writers: list[tuple[int, str]] = field(default_factory=list)

    def note(self, place: int, writer: str) -> None:
        if not self.writers or self.writers[-1][1] != writer:
            self.writers.append((place if self.writers else 0, writer))

    def alone(self) -> list[tuple[int, int]]:
        """Return the tokens that the draft wrote alone, as (first, behind the last)."""
        ends = [*(place for place, _ in self.writers[1:]), len(self.tokens)]
        return [(place, end) for (place, who), end in zip(self.writers, ends, strict=False) if who == ALONE]


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a round took, as the device sees it: ``length`` drafts were allowed, ``opened`` if it opened its text."""

    length: int
    draft_s: float
    wait_s: float
    up_bytes: int
    down_bytes: int
    opened: bool
    audited: bool = False
