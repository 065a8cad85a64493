"""What the claims on many rows do beside the tests of every claim: near ties, and batches of rows."""

from __future__ import annotations

import numpy as np
import pytest

import hlmtheory
from hlmtheory.claims import Status

KNOWN = hlmtheory.all_claims()


@pytest.mark.parametrize("name", ["truncation.offline", "truncation.offline_least"])
def test_tokens_that_agree_but_for_rounding_decide_nothing_offline(name):
    draft = np.random.default_rng(0).dirichlet(np.ones(50), size=20)
    target = draft.copy()
    target[:, 0] += np.spacing(target[:, 0])
    other = np.random.default_rng(1).dirichlet(np.ones(50), size=20)
    targets, drafts = (np.stack([one, two], axis=1) for one, two in ((target, other), (draft, draft[::-1])))
    tolerance = np.full(20, 0.1)
    verdict = KNOWN[name].check({"targets": targets, "drafts": drafts, "distortion_tolerance": tolerance})
    assert verdict.count(Status.VIOLATED) == 0
    verdict = KNOWN[name].check({"targets": drafts, "drafts": drafts, "distortion_tolerance": tolerance})
    assert verdict.in_scope == 0
    assert "target ≠ draft for every token" in verdict.broken


@pytest.mark.parametrize("name", [name for name in KNOWN if name.startswith("truncation.dual")])
def test_budgets_in_a_batch_are_those_one_by_one(name):
    """Two batches of three rows: each distribution has its own k."""
    drafts, top_k = np.random.default_rng(5).dirichlet(np.ones(4), size=(2, 3)), np.array([[0, 1, 2], [3, 1, 1]])
    whole = KNOWN[name].check({"drafts": drafts, "top_k": top_k})
    for i in range(2):
        alone = KNOWN[name].check({"drafts": drafts[i], "top_k": top_k[i]})
        assert (float(whole.lhs[i]), float(whole.rhs[i])) == (float(alone.lhs), float(alone.rhs))


def test_a_nucleus_of_all_tokens_moves_nothing_and_neither_does_its_bound():
    verdict = KNOWN["truncation.rules_top_p"].check({"draft": [0.5, 0.25, 0.25], "k": 3})
    assert (float(verdict.lhs), float(verdict.rhs)) == (0.0, 0.0)
