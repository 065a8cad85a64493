"""Compute the numbers of the figures of c-sqs: ratios over the texts with intervals, bounds, and crossing curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.conformal import regret_bound, regret_bound_sharp
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.methods.quantized import (
    BUDGET_BITS,
    EPSILON,
    LEARNING_RATE,
    RESOLUTION,
    AllocatedSqs,
    BudgetedCSqs,
    BudgetedSqs,
    CSqs,
    DenseQs,
    KSqs,
)
from validation.plots.c_sqs.runs import (
    DRAFT_BITS,
    METHODS,
    MIDDLE_SIZE,
    MIDDLE_THRESHOLD,
    SIZES,
    THRESHOLDS,
    Cell,
    CSqsStudy,
    Times,
)
from validation.plots.c_sqs.texts_file import study
from validation.plots.common.record import Numbers, plain

Values = NDArray[np.float64]
Ratio = tuple[Values, Values]
"""Numerator and denominator, with one number for each text."""

RATE_BPS = 1e6  # of the link in the figures; c-sqs does not print its value
LARGER_MODELS = Times(*PAPER_TIMES, 0.0)
RESAMPLES = 4000
DENSE, ALLOCATED = DenseQs().name, AllocatedSqs(DRAFT_BITS).name
BY_SIZE = {k: KSqs(k).name for k in SIZES}
ADAPTIVE = {t: CSqs(t).name for t in THRESHOLDS}
FIXED = {t: CSqs(t, learning_rate=0.0).name for t in THRESHOLDS}
PRINTED = CSqs(MIDDLE_THRESHOLD, printed=True).name
BUDGETED, GUARDED = BudgetedSqs().name, BudgetedCSqs(MIDDLE_THRESHOLD).name
MAIN = (DENSE, BY_SIZE[MIDDLE_SIZE], ADAPTIVE[MIDDLE_THRESHOLD], FIXED[MIDDLE_THRESHOLD], ALLOCATED)
BYTES = tuple(name for name, make in METHODS.items() if make().real_bytes)
TEMPERATURE = {"label": "temperature", "unit": "", "scale": "linear"}
LATENCY = {"label": "latency for each token", "unit": "ms", "scale": "linear"}
RESAMPLING = {"label": "resampling rate", "unit": "", "scale": "linear"}


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold a number and the ends of its interval, which are None if there is only one text."""

    value: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """Return the sign of the whole interval; 0 if it contains 0 or does not exist."""
        return 0 if self.low is None or self.high is None else int(self.low > 0.0) - int(self.high < 0.0)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends for drawing; both are the value itself if there is no interval."""
        return (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)

    def told(self, spec: str) -> str:
        return f"{self.value:{spec}}" + ("" if self.low is None else f" ({self.low:{spec}} to {self.high:{spec}})")

    def plain(self) -> list[float | None]:
        return [None if value is None else plain(value, 4) for value in (self.value, self.low, self.high)]


def interval(parts: Sequence[Ratio]) -> Interval:
    """Return the ratio of totals with its interval; of two ratios, the first minus the second."""
    above, below = np.array([part[0] for part in parts]), np.array([part[1] for part in parts])
    signs = np.array([1.0, -1.0])[: len(parts)]
    count = above.shape[-1]
    whole = float(signs @ (above.sum(-1) / below.sum(-1)))
    if count < 2:
        return Interval(whole, None, None)
    weights, tail = _resamples(count)
    low, high = np.quantile(signs @ ((above @ weights) / (below @ weights)), [tail, 1.0 - tail])
    return Interval(whole, float(low), float(high))


@cache
def _resamples(count: int) -> tuple[Values, float]:
    """Return the count of each text in each resample, shape (texts, resamples), and the share outside each end."""
    from scipy.stats import norm, t

    drawn = np.random.default_rng(count).multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES)
    return drawn.T.astype(np.float64), float(norm.cdf(-np.sqrt(count / (count - 1)) * t.ppf(0.975, count - 1)))


def latency(cell: Cell, times: Times, rate_bps: float) -> Ratio:
    """Return milliseconds and tokens of each text: their ratio is the latency per token."""
    return 1e3 * cell.seconds(times, rate_bps), cell.tokens


def resampling(cell: Cell) -> Ratio:
    """Return resampled drafts and rounds of each text: their ratio is the resampling rate of c-sqs Section 4."""
    return cell.totals("resampled"), cell.rounds


def _series(found: CSqsStudy, names: Sequence[str], panel: int, metric: str) -> list[dict[str, Any]]:
    series = []
    for name in names:
        cells = [found.cells[name, temperature] for temperature in found.scale.temperatures]
        values = [interval([_metric(found, cell, metric)]) for cell in cells]
        low, high = zip(*(one.ends for one in values), strict=True)
        curve = {"mean": plain([one.value for one in values]), "low": plain(low), "high": plain(high)}
        series.append({"name": name, "panel": panel, "metric": metric, "x": list(found.scale.temperatures)} | curve)
    return series


def _metric(found: CSqsStudy, cell: Cell, metric: str) -> Ratio:
    return resampling(cell) if metric == "resampling" else latency(cell, found.times, RATE_BPS)


def basis(found: CSqsStudy, passes: str | None = None, texts: str | None = None) -> dict[str, Any]:
    """Return the text that says how the numbers were obtained: pair, prompts, parameters and times."""
    scale, times = found.scale, found.times
    measured = (
        f"a pass takes {1e3 * times.draft_s:.2f} ms of the draft model and {1e3 * times.target_s:.2f} + "
        f"{1e3 * times.token_s:.2f} n ms of the target model over n tokens, the quickest of several here"
    )
    shared = f"of {scale.new_tokens} new tokens at each temperature and method"
    return {
        "basis": (
            f"on the pair {found.pair}, V = {found.vocabulary:,}, {scale.prompts} prompts {texts or shared}, "
            f"B = {BUDGET_BITS:,.0f} bits, ℓ = {RESOLUTION}, "
            f"η = {LEARNING_RATE:g}, ε = {EPSILON:g}; {passes or measured}; the link has {RATE_BPS / 1e6:g} Mbit/s; "
            "intervals: 95%, bootstrap over prompts"
        ),
        **found.record,
    }


def curves_of(found: CSqsStudy, panels: Sequence[tuple[str, Sequence[str]]]) -> Numbers:
    """Compute the curves of each panel over the temperature: latency or resampling rate."""
    names = {"latency": LATENCY, "resampling": RESAMPLING}
    return {
        "axes": [{"x": TEMPERATURE, "y": names[metric]} for metric, _ in panels],
        "series": [one for k, (metric, kept) in enumerate(panels) for one in _series(found, kept, k, metric)],
    }


def simulate_curves(seed: int, panels: Sequence[tuple[str, Sequence[str]]]) -> Numbers:
    """Compute the curves of each panel, and what is said of them."""
    found = study(seed)
    return {
        **curves_of(found, panels),
        "statistics": {
            "adaptive_less_fixed": _adaptation(found),
            "crossovers": crossovers(found),
            "gap": _gaps(found),
        },
        **basis(found),
    }


def _gaps(found: CSqsStudy) -> dict[str, list[list[float | None]]]:
    """Return C-SQS minus K-SQS with the middle parameters at each temperature, paired by prompt, with its interval."""
    names = (ADAPTIVE[MIDDLE_THRESHOLD], BY_SIZE[MIDDLE_SIZE])
    return {
        metric: [
            interval([_metric(found, found.cells[name, t], metric) for name in names]).plain()
            for t in found.scale.temperatures
        ]
        for metric in ("latency", "resampling")
    }


def _adaptation(found: CSqsStudy) -> list[dict[str, Any]]:
    """Return the effect of the adaptation at the highest temperature for each τ_1, with its interval."""
    top, lines = found.scale.temperatures[-1], []
    for threshold in THRESHOLDS:
        line: dict[str, Any] = {"threshold": threshold}
        for metric in ("latency", "resampling"):
            cells = (found.cells[names[threshold], top] for names in (ADAPTIVE, FIXED))
            line[metric] = interval([_metric(found, cell, metric) for cell in cells]).plain()
        lines.append(line)
    return lines


def crossovers(found: CSqsStudy) -> list[dict[str, Any]]:
    """Return the pairs (K, τ_1) that cross as in the paper, for each metric."""
    return [{"metric": metric} | _count(found, metric) for metric in ("latency", "resampling")]


def _count(found: CSqsStudy, metric: str) -> dict[str, Any]:
    """Count the decoded pairs of K and τ_1 that cross or not; ``which`` names those that cross."""
    ends = (found.scale.temperatures[0], found.scale.temperatures[-1])
    tally: dict[str, Any] = {"crossing": 0, "clear": 0, "reverse": 0, "k": 0, "c": 0, "which": []}
    for size, by_size in BY_SIZE.items():
        for threshold, by_mass in ADAPTIVE.items():
            if any((name, end) not in found.cells for name in (by_mass, by_size) for end in ends):
                continue
            gaps = []
            for end in ends:
                cells = [found.cells[name, end] for name in (by_mass, by_size)]
                gaps.append(interval([_metric(found, cell, metric) for cell in cells]))
            first, last = gaps  # C-SQS minus K-SQS
            kind = {(1, -1): "crossing", (-1, 1): "reverse", (1, 1): "k", (-1, -1): "c"}.get(
                (int(np.sign(first.value)), int(np.sign(last.value)))
            )
            if kind is not None:
                tally[kind] += 1
            if kind == "crossing":
                tally["which"].append([size, threshold])
                tally["clear"] += int((first.sign, last.sign) == (1, -1))
    return tally


def paths(cell: Cell) -> list[dict[str, list[float]]]:
    """Return for each text the running mean of the dropped mass at verified positions and the thresholds by round."""
    found = []
    for row in cell.rows:
        asked = [one for one in row.rounds if one.accepted + one.resampled]
        count = np.cumsum([one.accepted + one.resampled for one in asked])
        mass = np.cumsum([one.dropped for one in asked])
        thresholds = [one.threshold for one in asked if one.threshold is not None]
        found.append({"x": count.tolist(), "mean": plain(mass / count), "threshold": plain(thresholds)})
    return found


def simulate_regret(seed: int) -> Numbers:
    """Compute both bounds and the mean dropped mass of the longer texts, for Algorithm 1 corrected and as printed."""
    found = study(seed)
    panels = [paths(found.long[name]) for name in (ADAPTIVE[MIDDLE_THRESHOLD], PRINTED)]
    longest = max(one["x"][-1] for panel in panels for one in panel if one["x"])
    steps = np.arange(1, longest + 1)
    setting = (EPSILON, LEARNING_RATE, MIDDLE_THRESHOLD, steps)
    axes = {
        "x": {"label": "drafts accepted or resampled, T", "unit": "", "scale": "log"},
        "y": {"label": "mean dropped mass", "unit": "", "scale": "log"},
    }
    texts = f"of {found.scale.long_tokens} new tokens at temperature {found.scale.temperatures[-1]:g}"
    bounds = {"published": plain(regret_bound(*setting)), "sharp": plain(regret_bound_sharp(*setting))}
    return {
        "axes": [axes, axes],
        "series": [
            {"name": name, "texts": panel} for name, panel in zip(("mended", "as printed"), panels, strict=True)
        ],
        "bounds": {"x": steps.tolist()} | bounds,
        "statistics": {
            "temperature": found.scale.temperatures[-1],
            "new_tokens": found.scale.long_tokens,
            "last": [[one["mean"][-1] for one in panel if one["mean"]] for panel in panels],
            "above_sharp": [_above(panel, bounds["sharp"]) for panel in panels],
        },
        **basis(found, texts=texts),
    }


def _above(panel: list[dict[str, list[float]]], sharp: list[float]) -> int:
    """Count the texts whose mean is above the sharp bound after at least one round."""
    return sum(any(mean > sharp[int(x) - 1] for x, mean in zip(one["x"], one["mean"], strict=True)) for one in panel)
