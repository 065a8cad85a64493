"""Draw the README's figure: device, link and server, and what each module decides.

``python -m validation.site.overview`` writes it. The picture is plain SVG, so that it is the same on every machine.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from validation.site.pages import ROOT

WIDTH, HEIGHT = 960, 430
BLUE, GREEN, BROWN, INK, GREY = "#1f5fa8", "#2b7a4b", "#8a5a12", "#1c2733", "#5a6673"
TEXT = 'font-family="Helvetica, Arial, sans-serif"'
PARTS = (  # left edge, width, colour, head, what it does, (module, what it decides)
    (
        20,
        270,
        BLUE,
        "Device",
        "draft model, distribution q",
        (
            ("uncertainty", "how sure is the draft?"),
            ("skipping", "keep it unverified?"),
            ("draft_length", "how many drafts?"),
            ("truncation", "send which of V?"),
            ("lattice, codec", "in how many bytes?"),
            ("conformal", "with which budget?"),
        ),
    ),
    (
        345,
        270,
        BROWN,
        "Link",
        "rate, fading, round trip",
        (("channel", "how long does it take?"), ("ofdma", "who gets which band?")),
    ),
    (
        670,
        270,
        GREEN,
        "Server",
        "target model, distribution p",
        (
            ("verification", "accept, or replace?"),
            ("serving", "how long is a pass?"),
            ("batching", "who shares a pass?"),
            ("lossless", "is the law still p?"),
        ),
    ),
)


def _text(x: float, y: float, text: str, *, size: int = 15, color: str = INK, extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" {TEXT}{extra}>{escape(text)}</text>'


def _arrow(x1: float, x2: float, y: float, color: str) -> list[str]:
    tip = 9 if x2 > x1 else -9
    return [
        f'<line x1="{x1:g}" y1="{y:g}" x2="{x2 - tip:g}" y2="{y:g}" stroke="{color}" stroke-width="3"/>',
        f'<path d="M{x2:g} {y:g} l{-tip * 1.3:g} -6 v12 z" fill="{color}"/>',
    ]


def overview() -> str:
    """Return the figure as SVG."""
    middle = ' text-anchor="middle"'
    label = (
        "A device drafts tokens, a link carries their probabilities, a server verifies them; what each module decides."
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="#ffffff"/>',
    ]
    for left, width, color, head, does, modules in PARTS:
        center = left + width / 2
        lines += [
            f'<rect x="{left}" y="20" width="{width}" height="300" rx="10" fill="{color}" fill-opacity="0.07" '
            f'stroke="{color}" stroke-width="2"/>',
            _text(center, 52, head, size=22, color=color, extra=f'{middle} font-weight="bold"'),
            _text(center, 76, does, color=GREY, extra=middle),
        ]
        for row, (name, asks) in enumerate(modules):
            y = 108 + 36 * row
            lines += [
                _text(left + 14, y, name, size=14, color=color, extra=' font-weight="bold"'),
                _text(left + 118, y, asks, size=14),
            ]
    lines += [
        *_arrow(292, 343, 200, BLUE),
        *_arrow(617, 668, 200, BLUE),
        *_arrow(668, 617, 270, GREEN),
        *_arrow(343, 292, 270, GREEN),
        _text(480, 192, "up: K drafts, k of V probabilities each", size=14, color=BLUE, extra=middle),
        _text(480, 216, "or nothing, if verification is skipped", size=14, color=BLUE, extra=middle),
        _text(480, 276, "down: number accepted, one token", size=14, color=GREEN, extra=middle),
        f'<rect x="20" y="340" width="920" height="72" rx="10" fill="{INK}" fill-opacity="0.06" stroke="{GREY}"/>',
        _text(34, 370, "policy", size=16, extra=' font-weight="bold"'),
        _text(118, 370, "the best of all these for your models, your link and your limits: tokens per second, and"),
        _text(118, 394, "how far the text may move from the target model's, proved or calibrated"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the figure to docs/overview.svg, or to the given file."""
    path = Path(arguments[0]) if arguments else ROOT / "docs" / "overview.svg"
    path.write_text(overview(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
