"""Loss of a whole text from the overlap of two distributions; it lies in [0, 1] for texts of every length.

Given the prefix, S is the distribution of the system's next token and p that of the target model's. Skipping removes
the share σ = Σ_v q_v s_v β_v / TV(q, p) of the rejection probability. For every token x,
min(1, S_x/p_x) = 1 - σ (1 - q_x/p_x)⁺.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, take, upward
from hlmtheory._domains import DomainError, leading_dimensions, token_of
from hlmtheory._simplex import distance, distributions, excess, skip_probabilities
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.skipping.chains import HORIZON, _chains, text_distance

# Proofs, by the last part of the id.
#
# overlap. Two laws have 1 - TV = Σ_x min(Π_t p_t, Π_t S_t) ≥ Σ_x Π_t min(p_t, S_t) = E_{x~p} Π_t min(1, S_t/p_t).


def overlap_risk(target: Array, draft: Array, skip: Array, token: Array) -> Array:
    """Return the loss 1 - Π_t min(1, S_t(x_t)/p_t(x_t)) of a text x that the target model wrote.

    Its mean over the target model's texts is an upper bound on the total variation between the system's law of the
    whole text and the target model's. It lies in [0, 1] and does not decrease if more verifications are skipped. So
    :func:`calibrate_threshold` accepts it, with ``bound=1``.

    Parameters
    ----------
    target, draft : array, shape (..., T, V)
        Distributions p and q at each position of the text.
    skip : array, shape (..., T, V) or broadcastable
        Probability s_v in [0, 1] of skipping verification if the draft is v, or a boolean.
    token : integer array, shape (..., T)
        The tokens of the text, which the target model wrote.

    Returns
    -------
    array, shape (...)
        In [0, 1], rounded up: never below the exact loss of the rows over their sums. 0 where nothing is skipped.

    Raises
    ------
    ValueError
        If a row is not a distribution, a skip probability is outside [0, 1], a token is not in the vocabulary, or the
        shapes do not match.

    Examples
    --------
    >>> rows = [[0.5, 0.5], [0.5, 0.5]], [[0.75, 0.25], [0.75, 0.25]]
    >>> round(float(overlap_risk(*rows, skip=[[True, True], [False, False]], token=[1, 1])), 12)
    0.5
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    return upward(xp, _text_loss(xp, p, q, skip_probabilities(xp, skip, q), token), kind)


def _text_loss(xp: Any, p: Array, q: Array, skip: Array, token: Array) -> Array:
    """Return 1 - Π_t (1 - loss_t), rounded up; as 1 - exp(Σ log(1 - loss_t)), which keeps small losses."""
    losses = _token_losses(xp, p, q, skip, token)
    sure = xp.any(losses >= 1.0, axis=-1)
    found = 0.0 - xp.expm1(xp.sum(xp.log1p(-xp.where(losses < 1.0, losses, 0.0)), axis=-1))
    found = found * (1.0 + (losses.shape[-1] + 8) * 2.0**-52)
    return xp.where(sure, 1.0, xp.clip(found, max=1.0))


def _token_losses(xp: Any, p: Array, q: Array, skip: Array, token: Array) -> Array:
    """Return 1 - min(1, S_x/p_x) at each position, rounded up, shape (..., T).

    The entries of a row and of a sum have a relative error of e at most. Where q is near p this is much of q - p, so
    that σ is the quotient of an upper bound on Σ s (q - p)⁺ and a lower bound on TV.
    """
    if p.ndim < 2:
        raise DomainError(f"target must have a row for each position, shape (..., T, V); got shape {tuple(p.shape)}")
    _, _, x = arrays(target=p, token=token)
    x = token_of(p.shape[-1]).check(xp, "token", x)
    common = leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]), token=tuple(x.shape))
    x = xp.broadcast_to(x, common)[..., None]
    e = (p.shape[-1] + 10) * 2.0**-53
    tv = distance(xp, p, q)
    tiny = 2.0**-1072  # more than what a product below 2^-1022 loses
    lost = xp.sum(skip * (excess(xp, q, p) + e * (p + q)) + tiny * xp.astype(skip > 0, p.dtype), axis=-1) * (1.0 + e)
    least = tv - 2.0 * e
    share = xp.where(lost < least, lost / xp.where(least > 0, least, 1.0), 1.0)
    share = xp.where((tv > 0) & (lost > 0), share, 0.0)
    p_x, q_x = (take(xp, xp.broadcast_to(rows, (*common, rows.shape[-1])), x)[..., 0] for rows in (p, q))
    fell = xp.clip(p_x - q_x * (1.0 - 2.0 * e), min=0.0) / xp.where(p_x > 0, p_x, 1.0)
    some = tiny * xp.astype((share > 0) & (fell > 0), p.dtype)
    return xp.clip(share * fell * (1.0 + 2.0**-51) + some, max=1.0)


def _overlap_bound(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """Return 1 - Σ_x Π_t min(p_t, S_t) over all texts of a chain, token by token."""
    xp, p, _, _, law = _chains(target_chain, draft_chain, skip_chain)
    rows = xp.minimum(p, law)
    mass = rows[..., 0, :]
    for _ in range(HORIZON - 1):
        mass = xp.sum(mass[..., None] * rows, axis=-2)
    return 1.0 - xp.sum(mass, axis=-1)


def _mean_loss(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """Return the mean of :func:`overlap_risk` over all texts of a chain, weighted by the target model's probability."""
    xp, p, q, s, _ = _chains(target_chain, draft_chain, skip_chain)
    size = p.shape[-1]
    number = xp.arange(size**HORIZON, device=p.device)
    texts = xp.stack([number // size**place % size for place in range(HORIZON)], axis=-1)
    before = xp.concat([xp.zeros_like(texts[:, :1]), texts[:, :-1]], axis=-1)  # every text begins after token 0
    state = xp.reshape(before, (-1,))
    rows, drafts, skips = (
        xp.reshape(xp.take(chain, state, axis=-2), (*chain.shape[:-2], *texts.shape, size))
        for chain in (p, q, xp.broadcast_to(s, q.shape))
    )
    wide = xp.broadcast_to(texts, rows.shape[:-1])
    weight = xp.prod(take(xp, rows, wide[..., None])[..., 0], axis=-1)
    return xp.sum(weight * overlap_risk(rows, drafts, skips, wide), axis=-1)


_PAPER = Source("oh2025cuhlm", "(10)")
_BRANCH = {
    "target_chain": [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
    "skip_chain": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
}
"""Every text that begins with token 2 is lost at its second token: the TV is 1/2, the sum over tokens is 1."""

CLAIMS = (
    Claim(
        id="skipping.overlap",
        source=_PAPER,
        origin=Origin.NEW,
        statement="TV(law of the text, target model's) ≤ 1 − E_x Π_t min(1, S_t(x_t)/p_t(x_t)), x ~ the target model",
        relation=Relation.LE,
        lhs=text_distance,
        rhs=_overlap_bound,
        attained=Attained(_BRANCH),
        ceiling=1.0,
    ),
)
