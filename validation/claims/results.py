"""Results of a run, a tally per claim and statistics of the trace, with their conversion to and from JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from hlmtheory import theorems
from hlmtheory.claims import COARSE, Status, Verdict
from validation.claims.instances import MAX_DRAFT_LENGTH
from validation.errors import UserError


@dataclass(slots=True)
class Tally:
    claim: str
    instances: int = 0
    holds: int = 0
    violated: int = 0
    inconclusive: int = 0
    out_of_scope: int = 0
    vacuous: int = 0
    worst_slack: float = math.inf  # minimum over decided instances
    tightest: float = -math.inf  # maximum lhs/rhs over decided instances with rhs above rounding
    broken: dict[str, int] = field(default_factory=dict)
    kind: str = "measured"  # on a trace; "simulated": on instances of a scenario
    reason: str = ""  # why the claim was not checked on this trace

    @property
    def in_scope(self) -> int:
        return self.instances - self.out_of_scope

    @property
    def never(self) -> str:
        """Reason why no instance is in scope; empty if one is."""
        if self.in_scope:
            return ""
        if self.reason:
            return self.reason
        if not self.instances:
            return f"the trace has no {MAX_DRAFT_LENGTH} consecutive positions of one text"
        return "an assumption is never met: " + "; ".join(self.broken)

    @property
    def outcome(self) -> str:
        claim = theorems.THEOREMS.get(self.claim)
        if claim is None:
            return "withdrawn"
        if claim.standing != "true":
            return claim.standing
        if self.violated:
            return "violated"
        if not self.in_scope:
            return "out of scope"
        return "holds" if self.holds > self.inconclusive else "inconclusive"

    def add(self, verdict: Verdict) -> None:
        self.instances += verdict.instances
        self.holds += verdict.count(Status.HOLDS)
        self.violated += verdict.count(Status.VIOLATED)
        self.inconclusive += verdict.count(Status.INCONCLUSIVE)
        self.out_of_scope += verdict.count(Status.OUT_OF_SCOPE)
        self.vacuous += int(np.count_nonzero(verdict.vacuous))
        for statement, count in verdict.broken.items():
            self.broken[statement] = self.broken.get(statement, 0) + count
        decided = (verdict.status == Status.HOLDS) | (verdict.status == Status.VIOLATED)
        if decided.any():
            slack = verdict.slack[decided]
            self.worst_slack = min(self.worst_slack, float(np.where(np.isnan(slack), -math.inf, slack).min()))
            known = decided & (verdict.rhs > COARSE) & np.isfinite(verdict.rhs)
            ratios = verdict.lhs[known] / verdict.rhs[known]
            self.tightest = max(self.tightest, float(ratios.max(initial=-math.inf)))

    def merge(self, other: Tally) -> None:
        """Add the counts of a tally of other instances; counts and extremes are exact, so the grouping is free."""
        for name in ("instances", "holds", "violated", "inconclusive", "out_of_scope", "vacuous"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for statement, count in other.broken.items():
            self.broken[statement] = self.broken.get(statement, 0) + count
        self.worst_slack = min(self.worst_slack, other.worst_slack)
        self.tightest = max(self.tightest, other.tightest)


@dataclass(slots=True)
class Results:
    tallies: dict[str, Tally]
    positions: int
    seed: int
    seconds: float
    summary: dict[str, float]

    def to_json(self) -> str:
        """Return the results as JSON; infinities become strings, because JSON has no infinity."""
        plain = asdict(self)
        for tally in plain["tallies"].values():
            for name in ("worst_slack", "tightest"):
                tally[name] = tally[name] if math.isfinite(tally[name]) else str(tally[name])
            if not tally["reason"]:
                del tally["reason"]
        return json.dumps(plain, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        plain = json.loads(text)
        tallies = {}
        for name, fields in plain["tallies"].items():
            limits = {limit: float(fields[limit]) for limit in ("worst_slack", "tightest")}
            tallies[name] = Tally(**{**fields, **limits})
        return cls(**{**plain, "tallies": tallies})


def load_results(path: Path) -> Results:
    try:
        return Results.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"There are no results at {path}; run `python3 hlm validate` first.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"The results at {path} cannot be read; run `python3 hlm validate` again.") from error
