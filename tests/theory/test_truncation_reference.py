"""The search for k, against the plain rules in fractions, on distributions with ties, zeros and tiny entries."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import truncation

from . import oracles
from .public import theory
from .strategies import grid_pairs

NEARLY = Fraction(1, 2**40)
"""A tolerance this near a bound, and the number that may be missing from a row's sum, decide nothing."""
TOLERANCES = st.sampled_from((0.0, 1e-3, 0.05, 0.2, 0.5, 0.9, 1.1))


def is_smallest(k, bounds, limit):
    """Assert that k is the smallest with its bound within the limit, up to the rounding of the limit."""
    limit = Fraction(limit)
    slack = NEARLY * (1 + limit)
    assert bounds[k] <= limit + slack
    assert all(bound > limit - slack for bound in bounds[:k])


def first_pair(case):
    p, q = (case[name].reshape(-1, case[name].shape[-1])[0] for name in ("target", "draft"))
    return p, q, oracles.over_its_sum(p), oracles.over_its_sum(q)


@given(grid_pairs(), TOLERANCES)
def test_the_certified_size_is_that_of_the_plain_rule(case, tolerance):
    _, draft, _, q = first_pair(case)
    bounds = [2 * deviation for deviation in deviations(q)]  # of the Bias
    is_smallest(int(truncation.certified_size(draft, tolerance)), bounds, tolerance)


@given(grid_pairs(), TOLERANCES)
def test_the_exact_size_is_that_of_the_plain_rule(case, tolerance):
    target, draft, p, q = first_pair(case)
    bounds = [Fraction(0)] * (len(q) + 1) if p == q or tolerance >= 1 else exact_sizes(p, q)
    is_smallest(int(theory.exact_size(target, draft, tolerance)), bounds, tolerance)


@given(grid_pairs(), TOLERANCES)
def test_the_offline_size_is_that_of_the_plain_rule(case, tolerance):
    target, draft, p, q = first_pair(case)
    if p != q:
        other = draft[::-1].copy()
        bounds = offline([(p, q), (p, q[::-1])] if p != q[::-1] else [(p, q)])
        targets, drafts = ([target, target], [draft, other]) if p != q[::-1] else ([target], [draft])
        is_smallest(int(truncation.offline_size(targets, drafts, tolerance)), bounds, tolerance)


Row = list[Fraction]
Bounds = list[Fraction | float]


def deviations(q: Row) -> Row:
    return [oracles.deviation(q, k) for k in range(len(q))] + [Fraction(0)]


def exact_sizes(p: Row, q: Row) -> Row:
    """TV(r, r̂_k) of cu-hlm (19); 0 where Δ_k = 0, since q̂ is then q."""
    each = zip(range(len(q) + 1), deviations(q), strict=True)
    return [oracles.distortion(p, q, k) if deviation else Fraction(0) for k, deviation in each]


def offline(pairs: list[tuple[Row, Row]]) -> Bounds:
    """mean_t 2 Δ_k / TV(q, p) of cu-hlm (21)."""
    each = [[2 * d / oracles.total_variation(p, q) for d in deviations(q)] for p, q in pairs]
    return [sum(column) / len(pairs) for column in zip(*each, strict=True)]
