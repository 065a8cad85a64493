"""What is fitted to a trace, and that every method can be made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hlmtheory.skipping import skip_thresholds
from validation.collection.prompts import Prompt
from validation.decoding.fitting import fit
from validation.decoding.loop import decode
from validation.decoding.methods import default_methods
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.reader import Trace, TraceWriter, open_trace

TEXTS, LENGTH, VOCABULARY = 40, 8, 20


def stored(path: Path, *, seed: int = 1, noise: float = 1.0, flip: bool = False) -> Trace:
    """A trace of random rows, of which the flat ones are the less alike; with ``flip`` the peaked ones."""
    rng = np.random.default_rng(seed)
    with TraceWriter(path, VOCABULARY) as writer:
        for text in range(TEXTS):
            scale = rng.uniform(0.3, 6.0, (LENGTH, 1))
            draft = scale * rng.normal(size=(LENGTH, VOCABULARY))
            shift = noise * (scale if flip else 1.0) * rng.normal(size=draft.shape)
            target = np.where(flip & (scale < 3), draft, draft + shift)
            index = np.full(LENGTH, text, dtype=np.int32)
            tokens = np.zeros(LENGTH, dtype=np.int32)
            rows = (draft.astype(np.float16), target.astype(np.float16))
            writer.append(*rows, tokens, index, np.arange(LENGTH, dtype=np.int32))
    return open_trace(path)


def test_the_line_gives_the_thresholds_and_the_risk_moves_the_calibrated_one(tmp_path: Path) -> None:
    trace = stored(tmp_path / "trace")
    found = fit(trace, risk=0.05)
    averse, prone = skip_thresholds(found.slope, found.intercept, found.non_acceptance)
    assert (found.risk_averse, found.risk_prone) == (float(averse), float(prone))
    assert 0 < found.slope < 1.5
    assert 0 < found.offline_k < VOCABULARY
    assert fit(trace, distortion_tolerance=0.5).offline_k < found.offline_k
    thresholds = [fit(trace, risk=risk).calibrated for risk in (0.03, 0.1, 0.2)]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[2]


def test_too_few_texts_and_a_line_that_falls_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"40 texts, and a risk of 0.01 takes 99"):
        fit(stored(tmp_path / "few"), risk=0.01)
    with pytest.raises(UserError, match="does not rise"):
        fit(stored(tmp_path / "falls", flip=True))


def test_every_method_can_be_made_and_run(pair: Pair, tmp_path: Path) -> None:
    methods = default_methods(fit(stored(tmp_path / "trace")), max_draft_length=3)
    names = [method.name for method in methods]
    assert len(set(names)) == len(names) >= 24
    for method in methods:
        (row,) = decode(pair, [Prompt("a", "two and two", "test")], method, new_tokens=3)
        assert row.method == method.name
        assert len(row.tokens) == 3 or row.ended
