"""Draws that repeat earlier ones are found, whatever each of them alone is; independent draws are not accused."""

import itertools

import numpy as np
import pytest
from scipy import stats

from validation.audit import NOT_KEPT, Audit, TableLaw, audit_sampler
from validation.audit.laws import extended_rows
from validation.audit.partition import Partition
from validation.audit.repeats import RepeatTests

V, D = 3, 2


def rows_of(seed: int, size: int = V, depth: int = D) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(size), sum(size**t for t in range(depth)))


def drawn(rows: np.ndarray, depth: int, n: int, rng: np.random.Generator) -> np.ndarray:
    size, node, found = rows.shape[1], np.zeros(n, dtype=int), np.empty((n, depth), dtype=int)
    for t, number in enumerate(rng.random((n, depth)).T):
        found[:, t] = np.minimum((rows[node].cumsum(-1) < number[:, None]).sum(-1), size - 1)
        node = node * size + found[:, t] + 1
    return found


def copies(times: int, shuffled: bool = False):
    def made(draw, n, seed):
        rng = np.random.default_rng(seed)
        found = np.concatenate([draw(-(-n // times), rng)] * times)[:n]
        return rng.permutation(found) if shuffled else found

    return made


def partly(draw, n, rng):
    same = draw(1, rng)
    return np.where(rng.random((n, 1)) < 0.3, same, draw(n, rng))


KINDS = {
    "the second half repeats the first": copies(2),
    "four blocks are the same": copies(4),
    "the seed is not heeded": lambda draw, n, seed: draw(n, np.random.default_rng(0)),
    "few seeds": lambda draw, n, seed: draw(n, np.random.default_rng(seed % 3)),
    "each twice, shuffled": copies(2, shuffled=True),
    "the same draws, shuffled": lambda draw, n, seed: np.random.default_rng(seed).permutation(
        draw(n, np.random.default_rng(0))
    ),
    "a part of each call is one draw": lambda draw, n, seed: partly(draw, n, np.random.default_rng(seed)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "depth"), [(3, 2), (40, 2)])
def test_repeats_are_found(kind: str, size: int, depth: int) -> None:
    rows = rows_of(1, size, depth)

    def sample(prompts, n, seed):
        return [KINDS[kind](lambda m, rng: drawn(rows, depth, m, rng), n, seed)]

    report = audit_sampler(TableLaw(rows), sample, depth=depth, draws=60_000, epsilon=0.005)
    assert report.verdict == NOT_KEPT
    assert report.found_after <= (30_000 if kind != "each twice, shuffled" else 60_000)


@pytest.mark.parametrize("learned", [0, 1, 30])
def test_the_mean_of_each_test_is_the_expected_value(learned: int) -> None:
    """By enumeration of the last draw of a call, after the same draws before it."""
    law = TableLaw(rows_of(2), [[0]], end_tokens=(1,))
    parts = [Partition(law, 0, D, 1000)]
    texts = np.array(list(itertools.product(range(V + 1), repeat=D)))
    rows = extended_rows(law, 0, texts)[0]
    chance = np.take_along_axis(rows, texts[..., None], axis=-1)[..., 0].prod(axis=1)
    past = texts[np.random.default_rng(3).choice(len(texts), size=learned, p=chance)]
    by_text = dict(zip(map(tuple, texts.tolist()), chance, strict=True))
    mean, expected = 0.0, []
    for text, mass in zip(texts, chance, strict=True):
        call = np.concatenate([past, text[None]])
        tests = RepeatTests(parts, D)
        own = np.array([by_text[tuple(one)] for one in call.tolist()])
        outcome, promised = tests.measure(0, call, own, tests.within(0, parts[0].walk(call)[:, -1]))
        assert outcome.shape == promised.shape == (RepeatTests.count, len(call))
        mean = mean + mass * outcome[:, -1]
        expected.append(promised[:, -1])
    np.testing.assert_allclose(expected, np.broadcast_to(expected[0], np.shape(expected)), atol=1e-9)
    np.testing.assert_allclose(mean, expected[0], atol=1e-9)


def test_independent_draws_are_accused_of_repeats_no_more_often_than_the_level_allows() -> None:
    """150 audits of two calls each at level 50%, of which repeats have a fifth; small and large laws."""
    rng, accused = np.random.default_rng(6), 0
    for i in range(150):
        size = (2, 3, 30)[i % 3]
        rows = rng.dirichlet(np.ones(size), 1 + size)
        audit = Audit(TableLaw(rows), depth=D, level=0.5, planned=400)
        for _ in range(2):
            audit.update(0, drawn(rows, D, 128, rng))
        accused += audit.report().repeats > 0
    assert stats.binomtest(accused, 150, 0.1, alternative="greater").pvalue > 1e-3
