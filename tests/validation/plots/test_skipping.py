"""Figures of uncertainty and skipping: their numbers equal the library's, and undefined values are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlmtheory
from tests.validation.plots.conftest import Maker
from validation.decoding.trace_drafts import Tokens, tokens_of
from validation.plots import FIGURES as EVERY
from validation.plots import draw
from validation.plots.common.record import told
from validation.plots.common.skipping import sample as tokens_module
from validation.plots.common.skipping.sample import accepted_if_skipped, mean, ratio
from validation.plots.ours import skipping_table as skipping_table
from validation.trace.reader import Trace

TABLE = ("ours", "I")
KEYS = [*(("cu-hlm", number) for number in ("2", "4a", "4b", "9a")), *(("u-hlm", number) for number in "3456"), TABLE]
FIGURES = {key: EVERY[key] for key in KEYS}


def sidecar(key: tuple[str, str], trace: Trace, folder: Path, seed: int = 1) -> dict[str, Any]:
    """The sidecar of one exhibit, just drawn."""
    path, *_ = draw(FIGURES[key], trace, folder, command="hlm figure", seed=seed, commit="c0ffee")
    return json.loads(path.read_text(encoding="utf-8"))


def rows_of(found: dict[str, Any], table: int = 0) -> dict[str, list[str]]:
    """Return a table by its first column; of two rows with one name, the later one."""
    return {row[0]: row[1:] for row in found["tables"][table]["rows"]}


def tokens_from(text: Any, uncertainty: Any, rejection: Any, longest: int) -> Tokens:
    """Make tokens without a trace; each text has its own prompt."""
    return Tokens(text, text, uncertainty, rejection, 1.0 - rejection, text, text, longest)


# ------------------------------------------------------------------------------------------------ estimates


def test_the_interval_of_a_mean_is_that_of_a_clustered_regression():
    from statsmodels.api import OLS

    rng = np.random.default_rng(3)
    groups = rng.integers(0, 7, 80)
    values = rng.random(80) + 0.3 * groups
    fitted = OLS(values, np.ones(80)).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    found = mean(values, groups)
    np.testing.assert_allclose([found.low, found.high], fitted.conf_int()[0], rtol=1e-9)
    assert found.value == pytest.approx(values.mean())


def test_an_estimate_of_nothing_is_undefined_and_one_prompt_has_no_interval():
    none, one = ratio([0.0, 0.0], [0, 0], np.array([0, 1])), ratio([0.5, 1.0], 1.0, np.array([4, 4]))
    assert np.isnan([none.value, none.low, none.high]).all()
    assert one.value == 0.75
    assert np.isnan([one.low, one.high]).all()


@pytest.mark.parametrize("threshold", [-0.1, 0.3, 1.0])
def test_the_two_true_skip_rates_condition_on_different_events(trace: Trace, threshold: float):
    tokens = tokens_of(trace, 1)
    skipped, accepted = tokens.uncertainty <= threshold, 1 - tokens.rejection
    assert tokens_module.transmission_rate(tokens, threshold).value == pytest.approx(1 - skipped.mean())
    both = (skipped * accepted).sum()
    assert tokens_module.skipped_if_accepted(tokens, threshold).value == pytest.approx(both / accepted.sum())
    found = accepted_if_skipped(tokens, threshold).value
    assert np.isnan(found) if threshold < 0 else found == pytest.approx(both / skipped.sum())
    assert tokens_module.one_step(tokens, threshold).value == pytest.approx((skipped * tokens.rejection).mean())


# ------------------------------------------------------------------------------------------------ figures


@pytest.mark.parametrize("key", [("cu-hlm", "4a"), ("u-hlm", "5")])
def test_the_line_and_its_thresholds(key: tuple[str, str], trace: Trace, tmp_path: Path):
    found, tokens = sidecar(key, trace, tmp_path), tokens_of(trace, 1)
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


# ------------------------------------------------------------------------------------------------ the table


def test_the_table_states_the_risks(trace: Trace, tmp_path: Path):
    found, tokens = sidecar(TABLE, trace, tmp_path), tokens_of(trace, 1)
    cells = rows_of(found)
    fit = hlmtheory.uncertainty.fit_linear(tokens.uncertainty, tokens.rejection, groups=tokens.text)
    line = {"slope": fit.slope, "intercept": fit.intercept, "non_acceptance": np.mean(tokens.rejection > 0)}
    mass = np.bincount(tokens.point, minlength=21) / 60
    gap = hlmtheory.skipping.surrogate_gap(tokens.uncertainty, tokens.rejection, **line)
    averse, prone = hlmtheory.skipping.skip_thresholds(**line)
    low, high = fit.slope_interval
    expected = {
        "a": f"{fit.slope:.4f} [{told(low)}, {told(high)}]",
        "R²": f"{fit.r_squared:.4f}",
        "risk-averse threshold −b/a": told(averse),
        "risk-prone threshold (Δ − b)/a": told(prone),
        "R, summed over the 21 points": f"{hlmtheory.skipping.rejection_risk_discrete(mass, **line):.4f}",
        "its Hölder bound, s = 2": f"{hlmtheory.skipping.holder_bound_discrete(mass, **line):.4f}",
        "exact less R, over the 21 points": told(gap.exact - gap.surrogate, "+.4f"),
    }
    assert {name: cells[name][2] for name in expected} == expected
    assert cells["a"][:2] == ["0.815", "0.82"]
    assert cells["exact one-step TV, risk-prone"][2].startswith(f"{gap.exact:.4f} [")


SURE = np.tile(np.concatenate([[60.0], np.zeros(49)]), (60, 1))


def falling() -> dict[str, Any]:
    """Certain drafts that are rejected, and uncertain drafts that are accepted."""
    draft, target = SURE.copy(), SURE.copy()
    draft[::2] = target[::2] = 0.0
    target[1::2, 0], target[1::2, 1] = 0.0, 60.0
    return {"draft": draft, "target": target}


def test_a_line_that_falls_gives_no_threshold(make_trace: Maker, tmp_path: Path):
    trace = make_trace(**falling())
    found = sidecar(("u-hlm", "6"), trace, tmp_path)
    assert found["series"] == []
    assert found["statistics"]["tokens"]["line"]["slope"] < 0


# ------------------------------------------------------------------------------------------------ the baselines
