"""A skipping threshold that follows from a run's own audits, and never leaves the promise.

A draft is kept only if the promise holds even if its risk is 1: S + 1 ≤ ε (t + 1) for a limit ε on a token, or
S + 1 ≤ ε n for n texts begun, with S an upper bound on the sum of the risks so far, at all times together with
probability 1 - δ (``skipping.audit``). So the promise holds for any models, links and rule that chose the threshold.
"""

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import SkipAudit
from hlmtheory.wire import DevicePolicy
from validation.decoding.methods.planned import Audited
from validation.decoding.records import Round
from validation.decoding.session import Session
from validation.errors import UserError
from validation.link.device_records import Exchange

LEVELS = np.arange(1, 21) / 20
"""Thresholds of β̂ among which the device chooses; none is below them."""
ERROR = 0.05
OFTEN = 16
"""Tokens after which the bound is computed again, at the earliest."""


def promise_of(policy: DevicePolicy) -> tuple[str, float]:
    """Return what a policy promises of its skips: "token" or "text", and the limit."""
    for guarantee in policy.guarantees:
        for kind, words in (("token", "mean one-step risk of a token"), ("text", "mean total variation of a text")):
            if guarantee.quantity.startswith(words) and 0 < guarantee.value < 1:
                return kind, guarantee.value
    raise UserError("The policy promises no risk between 0 and 1, so nothing may be skipped; plan with --risk.")


class SkipChoice:
    """Which drafts may be kept now: up to ``threshold`` of β̂, where the promise of ``kind`` allows it."""

    def __init__(self, kind: str, limit: float, probability: float, error: float = ERROR) -> None:
        self.kind, self.limit, self.probability = kind, limit, probability
        self.audit = SkipAudit(probability, limit, error)
        self.threshold, self.texts, self.kept = -np.inf, 0, 0
        self.losses: NDArray[np.float64] = np.zeros(len(LEVELS))
        self._sum, self._since, self._next = 0.0, 0, 0
        self._estimate, self._would = 1.0, False

    @property
    def tokens(self) -> int:
        return self.audit.tokens

    @property
    def bound(self) -> float:
        """Upper bound on the sum of the risks so far, at all times together with probability 1 - δ."""
        return self._sum + self._since

    def begin(self) -> None:
        self.texts += 1

    def keeps(self, estimate: float) -> bool:
        """Return whether a first draft with this β̂ would be kept, if the audit's coin allows it."""
        self._estimate, self._would = estimate, False
        if estimate <= self.threshold:
            if not self._allowed() and self.tokens >= self._next:
                self._refresh()
            self._would = self._allowed()
            self._since += self._would  # its risk is 1 until the bound is computed again
        return self._would

    def on_kept(self) -> None:
        """Take a draft that was kept: its coin did not audit it."""
        self.audit.update(0.0)
        self.kept += 1

    def exchange(self, one: Round) -> None:
        rejected = bool(one.drafted) and not one.accepted
        new = one.accepted + one.resampled + one.bonus
        if one.drafted:
            self.audit.update(float(self._would and rejected))
            self.losses[self._estimate <= LEVELS] += rejected / (self.probability if self._would else 1.0)
        for _ in range(new - bool(one.drafted)):
            self.audit.update(0.0)
        self._would = False
        if self.tokens >= self._next:
            self._refresh()

    def _allowed(self) -> bool:
        room = self.limit * (self.tokens + 1 if self.kind == "token" else self.texts)
        return self.bound + 1.0 <= room

    def _refresh(self) -> None:
        if not self.tokens:
            return
        self._sum, self._since = float(self.audit.bound) * self.tokens, 0
        self._next = self.tokens + OFTEN
        per = self.tokens if self.kind == "token" else self.texts
        allowed = LEVELS[(self.losses + 1.0) / per <= self.limit]
        self.threshold = float(allowed.max()) if len(allowed) else -np.inf


class OwnThreshold(Audited):
    """A policy whose threshold is that of a choice, which several texts may share."""

    def __init__(self, policy: DevicePolicy, choice: SkipChoice) -> None:
        super().__init__(policy, choice.probability, keeps=choice.keeps, on_kept=choice.on_kept)
        self.choice = choice

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.choice.begin()

    def exchange(self, one: Round, spent: Exchange) -> None:
        self.choice.exchange(one)
