"""Table IX of ours: its widths are those of all sets of tokens, and of all tokens nothing is left open."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hlmtheory.verification import acceptance_rate
from tests.validation.plots.conftest import Maker
from validation.plots.ours.partial_table import SIZES, measure_table
from validation.trace.reader import probabilities


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


def test_the_widths_are_those_of_all_sets(make_trace: Maker) -> None:
    trace = make_trace(6, 9, texts=1)
    found = measure_table(trace, seed=1)["statistics"]
    q, p = (probabilities(trace.arrays[f"{model}_logits"][:]) for model in ("draft", "target"))
    expected = np.mean([width(*pair, SIZES[0]) for pair in zip(p, q, strict=True)])
    assert found["lists"]["5"]["acceptance width"] == pytest.approx(expected, rel=1e-4)
    assert found["outside"] <= 1e-15
    assert acceptance_rate(p, q).min() < 1
