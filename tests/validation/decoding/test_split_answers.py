"""DSSD with a truncated answer: the exact law of its texts is within what is promised, its bytes, and where it runs."""

from __future__ import annotations

import numpy as np
import pytest

import hlmtheory
from hlmtheory.codec import encode, truncated_message
from hlmtheory.truncation import certified_size
from tests.validation.tiny_texts import PROMPTS, all_texts, distance, exact_law, halves, law_of, nodes, table_pair
from validation.decoding.loop import decode
from validation.decoding.methods import METHODS
from validation.decoding.methods.multi_draft import Dssd
from validation.decoding.methods.split import BITS, DssdCertified
from validation.decoding.random_streams import ACCEPT, DRAFT, REPLACE
from validation.errors import UserError
from validation.link.formats import Terms

CELLS = {DRAFT: 2, ACCEPT: 4, REPLACE: 8}


def rows():
    """Return q = (1/2, 1/2, 0, 0) in some order, and p with two small entries, at one position."""
    return np.array([[0.5, 0.5, 0.0, 0.0]]), np.array([[0.25, 0.5, 0.125, 0.125]])


def test_an_answer_that_tells_all_leaves_the_law():
    draft, target = rows()
    law = law_of(all_texts(table_pair(draft, target), DssdCertified(1e-3, 1), 1, CELLS))
    assert distance(law, exact_law(target, 1)) < 2e-3
    exact = law_of(all_texts(table_pair(draft, target), Dssd(1), 1, CELLS))
    assert distance(exact, exact_law(target, 1)) < 1e-12


@pytest.mark.parametrize("limit", [0.02, 0.1, 0.4])
def test_the_law_of_a_token_is_within_the_limit(limit):
    rng = np.random.default_rng(5)
    for _ in range(3):
        draft, target = halves(rng, 1), rng.multinomial(8, np.full(3, 1 / 3), size=1) / 8
        law = law_of(
            all_texts(table_pair(draft, target), DssdCertified(limit, 1), 1, {DRAFT: 2, ACCEPT: 4, REPLACE: 32})
        )
        assert distance(law, exact_law(target, 1)) <= limit + 1 / 32  # the grid misses a part of a cell


def test_a_coarse_answer_changes_the_law_as_the_claim_says():
    """Token 2 is sent, and token 0 as the rejected one. So p̂ = (1/4, 3/16, 3/8, 3/16), and the law moves by 1/24."""
    draft, target = np.array([[0.75, 0.25, 0.0, 0.0]]), np.array([[0.25, 0.25, 0.375, 0.125]])
    assert int(certified_size(target[0], 2 * 0.1, bits_per_probability=BITS)) == 1
    law = law_of(all_texts(table_pair(draft, target), DssdCertified(0.1, 1), 1, {DRAFT: 4, ACCEPT: 3, REPLACE: 33}))
    meant = (1 / 4, 1 / 4, 1 / 3, 1 / 6)
    assert max(abs(law.get((v,), 0.0) - meant[v]) for v in range(4)) < 0.01
    claim = hlmtheory.all_claims()["channel.downlink_truncated"]
    verdict = claim.check({"target": target[0], "draft": draft[0], "received": [0.25, 0.1875, 0.375, 0.1875]})
    assert verdict.holds
    assert float(verdict.lhs) == pytest.approx(1 / 24)


def test_the_answer_has_the_bytes_of_its_message():
    draft, target = rows()
    found = all_texts(table_pair(draft, target), DssdCertified(0.01, 1), 1, CELLS, risk=True)
    size = certified_size(target[0], 0.02, bits_per_probability=BITS)
    whole = len(encode(truncated_message(target[0], k=size, token=0, bits=BITS)))
    for record in found:
        (only,) = record.rounds
        assert only.down_bytes == (2 + whole if only.resampled else 1)
        assert only.risk <= 0.01


def test_greedy_texts_are_those_of_dssd():
    rng = np.random.default_rng(3)
    pair = table_pair(rng.dirichlet(np.ones(4), nodes(4, 3)), rng.dirichlet(np.ones(4), nodes(4, 3)))
    for prompt in PROMPTS[:1]:
        texts = [
            decode(pair, [prompt.__class__(prompt.id, "0", "test")], method, temperature=0.0, new_tokens=3)[0].tokens
            for method in (Dssd(2), DssdCertified(0.1, 2))
        ]
        assert texts[0] == texts[1]


def test_it_is_registered_and_refuses_a_link_and_other_limits():
    assert METHODS["DSSD certified"].method is DssdCertified
    assert DssdCertified(0.01, 4).name == "DSSD certified (ε = 0.01, K = 4)"
    with pytest.raises(UserError, match="does not run over a link"):
        Terms.of(DssdCertified(0.01, 4))
    for limit in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="above 0 and below 1"):
            DssdCertified(limit)
    draft, target = rows()
    with pytest.raises(UserError, match=r"must be at least 2\.4e-07 for 4 tokens"):
        all_texts(table_pair(draft, target), DssdCertified(1e-9, 1), 1, CELLS)
