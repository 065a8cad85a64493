"""A bound that promises a direction keeps it to the last bit: against fractions, and mpmath at 60 digits and more.

Each bound has its own arithmetic here. The inputs are adversarial: subnormal numbers, neighbours of 0, 1 and of
dyadic numbers, one-hot rows with a tiny entry, rows whose sums miss 1 by rounding.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from .oracles import over_its_sum
from .public import theory

CASES = int(os.environ.get("ADVERSARIAL_CASES", "150"))
"""Inputs for each bound and type; 100,000 take a minute or two for each."""
F = Fraction
mp.dps = 60


def unit(rng, *shape, inner=False):
    kinds = [
        rng.random(shape),
        rng.integers(0, 9, shape) / 8,
        10.0 ** -(320 * rng.random(shape)),
        10.0 ** -(20 * rng.random(shape)),
        1.0 - 10.0 ** -(17 * rng.random(shape)),
        np.nextafter(rng.integers(0, 9, shape) / 8, rng.integers(0, 2, shape)),
        np.full(shape, 5e-324),
    ]
    found = np.choose(rng.integers(0, len(kinds), shape), kinds)
    return np.clip(found, 5e-324, 1.0 - 2.0**-53) if inner else found


def rows(rng, count, size):
    """Rows of probabilities, shape (count, size): random ones, dyadic ones, one-hot ones with tiny others, ties."""
    flat = rng.choice([0.05, 0.3, 1.0, 10.0], (count, 1))
    random = rng.gamma(np.broadcast_to(flat, (count, size))) + 1e-300
    dyadic = rng.integers(0, 5, (count, size)) + (np.arange(size) == 0)
    hot = np.where(
        np.arange(size) == rng.integers(0, size, (count, 1)), 1.0, 10.0 ** -rng.uniform(10, 330, (count, size))
    )
    tied = np.where(rng.random((count, size)) < 0.5, 1.0, 1.0 + 2.0**-52)
    found = np.stack([random, dyadic, hot, tied])[rng.integers(0, 4, count), np.arange(count)]
    return found / found.sum(axis=-1, keepdims=True)


def number(value):
    return mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpf(float(value))


@dataclass(frozen=True)
class Bound:
    """How arguments are drawn with a leading axis, the bounds of them, and whether one case keeps its promise."""

    draw: Callable
    call: Callable
    good: Callable


def above(exact):
    return lambda bound, *case: _known(bound) >= exact(*case)


def below(exact):
    return lambda bound, *case: _known(bound) <= exact(*case)


def _known(bound):
    return F(float(bound))


def text_distance(bound, tau, tokens):
    with mp.workprec(1200):
        return mpf(float(bound)) >= -mpmath.expm1(int(tokens) * mpmath.log1p(-number(tau))) if tau < 1 else bound == 1


def match_terms(p, q):
    """p_v and t_v = 1 / Σ_w max(q_w/q_v, p_w/p_v)."""
    p, q = over_its_sum(p), over_its_sum(q)
    return [
        (a, 1 / sum(max(y / b, x / a) for x, y in zip(p, q, strict=True)) if a and b else F(0))
        for a, b in zip(p, q, strict=True)
    ]


def overlap(p, q):
    return sum(map(min, over_its_sum(p), over_its_sum(q)))


def largest(rng, count):
    """KL rounded up, and the s of the pair with that KL, whose distance is the largest: not above that of the KL."""
    s = 10.0 ** rng.uniform(-6, 1.6, count)
    found = [pair(mpf(float(value))) for value in s]
    given = np.array([float(kl) for _, kl in found])
    given = np.where([mpf(a) < kl for a, (_, kl) in zip(given, found, strict=True)], np.nextafter(given, np.inf), given)
    tiny = 10.0 ** -rng.uniform(10, 324, count)
    which = rng.random(count) < 0.7
    return np.where(which, given, np.maximum(tiny, 5e-324)), np.where(which, s, 0.0)


def pair(s):
    b = 1 / s - 1 / mpmath.expm1(s)
    a = b + s * b * (1 - b)
    return s * b * (1 - b), a * mpmath.log(a / b) + (1 - a) * mpmath.log((1 - a) / (1 - b))


def largest_distance(bound, kl, s):
    """For a tiny KL the largest distance is √(KL/2) (1 - KL/36 + …), at least √(KL/2) (1 - KL)."""
    if s:  # a KL that float32 lowers has at least its share of the distance, which is concave
        distance, whole_kl = pair(mpf(float(s)))
        return mpf(float(bound)) >= distance * min(mpf(1), number(kl) / whole_kl)
    return mpf(float(bound)) >= mpmath.sqrt(number(kl) / 2) * (1 - number(kl))


def wealth(gains):
    return mpmath.log(mpmath.fsum(mpmath.fprod(1 + g for g in along) for along in gains) / len(gains))


def law_gains(outcome, expected, bets):
    found = []
    for seen, mean in zip(outcome, expected, strict=True):
        for bet in bets:
            steps = []
            for f, m in zip(map(number, seen), map(number, mean), strict=True):
                used = number(0.9) / m if m * number(bet) > number(0.9) else number(bet)
                steps.append((used * (f - m), number(bet)))
            found.append(steps)
    return found


def law_wealth(bound, outcome, expected, bets):
    return mpf(float(bound)) <= wealth([[gain for gain, _ in along] for along in law_gains(outcome, expected, bets)])


def law_distance(bound, outcome, expected, bets, error):
    """The mean wealth with exp(-λS) is still 1/δ at S."""
    if bound == 0:
        return True
    gains, total = law_gains(outcome, expected, bets), number(bound) * outcome.shape[-1]
    mean = mpmath.fsum(mpmath.exp(-a[0][1] * total) * mpmath.fprod(1 + g for g, _ in a) for a in gains) / len(gains)
    return mean * number(error) >= 1


def audit_wealth(bound, losses, rate, risk, bets):
    rate, risk = F(float(rate)), F(float(risk))
    gains = [
        [number(F(float(bet)) * (rate * risk - F(float(loss))) / (1 - rate * risk)) for loss in losses] for bet in bets
    ]
    return mpf(float(bound)) <= wealth(gains)


def audit_bound(bound, losses, rate, error, bets):
    if bound == 1:
        return True
    total = number(rate) * number(bound) * len(losses)
    kept = [
        mpmath.exp(number(bet) * total) * mpmath.fprod(1 - number(bet) * number(loss) for loss in losses)
        for bet in bets
    ]
    return mpmath.fsum(kept) / len(kept) * number(error) >= 1


def divergence(a, b):
    part = a * mpmath.log(a / b) if a else mpf(0)
    return part + (1 - a) * mpmath.log((1 - a) / (1 - b)) if a < 1 else part


def outside(end, losses, error):
    """At an end of the interval n kl(mean, x) is at least ln(2/error)."""
    mean, x = number(sum(F(float(v)) for v in losses) / len(losses)), number(end)
    return x in (0, 1) or len(losses) * divergence(mean, x) >= mpmath.log(2 / number(error))


def decoded_distance(q):
    decoded = theory.decoded_draft(q.astype(np.float64), 1, bits_per_probability=8)
    return sum(max(a - b, 0) for a, b in zip(over_its_sum(q), over_its_sum(decoded), strict=True))


TILTS = [mpmath.exp(sign * mpf(2) ** power) for sign in (-1, 1) for power in range(3, -13, -1)]


def binomial_end(end, accepted, examined, error, form):
    s, n, rate = number(accepted), int(examined), number(end)
    if rate in (0, 1):
        return True
    if form == "constant":
        log_odds = mpmath.loggamma(n + 2) - mpmath.loggamma(s + 1) - mpmath.loggamma(n - s + 1)
        return log_odds + s * mpmath.log(rate) + (n - s) * mpmath.log(1 - rate) <= mpmath.log(number(error))
    mean = mpmath.fsum(e ** int(s) / (1 + rate * (e - 1)) ** n for e in TILTS) / len(TILTS)
    return mean * number(error) >= 1


def accepted(rng, count):
    n = rng.integers(1, 60, count)
    return (
        np.floor(n * rng.random(count)) + np.where(rng.random(count) < 0.2, 1, 0),
        n,
        np.clip(unit(rng, count), 1e-300, 0.999),
    )


def dropped(bound, k, units, q):
    exact = sorted(over_its_sum(q))[::-1]
    k, units = int(k), int(units)
    most = max(F(a * (k - a), k) for a in range(k + 1))  # as many units go up as are left over
    return F(float(bound)) >= sum(exact[k:]) + most / units


BOUNDS = {
    "text_distance": Bound(
        lambda rng, n: (unit(rng, n), np.floor(10.0 ** (6 * rng.random(n))).astype(np.int64)),
        theory.text_distance,
        text_distance,
    ),
    "match_floor": Bound(
        lambda rng, n: (unit(rng, n),), theory.match_floor, below(lambda t: (1 - F(float(t))) / (1 + F(float(t))))
    ),
    "message_value": Bound(
        lambda rng, n: (unit(rng, n),),
        theory.message_value,
        above(lambda t: F(float(t)) * (1 - F(float(t))) / (1 + F(float(t)))),
    ),
    "list_match_bound": Bound(
        lambda rng, n: (rows(rng, n, 3), rows(rng, n, 3), rng.integers(1, 4, n)),
        theory.list_match_bound,
        below(lambda p, q, size: sum(a * (1 - (1 - t / a) ** int(size)) for a, t in match_terms(p, q) if a)),
    ),
    "acceptance_after_update.lower": Bound(
        lambda rng, n: (unit(rng, n), unit(rng, n)),
        lambda a, d: theory.acceptance_after_update(a, d).lower,
        below(lambda a, d: max(F(float(a)) - F(float(d)), F(0))),
    ),
    "acceptance_after_update.upper": Bound(
        lambda rng, n: (unit(rng, n), unit(rng, n)),
        lambda a, d: theory.acceptance_after_update(a, d).upper,
        above(lambda a, d: min(F(float(a)) + F(float(d)), F(1))),
    ),
    "decoded_acceptance_rate.lower": Bound(
        lambda rng, n: (rows(rng, n, 4), rows(rng, n, 4), unit(rng, n)),
        lambda p, q, d: theory.decoded_acceptance_rate(p, q, d).lower,
        below(lambda p, q, d: max(overlap(p, q) - F(float(d)), F(0))),
    ),
    "decoded_acceptance_rate.upper": Bound(
        lambda rng, n: (rows(rng, n, 4), rows(rng, n, 4), unit(rng, n)),
        lambda p, q, d: theory.decoded_acceptance_rate(p, q, d).upper,
        above(lambda p, q, d: min(overlap(p, q) + F(float(d)), F(1))),
    ),
    "largest_distance": Bound(largest, lambda kl, s: theory.largest_distance(kl), largest_distance),
    **{
        f"acceptance_interval.{form}.{end}": Bound(
            accepted,
            lambda s, n, e, form=form, end=end: getattr(
                theory.acceptance_interval(np.minimum(s, n), n, e, form=form), end
            ),
            lambda bound, s, n, e, form=form: binomial_end(bound, min(s, n), n, e, form),
        )
        for form in ("constant", "varying")
        for end in ("lower", "upper")
    },
    "law_wealth": Bound(
        lambda rng, n: (unit(rng, n, 2, 3), unit(rng, n, 2, 3), 10.0 ** rng.uniform(-5.9, 5.9, (n, 2))),
        lambda f, m, bets: theory.law_wealth(f, m, bets)[..., -1],
        law_wealth,
    ),
    "distance_bound": Bound(
        lambda rng, n: (
            np.maximum(unit(rng, n, 2, 3), rng.random((n, 1, 1)) < 0.7),
            unit(rng, n, 2, 3) / 2,
            10.0 ** rng.uniform(-2, 3, (n, 2)),
            rng.choice([0.5, 0.9, 0.1, 0.999], n),
        ),
        lambda f, m, bets, e: theory.distance_bound(f, m, e, bets)[..., -1],
        law_distance,
    ),
    "audit_wealth": Bound(
        lambda rng, n: (
            unit(rng, n, 3) * (rng.random((n, 3)) < 0.5),
            unit(rng, n, inner=True),
            unit(rng, n, inner=True),
            np.clip(unit(rng, n, 2), 2e-6, 1 - 2.0**-53),
        ),
        lambda loss, rate, risk, bets: theory.audit_wealth(loss, rate, risk, bets)[..., -1],
        audit_wealth,
    ),
    "audit_bound": Bound(
        lambda rng, n: (
            unit(rng, n, 3) * (rng.random((n, 3)) < 0.5),
            np.maximum(unit(rng, n), 1e-3),
            rng.choice([0.5, 0.9, 0.1, 0.999], n),
            np.clip(unit(rng, n, 2), 2e-6, 1 - 2.0**-53),
        ),
        lambda loss, rate, error, bets: theory.audit_bound(loss, rate, error, bets)[..., -1],
        audit_bound,
    ),
    **{
        f"text_risk.{end}": Bound(
            lambda rng, n: (unit(rng, n, 5), rng.choice([0.05, 0.5, 1e-9, 0.999], n)),
            lambda losses, error, end=end: getattr(theory.text_risk(losses, error), end),
            outside,
        )
        for end in ("low", "high")
    },
    "message_deviation": Bound(
        lambda rng, n: (rows(rng, n, 4),),
        lambda q: theory.message_deviation(q, bits_per_probability=8)[..., 1],
        above(lambda q: decoded_distance(q) if max(q) < 1 else F(0)),
    ),
    "allocate": Bound(
        lambda rng, n: (rows(rng, n, 4),),
        lambda q: theory.allocate(q, 12.0),
        lambda found, q: dropped(found[0], found[1], found[2], q),
    ),
}
"""Every public function whose docstring says that it is rounded up, down or outward, whatever the type."""


def answers(found):
    if hasattr(found, "bound"):
        return list(zip(found.bound, found.k, strict=True))
    if hasattr(found, "distortion"):
        return list(zip(found.distortion, found.k, found.resolution, strict=True))
    return list(np.asarray(found))


def inside(value, kind):
    near, limits = value.astype(kind), np.finfo(kind)
    near = np.where((value > 0) & (value < 1), np.clip(near, limits.smallest_subnormal, 1 - limits.epsneg), near)
    return near.astype(kind)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", BOUNDS)
def test_the_direction_is_kept_to_the_last_bit(name, kind):
    bound, rng = BOUNDS[name], np.random.default_rng([len(name), CASES])
    given = [value if value.dtype.kind != "f" else inside(value, kind) for value in bound.draw(rng, CASES)]
    wrong = [
        (found, case)
        for found, *case in zip(answers(bound.call(*given)), *given, strict=True)
        if not bound.good(found, *case)
    ]
    assert not wrong, f"{len(wrong)} of {CASES}, such as {wrong[0]}"
