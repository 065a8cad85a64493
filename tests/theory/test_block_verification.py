"""Block verification: the law by enumeration in fractions, the paper's example, and what another q or a skip breaks."""

import pytest

import hlmtheory
from hlmtheory.verification import acceptance_rate, block_weights
from hlmtheory.verification.block import block_acceptance

KNOWN = hlmtheory.all_claims()


def test_the_papers_example_of_two_drafts():
    """Two drafts, q = (2/3, 1/3) and p = (1/3, 2/3): 10/9 drafts are accepted token by token, and 11/9 by block."""
    instance = {"targets": [[1 / 3, 2 / 3]] * 3, "drafts": [[2 / 3, 1 / 3]] * 3}
    verdict = KNOWN["verification.block_never_loses"].check(instance)
    assert float(verdict.lhs) == pytest.approx(1 + 10 / 9, abs=1e-12)
    assert float(verdict.rhs) == pytest.approx(1 + 11 / 9, abs=1e-12)


def test_one_draft_is_verified_as_token_by_token():
    verdict = KNOWN["verification.block_tokens"].check({"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]]})
    assert float(verdict.lhs) == 1 + float(acceptance_rate([0.25, 0.75], [0.5, 0.5]))


def test_a_block_may_pass_although_its_first_draft_would_be_rejected_alone():
    """The ratio of the second draft makes up for that of the first: both are kept with probability 1."""
    rows = [[0.25, 0.75], [0.75, 0.25]], [[0.5, 0.5], [0.25, 0.75]], [0, 0]
    assert block_weights(*rows).tolist() == [0.5, 1.0]
    assert block_acceptance(*rows)[1] == 1.0
