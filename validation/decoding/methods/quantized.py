"""Methods of c-sqs: drafts from quantised distributions, as many as a round's bits allow; fixed or adaptive support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec import LatticeDraft, LatticeMessage, encode
from hlmtheory.conformal import MassBudgetController, ThresholdController, smallest_support, threshold_support
from hlmtheory.lattice import allocate, distortion_bound_sharp, payload_bits, quantize, top_support
from validation.decoding.methods.base import Method
from validation.decoding.methods.registry import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LIGHT_BLUE,
    ORANGE,
    Family,
    MethodInfo,
    PlotStyle,
    register,
)
from validation.decoding.session import Draft, Message, Outcome, Proposal, Session, Step
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]
BUDGET_BITS, RESOLUTION, LEARNING_RATE, EPSILON = 5000.0, 100, 0.001, 0.0005
"""c-sqs Section 4: B, ℓ, η and the target deviation."""
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
    """Return a setting for a name, if it differs from the paper's."""
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
        """Return the distribution with a drawn token, in the codec's form."""
        return LatticeDraft(self.tokens, self.counts, token)


class Sqs(Method):
    """Quantise and sample: the draft is drawn from q̂ = b/ℓ and verified with q̂, which leaves the target model's law.

    Parameters
    ----------
    budget_bits : float
        B of a round; drafting stops before the draft that would exceed it.
    resolution : int
        ℓ.
    by_bytes : bool
        Whether the budget and the link count the encoded bytes, or the formula's bits.
    sends_last : bool
        Whether the draft that exceeds the budget is sent and ends the round. Otherwise it is dropped, as in c-sqs, and
        its pass is lost.

    The name holds the main parameter and every setting that differs from the paper's, so that names are distinct.

    The bytes are those of :mod:`hlmtheory.codec`. They list only the tokens with a positive count, which gives the same
    distribution. Their length does not depend on which token was drawn, so the budget does not bias the draft.
    """

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
        """Start with an unused budget."""
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
            [self._spend(*one) for one in zip(step.sequences.tolist(), step.first_of_round, notes, strict=True)]
        )
        self.taken(step, full & (not self.sends_last))
        ends = {"last_of_round" if self.sends_last else "ends_round": full}
        return Proposal(counts / counts.sum(dim=-1, keepdim=True), notes=notes, **ends)

    def _spend(self, sequence: int, fresh: bool, draft: Lattice) -> bool:
        """Count a draft, and return whether it no longer fits the round."""
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
        """Return the distributions on their lattices, and the tokens."""
        if not drafts:
            return Message(0.0, b"\0")  # a request for a token
        coded = self._encoded([draft.note.drawn(draft.token) for draft in drafts])
        return Message(sum(draft.note.bits for draft in drafts), coded)

    def distortion(self, drafts: list[Draft]) -> tuple[float, float]:
        """Return the two parts of the second sum of Theorem 1."""
        return sum(draft.note.dropped for draft in drafts), sum(draft.note.rounding for draft in drafts)


@register(MethodInfo("QS dense", Family.SQS, PlotStyle(GREY, "v"), default=lambda setup: DenseQs()))
class DenseQs(Sqs):
    """QS: the whole distribution on the lattice."""

    def __init__(self, **options: Any) -> None:
        super().__init__("QS dense", **options)

    def support_sizes(self, kept: Array) -> Array:
        """Return V, also where a distribution has zeros."""
        return np.full_like(kept, self.session.vocabulary)


@register(MethodInfo("K-SQS", Family.SQS, PlotStyle(BLUE, "s"), default=lambda setup: KSqs()))
class KSqs(Sqs):
    """K-SQS: the K largest probabilities."""

    def __init__(self, k: int = 64, **options: Any) -> None:
        super().__init__("K-SQS", f"K = {k}", **options)
        self.k = k

    def begin(self, session: Session) -> None:
        """Refuse K outside the vocabulary."""
        if not 1 <= self.k <= session.vocabulary:
            raise UserError(f"K is {self.k}; it must be 1 to {session.vocabulary:,}, the tokens of the vocabulary.")
        super().begin(session)

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        """Return the K largest, or fewer if fewer are positive."""
        size = (step.distributions > 0).sum(dim=-1).clamp_max(self.k)
        return top_support(step.distributions, size), self.resolution

    def support_sizes(self, kept: Array) -> Array:
        """Return K, also where a distribution has zeros: the server expects K."""
        return np.full_like(kept, self.k)


@register(
    MethodInfo("C-SQS", Family.SQS, PlotStyle(ORANGE, "s"), default=lambda setup: CSqs()),
    MethodInfo(
        "C-SQS (τ₁ = 0, as printed)", Family.SQS, PlotStyle(GREEN, "x"), default=lambda setup: CSqs(printed=True)
    ),
    MethodInfo(
        "C-SQS (τ = 0.001, fixed)",
        Family.SQS,
        PlotStyle(ORANGE, "s", "dotted"),
        default=lambda setup: CSqs(0.001, learning_rate=0.0),
    ),
)
class CSqs(Sqs):
    """C-SQS: the tokens with q at or above a threshold that is adapted online (c-sqs Algorithm 1).

    The most probable token is always kept, so that no support is empty. Section 3 rounds the support's bits up, (5)
    does not. Here they are not rounded; the difference is less than one bit per draft.

    Parameters
    ----------
    threshold : float
        τ_1.
    learning_rate : float
        η; 0 leaves the threshold where it is.
    epsilon : float
        The target for the dropped mass.
    printed : bool
        Whether the rejected position's own update is lost, as in line 12 (claim ``conformal.resampled``).
    """

    adaptive = True

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

    def begin(self, session: Session) -> None:
        """Start a controller for each sequence; a fixed threshold never updates it."""
        super().begin(session)
        settings = (self.epsilon, self.rate or 1.0, self.first)
        self.controllers = [ThresholdController(*settings) for _ in range(session.sequences)]

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        """Return {q ≥ τ} and the most probable token."""
        now = [float(self.controllers[sequence].threshold) for sequence in step.sequences]
        return threshold_support(step.distributions, _for_each(now, step)), self.resolution

    def taken(self, step: Step, full: Array) -> None:
        """Update the threshold by (8) for each draft that is sent."""
        if self.rate:
            for i in np.flatnonzero(~full):
                self.controllers[step.sequences[i]].step(step.distributions[i].double().cpu().numpy())

    def learn(self, outcome: Outcome) -> float:
        """Roll the threshold back to the last kept position, and return it."""
        controller = self.controllers[outcome.sequence]
        if self.rate and outcome.drafts:
            controller.roll_back(outcome.accepted, printed=self.printed)
        return float(controller.threshold)


@register(MethodInfo("Budgeted SQS", Family.SQS, PlotStyle(BLACK, "P"), default=lambda setup: BudgetedSqs()))
class BudgetedSqs(Sqs):
    """The smallest support that keeps the mean dropped mass at most ε at every position, without a threshold.

    :class:`~hlmtheory.conformal.MassBudgetController` keeps the budget, and is rolled back like C-SQS's threshold. The
    most probable token is always kept.

    Parameters
    ----------
    epsilon : float
        Limit of the mean dropped mass of the accepted and resampled drafts.
    """

    adaptive = True
    family = "Budgeted SQS"

    def __init__(self, *settings: str, epsilon: float = EPSILON, **options: Any) -> None:
        super().__init__(self.family, *settings, *_unusual("ε", epsilon, EPSILON), **options)
        self.epsilon = epsilon

    def begin(self, session: Session) -> None:
        """Start a budget for each sequence."""
        super().begin(session)
        self.budgets = [MassBudgetController(self.epsilon) for _ in range(session.sequences)]

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        """Return the smallest support within the allowance of each sequence."""
        left = [max(0.0, float(self.budgets[sequence].allowance)) for sequence in step.sequences]
        return smallest_support(step.distributions, _for_each(left, step)), self.resolution

    def taken(self, step: Step, full: Array) -> None:
        """Take the dropped mass of each draft that is sent from its budget."""
        for i in np.flatnonzero(~full):
            self.budgets[step.sequences[i]].step(step.distributions[i].double().cpu().numpy())

    def learn(self, outcome: Outcome) -> float | None:
        """Return to the budget what the drafts after the last kept position have spent."""
        if outcome.drafts:
            self.budgets[outcome.sequence].roll_back(outcome.accepted)
        return None


@register(MethodInfo("Budgeted C-SQS", Family.SQS, PlotStyle(LIGHT_BLUE, "X"), default=lambda setup: BudgetedCSqs()))
class BudgetedCSqs(BudgetedSqs):
    """C-SQS that also keeps the tokens whose mass would exceed the budget of :class:`BudgetedSqs`.

    Parameters
    ----------
    threshold : float
        τ_1 of C-SQS's adaptive threshold.
    epsilon : float
        Its target, and the limit of the mean dropped mass.
    learning_rate : float
        η.
    """

    family = "Budgeted C-SQS"

    def __init__(
        self, threshold: float = 0.0, *, epsilon: float = EPSILON, learning_rate: float = LEARNING_RATE, **options: Any
    ) -> None:
        settings = (f"τ₁ = {short_form(threshold)}", *_unusual("η", learning_rate, LEARNING_RATE))
        super().__init__(*settings, epsilon=epsilon, **options)
        self.first, self.rate = threshold, learning_rate

    def begin(self, session: Session) -> None:
        """Start a budget and a threshold for each sequence."""
        super().begin(session)
        settings = (self.epsilon, self.rate, self.first)
        self.controllers = [ThresholdController(*settings) for _ in range(session.sequences)]

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        """Return the larger of the two supports."""
        now = [float(self.controllers[sequence].threshold) for sequence in step.sequences]
        affordable, resolution = super().supports(step)
        return affordable | threshold_support(step.distributions, _for_each(now, step)), resolution

    def taken(self, step: Step, full: Array) -> None:
        """Take the mass that both supports drop from the budget, and update the threshold as C-SQS does."""
        for i in np.flatnonzero(~full):
            row, sequence = step.distributions[i].double().cpu().numpy(), step.sequences[i]
            self.budgets[sequence].step(row, self.controllers[sequence].threshold)
            self.controllers[sequence].step(row)

    def learn(self, outcome: Outcome) -> float | None:
        """Roll both back to the last kept position, and return the threshold."""
        super().learn(outcome)
        controller = self.controllers[outcome.sequence]
        if outcome.drafts:
            controller.roll_back(outcome.accepted)
        return float(controller.threshold)


def _for_each(values: Sequence[float], step: Step) -> torch.Tensor:
    """Return one number for each sequence of a step, on its device."""
    import torch

    return torch.tensor(values, dtype=torch.float64, device=step.distributions.device)


@register(MethodInfo("SQS allocated", Family.SQS, PlotStyle(GREEN, "D"), default=lambda setup: AllocatedSqs()))
class AllocatedSqs(Sqs):
    """The support size and resolution with the smallest distortion for a number of bits per draft."""

    adaptive = True

    def __init__(self, draft_bits: float = 500.0, **options: Any) -> None:
        super().__init__("SQS allocated", f"{short_form(draft_bits)} bits", **options)
        self.draft_bits = draft_bits

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        """Return the support and resolution of :func:`hlmtheory.lattice.allocate`."""
        found = allocate(step.distributions, self.draft_bits)
        return top_support(step.distributions, found.k), found.resolution.clamp_max(FINEST)
