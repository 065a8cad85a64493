"""The codec's bits on SmolLM2's small draft: the rules by hand, and the page beside what the study stores."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory import truncation

STUDY = Path(__file__).resolve().parents[3] / "figures" / "studies" / "smollm2_findings"


@pytest.fixture(scope="module")
def script() -> Any:
    before = sys.modules.pop("measure", None)
    sys.path.insert(0, str(STUDY))
    try:
        return importlib.import_module("codec")
    finally:
        sys.path.remove(str(STUDY))
        sys.modules.pop("codec", None)
        sys.modules.pop("measure", None)
        if before is not None:
            sys.modules["measure"] = before


def rows() -> Any:
    return np.random.default_rng(1).dirichlet(np.full(16, 0.3), size=5)


def test_top_k_takes_the_smallest_size_that_is_certified(script: Any) -> None:
    q = rows()
    bias = 2.0 * np.asarray(truncation.message_deviation(q, bits_per_probability=script.WIDTH))
    for bits, own in zip(script.top_k(q), bias, strict=True):
        k = (bits - 5) / (script.WIDTH + 4)  # five bits say k in 0..16, four an index
        assert k == int(k)
        assert own[int(k)] <= script.EPSILON
        assert k == 0 or own[int(k) - 1] > script.EPSILON


def test_k_sqs_takes_one_size_for_all_rows(script: Any) -> None:
    bits = script.k_sqs(rows())
    assert len(set(bits.tolist())) == 1
    assert bits[0] > 0


def test_a_bias_that_is_not_reached_is_refused(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "EPSILON", -1.0)
    with pytest.raises(SystemExit, match="take more bits"):
        script.top_k(rows())
    with pytest.raises(SystemExit, match="try more resolutions"):
        script.k_sqs(rows())
