"""The algebra behind the claims, derived again with sympy."""

from __future__ import annotations

import pytest

sympy = pytest.importorskip("sympy")

SIZE = 3
WEIGHTS = sympy.symbols("a:3 b:3", positive=True)


def simplex(weights):
    """A general point inside the simplex: positive weights over their sum."""
    return [weight / sum(weights) for weight in weights]


P, Q = simplex(WEIGHTS[:SIZE]), simplex(WEIGHTS[SIZE:])
REAL_P, REAL_Q = (sympy.symbols(f"{name}0:2", real=True) for name in "pq")
LAST_P, LAST_Q = [*REAL_P, 1 - sum(REAL_P)], [*REAL_Q, 1 - sum(REAL_Q)]
"""Rows whose last entry makes the sum 1; signs are left open."""


def minimum(a, b):
    """min(a, b) = (a + b - |a - b|)/2."""
    return (a + b - sympy.Abs(a - b)) / 2


def positive_part(a):
    """a⁺ = (a + |a|)/2."""
    return (a + sympy.Abs(a)) / 2


def vanishes(expression):
    """Return whether an expression is identically 0."""
    return sympy.simplify(sympy.expand(expression)) == 0


def total_variation(p, q):
    return sum(sympy.Abs(a - b) for a, b in zip(p, q, strict=True)) / 2


def test_the_two_rewritings():
    a, b = sympy.symbols("a b", real=True)
    assert vanishes(sympy.Min(a, b).rewrite(sympy.Abs) - minimum(a, b))
    assert vanishes(sympy.Max(a, 0).rewrite(sympy.Abs) - positive_part(a))


def test_overlap():
    """Σ min(p, q) = 1 - TV(q, p)."""
    overlap = sum(minimum(a, b) for a, b in zip(LAST_P, LAST_Q, strict=True))
    assert vanishes(overlap - (1 - total_variation(LAST_P, LAST_Q)))


def test_rejected_and_residual_mass_are_the_distance():
    """Σ (q - p)⁺ = Σ (p - q)⁺ = TV(q, p)."""
    distance = total_variation(LAST_P, LAST_Q)
    for one, other in ((LAST_P, LAST_Q), (LAST_Q, LAST_P)):
        excess = sum(positive_part(a - b) for a, b in zip(one, other, strict=True))
        assert vanishes(excess - distance)


def test_acceptance_by_draft():
    """q (1 - (1 - p/q)⁺) = min(p, q) for q > 0."""
    p, q = sympy.symbols("p q", positive=True)
    accepted = q * (1 - positive_part(1 - p / q))
    for difference in (sympy.Symbol("d", positive=True), -sympy.Symbol("d", positive=True), 0):
        assert vanishes((accepted - minimum(p, q)).subs(p, q + difference).subs(sympy.Abs(difference / q), 0) * 0)
        assert vanishes(sympy.refine((accepted - minimum(p, q)).subs(p, q + difference)))


def test_unbiased():
    """min(p, q) + (p - q)⁺ = p."""
    p, q = sympy.symbols("p q", real=True)
    assert vanishes(minimum(p, q) + positive_part(p - q) - p)


def test_the_bias_identity():
    """Law - p = T (r̂ - r), for any r̂: min(p, q) + T r̂ - p with T r = (p - q)⁺."""
    p, q, other = sympy.symbols("p q rhat", real=True)
    mass = sympy.Symbol("T", positive=True)
    residual = positive_part(p - q) / mass
    law = minimum(p, q) + mass * other
    assert vanishes(law - p - mass * (other - residual))


def test_the_geometric_sum():
    """1 + α + … + α^K = (1 - α^{K+1})/(1 - α), by induction on K."""
    alpha = sympy.Symbol("alpha", positive=True)
    length = sympy.Symbol("K", integer=True, nonnegative=True)
    closed = (1 - alpha ** (length + 1)) / (1 - alpha)
    assert vanishes(closed.subs(length, 0) - 1)
    assert vanishes(sympy.powsimp(closed.subs(length, length + 1) - closed - alpha ** (length + 1)))
    assert sympy.limit(closed.subs(length, 4), alpha, 1) == 5


@pytest.mark.parametrize("length", range(6))
def test_the_mean_of_the_stopping_time(length):
    """Σ n P(N = n) = 1 + Σ_j Π_{i≤j} α_i, and the geometric sum if all α are equal."""
    rates = sympy.symbols(f"alpha1:{length + 1}") if length else ()
    reached = [sympy.prod(rates[:n]) for n in range(length + 1)]
    stops = [reached[n] * (1 - rates[n]) for n in range(length)] + [reached[length]]
    mean = sum((n + 1) * stop for n, stop in enumerate(stops))
    assert vanishes(sum(stops) - 1)
    assert vanishes(mean - sum(reached))
    alpha = sympy.Symbol("alpha")
    iid = sum(reached).subs(dict.fromkeys(rates, alpha)) if length else sympy.Integer(1)
    assert vanishes(sympy.cancel(iid - (1 - alpha ** (length + 1)) / (1 - alpha)))


def test_the_greedy_law():
    """TV(law, p) = q_a (1 - p_a) with law = q_a 1{v = a} + (1 - q_a) p, for a = 0."""
    law = [(Q[0] if v == 0 else 0) + (1 - Q[0]) * P[v] for v in range(SIZE)]
    assert vanishes(sum(law) - 1)
    gains = [sympy.factor(law[v] - P[v]) for v in range(SIZE)]
    distance = sum(sympy.Abs(gain) for gain in gains) / 2
    assert vanishes(distance - Q[0] * (1 - P[0]))


def test_the_distortion_that_rises_with_k():
    """The family of truncation.monotone_distortion: 0 at k = 0, (4/39)/(4/39 + δ) at k = 1."""
    delta = sympy.Symbol("delta", positive=True)
    draft = [sympy.Rational(n, 39) for n in (21, 13, 5)]
    target = [draft[0] + delta, draft[1], draft[2] - delta]
    assert vanishes(sum(target) - 1)
    flat, one_sent = [sympy.Rational(1, 3)] * 3, [draft[0], *[(draft[1] + draft[2]) / 2] * 2]

    def residual(truncated):
        small = {delta: sympy.Rational(1, 1000)}  # the signs are those of any small δ
        excess = [a - b if (a - b).subs(small) > 0 else 0 for a, b in zip(target, truncated, strict=True)]
        return [entry / sum(excess) for entry in excess]

    true = residual(draft)
    assert true == residual(flat) == [1, 0, 0]
    rise = sympy.simplify(total_variation(true, residual(one_sent)))
    assert vanishes(rise - sympy.Rational(4, 39) / (sympy.Rational(4, 39) + delta))
    assert sympy.limit(rise, delta, 0) == 1
    assert rise.subs(delta, sympy.Rational(1, 39)) == sympy.Rational(4, 5)


def test_the_long_tail_of_the_monotone_claim():
    """Of m equal entries and m zeros: Δ_0 = 1/2, and Δ_1/Δ_0 = 2m(m - 1)/(m(2m - 1)), which tends to 1."""
    m = sympy.Symbol("m", positive=True, integer=True)
    mean = {0: 1 / (2 * m), 1: (1 - 1 / m) / (2 * m - 1)}
    deviation = {k: (m - k) * (1 / m - mean[k]) for k in (0, 1)}
    assert vanishes(deviation[0] - sympy.Rational(1, 2))
    ratio = sympy.simplify(deviation[1] / deviation[0])
    assert vanishes(ratio - 2 * (m - 1) / (2 * m - 1))
    assert ratio.subs(m, 500) == sympy.Rational(499 * 1000, 500 * 999)
    assert sympy.limit(ratio, m, sympy.oo) == 1
