"""The claims on sizes, messages, online bounds, budgets and worst cases: each holds, is tight, and can be caught."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory import truncation
from hlmtheory.claims import Status

from .module_claims import (
    ClaimTable,
    by_id,
)
from .strategies import INSTANCES, TARGETS, pairs, rows, vocabularies, with_size, with_token

CLAIMS = [claim for claim in truncation.CLAIMS if claim.id not in INSTANCES]
TRUE = [claim for claim in CLAIMS if claim.refuted is None]
FALSE = [claim for claim in CLAIMS if claim.refuted is not None]

SHARPNESS = st.one_of(st.sampled_from((1e-6, 1e-3, 0.5, 1.0, 5.0, 100.0, 1e4, 1e300)), st.floats(0.1, 50.0))
TOLERANCE = st.one_of(st.sampled_from((0.0, 5e-324, 1e-12, 0.1, 0.5, 1.0, 3.0)), st.floats(0.0, 1.5))


@st.composite
def beside(draw, source, **values):
    """A batch of instances with one more number for each."""
    instance = draw(source)
    shape = instance["draft"].shape[:-1]
    more = {name: draw(hnp.arrays(np.float64, shape, elements=element)) for name, element in values.items()}
    return {**instance, **more}


@st.composite
def sampled_elsewhere(draw):
    """A pair, the number of sent entries, and the actual distribution of the drafts."""
    instance = draw(SIZED)
    return {**instance, "actual_draft": draw(st.sampled_from(TARGETS))(draw, instance["draft"])}


@st.composite
def drafted_often(draw):
    """A pair, the number of sent entries, and the number of drafts of the position."""
    instance = draw(SIZED)
    return {**instance, "draft_count": draw(hnp.arrays(np.int64, instance["k"].shape, elements=st.integers(1, 4)))}


@st.composite
def reconstructed(draw):
    """A pair, and a row for each draft: the draft distribution with some of another row, the target, or neither."""
    target, draft = draw(pairs()).values()
    target, draft = target[..., :12], draft[..., :12]
    target, draft = (np.where(one.sum(-1, keepdims=True) > 1e-3, one, 1.0) for one in (target, draft))
    target, draft = (one / one.sum(-1, keepdims=True) for one in (target, draft))
    size = draft.shape[-1]
    share = draw(hnp.arrays(np.float64, (*draft.shape, 1), elements=st.sampled_from((0.0, 2.0**-20, 0.1, 0.5, 1.0))))
    other = draw(rows((*draft.shape[:-1], size), size))
    return {"target": target, "draft": draft, "decoded": (1.0 - share) * draft[..., None, :] + share * other}


@st.composite
def drafts_of_many(draw, *, targets=False):
    """Separate target and draft rows of several tokens, with a tolerance or competing values of k."""
    size, tokens = draw(vocabularies(2)), draw(st.integers(1, 4))
    drafts = draw(rows((tokens,), min(size, 12)))
    if not targets:
        return {
            "drafts": drafts,
            "top_k": draw(hnp.arrays(np.int64, tokens, elements=st.integers(0, drafts.shape[-1]))),
        }
    other = draw(rows((tokens,), drafts.shape[-1]))
    assume((np.abs(other - drafts).sum(-1) > 1e-6).all())
    return {"targets": other, "drafts": drafts, "distortion_tolerance": draw(TOLERANCE)}


def without(source, *names):
    """Return the instance without some arrays."""
    return source.map(lambda instance: {name: value for name, value in instance.items() if name not in names})


PAIRS = pairs()
SIZED, DRAWN = with_size(PAIRS), with_token(PAIRS)
ONLINE = beside(with_size(DRAWN), sharpness=SHARPNESS)
ROW_AND_SIZE, ROW = without(SIZED, "target"), without(PAIRS, "target")

PARTIAL_PAIRS = ("most", "most_attained", "least", "least_attained", "bias", "renormalised")
PARTIAL_ROWS = ("deviation", "deviation_attained", "deviation_least")
ERROR = st.one_of(st.sampled_from((0.0, 1e-12, 0.001, 0.25, 3.0)), st.floats(0.0, 1.0))

STRATEGIES = {
    "truncation.softplus": beside(PAIRS, sharpness=SHARPNESS),
    "truncation.softplus_above": beside(PAIRS, sharpness=SHARPNESS),
    "truncation.softplus_value": beside(PAIRS, sharpness=SHARPNESS),
    "truncation.softplus_gap": beside(PAIRS, sharpness=SHARPNESS),
    "truncation.online_bound": ONLINE,
    "truncation.online_gap": ONLINE,
    "truncation.online_safe": ONLINE,
    "truncation.online_certified": with_size(DRAWN),
    "truncation.online_direction": ONLINE,
    "truncation.online_direction_worst": with_size(DRAWN),
    "truncation.online": beside(DRAWN, sharpness=SHARPNESS),
    "truncation.exact": beside(PAIRS, distortion_tolerance=TOLERANCE),
    "truncation.exact_least": beside(PAIRS, distortion_tolerance=TOLERANCE),
    "truncation.offline": drafts_of_many(targets=True),
    "truncation.offline_least": drafts_of_many(targets=True),
    "truncation.size_certified": PAIRS,
    "truncation.size_least": ROW,
    "truncation.message": with_size(DRAWN),
    "truncation.decoded_acceptance": SIZED,
    "truncation.decoded_rate": SIZED,
    "truncation.worst_case": SIZED,
    "truncation.bias_worst": SIZED,
    "truncation.distance_pinsker": ROW_AND_SIZE,
    "truncation.distance_bretagnolle_huber": ROW_AND_SIZE,
    "truncation.distance_wasserstein": ROW_AND_SIZE,
    "truncation.rules_top_p": ROW_AND_SIZE,
    "truncation.rules_min_p": ROW_AND_SIZE,
    "truncation.dual": drafts_of_many(),
    "truncation.dual_bound": drafts_of_many(),
    "truncation.dual_gap": drafts_of_many(),
    "truncation.any_codec": reconstructed(),
    "truncation.any_codec_mean": reconstructed(),
    "truncation.any_codec_decoded": reconstructed(),
    "truncation.misdeclared": sampled_elsewhere(),
    **{f"truncation.partial_{name}": SIZED for name in PARTIAL_PAIRS},
    **{f"truncation.partial_{name}": ROW_AND_SIZE for name in PARTIAL_ROWS},
    "truncation.partial_draft": with_size(DRAWN),
    "truncation.partial_draft_least": with_size(DRAWN),
    **{f"truncation.partial_{name}": beside(PAIRS, error=ERROR) for name in ("box", "box_least", "box_attained")},
    **{
        f"truncation.partial_box_{name}": beside(ROW_AND_SIZE, error=ERROR) for name in ("deviation", "deviation_least")
    },
    **{f"truncation.partial_box_{name}": beside(SIZED, error=ERROR) for name in ("bias", "bias_least")},
    "truncation.multi_draft": drafted_often(),
    "truncation.multi_draft_certificate": drafted_often(),
    "truncation.multi_draft_single": drafted_often(),
}

TIGHT = {"target": [0.5, 0.25, 0.25], "draft": [0.625, 0.25, 0.125]}
OUTSIDE = {
    "D ≤ 2 max(Δ_k, q_d β_d)": {**TIGHT, "token": 0, "k": 1, "sharpness": 1.0},
    "q_d β_d > 0": {**TIGHT, "token": 1, "k": 1},
    "k* of (19) > 0": {**TIGHT, "distortion_tolerance": 1.0},
    "target ≠ draft for every token": {
        "targets": [TIGHT["draft"]],
        "drafts": [TIGHT["draft"]],
        "distortion_tolerance": 1e-6,
    },
    "k* of (21) > 0": {"targets": [TIGHT["target"]], "drafts": [TIGHT["draft"]], "distortion_tolerance": 9.0},
    "the certified size is not 0": {"draft": [0.25] * 4},
    "0 < TV(q, p) ≤ the mass that is sent": {**TIGHT, "k": 0},
    "d is among the k sent, and β_d > 0": {**TIGHT, "token": 0, "k": 0},
    "every r̂ exists: TV(q̂, p_i) > 2^-44, or nothing is rejected": {
        "target": [0.5, 0.25, 0.25],
        "draft": [0.5, 0.375, 0.125],
        "k": 1,
        "draft_count": 1,
    },
    "every r̂^(d) exists: TV(q̂^(d), p) > 2^-44, or d is not rejected": {
        "target": [0.5, 0.5],
        "draft": [0.25, 0.75],
        "decoded": [[0.5, 0.5], [0.5, 0.5]],
    },
    "every r̂^(d) exists: TV(q̂^(d), p) > 2^-44": {
        "target": [0.5, 0.5],
        "draft": [0.25, 0.75],
        "decoded": [[0.5, 0.5], [0.25, 0.75]],
    },
    "r̂ exists: TV(q̂, p) > 2^-44, or nothing is rejected": {
        "target": [0.5, 0.25, 0.25],
        "draft": [0.5, 0.375, 0.125],
        "actual_draft": [0.5, 0.25, 0.25],
        "k": 1,
    },
}
STRAYS = {
    "draft": [0.5, 0.25, 0.22],
    "target": [0.5, float("nan"), 0.5],
    "actual_draft": [0.5, 0.25, 0.22],
    "decoded": [[0.5, 0.25, 0.22]] * 3,
    "draft_count": 0,
    "token": 9,
    "k": 9999,
    "sharpness": 0.0,
    "distortion_tolerance": -0.1,
    "error": -0.5,
    "drafts": [[0.5, 0.25, 0.1, 0.1]],
    "targets": [[0.5, float("nan"), 0.5]],
    "top_k": [9999],
}


def test_tokens_that_agree_but_for_rounding_decide_nothing_offline():
    draft = np.random.default_rng(0).dirichlet(np.ones(50), size=20)
    target = draft.copy()
    target[:, 0] += np.spacing(target[:, 0])
    other = np.random.default_rng(1).dirichlet(np.ones(50), size=20)
    targets, drafts = (np.stack([one, two], axis=1) for one, two in ((target, other), (draft, draft[::-1])))
    tolerance = np.full(20, 0.1)
    for claim in CLAIMS:
        if claim.id in ("truncation.offline", "truncation.offline_least"):
            verdict = claim.check({"targets": targets, "drafts": drafts, "distortion_tolerance": tolerance})
            assert verdict.count(Status.VIOLATED) == 0
            verdict = claim.check({"targets": drafts, "drafts": drafts, "distortion_tolerance": tolerance})
            assert verdict.in_scope == 0
            assert "target ≠ draft for every token" in verdict.broken


@pytest.mark.parametrize("claim", [claim for claim in TRUE if ".dual" in claim.id], ids=by_id)
def test_budgets_in_a_batch_are_those_one_by_one(claim):
    """Two batches of three rows: each distribution has its own k."""
    drafts, top_k = np.random.default_rng(5).dirichlet(np.ones(4), size=(2, 3)), np.array([[0, 1, 2], [3, 1, 1]])
    whole = claim.check({"drafts": drafts, "top_k": top_k})
    for i in range(2):
        alone = claim.check({"drafts": drafts[i], "top_k": top_k[i]})
        assert (float(whole.lhs[i]), float(whole.rhs[i])) == (float(alone.lhs), float(alone.rhs))


AGREES = {claim.id: {**claim.refuted, "target": claim.refuted["draft"]} for claim in FALSE}
AGREES["truncation.any_codec_decoded"] = {
    "target": [0.5, 0.25, 0.25],
    "draft": [0.25, 0.25, 0.5],
    "decoded": [[0.25, 0.25, 0.5]] * 3,
}
"""For each false claim, where it is right."""

CLAIM_TABLE = ClaimTable(CLAIMS, STRATEGIES, STRAYS, AGREES, OUTSIDE)


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if "draft" in claim.takes], ids=by_id)
def test_nothing_is_claimed_of_no_instance(claim):
    instance = {name: np.asarray(value) for name, value in (claim.refuted or claim.attained.instance).items()}
    verdict = claim.check({name: np.zeros((0, *value.shape), value.dtype) for name, value in instance.items()})
    assert (verdict.instances, verdict.in_scope, verdict.holds) == (0, 0, False)
