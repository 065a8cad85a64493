"""All sequences of a few tokens as a tree, and the exact result of speculative decoding on it.

The rows of a tree are listed level by level: the row after the sequence of node n and token v is at n·V + v + 1. So a
tree over T positions has N = (V^T - 1)/(V - 1) rows.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array


def prefix_mass(xp: Any, p: Array, places: list[slice]) -> Array:
    """Probability of each prefix under the law of the rows, shape (..., N)."""
    mass = [xp.ones_like(p[..., :1, 0])]
    for place in places[:-1]:
        following = mass[-1][..., None] * p[..., place, :]
        mass.append(xp.reshape(following, (*following.shape[:-2], -1)))
    return xp.concat(mass, axis=-1)


def expected_rejections(xp: Any, p: Array, q_hat: Array, length: Array, places: list[slice]) -> Array:
    """E[rejected and resampled drafts] over a sequence of T tokens, drafts from q̂ in batches of L, shape (...)."""
    states = xp.arange(len(places) + 1, device=p.device)
    drafted = (states < length[..., None])[..., None, :]  # (..., 1, I)
    mass = xp.astype(xp.broadcast_to(states == 0, (*p.shape[:-2], 1, len(places) + 1)), p.dtype)
    rejected = xp.zeros_like(p[..., 0, 0])
    for place in places:
        rows, drafts = p[..., place, :], q_hat[..., place, :]
        accepted, lost = xp.minimum(rows, drafts), xp.clip(rows - drafts, min=0.0)
        trying = xp.where(drafted, mass, 0.0)
        tried = xp.sum(trying, axis=-1)
        rejected = rejected + xp.sum(tried * xp.sum(lost, axis=-1), axis=-1)
        # after a rejection or a bonus token a new batch starts; after an acceptance the batch goes on
        bonus = xp.sum(mass, axis=-1) - tried
        restart = tried[..., None] * lost + bonus[..., None] * rows
        going_on = accepted[..., None] * trying[..., None, :-1]
        following = xp.concat([restart[..., None], going_on], axis=-1)  # (..., n, V, I)
        mass = xp.reshape(following, (*following.shape[:-3], -1, following.shape[-1]))
    return rejected
