"""The quantised methods: names, refused settings, messages, the budget, and control of the threshold."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

from hlmtheory import codec
from hlmtheory.conformal import MassBudgetController, ThresholdController, threshold_support
from hlmtheory.lattice import payload_bits
from tests.validation.watching import FOUR, watched
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.quantized import AllocatedSqs, BudgetedCSqs, BudgetedSqs, CSqs, DenseQs, KSqs
from validation.decoding.session import Draft, Outcome
from validation.errors import UserError
from validation.models.pair import Pair

PROMPTS = [Prompt(text, text, "test") for text in ("two and two make", "it was the best of")]
SHARED: list[dict[str, Any]] = [
    {},
    {"by_bytes": True},
    {"budget_bits": 600.0},
    {"resolution": 50},
    {"budget_bits": 600.0, "resolution": 50, "by_bytes": True},
]
FAMILIES = [
    DenseQs,
    *(partial(KSqs, k) for k in (8, 64)),
    *(
        partial(CSqs, threshold, **dict(zip(("learning_rate", "epsilon", "printed"), rest, strict=True)))
        for threshold in (0.0, 0.001, 0.0010000001)
        for rest in itertools.product((0.0, 0.001, 0.01), (0.0005, 0.01), (False, True))
    ),
    *(partial(BudgetedSqs, epsilon=epsilon) for epsilon in (0.0005, 0.01)),
    *(
        partial(BudgetedCSqs, threshold, learning_rate=rate, epsilon=epsilon)
        for threshold in (0.0, 0.001)
        for rate in (0.001, 0.01)
        for epsilon in (0.0005, 0.01)
    ),
    *(partial(AllocatedSqs, bits) for bits in (500.0, 625.0)),
]


def test_no_two_settings_have_one_name():
    names = [make(**shared).name for make in FAMILIES for shared in SHARED]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (DenseQs(), "QS dense"),
        (DenseQs(by_bytes=True), "QS dense (bytes)"),
        (KSqs(64), "K-SQS (K = 64)"),
        (KSqs(64, budget_bits=2500, resolution=10, by_bytes=True), "K-SQS (K = 64, B = 2500, ℓ = 10, bytes)"),
        (CSqs(), "C-SQS (τ₁ = 0)"),
        (CSqs(0.001), "C-SQS (τ₁ = 0.001)"),
        (CSqs(0.001, printed=True), "C-SQS (τ₁ = 0.001, as printed)"),
        (CSqs(0.001, learning_rate=0.0), "C-SQS (τ = 0.001, fixed)"),
        (CSqs(1e-5, learning_rate=0.01, epsilon=0.02), "C-SQS (τ₁ = 1e-05, η = 0.01, ε = 0.02)"),
        (BudgetedSqs(), "Budgeted SQS"),
        (BudgetedSqs(epsilon=0.05, by_bytes=True), "Budgeted SQS (ε = 0.05, bytes)"),
        (BudgetedCSqs(0.001), "Budgeted C-SQS (τ₁ = 0.001)"),
        (BudgetedCSqs(learning_rate=0.01, epsilon=0.02), "Budgeted C-SQS (τ₁ = 0, η = 0.01, ε = 0.02)"),
        (AllocatedSqs(625.0, by_bytes=True), "SQS allocated (625 bits, bytes)"),
    ],
)
def test_names_tell_the_settings(method: Any, name: str):
    assert method.name == name


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (KSqs(100_000), r"K is 100000; it must be 1 to \d+, the tokens of the vocabulary"),
        (KSqs(0), r"K is 0; it must be 1 to"),
        (KSqs(8, resolution=0), r"resolution must be a whole number in 1..16,777,216; got 0"),
        (CSqs(-0.5), r"threshold must be at least -η\(1 - ε\); got -0.5 with η = 0.001, ε = 0.0005"),
        (CSqs(learning_rate=-1.0), r"learning_rate must be positive and finite; got -1.0"),
        (CSqs(epsilon=1.0), r"epsilon must be in \(0, 1\); got 1.0"),
        (BudgetedSqs(epsilon=0.0), r"epsilon must be in \(0, 1\); got 0.0"),
        (BudgetedCSqs(-0.5), r"threshold must be at least -η\(1 - ε\); got -0.5"),
        (BudgetedCSqs(learning_rate=0.0), r"learning_rate must be positive and finite; got 0.0"),
        (AllocatedSqs(5.0), r"budget_bits must fit one draft; it is .* bit too small"),
    ],
)
def test_settings_out_of_range_are_refused(pair: Pair, method: Any, message: str):
    with pytest.raises((ValueError, UserError), match=message):
        decode(pair, PROMPTS, method, new_tokens=4)


@pytest.mark.parametrize("printed", [False, True])
def test_line_12_is_that_of_the_controller(pair: Pair, printed: bool):
    method = CSqs(0.02, learning_rate=0.05, epsilon=0.1, printed=printed)
    decode(pair, PROMPTS, method, new_tokens=0)
    rows = np.random.default_rng(2).dirichlet([0.1] * 30, size=4)
    for accepted in range(5):
        own, other = (ThresholdController(0.1, 0.05, 0.02) for _ in range(2))
        method.controllers = [own]
        for row in rows:
            own.step(row)
            other.step(row)
        drafts = [Draft(0) for _ in rows]
        learnt = method.learn(Outcome(0, drafts, accepted, accepted < 4, None))
        assert learnt == float(own.threshold) == float(other.roll_back(accepted, printed=printed))


def test_a_round_without_drafts_leaves_the_threshold(pair: Pair):
    for method in (CSqs(0.02), CSqs(0.02, printed=True), CSqs(0.02, learning_rate=0.0)):
        decode(pair, PROMPTS, method, new_tokens=0)
        method.controllers = [ThresholdController(0.1, 0.05, 0.02)]
        assert method.learn(Outcome(0, [], 0, False, None)) == 0.02
    budgeted = BudgetedCSqs(0.02)
    decode(pair, PROMPTS, budgeted, new_tokens=0)
    assert budgeted.learn(Outcome(0, [], 0, False, None)) == 0.02


@pytest.mark.parametrize(
    "method",
    [
        DenseQs(budget_bits=1500.0),
        KSqs(8, budget_bits=500.0),
        CSqs(0.01, budget_bits=500.0),
        AllocatedSqs(80.0, budget_bits=200.0),
        BudgetedSqs(epsilon=0.3, budget_bits=500.0),
        BudgetedCSqs(0.01, epsilon=0.3, budget_bits=500.0),
        KSqs(8, budget_bits=500.0, by_bytes=True),
    ],
    ids=lambda m: m.name,
)
def test_a_lattice_message_holds_the_rows_and_the_budget_holds(pair: Pair, method: Any) -> None:
    watch, rows = watched(pair, method, new_tokens=8)
    for drafts, message in watch.rounds:
        if not drafts:
            assert (message.bits, message.payload) == (0.0, b"\0")
            continue
        decoded = codec.decode(message.payload)
        assert isinstance(decoded, codec.LatticeMessage)
        for sent, draft in zip(decoded.drafts, drafts, strict=True):
            row = np.zeros(pair.vocabulary)
            row[sent.support] = sent.counts / sent.resolution
            assert draft.server_distribution is not None
            np.testing.assert_allclose(row, draft.server_distribution.numpy(), atol=1e-12)
            assert sent.token == draft.token
            assert draft.probability == pytest.approx(row[draft.token])
        assert (8 * len(message.payload) if method.real_bytes else message.bits) <= method.budget
    assert sum(r.total("rounding") for r in rows) > 0


def test_payloads_are_the_formulas(pair: Pair) -> None:
    size = pair.vocabulary
    for method, bits in (
        (DenseQs(budget_bits=2000.0), float(payload_bits(size, size, 100))),
        (KSqs(16, budget_bits=2000.0), float(payload_bits(size, 16, 100))),
    ):
        for drafts, message in watched(pair, method)[0].rounds:
            assert message.bits == pytest.approx(bits * len(drafts))
    fits = int(2000 // float(payload_bits(size, size, 100)))
    _, rows = watched(pair, DenseQs(budget_bits=2000.0), new_tokens=20)
    assert max(r.drafted for row in rows for r in row.rounds) == fits


@pytest.mark.parametrize("printed", [False, True])
def test_the_threshold_follows_algorithm_1(pair: Pair, printed: bool) -> None:
    settings = {"learning_rate": 0.05, "epsilon": 0.1}
    method = CSqs(0.02, printed=printed, **settings)
    watch, (row,) = watched(pair, method, FOUR[1:2], new_tokens=24)
    tau = 0.02
    for outcome, one in zip(watch.outcomes, row.rounds, strict=True):
        kept = outcome.accepted + (0 if printed else outcome.rejected)
        for draft in outcome.drafts[:kept]:
            controller = ThresholdController(0.1, 0.05, tau)
            support = controller.step(draft.distribution.double().numpy())
            assert draft.note.dropped == pytest.approx(
                1.0 - draft.distribution.double().numpy()[support].sum(), abs=1e-6
            )
            tau = float(controller.threshold)
        assert one.threshold == pytest.approx(tau)
        examined = outcome.drafts[: outcome.accepted + outcome.rejected]
        assert one.dropped == pytest.approx(sum(draft.note.dropped for draft in examined))
    assert len({one.threshold for one in row.rounds}) > 1


def test_a_fixed_threshold_stays(pair: Pair) -> None:
    _, rows = watched(pair, CSqs(0.01, learning_rate=0.0))
    assert {one.threshold for row in rows for one in row.rounds} == {0.01}


@pytest.mark.parametrize("threshold", [None, 0.02])
def test_the_budget_is_kept_after_every_round_and_rolled_back(pair: Pair, threshold: float | None) -> None:
    """Each draft's dropped mass is that of the controllers, on the accepted and rejected drafts alone."""
    if threshold is None:
        method: Any = BudgetedSqs(epsilon=0.2, budget_bits=2000.0)
    else:
        method = BudgetedCSqs(threshold, epsilon=0.2, learning_rate=0.05, budget_bits=2000.0)
    watch, (row,) = watched(pair, method, FOUR[1:2], new_tokens=24)
    budget, controller = MassBudgetController(0.2), ThresholdController(0.2, 0.05, threshold or 0.0)
    total = count = 0.0
    rolled_back = 0
    for outcome, one in zip(watch.outcomes, row.rounds, strict=True):
        examined = outcome.drafts[: outcome.accepted + outcome.rejected]
        rolled_back += len(outcome.drafts) - len(examined)
        for draft in examined:
            distribution = draft.distribution.double().numpy()
            support = budget.step(distribution, None if threshold is None else controller.threshold)
            if threshold is not None:
                own = threshold_support(distribution, controller.threshold)
                assert (support >= own).all()
                controller.step(distribution)
            assert draft.note.dropped == pytest.approx(1.0 - distribution[support].sum(), abs=1e-6)
        total, count = total + one.dropped, count + len(examined)
        assert total <= 0.2 * count + 1e-9
        assert one.threshold == (None if threshold is None else pytest.approx(float(controller.threshold)))
    assert total > 0.1 * count
    assert rolled_back > 0


def test_rejections_keep_to_theorem_1(pair: Pair) -> None:
    prompts = [Prompt(str(i), FOUR[i % 4].text, "test") for i in range(40)]
    for method in (KSqs(8, budget_bits=600.0), CSqs(0.02, budget_bits=600.0)):
        rows = decode(pair, prompts, method, new_tokens=10, batch=40, risk=True)
        rejected, drafted = (sum(row.total(name) for row in rows) for name in ("resampled", "drafted"))
        bound = sum(row.total("mismatch") + row.total("dropped") + row.total("rounding") for row in rows)
        assert rejected > 50
        assert rejected <= bound + 4.0 * np.sqrt(0.25 * drafted)
