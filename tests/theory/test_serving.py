"""The two-stage pipeline, against operations counted one by one, schedules simulated one by one, and known results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hlmtheory import serving
from hlmtheory.serving import Device, ModelShape
from hlmtheory.serving.costs import decoding_steps, steps_distribution

from .strategies import acceptances

SMALL, LARGE = ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008)
EDGE, CLOUD = Device(4.11e-13, 0.56e-3), Device(2.08e-14, 1.28e-2)


@pytest.mark.parametrize(
    ("output", "acceptance", "length", "steps"),
    [
        (3, 0.5, 1, 2),
        (4, 0.5, 1, 3),
        (10, 1.0, 4, 2),
        (11, 1.0, 4, 3),
        (7, 0.0, 9, 7),
        (9, 0.0, 5, 9),
        (9, 1.0, 5, 2),
        (1, 0.8, 10, 1),
        (2048, 1.0, 7, 256),
    ],
)
def test_decoding_steps(output, acceptance, length, steps):
    assert decoding_steps(output, acceptance, length).tolist() == steps


@given(st.integers(1, 400), st.integers(0, 12))
def test_a_whole_quotient_gets_no_extra_step(steps, length):
    for acceptance in (0.0, 0.5, 1.0):
        output = sum(acceptance**k for k in range(length + 1)) * steps
        if output == int(output):
            assert decoding_steps(int(output), acceptance, length).tolist() == steps


@pytest.mark.parametrize(
    ("output", "acceptance", "length", "steps"),
    [(24, 0.6, 1, 15), (11, 0.1, 1, 10), (1417, 0.3, 3, 1000), (1093, 1 / 3, 6, 729), (5, 2 / 3, 1, 3)],
)
def test_a_rounding_of_the_tokens_a_step_adds_no_step(output, acceptance, length, steps):
    """O = n L in exact numbers; in float64 each of these quotients is above n."""
    assert output / float(serving.costs.tokens_per_step(acceptance, length)) > steps
    assert decoding_steps([output, output + 1], acceptance, length).tolist() == [steps, steps + 1]


def fullest(prompt: int, answer: int, length: int) -> int:
    """Return the largest number of cached tokens of one sequence, over every acceptance pattern, pass by pass."""
    most, patterns = 0, [((), 0)]
    while patterns:
        accepted, made = patterns.pop()
        cached = prompt + made - 1 if made else 0
        for draft in range(length):
            cached = prompt if not made and not draft else cached + 1  # the first pass of all takes the prompt
            most = max(most, cached)
        patterns += [((*accepted, count), made + count + 1) for count in range(length + 1) if made + count + 1 < answer]
    return most


@pytest.mark.parametrize("length", [1, 2, 3, 10])
@pytest.mark.parametrize("answer", [1, 2, 3, 6])
@pytest.mark.parametrize("prompt", [1, 4])
def test_the_peak_is_that_of_the_fullest_pattern_of_acceptance(prompt, answer, length):
    model = ModelShape(3, 2, 5)
    expected = 3 * (8 * 4 + 4 * 2 * 5) + 4 * 3 * 2 * fullest(prompt, answer, length) * 7
    assert float(serving.peak_memory(model, prompt, answer, 7, length)) == expected


def test_ten_drafts_fill_the_cache_that_the_paper_counts_two_tokens_for():
    model = ModelShape(1, 1, 1)
    assert float(serving.peak_memory(model, 1, 1, 1, 10)) == 12 + 4 * 10
    assert float(serving.peak_memory(model, 5, 0, 1, 10)) == 12 + 4 * 5  # no answer, no drafts
    assert float(serving.peak_memory(model, 1, 2, 1)) == float(serving.peak_memory(model, 1, 2, 1, 1))


@given(st.integers(1, 12), acceptances(), st.integers(0, 4))
def test_the_distribution_of_steps_is_that_of_every_pattern(output, acceptance, length):
    after = {0: 1.0}
    for n, found in enumerate(steps_distribution(output, acceptance, length)):
        if n:
            further: dict[int, float] = {}
            for made, chance in after.items():
                for count in range(length + 1):
                    share = acceptance**count * ((1 - acceptance) if count < length else 1.0)
                    further[made + count + 1] = further.get(made + count + 1, 0.0) + chance * share
            after = further
        assert found == pytest.approx(sum(chance for made, chance in after.items() if made >= output), abs=1e-12)


def simulated(draft: np.ndarray, verify: np.ndarray, steps: np.ndarray) -> float:
    """Return the latency from a simulation of each step with one clock per machine, batch by batch."""
    total = 0.0
    for n in range(1, steps.max() + 1):
        first = second = 0.0
        for d, v, last in zip(draft, verify, steps, strict=True):
            if n <= last:
                first += d[0] if n == 1 else d[1] + d[2] * (n - 1)
                second = max(first, second) + (v[0] if n == 1 else v[1] + v[2] * (n - 1))
        total += second
    return total


def test_the_latency_is_that_of_a_simulation():
    stages = np.random.default_rng(0).random((2, 6, 3)) * [1.0, 1.0, 0.01]
    for steps in (np.full(6, 3000), np.asarray([3000, 5, 40, 700, 900, 1]), np.asarray([2, 1, 2, 1, 2, 2])):
        assert float(serving.inference_latency(*stages, steps)) == pytest.approx(simulated(*stages, steps), rel=1e-12)


def test_a_fit_agrees_with_scipy():
    rng = np.random.default_rng(0)
    flops, size = rng.uniform(1e9, 1e11, 60), rng.integers(1, 33, 60)
    seconds = 2e-13 * flops * size + 0.012 + 0.001 * rng.standard_normal(60)
    line, fit = stats.linregress(flops * size, seconds), serving.fit_device(flops, size, seconds)
    assert fit.c1 == pytest.approx(line.slope, rel=1e-9)
    assert fit.c2 == pytest.approx(line.intercept, rel=1e-9)
    assert fit.device == Device(fit.c1, fit.c2)
    assert fit.r_squared == pytest.approx(line.rvalue**2, rel=1e-9)
