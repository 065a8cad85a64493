"""Figure 8 and Table X of ours: acceptance by depth, and the error of a single rate.

Both read the stored results of ``figures/studies/acceptance_by_depth``; this module measures nothing.
"""

from pathlib import Path
from typing import Any

from hlmtheory.verification import expected_tokens
from validation.plots.common.record import Numbers, table_of
from validation.plots.common.stored import named, read, stored
from validation.plots.common.style import DARK, PALE, Canvas, axis, canvas, name_panels

REPLAY = Path(__file__).with_name("acceptance_replay.json")
EXPERIMENT = "acceptance_by_depth"

SIZE = (7.0, 2.9)
ENOUGH = 50
"""A depth is drawn if at least this many rounds examined it."""

RATE, PROFILE, SPLIT = "rate at 1", "profile at 15", "split"
SHOWN = 7
"""Draft length at which the tables give errors."""

STYLES: tuple[dict[str, Any], ...] = (
    {"color": DARK, "marker": "o"},
    {"color": PALE, "marker": "^"},
    {"color": DARK, "marker": "s", "linestyle": (0, (4, 2))},
    {"color": PALE, "marker": "v", "linestyle": (0, (4, 2))},
)


def _percent(value: float) -> str:
    return f"{100.0 * value:+.1f}%".replace("-", "−")


def _replay(pair: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    name = named(EXPERIMENT, pair)
    return (read(REPLAY), {}) if name == EXPERIMENT else stored(name)


def _basis(replay: dict[str, Any]) -> str:
    sizes = {name.split(", ")[1]: one["requests"] for name, one in replay["data"].items()}
    listed = " and ".join(f"{count} requests of {name}" for name, count in sizes.items())
    whose = replay.get("whose", "the acceptance data of Llama-3.1-8B-Instruct that Liu et al. (2025) published")
    return f"a replay of {whose}, {listed}; intervals: 95%, {replay['resamples']:,} resamples of the requests"


def simulate(seed: int, pair: str | None = None) -> Numbers:
    """Return acceptance by depth, and the error in tokens of a round by a rate, a profile and split rounds."""
    series, (replay, record) = [], _replay(pair)
    for name, one in replay["data"].items():
        depths = one["acceptance"]
        deep = sum(count >= ENOUGH for count in depths["examined"])
        series.append(
            {
                "name": name,
                "x": depths["depth"][:deep],
                "y": depths["alpha"][:deep],
                "interval": depths["interval"][:deep],
                "length": one["tokens"]["length"],
                "tokens": one["tokens"]["true"],
                "first_draft": [depths["at_length_1"], depths["alpha"][0]],
                **{kind: one["errors"][kind]["relative"] for kind in (RATE, PROFILE, SPLIT)},
            }
        )
    names = (
        (axis("depth d"), axis("acceptance given d − 1")),
        (axis("draft length K"), axis("error, rate fitted at K = 1", "%")),
        (axis("draft length K"), axis("error, from rounds of 15 drafts", "%")),
    )
    statistics = {
        one["name"]: {
            **{f"{kind.split()[0]}_error_at_7": one[kind][SHOWN - 1] for kind in (RATE, PROFILE, SPLIT)},
            "first_beyond_5_percent": next((k + 1 for k, e in enumerate(one[RATE]) if abs(e) > 0.05), None),
            **{f"{kind.split()[0]}_error_largest": max(one[kind], key=abs) for kind in (RATE, PROFILE, SPLIT)},
        }
        for one in series
    }
    worst = max(statistics, key=lambda name: abs(statistics[name]["profile_error_largest"]))
    told = zip(("worst", "first", "second"), (worst, *statistics), strict=False)
    return {
        "axes": [{"x": x, "y": y} for x, y in names],
        "series": series,
        "statistics": statistics | {place: statistics[name] | {"name": name} for place, name in told},
        "basis": _basis(replay),
        **record,
    }


def paint(numbers: Numbers) -> Canvas:
    figure, (left, middle, right) = canvas(SIZE, panels=3)
    for one, look in zip(numbers["series"], STYLES, strict=False):
        style = look | {"markersize": 3}
        low, high = zip(*one["interval"], strict=True)
        left.plot(one["x"], one["y"], label=one["name"], **style)
        left.fill_between(one["x"], low, high, color=style["color"], alpha=0.15, linewidth=0)
        middle.plot(one["length"], [100.0 * e for e in one[RATE]], **style)
        right.plot(one["length"], [100.0 * e for e in one[PROFILE]], **style)
        if one is numbers["series"][-1]:
            split = style | {"markerfacecolor": "white", "linestyle": (0, (1, 1.5)), "label": "split rounds"}
            right.plot(one["length"], [100.0 * e for e in one[SPLIT]], **split)
    name_panels((left, middle, right), numbers["axes"])
    for axes, title in zip((left, middle, right), ("measured", "a single rate", "acceptance by depth"), strict=True):
        axes.set(xticks=[1, 5, 10, 15], title=title)
    left.set(ylim=(0, 1))
    for axes in (middle, right):
        band = axes.axhspan(-5.0, 5.0, color="0.93", linewidth=0)
        axes.set(ylim=(-28, 21))
    right.legend(loc="upper right")
    handles, labels = left.get_legend_handles_labels()
    figure.legend([*handles, band], [*labels, "within 5%"], loc="outside lower center", ncols=5)
    return figure


def _relative(kind: str, place: int) -> Any:
    return lambda one: _percent(one["errors"][kind]["relative"][place])


def _largest(kind: str) -> Any:
    return lambda one: _percent(max(one["errors"][kind]["relative"], key=abs))


def _at_shown(one: dict[str, Any]) -> str:
    rate = one["errors"][RATE]
    low, high = rate["interval"][SHOWN - 1]
    return f"{_percent(rate['relative'][SHOWN - 1])} [{_percent(low)}, {_percent(high)}]"


def _first_alone(one: dict[str, Any]) -> str:
    alone = float(expected_tokens(one["acceptance"]["alpha"][0], SHOWN))
    return _percent(alone / one["tokens"]["true"][SHOWN - 1] - 1.0)


COLUMNS = {
    "drafts, texts": "{name}",
    "first draft accepted at K = 1, at K = 15": "{acceptance[at_length_1]:.3f}, {acceptance[alpha][0]:.3f}",
    f"tokens of a round at K = {SHOWN}": f"{{tokens[true][{SHOWN - 1}]:.3f}}",
    f"error at K = {SHOWN}, rate fitted at 1": _at_shown,
    "by the first draft at 15": _first_alone,
    "beyond 5% from": lambda one: f"K = {found[0]}" if (found := one["errors"][RATE]["beyond_5_percent"]) else "none",
    "error at K = 1 and 15, rate fitted at 7": lambda one: (
        f"{_relative('rate at 7', 0)(one)}, {_relative('rate at 7', 14)(one)}"
    ),
    "largest error, profile at 15": _largest(PROFILE),
    "largest error, split rounds of 15": _largest(SPLIT),
}


def simulate_table(seed: int, pair: str | None = None) -> Numbers:
    """Return Table X of ours: the errors of each estimate of the tokens of a round."""
    replay, record = _replay(pair)
    rows = [{"name": name, **one} for name, one in replay["data"].items()]
    made = table_of("Expected tokens of a round, estimated and replayed", COLUMNS, rows)
    return {"axes": [], "series": [], "statistics": {}, "tables": [made], "basis": _basis(replay), **record}
