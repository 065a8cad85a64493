"""What a device's policy consists of: how it estimates a rejection, what it sends, and what is promised."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, Array
from hlmtheory._domains import (
    COUNT,
    UNIT_INTERVAL,
    Domain,
    DomainError,
    check_logits,
    generator,
    instance,
    number,
    numbers,
    option,
    token_of,
)
from hlmtheory._quantities import whole_from_one, whole_in
from hlmtheory._simplex import canonical
from hlmtheory.codec import CodecMenu
from hlmtheory.codec.frame import MalformedError, UnexpectedError
from hlmtheory.codec.messages import LatticeDraft, MixedDraft, TokenDraft
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION
from hlmtheory.policy.costs import DeviceRule, Numbers
from hlmtheory.shared_seed.stream import POSITION, SEED, STREAM, race_winner
from hlmtheory.uncertainty import expected_uncertainty, sample_uncertainty
from hlmtheory.uncertainty.perturbation import DOMAINS as UNCERTAINTY
from hlmtheory.uncertainty.perturbation import MAX_TEMPERATURE

BASES = ("proved", "calibrated", "measured")
LONGEST_TEXT = 500

FINITE = Domain("finite", lambda xp, value: xp.isfinite(value), "give a number")
_PROMPTS = whole_from_one("give the number of prompts, or None")
_SIZE = whole_from_one("give the most tokens that are kept, or None")
_BIAS = Domain(
    "above 0 and below 1", lambda xp, value: (value > 0) & (value < 1), "DraftProbabilities sends the whole of p"
)
_RESOLUTION = whole_in(1, LARGEST_RESOLUTION, "ℓ units are the mass 1")


@dataclass(frozen=True, slots=True)
class UncertaintyLine:
    """The line by which a device estimates the rejection probability of a draft: β̂ = a u + b, clipped to [0, 1]."""

    slope: float  # a
    intercept: float  # b
    max_temperature: float = MAX_TEMPERATURE  # θmax of the uncertainty
    draws: int | None = None  # M, perturbed samples; None takes their mean

    def __post_init__(self) -> None:
        for name in ("slope", "intercept"):
            object.__setattr__(self, name, float(number(FINITE, name, getattr(self, name))))
        warmest = float(number(UNCERTAINTY["max_temperature"], "max_temperature", self.max_temperature))
        object.__setattr__(self, "max_temperature", warmest)
        if self.draws is not None:
            object.__setattr__(self, "draws", number(UNCERTAINTY["draws"], "draws", self.draws))

    def rejection(self, logits: Array, token: int, *, rng: np.random.Generator) -> float:
        """Return β̂ of a draft ``token`` of the draft model's ``logits`` (V,); ``rng`` draws the M samples."""
        warmest = self.max_temperature
        rng, row = generator("rng", rng), one_row(logits)
        index = number(token_of(len(row)), "token", token)
        if self.draws is None:
            u = float(expected_uncertainty(row, index, max_temperature=warmest))
        else:
            u = float(sample_uncertainty(row, index, draws=self.draws, max_temperature=warmest, rng=rng))
        return min(max(self.slope * u + self.intercept, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A number that a plan promises, and on what it is based."""

    quantity: str  # what the number bounds, such as "total variation of a verified token"
    value: float
    basis: str  # "proved", "calibrated" or "measured"
    prompts: int | None  # of a calibrated or measured value; None for a proved one

    def __post_init__(self) -> None:
        a_text("quantity", self.quantity)
        object.__setattr__(self, "value", float(number(FINITE, "value", self.value)))
        option("basis", self.basis, BASES)
        if (self.prompts is None) != (self.basis == "proved"):
            raise DomainError(
                f"prompts must be a number for a calibrated or measured value, and None for a proved one; got "
                f"{self.prompts!r} with {self.basis!r}; give both as they belong together"
            )
        if self.prompts is not None:
            object.__setattr__(self, "prompts", number(_PROMPTS, "prompts", self.prompts))


@dataclass(frozen=True, slots=True)
class CertifiedRows:
    """Drafts are drawn from q; the message is a coded row with a certified bias, chosen by the rule's prices.

    ``menu`` has the codes to choose from. None: those of :func:`codec_hulls`.
    """

    menu: CodecMenu | None = None

    def __post_init__(self) -> None:
        if self.menu is not None:
            instance("menu", self.menu, CodecMenu)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of codes."""
        return CodecMenu().kinds if self.menu is None else self.menu.kinds


@dataclass(frozen=True, slots=True)
class LatticeRows:
    """Drafts are drawn from the quantised q̂ = b/ℓ, which is sent whole: verification leaves the target's law."""

    resolution: int  # ℓ
    top_k: int | None = None  # the most tokens that are kept; the likeliest one always is
    threshold: float = 0.0  # τ: tokens with q below it are not kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolution", number(_RESOLUTION, "resolution", self.resolution))
        if self.top_k is not None:
            object.__setattr__(self, "top_k", number(_SIZE, "top_k", self.top_k))
        object.__setattr__(self, "threshold", float(number(UNIT_INTERVAL, "threshold", self.threshold)))


@dataclass(frozen=True, slots=True)
class DraftProbabilities:
    """Drafts are drawn from q; only q_d is sent. After a rejection the server answers with p, and the device draws."""


@dataclass(frozen=True, slots=True)
class CertifiedAnswers(DraftProbabilities):
    """As :class:`DraftProbabilities`, but the server answers with p̂, as few entries of p as keep TV(p, p̂) ≤ ``limit``.

    Each verified token's law is as close to the target's (``channel.downlink_truncated``). It is at least V 2^-24.
    """

    limit: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", float(number(_BIAS, "limit", self.limit)))


@dataclass(frozen=True, slots=True)
class SeededTokens:
    """Drafts are drawn from q by a seed that the server has too; only tokens are sent, and nothing is lost.

    The server draws its own token from the same stream, and emits it. A draft is accepted if it is equal.
    """

    stream: str = STREAM

    def __post_init__(self) -> None:
        option("stream", self.stream, (STREAM,))


@dataclass(frozen=True, slots=True)
class StreamedTokens(SeededTokens):
    """As :class:`SeededTokens`, from a device that drafts on while the server verifies; each draft is a message."""


Messages: TypeAlias = CertifiedRows | LatticeRows | DraftProbabilities | SeededTokens
Coded: TypeAlias = MixedDraft | LatticeDraft | TokenDraft
"""What is sent of a draft."""


@dataclass(frozen=True, eq=False, slots=True)
class DeviceDraft:
    """What the device does with one draft."""

    token: int
    skip: bool  # whether it is kept without verification
    coded: Coded | None  # what is sent of it; None if it is skipped
    bias: float | None  # certified Σ_v |law_v - p_v| if every draft of the row is sent; see ``skipping.bill``
    rejection: float | None  # β̂, where the rule needs it
    distribution: Numbers  # (V,), what the token was drawn from


@dataclass(frozen=True, eq=False, slots=True)
class ServerAnswer:
    """The result of a round."""

    accepted: int  # drafts that are kept, from the first on
    token: int | None  # the replacement or bonus token; None if there is no bonus, or the device draws
    target: Numbers | None = None  # (V,), p or p̂ at the rejected draft, under ``DraftProbabilities``
    coded: bytes = b""  # p̂ as it is sent, under ``CertifiedAnswers``


def threshold_rule(draft_length: int, threshold: float | None = None) -> DeviceRule:
    """Return the rule that skips a first draft with β̂ at or below a threshold, and has no prices.

    Parameters
    ----------
    draft_length : int
        K, drafts of a round; 0: the server decodes alone.
    threshold : float, optional
        The largest β̂ that skips. None skips nothing, 1 or more everything.

    Returns
    -------
    DeviceRule

    Raises
    ------
    ValueError
        If K is negative or the threshold not finite.
    """
    level = 0.0 if threshold is None else float(number(FINITE, "threshold", threshold))
    k = number(COUNT, "draft_length", draft_length)
    return DeviceRule(k, threshold is not None, 0.0, 0.0, (), 1.0, level)


def stream_place(messages: Messages, seed: Any, position: Any) -> tuple[int, int] | None:
    """Seed and position in the shared stream; None for messages that need none."""
    found = []
    for name, domain, value in (("seed", SEED, seed), ("position", POSITION, position)):
        if value is not None:
            found.append(int(number(domain, name, value)))
        elif isinstance(messages, SeededTokens):
            raise DomainError(f"{name} must be given to draw from the shared stream; got None; {domain.remedy}")
    return (found[0], found[1]) if isinstance(messages, SeededTokens) else None


def raced(row: Numbers, where: tuple[int, int]) -> int:
    """The winner of the race of a row (V,) at a place in the shared stream."""
    return int(race_winner(row, *where))


def one_row(logits: Array) -> Numbers:
    """One row of logits (V,) on the host, float64."""
    row = numbers(Domain("a row of logits", lambda xp, value: value == value, "look for NaN"), "logits", logits)
    if row.ndim != 1 or not len(row):
        raise DomainError(f"logits must be one row (V,); got shape {row.shape}; call once for each position")
    found: Numbers = check_logits(NUMPY, row)
    return found


def a_text(name: str, value: Any) -> str:
    """A short printable text."""
    if isinstance(value, str) and 0 < len(value) <= LONGEST_TEXT and value.isprintable():
        return value
    raise DomainError(f"{name} must be 1 to {LONGEST_TEXT} printable characters; got {value!r:.60}; shorten it")


BRANCHES = 64
"""Number of parts from which one random number chooses."""


def numbers_for(vocabulary: int) -> int:
    """How many random numbers a token takes: the smallest n with ``BRANCHES``ⁿ ≥ V."""
    count = 1
    while BRANCHES**count < vocabulary:
        count += 1
    return count


def drawn(row: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Draw a token from a row (V,) of non-negative numbers with a positive sum; one of 0 is never drawn.

    By blocks of tokens, each with a number of its own, so that a last digit of the row changes the token less often.
    """
    cumulative, size = np.cumsum(row), len(row)
    uniform = rng.random((numbers_for(size),))
    lower, first = 0.0, 0  # of the block
    for level in reversed(range(len(uniform))):
        step = BRANCHES**level
        count = min(BRANCHES, -(-size // step))
        ends = np.minimum(first + np.arange(step - 1, count * step, step), size - 1)
        edges = cumulative[ends]
        upper = float(edges[-1])
        aim = min(lower + float(uniform[level]) * (upper - lower), float(np.nextafter(upper, 0.0)))  # it may round up
        part = min(int(np.searchsorted(edges, aim, side="right")), count - 1)
        lower = float(edges[part - 1]) if part else lower
        first = min(first + part * step, size - 1)
    return first


def replacement(target: Array, known: NDArray[np.float64], rng: np.random.Generator) -> int:
    """A token from the residual (p - q̂)⁺, or from p if it is 0."""
    p: NDArray[np.float64] = canonical("target", target)
    if p.shape != known.shape:
        raise DomainError(f"target must have shape {known.shape}; got {p.shape}; give one distribution")
    residual = np.maximum(p - known, 0.0)
    return drawn(residual if residual.max() > 0 else p, rng)


_END = b"\x80"


def padded(message: bytes, sizes: tuple[int, ...]) -> bytes:
    """Return the message, padded to the smallest size that holds it; unpadded if ``sizes`` is empty.

    Sizes are in bytes and ascend.
    """
    if not sizes:
        return message
    place = bisect_left(sizes, len(message) + len(_END))
    if place == len(sizes):
        raise DomainError(
            f"message_sizes must hold every message and a byte of its end; got {sizes[-1]} bytes at most for a message "
            f"of {len(message)}; plan again"
        )
    return (message + _END).ljust(sizes[place], b"\0")


def unpadded(message: bytes, sizes: tuple[int, ...]) -> bytes:
    """Return the message without its pad, or raise a CodecError."""
    if not sizes:
        return message
    if len(message) not in sizes:
        raise UnexpectedError(f"{len(message)} bytes, and messages are padded to {', '.join(map(str, sizes))}")
    body = message.rstrip(b"\0")
    if not body.endswith(_END) or padded(body[: -len(_END)], sizes) != message:
        raise MalformedError("the message has no end, or a longer pad than it needs; no device sends that")
    return body[: -len(_END)]
