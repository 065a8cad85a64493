"""The papers' rejection risk R (an integral of the regression line) and Hölder's bounds on R."""

from dataclasses import replace
from typing import Any, NamedTuple

from hlmtheory._array import Array, arrays, in_kind, upward, widest
from hlmtheory._domains import SIMPLEX, UNIT_INTERVAL, Domain, leading_dimensions
from hlmtheory._quantities import positive
from hlmtheory._simplex import quotient

_EDGES = {64: 1e-12, 32: 1e-6}  # by bits: a grid point this close to an end of I counts as the end

LINE = {
    "slope": positive("where β does not rise with u, u does not predict the risk; do not skip by u"),
    "intercept": Domain("finite", lambda xp, value: xp.isfinite(value), "give the intercept b of the fitted line"),
    "non_acceptance": UNIT_INTERVAL,
}
_CELLS = replace(SIMPLEX, remedy="give the share of the uncertainties in each cell or at each point, not the samples")
_EXPONENT = Domain("1 or more, perhaps infinite", lambda xp, value: value >= 1, "Hölder's s and s′ are both at least 1")


class Thresholds(NamedTuple):
    """The two skip thresholds: verification is skipped for an uncertainty at or below the threshold."""

    risk_averse: Array
    risk_prone: Array


def skip_thresholds(slope: Array, intercept: Array, *, non_acceptance: Array) -> Thresholds:
    """Return the thresholds at which the line β = a u + b reaches 0 and Δ.

    Parameters
    ----------
    slope, intercept : array, shape (...)
        a > 0 and b of the fitted line.
    non_acceptance : array, shape (...)
        Δ = P(p_d < q_d) in [0, 1], the share of drafts whose acceptance probability is below 1, from
        :func:`non_acceptance` or ``fit_linear(...).non_acceptance``. It is at least 1 - α, which is the mean β.

    Returns
    -------
    Thresholds
        ``risk_averse`` = -b/a and ``risk_prone`` = (Δ - b)/a, each (...): cu-hlm (12), (14), u-hlm (11). A threshold
        below 0 skips no draft; a threshold of 1 or more skips all. β ≤ Δ holds for the mean of β, not for each draft.

    Raises
    ------
    ValueError
        If the slope is not positive and finite, b is not finite, or Δ is outside [0, 1].

    Examples
    --------
    >>> averse, prone = skip_thresholds(0.815, -0.066, non_acceptance=0.5956)
    >>> round(float(averse), 4), round(float(prone), 4)
    (0.081, 0.8118)
    """
    xp, a, b, delta = line(slope, intercept, non_acceptance)
    kind = widest(xp, *arrays(slope=slope, intercept=intercept, non_acceptance=non_acceptance)[1:])
    return Thresholds(in_kind(xp, _ratio(xp, -b, a), kind), in_kind(xp, _ratio(xp, delta - b, a), kind))


def rejection_risk(cell_probabilities: Array, slope: Array, intercept: Array, *, non_acceptance: Array) -> Array:
    """Return the papers' R = ∫ (a u + b) f(u) du over I = [-b/a, (Δ - b)/a], for a histogram density f.

    R is a surrogate. It assumes β = a u + b, and it omits the drafts below -b/a, although they are skipped too. The
    exact cost of skipping is :func:`hlmtheory.skipping.one_step_risk`.

    Parameters
    ----------
    cell_probabilities : array, shape (..., m)
        Probabilities of m cells of equal width in [0, 1], not samples of u; of samples they are
        ``np.histogram(u, m, (0, 1))[0] / len(u)``. In each cell, f is constant: m times the probability.
    slope, intercept, non_acceptance : array, shape (...)
        a > 0, b and Δ.

    Returns
    -------
    array, shape (...)
        In [0, Δ]; R of cu-hlm Theorem 1, u-hlm (12).

    Raises
    ------
    ValueError
        If ``cell_probabilities`` is not a distribution, or a, b or Δ is outside its domain.

    Examples
    --------
    >>> float(rejection_risk([0.5, 0.5], 1.0, 0.0, non_acceptance=0.5))
    0.125
    """
    xp, kind, height, low, high, (a, b, _) = _cells(cell_probabilities, slope, intercept, non_acceptance)
    mean = xp.clip(a * (low + high) / 2.0 + b, min=0.0)
    return in_kind(xp, xp.sum(height * (high - low) * mean, axis=-1), kind)


def rejection_risk_discrete(mass: Array, slope: Array, intercept: Array, *, non_acceptance: Array) -> Array:
    """Return the papers' R as a sum over u = 0, 1/M, …, 1 with probabilities ``mass`` (..., M + 1).

    A point within 1e-12 of an end of I, measured in β, counts as inside (1e-6 if an input is float32).
    """
    xp, kind, f, g, _ = _points(mass, slope, intercept, non_acceptance)
    return in_kind(xp, xp.sum(f * g, axis=-1), kind)


def holder_bound(
    cell_probabilities: Array, slope: Array, intercept: Array, *, non_acceptance: Array, exponent: Array = 2.0
) -> Array:
    """Return Hölder's bound on :func:`rejection_risk`: (Δ^{s+1} / (a(s+1)))^{1/s} ‖f‖_{s′, I}, 1/s + 1/s′ = 1.

    The first factor is the s-norm of a u + b, which rises from 0 to Δ over I. The papers use s = 2:
    Δ^{3/2}/√(3a) · ‖f‖_2. For s = ∞ the bound is Δ · P(I); for s = 1 it is Δ²/(2a) · max f.

    Parameters
    ----------
    cell_probabilities, slope, intercept, non_acceptance
        See :func:`rejection_risk`.
    exponent : array, shape (...)
        s, 1 to ∞.

    Returns
    -------
    array, shape (...)
        For s = 2: cu-hlm (13), u-hlm (13).

    Raises
    ------
    ValueError
        See :func:`rejection_risk`; also if s is below 1.

    Examples
    --------
    >>> round(float(holder_bound([0.5, 0.5], 1.0, 0.0, non_acceptance=0.5)), 6)
    0.144338
    """
    return upward(*_bound(cell_probabilities, slope, intercept, non_acceptance, exponent))


def holder_bound_discrete(
    mass: Array, slope: Array, intercept: Array, *, non_acceptance: Array, exponent: Array = 2.0
) -> Array:
    """Return a bound on :func:`rejection_risk_discrete`, rounded up: (Σ_I (a u + b)^s)^{1/s} (Σ_I f^{s′})^{1/s′}."""
    return upward(*_bound_discrete(mass, slope, intercept, non_acceptance, exponent))


def _bound(
    cell_probabilities: Array, slope: Array, intercept: Array, non_acceptance: Array, exponent: Array
) -> tuple[Any, Array, Any]:
    """Return the namespace, the bound (13) in float64, and the result dtype."""
    xp, kind, height, low, high, (a, _, delta) = _cells(cell_probabilities, slope, intercept, non_acceptance)
    inverse = _inverse(xp, exponent, height)
    line_norm = delta * _ratio(xp, delta * inverse, a * (1.0 + inverse)) ** inverse  # Δ/(a(s+1)), also for s = ∞
    density_norm = _norm(xp, height, high - low, 1.0 - inverse)
    return xp, xp.where(density_norm > 0, line_norm[..., 0], 0.0) * density_norm, kind  # avoids ∞ · 0


def _bound_discrete(
    mass: Array, slope: Array, intercept: Array, non_acceptance: Array, exponent: Array
) -> tuple[Any, Array, Any]:
    """Return the namespace, the bound over the points in float64, and the result dtype."""
    xp, kind, f, g, inside = _points(mass, slope, intercept, non_acceptance)
    inverse = _inverse(xp, exponent, f)
    one = xp.astype(inside, f.dtype)
    return xp, _norm(xp, g, one, inverse) * _norm(xp, f, one, 1.0 - inverse), kind


def line(slope: Array, intercept: Array, non_acceptance: Array) -> tuple[Any, Array, Array, Array]:
    """Check a, b and Δ, and return the namespace and the three values in float64."""
    values = {"slope": slope, "intercept": intercept, "non_acceptance": non_acceptance}
    xp, *given = arrays(*values, **values)
    for name, value in zip(values, given, strict=True):
        LINE[name].check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in zip(values, given, strict=True)})
    return (xp, *(in_kind(xp, value, xp.float64) for value in given))


def edge(xp: Any, *values: Array) -> float:
    """Return the distance in β within which a point counts as an end of I; larger if an input is float32."""
    return max(_EDGES[xp.finfo(widest(xp, value)).bits] for value in values)


def _law(name: str, law: Array, slope: Array, intercept: Array, non_acceptance: Array) -> tuple[Any, ...]:
    """Return the namespace, the result dtype, the distribution in float64, and a, b, Δ with one more axis."""
    values = {"slope": slope, "intercept": intercept, "non_acceptance": non_acceptance}
    xp, f, a, b, delta = arrays(*values, **{name: law}, **values)
    _CELLS.check(xp, name, f)
    kind = widest(xp, f)
    _, *coefficients = line(a, b, delta)
    shapes = {"slope": tuple(a.shape), "intercept": tuple(b.shape), "non_acceptance": tuple(delta.shape)}
    leading_dimensions(**{name: tuple(f.shape[:-1])}, **shapes)
    f = in_kind(xp, f, xp.float64)
    return xp, kind, f / xp.sum(f, axis=-1, keepdims=True), tuple(value[..., None] for value in coefficients)


def _cells(cell_probabilities: Array, slope: Array, intercept: Array, non_acceptance: Array) -> tuple[Any, ...]:
    """Return the namespace, the dtype, the height of f in each cell, the part of each cell in I, and the line."""
    xp, kind, f, (a, b, delta) = _law("cell_probabilities", cell_probabilities, slope, intercept, non_acceptance)
    size = f.shape[-1]
    cell = xp.arange(size, dtype=xp.float64, device=f.device)
    averse, prone = (xp.clip(_ratio(xp, top, a), min=0.0, max=1.0) for top in (-b, delta - b))  # may be infinite
    low = xp.maximum(cell / size, averse)
    high = xp.minimum((cell + 1.0) / size, prone)
    return xp, kind, f * size, low, xp.maximum(low, high), (a, b, delta)


def _points(mass: Array, slope: Array, intercept: Array, non_acceptance: Array) -> tuple[Any, ...]:
    """Return the namespace, the dtype, f and a u + b at each point (0 outside I), and a mask of the points in I."""
    xp, given = arrays(mass=mass)
    _SUPPORT.check(xp, "mass", given)
    near = edge(*arrays(mass=mass, slope=slope, intercept=intercept, non_acceptance=non_acceptance))
    xp, kind, f, (a, b, delta) = _law("mass", mass, slope, intercept, non_acceptance)
    size = f.shape[-1]
    u = xp.arange(size, dtype=xp.float64, device=f.device) / (size - 1)
    g = a * u + b
    inside = (g >= -near) & (g <= delta + near)
    zero = xp.zeros_like(g)
    return xp, kind, xp.where(inside, f, 0.0), xp.where(inside, xp.clip(g, min=0.0), zero), inside


def _inverse(xp: Any, exponent: Array, like: Array) -> Array:
    """Check s and return 1/s in [0, 1], with one more axis."""
    _, s, _ = arrays(exponent=exponent, like=like)
    _EXPONENT.check(xp, "exponent", s)
    leading_dimensions(exponent=tuple(s.shape), **{"cell_probabilities or mass": tuple(like.shape[:-1])})
    return 1.0 / in_kind(xp, s, xp.float64)[..., None]


def _norm(xp: Any, values: Array, weight: Array, inverse: Array) -> Array:
    """Return (Σ w v^s)^{1/s} for 1/s = ``inverse``; scaling by the largest value avoids over- and underflow."""
    largest = xp.max(xp.where(weight > 0, values, 0.0), axis=-1, keepdims=True)
    share = xp.where(weight > 0, values, 0.0) / xp.where(largest > 0, largest, 1.0)
    s = xp.where(inverse > 0, 1.0 / xp.where(inverse > 0, inverse, 1.0), xp.inf)
    total = xp.sum(weight * share**s, axis=-1, keepdims=True)
    return (largest * total**inverse)[..., 0]


def _ratio(xp: Any, numerator: Array, denominator: Array) -> Array:
    """Return a signed quotient; infinite where it overflows."""
    return xp.sign(numerator) * quotient(xp, xp.abs(numerator), denominator)


_SUPPORT = Domain(
    "rows of the probabilities of 0, 1/M, …, 1, with M = 1 or more",
    lambda xp, value: xp.full(value.shape[:-1], value.shape[-1] > 1),
    "a single entry leaves no spacing 1/M",
    rows=True,
)
