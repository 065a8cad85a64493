"""Decode prompts by each method and temperature of c-sqs, and time the models; ``figures/studies/c_sqs`` runs it.

Decoding counts passes instead of seconds. So each text is the same on every machine, and its latency can be computed
for any pass times and any link. The drafts depend on neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.kv_cache import CachedModel
from validation.decoding.loop import decode
from validation.decoding.methods.quantized import (
    AllocatedSqs,
    BudgetedCSqs,
    BudgetedSqs,
    CSqs,
    DenseQs,
    KSqs,
    Sqs,
)
from validation.decoding.records import GenerationRecord
from validation.decoding.session import Outcome, Session, Step
from validation.models.pair import Pair, load_pair

if TYPE_CHECKING:
    import torch

Values = NDArray[np.float64]
Key = tuple[str, float]
"""Name of a method in ``METHODS``, and a temperature."""
Named = tuple[str, "Cell"]
"""Name of a method, and its texts."""

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SIZES = (16, 64, 256)  # K; the paper's text does not print its values
THRESHOLDS = (0.0001, 0.001, 0.01)  # τ_1; the paper does not print its values
MIDDLE_SIZE, MIDDLE_THRESHOLD = 64, 0.001
DRAFT_BITS = 625.0  # allocated bits per draft: 5,000 bits for the eight drafts of K = 64 at V = 4,096
WIDTHS, REPEATS, PREFIX = (1, 4, 8, 16, 32), 9, 64  # new tokens of the timed passes, repeats, prefix length


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers of prompts and tokens of a study; ``long_tokens`` is the length of the texts for the regret, 0: none."""

    prompts: int = 20
    new_tokens: int = 32
    long_tokens: int = 160
    temperatures: tuple[float, ...] = TEMPERATURES


@dataclass(frozen=True, slots=True)
class Times:
    """Hold seconds of a pass: ``draft_s`` over one draft token, ``target_s`` + n ``token_s`` over n target tokens."""

    draft_s: float
    target_s: float
    token_s: float


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold the texts of one method at one temperature; ``rounding`` (texts,): Σ K/(4ℓ) over the verified drafts."""

    rows: list[GenerationRecord]
    rounding: Values
    by_bytes: bool

    def totals(self, name: str) -> Values:
        return np.array([row.total(name) for row in self.rows])

    @property
    def tokens(self) -> Values:
        return np.array([float(len(row.tokens)) for row in self.rows])

    @property
    def rounds(self) -> Values:
        return np.array([float(len(row.rounds)) for row in self.rows])

    @property
    def looked_at(self) -> Values:
        """Return the verified drafts of each text: the accepted ones, and the first rejected one of each round."""
        return self.totals("accepted") + self.totals("resampled")

    @property
    def bits(self) -> Values:
        """Return the link bits of each text, by the formulas or by the bytes."""
        return 8.0 * self.totals("bytes") if self.by_bytes else self.totals("bits")

    def seconds(self, times: Times, rate_bps: float) -> Values:
        rounds, read = self.rounds, self.totals("drafted") + self.rounds
        models = times.draft_s * self.totals("draft_s") + times.target_s * rounds + times.token_s * read
        return np.asarray(models + self.bits / rate_bps)


@dataclass(frozen=True, slots=True)
class CSqsStudy:
    """Hold all texts; ``long`` holds longer texts of C-SQS at the highest temperature, by method.

    ``record`` is ``{"experiment": …}`` if the texts are the stored ones.
    """

    pair: str
    vocabulary: int
    scale: Scale
    times: Times
    cells: dict[Key, Cell] = field(default_factory=dict)
    long: dict[str, Cell] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


class _Bounded(Sqs):
    """Record the published rounding term K/(4ℓ) of each verified draft; the records hold the sharp term."""

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.rounding = np.zeros(session.sequences)
        self._drafted: list[list[float]] = [[] for _ in range(session.sequences)]

    def supports(self, step: Step) -> tuple[torch.Tensor, Any]:
        support, resolution = super().supports(step)
        units = np.asarray(resolution if isinstance(resolution, int) else resolution.cpu(), dtype=np.float64)
        self._latest = support.sum(dim=-1).cpu().numpy() / (4.0 * units)  # c-sqs (20)
        return support, resolution

    def taken(self, step: Step, full: NDArray[Any]) -> None:
        super().taken(step, full)
        for i in np.flatnonzero(~full):
            self._drafted[step.sequences[i]].append(float(self._latest[i]))

    def learn(self, outcome: Outcome) -> Any:
        looked_at = outcome.accepted + outcome.rejected
        self.rounding[outcome.sequence] += sum(self._drafted[outcome.sequence][:looked_at])
        self._drafted[outcome.sequence] = []
        return super().learn(outcome)


class _Dense(_Bounded, DenseQs):
    pass


class _TopK(_Bounded, KSqs):
    pass


class _Conformal(_Bounded, CSqs):
    pass


class _Allocated(_Bounded, AllocatedSqs):
    pass


class _Budgeted(_Bounded, BudgetedSqs):
    pass


class _BudgetedConformal(_Bounded, BudgetedCSqs):
    pass


_MIDDLE = partial(_Conformal, MIDDLE_THRESHOLD)
_MAKERS: tuple[Callable[[], _Bounded], ...] = (
    _Dense,
    *(partial(_TopK, size) for size in SIZES),
    *(partial(_Conformal, threshold) for threshold in THRESHOLDS),
    *(partial(_Conformal, threshold, learning_rate=0.0) for threshold in THRESHOLDS),
    partial(_MIDDLE, printed=True),
    partial(_Allocated, DRAFT_BITS),
    _Budgeted,
    partial(_BudgetedConformal, MIDDLE_THRESHOLD),
    partial(_Dense, by_bytes=True),
    partial(_TopK, MIDDLE_SIZE, by_bytes=True),
    partial(_MIDDLE, by_bytes=True),
    partial(_Allocated, DRAFT_BITS, by_bytes=True),
)
METHODS: dict[str, Callable[[], _Bounded]] = {make().name: make for make in _MAKERS}
"""The compared methods by name; with "bytes", budget and link count the bytes of the codec."""
NAMES = tuple(METHODS)
LONG: tuple[Callable[[], _Bounded], ...] = (
    _MIDDLE,
    partial(_MIDDLE, printed=True),
    partial(_Conformal, 0.0),
    _Budgeted,
    partial(_BudgetedConformal, MIDDLE_THRESHOLD),
)
"""The methods whose regret is recorded."""


def some_prompts(count: int) -> list[Prompt]:
    """Return evenly spaced built-in prompts, so that all their sources take part."""
    prompts = builtin_prompts()
    return prompts[:: max(1, len(prompts) // count)][:count]


def pass_times(pair: Pair, clock: Callable[[], float] = time.perf_counter) -> Times:
    """Return the minimum time of passes after a prefix; for the target model, a linear fit over the new tokens."""
    draft = _quickest(pair, pair.draft, 1, clock)
    target = [_quickest(pair, pair.target, width, clock) for width in WIDTHS]
    slope, intercept = np.polyfit(WIDTHS, target, 1)
    return Times(draft, float(intercept), float(slope))


def _quickest(pair: Pair, model: Any, width: int, clock: Callable[[], float]) -> float:
    """Return the minimum seconds of a pass over a number of new tokens."""
    import torch

    prefix = min(PREFIX, pair.context - width)
    reader = CachedModel(model, pair.vocabulary, pair.device, 1, prefix + width + 1, pair.context)
    text = np.arange(prefix + width + 1)[None] % pair.vocabulary
    best = float("inf")
    with torch.inference_mode():
        for _ in range(REPEATS + 1):  # the first pass also reads the prefix
            began = clock()
            reader.read(text, np.array([prefix + width]), rows=width)
            best = min(best, clock() - began)
            reader.cached[:] = prefix
    return best


def decode_texts(
    seed: int,
    scale: Scale | None = None,
    *,
    keep: Callable[[str, Callable[[], Named]], Named] = lambda key, decode: decode(),
    pair: Pair | None = None,
    names: Sequence[str] = NAMES,
    times: Times | None = None,
) -> CSqsStudy:
    """Decode once for all figures."""
    scale, pair = scale or Scale(), pair or load_pair()
    prompts = some_prompts(scale.prompts)
    found = CSqsStudy(pair.name, pair.vocabulary, scale, times or pass_times(pair))
    last = scale.temperatures[-1]
    for name in names:
        for t in scale.temperatures:
            decode_one = partial(_cell, pair, prompts, METHODS[name](), t, scale.new_tokens, seed)
            _, found.cells[name, t] = keep(f"c{NAMES.index(name)}-{t:g}", decode_one)
    for i, make in enumerate(LONG if scale.long_tokens else ()):
        name, cell = keep(f"l{i}", partial(_cell, pair, prompts, make(), last, scale.long_tokens, seed))
        found.long[name] = cell
    return found


def _cell(pair: Pair, prompts: list[Prompt], method: _Bounded, temperature: float, new_tokens: int, seed: int) -> Named:
    rows = decode(
        pair,
        prompts,
        method,
        temperature=temperature,
        new_tokens=new_tokens,
        batch=len(prompts),
        seed=seed,
        times=(1.0, 0.0),  # passes of the draft model are counted, not timed
        risk=True,
    )
    return method.name, Cell(rows, method.rounding, method.real_bytes)
