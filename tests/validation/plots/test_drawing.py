"""Every published figure, painted anew from its stored numbers: few series, told apart in grey, inside the frame."""

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer
from matplotlib.text import Text

import hlmtheory
from validation.plots import EXHIBITS, picture_of, restate
from validation.plots.common.style import DARK, MOST, PICTURES, SMALLEST, Axes, Canvas, canvas, house_style, save

SHELF = Path(__file__).resolve().parents[3] / "figures"
BY_STEM = {one.stem: one for one in EXHIBITS.values() if one.paint is not None}
STORED = [
    sidecar
    for folder in ("", "wide", "instructed", "smollm2", "qwen-coder")
    for sidecar in sorted((SHELF / folder).glob("*.json"))
    if sidecar.stem in BY_STEM
]
GREYS = 8  # levels of grey that are told apart
EDGE = 1.0  # pixels


def painted(sidecar: Path) -> Canvas:
    numbers = json.loads(sidecar.read_text(encoding="utf-8"))
    with house_style():
        figure = picture_of(BY_STEM[sidecar.stem], numbers)
        FigureCanvasAgg(figure)
    return figure


def grey(color: Any) -> int:
    red, green, blue = to_rgb(color)
    return round(GREYS * (0.299 * red + 0.587 * green + 0.114 * blue))


def reference(line: Any) -> bool:
    return line.get_transform() != line.axes.transData


def looks(axes: Axes) -> dict[str, tuple[Any, ...]]:
    """Return how each named series of a panel looks in grey: lines, points with intervals, and bars."""
    found: dict[str, tuple[Any, ...]] = {}
    parts = {id(line) for one in axes.containers if not isinstance(one, BarContainer) for line in one.get_children()}
    named = [(line.get_label(), line) for line in axes.get_lines() if id(line) not in parts]
    named += [(one.get_label(), one[0]) for one in axes.containers if not isinstance(one, BarContainer)]
    for name, line in named:
        if line is None or not str(name) or str(name).startswith("_") or reference(line):
            continue
        marker, face = line.get_marker(), line.get_markerfacecolor()
        marks = None if marker in ("", " ", "None", None) else (str(marker), grey(face) if marker not in "x+|_." else 0)
        dashes = line.get_linestyle() if line.get_linestyle() == "None" else str(line._unscaled_dash_pattern[1])
        width = round(line.get_linewidth() / 1.5)
        found[name] = (grey(line.get_color()), dashes, marks, width)
    for bars in (one for one in axes.containers if isinstance(one, BarContainer)):
        if not bars.get_label().startswith("_"):
            found[f"bars {bars.get_label()}"] = ("bars", grey(bars.patches[0].get_facecolor()[:3]))
    for area in axes.collections:
        if str(area.get_label()) and not str(area.get_label()).startswith("_") and len(area.get_facecolor()):
            found[str(area.get_label())] = ("area", grey(area.get_facecolor()[0][:3]))
    return found


def texts(figure: Canvas) -> Iterator[Text]:
    """Yield every text that is drawn, without the labels of ticks beyond an axis's limits."""
    beyond = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-6 * (high - low)
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        there = axis.get_visible() and axis.axes.axison
        shown = {id(tick) for tick in ticks if there and low - slack <= tick.get_loc() <= high + slack}
        beyond |= {id(text) for tick in ticks if id(tick) not in shown for text in (tick.label1, tick.label2)}
    for text in figure.findobj(Text):
        drawn = id(text) not in beyond and text.get_visible() and text.get_text().strip()
        if drawn and (text.axes is None or text.axes.axison):
            yield text


def faults(figure: Canvas) -> list[str]:
    """Return what is wrong.

    Too many series, two that look alike, text that is small, outside of the frame or over another.
    """
    wrong = []
    figure.draw_without_rendering()
    for place, axes in enumerate(figure.axes):
        found = looks(axes)
        if len(found) > MOST:
            wrong.append(f"panel {place} has {len(found)} series: {', '.join(found)}")
        seen: dict[tuple[Any, ...], str] = {}
        for name, look in found.items():
            if look in seen:
                wrong.append(f"panel {place}: {seen[look]} and {name} look alike in grey")
            seen[look] = name
    frame = figure.bbox
    for text in texts(figure):
        if text.get_fontsize() < SMALLEST:
            wrong.append(f"{text.get_text()!r} is smaller than {SMALLEST} points")
        box = text.get_window_extent()
        if box.x0 < -EDGE or box.y0 < -EDGE or box.x1 > frame.x1 + EDGE or box.y1 > frame.y1 + EDGE:
            wrong.append(f"{text.get_text()!r} leaves the frame")
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts(figure)]  # without arrows
    for (one, box), (other, beside) in combinations(boxes, 2):
        width = min(box.x1, beside.x1) - max(box.x0, beside.x0)
        if width > EDGE and min(box.y1, beside.y1) - max(box.y0, beside.y0) > EDGE:
            wrong.append(f"{one!r} and {other!r} overlap")
    return wrong


@pytest.mark.parametrize("sidecar", STORED, ids=lambda one: str(one.relative_to(SHELF).with_suffix("")))
def test_a_figure_has_few_series_told_apart_in_grey_and_inside_its_frame(sidecar: Path):
    assert faults(painted(sidecar)) == []


@pytest.mark.parametrize("name", ["ours-fig3", "cu-hlm-fig1"])
def test_a_figure_is_saved_in_each_format_and_stays_small(name: str, tmp_path: Path):
    figure = painted(SHELF / f"{name}.json")
    for file in (tmp_path / f"{name}.{suffix}" for suffix in PICTURES):
        with house_style():
            save(figure, file)
        assert 10_000 < file.stat().st_size < 600_000


def test_a_stored_figure_is_described_and_painted_anew_without_its_models(tmp_path: Path):
    for name, picture in (("ours-fig4", True), ("ours-tableI", False)):
        sidecar, about = tmp_path / f"{name}.json", json.loads((SHELF / f"{name}.json").read_text(encoding="utf-8"))
        sidecar.write_text(json.dumps(about | {"caption": "Old."}), encoding="utf-8")
        assert (restate(sidecar) is not None) is picture
        assert sidecar.with_suffix(".svg").exists() is picture
        assert json.loads(sidecar.read_text(encoding="utf-8")) == about | {"described_by": hlmtheory.__version__}


def drawing() -> tuple[Canvas, Axes]:
    figure, (axes,) = canvas((3.4, 2.5))
    FigureCanvasAgg(figure)
    return figure, axes


def test_the_faults_are_found():
    figure, axes = drawing()
    for k in range(MOST):
        axes.plot([0, 1], [0, k], marker="os^vD"[k], label=str(k))
    assert faults(figure) == []
    axes.plot([0, 1], [3, 9], marker="P", label="one more")
    assert "6 series" in faults(figure)[0]

    figure, axes = drawing()
    axes.plot([0, 1], [0, 1], color=DARK, label="a")
    axes.plot([0, 1], [1, 0], color="#3b2a10", label="b")  # another colour, the same grey
    axes.axhline(0.5, color=DARK, label="a reference")
    assert faults(figure) == ["panel 0: a and b look alike in grey"]

    figure, axes = drawing()
    for place in (0.5, 0.52):
        axes.text(place, 0.5, "name")
    assert faults(figure) == ["'name' and 'name' overlap"]

    figure, axes = drawing()
    axes.text(0.5, 0.5, "small", fontsize=6)
    assert faults(figure) == ["'small' is smaller than 7 points"]
