"""The audit's controls: each defect is found, exact samplers are not accused, and the names are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.validation.audit import controls
from tests.validation.audit.defects import DEFECTS
from tests.validation.tiny_texts import exact_law
from validation.audit import KEPT, MECHANISMS, NOT_KEPT, Audit
from validation.decoding.defect_laws import defective_law

NAMED = tuple(name for name in DEFECTS if name in MECHANISMS)
"""All but one, which is right at depth 1 and is no known mechanism."""


NEED_TABLES = ("bonus_after_rejection", "cache_off_by_one", "block_token_rule")
"""Mechanisms that are named only from tables: they need the target's rows behind a rejected draft."""


def test_the_defects_bear_the_names_of_the_mechanisms() -> None:
    assert set(DEFECTS) - set(NAMED) == {"next_coin"}
    assert set(MECHANISMS) - set(NAMED) == {"penalty_dropped"}  # the loop has no penalty; see test_mechanisms.py


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found_and_named(defect: str) -> None:
    found = controls.audit_defect(defect, seed=2, draws=10_000, as_table=defect in NEED_TABLES)
    assert found["verdict"] == NOT_KEPT
    assert found["found_after"] <= found["draws"] <= 10_000
    assert 0 < found["at_least"] <= found["truth"]["joint"]
    assert [name for name, _, _ in found["mechanisms"]][:1] == [defect] * (defect in NAMED)


def test_a_name_from_rows_has_the_likelihood_of_the_one_from_an_enumeration() -> None:
    found = [controls.audit_defect("noise_reused", seed=2, draws=2_000, as_table=kind) for kind in (True, False)]
    (first, _, one), (second, _, other) = (each["mechanisms"][0] for each in found)
    assert first == second == "noise_reused"
    assert one == pytest.approx(other, rel=1e-9)


def test_the_branches_are_the_laws_behind_a_prompts_second_token() -> None:
    _, target = controls.tables()
    whole = exact_law(target, 3)
    for token in (2, 3):
        rows = controls.branch(target, token)
        for text, mass in exact_law(rows, 2).items():
            share = sum(part for other, part in whole.items() if other[0] == token)
            assert whole[(token, *text)] == pytest.approx(mass * share, rel=1e-12)


@pytest.mark.parametrize("exact", controls.EXACT, ids=lambda one: f"{one.name}, {one.setting}")
def test_an_exact_sampler_is_not_accused(exact: Any) -> None:
    found = controls.audit_exact(exact, seed=11, audits=3, each=96)
    assert found["accused"]["0.001"] == 0


def test_the_exact_samplers_are_all_lossless_methods_at_every_setting() -> None:
    from validation.decoding.methods import METHODS

    names = {exact.name.split(",")[0] for exact in controls.EXACT}
    assert len(controls.EXACT) == 28
    assert {exact.setting for exact in controls.EXACT if exact.name == "fixed K"} == {
        *("temperature 1", "temperature 0.7", "top-p 0.9", "greedy")
    }
    made = [exact.make() for exact in controls.EXACT if exact.make is not None]
    assert all(any(issubclass(type(one), info.method) for one in made) for info in METHODS.values() if lossless(info))
    assert {"sample-and-match", "Rand-HLM"} <= names


def lossless(info: Any) -> bool:
    """Return whether a registered method verifies every token by the exact rule; a plan need not.

    Methods that read the target's hidden states cannot run on tables.
    """
    lossy = ("small only", "U-HLM", "CU-HLM", "printed acceptance", "Planned", "DSSD certified")
    return not any(part in info.name for part in lossy) and not getattr(info.method, "wants_features", False)


def test_an_audit_that_is_copied_shares_the_law_and_nothing_else() -> None:
    target = controls.law(controls.tables()[1], 1.0, 1.0, controls.PROMPTS[:1])
    fresh = Audit(target, controls.DEPTH, 0.05)
    draws = next(iter(controls.draws_of(controls.EXACT[0].sampler(), target, 1, 96, seed=2)))
    first, second = controls.copied(fresh), Audit(target, controls.DEPTH, 0.05)
    first.update(0, draws)
    second.update(0, draws)
    assert first.report().bounds == second.report().bounds
    assert fresh.draws == 0
    assert first.law is target


@pytest.mark.parametrize("exact", controls.SHARED, ids=lambda one: one[0])
def test_drafts_by_a_shared_seed_keep_the_law(exact: Any) -> None:
    found = controls.audit_shared(*exact, epsilon=0.2, seed=1)
    assert found["verdict"] == KEPT
    assert found["at_most"] <= 0.2


def test_skips_by_a_shared_seed_are_found() -> None:
    found = controls.audit_shared(controls.SKIPS_ALL, lambda: controls.SharedSeedSkipping(2.0, 2, draws=None), 0.05, 1)
    assert found["verdict"] == NOT_KEPT
    assert 0 < found["at_least"] <= controls.distance_of_models()


def test_the_laws_of_two_defects_differ_so_that_a_name_can_be_right() -> None:
    q, p = (controls.branch(table, 2) for table in controls.tables())
    ends = frozenset({controls.END})
    plain = [name for name in NAMED if DEFECTS[name].top_p == 1 and not DEFECTS[name].min_p]
    laws = {name: defective_law(name, q, p, controls.DEPTH, ends) for name in plain}
    texts = sorted({text for law in laws.values() for text in law})
    rows = np.array([[law.get(text, 0.0) for text in texts] for law in laws.values()])
    apart = 0.5 * np.abs(rows[:, None] - rows[None]).sum(axis=-1)
    at_run = [i for i, name in enumerate(laws) if DEFECTS[name].temperature == 1]
    for i in at_run:
        assert min(apart[i, j] for j in at_run if j != i) > 0.02
