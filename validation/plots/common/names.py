"""Write names beside the points of a panel, so that no two names overlap and no two leader lines cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from validation.plots.common.style import SMALLEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Box = tuple[float, float, float, float]
Spot = tuple[float, float]

_PLACES = [
    (side * dx, dy)
    for dx in (6, 12, 22, 34, 50, 70)
    for dy in (0, 8, -8, 16, -16, 26, -26, 38, -38, 52, -52)
    for side in (1, -1)
]
"""Offsets of a name from its point, in points, the preferred first."""

_ROUNDS = 8
"""Largest number of times that the names are placed anew, given the places of the others."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One place of a name: its box, the end of its leader line there, and its cost apart from the other names."""

    box: Box
    shift: tuple[int, int]
    near: Spot
    cost: float

    @property
    def has_leader(self) -> bool:
        return abs(self.shift[0]) > 9 or abs(self.shift[1]) > 9


def name_points(
    axes: Axes,
    points: Sequence[tuple[float, float, str]],
    size: float = SMALLEST,
    avoid: Sequence[Sequence[tuple[float, float]]] = (),
) -> None:
    """Write names beside points, once the limits are set; points that coincide share one name.

    Each name takes the place around its point that is inside the panel, overlaps no point and no other name, whose
    leader line crosses no other leader line and no name, that covers little of the polylines of ``avoid`` (in data
    units) and is near. The names are placed one after the other, then each anew, until none moves.
    """
    from matplotlib.patheffects import withStroke

    figure = axes.get_figure(root=True)
    assert figure is not None, "the panel has been removed from its figure"
    figure.draw_without_rendering()  # the layout gives the panel its place
    scale = 72.0 / figure.dpi
    frame = [value * scale for value in axes.get_window_extent().extents]
    there: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for x, y, name in points:
        px, py = (float(value) * scale for value in axes.transData.transform((x, y)))
        near = next((key for key in there if abs(key[0] - px) < 3 and abs(key[1] - py) < 3), (round(px), round(py)))
        there.setdefault(near, []).append((x, y, name))
    spots = sorted(there, key=lambda spot: -spot[1])
    drawn = [box for line in avoid for box in _along(axes.transData.transform(line) * scale)]
    marks = [(px - 4, py - 4, px + 4, py + 4) for px, py in spots]
    choices = [_choices(spot, [name for *_, name in there[spot]], size, frame, marks, drawn) for spot in spots]
    for spot, place in zip(spots, _settled(spots, choices), strict=True):
        here, (dx, dy) = there[spot], place.shift
        arrow: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.4", "shrinkA": 0, "shrinkB": 2}
        arrow["relpos"] = (1 if dx < 0 else 0, 0.5)  # from the edge that faces the point
        axes.annotate(
            "\n".join(name for *_, name in here),
            here[0][:2],
            (dx, dy),
            textcoords="offset points",
            fontsize=size,
            ha="right" if dx < 0 else "left",
            va="center",
            arrowprops=arrow if place.has_leader else None,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
        ).set_in_layout(False)


def _choices(
    spot: Spot, lines: Sequence[str], size: float, frame: Sequence[float], marks: Sequence[Box], drawn: Sequence[Box]
) -> list[_Place]:
    """Return the places of a name, with what each costs for its distance and for what it covers."""
    (px, py), found = spot, []
    width, height = 0.56 * size * max(map(len, lines)), 1.25 * size * len(lines)
    for shift in _PLACES:
        left = px + shift[0] - (width if shift[0] < 0 else 0.0)
        box = (left, py + shift[1] - height / 2, left + width, py + shift[1] + height / 2)
        inside = box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] + 4 and box[3] <= frame[3]
        near = (px + shift[0], py + shift[1])
        cost = 0.3 * (abs(shift[0]) + abs(shift[1])) + 10_000 * (not inside)
        cost += 1000 * sum(_overlap(box, mark) for mark in marks) + sum(_overlap(box, one) for one in drawn)
        found.append(_Place(box, shift, near, cost))
        if found[-1].has_leader:
            passed = sum(_meets(spot, near, mark) for mark in marks) - 1  # the point's own mark
            found[-1] = replace(found[-1], cost=cost + 30 * passed)
    return found


def _settled(spots: Sequence[Spot], choices: Sequence[Sequence[_Place]]) -> list[_Place]:
    """Return the place of each name: each the cheapest, given the others."""
    chosen: dict[int, _Place] = {}
    for _ in range(_ROUNDS):
        before = dict(chosen)
        for index, spot in enumerate(spots):
            others = [(spots[k], one) for k, one in chosen.items() if k != index]
            costs = [one.cost + sum(_conflict(spot, one, *other) for other in others) for one in choices[index]]
            chosen[index] = choices[index][costs.index(min(costs))]
        if chosen == before:
            break
    return [chosen[index] for index in range(len(spots))]


def _conflict(spot: Spot, place: _Place, other_spot: Spot, other: _Place) -> float:
    """Return what two names cost together: overlapping boxes, crossing leader lines, a leader line through a name."""
    cost = 1000.0 * _overlap(place.box, other.box)
    if place.has_leader:
        cost += 1000 * _meets(spot, place.near, other.box)
    if other.has_leader:
        cost += 1000 * _meets(other_spot, other.near, place.box)
    if place.has_leader and other.has_leader:
        cost += 1000 * crosses((spot, place.near), (other_spot, other.near))
    return cost


def crosses(one: tuple[Spot, Spot], other: tuple[Spot, Spot]) -> bool:
    """Return whether two line segments cross.

    >>> crosses(((0, 0), (2, 2)), ((0, 2), (2, 0))), crosses(((0, 0), (1, 0)), ((0, 1), (1, 1)))
    (True, False)
    """

    def turn(a: Spot, b: Spot, c: Spot) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    apart = turn(*one, other[0]) * turn(*one, other[1]) >= 0 or turn(*other, one[0]) * turn(*other, one[1]) >= 0
    return not apart


def _meets(start: Spot, end: Spot, box: Box) -> bool:
    """Return whether a line segment passes through a box: the interval of its share inside is not empty."""
    low, high = 0.0, 1.0
    for axis in (0, 1):
        step = end[axis] - start[axis]
        if step == 0:
            if not box[axis] < start[axis] < box[axis + 2]:
                return False
            continue
        first, last = sorted(((box[axis] - start[axis]) / step, (box[axis + 2] - start[axis]) / step))
        low, high = max(low, first), min(high, last)
    return low < high


def _along(line: Any) -> list[Box]:
    """Return small boxes along a polyline whose corners are in points."""
    boxes: list[Box] = []
    for (x0, y0), (x1, y1) in pairwise(line):
        count = max(2, round(max(abs(x1 - x0), abs(y1 - y0)) / 2))
        for step in range(count + 1):
            x, y = x0 + (x1 - x0) * step / count, y0 + (y1 - y0) * step / count
            boxes.append((x - 0.5, y - 0.5, x + 0.5, y + 0.5))
    return boxes


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
