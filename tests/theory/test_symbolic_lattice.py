"""The algebra of quantised and adaptive supports, derived again with sympy and in exact fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

sympy = pytest.importorskip("sympy")


def vanishes(expression):
    """Return whether an expression is identically 0."""
    return sympy.simplify(sympy.expand(expression)) == 0


@pytest.mark.parametrize(("size", "kept"), [(3, 1), (3, 2), (4, 2), (4, 3), (4, 4)])
def test_lemma_1(size, kept):
    """TV(q, q̄) = dropped mass: ½ Σ_X q(1/S - 1) + ½ Σ_∉X q = 1 - S."""
    weights = sympy.symbols(f"w0:{size}", positive=True)
    q = [weight / sum(weights) for weight in weights]
    mass = sum(q[:kept])
    inside = sum(entry / mass - entry for entry in q[:kept])  # q̄ ≥ q there, as S ≤ 1
    outside = sum(q[kept:])
    assert vanishes((inside + outside) / 2 - outside)


@pytest.mark.parametrize("steps", range(1, 6))
def test_the_telescope(steps):
    """Σ (d_n - ε) = (τ_1 - τ_{T+1} - Σ c_n)/η, for any dropped masses and clips."""
    epsilon, rate, first = sympy.symbols("epsilon eta tau", positive=True)
    dropped, clipped = sympy.symbols(f"d0:{steps}"), sympy.symbols(f"c0:{steps}")
    tau = first
    for d, c in zip(dropped, clipped, strict=True):
        tau = tau - c - rate * (d - epsilon)
    assert vanishes(sum(dropped) - steps * epsilon - (first - tau - sum(clipped)) / rate)


def test_when_the_published_regret_follows_from_the_sharp_one():
    """(|τ| + 1 + ηε) - (τ + η(1 - ε)) = 1 - η(1 - 2ε) for τ ≥ 0, and it is larger for τ < 0."""
    tau, epsilon, rate = sympy.symbols("tau epsilon eta", positive=True)
    room = 1 - rate * (1 - 2 * epsilon)
    assert vanishes((tau + 1 + rate * epsilon) - (tau + rate * (1 - epsilon)) - room)
    assert vanishes((tau + 1 + rate * epsilon) - (-tau + rate * (1 - epsilon)) - room - 2 * tau)


def test_the_rate():
    """T times the sharp bound at ε = d/√T, η = c/√T is (d + τ/c)√T + 1 - d/√T."""
    d, c, tau, root = sympy.symbols("d c tau r", positive=True)
    epsilon, rate = d / root, c / root
    bound = root**2 * epsilon + (tau + rate * (1 - epsilon)) / rate
    assert vanishes(bound - ((d + tau / c) * root + 1 - d / root))


def test_the_distortion_of_r_units_rounded_up():
    """Σ_up (1 - f) + Σ_down f = 2(r - Σ_up f) for Σ f = r, so TV = (r - Σ_up f)/ℓ ≤ r(K - r)/(Kℓ)."""
    for size in range(2, 5):
        f = sympy.symbols(f"f0:{size}", positive=True)
        for up in range(1, size):
            whole = {f[-1]: up - sum(f[:-1])}
            apart = sum(1 - x for x in f[:up]) + sum(f[up:])
            assert vanishes((apart - 2 * (up - sum(f[:up]))).subs(whole))
    k, r = sympy.symbols("K r", positive=True)
    assert vanishes(r - r * r / k - r * (k - r) / k)
    assert vanishes(k / 4 - r * (k - r) / k - (k - 2 * r) ** 2 / (4 * k))  # (20) follows, with equality at r = K/2


def rounded(row, resolution):
    """Return the nearest lattice point in exact fractions."""
    scaled = [resolution * x for x in row]
    counts = [x.numerator // x.denominator for x in scaled]
    order = sorted(range(len(row)), key=lambda i: (counts[i] - scaled[i], i))
    for i in order[: resolution - sum(counts)]:
        counts[i] += 1
    return counts


def distance(row, counts, resolution):
    return sum(abs(Fraction(c, resolution) - x) for x, c in zip(row, counts, strict=True)) / 2


@pytest.mark.parametrize(("size", "unit"), [(2, 12), (3, 9), (4, 7)])
def test_the_distortion_bounds_in_exact_fractions(size, unit):
    """All rows of multiples of 1/unit: the sharp bound holds, no lattice point is nearer, and it is at most K/(4ℓ)."""
    for cuts in itertools.combinations(range(1, unit), size - 1):
        row = [Fraction(b - a, unit) for a, b in itertools.pairwise((0, *cuts, unit))]
        for resolution in range(1, 6):
            apart = distance(row, rounded(row, resolution), resolution)
            up = min(resolution, size // 2)
            bound = Fraction(up * (size - up), size * resolution)
            assert apart <= bound <= Fraction(size, 4 * resolution)
            others = (c for c in itertools.product(range(resolution + 1), repeat=size) if sum(c) == resolution)
            assert apart == min(distance(row, c, resolution) for c in others)


@pytest.mark.parametrize(("size", "resolution"), list(itertools.product(range(2, 8), range(1, 7))))
def test_the_sharp_bound_is_attained_in_exact_fractions(size, resolution):
    up = min(resolution, size // 2)
    share = Fraction(up, size * resolution)
    row = [share + Fraction(resolution - up, resolution), *[share] * (size - 1)]
    assert sum(row) == 1
    apart = distance(row, rounded(row, resolution), resolution)
    assert apart == Fraction(up * (size - up), size * resolution) < 1


def test_the_counterexample_to_theorem_2_in_exact_fractions():
    """η = 10, ε = 1/1000, τ_1 = 0, uniform over 200, two tokens: a mean of .4975 against .0515."""
    epsilon, rate, tau = Fraction(1, 1000), Fraction(10), Fraction(0)
    dropped = []
    for _ in range(2):
        dropped.append(Fraction(0) if tau <= Fraction(1, 200) else Fraction(199, 200))
        tau -= rate * (dropped[-1] - epsilon)
    mean, bound = sum(dropped) / 2, epsilon + (1 + rate * epsilon) / (rate * 2)
    assert (mean, bound) == (Fraction(199, 400), Fraction(103, 2000))
    assert mean > bound
    assert mean <= epsilon + (1 - epsilon) / 2  # the sharp one


def test_the_unrenormalised_sum_is_short_by_the_dropped_mass():
    """Alg. 2 as printed keeps one token of four at ℓ = 100: 75 corrections for one entry."""
    q, resolution = [Fraction(1, 4)] * 4, 100
    nearest = int(resolution * q[0] + Fraction(1, 2))
    assert resolution - nearest == 75 > 1
