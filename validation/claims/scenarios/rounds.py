"""Simulated instances for the claims of draft_length on counts of accepted drafts.

Profiles of acceptance that fall, rise or stay with the depth, and laws of the draft length: one length, all lengths
alike, or lengths up to which a draft goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.claims import Instance

Rng = np.random.Generator
Row = np.ndarray[Any, Any]

COUNT = 1000
DEPTH = 8
CONTEXTS = 3


def _profiles(rng: Rng, shape: tuple[int, ...], depth: int = DEPTH) -> Row:
    """Return acceptances whose logits walk with the depth."""
    walk = rng.normal(0.8, 0.8, (*shape, 1)) + np.cumsum(rng.normal(0.0, 0.3, (*shape, depth)), axis=-1)
    return np.asarray(1.0 / (1.0 + np.exp(-walk)))


def _lengths(rng: Rng, shape: tuple[int, ...], depth: int = DEPTH) -> Row:
    """Return laws of k on 1..K, from nearly one length to all alike; 0 with a chance of one in four laws."""
    flat = 10.0 ** rng.uniform(-1.5, 1.0, (*shape, 1)) * np.ones(depth + 1)
    law = rng.gamma(flat) + 1e-12
    law[..., 0] *= rng.random(shape) < 0.25
    return np.asarray(law / law.sum(axis=-1, keepdims=True))


def _depth(rng: Rng, depth: int = DEPTH) -> Row:
    return rng.integers(1, depth + 1, COUNT)


def _independent(rng: Rng) -> Instance:
    return {"length_law": _lengths(rng, (COUNT,)), "acceptances": _profiles(rng, (COUNT,)), "depth": _depth(rng)}


def _by_context(rng: Rng) -> Instance:
    shape = (COUNT, CONTEXTS)
    return {
        "context_law": rng.dirichlet(np.ones(CONTEXTS), COUNT),
        "context_acceptances": _profiles(rng, shape),
        "context_lengths": _lengths(rng, shape),
        "depth": _depth(rng),
    }


def _joint(rng: Rng) -> Instance:
    size = DEPTH + 1
    joint = rng.dirichlet(np.full(size * size, 0.3), COUNT).reshape(COUNT, size, size)
    return {"joint_law": joint, "depth": _depth(rng)}


def _two_lengths(rng: Rng) -> Instance:
    return {"acceptances": _profiles(rng, (COUNT,)), "draft_length": _depth(rng), "other_length": _depth(rng)}


def _one_rate(rng: Rng) -> Instance:
    return {"acceptance": rng.beta(4.0, 2.0, COUNT), "length_law": _lengths(rng, (COUNT,))}


def _text(rng: Rng) -> Instance:
    """Return texts of 60 tokens; in half of them one token later at most one draft fewer is accepted."""
    runs = np.minimum(rng.geometric(rng.uniform(0.2, 0.9, (COUNT, 1)), (COUNT, 60)) - 1, 20)
    for t in range(1, 60):
        runs[::2, t] = np.maximum(runs[::2, t], runs[::2, t - 1] - 1)
    return {"accepted": runs, "draft_length": _depth(rng, 16), "other_length": _depth(rng, 16)}


def _sample(rng: Rng) -> dict[str, Row]:
    return {"rounds": rng.integers(1, 13, COUNT), "confidence": rng.uniform(0.5, 0.99, COUNT)}


def _band(rng: Rng) -> Instance:
    return {"length_law": _lengths(rng, (COUNT,), 3), "acceptances": _profiles(rng, (COUNT,), 3), **_sample(rng)}


def _engine(rng: Rng) -> Instance:
    """Return acceptances and errors of two depths, few because each takes a dynamic programme."""
    return {"acceptances": _profiles(rng, (30,), 2), "errors": rng.uniform(0.01, 0.5, (30, 2))}


INSTANCES: dict[str, Callable[[Rng], Instance]] = {
    "draft_length.censored": _independent,
    "draft_length.censored_before": _by_context,
    "draft_length.censored_confidence": _joint,
    "draft_length.survival_floor": _joint,
    "draft_length.survival_ceiling": _joint,
    "draft_length.histogram_same": _independent,
    "draft_length.histogram_alone": _independent,
    "draft_length.position_floor": _independent,
    "draft_length.position_ceiling": _independent,
    "draft_length.mean_floor": _two_lengths,
    "draft_length.mean_ceiling": _two_lengths,
    "draft_length.single_rate": _two_lengths,
    "draft_length.pooled_rate": _one_rate,
    "draft_length.censored_rate": _one_rate,
    "draft_length.profile_elsewhere": _text,
    "draft_length.split": _text,
    "draft_length.censored_band": _band,
    "draft_length.adaptive_depths": _engine,
    "draft_length.delta_coverage": lambda rng: {"acceptance": rng.beta(4.0, 2.0, COUNT), **_sample(rng)},
}
"""Generator of a batch of instances, by claim id."""
