"""SmolLM2 in llama.cpp: the replay of greedy drafts, the prediction by position, and what the study stores.

The measurement is ``figures/studies/gguf/measure_smollm2.py``.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
STUDY = ROOT / "figures" / "studies" / "gguf"
STORED = json.loads((STUDY / "smollm2.json").read_text(encoding="utf-8"))

sys.path.insert(0, str(STUDY))
servers = importlib.import_module("smollm2_servers")
sys.path.remove(str(STUDY))


def counts(draft: np.ndarray, emitted: np.ndarray, longest: int, most: int) -> list[int]:
    """Rounds, drafts and accepted drafts."""
    return [int(value) for value in servers.replayed(draft, emitted, np.full(len(emitted), 0.5), longest, most)[:3]]


def test_a_replay_counts_the_rounds_of_a_text():
    """Token 0 is the prompt's; then 2 of 3 drafts are kept, 3 of 3, and 0 of the 1 that is left to draft."""
    emitted = np.array([5, 1, 2, 9, 4, 4, 4, 7, 8, 8])
    draft = np.array([0, 1, 2, 3, 4, 4, 4, 0, 0, 0])
    assert counts(draft, emitted, 3, 10) == [3, 7, 5]
    assert counts(emitted, emitted, 3, 10) == [2, 6, 6]
    assert counts(emitted + 1, emitted, 3, 10) == [8, 21, 0]
    assert counts(emitted[:1], emitted[:1], 3, 10) == [0, 0, 0]
    assert counts(draft[:8], emitted[:8], 3, 24) == [2, 6, 5]  # ended early: the last round drafted three, too
    with pytest.raises(ValueError, match="at most 0 drafts a round"):
        counts(draft, emitted, 0, 10)
    with pytest.raises(ValueError, match="9 drafts, 10 of 10 tokens"):
        counts(draft[1:], emitted, 3, 10)
    with pytest.raises(ValueError, match="10 of 9 tokens"):
        counts(draft, emitted, 3, 9)


def test_the_predicted_number_has_the_mean_of_the_accepted_drafts_and_its_variance():
    """Over all texts of five positions, weighted by their probability."""
    p = np.array([[0.5, 0.5], [0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.9, 0.1]])  # whatever came before
    draft = np.array([0, 0, 0, 1, 1])
    match = p[np.arange(5), draft]
    mean, square, variance = 0.0, 0.0, 0.0
    for text in itertools.product((0, 1), repeat=5):
        weight = np.prod(p[np.arange(5), text])
        _, _, accepted, predicted, spread = servers.replayed(draft, np.array(text), match, 2, 5)
        mean += weight * (accepted - predicted)
        square += weight * (accepted - predicted) ** 2
        variance += weight * spread
    assert mean == pytest.approx(0.0, abs=1e-12)
    assert square == pytest.approx(variance, rel=1e-12)
    assert variance > 0.1


def short(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def test_the_stored_weights_are_dequantised_alike():
    tables = [each["dequantised"] for each in STORED["weights"].values()]
    assert {kind for table in tables for kind in table} >= {
        "F16",
        "Q8_0",
        "Q4_0",
        "Q4_1",
        "Q5_0",
        "Q3_K",
        "Q4_K",
        "Q5_K",
    }
    assert all(entry["largest_difference"] == 0.0 for table in tables for entry in table.values())
    found = STORED["layers"]["against_dequantised_weights"]
    assert found["token embedding"] == [0.0, 0.0]
    assert max(*found["norms"], *found["ffn gate x up"]) < 1e-7
    assert all(
        0.004 < found[name][0] < found[name][1] < 0.04
        for name in STORED["layers"]["types"]
        if name in ("attn_q", "attn_v", "ffn_down")
    )


def test_the_page_says_what_is_stored_of_the_drafts():
    page = (STUDY / "README.md").read_text(encoding="utf-8")
    for kind in ("F16", "Q8_0", "Q3_K_M", "Q4_0", "Q2_K"):
        entry, size = STORED["drafts"][kind], f"| {STORED['weights'][kind]['bytes']:,} |"
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {kind} |") and size in line)
        for name in ("rejection sampling", "shared seed", "greedy drafts"):
            value, low, high = entry[name]
            assert f"{short(value)} ± {short((high - low) / 2)}" in row
        # with a shared seed, a match has at least the probability (1 - TV)/(1 + TV), and no more than 1 - TV
        apart = 1 - entry["rejection sampling"][0]
        assert (1 - apart) / (1 + apart) < entry["shared seed"][0] < entry["rejection sampling"][0]
        assert entry["greedy drafts"][0] <= STORED["drafts"]["Q4_1"]["greedy drafts"][0]


def test_the_server_of_greedy_drafts_is_its_replay_and_its_prediction():
    page = " ".join((STUDY / "README.md").read_text(encoding="utf-8").split())
    entry = STORED["servers"]["draft, greedy"]
    counted, replayed = entry["counted"]["metrics"], entry["predicted"]["replayed"]
    for name in ("steps", "drafted", "accepted"):
        assert replayed[name] == pytest.approx(counted[name], rel=0.02)
        assert re.search(rf"\b{replayed[name]}\b", page)
    assert abs(counted["accepted"] - replayed["predicted"]) < 2 * replayed["standard_deviation"]
    assert {entry["counted"][name]["accepted"] for name in ("answers", "log", "metrics", "log_lines")} == {119}
    assert max(took["peak_mb"] for took in STORED["engine"].values()) < 400
