"""The audit's controls: each defect is found, exact samplers are not accused, and the names are right."""

import pytest

from tests.validation.audit import controls
from tests.validation.audit.defects import DEFECTS
from validation.audit import KEPT, MECHANISMS, NOT_KEPT


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found_and_named(defect: str) -> None:
    draws = 10_000 if defect in ("zero_accepted", "draft_before_top_p") else 5_000  # the smallest of the distances
    found = controls.audit_defect(defect, seed=2, draws=draws)
    assert found.verdict == NOT_KEPT
    assert found.found_after <= found.draws <= draws
    assert 0 < found.at_least <= controls.distance_of_defect(defect, seed=2)
    assert found.witnesses
    assert [fit.name for fit in found.mechanisms or ()][:1] == [defect] * (defect in MECHANISMS)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        (name, setting)
        for i, name in enumerate(controls.EXACT)
        for setting in (controls.SETTINGS if name == "fixed K" else [controls.SETTINGS[i % 4]])
        if setting[0] or "shared" not in name  # greedy texts need no seed
    ],
)
def test_an_exact_sampler_is_not_accused(name: str, setting: tuple[float, float]) -> None:
    assert controls.accusations(name, *setting, seed=11, audits=3, each=96) == 0


@pytest.mark.parametrize("name", controls.SHARED)
def test_drafts_by_a_shared_seed_keep_the_law(name: str) -> None:
    found = controls.audit_shared(controls.SHARED[name], epsilon=0.2, seed=1)
    assert found.verdict == KEPT
    assert found.at_most <= 0.2


def test_skips_by_a_shared_seed_are_found() -> None:
    found = controls.audit_shared(lambda: controls.SkipsAll(2), 0.05, 1)
    assert found.verdict == NOT_KEPT
    assert 0 < found.at_least <= controls.distance_of_models()
