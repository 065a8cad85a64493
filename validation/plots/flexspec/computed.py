"""Compute Fig. 2 and Table I of flexspec (li2025flexspec) from its printed numbers; no number is read off a curve."""

import re
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.draft_length import etgr, optimal_draft_length
from hlmtheory.draft_length.optimum import surrogate_draft_length
from hlmtheory.draft_length.rounds import synchronisation_time
from validation.decoding.studies import CLOUD_ONLY_S, CLOUD_S
from validation.estimates import WORDS
from validation.plots.common import style
from validation.plots.common.printed import ACCEPTANCE, DRAFT_BYTES, SYNCHRONISATION
from validation.plots.common.record import Numbers, cell, plain, table, table_of
from validation.plots.common.stored import from_experiment, read
from validation.plots.common.style import DARK, LIGHT, MIDDLE, PAGE, PRINTED, Canvas, axis, canvas, name_panels

GAMMA = 0.8
"""Initial value of Algorithm 2: the only acceptance rate that the paper prints for FlexSpec."""
LONGEST = 64
"""K_max of the ranges of F/M: the paper prints none."""
DRAWN = tuple(range(1, 9))
PRINTED_BEST = {"weak": 2, "strong": 6}
"""K* by signal, Fig. 2."""
WAITS_MS = np.linspace(0.0, 400.0, 401)
"""Milliseconds in which the link carries the index of one token, b/R."""


def _needed(gamma: float, length: int) -> tuple[float, float]:
    grid = np.geomspace(0.1, 1000.0, 20_001)
    chosen = np.asarray(optimal_draft_length(gamma, grid, 1.0, LONGEST))
    return float(grid[chosen == length].min()), float(grid[chosen == length].max())


def _costs() -> tuple[float, float, dict[str, float]]:
    """Return a round's delay, its computation per draft, and b/R by signal, in ms, which give the K* of Fig. 2."""
    fixed = 1e3 * CLOUD_ONLY_S["5G"]
    marginal = {name: fixed / float(np.sqrt(np.prod(_needed(GAMMA, length)))) for name, length in PRINTED_BEST.items()}
    return fixed, marginal["strong"], {name: own - marginal["strong"] for name, own in marginal.items()}


def _parts(name: str) -> dict[str, Any]:
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
        "statistics": {"draft_ms": plain(draft, 4), "wait_ms": plain(waits["weak"], 4)},
        "basis": f"by (10), (11), γ = {GAMMA}, our K_max = {max(DRAWN)}",
    }


def paint_lengths(numbers: Numbers) -> Canvas:
    figure, panels = canvas(PAGE, panels=3)
    parts, (exact, picks) = numbers["series"][:2], numbers["series"][2:]
    top = 1.12 * max(a + b for one in parts for a, b in zip(one["communication"], one["computation"], strict=True))
    for axes, one in zip(panels, parts, strict=False):
        below, above = one["computation"], one["communication"]
        axes.bar(one["x"], below, 0.7, color=DARK, label="computation: drafts, server's pass")
        axes.bar(one["x"], above, 0.7, bottom=below, color=LIGHT, label="communication: delay, indices")
        label = f"K* = {one['best']}, printed; times fitted to it"
        axes.plot(one["best"], 0.0, clip_on=False, label=label, **PRINTED)
        axes.set(title=f"{one['name']}, b/R = {one['wait_ms']:.0f} ms", ylim=(0, top), xticks=one["x"])
        axes.grid(axis="x", visible=False)
        style.legend_below(axes)
    panels[-1].step(exact["x"], exact["y"], where="mid", color=DARK, label="K*, exact")
    panels[-1].step(picks["x"], picks["y"], where="mid", color=MIDDLE, linestyle=(0, (4, 2)), label="Algorithm 2")
    panels[-1].set_ylim(0, 8.8)
    style.legend_below(panels[-1])
    name_panels(panels, numbers["axes"])
    return figure


def simulate_storm(seed: int) -> Numbers:
    """Compute minutes at 3.2 GB, and the sizes in MB that match the printed minutes; nothing is random."""
    rows, ends = [], dict[str, list[int]]()
    for name, rate, minutes, unit in SYNCHRONISATION:
        ours = float(synchronisation_time(DRAFT_BYTES, rate)) / 60.0
        low, high = (rate * 60.0 * (minutes + side * unit / 2.0) / 8.0 / 1e6 for side in (-1, 1))
        ends[name] = [ceil(low), floor(high)]  # whole megabytes within
        sizes = f"{ceil(low) / 1e3:.3f} to {floor(high) / 1e3:.3f} GB"
        rows.append((name, f"{rate / 1e6:g} Mbit/s", f"≈{minutes:g} min", f"{ours:.1f} min", sizes))
    heads = ("network", "rate", "printed", f"{DRAFT_BYTES / 1e9:g} GB take", "sizes that take the printed")
    return {
        "statistics": {
            "all_gb": [pick(end) / 1e3 for pick, end in zip((max, min), zip(*ends.values(), strict=True), strict=True)]
        },
        "tables": [table("Time to send one draft model to one user", heads, tuple(rows))],
        "basis": "the time is 8 × size / rate",
    }


STORED = Path(__file__).with_name("versions.json")
"""Written by ``figures/studies/aligned_draft/summary.py``."""

COUNTERPARTS = (("math", "base", "general"), ("math", "lora16", "domain"), ("code", "full", "domain"))
"""Our domain, method and set of texts beside each row of the paper."""
TEXTS = {"math": "GSM8K", "code": "HumanEval and PEP code", "general": "novels and PEPs"}
METHODS = {"base": "version 0", "lora16": "LoRA, rank 16", "full": "full"}


def version(domain: str, method: str) -> dict[str, Any]:
    key = (domain, method, False)
    return dict(next(one for one in read(STORED)["versions"] if (one["of"], one["method"], one["hot"]) == key))


def ranged(found: dict[str, Any] | None) -> str:
    return str(re.sub(r"\b0\.", ".", cell(found, ".2f", WORDS)))


def _accepted(draft: str, which: str = "accept") -> Any:
    return lambda one: ranged(one["drafts"].get(draft, {}).get(which))


BESIDE = {
    "target in the paper, domain": "{target}",
    "printed": "{printed}",
    "ours": "{ours}",
    "plain draft": _accepted("plain"),
    "plain, target version 0": _accepted("plain", "accept_version_0"),
    "aligned draft": _accepted("aligned"),
    "trained anew": _accepted("anew"),
    "prompt lookup": _accepted("prompt lookup"),
    "TV from version 0": lambda one: ranged(one["tv"]),
}


def simulate_versions(seed: int) -> Numbers:
    """Return Table II: the acceptance of a fixed draft while its target is tuned; nothing is random."""
    rows = [
        version(ours, method)[texts]
        | {
            "target": f"{name}, {domain}",
            "printed": f"{rate:.2f}".replace("0.", ".", 1),
            "ours": f"{METHODS[method]}, {TEXTS['general' if texts == 'general' else ours]}",
        }
        for (name, domain, rate), (ours, method, texts) in zip(ACCEPTANCE, COUNTERPARTS, strict=True)
    ]
    general = version("math", "base")["general"]["drafts"]["plain"]["accept"]["value"]
    tuned = version("code", "full")["domain"]["drafts"]["plain"]
    before, after = (tuned[key]["value"] for key in ("accept_version_0", "accept"))
    return {
        "statistics": {"of_the_texts": plain(general - before, 3), "of_the_version": plain(before - after, 3)},
        "tables": [table_of("Acceptance on held-out texts of the domain, 1 − TV, printed and ours", BESIDE, rows)],
        "basis": (
            "the built-in pair, V = 4,096; the target model is tuned further for 24 steps of 1,024 tokens, with three "
            "seeds; brackets are 95% intervals by a bootstrap over seeds and texts"
        ),
        **from_experiment("aligned_draft"),
    }
