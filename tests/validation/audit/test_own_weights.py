"""The law of an engine's own logits, as the study of other people's software takes it, beside the engine's model."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.audit import Processors

STUDY = Path(__file__).resolve().parents[3] / "figures" / "studies" / "audit_software"
VOCABULARY = 5


@pytest.fixture(scope="module")
def own_weights() -> Any:
    sys.path.insert(0, str(STUDY))
    try:
        return importlib.import_module("own_weights")
    finally:
        sys.path.remove(str(STUDY))


def logits_of(ids: list[int]) -> np.ndarray[Any, Any]:
    """Return logits that depend on all tokens so far."""
    return np.sin(1.0 + np.arange(VOCABULARY) * sum((place + 2) * (token + 1) for place, token in enumerate(ids)))


class Engine:
    """Reads tokens one after another, as llama-cpp-python does: what is read stays until it is read over."""

    def __init__(self) -> None:
        self.n_tokens, self.passes = 0, 0
        self.kept = np.zeros(16, dtype=np.int64)
        self.scores = np.zeros((16, VOCABULARY))

    @property
    def _input_ids(self) -> np.ndarray[Any, Any]:
        return self.kept[: self.n_tokens]

    def n_vocab(self) -> int:
        return VOCABULARY

    def eval(self, tokens: list[int]) -> None:
        for token in tokens:
            self.kept[self.n_tokens] = token
            self.n_tokens += 1
            self.passes += 1
            self.scores[self.n_tokens - 1] = logits_of(self.kept[: self.n_tokens].tolist())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_law_of_two_tokens_is_that_of_the_engine_s_logits(own_weights: Any, temperature: float) -> None:
    engine, prompts = Engine(), [[1, 2, 3], [1, 4]]
    law = own_weights.EngineLaw(engine, prompts, Processors(temperature=temperature), end=4)
    assert (law.vocabulary, law.end_tokens) == (VOCABULARY, (4,))
    for prompt in (0, 1, 0):
        tokens = np.array([[3, 0], [2, 2], [3, 1]])
        rows = law.next_rows(prompt, tokens)
        for text, found in zip(tokens.tolist(), rows, strict=True):
            for depth, row in enumerate(found):
                expected = np.exp(logits_of([*prompts[prompt], *text[:depth]]) / temperature)
                np.testing.assert_allclose(row, expected / expected.sum(), atol=1e-12)
    assert len(law._rows) == 2 * (1 + 2)  # each prompt, and each first token once
    assert engine.passes == (3 + 2) + (1 + 2)  # the second prompt shares a token with what was read
