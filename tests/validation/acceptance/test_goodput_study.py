"""The study of goodput under load: its replay on drafts that are all accepted, and its stored numbers."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

STUDIES = Path(__file__).resolve().parents[3] / "figures" / "studies"


@pytest.fixture(scope="module")
def study():
    """The script, which reads the data as the study of length rules does."""
    sys.path.insert(0, str(STUDIES / "length_rules"))
    try:
        spec = importlib.util.spec_from_file_location("goodput_study", STUDIES / "goodput" / "goodput.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(STUDIES / "length_rules"))


def test_a_replay_of_equal_requests_is_the_model(study, monkeypatch):
    """Every draft of every round is accepted, and answers are long: the rounds that end one hardly count."""
    monkeypatch.setattr(study, "SEQUENCE_ROUNDS", 0)
    requests = [study.Request(50, (8,) * 3000)] * 2
    assert study.tokens_of(requests, 3) == 4.0
    assert study.cache_of(requests) == 1550.0
    run = study.replayed(requests, 3, 64, np.random.default_rng(0))
    model = study.goodput(4.0, *study.line(3, study.cache_of(requests)), 64)
    assert run == pytest.approx(float(model), rel=0.02)


def test_the_stored_reports_are_those_of_the_script(study):
    stored = json.loads((STUDIES / "goodput" / "goodput.json").read_text())["reports"]
    assert stored["vllm-mlx #763"] == study.expert_mixture()
    assert stored["ds4 #695"] == study.separate_verification()
    assert stored["vLLM #26504"] == study.two_batches()


def test_the_stored_replays_agree_with_what_is_said_of_them():
    stored = json.loads((STUDIES / "goodput" / "goodput.json").read_text())["simulator"]
    for found in stored.values():
        off = [abs(row["model"] / row["replay"] - 1.0) for row in found["rows"]]
        assert max(off) == pytest.approx(found["farthest"], rel=1e-2)
        assert found["best_by_batch"]["model"] == found["best_by_batch"]["replay"]
