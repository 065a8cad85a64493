"""Figure 9 of ours: its controllers are those of the library, and its numbers those of their paths."""

import numpy as np
import pytest

from hlmtheory.conformal import MassBudgetController, ThresholdController
from hlmtheory.lattice import payload_bits
from validation.decoding.methods.quantized import EPSILON, LEARNING_RATE, RESOLUTION
from validation.plots.c_sqs.texts import MIDDLE_THRESHOLD
from validation.plots.ours import dropped_mass
from validation.plots.ours.dropped_mass import CHEAPEST, CONTROLLERS, OTHERS, follow
from validation.trace.reader import Trace, TraceWriter, open_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("trace")
    rng = np.random.default_rng(3)
    lengths = (9, 5, 12)
    with TraceWriter(folder, vocabulary=30) as writer:
        for prompt, length in enumerate(lengths):
            logits = [3.0 * rng.standard_normal((length, 30)) for _ in range(2)]
            place = np.arange(length)
            writer.append(*logits, np.zeros(length), np.full(length, prompt), place)
    return open_trace(folder)


def in_order(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    q = -np.sort(-rows, axis=-1)
    q /= q.sum(axis=-1, keepdims=True)
    return q, np.stack([[row[k:].sum() for k in range(1, len(row) + 1)] for row in q])


@pytest.mark.parametrize("epsilon", [EPSILON, 0.05, 0.3])
@pytest.mark.parametrize("name", [*CONTROLLERS, *OTHERS])
def test_the_paths_are_those_of_the_library(name: str, epsilon: float):
    rows = np.random.default_rng(8).dirichlet(np.full(40, 0.2), size=60)
    path = follow(name, epsilon, *in_order(rows))
    threshold = ThresholdController(epsilon, LEARNING_RATE, OTHERS.get(name, MIDDLE_THRESHOLD))
    budget = MassBudgetController(epsilon)
    for n, row in enumerate(rows):
        price = None if name == "Budgeted SQS" else threshold.threshold
        support = threshold.step(row)
        if name.startswith("Budgeted"):
            support = budget.step(row, price)
        assert path.sizes[n] == support.sum()
        assert path.dropped[n] == pytest.approx(row[~support].sum(), abs=1e-12)
    if name.startswith("Budgeted"):
        assert (np.cumsum(path.dropped) <= epsilon * np.arange(1, 61) * (1 + 1e-12)).all()


def test_the_cheapest_support_holds_the_chosen_one_and_no_other_is_cheaper():
    assert dropped_mass.cheapest_sizes(np.array([1.0, 5.0, 7.0, 4.0, 6.0])).tolist() == [1, 4, 4, 4, 5]
    assert dropped_mass.cheapest_sizes(np.array([3.0, 3.0])).tolist() == [2, 2]
    assert dropped_mass.cheapest_sizes(np.array([3.0])).tolist() == [1]
    bits = np.asarray(payload_bits(300, np.arange(1, 301), RESOLUTION, adaptive=True))
    sizes = dropped_mass.cheapest_sizes(bits)
    assert all(bits[sizes[k] - 1] == bits[k:].min() and sizes[k] > k for k in range(300))


def test_a_larger_support_saves_budget_and_never_exceeds_it():
    q, tail = in_order(np.random.default_rng(5).dirichlet(np.full(300, 0.1), size=80))
    sizes = dropped_mass.cheapest_sizes(np.asarray(payload_bits(300, np.arange(1, 301), RESOLUTION, adaptive=True)))
    for epsilon in (0.005, 0.05):
        path = follow(CHEAPEST[1], epsilon, q, tail, sizes)
        assert (np.cumsum(path.dropped) <= epsilon * np.arange(1, 81) * (1 + 1e-12)).all()
        assert (path.sizes == sizes[path.sizes - 1]).all()
        own, tau = follow(CHEAPEST[0], epsilon, q, tail, sizes), MIDDLE_THRESHOLD
        for n, dropped in enumerate(own.dropped):
            assert own.sizes[n] == sizes[max(1, int((q[n] >= tau).sum())) - 1]
            tau -= LEARNING_RATE * (dropped - epsilon)
