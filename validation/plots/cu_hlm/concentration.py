"""Measure the concentration of q and the cost of truncating it, cu-hlm (oh2025cuhlm) Figs. 5 and 6."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._remember import freeze, remembering
from hlmtheory.truncation import resampling_bias, tail_deviation
from hlmtheory.truncation.reconstruction import resampling_distortion
from hlmtheory.verification import total_variation
from validation.plots.common.printed import CU, value
from validation.plots.common.record import Numbers, plain, sampled, spread
from validation.plots.common.skipping.numbers import correlation
from validation.plots.common.style import COLUMN, DARK, LIGHT, PAGE, PALE, Axes, Canvas, canvas, name_axes
from validation.plots.common.truncation.looks import axis
from validation.trace.reader import Trace, probabilities

RANKED_VALUES = 10**8  # number of sorted probabilities for one figure: 24,000 positions at V = 4,096
RANKS = 120  # points of a curve
SCATTER_POSITIONS = 1_000
SCATTER_VALUES = 3 * 10**8  # number of probabilities of q̂: fewer positions for a very large V
SCATTER_SIZES = 9
BAND = (0.1, 0.9)


def _ranked(trace: Trace, seed: int) -> Any:
    for draft, _ in sampled(trace, max(1, RANKED_VALUES // trace.vocabulary), seed):
        rows = probabilities(draft)
        rows.sort(axis=-1)
        yield rows


def _curve(name: str, x: NDArray[np.int64], rows: list[NDArray[np.float64]]) -> dict[str, Any]:
    values = np.concatenate(rows)
    low, high = np.quantile(values, BAND, axis=0)
    curve = {"mean": values.mean(axis=0), "median": np.median(values, axis=0), "low": low, "high": high}
    return {"name": name, "band": BAND, "x": x.tolist(), **{key: plain(line) for key, line in curve.items()}}


def measure_ranks(trace: Trace, seed: int) -> Numbers:
    ranks = spread(trace.vocabulary, RANKS)
    rows = [ordered[:, -ranks] for ordered in _ranked(trace, seed)]
    return {
        "axes": [{"x": axis("rank of the token"), "y": axis("probability")}],
        "series": [_curve("q by descending rank", ranks, rows)],
        "statistics": {"mean_of_largest": plain(np.concatenate(rows)[:, 0].mean())},
        "positions_drawn": sum(map(len, rows)),
    }


def measure_tails(trace: Trace, seed: int) -> Numbers:
    sizes = spread(trace.vocabulary, RANKS)
    remains, deviations = [], []
    for ordered in _ranked(trace, seed):
        # the V - k smallest, summed from the smallest up: 1 - Σ_{i≤k} q_i without cancellation
        below = np.concatenate([np.zeros_like(ordered[:, :1]), np.cumsum(ordered, axis=-1)], axis=-1)
        remains.append(below[:, trace.vocabulary - sizes])
        deviations.append(tail_deviation(ordered)[:, sizes])
    return {
        "axes": [{"x": axis("tokens kept k"), "y": axis("probability", scale="linear")}],
        "series": [_curve("1 − Σ_{i≤k} q_i", sizes, remains), _curve("Δ_k = TV(q, q̂)", sizes, deviations)],
        "statistics": {},
        "positions_drawn": sum(map(len, remains)),
    }


def _band(axes: Axes, series: dict[str, Any], name: str) -> None:
    axes.fill_between(series["x"], series["low"], series["high"], color=LIGHT, linewidth=0, label=name)


def paint_ranks(numbers: Numbers) -> Canvas:
    figure, (axes,) = canvas(COLUMN)
    (series,) = numbers["series"]
    _band(axes, series, "10–90% of positions")
    axes.plot(series["x"], series["mean"], color=DARK, label="mean")
    axes.plot(series["x"], series["median"], color=PALE, linestyle=(0, (4, 2)), label="median")
    name_axes(axes, numbers["axes"][0])
    positive = [value for key in ("mean", "median") for value in series[key] if value > 0]
    axes.set(xlim=(1, max(2, series["x"][-1])), ylim=(max(1e-12, min(positive) / 30), 1.5))
    axes.legend(loc="lower left")
    return figure


def paint_tails(numbers: Numbers) -> Canvas:
    figure, (axes,) = canvas(COLUMN)
    remains, deviation = numbers["series"]
    _band(axes, remains, "residual probability, 10–90%")
    axes.plot(remains["x"], remains["mean"], color=DARK, label="residual probability, mean")
    axes.plot(deviation["x"], deviation["mean"], color=PALE, linestyle=(0, (4, 2)), label=r"$\Delta_k$, mean")
    name_axes(axes, numbers["axes"][0])
    axes.set(xlim=(1, max(2, remains["x"][-1])), ylim=(0, None))
    axes.legend(loc="upper right")
    return figure


def measure_bias(trace: Trace, seed: int) -> Numbers:
    sizes = spread(max(1, trace.vocabulary // 2), SCATTER_SIZES)
    count = max(1, min(SCATTER_POSITIONS, SCATTER_VALUES // (trace.vocabulary * len(sizes))))
    parts = []
    for draft, target in sampled(trace, count, seed, per_position=len(sizes)):
        q, p = probabilities(draft)[:, None], probabilities(target)[:, None]
        distance = np.broadcast_to(total_variation(p, q), (len(q), len(sizes)))
        freeze((p, q))
        with remembering():
            parts.append(np.stack([distance, resampling_distortion(p, q, sizes), resampling_bias(p, q, sizes)]))
    distance, distortion, bias = np.concatenate(parts, axis=1)
    product = 2.0 * distance * distortion
    tvd, both = axis("TV(r, r̂)", scale="linear"), axis("bias", scale="linear")
    return {
        "axes": [{"x": tvd, "y": both}, {"x": axis("2 TV(q, p) TV(r, r̂)", scale="linear"), "y": both}],
        "series": [
            {"name": f"k = {k}", "k": int(k), "tv_r": plain(distortion[:, i], 6), "bias": plain(bias[:, i], 6)}
            for i, k in enumerate(sizes)
        ],
        "tv_q_p": plain(distance[:, 0], 6),
        "statistics": {
            "pearson_r": plain(correlation(distortion.ravel(), bias.ravel())),
            "pearson_r_of_means_per_k": plain(correlation(distortion.mean(axis=0), bias.mean(axis=0))),
            "largest_deviation_from_identity": plain(np.abs(bias - product).max(), 3),
        },
        "positions_drawn": len(bias),
    }


def paint_bias(numbers: Numbers) -> Canvas:
    from matplotlib.colors import LinearSegmentedColormap

    figure, (left, right) = canvas(PAGE, panels=2)
    series, statistics = numbers["series"], numbers["statistics"]
    distance = np.tile(numbers["tv_q_p"], len(series))
    distortion = np.concatenate([one["tv_r"] for one in series])
    bias = np.concatenate([one["bias"] for one in series])
    order = np.random.default_rng(0).permutation(len(bias))  # so that no k hides another
    shades = LinearSegmentedColormap.from_list("distance", ["#b4c2d2", "#6f8fb0", "#1d4a7d", "#0a1a33"])
    for axes, x in ((left, distortion), (right, 2 * distance * distortion)):
        points = axes.scatter(
            x[order], bias[order], c=distance[order], s=4, cmap=shades, vmin=0, vmax=1, linewidths=0, rasterized=True
        )
    means = np.array([[np.mean(one["tv_r"]), np.mean(one["bias"])] for one in series])
    means_look: dict[str, Any] = {"marker": "o", "markersize": 4.5, "markerfacecolor": "white", "markeredgewidth": 1}
    left.plot(*means.T, color="black", linewidth=1, label="mean at each k", **means_look)
    end = max(0.1, float(bias.max()))
    right.plot([0, 1.05 * end], [0, 1.05 * end], color="0.8", linewidth=3.5, zorder=0.9, label="equal")
    for axes, names in zip((left, right), numbers["axes"], strict=True):
        name_axes(axes, names)
        axes.locator_params(nbins=5)
        axes.legend(loc="lower right")
    found = (statistics[key] for key in ("pearson_r", "pearson_r_of_means_per_k"))
    r, of_means = ("undefined" if one is None else f"{one:.4f}" for one in found)
    left.set_title(
        f"correlation {r} over all points, {of_means}\nover the means; the paper prints {value(CU, 'bias_correlation')}"
    )
    deviation = max(statistics["largest_deviation_from_identity"], 1e-16)
    power = int(np.ceil(np.log10(deviation)))  # independent of the machine's last bit
    right.set_title(f"an identity: largest\ndeviation below $10^{{{power}}}$")
    figure.colorbar(points, ax=right, label="TV(q, p)", pad=0.02)
    return figure
