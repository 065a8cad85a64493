"""Figure 9 of ours: its controllers are those of the library, and its numbers those of their paths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hlmtheory.conformal import MassBudgetController, ThresholdController
from hlmtheory.lattice import payload_bits, quantize
from hlmtheory.verification import total_variation
from validation.decoding.methods.quantized import EPSILON, LEARNING_RATE, RESOLUTION
from validation.plots import EXHIBITS, draw
from validation.plots.c_sqs.runs import MIDDLE_THRESHOLD
from validation.plots.ours import dropped_mass
from validation.plots.ours.dropped_mass import CHEAPEST, CONTROLLERS, FIXED, OTHERS, SHOWN, follow, priced
from validation.trace.reader import Trace, TraceWriter, open_trace, probabilities


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Three texts of 9, 5 and 12 positions over 30 tokens."""
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
    """Sorted rows and their tails."""
    q = -np.sort(-rows, axis=-1)
    q /= q.sum(axis=-1, keepdims=True)
    return q, np.stack([[row[k:].sum() for k in range(1, len(row) + 1)] for row in q])


@pytest.mark.parametrize("epsilon", [EPSILON, 0.05, 0.3])
@pytest.mark.parametrize("name", [*CONTROLLERS, *OTHERS])
def test_the_paths_are_those_of_the_library(name: str, epsilon: float):
    rng = np.random.default_rng(8)
    rows = rng.dirichlet(np.full(40, 0.2), size=60)
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


def test_no_controller_has_fewer_tokens_than_hindsight_allows():
    """The bound of ``conformal.hindsight`` by fixed thresholds; for a fixed threshold's own mass it is its own size."""
    q, tail = in_order(np.random.default_rng(2).dirichlet(np.full(40, 0.2), size=60))
    for tau in np.geomspace(1e-4, q[:, 0].min(), 20):
        fixed = priced(tau, q, tail)
        for epsilon in (0.01, 0.05, 0.2):
            for name in CONTROLLERS:
                path = follow(name, epsilon, q, tail)
                bound = fixed.sizes.sum() - (path.dropped.sum() - fixed.dropped.sum()) / tau
                assert path.sizes.sum() >= bound * (1 - 1e-9)


def test_the_numbers_are_those_of_the_paths(trace: Trace, tmp_path: Path):
    sidecar, picture = draw(EXHIBITS["ours", "9"], trace, tmp_path, command="hlm figure ours 9", seed=1, commit="c")
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    assert picture.stat().st_size > 1_000
    assert about["positions_drawn"] == 26
    starts, ends = (0, 9, 14), (9, 14, 26)
    for name in CONTROLLERS:
        masses, bits = [], []
        for start, end in zip(starts, ends, strict=True):
            path = follow(name, EPSILON, *in_order(probabilities(trace.arrays["draft_logits"][start:end])))
            masses += path.dropped.tolist()
            bits += np.asarray(payload_bits(30, path.sizes, RESOLUTION, adaptive=True)).tolist()
        assert about["statistics"]["dropped"][name] == pytest.approx(np.mean(masses), rel=1e-3, abs=1e-12)
        assert about["statistics"]["bits"][name] == pytest.approx(np.mean(bits), rel=1e-3)
    (table,) = about["tables"]
    assert len(table["rows"]) == len(SHOWN) * len((*CONTROLLERS, *CHEAPEST)) + len(OTHERS)
    assert {one["name"] for one in about["series"] if one["panel"] == 1} == {*CONTROLLERS, *CHEAPEST, FIXED}
    assert "nan" not in about["findings"]


def test_rejections_are_those_of_the_lattice(trace: Trace):
    paths = dropped_mass.paths_of(trace, np.ones(30))["Budgeted SQS", EPSILON]
    q, p = (probabilities(trace.arrays[name][:9]) for name in ("draft_logits", "target_logits"))
    controller = MassBudgetController(EPSILON)
    supports = np.stack([controller.step(row) for row in q])
    counts = quantize(q[::8], support=supports[::8], resolution=RESOLUTION)
    np.testing.assert_allclose(paths[0].rejected, total_variation(counts / RESOLUTION, p[::8]), atol=1e-12)


def test_bits_are_set_beside_the_fixed_threshold_of_the_same_mass():
    fixed = [(0.0, 900.0), (0.01, 200.0), (0.1, 100.0)]
    assert dropped_mass._excess([(0.01, 300.0), (0.1, 150.0)], fixed) == [1.5, 1.5]
    assert dropped_mass._excess([(10**-1.5, 300.0)], fixed) == [2.0]
    assert dropped_mass._excess([(0.5, 1.0), (0.001, 1.0)], fixed) == [None, None]
    assert dropped_mass._excess([(0.5, 1.0)], [(0.0, 5.0)]) == [None]


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


def test_the_message_gives_the_dropped_mass_for_each_threshold():
    dropped = {"C-SQS": 0.03} | dict(zip(OTHERS, (0.005, 0.01, 0.5), strict=True))
    told = dropped_mass.message({"statistics": {"epsilon": 0.01, "dropped": dropped}})
    assert "C-SQS drops 0.5 to 50 times ε = 0.01" in told
    assert told.endswith("depending on τ₁; the budget never drops more than ε on average.")
