"""Risk of the next prompt: its bound from the losses, in [0, 1], of n calibration prompts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy, upward, widest
from hlmtheory._domains import UNIT_INTERVAL, DomainError, leading_dimensions
from hlmtheory._quantities import open_unit
from hlmtheory.uncertainty.binomial import bernoulli_divergence

ERROR = open_unit("give the probability with which the interval may miss the mean, such as 0.05")
_HALVINGS = 60
_ROUNDING = 1e-13  # of the mean and the divergence together; the interval is wider by it


@dataclass(frozen=True, slots=True)
class TextRisk:
    """The risk of n = ``texts`` texts: the mean loss, the interval (low, high), and (Σ L + 1)/(n + 1).

    Each end is wrong with probability at most error/2; ``high`` bounds the TV of the text's law from the target's.
    """

    mean: Array
    low: Array
    high: Array
    corrected: Array
    texts: int


def text_risk(losses: Array, error: Array = 0.05) -> TextRisk:
    """Return the mean loss of a set of texts, with an interval that holds for any number of texts.

    Parameters
    ----------
    losses : array, shape (..., n)
        Losses in [0, 1] of n independent texts, as :func:`overlap_risk` returns them. If a prompt has several texts,
        give the mean of their losses once.
    error : array, shape (...)
        Probability in (0, 1) with which the interval may miss the expected loss. It is for one threshold that was
        chosen without these losses. For the best of several thresholds use :func:`calibrate_threshold`.

    Returns
    -------
    TextRisk
        The ends x with n kl(mean, x) = ln(2/error), where kl is the divergence of two coins, rounded outwards.

    Raises
    ------
    ValueError
        If there is no text, a loss is outside [0, 1], or the error is not in (0, 1).

    Examples
    --------
    >>> found = text_risk([0.0, 0.25, 0.0, 0.0, 0.5, 0.0, 0.0, 0.25])
    >>> [round(float(x), 4) for x in (found.mean, found.low, found.high, found.corrected)]
    [0.125, 0.0012, 0.5857, 0.2222]
    """
    xp, values, wrong = arrays("error", losses=losses, error=error)
    UNIT_INTERVAL.check(xp, "losses", values)
    ERROR.check(xp, "error", wrong)
    if values.ndim < 1 or not values.shape[-1]:
        raise DomainError(f"losses must have one entry per text; got shape {tuple(values.shape)}; give at least one")
    shape = leading_dimensions(losses=tuple(values.shape[:-1]), error=tuple(wrong.shape))
    kind, count = widest(xp, values), values.shape[-1]
    total = xp.broadcast_to(xp.sum(in_kind(xp, values, xp.float64), axis=-1), shape)
    mean = xp.clip(total / count, max=1.0)
    x, delta = (to_numpy(value) for value in (mean, xp.broadcast_to(in_kind(xp, wrong, xp.float64), shape)))
    goal = (np.log(2.0) - np.log(delta)) / count + _ROUNDING  # 2/error may overflow
    low, high = (xp.asarray(_end(x, goal, outer), device=values.device) for outer in (0.0, 1.0))
    return TextRisk(
        in_kind(xp, mean, kind),
        -upward(xp, -low, kind),
        upward(xp, high, kind),
        upward(xp, (total + 1.0) / (count + 1), kind),
        count,
    )


def _end(mean: Any, goal: Any, outer: float) -> Any:
    """Return a value between the mean and ``outer`` whose divergence is above the goal, just above; else ``outer``."""
    inside, outside = np.array(mean), np.full_like(mean, outer)
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        within = bernoulli_divergence(mean, middle) <= goal
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return outside
