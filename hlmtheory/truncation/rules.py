"""The k that top-p, min-p and top-nσ sampling keep, and for each rule the parameter that keeps a given k.

Paper: cu-hlm (oh2025cuhlm), end of Section IV, names the first two and refers to the third. Symbols are those of
:mod:`hlmtheory.truncation`. The rules do not compute Δ_k. But each rule bounds Δ_k, and so bounds the Bias.
"""

from typing import Any

from hlmtheory._array import Array, arrays, in_kind, spread
from hlmtheory._domains import UNIT_INTERVAL, check_logits, leading_dimensions
from hlmtheory._quantities import not_negative
from hlmtheory._simplex import distributions
from hlmtheory.truncation._search.tails import Tails

WIDTH = not_negative("give the number of standard deviations below the largest logit, such as 1")


def size_from_top_p(draft: Array, p: Array) -> Array:
    """The k of nucleus sampling: the smallest whose k largest entries have a mass of at least p, 0..V.

    If p is within (V + 4) 2^-52 of the mass of k entries, rounding may give k or k + 1.
    """
    xp, q, p, batch = _checked(draft, p)
    p = spread(xp, p, batch)
    size = Tails.of(xp, q).spread(batch).leaving(1.0 - p)
    at_least_one = xp.where(size > 0, size, 1)  # rounding can make the remaining mass at k = 0 differ from 1
    return xp.where(p > 0, at_least_one, 0)


def size_from_min_p(draft: Array, p: Array) -> Array:
    """The k of min-p sampling: the number of entries that are at least p times the largest."""
    xp, q, p, _ = _checked(draft, p)
    return xp.count_nonzero(q >= p[..., None] * xp.max(q, axis=-1, keepdims=True), axis=-1)


def size_from_top_n_sigma(logits: Array, n: Array) -> Array:
    """The k of top-nσ sampling: the number of logits at most n standard deviations below the largest.

    It is min-p with p = e^{-nσ}, σ over all entries that are not masked by -inf; a masked one is never kept.
    """
    xp, logits, n = arrays("logits", "n", logits=logits, n=n)
    z = _with_squares(xp, in_kind(xp, check_logits(xp, logits), xp.float64))
    n = in_kind(xp, WIDTH.check(xp, "n", n), xp.float64)
    leading_dimensions(logits=tuple(z.shape[:-1]), n=tuple(n.shape))
    reach = n[..., None] * _deviation_of_logits(xp, z)[..., None]
    return xp.count_nonzero(xp.max(z, axis=-1, keepdims=True) - z <= reach, axis=-1)


def _checked(draft: Array, p: Array) -> tuple[Any, Array, Array, tuple[int, ...]]:
    """Return the namespace, q and p in float64, and their batch dimensions."""
    xp, draft, p = arrays("draft", "p", draft=draft, p=p)
    q = distributions(draft=draft)[2]
    p = in_kind(xp, UNIT_INTERVAL.check(xp, "p", p), xp.float64)
    return xp, q, p, leading_dimensions(draft=tuple(q.shape[:-1]), p=tuple(p.shape))


def _deviation_of_logits(xp: Any, logits: Array) -> Array:
    """Standard deviation σ of the unmasked logits of each row, shape (...)."""
    finite = xp.isfinite(logits)
    count = xp.astype(xp.count_nonzero(finite, axis=-1, keepdims=True), logits.dtype)
    mean = xp.sum(xp.where(finite, logits, 0.0), axis=-1, keepdims=True) / count
    away = xp.where(finite, logits - mean, 0.0)
    return xp.sqrt(xp.sum(away * away, axis=-1, keepdims=True) / count)[..., 0]


def _with_squares(xp: Any, z: Array) -> Array:
    """The logits, scaled down if their squares would overflow; neither n nor k depends on the scale."""
    large = xp.max(xp.where(xp.isfinite(z), xp.abs(z), 0.0), axis=-1, keepdims=True) > 1e150
    return xp.where(large, z * 2.0**-600, z)


#
# rules_top_n_sigma is rules_min_p: q_i/q_max = e^{-(z_max - z_i)}, and the entries left have z_max - z_i > n σ.
