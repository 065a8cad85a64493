"""What sizes tell, and the cheapest size classes: against fractions, enumeration and a brute force over all classes."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.channel.leak import rounds_leak, size_classes
from hlmtheory.policy.device_parts import padded, unpadded
from hlmtheory.wire import CodecError

WEIGHT = st.integers(0, 20).map(lambda n: Fraction(n, 4))
sizes = st.lists(st.tuples(st.integers(0, 12), WEIGHT), min_size=1, max_size=7).filter(
    lambda rows: sum(weight for _, weight in rows)
)


@given(sizes, st.integers(1, 6))
def test_no_classes_have_a_smaller_mean(rows, most):
    """All subsets of the sizes that hold the largest, in fractions."""
    known = sorted({size for size, _ in rows})
    total = sum(weight for _, weight in rows)
    least = min(
        sum(Fraction(weight, total) * min(top for top in (*chosen, known[-1]) if top >= size) for size, weight in rows)
        for many in range(min(most, len(known)))
        for chosen in combinations(known[:-1], many)
    )
    found = size_classes(*np.array(rows, dtype=float).T, most)
    assert found.mean == pytest.approx(float(least), rel=1e-12)
    assert len(found.tops) <= most
    assert found.tops[-1] == known[-1]
    assert set(found.tops.tolist()) <= set(known)


@pytest.mark.parametrize(("tokens", "drafts"), list(product(range(1, 9), range(1, 5))))
def test_every_number_of_rounds_occurs(tokens, drafts):
    """Whatever drafts match: the bound counts the numbers of rounds that some text takes."""
    found = set()
    for matches in product((False, True), repeat=tokens):
        place = rounds = 0
        while place < tokens:
            sent = matches[place : place + drafts]
            accepted = next((depth for depth, match in enumerate(sent) if not match), len(sent))
            place, rounds = place + accepted + 1, rounds + 1
        found.add(rounds)
    assert math.log2(len(found)) == pytest.approx(float(rounds_leak(tokens, drafts)))


@given(st.binary(max_size=12), st.lists(st.integers(1, 20), max_size=4, unique=True))
def test_a_padded_message_is_the_message(message, sizes):
    known = tuple(sorted(sizes))
    if known and len(message) >= known[-1]:
        with pytest.raises(ValueError, match="message_sizes must hold every message"):
            padded(message, known)
        return
    sent = padded(message, known)
    assert unpadded(sent, known) == message
    for longer in (size for size in known if size > len(sent)):
        with pytest.raises(CodecError, match="longer pad"):
            unpadded(sent.ljust(longer, b"\0"), known)
    assert not known or len(sent) == min(size for size in known if size > len(message))


@given(st.binary(max_size=9), st.sampled_from([(4,), (3, 8)]))
def test_other_bytes_are_refused_or_are_a_message(data, sizes):
    try:
        message = unpadded(data, sizes)
    except CodecError:
        return
    assert padded(message, sizes) == data
