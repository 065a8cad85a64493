"""Defects in the verification of trees: each changes the law."""

from __future__ import annotations

import numpy as np
import pytest

from tests.validation.audit.tree_defects import TREE_DEFECTS, with_tree_defect
from tests.validation.every_decision import tree_law
from tests.validation.tiny_texts import distance, exact_law, nodes, table_pair
from validation.decoding.methods.trees import DraftTreeSd, NgramLookahead, TreeMethod

LONGEST = 3
CERTAIN = ("certain_stay",)
"""Defects of drafts that are chosen and not drawn."""


def method_for(defect: str) -> TreeMethod:
    if defect in CERTAIN:
        return NgramLookahead(2, 2, 2)
    return DraftTreeSd((1, 1) if defect == "parents_q" else (2,))


def positions_for(defect: str) -> int:
    return 3 if defect in ("first_nodes_kept", *CERTAIN) else 2


def prompt_for(defect: str) -> str:
    return "0 1 2 0 1" if defect in CERTAIN else "0"


def toy() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    target = rng.dirichlet(np.full(3, 0.8), nodes(3, LONGEST + 1))
    return 0.8 * rng.dirichlet(np.full(3, 0.8), len(target)) + 0.2 * target, target


@pytest.mark.parametrize("defect", TREE_DEFECTS)
def test_a_defect_changes_the_law_and_the_same_tree_without_it_does_not(defect: str) -> None:
    prompt, positions = prompt_for(defect), positions_for(defect)
    right = exact_law(toy()[1], positions)
    pair = table_pair(*toy(), prompt=prompt)
    with with_tree_defect(defect, method_for(defect)) as method:
        assert distance(tree_law(pair, method, positions, prompt=prompt), right) > 0.01
    assert distance(tree_law(pair, method_for(defect), positions, prompt=prompt), right) < 1e-12
