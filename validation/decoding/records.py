"""What a run writes down: one :class:`Round` each time the server is asked, one :class:`GenerationRecord` a text.

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
draft_s    seconds of the draft model's forward passes, ``target_s`` of the large one's: measured (a pass of a batch
           is shared evenly by the texts that took part) or as given; reading the prompt apart, in ``prefill_s``
           ``draft_passes`` and ``target_passes`` count the passes that the text took part in, the prompt's apart
link_s     seconds of the uplink and downlink
mismatch   Σ TV(q, p) over the drafts looked at: the first sum of c-sqs Theorem 1
dropped    Σ of q's mass outside the support over the drafts looked at, ``rounding`` Σ i(K - i)/(Kℓ): the second
risk       Σ over the text of what bounds its distance from the target model's law: β_d of each skipped draft,
           β_d TV(r, r̂) of each truncated one, q_a (1 - p_a) of each judged by the argmax a of p. Its mean over texts
           estimates the bound of ``skipping.sequence``
skip_risk  the part of ``risk`` that is β_d of skipped drafts: Σ of 1 - β_d over what is skipped is how many of them
           the target model would have accepted, so the true skip rate is 1 - Σ skip_risk / Σ skipped
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
    """One exchange with the server; what is known when it ends comes first, up to ``target_passes``."""

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
    draft_s: float = 0.0
    target_s: float = 0.0
    draft_passes: int = 0
    target_passes: int = 0
    link_s: float = 0.0
    mismatch: float = 0.0
    risk: float = 0.0
    skip_risk: float = 0.0
    threshold: float | None = None


STORED_NAMES = {
    "draft_s": "small_s",
    "target_s": "large_s",
    "draft_passes": "small_passes",
    "target_passes": "large_passes",
    "risk_computed": "judged",
}
"""The key in a journal of each field whose name there is an older one; every other key is the field's name."""
_FIELD_NAMES = {stored: name for name, stored in STORED_NAMES.items()}

SUMMED = tuple(f.name for f in fields(Round) if f.name not in ("position", "threshold"))


@dataclass(slots=True)
class GenerationRecord:
    """One text by one method over one link."""

    method: str
    prompt: str
    link: str
    seed: int
    temperature: float
    top_p: float
    tokens: list[int] = field(default_factory=list)
    ended: bool = False  # by an end-of-text token
    risk_computed: bool = False  # whether ``mismatch``, ``risk`` and ``skip_risk`` were computed
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
        return self.total("draft_s") + self.total("target_s") + self.total("link_s")

    def plain(self, *, rounds: bool = True) -> dict[str, Any]:
        """The record as a journal stores it: its fields, the sums over its rounds and, if wanted, every round."""
        stored = _rename(asdict(self), STORED_NAMES)
        if rounds:
            stored["rounds"] = [_rename(one, STORED_NAMES) for one in stored["rounds"]]
            stored["last"] = _rename(stored["last"], STORED_NAMES)
        else:
            del stored["rounds"], stored["last"]
        totals = {name: self.total(name) for name in SUMMED}
        return stored | {"totals": _rename(totals, STORED_NAMES), "exchanges": len(self.rounds)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> GenerationRecord:
        """The record that :meth:`plain` wrote with its rounds; keys that are no field are ignored."""
        known = {f.name for f in fields(cls)} - {"rounds", "last"}
        own = {name: value for name, value in _rename(plain, _FIELD_NAMES).items() if name in known}
        rounds = [Round(**_rename(one, _FIELD_NAMES)) for one in plain["rounds"]]
        return cls(**own, rounds=rounds, last=Round(**_rename(plain["last"], _FIELD_NAMES)))


def _rename(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The same values, with some keys renamed."""
    return {names.get(key, key): value for key, value in values.items()}


def energy(record: GenerationRecord, *, device_w: float, transmit_w: float, server_w: float = 0.0) -> float:
    """Joules of a text: the draft model's seconds, the link's and the target model's, each at its power in watts."""
    return (
        device_w * record.total("draft_s") + transmit_w * record.total("link_s") + server_w * record.total("target_s")
    )
