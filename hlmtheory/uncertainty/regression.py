"""Least squares of rejection on uncertainty, token by token or on the 21 points of the papers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, plain, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, DomainError, flag, number
from hlmtheory._quantities import open_unit

POINTS = 20
"""Spacing 1/20 of the points 0, .05, …, 1: the values that u can take at M = 20 draws."""

_LEAST_RANGE = 1e-100
"""Of the uncertainties: the squares of smaller distances underflow."""

_CONFIDENCE = open_unit("say how often the intervals are to hold, such as 0.95")

Row = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinearFit:
    """The line β = a u + b, and its goodness of fit.

    Attributes
    ----------
    slope, intercept : float
        a and b of cu-hlm (7).
    r_squared : float or None
        1 - Σ (β - a u - b)² / Σ (β - mean β)²; None where β is constant, as it is 0/0.
    mse : float
        Mean squared residual, over the points that were fitted.
    correlation : float or None
        Pearson's r of the points that were fitted; its square is ``r_squared``. None where β is constant.
    slope_interval, intercept_interval : tuple of float
        Confidence intervals.
    points : int
        How many points were fitted: tokens, or bins that hold a token.
    clusters : int or None
        How many prompts the intervals are clustered by.
    """

    slope: float
    intercept: float
    r_squared: float | None
    mse: float
    correlation: float | None
    slope_interval: tuple[float, float]
    intercept_interval: tuple[float, float]
    points: int
    clusters: int | None


def fit_linear(
    uncertainty: Array,
    rejection_by_token: Array,
    *,
    groups: Any = None,
    binned: bool = False,
    confidence: float = 0.95,
) -> LinearFit:
    """Fit the rejection probability as a line in the uncertainty, by ordinary least squares.

    The two ways differ a lot. Token by token the scatter of β about its mean counts, binned it is averaged away
    first and every bin counts alike, however few tokens it holds; R² is then near 1 and says little of a token.

    Parameters
    ----------
    uncertainty, rejection_by_token : array, shape (n,)
        u and β of n tokens, in [0, 1].
    groups : array of labels, shape (n,), optional
        The prompt of each token. Tokens of one response depend on each other: intervals are then clustered by
        prompt (a sandwich token by token, a jackknife over prompts if binned; t with one degree of freedom less than
        there are prompts). None takes the points as independent.
    binned : bool
        Whether to fit the mean β at each of the 21 points 0, .05, …, 1, unweighted, u rounded to the nearest
        point, as cu-hlm and u-hlm do. Bins that hold no token are left out: ``points`` says how many are not.
    confidence : float
        Of the intervals, in (0, 1).

    Returns
    -------
    LinearFit
        cu-hlm (7), u-hlm (5).

    Raises
    ------
    ValueError
        If a value is outside [0, 1], the lengths differ, fewer than 3 points are left, the uncertainty is constant (to
        1e-100), all tokens are of one prompt, or, if binned, fewer than 3 points are left without one of the prompts.

    Examples
    --------
    >>> fit = fit_linear([0.0, 0.5, 1.0, 1.0], [0.0, 0.25, 0.5, 0.75])
    >>> round(fit.slope, 3), round(fit.intercept, 3)
    (0.636, -0.023)
    """
    u, beta = _tokens(uncertainty, rejection_by_token)
    confidence = number(_CONFIDENCE, "confidence", confidence)
    labels = None if groups is None else _clusters(groups, len(u))
    binned = flag("binned", binned)
    unit = _unit_of(beta)
    beta = beta / unit
    x, y = _binned(u, beta) if binned else (u, beta)
    _refuse_constant(x)
    line = _least_squares(x, y)
    if labels is not None and binned:
        intervals = _jackknife(u, beta, labels, line, confidence)
    else:
        intervals = _intervals(x, y, labels, confidence)
    residuals = y - line[0] * x - line[1]
    # rounding leaves a spread about the mean, or between the means of bins, even where every β is the same
    varies = bool(y.min() < y.max() and beta.min() < beta.max())
    fraction = 1.0 - float(residuals @ residuals) / float(np.sum((y - y.mean()) ** 2)) if varies else None
    return LinearFit(
        slope=unit * line[0],
        intercept=unit * line[1],
        r_squared=fraction,
        mse=unit * (unit * (float(residuals @ residuals) / len(x))),
        correlation=_correlation(x, y) if varies else None,
        slope_interval=(unit * intervals[0][0], unit * intervals[0][1]),
        intercept_interval=(unit * intervals[1][0], unit * intervals[1][1]),
        points=len(x),
        clusters=None if labels is None else int(labels.max()) + 1,
    )


def _tokens(uncertainty: Array, rejection_by_token: Array) -> tuple[Row, Row]:
    """Check both arrays, which must have one length, and return them on the host."""
    xp, u, beta = arrays(uncertainty=uncertainty, rejection_by_token=rejection_by_token)
    for name, value in (("uncertainty", u), ("rejection_by_token", beta)):
        UNIT_INTERVAL.check(xp, name, value)
        if value.ndim != 1:
            raise DomainError(f"{name} must be one row of tokens; got shape {tuple(value.shape)}; flatten it")
    if u.shape != beta.shape:
        raise DomainError(
            f"rejection_by_token must be as long as uncertainty; got {beta.shape[0]} and {u.shape[0]} tokens; "
            "give one β per u"
        )
    return to_numpy(u).astype(np.float64), to_numpy(beta).astype(np.float64)


def _clusters(groups: Any, count: int) -> NDArray[np.int64]:
    """Labels as whole numbers that begin at 0."""
    labels = plain("groups", groups.detach().cpu() if hasattr(groups, "detach") else groups, kinds="fiubUS")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DomainError("groups must be labels; got one that is NaN or infinite; number the prompts")
    if labels.shape != (count,):
        raise DomainError(f"groups must be one label per token; got shape {labels.shape}; give {count} labels")
    index = np.unique(labels, return_inverse=True)[1]
    if index.max(initial=0) == 0:
        raise DomainError("groups must be of two prompts or more; got one; leave groups out, or add prompts")
    return index.astype(np.int64)


def _binned(u: Row, beta: Row) -> tuple[Row, Row]:
    """The points that hold a token, and the mean β there."""
    index = np.rint(u * POINTS).astype(np.int64)
    count = np.bincount(index, minlength=POINTS + 1)
    total = np.bincount(index, weights=beta, minlength=POINTS + 1)
    held = count > 0
    return np.flatnonzero(held) / POINTS, total[held] / count[held]


def _unit_of(beta: Row) -> float:
    """A power of 2 by which β is scaled: 1, unless all β are so small that their squares underflow."""
    largest = float(beta.max(initial=0.0))
    return 1.0 if largest == 0.0 or largest > 2.0**-400 else 2.0 ** (math.frexp(largest)[1] - 1)


def _refuse_constant(x: Row) -> None:
    if len(x) < 3:
        raise DomainError(f"uncertainty must give 3 points or more; got {len(x)}; take more tokens")
    if x.max() - x.min() < _LEAST_RANGE:
        value = float(x[0])
        raise DomainError(f"uncertainty must vary; got {value!r} for every token; no slope follows from one point")


def _least_squares(x: Row, y: Row) -> tuple[float, float]:
    """Slope and intercept."""
    away = x - x.mean()
    slope = float(away @ (y - y.mean()) / (away @ away))
    return slope, float(y.mean() - slope * x.mean())


def _correlation(x: Row, y: Row) -> float:
    one, other = x - x.mean(), y - y.mean()
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def _intervals(
    x: Row, y: Row, labels: NDArray[np.int64] | None, confidence: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of slope and intercept, by statsmodels."""
    from statsmodels.api import OLS, add_constant

    model = OLS(y, add_constant(x))
    options = {} if labels is None else {"cov_type": "cluster", "cov_kwds": {"groups": labels}, "use_t": True}
    (low_b, high_b), (low_a, high_a) = model.fit(**options).conf_int(1.0 - confidence)
    return (float(low_a), float(high_a)), (float(low_b), float(high_b))


def _jackknife(
    u: Row, beta: Row, labels: NDArray[np.int64], line: tuple[float, float], confidence: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The binned fit without each prompt in turn; the bins' own scatter knows nothing of the prompts."""
    from scipy.special import stdtrit

    count = int(labels.max()) + 1
    without = []
    for label in range(count):
        x, y = _binned(u[labels != label], beta[labels != label])
        if len(x) < 3:
            raise DomainError(
                f"groups must leave 3 points or more without any one prompt; got {len(x)} without the prompt of token "
                f"{int(np.argmax(labels == label))}; add prompts, or fit token by token with binned=False"
            )
        without.append(_least_squares(x, y))
    deviation = np.std(without, axis=0) * np.sqrt(count - 1)
    half = float(stdtrit(count - 1, (1.0 + confidence) / 2.0)) * deviation
    low, high = np.asarray(line) - half, np.asarray(line) + half
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))
