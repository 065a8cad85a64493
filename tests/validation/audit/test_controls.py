"""The audit's controls: each defect is found, exact samplers are not accused, and the names are right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.validation.audit import controls
from tests.validation.audit.defects import DEFECTS
from validation.audit import KEPT, MECHANISMS, NOT_KEPT

NAMED = tuple(name for name in DEFECTS if name in MECHANISMS)
"""All but one, which is right at depth 1 and is no known mechanism."""


NEED_TABLES = ("bonus_after_rejection", "cache_off_by_one", "block_token_rule")
"""Mechanisms that are named only from tables: they need the target's rows behind a rejected draft."""


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found_and_named(defect: str) -> None:
    found = controls.audit_defect(defect, seed=2, draws=10_000, as_table=defect in NEED_TABLES)
    assert found.verdict == NOT_KEPT
    assert found.found_after <= found.draws <= 10_000
    assert 0 < found.at_least <= controls.true_distance(defect, 2)
    assert [fit.name for fit in found.mechanisms or ()][:1] == [defect] * (defect in NAMED)


def test_a_name_from_rows_has_the_likelihood_of_the_one_from_an_enumeration() -> None:
    found = [controls.audit_defect("noise_reused", seed=2, draws=2_000, as_table=kind) for kind in (True, False)]
    first, second = (each.mechanisms[0] for each in found if each.mechanisms)
    assert first.name == second.name == "noise_reused"
    assert first.gain == pytest.approx(second.gain, rel=1e-9)


@pytest.mark.parametrize("exact", controls.EXACT, ids=lambda one: f"{one.name} {one.temperature:g} {one.top_p:g}")
def test_an_exact_sampler_is_not_accused(exact: Any) -> None:
    assert controls.accusations(exact, seed=11, audits=3, each=96) == 0


def test_the_exact_samplers_are_all_lossless_methods_at_every_setting() -> None:
    from validation.decoding.methods import METHODS

    names = {exact.name.split(",")[0] for exact in controls.EXACT}
    assert len(controls.EXACT) == 28
    made = [exact.make() for exact in controls.EXACT if exact.make is not None]
    assert all(any(issubclass(type(one), info.method) for one in made) for info in METHODS.values() if lossless(info))
    assert {"sample-and-match", "Rand-HLM"} <= names


def lossless(info: Any) -> bool:
    """Return whether a registered method verifies every token by the exact rule; a plan need not.

    Methods that read the target's hidden states cannot run on tables.
    """
    lossy = ("small only", "U-HLM", "CU-HLM", "printed acceptance", "Planned", "DSSD certified")
    return not any(part in info.name for part in lossy) and not getattr(info.method, "wants_features", False)


@pytest.mark.parametrize("exact", controls.SHARED, ids=lambda one: one[0])
def test_drafts_by_a_shared_seed_keep_the_law(exact: Any) -> None:
    found = controls.audit_shared(*exact, epsilon=0.2, seed=1)
    assert found.verdict == KEPT
    assert found.at_most <= 0.2


def test_skips_by_a_shared_seed_are_found() -> None:
    found = controls.audit_shared(controls.SKIPS_ALL, lambda: controls.SkipsAll(2), 0.05, 1)
    assert found.verdict == NOT_KEPT
    assert 0 < found.at_least <= controls.distance_of_models()
