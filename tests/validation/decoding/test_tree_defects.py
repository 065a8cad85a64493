"""Defects in the verification of trees: each changes the law, the audit finds each, and it acquits the exact trees."""

from unittest.mock import patch

import numpy as np
import pytest

from tests.validation.audit.tree_defects import TREE_DEFECTS
from tests.validation.every_decision import Law, tree_law
from tests.validation.tiny_texts import distance, exact_law, nodes, table_pair
from validation.audit import NOT_KEPT, UNDECIDED, TableLaw, audit_sampler
from validation.audit.samplers import method_sampler
from validation.decoding.methods.trees import DraftTreeSd, NgramLookahead, TreeMethod
from validation.models.pair import Pair

LONGEST, LEVEL = 3, 0.001
CERTAIN = ("certain_stay",)
"""Defects of drafts that are chosen and not drawn."""


def method_for(defect: str) -> TreeMethod:
    """Return the smallest tree in which the defect can be seen."""
    if defect in CERTAIN:
        return NgramLookahead(2, 2, 2)
    return DraftTreeSd((1, 1) if defect == "parents_q" else (2,))


def positions_for(defect: str) -> int:
    """Return the shortest texts that show the defect: a wrong cache needs a second round."""
    return 3 if defect in ("first_nodes_kept", *CERTAIN) else 2


def prompt_for(defect: str) -> str:
    return "0 1 2 0 1" if defect in CERTAIN else "0"


def toy() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    target = rng.dirichlet(np.full(3, 0.8), nodes(3, LONGEST + 1))
    return 0.8 * rng.dirichlet(np.full(3, 0.8), len(target)) + 0.2 * target, target


def toy_pair(defect: str) -> Pair:
    return table_pair(*toy(), prompt=prompt_for(defect))


def found_law(defect: str, method: TreeMethod) -> Law:
    return tree_law(toy_pair(defect), method, positions_for(defect), prompt=prompt_for(defect))


def right_law(defect: str) -> Law:
    return exact_law(toy()[1], positions_for(defect))


@pytest.fixture(scope="module")
def distances():
    found = {}
    for name in TREE_DEFECTS:
        with patch.object(*TREE_DEFECTS[name]):
            found[name] = distance(found_law(name, method_for(name)), right_law(name))
    return found


@pytest.mark.parametrize("defect", TREE_DEFECTS)
def test_a_defect_changes_the_law_and_the_same_tree_without_it_does_not(distances, defect):
    assert distances[defect] > 0.01
    assert distance(found_law(defect, method_for(defect)), right_law(defect)) < 1e-12


@pytest.mark.parametrize("defect", TREE_DEFECTS)
def test_the_audit_finds_a_defect_and_acquits_the_same_tree_without_it(distances, defect):
    """With the loop's own random numbers; its lower bound is not above the enumerated distance."""
    pair, prompt = toy_pair(defect), prompt_for(defect)
    law = TableLaw(toy()[1][None], [[int(word) for word in prompt.split()]], ())
    setting = {"depth": positions_for(defect), "level": LEVEL, "epsilon": 1e-3, "seed": 3}
    with patch.object(*TREE_DEFECTS[defect]):
        wrong = method_sampler(pair, method_for(defect), [prompt], temperature=1.0, top_p=1.0)
        report = audit_sampler(law, wrong, draws=20_000, **setting)
    assert report.verdict == NOT_KEPT
    assert 0 < report.at_least <= distances[defect]
    right = method_sampler(pair, method_for(defect), [prompt], temperature=1.0, top_p=1.0)
    assert audit_sampler(law, right, draws=1_000, **setting).verdict == UNDECIDED
