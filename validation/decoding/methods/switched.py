"""Several lossless messages, of which one is chosen before each round of a text.

A choice must know nothing of the random numbers of the positions to come. Under a shared seed a device does know some:
a rejected draft drops drafts that were winners of races in the stream that the next round uses. So a text stays under
the shared seed until it is past every position that was drafted under it. Then the numbers that decide the next token
are independent of all choices so far, and it has the target's law given the text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hlmtheory.policy.device_parts import DeviceDraft
from hlmtheory.wire import CertifiedRows, DevicePolicy, StreamedTokens
from validation.arrays import Array
from validation.decoding.methods.base import Method
from validation.decoding.methods.planned import Planned
from validation.decoding.session import Draft, Message, Outcome, Proposal, Session, Step
from validation.errors import UserError


@dataclass(frozen=True, slots=True)
class Chosen:
    """A message by its name, and the most drafts of a round."""

    message: str
    length: int


def lossless_part(policy: DevicePolicy, most: int) -> DevicePolicy:
    """Return a policy with another draft length; refuse one whose texts lack the target's law, or that drafts on."""
    if policy.rule.skips or isinstance(policy.messages, CertifiedRows | StreamedTokens) or not policy.bonus:
        raise UserError(
            "A message changes within a promise that texts have the target's law; this policy skips, truncates or "
            "drafts on, so leave --adapt out."
        )
    return replace(policy, rule=replace(policy.rule, draft_length=most, later_risk_prices=()))


class Switched(Method):
    """Lossless policies (:func:`lossless_part`), of which ``choose`` takes one before each round of a text."""

    def __init__(self, policies: Mapping[str, DevicePolicy], choose: Callable[[], Chosen]) -> None:
        self.parts, self.choose = {name: Planned(policy) for name, policy in policies.items()}, choose
        self.max_draft_length = max(part.max_draft_length for part in self.parts.values())
        self.name = " or ".join(part.name for part in self.parts.values())

    @property
    def number(self) -> int:
        return list(self.parts.values()).index(self.now)

    def begin(self, session: Session) -> None:
        if session.sequences != 1:
            raise UserError(f"Messages change in one text at a time, and the batch has {session.sequences}; use 1.")
        for part in self.parts.values():
            part.begin(session)
        self.choices, self.place, self.looked = list[Chosen](), 0, 0  # stream positions before `looked` were looked at
        super().begin(session)

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        """Choose; keep the shared seed where its stream was looked at."""
        chosen, ahead = self.choose(), self.looked - self.place
        if ahead > 0 and not self.parts[chosen.message].shared_seed:
            chosen = Chosen(self.choices[-1].message, min(ahead, chosen.length))
        self.choices.append(chosen)
        self.now = self.parts[chosen.message]
        self.shared_seed = self.now.shared_seed
        return np.full(len(sequences), chosen.length)

    def propose(self, step: Step) -> Proposal:
        if step.first_of_round[0]:
            self.place = int(step.positions[0])
        if self.shared_seed:
            self.looked = max(self.looked, int(step.positions[0]) + 1)
        return self.now.propose(step)

    def skip(self, step: Step, tokens: Array) -> Array:
        return self.now.skip(step, tokens)

    def server_distributions(
        self, step: Step, tokens: Array, skip: Array
    ) -> tuple[Sequence[Any], Sequence[DeviceDraft]]:
        return self.now.server_distributions(step, tokens, skip)

    def message(self, drafts: list[Draft]) -> Message:
        return self.now.message(drafts)

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        return self.now.reply(drafts, accepted)

    def learn(self, outcome: Outcome) -> None:
        self.place += outcome.accepted + 1
