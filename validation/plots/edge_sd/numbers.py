"""Compute the numbers of edge-sd (zhu2025edgesd) Figs. 6 to 9: savings by drafting, batching and bandwidth shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlmtheory.batching import plan
from hlmtheory.serving import Task
from validation.claims.scenarios.cell import SCHEMES, Load, Radio, draw_users, serve, uploads
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.style import axis
from validation.plots.edge_sd.beside import beside, interval, percent, printed_table, settings_table, spread
from validation.plots.edge_sd.printed import BANDWIDTH_SAVINGS, BATCHING_SAVINGS, PAIR_NAMES

Row = np.ndarray[Any, Any]

RUNS = 10
PLANNER_RUNS = 3
"""Number of runs of the slow planners."""

USERS = (10, 30, 60, 90, 100)
INPUTS = (256, 512, 1024, 1792)
OUTPUTS = (512, 1024, 1792, 2048)
ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
BANDWIDTHS_MHZ = (10, 15, 20, 25, 30, 35, 40)
SHARED_BY = (50, 100)
LABELS = 30

NAMES = {
    "paper": "Algorithm 1, (24b)",
    "proposed": "Algorithm 1, waves",
    "free": "ours: free, waves",
    "johnson": "Johnson's order",
    "known": "Johnson's order, answers known",
    "sequential": "no pipeline",
    "none": "no batching",
    "fixed-length": "7 drafts",
    "autoregressive": "no drafts",
    "static": "static, 4 tasks",
    "max": "max batching",
    "heuristic": "heuristic batching",
}
_LATENCY = {"label": "total latency T", "unit": "s", "scale": "linear"}


def _series(name: str, x: Sequence[float], rows: Sequence[Row], **more: Any) -> dict[str, Any]:
    """Return mean and interval over the runs at each x; rows (runs,) in seconds."""
    mean, low, high = zip(*(interval(row) for row in rows), strict=True)
    return {"name": name, "x": list(x), "mean": list(mean), "low": list(low), "high": list(high), **more}


def _basis(runs: int, extra: str = "") -> str:
    return f"{runs} seeds, constants of Tables I and II{extra}; bands are 95% intervals of the mean"


# --------------------------------------------------------------------------------------------- total latencies


def _totals(
    seed: int, runs: int, load: Load, schemes: tuple[str, ...], rule: str, radio: Radio | None = None
) -> dict[str, Row]:
    """Return T of each scheme under a memory rule, with the best bandwidth shares, shape (runs,)."""
    upload = np.asarray([uploads(seed, run, load, radio or Radio())[0] for run in range(runs)])
    served = [serve(seed, run, load, schemes, None, rule) for run in range(runs)]
    return {scheme: upload + [one[scheme].seconds for one in served] for scheme in schemes}


def _served(seed: int, runs: int, load: Load, schemes: tuple[str, ...], rule: str, field: str, scheme: str) -> Row:
    """Return a field of :class:`validation.claims.scenarios.cell.Served` for one scheme, shape (runs,)."""
    return np.asarray([getattr(serve(seed, run, load, schemes, None, rule)[scheme], field) for run in range(runs)])


EACH, TOGETHER = "each", "together"
"""Memory rules: the paper's (24b), a limit for each batch, and one for all simultaneous batches, in waves."""

BASELINES_7 = ("sequential", "none", "fixed-length", "autoregressive")
BASELINES_8 = ("static", "max", "heuristic")
IN_FIG_7 = ("paper", "proposed", "free", *BASELINES_7)
IN_FIG_8 = ("paper", "proposed", "free", *BASELINES_8)
"""Drawn schemes: "paper" is Algorithm 1 under (24b); all others count the caches of all batches, in waves."""

UNDER_EACH = tuple(scheme for scheme in SCHEMES if scheme != "free")
"""Schemes that the paper compares, and Johnson's order, under the paper's memory rule and with its barrier."""

IN_FIG_9 = ("proposed",)
SHARES = {
    "equal": "equal shares, (24b)",
    "best": "best shares, (24b)",
    "waves": "best shares, waves",
    "free": "best shares, free, waves",
}
WITH_GAP = ("proposed", "free")
"""Plans with a drawn gap to the lower bound."""

_SWEEPS: dict[str, tuple[dict[str, str], str, tuple[int, ...]]] = {
    "a": (axis("tasks K"), "users", USERS),
    "b": (axis("longest prompt", "tokens"), "longest_input", INPUTS),
    "c": (axis("longest answer", "tokens"), "longest_output", OUTPUTS),
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
    """Compute Figs. 7 and 8: total latency of the schemes over the tasks (a), the prompts (b) or the answers (c).

    Parameters
    ----------
    part : str
        "a", "b" or "c".
    shown : tuple of str
        :data:`IN_FIG_7` or :data:`IN_FIG_8`.
    seed : int
    runs : int
        Number of draws of the users.
    base : Load, optional
        Table II by default.
    values : tuple of int, optional
        Values of the varied field; those of the figure by default.

    Returns
    -------
    dict
    """
    load, (across, field, usual) = base or Load(), _SWEEPS[part]
    loads = [replace(load, **{field: value}) for value in (values or usual)]
    printed = [_totals(seed, runs, one, UNDER_EACH, EACH) for one in loads]  # Figs. 7 and 8 share the runs
    totals = [_totals(seed, runs, one, SCHEMES, TOGETHER) for one in loads]
    x = [getattr(one, field) for one in loads]
    gaps = {
        name: [100.0 * _served(seed, runs, one, SCHEMES, TOGETHER, "gap", name) for one in loads] for name in WITH_GAP
    }
    memory = _memory(seed, runs, loads)
    tables = [
        _savings_table("with the memory shared, in waves", x, totals, shown, ("proposed", "free")),
        _savings_table("under (24b), the paper's memory rule", x, printed, shown, ("proposed",)),
        _gaps_table(x, gaps),
        _memory_table(x, memory, load),
    ]
    statistics: dict[str, Any] = {
        "certified_gap_percent": [interval(gap)[0] for gap in gaps["proposed"]],
        "certified_gap_of_ours_percent": [interval(gap)[0] for gap in gaps["free"]],
        "draft_lengths": sorted(
            {int(k) for one in loads for k in _served(seed, runs, one, UNDER_EACH, EACH, "draft_length", "proposed")}
        ),
        "ours_saves_percent": spread(_saved(totals[-1], "proposed", "free")),
        "memory_gb": {name: [interval(row)[0] for row in rows] for name, rows in memory.items()},
        "memory_limit_gb": load.memory / 1e9,
    }
    marks: list[dict[str, Any]] = []
    goal = next((one for one in BATCHING_SAVINGS if one.changed[0] == field and one.baseline in shown), None)
    if goal is not None:
        place = x.index(goal.changed[1]) if goal.changed[1] in x else len(x) - 1
        here = printed[place]
        statistics |= _ranked(here, shown) | beside("batching", goal, _saved(here, goal.baseline))
        name = f"printed: {goal.percent}% below {NAMES[goal.baseline]}, (24b)"
        height = plain(here[goal.baseline].mean() * (1 - goal.percent / 100), 5)
        marks = [{"name": name, "x": [x[place]], "mean": [height], "scheme": "printed", "panel": 0}]
        where = {"users": "K", "longest_input": "I_max", "longest_output": "O_max"}[field]
        title = f"Algorithm 1 against {NAMES[goal.baseline]}, {where} = {goal.changed[1]}, (24b)"
        tables = [printed_table(statistics, title), *tables, settings_table(statistics, "batching")]
    if part == "a" and shown == IN_FIG_8:
        tables.append(_planners(seed, min(runs, PLANNER_RUNS), load))
    drawn = {"paper": [one["proposed"] for one in printed]}
    drawn |= {name: [one[name] for one in totals] for name in shown if name != "paper"}
    right = gaps if shown == IN_FIG_7 else memory
    label = axis("certified gap of the plan", "%") if shown == IN_FIG_7 else axis("draft machine's memory", "GB")
    return {
        "axes": [{"x": across, "y": _LATENCY}, {"x": across, "y": label}],
        "series": [
            *(_series(NAMES[name], x, drawn[name], scheme=name, panel=0) for name in shown),
            *(_series(NAMES[name], x, right[name], scheme=name, panel=1) for name in right),
            *marks,
        ],
        "statistics": statistics,
        "tables": tables,
        "basis": _basis(runs, ", models of 1.1B and 7B, α = 0.8"),
    }


def _memory(seed: int, runs: int, loads: Sequence[Load]) -> dict[str, list[Row]]:
    """Return the memory of weights and simultaneous caches (GB), for the plan under (24b) and the plans in waves."""
    rows = {"paper": [_served(seed, runs, one, UNDER_EACH, EACH, "bytes", "proposed") / 1e9 for one in loads]}
    for name in WITH_GAP:
        rows[name] = [_served(seed, runs, one, SCHEMES, TOGETHER, "bytes", name) / 1e9 for one in loads]
    return rows


def _memory_table(x: Sequence[int], memory: dict[str, list[Row]], load: Load) -> dict[str, Any]:
    """Return the table of means of :func:`_memory`."""
    rows = tuple((NAMES[name], *(f"{row.mean():.1f}" for row in found)) for name, found in memory.items())
    title = f"Memory that all caches need at once, GB, answers of O_max tokens; there are {load.memory / 1e9:.0f} GB"
    return Table(title, ("at", *map(str, x)), rows).plain()


def _saved(totals: dict[str, Row], baseline: str, ours: str = "proposed") -> Row:
    """Return the saving in percent of the baseline's total latency, shape (runs,)."""
    return np.asarray(100.0 * (1.0 - totals[ours] / totals[baseline]))


def _ranked(here: dict[str, Row], shown: tuple[str, ...]) -> dict[str, Any]:
    """Return the fastest of the drawn baselines under (24b), and whether it is slower than ours."""
    baselines = [name for name in shown if name in (*BASELINES_7, *BASELINES_8)]
    best = min(baselines, key=lambda name: float(here[name].mean()))
    return {
        "best_rival": NAMES[best],
        "best_rival_is_slower": bool(here[best].mean() > here["proposed"].mean()),
    }


def _gaps_table(x: Sequence[int], gaps: dict[str, list[Row]]) -> dict[str, Any]:
    """Return the table of the largest possible improvement of each plan."""
    rows = tuple((NAMES[name], *(percent(spread(gap)) for gap in found)) for name, found in gaps.items())
    title = "Certified gap of the planned T_inf, every answer of O_max tokens"
    return Table(title, ("at", *map(str, x)), rows).plain()


def _savings_table(
    rule: str, x: Sequence[int], totals: list[dict[str, Row]], shown: tuple[str, ...], ours: tuple[str, ...]
) -> dict[str, Any]:
    """Return the table of savings of Algorithm 1 and of ours against each baseline."""
    rows = []
    for one in ours:
        name = "Algorithm 1" if one == "proposed" else "free"
        for baseline in shown:
            if baseline in (*BASELINES_7, *BASELINES_8) or (baseline, one) == ("proposed", "free"):
                label = f"{name} against {'Algorithm 1' if baseline == 'proposed' else NAMES[baseline]}"
                rows.append((label, *(percent(spread(_saved(row, baseline, one))) for row in totals)))
    for better in ("johnson", "known"):
        label = f"{NAMES[better]}, against Algorithm 1"
        rows.append((label, *(percent(spread(_saved(row, "proposed", better))) for row in totals)))
    return Table(f"Savings of the total latency {rule}", ("at", *map(str, x)), tuple(rows)).plain()


def _planners(seed: int, runs: int, load: Load) -> dict[str, Any]:
    """Compare planners on the planned problem: every answer has O_max tokens."""
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
            found.append(plan(tasks, load.service, method, memory_rule="each", max_labels=LABELS))
        latency, gap = (np.asarray([getattr(one, key) for one in found]) for key in ("latency", "gap"))
        rows.append((name, f"{latency.mean():.1f} s", f"{100 * gap.mean():.1f}%"))
    title = f"Planners at K = {load.users}, T_inf if every answer has O_max tokens; means of {runs} seeds"
    return Table(title, ("planner", "T_inf", "certified gap"), tuple(rows)).plain()


# ----------------------------------------------------------------------------------------------- Figs. 6 and 9


def simulate_acceptance(
    seed: int, *, runs: int = RUNS, base: Load | None = None, values: tuple[float, ...] = ACCEPTANCES
) -> Numbers:
    """Compute Fig. 6: total latency over the acceptance rate, for three pairs of models and without drafts."""
    series, faster, saved, gaps, memory = [], 0, [], [], []
    limit = (base or Load()).memory / 1e9
    for pair, name in enumerate(PAIR_NAMES):
        load = replace(base or Load(), pair=pair)
        loads = [replace(load, acceptance=acceptance) for acceptance in values]
        without = _totals(seed, runs, load, ("autoregressive",), EACH)["autoregressive"]  # for every acceptance rate
        drafted = [_totals(seed, runs, one, IN_FIG_9, EACH)["proposed"] for one in loads]
        held = [_totals(seed, runs, one, WITH_GAP, TOGETHER) for one in loads]
        waves, free = ([one[scheme] for one in held] for scheme in WITH_GAP)
        series += [
            _series(f"{name}: {NAMES['paper']}", values, drafted, scheme="paper", pair=pair),
            _series(f"{name}: {NAMES['proposed']}", values, waves, scheme="proposed", pair=pair),
            _series(f"{name}: {NAMES['free']}", values, free, scheme="free", pair=pair),
            _series(f"{name}: no drafts", values, [without] * len(values), scheme="autoregressive", pair=pair),
        ]
        faster += sum(bool(row.mean() < without.mean()) for row in drafted)
        gaps += [interval(100.0 * _served(seed, runs, one, WITH_GAP, TOGETHER, "gap", "free"))[0] for one in loads]
        needed = [_served(seed, runs, one, IN_FIG_9, EACH, "bytes", "proposed") / 1e9 for one in loads]
        memory.append([interval(row)[0] for row in needed])
        for scheme, rows in (("paper", drafted), ("proposed", waves), ("free", free)):
            label = f"{name}: {NAMES[scheme]}"
            saved.append((label, *(percent(spread(100.0 * (1.0 - row / without))) for row in rows)))
    statistics = {
        "settings": len(values) * len(PAIR_NAMES),
        "settings_with_drafts_faster": faster,
        "largest_certified_gap_percent": max(gaps),
        "memory_gb": memory,
        "memory_limit_gb": limit,
    }
    return {
        "axes": [{"x": axis("acceptance rate α"), "y": _LATENCY}],
        "series": series,
        "statistics": statistics,
        "tables": [Table("Savings against no drafts", ("α", *map(str, values)), tuple(saved)).plain()],
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
    """Compute Fig. 9: total latency over the bandwidth, with the best and with equal shares.

    Parameters
    ----------
    pair : int
        Index of the models: 0, 1, 2 for Figs. 9a, 9b, 9c.
    seed : int
    runs : int
        Number of draws of the users.
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
    marks = _printed_shares(pair, rows[-1])
    savings = [100.0 * (1.0 - best / equal) for best, equal in zip(rows[-1]["best"], rows[-1]["equal"], strict=True)]
    upload = np.asarray([uploads(seed, run, loads[-1], Radio(bandwidth_hz=25e6)) for run in range(runs)])
    statistics = beside("bandwidth", BANDWIDTH_SAVINGS[pair], savings[BANDWIDTHS_MHZ.index(25)]) | {
        "upload_alone_percent": spread(100.0 * (1.0 - upload[:, 0] / upload[:, 1])),
        "certified_gap_percent": interval(100.0 * _served(seed, runs, loads[-1], WITH_GAP, TOGETHER, "gap", "free"))[0],
    }
    by_band = ("best against equal shares", *(percent(spread(one)) for one in savings))
    return {
        "axes": [{"x": axis("bandwidth", "MHz"), "y": _LATENCY}],
        "series": [*series, *marks],
        "statistics": statistics,
        "tables": [
            printed_table(statistics, f"best against equal shares, K = {shared_by[-1]}, 25 MHz"),
            Table("Savings of the total latency", ("at MHz", *map(str, BANDWIDTHS_MHZ)), (by_band,)).plain(),
            settings_table(statistics, "bandwidth"),
        ],
        "basis": _basis(runs, f", models of {PAIR_NAMES[pair].replace(', ', ' and ')}, α = 0.8"),
    }


def _printed_shares(pair: int, rows: dict[str, list[Row]]) -> list[dict[str, Any]]:
    """Return the mark of the printed saving, at 25 MHz."""
    goal = BANDWIDTH_SAVINGS[pair]
    height = rows["equal"][BANDWIDTHS_MHZ.index(25)].mean() * (1 - goal.percent / 100)
    name = f"printed: {goal.percent}% below equal shares"
    return [{"name": name, "x": [25], "mean": [plain(height, 5)], "scheme": "printed"}]


def _over_bandwidths(seed: int, runs: int, load: Load) -> dict[str, list[Row]]:
    """Return T at each bandwidth, by :data:`SHARES`."""
    paper = _served(seed, runs, load, IN_FIG_9, EACH, "seconds", "proposed")
    waves, free = (_served(seed, runs, load, WITH_GAP, TOGETHER, "seconds", name) for name in WITH_GAP)
    rows: dict[str, list[Row]] = {key: [] for key in SHARES}
    for band in BANDWIDTHS_MHZ:
        best, equal = np.asarray([uploads(seed, run, load, Radio(bandwidth_hz=band * 1e6)) for run in range(runs)]).T
        for key, total in zip(SHARES, (equal + paper, best + paper, best + waves, best + free), strict=True):
            rows[key].append(total)
    return rows
