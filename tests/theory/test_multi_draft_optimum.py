"""Several drafts of one position: the best acceptance, against all sets in fractions and a linear program."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hlmtheory.verification import acceptance_rate
from hlmtheory.verification.multi_draft import multi_draft_optimum, top_draft_optimum

from .oracles import over_its_sum
from .strategies import grid_rows

ROWS = st.integers(1, 5).flatmap(lambda size: st.tuples(*(grid_rows((), size) for _ in range(2))))


def independent(q, n):
    law = {}
    for drafts in itertools.product(range(len(q)), repeat=n):
        law[frozenset(drafts)] = law.get(frozenset(drafts), Fraction(0)) + np.prod([q[v] for v in drafts])
    return law


def sure_and_one(q, n):
    """Return the probability of each set of the n - 1 most probable tokens and one that is drawn from the others."""
    order = sorted((v for v in range(len(q)) if q[v]), key=lambda v: -q[v])
    sure, rest = order[: n - 1], order[n - 1 :]
    if not rest:
        return {frozenset(sure): Fraction(1)}
    return {frozenset([*sure, v]): q[v] / sum(q[w] for w in rest) for v in rest}


def least_cut(p, law):
    """Return 1 + min over all sets H of p(H) - P(the drafts are in H)."""
    sets = (set(H) for size in range(len(p) + 1) for H in itertools.combinations(range(len(p)), size))
    return min(1 + sum(p[v] for v in H) - sum(mass for drafts, mass in law.items() if drafts <= H) for H in sets)


def best_rule(p, law):
    """Return the largest acceptance over all rules, by a linear program for the mass of each set and emitted token."""
    drafts, size = list(law), len(p)
    gain = np.array([[-float(v in one) for v in range(size)] for one in drafts]).ravel()
    rows = np.kron(np.eye(len(drafts)), np.ones(size))
    columns = np.kron(np.ones(len(drafts)), np.eye(size))
    given_mass = [float(law[one]) for one in drafts] + [float(x) for x in p]
    return -linprog(gain, A_eq=np.vstack([rows, columns])[:-1], b_eq=given_mass[:-1], method="highs").fun


@given(ROWS, st.integers(1, 4))
def test_the_optimum_is_the_least_cut_in_fractions(rows, n):
    p, q = map(over_its_sum, rows)
    for function, law in ((multi_draft_optimum, independent(q, n)), (top_draft_optimum, sure_and_one(q, n))):
        assert float(function(*rows, n)) == pytest.approx(float(least_cut(p, law)), abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    p, q = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 3.0])), size=2)
    for function, law in (
        (multi_draft_optimum, independent(over_its_sum(q), n)),
        (top_draft_optimum, sure_and_one(q, n)),
    ):
        assert float(function(p, q, n)) == pytest.approx(best_rule(p, law), abs=1e-9)


@given(ROWS)
def test_one_draft_is_ordinary_acceptance_and_more_drafts_accept_no_less(rows):
    counts = np.arange(1, 7)
    for function in (multi_draft_optimum, top_draft_optimum):
        assert float(function(*rows, 1)) == pytest.approx(float(acceptance_rate(*rows)), abs=1e-12)
    found = multi_draft_optimum(*(np.broadcast_to(row, (6, len(row))) for row in rows), counts)
    assert (np.diff(found) >= -1e-12).all()


def test_more_drafts_than_tokens():
    assert float(multi_draft_optimum([0.5, 0.5], [1.0, 0.0], 1000)) == 0.5
    assert float(top_draft_optimum([0.5, 0.5], [1.0, 0.0], 1000)) == 0.5
    assert float(top_draft_optimum([0.5, 0.5], [0.75, 0.25], 1000)) == 1.0
