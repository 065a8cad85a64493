"""Acceptance by depth from counts n[k][i] of rounds that drafted k tokens and accepted i (kaplan1958nonparametric).

Depth d was examined by the r_d rounds with k ≥ d and i ≥ d - 1; a_d of them accepted it. a_d/r_d is right if k is
independent of what would be accepted; ``method="anytime"`` holds for a k chosen from past outcomes.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy
from hlmtheory._domains import COUNT, DomainError, number, option
from hlmtheory._quantities import open_unit
from hlmtheory.verification import acceptance_interval

WIDENED = 1e-12
"""Relative widening of the exact limits, larger than the error of the inverse beta function."""

_MOST = 2.0**40  # rounds of an interval that holds at all times

_ERROR = open_unit("give the probability that the interval may miss, such as 0.05")
_METHODS = ("band", "anytime", "clustered")
_DEPTH_METHODS = ("exact", "anytime", "clustered")


@dataclass(frozen=True, slots=True)
class DepthAcceptance:
    """Acceptance by depth with intervals, float64 (..., K): :func:`acceptance_by_depth`."""

    examined: Array  # r_d, rounds with k ≥ d and i ≥ d - 1
    accepted: Array  # a_d, those of them with i ≥ d
    acceptances: Array  # a_d/r_d; NaN where no round examined the depth
    low: Array  # of each α_d; 0 where no round examined it
    high: Array  # 1 where no round examined it


@dataclass(frozen=True, slots=True)
class TokensByLength:
    """Expected tokens E(1..K) of a round, with the server's own, and intervals: :func:`tokens_by_length`."""

    tokens: Array
    low: Array
    high: Array


def acceptance_by_depth(counts: Array, *, error: float = 0.05, method: str = "exact") -> DepthAcceptance:
    """Return the acceptance of each draft given those before it, from rounds of different lengths.

    Parameters
    ----------
    counts : integer array, shape (..., K+1, K+1), or (..., R, K+1, K+1) for "clustered"
        n[k][i], rounds that drafted k and accepted i; 0 where i > k. R requests, R ≥ 2, each with its own counts.
    error : float
        δ in (0, 1): each depth's interval may miss its rate with this probability.
    method : {"exact", "anytime", "clustered"}
        "exact": Clopper-Pearson, for independent rounds of one law and k independent of all outcomes. "anytime": for
        every k chosen from past outcomes, and all numbers of rounds together: α is inside if
        P(Binomial(r_d, α) = a_d) > δ/(r_d + 1) (``draft_length.adaptive_depths``). "clustered": a
        sandwich variance over many independent requests, and Student's t.

    Returns
    -------
    DepthAcceptance
        Float64 arrays, shape (..., K): counts, a_d/r_d and its interval at depth 1..K.

    Raises
    ------
    ValueError
        If a count is negative or not an integer, the last two axes are not square with K ≥ 1, a round accepted more
        than it drafted, δ is outside (0, 1), the method is unknown, or "clustered" has no two requests.

    Examples
    --------
    >>> found = acceptance_by_depth([[0, 0, 0], [5, 5, 0], [5, 2, 3]])
    >>> found.acceptances.tolist()  # 10 of 20, then 3 of the 5 that went on
    [0.5, 0.6]
    """
    xp, rounds = _rounds(counts)
    delta = number(_ERROR, "error", error)
    method = option("method", method, _DEPTH_METHODS)
    requests, rounds = _by_request(xp, rounds) if method == "clustered" else (rounds, rounds)
    examined, accepted = examined_and_accepted(xp, rounds)
    alphas = _quotient(xp, accepted, examined)
    if method == "clustered":
        low, high = _clustered_depths(xp, requests, alphas, examined, delta)
    elif method == "anytime":
        low, high = anytime(xp, accepted, examined, delta)
    else:
        low, high = clopper_pearson(xp, accepted, examined, delta)
    return DepthAcceptance(examined, accepted, alphas, low, high)


def tokens_by_length(counts: Array, *, error: float = 0.05, method: str = "band") -> TokensByLength:
    """Return the expected tokens of a round for each draft length 1..K, from rounds of different lengths.

    Parameters
    ----------
    counts : integer array, shape (..., K+1, K+1), or (..., R, K+1, K+1) for "clustered"
        n[k][i] as in :func:`acceptance_by_depth`; R requests, R ≥ 2, each with its own counts.
    error : float
        δ in (0, 1).
    method : {"band", "anytime", "clustered"}
        "band" holds for all draft lengths together at one number of rounds, if k is independent of all outcomes: the
        depths' Clopper-Pearson limits at the level (1 - δ)^{1/K}. "anytime" holds for all lengths and numbers of
        rounds together, for every k that is chosen from past outcomes: depth d has the error
        δ/(d(d + 1)) (``draft_length.adaptive_depths``). Both need rounds with one law of acceptance.
        "clustered" uses a sandwich variance over requests and Student's t with R - 1 degrees of freedom; it needs only
        independent requests, but many of them.

    Returns
    -------
    TokensByLength
        Float64 arrays, shape (..., K), in tokens a round; ``tokens`` are NaN from a depth on that was never examined.

    Raises
    ------
    ValueError
        As :func:`acceptance_by_depth`, or if the method is unknown, or "clustered" has no axis of two requests.

    Examples
    --------
    >>> tokens_by_length([[0, 0, 0], [5, 5, 0], [5, 2, 3]]).tokens.round(3).tolist()
    [1.5, 1.8]
    """
    xp, rounds = _rounds(counts)
    delta = number(_ERROR, "error", error)
    method = option("method", method, _METHODS)
    requests, rounds = _by_request(xp, rounds) if method == "clustered" else (rounds, rounds)
    examined, accepted = examined_and_accepted(xp, rounds)
    alphas = _quotient(xp, accepted, examined)
    tokens = 1.0 + xp.cumulative_sum(survival(xp, alphas), axis=-1)
    if method in ("band", "anytime"):
        depth = alphas.shape[-1]
        if method == "band":
            ends = clopper_pearson(xp, accepted, examined, -math.expm1(math.log1p(-delta) / depth))
        else:
            ends = anytime(xp, accepted, examined, [delta / (d * (d + 1)) for d in range(1, depth + 1)])
        low, high = (1.0 + xp.cumulative_sum(xp.cumulative_prod(end, axis=-1), axis=-1) for end in ends)
        return TokensByLength(tokens, low, high)
    known = xp.where(examined > 0, alphas, xp.zeros_like(alphas))  # a depth that was not examined has no influence
    slopes, safe = token_slopes(xp, known), xp.where(examined > 0, examined, 1.0)
    half = _clustered_half(xp, requests, known, safe, slopes, delta)
    return TokensByLength(tokens, tokens - half, tokens + half)


def _by_request(xp: Any, rounds: Array) -> tuple[Array, Array]:
    if rounds.ndim < 3 or rounds.shape[-3] < 2:
        raise DomainError(
            f"counts must have an axis of two requests or more, shape (..., R, K+1, K+1); got shape "
            f"{tuple(rounds.shape)}; give each request its own counts"
        )
    return rounds, xp.sum(rounds, axis=-3)


def _clustered_depths(xp: Any, requests: Array, alphas: Array, examined: Array, delta: float) -> tuple[Array, Array]:
    """Return α_d ± t s_d from the influences (a_{c,d} - α_d r_{c,d})/r_d of the C requests c that examined depth d.

    s_d² = C/(C - 1) Σ_c influence². With fewer than two requests nothing is said: 0 and 1.
    """
    from scipy.special import stdtrit

    own_examined, own_accepted = examined_and_accepted(xp, requests)
    count = xp.sum(xp.astype(own_examined > 0, xp.float64), axis=-2)
    several = count > 1
    known, safe = (xp.where(several, value, 1.0) for value in (alphas, examined))
    influence = (own_accepted - known[..., None, :] * own_examined) / safe[..., None, :]
    freedom = xp.where(several, count - 1.0, 1.0)
    error = xp.sqrt((freedom + 1.0) / freedom * xp.sum(influence**2, axis=-2))
    quantile = stdtrit(to_numpy(freedom), 1.0 - delta / 2.0)
    half = xp.asarray(quantile, dtype=xp.float64, device=alphas.device) * error
    low, high = xp.clip(known - half, min=0.0), xp.clip(known + half, max=1.0)
    return xp.where(several, low, 0.0), xp.where(several, high, 1.0)


def _clustered_half(xp: Any, requests: Array, alphas: Array, examined: Array, slopes: Array, delta: float) -> Array:
    """Return the half-width from the influences Σ_d dE/dα_d (a_{c,d} - α_d r_{c,d})/r_d of the requests c."""
    from scipy.special import stdtrit

    own_examined, own_accepted = examined_and_accepted(xp, requests)
    share = (own_accepted - alphas[..., None, :] * own_examined) / examined[..., None, :]
    influence = xp.sum(share[..., None, :] * slopes[..., None, :, :], axis=-1)  # (..., R, K)
    count = requests.shape[-3]
    error = xp.sqrt(count / (count - 1.0) * xp.sum(influence**2, axis=-2))
    return float(stdtrit(count - 1, 1.0 - delta / 2.0)) * error


# ------------------------------------------------------------------------------------------------ shared with claims


def examined_and_accepted(xp: Any, rounds: Array) -> tuple[Array, Array]:
    """Return r_d and a_d, d = 1..K, from real or expected counts of shape (..., K+1, K+1)."""
    longer = xp.flip(xp.cumulative_sum(xp.flip(rounds, axis=-2), axis=-2), axis=-2)  # Σ_{k' ≥ k}
    both = xp.flip(xp.cumulative_sum(xp.flip(longer, axis=-1), axis=-1), axis=-1)  # and Σ_{i' ≥ i}
    depth = range(1, rounds.shape[-1])
    examined = xp.stack([both[..., d, d - 1] for d in depth], axis=-1)
    accepted = xp.stack([both[..., d, d] for d in depth], axis=-1)
    return examined, accepted


def clopper_pearson(xp: Any, accepted: Array, examined: Array, error: float) -> tuple[Array, Array]:
    """Return the exact interval of a binomial share (clopper1934use), widened by more than its rounding error."""
    from scipy.special import betaincinv

    a, r = (np.asarray(to_numpy(value), dtype=np.float64) for value in (accepted, examined))
    tail = 0.5 * error
    low = np.where(a > 0, betaincinv(np.where(a > 0, a, 1.0), r - a + 1.0, tail), 0.0)
    high = np.where(a < r, betaincinv(a + 1.0, np.where(a < r, r - a, 1.0), 1.0 - tail), 1.0)
    low, high = low * (1.0 - WIDENED), np.minimum(high * (1.0 + WIDENED), 1.0)
    low, high = (xp.asarray(end, dtype=xp.float64, device=accepted.device) for end in (low, high))
    return low, high


def anytime(xp: Any, accepted: Array, examined: Array, error: Any) -> tuple[Array, Array]:
    """Return the interval of each depth's rate that holds after all rounds at once, for any k chosen from the past."""
    if not bool(xp.all(examined <= _MOST)):
        raise DomainError("counts must hold at most 2^40 rounds; got more; count rounds, not tokens")
    error = xp.asarray(error, dtype=xp.float64, device=accepted.device)
    found = acceptance_interval(accepted, xp.astype(examined, xp.int64), error, form="constant")
    return found.lower, found.upper


def survival(xp: Any, acceptances: Array) -> Array:
    """Return S(d) = Π_{e≤d} α_e; 0 from the first depth at which nothing was accepted."""
    products = xp.cumulative_prod(acceptances, axis=-1)
    ended = xp.cumulative_sum(xp.astype(acceptances == 0, xp.int64), axis=-1) > 0
    return xp.where(ended, xp.zeros_like(products), products)


def token_slopes(xp: Any, acceptances: Array) -> Array:
    """Return dE(K)/dα_d, shape (..., K, d): S(d - 1)(1 + α_{d+1} + α_{d+1} α_{d+2} + ...) up to depth K."""
    depth = acceptances.shape[-1]
    columns = []
    before = xp.ones_like(acceptances[..., 0])
    for d in range(depth):
        chances = xp.concat([xp.ones_like(acceptances[..., :1]), acceptances[..., d + 1 :]], axis=-1)
        later = before[..., None] * xp.cumulative_sum(xp.cumulative_prod(chances, axis=-1), axis=-1)
        columns.append(xp.concat([xp.zeros_like(acceptances[..., :d]), later], axis=-1))
        before = before * acceptances[..., d]
    return xp.stack(columns, axis=-1)


def square(xp: Any, name: str, counts: Array) -> Array:
    """Return the counts in float64; raise unless they are a table of draft lengths and accepted drafts."""
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2] or counts.shape[-1] < 2:
        raise DomainError(
            f"{name} must have shape (..., K+1, K+1) with K ≥ 1; got shape {tuple(counts.shape)}; give a row for each "
            "draft length from 0 to K"
        )
    table = in_kind(xp, counts, xp.float64)
    if bool(xp.any(xp.triu(table, k=1) > 0)):
        raise DomainError(
            f"{name} must be 0 where i > k; got a round that accepted more than it drafted; swap the axes"
        )
    return table


def _rounds(counts: Array) -> tuple[Any, Array]:
    xp, table = arrays(counts=counts)
    return xp, square(xp, "counts", COUNT.check(xp, "counts", table))


def _quotient(xp: Any, accepted: Array, examined: Array) -> Array:
    seen = examined > 0
    return xp.where(seen, accepted / xp.where(seen, examined, 1.0), xp.full_like(accepted, xp.nan))
