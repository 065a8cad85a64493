"""Draw the README's figure: device, link and server, and what each module decides.

``python -m validation.site.overview`` writes it. The picture is plain SVG, so that it is the same on every machine.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from validation.plots.common.style import DARK_PAGE
from validation.site.pages import ROOT

BLUE, GREEN, BROWN, INK, GREY = "#1f5fa8", "#2b7a4b", "#8a5a12", "#1c2733", "#5a6673"
TEXT = 'font-family="Helvetica, Arial, sans-serif"'
LABEL = "A device drafts tokens, a link carries their probabilities, a server verifies them; what each module decides."
DEVICE = (
    ("uncertainty", "how sure is the draft?"),
    ("skipping", "keep it unverified?"),
    ("draft_length", "how many drafts?"),
    ("truncation", "send which of V?"),
    ("lattice, codec", "in how many bytes?"),
    ("conformal", "with which budget?"),
)
LINK = (
    ("channel", "how long does it take?"),
    ("ofdma", "who gets which band?"),
    ("shared_seed", "is a token enough?"),
)
SERVER = (
    ("verification", "accept, or replace?"),
    ("serving", "how long is a pass?"),
    ("batching", "who shares a pass?"),
    ("lossless", "is the law still p?"),
)
PARTS = (  # colour, head, what it does, (module, what it decides)
    (BLUE, "Device", "draft model, distribution q", DEVICE),
    (BROWN, "Link", "rate, fading, round trip", LINK),
    (GREEN, "Server", "target model, distribution p", SERVER),
)
UP = ("up: K drafts, k of V probabilities each", "or nothing, if verification is skipped")
DOWN = "down: number accepted, one token"
POLICY = (
    "the best of all these for your models,",
    "your link and your limits: tokens per second,",
    "and how far the text may move from the",
    "target model's, proved or calibrated",
)
MIDDLE = ' text-anchor="middle"'
BOLD = ' font-weight="bold"'
WIDTH = 270  # of a part
ROW = 36


def _text(x: float, y: float, text: str, *, size: int = 15, color: str = INK, extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" {TEXT}{extra}>{escape(text)}</text>'


def _arrow(x1: float, y1: float, x2: float, y2: float, color: str) -> list[str]:
    """Return an arrow along an axis."""
    x, y = (0 if x1 == x2 else 1 if x2 > x1 else -1), (0 if y1 == y2 else 1 if y2 > y1 else -1)
    line = f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2 - 9 * x:g}" y2="{y2 - 9 * y:g}" stroke="{color}" stroke-width="3"/>'
    back = f"l{-12 * x + 6 * y} {-12 * y - 6 * x} l{-12 * y} {12 * x}"
    return [line, f'<path d="M{x2:g} {y2:g} {back} z" fill="{color}"/>']


def _box(left: float, top: float, width: float, height: float, color: str) -> str:
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="10" fill="{color}" '
        f'fill-opacity="0.07" stroke="{color}" stroke-width="2"/>'
    )


def _part(number: int, left: float, top: float, height: float) -> list[str]:
    """Return the box of a part with its modules."""
    color, head, does, modules = PARTS[number]
    center = left + WIDTH / 2
    lines = [
        _box(left, top, WIDTH, height, color),
        _text(center, top + 32, head, size=22, color=color, extra=MIDDLE + BOLD),
        _text(center, top + 56, does, color=GREY, extra=MIDDLE),
    ]
    for row, (name, asks) in enumerate(modules):
        y = top + 88 + ROW * row
        lines += [
            _text(left + 14, y, name, size=13, color=color, extra=BOLD),
            _text(left + 116, y, asks, size=13),
        ]
    return lines


def _traffic(center: float, top: float) -> list[str]:
    """Return what goes up and down."""
    texts = ((0, UP[0], BLUE), (20, UP[1], BLUE), (50, DOWN, GREEN))
    return [_text(center, top + y, text, size=13, color=color, extra=MIDDLE) for y, text, color in texts]


def _page(width: int, height: int, lines: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{LABEL}">'
    return "\n".join([head, DARK_PAGE, *lines, "</svg>"]) + "\n"


def overview() -> str:
    """Return the figure as SVG, with the parts side by side."""
    lines = [line for number in range(3) for line in _part(number, 20 + 325 * number, 20, 300)]
    for left in (292, 617):
        lines += [*_arrow(left, 230, left + 51, 230, BLUE), *_arrow(left + 51, 276, left, 276, GREEN)]
    lines += [*_traffic(480, 230), _box(20, 340, 920, 72, GREY), _text(34, 370, "policy", size=16, extra=BOLD)]
    lines += [_text(118, 370 + 24 * row, " ".join(POLICY[2 * row : 2 * row + 2])) for row in range(2)]
    return _page(960, 430, lines)


def narrow_overview() -> str:
    """Return the figure for a telephone, with the parts below each other."""
    left, center = 20, 20 + WIDTH / 2
    lines = [*_part(0, left, 20, 288), *_part(1, left, 352, 256), *_part(2, left, 652, 216)]
    for top in (310, 610):
        lines += [*_arrow(center - 30, top, center - 30, top + 40, BLUE)]
        lines += [*_arrow(center + 30, top + 40, center + 30, top, GREEN)]
    lines += [*_traffic(center, 548), _box(left, 888, WIDTH, 128, GREY)]
    lines += [_text(left + 14, 914, "policy", size=15, extra=BOLD)]
    lines += [_text(left + 14, 936 + 22 * row, text, size=12) for row, text in enumerate(POLICY)]
    return _page(WIDTH + 40, 1036, lines)


def main(arguments: list[str]) -> int:
    """Write docs/overview.svg and docs/overview-narrow.svg, or both into the given folder."""
    folder = Path(arguments[0]) if arguments else ROOT / "docs"
    (folder / "overview.svg").write_text(overview(), encoding="utf-8")
    (folder / "overview-narrow.svg").write_text(narrow_overview(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
