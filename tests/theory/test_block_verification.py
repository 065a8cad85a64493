"""Block verification: the law by enumeration in fractions, the paper's example, and what another q or a skip breaks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import strategies as st

import hlmtheory
from hlmtheory.verification import acceptance_rate, block_acceptance, block_weights

from .strategies import grid_rows

KNOWN = hlmtheory.all_claims()


# ------------------------------------------------------------------------------------------ all cases, in fractions


def exactly(rows):
    """Return rows in exact fractions that sum to 1."""
    found = [[Fraction(float(x)) for x in row] for row in rows]
    return [[x / sum(row) for x in row] for row in found]


def node(text, size):
    place = 0
    for token in text:
        place = place * size + token + 1
    return place


def product(rows, text, size):
    return math.prod((rows[node(text[:i], size)][v] for i, v in enumerate(text)), start=Fraction(1))


def one_round(p, q, drafts, size):
    """Yield each number of kept drafts with its probability and the law of the next token; None after all drafts."""
    weights = [Fraction(1)]
    for i, v in enumerate(drafts):
        at_q = q[node(drafts[:i], size)][v]
        ratio = weights[-1] * p[node(drafts[:i], size)][v] / at_q if at_q else Fraction(1)
        weights.append(min(Fraction(1), ratio))
    left = weights[-1]
    yield len(drafts), left, None
    reached = 1 - left
    for i in reversed(range(len(drafts))):
        here = node(drafts[:i], size)
        rest = [max(weights[i] * a - b, Fraction(0)) for a, b in zip(p[here], q[here], strict=True)]
        below = sum(rest) + 1 - weights[i]
        passes = sum(rest) / below if below and i else Fraction(1)
        if reached * passes:
            yield i, reached * passes, [x / sum(rest) for x in rest]
        reached *= 1 - passes


def law_by_cases(p, q, drawn, size, depth):
    """Return the law of the texts and the mean tokens of a round: all drafts, each block passes or not."""
    law, mean = dict.fromkeys(itertools.product(range(size), repeat=depth), Fraction(0)), Fraction(0)
    for drafts in list(law):
        chance = product(drawn, drafts, size)
        for kept, mass, rest in one_round(p, q, drafts, size) if chance else ():
            mean += chance * mass * (kept + 1)
            if rest is None:
                law[drafts] += chance * mass
                continue
            for text in law:
                if text[:kept] == drafts[:kept]:
                    own = product(p, text, size) / product(p, text[: kept + 1], size) if product(p, text, size) else 0
                    law[text] += chance * mass * rest[text[kept]] * own
    return law, mean


@st.composite
def trees(draw, count):
    size, depth = draw(st.sampled_from([(1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2)]))
    rows = sum(size**level for level in range(depth))
    return size, depth, [draw(grid_rows((rows,), size)) for _ in range(count)]


# ---------------------------------------------------------------------------------------------------------- cases


def test_the_papers_example_of_two_drafts():
    """Two drafts, q = (2/3, 1/3) and p = (1/3, 2/3): 10/9 drafts are accepted token by token, and 11/9 by block."""
    instance = {"targets": [[1 / 3, 2 / 3]] * 3, "drafts": [[2 / 3, 1 / 3]] * 3}
    verdict = KNOWN["verification.block_never_loses"].check(instance)
    assert float(verdict.lhs) == pytest.approx(1 + 10 / 9, abs=1e-12)
    assert float(verdict.rhs) == pytest.approx(1 + 11 / 9, abs=1e-12)


def test_one_draft_is_verified_as_token_by_token():
    verdict = KNOWN["verification.block_tokens"].check({"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]]})
    assert float(verdict.lhs) == 1 + float(acceptance_rate([0.25, 0.75], [0.5, 0.5]))


def test_a_block_may_pass_although_its_first_draft_would_be_rejected_alone():
    """The ratio of the second draft makes up for that of the first: both are kept with probability 1."""
    rows = [[0.25, 0.75], [0.75, 0.25]], [[0.5, 0.5], [0.25, 0.75]], [0, 0]
    assert block_weights(*rows).tolist() == [0.5, 1.0]
    assert block_acceptance(*rows)[1] == 1.0
