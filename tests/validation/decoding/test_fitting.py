"""The parameters fitted to a trace; every method can be made from them."""

from pathlib import Path

import numpy as np
import pytest

from hlmtheory.skipping import skip_thresholds
from tests.validation.stored_traces import VOCABULARY, stored
from validation.decoding.fitting import fit, of_other_models
from validation.decoding.trace_drafts import rejection_at
from validation.errors import UserError
from validation.trace.reader import Trace


def test_the_line_gives_the_thresholds_and_the_risk_moves_the_calibrated_one(tmp_path):
    trace = stored(tmp_path / "trace")
    found = fit(trace, risk=0.05)
    averse, prone = skip_thresholds(found.slope, found.intercept, non_acceptance=found.non_acceptance)
    assert (found.risk_averse, found.risk_prone) == (float(averse), float(prone))
    assert 0 < found.slope < 1.5
    assert 0 < found.offline_k < VOCABULARY
    assert fit(trace, distortion_tolerance=0.5).offline_k < found.offline_k
    thresholds = [fit(trace, risk=risk).calibrated for risk in (0.03, 0.1, 0.2)]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[2]


def test_too_few_prompts_and_a_line_that_falls_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"40 prompts, and a risk of 0.01 takes 99"):
        fit(stored(tmp_path / "few", repeat=3), risk=0.01)  # 120 texts of 40 prompts
    with pytest.raises(UserError, match=r"does not rise with the uncertainty \(slope -"):
        fit(stored(tmp_path / "falls", flip=True))


def test_a_fit_to_the_trace_of_other_models_is_said(pair):
    about = pair.describe()

    def told(**changes):
        return of_other_models(Trace(Path("run/trace"), {"pair": about | changes}, {}, True), pair)

    assert told() == ""
    assert f"of the target model another (here {about['large_name']}). Give --run" in told(large_name="another")
    assert f"a vocabulary of 7 (here {about['vocabulary']})" in told(vocabulary=7)
    assert of_other_models(Trace(Path("imported"), {}, {}, True), pair) == ""


def test_rejections_of_drafts_are_those_of_their_definition(tmp_path):
    trace = stored(tmp_path / "trace")
    rows, tokens = np.array([1, 2, 7]), np.array([3, 0, 5])
    p, q = (np.exp(np.asarray(trace.arrays[f"{name}_logits"][:], dtype=float)[rows]) for name in ("target", "draft"))
    p, q = ((x / x.sum(axis=-1, keepdims=True))[np.arange(3), tokens] for x in (p, q))
    np.testing.assert_allclose(rejection_at(trace, rows, tokens), np.maximum(1.0 - p / q, 0.0), rtol=1e-6)
