"""Compute the numbers of the figures of c-sqs: ratios over the texts with intervals, bounds, and crossing curves.

All methods generate from the same prompts, so a difference uses the same resamples for both. The percentiles are
slightly outside 2.5 and 97.5 (Hesterberg's), so that the interval of a mean is about as wide as Student's.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from hlmtheory.conformal import regret_bound
from hlmtheory.conformal.controller import regret_bound_sharp
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.methods import quantized
from validation.decoding.seconds import Times
from validation.estimates import Estimate
from validation.plots.c_sqs.texts import (
    DRAFT_BITS,
    MIDDLE_SIZE,
    MIDDLE_THRESHOLD,
    SIZES,
    THRESHOLDS,
    Cell,
    Texts,
    Values,
    texts,
)
from validation.plots.common.record import Numbers, plain, table, table_of
from validation.plots.common.style import axis

Ratio = tuple[Values, Values]
"""Numerator and denominator, with one number for each text."""

RATE_BPS = 1e6  # of the link in the figures; c-sqs does not print its value
LARGER_MODELS = Times(*PAPER_TIMES, 0.0)
ASSUMED = f"passes of {1e3 * LARGER_MODELS.draft_s:g} and {1e3 * LARGER_MODELS.target_s:g} ms"
RESAMPLES = 4000
DENSE, ALLOCATED = quantized.DenseQs().name, quantized.AllocatedSqs(DRAFT_BITS).name
BY_SIZE = {k: quantized.KSqs(k).name for k in SIZES}
ADAPTIVE = {t: quantized.CSqs(t).name for t in THRESHOLDS}
FIXED = {t: quantized.CSqs(t, learning_rate=0.0).name for t in THRESHOLDS}
PRINTED = quantized.CSqs(MIDDLE_THRESHOLD, printed=True).name
BUDGETED, GUARDED = quantized.BudgetedSqs().name, quantized.BudgetedCSqs(MIDDLE_THRESHOLD).name
MAIN = (DENSE, BY_SIZE[MIDDLE_SIZE], ADAPTIVE[MIDDLE_THRESHOLD], FIXED[MIDDLE_THRESHOLD], ALLOCATED)
IN_BYTES = {"by_bytes": True}
BYTES = (
    quantized.DenseQs(**IN_BYTES).name,
    quantized.KSqs(MIDDLE_SIZE, **IN_BYTES).name,
    quantized.CSqs(MIDDLE_THRESHOLD, **IN_BYTES).name,
    quantized.AllocatedSqs(DRAFT_BITS, **IN_BYTES).name,
)
METRICS = {"latency": axis("latency for each token", "ms"), "resampling": axis("resampling rate")}


def listed(found: Estimate) -> list[float | None]:
    """Return a number and the ends of its interval for a sidecar."""
    return list(found.plain(digits=4).values())


def interval(parts: Sequence[Ratio]) -> Estimate:
    """Return the ratio of totals with its interval; of two ratios, the first minus the second."""
    above, below = np.array([part[0] for part in parts]), np.array([part[1] for part in parts])
    signs = np.array([1.0, -1.0])[: len(parts)]
    count = above.shape[-1]
    whole = float(signs @ (above.sum(-1) / below.sum(-1)))
    if count < 2:
        return Estimate(whole)
    weights, tail = _resamples(count)
    low, high = np.quantile(signs @ ((above @ weights) / (below @ weights)), [tail, 1.0 - tail])
    return Estimate(whole, float(low), float(high))


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
    return cell.sums["resampled"], cell.rounds


def _metric(found: Texts, cell: Cell, metric: str) -> Ratio:
    return resampling(cell) if metric == "resampling" else latency(cell, found.times, RATE_BPS)


def basis(found: Texts, passes: str | None = None, texts: str | None = None) -> dict[str, Any]:
    """Return how the numbers were obtained, as text; ``passes`` and ``texts`` replace its clauses on these."""
    scale, times = found.about["scale"], found.times
    measured = (
        f"a pass takes {1e3 * times.draft_s:.2f} ms of the draft model and {1e3 * times.target_s:.2f} + "
        f"{1e3 * times.token_s:.2f} n ms of the target model over n tokens, the quickest of several here"
    )
    shared = f"of {scale['new_tokens']} new tokens at each temperature and method"
    return {
        "basis": (
            f"on the pair {found.about['pair']}, V = {found.about['vocabulary']:,}, {scale['prompts']} prompts "
            f"{texts or shared}, B = {quantized.BUDGET_BITS:,.0f} bits, ℓ = {quantized.RESOLUTION}, "
            f"η = {quantized.LEARNING_RATE:g}, ε = {quantized.EPSILON:g}; {passes or measured}; "
            f"the link has {RATE_BPS / 1e6:g} Mbit/s; intervals: 95%, bootstrap over prompts"
        ),
        **found.record,
    }


def simulate_curves(panels: Sequence[tuple[str, Sequence[str]]], seed: int, pair: str | None = None) -> Numbers:
    """Compute the curves of each panel over the temperature, latency or resampling rate; the seed is the study's."""
    found = texts(pair)
    series = []
    for panel, (metric, names) in enumerate(panels):
        for name in (name for name in names if (name, found.temperatures[0]) in found.cells):
            cells = [found.cells[name, temperature] for temperature in found.temperatures]
            each = [interval([_metric(found, cell, metric)]) for cell in cells]
            low, high = zip(*(one.ends for one in each), strict=True)
            curve = {"mean": plain([one.value for one in each]), "low": plain(low), "high": plain(high)}
            series.append({"name": name, "panel": panel, "metric": metric, "x": found.temperatures} | curve)
    return {
        "axes": [{"x": axis("temperature"), "y": METRICS[metric]} for metric, _ in panels],
        "series": series,
        "statistics": {
            "adaptive_less_fixed": _adaptation(found),
            "crossovers": crossovers(found),
            "middle": {"K": MIDDLE_SIZE, "τ₁": MIDDLE_THRESHOLD},
            "trend": {kind: _trend(found, names.values()) for kind, names in (("K", BY_SIZE), ("C", ADAPTIVE))},
            "gap": {
                metric: [
                    listed(_gap(found, metric, (ADAPTIVE[MIDDLE_THRESHOLD], BY_SIZE[MIDDLE_SIZE]), t))
                    for t in found.temperatures
                ]
                for metric in METRICS
            },
        },
        **basis(found, None if found.times.token_s else ASSUMED),
    }


def _gap(found: Texts, metric: str, names: Sequence[str], temperature: float) -> Estimate:
    return interval([_metric(found, found.cells[name, temperature], metric) for name in names])


def _trend(found: Texts, names: Iterable[str]) -> dict[str, int]:
    """Count methods whose latency rises or falls from the lowest to the highest temperature, beyond its interval."""
    ends, there = (found.temperatures[-1], found.temperatures[0]), {name for name, _ in found.cells}
    cells = [[found.cells[name, t] for t in ends] for name in names if name in there]
    signs = [interval([_metric(found, cell, "latency") for cell in both]).sign for both in cells]
    return {"of": len(signs), "slower": signs.count(1), "faster": signs.count(-1)}


def _adaptation(found: Texts) -> list[dict[str, Any]]:
    top = found.temperatures[-1]
    return [
        {"threshold": t} | {metric: listed(_gap(found, metric, (ADAPTIVE[t], FIXED[t]), top)) for metric in METRICS}
        for t in THRESHOLDS
        if {(ADAPTIVE[t], top), (FIXED[t], top)} <= found.cells.keys()
    ]


def crossovers(found: Texts) -> list[dict[str, Any]]:
    """Return the pairs (K, τ_1) that cross as in the paper, for each metric.

    ``pairs``: all that were run. ``crossing``: K-SQS is better at the lowest temperature and C-SQS at the highest.
    ``clear``: a crossing pair for which the intervals of both differences exclude 0. ``reverse``: the opposite
    crossing. ``k``, ``c``: K-SQS or C-SQS is better at both temperatures. All other pairs are equal at one of the two.
    """
    return [{"metric": metric} | _count(found, metric) for metric in METRICS]


def _count(found: Texts, metric: str) -> dict[str, Any]:
    ends = (found.temperatures[0], found.temperatures[-1])
    tally: dict[str, Any] = dict.fromkeys(("pairs", "crossing", "clear", "reverse", "k", "c"), 0) | {"which": []}
    for size, by_size in BY_SIZE.items():
        for threshold, by_mass in ADAPTIVE.items():
            if any((name, end) not in found.cells for name in (by_mass, by_size) for end in ends):
                continue
            tally["pairs"] += 1
            first, last = (_gap(found, metric, (by_mass, by_size), end) for end in ends)  # C-SQS minus K-SQS
            kind = {(1, -1): "crossing", (-1, 1): "reverse", (1, 1): "k", (-1, -1): "c"}.get(
                (int(np.sign(first.value or 0.0)), int(np.sign(last.value or 0.0)))
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
    for path in cell.paths:
        asked = [step for step in path if step[0] + step[1]]
        count = np.cumsum([accepted + resampled for accepted, resampled, *_ in asked])
        mass = np.cumsum([dropped for *_, dropped, _ in asked])
        thresholds = [threshold for *_, threshold in asked if threshold is not None]
        found.append({"x": count.tolist(), "mean": plain(mass / count), "threshold": plain(thresholds)})
    return found


def simulate_regret(seed: int) -> Numbers:
    """Compute both bounds and the mean dropped mass of the longer texts, for Algorithm 1 corrected and as printed."""
    found = texts()
    panels = [paths(found.long[name]) for name in (ADAPTIVE[MIDDLE_THRESHOLD], PRINTED)]
    steps = np.arange(1, max(one["x"][-1] for panel in panels for one in panel if one["x"]) + 1)
    setting = (quantized.EPSILON, quantized.LEARNING_RATE, MIDDLE_THRESHOLD, steps)
    axes = {"x": axis("drafts accepted or rejected, T", scale="log"), "y": axis("mean dropped mass", scale="log")}
    tokens, top = found.about["scale"]["long_tokens"], found.temperatures[-1]
    sharp = plain(regret_bound_sharp(*setting))
    above = [
        [any(mean > sharp[int(x) - 1] for x, mean in zip(one["x"], one["mean"], strict=True)) for one in panel]
        for panel in panels
    ]
    return {
        "axes": [axes, axes],
        "series": [
            {"name": name, "texts": panel} for name, panel in zip(("mended", "as printed"), panels, strict=True)
        ],
        "bounds": {"x": steps.tolist(), "published": plain(regret_bound(*setting)), "sharp": sharp},
        "statistics": {
            "temperature": top,
            "new_tokens": tokens,
            "last": [[one["mean"][-1] for one in panel if one["mean"]] for panel in panels],
            "texts": [len(panel) for panel in above],
            "above_sharp": [sum(panel) for panel in above],
        },
        **basis(found, texts=f"of {tokens} new tokens at temperature {top:g}"),
    }


def simulate_theorem(seed: int) -> Numbers:
    """Compute Table III of ours: the rejections of each text beside Theorem 1 with both rounding terms."""
    found, lines = texts(), []
    for name in MAIN:
        for temperature in found.temperatures:
            cell = found.cells[name, temperature]
            sums, ones = cell.sums, np.ones(len(cell.tokens))
            bound = sums["mismatch"] + sums["dropped"] + sums["rounding"]  # the right side of (3), sharp
            excess = interval([(sums["resampled"] - bound, ones)])
            rounding = {"sharp": plain(sums["rounding"].mean(), 4), "published": plain(cell.rounding.mean(), 4)}
            lines.append(
                {
                    "method": name,
                    "temperature": temperature,
                    "rejected": listed(interval([(sums["resampled"], ones)])),
                    "positions": float(cell.looked_at.mean()),
                    "rounding": rounding,
                    "excess": listed(excess),
                    "above": excess.sign > 0,
                    **{key: plain(sums[key].mean(), 4) for key in ("mismatch", "dropped")},
                }
            )
    columns: dict[str, str | Callable[[Any], str]] = {
        "method": "{method}",
        "temperature": "{temperature:g}",
        "drafts looked at": "{positions:.1f}",
        "rejected": lambda one: Estimate(*one["rejected"]).text(".1f"),
        "Σ TV(q, p)": "{mismatch:.2f}",
        "Σ dropped": "{dropped:.2f}",
        "Σ i(K − i)/(Kℓ)": "{rounding[sharp]:.2f}",
        "Σ K/(4ℓ)": "{rounding[published]:.2f}",
        "bound, sharp": lambda one: f"{one['mismatch'] + one['dropped'] + one['rounding']['sharp']:.1f}",
        "bound, published": lambda one: f"{one['mismatch'] + one['dropped'] + one['rounding']['published']:.1f}",
    }
    made = table_of("Theorem 1 for each text", columns, lines)
    return {"statistics": {"theorem": lines}, "tables": [made], **basis(found)}


HEADS = {
    "dropped": ("mean dropped mass", ".5f"),
    "draft_bits": ("bits a draft", ",.0f"),
    "token_bits": ("bits a token", ",.0f"),
    "drafts": ("drafts a round", ".1f"),
    "latency": ("latency a token, ms", ".2f"),
    "rejected": ("rejected, of verified drafts", ".3f"),
    "resampling": ("resampling rate", ".3f"),
}
"""Metrics of Table VIII of ours, each with the head of its column and its format."""


def simulate_budget(seed: int) -> Numbers:
    """Compute Table VIII of ours: C-SQS beside the budget of dropped mass, on the same prompts."""
    found = texts()
    names = (ADAPTIVE[MIDDLE_THRESHOLD], BUDGETED, GUARDED)
    places = {f"{t:g}": {name: found.cells[name, t] for name in names} for t in found.temperatures}
    long = f"{found.temperatures[-1]:g}, {found.about['scale']['long_tokens']} tokens"
    places[long] = {name: found.long[name] for name in (*names, quantized.CSqs(0.0).name)}
    values: list[dict[str, Any]] = []
    for where, cells in places.items():
        for name, cell in cells.items():
            ratios: dict[str, Ratio] = {
                "dropped": (cell.sums["dropped"], cell.looked_at),
                "draft_bits": (cell.bits, cell.sums["drafted"]),
                "token_bits": (cell.bits, cell.tokens),
                "drafts": (cell.sums["drafted"], cell.rounds),
                "latency": latency(cell, LARGER_MODELS, RATE_BPS),
                "rejected": (cell.sums["resampled"], cell.looked_at),
                "resampling": resampling(cell),
            }
            values.append(
                {"where": where, "method": name} | {key: listed(interval([one])) for key, one in ratios.items()}
            )
    heads = ("temperature", "method", *(head for head, _ in HEADS.values()))
    rows = tuple(
        (one["where"], one["method"], *(Estimate(*one[key]).text(spec) for key, (_, spec) in HEADS.items()))
        for one in values
    )
    return {
        "statistics": {"epsilon": quantized.EPSILON, "values": values},
        "tables": [table(f"ε = {quantized.EPSILON:g}", heads, rows)],
        **basis(found, ASSUMED),
    }
