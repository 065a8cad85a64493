"""The claims notice a broken public function: each function is broken on purpose, and its claim then fails."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hlmtheory.truncation.budget import optimal_sizes

import hlmtheory
from hlmtheory import lattice, truncation, uncertainty
from hlmtheory.claims import Status
from hlmtheory.codec import enumerative
from hlmtheory.conformal import ThresholdController, controller
from hlmtheory.truncation.softplus import softplus_distance
from hlmtheory.uncertainty import quadrature


def put_in_place(monkeypatch, function, by):
    """Replace a function everywhere in the package, by its name."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "hlmtheory":
            for key, value in list(vars(module).items()):
                if value is function:
                    monkeypatch.setattr(module, key, by)


def statuses(claim, function=None, by=None, instance=None):
    """Return the claim's verdict on an instance, by default the attained one, with the function replaced."""
    sides = {side: by for side in ("lhs", "rhs") if function is not None and getattr(claim, side) is function}
    return set(replace(claim, **sides).check(instance or claim.attained.instance).status.flat)


def check_noticed(monkeypatch, claim_id, function, by, instance=None):
    """The claim holds, and no longer holds when the function is replaced."""
    claim = hlmtheory.all_claims()[claim_id]
    assert statuses(claim, instance=instance) == {Status.HOLDS}
    put_in_place(monkeypatch, function, by)
    assert Status.VIOLATED in statuses(claim, function, by, instance)


# ------------------------------------------------------------------------------------------------------ conformal

TIED = {
    "drafts": [[[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], [[0.75, 0.25, 0.0], [0.25, 0.25, 0.5]]],
    "accepted": [1, 2],
    "epsilon": 0.25,
    "learning_rate": 0.5,
    "threshold": 0.25,
}
WOUND_UP = {**TIED, "threshold": 2.0, "learning_rate": 4.0}


def strictly_above(draft, threshold):
    """A support without the tokens that equal the threshold."""
    draft = np.asarray(draft)
    return (draft > np.asarray(threshold)[..., None]) | (np.arange(draft.shape[-1]) == np.argmax(draft, axis=-1))


def without_the_top(draft, threshold):
    """A support that may be empty."""
    return np.asarray(draft) >= np.asarray(threshold)[..., None]


def everything(draft, threshold):
    """A support that drops nothing."""
    return np.ones(np.shape(draft), dtype=bool)


def test_an_empty_support_is_noticed(monkeypatch):
    check_noticed(monkeypatch, "conformal.update", controller.threshold_support, without_the_top, WOUND_UP)


def slower(self, draft):
    """Half the step of (8)."""
    before, support = self.threshold, STEP(self, draft)
    self._history[-1] = (before + self._history[-1]) / 2.0
    return support


def stuck(self, draft):
    """No update at all."""
    support = STEP(self, draft)
    self._history[-1] = self._history[-2]
    return support


def without_clip(self, draft):
    """Ignore the clip."""
    asked, self._clip = self._clip, False
    support = STEP(self, draft)
    self._clip = asked
    return support


def rolls_back_too_far(self, accepted, *, printed=False):
    """Lose the update of the rejected position."""
    return ROLL_BACK(self, accepted, printed=True)


def keeps_all(self, accepted, *, printed=False):
    """Roll nothing back."""
    self._history = self._history[-1:]
    return self.threshold


STEP, ROLL_BACK = ThresholdController.step, ThresholdController.roll_back
PEAKED = {"drafts": [[1.0, 0.0]] * 40, "epsilon": 0.5, "learning_rate": 0.5, "threshold": 0.0}
REJECTED_FLAT = {"drafts": [[[1 / 128] * 128] * 2] * 40, "accepted": [0] * 40, "epsilon": 0.01, "learning_rate": 1.0}


# --------------------------------------------------------------------------------------- lattice, codec, truncation


def one_token(draft, budget_bits, *, adaptive=True):
    """The smallest allocation, reported as without distortion and without bits."""
    ones = np.ones(np.shape(draft)[:-1], dtype=np.int64)
    return lattice.Allocation(k=ones, resolution=ones, distortion=0.0 * ones, bits=0.0 * ones)


def twice_as_fine(draft, budget_bits, *, adaptive=True):
    """An allocation beyond its budget."""
    found = ALLOCATE(draft, budget_bits, adaptive=adaptive)
    return replace(found, resolution=8 * found.resolution)


ALLOCATE = lattice.allocate


QUANTIZE = lattice.quantize


def to_the_first(draft, *, support, resolution):
    """Counts that sum to ℓ, with all missing units given to one token."""
    found = QUANTIZE(draft, support=support, resolution=resolution)
    return np.where(
        np.arange(found.shape[-1]) == np.argmax(support, axis=-1)[..., None], found.sum(-1, keepdims=True), 0
    )


def one_too_many(draft, *, support, resolution):
    """Counts that sum to ℓ + 1."""
    found = QUANTIZE(draft, support=support, resolution=resolution)
    return found + (np.arange(found.shape[-1]) == np.argmax(found, axis=-1)[..., None])


SKEWED = {"draft": [0.25, 0.25, 0.5], "k": 3}


@pytest.mark.parametrize(
    ("claim_id", "by", "instance"),
    [
        ("lattice.nearest", to_the_first, {**SKEWED, "counts": [1, 1, 2]}),
        ("lattice.nearest", one_too_many, {**SKEWED, "counts": [1, 1, 2]}),
        ("lattice.distortion", to_the_first, {**SKEWED, "resolution": 4}),
        ("lattice.distortion_sharp", to_the_first, {**SKEWED, "resolution": 4}),
    ],
)
def test_a_broken_quantizer_is_noticed(monkeypatch, claim_id, by, instance):
    check_noticed(monkeypatch, claim_id, QUANTIZE, by, instance)


OPTIMAL = optimal_sizes


def nothing_sent(draft_rows, budget_bits, *, bits_per_probability=8, exact=False):
    """No entries, with the total and the bound of the right answer."""
    found = OPTIMAL(draft_rows, budget_bits, bits_per_probability=bits_per_probability, exact=exact)
    return replace(found, k=0 * found.k)


def everything_sent(draft_rows, budget_bits, *, bits_per_probability=8, exact=False):
    """All entries, whatever the budget."""
    found = OPTIMAL(draft_rows, budget_bits, bits_per_probability=bits_per_probability, exact=exact)
    return replace(found, k=0 * found.k + np.shape(draft_rows)[-1])


def low_bound(draft_rows, budget_bits, *, bits_per_probability=8, exact=False):
    """A "lower bound" that exceeds the total."""
    found = OPTIMAL(draft_rows, budget_bits, bits_per_probability=bits_per_probability, exact=exact)
    return replace(found, lower_bound=found.total + 0.1)


SOFTPLUS_GAP, SOFTPLUS_DISTANCE = truncation.softplus_gap, softplus_distance


def half_the_states(message):
    """A coder that counts half of the batches, so that two batches share a number."""
    index, states = INDEX_OF(message)
    return index % max(states // 2, 1), max(states // 2, 1)


def too_many_states(message):
    """A coder that takes one byte too many."""
    index, states = INDEX_OF(message)
    return index, 256 * states


INDEX_OF = enumerative.index_of


def test_a_draft_whose_residual_is_0_by_0_is_within_the_certificate():
    claim = hlmtheory.all_claims()["truncation.certificate_by_draft"]
    verdict = claim.check({"target": [0.6, 0.2, 0.2], "draft": [0.6, 0.3, 0.1], "top_k": [1, 1, 1]})
    assert verdict.holds
    assert float(verdict.lhs / verdict.rhs) == pytest.approx(1.0)


# ---------------------------------------------------------------------------------------------------- uncertainty

QUICK, EXPECTED, VOCABULARY = (
    quadrature.quick_rule,
    uncertainty.expected_uncertainty,
    uncertainty.vocabulary_uncertainty,
)
OF_THREE = {"logits": [1.0, 0.0, -1.0], "token": 1}


def hotter():
    """The quick rule with its weights at other nodes: E[u] of the first token of (1, 0, -1) is off by a tenth."""
    fractions, weights = zip(*QUICK(), strict=True)
    return tuple(zip((fraction**0.25 for fraction in fractions), weights, strict=True))


def light():
    """Weights that do not sum to 1."""
    return tuple((fraction, 0.9 * weight) for fraction, weight in QUICK())


def off_by_a_hundredth(logits, draft_token, *, max_temperature=2.0):
    """E[u] that is too small by a hundredth."""
    return EXPECTED(logits, draft_token, max_temperature=max_temperature) - 0.01


def by_rank(logits, *, max_temperature=2.0):
    """The uncertainties in another order."""
    return VOCABULARY(logits, max_temperature=max_temperature)[..., ::-1]
