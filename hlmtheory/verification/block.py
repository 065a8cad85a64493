"""Block verification: the drafts of a round are verified together (sun2025block).

========== ================================================================== ===============
symbol     name                                                               shape
========== ================================================================== ===============
x_i        ``tokens``, draft i of the round                                   (..., K)
p, q       ``targets``, ``drafts``, the distributions of each draft           (..., K, V)
w_i        weight of a block: w_0 = 1, w_i = min(1, w_{i-1} p(x_i)/q(x_i))    (..., K)
S_i        Σ_v (w_i p(v) - q(v))⁺, with p and q of draft i + 1                (...)
h_i        acceptance of a block: S_i/(S_i + 1 - w_i), but h_K = w_K          (..., K)
========== ================================================================== ===============

Each block passes with h_i by a random number of its own, and the longest that passes is kept. Then the next token is
drawn from (w_i p - q)⁺, normalised; after all K drafts from p. The server needs q of every draft, also of dropped ones.
"""

from typing import Any

from hlmtheory._array import Array, arrays, in_kind, take
from hlmtheory._domains import broadcast, entry_for_each, token_of
from hlmtheory._simplex import distributions, excess

# τ is the length of the block that is kept, Q(x) the product of q along the drafts.
# p and q are those after the prefix at hand, and all of them may depend on it. K may, too: drafting may stop after any
# prefix, such as an end-of-text token.


def block_weights(targets: Array, drafts: Array, tokens: Array) -> Array:
    """Return the weight of each block: w_i = min(1, w_{i-1} p(x_i)/q(x_i)) with w_0 = 1.

    Parameters
    ----------
    targets, drafts : array, shape (..., K, V)
        Distributions p and q of each draft, given the drafts before it.
    tokens : integer array, shape (..., K)
        The drafts x_1 … x_K. A draft with q(x_i) = 0 gets the weight 1.

    Returns
    -------
    array, shape (..., K)
        In [0, 1]: the probability that at least i drafts are kept, given the first i.

    Raises
    ------
    ValueError
        If a row is not a distribution, a token is not in 0..V-1, or the shapes do not match.

    Examples
    --------
    >>> block_weights([[0.25, 0.75], [0.75, 0.25]], [[0.5, 0.5], [0.5, 0.5]], [0, 0]).tolist()
    [0.5, 0.75]
    """
    xp, kind, _, _, weights = _weights(targets, drafts, tokens)
    return in_kind(xp, weights, kind)


def block_acceptance(targets: Array, drafts: Array, tokens: Array) -> Array:
    """Return the probability (..., K) that each block passes: h_i = S_i/(S_i + 1 - w_i) for i < K, and h_K = w_K."""
    xp, kind, p, q, weights = _weights(targets, drafts, tokens)
    before, last = weights[..., :-1], weights[..., -1:]
    spare = xp.sum(excess(xp, before[..., None] * p[..., 1:, :], q[..., 1:, :]), axis=-1)
    return in_kind(xp, xp.concat([passing(xp, before, spare), last], axis=-1), kind)


def _weights(targets: Array, drafts: Array, tokens: Array) -> tuple[Any, Any, Array, Array, Array]:
    """Return the namespace, the caller's type, p and q (..., K, V), and w (..., K)."""
    xp, kind, p, q = distributions(targets=targets, drafts=drafts)
    x = token_of(q.shape[-1]).check(xp, "tokens", arrays(rows=q, tokens=tokens)[2])
    entry_for_each("draft", targets=tuple(p.shape[:-1]), drafts=tuple(q.shape[:-1]), tokens=tuple(x.shape))
    shape = broadcast(targets=tuple(p.shape[:-1]), drafts=tuple(q.shape[:-1]), tokens=tuple(x.shape))
    p, q = (xp.broadcast_to(rows, (*shape, q.shape[-1])) for rows in (p, q))
    at = xp.broadcast_to(x, shape)[..., None]
    each_p, each_q = take(xp, p, at)[..., 0], take(xp, q, at)[..., 0]
    weights, now = [], xp.ones_like(each_p[..., 0])
    for i in range(shape[-1]):
        now = longer(xp, now, each_p[..., i], each_q[..., i])
        weights.append(now)
    return xp, kind, p, q, xp.stack(weights, axis=-1)


def longer(xp: Any, weight: Array, p: Array, q: Array) -> Array:
    """Return min(1, w p/q); 1 where q = 0."""
    below = weight * p < q
    return xp.where(below, weight * p / xp.where(below, q, 1.0), 1.0)


def passing(xp: Any, weight: Array, spare: Array) -> Array:
    """Return h = S/(S + 1 - w); 1 where w = 1 and S = 0."""
    rest = spare + (1.0 - weight)
    return xp.where(rest > 0, spare / xp.where(rest > 0, rest, 1.0), 1.0)
