"""The audit of toy laws: it acquits the law itself, finds another one, and stops early."""

from __future__ import annotations

import numpy as np
import pytest

from validation.audit import KEPT, NOT_KEPT, TableLaw, audit_sampler

V, D = 3, 3
NODES = sum(V**t for t in range(D))


def table(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(V), NODES)


def sampler_of(rows: np.ndarray):
    def sample(prompts, n, seed):
        rng = np.random.default_rng(seed)
        found = np.empty((len(prompts), n, D), dtype=np.int64)
        for c in range(len(prompts)):
            node = np.zeros(n, dtype=np.int64)
            for t in range(D):
                below = rows[node].cumsum(axis=-1) < rng.random((n, 1))
                found[c, :, t] = np.minimum(below.sum(axis=-1), V - 1)
                node = node * V + found[c, :, t] + 1
        return found

    return sample


def test_the_law_itself_is_kept():
    rows = table(1)
    report = audit_sampler(TableLaw(rows, [[0], [1]]), sampler_of(rows), depth=D, draws=40_000, epsilon=0.1)
    assert report.verdict == KEPT
    assert report.at_least == 0
    assert report.at_most <= 0.1


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_another_law_is_found_and_bounded(share):
    rows = table(1)
    other = (1 - share) * rows + share * table(2)
    report = audit_sampler(TableLaw(rows), sampler_of(other), depth=D, draws=40_000, stop_early=False)
    joint, target = law_of(other), law_of(rows)
    distance = 0.5 * np.abs(joint - target).sum()
    assert report.verdict == NOT_KEPT
    assert report.found_after < 40_000
    assert 0.3 * distance < report.at_least <= distance <= report.at_most


def law_of(rows: np.ndarray) -> np.ndarray:
    """The probabilities of all continuations, by enumeration."""
    mass, nodes = np.ones(1), np.zeros(1, dtype=np.int64)
    for _ in range(D):
        mass = (mass[:, None] * rows[nodes]).reshape(-1)
        nodes = (nodes[:, None] * V + np.arange(V) + 1).reshape(-1)
    return mass
