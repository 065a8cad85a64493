"""DSSD with a truncated answer: the exact law of its texts is within what is promised, its bytes, and where it runs."""

import numpy as np
import pytest

import hlmtheory
from hlmtheory.codec import encode, truncated_message
from hlmtheory.policy.device import ANSWER_BITS as BITS
from hlmtheory.truncation import certified_size
from hlmtheory.wire import CertifiedAnswers, DevicePolicy, threshold_rule
from tests.validation.tiny_texts import PROMPTS, all_texts, distance, exact_law, halves, law_of, table_pair
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import DssdCertified
from validation.decoding.methods.planned import Planned
from validation.decoding.random_streams import ACCEPT, DRAFT, REPLACE
from validation.errors import UserError
from validation.link.formats import Terms
from validation.link.wire import LinkError

CELLS = {DRAFT: 2, ACCEPT: 4, REPLACE: 8}


def rows():
    return np.array([[0.5, 0.5, 0.0, 0.0]]), np.array([[0.25, 0.5, 0.125, 0.125]])


@pytest.mark.parametrize("limit", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("planned", [False, True])
def test_the_law_of_a_token_is_within_the_limit(limit, planned):
    rng = np.random.default_rng(5)
    policy = DevicePolicy(3, 1.0, threshold_rule(1), CertifiedAnswers(limit))
    method = Planned(policy) if planned else DssdCertified(limit, 1)
    for _ in range(3):
        draft, target = halves(rng, 1), rng.multinomial(8, np.full(3, 1 / 3), size=1) / 8
        law = law_of(all_texts(table_pair(draft, target), method, 1, {DRAFT: 2, ACCEPT: 4, REPLACE: 32}))
        assert distance(law, exact_law(target, 1)) <= limit + 1 / 32  # the grid misses a part of a cell


@pytest.mark.parametrize(
    "method", [DssdCertified(0.1, 1), Planned(DevicePolicy(4, 1.0, threshold_rule(1), CertifiedAnswers(0.1)))]
)
def test_a_coarse_answer_changes_the_law_as_the_claim_says(method):
    draft, target = np.array([[0.75, 0.25, 0.0, 0.0]]), np.array([[0.25, 0.25, 0.375, 0.125]])
    assert int(certified_size(target[0], 2 * 0.1, bits_per_probability=BITS)) == 1
    law = law_of(all_texts(table_pair(draft, target), method, 1, {DRAFT: 4, ACCEPT: 3, REPLACE: 33}))
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
    whole = len(encode(truncated_message(target[0], top_k=size, token=0, bits=BITS)))
    for record in found:
        (only,) = record.rounds
        assert only.down_bytes == (2 + whole if only.resampled else 1)
        assert only.risk <= 0.01


LIMIT = 0.15


def test_the_bytes_of_a_policys_answer_are_those_of_its_message():
    policy = Planned(DevicePolicy(6, 1.0, threshold_rule(1), CertifiedAnswers(LIMIT)))
    draft = np.tile([0.5, 0.3, 0.2, 0.0, 0.0, 0.0], (7, 1))
    target = np.tile([0.16, 0.16, 0.16, 0.30, 0.21, 0.01], (7, 1))
    prompts = [PROMPTS[0].__class__(str(n), "0", "test") for n in range(20)]
    records = decode(table_pair(draft, target), prompts, policy, new_tokens=2, risk=True)
    rejected = [one for record in records for one in record.rounds if one.resampled]
    size = int(certified_size(target[0], 2 * LIMIT, bits_per_probability=BITS))
    wholes = {len(encode(truncated_message(target[0], top_k=size, token=token, bits=BITS))) for token in range(3)}
    assert {one.down_bytes - 2 for one in rejected} <= wholes
    assert 0 < max(one.risk for one in rejected) <= LIMIT


def test_it_is_registered_runs_over_a_link_and_refuses_other_limits():
    assert DssdCertified(0.01, 4).name == "DSSD certified (ε = 0.01, K = 4)"
    terms = Terms.of(DssdCertified(0.01, 4))
    assert (terms.format, terms.cut_limit, terms.device_draws) == ("probabilities", 0.01, True)
    for other in ({"limit": 1.0}, {"limit": -0.1}, {"format": "tokens"}):
        with pytest.raises(LinkError, match=r"limit .* of answers"):
            Terms.from_plain(terms.plain() | other, 4)
    with pytest.raises(LinkError, match=r"outside \[0, 1\)"):
        Terms.from_plain(terms.plain() | {"limit": 1}, 4)
    for limit in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="above 0 and below 1"):
            DssdCertified(limit)
    draft, target = rows()
    with pytest.raises(UserError, match=r"must be at least 2\.4e-07 for 4 tokens"):
        all_texts(table_pair(draft, target), DssdCertified(1e-9, 1), 1, CELLS)
