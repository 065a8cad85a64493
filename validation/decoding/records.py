"""Records of a run: a :class:`Round` for each exchange, a :class:`GenerationRecord` for each prompt.

A verified draft is one that the server accepted or rejected; drafts after a rejected one are dropped and not verified.
The total of a record also includes the tokens skipped after its last round. Both sides are assumed to have the prompt,
so no payload contains it.
"""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self


@dataclass(slots=True)
class Round:
    position: int = 0  # new tokens before it
    drafted: int = 0  # drafts sent, or proposed on the server
    accepted: int = 0
    resampled: int = 0  # 1 if a draft was rejected and replaced (c-sqs counts only these rejections)
    bonus: int = 0  # 1 if the server added a token after it accepted all drafts
    skipped: int = 0  # tokens kept without verification before the exchange
    bits: float = 0.0  # uplink payload by the papers' formulas
    bytes: int = 0  # uplink payload as encoded
    down_bytes: int = 0
    dropped: float = 0.0  # mass of q outside the support, summed over verified drafts
    rounding: float = 0.0  # Σ i(K - i)/(Kℓ); with ``dropped`` the second sum of c-sqs Theorem 1
    draft_s: float = 0.0  # of forward passes, measured or given; a batched pass is divided evenly among its sequences
    target_s: float = 0.0
    draft_passes: int = 0
    target_passes: int = 0
    link_s: float = 0.0  # of uplink and downlink
    overlap_s: float = 0.0  # draft_s + target_s + link_s minus the time that passed, if the device drafts on
    mismatch: float = 0.0  # Σ TV(q, p) over verified drafts: the first sum of c-sqs Theorem 1
    # β_d of each skipped draft, β_d TV(r, r̂) of each truncated one, q_a (1 - p_a) of each draft verified by the argmax
    # a of p. It bounds nothing for one text; its mean over prompts estimates the bound of claim `skipping.bill_text`.
    risk: float = 0.0
    skip_risk: float = 0.0  # the part from skipped drafts, Σ β_d; by a shared seed 1 - t_d/q_d stands in place of β_d
    threshold: float | None = None  # of C-SQS after the round


STORED_NAMES = {
    "draft_s": "small_s",
    "target_s": "large_s",
    "draft_passes": "small_passes",
    "target_passes": "large_passes",
    "risk_computed": "judged",
}
"""For each field that journals store under an older name, that name."""
_FIELD_NAMES = {stored: name for name, stored in STORED_NAMES.items()}

SUMMED = tuple(f.name for f in fields(Round) if f.name not in ("position", "threshold"))


@dataclass(slots=True)
class GenerationRecord:
    method: str
    prompt: str
    link: str
    seed: int
    temperature: float
    top_p: float
    tokens: list[int] = field(default_factory=list)
    ended: bool = False  # by an end-of-text token
    risk_computed: bool = False  # whether ``mismatch``, ``risk`` and ``skip_risk`` were computed
    rounds: list[Round] = field(default_factory=list)
    last: Round = field(default_factory=Round)  # tokens and times after the last exchange

    def total(self, name: str) -> float:
        summed: float = sum(getattr(entry, name) for entry in (*self.rounds, self.last))
        return summed

    @property
    def seconds(self) -> float:
        """Seconds that passed: of both models and the link, without reading the prompt."""
        return self.total("draft_s") + self.total("target_s") + self.total("link_s") - self.total("overlap_s")

    def plain(self) -> dict[str, Any]:
        """Return the record as a journal stores it: fields, every round, and sums over the rounds."""
        stored = _rename(asdict(self), STORED_NAMES)
        stored["rounds"] = [_rename(row, STORED_NAMES) for row in stored["rounds"]]
        stored["last"] = _rename(stored["last"], STORED_NAMES)
        totals = {name: self.total(name) for name in SUMMED}
        return stored | {"totals": _rename(totals, STORED_NAMES), "exchanges": len(self.rounds)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Return the record that :meth:`plain` stored with its rounds; ignore keys that are not fields."""
        known = {f.name for f in fields(cls)} - {"rounds", "last"}
        values = {name: value for name, value in _rename(plain, _FIELD_NAMES).items() if name in known}
        rounds = [Round(**_rename(row, _FIELD_NAMES)) for row in plain["rounds"]]
        return cls(**values, rounds=rounds, last=Round(**_rename(plain["last"], _FIELD_NAMES)))


def _rename(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}
