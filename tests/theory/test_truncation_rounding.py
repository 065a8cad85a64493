"""Certificates against exact fractions: tolerances next to narrow types, and deviations as small as roundings."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hlmtheory import truncation, verification
from hlmtheory._array import NUMPY
from hlmtheory._simplex import exact_sums
from hlmtheory.truncation._search.tails import Tails

NEARLY = Fraction(1, 2**40)


def fractions(row):
    """Return the row over its sum, exactly."""
    values = [Fraction(float(value)) for value in row]
    return [value / sum(values) for value in values]


def rebuilt(row, k):
    """Return the server's distribution, in fractions."""
    sent = set(sorted(range(len(row)), key=lambda i: (-row[i], i))[:k])
    rest = 1 - sum(row[i] for i in sent)
    return [row[i] if i in sent else rest / (len(row) - k) for i in range(len(row))]


def apart(p, q):
    """TV."""
    return sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


def drawn(seed, count, size, dtype):
    """Rows as a softmax of that type gives them."""
    return np.random.default_rng(seed).dirichlet(np.ones(size), count).astype(dtype)


# ------------------------------------------------------------------------------------- numbers beside narrow rows


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_certified_size_is_certified_exactly(dtype):
    """At tolerances slightly below, at and slightly above 2 Δ_k."""
    for row in drawn(1, 60, 7, dtype):
        exact = fractions(row)
        every = [2 * apart(exact, rebuilt(exact, k)) for k in range(8)]
        for share in (1 - 1e-9, 1 + 1e-9):
            for tolerance in (share * float(value) for value in every[:6]):
                k = int(truncation.certified_size(row, tolerance))
                assert every[k] <= tolerance * (1 + NEARLY)
                assert k == 0 or every[k - 1] > tolerance * (1 - NEARLY)


# ------------------------------------------------------------------------- deviations that are as small as roundings


def nearly_even(seed, count, size, unit=2.0**-52):
    """Rows whose entries differ by a few units in the last place, and sum to exactly 1."""
    steps = np.random.default_rng(seed).integers(-40, 40, (count, size))
    steps[:, 0] -= steps.sum(-1)
    return 1.0 / size + unit * steps


def test_a_tolerance_of_a_few_roundings_is_kept():
    rows = nearly_even(8, 20, 16)
    for tolerance in (0.0, 1e-16, 1e-15, 1e-14, 1e-12):
        for row, k in zip(rows, truncation.certified_size(rows, tolerance).tolist(), strict=True):
            exact = fractions(row)
            assert 2 * apart(exact, rebuilt(exact, k)) <= Fraction(tolerance)


@pytest.mark.parametrize("size", [5, 64, 300, 5000])
def test_a_deviation_is_rounded_by_less_than_is_counted(size):
    """All k of a flat row, of a peaked row, and of a row whose entries differ by units in the last place."""
    rng = np.random.default_rng(size)
    peaked = verification.softmax(rng.normal(scale=3.0, size=size))
    flat = rng.dirichlet(np.full(size, 50.0))
    sizes = np.unique(np.linspace(0, size, 7).astype(np.int64))[None]
    for row in (peaked, flat, 1.0 / size + 2.0**-60 * rng.integers(-9, 9, size)):
        own = Tails.of(NUMPY, row)
        ordered = sorted((Fraction(x) for x in row.tolist()), reverse=True)
        for k, found, slack in zip(sizes[0], *(values[0] for values in own.deviation(sizes)), strict=True):
            tail = ordered[k:]
            mean = sum(tail) / max(len(tail), 1)
            exact = sum(max(x - mean, 0) for x in tail)
            assert abs(Fraction(found) - exact) <= Fraction(slack)


@pytest.mark.parametrize("size", [1, 2, 31, 33, 1000, 1025, 33_000])
def test_sums_are_exact_and_rounded_once(size: int) -> None:
    rng = np.random.default_rng(size)
    tiny = np.where(rng.random((8, size)) < 0.01, 1.0, 2.0**-53)  # near the ends of the intervals that round alike
    spread = rng.integers(0, 3, (8, size)) * 2.0 ** -rng.integers(0, 1074, (8, size)).astype(float)
    for rows in (rng.random((8, size)), rng.dirichlet(np.full(size, 0.05), 8), tiny, spread, np.zeros((8, size))):
        assert exact_sums(rows).tolist() == [math.fsum(row.tolist()) for row in rows]
    assert exact_sums(np.ones((2, 0, size))).shape == (2, 0)
