"""Figure 1 of ours: an average latency under fading depends on the sample size and the seed."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.channel import Rayleigh, Rician, db_to_linear, shannon_latency, vocabulary_payload_bits
from validation.arrays import Row
from validation.plots.common.record import Numbers, plain
from validation.plots.common.style import DARK, LIGHT, PAGE, PALE, Canvas, axis, canvas, name_panels

SAMPLES = 10**7
RUNS = 4
MEAN_SNR_DB = -20.0
K_FACTORS_DB = (None, 3.0, 10.0)
"""Rician factors in dB: no line of sight (None), a weak one, and the one of cu-hlm Fig. 10b."""
BANDWIDTH_HZ = 10e6
PAYLOAD = int(vocabulary_payload_bits(32_000, 8))
CHUNK = 2**18  # samples per step; in float64 they take 2 MiB
POINTS_PER_DECADE = 8


def _law(k_factor_db: float | None) -> tuple[str, Rician]:
    mean = float(db_to_linear(MEAN_SNR_DB))
    if k_factor_db is None:
        return "Rayleigh", Rayleigh(mean)
    return f"Rician, {k_factor_db:.0f} dB", Rician(mean, float(db_to_linear(k_factor_db)))


def _sizes() -> NDArray[np.int64]:
    count = POINTS_PER_DECADE * (round(math.log10(SAMPLES)) - 2) + 1
    return np.unique(np.round(np.geomspace(100, SAMPLES, count)).astype(np.int64))


def _decades() -> list[int]:
    return [10**power for power in range(2, round(math.log10(SAMPLES)) + 1)]


def _run(law: Rician, rng: np.random.Generator) -> tuple[Row, Row]:
    """Return the mean of the first n latencies for each n, and their median for each power of 10, in seconds."""
    sizes, kept = _sizes(), np.empty(SAMPLES, dtype=np.float32)  # medians need all samples: 40 MB
    means, total = np.empty(len(sizes)), 0.0
    for start in range(0, SAMPLES, CHUNK):
        count = min(CHUNK, SAMPLES - start)
        latency = np.asarray(shannon_latency(PAYLOAD, BANDWIDTH_HZ, law.sample(rng, count)))
        kept[start : start + count] = latency
        sums = total + np.cumsum(latency)
        here = np.flatnonzero((sizes > start) & (sizes <= start + count))
        means[here] = sums[sizes[here] - start - 1] / sizes[here]
        total = float(sums[-1])
    return means, np.asarray([np.median(kept[:size]) for size in _decades()])


def _one_law(number: int, k_factor_db: float | None, seed: int) -> dict[str, Any]:
    name, law = _law(k_factor_db)
    runs = [_run(law, np.random.default_rng([seed, number, run])) for run in range(RUNS)]
    cut = law.quantile(1.0 / _sizes())  # P(S ≤ cut) = 1/n
    typical = np.asarray(law.inverse_efficiency(cut).value) * PAYLOAD / BANDWIDTH_HZ  # mean over the SNRs S above it
    growth = float(law.latency_growth()) * PAYLOAD / BANDWIDTH_HZ
    return {
        "name": name,
        "x": _sizes().tolist(),
        "running_mean": [plain(mean, 7) for mean, _ in runs],
        "typical_mean": plain(typical, 7),
        "decades": _decades(),
        "running_median": [plain(median, 7) for _, median in runs],
        "median": plain(law.latency_quantile(0.5, PAYLOAD, BANDWIDTH_HZ), 7),
        "growth_per_factor_e": plain(growth, 7),
    }


def simulate(seed: int) -> Numbers:
    """Return the running mean of the latency of one full distribution over independent fading blocks."""
    series = [_one_law(number, k_factor, seed) for number, k_factor in enumerate(K_FACTORS_DB)]
    ends = [[run[-1] for run in one["running_mean"]] for one in series]
    return {
        "axes": [{"x": axis("blocks averaged", scale="log"), "y": axis("latency of a message", "s")}] * len(series),
        "series": series,
        "statistics": {
            one["name"]: {
                "smallest_mean": min(end),
                "largest_mean": max(end),
                "largest_median_error": plain(max(abs(m[-1] / one["median"] - 1) for m in one["running_median"]), 3),
            }
            for one, end in zip(series, ends, strict=True)
        },
        "basis": f"{SAMPLES:,} blocks, {RUNS} seeds for each law, mean SNR −{-MEAN_SNR_DB:g} dB, "
        f"messages of {PAYLOAD:,} bits over {BANDWIDTH_HZ / 1e6:g} MHz",
    }


def paint(numbers: Numbers) -> Canvas:
    figure, panels = canvas(PAGE, panels=len(numbers["series"]))
    name_panels(panels, numbers["axes"])
    for axes, one in zip(panels, numbers["series"], strict=True):
        first, *others = one["running_mean"]
        for k, run in enumerate(others):
            axes.plot(one["x"], run, color=LIGHT, linewidth=1, label="" if k else "mean, other runs")
        axes.plot(one["x"], first, color=PALE, linewidth=1, label="mean, one run")
        name = "expected latency without the slowest 1/n of the blocks"
        axes.plot(one["x"], one["typical_mean"], color=DARK, linestyle=(0, (4, 2)), label=name)
        axes.plot(one["decades"], one["running_median"][0], "o", color=DARK, markersize=3, label="median of that run")
        axes.axhline(one["median"], color=DARK, linewidth=0.8, label="median, exact")
        top = 1.35 * max(one["typical_mean"][-1], *(run[-1] for run in one["running_mean"]))
        axes.set(title=one["name"].replace(", ", ", factor "), ylim=(0, top), xlim=(100, SAMPLES))
        axes.set_xticks(one["decades"])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
