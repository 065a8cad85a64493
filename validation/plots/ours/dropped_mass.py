"""Measure the dropped mass and the bits of C-SQS and of the budget on the same texts: Figure 9 of ours."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.conformal.controller import regret_bound_sharp
from hlmtheory.lattice import payload_bits
from validation.decoding.methods.catalogue import info_of
from validation.decoding.methods.quantized import EPSILON, LEARNING_RATE, RESOLUTION
from validation.estimates import Estimate
from validation.plots.c_sqs.numbers import interval
from validation.plots.c_sqs.texts import MIDDLE_THRESHOLD
from validation.plots.common.ends import label_ends
from validation.plots.common.record import Numbers, plain, spread
from validation.plots.common.style import PAGE, Canvas, axis, canvas, name_axes
from validation.trace.reader import Trace, probabilities

Values = NDArray[np.float64]

TEXTS = 40  # evenly spaced over the trace
EPSILONS = (EPSILON, 0.002, 0.005, 0.02, 0.05, 0.1)
PRICES = np.geomspace(1e-8, 0.05, 60)  # fixed thresholds
POINTS = 40  # points of a drawn curve
BOUND = f"sharp bound, τ₁ = {MIDDLE_THRESHOLD:g}"
CONTROLLERS = ("C-SQS", "Budgeted SQS", "Budgeted C-SQS")
CHEAPEST = ("C-SQS, cheapest support", "Budgeted SQS, cheapest support")
"""The same controllers, but each sends the support of the fewest bits that holds the chosen one."""
FIXED = "C-SQS (τ = 0.001, fixed)"
OTHERS = {f"C-SQS (τ₁ = {tau:g})": tau for tau in (0.0, 0.0001, 0.01)}
"""C-SQS from other first thresholds, at the paper's ε; the paper does not print its τ₁."""
COLORS = dict(zip(OTHERS, ("#f0c5a3", "#e39a63", "#6b2a0b"), strict=True))
DASHED = (0, (4, 2))


@dataclass(slots=True)
class Path:
    sizes: NDArray[np.int64]
    dropped: Values


def cheapest_sizes(bits: Values) -> NDArray[np.int64]:
    """Return for K = 1, ..., V the K' ≥ K of the fewest bits, the largest of equal ones."""
    least = np.minimum.accumulate(bits[::-1])
    new = np.append(True, bits[-2::-1] < least[:-1])
    place = np.maximum.accumulate(np.where(new, np.arange(len(bits)), 0))
    return np.asarray((len(bits) - place)[::-1])


def follow(name: str, epsilon: float, q: Values, tail: Values, cheapest: NDArray[np.int64] | None = None) -> Path:
    tau, saved = OTHERS.get(name, MIDDLE_THRESHOLD), 0.0
    sizes, dropped = np.empty(len(q), dtype=np.int64), np.empty(len(q))
    for n in range(len(q)):
        by_price = max(1, int(np.count_nonzero(q[n] >= tau)))  # c-sqs (6)
        saved += epsilon
        by_budget = 1 + int(np.count_nonzero(tail[n, :-1] > saved))
        kept = by_price
        if name in ("Budgeted SQS", "Budgeted SQS, cheapest support"):
            kept = by_budget
        elif name == "Budgeted C-SQS":
            kept = max(by_price, by_budget)
        if cheapest is not None:
            kept = by_price = int(cheapest[kept - 1])
        sizes[n], dropped[n] = kept, tail[n, kept - 1]
        saved -= dropped[n]
        tau -= LEARNING_RATE * (tail[n, by_price - 1] - epsilon)  # c-sqs (8)
    return Path(sizes, dropped)


def priced(threshold: float, q: Values, tail: Values) -> Path:
    sizes = np.maximum(1, np.count_nonzero(q >= threshold, axis=-1))
    return Path(sizes, np.take_along_axis(tail, sizes[:, None] - 1, axis=-1)[:, 0])


def texts_of(trace: Trace) -> Iterator[tuple[Values, Values]]:
    """Yield q and p of texts that are evenly spaced over the trace, shape (T, V)."""
    prompts = np.asarray(trace.arrays["prompt_index"][:])
    starts = np.flatnonzero(np.diff(prompts, prepend=-1))
    ends = np.append(starts[1:], len(prompts))
    for i in range(0, len(starts), max(1, len(starts) // TEXTS)):
        part = slice(int(starts[i]), int(ends[i]))
        q, p = (probabilities(np.asarray(trace.arrays[name][part])) for name in ("draft_logits", "target_logits"))
        yield q, p


def paths_of(trace: Trace, bits: Values) -> dict[tuple[str, float], list[Path]]:
    """Return the paths of all controllers and fixed thresholds, one for each text, by name and parameter."""
    sizes = cheapest_sizes(bits)
    found: dict[tuple[str, float], list[Path]] = {}
    for q, p in texts_of(trace):
        order = np.argsort(-q, axis=-1, kind="stable")
        q, p = np.take_along_axis(q, order, axis=-1), np.take_along_axis(p, order, axis=-1)
        q /= q.sum(axis=-1, keepdims=True)
        tail = np.zeros_like(q)
        tail[:, :-1] = np.cumsum(q[:, :0:-1], axis=-1)[:, ::-1]
        for epsilon in EPSILONS:
            for name in (*CONTROLLERS, *CHEAPEST, *(OTHERS if epsilon == EPSILON else ())):
                path = follow(name, epsilon, q, tail, sizes if name in CHEAPEST else None)
                found.setdefault((name, epsilon), []).append(path)
        for tau in PRICES:
            found.setdefault((FIXED, float(tau)), []).append(priced(float(tau), q, tail))
    return found


def _running(paths: list[Path], at: NDArray[np.int64]) -> list[Estimate]:
    """Return the mean of d over the first n positions, averaged over the texts with at least n positions."""
    found = []
    for n in at:
        means = np.array([path.dropped[:n].mean() for path in paths if len(path.dropped) >= n])
        found.append(interval([(means, np.ones(len(means)))]))
    return found


def measure(trace: Trace, seed: int) -> Numbers:
    """Measure dropped mass, bits and rejection probability of each controller on the same texts; nothing is random."""
    bits_of = np.asarray(payload_bits(trace.vocabulary, np.arange(1, trace.vocabulary + 1), RESOLUTION, adaptive=True))
    paths = paths_of(trace, bits_of)

    def bits(path: Path) -> Values:
        return bits_of[path.sizes - 1]

    texts = paths[CONTROLLERS[0], EPSILON]
    longest = int(np.median([len(path.dropped) for path in texts]))
    at = spread(longest, POINTS)
    series: list[dict[str, Any]] = []
    drawn = (*OTHERS, *CONTROLLERS)
    for name in drawn:
        running = _running(paths[name, EPSILON], at)
        low, high = zip(*(one.ends for one in running), strict=True)
        curve = {"mean": plain([one.value for one in running]), "low": plain(low), "high": plain(high)}
        series.append({"name": name, "panel": 0, "x": at.tolist()} | curve)
    bound = regret_bound_sharp(EPSILON, LEARNING_RATE, MIDDLE_THRESHOLD, at)
    series.append({"name": BOUND, "panel": 0, "x": at.tolist(), "mean": plain(bound)})
    points = {}
    for name in (*CONTROLLERS, *CHEAPEST, FIXED):
        keys = [key for key in paths if key[0] == name]
        points[name] = [(_mean(paths[key], lambda path: path.dropped), _mean(paths[key], bits)) for key in keys]
        mass, sent = zip(*points[name], strict=True)
        series.append({"name": name, "panel": 1, "parameter": [k[1] for k in keys], "x": plain(mass), "y": plain(sent)})
    known = (*drawn, *CHEAPEST)
    return {
        "axes": [
            {"x": axis("position in the text", scale="log"), "y": axis("mean dropped mass so far", scale="log")},
            {"x": axis("mean dropped mass", scale="log"), "y": axis("bits of a draft")},
        ],
        "series": series,
        "statistics": {
            "texts": len(texts),
            "epsilon": EPSILON,
            "dropped": {name: plain(_mean(paths[name, EPSILON], lambda path: path.dropped), 4) for name in known},
            "bits": {name: plain(_mean(paths[name, EPSILON], bits), 5) for name in known},
        },
        "positions_drawn": sum(len(path.dropped) for path in texts),
    }


def _mean(paths: list[Path], value: Callable[[Path], Values]) -> float:
    return float(np.concatenate([value(path) for path in paths]).mean())


def _name(name: str, place: int) -> str:
    """Return the name at the end of a curve; the title of its panel says the rest."""
    if place == 0:
        return f"τ₁ = {OTHERS.get(name, MIDDLE_THRESHOLD):g}"
    return f"fixed τ{', chosen support' * (place == 3)}" if name == FIXED else name.removesuffix(", cheapest support")


def _place(one: dict[str, Any]) -> tuple[int, ...]:
    """Return the panels of a curve: running means by τ₁ and by controller; bits of the chosen and cheapest support."""
    if one["panel"] == 0:
        if one["name"] == "C-SQS":
            return 0, 1
        return (1,) if one["name"] in CONTROLLERS else (0,)
    if one["name"] == FIXED:
        return 2, 3
    return (3,) if one["name"] in CHEAPEST else (2,)


def paint(numbers: Numbers) -> Canvas:
    figure, panels = canvas((PAGE[0], 6.0), panels=2, rows=2)
    epsilon = numbers["statistics"]["epsilon"]
    for one in numbers["series"]:
        if one["name"] == BOUND:
            continue  # it is drawn with its curve
        look = info_of(one["name"]).style.options()
        if one["name"] in COLORS:
            look |= {"color": COLORS[one["name"]], "linewidth": 0.9, "linestyle": "-"}
        if one["name"] == FIXED or one["name"] in COLORS:
            look["marker"] = ""
        if one["name"] in CHEAPEST:
            look |= {"linestyle": DASHED, "markerfacecolor": "white"}
        if one["panel"] == 0:  # few marks, each curve's own, so that those that coincide show
            step = max(1, len(one["x"]) // 6)
            look["markevery"] = (CONTROLLERS.index(one["name"]) * step // 3 if one["name"] in CONTROLLERS else 0, step)
        for place in _place(one):
            axes, name = panels[place], _name(one["name"], place)
            axes.plot(one["x"], one["mean"] if one["panel"] == 0 else one["y"], markersize=4, label=name, **look)
            if one["panel"] == 0:
                axes.fill_between(one["x"], one["low"], one["high"], color=look["color"], alpha=0.2, linewidth=0)
            if one["panel"] == 0 and axes is panels[0]:
                bound = regret_bound_sharp(epsilon, LEARNING_RATE, OTHERS.get(one["name"], MIDDLE_THRESHOLD), one["x"])
                axes.plot(one["x"], bound, color=look["color"], linewidth=0.9, linestyle=DASHED)
    for place, axes in enumerate(panels):
        name_axes(axes, numbers["axes"][place // 2])
        if place < 2:
            axes.axhline(epsilon, color="0.45", linewidth=0.9, linestyle=(0, (1, 1.5)), label="ε")
    for row in (panels[:2], panels[2:]):
        low, high = (pick(axes.get_ylim()[end] for axes in row) for pick, end in ((min, 0), (max, 1)))
        for axes in row:
            axes.set_ylim(low, high)
        row[1].set_ylabel("")
    drawn_masses = [x for one in numbers["series"] if one["panel"] == 1 and one["name"] != FIXED for x in one["x"] if x]
    for axes in panels[2:]:
        if drawn_masses:
            axes.set_xlim(min(drawn_masses) / 1.5, 2.0 * max(drawn_masses))
        axes.set_ylim(bottom=0)
    first = f"C-SQS from τ₁ = {MIDDLE_THRESHOLD:g}"
    supports = (f"{word} support, {first}" for word in ("chosen", "cheapest"))
    titles = ("C-SQS; dashed: its sharp bound", f"{first}, and budgets", *supports)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
        label_ends(axes, wrap=12)
    return figure
