"""Every test function is fixed before the draw, and its expected value is exact: by enumeration of the next draw."""

import copy
import itertools

import numpy as np
import pytest

from validation.audit import TableLaw, tests_of_law
from validation.audit.laws import extended_rows
from validation.audit.partition import Partition
from validation.audit.tests_of_law import JointTests, TokenTests

V, D = 3, 3
TEXTS = np.array(list(itertools.product(range(V + 1), repeat=D)))


@pytest.fixture(scope="module")
def law() -> TableLaw:
    rows = np.random.default_rng(1).dirichlet(np.full(V, 0.7), 1 + V + V**2)
    return TableLaw(rows, [[0, 1, 0], [2]], end_tokens=(2,))


def chances(law: TableLaw, prompt: int) -> tuple[np.ndarray, np.ndarray]:
    rows, _ = extended_rows(law, prompt, TEXTS)
    return rows, np.take_along_axis(rows, TEXTS[..., None], axis=-1)[..., 0].cumprod(axis=1)


def drawn(law: TableLaw, prompt: int, n: int) -> np.ndarray:
    _, along = chances(law, prompt)
    return TEXTS[np.random.default_rng(2).choice(len(TEXTS), size=n, p=along[:, -1])]


@pytest.mark.parametrize("depth", range(D))
@pytest.mark.parametrize(("learned", "entries"), [(0, 1000), (1, 1000), (40, 1000), (40, 2 * (V + 1) + 1)])
def test_the_mean_of_each_token_test_is_the_expected_value(law, monkeypatch, depth, learned, entries):
    monkeypatch.setattr(tests_of_law, "MOST_ENTRIES", entries)
    tests = TokenTests(law, depth)
    for prompt in range(2):
        for tokens in np.array_split(drawn(law, prompt, learned), 2):
            if len(tokens):
                tests.measure(prompt, tokens, extended_rows(law, prompt, tokens)[0][:, depth])
    assert len(tests._places) * (V + 1) <= entries  # further prefixes are not learned
    _, along = chances(law, 0)
    prefixes = {tuple(text[:depth]) for text, chance in zip(TEXTS, along[:, depth - 1], strict=True) if chance > 0}
    for prefix in sorted(prefixes if depth else {()}):
        mean, expected = 0.0, []
        for token in range(V + 1):
            text = np.array([[*prefix, token, *[0] * (D - depth - 1)]])
            row = extended_rows(law, 0, text)[0][:, depth]
            outcome, promised = copy.deepcopy(tests).measure(0, text, row)
            assert outcome.shape == promised.shape == (TokenTests.count, 1)
            mean += row[0, token] * outcome[:, 0]
            expected.append(promised[:, 0])
        np.testing.assert_allclose(expected, np.broadcast_to(expected[0], (V + 1, TokenTests.count)), atol=1e-12)
        np.testing.assert_allclose(mean, expected[0], atol=1e-12)


@pytest.mark.parametrize("depth", range(D))
@pytest.mark.parametrize(("most", "learned"), [(1000, 0), (1000, 50), (5, 50)])
def test_the_mean_of_each_joint_test_is_the_expected_value(law, depth, most, learned):
    parts = [Partition(law, prompt, D, most) for prompt in range(2)]
    tests = JointTests(parts, depth)
    _, along = chances(law, 0)
    index = {tuple(text): i for i, text in enumerate(TEXTS)}
    for tokens in np.array_split(drawn(law, 0, learned), 2):
        if len(tokens):
            known = along[[index[tuple(text)] for text in tokens], depth]
            tests.measure(0, tokens, parts[0].walk(tokens), known)
    mean = 0.0
    expected = []
    for text, chance in zip(TEXTS, along, strict=True):
        one = text[None]
        outcome, promised = copy.deepcopy(tests).measure(0, one, parts[0].walk(one), chance[depth : depth + 1])
        assert outcome.shape == promised.shape == (JointTests.count, 1)
        mean += chance[-1] * outcome[:, 0]
        expected.append(promised[:, 0])
    np.testing.assert_allclose(expected, np.broadcast_to(expected[0], np.shape(expected)), atol=1e-12)
    np.testing.assert_allclose(mean, expected[0], atol=1e-12)
