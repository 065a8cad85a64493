"""Boxes with counts: Δ_k and the Bias of every row inside, lists as boxes, columns of several tokens."""

from __future__ import annotations

import numpy as np
import pytest

from hlmtheory.truncation import (
    box_bias,
    box_deviation,
    box_distance,
    partial_boxes,
    partial_deviation,
    partial_distance,
    resampling_bias,
    tail_deviation,
)
from hlmtheory.verification import total_variation

from .test_partial import lists, random_pair, top


def random_boxes(rng):
    size, width = int(rng.integers(1, 8)), rng.choice([0.0, 0.1, 0.5, 1.0])
    rows = rng.dirichlet([rng.choice([0.2, 1.0])] * size, size=2)
    return [
        end
        for row in rows
        for end in (row * (1 - width * rng.random(size)), np.minimum(row + width * rng.random(size), 1.0))
    ]


def inside(rng, low, high):
    """A row of the box: bounds are filled in random order, from the lower ones."""
    row, left = low.copy(), 1.0 - low.sum()
    for v in rng.permutation(len(low)):
        given = min(left, high[v] - low[v]) * (1.0 if rng.random() < 0.5 else rng.random())
        row[v], left = row[v] + given, left - given
    for v in rng.permutation(len(low)):
        given = min(left, high[v] - row[v])
        row[v], left = row[v] + given, left - given
    return row


def all_ends(boxes):
    """The four bounds of both models and the counts."""
    return boxes.target.lower, boxes.target.upper, boxes.draft.lower, boxes.draft.upper, boxes.count


@pytest.mark.parametrize("seed", range(12))
def test_every_row_inside_has_its_deviation_and_its_bias_in_the_intervals(seed):
    rng = np.random.default_rng(seed)
    bounds = random_boxes(rng)
    for k in range(len(bounds[0]) + 1):
        deviation, bias = box_deviation(*bounds[2:], k), box_bias(*bounds, k)
        for _ in range(10):
            p, q = inside(rng, *bounds[:2]), inside(rng, *bounds[2:])
            assert deviation.lower - 1e-12 <= tail_deviation(q)[k] <= deviation.upper + 1e-12
            assert bias.lower - 1e-12 <= resampling_bias(p, q, k) <= bias.upper + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_a_row_that_is_known_leaves_nothing_open(seed):
    """On a coarse grid too, where entries are equal: the lower columns are sent."""
    rng = np.random.default_rng(seed)
    p, q = random_pair(rng)
    for k in range(len(p) + 1):
        deviation, bias = box_deviation(q, q, k), box_bias(p, p, q, q, k)
        assert float(deviation.lower) == pytest.approx(tail_deviation(q)[k], abs=1e-12)
        assert float(deviation.upper) == pytest.approx(tail_deviation(q)[k], abs=1e-12)
        assert bias.lower - 1e-12 <= resampling_bias(p, q, k) <= bias.upper + 1e-12
        if len(set(q)) == len(q):
            assert bias.upper == pytest.approx(resampling_bias(p, q, k), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_lists_as_boxes_give_the_sharp_ends(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 40))
    target, draft = rng.dirichlet(np.full(size, 0.3), size=2)
    k, j = rng.integers(0, min(size, 12) + 1, 2)
    given = lists(target, draft, k, j)
    boxes = partial_boxes(*given)
    assert boxes.count.sum() == size
    found, sharp = box_distance(*all_ends(boxes)), partial_distance(*given).total_variation
    assert float(found.lower) == pytest.approx(float(sharp.lower), abs=1e-12)
    assert sharp.upper - 1e-12 <= found.upper <= sharp.upper + 0.1
    for sent in range(j + 1):
        mine = box_deviation(boxes.draft.lower, boxes.draft.upper, sent, boxes.count)
        best = partial_deviation(given[3], sent, size)
        assert float(mine.lower) == pytest.approx(float(best.lower), abs=1e-12)
        assert float(mine.upper) == pytest.approx(float(best.upper), abs=1e-12)
        bias = box_bias(*all_ends(boxes)[:4], sent, boxes.count)
        assert bias.lower - 1e-12 <= resampling_bias(target, draft, sent) <= bias.upper + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_rounded_lists_hold_the_truth(seed):
    """Half precision rounds by a share of the logarithm, so each entry has its own error."""
    rng = np.random.default_rng(seed)
    target, draft = rng.dirichlet(np.full(50, 0.3), size=(2, 4))
    (token, x), (token_q, y) = top(target, 9), top(draft, 7)
    half, half_q = np.float16(x).astype(float), np.float16(y).astype(float)
    boxes = partial_boxes(token, half, token_q, half_q, 50, 2.0**-11 * -half + 1e-9, 2.0**-11 * -half_q + 1e-9)
    apart, true = box_distance(*all_ends(boxes)), total_variation(target, draft)
    assert ((apart.lower <= true) & (true <= apart.upper)).all()
    deviation = box_deviation(boxes.draft.lower, boxes.draft.upper, 3, boxes.count)
    assert ((deviation.lower <= tail_deviation(draft)[:, 3]) & (tail_deviation(draft)[:, 3] <= deviation.upper)).all()


@pytest.mark.parametrize("seed", range(8))
def test_a_column_of_several_tokens_is_as_many_columns(seed):
    rng = np.random.default_rng(seed)
    count = rng.integers(0, 4, 4) + (np.arange(4) == 0)
    full = np.repeat(np.arange(4), count)
    ends = []
    for row in rng.dirichlet(np.ones(len(full)), size=2):
        low = np.array([row[full == c].min() if count[c] else 0.25 for c in range(4)])
        high = np.array([row[full == c].max() if count[c] else 0.5 for c in range(4)])
        ends += [0.9 * low, np.minimum(1.1 * high, 1.0)]
    wide = [end[full] for end in ends]
    k = int(rng.integers(0, len(full) + 1))
    for mine, expanded in (
        (box_distance(*ends, count), box_distance(*wide)),
        (box_deviation(*ends[2:], k, count), box_deviation(*wide[2:], k)),
        (box_bias(*ends, k, count), box_bias(*wide, k)),
    ):
        assert float(mine.lower) == pytest.approx(float(expanded.lower), abs=1e-12)
        assert float(mine.upper) == pytest.approx(float(expanded.upper), abs=1e-12)
