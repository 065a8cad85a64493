"""The law of whole texts of a system that decodes in rounds, for short Markov chains, by enumeration.

A round has ``DRAFTS`` drafts, each skipped or verified; the first rejected one is replaced and ends it, and after all
are kept comes a bonus token from p. Texts begin after token 0 and have ``LENGTH`` tokens; the last round is cut off.
"""

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import chains, distributions, skip_probabilities
from hlmtheory.skipping.bill import position_bill
from hlmtheory.verification import residual_distribution

DRAFTS, LENGTH = 2, 3


class _Chain:
    """Matrices (..., V, V) for the token before; ``keep`` and ``replace`` are joint with the emitted token v."""

    def __init__(self, target_chain: Array, draft_chain: Array, skip_chain: Array, decoded_chain: Array) -> None:
        xp, p, q = chains(target_chain=target_chain, draft_chain=draft_chain)
        _, _, known = distributions(decoded_chain=decoded_chain)
        self.xp, self.target, self.draft, self.decoded = xp, p, q, known
        self.skip = skip_probabilities(xp, skip_chain, q, "skip_chain")
        accepted = xp.minimum(p, q)  # q_v min(1, p_v/q_v)
        self.keep = self.skip * q + (1.0 - self.skip) * accepted
        rejected = (1.0 - self.skip) * (q - accepted)
        self.replace = xp.sum(rejected[..., None] * replacements(xp, p, q, known), axis=-2)


def replacements(xp: Any, p: Array, q: Array, known: Array) -> Array:
    """Return r̂ (..., D, V) for rows of q̂; where (p - q̂)⁺ is 0, all mass on the token that q exceeds p most at."""
    made = residual_distribution(p[..., None, :], known)
    farthest = xp.arange(q.shape[-1], device=q.device) == xp.argmax(q - p, axis=-1, keepdims=True)
    exists = xp.any(made > 0, axis=-1, keepdims=True)
    return xp.where(exists, made, xp.astype(farthest, xp.float64)[..., None, :])


def _longer(xp: Any, paths: Array, rows: Array) -> Array:
    """Return the probabilities (..., V, M V) of paths (..., V, M) one token longer; the last token is M modulo V."""
    size = rows.shape[-1]
    split = xp.reshape(paths, (*paths.shape[:-1], -1, size))[..., None] * rows[..., None, None, :, :]
    return xp.reshape(split, (*paths.shape[:-1], -1))


def _texts(chain: _Chain, length: int) -> Array:
    """Return the law (..., V, V^length) of the next tokens if a round begins, for each token before."""
    xp, size = chain.xp, chain.target.shape[-1]
    if not length:
        return xp.ones_like(chain.keep[..., :1])
    kept = xp.astype(xp.eye(size, device=chain.keep.device), xp.float64) + xp.zeros_like(chain.keep)  # no token yet
    law = None
    for place in range(min(DRAFTS, length)):
        part = _ended(chain, kept, chain.replace, place, length)
        law = part if law is None else law + part
        kept = _longer(xp, kept, chain.keep)
    if length > DRAFTS:
        return law + _ended(chain, kept, chain.target, DRAFTS, length)  # the bonus
    return law + _without_origin(xp, kept, size)


def _ended(chain: _Chain, kept: Array, last: Array, place: int, length: int) -> Array:
    """Return the law of texts whose first round ends with a token from ``last`` after ``place`` kept drafts."""
    xp, size = chain.xp, last.shape[-1]
    first = _without_origin(xp, _longer(xp, kept, last), size)
    rest = _texts(chain, length - place - 1)
    parts = xp.reshape(first, (*first.shape[:-1], -1, size, 1)) * rest[..., None, None, :, :]
    return xp.reshape(parts, (*first.shape[:-1], -1))


def _without_origin(xp: Any, paths: Array, size: int) -> Array:
    """Return paths (..., V, V^n) from paths (..., V, V^(n+1)) whose first token is the token before."""
    return xp.sum(xp.reshape(paths, (*paths.shape[:-1], size, -1)), axis=-2)


def round_text_distance(target_chain: Array, draft_chain: Array, skip_chain: Array, decoded_chain: Array) -> Array:
    """Return the total variation between whole texts of the system and of the target model."""
    chain = _Chain(target_chain, draft_chain, skip_chain, decoded_chain)
    xp, law = chain.xp, _texts(chain, LENGTH)[..., 0, :]
    own = xp.astype(xp.arange(chain.target.shape[-1], device=law.device) == 0, xp.float64)
    own = own + xp.zeros_like(chain.target[..., 0, :])
    for _ in range(LENGTH):
        own = _longer(xp, own[..., None, :], chain.target)[..., 0, :]
    size = chain.target.shape[-1]
    own = _without_origin(xp, own[..., None, :], size)[..., 0, :]
    return 0.5 * xp.sum(xp.abs(law - own), axis=-1)


def summed_bill(target_chain: Array, draft_chain: Array, skip_chain: Array, decoded_chain: Array) -> Array:
    """Return Σ_t E[bill at position t], the prefix and the place in the round by the system; a bonus costs 0."""
    chain = _Chain(target_chain, draft_chain, skip_chain, decoded_chain)
    xp, p, q, s = chain.xp, chain.target, chain.draft, chain.skip
    bill = position_bill(p, q, s, chain.decoded)
    start = xp.astype(xp.arange(p.shape[-1], device=p.device) == 0, xp.float64) + xp.zeros_like(bill)
    places = [start] + [xp.zeros_like(start) for _ in range(DRAFTS)]
    total = xp.zeros_like(bill[..., 0])
    for _ in range(LENGTH):
        total = total + xp.sum(sum(places[:DRAFTS]) * bill, axis=-1)
        kept = [_step(xp, state, chain.keep) for state in places[:DRAFTS]]
        fresh = sum(_step(xp, state, chain.replace) for state in places[:DRAFTS]) + _step(xp, places[DRAFTS], p)
        places = [fresh, *kept]
    return total


def _step(xp: Any, state: Array, rows: Array) -> Array:
    return xp.sum(state[..., None] * rows, axis=-2)


def chain_arrays(**chains: Array) -> tuple[Any, ...]:
    """Return the namespace and p, q, q̂ of a chain, for the condition of a claim."""
    xp, *_ = arrays(**chains)
    chain = _Chain(**chains)
    return xp, chain.target, chain.draft, chain.decoded
