"""Figures of uncertainty and skipping: their numbers equal the library's, and undefined values are named."""

import numpy as np
import pytest

import hlmtheory
from validation.decoding import trace_drafts
from validation.decoding.trace_drafts import tokens_of
from validation.estimates import Estimate, clustered
from validation.plots import FIGURES
from validation.plots.common.skipping import sample as tokens_module
from validation.plots.common.skipping.sample import accepted_if_skipped, mean, ratio
from validation.plots.ours import skipping_table as skipping_table
from validation.trace.reader import Trace


def test_the_interval_of_a_mean_is_that_of_a_clustered_regression():
    from statsmodels.api import OLS

    rng = np.random.default_rng(3)
    groups = rng.integers(0, 7, 80)
    values = rng.random(80) + 0.3 * groups
    fitted = OLS(values, np.ones(80)).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    found = mean(values, groups)
    np.testing.assert_allclose([found.low, found.high], fitted.conf_int()[0], rtol=1e-9)
    assert found.value == pytest.approx(values.mean())


def test_a_counted_cluster_is_as_many_equal_clusters():
    above, below, counts = np.array([1.0, 3.0, 2.0]), np.array([2.0, 4.0, 9.0]), np.array([4, 1, 3])
    repeated = clustered(np.repeat(above, counts), np.repeat(below, counts), confidence=0.9)
    assert clustered(above, below, confidence=0.9, counts=counts).plain(12) == repeated.plain(12)


def test_an_estimate_of_nothing_is_undefined_and_one_prompt_has_no_interval():
    none, one = ratio([0.0, 0.0], [0, 0], np.array([0, 1])), ratio([0.5, 1.0], 1.0, np.array([4, 4]))
    assert none == Estimate(None)
    assert one.value == 0.75
    assert (one.low, one.high) == (None, None)


@pytest.mark.parametrize("threshold", [-0.1, 0.3, 1.0])
def test_the_two_true_skip_rates_condition_on_different_events(trace: Trace, threshold: float):
    tokens = tokens_of(trace, 1)
    skipped, accepted = tokens.uncertainty <= threshold, 1 - tokens.rejection
    assert tokens_module.transmission_rate(tokens, threshold).value == pytest.approx(1 - skipped.mean())
    both = (skipped * accepted).sum()
    assert tokens_module.skipped_if_accepted(tokens, threshold).value == pytest.approx(both / accepted.sum())
    found = accepted_if_skipped(tokens, threshold).value
    assert found is None if threshold < 0 else found == pytest.approx(both / skipped.sum())
    assert tokens_module.one_step(tokens, threshold).value == pytest.approx((skipped * tokens.rejection).mean())


def test_a_row_that_is_larger_than_a_block_is_read_by_itself(trace: Trace, monkeypatch: pytest.MonkeyPatch):
    rows = np.concatenate([np.arange(3), np.arange(5, 7)])
    monkeypatch.setattr(trace_drafts, "CHUNK_VALUES", trace.vocabulary - 1)
    found = list(trace_drafts.chunks_of(trace, rows))
    assert [where.start for where, _ in found] == rows.tolist()
    for where, chunk in found:
        np.testing.assert_array_equal(chunk.tokens, trace.arrays["tokens"][where])


@pytest.mark.parametrize("key", [("cu-hlm", "4a"), ("u-hlm", "5")])
def test_the_line_and_its_thresholds(key: tuple[str, str], trace: Trace):
    found, tokens = FIGURES[key].measure(trace, 1), tokens_of(trace, 1)
    delta = np.mean(tokens.rejection > 0)
    for which in ("tokens", "bins"):
        fit = hlmtheory.uncertainty.fit_linear(
            tokens.uncertainty, tokens.rejection, groups=tokens.text, binned=which == "bins"
        )
        about = found["statistics"][which]
        assert about["line"]["slope"] == pytest.approx(fit.slope)
        np.testing.assert_allclose(about["line"]["intercept_interval"], fit.intercept_interval, rtol=1e-6)
        np.testing.assert_allclose(
            about["thresholds"],
            hlmtheory.skipping.skip_thresholds(fit.slope, fit.intercept, non_acceptance=delta),
            rtol=1e-6,
        )
    assert found["statistics"]["non_acceptance"]["value"] == pytest.approx(delta)
    *_, tokens_line, bins_line = found["series"]
    assert tokens_line["mean"][0] == pytest.approx(found["statistics"]["tokens"]["line"]["intercept"])
    assert bins_line["mean"][1] == pytest.approx(
        sum(found["statistics"]["bins"]["line"][k] for k in ("slope", "intercept")), abs=1e-8
    )
