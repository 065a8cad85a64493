"""Goodput of speculation under load: the fit against least squares, the crossover against a scan over batches."""

import numpy as np
import pytest

from hlmtheory import serving
from hlmtheory.serving.goodput import fit_passes, goodput, round_line
from hlmtheory.verification import expected_tokens

SIZES, WIDTHS, CONTEXTS = np.array(
    [[1, 1, 0], [4, 1, 64], [8, 1, 16], [8, 4, 64], [32, 1, 8], [32, 4, 32], [64, 2, 8]]
).T
PLANE = (5e-3, 2e-5, 4e-8)


def plane(size, width, context):
    return PLANE[0] + PLANE[1] * size * width + PLANE[2] * size * context


def test_exact_times_give_their_plane():
    found = fit_passes(SIZES, WIDTHS, CONTEXTS, plane(SIZES, WIDTHS, CONTEXTS))
    assert found == pytest.approx(PLANE, rel=1e-9)


def test_no_coefficient_is_negative():
    """Wider passes were measured to be faster: the width then costs nothing, and the base is the mean."""
    assert fit_passes([1, 1, 1], [1, 2, 4], 0, [3.0, 2.0, 1.0]) == pytest.approx((2.0, 0.0, 0.0))


def test_the_fit_is_that_of_least_squares():
    table = np.stack([np.ones(7), SIZES * WIDTHS, SIZES * CONTEXTS], axis=1)
    seconds = plane(SIZES, WIDTHS, CONTEXTS) + np.random.default_rng(5).normal(0.0, 2e-5, 7)
    found = fit_passes(SIZES, WIDTHS, CONTEXTS, seconds)
    assert found == pytest.approx(np.linalg.lstsq(table, seconds, rcond=None)[0].tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (([1, 2, 4], 1, 64.0, [1.0, 2.0, 3.0]), "batch_size, width and context must vary on their own"),
        (([2, 2, 2], 3, 0.0, [1.0, 2.0, 3.0]), "batch_size, width and context must vary on their own"),
        (([1, 2], 1, 0.0, [1.0, 1.5]), "seconds must have more passes"),
        (([1, 2], 1, 0.0, [1.0, 0.0]), "seconds must be positive"),
        ((2, 1, 0.0, 1.0), "seconds must be a row"),
    ],
)
def test_passes_that_give_no_plane_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        fit_passes(*call)


def test_the_crossover_is_that_of_a_scan():
    rng = np.random.default_rng(7)
    kinds = set()
    batches = np.arange(1.0, 400.0)
    for _ in range(400):
        target = rng.uniform(0.1, 1.0, 3) * [1.0, 1e-2, 1e-5]
        draft = rng.uniform(0.0, 1.0, 3) * rng.choice([0.1, 1.0]) * [1.0, 1e-2, 1e-6]
        length, context, overhead = (
            int(rng.integers(1, 9)),
            float(rng.choice([0.0, 100.0, 1e4])),
            rng.choice([0.0, 0.1]),
        )
        made = float(expected_tokens(rng.uniform(0.2, 1.0), length))
        line = round_line(target, draft, length, context, overhead)
        alone = round_line(target, draft, 0, context, overhead)
        pays = goodput(made, *line, batches) > goodput(1.0, *alone, batches)
        low, high = (float(end) for end in serving.crossover_batch(made, target, draft, length, context, overhead))
        assert np.array_equal(pays, (batches > low) & (batches < high))
        kinds.add((low > 0, 0 < high < np.inf, bool(np.isinf(high))))
    assert kinds == {(False, True, False), (True, False, True), (False, False, True), (False, False, False)}


def test_a_round_is_its_passes():
    """Two drafts at 100 cached tokens for 3 sequences: two passes of the draft model, one of width 3, 0.5 s beside."""
    fixed, slope = round_line([4.0, 0.5, 0.25], [1.0, 0.25, 0.125], 2, 100.0, 0.5)
    target = 4.0 + 0.5 * 3 * 3 + 0.25 * 3 * 100
    draft = 1.0 + 0.25 * 3 + 0.125 * 3 * 100
    assert float(fixed + 3 * slope) == target + 2 * draft + 0.5
    for wrong in (0.5, [4.0, 0.5]):
        with pytest.raises(ValueError, match=r"must be \(a, b, c\) on its last axis"):
            round_line([4.0, 0.5, 0.25], wrong, 2, 100.0, 0.5)
