"""The study of goodput under load: its replay on drafts that are all accepted, and its stored numbers."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from validation.acceptance.published import PUBLISHED
from validation.acceptance.summary import loses_from

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


def test_the_stored_long_contexts_follow_from_the_stored_tokens(study):
    """Drafts never lose from 2,048 cached tokens on; at 32,768 they gain more where the batch is larger."""
    stored = json.loads((STUDIES / "goodput" / "goodput.json").read_text())
    assert tuple(PUBLISHED["h100-llama-3.1-8b"].target) == study.TARGET
    for dataset in study.DATASETS:
        tokens = {int(length): made for length, made in stored["simulator"][dataset]["tokens"].items()}
        for row in stored["long_contexts"][dataset]:
            for batch, best, gain in zip(study.BATCHES, row["best_by_batch"], row["gain_by_batch"], strict=True):
                speeds = {
                    k: float(study.goodput(made, *study.line(k, row["context"]), batch)) for k, made in tokens.items()
                }
                assert max(speeds, key=speeds.get) == best
                assert speeds[best] / speeds[0] == pytest.approx(gain, rel=5e-3)
            never = {end is None for end in row["loses_from"].values()}
            assert never == {True} or row["context"] < 2048
            gains = row["gain_by_batch"]
            assert gains == sorted(gains) or row["context"] < 32_768
            times = PUBLISHED["h100-llama-3.1-8b"].times(row["context"])
            for length, end in row["loses_from"].items():
                found = loses_from(np.array([tokens[int(length)]]), times, np.array([int(length)]))
                assert found == (np.inf if end is None else pytest.approx(end, abs=1.0, rel=2e-3))
