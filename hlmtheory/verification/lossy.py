"""Lossy acceptance at one position: how many drafts a rule accepts, and how far its token is from the target's law.

a_v is ``accept``, r ``residual``, A = Σ q_v a_v, T = TV(q, p), e = TV(q a + (1 - A) r, p). No rule beats A = 1 - T + e.
Rules that accept at least what lossless verification accepts, with its residual, are on this line: relaxed, skips,
cascades (narasimhan2025cascades; yin2024theory, Theorem 5; sharma2026accepted: bodies not at hand).
"""

from typing import Any, NamedTuple

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import UNIT_INTERVAL, Domain, leading_dimensions, size_up_to
from hlmtheory._quantities import positive
from hlmtheory._simplex import distance, distributions, excess, largest, normalised, skip_probabilities

# Laws are vectors; y = (1 - A) r is the resampled mass, law = q a + y.

FACTOR = positive("give the factor of the acceptance ratio; 1 is lossless")


class LossyPrice(NamedTuple):
    """Acceptance A, distance e = TV(law, p), and ``wasted`` = 1 - T + e - A, which is 0 for the best rules."""

    acceptance: Array
    distance: Array
    wasted: Array


def lossy_price(target: Array, draft: Array, accept: Array, residual: Array | None = None) -> LossyPrice:
    """Return the acceptance of a rule at each position, the distance of its token, and what it wastes.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Distributions p and q; for greedy drafts q is one-hot.
    accept : array, shape (..., V) or broadcastable
        Probability a_v in [0, 1] that the draft v is kept.
    residual : array, shape (..., V), optional
        Law of the token after a rejection; (p - q)⁺, normalised, if None, and p where q = p.

    Returns
    -------
    LossyPrice

    Raises
    ------
    ValueError
        If a row is not a distribution, a probability is outside [0, 1], or the shapes do not match.

    Examples
    --------
    >>> price = lossy_price([0.25, 0.75], [0.5, 0.5], [0.75, 1.0])
    >>> float(price.acceptance), float(price.distance), float(price.wasted)
    (0.875, 0.125, 0.0)
    >>> float(lossy_price([0.5, 0.5], [1.0, 0.0], [0.5, 1.0], residual=[0.5, 0.5]).wasted)
    0.25
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    kept = q * skip_probabilities(xp, accept, q, "accept")
    if residual is None:
        missing, mass = normalised(xp, excess(xp, p, q))
        resampled = xp.where(mass[..., None] > 0, missing, p)  # where q = p, a rule may still reject
    else:
        resampled = distributions(residual=residual, draft=q)[2]
        leading_dimensions(residual=tuple(resampled.shape[:-1]), target=tuple(kept.shape[:-1]))
    rate = xp.clip(xp.sum(kept, axis=-1), max=1.0)
    resampled = (1.0 - rate)[..., None] * resampled
    early = excess(xp, xp.minimum(p, q), kept)
    beside = excess(xp, resampled, excess(xp, p, kept))
    found = (rate, distance(xp, kept + resampled, p), xp.sum(early + beside, axis=-1))
    return LossyPrice(*(in_kind(xp, one, kind) for one in found))


def relaxed_acceptance(target: Array, draft: Array, factor: Array) -> Array:
    """Return min(1, c p_v/q_v), the acceptance of each draft; 1 where q_v = 0. The factor c = 1 is lossless."""
    xp, kind, p, q = distributions(target=target, draft=draft)
    c = _number(xp, FACTOR, q, "factor", factor)
    below = c * p < q
    return in_kind(xp, xp.where(below, c * p / xp.where(below, q, 1.0), 1.0), kind)


def typical_acceptance(target: Array, epsilon: Array, delta: Array) -> Array:
    """Return 1 for each token with p_v > min(ε, δ exp(-H(p))), else 0: typical acceptance, cai2024medusa 2.3.1."""
    xp, kind, p = distributions(target=target)
    hard, soft = _number(xp, UNIT_INTERVAL, p, "epsilon", epsilon), _number(xp, UNIT_INTERVAL, p, "delta", delta)
    entropy = -xp.sum(xp.where(p > 0, p * xp.log(xp.where(p > 0, p, 1.0)), 0.0), axis=-1, keepdims=True)
    return in_kind(xp, xp.astype(p > xp.minimum(hard, soft * xp.exp(-entropy)), xp.float64), kind)


def threshold_acceptance(target: Array, single: Array = 1.0, accumulated: Array = 1.0) -> Array:
    """Return 1 where p_v is at least ``single``, else min(1, p_v/``accumulated``): SGLang's rule for one draft.

    SGLang takes 1e-9 for a smaller ``accumulated``. It resamples from p without the draft: give one-hot drafts.
    """
    xp, kind, p = distributions(target=target)
    least = _number(xp, UNIT_INTERVAL, p, "single", single)
    scale = xp.clip(_number(xp, UNIT_INTERVAL, p, "accumulated", accumulated), min=1e-9)
    return in_kind(xp, xp.where(p >= least, 1.0, xp.clip(p / scale, max=1.0)), kind)


def top_acceptance(target: Array, top_k: Array, margin: Array = 1.0) -> Array:
    """Return 1 for each of the m likeliest tokens with p_v within a margin of the largest, else 0: TensorRT-LLM."""
    xp, kind, p = distributions(target=target)
    within = _number(xp, UNIT_INTERVAL, p, "margin", margin)
    count = size_up_to(p.shape[-1]).check(xp, "top_k", arrays(rows=p, top_k=top_k)[2])
    shape = leading_dimensions(target=tuple(p.shape[:-1]), top_k=tuple(count.shape))
    count = xp.broadcast_to(count, shape)[..., None]
    near = p >= xp.max(p, axis=-1, keepdims=True) - within
    return in_kind(xp, xp.astype(largest(xp, p, count) & near, xp.float64), kind)


def _number(xp: Any, domain: Domain, rows: Array, name: str, value: Any) -> Array:
    """Return a checked number for each row, (..., 1) in float64."""
    _, _, given = arrays(name, rows=rows, **{name: value})
    found = in_kind(xp, domain.check(xp, name, given), xp.float64)
    leading_dimensions(rows=tuple(rows.shape[:-1]), **{name: tuple(found.shape)})
    return found[..., None]
