"""Methods with several drafts a round: from the draft model, the sequence itself, or the target model's last pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hlmtheory.draft_length import AcceptanceTracker, optimal_draft_length, round_costs
from hlmtheory.draft_length.optimum import surrogate_draft_length
from hlmtheory.policy.answers import cut_answer, received_answer
from hlmtheory.policy.device import ANSWER_BITS
from validation.arrays import Array
from validation.decoding.methods.base import Method, tokens_message
from validation.decoding.methods.quantized import short_form
from validation.decoding.methods.registry import BY_LENGTH, Family, Setup, entry, register
from validation.decoding.methods.rows import CERTIFIED, FIXED, FLEXSPEC, GREEDY, OURS, Absent, Format, Law
from validation.decoding.methods.single_draft import CloudOnly
from validation.decoding.sampling import distributions_of
from validation.decoding.session import Draft, Message, Outcome, Proposal, Session, Step
from validation.decoding.wire import float_bits, index_bits, pack
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

SD = Family.SPECULATIVE
FLEXSPEC_DRAFT_S = 0.0085  # seconds of a draft on a Jetson AGX Orin: flexspec Table V
SLOWEST_BPS = 1.0  # the rate for which a draft length is chosen while the link's rate is 0


@register(entry("fixed K", Family.SPECULATIVE, "rival", "o", default=BY_LENGTH))
class FixedLength(Method):
    """Standard speculative decoding: K drafts, each with its distribution, and a bonus token (leviathan2023fast)."""

    source = "leviathan2023fast"
    row: str | Absent = FIXED
    label = "fixed K = {}"

    def __init__(self, max_draft_length: int = 4) -> None:
        self.max_draft_length, self.name = max_draft_length, self.label.format(max_draft_length)


@register(entry("greedy drafts", Family.SPECULATIVE, "rival", "o", "dotted", default=BY_LENGTH, studies=()))
class GreedyDrafts(FixedLength):
    """K certain drafts, each the draft model's likeliest token, so that no distribution is sent: what engines do."""

    format, row = Format.TOKENS, GREEDY
    label = "greedy drafts (K = {})"

    def propose(self, step: Step) -> Proposal:
        return Proposal(distributions_of(step.logits, 0.0, 1.0))

    def server_distributions(self, step: Step, tokens: Array, skip: Array) -> tuple[list[None], None]:
        return [None] * len(tokens), None


@register(entry("block verification", Family.SPECULATIVE, "ours", "*", "dashed", default=BY_LENGTH, studies=()))
class BlockVerification(FixedLength):
    """Standard speculative decoding, but the server verifies the K drafts of a round together (sun2025block)."""

    source, row = "sun2025block", OURS
    by_block, label = True, "block verification (K = {})"


@register(entry("DSSD", Family.SPECULATIVE, "rival light", "o", default=BY_LENGTH))
class Dssd(FixedLength):
    """Distributed split speculative decoding (ning2025dssd), as in public code of it.

    Up go the tokens and their q_d; down the index of the first rejected draft and p there, from which the device draws
    (p - q)⁺. A probability has 32 bits. At temperature 0 q_d = 1 is not sent, and the answer is a token.
    """

    source, format, row = "ning2025dssd", Format.PROBABILITIES, FLEXSPEC
    label = "DSSD (K = {})"

    def message(self, drafts: list[Draft]) -> Message:
        if self.session.temperature == 0:
            return tokens_message(drafts, self.session.vocabulary)
        width = index_bits(self.session.vocabulary)
        fields: list[tuple[int | Array, int]] = [(len(drafts), 16)]
        for draft in drafts:
            fields += [(draft.token, width), (float_bits(draft.probability), 32)]
        return Message(float(len(drafts) * (width + 32)), pack(fields))

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the number of bytes of: the count of accepted drafts, and p at the rejected draft, or a token."""
        sends_p = accepted < len(drafts) and self.session.temperature > 0
        return 2 + 4 * self.session.vocabulary if sends_p else super().reply(drafts, accepted)


def _flexspec(policy: str, printed_acceptance: bool = False) -> Callable[[Setup], FlexSpec]:
    def make(setup: Setup) -> FlexSpec:
        costs = {"propagation_s": setup.delay_s, "edge_slope_s": FLEXSPEC_DRAFT_S}
        return FlexSpec(policy, printed_acceptance=printed_acceptance, costs=costs)

    return make


_PRINTED = ", printed acceptance"


@register(
    entry(f"flexspec linear{_PRINTED}", SD, "paper", "x", "dotted", default=_flexspec("linear", True), printed=True),
    entry("flexspec linear", SD, "paper", "x", "dashed", default=_flexspec("linear")),
    entry(f"flexspec exact{_PRINTED}", SD, "paper dark", "D", "dotted", default=_flexspec("exact", True), printed=True),
    entry("flexspec exact", SD, "ours", "D", default=_flexspec("exact")),
)
class FlexSpec(Dssd):
    """flexspec: the draft length that maximises tokens per second at the link's current rate (Algorithm 2).

    ``linear`` takes the argmax of (1 + γ̂K)/T(K), as printed; ``exact`` that of the geometric E(K)/T(K) with a
    consistent estimate. With ``printed_acceptance`` a draft is accepted if it is the argmax of p, and the next token
    drawn from p: at temperature 1 not the target's law. The paper prints no K_max, μ (``step``) and O_header; the
    values are ours.
    """

    source = "li2025flexspec"
    follows_rate = True

    def __init__(
        self,
        policy: str = "exact",
        *,
        printed_acceptance: bool = False,
        max_draft_length: int = 8,
        step: float = 0.1,
        costs: dict[str, float] | None = None,
    ) -> None:
        super().__init__(max_draft_length)
        self.policy, self.step = policy, step
        self.by_argmax = self.samples_target = printed_acceptance
        self.costs = {"edge_slope_s": 0.0256, "cloud_base_s": 0.1046, "header_bits": 320.0} | (costs or {})
        self.name = f"flexspec {policy}" + (", printed acceptance" if printed_acceptance else "")

    def begin(self, session: Session) -> None:
        super().begin(session)
        kind = "ema_printed" if self.policy == "linear" else "consistent"
        self.trackers = [AcceptanceTracker(step=self.step, method=kind) for _ in range(session.sequences)]

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        """Return K* of each sequence; without a link only the models' times count."""
        gamma = np.array([self.trackers[sequence].estimate for sequence in sequences])
        speed = np.array([1e12 if rate is None else max(rate, SLOWEST_BPS) for rate in rates])
        bits = index_bits(self.session.vocabulary) + (0 if self.by_argmax or self.session.temperature == 0 else 32)
        fixed, marginal = round_costs(speed, bits_per_token=float(bits), **self.costs)
        choose = surrogate_draft_length if self.policy == "linear" else optimal_draft_length
        return np.asarray(choose(gamma, fixed, marginal, self.max_draft_length))

    def message(self, drafts: list[Draft]) -> Message:
        return tokens_message(drafts, self.session.vocabulary) if self.by_argmax else super().message(drafts)

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        return Method.reply(self, drafts, accepted) if self.by_argmax else super().reply(drafts, accepted)

    def learn(self, outcome: Outcome) -> None:
        if outcome.drafts:
            tracker = self.trackers[outcome.sequence]
            self.trackers[outcome.sequence] = tracker.update(outcome.accepted, len(outcome.drafts))


@register(entry("prompt lookup", Family.SPECULATIVE, "rival", "+", default=BY_LENGTH))
class PromptLookup(Method):
    """Prompt lookup: certain drafts, the tokens that followed the last occurrence of the newest n tokens, or fewer."""

    source = "li2025flexspec"
    format, row = Format.TOKENS, Absent("a trace has no such drafts")
    runs_draft = False

    def __init__(self, max_draft_length: int = 4, ngram: int = 3) -> None:
        self.max_draft_length, self.ngram = max_draft_length, ngram
        self.name = f"prompt lookup (n = {ngram}, K = {max_draft_length})"

    def guess(self, sequence: int, tokens: Array) -> Sequence[int]:
        for size in range(min(self.ngram, len(tokens) - 1), 0, -1):
            windows = np.lib.stride_tricks.sliding_window_view(tokens[:-1], size)
            places = np.flatnonzero((windows == tokens[-size:]).all(axis=1))
            if len(places):
                after = int(places[-1]) + size
                return [int(token) for token in tokens[after : after + self.max_draft_length]]
        return ()


@register(entry("Lookahead", Family.SPECULATIVE, "rival", "x", default=BY_LENGTH))
class Lookahead(CloudOnly):
    """Jacobi iteration on the server: certain drafts, the target's likeliest tokens in the last pass (flexspec V)."""

    format, row = Absent("its drafts are made on the server"), Absent("a trace has no such drafts")
    wants_likeliest = True

    def __init__(self, max_draft_length: int = 4) -> None:
        self.max_draft_length, self.name = max_draft_length, f"Lookahead (K = {max_draft_length})"

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.guesses: list[list[int]] = [[] for _ in range(session.sequences)]

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        return np.full(len(sequences), self.max_draft_length)

    def guess(self, sequence: int, tokens: Array) -> Sequence[int]:
        return [*self.guesses[sequence], *[int(tokens[-1])] * self.max_draft_length][: self.max_draft_length]

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        return -(-(accepted + 1) * index_bits(self.session.vocabulary) // 8)

    def learn(self, outcome: Outcome) -> None:
        if outcome.likeliest is not None:
            self.guesses[outcome.sequence] = outcome.likeliest[outcome.accepted + 1 :].tolist()


def cut(draft: Draft, target: torch.Tensor, limit: float) -> torch.Tensor:
    """Return p̂ (V,) as the device decodes it after this draft was rejected; the draft keeps the bytes."""
    import torch

    draft.answer = cut_answer(target.double().cpu().numpy(), draft.token, limit)
    return torch.from_numpy(received_answer(draft.answer, len(target))).to(target.device)


@register(entry("DSSD certified", Family.SPECULATIVE, "ours light", "o", "dotted", default=BY_LENGTH, studies=()))
class DssdCertified(Dssd):
    """DSSD whose server sends the fewest probabilities p̂ of p with TV(p, p̂) ≤ ε = ``limit``, after a rejection.

    The device draws from (p̂ - q)⁺, so each token's law is within ε of the target's (``channel.downlink_truncated``).
    """

    source, law, row = "channel.downlink_truncated", Law.TOKEN, CERTIFIED
    cuts_answer = True

    def __init__(self, limit: float = 0.01, max_draft_length: int = 4) -> None:
        if not 0.0 < limit < 1.0:
            raise UserError(f"The limit of DSSD's answer must be above 0 and below 1, not {limit!r}; use Dssd for 0.")
        super().__init__(max_draft_length)
        self.limit, self.name = limit, f"DSSD certified (ε = {short_form(limit)}, K = {max_draft_length})"

    def begin(self, session: Session) -> None:
        if self.limit < (least := session.vocabulary * 2.0**-ANSWER_BITS):
            raise UserError(
                f"The limit of DSSD's answer must be at least {least:.2g} for {session.vocabulary:,} tokens, since a "
                f"probability has {ANSWER_BITS} bits, not {self.limit!r}; use Dssd for an exact answer."
            )
        super().begin(session)

    def answered(self, draft: Draft, target: torch.Tensor) -> torch.Tensor:
        if self.session.temperature == 0 or not bool(target.isfinite().all()):
            return target  # broken logits are refused by the loop
        return cut(draft, target, self.limit)

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the number of bytes of the count of accepted drafts, and p̂ at the rejected draft, or a token."""
        sends_p = accepted < len(drafts) and self.session.temperature > 0
        return 2 + len(drafts[accepted].answer) if sends_p else Method.reply(self, drafts, accepted)
