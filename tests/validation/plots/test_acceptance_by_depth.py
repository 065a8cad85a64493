"""Figure 8 and Table X of ours repeat what is stored, and engines that adapt keep the anytime interval."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hlmtheory.draft_length import acceptance_by_depth

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "studies" / "acceptance_by_depth"

sys.path.insert(0, str(EXPERIMENT))
engines = importlib.import_module("adaptive_engines")
sys.path.remove(str(EXPERIMENT))


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
