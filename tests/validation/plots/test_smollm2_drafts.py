"""The page of the study of SmolLM2's drafts says what ``figures/studies/smollm2_drafts`` stores."""

from __future__ import annotations

import json
import re
from pathlib import Path

STUDY = Path(__file__).resolve().parents[3] / "figures" / "studies" / "smollm2_drafts"
STORED = json.loads((STUDY / "smollm2.json").read_text(encoding="utf-8"))
NAMES = {
    "3-bit": "smollm2@3-bit",
    "exit-6": "exit, 6 blocks",
    "exit-10": "exit, 10 blocks",
    "exit-14": "exit, 14 blocks",
    "small": "**small** (`smollm2-small`)",
    "aligned": "aligned",
}


def short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def test_the_page_says_what_is_stored():
    page = (STUDY / "README.md").read_text(encoding="utf-8")
    rows = {
        cells[0].strip(): [cell.strip() for cell in cells[1:]]
        for cells in re.findall(r"^\|(.+)\|(.*)\|(.*)\|(.+)\|(.+)\|$", page, re.M)
    }
    for name, label in NAMES.items():
        found = STORED["models"][name]
        rate = found["acceptance"]
        assert rows[label][2] == f"{short(rate['mean'], 3)} ± {short(rate['standard_error'], 3)}"
        assert rows[label][3] == f"{found['milliseconds']:.0f} ms"
    assert rows["the target itself"][3] == f"{STORED['models']['target']['milliseconds']:.0f} ms"
    assert f"{STORED['texts']} texts ({STORED['positions']:,} positions)" in page
    assert set(NAMES) | {"target"} == set(STORED["models"])


def test_a_deeper_exit_agrees_more_and_costs_more_and_the_small_draft_beats_all():
    exits = [STORED["models"][f"exit-{layers}"] for layers in (6, 10, 14)]
    for deeper in range(1, 3):
        assert exits[deeper]["acceptance"]["mean"] > exits[deeper - 1]["acceptance"]["mean"]
        assert exits[deeper]["milliseconds"] > exits[deeper - 1]["milliseconds"]
    small = STORED["models"]["small"]
    assert small["acceptance"]["mean"] > max(one["acceptance"]["mean"] for one in exits)
    assert small["milliseconds"] < exits[0]["milliseconds"]
    assert all(one["bytes"] < 700_000 and one["seed"] == 20261120 for one in exits)
