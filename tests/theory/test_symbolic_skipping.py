"""The algebra behind skipping, derived again with sympy."""

from __future__ import annotations

import pytest

sympy = pytest.importorskip("sympy")

SLOPE, DELTA, S = sympy.symbols("a Delta s", positive=True)
INTERCEPT, U, T = sympy.symbols("b u t", real=True)
LINE = SLOPE * U + INTERCEPT
AVERSE, PRONE = -INTERCEPT / SLOPE, (DELTA - INTERCEPT) / SLOPE


def vanishes(expression):
    """Return whether an expression is identically 0."""
    return sympy.simplify(expression) == 0


def positive_part(value):
    return (value + sympy.Abs(value)) / 2


def test_the_thresholds():
    """cu-hlm (12), (14): the line equals Δ, and 0; the solution is unique for a > 0."""
    assert sympy.solve(sympy.Eq(LINE, DELTA), U) == [PRONE] or vanishes(sympy.solve(LINE - DELTA, U)[0] - PRONE)
    assert vanishes(sympy.solve(LINE, U)[0] - AVERSE)
    assert vanishes(PRONE - AVERSE - DELTA / SLOPE)


def test_the_first_factor_of_the_printed_bound():
    """Cu-hlm (13): √∫ (a u + b)² du over [-b/a, (Δ - b)/a] = Δ^{3/2}/√(3a)."""
    square = sympy.integrate(sympy.expand(LINE**2), (U, AVERSE, PRONE))
    assert vanishes(square - DELTA**3 / (3 * SLOPE))
    assert vanishes(sympy.sqrt(DELTA**3 / (3 * SLOPE)) - DELTA ** sympy.Rational(3, 2) / sympy.sqrt(3 * SLOPE))


@pytest.mark.parametrize("exponent", [1, 2, 3, 5])
def test_the_factor_at_a_whole_exponent(exponent):
    """∫ (a u + b)^s du = Δ^{s+1}/(a(s+1)), integrated in u itself."""
    power = sympy.integrate(sympy.expand(LINE**exponent), (U, AVERSE, PRONE))
    assert vanishes(power - DELTA ** (exponent + 1) / (SLOPE * (exponent + 1)))


def test_the_factor_at_any_exponent():
    """With t = a u + b: ∫_0^Δ t^s dt / a, for any s > 0."""
    assert vanishes(sympy.diff(LINE, U) - SLOPE)
    assert (LINE.subs(U, AVERSE), sympy.simplify(LINE.subs(U, PRONE))) == (0, DELTA)
    tau = sympy.Symbol("tau", positive=True)
    power = sympy.integrate(tau**S, (tau, 0, DELTA)) / SLOPE
    assert vanishes(power - DELTA ** (S + 1) / (SLOPE * (S + 1)))


def test_the_limits_of_the_exponent():
    """s = 1: Δ²/(2a); s → ∞: Δ, with ‖f‖_1 = P(I); and the computed form, Δ (Δ/(a(s+1)))^{1/s}."""
    factor = (DELTA ** (S + 1) / (SLOPE * (S + 1))) ** (1 / S)
    computed = DELTA * (DELTA / (SLOPE * (S + 1))) ** (1 / S)
    assert vanishes(sympy.expand_log(sympy.log(factor) - sympy.log(computed), force=True))
    assert vanishes(factor.subs(S, 1) - DELTA**2 / (2 * SLOPE))
    assert sympy.limit(sympy.log(DELTA / (SLOPE * (S + 1))) / S, S, sympy.oo) == 0


def test_conjugate_exponents():
    conjugate = S / (S - 1)
    assert vanishes(1 / S + 1 / conjugate - 1)
    assert conjugate.subs(S, 2) == 2


def test_equality_in_the_printed_bound():
    """For a density proportional to the line over I, both sides of (13) are equal: the bound is sharp."""
    density = 2 * SLOPE * LINE / DELTA**2
    assert vanishes(sympy.integrate(sympy.expand(density), (U, AVERSE, PRONE)) - 1)
    risk = sympy.integrate(sympy.expand(LINE * density), (U, AVERSE, PRONE))
    square = sympy.integrate(sympy.expand(density**2), (U, AVERSE, PRONE))
    assert vanishes(risk**2 - DELTA**3 / (3 * SLOPE) * square)
    assert vanishes(risk - 2 * DELTA / 3)


def test_the_integral_beside_a_sum():
    """M = 1, all mass at u = 1, a = Δ = 1, b = 0: R = 1 above 1/√3."""
    bound = (DELTA ** sympy.Rational(3, 2) / sympy.sqrt(3 * SLOPE)).subs({DELTA: 1, SLOPE: 1})
    assert bound == 1 / sympy.sqrt(3)
    assert bound < 1


@pytest.mark.parametrize("rejected", [(0,), (0, 1), (1, 2), (0, 2, 3)])
def test_the_risk_is_the_distance(rejected):
    """With gains p - q of any size and a given sign for each token: half of Σ |law - p| is Σ q s β.

    For the tokens in ``rejected`` q = p + loss; the others gain what these lose, in any shares.
    """
    size = 4
    skip = sympy.symbols(f"s:{size}", positive=True)
    loss = [sympy.Symbol(f"l{v}", positive=True) if v in rejected else sympy.Integer(0) for v in range(size)]
    weights = [sympy.Symbol(f"w{v}", positive=True) if v not in rejected else sympy.Integer(0) for v in range(size)]
    residual = [weight / sum(weights) for weight in weights]
    total = sum(loss)
    target = sympy.symbols(f"p:{size}", positive=True)
    draft = [target[v] + loss[v] - total * residual[v] for v in range(size)]
    # skipped and emitted; sent and accepted (q β is the loss); sent, rejected and replaced
    returned = sum((1 - skip[v]) * loss[v] for v in range(size))
    law = [draft[v] * skip[v] + (1 - skip[v]) * (draft[v] - loss[v]) + returned * residual[v] for v in range(size)]
    gains = [sympy.simplify(law[v] - target[v]) for v in range(size)]
    risk = sum(skip[v] * loss[v] for v in range(size))
    assert vanishes(sum(gains))
    for v in range(size):
        expected = skip[v] * loss[v] if v in rejected else -risk * residual[v]
        assert vanishes(gains[v] - expected)  # rejected tokens have one sign, all others the other: half the sum is
    assert vanishes(sum(gains[v] for v in rejected) - risk)


def test_two_steps_telescope():
    """Law of two tokens: P₁P₂ - H₁H₂ = (P₁ - H₁)H₂ + P₁(P₂ - H₂): the second term weighs prefixes by the target model.

    And by the system, the other way round: H₁(P₂ - H₂) + (P₁ - H₁)P₂.
    """
    p1, p2, h1, h2 = sympy.symbols("p1 p2 h1 h2", real=True)
    assert vanishes(sympy.expand(p1 * p2 - h1 * h2 - ((p1 - h1) * h2 + p1 * (p2 - h2))))
    assert vanishes(sympy.expand(p1 * p2 - h1 * h2 - ((p1 - h1) * p2 + h1 * (p2 - h2))))


def test_conformal_risk_control_needs_that_many_prompts():
    """Zero losses leave B/(n + 1): at most ε from n = B/ε - 1 on."""
    n, bound, risk = sympy.symbols("n B epsilon", positive=True)
    least = sympy.solve(sympy.Eq(bound / (n + 1), risk), n)
    assert len(least) == 1
    assert vanishes(least[0] - (bound / risk - 1))
    assert sympy.ceiling(least[0].subs({bound: 1, risk: sympy.Rational(987, 100_000)})) == 101


def test_chernoff_at_threshold_0_is_sharp():
    """KL(t ‖ e) → -ln(1 - e) as t → 0, so e^{-M KL} = (1 - e)^M = P(no sample differs)."""
    e, t = sympy.symbols("e t", positive=True)
    divergence = t * sympy.log(t / e) + (1 - t) * sympy.log((1 - t) / (1 - e))
    assert vanishes(sympy.exp(sympy.limit(divergence.subs(e, sympy.Rational(1, 3)), t, 0, "+")) - sympy.Rational(3, 2))
    assert vanishes(sympy.diff(divergence, t, 2) - 1 / t - 1 / (1 - t))  # convex, so it falls to its 0 at t = e
    assert vanishes(divergence.subs(t, e))


def test_varentropy_of_two_levels():
    """One entry x against n equal ones: Var(-ln p) = x(1 - x) ln²(n x/(1 - x)), as the quadrature's test scans it."""
    x, n = sympy.symbols("x n", positive=True)
    top, other = -sympy.log(x), -sympy.log((1 - x) / n)
    mean = x * top + (1 - x) * other
    variance = x * (top - mean) ** 2 + (1 - x) * (other - mean) ** 2
    assert vanishes(sympy.expand(variance - x * (1 - x) * (top - other) ** 2))


def test_the_turn_on_the_strip():
    """|e^{-iyh}| has mean at least 1 - y² Var/2: cos w ≥ 1 - w²/2, as the difference is convex from 0 on."""
    w = sympy.Symbol("w", real=True)
    gap = sympy.cos(w) - 1 + w**2 / 2
    assert gap.subs(w, 0) == sympy.diff(gap, w).subs(w, 0) == 0
    assert vanishes(sympy.diff(gap, w, 2) - (1 - sympy.cos(w)))


def test_the_parts_of_the_gap():
    """β = (a u + b) + (β - a u - b), for any β."""
    beta = sympy.Symbol("beta", real=True)
    assert vanishes(LINE + (beta - LINE) - beta)
    assert vanishes(positive_part(T) - T - positive_part(-T))
