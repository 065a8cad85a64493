"""Set the common style of all figures: sizes, colours, axes, legends, and reproducible file bytes."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from validation.decoding.methods.registry import COLORS
from validation.printable import printable

Axes: TypeAlias = Any  # of matplotlib, which is imported to draw only
Canvas: TypeAlias = Any  # its Figure

_NAMES = (Path(__file__).parents[1] / "curves.toml").read_text(encoding="utf-8")
CURVES: dict[str, dict[str, str]] = tomllib.loads(_NAMES)
"""What pictures and tables call curves, bars and schemes."""

COLUMN = (3.4, 2.55)  # inches: one panel
PAGE = (7.0, 3.0)  # two panels

SMALLEST = 7
"""Points of the smallest text; a page shows a picture at its own size."""

MOST = 5
"""Series that one panel may hold, so that they can be told apart."""

DARK, PALE, LIGHT = COLORS["ours"], COLORS["ours light"], "#b9c6d8"
"""What is ours or measured: a curve, a second one, an area."""
MIDDLE, AMBER = COLORS["paper"], COLORS["paper light"]
"""What a paper proposes: a curve, a second one."""
GREY = COLORS["rival"]
"""A baseline. A bound that nothing exceeds is black."""
DASHED: dict[str, Any] = {"linestyle": (0, (4, 2))}
DOTTED: dict[str, Any] = {"linestyle": (0, (1, 1.5))}
LOOKS: tuple[dict[str, Any], ...] = ({"color": DARK}, {"color": PALE, **DASHED}, {"color": GREY, **DOTTED})
"""Three curves of one kind, which are ours or measured."""
PRINTED: dict[str, Any] = {"marker": "D", "markersize": 4.5, "markerfacecolor": "white", "color": "black"}
PRINTED |= {"linestyle": "none", "zorder": 5}
"""A value that a paper prints: a white diamond."""

_STYLE = Path(__file__).with_name("house.mplstyle")


@contextmanager
def house_style() -> Iterator[None]:
    """Apply ``house.mplstyle`` over matplotlib's own defaults, and ignore the user's; restore them afterwards."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rc_file(_STYLE)
        yield


def canvas(size: tuple[float, float], panels: int = 1, rows: int = 1) -> tuple[Canvas, list[Axes]]:
    """Return a figure with rows of panels, row by row, made without pyplot and its global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, panels, squeeze=False).flat)


def headed(figure: Canvas, message: str, basis: str = "") -> Canvas:
    """Return a figure with its message above and its basis below, taller by both: the panels keep their size."""
    width, height = figure.get_size_inches()
    text, below = fill(label(message), int(15 * width)), fill(printable(basis), int(8 + 17.5 * width))
    foot = 0.12 * len(below.splitlines())
    height += 0.09 + 0.135 * (1 + text.count("\n")) + foot
    figure.set_size_inches(width, height)
    figure.text(0.01, 0.03 / height, below, fontsize=SMALLEST, color="0.35", va="bottom", parse_math=False)
    figure.get_layout_engine().set(rect=(0, foot / height, 1, 1 - foot / height))
    for legend in figure.legends:  # at the lower edge
        legend.borderaxespad += 72 * foot / legend.prop.get_size_in_points()
    figure.suptitle(text, x=0.01, ha="left", fontsize=8)
    figure.set_label(message)
    return figure


def legend_below(axes: Axes, columns: int = 1, **options: Any) -> None:
    """Put a panel's own legend below its axis label, where it covers no curve."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -28 / 72, canvas_of(axes).dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "fontsize": SMALLEST}
    axes.legend(**(place | {"ncols": columns, "bbox_transform": below} | options))


def canvas_of(axes: Axes) -> Canvas:
    figure = axes.get_figure(root=True)
    assert figure is not None, "the panel has been removed from its figure"
    return figure


def label(text: str) -> str:
    """Return text with r̂, q̂ and β_d as mathematics, because they need a typesetter."""
    for letter in "rq":
        text = text.replace(f"{letter}\u0302", rf"$\hat{{{letter}}}$")
    return text.replace("β_d", r"$\beta_d$")


def axis(label: str, unit: str = "", scale: str = "linear") -> dict[str, str]:
    """Return one axis of a panel, as the numbers of a figure hold it."""
    return {"label": label, "unit": unit, "scale": scale}


def name_axes(axes: Axes, names: dict[str, dict[str, str]]) -> None:
    for side in ("x", "y"):
        name = names[side]
        unit = f" ({name['unit']})" if name["unit"] else ""
        axes.set(**{f"{side}label": label(name["label"]) + unit, f"{side}scale": name["scale"]})


def name_panels(panels: Sequence[Axes], names: Sequence[dict[str, dict[str, str]]]) -> None:
    """Name the axes of a row of panels; the label that the panel to the left has is left out."""
    for place, (axes, both) in enumerate(zip(panels, names, strict=True)):
        name_axes(axes, both)
        if place and both["y"] == names[place - 1]["y"]:
            axes.set_ylabel("")


def values(row: Sequence[float | None]) -> NDArray[np.float64]:
    """Return numbers to draw, with NaN for None."""
    return np.array(row, dtype=np.float64)


def draw_band(axes: Axes, series: dict[str, Any], **look: Any) -> None:
    """Draw the mean of a series, with its interval as a band if it has one; both are steps by their ``drawstyle``."""
    if "low" in series:
        ends = values(series["low"]), values(series["high"])
        step = "post" if look.get("drawstyle") == "steps-post" else None
        axes.fill_between(series["x"], *ends, step=step, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(series["x"], values(series["mean"]), label=series["name"], **({"markersize": 3} | look))


PICTURES: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
"""Picture formats, and the metadata left out of each: dates and versions."""

DARK_PAGE = (
    "<style>@media (prefers-color-scheme: dark) "
    "{ svg:root { color-scheme: dark; filter: invert(.91) hue-rotate(180deg); } }</style>"
)
"""Turns light and dark around on a dark page and keeps the hues; ``:root`` leaves a picture inside of HTML alone."""


def save(figure: Canvas, path: Path) -> None:
    """Write a picture in the format of the path's suffix; its bytes depend only on the drawing."""
    kind = path.suffix.removeprefix(".")
    title = {"Title": str(figure.get_label())} if kind == "svg" and figure.get_label() else {}
    figure.savefig(path, format=kind, metadata=PICTURES[kind] | title, transparent=kind == "svg")
    if kind == "svg":
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"(<svg\b[^>]*>)", rf"\1\n {DARK_PAGE}", text, count=1), encoding="utf-8")
