"""Supports, counts and the cost of rounding: the functions of :mod:`hlmtheory.lattice` about distance."""

from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import DomainError, leading_dimensions, same_vocabulary
from hlmtheory._simplex import distributions, largest
from hlmtheory.lattice import arithmetic


def top_support(draft: Array, top_k: Array) -> Array:
    """The K largest entries of each row: the support of K-SQS.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    top_k : integer array, shape (...) or broadcastable to it
        K in 1..V, at most the number of positive entries.

    Returns
    -------
    bool array, shape (..., V)
        c-sqs Alg. 2, line 4; equal entries at the border are kept by lowest index.

    Raises
    ------
    ValueError
        If a row is not a distribution, K is not an integer in 1..V, or exceeds the number of non-zero probabilities.

    Examples
    --------
    >>> top_support([0.5, 0.125, 0.375, 0.0], 2).tolist()
    [True, False, True, False]
    """
    xp, q, size = arithmetic.row_and_size(draft, top_k)
    arithmetic.refuse_more_than_positive(xp, q, size)
    return largest(xp, q, size)


def dropped_mass(draft: Array, *, support: Array) -> Array:
    """Mass of q outside the support, which is TV(q, q̄), in [0, 1); c-sqs Lemma 1."""
    xp, kind, q, kept = _row_and_support(draft, support)
    return in_kind(xp, arithmetic.kept_part(xp, q, kept)[1], kind)


def quantize(draft: Array, *, support: Array, resolution: Array) -> Array:
    """Counts b of the lattice point nearest to q̄: whole numbers that sum to ℓ; the quantised row is b/ℓ.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    support : bool array, shape (..., V)
        Which tokens are kept, at least one; their part of the row is renormalised first.
    resolution : integer array, shape (...) or broadcastable to it
        ℓ in 1..2²⁴, the largest that :mod:`hlmtheory.codec` sends.

    Returns
    -------
    int64 array, shape (..., V)
        c-sqs Alg. 2 with the renormalisation of (17); 0 outside the support. Of equal remainders the lowest index is
        rounded up.

    Raises
    ------
    ValueError
        If a row is not a distribution, a support is empty or holds a token of probability 0, or ℓ is out of range.

    Examples
    --------
    >>> quantize([0.5, 0.125, 0.375, 0.0], support=[True, False, True, False], resolution=10).tolist()
    [6, 0, 4, 0]
    """
    xp, draft, support, resolution = arrays(draft=draft, support=support, resolution=resolution)
    xp, _, q, kept = _row_and_support(draft, support)
    resolution = arithmetic.RESOLUTION.check(xp, "resolution", resolution)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), resolution=tuple(resolution.shape))
    q, kept = (xp.broadcast_to(value, (*batch, q.shape[-1])) for value in (q, kept))
    return arithmetic.rounded(
        xp, arithmetic.kept_part(xp, q, kept)[0], kept, xp.broadcast_to(resolution, batch)[..., None]
    )


def distortion_bound_sharp(top_k: Array, resolution: Array) -> Array:
    """Sharp bound i(K - i)/(Kℓ), i = min(ℓ, ⌊K/2⌋), on TV(q̄, q̂): attained for every K and ℓ, below 1.

    Proposition 2 of reznik2011 in total variation, extended to ℓ < ⌊K/2⌋.
    """
    return arithmetic.sharp_distortion(*arithmetic.sizes(top_k, resolution))


def _row_and_support(draft: Array, support: Array) -> tuple[Any, Any, Array, Array]:
    """The namespace, the type to answer in, q in float64 and the mask, with common leading dimensions."""
    xp, draft, support = arrays(draft=draft, support=support)
    _, kind, q = distributions(draft=draft)
    if not xp.isdtype(support.dtype, "bool"):
        raise DomainError(
            f"support must be a mask of the row's tokens; got dtype {support.dtype}; give booleans, as top_support does"
        )
    same_vocabulary(draft=q, support=support[None] if support.ndim == 0 else support)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), support=tuple(support.shape[:-1]))
    q, support = (xp.broadcast_to(value, (*batch, q.shape[-1])) for value in (q, support))
    if not bool(xp.all(xp.any(support, axis=-1))):
        raise DomainError(
            "support must keep a token of every row; got an empty one; keep at least the most probable token"
        )
    if bool(xp.any(support & (q == 0))):
        raise DomainError(
            "support must hold tokens of non-zero probability only; got one of probability 0; leave it out, "
            "as it is never drawn"
        )
    return xp, kind, q, support
