"""Truncation: the numbers equal the theory's functions at each position; limiting cases are drawn and named."""

import numpy as np
import pytest

from hlmtheory import truncation, verification
from hlmtheory.truncation._search.pairs import SortedPair
from hlmtheory.truncation.reconstruction import resampling_distortion, tvd_bound_sharp
from hlmtheory.truncation.sizes import exact_size
from validation.plots import FIGURES
from validation.plots.common.truncation.sample import SHOWN, SKIP_BELOW, THETA, Sample, sample_of
from validation.trace.reader import Trace, probabilities

Rows = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def sample(trace: Trace) -> Sample:
    return sample_of(trace, 1)


@pytest.fixture(scope="module")
def rows(trace: Trace) -> Rows:
    return tuple(probabilities(trace.arrays[name][:]) for name in ("draft_logits", "target_logits"))


def coarse(rng: np.random.Generator, size: int) -> np.ndarray:
    weights = rng.integers(0, 4, size) * rng.integers(1, 4, size)
    weights[rng.integers(size)] += 1
    return weights / weights.sum()


@pytest.mark.parametrize("seed", range(40))
def test_leaps_find_what_the_scan_finds(seed: int):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 40))
    if seed % 2:
        p, q = coarse(rng, size), coarse(rng, size)
    else:
        q = rng.dirichlet(np.full(size, 0.3))
        p = 0.5 * q + 0.5 * rng.dirichlet(np.full(size, 0.3))
    tolerances = [1.0, 0.7123, 0.3457, 0.1011, 0.0321, 1e-3]
    pair = SortedPair.of(p, q)
    assert pair.least(tolerances) == [int(exact_size(p, q, one)) for one in tolerances]
    for k in range(size + 1):
        gap, mass = pair.distortion(k)
        assert gap == pytest.approx(float(resampling_distortion(p, q, k)), abs=1e-9)
        assert mass == pytest.approx(float(verification.total_variation(p, truncation.truncate(q, k))), abs=1e-12)


def test_the_grid_holds_the_theory(sample: Sample, rows: Rows):
    q, p = (one[:, None] for one in rows)
    flat = truncation.truncate(q, sample.grid)
    np.testing.assert_allclose(sample.drafts.apart, verification.total_variation(*rows), rtol=1e-12)
    np.testing.assert_allclose(sample.deviation, verification.total_variation(q, flat), atol=1e-14)
    np.testing.assert_allclose(sample.rebuilt, verification.total_variation(p, flat), atol=1e-14)
    np.testing.assert_allclose(sample.distortion, resampling_distortion(p, q, sample.grid), atol=1e-12)
    np.testing.assert_allclose(
        sample.bias(sample.distortion), truncation.resampling_bias(p, q, sample.grid), atol=1e-12
    )


@pytest.mark.parametrize("theta", [0.05, THETA, 0.5])
def test_offline_sizes_are_those_of_the_theory(theta: float, sample: Sample, rows: Rows):
    q, p = rows
    assert sample.offline(theta) == int(truncation.offline_size(p, q, theta))
    assert sample.offline(theta, sharp=True) == int(truncation.offline_size(p, q, theta, sharp=True))
    sent = sample.drafts.uncertainty > SKIP_BELOW
    assert 0 < sent.sum() < len(q)
    assert sample.offline(theta, sent=True) == int(truncation.offline_size(p[sent], q[sent], theta))


def test_fig_8_shows_the_bounds(rows: Rows, sample: Sample, trace: Trace):
    found = FIGURES["cu-hlm", "8"].measure(trace, 1)
    (q, p), drafts = (one[:, None] for one in rows), sample.drafts
    token, estimate = drafts.token[:, None], drafts.estimate[:, None]
    series = {(one["panel"], one["name"]): one["y"] for one in found["series"]}
    k = sample.grid
    expected = {
        (0, "TV(r, r̂)"): resampling_distortion(p, q, k),
        (0, "sharp bound"): tvd_bound_sharp(p, q, k),
        (0, "published (20)"): truncation.tvd_bound(p, q, k),
        (1, "Bias"): truncation.resampling_bias(p, q, k),
        (1, "2Δ_k"): 2 * verification.total_variation(q, truncation.truncate(q, k)),
    }
    for eta in SHOWN:
        name = (0, f"online (23), η = {eta:g}")
        expected[name] = truncation.online_bound(q, token, estimate, k, sharpness=eta)
    for name, values in expected.items():
        np.testing.assert_allclose(series[name], values.mean(axis=0), rtol=1e-4, atol=1e-9, err_msg=str(name))
    lost = (drafts.drafted * drafts.rejection)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        certified = np.where(sample.deviation > 0, np.minimum(1, sample.deviation / lost), 0)
    np.testing.assert_allclose(series[0, "Δ_k/(q_d β_d)"], certified.mean(axis=0), rtol=1e-4, atol=1e-9)
