"""Fit the coefficients of a device to measured times."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import DomainError, broadcast, finite_answer, number, numbers
from hlmtheory._quantities import open_unit
from hlmtheory.serving.shapes import LENGTH, POSITIVE_COUNT, SECONDS, Device

CONFIDENCE = open_unit("give the confidence level of the intervals, such as 0.95")


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """The result of :func:`fit_device`: least-squares estimates, which can be negative, and confidence intervals."""

    c1: float
    c2: float
    c1_interval: tuple[float, float]
    c2_interval: tuple[float, float]
    r_squared: float | None  # None if the times do not vary
    confidence: float

    @property
    def device(self) -> Device:
        """The device with the fitted coefficients."""
        return Device(self.c1, self.c2)


@finite_answer
def fit_device(flops: Array, batch_size: Array, seconds: Array, *, confidence: float = 0.95) -> DeviceFit:
    """Return the least-squares coefficients c₁, c₂ of run time = c₁ F b + c₂ from measured passes.

    Parameters
    ----------
    flops : array, shape (n,)
        F of each pass, for one task.
    batch_size : integer array, shape (n,) or broadcastable
        b of each pass.
    seconds : array, shape (n,)
        Measured run time of each pass.
    confidence : float, default 0.95
        Confidence level of the intervals (Student's t, n - 2 degrees of freedom), in (0, 1).

    Returns
    -------
    DeviceFit

    Raises
    ------
    ValueError
        If a value is outside its domain, there are fewer than 3 passes, or all have the same F b.

    Examples
    --------
    >>> fit = fit_device([1.0, 2.0, 3.0], 2, [5.0, 9.0, 13.0])
    >>> round(fit.c1, 9), round(fit.c2, 9), fit.r_squared
    (2.0, 1.0, 1.0)
    """
    from scipy.special import stdtrit

    work, size = numbers(LENGTH, "flops", flops), numbers(POSITIVE_COUNT, "batch_size", batch_size)
    times, confidence = numbers(SECONDS, "seconds", seconds), number(CONFIDENCE, "confidence", confidence)
    broadcast(flops=work.shape, batch_size=size.shape, seconds=times.shape)
    x, y = np.broadcast_arrays(work * size, times)
    if x.ndim != 1 or x.size < 3:
        raise DomainError(f"flops must be a row of at least 3 passes; got shape {x.shape}; measure more")
    count, centre = x.size, x.mean()
    spread = float(((x - centre) ** 2).sum())
    if not spread > 0:
        raise DomainError(
            f"flops must vary; got F b = {centre:.6g} in every pass; measure several sizes of batch or prompt"
        )
    c1 = float(((x - centre) * (y - y.mean())).sum()) / spread
    c2 = float(y.mean() - c1 * centre)
    residual = float(((y - c1 * x - c2) ** 2).sum())
    varies = bool(y.min() < y.max())  # equal times can still differ from their rounded mean
    total = float(((y - y.mean()) ** 2).sum())
    error = math.sqrt(residual / (count - 2))
    quantile = float(stdtrit(count - 2, 0.5 + confidence / 2.0))
    half1 = quantile * error / math.sqrt(spread)
    half2 = quantile * error * math.sqrt(1.0 / count + float(centre) ** 2 / spread)
    explained = 1.0 - residual / total if varies else None
    return DeviceFit(c1, c2, (c1 - half1, c1 + half1), (c2 - half2, c2 + half2), explained, confidence)
