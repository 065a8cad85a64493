"""Learn the best draft length on line, and what that costs: an optimistic choice with a proved regret.

After sun2026delay (UCB-SpecStop), with estimates Ŝ(d) of N_d rounds that all lengths share. Of m unknown means each has
an interval of radius r(n) = √(ln(2 m n (n + 1)/δ)/(2 n)); W(N) = Σ_{n<N} min(1, 2 r(n)).
"""

from typing import Any

from hlmtheory._array import Array, arrays, running
from hlmtheory._domains import COUNT, DomainError, broadcast, entry_for_each, leading_dimensions
from hlmtheory._quantities import not_negative, open_unit, whole_in
from hlmtheory._simplex import quotient
from hlmtheory.draft_length.rates import COST, round_time

_ROUNDS = whole_in(0, 1_000_000, "give the number of rounds; the widths are summed one by one")
ERROR = open_unit("give the probability that some interval ever fails, such as 0.05")
_TOKENS = not_negative("give the tokens that the fastest length would write in the range of the delay")


def optimistic_draft_length(examined: Array, accepted: Array, fixed: Array, marginal: Array, *, error: Array) -> Array:
    """Return the length with the most tokens a second if each depth is accepted as often as its interval allows.

    argmax over K = 0..K_max of (1 + Σ_{d≤K} min(1, Ŝ(d) + r(N_d)))/(F + K M). A depth that no round examined counts as
    always accepted.

    Parameters
    ----------
    examined, accepted : integer array, shape (..., K_max)
        N_d, and how many of these rounds accepted the drafts 1..d.
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token; for F the lower end of its interval if it is learnt too.
    error : float or array, shape (...)
        δ in (0, 1).

    Returns
    -------
    int64 array, shape (...)
        Ties go to the shorter length. :func:`online_regret_bound` says what these choices cost.

    Raises
    ------
    ValueError
        If a count is negative, not an integer or larger than that of its rounds, a cost is negative or infinite, a
        round takes no time, δ is outside (0, 1), or the shapes do not match.

    Examples
    --------
    >>> int(optimistic_draft_length([400, 400, 400], [280, 200, 20], 0.1, 0.02, error=0.05))
    2
    """
    xp, seen, kept, cost, slope, delta = arrays(
        "examined", "accepted", examined=examined, accepted=accepted, fixed=fixed, marginal=marginal, error=error
    )
    return optimistic(xp, *_checked(xp, seen, kept, cost, slope, delta))[0]


def online_regret_bound(examined: Array, *, error: Array, rounds: Array = 0, range_tokens: Array = 0.0) -> Array:
    """Return how many tokens the optimistic choices lose at most, against the best length in the same time.

    Σ_d W(N_d) + v W(T) over T rounds with probability 1 - δ; T and v count if the delay is learnt too.

    Parameters
    ----------
    examined : integer array, shape (..., K)
        N_d, drafts at each depth that the server examined.
    error : array, shape (...)
        δ in (0, 1).
    rounds, range_tokens : array, shape (...)
        T, and v, the tokens of the fastest length in the range of the delay.

    Returns
    -------
    array, shape (...)
        Tokens.

    Raises
    ------
    ValueError
        If a value is outside its range.
    """
    xp, seen, count, delta, tokens = arrays(
        "examined", "rounds", examined=examined, rounds=rounds, error=error, range_tokens=range_tokens
    )
    entry_for_each("draft", examined=tuple(seen.shape))
    _ROUNDS.check(xp, "examined", seen)
    _ROUNDS.check(xp, "rounds", count)
    ERROR.check(xp, "error", delta)
    _TOKENS.check(xp, "range_tokens", tokens)
    leading_dimensions(
        examined=tuple(seen.shape[:-1]),
        rounds=tuple(count.shape),
        error=tuple(delta.shape),
        range_tokens=tuple(tokens.shape),
    )
    means = seen.shape[-1] + 1
    depths = xp.sum(_widths(xp, seen, delta[..., None], means), axis=-1)
    return depths + tokens * _widths(xp, count, delta, means)


def _checked(xp: Any, seen: Array, kept: Array, cost: Array, slope: Array, delta: Array) -> tuple[Array, ...]:
    entry_for_each("draft", examined=tuple(seen.shape), accepted=tuple(kept.shape))
    COUNT.check(xp, "examined", seen)
    COUNT.check(xp, "accepted", kept)
    broadcast(examined=seen.shape, accepted=kept.shape)
    shapes = {"fixed": cost.shape, "marginal": slope.shape, "error": delta.shape}
    broadcast(examined=seen.shape[:-1], accepted=kept.shape[:-1], **shapes)
    if not bool(xp.all(kept <= seen)):
        raise DomainError("accepted must be at most examined at each depth; got more; count each round once")
    COST.check(xp, "fixed", cost)
    COST.check(xp, "marginal", slope)
    ERROR.check(xp, "error", delta)
    return tuple(xp.astype(value, xp.float64) for value in (seen, kept, cost, slope, delta))


def radius(xp: Any, count: Array, delta: Array, means: int) -> Array:
    """Return r(n); 1 for n = 0, where the interval is [0, 1]."""
    n = xp.where(count > 0, count, 1.0)
    return xp.where(count > 0, xp.sqrt((xp.log(2.0 * means * n * (n + 1.0)) - xp.log(delta)) / (2.0 * n)), 1.0)


def _widths(xp: Any, count: Array, delta: Array, means: int) -> Array:
    most = int(xp.max(count)) if 0 not in count.shape else 0
    n = xp.arange(most + 1, dtype=xp.float64, device=delta.device)
    each = xp.clip(2.0 * radius(xp, n, xp.astype(delta, xp.float64)[..., None], means), max=1.0)
    return xp.sum(xp.where(n < xp.astype(count, xp.float64)[..., None], each, 0.0), axis=-1)


def optimistic(xp: Any, seen: Array, kept: Array, cost: Array, slope: Array, delta: Array) -> tuple[Array, Array]:
    """Return the length, and the tokens a second that it promises."""
    means = seen.shape[-1] + 1
    share = xp.where(seen > 0, kept / xp.where(seen > 0, seen, 1.0), 1.0)
    high = xp.clip(share + radius(xp, seen, delta[..., None], means), max=1.0)
    tokens = 1.0 + running(xp, xp.concat([xp.zeros_like(high[..., :1]), high], axis=-1))
    lengths = xp.arange(tokens.shape[-1], dtype=xp.float64, device=tokens.device)
    rates = quotient(xp, tokens, round_time(xp, lengths, cost[..., None] + 0.0 * tokens, slope[..., None]))
    return xp.argmax(rates, axis=-1), xp.max(rates, axis=-1)
