"""Make Fig. 5 of edge-sd (zhu2025edgesd) on the built-in models: run time of a forward pass is c₁ F b + c₂.

The figure is drawn from the times that ``figures/studies/forward_times`` measured and stored.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.models.forward_times import StageTimes, measure_stage_times
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.stored import stored
from validation.plots.common.style import DARK, MIDDLE, PAGE, axis, canvas, name_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


REPEATS, PATIENCE_S = 15, 60.0
"""Rounds of a model, and the time limit (s) to begin one: enough for the minimum to be close to a free core's."""


def simulate_stages(seed: int) -> Numbers:
    """Return the stored times of Fig. 5; the seed is that of the measurement."""
    numbers, made_of = stored("forward_times")
    return {**numbers, **made_of}


def measure_stages(seed: int, *, measure: Callable[..., StageTimes] = measure_stage_times) -> Numbers:
    """Measure Fig. 5: run time of the built-in models over the batch size and over the operations.

    Each model runs on the CPU, and on a GPU if there is one. The seed draws the prompts; times depend on the machine.
    """
    import torch

    from validation.models.machine import machine
    from validation.models.pair import load_pair

    computer = machine() | {"threads": torch.get_num_threads()}  # record the load before this run adds to it
    places = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    series, fits = [], []
    for place in places:
        pair = load_pair("builtin", device=place, dtype="float32")
        for name, model in (("draft", pair.draft), ("target", pair.target)):
            times = measure(model, seed=seed, repeats=REPEATS, patience_s=PATIENCE_S)
            series.append(_passes(f"{name} model, {place}", place, times))
            fits.append(_fit_row(series[-1]))
    heads = ("model", "c₁ (s/FLOP)", "c₂ (s)", "R²", "median error", "largest error")
    return {
        "axes": [
            {"x": axis("batch size b"), "y": axis("run time", "ms")},
            {"x": axis("operations F b", "GFLOP", "log"), "y": axis("run time", "ms", "log")},
        ],
        "series": series,
        "statistics": {"smallest_r_squared": min(one["r_squared"] for one in series)}
        | {"largest_relative_error": max(max(one["relative_error"]) for one in series)}
        | {"largest_median_over_least": plain(max(max(one["median_over_least"]) for one in series), 4)}
        | {"fewest_rounds": min(one["rounds"] for one in series)},
        "tables": [Table("Run time = c₁ F b + c₂, 95% intervals", heads, tuple(fits)).plain()],
        "date": datetime.now(UTC).date().isoformat(),
        "machine": computer,
        "basis": (
            f"the built-in models in float32 on this machine's {' and '.join(place.upper() for place in places)}, "
            f"shared with other work (load average {computer['load']} at the start), so the least of "
            f"{min(one['rounds'] for one in series)} rounds or more is taken"
        ),
    }


def _passes(name: str, place: str, times: StageTimes) -> dict[str, Any]:
    """Return measured and fitted times of one model, in ms."""
    fit = times.fit
    fitted = fit.c1 * times.load + fit.c2
    return {
        "name": name,
        "place": place,
        "rounds": times.rounds,
        "model": list(times.model.sizes),
        "input_tokens": times.input_tokens.tolist(),
        "batch_size": times.batch_size.tolist(),
        "x": plain(times.load / 1e9, 5),
        "mean": plain(1e3 * times.least, 5),
        "median": plain(1e3 * times.median, 5),
        "median_over_least": plain(times.median / times.least, 4),
        "fitted": plain(1e3 * fitted, 5),
        "relative_error": plain(np.abs(fitted / times.least - 1.0), 3),
        "c1": plain(fit.c1, 5),
        "c1_interval": plain(fit.c1_interval, 5),
        "c2": plain(fit.c2, 5),
        "c2_interval": plain(fit.c2_interval, 5),
        "r_squared": plain(np.asarray(fit.r_squared, dtype=np.float64), 6),
    }


def _fit_row(series: dict[str, Any]) -> tuple[str, ...]:
    (low1, high1), (low2, high2) = series["c1_interval"], series["c2_interval"]
    errors = series["relative_error"]
    return (
        series["name"],
        f"{series['c1']:.3g} [{low1:.3g}, {high1:.3g}]",
        f"{series['c2']:.2g} [{low2:.2g}, {high2:.2g}]",
        f"{series['r_squared']:.4f}",
        f"{100 * float(np.median(errors)):.0f}%",
        f"{100 * max(errors):.0f}%",
    )


def paint_stages(numbers: Numbers) -> Canvas:
    """Paint the target model at each prompt length on the left, all models on logarithmic axes on the right."""
    figure, (left, right) = canvas(PAGE, panels=2)
    last = numbers["series"][-1]  # the target model follows the draft model
    shades = (("0.65", "v"), ("0.45", "^"), (MIDDLE, "s"), (DARK, "o"))
    for tokens, (shade, mark) in zip(sorted(set(last["input_tokens"])), shades, strict=False):
        here = np.asarray(last["input_tokens"]) == tokens
        columns = (np.asarray(last[key])[here] for key in ("batch_size", "mean", "fitted"))
        batch, mean, fitted = columns
        left.plot(batch, fitted, color=shade)
        left.plot(batch, mean, color=shade, linestyle="", marker=mark, markersize=4, label=f"{tokens} tokens")
    left.set_title(f"{last['name']}: measured, and c₁Fb + c₂ (lines)")
    for series, shade, mark in zip(
        numbers["series"], (MIDDLE, DARK, "0.65", "0.45"), ("s", "o", "v", "^"), strict=False
    ):
        order = np.argsort(series["x"])
        x, fitted = (np.asarray(series[key])[order] for key in ("x", "fitted"))
        right.plot(x, np.where(fitted > 0, fitted, np.nan), color=shade)
        right.plot(
            series["x"], series["mean"], color=shade, linestyle="", marker=mark, markersize=4, label=series["name"]
        )
    for axes, names in zip((left, right), numbers["axes"], strict=True):
        name_axes(axes, names)
        axes.legend(loc="upper left")
    return figure


def caption_stages(numbers: Numbers) -> str:
    """Give the largest deviation from the line, and the spread of the rounds."""
    statistics = numbers["statistics"]
    return (
        f"Single passes deviate by up to {100 * statistics['largest_relative_error']:.0f}%, the smallest ones most. "
        f"The median of the {statistics['fewest_rounds']} rounds or more is at most "
        f"{statistics['largest_median_over_least']:.2f} times the least. The paper measures LLaMA-7B on an RTX 4500 "
        "and prints no number for this figure."
    )


def message_stages(numbers: Numbers) -> str:
    """Give the variance that the line explains."""
    least = numbers["statistics"]["smallest_r_squared"]
    return f"The line c₁ F b + c₂ explains at least {100 * least:.1f}% of the variance of the run times."
