"""Make Fig. 5 of edge-sd (zhu2025edgesd) on the built-in models: run time of a forward pass is c₁ F b + c₂.

The figure is drawn from the times that ``figures/studies/forward_times`` measured and stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from validation.plots.common.record import Numbers
from validation.plots.common.stored import stored
from validation.plots.common.style import DARK, MIDDLE, PAGE, canvas, name_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def simulate_stages(seed: int) -> Numbers:
    """Return the stored times of Fig. 5; the seed is that of the measurement."""
    numbers, made_of = stored("forward_times")
    return {**numbers, **made_of}


def paint_stages(numbers: Numbers) -> Canvas:
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
