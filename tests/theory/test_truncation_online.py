"""The softplus, the online bound, its safe sharpness and the rounded message, against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import truncation, verification
from hlmtheory.truncation.message import decoded_draft, message_deviation
from hlmtheory.truncation.softplus import softplus_distance, softplus_gap

from . import oracles
from .kinds import LIBRARIES, numbers, to
from .strategies import pairs, rows, vocabularies

Q = [0.5, 0.2, 0.15, 0.1, 0.05]


def softplus(z, eta):
    return np.logaddexp(0.0, eta * z) / eta


def denominator(q, beta, eta):
    """D of (23)."""
    return (1 - q) * softplus(-1.0, eta) + q * softplus(-beta, eta)


@given(st.floats(-50.0, 50.0), st.floats(0.01, 100.0))
def test_the_gap_against_the_definition(z, eta):
    np.testing.assert_allclose(softplus_gap(z, eta), softplus(z, eta) - max(z, 0.0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_approximate_distance_against_the_definition(library):
    p, q = np.random.default_rng(1).dirichlet(np.ones(20), size=(2, 5))
    expected = np.sum(q * softplus(p / q - 1, 5.0), axis=-1)
    np.testing.assert_allclose(numbers(softplus_distance(to(library, p), to(library, q), 5.0)), expected, rtol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_online_bound_against_the_definition(library):
    sizes = np.arange(6)
    for token, beta, eta in ((0, 0.0, 1.0), (2, 0.4, 5.0), (4, 1.0, 20.0)):
        expected = 2 * truncation.tail_deviation(Q) / denominator(Q[token], beta, eta)
        found = truncation.online_bound(to(library, Q), token, beta, to(library, sizes), sharpness=eta)
        np.testing.assert_allclose(numbers(found), expected, rtol=1e-12, atol=1e-15)


def decoded(q, k, bits, token=None):
    levels = 2**bits - 1
    sent = sorted(range(len(q)), key=lambda v: (-q[v], v))[:k]
    value = {v: np.floor(q[v] * levels) / levels for v in sent}
    if token is not None:
        value[token] = q[token]
    home = [v for v in range(len(q)) if v not in value] or [v for v in range(len(q)) if v != token]
    share = (1 - sum(value.values())) / max(len(home), 1)
    return [value.get(v, 0.0) + (share if v in home else 0.0) for v in range(len(q))]


@given(st.data())
def test_the_decoded_row_against_entry_by_entry(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    k, bits = data.draw(st.integers(0, len(draft))), data.draw(st.sampled_from((1, 3, 8, 52)))
    token = data.draw(st.one_of(st.none(), st.integers(0, len(draft) - 1)))
    draft = draft / draft.sum()  # as decoded_draft does, since floor is sensitive to the last bit
    found = decoded_draft(draft, k, bits_per_probability=bits, token=token)
    np.testing.assert_allclose(found, decoded(draft, k, bits, token), rtol=0, atol=2.0**-bits + 1e-12)
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-12)


@given(st.data())
def test_the_deviation_of_a_message_is_a_distance_and_the_draft_s_own_entry_never_adds_to_it(data):
    draft = data.draw(rows((), min(data.draw(vocabularies()), 12)))
    bits = data.draw(st.integers(1, 10))
    sizes = np.arange(len(draft) + 1)
    deviation = message_deviation(draft, bits_per_probability=bits)
    shown = verification.total_variation(draft, decoded_draft(draft, sizes, bits_per_probability=bits))
    np.testing.assert_allclose(deviation, shown, rtol=0, atol=1e-12)
    for token in range(len(draft)):
        row = decoded_draft(draft, sizes, bits_per_probability=bits, token=token)
        assert (verification.total_variation(draft, row) <= deviation + 1e-12).all()


@given(pairs(), st.data())
def test_the_law_with_decoded_acceptance_against_every_draft(pair, data):
    p, q = (
        pair["target"].reshape(-1, pair["target"].shape[-1])[0],
        pair["draft"].reshape(-1, pair["draft"].shape[-1])[0],
    )
    row = truncation.truncate(q, data.draw(st.integers(0, len(q))))
    beta = np.array(oracles.rejection(p.tolist(), row.tolist()), dtype=float)
    replacement = verification.residual_distribution(p, row)
    law = sum(
        mass * ((1 - b) * np.eye(len(q))[v] + b * replacement) for v, (mass, b) in enumerate(zip(q, beta, strict=True))
    )
    found = truncation.decoded_output_distribution(p, q, row)
    np.testing.assert_allclose(found, law, rtol=0, atol=1e-9)
    assert np.abs(found - p).sum() <= 2 * verification.total_variation(q, row) + 1e-12
