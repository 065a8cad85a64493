"""Names at the ends of curves, and pictures on a dark page."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.text import Text

from validation.plots.common.ends import label_ends
from validation.plots.common.style import DARK_PAGE, canvas, house_style, save


def test_names_of_curves_that_end_together_are_above_each_other_and_beside_the_panel():
    figure, (axes,) = canvas((3.4, 2.5))
    for name, end in (("first", 1.0), ("second", 1.01), ("third, a long name", 1.0), ("low", 0.0)):
        axes.plot([0, 1], [0.5, end], label=name)
    axes.axvline(0.5, label="a place")
    axes.plot([0, 1], [np.nan, np.nan], label="nothing")
    label_ends(axes, {"low": "lowest", "second": ""}, wrap=12, order=("first", "third, a long name"))
    figure.draw_without_rendering()
    found = {text.get_text(): Text.get_window_extent(text) for text in axes.texts}
    assert list(found) == ["lowest", "third, a\nlong name", "first"]
    middles = sorted(found.values(), key=lambda box: box.y0)
    assert all(one.y1 <= other.y0 + 1 for one, other in pairwise(middles))
    assert min(box.x0 for box in found.values()) >= axes.get_window_extent().x1
    assert max(box.x1 for box in found.values()) <= figure.bbox.x1


def test_an_svg_has_no_background_and_turns_dark_with_its_page(tmp_path: Path):
    with house_style():
        figure, (axes,) = canvas((3.4, 2.5))
        axes.plot([0, 1], [0, 1])
        for suffix in ("svg", "png"):
            save(figure, tmp_path / f"one.{suffix}")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text.count(DARK_PAGE) == 1
    assert re.search(r"<svg\b[^>]*>\s*<style>@media \(prefers-color-scheme: dark\)", text)
    assert "fill: #ffffff" not in text
