"""Printed results of papers beyond the five: against enumeration, and against the tables that they print."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory.channel import downlink_bits
from hlmtheory.draft_length import optimal_draft_length

from .strategies import grid_rows

KNOWN = hlmtheory.all_claims()
SIXTEENTHS = st.integers(0, 48).map(lambda n: Fraction(n, 16))


# ------------------------------------------------------------------------------------------------ ning2025dssd


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


# ----------------------------------------------------------------------------------------------- zheng2025tkslt

COSTS = (0.01, 0.1, 0.2, 0.4, 0.6)
TABLE = {0.4: (4, 2, 1, 1, 1), 0.6: (7, 3, 2, 1, 1), 0.8: (14, 6, 4, 2, 1)}
"""γ* of Table I, as public code of the method quotes it."""


def gain(alpha, cost, length):
    return sum(alpha**j for j in range(length + 1)) / (1 + length * cost)


@pytest.mark.parametrize("alpha", TABLE)
def test_the_table_of_lengths_is_that_of_a_search(alpha):
    found = [max(range(1, 65), key=lambda length: gain(alpha, cost, length)) for cost in COSTS]
    assert tuple(found) == TABLE[alpha] == tuple(optimal_draft_length(alpha, 1.0, COSTS, 64).tolist())


def test_one_star_of_the_table_marks_a_tie():
    """1* marks a length that is slower than no drafts.

    At α = L = .6 both are equal, as at α = L = .4, which has no star.
    """
    assert gain(Fraction(3, 5), Fraction(3, 5), 1) == gain(Fraction(2, 5), Fraction(2, 5), 1) == 1
    assert gain(0.4, 0.6, 1) < 1 < gain(0.8, 0.6, 1)


# ------------------------------------------------------------------------------------------------ lyu2026distance

LONGEST = {
    100: (47, 144, 265, 319),
    50: (None, 47, 108, 134),
    30: (None, 8, 45, 61),
    20: (None, None, 13, 24),
}
"""The longest round trip in ms by the time of a pass, for α = .5, .7, .85, .9: Table III, as a summary quotes it."""


@pytest.mark.parametrize("verify", LONGEST)
def test_the_table_of_round_trips_follows_from_five_drafts_of_ten_milliseconds(verify):
    for alpha, printed in zip((0.5, 0.7, 0.85, 0.9), LONGEST[verify], strict=True):
        mean = sum(alpha**j for j in range(6))
        longest = (mean - 1) * verify - 5 * 10
        assert round(longest) == printed if printed else longest < 0


def simulated(alpha, draft, trip, verify, rng, texts=4000):
    """Return the seconds per token of a device that never stops. Passes follow each other, since V > t.

    The draft that fails, J behind the first, is in the first pass that begins when it has arrived.
    """
    behind = rng.geometric(1 - alpha, texts) - 1
    seconds = draft + trip + verify * (1 + np.ceil(behind * draft / verify))
    return seconds.sum() / (behind + 1).sum()


def test_a_device_that_never_stops_beats_the_best_server_of_its_own_within_the_best_window_alone():
    """α = .984: the best length is 18, so its window is 4.5 s at t = .25 s; 5 drafts make a window of 1.25 s."""
    alpha, draft, verify = 0.984375, 0.25, 1.0
    best = min((k * draft + verify) * (1 - alpha) / (1 - alpha ** (k + 1)) for k in range(200))
    rng = np.random.default_rng(1)
    near, far = (simulated(alpha, draft, trip, verify, rng) for trip in (1.25, 5.0))
    assert near < best < far
