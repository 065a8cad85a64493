"""A planned policy that skips and audits its skips: a random share of the drafts that it would keep is sent.

A draft that would be kept is sent with probability π, by a coin of its own (:mod:`hlmtheory.skipping.audit`). It begins
a round like any other draft. The server rejects it with the probability β_d, the risk of keeping it; under a shared
seed with that of another token.
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
    """A policy whose skips are audited.

    Parameters
    ----------
    probability : float
        π in (0, 1]: the share of drafts that are sent although they would be kept.
    keeps : callable, optional
        Says whether a draft with this estimate β̂ would be kept, in place of the policy's threshold. It is called once
        for each first draft of a round.
    on_kept : callable, optional
        Called after each draft that was kept.
    """

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
        """Prepare for a batch of sequences, of which none has a round."""
        super().begin(session)
        self.audits: set[int] = set()

    def skip(self, step: Step, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Decide each draft, toss the coins, and return which skip verification."""
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
        """Return whether the first draft of this sequence's round would have been kept."""
        return sequence in self.audits


def _check(policy: DevicePolicy, probability: float, *, own_threshold: bool) -> None:
    rule = policy.rule
    if not rule.skips:
        raise UserError("The policy skips no verification, so there is nothing to audit; leave the audit out.")
    if not 0 < probability <= 1:
        raise UserError(f"The audit's probability is {probability:g}; it must be above 0 and at most 1, such as 0.1.")
    if own_threshold and (isinstance(policy.messages, CertifiedRows) or rule.bit_price or rule.skip_slope != 1):
        raise UserError("The policy's rule has prices, so it has no threshold that could change; leave that out.")
