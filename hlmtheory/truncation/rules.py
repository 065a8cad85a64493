"""The k that top-p, min-p and top-nσ sampling keep, and for each rule the parameter that keeps a given k.

Paper: cu-hlm (oh2025cuhlm), end of Section IV, names the first two and refers to the third. Symbols are those of
:mod:`hlmtheory.truncation`. The rules do not compute Δ_k. But each rule bounds Δ_k, and so bounds the Bias.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, floating, in_kind, sort_descending, spread, tail_sums
from hlmtheory._domains import UNIT_INTERVAL, check_logits, leading_dimensions, size_up_to
from hlmtheory._quantities import not_negative
from hlmtheory._simplex import distributions
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.truncation._claim_sides import rebuilt_deviation
from hlmtheory.truncation._search.tails import Tails
from hlmtheory.truncation.reconstruction import at_size, draft_and_size

WIDTH = not_negative("give the number of standard deviations below the largest logit, such as 1")


def size_from_top_p(draft: Array, p: Array) -> Array:
    """The k of nucleus sampling: the smallest whose k largest entries have a mass of at least p.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    p : array, shape (...) or broadcastable to it
        In [0, 1].

    Returns
    -------
    int64 array, shape (...)
        In 0..V: 0 for p = 0, and for p = 1 the number of entries that are not 0. The remaining mass is compared with
        1 - p in float64. If p is within (V + 4) 2^-52 of the mass of k entries, rounding may give k or k + 1.

    Raises
    ------
    ValueError
        If a row is not a distribution or p is outside [0, 1].

    Examples
    --------
    >>> size_from_top_p([0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.6, 1.0]).tolist()
    [0, 1, 2, 3]
    """
    xp, q, p, batch = _checked(draft, p)
    p = spread(xp, p, batch)
    size = Tails.of(xp, q).spread(batch).leaving(1.0 - p)
    at_least_one = xp.where(size > 0, size, 1)  # rounding can make the remaining mass at k = 0 differ from 1
    return xp.where(p > 0, at_least_one, 0)


def top_p_of_size(draft: Array, k: Array) -> Array:
    """The p of nucleus sampling that keeps k entries: their mass.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    k : integer array, shape (...) or broadcastable to it
        0..V.

    Returns
    -------
    array, shape (...)
        In [0, 1]. :func:`size_from_top_p` gives k again, or less if some of the k entries are 0. Often it gives
        k + 1, because of the rounding described there.

    Raises
    ------
    ValueError
        If a row is not a distribution, or k is not an integer in 0..V.

    Examples
    --------
    >>> float(top_p_of_size([0.5, 0.25, 0.25, 0.0], 2))
    0.75
    """
    xp, kind, q, k = draft_and_size(draft, k)
    mass = 1.0 - at_size(xp, tail_sums(xp, sort_descending(xp, q)), k)
    return in_kind(xp, xp.where(mass > 0, mass, 0.0), kind)  # rounding can give less than 0 at k = 0


def size_from_min_p(draft: Array, p: Array) -> Array:
    """The k of min-p sampling: the number of entries that are at least p times the largest.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    p : array, shape (...) or broadcastable to it
        In [0, 1].

    Returns
    -------
    int64 array, shape (...)
        In 1..V.

    Raises
    ------
    ValueError
        If a row is not a distribution or p is outside [0, 1].

    Examples
    --------
    >>> size_from_min_p([0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.6]).tolist()
    [4, 3, 1]
    """
    xp, q, p, _ = _checked(draft, p)
    return xp.count_nonzero(q >= p[..., None] * xp.max(q, axis=-1, keepdims=True), axis=-1)


def min_p_of_size(draft: Array, k: Array) -> Array:
    """The largest p of min-p sampling that keeps k entries: the k-th largest entry divided by the largest.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    k : integer array, shape (...) or broadcastable to it
        0..V. Min-p keeps at least one entry, so k = 0 gives the same answer as k = 1.

    Returns
    -------
    array, shape (...)
        In [0, 1]. :func:`size_from_min_p` gives k again, or more if later entries are equal to the k-th.

    Raises
    ------
    ValueError
        If a row is not a distribution, or k is not an integer in 0..V.

    Examples
    --------
    >>> float(min_p_of_size([0.5, 0.25, 0.125, 0.125], 2))
    0.5
    """
    xp, kind, q, k = draft_and_size(draft, k)
    ordered = sort_descending(xp, q)
    return in_kind(xp, at_size(xp, ordered, xp.where(k > 0, k - 1, k)) / ordered[..., 0], kind)


def size_from_top_n_sigma(logits: Array, n: Array) -> Array:
    """The k of top-nσ sampling: the number of logits at most n standard deviations below the largest.

    It is min-p with p = e^{-nσ}, σ taken over all entries that are not masked.

    Parameters
    ----------
    logits : array, shape (..., V)
        Finite, or -inf for a masked entry, which is never kept.
    n : array, shape (...) or broadcastable to it
        0 or more.

    Returns
    -------
    int64 array, shape (...)
        In 1..V.

    Raises
    ------
    ValueError
        If a logit is NaN or +inf, a row is all -inf, or n is negative or not finite.

    Examples
    --------
    >>> size_from_top_n_sigma([4.0, 3.0, 0.0, 1.0], [0.0, 1.0, 2.0]).tolist()
    [1, 2, 3]
    """
    xp, logits, n = arrays("logits", "n", logits=logits, n=n)
    z = _with_squares(xp, in_kind(xp, check_logits(xp, logits), xp.float64))
    n = in_kind(xp, WIDTH.check(xp, "n", n), xp.float64)
    leading_dimensions(logits=tuple(z.shape[:-1]), n=tuple(n.shape))
    reach = n[..., None] * _deviation_of_logits(xp, z)[..., None]
    return xp.count_nonzero(xp.max(z, axis=-1, keepdims=True) - z <= reach, axis=-1)


def top_n_sigma_of_size(logits: Array, k: Array) -> Array:
    """The smallest n of top-nσ sampling that keeps k entries.

    Parameters
    ----------
    logits : array, shape (..., V)
        Finite, or -inf for a masked entry.
    k : integer array, shape (...) or broadcastable to it
        0..V. Top-nσ keeps at least one entry, so k = 0 gives the same answer as k = 1.

    Returns
    -------
    array, shape (...)
        (z_max - z_k)/σ. It is 0 if all logits are equal, since any n keeps them. It is infinite if fewer than k
        entries are unmasked. Up to rounding, :func:`size_from_top_n_sigma` gives k again, or more if later logits are
        equal to the k-th.

    Raises
    ------
    ValueError
        If a logit is NaN or +inf, a row is all -inf, or k is not an integer in 0..V.

    Examples
    --------
    >>> float(top_n_sigma_of_size([4.0, 2.0, 0.0], 2).round(4))
    1.2247
    """
    xp, logits, k = arrays(logits=logits, k=k)
    (kept_as,) = floating(xp, check_logits(xp, logits))
    z = _with_squares(xp, in_kind(xp, logits, xp.float64))
    k = size_up_to(z.shape[-1]).check(xp, "k", k)
    ordered = sort_descending(xp, z)
    sigma = _deviation_of_logits(xp, z)
    drop = ordered[..., 0] - at_size(xp, ordered, xp.where(k > 0, k - 1, k))
    return in_kind(xp, drop / xp.where(sigma > 0, sigma, 1.0), kept_as.dtype)


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


# --------------------------------------------------------------------------------------------- claims
#
# rules_top_p. For a tail with n entries and mass m, Δ_k = Σ (t_i - m/n)⁺ is convex in the tail, so it is largest at a
#   corner: one entry with all of m, which gives m - m/n. The nucleus of p leaves m ≤ 1 - p.
# rules_min_p. Entries in [0, a] with mean μ have Σ (t_i - μ)⁺ ≤ n (μ/a)(a - μ) ≤ n a/4. The first inequality follows
#   from convexity, with equality if all entries are 0 or a. Min-p leaves entries below a = p q_max.
# rules_top_n_sigma is rules_min_p: q_i/q_max = e^{-(z_max - z_i)}, and the entries left have z_max - z_i > n σ.


def _inner_p(draft: Array, k: Array) -> Array:
    """A p slightly below the mass of k entries; at exactly that mass, rounding would decide between k and k + 1."""
    return top_p_of_size(draft, k) * (1.0 - 2.0**-30)


def _top_p_deviation(draft: Array, k: Array) -> Array:
    """Δ_k for the k of :func:`_inner_p`."""
    return rebuilt_deviation(draft, size_from_top_p(draft, _inner_p(draft, k)))


def _left(xp: Any, draft: Array, size: Array) -> Array:
    """V - k."""
    return xp.astype(draft.shape[-1] - size, xp.float64)


def _top_p_bound(draft: Array, k: Array) -> Array:
    xp, q, k = arrays(draft=draft, k=k)
    p = _inner_p(q, k)
    left = _left(xp, q, size_from_top_p(q, p))
    return (1.0 - p) * (1.0 - 1.0 / xp.where(left > 0, left, 1.0))


def _min_p_deviation(draft: Array, k: Array) -> Array:
    return rebuilt_deviation(draft, size_from_min_p(draft, min_p_of_size(draft, k)))


def _min_p_bound(draft: Array, k: Array) -> Array:
    xp, q, k = arrays(draft=draft, k=k)
    p = min_p_of_size(q, k)
    return 0.25 * _left(xp, q, size_from_min_p(q, p)) * p * xp.max(q, axis=-1)


_PLACE = "end of IV, threshold-based methods"
_ONE_HOT = {"draft": [1.0, 0.0, 0.0, 0.0], "k": 0}
_BELOW = {"draft": [1024 / 3070, 1023 / 3070, 1023 / 3070, 0.0, 0.0], "k": 1}

CLAIMS = (
    Claim(
        id="truncation.rules_top_p",
        source=Source("oh2025cuhlm", _PLACE),
        origin=Origin.NEW,
        statement="Δ_k ≤ (1 − p)(1 − 1/(V − k)) for the k of a nucleus of mass p: its Bias is at most 2(1 − p)",
        relation=Relation.LE,
        lhs=_top_p_deviation,
        rhs=_top_p_bound,
        attained=Attained(_ONE_HOT),
        ceiling=1.0,
    ),
    Claim(
        id="truncation.rules_min_p",
        source=Source("oh2025cuhlm", _PLACE),
        origin=Origin.NEW,
        statement="Δ_k ≤ (V − k) p q_max / 4 for the k of min-p, and of top-nσ with p = e^{−nσ}",
        relation=Relation.LE,
        lhs=_min_p_deviation,
        rhs=_min_p_bound,
        attained=Attained(_BELOW, ratio=1023 / 1024),
        ceiling=1.0,
    ),
)
