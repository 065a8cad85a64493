"""Set the common style of all figures: sizes, lines, greys, and reproducible file bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = (3.4, 2.55)  # inches: one panel
PAGE = (7.0, 3.0)  # two panels

MOST = 5
"""Series that one panel may hold, so that they can be told apart."""

DARK, MIDDLE, LIGHT = "#16325c", "#c2571a", "#b9c6d8"  # in grey: nearly black, middle, light

SETTINGS: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": True,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "0.8",
    "patch.linewidth": 0.5,
    "mathtext.fontset": "dejavusans",
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.color": "0.88",
    "lines.linewidth": 1.3,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "savefig.dpi": 250,  # for the raster parts inside the SVG
    "svg.fonttype": "path",
    "svg.hashsalt": "hlm",
    "pdf.fonttype": 42,  # keep text as text, so that it can be searched and edited
}


@contextmanager
def house_style() -> Iterator[None]:
    """Apply these settings over matplotlib's own defaults, ignoring the user's; restore them afterwards."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


def canvas(size: tuple[float, float], panels: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with rows of panels, row by row, made without pyplot and its global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, panels, squeeze=False).flat)


def groups(names: Sequence[str]) -> list[list[str]]:
    """Return names in as few groups as possible, in order and of about equal size, for panels of at most MOST series.

    >>> [len(group) for group in groups("abcdefghijk")]
    [4, 4, 3]
    """
    count = max(1, -(-len(names) // MOST))
    ends = [round(len(names) * k / count + 1e-9) for k in range(count + 1)]
    return [list(names[first:last]) for first, last in pairwise(ends)]


def legend_below(axes: Axes, columns: int = 1, **options: Any) -> None:
    """Put a panel's own legend below its axis label, where it covers no curve."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -28 / 72, _canvas(axes).dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "fontsize": 6}
    axes.legend(**(place | {"ncols": columns, "bbox_transform": below} | options))


def name_points(
    axes: Axes,
    points: Sequence[tuple[float, float, str]],
    size: float = 6.0,
    avoid: Sequence[Sequence[tuple[float, float]]] = (),
) -> None:
    """Write names beside points, once the limits are set; points that coincide share one name.

    Each name takes the place around its point that is inside the panel, overlaps no point and no other name, covers
    little of the polylines of ``avoid`` (in data units) and is near.
    """
    from matplotlib.patheffects import withStroke

    figure = _canvas(axes)
    figure.draw_without_rendering()  # the layout gives the panel its place
    scale = 72.0 / figure.dpi
    frame = [value * scale for value in axes.get_window_extent().extents]
    there: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for x, y, name in points:
        px, py = (float(value) * scale for value in axes.transData.transform((x, y)))
        near = next((key for key in there if abs(key[0] - px) < 3 and abs(key[1] - py) < 3), (round(px), round(py)))
        there.setdefault(near, []).append((x, y, name))
    taken: list[tuple[float, ...]] = [(px - 4, py - 4, px + 4, py + 4) for px, py in there]
    drawn = [box for line in avoid for box in _along(axes.transData.transform(line) * scale)]
    for (px, py), here in sorted(there.items(), key=lambda one: -one[0][1]):
        lines = [name for _, _, name in here]
        width, height = 0.56 * size * max(map(len, lines)), 1.25 * size * len(lines)
        least = math.inf
        for shift in _PLACES:
            left = px + shift[0] - (width if shift[0] < 0 else 0.0)
            tried = (left, py + shift[1] - height / 2, left + width, py + shift[1] + height / 2)
            inside = tried[0] >= frame[0] and tried[1] >= frame[1] and tried[2] <= frame[2] + 4 and tried[3] <= frame[3]
            covered = 1000 * sum(_overlap(tried, other) for other in taken) + sum(_overlap(tried, one) for one in drawn)
            cost = covered + 0.3 * (abs(shift[0]) + abs(shift[1])) + 10_000 * (not inside)
            if cost < least:
                least, box, (dx, dy) = cost, tried, shift
        taken.append(box)
        arrow = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.4", "shrinkA": 0, "shrinkB": 2}
        axes.annotate(
            "\n".join(lines),
            here[0][:2],
            (dx, dy),
            textcoords="offset points",
            fontsize=size,
            ha="right" if dx < 0 else "left",
            va="center",
            arrowprops=arrow if abs(dy) > 9 or abs(dx) > 9 else None,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
        ).set_in_layout(False)


_PLACES = [
    (side * dx, dy) for dx in (6, 12, 22, 34) for dy in (0, 8, -8, 16, -16, 26, -26, 38, -38) for side in (1, -1)
]
"""Offsets of a name from its point, in points, the preferred first."""


def _canvas(axes: Axes) -> Figure:
    """Return the whole figure of a panel."""
    figure = axes.get_figure(root=True)
    assert figure is not None, "the panel has been removed from its figure"
    return figure


def _along(line: Any) -> list[tuple[float, ...]]:
    """Return small boxes along a polyline whose corners are in points."""
    boxes: list[tuple[float, ...]] = []
    for (x0, y0), (x1, y1) in pairwise(line):
        count = max(2, round(max(abs(x1 - x0), abs(y1 - y0)) / 2))
        for step in range(count + 1):
            x, y = x0 + (x1 - x0) * step / count, y0 + (y1 - y0) * step / count
            boxes.append((x - 0.5, y - 0.5, x + 0.5, y + 0.5))
    return boxes


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def label(text: str) -> str:
    r"""Return text with r̂ and q̂ as mathematics, because they need a typesetter.

    >>> label("TV(r, r̂)")
    'TV(r, $\\hat{r}$)'
    """
    for letter in "rq":
        text = text.replace(f"{letter}\u0302", rf"$\hat{{{letter}}}$")
    return text


def axis(label: str, unit: str = "", scale: str = "linear") -> dict[str, str]:
    """Return one axis of a panel, as the numbers of a figure hold it."""
    return {"label": label, "unit": unit, "scale": scale}


def name_axes(axes: Axes, names: dict[str, dict[str, str]]) -> None:
    """Label and scale both axes as the numbers specify."""
    for side in ("x", "y"):
        name = names[side]
        unit = f" ({name['unit']})" if name["unit"] else ""
        axes.set(**{f"{side}label": label(name["label"]) + unit, f"{side}scale": name["scale"]})


PICTURES: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
"""Picture formats, and the metadata left out of each: dates and versions."""


def save(figure: Figure, path: Path) -> None:
    """Write a picture in the format of the path's suffix; its bytes depend only on the drawing."""
    kind = path.suffix.removeprefix(".")
    figure.savefig(path, format=kind, metadata=PICTURES[kind])
