"""What a run writes down: one :class:`Round` each time the server is asked, one :class:`Row` a text.

========== ==================================================================================================
field      meaning
========== ==================================================================================================
drafted    drafts that were sent, or proposed on the server
accepted   of those, how many were kept
resampled  rounds whose first draft that was not kept was replaced (c-sqs counts these rejections alone)
bonus      tokens that the server added after a round whose drafts were all kept
skipped    tokens kept on the device unseen by the server
bits       payload of the uplink by the papers' formulas
bytes      payload of the uplink as it was encoded; ``down_bytes`` is the downlink's
small_s    seconds of the small model's forward passes, ``large_s`` of the large one's: measured (a pass of a batch
           is shared evenly by the texts that took part) or as given; reading the prompt apart, in ``prefill_s``
           ``small_passes`` and ``large_passes`` count the passes that the text took part in, the prompt's apart
link_s     seconds of the uplink and downlink
mismatch   Σ TV(q, p) over the drafts looked at: the first sum of c-sqs Theorem 1
dropped    Σ of q's mass outside the support over the drafts looked at, ``rounding`` Σ i(K - i)/(Kℓ): the second
risk       Σ over the text of what bounds its distance from the large model's law: β_d of each skipped draft,
           β_d TV(r, r̂) of each truncated one, q_a (1 - p_a) of each judged by the argmax a of p. Its mean over texts
           estimates the bound of ``skipping.sequence``
skip_risk  the part of ``risk`` that is β_d of skipped drafts: Σ of 1 - β_d over what is skipped is how many of them
           the large model would have accepted, so the true skip rate is 1 - Σ skip_risk / Σ skipped
threshold  of C-SQS, after the round
========== ==================================================================================================

A text's fields are the sums over its rounds, and what it skipped after the last one. The prompt is taken to be on both
sides already: it is in no payload.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Round:
    """One exchange with the server; what is known when it ends comes first, up to ``large_passes``."""

    position: int = 0  # new tokens before it
    drafted: int = 0
    accepted: int = 0
    resampled: int = 0
    bonus: int = 0
    skipped: int = 0
    bits: float = 0.0
    bytes: int = 0
    down_bytes: int = 0
    dropped: float = 0.0
    rounding: float = 0.0
    small_s: float = 0.0
    large_s: float = 0.0
    small_passes: int = 0
    large_passes: int = 0
    link_s: float = 0.0
    mismatch: float = 0.0
    risk: float = 0.0
    skip_risk: float = 0.0
    threshold: float | None = None


SUMMED = tuple(f.name for f in fields(Round) if f.name not in ("position", "threshold"))


@dataclass(slots=True)
class Row:
    """One text by one method over one link."""

    method: str
    prompt: str
    link: str
    seed: int
    temperature: float
    top_p: float
    tokens: list[int] = field(default_factory=list)
    ended: bool = False  # by an end-of-text token
    judged: bool = False  # whether ``mismatch``, ``risk`` and ``skip_risk`` were computed
    prefill_s: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    last: Round = field(default_factory=Round)  # what was done after the last exchange

    def total(self, name: str) -> float:
        """A field of :class:`Round` summed over the text."""
        found: float = sum(getattr(one, name) for one in (*self.rounds, self.last))
        return found

    @property
    def seconds(self) -> float:
        """Model and link together, the prompt's reading apart."""
        return self.total("small_s") + self.total("large_s") + self.total("link_s")

    def plain(self, *, rounds: bool = True) -> dict[str, Any]:
        """The row as plain values, with the sums and, if wanted, every round."""
        whole = asdict(self)
        sums = {name: self.total(name) for name in SUMMED}
        kept = {name: value for name, value in whole.items() if name not in ("rounds", "last") or rounds}
        return kept | {"totals": sums, "exchanges": len(self.rounds)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Row:
        """The row that :meth:`plain` wrote, rounds included."""
        own = {f.name: plain[f.name] for f in fields(cls) if f.name not in ("rounds", "last") and f.name in plain}
        return cls(**own, rounds=[Round(**one) for one in plain["rounds"]], last=Round(**plain["last"]))


def energy(row: Row, *, device_w: float, transmit_w: float, server_w: float = 0.0) -> float:
    """Joules of a text: the small model's seconds, the link's and the large model's, each at its power in watts."""
    return device_w * row.total("small_s") + transmit_w * row.total("link_s") + server_w * row.total("large_s")
