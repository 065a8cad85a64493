"""Lossy rules at one position and in a round, against linear programs and enumeration in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hlmtheory import all_claims, verification
from hlmtheory.verification.lossy import relaxed_acceptance, threshold_acceptance, top_acceptance, typical_acceptance

HALF = Fraction(1, 2)


def rows(size: int, count: int = 2):
    one = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return st.tuples(*[one.map(lambda n: [Fraction(each, sum(n)) for each in n])] * count)


def vectors(size: int):
    return st.lists(st.integers(0, 8).map(lambda n: Fraction(n, 8)), min_size=size, max_size=size)


def floats(values) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def most_accepted(p: np.ndarray, q: np.ndarray, distance: float) -> float:
    """Return the largest Σ x for kept x ≤ q and resampled y with TV(x + y, p) ≤ distance, by a linear program."""
    size = len(p)
    eye, none = np.eye(size), np.zeros((size, size))
    over = np.hstack([eye, eye, -eye])  # x + y - p ≤ z, the excess
    found = linprog(
        np.concatenate([-np.ones(size), np.zeros(2 * size)]),
        A_ub=np.vstack([over, np.concatenate([np.zeros(2 * size), np.ones(size)])[None], np.hstack([eye, none, none])]),
        b_ub=np.concatenate([p, [distance], q]),
        A_eq=np.concatenate([np.ones(2 * size), np.zeros(size)])[None],
        b_eq=[1.0],
    )
    return -found.fun


@given(rows(3), st.integers(0, 8))
def test_no_rule_accepts_more_than_the_line(pair, eighths):
    p, q = map(floats, pair)
    distance = eighths / 8
    expected = min(1.0, 1.0 - float(verification.total_variation(p, q)) + distance)
    assert most_accepted(p, q, distance) == pytest.approx(expected, abs=1e-9)


@given(rows(3, 3), vectors(3))
def test_the_price_in_fractions(three, accept):
    p, q, r = three
    kept = [a * b for a, b in zip(q, accept, strict=True)]
    law = [k + (1 - sum(kept)) * each for k, each in zip(kept, r, strict=True)]
    distance = HALF * sum(abs(a - b) for a, b in zip(law, p, strict=True))
    lossless = sum(map(min, p, q))
    price = verification.lossy_price(floats(p), floats(q), floats(accept), floats(r))
    assert float(price.acceptance) == pytest.approx(float(sum(kept)), abs=1e-12)
    assert float(price.distance) == pytest.approx(float(distance), abs=1e-12)
    assert float(price.wasted) == pytest.approx(float(lossless + distance - sum(kept)), abs=1e-12)


@given(rows(4), st.floats(1.0, 20.0))
def test_a_relaxed_rule_is_a_rule_of_skips_and_wastes_nothing(pair, factor):
    p, q = map(floats, pair)
    accept, beta = relaxed_acceptance(p, q, factor), verification.rejection_probability(p, q)
    price = verification.lossy_price(p, q, accept)
    assert float(price.wasted) == pytest.approx(0.0, abs=1e-12)
    skip = np.where(beta > 0, (accept - 1 + beta) / np.where(beta > 0, beta, 1), 0.0).clip(0, 1)
    law = verification.output_distribution(p, q, skip=skip)
    assert float(verification.total_variation(law, p)) == pytest.approx(float(price.distance), abs=1e-12)


@given(rows(4, 1), st.integers(0, 3), st.floats(0, 1), st.floats(0.01, 1))
def test_thresholds_with_greedy_drafts_waste_nothing(one, token, single, accumulated):
    p, q = floats(one[0]), np.eye(4)[token]
    price = verification.lossy_price(p, q, threshold_acceptance(p, single, accumulated))
    assert float(price.wasted) == pytest.approx(0.0, abs=1e-12)
    assert float(price.distance) == pytest.approx(float(price.acceptance - p[token]), abs=1e-12)


def test_typical_acceptance_wastes_the_rejected_drafts_own_probability():
    p, q = [0.625, 0.25, 0.125], [0.0, 1.0, 0.0]
    accept = typical_acceptance(p, 0.3, 1.0)
    assert accept.tolist() == typical_acceptance(p, 1.0, 0.9).tolist() == [1.0, 0.0, 0.0]  # .9 exp(-H) is .366
    price = verification.lossy_price(p, q, accept, residual=p)  # Medusa draws the next token from p
    assert [float(one) for one in price] == [0.0, 0.0, 0.25]
    likeliest = verification.lossy_price(p, q, accept, residual=[1.0, 0.0, 0.0])  # vLLM emits the likeliest token
    assert [float(one) for one in likeliest] == [0.0, 0.375, 0.625]


def test_top_acceptance_takes_both_limits():
    p = [0.5, 0.125, 0.375]
    assert top_acceptance(p, 0).tolist() == [0.0, 0.0, 0.0]
    assert top_acceptance(p, 3, 0.125).tolist() == [1.0, 0.0, 1.0]
    assert top_acceptance([p, p], [1, 3]).tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]


@given(vectors(4), vectors(4))
def test_the_early_split_is_the_best_one(alpha, shares):
    """Against the linear program over y_i = e_i x_i, x_{i+1} = α_i x_i + y_i, with the same cost."""
    alpha = sorted(alpha, reverse=True)
    cost, reached = Fraction(0), Fraction(1)
    for a, share in zip(alpha, shares, strict=True):
        cost += reached * share * (1 - a)
        reached *= a + share * (1 - a)
    size, a = len(alpha), floats(alpha)
    start = np.zeros((size, size))  # x_i = start_i + Σ_j weights_ij y_j
    base = np.concatenate([[1.0], np.cumprod(a)])
    reach = np.array([[np.prod(a[j + 1 : i]) if j < i else 0.0 for j in range(size)] for i in range(size + 1)])
    start = np.eye(size) - (1 - a)[:, None] * reach[:size]
    found = linprog(
        -reach[1:].sum(axis=0), A_ub=start, b_ub=(1 - a) * base[:size], A_eq=np.ones((1, size)), b_eq=[float(cost)]
    )
    verdict = all_claims()["verification.lossy_early"].check({"acceptances": a, "relaxed": floats(shares)})
    assert float(verdict.rhs) == pytest.approx(float(base.sum()) - found.fun, abs=1e-9)
