"""Table IX of ours: its widths are those of all sets of tokens, and of all tokens nothing is left open."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hlmtheory.verification import acceptance_rate
from validation.plots import EXHIBITS, draw
from validation.plots.ours.partial_table import QUANTISERS, SIZES, measure_table
from validation.trace.reader import Trace, TraceWriter, open_trace, probabilities


def written(folder: Path, positions: int, vocabulary: int, *, prompts: int = 1) -> Trace:
    """A trace of random logits; the positions are dealt to the prompts in turn."""
    rng = np.random.default_rng(0)
    draft = rng.normal(0, 2, (positions, vocabulary))
    target = draft + rng.normal(0, 1, draft.shape)
    zeros = np.zeros(positions, dtype=np.int32)
    with TraceWriter(folder / "trace", vocabulary, {"pair": {"name": "a pair"}}) as writer:
        writer.append(draft, target, zeros, np.arange(positions) % prompts, np.arange(positions))
    return open_trace(folder / "trace")


def width(p: np.ndarray, q: np.ndarray, k: int) -> float:
    """Largest less smallest TV(q, p) that two lists of k allow: by all sets, and by the sums over boxes."""
    (low, high), (low_q, high_q) = (
        (np.where(row >= least, row, 0.0), np.where(row >= least, row, least))
        for row, least in ((p, np.sort(p)[-k]), (q, np.sort(q)[-k]))
    )
    most = 0.0
    for chosen in itertools.product([False, True], repeat=len(p)):
        s = np.array(chosen)
        inside = min(high[s].sum(), 1 - low[~s].sum())
        most = max(most, inside - max(low_q[s].sum(), 1 - high_q[~s].sum()))
    over, under = np.maximum(low - high_q, 0).sum(), np.maximum(low_q - high, 0).sum()
    return most - max(over, under, 1 - np.minimum(high, high_q).sum(), np.maximum(low, low_q).sum() - 1)


def test_the_widths_are_those_of_all_sets(tmp_path: Path) -> None:
    trace = written(tmp_path, 6, 9)
    found = measure_table(trace, seed=1)["statistics"]
    q, p = (probabilities(trace.arrays[f"{model}_logits"][:]) for model in ("draft", "target"))
    expected = np.mean([width(*pair, SIZES[0]) for pair in zip(p, q, strict=True)])
    assert found["lists"]["5"]["acceptance width"] == pytest.approx(expected, rel=1e-4)
    assert found["outside"] <= 1e-15
    assert acceptance_rate(p, q).min() < 1


def test_with_all_tokens_listed_nothing_is_open(tmp_path: Path) -> None:
    numbers = measure_table(written(tmp_path, 6, 9), seed=1)
    found = numbers["statistics"]["lists"]["9"]
    assert found["acceptance width"] == pytest.approx(0.0, abs=1e-12)
    assert (found["decided"], found["known"], found["largest deviation"]) == (1.0, 1.0, 0.0)
    assert [row[0] for row in numbers["tables"][0]["rows"]] == ["5", "9"]


def test_a_coarser_quantiser_leaves_a_wider_interval(tmp_path: Path) -> None:
    found = measure_table(written(tmp_path, 20, 60), seed=1)["statistics"]["quantised"]
    widths = [found[name] for name, _, _ in QUANTISERS]
    assert 0 < widths[0] < widths[1] < widths[2] < 0.1


def test_the_table_is_drawn_and_the_same_again(tmp_path: Path) -> None:
    trace = written(tmp_path, 12, 30)
    texts = []
    for name in ("one", "two"):
        (sidecar,) = draw(EXHIBITS["ours", "IX"], trace, tmp_path / name, command="hlm", seed=1, commit="c")
        texts.append(sidecar.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert "The top 20 log-probabilities of both models" in json.loads(texts[0])["findings"]


def test_one_token_is_no_question(tmp_path: Path) -> None:
    found = measure_table(written(tmp_path, 3, 1), seed=1)["statistics"]["lists"]["1"]
    assert (found["acceptance width"], found["decided"]) == (0.0, 1.0)


def test_the_intervals_are_clustered_by_prompt(tmp_path: Path) -> None:
    """One position a prompt: Student's interval of the mean. One prompt alone has no interval."""
    (row,) = measure_table(written(tmp_path / "many", 7, 5, prompts=7), seed=1)["tables"][2]["rows"]
    assert row[1] == "0 [0, 0]"  # all five tokens are listed
    wide = measure_table(written(tmp_path / "wide", 7, 9, prompts=7), seed=1)["tables"][2]["rows"][0][1]
    trace = open_trace(tmp_path / "wide" / "trace")
    q, p = (probabilities(trace.arrays[f"{model}_logits"][:]) for model in ("draft", "target"))
    widths = np.array([width(*pair, SIZES[0]) for pair in zip(p, q, strict=True)])
    half = stats.t.ppf(0.975, 6) * widths.std(ddof=1) / np.sqrt(7)
    mean = widths.mean()
    assert wide == f"{mean:.3g} [{mean - half:.3g}, {mean + half:.3g}]".replace("-", "−")
    alone = measure_table(written(tmp_path / "one", 7, 9), seed=1)["tables"][2]["rows"][0][1]
    assert "[" not in alone
