"""How often the two sides of a shared seed draw the same token, and what rules without a distribution accept."""

from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays, floating, in_kind, tail_sums, take, upward
from hlmtheory._domains import UNIT_INTERVAL, Domain
from hlmtheory._remember import remembered
from hlmtheory._simplex import distance, distributions, quotient, skip_probabilities

ABOVE, BELOW = 1.0 + 2.0**-50, 1.0 - 2.0**-50
"""An upper bound on the rounding errors of the bounds."""

SIZE = Domain(
    "a whole number, 1 or more", lambda xp, value: value >= 1, "L counts candidates of one position", "integer"
)


@dataclass(frozen=True, slots=True)
class MatchRules:
    """Probability that a draft is accepted, by rule; each of shape (...).

    ``greedy_draft``: p(argmax q). ``apart``: Σ p q. ``both_greedy``: 1 if the argmaxes agree. ``shared_seed``:
    :func:`match_probability`. ``rejection``: 1 - TV(q, p), if q is sent.
    """

    greedy_draft: Array
    apart: Array
    both_greedy: Array
    shared_seed: Array
    rejection: Array


def match_probability(target: Array, draft: Array) -> Array:
    """Return the probability that device and server, racing with one stream, draw the same token.

    P(a = b) = Σ_v 1 / Σ_w max(q_w/q_v, p_w/p_v) over the tokens with q_v p_v > 0. Sorted by p/q, the inner sum is
    Q/q_v + P/p_v: Q is the mass under q of the tokens with a ratio of at most p_v/q_v, P that under p of the others. So
    the cost is that of a sort.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (...)
        In [0, 1].

    Raises
    ------
    ValueError
        If a row is not a distribution or the vocabularies differ.

    Examples
    --------
    >>> round(float(match_probability([0.5, 0.25, 0.25], [0.25, 0.5, 0.25])), 12)
    0.7
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    return in_kind(xp, xp.clip(xp.sum(sorted_matches(xp, p, q)[0], axis=-1), max=1.0), kind)


@remembered
def sorted_matches(xp: Any, p: Array, q: Array) -> tuple[Array, Array, Array]:
    """Return P(a = b = v) and p_v, both in ascending order of p_v/q_v, and that order."""
    p, q = xp.broadcast_arrays(p, q)
    order = xp.argsort(quotient(xp, p, q), axis=-1, stable=False)
    p, q = take(xp, p, order), take(xp, q, order)
    not_above = xp.flip(tail_sums(xp, xp.flip(q, axis=-1))[..., :-1], axis=-1)  # Q
    above = tail_sums(xp, p)[..., 1:]  # P
    least = xp.minimum(p, q)
    there = least > 0
    # min(p, q) / (Q min(p, q)/q + P min(p, q)/p): no quotient exceeds 1, so none overflows.
    inner = not_above * (least / xp.where(there, q, 1.0)) + above * (least / xp.where(there, p, 1.0))
    return xp.where(there, least / xp.where(there, inner, 1.0), 0.0), p, order


def match_floor(total_variation: Array) -> Array:
    """Return the least probability of a match at a distance T, rounded down: (1 - T)/(1 + T), daliri2025coupling."""
    xp, value = arrays(total_variation=total_variation)
    UNIT_INTERVAL.check(xp, "total_variation", value)
    (narrow,) = floating(xp, value)
    t = in_kind(xp, value, xp.float64)
    return -upward(xp, -xp.where(t > 0, (1.0 - t) / (1.0 + t) * BELOW, 1.0), narrow.dtype)


def message_value(total_variation: Array) -> Array:
    """Return the most that a message about q adds to a shared seed for drafts from q, rounded up: T(1 - T)/(1 + T).

    Drafts that are not drawn from q may gain more: with p = (1, 0) and q = (.75, .25) the argmax of q is always
    accepted.

    T = ``total_variation`` has shape (...); a value outside [0, 1] raises a ValueError.
    """
    xp, value = arrays(total_variation=total_variation)
    UNIT_INTERVAL.check(xp, "total_variation", value)
    (narrow,) = floating(xp, value)
    t = in_kind(xp, value, xp.float64)
    return upward(xp, t * (1.0 - t) / (1.0 + t) * ABOVE, narrow.dtype)


def match_rules(target: Array, draft: Array) -> MatchRules:
    """Return the probability that a draft is accepted, for the rules of engines where only tokens are sent."""
    xp, kind, p, q = distributions(target=target, draft=draft)
    p, q = xp.broadcast_arrays(p, q)
    q_top, p_top = (_first_largest(xp, rows) for rows in (q, p))
    return MatchRules(
        in_kind(xp, take(xp, p, q_top[..., None])[..., 0], kind),
        in_kind(xp, xp.sum(p * q, axis=-1), kind),
        in_kind(xp, xp.astype(q_top == p_top, xp.float64), kind),
        match_probability(target, draft),
        in_kind(xp, 1.0 - distance(xp, p, q), kind),
    )


def _first_largest(xp: Any, rows: Array) -> Array:
    """Return the lowest index of the largest entry; ``argmax`` of some libraries may return another."""
    tokens = xp.arange(rows.shape[-1], device=rows.device)
    largest = rows == xp.max(rows, axis=-1, keepdims=True)
    return xp.min(xp.where(largest, tokens, rows.shape[-1]), axis=-1)


def skip_mismatch(target: Array, draft: Array, skip: Array) -> Array:
    """Return P(the device keeps a token that is not the server's), a bound on TV(law, p): Σ_v s_v (q_v - t_v).

    t_v = P(a = b = v) ≤ min(p_v, q_v), so this is at least Σ_v s_v (q_v - p_v)⁺, the charge with rejection sampling,
    which is no bound here: behind a token that is not kept comes the server's, not the residual.

    p, q and ``skip``, with s_v in [0, 1], have shape (..., V); other values raise a ValueError.
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    p, q, s = xp.broadcast_arrays(p, q, skip_probabilities(xp, skip, q))
    matched, _, order = sorted_matches(xp, p, q)
    unmatched = xp.clip(take(xp, q, order) - matched, min=0.0)
    lost = xp.sum(take(xp, s, order) * unmatched, axis=-1)
    return in_kind(xp, xp.clip(lost, max=1.0), kind)
