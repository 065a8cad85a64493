"""Simulated instances for the claims about trees of drafts: whole trees over three tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlmtheory.claims import Instance

COUNT, VOCABULARY, NODES, MOST = 40, 3, 13, 3


def _trees(rng: np.random.Generator) -> Instance:
    """Return trees of depth 3, with drafts that are near the target's rows, far from them, or equal."""
    shape, flat = (COUNT, NODES), np.full(VOCABULARY, 0.6)
    targets, other = rng.dirichlet(flat, shape), rng.dirichlet(flat, shape)
    share = rng.choice([0.0, 0.3, 1.0], (COUNT, 1, 1))
    drafts = (1.0 - share) * targets + share * other
    return {"targets": targets, "drafts": drafts, "draft_count": rng.integers(1, MOST + 1, COUNT)}


INSTANCES: dict[str, Callable[[np.random.Generator], Instance]] = {
    "verification.tree": _trees,
    "verification.tree_coverage": _trees,
}
"""Generator of a batch of instances, by claim id."""
