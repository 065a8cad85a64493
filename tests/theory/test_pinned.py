"""The claims notice a broken public function: each function is broken on purpose, and its claim then fails."""

import inspect
import sys
from dataclasses import replace

import numpy as np
import pytest

import hlmtheory
from hlmtheory import lattice
from hlmtheory.claims import Sides, Status, _applied
from hlmtheory.conformal import controller


def put_in_place(monkeypatch, function, by):
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "hlmtheory":
            for key, value in list(vars(module).items()):
                if value is function:
                    monkeypatch.setattr(module, key, by)


def statuses(claim, function=None, by=None, instance=None):
    """Return the claim's verdict on an instance, by default the attained one, with the function replaced."""
    held = inspect.getclosurevars(claim.sides).nonlocals.get("sides")
    if function is not None and held is not None:
        parts = (by if side is function else side for side in held[1:])
        claim = replace(claim, sides=_applied(Sides(held.relation, *parts)))
    return set(claim.check(instance or claim.attained.instance).status.flat)


def check_noticed(monkeypatch, claim_id, function, by, instance=None):
    """The claim holds, and no longer holds when the function is replaced."""
    claim = hlmtheory.all_claims()[claim_id]
    assert statuses(claim, instance=instance) == {Status.HOLDS}
    put_in_place(monkeypatch, function, by)
    assert Status.VIOLATED in statuses(claim, function, by, instance)


TIED = {
    "drafts": [[[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], [[0.75, 0.25, 0.0], [0.25, 0.25, 0.5]]],
    "accepted": [1, 2],
    "epsilon": 0.25,
    "learning_rate": 0.5,
    "threshold": 0.25,
}
WOUND_UP = {**TIED, "threshold": 2.0, "learning_rate": 4.0}


def without_the_top(draft, threshold):
    return np.asarray(draft) >= np.asarray(threshold)[..., None]


def test_an_empty_support_is_noticed(monkeypatch):
    check_noticed(monkeypatch, "conformal.update", controller.threshold_support, without_the_top, WOUND_UP)


QUANTIZE = lattice.quantize


def to_the_first(draft, *, support, resolution):
    """Counts that sum to ℓ, with all missing units given to one token."""
    found = QUANTIZE(draft, support=support, resolution=resolution)
    return np.where(
        np.arange(found.shape[-1]) == np.argmax(support, axis=-1)[..., None], found.sum(-1, keepdims=True), 0
    )


def one_too_many(draft, *, support, resolution):
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


def test_a_draft_whose_residual_is_0_by_0_is_within_the_certificate():
    claim = hlmtheory.all_claims()["truncation.certificate_by_draft"]
    verdict = claim.check({"target": [0.6, 0.2, 0.2], "draft": [0.6, 0.3, 0.1], "top_k": [1, 1, 1]})
    assert verdict.holds
    assert float(verdict.lhs / verdict.rhs) == pytest.approx(1.0)
