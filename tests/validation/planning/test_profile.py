"""The profile of a trace, against the functions of the theory on whole rows."""

from __future__ import annotations

import numpy as np
import pytest

from hlmtheory.lattice import payload_bits, quantize, top_support
from hlmtheory.skipping import one_step_risk, overlap_losses
from hlmtheory.uncertainty import vocabulary_uncertainty
from hlmtheory.verification import acceptance_rate
from tests.validation.stored_traces import LENGTH, TEXTS, VOCABULARY, stored
from validation.planning.positions import LATTICES, THRESHOLDS
from validation.planning.profile import DRAFT_LENGTHS, profile_of
from validation.planning.rounds import COUNTS
from validation.trace.reader import probabilities


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("profile") / "trace", noise=0.5)


@pytest.fixture(scope="module")
def profile(trace):
    return profile_of(trace)


def rows(trace, text):
    """q, p, u and the tokens of a text."""
    part = slice(text * LENGTH, (text + 1) * LENGTH)
    logits = np.asarray(trace.arrays["draft_logits"][part])
    q, p = probabilities(logits), probabilities(trace.arrays["target_logits"][part])
    return q, p, vocabulary_uncertainty(logits.astype(np.float64)), np.asarray(trace.arrays["tokens"][part])


@pytest.mark.parametrize("text", [0, 7, TEXTS - 1])
def test_losses_of_a_text_are_those_of_the_theory(trace, profile, text):
    q, p, u, token = rows(trace, text)
    np.testing.assert_allclose(profile.overlap[text, 0], overlap_losses(p, q, u, token, THRESHOLDS), atol=1e-9)
    risk = [np.mean(one_step_risk(p, q, u <= level)) for level in THRESHOLDS]
    np.testing.assert_allclose(profile.risk[text, 0], risk, atol=1e-9)


@pytest.mark.parametrize("number", [n for n, one in enumerate(LATTICES) if one.k is not None])
def test_quantised_rows_are_those_of_whole_rows(trace, profile, number):
    lattice, text = LATTICES[number], 3
    q, p, u, token = rows(trace, text)
    k = min(lattice.k, VOCABULARY)
    row = quantize(q, support=top_support(q, np.full(LENGTH, k)), resolution=lattice.resolution) / lattice.resolution
    assert profile.acceptance[text, number + 1] == pytest.approx(np.mean(acceptance_rate(p, row)), abs=1e-9)
    np.testing.assert_allclose(
        profile.overlap[text, number + 1], overlap_losses(p, row, u, token, THRESHOLDS), atol=1e-9
    )
    one = profile.planned[0, 0, number + 1, text]  # K = 1, nothing is skipped
    each = float(payload_bits(VOCABULARY, k, lattice.resolution)) + 5 + 16
    sent = dict(zip(COUNTS, one.tolist(), strict=True))
    assert sent["up_bits"] == pytest.approx(sent["exchanges"] * each, rel=1e-9)


def test_rounds_along_a_text_accept_its_own_tokens(trace, profile):
    column = COUNTS.index("exchanges")
    for text in (0, 5):
        q, p, _, token = rows(trace, text)
        accepted = np.minimum(1.0, q[np.arange(LENGTH), token] / p[np.arange(LENGTH), token])
        start = np.zeros(LENGTH + 2)
        start[0] = 1.0
        for t in range(LENGTH):
            start[t + 1] += start[t] * (1 - accepted[t])
            start[t + 2] += start[t] * accepted[t]
        assert profile.planned[0, 0, 0, text, column] == pytest.approx(start[:LENGTH].sum(), rel=1e-12)
    longer = profile.planned[:, 0, 0, :, column].sum(axis=1)
    assert (np.diff(longer) <= 1e-9).all()
    assert longer[3] < longer[0] - 1
    assert len(longer) == len(DRAFT_LENGTHS)


def test_skipping_everything_is_the_device_alone(profile):
    last = profile.planned[:, -1]
    np.testing.assert_allclose(last[..., COUNTS.index("exchanges")], 0.0, atol=1e-9)
    np.testing.assert_allclose(last[..., COUNTS.index("drafts")], LENGTH, rtol=1e-9)


def test_a_profile_is_kept_and_recognised(trace, profile, tmp_path):
    file = tmp_path / "profile.npz"
    profile_of(trace, file)
    calls = []
    again = profile_of(trace, file, lambda *what: calls.append(what))
    assert not calls
    np.testing.assert_array_equal(again.planned, profile.planned)
    file.write_bytes(file.read_bytes()[:1000])  # damaged: measured anew
    profile_of(trace, file, lambda *what: calls.append(what))
    assert calls
    calls.clear()
    profile_of(stored(tmp_path / "other", seed=2), file, lambda *what: calls.append(what))
    assert calls  # another trace
