"""Printed results of papers beyond the five: against enumeration, and against the tables that they print."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory.channel.split import downlink_bits
from hlmtheory.draft_length import optimal_draft_length

from .strategies import grid_rows

KNOWN = hlmtheory.all_claims()


@given(st.lists(st.integers(0, 16).map(lambda n: Fraction(n, 16)), min_size=1, max_size=5))
def test_a_row_goes_down_in_the_rounds_that_reject(rates):
    """All 2^K outcomes of K coins; a round stops at the first that fails."""
    rows = sum(
        math.prod(r if ok else 1 - r for r, ok in zip(rates, outcome, strict=True))
        for outcome in itertools.product((True, False), repeat=len(rates))
        if not all(outcome)
    )
    assert float(downlink_bits([float(r) for r in rates], 96.0)) == pytest.approx(96.0 * float(rows), abs=1e-10)


@given(st.data())
def test_a_truncated_row_costs_no_more_than_its_distance(data):
    size = data.draw(st.integers(1, 4))
    p, q, told = ([Fraction(float(x)) for x in data.draw(grid_rows((), size))] for _ in range(3))
    rest = [max(a - b, Fraction(0)) for a, b in zip(told, q, strict=True)]
    rejected = sum(max(b - a, Fraction(0)) for a, b in zip(p, q, strict=True))
    row = [x / sum(rest) for x in rest] if sum(rest) else told
    law = [min(a, b) + rejected * x for a, b, x in zip(p, q, row, strict=True)]
    far = sum(abs(a - b) for a, b in zip(law, p, strict=True)) / 2
    assert sum(law) == 1
    assert far <= sum(abs(a - b) for a, b in zip(told, p, strict=True)) / 2
    values = {name: [float(x) for x in row] for name, row in (("target", p), ("draft", q), ("received", told))}
    assert float(KNOWN["channel.downlink_truncated"].check(values).lhs) == pytest.approx(float(far), abs=1e-12)


COSTS = (0.01, 0.1, 0.2, 0.4, 0.6)
TABLE = {0.4: (4, 2, 1, 1, 1), 0.6: (7, 3, 2, 1, 1), 0.8: (14, 6, 4, 2, 1)}
"""γ* of Table I, as public code of the method quotes it."""


def gain(alpha, cost, length):
    return sum(alpha**j for j in range(length + 1)) / (1 + length * cost)


@pytest.mark.parametrize("alpha", TABLE)
def test_the_table_of_lengths_is_that_of_a_search(alpha):
    found = [max(range(1, 65), key=lambda length: gain(alpha, cost, length)) for cost in COSTS]
    assert tuple(found) == TABLE[alpha] == tuple(optimal_draft_length(alpha, 1.0, COSTS, 64).tolist())
