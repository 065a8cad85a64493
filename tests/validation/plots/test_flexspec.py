"""The refits of flexspec's printed numbers: arithmetic by hand, and fits on latencies with known parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory import channel, draft_length
from validation.plots import EXHIBITS, Simulation, draw, find_exhibits
from validation.plots.flexspec import fits, printed
from validation.plots.ours import fading_mean as link

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = ("2", "4", "5", "6", "I", "II", "III", "IV", "V", "VI")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The files of every figure and table, drawn once."""
    folder = tmp_path_factory.mktemp("figures")
    return {
        one.number: draw(one, None, folder, command="hlm figure", seed=1, commit="c0ffee")
        for one in find_exhibits("flexspec")
        if isinstance(one, Simulation)
    }


@pytest.fixture(scope="module")
def sidecars(drawn: dict[str, list[Path]]) -> dict[str, dict[str, Any]]:
    """Return the numbers of the drawn files."""
    return {number: json.loads(paths[0].read_text(encoding="utf-8")) for number, paths in drawn.items()}


def rows(sidecar: dict[str, Any], number: int) -> list[list[str]]:
    return sidecar["tables"][number]["rows"]


# ----------------------------------------------------------------------------------------------------- sidecars


def test_every_figure_and_table_is_there(sidecars: dict[str, dict[str, Any]]):
    assert tuple(sidecars) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_the_sidecar_is_whole(number: str, sidecars: dict[str, dict[str, Any]]):
    found = sidecars[number]
    assert found["source"]["key"] == "li2025flexspec"
    kinds = {"2": "derived from printed", "I": "derived from printed", "II": "measured"}
    assert found["kind"] == kinds.get(number, "measured counts × assumed times")
    assert found["tables"]
    for table in found["tables"]:
        assert table["title"]
        assert {len(row) for row in table["rows"]} == {len(table["heads"])}
        assert all(isinstance(cell, str) and "nan" not in cell for row in table["rows"] for cell in row)
    assert all(axes[side]["label"] for axes in found.get("axes", []) for side in "xy")


@pytest.mark.parametrize("number", NUMBERS)
def test_the_same_seed_gives_the_same_bytes(number: str, drawn: dict[str, list[Path]], tmp_path: Path):
    one = EXHIBITS["flexspec", number]
    again = draw(one, None, tmp_path, command="hlm figure", seed=1, commit="c0ffee")
    assert [path.suffix for path in again] == ([".json"] if one.paint is None else [".json", ".svg"])
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in drawn[number]]


# ------------------------------------------------------------------------------------------------ what is printed


def test_one_speed_up_is_misprinted():
    assert list(printed.misprints("III")) == [("GSM8K, WiFi", "EAGLE-2", 1240.0, 0.86, pytest.approx(1220 / 1240))]
    assert list(printed.misprints("IV")) == []


def test_a_table_of_latencies_by_hand():
    latency, gain = printed.LATENCIES["III"]
    assert latency.shape == gain.shape == (6, 3, 7)
    assert latency[0, 2].tolist() == [1220, 1205, 1850, 1455, 1240, 950, 625]
    assert gain[1, 0].tolist() == [1.0, 1.06, 1.2, 2.16, 2.47, 1.51, 2.05]
    sampled, _ = printed.LATENCIES["IV"]
    assert sampled[5, 2].tolist() == [1200, 1185, 1765, 1915, 1700, 1125, 720]


def test_drafts_a_second_are_the_inverse_of_their_latency():
    assert all(round(1e3 / ms, 1) == rate for _, ms, rate, _ in printed.DEVICES)


# ------------------------------------------------------------------------------------------------------- Fig. 2


def test_fig_2_parts_add_up_to_the_round_of_10_and_k_star_shifts_from_6_to_2(sidecars: dict[str, dict[str, Any]]):
    weak, strong, exact, picks = sidecars["2"]["series"]
    assert (weak["best"], strong["best"]) == (2, 6)
    draft = sidecars["2"]["statistics"]["draft_ms"]
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


def test_fig_2_tables_by_hand(sidecars: dict[str, dict[str, Any]]):
    needs, surrogate, rates = (rows(sidecars["2"], n) for n in range(1, 4))
    low, high = (float(end) for end in needs[2][2].split(" to "))  # γ = 0.8, K* = 2: ETGR(1) = ETGR(2) and so on
    assert (2.44 * (low + 1), 2.952 * (high + 2)) == pytest.approx((1.8 * (low + 2), 2.44 * (high + 3)), rel=5e-3)
    assert [row[4] for row in surrogate] == ["7", "16", "64"] * 2
    assert rates[0] == ["Public WiFi, 10 Mbit/s", "0.00150 ms"]
    assert rates[3] == ["5 tokens in 200 ms (Section III-D): 375 bit/s", "40 ms"]
    slowest, fastest = (float(v) for v in rates[4][0].split(" bit/s")[0].split(" to "))
    least, most = (float(v) for v in rates[4][1].removesuffix(" ms").split(" to "))
    assert (15e3 / most, 15e3 / least) == pytest.approx((slowest, fastest), rel=0.03)


# ------------------------------------------------------------------------------------------------------- Fig. 5


@pytest.mark.parametrize("gamma", [0.3, 0.8])
def test_strides_of_a_known_round_are_fitted_back(gamma: float):
    points = {k: float(draft_length.cost_per_token(gamma, k, 300.0, 40.0)) for k in (0, 1, 3, 5)}
    fit = fits.stride_fit(points)
    assert (fit.gamma, fit.fixed, fit.marginal) == pytest.approx((gamma, 300.0, 40.0), rel=1e-4)
    assert fit.worst(points) < 1e-6
    fixed, marginal = fits.through_two({1: points[1], 5: points[5]}, gamma)
    assert (float(fixed), float(marginal)) == pytest.approx((300.0, 40.0))
    gammas, fixed, marginal = fits.open_set({1: points[1], 5: points[5]})
    assert gammas.min() <= gamma <= gammas.max()
    assert np.asarray(draft_length.cost_per_token(gammas, 5, fixed, marginal)) == pytest.approx(points[5])


def test_no_round_meets_the_printed_strides():
    for points in printed.STRIDES.values():
        fixed, marginal = points[0], np.linspace(0.0, 2000.0, 4001)
        gammas = np.linspace(0.0, 1.0, 501)[:, None]
        errors = [np.asarray(draft_length.cost_per_token(gammas, k, fixed, marginal)) / points[k] - 1 for k in (1, 5)]
        assert np.abs(errors).max(axis=0).min() > 0.1  # with F as Cloud-Only, over the whole plane
        assert 0.15 < fits.stride_fit(points).worst(points) < 0.35


def test_the_arguments_hold_for_any_profile():
    """E(1) = 1 + α₁ and E(5) by any profile, as the second table of Fig. 5 uses them."""
    rng = np.random.default_rng(0)
    profiles = np.concatenate([rng.random((2000, 5)), np.ones((1, 5)), np.eye(5)[:1]])
    one, five = 1 + profiles[:, 0], 1 + np.cumprod(profiles, axis=1).sum(axis=1)
    strong, weak = printed.STRIDES["5G"], printed.STRIDES["WiFi"]
    marginal = strong[1] * one - strong[0]
    assert ((strong[0] + 5 * marginal) / five)[marginal >= 0].min() >= 324.0
    marginal = weak[1] * one - weak[0]
    assert ((weak[0] + 5 * marginal) / five)[marginal >= 0].max() <= 685.0
    fixed = [(5 * at[1] * one - at[5] * five) / 4 for at in (strong, weak)]
    assert (fixed[1] < fixed[0]).all()
    assert fixed[1] - fixed[0] == pytest.approx(275 * one - 308.75 * five)


def test_fig_5_tables_by_hand(sidecars: dict[str, dict[str, Any]]):
    arguments = rows(sidecars["5"], -1)
    assert [row[1] for row in arguments[:3]] == ["324 ms", "685 ms", "275 E(1) − 308.75 E(5) < 0 ms"]
    assert arguments[3][1] == "1.19× as long, 2.33× of FlexSpec's"
    shared = rows(sidecars["5"], -2)[-1]
    gammas = np.roots([1, 0, 1, 0, 1 - 405 / 220]).real.max(), np.roots([1, 0, 1, 0, 1 - 5 * 625 / 1455]).real.max()
    assert shared[1] == f"{gammas[0]:.2f} to {gammas[1]:.2f}"  # M ≥ 0 over 5G and F ≥ 0 over WiFi


# ------------------------------------------------------------------------------------------------------- tables


def test_table_i_by_hand(sidecars: dict[str, dict[str, Any]]):
    assert [row[3] for row in rows(sidecars["I"], 0)] == ["42.7 min", "8.5 min", "1.4 min"]
    assert sidecars["I"]["statistics"] == {"least_gigabytes": 3.5625, "most_gigabytes": 3.58125}


@pytest.mark.parametrize(("gain", "gamma"), [(0.9, 0.8), (1.95, 0.7), (2.4, 0.9), (0.9, 0.0)])
def test_the_ratio_gives_the_speed_up(gain: float, gamma: float):
    found = fits.ratio_for(gain, gamma)
    assert found is not None
    ratio, length = found
    rates = [1.0 / float(draft_length.cost_per_token(gamma, k, 1.0, ratio)) for k in range(1, 65)]
    assert max(rates) == pytest.approx(gain)
    assert rates[length - 1] == pytest.approx(gain)


def test_no_ratio_makes_few_acceptances_fast():
    assert fits.ratio_for(2.0, 0.4) is None


def test_a_column_is_fitted_back_at_the_right_acceptance():
    cloud = np.array([[400.0, 600.0, 1200.0], [420.0, 610.0, 1190.0], [410.0, 590.0, 1210.0]])
    gammas, marginals = np.array([0.7, 0.75, 0.72]), np.array([60.0, 90.0, 200.0])
    own, _ = fits.best_latency(gammas[:, None], cloud, marginals)
    fit = fits.column_fit(cloud, own, 0.7)
    assert fit.rms < 0.05
    assert fit.gammas == pytest.approx(gammas, abs=2e-3)
    assert fit.marginals == pytest.approx(marginals, rel=2e-2)
    other = fits.column_fit(cloud, own, 0.85)  # another γ explains the same latencies nearly as well
    assert other.rms < 3.0
    assert other.marginals.min() > marginals.min()
    held = fits.column_fit(cloud, own, 0.6, marginals)
    assert held.gammas == pytest.approx(gammas, abs=2e-3)


def test_the_latency_tables_leave_the_acceptance_open(sidecars: dict[str, dict[str, Any]]):
    for number in ("III", "IV"):
        misfits = sidecars[number]["statistics"]["printed"]["rms_ms"]
        assert max(misfits) < 1.5 * min(misfits)
        assert len(rows(sidecars[number], -3)) == len(printed.METHODS)
    assert rows(sidecars["III"], -1)[0] == ["EAGLE-2, GSM8K, WiFi: 1240 ms, 0.86×", "0.98×"]
    assert sidecars["IV"]["statistics"]["printed"]["rms_with_other_marginals_ms"] > 2 * max(misfits)


def test_devices_of_a_known_round_are_fitted_back_and_concave():
    draft = np.array([145.0, 8.5, 12.0, 10.5])
    latency, _ = fits.best_latency(0.8, 1.0, draft / 300.0 + 0.1)
    fit = fits.device_fit(draft, 1.0 / latency, 300.0)
    assert fit.fitted == pytest.approx(1.0 / latency, abs=1e-4)
    assert 1.0 / latency[3] <= fits.largest_between(draft, 1.0 / latency, 3)


def test_the_snapdragon_is_above_the_chord(sidecars: dict[str, dict[str, Any]]):
    found = sidecars["V"]["statistics"]["printed"]
    shown = dict(zip(printed.DEVICE_DATASETS, printed.DEVICES[3][3], strict=True))
    assert all(shown[dataset] - 0.005 > found[f"most_{dataset}"] for dataset in shown)
    first = 1 / (1.5 / 3.5 / 1.965 + 2 / 3.5 / 1.825)
    assert found["most_GSM8K"] == pytest.approx(first, abs=1e-3)


def test_table_vi_by_hand(sidecars: dict[str, dict[str, Any]]):
    llama = rows(sidecars["VI"], 1)[0]
    assert llama[1] == "215, 312 ms"
    assert llama[4:] == ["158 and 97 ms", f"{158 / (578 / 1.85 - 420 / 1.95):.2f}"]


# --------------------------------------------------------------------------------------------------- our figure


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use 10,000 blocks, a part at a time."""
    monkeypatch.setattr(link, "SAMPLES", 10_000)
    monkeypatch.setattr(link, "CHUNK", 3_000)


@pytest.mark.usefixtures("short")
def test_the_running_mean_is_the_mean(tmp_path: Path):
    one = EXHIBITS["ours", "1"]
    json_path, _ = draw(one, None, tmp_path, command="", seed=3, commit="c")
    found = json.loads(json_path.read_text(encoding="utf-8"))
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


@pytest.mark.usefixtures("short")
def test_the_seed_drives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one = EXHIBITS["ours", "1"]
    drawn = [draw(one, None, tmp_path / str(n), command="", seed=s, commit="c") for n, s in enumerate((1, 1, 2))]
    first, again, other = ([path.read_bytes() for path in paths] for paths in drawn)
    assert first == again
    assert first[0] != other[0]
    assert "Under Rayleigh fading the mean of 10,000 blocks is" in json.loads(first[0])["findings"]
    assert one.source in (ROOT / "validation" / "references.bib").read_text(encoding="utf-8")
