"""The enumeration of short texts agrees with that of the claims, and its stored result with the theory.

The enumeration itself is an experiment outside the package, ``figures/experiments/text_enumeration``.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from hlmtheory.skipping.chains import HORIZON, from_target, text_distance
from hlmtheory.skipping.overlap import _overlap_bound
from hlmtheory.uncertainty import skip_probability, vocabulary_uncertainty
from hlmtheory.verification import softmax

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "experiments" / "text_enumeration"
STORED = sorted(EXPERIMENT.glob("*.json"))

sys.path.insert(0, str(EXPERIMENT))
enumeration = importlib.import_module("enumeration")
sys.path.remove(str(EXPERIMENT))


def along_prefixes(rows: np.ndarray, length: int) -> list[np.ndarray]:
    """Rows after each prefix, of a chain whose texts begin after token 0."""
    found, last = [], np.zeros(1, dtype=int)
    for _ in range(length):
        found.append(rows[last])
        last = np.tile(np.arange(len(rows)), len(last))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_has_the_distance_and_the_bounds_of_the_claims(seed: int):
    rng = np.random.default_rng(seed)
    target = rng.normal(0, 2, (4, 4))
    draft = target + rng.normal(0, 1, (4, 4))
    found = enumeration.bounds_of(*(along_prefixes(rows, HORIZON) for rows in (target, draft)))
    for column in (0, 7, 13, 20):
        skip = skip_probability(vocabulary_uncertainty(draft), enumeration.THRESHOLDS[column], 20)
        chain = softmax(target), softmax(draft), skip
        assert found.distance[-1, column] == pytest.approx(float(text_distance(*chain)), abs=1e-12)
        assert found.overlap[-1, column] == pytest.approx(float(_overlap_bound(*chain)), abs=1e-12)
        assert found.total[-1, column] == pytest.approx(float(from_target(*chain)), abs=1e-12)
    assert found.clipped.max() <= 1


def test_the_logits_are_those_of_the_whole_prefix(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(enumeration, "BATCH", 2)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=11, **shape)).eval()
    prompt, tokens = [4, 9, 1], [7, 2, 5]
    found = enumeration.restricted_logits(model, prompt, tokens, 4)
    assert [len(rows) for rows in found] == [1, 3, 9, 27]
    for depth, rows in enumerate(found):
        for number, row in enumerate(rows):
            prefix = [tokens[number // 3**place % 3] for place in reversed(range(depth))]
            with torch.inference_mode():
                expected = model(torch.tensor([prompt + prefix])).logits[0, -1, tokens]
            np.testing.assert_allclose(row, expected.numpy(), atol=1e-5)


def test_the_comparison_counts_a_bound_that_fails():
    each = {name: np.full((2, 3, 21), value) for name, value in (("distance", 0.2), ("overlap", 0.3), ("clipped", 0.5))}
    found = enumeration._compared(each)
    assert (found["compared"], found["overlap_below_distance"], found["clipped_below_overlap"]) == (126, 0, 0)
    assert (found["overlap_over_distance"], found["clipped_over_distance"]) == ([1.5] * 3, [2.5] * 3)
    each["overlap"][0, 1, :4] = 0.1
    assert enumeration._compared(each)["overlap_below_distance"] == 4
    each["clipped"][1, 0, 2] = 0.25
    assert enumeration._compared(each)["clipped_below_overlap"] == 1


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_the_stored_bounds_are_above_the_distance(path: Path):
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert found["overlap_below_distance"] == found["clipped_below_overlap"] == 0
    assert len(found["texts"]) >= 4
    for one in found["texts"]:
        distance, overlap, clipped = (np.array(one[name]) for name in ("distance", "overlap", "clipped"))
        assert (distance <= overlap + 1e-6).all()
        assert (overlap <= clipped + 1e-6).all()
        assert distance[-1] > 0
    for name, values in found["of_each_prompt"].items():
        np.testing.assert_allclose(np.mean(values, axis=0), found["texts"][-1][name], atol=2e-5)


def test_there_is_a_stored_result():
    assert "builtin" in {path.stem for path in STORED}
