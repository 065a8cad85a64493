"""Print the tables of the stored speeds, and draw the gains: printed, simulated and measured.

PYTHONPATH=. python3 figures/studies/papers_on_a_link/tables.py figures/studies/papers_on_a_link/speeds.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from systems import OWN, SEEDED, SETTINGS, STD_SD, STREAM, STREAMED, Gain, Setting

from validation.decoding.intervals import (
    DEFAULT_CONFIDENCE,
    DEFAULT_RESAMPLES,
    DEFAULT_SEED,
    IntervalEstimate,
    counts_of,
    divide,
    draw_texts,
    estimate,
    ratio,
)
from validation.plots.common.style import COLUMN, DARK, MIDDLE, canvas, house_style, save

Rows = dict[tuple[str, str], dict[str, Any]]
RIVALS = (STREAM, OWN, STREAMED, SEEDED)


def main() -> None:
    """Print and draw."""
    stored = Path(sys.argv[1])
    rows = {(one["setting"], one["method"]): one for one in json.loads(stored.read_text(encoding="utf-8"))["rows"]}
    kept = [one for one in SETTINGS if all("measured" in rows.get((one.name, s.name), {}) for s in one.systems)]
    print("\n".join(speeds(kept, rows)), end="\n\n")
    print("\n".join(gains(kept, rows)))
    draw(kept, rows, stored.with_suffix(".svg"))


def speeds(kept: list[Setting], rows: Rows) -> list[str]:
    """Return the table of tokens per second: simulated and measured, the error of the first, the share of skips."""
    lines = ["| link | method | simulated | measured | simulated/measured − 1 | skipped | load |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for setting in kept:
        for system in setting.systems:
            row = rows[setting.name, system.name]
            told, found = (ratio(*sums(row[kind])) for kind in ("simulated", "measured"))
            same = sum(a["mark"] == b["mark"] for a, b in zip(row["simulated"], row["measured"], strict=True))
            assert same == len(row["measured"]), (setting.name, system.name, same)
            skipped = np.mean([one["skipped"] for one in row["measured"]])
            share = f"{100 * skipped:.0f}%" if skipped else "–"
            error = f"{100 * (told.value / found.value - 1):+.0f}%"
            cells = [setting.name, system.name, f"{told.value:.3g}", said(found), error, share, f"{row['load']:.1f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def gains(kept: list[Setting], rows: Rows) -> list[str]:
    """Return the table of gains, with those of the rivals over the same method."""
    lines = [
        "| link | gain | streaming | own draft | streamed seed | shared seed | printed | simulated | measured |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for setting in kept:
        for one in setting.gains:
            printed = one.words if one.printed is None else f"{one.printed:.4g}"
            both = [said(gain(setting, one, rows, kind)) for kind in ("simulated", "measured")]
            others = [rival(setting, one, rows, name) for name in RIVALS]
            cells = [*("–" if each is None else f"{each.value:.3g}" for each in others), printed, *both]
            lines.append(f"| {setting.name} | {one.method} over {one.over} | " + " | ".join(cells) + " |")
    return lines


def sums(texts: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Return tokens and seconds of each text."""
    return tuple(np.array([one[name] for one in texts], dtype=np.float64) for name in ("tokens", "seconds"))


def gain(setting: Setting, one: Gain, rows: Rows, kind: str, method: str = "") -> IntervalEstimate:
    """Return the quotient of two speeds; the interval draws texts, the same for both methods."""
    above, below = (sums(rows[setting.name, name][kind]) for name in (method or one.method, one.over))
    counts = counts_of(draw_texts(len(above[0]), DEFAULT_RESAMPLES, DEFAULT_SEED), len(above[0]))
    whole = np.ones((1, len(above[0])))

    def quotient(weights: Any) -> Any:
        fast, slow = (divide(weights @ tokens, weights @ seconds) for tokens, seconds in (above, below))
        return divide(fast, slow)

    return estimate(quotient(whole)[0], quotient(counts), DEFAULT_CONFIDENCE)


def rival(setting: Setting, one: Gain, rows: Rows, name: str) -> IntervalEstimate | None:
    """Return the measured gain of a rival over the same method; None if it does not run there."""
    return gain(setting, one, rows, "measured", name) if (setting.name, name) in rows else None


def said(found: IntervalEstimate) -> str:
    """Return a number with its interval."""
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}]"


def draw(kept: list[Setting], rows: Rows, path: Path) -> None:
    """Draw one line for each gain of which the paper says something, for the papers' own methods."""
    every = [(setting, one) for setting in kept for one in setting.gains]
    shown = [(setting, one) for setting, one in every if (one.printed or one.words != "–") and one.method != STD_SD]
    with house_style():
        picture, (axes,) = canvas((2 * COLUMN[0], 0.6 + 0.24 * len(shown)))
        axes.axvline(1.0, color="0.6", linewidth=0.8)
        for place, (setting, one) in enumerate(shown):
            simulated, measured = (gain(setting, one, rows, kind) for kind in ("simulated", "measured"))
            server = rival(setting, one, rows, STREAM)
            spread = [[measured.value - measured.low], [measured.high - measured.value]]
            labels = ("measured", "simulated", "printed", STREAM) if place == 0 else ("",) * 4
            if server is not None:
                axes.plot(server.value, place, "|", color="0.3", markersize=11, markeredgewidth=2, label=labels[3])
            if one.printed is not None:
                axes.plot(one.printed, place, "D", color=MIDDLE, markersize=5, label=labels[2])
            axes.plot(simulated.value, place, "o", color=DARK, markersize=7, fillstyle="none", label=labels[1])
            axes.errorbar(measured.value, place, xerr=spread, fmt="o", color=DARK, markersize=3, label=labels[0])
        names = [f"{setting.name}: {one.method} over {one.over}" for setting, one in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.set(xscale="log", xlabel="gain in tokens per second")
        axes.xaxis.set_major_formatter("{x:g}")
        picture.legend(loc="outside lower center", ncols=4)
        save(picture, path)


if __name__ == "__main__":
    main()
