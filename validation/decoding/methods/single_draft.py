"""Methods that run one model, and the methods of u-hlm and cu-hlm: one draft per round, which may skip verification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from hlmtheory.channel import vocabulary_payload_bits
from hlmtheory.codec import encode, truncated_message
from hlmtheory.truncation import certified_size, online_size
from hlmtheory.truncation.message import decoded_draft
from hlmtheory.uncertainty import expected_uncertainty, sample_uncertainty
from hlmtheory.uncertainty.binomial import DRAWS
from hlmtheory.uncertainty.perturbation import MAX_TEMPERATURE
from validation.arrays import Array
from validation.decoding.methods.base import Method
from validation.decoding.methods.registry import PLAIN, Family, Setup, entry, register
from validation.decoding.methods.rows import CU_HLM, DEVICE, HLM, SERVER, U_HLM, Absent, Format, Law
from validation.decoding.random_streams import SKIP, Columns
from validation.decoding.session import Draft, Message, Step
from validation.decoding.wire import index_bits

BITS = 8  # b_prob of cu-hlm Section V
CERTIFIED_BITS = (16, 24)
"""Bits of a probability of :class:`CuHlmCertified`: the usual number, and the number used if that is too coarse."""


@register(entry("small only", Family.ONE_MODEL, "rival", "v", "dotted", default=PLAIN))
class DraftOnly(Method):
    law, row = Law.LOST, DEVICE
    format: Format | Absent = Absent("nothing is sent")
    name, runs_target = "small only", False

    def skip(self, step: Step, tokens: Array) -> Array:
        return np.ones(len(tokens), dtype=bool)


@register(entry("large only", Family.ONE_MODEL, "rival", "^", "dashed", default=PLAIN))
class TargetOnly(Method):
    """The target model alone, on the user's device."""

    format: Format | Absent = Absent("nothing is sent")
    row: str | Absent = Absent("the target model is not on a device")
    name, runs_draft = "large only", False

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        return np.zeros(len(sequences), dtype=np.int64)

    def message(self, drafts: list[Draft]) -> Message:
        return Message(0.0, b"")

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        return 0


@register(entry("cloud only", Family.CLOUD, "rival", "P", "dashed", default=PLAIN))
class CloudOnly(TargetOnly):
    """The target model alone over the link: "every token generation incurs a full network round-trip" (flexspec V)."""

    source, row = "li2025flexspec", SERVER
    format: Format | Absent = Format.TOKENS
    name = "cloud only"

    def message(self, drafts: list[Draft]) -> Message:
        return Message(8.0, b"\0")

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        return -(-index_bits(self.session.vocabulary) // 8)


@register(entry("HLM", Family.HLM, "paper dark", "s", default=PLAIN))
class Hlm(Method):
    """HLM: every draft is sent with its whole distribution; an accepted draft ends its round (cu-hlm Section II)."""

    source = "oh2025cuhlm"
    row: str | Absent = HLM
    name, bonus = "HLM", False

    def message(self, drafts: list[Draft]) -> Message:
        bits = float(vocabulary_payload_bits(self.session.vocabulary, BITS))
        return Message(len(drafts) * bits, super().message(drafts).payload)


@register(entry("Rand-HLM", Family.RAND_HLM, "paper dark", "x", default=lambda _: RandHlm(0.5)))
class RandHlm(Hlm):
    """HLM in which each draft skips verification with the probability ``share``; 0.5 in cu-hlm Section V-A."""

    law, row = Law.LOST, Absent("it skips by chance, and U-HLM by the uncertainty")

    def __init__(self, share: float = 0.5) -> None:
        self.share, self.name = share, f"Rand-HLM ({share:g})"

    def skip(self, step: Step, tokens: Array) -> Array:
        return np.asarray(self.session.noise.uniform(SKIP, step.sequences, step.positions) < self.share)


CHOSEN_THRESHOLD = 0.8  # the threshold that cu-hlm chooses (Section V-B), whatever the pair
U_CHOSEN, CU_CHOSEN = f"U-HLM at {CHOSEN_THRESHOLD:g}", f"CU-HLM online at {CHOSEN_THRESHOLD:g}"
AVERSE, PRONE, ONLINE = "U-HLM risk-averse", "U-HLM risk-prone", "CU-HLM online"


@register(
    entry("U-HLM", Family.U_HLM, "paper light", "."),
    entry(AVERSE, Family.U_HLM, "paper light", "<", "dashed", default=lambda s: UHlm(s.fitted.risk_averse, AVERSE)),
    entry(PRONE, Family.U_HLM, "paper light", ">", default=lambda s: UHlm(s.fitted.risk_prone, PRONE)),
    entry(
        U_CHOSEN,
        Family.U_HLM,
        "paper light",
        "P",
        "dotted",
        default=lambda _: UHlm(CHOSEN_THRESHOLD, U_CHOSEN),
        studies=("hlm",),
    ),
)
class UHlm(Hlm):
    """U-HLM: a draft whose uncertainty is at most the threshold skips verification (cu-hlm (10), u-hlm (8)).

    The uncertainty is that of ``draws`` perturbed samples, or their mean by quadrature if None. The server needs the
    skipped tokens as well: both papers neglect them, and no message here counts them.
    """

    source, law, row = "oh2024uhlm", Law.LOST, U_HLM

    def __init__(self, threshold: float, name: str = "U-HLM", *, draws: int | None = DRAWS) -> None:
        self.threshold, self.name, self.draws = threshold, name, draws

    def uncertainty(self, step: Step, tokens: Array) -> Array:
        import torch

        logits = step.logits
        index = torch.from_numpy(tokens).to(logits.device)
        if self.draws is None:
            values = expected_uncertainty(logits, index)
        else:
            numbers = Columns(self.session.noise.several(step.sequences, step.positions, 2 * self.draws))
            rng = cast("np.random.Generator", numbers)  # only its random(shape) is called
            values = sample_uncertainty(logits, index, draws=self.draws, max_temperature=MAX_TEMPERATURE, rng=rng)
        u = np.asarray(values.double().cpu())
        return u if self.draws is None else np.rint(u * self.draws) / self.draws  # float32 has 0.8 above 0.8

    def skip(self, step: Step, tokens: Array) -> Array:
        self.u = self.uncertainty(step, tokens)
        return self.u <= self.threshold


class Cut(NamedTuple):
    """The part of a distribution that is sent: the number of probabilities, and the bits of each."""

    k: int
    bits: int


class CuHlm(UHlm, ABC):
    """CU-HLM: U-HLM that sends only the k largest probabilities of a distribution, in 8 bits (cu-hlm Section IV).

    q_d is sent unrounded, so acceptance is not distorted. The paper does not say how a value is rounded: here down, and
    the lost mass is spread over the tail (:mod:`hlmtheory.truncation`).
    """

    source, format, row = "oh2025cuhlm", Format.TRUNCATED, CU_HLM
    truncates = True
    bits = BITS

    @abstractmethod
    def choose_top_k(self, draft: Any, tokens: Any, uncertainty: Array) -> tuple[Any, Any]:
        """Return k and b_prob of each sent draft, given distributions (m, V); one number if it is the same for all.

        Distributions and tokens are tensors, or in a plan arrays of numpy.
        """

    def server_distributions(self, step: Step, tokens: Array, skip: Array) -> tuple[Sequence[Any], Sequence[Any]]:
        import torch

        known: list[Any] = [None] * len(tokens)
        cuts: list[Any] = [None] * len(tokens)
        if len(sent := np.flatnonzero(~skip)):
            rows = step.distributions[torch.from_numpy(sent).to(step.distributions.device)].double()
            index = torch.from_numpy(tokens[sent]).to(rows.device)
            sizes, bits = self.choose_top_k(rows, index, self.u[sent])
            k, widths = torch.as_tensor(sizes).to(rows.device).expand(len(sent)), np.broadcast_to(bits, len(sent))
            for width in np.unique(widths).tolist():
                part: Any = slice(None) if (widths == width).all() else np.flatnonzero(widths == width)
                decoded = decoded_draft(rows[part], k[part], bits_per_probability=width, token=index[part])
                for i, row, size in zip(sent[part].tolist(), decoded, k[part].tolist(), strict=True):
                    known[i], cuts[i] = row, Cut(size, width)
        return known, cuts

    def message(self, drafts: list[Draft]) -> Message:
        (draft,) = drafts
        row, cut = draft.distribution.double().cpu().numpy(), draft.note
        return Message(float(cut.k * (cut.bits + index_bits(len(row)))), self.coded(row, draft.token, cut))

    @staticmethod
    def coded(row: Array, token: int, cut: Cut) -> bytes:
        return encode(truncated_message(row, top_k=cut.k, token=token, bits=cut.bits))


@register(entry("CU-HLM offline", Family.CU_HLM, "paper", "o", default=("risk_prone", "offline_k")))
class CuHlmOffline(CuHlm):
    """CU-HLM with one k for all, from :func:`hlmtheory.truncation.offline_size` (cu-hlm (21); 30 in the paper)."""

    def __init__(self, threshold: float, k: int = 30, *, name: str = "", draws: int | None = DRAWS) -> None:
        super().__init__(threshold, name or f"CU-HLM offline (k = {k})", draws=draws)
        self.k = k

    def choose_top_k(self, draft: Any, tokens: Any, uncertainty: Array) -> tuple[Any, Any]:
        return min(self.k, draft.shape[-1]), self.bits


def _online(threshold: float | None = None, name: str = ONLINE) -> Callable[[Setup], CuHlmOnline]:
    def make(setup: Setup) -> CuHlmOnline:
        fit = setup.fitted
        limit = fit.risk_prone if threshold is None else threshold
        return CuHlmOnline(limit, slope=fit.slope, intercept=fit.intercept, name=name)

    return make


@register(
    entry(ONLINE, Family.CU_HLM, "paper", "D", "dashed", default=_online()),
    entry(
        CU_CHOSEN, Family.CU_HLM, "paper", "X", "dotted", default=_online(CHOSEN_THRESHOLD, CU_CHOSEN), studies=("hlm",)
    ),
)
class CuHlmOnline(CuHlm):
    """CU-HLM with k chosen by the draft's uncertainty: the smallest k with Ū(a u + b) ≤ θ (cu-hlm (24))."""

    def __init__(
        self,
        threshold: float,
        *,
        slope: float,
        intercept: float,
        distortion_tolerance: float = 0.1,
        sharpness: float = 5.0,
        name: str = "CU-HLM online",
        draws: int | None = DRAWS,
    ) -> None:
        super().__init__(threshold, name, draws=draws)
        self.line, self.distortion_tolerance, self.sharpness = (slope, intercept), distortion_tolerance, sharpness

    def choose_top_k(self, draft: Any, tokens: Any, uncertainty: Array) -> tuple[Any, Any]:
        estimate: Any = np.clip(self.line[0] * uncertainty + self.line[1], 0.0, 1.0)
        if not isinstance(draft, np.ndarray):
            estimate = draft.new_tensor(estimate)
        return online_size(draft, tokens, estimate, self.distortion_tolerance, sharpness=self.sharpness), self.bits


@register(entry("CU-HLM certified", Family.CU_HLM, "ours", "*", width=2.0, order=4, default=("calibrated",)))
class CuHlmCertified(CuHlm):
    """CU-HLM with a calibrated threshold and the smallest k with 2 Δ_k ≤ ε, so that truncation's bias is at most ε."""

    bits = CERTIFIED_BITS[0]

    def __init__(self, threshold: float, *, bias_tolerance: float = 0.1, draws: int | None = None) -> None:
        super().__init__(threshold, f"CU-HLM certified (bias {bias_tolerance:g})", draws=draws)
        self.bias_tolerance = bias_tolerance

    def choose_top_k(self, draft: Any, tokens: Any, uncertainty: Array) -> tuple[Any, Any]:
        try:
            return certified_size(draft, self.bias_tolerance, bits_per_probability=self.bits), self.bits
        except ValueError:  # the bits are too few for some distribution
            cuts = np.array([self._finer(row) for row in draft])
            return cuts[:, 0], cuts[:, 1]

    def _finer(self, row: Any) -> tuple[int, int]:
        usual, most = CERTIFIED_BITS
        try:
            return int(certified_size(row, self.bias_tolerance, bits_per_probability=usual)), usual
        except ValueError:
            return int(certified_size(row, self.bias_tolerance, bits_per_probability=most)), most
