"""Compute the numbers of edge-sd (zhu2025edgesd) Figs. 6 to 9: savings by drafting, batching and bandwidth shares."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.claims.scenarios.cell import SCHEMES, Load, Radio, serve, uploads
from validation.estimates import Estimate, clustered
from validation.plots.common.printed import SAVINGS
from validation.plots.common.printed import value as printed_value
from validation.plots.common.record import Numbers, cell, plain, table
from validation.plots.common.style import CURVES, axis

PAIR_NAMES = ("68M, 7B", "1.1B, 7B", "1.1B, 13B")
RUNS = 10
USERS = (10, 30, 60, 90, 100)
INPUTS = (256, 512, 1024, 1792)
OUTPUTS = (512, 1024, 1792, 2048)
ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
BANDWIDTHS_MHZ = (10, 15, 20, 25, 30, 35, 40)
SHARED_BY = (50, 100)
PRINTED_AT_MHZ = 25
NAMES, SHARES = CURVES["schemes"], CURVES["shares"]
_LATENCY = axis("total latency T", "s")


def interval(values: Array) -> tuple[float, float, float]:
    """Return the mean over the runs and its 95% interval by Student's t."""
    mean = clustered(values)
    return plain(mean.value, 5), plain(mean.ends[0], 5), plain(mean.ends[1], 5)


def spread(savings: Array) -> dict[str, float]:
    return dict(zip(("mean", "low", "high"), interval(savings), strict=True))


def _percent(savings: Array) -> str:
    return cell(Estimate(*interval(savings)), ".1f")


def _series(name: str, x: Sequence[float], rows: Sequence[Array], **more: Any) -> dict[str, Any]:
    mean, low, high = zip(*(interval(row) for row in rows), strict=True)
    return {"name": name, "x": list(x), "mean": list(mean), "low": list(low), "high": list(high), **more}


def _basis(runs: int, extra: str = "") -> str:
    return f"{runs} seeds, constants of Tables I and II{extra}; bands are 95% intervals of the mean"


def _totals(
    seed: int, runs: int, load: Load, schemes: tuple[str, ...], rule: str, radio: Radio | None = None
) -> dict[str, Array]:
    upload = np.asarray([uploads(seed, run, load, radio or Radio())[0] for run in range(runs)])
    served = [serve(seed, run, load, schemes, rule) for run in range(runs)]
    return {scheme: upload + [one[scheme].seconds for one in served] for scheme in schemes}


def _served(seed: int, runs: int, load: Load, schemes: tuple[str, ...], rule: str, field: str, scheme: str) -> Array:
    """Return a field of :class:`validation.claims.scenarios.cell.Served` for one scheme, shape (runs,)."""
    return np.asarray([getattr(serve(seed, run, load, schemes, rule)[scheme], field) for run in range(runs)])


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
IN_WAVES = ("proposed", "free")
"""Plans that count the caches of all batches."""

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
    """Compute Figs. 7 and 8: total latency of the schemes over the tasks (a), the prompts (b) or the answers (c)."""
    load, (across, field, usual) = base or Load(), _SWEEPS[part]
    loads = [replace(load, **{field: value}) for value in (values or usual)]
    printed = [_totals(seed, runs, one, UNDER_EACH, EACH) for one in loads]  # Figs. 7 and 8 share the runs
    totals = [_totals(seed, runs, one, SCHEMES, TOGETHER) for one in loads]
    x = [getattr(one, field) for one in loads]
    memory = [_served(seed, runs, one, UNDER_EACH, EACH, "bytes", "proposed") / 1e9 for one in loads]
    statistics: dict[str, Any] = {
        "ours_saves_percent": spread(_saved(totals[-1], "proposed", "free")),
        "memory_gb": [interval(row)[0] for row in memory],
        "memory_limit_gb": load.memory / 1e9,
    }
    marks: list[dict[str, Any]] = []
    for figure, (baseline, changed, at) in SAVINGS.items():
        if changed == field and baseline in shown:
            saving = printed_value("edge-sd", f"saving_{figure}")
            here = printed[x.index(at) if at in x else -1]
            statistics |= {"printed_percent": saving, "ours_percent": spread(_saved(here, baseline))}
            mark = plain(here[baseline].mean() * (1 - saving / 100), 5)
            name = f"printed: {saving}% below {NAMES[baseline]}, (24b)"
            marks = [
                _series(f"{NAMES[baseline]}, (24b)", x, [one[baseline] for one in printed], scheme="compared"),
                {"name": name, "x": [at if at in x else x[-1]], "mean": [mark], "scheme": "printed"},
            ]
    drawn = {"paper": [one["proposed"] for one in printed]}
    drawn |= {name: [one[name] for one in totals] for name in shown if name != "paper"}
    return {
        "axes": [{"x": across, "y": _LATENCY}],
        "series": [*(_series(NAMES[name], x, drawn[name], scheme=name) for name in shown), *marks],
        "statistics": statistics,
        "tables": [_savings_table(x, totals, shown)],
        "basis": _basis(runs, ", models of 1.1B and 7B, α = 0.8"),
    }


def _saved(totals: dict[str, Array], baseline: str, ours: str = "proposed") -> Array:
    return np.asarray(100.0 * (1.0 - totals[ours] / totals[baseline]))


def _savings_table(x: Sequence[int], totals: list[dict[str, Array]], shown: tuple[str, ...]) -> dict[str, Any]:
    rows = []
    for one, name in (("proposed", "Algorithm 1"), ("free", "ours")):
        for baseline in shown:
            if baseline in (*BASELINES_7, *BASELINES_8) or (baseline, one) == ("proposed", "free"):
                label = f"{name} against {'Algorithm 1' if baseline == 'proposed' else NAMES[baseline]}"
                rows.append((label, *(_percent(_saved(row, baseline, one)) for row in totals)))
    title = "Savings of the total latency in percent, the memory shared, in waves"
    return table(title, ("at", *map(str, x)), tuple(rows))


def simulate_acceptance(
    seed: int, *, runs: int = RUNS, base: Load | None = None, values: tuple[float, ...] = ACCEPTANCES
) -> Numbers:
    """Compute Fig. 6: total latency over the acceptance rate, for three pairs of models and without drafts."""
    series, faster, saved, memory = [], 0, [], []
    for pair, name in enumerate(PAIR_NAMES):
        load = replace(base or Load(), pair=pair)
        loads = [replace(load, acceptance=acceptance) for acceptance in values]
        without = _totals(seed, runs, load, ("autoregressive",), EACH)["autoregressive"]  # for every acceptance rate
        drafted = [_totals(seed, runs, one, IN_FIG_9, EACH)["proposed"] for one in loads]
        held = [_totals(seed, runs, one, IN_WAVES, TOGETHER) for one in loads]
        waves, free = ([one[scheme] for one in held] for scheme in IN_WAVES)
        series += [
            _series(f"{name}: {NAMES['paper']}", values, drafted, scheme="paper", pair=pair),
            _series(f"{name}: {NAMES['proposed']}", values, waves, scheme="proposed", pair=pair),
            _series(f"{name}: {NAMES['free']}", values, free, scheme="free", pair=pair),
            _series(f"{name}: no drafts", values, [without] * len(values), scheme="autoregressive", pair=pair),
        ]
        plans = zip(drafted, waves, free, strict=True)
        faster += sum(max(float(row.mean()) for row in rows) < float(without.mean()) for rows in plans)
        needed = [_served(seed, runs, one, IN_FIG_9, EACH, "bytes", "proposed") / 1e9 for one in loads]
        memory.append([interval(row)[0] for row in needed])
        for scheme, rows in (("paper", drafted), ("proposed", waves), ("free", free)):
            label = f"{name}: {NAMES[scheme]}"
            saved.append((label, *(_percent(100.0 * (1.0 - row / without)) for row in rows)))
    statistics: dict[str, Any] = {"settings": len(values) * len(PAIR_NAMES), "settings_with_drafts_faster": faster}
    statistics |= {"memory_gb": memory, "memory_limit_gb": (base or Load()).memory / 1e9}
    return {
        "axes": [{"x": axis("acceptance rate α"), "y": _LATENCY}],
        "series": series,
        "statistics": statistics,
        "tables": [table("Savings against no drafts in percent", ("α", *map(str, values)), tuple(saved))],
        "basis": _basis(runs),
    }


def simulate_bandwidth(
    pair: int, seed: int, *, runs: int = RUNS, base: Load | None = None, shared_by: tuple[int, ...] = SHARED_BY
) -> Numbers:
    """Compute Fig. 9: total latency over the bandwidth, with the best and with equal shares."""
    loads = [replace(base or Load(), pair=pair, users=count) for count in shared_by]
    rows = [_over_bandwidths(seed, runs, load) for load in loads]
    series = [
        _series(f"K = {load.users}: {SHARES[key]}", BANDWIDTHS_MHZ, row[key], scheme=key, users=load.users)
        for load, row in zip(loads, rows, strict=True)
        for key in SHARES
    ]
    saving = printed_value("edge-sd", f"saving_9{'abc'[pair]}")
    savings = [100.0 * (1.0 - best / equal) for best, equal in zip(rows[-1]["best"], rows[-1]["equal"], strict=True)]
    at = BANDWIDTHS_MHZ.index(PRINTED_AT_MHZ)
    height = plain(rows[-1]["equal"][at].mean() * (1 - saving / 100), 5)
    name = f"printed: {saving}% below equal shares"
    by_band = ("best against equal shares", *map(_percent, savings))
    title = f"Savings of the total latency in percent, K = {shared_by[-1]}"
    return {
        "axes": [{"x": axis("bandwidth", "MHz"), "y": _LATENCY}],
        "series": [*series, {"name": name, "x": [PRINTED_AT_MHZ], "mean": [height], "scheme": "printed"}],
        "statistics": {"printed_percent": saving, "ours_percent": spread(savings[at])},
        "tables": [table(title, ("at MHz", *map(str, BANDWIDTHS_MHZ)), (by_band,))],
        "basis": _basis(runs, f", models of {PAIR_NAMES[pair].replace(', ', ' and ')}, α = 0.8"),
    }


def _over_bandwidths(seed: int, runs: int, load: Load) -> dict[str, list[Array]]:
    paper = _served(seed, runs, load, IN_FIG_9, EACH, "seconds", "proposed")
    waves, free = (_served(seed, runs, load, IN_WAVES, TOGETHER, "seconds", name) for name in IN_WAVES)
    rows: dict[str, list[Array]] = {key: [] for key in SHARES}
    for band in BANDWIDTHS_MHZ:
        best, equal = np.asarray([uploads(seed, run, load, Radio(bandwidth_hz=band * 1e6)) for run in range(runs)]).T
        for key, total in zip(SHARES, (equal + paper, best + paper, best + waves, best + free), strict=True):
            rows[key].append(total)
    return rows
