"""Compare Tables III to VI of flexspec (li2025flexspec), printed latencies and speed-ups, to its model (10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.plots.common.record import Numbers, Table, plain
from validation.plots.flexspec import fits
from validation.plots.flexspec.printed import (
    DATASETS,
    DEVICE_DATASETS,
    DEVICES,
    LATENCIES,
    METHODS,
    NETWORKS,
    TARGETS,
    misprints,
)

MODEL = "F + K M a round, E(K) = (1 − γ^{K+1})/(1 − γ) tokens of it, F = Cloud-Only"
GAMMA = 0.8
"""Initial value of Algorithm 2: the only acceptance rate that the paper prints for FlexSpec."""
GAMMAS = (0.6, 0.7, 0.8, 0.9, 0.95)


def span(values: Any, form: str = ".3g") -> str:
    """Format the range from smallest to largest.

    >>> span([2.0, 1.0, 3.0])
    '1 to 3'
    """
    low, high = format(float(np.min(values)), form), format(float(np.max(values)), form)
    return low if low == high else f"{low} to {high}"


def listed(values: Any, form: str = ".3g") -> str:
    """Format all values, separated by commas.

    >>> listed([1.0, 2.5])
    '1, 2.5'
    """
    return ", ".join(format(float(value), form) for value in values)


# -------------------------------------------------------------------------------------------- Tables III and IV


def _methods_table(table: str) -> dict[str, Any]:
    """Return the table of each method's speed-ups, and the γ, M/F and best K that they imply."""
    latency, _ = LATENCIES[table]
    quotient = latency[..., :1] / latency
    rows = []
    for number, method in enumerate(METHODS):
        gains = quotient[..., number]
        middle = np.median(gains, axis=0)
        found = [fits.ratio_for(gain, GAMMA) for gain in middle]
        shown = [("–", "–") if one is None or number == 0 else (f"{one[0]:.2f}", str(one[1])) for one in found]
        rows.append(
            (
                method,
                *(span(gains[:, n], ".2f") for n in range(len(NETWORKS))),
                f"{max(0.0, 1.0 - 1.0 / gains.max()):.2f}",
                ", ".join(one[0] for one in shown),
                ", ".join(one[1] for one in shown),
            )
        )
    heads = ("method", *NETWORKS, "γ at least", f"M/F at γ = {GAMMA}", "K* there")
    title = f"Speed-up over Cloud-Only, the range of {len(DATASETS)} datasets; M/F and K* over {', '.join(NETWORKS)}"
    return Table(title, heads, tuple(rows)).plain()


def _fits(table: str) -> list[tuple[str, fits.ColumnFit]]:
    """Fit FlexSpec's column with γ held at several values; for Table IV also with the marginals of Table III."""
    latency, _ = LATENCIES[table]
    cloud, own = latency[..., 0], latency[..., -1]
    found = [(f"{gamma:g}, held", fits.column_fit(cloud, own, gamma)) for gamma in GAMMAS]
    if table == "IV":
        greedy, _ = LATENCIES["III"]
        marginals = fits.column_fit(greedy[..., 0], greedy[..., -1], GAMMA).marginals
        found.append(("free, M of Table III", fits.column_fit(cloud, own, GAMMA, marginals)))
    return found


def _fits_table(table: str, found: list[tuple[str, fits.ColumnFit]]) -> dict[str, Any]:
    """Return the table of fitted parameters: the misfit does not identify γ."""
    cloud = LATENCIES[table][0][..., 0]
    rows = []
    for name, fit in found:
        lengths = fits.best_latency(fit.gammas[:, None], cloud, fit.marginals)[1]
        chosen = ", ".join(span(lengths[:, n], ".0f") for n in range(len(NETWORKS)))
        marginals = f"{listed(fit.marginals, '.0f')} ms"
        rows.append((name, span(fit.gammas, ".2f"), marginals, chosen, f"{fit.rms:.1f} ms"))
    networks = ", ".join(NETWORKS)
    heads = (f"γ of {DATASETS[0]}", "γ of all", f"M over {networks}", f"K* over {networks}", "misfit, rms")
    return Table(f"FlexSpec's column by least squares: {MODEL}", heads, tuple(rows)).plain()


def _remarks_table(table: str) -> dict[str, Any]:
    rows = [
        (f"{method}, {where}: {own:.0f} ms, {shown:.2f}×", f"{quotient:.2f}×")
        for where, method, own, shown, quotient in misprints(table)
    ]
    latency, printed = LATENCIES[table]
    quotient = latency[..., :1] / latency
    cut = int(np.count_nonzero(np.abs(quotient - printed)[..., 1:] > 0.005)) - len(rows)
    rows.append((f"{cut} further speed-ups of {printed[..., 1:].size}", "digits cut off, not rounded"))
    if table == "III":
        gains = quotient[:, -1, METHODS.index("DSSD")]
        rows.append(("FlexSpec is “the only viable acceleration” over WiFi", f"DSSD {span(gains, '.2f')}×"))
    return Table("What does not follow from the printed latencies", ("printed", "follows"), tuple(rows)).plain()


def simulate_latencies(table: str, seed: int) -> Numbers:
    """Fit the latency columns; nothing is random."""
    latency, _ = LATENCIES[table]
    quotient = latency[..., 0] / latency[..., -1]
    found = _fits(table)
    held = [fit for name, fit in found if "held" in name]
    statistics: dict[str, Any] = {
        "speed_up_5g_over_wifi": plain(quotient[:, 0] / quotient[:, -1], 4),
        "misprints": len(list(misprints(table))),
        "rms_ms": plain([fit.rms for fit in held], 3),
        "growth_ms": plain([fit.marginals[-1] - fit.marginals[0] for fit in held], 3),
    }
    if len(found) > len(held):
        statistics["rms_with_other_marginals_ms"] = plain(found[-1][1].rms, 3)
    return {
        "statistics": statistics,
        "tables": [_methods_table(table), _fits_table(table, found), _remarks_table(table)],
    }


# ------------------------------------------------------------------------------------------------------ Table V


def simulate_devices(seed: int) -> Numbers:
    """Compute speed-ups of devices that differ in the time of a draft; nothing is random."""
    draft = np.asarray([one[1] for one in DEVICES])
    cloud = dict(zip(DATASETS, LATENCIES["III"][0][:, 1, 0], strict=True))
    fitted, notes, statistics = [], [], {}
    middle = [one[0] for one in DEVICES].index("Snapdragon 8 Gen 3")
    for column, dataset in enumerate(DEVICE_DATASETS):
        shown = np.asarray([one[3][column] for one in DEVICES])
        most = fits.largest_between(draft, shown, middle)
        notes.append(
            (f"{dataset}: {DEVICES[middle][0]}, between the two others", f"{shown[middle]:.2f}×", f"≤ {most:.2f}×")
        )
        statistics[f"most_{dataset}"] = plain(most, 4)
        for base in [cloud[dataset], None] if dataset in cloud else [None]:
            fit = fits.device_fit(draft, shown, base)
            name = f"{dataset}, F = {fit.fixed:.0f} ms" + ("" if base is None else ", Cloud-Only")
            cells = (f"{a:.2f} ({b:.2f})" for a, b in zip(fit.fitted, shown, strict=True))
            fitted.append((name, f"{fit.gamma:.2f}", f"{fit.other * fit.fixed:.0f} ms", *cells))
    for column, dataset in enumerate(DEVICE_DATASETS[:2]):
        theirs = LATENCIES["III"][1][DATASETS.index(dataset), 1, -1]
        shown_here = f"{listed([one[3][column] for one in DEVICES], '.2f')}×"
        notes.append((f"{dataset} over 4G: no device's speed-up is that of Table III", shown_here, f"{theirs:.2f}×"))
    notes.append(("slower than Cloud-Only", "0.72 to 0.85×", "1× if K = 0 is allowed in (11)"))
    heads = ("dataset", "γ", "M beside the draft", *(one[0] for one in DEVICES))
    return {
        "statistics": statistics,
        "tables": [
            Table("Fitted speed-up (printed)", heads, tuple(fitted)).plain(),
            Table("What follows", ("", "printed", "follows"), tuple(notes)).plain(),
        ],
    }


# ----------------------------------------------------------------------------------------------------- Table VI


def simulate_targets(seed: int) -> Numbers:
    """Compute implied latencies for other target models, and the M/F that they imply; nothing is random."""
    rows = []
    for name, base, gain in TARGETS:
        own = [b / g for b, g in zip(base, gain, strict=True)]
        found = [fits.ratio_for(g, GAMMA) for g in gain]
        pairs = [one for one in found if one is not None]
        per_round = (base[1] - base[0]) / (own[1] - own[0])
        rows.append(
            (
                name,
                f"{listed(own, '.0f')} ms",
                f"{listed([one[0] for one in pairs], '.3f')}",
                ", ".join(str(one[1]) for one in pairs),
                f"{base[1] - base[0]:.0f} and {own[1] - own[0]:.0f} ms",
                f"{per_round:.2f}",
            )
        )
    heads = (
        "target",
        "latency implied over 5G, 4G",
        f"M/F at γ = {GAMMA}",
        "K* there",
        "4G costs more: Cloud-Only, FlexSpec",
        "tokens a round if M is the same",
    )
    return {
        "statistics": {},
        "tables": [Table("Targets of Table VI, MT-Bench", heads, tuple(rows)).plain()],
    }
