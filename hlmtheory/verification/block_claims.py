"""Claims on block verification, both sides of each, and the law of its texts.

The proofs are in :mod:`hlmtheory.verification.block`.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import mask, tree_levels
from hlmtheory._simplex import distance, distributions, excess, law_overlap, normalised, rejection_by_token
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.verification.block import longer, passing
from hlmtheory.verification.tree import flat, followed


def _tree(xp: Any, p: Array, *others: Array) -> tuple[Array, ...]:
    """Return rows (..., N, V) of whole trees, broadcast against each other."""
    for name, rows in zip(("targets", "drafts", "actual_drafts"), (p, *others), strict=False):
        tree_levels(name, rows)
    return tuple(xp.broadcast_arrays(p, *others))


def _block_weights(xp: Any, p: Array, q: Array, skipped: Array | None = None, *, alone: bool = False) -> list[Array]:
    """Return the weights of all prefixes of each length, (..., V^i) for i = 0..K; Π min(1, p/q) if ``alone``."""
    found = [xp.ones_like(p[..., 0, :1])]
    for place in tree_levels("targets", p):
        weight = found[-1][..., None]
        after = longer(xp, xp.ones_like(weight) if alone else weight, p[..., place, :], q[..., place, :])
        after = weight * after if alone else after
        if skipped is not None:
            after = xp.where(skipped[..., place, :], weight, after)
        found.append(flat(xp, after))
    return found


def _stops(xp: Any, p: Array, q: Array, weights: list[Array]) -> list[tuple[slice, Array, Array]]:
    """Return the rows, h and the residual of all prefixes of each length, from K - 1 to 0."""
    found = []
    for place, weight in zip(tree_levels("targets", p), weights, strict=False):
        residual, spare = normalised(xp, excess(xp, weight[..., None] * p[..., place, :], q[..., place, :]))
        found.append((place, passing(xp, weight, spare), residual))
    return found[::-1]


def _law(
    xp: Any, p: Array, q: Array, drawn: Array, skipped: Array | None = None, *, token_residual: bool = False
) -> Array:
    """Return the law of the texts, from the longest prefixes to the empty one."""
    weights = _block_weights(xp, p, q, skipped)
    law = weights[-1][..., None]  # of the tokens after a prefix whose drafts are kept, with the probability of that
    own = xp.ones_like(law)
    for place, passes, residual in _stops(xp, p, q, weights):
        if token_residual:
            residual, _ = normalised(xp, excess(xp, p[..., place, :], q[..., place, :]))
        law = followed(xp, drawn[..., place, :], law)
        stays = passes * (1.0 - xp.sum(law, axis=-1))
        law = law + stays[..., None] * followed(xp, residual, own)
        own = followed(xp, p[..., place, :], own)
    return law[..., 0, :]


def text_laws(xp: Any, rows: Array) -> list[Array]:
    """Return the probabilities (..., V^i) of all texts of i = 0..K tokens."""
    found = [xp.ones_like(rows[..., 0, :1])]
    for place in tree_levels("targets", rows):
        following = found[-1][..., None] * rows[..., place, :]
        found.append(flat(xp, following))
    return found


def tree_rows(targets: Array, drafts: Array) -> tuple[Any, Array, Array]:
    """Return the namespace, and p and q of whole trees (..., N, V)."""
    xp, _, p, q = distributions(targets=targets, drafts=drafts)
    return (xp, *_tree(xp, p, q))


def _overlap(targets: Array, drafts: Array) -> Array:
    """Return 1 - ½ Σ |law - P| over all texts, with P the product of the target's rows."""
    xp, p, q = tree_rows(targets, drafts)
    return law_overlap(_law(xp, p, q, q), text_laws(xp, p)[-1])


def _token_residual_overlap(targets: Array, drafts: Array) -> Array:
    """Return the same with the residual of token-by-token verification."""
    xp, p, q = tree_rows(targets, drafts)
    return law_overlap(_law(xp, p, q, q, token_residual=True), text_laws(xp, p)[-1])


def _one(targets: Array, drafts: Array) -> Array:
    xp, p, _ = tree_rows(targets, drafts)
    return xp.ones_like(p[..., 0, 0])


def _mean_tokens(xp: Any, q: Array, kept: list[Array]) -> Array:
    """Return 1 + Σ_{i=1..K} E P(at least i drafts are kept | the first i)."""
    return 1.0 + sum(xp.sum(mass * each, axis=-1) for mass, each in zip(text_laws(xp, q)[1:], kept[1:], strict=True))


def _tokens_of_passes(targets: Array, drafts: Array) -> Array:
    """Return the mean tokens of a round from the passing of each block, from the last to the first."""
    xp, p, q = tree_rows(targets, drafts)
    weights = _block_weights(xp, p, q)
    kept = [weights[-1]]
    for place, passes, _ in _stops(xp, p, q, weights):
        rows = q[..., place, :]
        later = xp.sum(rows * xp.reshape(kept[0], rows.shape), axis=-1)
        kept.insert(0, later + (1.0 - later) * passes)
    return _mean_tokens(xp, q, kept)


def _tokens_of_weights(targets: Array, drafts: Array) -> Array:
    xp, p, q = tree_rows(targets, drafts)
    return _mean_tokens(xp, q, _block_weights(xp, p, q))


def _tokens_of_texts(targets: Array, drafts: Array) -> Array:
    """Return 1 + Σ_i E min_{j ≤ i} Q_j/P_j, with Q_0/P_0 = 1, over the target's texts."""
    xp, p, q = tree_rows(targets, drafts)
    own, drawn = text_laws(xp, p), text_laws(xp, q)
    least, total = xp.ones_like(own[0]), xp.ones_like(own[0][..., 0])
    for law, other in zip(own[1:], drawn[1:], strict=True):
        below = other < law
        ratio = xp.where(below, other / xp.where(below, law, 1.0), 1.0)
        least = xp.minimum(xp.repeat(least, p.shape[-1], axis=-1), ratio)
        total = total + xp.sum(law * least, axis=-1)
    return total


def _tokens_one_by_one(targets: Array, drafts: Array) -> Array:
    """Return the mean tokens of a round if drafts are verified token by token."""
    xp, p, q = tree_rows(targets, drafts)
    return _mean_tokens(xp, q, _block_weights(xp, p, q, alone=True))


def _with_skips(targets: Array, drafts: Array, skips: Array, axes: int) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, p, q and the mask of what is skipped, (..., N) or (..., N, V)."""
    xp, p, q = tree_rows(targets, drafts)
    s = mask(xp, "skips", arrays(rows=q, skips=skips)[2])
    return xp, p, q, xp.broadcast_to(s[..., None] if axes == 1 else s, p.shape)


def _token_skip_bias(targets: Array, drafts: Array, skips: Array) -> Array:
    """Return TV(law, P) if some drafts leave the weight as it is."""
    xp, p, q, skipped = _with_skips(targets, drafts, skips, 2)
    return distance(xp, _law(xp, p, q, q, skipped), text_laws(xp, p)[-1])


def _token_skip_bill(targets: Array, drafts: Array, skips: Array) -> Array:
    """Return the mean sum of β over the skipped drafts."""
    xp, p, q, skipped = _with_skips(targets, drafts, skips, 2)
    reached = xp.concat(text_laws(xp, q)[:-1], axis=-1)
    lost = xp.sum(xp.where(skipped, q * rejection_by_token(xp, p, q), 0.0), axis=-1)
    return xp.sum(reached * lost, axis=-1)


_EXACT, _LONGER = Source("sun2025block", "Theorem 1"), Source("sun2025block", "Theorem 2")
_SKIPPING = Source("sun2025block", "Algorithm 2, with drafts that are not verified")
_HALVES = {"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]]}
_SECOND = {"targets": [[0.25, 0.75], *[[0.75, 0.25]] * 2], "drafts": [[0.75, 0.25], *[[0.25, 0.75]] * 2]}


def _rounding(targets: Array, drafts: Array) -> float:
    return 16.0


CLAIMS = (
    Claim(
        id="verification.block_exact",
        source=_EXACT,
        origin=Origin.PUBLISHED,
        statement="the texts have the law p if the longest block that passes is kept, and (w_i p − q)⁺ follows it",
        relation=Relation.EQ,
        lhs=_overlap,
        rhs=_one,
        attained=Attained(_HALVES),
        condition=_rounding,
    ),
    Claim(
        id="verification.block_tokens",
        source=_LONGER,
        statement="E[tokens] = 1 + Σ_{i≤K} E[w_i], the drafts drawn from q",
        relation=Relation.EQ,
        lhs=_tokens_of_passes,
        rhs=_tokens_of_weights,
        attained=Attained(_HALVES),
        condition=_rounding,
    ),
    Claim(
        id="verification.block_text",
        source=_LONGER,
        statement="E[N] = 1 + Σ_{i=1..K} E_{x~P} min(1, Q_1/P_1, …, Q_i/P_i): known from the target's texts alone",
        relation=Relation.EQ,
        lhs=_tokens_of_passes,
        rhs=_tokens_of_texts,
        attained=Attained(_SECOND),
    ),
    Claim(
        id="verification.block_never_loses",
        source=_LONGER,
        origin=Origin.PUBLISHED,
        statement="E[tokens] token by token ≤ E[tokens] by block, for all drafts",
        lhs=_tokens_one_by_one,
        rhs=_tokens_of_passes,
        attained=Attained(_HALVES, ratio=1.0),
        condition=_rounding,
    ),
    Claim(
        id="verification.block_token_skips",
        source=_SKIPPING,
        origin=Origin.IMPLIED,
        statement="if the draft decides that it is kept, by w_i = w_{i−1}, TV(law, P) ≤ E[Σ s β], as token by token",
        lhs=_token_skip_bias,
        rhs=_token_skip_bill,
        refuted={
            "targets": [[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]],
            "drafts": [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]],
            "skips": [[False, False], [False, False], [True, False]],
        },
    ),
    Claim(
        id="verification.block_token_residual",
        source=_EXACT,
        origin=Origin.IMPLIED,
        statement="the texts have the law p if the longest block that passes is kept, and (p − q)⁺ follows it",
        relation=Relation.EQ,
        lhs=_token_residual_overlap,
        rhs=_one,
        refuted={
            "targets": [[0.25, 0.25, 0.5], *[[0.5, 0.5, 0.0]] * 3],
            "drafts": [[0.5, 0.5, 0.0], *[[0.0, 0.25, 0.75]] * 3],
        },
    ),
)
