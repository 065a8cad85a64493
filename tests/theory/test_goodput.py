"""Goodput of speculation under load: the fit against least squares, the crossover against a scan over batches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hlmtheory import serving
from hlmtheory.verification import expected_tokens

SIZES, WIDTHS, CONTEXTS = np.array(
    [[1, 1, 0], [4, 1, 64], [8, 1, 16], [8, 4, 64], [32, 1, 8], [32, 4, 32], [64, 2, 8]]
).T
PLANE = (5e-3, 2e-5, 4e-8)


def plane(size, width, context):
    """The time of a pass."""
    return PLANE[0] + PLANE[1] * size * width + PLANE[2] * size * context


def test_exact_times_give_their_plane():
    found = serving.fit_passes(SIZES, WIDTHS, CONTEXTS, plane(SIZES, WIDTHS, CONTEXTS))
    assert found == pytest.approx(PLANE, rel=1e-9)


def test_no_coefficient_is_negative():
    """Wider passes were measured to be faster: the width then costs nothing, and the base is the mean."""
    assert serving.fit_passes([1, 1, 1], [1, 2, 4], 0, [3.0, 2.0, 1.0]) == pytest.approx((2.0, 0.0, 0.0))


def test_the_fit_is_that_of_least_squares():
    table = np.stack([np.ones(7), SIZES * WIDTHS, SIZES * CONTEXTS], axis=1)
    seconds = plane(SIZES, WIDTHS, CONTEXTS) + np.random.default_rng(5).normal(0.0, 2e-5, 7)
    found = serving.fit_passes(SIZES, WIDTHS, CONTEXTS, seconds)
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
        serving.fit_passes(*call)


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
        line = serving.round_line(target, draft, length, context, overhead)
        alone = serving.round_line(target, draft, 0, context, overhead)
        pays = serving.goodput(made, *line, batches) > serving.goodput(1.0, *alone, batches)
        low, high = (float(end) for end in serving.crossover_batch(made, target, draft, length, context, overhead))
        assert np.array_equal(pays, (batches > low) & (batches < high))
        kinds.add((low > 0, 0 < high < np.inf, bool(np.isinf(high))))
    assert kinds == {(False, True, False), (True, False, True), (False, False, True), (False, False, False)}


def test_a_round_is_its_passes():
    """Two drafts at 100 cached tokens for 3 sequences: two passes of the draft model, one of width 3, 0.5 s beside."""
    fixed, slope = serving.round_line([4.0, 0.5, 0.25], [1.0, 0.25, 0.125], 2, 100.0, 0.5)
    target = 4.0 + 0.5 * 3 * 3 + 0.25 * 3 * 100
    draft = 1.0 + 0.25 * 3 + 0.125 * 3 * 100
    assert float(fixed + 3 * slope) == target + 2 * draft + 0.5


def sequences_over_time(load, tokens, fixed, slope, lengths, rounds, rng):
    """Return the mean number of sequences in the passes over time, for 20 parts of a run, event by event.

    Requests arrive by a Poisson process. One that comes while a pass runs begins with the next; an idle server begins
    at once. ``lengths`` draws in how many rounds an answer is made, 60 in the mean.
    """
    between = 60.0 * tokens / load  # seconds between two requests
    clock, arrival, leaving, parts = 0.0, rng.exponential(between), [], []
    for _ in range(21):
        start, held = clock, 0.0
        for _ in range(rounds // 21):
            if not leaving:
                clock = max(clock, arrival)
            while arrival <= clock:
                leaving.append(lengths(rng))
                arrival += rng.exponential(between)
            seconds = fixed + slope * len(leaving)
            held += len(leaving) * seconds
            clock += seconds
            leaving = [left - 1 for left in leaving if left > 1]
        parts.append(held / (clock - start))
    return np.array(parts[1:])  # the first part fills the server


LENGTHS = (lambda rng: rng.geometric(1 / 60), lambda rng: 60, lambda rng: 20 if rng.random() < 0.5 else 100)


def settings(count, seed):
    """Return loads up to 0.8 of what the largest batch emits, for lines and tokens of all kinds."""
    rng = np.random.default_rng(seed)
    slope, tokens = 10.0 ** rng.uniform(-1.5, 0.5, count), rng.uniform(1.0, 5.0, count)
    load = rng.uniform(0.2, 0.8, count) * tokens / slope
    return np.stack([load, tokens, np.ones(count), slope], axis=1)


def test_requests_that_arrive_at_random_hold_the_mean_batch_of_an_event_simulation():
    """Within an interval that all settings keep at 99.9%; the batch of even arrivals is outside of most of them."""
    rng, cases = np.random.default_rng(11), settings(6, 3)
    wide = float(stats.t.ppf(1 - 0.0005 / len(cases), 19))
    even = 0
    for number, (load, tokens, fixed, slope) in enumerate(cases):
        seen = sequences_over_time(load, tokens, fixed, slope, LENGTHS[number % 3], 210_000, rng)
        half = wide * seen.std(ddof=1) / np.sqrt(len(seen))
        assert abs(seen.mean() - float(serving.load_batch(load, tokens, fixed, slope))) < half
        even += abs(seen.mean() - load * fixed / (tokens - load * slope)) > half
    assert even >= 4
    with pytest.raises(ValueError, match="load must be below tokens / slope"):
        serving.load_batch(1.25, 2.5, 6.5, 2.0)
