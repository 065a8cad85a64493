"""Figure 8 of ours repeats what is stored, and the replay of rounds is that by hand."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np

from validation.plots import EXHIBITS, draw
from validation.plots.ours.acceptance_by_depth import REPLAY, replay

script = importlib.import_module("figures.studies.acceptance_by_depth.acceptance_replay")


def test_the_stored_file_is_an_aggregate_and_says_how_it_came_about() -> None:
    assert {"command", "commit", "seed"} <= replay().keys()
    text = REPLAY.read_text(encoding="utf-8")
    assert "token_ids" not in text
    assert max(len(line) for line in text.splitlines()) < 300
    assert replay()["sha256"]["combined_gsm8k.jsonl.gz"].startswith("c9dbb885")


def test_the_figure_repeats_what_is_stored(tmp_path: Path) -> None:
    paths = draw(EXHIBITS["ours", "8"], None, tmp_path, command="hlm figure", seed=1, commit="c")
    for one in json.loads(paths[0].read_text(encoding="utf-8"))["series"]:
        stored = replay()["data"][one["name"]]
        assert one["y"] == stored["acceptance"]["alpha"][: len(one["y"])]
        assert min(stored["acceptance"]["examined"][: len(one["y"])]) >= 50
        assert one["rate at 1"] == stored["errors"]["rate at 1"]["relative"]


def test_rounds_are_replayed_as_by_hand(monkeypatch) -> None:
    """Two requests: tokens of a round at each length, by depth, and by the split of the longest rounds."""
    monkeypatch.setattr(script, "MAX_LENGTH", 3)
    monkeypatch.setattr(script, "FITTED_AT", (1, 3))
    requests = [script.source.Request(5, (3, 2, 1, 1)), script.source.Request(5, (1, 2, 1))]
    rounds, once = script.Replayed(requests), np.ones(2)
    # at K = 1: 2, 1, 1 and 1, 2 tokens; at K = 3: 3, 1 and 1, 2 tokens
    np.testing.assert_allclose(rounds.tokens(once), [7 / 5, 7 / 4, 7 / 4])
    longest = rounds.longest(once)
    np.testing.assert_array_equal(longest, [2, 1, 1, 0])
    examined, accepted = script.depths(longest)
    np.testing.assert_array_equal((examined, accepted), [(4, 2, 1), (2, 1, 0)])
    told = script.estimates(rounds.tokens(once), longest)
    np.testing.assert_allclose(told["profile at 3"], [1.5, 1.75, 1.75])
    np.testing.assert_allclose(told["rate at 1"], [1.4, 1.56, 1.624])
