"""Expected number of tokens per round."""

from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError, leading_dimensions


def expected_tokens(acceptance: Array, draft_length: Array) -> Array:
    """Return the expected tokens of one round with i.i.d. acceptance: (1 - α^{K+1}) / (1 - α).

    Parameters
    ----------
    acceptance : array, shape (...)
        α in [0, 1].
    draft_length : integer array, shape (...)
        K ≥ 0 drafts; the result includes the server's own token.

    Returns
    -------
    array, shape (...)
        Between 1 and K + 1; edge-sd (7).

    Raises
    ------
    ValueError
        If α is outside [0, 1], or K is negative or not an integer.

    Examples
    --------
    >>> expected_tokens([0.5, 1.0], 3).tolist()
    [1.875, 4.0]
    """
    xp, alpha, length = rate_and_length(acceptance, draft_length)
    count = xp.astype(length, alpha.dtype) + 1.0
    inner = (alpha > 0) & (alpha < 1)
    # expm1 keeps all digits as α → 1, where the printed quotient is 0/0
    logarithm = xp.log(xp.where(inner, alpha, xp.full_like(alpha, 0.5)))
    tokens = xp.expm1(count * logarithm) / xp.expm1(logarithm)
    return xp.where(alpha == 1, count, xp.where(inner, tokens, 1.0))


def expected_tokens_profile(acceptances: Array) -> Array:
    """Return the expected tokens of one round: 1 + Σ_{j≤K} Π_{i≤j} α_i."""
    xp, alpha = arrays(acceptances=acceptances)
    (alpha,) = floating(xp, UNIT_INTERVAL.check(xp, "acceptances", alpha))
    if alpha.ndim == 0:
        raise DomainError("acceptances must have an axis of drafts; got shape (); give one rate per draft")
    return 1.0 + xp.sum(xp.cumulative_prod(alpha, axis=-1), axis=-1)


def rate_and_length(acceptance: Array, draft_length: Array) -> tuple[Array, Array, Array]:
    """Return the namespace, and the checked rates and lengths."""
    xp, alpha, length = arrays(acceptance=acceptance, draft_length=draft_length)
    (alpha,) = floating(xp, UNIT_INTERVAL.check(xp, "acceptance", alpha))
    length = COUNT.check(xp, "draft_length", length)
    leading_dimensions(acceptance=tuple(alpha.shape), draft_length=tuple(length.shape))
    return xp, alpha, length
