"""Write the name of each curve or point at the right edge of its panel, so that a panel needs no legend."""

import re
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from validation.plots.common.style import SMALLEST, Axes, canvas_of

_LINE = 1.25
"""Height of a line of text over its size."""
_GAP = 6.0
"""Points between the right edge of the panel and the names; twice as many if some name was moved from its curve."""
_MOVED = 3.0
"""Points from which on a name is moved; then a thin line joins each name of the panel and its curve."""
MARKS = {"o": "●\xa0", "D": "◆\xa0", "s": "■\xa0", "^": "▲\xa0", "v": "▼\xa0", "d": "♦\xa0", ">": "▶\xa0", "*": "★\xa0"}
"""Mark of a curve, before its name."""


def label_ends(
    axes: Axes, names: Mapping[str, str] | None = None, *, wrap: int = 18, order: Sequence[str] = ()
) -> None:
    """Write the name of each labelled curve beside its last point, in its colour; the names do not overlap."""
    ends = []
    for place, (label, line) in enumerate(_curves(axes)):
        if name := (names or {}).get(label, label):
            whole = re.sub(r"\(.*?\)", lambda part: part[0].replace(" ", "\xa0"), name)
            text = fill(MARKS.get(line.get_marker(), "") + whole, wrap, break_long_words=False)
            ends.append((list(order).index(label) if label in order else place, text, line))
    _write_all(axes, ends, tied=bool(order))


def name_points(axes: Axes, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the names of points in their colours at the right edge, each at the end of a line; limits must be set."""
    left, right = axes.get_xlim()
    look: dict[str, Any] = {"linewidth": 0.5, "linestyle": (0, (1, 2)), "zorder": 0.5}
    lines = [axes.plot([x, right], [y, y], color=color, **look)[0] for x, y, _, color in points]
    axes.set_xlim(left, right)
    _write_all(
        axes, [(place, fill(one[2], 21), line) for place, (one, line) in enumerate(zip(points, lines, strict=True))]
    )


def _write_all(axes: Axes, ends: Sequence[tuple[int, str, Any]], *, tied: bool = False) -> None:
    figure = canvas_of(axes)
    figure.get_layout_engine().execute(figure)  # it gives the panel its height
    scale = 72.0 / figure.dpi
    bottom, top = (float(value) * scale for value in axes.get_window_extent().intervaly)
    found = []
    for rank, text, line in ends:
        height = _last(line)
        if height is not None:
            found.append((min(max(height * scale, bottom), top), rank, text, line.get_color()))
    found.sort(key=lambda one: (round(one[0], 1 if tied else 3), -one[1]))
    sizes = [SMALLEST * _LINE * (1 + text.count("\n")) for *_, text, _ in found]
    middles = apart([one[0] for one in found], sizes)
    moved = any(abs(one[0] - middle) > _MOVED for one, middle in zip(found, middles, strict=True))
    for (height, _, text, color), middle in zip(found, middles, strict=True):
        _write(axes, text, color, height - bottom, middle - bottom, top - bottom, moved=moved)


def _curves(axes: Axes) -> list[tuple[str, Any]]:
    found = []
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        line = handle[0] if isinstance(handle, tuple) else handle
        upright = hasattr(line, "get_ydata") and line.get_transform() == axes.get_xaxis_transform("grid")  # axvline
        if hasattr(line, "get_ydata") and len(line.get_ydata()) and not upright:
            found.append((label, line))
    return found


def _last(line: Any) -> float | None:
    x, y = (np.asarray(one, dtype=np.float64) for one in (line.get_xdata(), line.get_ydata()))
    known = np.flatnonzero(np.isfinite(y))
    if not known.size:
        return None
    return float(line.get_transform().transform((x[known[-1]], y[known[-1]]))[1])


def apart(heights: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Return the middles of boxes of these sizes, in order, that do not overlap and move least from their heights.

    >>> apart([10.0, 11.0, 40.0], [8.0, 8.0, 8.0])
    [6.5, 14.5, 40.0]
    """
    blocks: list[tuple[list[int], float]] = []  # indices, bottom
    for index, (height, size) in enumerate(zip(heights, sizes, strict=True)):
        members, low = [index], height - size / 2
        while blocks and blocks[-1][1] + sum(sizes[i] for i in blocks[-1][0]) > low:
            members = blocks.pop()[0] + members
            starts = np.cumsum([0.0, *(sizes[i] for i in members[:-1])])
            low = float(np.mean([heights[i] - sizes[i] / 2 - s for i, s in zip(members, starts, strict=True)]))
        blocks.append((members, low))
    middles = []
    for members, low in blocks:
        for i in members:
            middles.append(float(low + sizes[i] / 2))
            low += sizes[i]
    return middles


def _write(axes: Axes, text: str, color: Any, end: float, middle: float, height: float, *, moved: bool) -> None:
    arrow: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.5, "color": color, "shrinkA": 0, "shrinkB": 0}
    axes.annotate(
        text,
        (1.0, end / height),
        (2 * _GAP if moved else _GAP, middle - end),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=SMALLEST,
        color=readable(color),
        va="center",
        annotation_clip=False,
        arrowprops=arrow | {"relpos": (0.0, 0.5)} if moved else None,
    )


def readable(color: Any) -> tuple[float, float, float]:
    """Return a colour that is dark enough for text on white: its luma is at most 0.45."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    share = min(1.0, 0.45 / luma) if luma else 1.0
    return red * share, green * share, blue * share
