"""Compute Fig. 2 and Table I of flexspec (li2025flexspec) from its printed numbers; no number is read off a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hlmtheory.draft_length import (
    etgr,
    optimal_draft_length,
    surrogate_draft_length,
    synchronisation_time,
)
from validation.decoding.studies import CLOUD_ONLY_S, CLOUD_S
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.style import DARK, LIGHT, MIDDLE, PAGE, axis, canvas, name_axes
from validation.plots.flexspec.printed import DRAFT_BYTES, SYNCHRONISATION

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

GAMMA = 0.8
"""Initial value of Algorithm 2: the only acceptance rate that the paper prints for FlexSpec."""
LONGEST = 64
"""K_max of the ranges of F/M: the paper prints none."""
DRAWN = tuple(range(1, 9))
PRINTED_BEST = {"weak": 2, "strong": 6}
"""K* by signal, Fig. 2."""
WAITS_MS = np.linspace(0.0, 400.0, 401)
"""Milliseconds in which the link carries the index of one token, b/R."""


# ------------------------------------------------------------------------------------------------------- Fig. 2


def _needed(gamma: float, length: int) -> tuple[float, float]:
    """Return the range of F/M with this K*, from a fine grid."""
    grid = np.geomspace(0.1, 1000.0, 20_001)
    chosen = np.asarray(optimal_draft_length(gamma, grid, 1.0, LONGEST))
    return float(grid[chosen == length].min()), float(grid[chosen == length].max())


def _costs() -> tuple[float, float, dict[str, float]]:
    """Return a round's delay, its computation per draft, and b/R by signal, in ms, which give the K* of Fig. 2.

    F is Cloud-Only's latency over 5G. With b/R = 0 the computation per draft gives the longer K*; the rest of M is the
    link's. Each is the geometric mean of its range.
    """
    fixed = 1e3 * CLOUD_ONLY_S["5G"]
    marginal = {name: fixed / float(np.sqrt(np.prod(_needed(GAMMA, length)))) for name, length in PRINTED_BEST.items()}
    return fixed, marginal["strong"], {name: own - marginal["strong"] for name, own in marginal.items()}


def _parts(name: str) -> dict[str, Any]:
    """Return the communication and the computation of a token over K, in ms, and K*."""
    fixed, draft, waits = _costs()
    lengths = np.asarray(DRAWN)
    cloud = 1e3 * CLOUD_S
    communication = 1.0 / np.asarray(etgr(GAMMA, lengths, fixed - cloud, waits[name]))
    computation = 1.0 / np.asarray(etgr(GAMMA, lengths, cloud, draft))
    total = communication + computation
    return {
        "name": f"{name} signal",
        "x": lengths.tolist(),
        "communication": plain(communication, 5),
        "computation": plain(computation, 5),
        "best": int(lengths[np.argmin(total)]),
        "wait_ms": plain(waits[name], 4),
    }


def simulate_lengths(seed: int) -> Numbers:
    """Compute the parts of a token's latency for both signals, and the chosen lengths over b/R; nothing is random."""
    fixed, draft, waits = _costs()
    marginal = draft + WAITS_MS
    exact = np.asarray(optimal_draft_length(GAMMA, fixed, marginal, max(DRAWN)))
    picks = np.asarray(surrogate_draft_length(GAMMA, fixed, marginal, max(DRAWN)))
    series: list[dict[str, Any]] = [_parts("weak"), _parts("strong")]
    series.append({"name": "K*", "x": plain(WAITS_MS, 6), "y": exact.tolist()})
    series.append({"name": "Algorithm 2", "x": plain(WAITS_MS, 6), "y": picks.tolist()})
    parts = {"x": axis("draft length K"), "y": axis("latency of a token", "ms")}
    return {
        "axes": [parts, parts, {"x": axis("time of a token's index, b/R", "ms"), "y": axis("draft length chosen")}],
        "series": series,
        "statistics": {
            "draft_ms": plain(draft, 4),
            "wait_ms": plain(waits["weak"], 4),
        },
        "basis": f"by (10), (11), γ = {GAMMA}, K_max = {max(DRAWN)}",
    }


def paint_lengths(numbers: Numbers) -> Canvas:
    """Paint the parts of a token's latency for both signals, and the chosen lengths over b/R."""
    figure, panels = canvas(PAGE, panels=3)
    parts, (exact, picks) = numbers["series"][:2], numbers["series"][2:]
    top = 1.12 * max(a + b for one in parts for a, b in zip(one["communication"], one["computation"], strict=True))
    for axes, one in zip(panels, parts, strict=False):
        axes.bar(one["x"], one["computation"], 0.7, color=DARK, label="computation")
        axes.bar(one["x"], one["communication"], 0.7, bottom=one["computation"], color=LIGHT, label="communication")
        at = one["x"].index(one["best"])
        height = one["communication"][at] + one["computation"][at]
        axes.plot(one["best"], height + 0.03 * top, "v", color=MIDDLE, markersize=5, label=f"K* = {one['best']}")
        axes.set(title=f"{one['name']}, b/R = {one['wait_ms']:.0f} ms", ylim=(0, top), xticks=one["x"])
        axes.grid(axis="x", visible=False)
        axes.legend(loc="upper left" if one is parts[0] else "upper right")
    panels[-1].step(exact["x"], exact["y"], where="mid", color=DARK, label="K*, exact")
    panels[-1].step(picks["x"], picks["y"], where="mid", color=MIDDLE, linestyle=(0, (4, 2)), label="Algorithm 2")
    panels[-1].set_ylim(0, 10.8)
    panels[-1].legend(loc="upper right")
    for axes, names in zip(panels, numbers["axes"], strict=True):
        name_axes(axes, names)
    panels[1].set_ylabel("")
    return figure


# ------------------------------------------------------------------------------------------------------ Table I


def simulate_storm(seed: int) -> Numbers:
    """Compute minutes at 3.2 GB, and the sizes that match the printed minutes; nothing is random."""
    rows = []
    for name, rate, minutes, unit in SYNCHRONISATION:
        ours = float(synchronisation_time(DRAFT_BYTES, rate)) / 60.0
        low, high = (rate * 60.0 * (minutes + side * unit / 2.0) / 8.0 / 1e9 for side in (-1, 1))
        rows.append(
            (name, f"{rate / 1e6:g} Mbit/s", f"{minutes:g} min", f"{ours:.1f} min", f"{low:.4g} to {high:.4g} GB")
        )
    heads = ("network", "rate", "printed", f"{DRAFT_BYTES / 1e9:g} GB take", "sizes that take the printed")
    return {
        "statistics": {},
        "tables": [Table("Synchronisation of one draft model", heads, tuple(rows)).plain()],
        "basis": "8 × size / rate",
    }
