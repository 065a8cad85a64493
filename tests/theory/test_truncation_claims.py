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
