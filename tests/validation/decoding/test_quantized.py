"""The quantised methods: names, refused settings, messages, the budget, and control of the threshold."""

import numpy as np
import pytest

from hlmtheory import codec, wire
from hlmtheory.conformal import MassBudgetController, ThresholdController, threshold_support
from tests.validation.watching import FOUR, watched
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.quantized import AllocatedSqs, BudgetedCSqs, BudgetedSqs, CSqs, DenseQs, KSqs
from validation.errors import UserError

PROMPTS = [Prompt(text, text, "test") for text in ("two and two make", "it was the best of")]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (KSqs(100_000), r"K is 100000; it must be 1 to \d+, the tokens of the vocabulary"),
        (KSqs(0), r"K is 0; it must be 1 to"),
        (KSqs(8, resolution=0), r"resolution must be a whole number in 1..16,777,216; got 0"),
        (CSqs(float("inf")), r"threshold must be finite; got inf"),
        (CSqs(learning_rate=-1.0), r"learning_rate must be positive and finite; got -1.0"),
        (CSqs(epsilon=1.0), r"epsilon must be in \(0, 1\); got 1.0"),
        (BudgetedSqs(epsilon=0.0), r"epsilon must be in \(0, 1\); got 0.0"),
        (BudgetedCSqs(float("-inf")), r"threshold must be finite; got -inf"),
        (AllocatedSqs(5.0), r"budget_bits must fit one draft; it is .* bit too small"),
    ],
)
def test_settings_out_of_range_are_refused(pair, method, message):
    with pytest.raises((ValueError, UserError), match=message):
        decode(pair, PROMPTS, method, new_tokens=4)


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
def test_a_lattice_message_holds_the_rows_and_the_budget_holds(pair, method):
    watch, rows = watched(pair, method, new_tokens=8)
    for drafts, message in watch.rounds:
        if not drafts:
            assert (message.bits, message.payload) == (0.0, b"\0")
            continue
        decoded = codec.decode(message.payload)
        assert isinstance(decoded, wire.LatticeMessage)
        for sent, draft in zip(decoded.drafts, drafts, strict=True):
            row = np.zeros(pair.vocabulary)
            row[sent.support] = sent.counts / sent.resolution
            assert draft.server_distribution is not None
            np.testing.assert_allclose(row, draft.server_distribution.numpy(), atol=1e-12)
            assert sent.token == draft.token
            assert draft.probability == pytest.approx(row[draft.token])
        assert (8 * len(message.payload) if method.real_bytes else message.bits) <= method.budget
    assert sum(r.total("rounding") for r in rows) > 0


@pytest.mark.parametrize("printed", [False, True])
def test_the_threshold_follows_algorithm_1(pair, printed):
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


@pytest.mark.parametrize("threshold", [None, 0.02])
def test_the_budget_is_kept_after_every_round_and_rolled_back(pair, threshold):
    if threshold is None:
        method = BudgetedSqs(epsilon=0.2, budget_bits=2000.0)
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
                assert (support >= threshold_support(distribution, controller.threshold)).all()
                controller.step(distribution)
            assert draft.note.dropped == pytest.approx(1.0 - distribution[support].sum(), abs=1e-6)
        total, count = total + one.dropped, count + len(examined)
        assert total <= 0.2 * count + 1e-9
        assert one.threshold == (None if threshold is None else pytest.approx(float(controller.threshold)))
    assert total > 0.1 * count
    assert rolled_back > 0
