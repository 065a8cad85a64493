"""Sides of the theorems on block verification, and the law of its texts."""

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import mask, tree_levels
from hlmtheory._simplex import distributions, excess, normalised
from hlmtheory.verification.block import longer, passing
from hlmtheory.verification.tree import flat, followed


def _tree(xp: Any, p: Array, *others: Array) -> tuple[Array, ...]:
    """Return rows (..., N, V) of whole trees, broadcast against each other."""
    for name, rows in zip(("targets", "drafts", "actual_drafts"), (p, *others), strict=False):
        tree_levels(name, rows)
    return tuple(xp.broadcast_arrays(p, *others))


def block_weights(xp: Any, p: Array, q: Array, skipped: Array | None = None, *, alone: bool = False) -> list[Array]:
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


def law_side(
    xp: Any, p: Array, q: Array, drawn: Array, skipped: Array | None = None, *, token_residual: bool = False
) -> Array:
    """Return the law of the texts, from the longest prefixes to the empty one."""
    weights = block_weights(xp, p, q, skipped)
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


def one_side(targets: Array, drafts: Array) -> Array:
    xp, p, _ = tree_rows(targets, drafts)
    return xp.ones_like(p[..., 0, 0])


def mean_tokens(xp: Any, q: Array, kept: list[Array]) -> Array:
    """Return 1 + Σ_{i=1..K} E P(at least i drafts are kept | the first i)."""
    return 1.0 + sum(xp.sum(mass * each, axis=-1) for mass, each in zip(text_laws(xp, q)[1:], kept[1:], strict=True))


def tokens_of_passes(targets: Array, drafts: Array) -> Array:
    """Return the mean tokens of a round from the passing of each block, from the last to the first."""
    xp, p, q = tree_rows(targets, drafts)
    weights = block_weights(xp, p, q)
    kept = [weights[-1]]
    for place, passes, _ in _stops(xp, p, q, weights):
        rows = q[..., place, :]
        later = xp.sum(rows * xp.reshape(kept[0], rows.shape), axis=-1)
        kept.insert(0, later + (1.0 - later) * passes)
    return mean_tokens(xp, q, kept)


def with_skips(targets: Array, drafts: Array, skips: Array, axes: int) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, p, q and the mask of what is skipped, (..., N) or (..., N, V)."""
    xp, p, q = tree_rows(targets, drafts)
    s = mask(xp, "skips", arrays(rows=q, skips=skips)[2])
    return xp, p, q, xp.broadcast_to(s[..., None] if axes == 1 else s, p.shape)


HALVES = {"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]]}


def rounding(targets: Array, drafts: Array) -> float:
    return 16.0
