"""Figure 8 and Table X of ours repeat what is stored, and engines that adapt keep the anytime interval."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hlmtheory.draft_length import acceptance_by_depth
from validation.plots import EXHIBITS, draw
from validation.plots.ours.acceptance_by_depth import COVERAGE, REPLAY, replay

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "studies" / "acceptance_by_depth"

sys.path.insert(0, str(EXPERIMENT))
engines = importlib.import_module("adaptive_engines")
sys.path.remove(str(EXPERIMENT))


# ----------------------------------------------------------------------------------------------- what is stored


def test_stored_files_are_aggregates_and_say_how_they_came_about() -> None:
    for path in (COVERAGE, REPLAY):
        found = json.loads(path.read_text(encoding="utf-8"))
        assert {"command", "commit", "seed", "seconds"} <= set(found)
    text = REPLAY.read_text(encoding="utf-8")
    assert "token_ids" not in text
    assert max(len(str(line)) for line in text.splitlines()) < 300
    assert replay()["sha256"]["combined_gsm8k.jsonl.gz"].startswith("c9dbb885")


# --------------------------------------------------------------------------------------------- the exhibits


@pytest.mark.parametrize("number", ["8", "X"])
def test_an_exhibit_repeats_what_is_stored(number: str, tmp_path: Path) -> None:
    paths = draw(EXHIBITS["ours", number], None, tmp_path, command="hlm figure", seed=1, commit="c")
    found = json.loads(paths[0].read_text(encoding="utf-8"))
    assert found["kind"] == ("measured" if number == "8" else "measured counts × assumed times")
    if number == "8":
        for one in found["series"]:
            stored = replay()["data"][one["name"]]
            assert one["y"] == stored["acceptance"]["alpha"][: len(one["y"])]
            assert min(stored["acceptance"]["examined"][: len(one["y"])]) >= 50
            assert one["rate at 1"] == stored["errors"]["rate at 1"]["relative"]
        assert paths[1].stat().st_size > 1_000
    else:
        assert [len(table["rows"]) for table in found["tables"]] == [6, 24, 16, 10]
        assert all(len(row) == len(table["heads"]) for table in found["tables"] for row in table["rows"])
        stats = found["statistics"]["coverage"]
        assert stats["band_least"] >= 0.95
        assert stats["exact_least"] >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 10_000)


# ------------------------------------------------------------------------------------------- engines that adapt


@pytest.mark.parametrize("kind", engines.RULES)
def test_the_anytime_interval_holds_for_engines_that_adapt(kind):
    """After every round at once; a share below 95% by chance occurs with probability 1e-6 at most."""
    found = engines.simulate(engines.RULES[kind], 200, np.random.default_rng(7))
    least = binom.ppf(1e-6, 200, 0.95) / 200
    assert found["ever"]["anytime"] >= least
    assert min(found["checkpoints"]["anytime"].values()) >= least


def test_the_exact_interval_does_not_hold_for_an_engine_that_stops_a_depth():
    rule = engines.RULES["stops a depth when its upper limit is below 1/2"]
    found = engines.simulate(rule, 200, np.random.default_rng(7))
    assert found["checkpoints"]["exact"]["1000"] < binom.ppf(1e-6, 200, 0.95) / 200


@pytest.mark.parametrize("method", ["exact", "anytime"])
def test_counts_of_an_engine_give_back_what_was_examined_and_accepted(method):
    examined, accepted = np.array([[9, 5, 2], [4, 0, 0]]), np.array([[6, 3, 2], [1, 0, 0]])
    found = acceptance_by_depth(engines.counts_of(examined, accepted), method=method)
    assert found.examined.tolist() == examined.tolist()
    assert found.accepted.tolist() == accepted.tolist()
