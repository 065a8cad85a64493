"""Lossless methods with top-p and at temperature 0: the exact law of every text of a tiny vocabulary.

``test_loop.py`` tests the same at temperature 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.validation.tiny_texts import (
    SAMPLED,
    all_texts,
    distance,
    exact_law,
    halves,
    law_of,
    nodes,
    quarters,
    table_pair,
)
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength, FlexSpec, Lookahead, PromptLookup
from validation.decoding.methods.quantized import AllocatedSqs, BudgetedCSqs, BudgetedSqs, CSqs, DenseQs, KSqs
from validation.decoding.methods.single_draft import CloudOnly, Hlm, RandHlm, TargetOnly
from validation.decoding.random_streams import ACCEPT, DRAFT, REPLACE, SKIP

Make = Callable[[], Method]
ONE_SMALL: dict[str, Any] = {"resolution": 2, "budget_bits": 12.0}
STEERED: dict[str, Any] = {"learning_rate": 0.2, "epsilon": 0.2, **ONE_SMALL}

FROM_ROWS: list[Make] = [
    Hlm,
    lambda: RandHlm(0.0),
    lambda: FixedLength(2),
    lambda: Dssd(2),
    lambda: FlexSpec("exact", max_draft_length=2),
    lambda: FlexSpec("linear", max_draft_length=2),
]
CERTAIN: list[tuple[Make, str]] = [
    (TargetOnly, "0"),
    (CloudOnly, "0"),
    (lambda: PromptLookup(2, 2), "0 1 2 0 1"),
    (lambda: Lookahead(2), "0 1"),
]
FROM_LATTICES: list[Make] = [
    lambda: DenseQs(**ONE_SMALL),
    lambda: KSqs(2, **ONE_SMALL),
    lambda: KSqs(2, resolution=2, budget_bits=120.0, by_bytes=True),
    lambda: CSqs(0.3, **STEERED),
    lambda: CSqs(0.3, printed=True, **STEERED),
    lambda: CSqs(0.3, learning_rate=0.0, **ONE_SMALL),
    lambda: BudgetedSqs(epsilon=0.2, **ONE_SMALL),
    lambda: BudgetedCSqs(0.3, **STEERED),
]


def with_tails(rows: np.ndarray) -> np.ndarray:
    """Distributions of which top-p 0.9 keeps the given tokens; the other tokens share 0.08."""
    none = rows == 0
    count = none.sum(axis=1, keepdims=True)
    return np.where(count > 0, 0.92 * rows + 0.08 * none / np.maximum(count, 1), rows)


def any_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.dirichlet(np.ones(3), count)


def check(make: Make, draft: np.ndarray, target: np.ndarray, cells: dict[int, int], prompt: str, places: int) -> None:
    """Assert that texts have the law of the target cut by top-p, which differs from the target's and the draft's."""
    whole = with_tails(target)
    pair = table_pair(draft, whole, prompt=prompt)
    law = law_of(all_texts(pair, make(), places, cells, prompt=prompt, top_p=0.9))
    assert distance(law, exact_law(target, places)) < 1e-12
    assert distance(law, exact_law(whole, places)) > 0.04
    assert distance(law, exact_law(draft, places)) > 0.1


@pytest.mark.parametrize("make", FROM_ROWS)
def test_top_p_texts_with_drafts_from_rows_have_the_law_of_the_cut_rows(make: Make) -> None:
    rng = np.random.default_rng(3)
    draft, target = with_tails(halves(rng, nodes(3, 2))), quarters(rng, nodes(3, 2))
    check(make, draft, target, SAMPLED, "0", 2)


@pytest.mark.parametrize(("make", "prompt"), CERTAIN)
def test_top_p_texts_with_certain_drafts_have_the_law_of_the_cut_rows(make: Make, prompt: str) -> None:
    rng = np.random.default_rng(4)
    draft, target = any_rows(rng, nodes(3, 3)), halves(rng, nodes(3, 3))
    check(make, draft, target, {ACCEPT: 2, REPLACE: 2}, prompt, 3)


@pytest.mark.parametrize("make", FROM_LATTICES)
def test_top_p_texts_with_quantised_drafts_have_the_law_of_the_cut_rows(make: Make) -> None:
    rng = np.random.default_rng(5)
    draft, target = any_rows(rng, nodes(3, 2)), halves(rng, nodes(3, 2))
    check(make, draft, target, {DRAFT: 2, ACCEPT: 2, REPLACE: 2}, "0", 2)


def test_top_p_texts_with_an_allocated_lattice_have_the_law_of_the_cut_rows() -> None:
    rng = np.random.default_rng(6)
    draft, target = any_rows(rng, 1), halves(rng, 1)  # 6 bits are enough for two or three tokens in quarters
    cells = {DRAFT: 4, ACCEPT: 6, REPLACE: 6}
    check(lambda: AllocatedSqs(6.0, budget_bits=12.0), draft, target, cells, "0", 1)


@pytest.mark.parametrize(
    ("make", "prompt"),
    [
        *((make, "0") for make in (*FROM_ROWS, *FROM_LATTICES)),
        *CERTAIN,
        (lambda: AllocatedSqs(6.0, budget_bits=12.0), "0"),
        (lambda: FlexSpec("exact", printed_acceptance=True, max_draft_length=2), "0"),
        (lambda: FlexSpec("linear", printed_acceptance=True, max_draft_length=2), "0"),
    ],
)
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_at_temperature_0_the_numbers_decide_nothing(make: Make, prompt: str, top_p: float) -> None:
    rng = np.random.default_rng(7)
    draft, target = any_rows(rng, nodes(3, 3)), any_rows(rng, nodes(3, 3))
    pair = table_pair(draft, target, prompt=prompt)
    cells = {DRAFT: 2, ACCEPT: 2, REPLACE: 1, SKIP: 1}
    rows = all_texts(pair, make(), 3, cells, prompt=prompt, temperature=0.0, top_p=top_p)
    greedy, own, node, other = [], [], 0, 0
    for _ in range(3):
        greedy.append(int(target[node].argmax()))
        own.append(int(draft[other].argmax()))
        node, other = 3 * node + greedy[-1] + 1, 3 * other + own[-1] + 1
    assert greedy != own
    assert {tuple(row.tokens) for row in rows} == {tuple(greedy)}
