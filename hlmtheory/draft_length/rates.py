"""Tokens per second, and cost per token, as functions of the draft length."""

import math
from typing import Any

from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import UNIT_INTERVAL, DomainError, broadcast, entry_for_each, finite_answer
from hlmtheory._quantities import at_least_one, not_negative, whole_from_one
from hlmtheory.verification import expected_tokens

COST = not_negative("give the cost of a round, in seconds (or joules, or bytes)")
FACTOR = at_least_one("give the factor by which it grows")
LENGTH = whole_from_one("a round drafts at least one token")


@finite_answer
def etgr(acceptance: Array, draft_length: Array, fixed: Array, marginal: Array) -> Array:
    """Return the effective token generation rate E(K)/T(K) for geometric acceptance.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ in [0, 1].
    draft_length : integer array, shape (...)
        K, 0 or more; a K for each γ, where there are several γ.
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.

    Returns
    -------
    array, shape (...)
        Tokens per second, including the server's own token, which flexspec (2), (11) leave out and Algorithm 2 counts.

    Raises
    ------
    ValueError
        If γ is outside [0, 1], K is negative or not an integer, a cost is negative or infinite, a round takes no time,
        the shapes do not broadcast, or several γ have one K, as if they were the γ of its drafts.

    Examples
    --------
    >>> float(etgr(0.5, 3, 0.5, 0.25))
    1.5
    """
    xp, gamma, length, cost, slope = arrays(
        acceptance=acceptance, draft_length=draft_length, fixed=fixed, marginal=marginal
    )
    broadcast(acceptance=gamma.shape, draft_length=length.shape, fixed=cost.shape, marginal=slope.shape)
    if math.prod(length.shape) == 1 < math.prod(gamma.shape):
        raise DomainError(
            f"draft_length must be given for each acceptance; got one for shape {tuple(gamma.shape)}; repeat it, or "
            "for the acceptances of the drafts of one round use optimal_draft_length_profile"
        )
    tokens = expected_tokens(gamma, length)
    tokens, cost, slope = floating(xp, tokens, COST.check(xp, "fixed", cost), COST.check(xp, "marginal", slope))
    return tokens / round_time(xp, xp.astype(length, cost.dtype), cost, slope)


@finite_answer
def etgr_profile(acceptances: Array, fixed: Array, marginal: Array) -> Array:
    """Return (1 + Σ_{j≤K} Π_{i≤j} α_i)/T(K) in tokens a second for K = 1..K_max, of α_i given those before."""
    xp, alpha, cost, slope = arrays(acceptances=acceptances, fixed=fixed, marginal=marginal)
    UNIT_INTERVAL.check(xp, "acceptances", alpha)
    entry_for_each("draft", acceptances=tuple(alpha.shape))
    broadcast(acceptances=alpha.shape[:-1], fixed=cost.shape, marginal=slope.shape)
    alpha, cost, slope = floating(xp, alpha, COST.check(xp, "fixed", cost), COST.check(xp, "marginal", slope))
    lengths = xp.arange(1, alpha.shape[-1] + 1, dtype=alpha.dtype, device=alpha.device)
    tokens = 1.0 + xp.cumulative_sum(xp.cumulative_prod(alpha, axis=-1), axis=-1)
    return tokens / round_time(xp, lengths, cost[..., None], slope[..., None])


def round_time(xp: Any, length: Array, cost: Array, slope: Array) -> Array:
    """Return T(K); raise where it is 0."""
    total = cost + length * slope
    if not bool(xp.all(total > 0)):
        raise DomainError(
            f"fixed + draft_length * marginal must be positive; got {float(xp.min(total)):g}; a round takes some time"
        )
    return total


def rate_and_costs(acceptance: Array, fixed: Array, marginal: Array) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, and γ, F and M in float64, broadcast to one shape."""
    xp, gamma, cost, slope = arrays(acceptance=acceptance, fixed=fixed, marginal=marginal)
    UNIT_INTERVAL.check(xp, "acceptance", gamma)
    COST.check(xp, "fixed", cost)
    COST.check(xp, "marginal", slope)
    broadcast(acceptance=gamma.shape, fixed=cost.shape, marginal=slope.shape)
    gamma, cost, slope = xp.broadcast_arrays(*(xp.astype(value, xp.float64) for value in (gamma, cost, slope)))
    round_time(xp, xp.ones_like(cost), cost, slope)
    return xp, gamma, cost, slope
