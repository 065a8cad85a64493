"""Measure truncated transmission, cu-hlm (oh2025cuhlm) Figs. 8 and 9b: bounds of the distortion, and the payload."""

from typing import Any

import numpy as np

from validation.arrays import Row
from validation.plots.common.ends import name_points
from validation.plots.common.record import Numbers, plain
from validation.plots.common.style import DARK, MIDDLE, PAGE, PALE, PRINTED, Canvas, canvas, legend_below, name_panels
from validation.plots.common.truncation import looks
from validation.plots.common.truncation import sample as samples
from validation.plots.common.truncation.looks import average, axis, curve, defined
from validation.trace.reader import Trace


def _bounds(sample: samples.Sample) -> dict[str, Row]:
    """Return TV(r, r̂_k) and its bounds at each k of the grid, at the positions where a draft can be rejected."""
    kept, drafts = sample.rejected, sample.drafts
    deviation, apart = sample.deviation[kept], drafts.apart[kept, None]
    lost = (drafts.drafted * drafts.rejection)[kept, None]
    certified = np.where(lost > deviation, deviation / np.where(lost > 0, lost, 1.0), 1.0)
    bounds = {
        "TV(r, r̂)": sample.distortion[kept],
        "sharp bound": deviation / np.maximum(apart, sample.rebuilt[kept]),
        "published (20)": 2.0 * deviation / apart,
        "Δ_k/(q_d β_d)": np.where(deviation > 0, certified, 0.0),
    }
    for eta in samples.SHOWN:
        chosen = samples.denominator(drafts.drafted, drafts.estimate, eta)[kept, None]
        bounds[f"online (23), η = {eta:g}"] = 2.0 * deviation / chosen
    return bounds


def measure_bounds(trace: Trace, seed: int) -> Numbers:
    """Measure Fig. 8: means of TV(r, r̂), of the Bias and of their bounds over k."""
    sample = samples.sample_of(trace, seed)
    x, bounds = sample.grid.tolist(), _bounds(sample)
    series = [{"name": name, "panel": 0, "x": x, "y": defined(average(rows, 0))} for name, rows in bounds.items()]
    biases = {
        "Bias": sample.bias(sample.distortion),
        "2 min(T, Δ_k)": 2.0 * np.minimum(sample.deviation, sample.drafts.apart[:, None]),
        "2Δ_k": 2.0 * sample.deviation,
    }
    series += [{"name": name, "panel": 1, "x": x, "y": plain(rows.mean(axis=0), 5)} for name, rows in biases.items()]
    tokens = axis("tokens kept k")
    return {
        "axes": [{"x": tokens, "y": axis("TV(r, r̂) and bounds, mean")}, {"x": tokens, "y": axis("Bias, mean")}],
        "series": series,
        "statistics": {},
        "positions_drawn": len(sample.drafts.apart),
    }


def paint_bounds(numbers: Numbers) -> Canvas:
    figure, panels = canvas((PAGE[0], 3.5), panels=2)
    true, online = {"color": "black", "linewidth": 2}, f"online (23), η = {samples.SHOWN[0]:g}"
    styles = {
        "TV(r, r̂)": (r"TV(r, $\hat{r}$)", true),
        "sharp bound": (r"sharp: $\Delta_k/\max(T, \hat{T})$", looks.LOOKS["certified"]),
        "published (20)": (r"(20), printed: $2\Delta_k/T$", {"color": MIDDLE}),
        online: (f"(23), {online.replace(' (23)', '')}", looks.LOOKS[f"online {samples.SHOWN[0]:g}"]),
        "Δ_k/(q_d β_d)": (r"for a known $\beta_d$: $\min(1, \Delta_k/(q_d \beta_d))$", {"color": "0.6"}),
        "Bias": ("Bias", true),
        "2 min(T, Δ_k)": (r"for a known T: $2\min(T, \Delta_k)$", {"color": "0.6"}),
        "2Δ_k": (r"certificate: $2\Delta_k$", looks.LOOKS["certified"]),
    }  # the online bound with a larger η is above 1 at almost every k: it is in the numbers
    name_panels(panels, numbers["axes"])
    for place, axes in enumerate(panels):
        shown = [one for one in numbers["series"] if one["panel"] == place and one["name"] in styles]
        for one in shown:
            name, style = styles[one["name"]]
            curve(axes, one["x"], one["y"], label=name, **style)
        axes.set_ylim(looks.decades([one["y"] for one in shown], 1e-4))
        if not place:
            axes.axhline(1.0, color="black", linewidth=0.6, linestyle=(0, (1, 3)), label="1: a bound says nothing")
        words = r"$T$ = TV(q, p), $\hat{T}$ = TV($\hat{q}$, p), $\Delta_k$ = TV(q, $\hat{q}$)"
        legend_below(axes, columns=2, title=words)
    return figure


ONLINE_RULES = [f"online η = {eta:g}" for eta in samples.SHOWN]


def _sent(sample: samples.Sample) -> dict[str, float | None]:
    certified = sample.top_k["certified"][:, samples.PARAMETERS["certified"].index(samples.EPSILON)]
    return {
        "offline (21)": sample.offline(samples.THETA),
        "offline, sharp": sample.offline(samples.THETA, sharp=True),
        "certified": float(certified.mean()),
        **{name: float(sample.online(eta).mean()) for eta, name in zip(samples.SHOWN, ONLINE_RULES, strict=True)},
    }


def measure_payload(trace: Trace, seed: int) -> Numbers:
    """Measure Fig. 9b: payload over k, and the remaining distortion and Bias."""
    sample = samples.sample_of(trace, seed)
    width = looks.full_bits(sample.vocabulary) // sample.vocabulary  # of one entry: b_prob + ⌈log₂ V⌉
    grid = sample.grid
    distortion, bias = average(sample.distortion[sample.rejected], 0), sample.bias(sample.distortion).mean(axis=0)
    sent = _sent(sample)
    return {
        "axes": [
            {"x": axis("tokens kept k"), "y": axis("payload", "bit")},
            {"x": axis("payload", "bit"), "y": axis("mean over positions", scale="linear")},
        ],
        "series": [
            {"name": "payload, (4)", "x": grid.tolist(), "y": (grid * width).tolist()},
            {"name": "TV(r, r̂)", "x": (grid * width).tolist(), "y": defined(distortion)},
            {"name": "Bias", "x": (grid * width).tolist(), "y": plain(bias, 5)},
        ],
        "statistics": {
            "bits_per_entry": width,
            "full_bits": looks.full_bits(sample.vocabulary),
            "vocabulary": sample.vocabulary,
            "mean_k": {name: None if k is None else defined(k) for name, k in sent.items()},
        },
        "positions_drawn": len(sample.drafts.apart),
    }


def paint_payload(numbers: Numbers) -> Canvas:
    figure, panels = canvas(PAGE, panels=2)
    left, right = panels
    payload, distortion, bias = numbers["series"]
    statistics = numbers["statistics"]
    width, full = statistics["bits_per_entry"], statistics["full_bits"]
    name_panels(panels, numbers["axes"])
    curve(left, payload["x"], payload["y"], color="0.6", label=f"k × {width} bits: 8 + ⌈log₂ V⌉")
    left.axhline(full, color="0.4", linewidth=0.8, linestyle=(0, (4, 2)), label="all entries, (4)")
    marks = {name: k for name, k in statistics["mean_k"].items() if k}
    hollow: dict[str, Any] = {"linestyle": "none", "markersize": 4.5, "markerfacecolor": "white"}
    left.plot(
        list(marks.values()), [k * width for k in marks.values()], "o", color=DARK, label="mean k of a rule", **hollow
    )
    at = looks.full_bits(looks.FULL) / looks.FULL
    left.plot([looks.OFFLINE], [looks.OFFLINE * at], label=f"k* printed, V = {looks.FULL:,}", **PRINTED)
    curve(right, distortion["x"], distortion["y"], color=DARK, label=r"TV(r, $\hat{r}$)")
    curve(right, bias["x"], bias["y"], color=PALE, linestyle=(0, (4, 2)), label="Bias")
    right.set_ylim(0, None)
    left.legend(loc="lower right")
    right.legend(loc="upper right")
    name_points(left, [(k, k * width, name, "0.45") for name, k in marks.items()])
    return figure
