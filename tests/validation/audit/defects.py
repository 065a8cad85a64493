"""Defects built into the loop on purpose: the positive controls of the audit, one flag each.

Each was reported for some software. It replaces one part of a run, for the time of that run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from validation.audit.mechanisms import COIN
from validation.collection.prompts import Prompt
from validation.decoding import loop, verification
from validation.decoding.batch_state import DRAFT
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import BlockVerification, FixedLength
from validation.decoding.random_streams import ACCEPT, REPLACE, Noise
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.sampling import distributions_of, draw, levels, residual
from validation.decoding.session import Draft, Message, Proposal, Session, Step
from validation.decoding.verification import VerifiedDrafts
from validation.models.pair import Pair

Array = np.ndarray
MIN_P = 0.3
"""Of the control whose server leaves it out."""


class StaleQ(FixedLength):
    """Every draft of a round is judged by the q of the round's first draft, as if only that one had been stored."""

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.first: torch.Tensor | None = None

    def propose(self, step: Step) -> Proposal:
        q = step.distributions
        if self.first is None:
            self.first = q.new_zeros((self.session.sequences, q.shape[-1]))
        rows, fresh = (torch.from_numpy(part).to(q.device) for part in (step.sequences, step.first_of_round))
        self.first[rows[fresh]] = q[fresh]
        return Proposal(q, self.first[rows])


class Judged(FixedLength):
    """Drafts are judged by another q than they are drawn from; ``rows`` gives both."""

    rows: Callable[[Step, float, float], Proposal]

    def propose(self, step: Step) -> Proposal:
        return type(self).rows(step, self.session.temperature, self.session.top_p)


def judged(rows: Callable[[Step, float, float], Proposal]) -> type[Judged]:
    return type("Judged", (Judged,), {"rows": staticmethod(rows)})


def unnormalised_residual(target: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
    left = (target.double() - draft.double()).clamp_min_(0.0)
    left[..., -1] += 1.0 - left.sum(dim=-1)
    return left


def residual_by_rank(target: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
    p, order = target.double().sort(dim=-1, descending=True, stable=True)
    q = draft.double().sort(dim=-1, descending=True, stable=True).values
    return torch.zeros_like(p).scatter_(-1, order, residual(p, q))


def with_min_p(rows: torch.Tensor, min_p: float) -> torch.Tensor:
    cut = rows * (rows >= min_p * rows.max(dim=-1, keepdim=True).values)
    return cut / cut.sum(dim=-1, keepdim=True)


def min_p_of_bonus_alone(
    method: Method, session: Session, sequences: Array, drafts: Any, logits: Any, sizes: Array, *rest: Any
) -> VerifiedDrafts:
    def rows(*given: Any) -> torch.Tensor:
        found, last = distributions_of(*given), np.cumsum(sizes) - 1
        found[last] = with_min_p(found[last], MIN_P)
        return found

    with patch.object(verification, "distributions_of", rows):
        return verification.verify(method, session, sequences, drafts, logits, sizes, *rest)


class DraftNoiseAgain(Noise):
    """The number that drew a draft also draws the token that replaces it."""

    def __init__(self, seed: int, names: Sequence[str], positions: int) -> None:
        super().__init__(seed, names, positions)
        self.of_draft = np.full((len(names), positions + 1), np.nan)

    def drafts(self, sequences: Array, positions: Array, ahead: Array, count: int) -> Array:
        found = super().drafts(sequences, positions, ahead, count)
        self.of_draft[sequences, positions] = found[:, 0]
        return found

    def uniforms(self, purpose: int, sequences: Array, positions: Array, count: int) -> Array:
        found = super().uniforms(purpose, sequences, positions, count)
        if purpose == REPLACE:
            again = self.of_draft[sequences, positions]
            found[:, 0] = np.where(np.isnan(again), found[:, 0], again)
            self.of_draft[sequences, positions] = np.nan
        return found


class CoinMayBeZero(Noise):
    """Coins are 0 once in 256, and ``u q ≤ p`` accepts p = 0: a number just below 0 stands for 0 in ``u q < p``."""

    def uniform(self, purpose: int, sequences: Array, positions: Array) -> Array:
        found = super().uniform(purpose, sequences, positions)
        return np.where(found < COIN, -1e-200, found) if purpose == ACCEPT else found


class _BonusFromDraft(loop.Loop):
    """After a round whose drafts were all accepted, the bonus token is drawn from q."""

    def _write_round(
        self, slots: Array, in_flight: list[list[Draft]], messages: list[Message], found: VerifiedDrafts
    ) -> list[Round]:
        (bonus,) = ((found.token >= 0) & ~found.rejected & (found.counts > 0)).nonzero()
        if len(bonus):
            some = slots[bonus]
            q = distributions_of(self.forward(DRAFT, some, 1), self.session.temperature, self.session.top_p)
            places = self.draft_end[some] - self.prompt_end[some]
            numbers = self.noise.uniforms(REPLACE, self.sequences[some], places, levels(q.shape[-1]))
            found.token[bonus], _ = draw(q, numbers)
        return super()._write_round(slots, in_flight, messages, found)


class _EndPassedOver(loop.Loop):
    """Drafting goes on behind an end-of-text token, and a text ends only at the last token of a round."""

    _drafting = False

    def _draft(self) -> None:
        self._drafting = True
        try:
            super()._draft()
        finally:
            self._drafting = False

    def is_end(self, tokens: Array) -> Array:
        return np.zeros(len(tokens), dtype=bool) if self._drafting else super().is_end(tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """The setting that shows a defect, and what replaces a part of the run."""

    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    method: Callable[[int], Method] = FixedLength
    noise: Callable[[int, Sequence[str], int], Noise] = Noise
    residual: Callable[..., Any] | None = None
    passes: Callable[..., Any] | None = None
    step: type[loop.Loop] | None = None
    verify: Callable[..., VerifiedDrafts] | None = None


DEFECTS = {
    "stale_draft": Defect(method=StaleQ),
    "draft_temperature": Defect(
        temperature=0.7,
        method=judged(lambda step, t, top_p: Proposal(step.distributions, distributions_of(step.parts, 1.0, top_p))),
    ),
    "draft_before_top_p": Defect(
        top_p=0.9,
        method=judged(lambda step, t, top_p: Proposal(step.distributions, distributions_of(step.parts, t, 1.0))),
    ),
    "residual_not_normalised": Defect(residual=unnormalised_residual),
    "residual_by_rank": Defect(residual=residual_by_rank),
    "noise_reused": Defect(noise=DraftNoiseAgain),
    "greedy_draft_ratio": Defect(
        method=judged(lambda step, t, top_p: Proposal(distributions_of(step.parts, 0.0, 1.0), step.distributions))
    ),
    "zero_accepted": Defect(top_p=0.9, noise=CoinMayBeZero),
    "bonus_from_draft": Defect(step=_BonusFromDraft),
    "end_passed_over": Defect(step=_EndPassedOver),
    "block_token_rule": Defect(
        method=BlockVerification,
        residual=lambda target, draft, weight: residual(target, draft),
        passes=lambda weights, spare: weights,
    ),
    "min_p_dropped": Defect(min_p=MIN_P, verify=min_p_of_bonus_alone),
}
"""The reports of each are in figures/studies/audit_controls."""


def decode_with(
    defect: str, pair: Pair, prompts: Sequence[Prompt], *, max_draft_length: int = 2, **options: Any
) -> list[GenerationRecord]:
    found = DEFECTS[defect]
    settings: dict[str, Any] = {"temperature": found.temperature, "top_p": found.top_p, "noise": found.noise} | options
    with (
        patch.object(loop, "Loop", found.step or loop.Loop),
        patch.object(loop, "verify", found.verify or loop.verify),
        patch.object(verification, "residual", found.residual or verification.residual),
        patch.object(verification, "block_passes", found.passes or verification.block_passes),
    ):
        return loop.decode(pair, prompts, found.method(max_draft_length), **settings)
