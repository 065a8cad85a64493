"""The defects that are built into the loop: their laws by enumeration, and that nothing of them stays behind."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from tests.validation.audit.controls import marginal
from tests.validation.audit.defects import DEFECTS, decode_by_matching, decode_with
from tests.validation.tiny_texts import (
    SAMPLED,
    distance,
    exact_law,
    grid,
    halves,
    law_of,
    nodes,
    quarters,
    table_pair,
)
from tests.validation.tiny_texts import Grid as GridNoise
from validation.audit import Processors, TableLaw
from validation.collection.prompts import Prompt
from validation.decoding.defect_laws import defective_law, processed
from validation.decoding.sampling import distributions_of

VOCABULARY, POSITIONS, END = 5, 4, frozenset({0})
DRAWS = 4_000
ON_GRID = (
    *("stale_draft", "residual_by_rank", "residual_not_normalised", "greedy_draft_ratio"),
    *("bonus_from_draft", "bonus_after_rejection", "end_passed_over", "cache_off_by_one"),
)
"""Defects whose probabilities are multiples of the grid's cells wherever those of the models are."""


def toy(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.full(VOCABULARY, 0.8), nodes(VOCABULARY, POSITIONS + 2))
    return 0.6 * rng.dirichlet(np.full(VOCABULARY, 0.8), len(target)) + 0.4 * target, target


def texts(defect: str | None, draws: int, seed: int, **options: Any) -> Counter[tuple[int, ...]]:
    draft, target = toy()
    prompts = [Prompt(str(i), "1", "toy") for i in range(draws)]
    settings = {"new_tokens": POSITIONS, "batch": draws, "seed": seed} | options
    pair = table_pair(draft, target, end_tokens=tuple(END))
    rows = decode_with(defect, pair, prompts, **settings) if defect else decode_by_matching(pair, prompts, **settings)
    return Counter(tuple(row.tokens) for row in rows)


def p_value(found: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    draws = found.total()
    if any(law.get(text, 0.0) == 0 for text in found):
        return 0.0
    common = [text for text, mass in law.items() if mass * draws >= 5]
    seen = np.array([found[text] for text in common] + [draws - sum(found[text] for text in common)], dtype=float)
    expected = np.array([law[text] * draws for text in common])
    expected = np.append(expected, max(draws - expected.sum(), 1e-9))
    return float(chi2.sf(np.sum((seen - expected) ** 2 / expected), len(common)))


def law_and_target(defect: str) -> tuple[dict[tuple[int, ...], float], dict[tuple[int, ...], float]]:
    draft, target = toy()
    info = DEFECTS[defect]
    setting = {"temperature": info.temperature, "top_p": info.top_p}
    if info.min_p:
        right = TableLaw(target, processors=Processors(min_p=info.min_p)).table[0]
        law = defective_law(defect, draft, right, POSITIONS, END, **setting, verified=target)
        return law, exact_law(right, POSITIONS, tuple(END))
    law = defective_law(defect, draft, target, POSITIONS, END, **setting)
    return law, exact_law(processed(target, **setting), POSITIONS, tuple(END))


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_loops_texts_have_the_enumerated_law_and_not_the_targets(defect: str) -> None:
    law, target = law_and_target(defect)
    found = texts(defect, DRAWS, seed=5)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert p_value(found, law) > 1e-3
    assert distance(law, target) > 0.002
    if defect != "zero_accepted":  # a total variation of .003 is not seen in so few draws
        assert p_value(found, target) < 1e-3
    else:
        assert any(text not in target for text in law)


@pytest.mark.parametrize("defect", ON_GRID)
def test_the_law_is_the_loops_to_the_last_digit_where_a_grid_of_numbers_is_exact(defect: str) -> None:
    rng = np.random.default_rng(41)
    count = nodes(3, 5)
    draft, target = halves(rng, count), quarters(rng, count)
    pair = table_pair(draft, target, end_tokens=(0,))
    numbers = grid(3, SAMPLED)
    prompts = [Prompt(str(i), "0", "grid") for i in range(len(numbers))]
    options: dict[str, Any] = {"noise": lambda seed, names, positions: GridNoise(numbers)}
    rows = decode_with(defect, pair, prompts, new_tokens=3, batch=len(numbers), **options)
    expected = defective_law(defect, draft, target, 3, frozenset({0}))
    assert distance(law_of(rows), expected) < 1e-12
    assert distance(expected, exact_law(target, 3, (0,))) > 0.05


def test_one_defect_is_right_at_depth_1_and_wrong_jointly() -> None:
    law, target = law_and_target("next_coin")
    assert distance(marginal(law, 1), marginal(target, 1)) < 1e-12
    assert distance(marginal(law, 2), marginal(target, 2)) > 0.01


def test_without_a_defect_the_enumeration_gives_the_targets_law() -> None:
    draft, target = toy(3)
    for temperature, top_p in ((1.0, 1.0), (0.7, 1.0), (1.0, 0.9)):
        law = defective_law(None, draft, target, POSITIONS, END, temperature=temperature, top_p=top_p)
        right = exact_law(processed(target, temperature, top_p), POSITIONS, tuple(END))
        assert distance(law, right) < 1e-12
        setting = {"temperature": temperature, "top_p": top_p}
        for most in (1, 2, 3):
            by_block = defective_law(
                None, draft, target, POSITIONS, END, max_draft_length=most, by_block=True, **setting
            )
            assert distance(by_block, right) < 1e-12


def test_the_enumerations_sampling_settings_are_the_loops() -> None:
    import torch

    _, target = toy()
    for temperature, top_p in ((0.0, 1.0), (0.7, 0.9), (1.0, 0.5), (1.3, 1.0)):
        theirs = distributions_of(torch.from_numpy(target).log(), temperature, top_p).numpy()
        np.testing.assert_allclose(processed(target, temperature, top_p), theirs, atol=1e-12)
