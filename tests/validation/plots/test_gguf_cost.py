"""The stored cost of a quantised draft model, and the functions that measured it.

The measurement is an experiment outside the package, ``figures/experiments/gguf``.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hlmtheory.verification import total_variation
from tests.validation.gguf_writing import write_gguf
from validation.collection.collect import collect
from validation.collection.llama_cpp import open_store
from validation.collection.prompts import Prompt
from validation.models.pair import PAIRS_FOLDER, load_pair
from validation.trace.reader import probabilities

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "experiments" / "gguf"
STORES = ROOT / "tests" / "validation" / "collection" / "llama_cpp_stores"
STORED = json.loads((EXPERIMENT / "builtin.json").read_text(encoding="utf-8"))

sys.path.insert(0, str(EXPERIMENT))
measure = importlib.import_module("measure")
sys.path.remove(str(EXPERIMENT))


def test_the_cost_on_two_texts_is_that_of_their_trace(tmp_path, monkeypatch):
    """Acceptance from the stored logits, in float16, and no change for the file at F32."""
    folder = PAIRS_FOLDER / "builtin" / "small"
    monkeypatch.setattr(measure, "TYPES", ("F32", "Q4_0"))
    write_gguf(folder, tmp_path / "small-F32.gguf", pre="smollm")
    write_gguf(folder, tmp_path / "small-Q4_0.gguf", "Q4_0", pre="smollm")
    prompts = [Prompt(id=name, text=f"Question: {name}", source="here") for name in ("two and two", "4 apples")]
    settings = {"positions": None, "new_tokens": 20, "batch": 2, "seed": 1}
    trace = collect(load_pair(), prompts, tmp_path / "trace", **settings)
    table = measure.cost(tmp_path, trace)
    (chunk,) = trace.chunks()
    expected = 1 - total_variation(probabilities(chunk.draft_logits), probabilities(chunk.target_logits))
    assert (table["positions"], table["prompts"]) == (trace.positions, 2)
    assert table["folder"]["acceptance"][0] == pytest.approx(float(np.mean(expected)), abs=2e-3)
    assert table["F32"]["change of acceptance"] == [0, 0, 0]
    assert table["Q4_0"]["change of acceptance"][0] != 0


def test_a_store_agrees_with_itself_and_with_the_folder():
    store = open_store(STORES / "draft.kld")
    assert measure.agreement(store, store)["largest_tv"] == 0
    folder = PAIRS_FOLDER / "builtin" / "small"
    found = measure.agreement(store, load_pair(draft=folder, target=folder).draft)
    assert found["largest_difference"] < 4e-4
    assert found["largest_tv"] <= found["rounding_of_the_store"]


def test_the_first_chunks_are_a_store(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "CHECKED", 1)
    store = open_store(STORES / "target.kld")
    assert measure.first_chunks(store, tmp_path / "one.kld").path.read_bytes() == store.path.read_bytes()


def test_the_stored_result_says_what_the_page_says():
    assert STORED["verdicts"]["decided_otherwise"] == STORED["verdicts"]["decided_otherwise_with_rounding"] == {}
    assert STORED["verdicts"]["outcomes"]["holds"] > 50
    cost, changes = STORED["cost"], {}
    assert (cost["positions"], cost["prompts"]) == (20948, 160)
    for kind in ("Q8_0", "Q4_K", "Q4_0"):
        value, low, high = cost[kind]["change of acceptance"]
        assert low <= value <= high < 0
        assert value == pytest.approx(cost[kind]["acceptance"][0] - cost["folder"]["acceptance"][0], abs=2e-4)
        changes[kind] = value
    page = (ROOT / "docs" / "results" / "new.md").read_text(encoding="utf-8")
    paragraph = re.search(r"### A quantised draft\n.*?(?=\n#)", page, re.DOTALL)
    assert paragraph is not None
    for kind, digits in (("Q8_0", 5), ("Q4_K", 4), ("Q4_0", 4)):
        assert f"{-changes[kind]:.{digits}f}".lstrip("0") in paragraph[0]
    for role in ("draft", "target"):
        routes = STORED["routes"]
        assert routes[f"{role} F32"]["transformers, same file"]["largest_difference"] <= 2.71e-4
        assert routes[f"{role} F32"]["transformers, same file"]["largest_tv"] <= 5e-4
        for kind in ("Q8_0", "Q4_K", "Q4_0"):
            assert 0.008 <= routes[f"{role} {kind}"]["transformers, same file"]["tv"][0] <= 0.0095
    assert "Q4_K" not in STORED["routes"]["draft Q4_K"]["stored_as"]
