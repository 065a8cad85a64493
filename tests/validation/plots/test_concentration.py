"""Figures 5 and 6 of cu-hlm: their numbers equal the library's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlmtheory import truncation, verification
from validation.plots import FIGURES
from validation.plots.cu_hlm import concentration
from validation.trace.reader import Trace, probabilities


def measured(number: str, trace: Trace, seed: int = 1) -> dict[str, Any]:
    return FIGURES["cu-hlm", number].measure(trace, seed)


def rows(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """q and p of the whole trace."""
    return tuple(probabilities(trace.arrays[name]) for name in ("draft_logits", "target_logits"))


def test_fig_5a_shows_the_sorted_rows(trace: Trace) -> None:
    (series,) = measured("5a", trace)["series"]
    ordered = -np.sort(-rows(trace)[0], axis=-1)[:, np.array(series["x"]) - 1]
    assert (series["x"][0], series["x"][-1]) == (1, 50)
    np.testing.assert_allclose(series["mean"], ordered.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(series["low"], np.quantile(ordered, 0.1, axis=0), rtol=1e-8)


def test_fig_5b_shows_the_residual_probability_and_the_deviation(trace: Trace) -> None:
    remains, deviation = measured("5b", trace)["series"]
    draft, _ = rows(trace)
    sizes = np.array(remains["x"])
    kept = np.cumsum(-np.sort(-draft, axis=-1), axis=-1)[:, sizes - 1]
    np.testing.assert_allclose(remains["mean"], (1 - kept).mean(axis=0), atol=1e-9)
    exact = [np.mean(verification.total_variation(draft, truncation.truncate(draft, k))) for k in sizes]
    np.testing.assert_allclose(deviation["mean"], exact, atol=1e-9)
    assert np.all(np.array(deviation["mean"]) <= np.array(remains["mean"]) + 1e-12)


def test_fig_6_shows_bias_and_distortion(trace: Trace) -> None:
    found = measured("6", trace)
    draft, target = rows(trace)
    distance = verification.total_variation(target, draft)
    np.testing.assert_allclose(found["tv_q_p"], distance, rtol=1e-5)
    for series in found["series"]:
        k = series["k"]
        distortion = truncation.resampling_distortion(target, draft, k)
        np.testing.assert_allclose(series["tv_r"], distortion, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(series["bias"], truncation.resampling_bias(target, draft, k), rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(series["bias"], 2 * distance * series["tv_r"], rtol=1e-4, atol=1e-12)
    x, y = (np.ravel([series[key] for series in found["series"]]) for key in ("tv_r", "bias"))
    assert found["statistics"]["pearson_r"] == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-4)


def test_a_long_trace_is_sampled_by_the_seed(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concentration, "SCATTER_POSITIONS", 10)
    first, again, other = (measured("6", trace, seed) for seed in (1, 1, 2))
    assert first["positions_drawn"] == 10
    assert first["tv_q_p"] == again["tv_q_p"] != other["tv_q_p"]
