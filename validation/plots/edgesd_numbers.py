"""The numbers of edge-sd (zhu2025edgesd) Figs. 6 to 9: what drafting, batching and bandwidth shares save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlmtheory.batching import plan
from hlmtheory.serving import Task
from validation.plots.record import Numbers, Printed, Table, plain
from validation.scenarios.cell import SCHEMES, Load, Radio, draw_users, serve, uploads
from validation.scenarios.cellscan import COMPARISONS, Found, closest, scan_bandwidth, scan_batching

Row = np.ndarray[Any, Any]

RUNS = 100
BANDWIDTH_RUNS, BATCHING_RUNS, PLANNER_RUNS = 20, 5, 5
"""Runs of each setting in a search, and of the slow planners."""

USERS = (10, 30, 60, 90, 100)
INPUTS = (256, 512, 1024, 1792)
OUTPUTS = (512, 1024, 1792, 2048)
ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
BANDWIDTHS_MHZ = (10, 15, 20, 25, 30, 35, 40)
SHARED_BY = (50, 100)
LABELS = 30

PAIR_NAMES = ("68M, 7B", "1.1B, 7B", "1.1B, 13B")
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
HEADS = ("saving of the total latency", "printed", "ours, Table II", "closest setting searched", "there", "note")
_LATENCY = {"label": "total latency T", "unit": "s", "scale": "linear"}


def axis(label: str, unit: str = "", scale: str = "linear") -> dict[str, str]:
    """One axis of a panel."""
    return {"label": label, "unit": unit, "scale": scale}


def interval(values: Row) -> tuple[float, float, float]:
    """Mean of the last axis and its 95% interval by Student's t.

    >>> interval(np.array([1.0, 3.0]))
    (2.0, -10.706, 14.706)
    """
    from scipy.special import stdtrit

    count = values.shape[-1]
    mean = float(values.mean())
    half = float(stdtrit(count - 1, 0.975) * values.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0
    return plain(mean, 5), plain(mean - half, 5), plain(mean + half, 5)


def _series(name: str, x: Sequence[float], rows: Sequence[Row], **more: Any) -> dict[str, Any]:
    """Mean and interval over the runs at each x; rows (runs,) in seconds."""
    mean, low, high = zip(*(interval(row) for row in rows), strict=True)
    return {"name": name, "x": list(x), "mean": list(mean), "low": list(low), "high": list(high), **more}


def _spread(savings: Row) -> dict[str, Any]:
    """Mean, interval and range over the runs, in percent."""
    mean, low, high = interval(savings)
    ends = np.quantile(savings, [0.05, 0.95])
    return {
        "mean": mean,
        "low": low,
        "high": high,
        "of_single_runs": plain(ends, 4),
        "largest": plain(savings.max(), 4),
    }


def percent(found: dict[str, Any]) -> str:
    """Mean and interval of savings."""
    return f"{found['mean']:.1f}% [{found['low']:.1f}, {found['high']:.1f}]"


def _basis(runs: int, extra: str = "") -> str:
    return f"{runs} seeds, constants of Tables I and II{extra}; bands are 95% intervals of the mean"


BANDWIDTH_PRINTED = tuple(
    Printed(f"saving of the total latency against equal shares, {name}, K = 100, 25 MHz, in percent", value, place)
    for name, value, place in zip(
        PAIR_NAMES, (44.9, 29.3, 25.2), ("Section IV-C, abstract", *["Section IV-C"] * 2), strict=True
    )
)
BATCHING_PRINTED = (
    Printed("saving against SD without pipeline at I_max = 512, in percent", 31.6, "Section IV-A, Fig. 7(b)"),
    Printed("saving against SD without pipeline at O_max = 1792, in percent", 30.7, "Section IV-A, Fig. 7(c)"),
    Printed("saving against max batching at K = 90, in percent", 21.4, "Section IV-B, Fig. 8(a)"),
    Printed("saving against heuristic batching at I_max = 1792, in percent", 19.6, "Section IV-B, Fig. 8(b)"),
    Printed("saving against heuristic batching at O_max = 1024, in percent", 20.5, "Section IV-B, Fig. 8(c)"),
)


# --------------------------------------------------------------------------------------------- total latencies


def _totals(seed: int, runs: int, load: Load, schemes: tuple[str, ...], radio: Radio | None = None) -> dict[str, Row]:
    """T of each scheme, with the best bandwidth shares, shape (runs,)."""
    upload = np.asarray([uploads(seed, run, load, radio or Radio())[0] for run in range(runs)])
    served = [serve(seed, run, load, schemes) for run in range(runs)]
    return {scheme: upload + [one[scheme].seconds for one in served] for scheme in schemes}


def _gaps(seed: int, runs: int, load: Load, schemes: tuple[str, ...]) -> Row:
    """Certified gaps of Algorithm 1, repaired, on what it plans (every answer of O_max tokens), in percent."""
    return np.asarray([100.0 * (serve(seed, run, load, schemes)["proposed"].gap or 0.0) for run in range(runs)])


def _lengths(seed: int, runs: int, load: Load, schemes: tuple[str, ...]) -> list[int]:
    """Draft lengths that occur."""
    return sorted({serve(seed, run, load, schemes)["proposed"].draft_length for run in range(runs)})


IN_FIG_7 = ("proposed", "johnson", "known", "sequential", "none", "fixed-length", "autoregressive")
IN_FIG_9 = ("proposed", "johnson")
SHARES = {"equal": "equal shares", "best": "best shares", "ours": "best shares, Johnson's order"}
IN_FIG_8 = ("proposed", "johnson", "known", "static", "max", "heuristic")
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
    searched: int = BATCHING_RUNS,
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
    runs, searched : int
        How many draws of the users, and of each setting of the search.
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
    gaps = [_gaps(seed, runs, one, SCHEMES) for one in loads]
    tables = [_savings_table(x, totals, shown)]
    statistics: dict[str, Any] = {
        "certified_gap_percent": [interval(gap)[0] for gap in gaps],
        "draft_lengths": sorted({length for one in loads for length in _lengths(seed, runs, one, SCHEMES)}),
        "ours_saves_percent": _spread(_saved(totals[-1], "proposed", "known")),
    }
    index = next((i for i, one in enumerate(COMPARISONS) if _belongs(one, part, shown)), None)
    if index is not None:
        comparison = COMPARISONS[index]
        found = scan_batching(seed, searched, load)
        statistics |= _compare(index, x, totals, shown, found) | {"seeds_of_a_setting": searched}
        where = {"users": "K", "longest_input": "I_max", "longest_output": "O_max"}[field]
        against = f"Algorithm 1 against {NAMES[comparison.rival]}, {where} = {comparison.changed[1]}"
        tables.insert(0, _printed_table(statistics, against))
        tables.append(_settings_table(found, ("7b", "7c", "8a", "8b", "8c"), BATCHING_PRINTED, longest=len(found)))
    if part == "a" and shown == IN_FIG_8:
        tables.append(_planners(seed, min(runs, PLANNER_RUNS), load))
    return {
        "axes": [{"x": across, "y": _LATENCY}],
        "series": [_series(NAMES[name], x, [one[name] for one in totals], scheme=name) for name in shown],
        "statistics": statistics,
        "tables": tables,
        "basis": _basis(runs, ", models of 1.1B and 7B, α = 0.8"),
    }


def _belongs(comparison: Any, part: str, shown: tuple[str, ...]) -> bool:
    return comparison.changed[0] == _SWEEPS[part][1] and comparison.rival in shown


def _saved(totals: dict[str, Row], rival: str, ours: str = "proposed") -> Row:
    """In percent of the rival's total latency, shape (runs,)."""
    return np.asarray(100.0 * (1.0 - totals[ours] / totals[rival]))


def _compare(
    index: int, x: Sequence[int], totals: list[dict[str, Row]], shown: tuple[str, ...], found: tuple[Found, ...]
) -> dict[str, Any]:
    """A printed percentage of Figs. 7 and 8 beside ours, and which of the rivals shown is the fastest there."""
    comparison = COMPARISONS[index]
    place = comparison.changed[1]
    here = totals[x.index(place) if place in x else -1]
    rivals = [name for name in shown if name not in ("proposed", "johnson", "known")]
    ranked = sorted(rivals, key=lambda name: float(here[name].mean()))
    return {
        "best_rival": NAMES[ranked[0]],
        "best_rival_is_slower": bool(here[ranked[0]].mean() > here["proposed"].mean()),
        **_beside(BATCHING_PRINTED, index, _saved(here, comparison.rival), found),
    }


def _beside(printed: Sequence[Printed], index: int, ours: Row, found: tuple[Found, ...]) -> dict[str, Any]:
    """A printed percentage, ours, and the settings searched that come closest to it and to all of its kind."""
    values = tuple(one.value for one in printed)
    alone = closest([replace(one, savings=one.savings[index : index + 1]) for one in found], values[index : index + 1])
    together = closest(found, values)
    return {
        "printed_percent": values[index],
        "ours_percent": _spread(ours),
        "closest": {"setting": alone.words, "percent": plain(alone.savings[0], 4)},
        "closest_together": {
            "setting": together.words,
            "percent": plain(together.savings, 4),
            "printed": list(values),
            "largest_difference": plain(together.distance(values), 3),
        },
        "settings_searched": len(found),
        "settings_within_a_point_of_all": sum(one.distance(values) <= 1.0 for one in found),
    }


def _printed_table(statistics: dict[str, Any], what: str) -> dict[str, Any]:
    """The printed percentage beside ours."""
    ours, near, joint = (statistics[key] for key in ("ours_percent", "closest", "closest_together"))
    low, high = ours["of_single_runs"]
    note = (
        f"{low:.1f} to {high:.1f}% in nine of ten runs, at most {ours['largest']:.1f}%. Of "
        f"{statistics['settings_searched']} settings {statistics['settings_within_a_point_of_all'] or 'none'} within a "
        f"point of all of {listed(joint['printed'])}; closest, with {listed(joint['percent'])}: {joint['setting']}"
    )
    row = (what, f"{statistics['printed_percent']}%", percent(ours), near["setting"], f"{near['percent']:.1f}%", note)
    title = f"The printed percentage and ours; other settings on {statistics['seeds_of_a_setting']} seeds each"
    return Table(title, HEADS, (row,)).plain()


def _settings_table(
    found: tuple[Found, ...], names: Sequence[str], printed: Sequence[Printed], *, longest: int
) -> dict[str, Any]:
    """What settings give, those that differ in at most so many things from Table II."""
    rows = [("printed", *(f"{one.value}" for one in printed))]
    rows += [(one.words, *(f"{value:.1f}" for value in one.savings)) for one in found if len(one.setting) <= longest]
    return Table("Savings in percent at other settings", ("setting", *names), tuple(rows)).plain()


def listed(values: Sequence[float]) -> str:
    """Percentages in a row.

    >>> listed([44.9, 29.3])
    '44.9, 29.3'
    """
    return ", ".join(f"{value:.1f}" for value in values)


def _savings_table(x: Sequence[int], totals: list[dict[str, Row]], shown: tuple[str, ...]) -> dict[str, Any]:
    """What Algorithm 1, and ours, save against each rival."""
    rows = []
    for name in shown[1:]:
        pair = (name, "proposed") if name not in ("johnson", "known") else ("proposed", name)
        label = f"Algorithm 1 against {NAMES[name]}" if pair[1] == "proposed" else f"{NAMES[name]}, against Algorithm 1"
        rows.append((label, *(percent(_spread(_saved(one, *pair))) for one in totals)))
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
        saved.append((name, *(percent(_spread(100.0 * (1.0 - row / without))) for row in drafted)))
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
    searched: int = BANDWIDTH_RUNS,
    base: Load | None = None,
    shared_by: tuple[int, ...] = SHARED_BY,
) -> Numbers:
    """Fig. 9: total latency over the bandwidth, with the best and with equal shares.

    Parameters
    ----------
    pair : int
        Index of the models: 0, 1, 2 for Figs. 9a, 9b, 9c.
    seed : int
    runs, searched : int
        How many draws of the users, and of each setting of the search.
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
    found = scan_bandwidth(seed, searched, base or Load())
    statistics = _beside(BANDWIDTH_PRINTED, pair, savings[BANDWIDTHS_MHZ.index(25)], found) | {
        "seeds_of_a_setting": searched,
        "upload_alone_percent": _spread(100.0 * (1.0 - upload[:, 0] / upload[:, 1])),
        "certified_gap_percent": interval(_gaps(seed, runs, loads[-1], IN_FIG_9))[0],
    }
    by_band = ("best against equal shares", *(percent(_spread(one)) for one in savings))
    return {
        "axes": [{"x": axis("bandwidth", "MHz"), "y": _LATENCY}],
        "series": series,
        "statistics": statistics,
        "tables": [
            _printed_table(statistics, f"best against equal shares, K = {shared_by[-1]}, 25 MHz"),
            Table("Savings of the total latency", ("at MHz", *map(str, BANDWIDTHS_MHZ)), (by_band,)).plain(),
            _settings_table(found, PAIR_NAMES, BANDWIDTH_PRINTED, longest=1),
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
