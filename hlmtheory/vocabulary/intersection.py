"""The draft's distribution on a part of the vocabulary, and how often its drafts are accepted."""

from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import DomainError, leading_dimensions, same_vocabulary
from hlmtheory._simplex import distributions, normalised


def common_acceptance(target: Array, draft: Array, support: Array) -> Array:
    """Return the acceptance rate of drafts from q_A: α_A = Σ_A min(p_v, q_v/q(A)); 0 where q has no mass on A.

    p, q and ``support``, True on A, have shape (..., V); a row that is no distribution raises a ValueError.
    """
    xp, target, draft, support = arrays(target=target, draft=draft, support=support)
    xp, kind, p, _ = distributions(target=target, draft=draft)
    kept = on_support(draft, support)[4]
    return in_kind(xp, xp.sum(xp.minimum(p, kept), axis=-1), kind)


def on_support(row: Array, support: Array) -> tuple[Any, Any, Array, Array, Array]:
    """Return the namespace, the type to answer in, the row on A, its mass there, and the row renormalised on A."""
    xp, row, support = arrays(draft=row, support=support)
    _, kind, whole = distributions(draft=row)
    if not xp.isdtype(support.dtype, "bool"):
        raise DomainError(
            f"support must be a mask of the row's tokens; got dtype {support.dtype}; give booleans, one for each token"
        )
    same_vocabulary(draft=whole, support=support[None] if support.ndim == 0 else support)
    leading_dimensions(draft=tuple(whole.shape[:-1]), support=tuple(support.shape[:-1]))
    inside = xp.where(support, whole, 0.0)
    kept, mass = normalised(xp, inside)
    return xp, kind, inside, mass, kept
