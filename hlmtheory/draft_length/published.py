"""Sharp intervals of acceptance by depth from published counters: all values that are compatible with them.

Counters by position and a histogram hold the same H(d), the share of rounds with i ≥ d. Rounds of another length begin
at other tokens; :func:`split_tokens` allows for that.
"""

from typing import Any

from hlmtheory._array import Array, arrays, floating, in_kind, upward
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, broadcast, entry_for_each, leading_dimensions
from hlmtheory._quantities import not_negative, whole_from_one
from hlmtheory.verification import expected_tokens

_AMOUNT = not_negative("give counts of rounds, or their shares")
_LENGTH = whole_from_one("a round drafts at least one token")
_MEAN = not_negative("give drafted tokens over rounds")
_SLACK = 1e-9
"""Allowed relative rounding error of published means."""


def position_interval(position_rates: Array, mean_draft_length: Array) -> tuple[Array, Array]:
    """Return the sharp interval of each α_d from accepted drafts by position, H(1..K), and the mean draft length κ.

    H(d) = S(d) P(k ≥ d) for k independent of the outcome, so α_d = h_d/g_d with h_d = H(d)/H(d-1), and κ = Σ_d Π_{e≤d}
    g_e restricts g_d. (0, 1) at a depth that may never have been examined.
    """
    xp, rates, mean = arrays(position_rates=position_rates, mean_draft_length=mean_draft_length)
    UNIT_INTERVAL.check(xp, "position_rates", rates)
    entry_for_each("position", position_rates=tuple(rates.shape))
    _MEAN.check(xp, "mean_draft_length", mean)
    leading_dimensions(position_rates=tuple(rates.shape[:-1]), mean_draft_length=tuple(mean.shape))
    kind = floating(xp, rates, mean)[0].dtype
    rates, mean = in_kind(xp, rates, xp.float64), in_kind(xp, mean, xp.float64)[..., None]
    return _position_ends(xp, rates, _length_in_range(xp, rates, mean), kind)


def _position_ends(xp: Any, rates: Array, mean: Array, kind: Any) -> tuple[Array, Array]:
    before = xp.concat([xp.ones_like(rates[..., :1]), rates[..., :-1]], axis=-1)
    ratios = xp.where(before > 0, rates / xp.where(before > 0, before, 1.0), xp.zeros_like(rates))
    depth = xp.arange(1, rates.shape[-1] + 1, dtype=xp.float64, device=rates.device)
    count = float(rates.shape[-1])
    # smallest g_d: all others are 1, so that κ ≤ d - 1 + g_d (K - d + 1)
    least = xp.maximum(ratios, (mean - (depth - 1.0)) / (count - depth + 1.0))
    # largest g_d: all others are as small as possible, P(k ≥ d) = H(d)/H(1) times g_1 = 1
    first = rates[..., :1]
    floor = xp.where(first > 0, rates / xp.where(first > 0, first, 1.0), xp.zeros_like(rates))
    floor = xp.concat([xp.ones_like(first), floor[..., 1:]], axis=-1)
    sums = xp.cumulative_sum(floor, axis=-1)
    spent = xp.concat([xp.zeros_like(first), sums[..., :-1]], axis=-1)
    above = xp.concat([xp.ones_like(first), floor[..., :-1]], axis=-1)  # of depth d - 1
    left, tail = mean - spent, sums[..., -1:] - spent  # tail = above · h_d (1 + h_{d+1} + ...)
    scale = xp.where(ratios > 0, tail / xp.where(ratios > 0, ratios, 1.0), above)
    most = xp.where(left < scale, left / xp.where(scale > 0, scale, 1.0), xp.ones_like(left))
    least, most = xp.minimum(xp.maximum(least, ratios), xp.ones_like(least)), xp.maximum(most, ratios)
    open_ = (before <= 0) | ((ratios <= 0) & (least <= 0))
    low = xp.where(before > 0, ratios / xp.where(most > 0, most, 1.0), xp.zeros_like(ratios))
    high = xp.where(open_, xp.ones_like(ratios), ratios / xp.where(least > 0, least, 1.0))
    known = depth == 1.0
    low, high = (xp.where(known, rates, xp.minimum(end, xp.ones_like(end))) for end in (low, high))
    return -upward(xp, -low, kind), upward(xp, high, kind)


def _length_in_range(xp: Any, rates: Array, mean: Array) -> Array:
    """Return κ, moved into its range by rounding errors only; raise where it is outside, or H rises."""
    if rates.shape[-1] > 1 and not bool(xp.all(rates[..., 1:] <= rates[..., :-1])):
        raise DomainError("position_rates must not rise with the position; got a larger one after a smaller one; sort")
    first = rates[..., :1]
    floor = xp.where(first > 0, rates / xp.where(first > 0, first, 1.0), xp.zeros_like(rates))
    least = 1.0 + xp.sum(floor[..., 1:], axis=-1, keepdims=True)
    most = float(rates.shape[-1])
    good = (mean >= least * (1.0 - _SLACK)) & (mean <= most * (1.0 + _SLACK))
    if not bool(xp.all(good)):
        raise DomainError(
            f"mean_draft_length must be at least 1 + Σ_(d>1) H(d)/H(1) and at most K = {most:g}; got a mean that no "
            "independent choice of lengths has with these rates; take both from the same rounds"
        )
    return xp.minimum(xp.maximum(mean, least), xp.full_like(mean, most))


def mean_interval(mean_accepted: Array, draft_length: Array, other_length: Array) -> tuple[Array, Array]:
    """Return the sharp interval of E(K) at another length, from the mean accepted drafts m of rounds of k drafts.

    [1 + mK/k, 1 + min(m, K)] for K ≤ k, [1 + m, 1 + mK/k] for K ≥ k, if both have the same acceptance by depth.
    """
    xp, mean, length, other = arrays(mean_accepted=mean_accepted, draft_length=draft_length, other_length=other_length)
    kind, mean, length, other = _mean_and_lengths(xp, mean, length, other)
    longer = other > length
    spread = 1.0 + mean * other / length
    front = 1.0 + xp.where(longer, mean, xp.minimum(mean, other))
    low, high = xp.where(longer, front, spread), xp.where(longer, spread, front)
    return -upward(xp, -low, kind), upward(xp, high, kind)


def split_tokens(histogram: Array, draft_length: Array) -> Array:
    """Return a lower bound on the tokens of a round of K drafts over the same text, from counts of accepted drafts.

    A round of i + 1 tokens is split into ⌈(i + 1)/(K + 1)⌉ rounds, if a round that begins one token later accepts at
    most one draft fewer, as when drafts copy a passage (``draft_length.split``).

    Parameters
    ----------
    histogram : array, shape (..., I+1)
        Rounds, or their share, with i = 0..I accepted drafts, for any number of drafts.
    draft_length : integer array, shape (...)
        K, 1 or more.

    Returns
    -------
    float64 array, shape (...)
        Between 1 and K + 1.

    Raises
    ------
    ValueError
        If a count is negative or infinite, there is no round, or K is below 1.

    Examples
    --------
    >>> float(split_tokens([2, 0, 0, 2], 1))  # 10 tokens in 4 rounds; in 6 rounds with one draft each
    1.6666666666666667
    """
    xp, rounds, length = arrays(histogram=histogram, draft_length=draft_length)
    _AMOUNT.check(xp, "histogram", rounds)
    entry_for_each("number of accepted drafts", histogram=tuple(rounds.shape))
    length = _LENGTH.check(xp, "draft_length", length)
    leading_dimensions(histogram=tuple(rounds.shape[:-1]), draft_length=tuple(length.shape))
    rounds = in_kind(xp, rounds, xp.float64)
    if not bool(xp.all(xp.sum(rounds, axis=-1) > 0)):
        raise DomainError("histogram must hold at least one round; got zeros; leave it out")
    accepted = xp.arange(rounds.shape[-1], dtype=xp.int64, device=rounds.device)
    parts = xp.astype(accepted // (length[..., None] + 1) + 1, xp.float64)
    tokens = xp.astype(accepted + 1, xp.float64)
    return xp.sum(rounds * tokens, axis=-1) / xp.sum(rounds * parts, axis=-1)


def single_rate(mean_accepted: Array, draft_length: Array) -> Array:
    """Return the single rate α in [0, 1] whose rounds of k drafts accept m on average: α + α² + ... + α^k = m."""
    xp, mean, given = arrays(mean_accepted=mean_accepted, draft_length=draft_length)
    kind, mean, length, _ = _mean_and_lengths(xp, mean, given, given)
    low, high = xp.zeros_like(mean * length), xp.ones_like(mean * length)
    for _ in range(60):
        middle = 0.5 * (low + high)
        less = expected_tokens(middle, given) - 1.0 < mean
        low, high = xp.where(less, middle, low), xp.where(less, high, middle)
    rate = xp.where(mean <= 0, xp.zeros_like(high), xp.where(mean >= length, xp.ones_like(high), high))
    return in_kind(xp, rate, kind)


def _mean_and_lengths(xp: Any, mean: Array, length: Array, other: Array) -> tuple[Any, Array, Array, Array]:
    """Return the type of the answer, and m, k and K in float64."""
    domain = Domain("0 or more and finite", lambda xp, v: (v >= 0) & xp.isfinite(v), "give accepted drafts over rounds")
    domain.check(xp, "mean_accepted", mean)
    lengths = [_LENGTH.check(xp, name, v) for name, v in (("draft_length", length), ("other_length", other))]
    broadcast(mean_accepted=mean.shape, draft_length=length.shape, other_length=other.shape)
    kind = floating(xp, mean)[0].dtype
    wide = in_kind(xp, mean, xp.float64)
    k, new = (xp.astype(value, xp.float64) for value in lengths)
    if not bool(xp.all(wide <= k * (1.0 + _SLACK))):
        raise DomainError("mean_accepted must be at most draft_length; got a larger one; leave out the server's token")
    return kind, xp.minimum(wide, k + xp.zeros_like(wide)), k, new
