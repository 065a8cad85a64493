"""Simulated instances for the claims about drafts by a shared seed that need more than two rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlmtheory.claims import Instance

Rng = np.random.Generator
COUNT, FEW, VOCABULARY = 50, 5, 5


def _lists(rng: Rng) -> Instance:
    """Return rows of a few tokens, some of probability 0, and list lengths."""
    draft, target = rng.dirichlet(np.full(VOCABULARY, 0.4), (2, COUNT))
    target = np.where(rng.random(target.shape) < 0.2, 0.0, target)
    target[:, 0] += target.sum(axis=-1) == 0
    return {
        "draft": draft,
        "target": target / target.sum(axis=-1, keepdims=True),
        "list_size": rng.integers(1, VOCABULARY + 1, COUNT),
    }


def _joint(rng: Rng) -> Instance:
    law = rng.dirichlet(np.full(VOCABULARY**2, 0.3), COUNT)
    return {"joint": law.reshape(COUNT, VOCABULARY, VOCABULARY)}


def _chain(rng: Rng) -> Instance:
    target, draft = rng.dirichlet(np.full(VOCABULARY, 0.5), (2, FEW, VOCABULARY))
    return {
        "target_chain": target,
        "draft_chain": draft,
        "seed": rng.integers(2**63, size=FEW),
        "draft_length": rng.integers(1, 9, FEW),
    }


def _distance(rng: Rng) -> Instance:
    return {"total_variation": rng.random(COUNT)}


def _stream(rng: Rng) -> Instance:
    """Return times in 64ths of a second, so that what happens at one moment is exact."""
    draft, trip, verify = rng.integers(1, 65, (3, FEW)) / 64
    return {
        "acceptance": rng.uniform(0.0, 0.9, FEW),
        "draft_time": draft,
        "round_trip": 4.0 * trip,
        "verify_time": verify,
    }


def _one_draft_a_pass(rng: Rng) -> Instance:
    instance = dict(_stream(rng))
    return instance | {"verify_time": instance["draft_time"] / 2, "round_trip": 2.0 * instance["draft_time"]}


INSTANCES: dict[str, Callable[[Rng], Instance]] = {
    "shared_seed.list": _lists,
    "shared_seed.list_bound": _lists,
    "shared_seed.list_floor": _lists,
    "shared_seed.list_tries": _lists,
    "shared_seed.any_scheme": _joint,
    "shared_seed.invariant": _chain,
    "shared_seed.invariant_by_count": _chain,
    "shared_seed.message_value_most": _distance,
    "shared_seed.streamed": _stream,
    "shared_seed.streamed_fastest": _stream,
    "shared_seed.streamed_slowest": _stream,
    "shared_seed.streamed_bonus": _stream,
    "shared_seed.streamed_bonus_rate": _one_draft_a_pass,
}
"""Generator of a batch of instances, by claim id."""
