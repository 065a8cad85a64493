"""Figure 7 and Table V of ours: each rule's bits and bias are those of the theory's functions at the same positions."""

import numpy as np
import pytest

from hlmtheory import codec, lattice, truncation
from tests.validation.plots.conftest import Maker
from validation.plots.ours import codec_bits
from validation.plots.ours.codec_bits import BUDGET, CHEAPEST, EPSILON, compared
from validation.trace.reader import Trace, probabilities


@pytest.fixture(scope="module")
def trace(make_trace: Maker) -> Trace:
    return make_trace(draft=np.random.default_rng(0).normal(0, 3, (12, 60)), texts=2)


def rows_of(trace: Trace) -> np.ndarray:
    return np.asarray(probabilities(trace.arrays["draft_logits"][:]))


def test_the_rules_are_those_of_the_theory(trace: Trace) -> None:
    found, q = compared(trace, 1), rows_of(trace)
    assert len(found.prompt) == 12
    for n, epsilon in enumerate(EPSILON):
        ours = codec.cheapest_codec(q, epsilon)
        np.testing.assert_array_equal(found.rules[CHEAPEST][n][0], ours.bits)
        assert (found.rules[CHEAPEST][n][1] <= epsilon).all()
        k = truncation.certified_size(q, epsilon, bits_per_probability=24)
        np.testing.assert_array_equal(found.rules["certified, 24 bits"][n][0], k * (24 + 6) + 6)
        assert found.rules[BUDGET][n][1].sum() <= epsilon * 12
        assert found.rules[BUDGET][n][0].sum() <= ours.bits.sum()


def test_rules_on_average_have_the_bias_of_their_quantised_rows(trace: Trace) -> None:
    found, q = compared(trace, 1), rows_of(trace)
    ordered = -np.sort(-q, axis=-1)
    for k, units in ((1, 100), (7, 100), (60, 6400)):
        counts = lattice.quantize(q, support=lattice.top_support(q, k), resolution=units)
        bits, bias = codec_bits._quantised(ordered, np.full(12, k), units)
        np.testing.assert_allclose(bias, np.abs(q - counts / units).sum(-1), atol=1e-12)
        np.testing.assert_allclose(bits, lattice.payload_bits(60, k, units))
    for name in ("K-SQS, best ℓ", "C-SQS, best ℓ", "dense, best ℓ"):
        for promise, epsilon in zip(found.rules[name], EPSILON, strict=True):
            assert promise is None or promise[1].mean() <= epsilon
    assert any(promise is not None for promise in found.rules["K-SQS, best ℓ"])
