"""Compute Figs. 2, 5 and Table I of flexspec (li2025flexspec) from its printed numbers.

The paper measured on hardware. Here its printed latencies are compared to each other and fitted by model (10).
No number is read off a curve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hlmtheory.draft_length import (
    cost_per_token,
    etgr,
    optimal_draft_length,
    surrogate_draft_length,
    synchronisation_time,
)
from validation.plots.common.record import Numbers, Printed, Table, plain
from validation.plots.common.style import DARK, LIGHT, MIDDLE, PAGE, axis, canvas, name_axes
from validation.plots.flexspec import fits
from validation.plots.flexspec.printed import DRAFT_BYTES, LATENCIES, NETWORKS, STRIDES, SYNCHRONISATION, WEAK_UPLINK
from validation.plots.flexspec.synchronised import measured_caption, measured_table
from validation.plots.flexspec.tables import GAMMA, MODEL, listed, span

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

INDEX_BITS = 15  # ⌈log₂ 32,000⌉, the vocabulary of Llama-2
MAX_DRAWN_LENGTH = 16
RATIOS = np.geomspace(0.7, 100.0, 400)  # F/M
PRINTED_LENGTHS = (Printed("K* over a weak link", 2, "Fig. 2"), Printed("K* over a strong link", 6, "Fig. 2"))


# ------------------------------------------------------------------------------------------------------- Fig. 2


def _needed(gamma: float, length: int) -> tuple[float, float]:
    """Return the range of F/M with this K*, from a fine grid."""
    grid = np.geomspace(0.1, 1000.0, 20_001)
    chosen = np.asarray(optimal_draft_length(gamma, grid, 1.0, fits.MAX_DRAFT_LENGTH))
    return float(grid[chosen == length].min()), float(grid[chosen == length].max())


def _landscape(name: str, length: int) -> dict[str, Any]:
    """Return throughput over K for a K* of the paper, at the geometric mean of the range of F/M with this K*."""
    low, high = _needed(GAMMA, length)
    ratio = float(np.sqrt(low * high))
    lengths = np.arange(1, MAX_DRAWN_LENGTH + 1)
    rates = np.asarray(etgr(GAMMA, lengths, ratio, 1.0)) * ratio
    pick = int(surrogate_draft_length(GAMMA, ratio, 1.0, MAX_DRAWN_LENGTH))
    return {
        "name": name,
        "x": lengths.tolist(),
        "y": plain(rates),
        "fixed_over_marginal": plain(ratio, 4),
        "best": length,
        "surrogate": pick,
        "regret": plain(1.0 - rates[pick - 1] / rates[length - 1], 4),
    }


def _lengths_table() -> dict[str, Any]:
    rows = []
    for gamma in (0.72, GAMMA, 0.9):
        for length in (2, 6):
            low, high = _needed(gamma, length)
            gain = [1.0 / float(cost_per_token(gamma, length, 1.0, 1.0 / end)) for end in (low, high)]
            rows.append((f"{gamma:g}", str(length), f"{low:.2f} to {high:.2f}", f"{gain[0]:.2f} to {gain[1]:.2f}"))
    shown = LATENCIES["III"][1][0, :, -1]
    heads = ("γ", "K*", "F/M", "speed-up over Cloud-Only")
    theirs = f"{listed(shown, '.2f')} over {', '.join(NETWORKS)} (GSM8K)"
    title = f"What the K* of Fig. 2 ask for; FlexSpec's speed-ups in Table III are {theirs}"
    return Table(title, heads, tuple(rows)).plain()


def _picks_table(series: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the table of throughput that Algorithm 2 loses, for several K_max."""
    rows = []
    for one in series:
        ratio, best = one["fixed_over_marginal"], one["best"]
        for max_draft_length in (7, MAX_DRAWN_LENGTH, fits.MAX_DRAFT_LENGTH):
            pick = int(surrogate_draft_length(GAMMA, ratio, 1.0, max_draft_length))
            lost = 1.0 - float(etgr(GAMMA, pick, ratio, 1.0)) / float(etgr(GAMMA, best, ratio, 1.0))
            rows.append((one["name"], f"{ratio:.3g}", str(best), str(max_draft_length), str(pick), f"{lost:.0%}"))
    heads = ("link", "F/M", "K*", "K_max", "pick of Algorithm 2", "throughput lost")
    return Table(f"The linear surrogate at γ = {GAMMA}; the paper prints no K_max", heads, tuple(rows)).plain()


def _rates_table() -> dict[str, Any]:
    """Return the time of a token's index in M at the rates of Table I, and the rate that moves K* from 6 to 2."""
    rows = [
        (f"{name}, {rate / 1e6:g} Mbit/s", f"{1e3 * INDEX_BITS / rate:.5f} ms") for name, rate, *_ in SYNCHRONISATION
    ]
    tokens, milliseconds = WEAK_UPLINK
    weakest = f"{1e3 * INDEX_BITS * tokens / milliseconds:.0f} bit/s"
    name = f"{tokens} tokens in {milliseconds:g} ms (Section III-D): {weakest}"
    rows.append((name, f"{milliseconds / tokens:.0f} ms"))
    cloud = dict(zip(NETWORKS, LATENCIES["III"][0][0, :, 0], strict=True))
    strong, weak = (
        sorted(cloud[network] / end for end in _needed(GAMMA, length)) for network, length in (("5G", 6), ("WiFi", 2))
    )
    least, most = weak[0] - strong[1], weak[1] - strong[0]
    rates = f"{1e3 * INDEX_BITS / most:.0f} to {1e3 * INDEX_BITS / least:.0f} bit/s"
    rows.append((f"{rates}, for K* from 6 to 2 with F as Cloud-Only", f"{least:.0f} to {most:.0f} ms"))
    title = f"What a token's index of {INDEX_BITS} bits adds to M, beside 8.5 to 145 ms for drafting it (Table V)"
    return Table(title, ("uplink", "b/R"), tuple(rows)).plain()


def simulate_lengths(seed: int) -> Numbers:
    """Compute two curves of throughput, and the chosen lengths over F/M; nothing is random."""
    exact = np.asarray(optimal_draft_length(GAMMA, RATIOS, 1.0, MAX_DRAWN_LENGTH))
    series: list[dict[str, Any]] = [_landscape("weak", 2), _landscape("strong", 6)]
    picks = np.asarray(surrogate_draft_length(GAMMA, RATIOS, 1.0, MAX_DRAWN_LENGTH))
    series.append({"name": "K*", "x": plain(RATIOS, 6), "y": exact.tolist()})
    series.append({"name": "Algorithm 2", "x": plain(RATIOS, 6), "y": picks.tolist()})
    lost = 1.0 - np.asarray(etgr(GAMMA, picks, RATIOS, 1.0)) / np.asarray(etgr(GAMMA, exact, RATIOS, 1.0))
    return {
        "axes": [
            {"x": axis("draft length K"), "y": axis("throughput over Cloud-Only")},
            {"x": axis("F/M", scale="log"), "y": axis("draft length chosen")},
        ],
        "series": series,
        "statistics": {"largest_regret": plain(lost.max(), 4), "switch": plain(1.0 / GAMMA)},
        "tables": [_lengths_table(), _picks_table(series[:2]), _rates_table()],
        "basis": f"by formula, γ = {GAMMA}, K_max = {MAX_DRAWN_LENGTH}",
    }


def paint_lengths(numbers: Numbers) -> Canvas:
    """Paint throughput over K on the left, chosen lengths over F/M on the right."""
    figure, (left, right) = canvas(PAGE, panels=2)
    for one, color in zip(numbers["series"][:2], (MIDDLE, DARK), strict=True):
        left.plot(one["x"], one["y"], color=color, label=f"{one['name']}, F/M = {one['fixed_over_marginal']:.3g}")
        for key, mark, fill in (("best", "o", color), ("surrogate", "s", "white")):
            at = one[key]
            left.plot(at, one["y"][at - 1], mark, color=color, markerfacecolor=fill, markersize=5)
    left.plot([], [], "o", color="0.3", markersize=5, label="K*")
    left.plot([], [], "s", color="0.3", markerfacecolor="white", markersize=5, label="pick of Algorithm 2")
    exact, picks = numbers["series"][2:]
    right.step(exact["x"], exact["y"], where="mid", color=DARK, label="K*, exact")
    right.step(picks["x"], picks["y"], where="mid", color=MIDDLE, linestyle=(0, (4, 2)), label="Algorithm 2")
    for axes, names in zip((left, right), numbers["axes"], strict=True):
        name_axes(axes, names)
        axes.set_ylim(0, None)
    left.legend(loc="center right")
    right.legend(loc="lower right")
    return figure


def caption_lengths(numbers: Numbers) -> str:
    """Give K* and the length that Algorithm 2 chooses."""
    weak, strong = numbers["series"][:2]
    return (
        "Algorithm 2 maximises (1 + γK)/(F + KM). The derivative has the sign of γF − M for every K. So it picks "
        f"K_max if F/M is above 1/γ = {numbers['statistics']['switch']:g}, and 1 if it is below: the same length over "
        f"both links of Fig. 2. It loses {weak['regret']:.0%} of the throughput over the weak link and "
        f"{strong['regret']:.0%} over the strong one. In (10) the link enters M only by the bits of a token's index; "
        "at the rates of Table I these cannot move K* from 6 to 2. A slower link that costs more per round makes K* "
        "longer."
    )


# ------------------------------------------------------------------------------------------------------- Fig. 5


def _open(points: dict[int, float]) -> dict[str, Any]:
    """Return the band of all curves through K = 1 and K = 5."""
    gammas, fixed, marginal = fits.open_set({k: points[k] for k in (1, 5)})
    lengths = np.arange(8)
    curves = np.asarray(cost_per_token(gammas[:, None], lengths, fixed[:, None], marginal[:, None]))
    return {
        "lengths": lengths.tolist(),
        "low": plain(curves.min(axis=0), 5),
        "high": plain(curves.max(axis=0), 5),
        "gamma": plain([gammas.min(), gammas.max()], 3),
        "fixed_ms": plain([fixed.min(), fixed.max()], 4),
        "marginal_ms": plain([marginal.min(), marginal.max()], 4),
    }


def _strides_of(network: str) -> dict[str, Any]:
    points = STRIDES[network]
    fit = fits.stride_fit(points)
    lengths = np.arange(8)
    curve = cost_per_token(fit.gamma, lengths, fit.fixed, fit.marginal)
    return {
        "name": network,
        "x": list(points),
        "printed": list(points.values()),
        "fit": {
            "gamma": plain(fit.gamma, 3),
            "fixed_ms": plain(fit.fixed, 4),
            "marginal_ms": plain(fit.marginal, 4),
            "lengths": lengths.tolist(),
            "y": plain(curve, 5),
            "largest_error": plain(fit.worst(points), 3),
        },
        "through_1_and_5": _open(points),
    }


def _strides_table(series: list[dict[str, Any]]) -> dict[str, Any]:
    rows: list[tuple[str, ...]] = []
    for one in series:
        fit, free = one["fit"], one["through_1_and_5"]
        off = f"off by up to {fit['largest_error']:.0%}"
        rows.append(
            (
                f"{one['name']}: K = 0, 1, 5, least squares",
                f"{fit['gamma']:.2f}",
                f"{fit['fixed_ms']:.0f} ms",
                f"{fit['marginal_ms']:.0f} ms",
                off,
            )
        )
        ranges = (
            span(free["gamma"], ".2f"),
            *(f"{span(free[key], '.0f')} ms" for key in ("fixed_ms", "marginal_ms")),
        )
        rows.append((f"{one['name']}: K = 1, 5 exactly", *ranges, "F is not Cloud-Only"))
    pairs = [fits.through_two(_pair(network), fits.GRID) for network in STRIDES]
    fits_both = np.all([(fixed >= 0) & (marginal >= 0) for fixed, marginal in pairs], axis=0)
    costs = (" and ".join(span(pair[side][fits_both], ".0f") for pair in pairs) + " ms" for side in (0, 1))
    both = f"{' and '.join(STRIDES)}: K = 1, 5 exactly, one γ"
    rows.append((both, span(fits.GRID[fits_both], ".2f"), *costs, "F falls as the link weakens"))
    return Table("What (10) can be", ("points", "γ", "F", "M", "but"), tuple(rows)).plain()


def _pair(network: str) -> dict[int, float]:
    return {k: STRIDES[network][k] for k in (1, 5)}


def _arguments_table() -> dict[str, Any]:
    """Return conditions that every acceptance profile meets: E(1) ≤ E(5) ≤ 1 + 5 (E(1) - 1), E(1) ≤ 2, M ≥ 0.

    With F = L(0) and K = 1 exact, M = L(1) E(1) - L(0) and L(5) = (5 L(1) E(1) - 4 L(0))/E(5). Over 5G, L(5) is
    smallest at M = 0, where E(1) = L(0)/L(1). Over WiFi, L(5) is largest at E(5) = E(1) = 2. With F free,
    F = (5 L(1) E(1) - L(5) E(5))/4.
    """
    strong, weak = STRIDES["5G"], STRIDES["WiFi"]
    least = strong[0] / (1.0 + 5.0 * (strong[0] / strong[1] - 1.0))
    most = 5.0 * weak[1] - 2.0 * weak[0]
    on_one, on_five = 5.0 / 4.0 * (weak[1] - strong[1]), (weak[5] - strong[5]) / 4.0
    rows = (
        ("5G: 432 and 405 ms at K = 0 and 1 leave K = 5 at least", f"{least:.0f} ms", f"{strong[5]:.0f} ms"),
        ("WiFi: 1,220 and 625 ms at K = 0 and 1 leave K = 5 at most", f"{most:.0f} ms", f"{weak[5]:.0f} ms"),
        (
            "K = 1 and 5: F over WiFi less F over 5G",
            f"{on_one:.0f} E(1) − {on_five:.2f} E(5) < 0 ms",
            "F rises as the link weakens, (10)",
        ),
        (
            "K = 5 over WiFi against the baseline",
            f"{weak[5] / weak[0]:.2f}× as long, {weak[5] / weak[1]:.2f}× of FlexSpec's",
            "2.3× slowdown relative to the baseline",
        ),
    )
    return Table("What follows for any acceptance of drafts", ("", "follows", "printed"), rows).plain()


def simulate_strides(seed: int) -> Numbers:
    """Fit the strides that Section V-C prints; nothing is random."""
    series = [_strides_of(network) for network in STRIDES]
    axes = {"x": axis("draft length K"), "y": axis("latency", "ms")}
    return {
        "axes": [axes] * len(series),
        "series": series,
        "statistics": {one["name"]: one["fit"]["largest_error"] for one in series},
        "tables": [_strides_table(series), _arguments_table()],
        "basis": f"the paper's printed latencies and fits by {MODEL} unless said otherwise",
        "kind": "fitted",
    }


def paint_strides(numbers: Numbers) -> Canvas:
    """Paint latency over K, with a panel for each network."""
    figure, panels = canvas(PAGE, panels=len(numbers["series"]))
    for axes, one, names in zip(panels, numbers["series"], numbers["axes"], strict=True):
        free, fit = one["through_1_and_5"], one["fit"]
        axes.fill_between(
            free["lengths"], free["low"], free["high"], color=LIGHT, linewidth=0, label="through K = 1 and 5"
        )
        axes.plot(fit["lengths"], fit["y"], color=DARK, label="least squares")
        axes.plot(one["x"], one["printed"], "D", color=MIDDLE, markersize=4.5, label="printed")
        name_axes(axes, names)
        top = 1.1 * max(*one["printed"], *free["high"])
        axes.set(title=one["name"], ylim=(0, top), xlim=(-0.3, 7.3))
    panels[0].legend(loc="upper right")
    panels[1].set_ylabel("")
    return figure


def caption_strides(numbers: Numbers) -> str:
    """Give the parameters that the printed latencies allow."""
    strong, weak = (one["through_1_and_5"] for one in numbers["series"])
    return (
        f"The best fit misses a point by {numbers['statistics']['5G']:.0%} over 5G and by "
        f"{numbers['statistics']['WiFi']:.0%} over WiFi. Through K = 1 and K = 5 alone, with F free, γ can be "
        f"anything in {span(strong['gamma'], '.2f')} (5G) or {span(weak['gamma'], '.2f')} (WiFi). F is then "
        f"{span(strong['fixed_ms'], '.0f')} ms over 5G, more than Cloud-Only needs for a token, and at most "
        f"{weak['fixed_ms'][1]:.0f} ms over WiFi. The paper's 2.3× slowdown at K = 5 is relative to FlexSpec; "
        f"relative to Cloud-Only it is {STRIDES['WiFi'][5] / STRIDES['WiFi'][0]:.2f}×."
    )


# ------------------------------------------------------------------------------------------------------ Table I


def simulate_storm(seed: int) -> Numbers:
    """Compute minutes at 3.2 GB, and the sizes that match the printed minutes; nothing is random."""
    rows, ends = [], []
    for name, rate, minutes, unit in SYNCHRONISATION:
        ours = float(synchronisation_time(DRAFT_BYTES, rate)) / 60.0
        low, high = (rate * 60.0 * (minutes + side * unit / 2.0) / 8.0 / 1e9 for side in (-1, 1))
        ends.append((low, high))
        rows.append(
            (name, f"{rate / 1e6:g} Mbit/s", f"{minutes:g} min", f"{ours:.1f} min", f"{low:.4g} to {high:.4g} GB")
        )
    low, high = max(end[0] for end in ends), min(end[1] for end in ends)
    heads = ("network", "rate", "printed", f"{DRAFT_BYTES / 1e9:g} GB take", "sizes that take the printed")
    return {
        "statistics": {"least_gigabytes": plain(low), "most_gigabytes": plain(high)},
        "tables": [
            Table("Synchronisation of one draft model", heads, tuple(rows)).plain(),
            measured_table().plain(),
        ],
        "basis": "8 × size / rate; the sizes of the second table are measured",
        "kind": "computed",
    }


def caption_storm(numbers: Numbers) -> str:
    """Give the model sizes that match the printed times."""
    low, high = (numbers["statistics"][key] for key in ("least_gigabytes", "most_gigabytes"))
    return (
        f"All three printed times follow from a model of {low:.4f} to {high:.5f} GB. A model of 3.6 GB does not give "
        f"them either: it takes 9.6 min over 4G. {measured_caption()}"
    )


MESSAGE_LENGTHS = "Algorithm 2 always picks a draft length of 1 or K_max, because its objective is monotone in K."
MESSAGE_STRIDES = "No model of the form (10) meets the three printed latencies of either network."
MESSAGE_STORM = f"The stated {DRAFT_BYTES / 1e9:g} GB give none of the printed synchronisation times."
