"""GSM8K by answer on SmolLM2: how answers are counted, and the page beside what the study stores."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from validation.collection.prompts import Prompt

STUDY = Path(__file__).resolve().parents[3] / "figures" / "studies" / "smollm2_answers"


@pytest.fixture(scope="module")
def measure() -> Any:
    spec = importlib.util.spec_from_file_location("measure_of_answers", STUDY / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_answers_are_counted_with_the_exact_interval(measure: Any) -> None:
    prompts = [Prompt(name, "?", "GSM8K", "It is so. #### 7") for name in "abcd"]
    ended = (True, True, False, False)
    records = [SimpleNamespace(ended=end, tokens=[1, 2], total=lambda field: {"skipped": 1}[field]) for end in ended]
    found = measure.scored(records, ["so 7", "so 8", "so 7", "The answer is 7, so"], prompts)
    assert (found["right"], found["texts"], found["right ones"]) == (2, 4, ["a", "d"])
    assert (found["with a readable answer"], found["ended"], found["tokens"], found["skipped"]) == (3, 2, 8, 4)
    assert found["interval"] == pytest.approx([0.06758, 0.93242], abs=1e-5)  # Clopper and Pearson, 2 of 4


def short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def test_the_page_says_what_is_stored() -> None:
    stored = json.loads((STUDY / "answers.json").read_text(encoding="utf-8"))
    page = (STUDY / "README.md").read_text(encoding="utf-8")
    rows = [
        f"| {name} | {one['right']} of {one['texts']} | {short(one['interval'][0])} to {short(one['interval'][1])} | "
        f"{one['with a readable answer']} | {one['ended']} | {one['tokens']:,} | {one['skipped']:,} |"
        for name, one in stored["methods"].items()
    ]
    assert [line for line in page.splitlines() if line.startswith("| ")][1:] == rows
    assert f"{len(stored['prompts'])} questions" in page
    assert f"{stored['new_tokens']} tokens" in page
