"""Methods of c-sqs: drafts from quantised distributions, as many as a round's bits allow; fixed or adaptive support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hlmtheory.codec import encode
from hlmtheory.codec.messages import LatticeDraft
from hlmtheory.conformal import MassBudgetController, ThresholdController, threshold_support
from hlmtheory.conformal.controller import smallest_support
from hlmtheory.lattice import allocate, payload_bits, quantize, top_support
from hlmtheory.lattice.quantization import distortion_bound_sharp
from hlmtheory.wire import LatticeMessage
from validation.arrays import Array
from validation.decoding.methods.base import Method
from validation.decoding.methods.registry import PLAIN, Family, entry, register
from validation.decoding.methods.rows import SQS, Absent, Format
from validation.decoding.session import Draft, Message, Outcome, Proposal, Session, Step
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

BUDGET_BITS, RESOLUTION, LEARNING_RATE, EPSILON = 5000.0, 100, 0.001, 0.0005
"""c-sqs Section 4: B, ℓ, η and the target deviation."""
NOT_PLANNED = Absent("the supports of a plan have K tokens, or a threshold")
FINEST = 2**20
"""Largest resolution; a finer one would not change a model's distribution, and the codec supports at most 2²⁴."""


def short_form(value: float) -> str:
    """Return a number as text for a name: short, and different from that of any other number.

    >>> short_form(0.001), short_form(5000.0), short_form(0.12345678)
    ('0.001', '5000', '0.12345678')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _unusual(symbol: str, value: float, usual: float) -> list[str]:
    return [] if value == usual else [f"{symbol} = {short_form(value)}"]


@dataclass(slots=True)
class Lattice:
    """Sent part of a draft's distribution, and its distortion."""

    tokens: Array  # tokens with a positive count, ascending
    counts: Array
    bits: float
    dropped: float
    rounding: float

    def drawn(self, token: int) -> LatticeDraft:
        return LatticeDraft(self.tokens, self.counts, token)


class Sqs(Method):
    """Quantise and sample: the draft is drawn from q̂ = b/ℓ and verified with q̂, which leaves the target model's law.

    Drafting stops before the draft that would exceed ``budget_bits``; with ``sends_last`` it is sent and ends the
    round. With ``by_bytes`` budget and link count the encoded bytes, whose length does not depend on which token was
    drawn. The name holds the main parameter and every setting that differs from the paper's.
    """

    source, format = "bhattacharjee2025csqs", Format.LATTICE
    row: str | Absent = SQS
    adaptive = False
    sends_last = False  # an attribute of the object only where it is true: older journals do not name it

    def __init__(
        self,
        family: str,
        *settings: str,
        budget_bits: float = BUDGET_BITS,
        resolution: int = RESOLUTION,
        by_bytes: bool = False,
        sends_last: bool = False,
    ) -> None:
        shared = [*_unusual("B", budget_bits, BUDGET_BITS), *_unusual("ℓ", resolution, RESOLUTION)]
        settings = (*settings, *shared, *(["bytes"] if by_bytes else []), *(["sends last"] if sends_last else []))
        self.name = f"{family} ({', '.join(settings)})" if settings else family
        self.budget, self.resolution, self.real_bytes = budget_bits, resolution, by_bytes
        if sends_last:
            self.sends_last = True

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.spent = np.zeros(session.sequences)
        self.batches: list[list[LatticeDraft]] = [[] for _ in range(session.sequences)]

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        """Return no limit: the budget ends a round."""
        return np.full(len(sequences), self.session.new_tokens)

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        """Return which tokens are kept, (n, V) bool, here all with q > 0, and ℓ, a number or (n,)."""
        return step.distributions > 0, self.resolution

    def support_sizes(self, kept: Array) -> Array:
        """Return K as the formula counts it."""
        return kept

    def propose(self, step: Step) -> Proposal:
        """Quantise, and end a round where the budget is used up."""
        import torch

        support, resolution = self.supports(step)
        support = support & (step.distributions > 0)  # a threshold of 0 or less would keep impossible tokens
        counts = quantize(step.distributions, support=support, resolution=resolution)
        units = np.broadcast_to(np.asarray(torch.as_tensor(resolution).cpu()), len(step.sequences))
        kept = support.sum(dim=-1).cpu().numpy()
        bits = payload_bits(self.session.vocabulary, self.support_sizes(kept), units, adaptive=self.adaptive)
        dropped = torch.where(support, 0.0, step.distributions.double()).sum(dim=-1).cpu().numpy()
        rounding = distortion_bound_sharp(kept, units)
        notes = []
        for i in range(len(step.sequences)):
            chosen = counts[i].nonzero()[:, 0]
            values = (chosen.cpu().numpy(), counts[i, chosen].cpu().numpy())
            notes.append(Lattice(*values, float(bits[i]), float(dropped[i]), float(rounding[i])))
        full = np.array(
            [self._spend(*each) for each in zip(step.sequences.tolist(), step.first_of_round, notes, strict=True)]
        )
        self.taken(step, full & (not self.sends_last))
        ends = {"last_of_round" if self.sends_last else "ends_round": full}
        return Proposal(counts / counts.sum(dim=-1, keepdim=True), notes=notes, **ends)

    def _spend(self, sequence: int, fresh: bool, draft: Lattice) -> bool:
        if not self.real_bytes:
            self.spent[sequence] = draft.bits + (0.0 if fresh else self.spent[sequence])
        else:
            any_token = draft.drawn(int(draft.tokens[0]))
            self.batches[sequence] = [any_token] if fresh else [*self.batches[sequence], any_token]
            self.spent[sequence] = 8 * len(self._encoded(self.batches[sequence]))
        return bool(self.spent[sequence] > self.budget)

    def _encoded(self, drafts: list[LatticeDraft]) -> bytes:
        return encode(LatticeMessage(self.session.vocabulary, tuple(drafts)))

    def taken(self, step: Step, full: Array) -> None:
        """Record which drafts fit the budget."""

    def message(self, drafts: list[Draft]) -> Message:
        if not drafts:
            return Message(0.0, b"\0")  # a request for a token
        coded = self._encoded([draft.note.drawn(draft.token) for draft in drafts])
        return Message(sum(draft.note.bits for draft in drafts), coded)

    def distortion(self, drafts: list[Draft]) -> tuple[float, float]:
        """Return the two parts of the second sum of Theorem 1."""
        return sum(draft.note.dropped for draft in drafts), sum(draft.note.rounding for draft in drafts)


@register(entry("QS dense", Family.SQS, "rival", "v", default=PLAIN))
class DenseQs(Sqs):
    row = NOT_PLANNED

    def __init__(self, **options: Any) -> None:
        super().__init__("QS dense", **options)

    def support_sizes(self, kept: Array) -> Array:
        """Return V, also where a distribution has zeros."""
        return np.full_like(kept, self.session.vocabulary)


@register(entry("K-SQS", Family.SQS, "paper light", "s", default=PLAIN))
class KSqs(Sqs):
    def __init__(self, k: int = 64, **options: Any) -> None:
        super().__init__("K-SQS", f"K = {k}", **options)
        self.k = k

    def begin(self, session: Session) -> None:
        if not 1 <= self.k <= session.vocabulary:
            raise UserError(f"K is {self.k}; it must be 1 to {session.vocabulary:,}, the tokens of the vocabulary.")
        super().begin(session)

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        size = (step.distributions > 0).sum(dim=-1).clamp_max(self.k)
        return top_support(step.distributions, size), self.resolution

    def support_sizes(self, kept: Array) -> Array:
        """Return K, also where a distribution has zeros: the server expects K."""
        return np.full_like(kept, self.k)


class AdaptiveSqs(Sqs):
    """A support of its own size at each position, from a threshold, from a budget, or from the larger of the two."""

    adaptive = True
    first: float | None = None  # τ₁; None without a threshold
    epsilon, rate, printed, budgeted = EPSILON, 0.0, False, False

    def begin(self, session: Session) -> None:
        super().begin(session)
        count = session.sequences
        settings = (self.epsilon, self.rate or 1.0, self.first or 0.0)
        self.controllers = [ThresholdController(*settings) for _ in range(count if self.first is not None else 0)]
        self.budgets = [MassBudgetController(self.epsilon) for _ in range(count if self.budgeted else 0)]

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        import torch

        def for_each(values: list[float]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.float64, device=step.distributions.device)

        kept = torch.zeros_like(step.distributions, dtype=torch.bool)
        if self.budgets:
            left = for_each([max(0.0, float(self.budgets[sequence].allowance)) for sequence in step.sequences])
            kept = kept | smallest_support(step.distributions, left)
        if self.controllers:
            now = for_each([float(self.controllers[sequence].threshold) for sequence in step.sequences])
            kept = kept | threshold_support(step.distributions, now)
        return kept, self.resolution

    def taken(self, step: Step, full: Array) -> None:
        """Take what the support of each sent draft drops from the budget, and update the threshold by (8)."""
        for i in np.flatnonzero(~full) if self.rate or self.budgets else ():
            row, sequence = step.distributions[i].double().cpu().numpy(), step.sequences[i]
            if self.budgets:
                self.budgets[sequence].step(row, *(c.threshold for c in self.controllers[sequence : sequence + 1]))
            if self.rate:
                self.controllers[sequence].step(row)

    def learn(self, outcome: Outcome) -> float | None:
        if outcome.drafts and self.budgets:
            self.budgets[outcome.sequence].roll_back(outcome.accepted)
        if not self.controllers:
            return None
        if outcome.drafts and self.rate:
            self.controllers[outcome.sequence].roll_back(outcome.accepted, printed=self.printed)
        return float(self.controllers[outcome.sequence].threshold)


@register(
    entry("C-SQS", Family.SQS, "paper", "s", default=PLAIN),
    entry("C-SQS (τ₁ = 0, as printed)", Family.SQS, "paper dark", "x", default=lambda _: CSqs(printed=True)),
    entry(
        "C-SQS (τ = 0.001, fixed)", Family.SQS, "paper", "s", "dotted", default=lambda _: CSqs(0.001, learning_rate=0.0)
    ),
)
class CSqs(AdaptiveSqs):
    """C-SQS: the tokens with q at or above a threshold that is adapted online (c-sqs Algorithm 1).

    With ``printed`` the rejected position's own update is lost, as in line 12 (claim ``conformal.resampled``).
    """

    def __init__(
        self,
        threshold: float = 0.0,
        *,
        learning_rate: float = LEARNING_RATE,
        epsilon: float = EPSILON,
        printed: bool = False,
        **options: Any,
    ) -> None:
        kind = ["fixed"] if learning_rate == 0 else _unusual("η", learning_rate, LEARNING_RATE)
        kind += [*_unusual("ε", epsilon, EPSILON), *(["as printed"] if printed else [])]
        super().__init__("C-SQS", f"{'τ₁' if learning_rate else 'τ'} = {short_form(threshold)}", *kind, **options)
        self.first, self.rate, self.epsilon, self.printed = threshold, learning_rate, epsilon, printed


@register(entry("Budgeted SQS", Family.SQS, "ours", "P", default=PLAIN))
class BudgetedSqs(AdaptiveSqs):
    """The smallest support that keeps the mean dropped mass at most ε at every position, without a threshold."""

    row = NOT_PLANNED
    budgeted = True

    def __init__(self, *, epsilon: float = EPSILON, **options: Any) -> None:
        super().__init__("Budgeted SQS", *_unusual("ε", epsilon, EPSILON), **options)
        self.epsilon = epsilon


@register(entry("Budgeted C-SQS", Family.SQS, "ours light", "X", default=PLAIN))
class BudgetedCSqs(AdaptiveSqs):
    """C-SQS that also keeps the tokens whose mass would exceed the budget of :class:`BudgetedSqs`; one ε for both."""

    row = NOT_PLANNED
    budgeted = True

    def __init__(
        self, threshold: float = 0.0, *, epsilon: float = EPSILON, learning_rate: float = LEARNING_RATE, **options: Any
    ) -> None:
        settings = (*_unusual("η", learning_rate, LEARNING_RATE), *_unusual("ε", epsilon, EPSILON))
        super().__init__("Budgeted C-SQS", f"τ₁ = {short_form(threshold)}", *settings, **options)
        self.first, self.rate, self.epsilon = threshold, learning_rate, epsilon


@register(entry("SQS allocated", Family.SQS, "ours light", "D", default=PLAIN))
class AllocatedSqs(Sqs):
    """The support size and resolution with the smallest distortion for a number of bits per draft."""

    row = NOT_PLANNED
    adaptive = True

    def __init__(self, draft_bits: float = 500.0, **options: Any) -> None:
        super().__init__("SQS allocated", f"{short_form(draft_bits)} bits", **options)
        self.draft_bits = draft_bits

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        allocation = allocate(step.distributions, self.draft_bits)
        return top_support(step.distributions, allocation.k), allocation.resolution.clamp_max(FINEST)
