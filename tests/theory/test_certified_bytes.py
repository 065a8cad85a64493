"""A certificate holds for the bytes that are sent: rows of every library, type and order, and an exact oracle.

The oracle works in fractions, from the caller's numbers and from the row that was decoded from the bytes; it shares no
code with the size, the message or the server.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hlmtheory import codec, truncation
from hlmtheory.truncation.levels import levels_of
from hlmtheory.truncation.message import decoded_draft, message_deviation

from .kinds import namespace, numbers
from .oracles import over_its_sum
from .strategies import rows as any_rows

BITS = (1, 2, 8, 16, 24)
TYPES = ("float16", "bfloat16", "float32", "float64")
FULL_LAW = 5
"""Largest vocabulary for which the whole law is computed, draft by draft."""


def apart(one, other) -> Fraction:
    """Return Σ |p - q|, twice the total variation: the Bias for the worst target, p = q̂, with the message of q̂."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def bias(target, draft, sent) -> Fraction:
    """Return Σ |law - p| if ``sent[d]`` holds the probability that accepts draft d and the row that replaces it.

    Where a residual is 0/0, all of its mass goes to one token, the worst one.
    """
    law, lost = [Fraction(0)] * len(draft), Fraction(0)
    for d, (own, row) in sent.items():
        accepted = min(Fraction(1), target[d] / own)
        law[d] += draft[d] * accepted
        residual = [max(p - q, Fraction(0)) for p, q in zip(target, row, strict=True)]
        mass, rejected = sum(residual), draft[d] * (1 - accepted)
        if mass:
            law = [a + rejected * r / mass for a, r in zip(law, residual, strict=True)]
        else:
            lost += rejected
    return max(apart([a + lost * (v == w) for w, a in enumerate(law)], target) for v in range(len(law)))


@st.composite
def near_grid(draw, size: int, bits: int) -> np.ndarray:
    """A row whose entries are levels/(2^b - 1), up to a common factor by which its sum misses 1."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    zeros = draw(st.integers(0, size - 1))
    weights = rng.dirichlet([draw(st.sampled_from((0.1, 1.0, 20.0)))] * (size - zeros))
    level = rng.multinomial(2**bits - 1, weights)
    factor = draw(st.one_of(st.floats(-9e-5, 9e-5), st.integers(-8, 8).map(lambda n: n * 2.0**-52)))
    return rng.permutation(np.r_[level, np.zeros(zeros, dtype=np.int64)]) / (2**bits - 1) * (1.0 + factor)


def stored(library: str, values: np.ndarray, dtype: str, order: str):
    xp = namespace(library)
    # torch rounds float64 to float16 by way of float32, so numpy rounds for both
    batch = xp.asarray(values.copy() if dtype == "bfloat16" else values.astype(dtype))
    batch = batch.to(xp.bfloat16) if dtype == "bfloat16" else batch
    if order == "F":
        return np.asfortranarray(batch) if library == "numpy" else batch.T.contiguous().T
    if order == "strided":
        room = xp.zeros((batch.shape[0], 3 * batch.shape[1]), dtype=batch.dtype)
        room[:, ::3] = batch
        return room[:, ::3]
    return batch


@st.composite
def batches(draw):
    bits = draw(st.sampled_from(BITS))
    size = draw(st.one_of(st.integers(2, 6), st.integers(2, 12), st.sampled_from((40, 130))))
    one = near_grid(size, bits if bits > 2 else 8) if draw(st.booleans()) else any_rows((), size)
    values = np.stack([draw(one) for _ in range(draw(st.integers(1, 3)))])
    dtype = draw(st.sampled_from(TYPES))
    libraries = ("torch",) if dtype == "bfloat16" else ("numpy", "torch")
    variants = [stored(library, values, dtype, order) for library in libraries for order in ("C", "F", "strided")]
    return bits, variants


def size_or_refusal(draft, tolerance, bits):
    try:
        return numbers(truncation.certified_size(draft, tolerance, bits_per_probability=bits)).tolist()
    except ValueError as error:
        if "give more bits_per_probability" in str(error):
            return None
        raise


@given(batches(), st.data())
def test_the_decoded_message_of_any_row_keeps_its_certificate(case, data):
    """Equal values give the same size and the same bytes, and the exact Bias is within the certificate."""
    bits, variants = case
    values = numbers(variants[0])
    assume(np.abs(values.sum(-1) - 1).max() <= 1e-4 or not str(variants[0].dtype).endswith(("32", "64")))
    whole = values / values.sum(-1, keepdims=True)
    reached = 2 * numbers(message_deviation(whole, bits_per_probability=bits))
    tolerance = data.draw(st.one_of(st.sampled_from(reached[0].tolist()), st.floats(0.0, 2.0)))
    tolerance *= data.draw(st.sampled_from((1.0, 1.0 + 2.0**-52, 1.0 - 2.0**-52, 1.0 + 1e-9)))
    found = [size_or_refusal(draft, tolerance, bits) for draft in variants]
    assert all(sizes == found[0] for sizes in found)
    for i in range(len(values)):
        alone = [size_or_refusal(draft[i], tolerance, bits) for draft in variants]
        assert all(size == (found[0][i] if found[0] else alone[0]) for size in alone)
        if alone[0] is not None:
            check_row(values[i], [draft[i] for draft in variants], int(alone[0]), tolerance, bits)


def check_row(row, variants, k, tolerance, bits):
    """All variants give the same bytes for each draft's message, and the decoded row is within the certificate."""
    draft, limit = over_its_sum(row), Fraction(tolerance)
    drawn = np.flatnonzero(row)
    tokens = drawn if len(row) <= FULL_LAW else drawn[np.argsort(row[drawn], kind="stable")[[0, len(drawn) // 2, -1]]]
    sent = {}
    for d in tokens.tolist():
        written = {codec.encode(codec.truncated_message(one, top_k=k, token=d, bits=bits)) for one in variants}
        assert len(written) == 1
        message = codec.decode(written.pop())
        row_of_server = over_its_sum(codec.decoded_rows(message)[0])
        assert apart(draft, row_of_server) <= limit
        sent[d] = Fraction(message.drafts[0].probability), row_of_server
    if len(row) > FULL_LAW:
        return
    for _, decoded in sent.values():
        for share in (Fraction(1), 1 - Fraction(1, 2**20), Fraction(1, 2)):
            # between q and q̂: the residuals are disjoint, so the Bias is the largest for the distance
            target = [a + share * (b - a) for a, b in zip(draft, decoded, strict=True)]
            assert bias(target, draft, sent) <= limit


def test_a_level_never_stands_for_more_than_the_value():
    """And the next level exceeds it, also where the product is rounded past a whole number."""
    rng = np.random.default_rng(1)
    for bits in (1, 2, 7, 8, 16, 24, 52):
        scale = 2**bits - 1
        whole = rng.integers(0, scale, 500, endpoint=True) / scale
        beside = [np.nextafter(whole, 0), np.nextafter(whole, 1), rng.random(500), [0.0, 1.0, 5e-324]]
        values = np.concatenate([whole, *beside])
        for value, level in zip(values.tolist(), levels_of(values, bits).tolist(), strict=True):
            assert int(level) / scale <= value
            assert value == 1.0 or (int(level) + 1) / scale > value


@pytest.mark.parametrize("bits", [8, 24, 52])
@pytest.mark.parametrize("entry", [1.0, 1.0 - 2.0**-53, 1.0 - 2.0**-51, 1.0 - 2.0**-50])
def test_a_single_entry_that_misses_one_is_no_certain_row(entry, bits):
    """The row is used as it is and its value is rounded; 2 Δ_k was below the exact distance (0 with 52 bits)."""
    row = [0.0, entry, 0.0, 0.0]
    bound = message_deviation(row, bits_per_probability=bits)
    for k in range(len(row) + 1) if entry < 1.0 else range(1, len(row) + 1):
        for token in (None, 1):
            decoded = decoded_draft(row, k, bits_per_probability=bits, token=token)
            assert apart(over_its_sum(row), over_its_sum(decoded)) <= 2 * Fraction(float(bound[k]))
    assert entry < 1.0 or bound[1:].tolist() == [0.0] * 4
