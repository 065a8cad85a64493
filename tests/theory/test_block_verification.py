"""Block verification: the law by enumeration in fractions, the paper's example, and what another q or a skip breaks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory.verification import acceptance_rate, block_acceptance, block_residual, block_weights
from hlmtheory.verification.block_claims import block_distribution

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


@given(trees(2))
def test_the_law_is_the_targets_in_all_cases_and_no_round_has_fewer_tokens(drawn):
    size, depth, (targets, drafts) = drawn
    p, q = exactly(targets), exactly(drafts)
    law, mean = law_by_cases(p, q, q, size, depth)
    positive = all(x for row in p for x in row)  # else a text of probability 0 has no tail
    if positive:
        assert law == {text: product(p, text, size) for text in law}
    np.testing.assert_allclose(block_distribution(targets, drafts), [float(x) for x in law.values()], atol=1e-14)
    verdict = KNOWN["verification.block_never_loses"].check({"targets": targets, "drafts": drafts})
    assert float(verdict.rhs) == pytest.approx(float(mean), abs=1e-12)
    alone = 1 + sum(
        product(q, text, size)
        * math.prod(
            min(Fraction(1), p[node(text[:i], size)][v] / q[node(text[:i], size)][v]) for i, v in enumerate(text)
        )
        for length in range(1, depth + 1)
        for text in itertools.product(range(size), repeat=length)
        if product(q, text, size)
    )
    assert float(verdict.lhs) == pytest.approx(float(alone), abs=1e-12)
    assert alone <= mean


@given(trees(3))
def test_the_law_with_drafts_from_another_distribution_is_that_of_all_cases(drawn):
    size, depth, (targets, drafts, actual) = drawn
    if not (targets > 0).all():
        return
    law, _ = law_by_cases(exactly(targets), exactly(drafts), exactly(actual), size, depth)
    found = block_distribution(targets, drafts, actual)
    np.testing.assert_allclose(found, [float(x) for x in law.values()], rtol=0, atol=1e-14)


@given(trees(2), st.data())
def test_weights_and_acceptance_of_a_round_are_those_of_the_cases(drawn, data):
    size, depth, (targets, drafts) = drawn
    p, q = exactly(targets), exactly(drafts)
    tokens = tuple(data.draw(st.integers(0, size - 1)) for _ in range(depth))
    rows = [node(tokens[:i], size) for i in range(depth)]
    given_rows = targets[rows], drafts[rows], list(tokens)
    passes = np.asarray(block_acceptance(*given_rows))
    weights = np.asarray(block_weights(*given_rows))
    left = 1.0
    for kept, mass, rest in one_round(p, q, tokens, size):
        chance = left * (passes[kept - 1] if kept else 1.0)
        left -= chance
        assert chance == pytest.approx(float(mass), abs=1e-9)
        if rest is not None:
            weight = weights[kept - 1] if kept else 1.0
            np.testing.assert_allclose(
                block_residual(targets[rows[kept]], drafts[rows[kept]], weight), [float(x) for x in rest], atol=1e-9
            )


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


def test_the_second_drafts_q_biases_the_first_token():
    claim = KNOWN["verification.block_misdeclared_first"]
    verdict = claim.check(claim.refuted)
    assert float(verdict.rhs) == 0.0
    assert float(verdict.lhs) == pytest.approx(1 / 3, abs=1e-12)


def test_a_draft_with_p_above_q_must_not_be_kept_by_its_own_token():
    claim = KNOWN["verification.block_token_skips"]
    verdict = claim.check(claim.refuted)
    assert (float(verdict.lhs), float(verdict.rhs)) == (0.125, 0.0)
    by_prefix = {**claim.refuted, "skips": [False, False, True]}
    assert KNOWN["verification.block_skips"].check(by_prefix).holds


def test_leading_dimensions_are_those_of_the_arguments():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(4), (2, 5, 3))
    tokens = rng.integers(0, 4, (5, 3))
    passes, weights = block_acceptance(p, q, tokens), block_weights(p, q, tokens)
    for i in range(5):
        np.testing.assert_allclose(block_acceptance(p[i], q[i], tokens[i]), passes[i])
        np.testing.assert_allclose(block_weights(p[i], q[i], tokens[i]), weights[i])
    assert block_acceptance(p, q[0], tokens[0]).shape == (5, 3)
    assert block_residual(p[:, 1], q[:, 1], weights[:, 0]).shape == (5, 4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: block_weights([[0.5, 0.5]], [[0.5, 0.5]], [2]), "tokens must be a token in 0..V-1"),
        (lambda: block_weights([[0.5, 0.5]], [[0.5, 0.5]], [0.5]), "tokens must be"),
        (lambda: block_weights([0.5, 0.5], [0.5, 0.5], 0), "must have an entry for each draft"),
        (lambda: block_acceptance([[0.5, 0.5]] * 2, [[0.5, 0.5]] * 3, [0, 1]), "must broadcast"),
        (lambda: block_acceptance([[0.5, 0.47]], [[0.5, 0.5]], [0]), "targets"),
        (lambda: block_residual([0.5, 0.5], [0.5, 0.5], 1.5), r"weight must be in \[0, 1\]"),
        (lambda: block_distribution([[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2), "targets must be a whole tree"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
