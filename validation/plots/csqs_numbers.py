"""The numbers of the figures of c-sqs: ratios over the texts with their intervals, the bounds, and where curves cross.

All intervals are 95%, by a delete-one jackknife over the prompts with the quantile of Student's t: the prompts are few,
and the texts of two methods belong to the same prompts. A difference is taken within each prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory import regret_bound, regret_bound_sharp
from validation.decode import PAPER_TIMES
from validation.decoding.sqs import BUDGET_BITS, EPSILON, LEARNING_RATE, RESOLUTION
from validation.plots.csqs_runs import (
    METHODS,
    MIDDLE_SIZE,
    MIDDLE_THRESHOLD,
    SIZES,
    THRESHOLDS,
    Cell,
    Study,
    Times,
    study,
)
from validation.plots.record import Numbers, plain

Values = NDArray[np.float64]
Ratio = tuple[Values, Values]
"""What stands above and below, a number for each text."""

RATE_BPS = 1e6  # of the link in the figures; c-sqs does not print its own
RATES_BPS = (1e4, 1e5, 1e6, 1e7, 1e8)
LARGER_MODELS = Times(*PAPER_TIMES, 0.0)
NAMES = tuple(METHODS)
DENSE, ALLOCATED = "QS dense", "SQS allocated"
BY_SIZE = {k: f"K-SQS, K = {k}" for k in SIZES}
ADAPTIVE = {t: f"C-SQS, τ₁ = {t:g}" for t in THRESHOLDS}
FIXED = {t: f"C-SQS, τ = {t:g} fixed" for t in THRESHOLDS}
PRINTED = f"{ADAPTIVE[MIDDLE_THRESHOLD]} as printed"
MAIN = (DENSE, BY_SIZE[MIDDLE_SIZE], ADAPTIVE[MIDDLE_THRESHOLD], FIXED[MIDDLE_THRESHOLD], ALLOCATED)
BYTES = tuple(name for name in NAMES if name.endswith(", bytes"))
TEMPERATURE = {"label": "temperature", "unit": "", "scale": "linear"}
LATENCY = {"label": "latency for each token", "unit": "ms", "scale": "linear"}
RESAMPLING = {"label": "resampling rate", "unit": "", "scale": "linear"}


# ----------------------------------------------------------------------------------------------------- intervals


def interval(parts: Sequence[Ratio]) -> tuple[float, float | None]:
    """A ratio of totals, or the first less the second, and half the width of its interval; None for one text."""
    above, below = np.array([part[0] for part in parts]), np.array([part[1] for part in parts])
    signs = np.array([1.0, -1.0])[: len(parts)]
    count = above.shape[-1]
    whole = float(signs @ (above.sum(-1) / below.sum(-1)))
    if count < 2:
        return whole, None
    from scipy.stats import t

    without = signs @ ((above.sum(-1)[:, None] - above) / (below.sum(-1)[:, None] - below))
    error = np.sqrt((count - 1) * without.var())
    return whole, float(t.ppf(0.975, count - 1) * error)


def latency(cell: Cell, times: Times, rate_bps: float) -> Ratio:
    """Milliseconds for each token."""
    return 1e3 * cell.seconds(times, rate_bps), cell.tokens


def resampling(cell: Cell) -> Ratio:
    """Rejected and resampled drafts for each round: c-sqs Section 4."""
    return cell.totals("resampled"), cell.rounds


def _series(found: Study, names: Sequence[str], panel: int, metric: str) -> list[dict[str, Any]]:
    """Curves over the temperature."""
    series = []
    for name in names:
        mean, low, high = [], [], []
        for temperature in found.scale.temperatures:
            cell = found.cells[name, temperature]
            value, half = interval([_metric(found, cell, metric)])
            mean.append(value)
            low.append(value if half is None else value - half)
            high.append(value if half is None else value + half)
        curve = {"mean": plain(mean), "low": plain(low), "high": plain(high)}
        series.append({"name": name, "panel": panel, "metric": metric, "x": list(found.scale.temperatures)} | curve)
    return series


def _metric(found: Study, cell: Cell, metric: str) -> Ratio:
    return resampling(cell) if metric == "resampling" else latency(cell, found.times, RATE_BPS)


def basis(found: Study) -> dict[str, Any]:
    """Of what it was measured."""
    scale, times = found.scale, found.times
    return {
        "kind": "measured",
        "basis": (
            f"on the pair {found.pair}, V = {found.vocabulary:,}, {scale.prompts} prompts of {scale.new_tokens} new "
            f"tokens at each temperature and method, B = {BUDGET_BITS:,.0f} bits, ℓ = {RESOLUTION}, "
            f"η = {LEARNING_RATE:g}, ε = {EPSILON:g}; a pass takes {1e3 * times.small_s:.2f} ms of the small model and "
            f"{1e3 * times.large_s:.2f} + {1e3 * times.token_s:.2f} n ms of the large one over n tokens, the "
            f"quickest of several here; the link has {RATE_BPS / 1e6:g} Mbit/s; intervals: 95%, jackknife over prompts"
        ),
    }


# ------------------------------------------------------------------------------------------------------ the curves


def simulate_curves(seed: int, panels: Sequence[tuple[str, Sequence[str]]]) -> Numbers:
    """Panels of latency or resampling rate, over the temperature."""
    found = study(seed)
    names = {"latency": LATENCY, "resampling": RESAMPLING}
    return {
        "axes": [{"x": TEMPERATURE, "y": names[metric]} for metric, _ in panels],
        "series": [one for k, (metric, kept) in enumerate(panels) for one in _series(found, kept, k, metric)],
        "statistics": {
            "drafts_per_round": _by_temperature(found, lambda cell: (cell.totals("drafted"), cell.rounds)),
            "rejected_per_draft": _by_temperature(found, lambda cell: (cell.totals("resampled"), cell.looked_at)),
            "adaptive_less_fixed": _adaptation(found),
            "crossovers": crossovers(found),
        },
        **basis(found),
    }


def _by_temperature(found: Study, ratio: Callable[[Cell], Ratio]) -> dict[str, list[float]]:
    """A ratio of every method at each temperature."""
    return {
        name: [plain(interval([ratio(found.cells[name, t])])[0], 4) for t in found.scale.temperatures] for name in NAMES
    }


def _adaptation(found: Study) -> list[dict[str, Any]]:
    """What adaptation changes at the highest temperature, for each τ_1: with half the width of the interval."""
    top, lines = found.scale.temperatures[-1], []
    for threshold in THRESHOLDS:
        line: dict[str, Any] = {"threshold": threshold}
        for metric in ("latency", "resampling"):
            cells = (found.cells[names[threshold], top] for names in (ADAPTIVE, FIXED))
            line[metric] = interval([_metric(found, cell, metric) for cell in cells])
        lines.append(line)
    return lines


def crossovers(found: Study) -> list[dict[str, Any]]:
    """For each models' times, link and metric: which of the pairs (K, τ_1) cross as the paper's do.

    ``crossing``: K-SQS is better at the lowest temperature and C-SQS at the highest; ``clear`` of them, both beyond
    the interval; ``reverse`` the other way round; ``k`` and ``c`` better at both ends; the rest are equal at an end.
    """
    lines = [
        {"metric": "latency", "times": name, "rate_bps": rate} | _count(found, times, rate)
        for name, times in (("as measured", found.times), ("of 25.6 and 104.6 ms", LARGER_MODELS))
        for rate in RATES_BPS
    ]
    return [*lines, {"metric": "resampling", "times": "", "rate_bps": None} | _count(found, None, RATE_BPS)]


def _count(found: Study, times: Times | None, rate: float) -> dict[str, Any]:
    """How the pairs of K and τ_1 fall out; ``which`` names those that cross."""
    ends = (found.scale.temperatures[0], found.scale.temperatures[-1])
    tally: dict[str, Any] = {"crossing": 0, "clear": 0, "reverse": 0, "k": 0, "c": 0, "which": []}
    for size, by_size in BY_SIZE.items():
        for threshold, by_mass in ADAPTIVE.items():
            gaps = []
            for end in ends:
                cells = [found.cells[name, end] for name in (by_mass, by_size)]
                gaps.append(interval([resampling(c) if times is None else latency(c, times, rate) for c in cells]))
            (first, low), (last, high) = gaps  # C-SQS less K-SQS
            kind = {(1, -1): "crossing", (-1, 1): "reverse", (1, 1): "k", (-1, -1): "c"}.get(
                (int(np.sign(first)), int(np.sign(last)))
            )
            if kind is not None:
                tally[kind] += 1
            if kind == "crossing":
                tally["which"].append([size, threshold])
                tally["clear"] += int(low is not None and high is not None and first > low and -last > high)
    return tally


# ------------------------------------------------------------------------------------------------- bounds and paths


def paths(cell: Cell) -> list[dict[str, list[float]]]:
    """For each text, over the positions looked at: the mean dropped mass so far, and the threshold after each round."""
    found = []
    for row in cell.rows:
        asked = [one for one in row.rounds if one.accepted + one.resampled]
        count = np.cumsum([one.accepted + one.resampled for one in asked])
        mass = np.cumsum([one.dropped for one in asked])
        thresholds = [one.threshold for one in asked if one.threshold is not None]
        found.append({"x": count.tolist(), "mean": plain(mass / count), "threshold": plain(thresholds)})
    return found


def simulate_regret(seed: int) -> Numbers:
    """The mean dropped mass of each text beside both bounds, with Algorithm 1 as mended and as printed."""
    found = study(seed)
    top = found.scale.temperatures[-1]
    panels = [paths(found.cells[name, top]) for name in (ADAPTIVE[MIDDLE_THRESHOLD], PRINTED)]
    longest = max(one["x"][-1] for panel in panels for one in panel if one["x"])
    steps = np.arange(1, longest + 1)
    setting = (EPSILON, LEARNING_RATE, MIDDLE_THRESHOLD, steps)
    axes = {
        "x": {"label": "drafts accepted or resampled, T", "unit": "", "scale": "log"},
        "y": {"label": "mean dropped mass", "unit": "", "scale": "log"},
    }
    bounds = {"published": plain(regret_bound(*setting)), "sharp": plain(regret_bound_sharp(*setting))}
    return {
        "axes": [axes, axes],
        "series": [
            {"name": name, "texts": panel} for name, panel in zip(("mended", "as printed"), panels, strict=True)
        ],
        "bounds": {"x": steps.tolist()} | bounds,
        "statistics": {
            "temperature": top,
            "above_sharp": [_above(panel, bounds["sharp"]) for panel in panels],
            "published_below_1_from": 1 + int(_published_end()),
        },
        **basis(found),
    }


def _published_end() -> float:
    """T at which the published bound on a mean of probabilities falls to 1."""
    return (MIDDLE_THRESHOLD + 1.0 + LEARNING_RATE * EPSILON) / (LEARNING_RATE * (1.0 - EPSILON))  # (9)


def _above(panel: list[dict[str, list[float]]], sharp: list[float]) -> int:
    """Texts with a mean above the sharp bound at the end of some round."""
    return sum(any(mean > sharp[int(x) - 1] for x, mean in zip(one["x"], one["mean"], strict=True)) for one in panel)
