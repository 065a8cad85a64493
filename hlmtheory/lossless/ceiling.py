"""An upper bound on the distance of a sampler's law from the target's, over cells of known probability.

The draws of a prompt are independent and have one law; prompts may have different ones. Over C prompts the distance is
the mean of those of the prompts, weighted by their numbers of draws. Several bounds are computed, and the smallest one
is returned: the distance of the frequencies plus their spread; a bound from two halves of the draws, which is the
better one for many cells; and where nearly all of the target's law is in one cell, that of the draws outside of it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, SIMPLEX, DomainError, number, numbers
from hlmtheory.lossless.evidence import DOMAINS

Values = NDArray[np.float64]
_LEAST_SHARE = 1e-300  # of an error; the logarithms below are of its inverse
_SLACK = 1.0 + 2.0**-36  # covers the rounding of sums
_LIKELY = 0.9
"""Probability of its likeliest cell from which a law counts as nearly deterministic."""


def distance_ceiling(first: Array, second: Array, target: Array, error: float) -> float:
    """Return an upper bound on the total variation between a sampler's law on cells and the target's.

    It exceeds the distance with a probability of at least 1 - δ, at one number of draws that was fixed before. It needs
    independent draws, and numbers of draws that do not depend on what was drawn.

    Parameters
    ----------
    first, second : integer array, shape (C, M) or (M,)
        Draws of each of C prompts in each of M cells, in two halves of the draws (every other draw).
    target : array, shape (C, M) or (M,)
        The target's probability of each cell; a row may end in zeros.
    error : float
        δ in (0, 1).

    Returns
    -------
    float
        In [0, 1], rounded up.

    Raises
    ------
    ValueError
        If a count is negative, a row is not a distribution, or the shapes differ.

    Examples
    --------
    >>> round(distance_ceiling([25_100, 24_900], [24_990, 25_010], [0.5, 0.5], error=0.001), 3)
    0.009
    """
    a, b = (numbers(COUNT, name, value) for name, value in (("first", first), ("second", second)))
    p = numbers(SIMPLEX, "target", target)
    delta = number(DOMAINS["error"], "error", error)
    if not a.shape == b.shape == p.shape or p.ndim > 2:
        raise DomainError(f"first, second and target must share the shape (C, M); got {a.shape}, {b.shape}, {p.shape}")
    a, b, p = (np.atleast_2d(one).astype(np.float64) for one in (a, b, p))
    p = p / p.sum(axis=-1, keepdims=True)
    used = (a.sum(axis=-1) + b.sum(axis=-1)) > 0
    if not used.any():
        return 1.0
    likely = bool((p[used].max(axis=-1) >= _LIKELY).all())  # of the target alone, so that the bounds may share δ
    share = delta / (2 + likely)
    if share < _LEAST_SHARE:
        return 1.0
    alone = _of_likeliest(a + b, p, share) if likely else 1.0
    a, b, p = _zeros_together(a, b, p)
    found = min(_of_frequencies(a + b, p, share), _of_halves(a, b, p, share), alone)
    return float(min(1.0, found * _SLACK))


def _zeros_together(a: Values, b: Values, p: Values) -> list[Values]:
    """Return the arrays with the cells of probability 0 as one: the distance is the same, and fewer cells spread."""
    order, kept = np.argsort(p == 0, axis=-1, kind="stable"), int((p > 0).sum(axis=-1).max())
    sorted_ = (np.take_along_axis(one, order, axis=-1) for one in (a, b, p))
    return [np.concatenate([one[:, :kept], one[:, kept:].sum(axis=-1, keepdims=True)], axis=-1) for one in sorted_]


def _of_likeliest(n: Values, p: Values, delta: float) -> float:
    """Return 1 - P(A) + the largest share outside the likeliest cells A at which so few draws are there with δ."""
    from scipy.special import betainccinv

    draws, likeliest = n.sum(), p.argmax(axis=-1)[:, None]
    inside = np.take_along_axis(n, likeliest, axis=-1).sum()
    missed = draws - inside
    share = float(betainccinv(missed + 1, inside, delta)) if inside else 1.0  # 1 - δ would lose the digits of a small δ
    share = share if share <= 1.0 else 1.0  # NaN where the root is 1 up to rounding
    rest = float((n.sum(axis=-1) * (1.0 - np.take_along_axis(p, likeliest, axis=-1)[:, 0])).sum() / draws)
    return max(share * (1.0 + 1e-9), float(missed + 1) / float(draws)) + max(rest, 0.0)


def _of_frequencies(n: Values, p: Values, delta: float) -> float:
    """Return TV(Q̂, P) + Σ_c (n_c/n) √((M - 1)/n_c)/2 + √(log(1/δ)/(2n))."""
    draws = n.sum(axis=-1)
    used = draws > 0
    n, p, draws = n[used], p[used], draws[used]
    total = draws.sum()
    apart = 0.5 * float(np.abs(n - draws[:, None] * p).sum()) / total
    spread = 0.5 * float(np.sqrt((n.shape[-1] - 1) * draws).sum()) / total
    return float(apart + spread + math.sqrt(-math.log(delta) / (2.0 * total)))


def _above(count: Values, draws: Values, exponent: float) -> Values:
    """Return the share Q with count/draws = Q - √(2 exponent Q/draws): one draw in e^exponent has a larger share."""
    root = np.sqrt(2 * exponent / draws)
    found: Values = (0.5 * (root + np.sqrt(root * root + 4 * count / draws))) ** 2
    return found


def _of_halves(a: Values, b: Values, p: Values, delta: float) -> float:
    """Return ‖Q - P‖/2 from the scalar product of Q̂_A - P and Q̂_B - P with weights w; see the proof of halves."""
    m_a, m_b = a.sum(axis=-1, keepdims=True), b.sum(axis=-1, keepdims=True)
    half_a, half_b = float(m_a.sum()), float(m_b.sum())
    if half_b < 2 or (m_a == 0).any() or (m_b == 0).any():
        return 1.0
    limit = math.log(6.0 / delta)  # three events; the first two have two sides or halves
    share_a, share_b = m_a / half_a, m_b / half_b
    if np.abs(share_a - share_b).max() > 0.25 * share_b.min():
        return 1.0  # the two halves would mean different mixtures of the prompts
    # cells of all prompts together: (c, v) has the probability share_c Q_c(v)
    target = share_b * p
    weight = 0.5 * (target + 1.0 / target.size)
    h = share_b * (a / m_a - p) / weight
    noise = 2.0**-49 * float((share_b * (a / m_a + p) / weight).max())  # of h; the root below would magnify it
    product = float(((b / m_b - p) * share_b * h).sum())
    mean = float((b * h).sum()) / half_b
    variance = float((b * (h - mean) ** 2).sum()) / (half_b - 1)
    width = float(h.max() - h.min())
    most = product + 2 * noise + (math.sqrt(variance) + noise) * math.sqrt(2 * limit / half_b)
    most += 7 * (width + 2 * noise) * limit / (3 * (half_b - 1))
    union = math.log(3.0 * p.size / delta)
    above = _above(a + b, m_a + m_b, union)  # Q_c(v) ≤ above, all at once
    ratio = float((share_b * np.minimum(above, 1.0) * share_b / (share_a * weight)).max())
    slope = math.sqrt(2 * ratio * limit / half_a)
    rest = 2 * float((share_b / share_a).max()) * limit / (3 * half_a)
    found = 0.25 * (slope + math.sqrt(slope * slope + 4 * max(0.0, most + rest)))
    share = (m_a + m_b) / (half_a + half_b)  # the bound is for share_b: the largest ratio covers the difference
    return found * float((share / share_b).max())
