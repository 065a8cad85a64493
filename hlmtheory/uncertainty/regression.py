"""Least-squares fit of the rejection probability on the uncertainty, by token or on the papers' 21 points."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, in_kind, plain, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, DomainError, flag

POINTS = 20
"""Number of intervals between the points 0, .05, …, 1, the values that u can take at M = 20 draws."""

_LEAST_RANGE = 1e-100
"""Smallest accepted range of the uncertainties; the squares of smaller distances underflow."""

_CONFIDENCE = 0.95

Row = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinearFit:
    """The fitted line β = a u + b (cu-hlm (7)) with intervals at 95%, and its goodness of fit.

    ``r_squared`` and ``correlation`` are None if β is constant. ``points`` are tokens or bins, ``clusters`` prompts or
    None. ``non_acceptance`` is Δ = P(p_d < q_d), the share of *tokens* with β > 0, not 1 - α.
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
    non_acceptance: float

    @property
    def line(self) -> dict[str, Any]:
        """Return a, b and Δ, as :mod:`hlmtheory.skipping` asks for them: ``skip_thresholds(**fit.line)``."""
        return {"slope": self.slope, "intercept": self.intercept, "non_acceptance": self.non_acceptance}


def fit_linear(uncertainty: Array, rejection_by_token: Array, *, groups: Any = None, binned: bool = False) -> LinearFit:
    """Return the least-squares line of the rejection probability on the uncertainty.

    The fit by token and the binned fit differ much. The fit by token keeps the scatter of β around its mean. The binned
    fit averages the scatter away and gives every bin the same weight, however few tokens the bin holds. So the binned
    R² is close to 1 and says little about a single token.

    Parameters
    ----------
    uncertainty, rejection_by_token : array, shape (n,)
        u and β of n tokens, in [0, 1].
    groups : array of labels, shape (n,), optional
        The prompt of each token. Tokens of one response depend on each other, so the intervals are clustered by
        prompt: a sandwich estimate for the fit by token, a jackknife over prompts for the binned fit. Both use
        Student's t with (number of prompts - 1) degrees of freedom. None treats the points as independent.
    binned : bool
        Whether to round u to the nearest of the 21 points 0, .05, …, 1 and fit the mean β of each point without
        weights, as cu-hlm and u-hlm do. Empty bins are omitted; ``points`` is the number of the other bins.

    Returns
    -------
    LinearFit
        cu-hlm (7), u-hlm (5).

    Raises
    ------
    ValueError
        If a value is outside [0, 1], the lengths differ, there are fewer than 3 points, the uncertainty varies by less
        than 1e-100, or all tokens belong to one prompt. For a binned fit also if fewer than 3 points remain without one
        of the prompts.

    Examples
    --------
    >>> fit = fit_linear([0.0, 0.5, 1.0, 1.0], [0.0, 0.25, 0.5, 0.75])
    >>> round(fit.slope, 3), round(fit.intercept, 3)
    (0.636, -0.023)
    """
    u, beta = _tokens(uncertainty, rejection_by_token)
    labels = None if groups is None else _clusters(groups, len(u))
    binned = flag("binned", binned)
    unit = _unit_of(beta)
    beta = beta / unit
    x, y = _binned(u, beta) if binned else (u, beta)
    _refuse_constant(x)
    line = _least_squares(x, y)
    intervals = _jackknife(u, beta, labels, line) if labels is not None and binned else _intervals(x, y, labels, line)
    residuals = y - line[0] * x - line[1]
    # rounding can make equal β differ from their mean, or the means of bins differ from each other
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
        non_acceptance=float(np.mean(beta > 0)),
    )


def _tokens(uncertainty: Array, rejection_by_token: Array) -> tuple[Row, Row]:
    """Check that both arrays have one axis and equal length, and return them as NumPy arrays."""
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
    return to_numpy(in_kind(xp, u, xp.float64)), to_numpy(in_kind(xp, beta, xp.float64))  # numpy has no bfloat16


def _clusters(groups: Any, count: int) -> NDArray[np.int64]:
    """Check the labels and return them as integers from 0."""
    if hasattr(groups, "detach"):
        groups = to_numpy(arrays(groups=groups)[1])
    labels = plain("groups", groups, kinds="fiubUS")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DomainError("groups must be labels; got one that is NaN or infinite; number the prompts")
    if labels.shape != (count,):
        raise DomainError(f"groups must be one label per token; got shape {labels.shape}; give {count} labels")
    index = np.unique(labels, return_inverse=True)[1]
    if index.max(initial=0) == 0:
        raise DomainError("groups must be of two prompts or more; got one; omit groups, or add prompts")
    return index.astype(np.int64)


def _binned(u: Row, beta: Row) -> tuple[Row, Row]:
    """Return the points that hold a token and the mean β at each of them."""
    index = np.rint(u * POINTS).astype(np.int64)
    count = np.bincount(index, minlength=POINTS + 1)
    total = np.bincount(index, weights=beta, minlength=POINTS + 1)
    held = count > 0
    return np.flatnonzero(held) / POINTS, total[held] / count[held]


def _unit_of(beta: Row) -> float:
    """Return the power of 2 that scales β: 1, unless the squares of all β underflow."""
    largest = float(beta.max(initial=0.0))
    return 1.0 if largest == 0.0 or largest > 2.0**-400 else 2.0 ** (math.frexp(largest)[1] - 1)


def _refuse_constant(x: Row) -> None:
    if len(x) < 3:
        raise DomainError(f"uncertainty must give 3 points or more; got {len(x)}; take more tokens")
    if x.max() - x.min() < _LEAST_RANGE:
        value = float(x[0])
        raise DomainError(f"uncertainty must vary; got {value!r} for every token; one point gives no slope")


def _least_squares(x: Row, y: Row) -> tuple[float, float]:
    """Return slope and intercept."""
    away = x - x.mean()
    slope = float(away @ (y - y.mean()) / (away @ away))
    return slope, float(y.mean() - slope * x.mean())


def _correlation(x: Row, y: Row) -> float:
    one, other = x - x.mean(), y - y.mean()
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def _intervals(
    x: Row, y: Row, labels: NDArray[np.int64] | None, line: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the intervals of slope and intercept by Student's t: (n - 2) degrees of freedom, or prompts - 1.

    An estimate is Σ w_i y_i, so its error is Σ w_i e_i. With labels its variance is the sum over prompts of the squared
    sum of w_i e_i, times the correction for few prompts (Liang and Zeger).
    """
    count, away = len(x), x - x.mean()
    slope = away / (away @ away)
    weights = np.stack((slope, 1.0 / count - x.mean() * slope))
    errors = y - line[0] * x - line[1]
    if labels is None:
        variance = np.sum(weights**2, axis=1) * float(errors @ errors) / (count - 2)
        return _student(line, np.sqrt(variance), count - 2)
    prompts = int(labels.max()) + 1
    summed = np.stack([np.bincount(labels, own * errors) for own in weights])
    variance = np.sum(summed**2, axis=1) * (prompts / (prompts - 1) * (count - 1) / (count - 2))
    return _student(line, np.sqrt(variance), prompts - 1)


def _student(
    line: tuple[float, float], deviation: Row, freedom: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return each estimate, minus and plus its deviation times the quantile of Student's t."""
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, (1.0 + _CONFIDENCE) / 2.0)) * deviation
    low, high = np.asarray(line) - half, np.asarray(line) + half
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))


def _jackknife(
    u: Row, beta: Row, labels: NDArray[np.int64], line: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the jackknife intervals of the binned fit, refitted without each prompt."""
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
    return _student(line, np.std(without, axis=0) * np.sqrt(count - 1), count - 1)
