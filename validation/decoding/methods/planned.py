"""A planned policy in the generation loop: the decisions and the bytes of :class:`hlmtheory.policy.DevicePolicy`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy import (
    CertifiedAnswers,
    CertifiedRows,
    DeviceDraft,
    DevicePolicy,
    DraftProbabilities,
    SeededTokens,
    StreamedTokens,
)
from hlmtheory.policy.answers import answer_length
from validation.decoding.methods.base import Method
from validation.decoding.methods.registry import BLACK, Family, entry, register
from validation.decoding.methods.split import cut
from validation.decoding.random_streams import Columns
from validation.decoding.session import Draft, Message, Proposal, Session, Step
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]


@register(entry("Planned", Family.PLANNED, BLACK, "*", width=2.0, order=5))
class Planned(Method):
    """A policy of ``hlm plan``: what a device that reads ``policy.json`` decides and sends."""

    def __init__(self, policy: DevicePolicy) -> None:
        self.policy, self.text = policy, policy.to_json()
        self.name = f"Planned ({zlib.crc32(self.text.encode()):08x})"
        self.max_draft_length, self.bonus = policy.rule.draft_length, policy.bonus
        self.truncates = isinstance(policy.messages, CertifiedRows)
        self.runs_draft = policy.rule.draft_length > 0
        self.shared_seed = isinstance(policy.messages, SeededTokens)
        self.streamed = isinstance(policy.messages, StreamedTokens)
        self.by_block = policy.block
        self.cuts_answer = isinstance(policy.messages, CertifiedAnswers)

    def begin(self, session: Session) -> None:
        policy = self.policy
        if session.vocabulary != policy.vocabulary:
            raise UserError(
                f"The policy is for {policy.vocabulary:,} tokens, and the models have {session.vocabulary:,}; plan for "
                "these models."
            )
        refuse_other_sampling(policy, session.temperature, session.top_p)
        self.places: dict[int, int] = {}
        super().begin(session)

    def propose(self, step: Step) -> Proposal:
        import torch

        self.logits = step.logits.double().cpu().numpy()
        rows = np.stack([self.policy.distribution(row) for row in self.logits])
        return Proposal(torch.from_numpy(rows).to(step.distributions.device))

    def skip(self, step: Step, tokens: Array) -> Array:
        for sequence, first in zip(step.sequences.tolist(), step.first_of_round.tolist(), strict=True):
            self.places[sequence] = 1 if first else self.places[sequence] + 1
        rows = zip(self.logits, tokens.tolist(), step.sequences.tolist(), strict=True)
        self.decided = [
            self.policy.decide(row, token, place=self.places[sequence], rng=self._numbers(step, n))
            for n, (row, token, sequence) in enumerate(rows)
        ]
        return np.array([one.skip for one in self.decided], dtype=bool)

    def server_distributions(
        self, step: Step, tokens: Array, skip: Array
    ) -> tuple[Sequence[Any], Sequence[DeviceDraft]]:
        """Return the distributions that the server decodes, and the drafts for the message."""
        import torch

        device, rows = step.distributions.device, [self.policy.server_row(one) for one in self.decided]
        return [None if row is None else torch.from_numpy(row).to(device) for row in rows], self.decided

    def message(self, drafts: list[Draft]) -> Message:
        """Return the bytes that the device sends; of a device that drafts on also the number of starts, below 128."""
        payload = bytes(self.streamed) + self.policy.message([draft.note for draft in drafts])
        return Message(8.0 * len(payload), payload)

    def answered(self, draft: Draft, target: torch.Tensor) -> torch.Tensor:
        messages = self.policy.messages
        if not isinstance(messages, CertifiedAnswers) or not bool(target.isfinite().all()):
            return target
        return cut(draft, target, messages.limit)

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the bytes of the answer: the count and a token, or after a rejection p, if the device draws."""
        if self.policy.message_sizes:
            return answer_length(self.policy, len(drafts))
        if accepted == len(drafts) or not isinstance(self.policy.messages, DraftProbabilities):
            return super().reply(drafts, accepted) + self.streamed
        return 2 + (len(drafts[accepted].answer) if self.cuts_answer else 4 * self.policy.vocabulary)

    def _numbers(self, step: Step, place: int) -> np.random.Generator:
        line = self.policy.line
        if line is None or line.draws is None:
            return Columns(np.empty((0, 1)))
        one = slice(place, place + 1)
        return Columns(self.session.noise.several(step.sequences[one], step.positions[one], 2 * line.draws))


def refuse_other_sampling(policy: DevicePolicy, temperature: float, top_p: float) -> None:
    if temperature != policy.temperature or top_p != 1.0:
        raise UserError(
            f"The policy is for temperature {policy.temperature:g} and top-p 1, and the run has {temperature:g} and "
            f"{top_p:g}; plan for these, or decode at those."
        )
