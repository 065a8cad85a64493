"""The defects that are built into the loop: their laws over every random number, which the audit's recursion gives."""

import itertools

import numpy as np
import pytest

from tests.validation.audit.defects import decode_with
from tests.validation.tiny_texts import SAMPLED, distance, exact_law, grid, halves, law_of, nodes, quarters, table_pair
from tests.validation.tiny_texts import Grid as GridNoise
from validation.audit import TableLaw
from validation.audit.mechanisms import local_likelihoods
from validation.collection.prompts import Prompt

LOCAL = ("stale_draft", "residual_by_rank", "residual_not_normalised", "greedy_draft_ratio", "bonus_from_draft")
ON_GRID = (*LOCAL, "end_passed_over")
"""Defects whose probabilities are multiples of the grid's cells wherever those of the models are."""
V, D = 3, 3


def read(text: tuple[int, ...]) -> tuple[int, ...]:
    """Return a text as the audit reads it: "nothing" behind its end, where only end-of-text tokens follow."""
    end = text.index(0) if 0 in text else D
    known = text[: end + 1] if not any(text[end:]) else text
    return (*known, *[V] * (D - len(known)))


@pytest.mark.parametrize("defect", ON_GRID)
def test_the_recursion_gives_the_loops_law_and_the_law_is_not_the_targets(defect):
    rng = np.random.default_rng(41)
    draft, target = halves(rng, nodes(V, 5)), quarters(rng, nodes(V, 5))
    pair = table_pair(draft, target, end_tokens=(0,))
    numbers = grid(D, SAMPLED)
    prompts = [Prompt(str(i), "0", "grid") for i in range(len(numbers))]
    options = {"noise": lambda seed, names, positions: GridNoise(numbers)}
    found = law_of(decode_with(defect, pair, prompts, new_tokens=D, batch=len(numbers), **options))
    assert distance(found, exact_law(target, D, (0,))) > 0.05
    laws = [TableLaw(rows, [[0]], (0,)) for rows in (target, draft)]
    texts = np.array(list(itertools.product(range(V + 1), repeat=D)))
    by_key = dict(local_likelihoods(*laws, 0, texts, D))
    expected = {}
    for text, mass in found.items():
        expected[read(text)] = expected.get(read(text), 0.0) + mass
    likelihood = by_key[defect, "K = 2 "]
    for text, mass in zip(map(tuple, texts.tolist()), likelihood.tolist(), strict=True):
        if read(tuple(token for token in text if token < V)) == text:
            assert mass == pytest.approx(expected.get(text, 0.0), abs=1e-12)
