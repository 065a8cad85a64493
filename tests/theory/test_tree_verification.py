"""Trees of drafts: the law by enumeration in fractions, the acceptance of siblings, and what a pruned tree breaks."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.verification import acceptance_rate
from hlmtheory.verification.tree import sibling_acceptance, tree_distribution

from .oracles import over_its_sum
from .strategies import grid_rows


def draws(q, m):
    """Yield every ordered choice of children, with its probability and the distributions of the draws."""
    for children in itertools.permutations([v for v, x in enumerate(q) if x], min(m, sum(x > 0 for x in q))):
        left, chance, used = list(q), Fraction(1), []
        for v in children:
            used.append([x / sum(left) for x in left])
            chance *= used[-1][v]
            left[v] = Fraction(0)
        yield children, chance, used


def tried(p, children, used):
    """Return the probability that each child is accepted, and the law after the last rejection with its mass."""
    left, now, accepted = Fraction(1), list(p), []
    for v, q in zip(children, used, strict=True):
        keep = min(Fraction(1), now[v] / q[v])
        accepted.append(left * keep)
        left *= 1 - keep
        rest = [max(a - b, Fraction(0)) for a, b in zip(now, q, strict=True)]
        now = [x / sum(rest) for x in rest] if sum(rest) else now
    return accepted, [left * x for x in now]


def law_by_cases(targets, drafts, m, depth, node=0):
    p, q, size = over_its_sum(targets[node]), over_its_sum(drafts[node]), len(targets[node])

    def own(place, left):
        if not left:
            return {(): Fraction(1)}
        row = over_its_sum(targets[place])
        return {
            (v, *text): row[v] * mass for v in range(size) for text, mass in own(place * size + v + 1, left - 1).items()
        }

    law = {}
    for children, chance, used in draws(q, m):
        accepted, other = tried(p, children, used)
        for v, mass in zip(children, accepted, strict=True):
            following = (
                law_by_cases(targets, drafts, m, depth - 1, node * size + v + 1) if depth > 1 else {(): Fraction(1)}
            )
            for text, more in following.items():
                law[v, *text] = law.get((v, *text), 0) + chance * mass * more
        for v, mass in enumerate(other):
            for text, more in own(node * size + v + 1, depth - 1).items():
                law[v, *text] = law.get((v, *text), 0) + chance * mass * more
    return law


@given(st.data(), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
def test_the_law_is_that_of_all_cases(data, size, depth, m):
    nodes = sum(size**level for level in range(depth))
    targets, drafts = (data.draw(grid_rows((nodes,), size)) for _ in range(2))
    exact = law_by_cases(targets, drafts, m, depth)
    texts = list(itertools.product(range(size), repeat=depth))
    law = tree_distribution(targets, drafts, m)
    np.testing.assert_allclose(law, [float(exact.get(text, 0)) for text in texts], rtol=0, atol=1e-14)
    one = {text: Fraction(1) for text in texts}
    for text in texts:
        node = 0
        for v in text:
            one[text] *= over_its_sum(targets[node])[v]
            node = node * size + v + 1
    assert {text: mass for text, mass in exact.items() if mass} == {text: mass for text, mass in one.items() if mass}


@given(st.integers(1, 4).flatmap(lambda size: st.tuples(*(grid_rows((), size) for _ in range(2)))), st.integers(1, 4))
def test_the_acceptance_is_that_of_all_cases(pair, m):
    p, q = (over_its_sum(row) for row in pair)
    exact = sum(chance * sum(tried(p, children, used)[0]) for children, chance, used in draws(q, m))
    assert float(sibling_acceptance(*pair, m)) == pytest.approx(float(exact), abs=1e-12)
    assert float(sibling_acceptance(*pair, 1)) == pytest.approx(float(acceptance_rate(*pair)), abs=1e-15)
