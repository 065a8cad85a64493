"""Simulated instances for the claims of verification on an updated target: a draft and two versions.

The new version is the old one with each probability multiplied by exp(drift · N(0, 1)), as if its logits had moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.claims import Instance

Rng = np.random.Generator
Row = np.ndarray[Any, Any]

COUNT, WIDTH = 400, 50
CHAINS, STATES = 100, 4


def _moved(rng: Rng, rows: Row, least: float, most: float, stays: float = 0.0) -> Row:
    """Return distributions whose logits moved by a log-uniform drift; a share of them did not move."""
    lead = (len(rows), *(1,) * (rows.ndim - 2), 1)
    drift = np.exp(rng.uniform(np.log(least), np.log(most), lead))
    same = rng.random((*rows.shape[:-1], 1)) < stays
    moved = np.where(same, rows, rows * np.exp(drift * rng.normal(size=rows.shape)))
    return np.asarray(moved / moved.sum(axis=-1, keepdims=True))


def _rows(rng: Rng) -> dict[str, Row]:
    old = rng.dirichlet(np.full(WIDTH, 0.2), COUNT) + 1e-300
    return {"old": old, "new": _moved(rng, old, 0.001, 5.0, stays=1 / 3)}


def _three_rows(rng: Rng) -> Instance:
    rows = _rows(rng)
    return {"draft": _moved(rng, rows["old"], 0.1, 5.0), **rows}


def _three_chains(rng: Rng) -> Instance:
    """Return Markov chains of the draft and of both versions."""
    old = rng.dirichlet(np.full(STATES, 0.5), (CHAINS, STATES)) + 1e-12
    old /= old.sum(axis=-1, keepdims=True)
    draft = _moved(rng, old, 0.1, 5.0)
    return {"draft_chain": draft, "old_chain": old, "new_chain": _moved(rng, old, 0.001, 5.0, stays=1 / 3)}


def _divergences(rng: Rng) -> Instance:
    return {"divergence": np.exp(rng.uniform(np.log(1e-9), np.log(100.0), COUNT))}


INSTANCES: dict[str, Callable[[Rng], Instance]] = {
    "verification.update_floor": _three_rows,
    "verification.update_ceiling": _three_rows,
    "verification.update_round_floor": _three_chains,
    "verification.update_round_ceiling": _three_chains,
    "verification.update_own_texts": _three_chains,
    "verification.update_own_texts_mean": _three_chains,
    "verification.update_mean_divergence": _three_chains,
    "verification.update_divergence": _rows,
    "verification.update_divergence_pinsker": _divergences,
    "verification.update_divergence_bretagnolle_huber": _divergences,
}
"""Generator of a batch of instances, by claim id."""
