"""The algebra behind the claims on links, shares and draft lengths, derived again with sympy."""

from __future__ import annotations

import pytest

from hlmtheory import channel
from hlmtheory.draft_length.optimum import stationary_draft_length

sympy = pytest.importorskip("sympy")

LENGTH, FIXED, MARGINAL = sympy.symbols("K F M", positive=True)
GAMMA = sympy.Symbol("gamma", positive=True)
ROUND = FIXED + LENGTH * MARGINAL
NEEDS = sympy.symbols("c1:4", positive=True)
"""What each of three users needs, c_k = λI_k/η_k, over B."""


def vanishes(expression):
    """Return whether an expression is identically 0."""
    return sympy.simplify(sympy.expand(expression)) == 0


# -------------------------------------------------------------------------------------------------------- ofdma


def test_the_shares_of_the_last_finish_meet_the_conditions():
    """Minimise t subject to c_k/w_k ≤ t and Σw = 1: L = t + Σ μ_k (c_k/w_k - t) + ν (Σw - 1)."""
    total = sum(NEEDS)
    shares = [need / total for need in NEEDS]
    multipliers = [share**2 / need for share, need in zip(shares, NEEDS, strict=True)]
    scale = sum(multipliers)
    time, price = sympy.symbols("t nu")
    w, m = sympy.symbols("w1:4", positive=True), sympy.symbols("mu1:4", positive=True)
    lagrangian = time + sum(a * (c / b - time) for a, b, c in zip(m, w, NEEDS, strict=True)) + price * (sum(w) - 1)
    best = dict(zip([*w, *m], [*shares, *(one / scale for one in multipliers)], strict=True))
    best |= {time: total, price: 1 / scale}
    assert all(vanishes(lagrangian.diff(variable).subs(best)) for variable in (*w, time, price))
    assert all(vanishes((c / b - time).subs(best)) for b, c in zip(w, NEEDS, strict=True))  # all finish at once
    assert all(best[one].is_positive for one in m)


def test_the_shares_of_the_sum_meet_the_conditions():
    """Minimise Σ c_k/w_k subject to Σw = 1: convex, so a stationary point is the minimum."""
    roots = [sympy.sqrt(need) for need in NEEDS]
    w = sympy.symbols("w1:4", positive=True)
    total = sum(need / share for need, share in zip(NEEDS, w, strict=True))
    best = dict(zip(w, (root / sum(roots) for root in roots), strict=True))
    slopes = [total.diff(share).subs(best) for share in w]
    assert all(vanishes(slope - slopes[0]) for slope in slopes)
    assert vanishes(total.subs(best) - sum(roots) ** 2)
    assert all(total.diff(share, 2).is_positive for share in w)


def test_the_best_shares_leave_the_summed_time_of_equal_ones():
    """Σ c_k/w_k at w_k ∝ c_k and at w_k = 1/K: both K Σc."""
    total = sum(NEEDS)
    assert vanishes(sum(need / (need / total) for need in NEEDS) - 3 * total)
    assert vanishes(sum(need / sympy.Rational(1, 3) for need in NEEDS) - 3 * total)


# ------------------------------------------------------------------------------------------------- draft length


def test_the_stationarity_equation():
    """With u = K + 1, d = F/M - 1, v = au: the sign of ETGR' is that of 1 + v + ad - e^v, so e^v - 1 - v = ad."""
    a, u, d = sympy.symbols("a u d", positive=True)
    rate = (1 - sympy.exp(-a * u)) / (u + d)
    slope = rate.diff(u) * (u + d) ** 2 * sympy.exp(a * u)
    assert vanishes(slope - (a * (u + d) + 1 - sympy.exp(a * u)))
    geometric = (1 - GAMMA ** (LENGTH + 1)) / ((1 - GAMMA) * ROUND)
    same = rate.subs({a: -sympy.log(GAMMA), u: LENGTH + 1, d: FIXED / MARGINAL - 1}) / ((1 - GAMMA) * MARGINAL)
    assert vanishes(geometric - same)


def test_the_stationarity_equation_has_one_positive_root():
    """g(v) = e^v - 1 - v has g(0) = 0 and g' = e^v - 1 > 0, so g = c > 0 has one; v²/2 ≤ g bounds it."""
    v = sympy.Symbol("v", positive=True)
    g = sympy.exp(v) - 1 - v
    assert g.subs(v, 0) == 0
    assert vanishes(g.diff(v) - (sympy.exp(v) - 1))
    assert g.diff(v, 2).is_positive
    assert sympy.series(g, v, 0, 3).removeO() == v**2 / 2


@pytest.mark.parametrize("c", ["1/1000", "1/2", "5", "300"])
def test_the_root_by_lambert(c):
    """v = -c - 1 - W₋₁(-e^{-c-1}) solves e^v - 1 - v = c; the library's K* is v/a - 1."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(400):  # e^{-301} must not be lost when added to 1
        constant = mpmath.mpf(sympy.Rational(c).p) / sympy.Rational(c).q
        w = mpmath.lambertw(-mpmath.exp(-constant - 1), -1)
        v = mpmath.re(-constant - 1 - w)
        assert abs(mpmath.exp(v) - 1 - v - constant) < mpmath.mpf(10) ** -80
        a = -mpmath.log(mpmath.mpf(0.75))
        real = float(v / a - 1)
    ratio = 1.0 + float(constant / a)
    assert float(stationary_draft_length(0.75, ratio, 1.0)) == pytest.approx(real, rel=1e-12)


def test_the_linear_surrogate_is_bang_bang():
    """(1 + γK)/(F + KM) has a derivative whose sign, γF - M, does not depend on K; γK/(F + KM) always rises."""
    with_bonus = ((1 + GAMMA * LENGTH) / ROUND).diff(LENGTH)
    assert vanishes(with_bonus * ROUND**2 - (GAMMA * FIXED - MARGINAL))
    without = (GAMMA * LENGTH / ROUND).diff(LENGTH)
    assert vanishes(without * ROUND**2 - GAMMA * FIXED)
    assert sympy.factor(without).is_positive


@pytest.mark.parametrize("length", [1, 2, 6])
def test_the_printed_average_stays_where_its_innovation_is(length):
    """x = (1 - μ)x + μ E[τ/K] has the one solution E[τ/K] = (γ + ... + γ^K)/K, below γ for K > 1."""
    step, x = sympy.symbols("mu x")
    law = [GAMMA**j * (1 - GAMMA) for j in range(length)] + [GAMMA**length]
    share = sum(j * one for j, one in enumerate(law)) / length
    assert vanishes(sum(law) - 1)
    assert vanishes(share - sum(GAMMA**j for j in range(1, length + 1)) / length)
    assert vanishes(sympy.solve((1 - step) * x + step * share - x, x)[0] - share)
    gap = sympy.factor(GAMMA - share)
    assert gap == 0 if length == 1 else vanishes(gap.subs(GAMMA, 1)) and gap.subs(GAMMA, sympy.Rational(1, 2)) > 0


def test_how_a_slower_link_moves_the_ratio():
    """d/dx of (F + Ox)/(M + bx), x = 1/R, has the sign of O M - b F: a large header makes drafts longer."""
    x, header, token = sympy.symbols("x O b", positive=True)
    ratio = (FIXED + header * x) / (MARGINAL + token * x)
    assert vanishes(ratio.diff(x) * (MARGINAL + token * x) ** 2 - (header * MARGINAL - token * FIXED))


def test_strides_of_one_and_five_fix_the_round():
    """L(K) E(K) = F + K M at K = 1 and 5: the tables on Fig. 5 of flexspec use this for any E."""
    one, five, slow, fast = sympy.symbols("E1 E5 L1 L5", positive=True)
    found = sympy.solve([slow * one - FIXED - MARGINAL, fast * five - FIXED - 5 * MARGINAL], [FIXED, MARGINAL])
    assert vanishes(found[FIXED] - (5 * slow * one - fast * five) / 4)
    weak, strong = (found[FIXED].subs({slow: a, fast: b}) for a, b in ((625, 1455), (405, 220)))
    assert vanishes(weak - strong - (275 * one - sympy.Rational(30875, 100) * five))


# ------------------------------------------------------------------------------------------------------ channel


def test_the_mean_latency_has_a_divergent_floor():
    """1/log₂(1 + s) ≥ ln 2/s, and ∫_ε^1 ds/s = -ln ε is unbounded: with f(0) > 0 the mean is infinite."""
    s, cut = sympy.symbols("s epsilon", positive=True)
    assert sympy.series(sympy.log(1 + s), s, 0, 2).removeO() == s
    assert vanishes((s - sympy.log(1 + s)).diff(s) - s / (1 + s))  # from 0 at 0 it only rises: ln(1 + s) ≤ s
    floor = sympy.integrate(1 / s, (s, cut, 1))
    assert vanishes(floor + sympy.log(cut))
    assert sympy.limit(floor, cut, 0, "+") == sympy.oo
    mean = sympy.Symbol("m", positive=True)
    density = sympy.exp(-s / mean) / mean
    strip = sympy.integrate(density.subs(s, 0) / s, (s, cut, cut * sympy.E))
    assert vanishes(strip - 1 / mean)  # each factor e below adds ln 2 f(0), less what the density loses


@pytest.mark.parametrize(("mean", "factor"), [(1.0, 0.0), (0.01, 0.0), (0.01, 10.0)])
def test_the_growth_of_the_mean_latency(mean, factor):
    """E[1/log₂(1 + S); S ≥ cut] grows by ln 2 f(0) for each factor e, with Rician f(0) = (1 + κ)e^{-κ}/m."""
    mpmath = pytest.importorskip("mpmath")
    law = channel.Rician(mean, factor)
    at_zero = (1 + factor) * mpmath.exp(-factor) / mean
    assert float(law.latency_growth()) == pytest.approx(float(mpmath.log(2) * at_zero), rel=1e-14)
    low = 1e-9 * mean

    def weighed(s):
        y = (1 + factor) * s / mean
        density = (1 + factor) / mean * mpmath.exp(-factor - y) * mpmath.besseli(0, 2 * mpmath.sqrt(factor * y))
        return density * mpmath.log(2) / mpmath.log1p(s)

    strip = mpmath.quad(weighed, [low, low * mpmath.e])
    assert float(strip) == pytest.approx(float(law.latency_growth()), rel=1e-6)


def test_rates_of_a_row_and_of_its_means():
    """n/Σt ≤ Σ(1/t)/n: their difference over two rounds is a square."""
    a, b = sympy.symbols("a b", positive=True)
    difference = (1 / a + 1 / b) / 2 - 2 / (a + b)
    assert vanishes(difference - (a - b) ** 2 / (2 * a * b * (a + b)))


def test_the_payload_of_a_row():
    """V (b + ⌈log₂ V⌉) in whole numbers: 736,000 bits, 92 kB, at V = 32,000 and 8 bits."""
    size, bits = sympy.Integer(32_000), sympy.Integer(8)
    exact = size * (bits + sympy.ceiling(sympy.log(size, 2)))
    assert exact == 736_000
    assert exact / 8 == 92_000
    for vocabulary in (1, 2, 3, 4096, 4097, 2**20 + 1):
        exact = vocabulary * (16 + sympy.ceiling(sympy.log(vocabulary, 2)))
        assert int(channel.vocabulary_payload_bits(vocabulary, 16)) == exact


def test_the_update_storm():
    """8 S/R in exact arithmetic: the sizes in GB that print 48, 9.5 and 1.6 min share [3.5625, 3.58125)."""
    rows = [
        (10, 48, 1),
        (50, sympy.Rational(19, 2), sympy.Rational(1, 10)),
        (300, sympy.Rational(8, 5), sympy.Rational(1, 10)),
    ]
    sizes = [
        [rate * 60 * (minutes + side * unit / sympy.S(2)) / 8 / 1000 for side in (-1, 1)]
        for rate, minutes, unit in rows
    ]
    ends = max(one[0] for one in sizes), min(one[1] for one in sizes)
    assert ends == (sympy.Rational(35625, 10_000), sympy.Rational(358_125, 100_000))
    assert [float(sympy.Rational(16, 5) / end) for end in ends] == pytest.approx([0.89825, 0.89354], abs=5e-6)
    assert [float(sympy.Rational(16, 5) * 8000 / rate / 60) for rate, *_ in rows] == pytest.approx(
        [42.67, 8.53, 1.42], abs=5e-3
    )
