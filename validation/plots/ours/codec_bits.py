"""Bits of each rule for the same certified bias: the cheapest codec beside the rules of cu-hlm and c-sqs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory import codec, lattice, truncation
from hlmtheory.truncation.message import message_deviation
from validation.arrays import Row
from validation.decoding.trace_drafts import prompt_of
from validation.plots.common.ends import label_ends
from validation.plots.common.record import Numbers, cell, plain, sampled, sampled_positions, table
from validation.plots.common.skipping.sample import mean
from validation.plots.common.style import AMBER, DARK, DASHED, GREY, MIDDLE, PAGE, PALE, Canvas, axis, canvas, name_axes
from validation.plots.common.truncation.looks import curve, full_bits
from validation.plots.common.truncation.sample import SAMPLE_VALUES, SHOWN, Drafts, denominator, sample_of
from validation.trace.reader import Trace, probabilities

POSITIONS = 96  # of the sample of the truncation figures
SHOWN_EPSILON = (0.01, 0.05, 0.1, 0.2)
EPSILON = (0.005, 0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5)
TOLERANCES = (0.002, *EPSILON, 1.0, 2.0)  # the choices of a row under one budget
WIDTHS = (8, 16, 24)
PAPER_BITS, PAPER_RESOLUTION = 8, 100  # b_prob of cu-hlm V-A, ℓ of c-sqs Section 4
RESOLUTIONS = (100, 400, 1600, 6400, 25_600, 102_400, 409_600)  # tried for K-SQS and C-SQS
ETA = SHOWN[1]
BUDGET, CHEAPEST = "one budget for all", "cheapest codec"

Promise = tuple[Row, Row]
"""Bits and 2 TV(q, q̂) of each position."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Hold bits and certified bias of each rule at n positions.

    ``rules``: by name, one entry for each ε of EPSILON; None where it is not measured or no parameter meets ε, or the
    share of the positions that cannot meet it. ``prompt`` (n,): the number of each position's prompt.
    """

    vocabulary: int
    rules: dict[str, list[Promise | float | None]]
    prompt: NDArray[np.int64]


@lru_cache(maxsize=2)
def compared(trace: Trace, seed: int) -> Compared:
    """Return bits and bias of each rule, measured once for the figure and the table."""
    sample = sample_of(trace, seed)
    logits = np.concatenate([draft for draft, _ in sampled(trace, max(1, SAMPLE_VALUES // trace.vocabulary), seed)])
    rng = np.random.default_rng([seed, 7])
    chosen = np.sort(rng.choice(len(logits), min(POSITIONS, len(logits)), replace=False))
    q = np.asarray(probabilities(logits[chosen]))
    cheapest = codec.cheapest_codec(q[:, None], np.array(TOLERANCES))
    bits, bias = np.asarray(cheapest.bits, dtype=np.float64), np.asarray(cheapest.bias)
    first = TOLERANCES.index(EPSILON[0])
    columns = range(first, first + len(EPSILON))
    rules: dict[str, list[Promise | float | None]] = {CHEAPEST: [(bits[:, j], bias[:, j]) for j in columns]}
    plans = [codec.optimal_codecs(bits, bias, epsilon * len(q)) for epsilon in EPSILON]
    rows = np.arange(len(q))
    rules[BUDGET] = [(bits[rows, plan.index], bias[rows, plan.index]) for plan in plans]
    rules |= _of_cu_hlm(q, sample.drafts, chosen, sample.offline) | _of_c_sqs(q)
    places = sampled_positions(trace, max(1, SAMPLE_VALUES // trace.vocabulary), seed)[chosen]
    return Compared(trace.vocabulary, rules, prompt_of(trace, places))


def _of_cu_hlm(
    q: Row, drafts: Drafts, chosen: NDArray[np.int64], offline: Callable[..., int | None]
) -> dict[str, list[Promise | float | None]]:
    vocabulary = q.shape[-1]
    place, size_bits = (vocabulary - 1).bit_length(), vocabulary.bit_length()
    deviation = {width: np.asarray(message_deviation(q, bits_per_probability=width)) for width in WIDTHS}
    found: dict[str, list[Promise | float | None]] = {f"certified, {width} bits": [] for width in WIDTHS}
    found |= {"offline (21)": [], f"online (24), η = {ETA:g}": []}
    rows, unrounded = np.arange(len(q)), np.asarray(truncation.tail_deviation(q))
    limit = denominator(drafts.drafted[chosen], drafts.estimate[chosen], ETA)
    for epsilon in EPSILON:
        for width in WIDTHS:
            good = 2.0 * deviation[width] <= epsilon
            k = good.argmax(axis=-1)
            met = (k * float(width + place) + size_bits, 2.0 * deviation[width][rows, k])
            found[f"certified, {width} bits"].append(float(np.mean(~good.any(axis=-1))) or met)
        fixed = offline(epsilon / 2.0)
        k = np.full(len(q), 0 if fixed is None else fixed)
        sent = (k * float(PAPER_BITS + place), 2.0 * deviation[PAPER_BITS][rows, k])
        found["offline (21)"].append(None if fixed is None else sent)
        k = np.argmax(unrounded <= (0.25 * epsilon * limit)[:, None], axis=-1)
        met = (k * float(PAPER_BITS + place) + size_bits, 2.0 * deviation[PAPER_BITS][rows, k])
        found[f"online (24), η = {ETA:g}"].append(met)
    return found


def _of_c_sqs(q: Row) -> dict[str, list[Promise | float | None]]:
    """Return K-SQS, C-SQS and dense, each with its one parameter chosen for a mean bias of at most ε."""
    vocabulary = q.shape[-1]
    ordered = -np.sort(-q, axis=-1)
    positive = np.count_nonzero(ordered > 0, axis=-1)
    octaves = np.unique(np.round(np.geomspace(1, vocabulary, int(2 * np.log2(vocabulary)) + 2)).astype(np.int64))
    fixed = [np.minimum(k, positive) for k in octaves]
    adaptive = [np.maximum(np.count_nonzero(ordered >= tau, axis=-1), 1) for tau in np.geomspace(0.2, 1e-7, 24)]
    found: dict[str, list[Promise | float | None]] = {}
    for name, sizes in (("K-SQS", fixed), ("C-SQS", adaptive)):
        for label, resolutions in ((f"ℓ = {PAPER_RESOLUTION}", (PAPER_RESOLUTION,)), ("best ℓ", RESOLUTIONS)):
            tried = [_quantised(ordered, k, units, adaptive=name == "C-SQS") for k in sizes for units in resolutions]
            found[f"{name}, {label}"] = _best_on_average(tried)
    whole = np.full(len(q), vocabulary)
    found["dense, best ℓ"] = _best_on_average([_quantised(ordered, whole, 2**n) for n in range(25)])
    return found


def _quantised(ordered: Row, size: NDArray[np.int64], resolution: int, *, adaptive: bool = False) -> Promise:
    vocabulary, k = ordered.shape[-1], size if adaptive else np.full(len(size), size.max())
    bits = np.asarray(lattice.payload_bits(vocabulary, k, resolution, adaptive=adaptive))
    positive = np.count_nonzero(ordered > 0, axis=-1)
    return bits, _lattice_bias(ordered, np.minimum(size, positive), resolution)


def _best_on_average(tried: Sequence[Promise]) -> list[Promise | float | None]:
    found: list[Promise | float | None] = []
    for epsilon in EPSILON:
        good = [one for one in tried if one[1].mean() <= epsilon]
        found.append(min(good, key=lambda one: float(one[0].mean()), default=None))
    return found


def _lattice_bias(ordered: Row, size: NDArray[np.int64], resolution: int) -> Row:
    """Return 2 TV(q, q̂) of c-sqs's quantised rows: the K largest, renormalised, on ℓ units."""
    widest = int(size.max())
    kept = ordered[:, :widest]
    support = np.arange(widest) < size[:, None]
    mass = np.where(support, kept, 0.0).sum(axis=-1, keepdims=True)
    counts = np.asarray(lattice.quantize(np.where(support, kept, 0.0) / mass, support=support, resolution=resolution))
    return np.asarray(np.abs(kept - counts / resolution).sum(axis=-1) + ordered[:, widest:].sum(axis=-1))


def _mean_bits(found: Promise | float | None) -> float | None:
    return plain(found[0].mean()) if isinstance(found, tuple) else None


def measure_figure(trace: Trace, seed: int) -> Numbers:
    found = compared(trace, seed)
    series = [
        {"name": name, "x": list(EPSILON), "y": [_mean_bits(one) for one in promises]}
        for name, promises in found.rules.items()
    ]
    epsilon = axis("bias ε, certified or on average", scale="log")
    return {
        "axes": [{"x": epsilon, "y": axis("bits for each distribution", scale="log")}],
        "series": series,
        "statistics": {"vocabulary": found.vocabulary, "full": full_bits(found.vocabulary)},
        "positions_drawn": len(found.prompt),
    }


_CERTIFIED = tuple(f"certified, {bits} bits" for bits in WIDTHS[1:])
_ONLINE = f"online (24), η = {ETA:g}"
_AVERAGE: dict[str, Any] = {"markersize": 3, "markerfacecolor": "white", **DASHED}
LOOKS: dict[str, dict[str, Any]] = {
    CHEAPEST: {"color": DARK, "marker": "o", "markersize": 3},
    BUDGET: {"color": DARK, "marker": "D", **_AVERAGE},
    _CERTIFIED[0]: {"color": PALE, "marker": "v", "markersize": 3},
    _CERTIFIED[1]: {"color": PALE, "marker": "x", "markersize": 3},
    "offline (21)": {"color": MIDDLE, "marker": "s", "markersize": 3},
    _ONLINE: {"color": AMBER, "marker": "^", "markersize": 3},
    "K-SQS, best ℓ": {"color": AMBER, "marker": "^", **_AVERAGE},
    "C-SQS, best ℓ": {"color": MIDDLE, "marker": "s", **_AVERAGE},
    "dense, best ℓ": {"color": GREY, "marker": "v", **_AVERAGE},
}
"""Ours blue, the papers' warm, a baseline grey; dashed where the bias is kept on average only."""
PANELS = (
    ("kept at each position", (CHEAPEST, *_CERTIFIED, "offline (21)", _ONLINE)),
    ("kept at each position, or on average", (CHEAPEST, BUDGET, "K-SQS, best ℓ", "C-SQS, best ℓ", "dense, best ℓ")),
)
"""Title and rules of each panel; the numbers hold all rules."""
ENDS = {
    CHEAPEST: "ours: cheapest codec, certified",
    BUDGET: "ours: one budget for all",
    **{name: f"ours: top-k of {bits} bits, certified" for name, bits in zip(_CERTIFIED, WIDTHS[1:], strict=True)},
    **{name: f"cu-hlm: {name}" for name in ("offline (21)", _ONLINE)},
    **{name: f"c-sqs: {name}" for name in ("K-SQS, best ℓ", "C-SQS, best ℓ")},
    "dense, best ℓ": "c-sqs: dense (all tokens), best ℓ",
}
"""Names at the ends of the curves, where they are not those of the rules."""


def paint(numbers: Numbers) -> Canvas:
    figure, panels = canvas((PAGE[0], 3.2), panels=2)
    found = {one["name"]: one for one in numbers["series"] if any(value is not None for value in one["y"])}
    for axes, (title, rules) in zip(panels, PANELS, strict=True):
        name_axes(axes, numbers["axes"][0])
        for name in (name for name in rules if name in found):
            curve(axes, found[name]["x"], found[name]["y"], label=name, **LOOKS[name])
        axes.set_title(title)
    limits = [axes.get_ylim() for axes in panels]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.set_xlim(EPSILON[0] / 1.2, EPSILON[-1] * 1.2)
    panels[1].set_ylabel("")
    panels[0].set_xlabel("certified bias ε")
    starts = {name: next(x for x, y in zip(one["x"], one["y"], strict=True) if y) for name, one in found.items()}
    names = {n: ENDS[n] + (f" (from ε = {at:g})" if at > EPSILON[0] else "") for n, at in starts.items() if n in ENDS}
    keys = (panels[0].plot([], [], color="0.3", **look)[0] for look in ({}, DASHED))
    told = ["bias at most ε at each position (of cu-hlm: meant)", "bias at most ε on average"]
    figure.legend([*keys], told, loc="outside lower center", ncols=2)
    for axes, (_, rules) in zip(panels, PANELS, strict=True):
        label_ends(axes, names, order=rules, wrap=28)
    return figure


def _cell(found: Promise | float | None, groups: NDArray[np.int64]) -> str:
    if found is None:
        return "not reached"
    return f"not at {found:.0%}" if isinstance(found, float) else cell(mean(found[0], groups), ",.0f")


def _ends(found: Promise | float | None, groups: NDArray[np.int64]) -> list[float]:
    ends = plain(mean(found[0], groups).ends) if isinstance(found, tuple) else []
    return [] if len(set(ends)) < 2 else list(ends)


def measure_table(trace: Trace, seed: int) -> Numbers:
    found = compared(trace, seed)
    places = [EPSILON.index(epsilon) for epsilon in SHOWN_EPSILON]
    heads = ("rule", *(f"ε = {epsilon:g}" for epsilon in SHOWN_EPSILON))
    bits = [(name, *(_cell(values[n], found.prompt) for n in places)) for name, values in found.rules.items()]
    title = "Bits for each distribution, mean with its 95% interval, clustered by prompt"
    return {
        "tables": [table(title, heads, tuple(bits))],
        "statistics": {
            "epsilon": list(SHOWN_EPSILON),
            "bits": {name: [_mean_bits(values[n]) for n in places] for name, values in found.rules.items()},
            "ends": {name: [_ends(values[n], found.prompt) for n in places] for name, values in found.rules.items()},
        },
        "positions_drawn": len(found.prompt),
    }
