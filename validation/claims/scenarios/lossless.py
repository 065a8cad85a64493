"""Simulated instances for the claims about what draws show of a sampler's law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlmtheory.claims import Instance
from hlmtheory.lossless.claims import NODES

Rng = np.random.Generator
COUNT, FEW, VOCABULARY = 50, 5, 4


def _run(*names: str) -> Callable[[Rng], Instance]:
    """Return the generator of runs: the target's probabilities by past, and the sampler's near them."""

    def make(rng: Rng) -> Instance:
        mean = rng.beta(0.8, 0.8, (COUNT, NODES))
        away = np.clip(mean + rng.normal(0.0, 0.2, mean.shape) * (rng.random((COUNT, 1)) < 0.7), 0.0, 1.0)
        values = {
            "expected_by_past": mean,
            "law_by_past": away,
            "error": rng.uniform(0.01, 0.9, COUNT),
            "bet": 2.0 ** rng.uniform(-4.0, 8.0, COUNT),
        }
        return {name: values[name] for name in names}

    return make


def _chain(rng: Rng) -> Instance:
    """Return Markov chains of the target and of a sampler that differs a little, or much."""
    target = rng.dirichlet(np.full(VOCABULARY, 0.5), (COUNT, VOCABULARY))
    share = rng.random((COUNT, 1, 1)) ** 2
    other = rng.dirichlet(np.full(VOCABULARY, 0.5), (COUNT, VOCABULARY))
    return {"target_chain": target, "law_chain": (1.0 - share) * target + share * other}


def _power(rng: Rng) -> Instance:
    event = rng.uniform(0.05, 0.9, COUNT)
    return {
        "distance": (1.0 - event) * rng.uniform(0.05, 0.95, COUNT),
        "event": event,
        "error": rng.uniform(0.05, 0.9, COUNT),
        "bet": 2.0 ** rng.uniform(-2.0, 4.0, COUNT),
    }


def _ceiling(rng: Rng) -> Instance:
    return {"law": rng.random(FEW), "event": rng.uniform(0.01, 0.99, FEW), "error": rng.uniform(0.05, 0.95, FEW)}


def _grouped(rng: Rng) -> Instance:
    """Return two laws, near each other or not, and a group for each outcome."""
    target = rng.dirichlet(np.full(VOCABULARY**2, 0.3), COUNT)
    share = rng.random((COUNT, 1)) ** 2
    other = rng.dirichlet(np.full(VOCABULARY**2, 0.3), COUNT)
    return {
        "target_law": target,
        "sampler_law": (1.0 - share) * target + share * other,
        "groups": rng.integers(VOCABULARY**2, size=target.shape),
    }


INSTANCES: dict[str, Callable[[Rng], Instance]] = {
    "lossless.level": _run("expected_by_past", "error", "bet"),
    "lossless.bound": _run("expected_by_past", "law_by_past", "error", "bet"),
    "lossless.conditional": _chain,
    "lossless.conditional_twice": _chain,
    "lossless.conditional_once": _chain,
    "lossless.text": _chain,
    "lossless.text_uniform": _chain,
    "lossless.power": _power,
    "lossless.ceiling": _ceiling,
    "lossless.grouped": _grouped,
}
"""Generator of a batch of instances, by claim id."""
