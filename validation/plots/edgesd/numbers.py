"""The numbers of edge-sd (zhu2025edgesd) Figs. 6 to 9: what drafting, batching and bandwidth shares save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlmtheory.batching import plan
from hlmtheory.serving import Task
from validation.plots.edgesd.beside import (
    PAIR_NAMES,
    beside,
    interval,
    percent,
    printed_table,
    settings_table,
    spread,
)
from validation.plots.record import Numbers, Table
from validation.scenarios.cell import SCHEMES, Load, Radio, draw_users, serve, uploads
from validation.scenarios.cellsearch import BATCHING_GOALS

Row = np.ndarray[Any, Any]

RUNS = 100
PLANNER_RUNS = 5
"""Runs of the slow planners."""

USERS = (10, 30, 60, 90, 100)
INPUTS = (256, 512, 1024, 1792)
OUTPUTS = (512, 1024, 1792, 2048)
ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
BANDWIDTHS_MHZ = (10, 15, 20, 25, 30, 35, 40)
SHARED_BY = (50, 100)
LABELS = 30

NAMES = {
    "proposed": "Algorithm 1",
    "johnson": "ours: Johnson's order",
    "known": "ours: answers known",
    "sequential": "no pipeline",
    "none": "no batching",
    "fixed-length": "7 drafts",
    "autoregressive": "no drafts",
    "static": "static, 4 tasks",
    "max": "max batching",
    "heuristic": "heuristic batching",
}
_LATENCY = {"label": "total latency T", "unit": "s", "scale": "linear"}


def axis(label: str, unit: str = "", scale: str = "linear") -> dict[str, str]:
    """One axis of a panel."""
    return {"label": label, "unit": unit, "scale": scale}


def _series(name: str, x: Sequence[float], rows: Sequence[Row], **more: Any) -> dict[str, Any]:
    """Mean and interval over the runs at each x; rows (runs,) in seconds."""
    mean, low, high = zip(*(interval(row) for row in rows), strict=True)
    return {"name": name, "x": list(x), "mean": list(mean), "low": list(low), "high": list(high), **more}


def _basis(runs: int, extra: str = "") -> str:
    return f"{runs} seeds, constants of Tables I and II{extra}; bands are 95% intervals of the mean"


# --------------------------------------------------------------------------------------------- total latencies


def _totals(seed: int, runs: int, load: Load, schemes: tuple[str, ...], radio: Radio | None = None) -> dict[str, Row]:
    """T of each scheme, with the best bandwidth shares, shape (runs,)."""
    upload = np.asarray([uploads(seed, run, load, radio or Radio())[0] for run in range(runs)])
    served = [serve(seed, run, load, schemes) for run in range(runs)]
    return {scheme: upload + [one[scheme].seconds for one in served] for scheme in schemes}


def _gaps(seed: int, runs: int, load: Load, schemes: tuple[str, ...], scheme: str = "proposed") -> Row:
    """By how much a plan of T_inf can at most be improved, in percent: Algorithm 1, repaired, or another of its bound.

    Of the planned problem, in which every answer has O_max tokens; the bound holds for every partition and order.
    """
    gaps = []
    for run in range(runs):
        served = serve(seed, run, load, schemes)
        bound = served["proposed"].planned / (1.0 + (served["proposed"].gap or 0.0))
        gaps.append(100.0 * (served[scheme].planned / bound - 1.0))
    return np.maximum(gaps, 0.0)  # a plan at its bound may round below


def _lengths(seed: int, runs: int, load: Load, schemes: tuple[str, ...]) -> list[int]:
    """Draft lengths that occur."""
    return sorted({serve(seed, run, load, schemes)["proposed"].draft_length for run in range(runs)})


IN_FIG_7 = ("proposed", "johnson", "known", "sequential", "none", "fixed-length", "autoregressive")
IN_FIG_9 = ("proposed", "johnson")
SHARES = {"equal": "equal shares", "best": "best shares", "ours": "best shares, Johnson's order"}
IN_FIG_8 = ("proposed", "johnson", "known", "static", "max", "heuristic")
WITH_GAP = ("proposed", "johnson")
"""Plans whose gap to the lower bound is drawn."""

_SWEEPS: dict[str, tuple[dict[str, str], str, tuple[int, ...]]] = {
    "a": (axis("tasks K"), "users", USERS),
    "b": (axis("longest prompt I_max", "tokens"), "longest_input", INPUTS),
    "c": (axis("longest answer O_max", "tokens"), "longest_output", OUTPUTS),
}


def simulate_sweep(
    part: str,
    shown: tuple[str, ...],
    seed: int,
    *,
    runs: int = RUNS,
    base: Load | None = None,
    values: tuple[int, ...] | None = None,
) -> Numbers:
    """Figs. 7 and 8: total latency of the schemes shown over the tasks (a), the prompts (b) or the answers (c).

    Parameters
    ----------
    part : str
        "a", "b" or "c".
    shown : tuple of str
        :data:`IN_FIG_7` or :data:`IN_FIG_8`.
    seed : int
    runs : int
        How many draws of the users.
    base : Load, optional
        Table II by default.
    values : tuple of int, optional
        Of what varies; those of the figure by default.

    Returns
    -------
    dict
    """
    load, (across, field, usual) = base or Load(), _SWEEPS[part]
    loads = [replace(load, **{field: value}) for value in (values or usual)]
    totals = [_totals(seed, runs, one, SCHEMES) for one in loads]  # all schemes, so that Figs. 7 and 8 share the runs
    x = [getattr(one, field) for one in loads]
    gaps = {name: [_gaps(seed, runs, one, SCHEMES, name) for one in loads] for name in WITH_GAP}
    tables = [_savings_table(x, totals, shown), _gaps_table(x, gaps)]
    statistics: dict[str, Any] = {
        "certified_gap_percent": [interval(gap)[0] for gap in gaps["proposed"]],
        "certified_gap_of_ours_percent": [interval(gap)[0] for gap in gaps["johnson"]],
        "draft_lengths": sorted({length for one in loads for length in _lengths(seed, runs, one, SCHEMES)}),
        "ours_saves_percent": spread(_saved(totals[-1], "proposed", "known")),
    }
    index = next((i for i, one in enumerate(BATCHING_GOALS) if one.changed[0] == field and one.rival in shown), None)
    if index is not None:
        goal = BATCHING_GOALS[index]
        here = totals[x.index(goal.changed[1]) if goal.changed[1] in x else -1]
        statistics |= _ranked(here, shown) | beside("batching", index, _saved(here, goal.rival), seed)
        where = {"users": "K", "longest_input": "I_max", "longest_output": "O_max"}[field]
        tables.insert(
            0, printed_table(statistics, f"Algorithm 1 against {NAMES[goal.rival]}, {where} = {goal.changed[1]}")
        )
        tables.append(settings_table(statistics, "batching"))
    if part == "a" and shown == IN_FIG_8:
        tables.append(_planners(seed, min(runs, PLANNER_RUNS), load))
    return {
        "axes": [{"x": across, "y": _LATENCY}, {"x": across, "y": axis("certified gap of the plan", "%")}],
        "series": [
            *(_series(NAMES[name], x, [one[name] for one in totals], scheme=name, panel=0) for name in shown),
            *(_series(NAMES[name], x, gaps[name], scheme=name, panel=1) for name in WITH_GAP),
        ],
        "statistics": statistics,
        "tables": tables,
        "basis": _basis(runs, ", models of 1.1B and 7B, α = 0.8"),
    }


def _saved(totals: dict[str, Row], rival: str, ours: str = "proposed") -> Row:
    """In percent of the rival's total latency, shape (runs,)."""
    return np.asarray(100.0 * (1.0 - totals[ours] / totals[rival]))


def _ranked(here: dict[str, Row], shown: tuple[str, ...]) -> dict[str, Any]:
    """Which of the rivals shown is the fastest."""
    rivals = [name for name in shown if name not in ("proposed", "johnson", "known")]
    best = min(rivals, key=lambda name: float(here[name].mean()))
    return {
        "best_rival": NAMES[best],
        "best_rival_is_slower": bool(here[best].mean() > here["proposed"].mean()),
    }


def _gaps_table(x: Sequence[int], gaps: dict[str, list[Row]]) -> dict[str, Any]:
    """What a plan can at most be improved by."""
    rows = tuple((NAMES[name], *(percent(spread(gap)) for gap in found)) for name, found in gaps.items())
    return Table("Certified gap of the planned T_inf, every answer of O_max tokens", ("at", *map(str, x)), rows).plain()


def _savings_table(x: Sequence[int], totals: list[dict[str, Row]], shown: tuple[str, ...]) -> dict[str, Any]:
    """What Algorithm 1, and ours, save against each rival."""
    rows = []
    for name in shown[1:]:
        pair = (name, "proposed") if name not in ("johnson", "known") else ("proposed", name)
        label = f"Algorithm 1 against {NAMES[name]}" if pair[1] == "proposed" else f"{NAMES[name]}, against Algorithm 1"
        rows.append((label, *(percent(spread(_saved(one, *pair))) for one in totals)))
    return Table("Savings of the total latency", ("at", *map(str, x)), tuple(rows)).plain()


def _planners(seed: int, runs: int, load: Load) -> dict[str, Any]:
    """Planners on the planned problem: every answer has O_max tokens."""
    names = {
        "dp-printed": "Algorithm 1 word for word: not a partition",
        "dp-printed-objective": "Algorithm 1 with (29) as printed, else repaired",
        "dp": "Algorithm 1, repaired",
        "pareto": f"Pareto sets of at most {LABELS} states",
        "pareto+johnson": "the same, Johnson's order at each step",
    }
    rows = []
    for method, name in names.items():
        found = []
        for run in range(runs):
            tasks = [Task(int(prompt), load.longest_output) for prompt in draw_users(seed, run, load).inputs]
            found.append(plan(tasks, load.service, method, max_labels=LABELS))
        latency, gap = (np.asarray([getattr(one, key) for one in found]) for key in ("latency", "gap"))
        rows.append((name, f"{latency.mean():.1f} s", f"{100 * gap.mean():.1f}%"))
    title = f"Planners at K = {load.users}, T_inf if every answer has O_max tokens; means of {runs} seeds"
    return Table(title, ("planner", "T_inf", "certified gap"), tuple(rows)).plain()


# ----------------------------------------------------------------------------------------------- Figs. 6 and 9


def simulate_acceptance(
    seed: int, *, runs: int = RUNS, base: Load | None = None, values: tuple[float, ...] = ACCEPTANCES
) -> Numbers:
    """Fig. 6: total latency over the acceptance rate, of three pairs of models and of no drafts at all."""
    series, faster, saved, gaps = [], 0, [], []
    for pair, name in enumerate(PAIR_NAMES):
        load = replace(base or Load(), pair=pair)
        loads = [replace(load, acceptance=acceptance) for acceptance in values]
        rows = [_totals(seed, runs, one, IN_FIG_9) for one in loads]
        without = _totals(seed, runs, load, ("autoregressive",))["autoregressive"]  # whatever the acceptance is
        drafted = [row["proposed"] for row in rows]
        johnson = [row["johnson"] for row in rows]
        series += [
            _series(f"{name}: Algorithm 1", values, drafted, scheme="proposed", pair=pair),
            _series(f"{name}: ours, Johnson's order", values, johnson, scheme="johnson", pair=pair),
            _series(f"{name}: no drafts", values, [without] * len(values), scheme="autoregressive", pair=pair),
        ]
        faster += sum(bool(row.mean() < without.mean()) for row in drafted)
        gaps += [interval(_gaps(seed, runs, one, IN_FIG_9))[0] for one in loads]
        saved.append((name, *(percent(spread(100.0 * (1.0 - row / without))) for row in drafted)))
    statistics = {
        "settings": len(values) * len(PAIR_NAMES),
        "settings_with_drafts_faster": faster,
        "largest_certified_gap_percent": max(gaps),
    }
    return {
        "axes": [{"x": axis("acceptance rate α"), "y": _LATENCY}],
        "series": series,
        "statistics": statistics,
        "tables": [Table("Saving of Algorithm 1 against no drafts", ("α", *map(str, values)), tuple(saved)).plain()],
        "basis": _basis(runs),
    }


def simulate_bandwidth(
    pair: int,
    seed: int,
    *,
    runs: int = RUNS,
    base: Load | None = None,
    shared_by: tuple[int, ...] = SHARED_BY,
) -> Numbers:
    """Fig. 9: total latency over the bandwidth, with the best and with equal shares.

    Parameters
    ----------
    pair : int
        Index of the models: 0, 1, 2 for Figs. 9a, 9b, 9c.
    seed : int
    runs : int
        How many draws of the users.
    base : Load, optional
        Table II by default.
    shared_by : tuple of int
        Numbers of tasks K; the printed percentage is compared at the last.

    Returns
    -------
    dict
    """
    loads = [replace(base or Load(), pair=pair, users=count) for count in shared_by]
    rows = [_over_bandwidths(seed, runs, load) for load in loads]
    series = [
        _series(f"K = {load.users}: {SHARES[key]}", BANDWIDTHS_MHZ, row[key], scheme=key, users=load.users)
        for load, row in zip(loads, rows, strict=True)
        for key in SHARES
    ]
    savings = [100.0 * (1.0 - best / equal) for best, equal in zip(rows[-1]["best"], rows[-1]["equal"], strict=True)]
    upload = np.asarray([uploads(seed, run, loads[-1], Radio(bandwidth_hz=25e6)) for run in range(runs)])
    statistics = beside("bandwidth", pair, savings[BANDWIDTHS_MHZ.index(25)], seed) | {
        "upload_alone_percent": spread(100.0 * (1.0 - upload[:, 0] / upload[:, 1])),
        "certified_gap_percent": interval(_gaps(seed, runs, loads[-1], IN_FIG_9))[0],
    }
    by_band = ("best against equal shares", *(percent(spread(one)) for one in savings))
    return {
        "axes": [{"x": axis("bandwidth", "MHz"), "y": _LATENCY}],
        "series": series,
        "statistics": statistics,
        "tables": [
            printed_table(statistics, f"best against equal shares, K = {shared_by[-1]}, 25 MHz"),
            Table("Savings of the total latency", ("at MHz", *map(str, BANDWIDTHS_MHZ)), (by_band,)).plain(),
            settings_table(statistics, "bandwidth"),
        ],
        "basis": _basis(runs, f", models of {PAIR_NAMES[pair].replace(', ', ' and ')}, α = 0.8"),
    }


def _over_bandwidths(seed: int, runs: int, load: Load) -> dict[str, list[Row]]:
    """T at each bandwidth, by :data:`SHARES`."""
    served = [serve(seed, run, load, IN_FIG_9) for run in range(runs)]
    proposed, johnson = (np.asarray([one[name].seconds for one in served]) for name in IN_FIG_9)
    rows: dict[str, list[Row]] = {key: [] for key in SHARES}
    for band in BANDWIDTHS_MHZ:
        best, equal = np.asarray([uploads(seed, run, load, Radio(bandwidth_hz=band * 1e6)) for run in range(runs)]).T
        rows["equal"].append(equal + proposed)
        rows["best"].append(best + proposed)
        rows["ours"].append(best + johnson)
    return rows
