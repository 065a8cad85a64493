"""Figure 2 of flexspec by hand, and the running mean of Figure 1 of ours."""

from __future__ import annotations

import numpy as np
import pytest

from hlmtheory import channel
from validation.plots.flexspec import computed
from validation.plots.ours import fading_mean as link

# ------------------------------------------------------------------------------------------------------- Fig. 2


def test_fig_2_parts_add_up_to_the_round_of_10_and_k_star_shifts_from_6_to_2():
    found = computed.simulate_lengths(1)
    weak, strong, exact, picks = found["series"]
    assert (weak["best"], strong["best"]) == (2, 6)
    draft = found["statistics"]["draft_ms"]
    for one in (weak, strong):
        total = np.add(one["communication"], one["computation"])
        emitted = np.array([sum(0.8**i for i in range(k + 1)) for k in one["x"]])
        np.testing.assert_allclose(total * emitted, 432.0 + np.array(one["x"]) * (draft + one["wait_ms"]), rtol=1e-3)
        np.testing.assert_allclose(one["computation"] * emitted, 104.6 + np.array(one["x"]) * draft, rtol=1e-3)
        assert one["x"][int(np.argmin(total))] == one["best"]
    assert strong["wait_ms"] == 0.0
    for wait, pick in zip(picks["x"], picks["y"], strict=True):
        assert pick == (8 if 1.25 * (draft + wait) < 432.0 else 1)
    assert np.all(np.diff(exact["y"]) <= 0)


# --------------------------------------------------------------------------------------------------- our figure


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use 10,000 blocks, a part at a time."""
    monkeypatch.setattr(link, "SAMPLES", 10_000)
    monkeypatch.setattr(link, "CHUNK", 3_000)


@pytest.mark.usefixtures("short")
def test_the_running_mean_is_the_mean():
    found = link.simulate(3)
    assert [series["name"] for series in found["series"]] == ["Rayleigh", "Rician, 3 dB", "Rician, 10 dB"]
    law = channel.Rician(0.01, 10.0**0.3)
    rng = np.random.default_rng([3, 1, 2])
    snr = np.concatenate([law.sample(rng, size) for size in (3000, 3000, 3000, 1000)])
    latency = 736_000 / (10e6 * np.log2(1 + snr))
    series = found["series"][1]
    means = [latency[:size].mean() for size in series["x"]]
    assert series["running_mean"][2] == pytest.approx(means, rel=1e-5)
    medians = [np.median(latency[:size]) for size in (100, 1000, 10_000)]
    assert series["running_median"][2] == pytest.approx(medians, rel=1e-5)
    assert series["median"] == pytest.approx(np.median(latency), rel=0.05)
    growth = np.diff(series["typical_mean"]) / np.diff(np.log(series["x"]))
    assert growth[-1] == pytest.approx(series["growth_per_factor_e"], rel=0.02)
