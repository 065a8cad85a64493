"""The risk of whole texts: the losses are the library's, and so are the thresholds of every split."""

from pathlib import Path

import numpy as np
import pytest

from hlmtheory.skipping.calibration import calibrate_threshold
from hlmtheory.uncertainty.perturbation import vocabulary_uncertainty
from validation.decoding.trace_drafts import DRAWS, POINTS
from validation.plots.ours.text_losses import losses_of, perturbed_samples
from validation.plots.ours.text_risk import SPLITS, mean_of_tests, over_splits, random_splits, share_of_tests
from validation.trace.reader import Trace, TraceWriter, open_trace, probabilities

LENGTHS = (12, 7)


def make(folder: Path, *, texts: int = 40, prompts: int = 40, own: bool = True, size: int = 70) -> Trace:
    """Texts of 12 and 7 tokens by turns, the target model's own or all of token 0."""
    rng = np.random.default_rng(0)
    lengths = np.resize(LENGTHS, texts)
    count = lengths.sum()
    target = rng.normal(0, 2, (count, size))
    draft = (target + rng.normal(0, 0.5, target.shape)).astype(np.float16)
    p = probabilities(target.astype(np.float16))
    token = np.minimum((rng.random((count, 1)) > np.cumsum(p, axis=-1)).sum(axis=-1), size - 1) if own else 0
    position = np.concatenate([np.arange(length) for length in lengths])
    prompt = np.repeat(np.arange(texts) % prompts, lengths)
    with TraceWriter(folder / "trace", size, {"pair": {"name": "a pair"}}) as writer:
        writer.append(draft, target, np.broadcast_to(token, count).astype(np.int32), prompt, position)
    return open_trace(folder / "trace")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return make(tmp_path_factory.mktemp("traces"))


def test_the_losses_rise_and_end_where_everything_is_skipped(trace: Trace):
    found = losses_of(trace, 1)
    assert (np.diff(found.overlap(12), axis=-1) >= 0).all()
    assert (found.sent_tokens(12)[0][:, -1] == 0).all()
    q, p = (probabilities(trace.arrays[name][:]) for name in ("draft_logits", "target_logits"))
    assert found.total(12)[:, -1].sum() == pytest.approx(np.maximum(p - q, 0).sum())


def test_the_samples_have_the_expected_uncertainty():
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 2, 70)
    logits[[0, 69]] = -np.inf
    samples = perturbed_samples(np.tile(logits, (3_000, 1)), rng)
    assert samples.shape == (3_000, DRAWS)
    expected = 1 - vocabulary_uncertainty(logits)
    count = np.bincount(samples.ravel(), minlength=70)
    assert count[[0, 69]].tolist() == [0, 0]
    spread = np.sqrt(samples.size * expected * (1 - expected))
    assert (np.abs(count - samples.size * expected) <= 5 * spread + 1e-9).all()
    assert (np.abs(count - samples.size * expected) <= 2 * spread + 1e-9).mean() > 0.85


@pytest.mark.parametrize(("risk", "bound"), [(0.05, 1.0), (0.2, 1.0), (0.3, 5.0), (0.9, 1.0)])
def test_every_split_has_the_threshold_of_the_library(trace: Trace, risk: float, bound: float):
    found = losses_of(trace, 1)
    losses = found.overlap(12) if bound == 1.0 else found.total(5)
    splits = random_splits(40, 1)
    outcome = over_splits(losses, splits, risk=risk, bound=bound)
    assert outcome is not None
    assert splits.shape == (SPLITS, 40)
    assert (splits.sum(axis=-1) == 25).all()
    for split, column, met in zip(splits[:20], outcome.column, outcome.met, strict=False):
        expected = calibrate_threshold(losses[split], POINTS, risk=risk, bound=bound)
        assert expected.threshold == (POINTS[column] if column >= 0 else -np.inf)
        assert met == pytest.approx(losses[~split, column].mean() if column >= 0 else 0.0)
    sent, tokens = found.sent_tokens(12)
    shares = [
        1.0 if column < 0 else sent[~split, column].sum() / tokens[~split].sum()
        for split, column in zip(splits, outcome.column, strict=True)
    ]
    assert share_of_tests(sent, tokens, splits, outcome.column) == pytest.approx(np.mean(shares))
    assert mean_of_tests(losses, splits, outcome.column) == pytest.approx(outcome.mean.value)


def test_the_jackknife_leaves_out_one_prompt_at_a_time(trace: Trace):
    losses, splits = losses_of(trace, 1).overlap(12), random_splits(40, 1)
    outcome = over_splits(losses, splits, risk=0.2, bound=1.0)
    without = []
    for prompt in range(40):
        rest = np.delete(np.arange(40), prompt)
        mets = []
        for split in splits:
            own = losses[rest[split[rest]]]
            threshold = calibrate_threshold(own, POINTS, risk=0.2, bound=1.0).threshold
            column = np.searchsorted(POINTS, threshold)
            mets.append(losses[rest[~split[rest]], column].mean() if threshold >= 0 else 0.0)
        without.append(np.mean(mets))
    spread = np.sqrt(39 / 40 * np.sum((np.array(without) - np.mean(without)) ** 2))
    assert outcome is not None
    assert outcome.mean.high - outcome.mean.value == pytest.approx(2.0226909 * spread, rel=1e-6)  # t with 39 degrees
