"""A planned policy that audits its skips: a draft that would be kept is sent with probability π, by a coin of its own.

The server rejects a sent draft with the probability β_d, the risk of keeping it (:mod:`hlmtheory.skipping.audit`);
under a shared seed with that of another token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy import CertifiedRows, DevicePolicy
from validation.decoding.methods.planned import Planned
from validation.decoding.random_streams import SKIP
from validation.decoding.session import Session, Step
from validation.errors import UserError


class Audited(Planned):
    """A policy whose skips are audited."""

    def __init__(
        self,
        policy: DevicePolicy,
        probability: float,
        *,
        keeps: Callable[[float], bool] | None = None,
        on_kept: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(policy)
        _check(policy, probability, own_threshold=keeps is not None)
        self.probability, self.keeps, self.on_kept = probability, keeps, on_kept
        self.sends = replace(policy, rule=replace(policy.rule, skips=False))
        self.name = f"{self.name}, audited ({probability:g})"

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.audits: set[int] = set()

    def skip(self, step: Step, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = super().skip(step, tokens)
        coins = self.session.noise.uniform(SKIP, step.sequences, step.positions) < self.probability
        for n, (sequence, first) in enumerate(zip(step.sequences.tolist(), step.first_of_round.tolist(), strict=True)):
            if not first:
                continue
            self.audits.discard(sequence)
            if self.keeps is not None:
                found[n] = self.keeps(self.decided[n].rejection or 0.0)
            if found[n] and coins[n]:
                self.audits.add(sequence)
                found[n] = False
            if found[n]:
                self.decided[n] = replace(self.decided[n], skip=True, coded=None, bias=None)
                if self.on_kept is not None:
                    self.on_kept()
            elif self.decided[n].skip:
                rng = self._numbers(step, n)
                self.decided[n] = self.sends.decide(self.logits[n], int(tokens[n]), rng=rng)
        return found

    def audited(self, sequence: int) -> bool:
        return sequence in self.audits


def _check(policy: DevicePolicy, probability: float, *, own_threshold: bool) -> None:
    rule = policy.rule
    if not rule.skips:
        raise UserError("The policy skips no verification, so there is nothing to audit; leave the audit out.")
    if not 0 < probability <= 1:
        raise UserError(f"The audit's probability is {probability:g}; it must be above 0 and at most 1, such as 0.1.")
    if own_threshold and (isinstance(policy.messages, CertifiedRows) or rule.bit_price or rule.skip_slope != 1):
        raise UserError("The policy's rule has prices, so it has no threshold that could change; leave that out.")
