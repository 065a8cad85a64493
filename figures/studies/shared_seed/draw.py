"""Draw acceptance against the bits of a draft, from the stored result of ``measure.py``.

PYTHONPATH=. python3 figures/studies/shared_seed/draw.py figures/studies/shared_seed/builtin.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import COLUMN, DARK, MIDDLE, canvas, house_style, save

FULL_BITS = 16  # of a probability
OWN_BITS = 32  # of the draft's own probability, if nothing else is sent


def main() -> None:
    """Draw."""
    stored = Path(sys.argv[1])
    found = json.loads(stored.read_text(encoding="utf-8"))
    acceptance, vocabulary = found["acceptance"], found["vocabulary"]
    token = (vocabulary - 1).bit_length()
    budgets = sorted(float(name.split("_")[1]) for name in acceptance if name.startswith("lattice"))
    lines = {  # label: colour, marker, (bits, name)
        "two seeds": ("0.55", "v", [(token, "apart")]),
        "argmax draft": ("0.55", "^", [(token, "greedy_draft")]),
        "one uniform number": ("0.55", "x", [(token, "common_uniform")]),
        "lattice message (C-SQS)": (MIDDLE, "s", [(bits, f"lattice_{bits:g}") for bits in budgets]),
        "certified top k, bias ≤ .05 (CU-HLM)": (
            MIDDLE,
            "P",
            [(acceptance["certified_size"][0] * (FULL_BITS + token), "rejection")],
        ),
        "$q_d$ up, p down if rejected (FlexSpec)": (MIDDLE, "*", [(OWN_BITS + token, "rejection")]),
        "full distribution (HLM, U-HLM)": (MIDDLE, "D", [(FULL_BITS * vocabulary, "rejection")]),
        "shared seed, lists of 1, 2, 4": (
            DARK,
            "o",
            [(token, "shared_seed"), (2 * token, "list_2"), (4 * token, "list_4")],
        ),
    }
    with house_style():
        picture, (axes,) = canvas((1.9 * COLUMN[0], 2.6))
        for label, (color, marker, points) in lines.items():
            middle, low, high = zip(*(acceptance[name] for _, name in points), strict=True)
            errors = [
                [m - a for m, a in zip(middle, low, strict=True)],
                [b - m for m, b in zip(middle, high, strict=True)],
            ]
            axes.errorbar([bits for bits, _ in points], middle, yerr=errors, fmt=f"{marker}-", color=color, label=label)
        axes.set(xscale="log", xlabel="bits a draft", ylabel="accepted drafts")
        picture.legend(loc="outside lower center", ncols=3)
        save(picture, stored.with_suffix(".svg"))


if __name__ == "__main__":
    main()
