"""Truncation: the numbers equal the theory's functions at each position; limiting cases are drawn and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlmtheory
from hlmtheory import channel, uncertainty, verification
from hlmtheory.truncation._search.pairs import SortedPair
from hlmtheory.truncation.sizes import bias_size
from hlmtheory.truncation.softplus import online_shortfall
from validation.decoding.trace_drafts import tokens_of
from validation.plots import EXHIBITS, FIGURES, draw
from validation.plots.common import record
from validation.plots.common.style import house_style
from validation.plots.common.truncation import sample as truncation_sample
from validation.plots.common.truncation.sample import (
    EPSILON,
    PARAMETERS,
    SHARPNESSES,
    SHOWN,
    SKIP_BELOW,
    SWEPT,
    THETA,
    Sample,
    sample_of,
)
from validation.plots.ours import truncation_table as truncation_tables
from validation.trace.reader import Trace, TraceWriter, open_trace, probabilities

KEYS = [("cu-hlm", "8"), ("cu-hlm", "9b"), *(("ours", number) for number in ("3", "4", "5", "II"))]
ROOT = Path(__file__).resolve().parents[3]

Rows = tuple[np.ndarray, np.ndarray]
Files = dict[tuple[str, str], list[Path]]
Sidecars = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def make_trace(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trace]:
    """Return a function that writes a trace of random or given logits."""

    def make(positions: int = 60, vocabulary: int = 50, *, draft: Any = None, target: Any = None) -> Trace:
        rng = np.random.default_rng(0)
        if draft is None:
            draft = rng.normal(0, 1, (positions, vocabulary)) * rng.gamma(2, 1.5, (positions, 1))
        if target is None:
            target = draft + rng.normal(0, 1, draft.shape)
        path = tmp_path_factory.mktemp("traces") / "trace"
        zeros = np.zeros(len(draft), dtype=np.int32)
        with TraceWriter(path, draft.shape[1], {"pair": {"name": "a pair"}}) as writer:
            writer.append(draft, target, zeros, zeros, np.arange(len(draft)))
        return open_trace(path)

    return make


@pytest.fixture(scope="module")
def trace(make_trace: Callable[..., Trace]) -> Trace:
    """60 positions over 50 entries."""
    return make_trace()


@pytest.fixture(scope="module")
def sample(trace: Trace) -> Sample:
    """The sample of all positions."""
    return sample_of(trace, 1)


@pytest.fixture(scope="module")
def rows(trace: Trace) -> Rows:
    """q and p."""
    return tuple(probabilities(trace.arrays[name][:]) for name in ("draft_logits", "target_logits"))


def files(key: tuple[str, str], trace: Trace, folder: Path) -> list[Path]:
    """The files of one figure."""
    return draw(EXHIBITS[key], trace, folder, command="hlm figure", seed=1, commit="c0ffee")


@pytest.fixture(scope="module")
def drawn(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files of every figure, drawn once."""
    folder = tmp_path_factory.mktemp("figures")
    return {key: files(key, trace, folder) for key in KEYS}


@pytest.fixture(scope="module")
def sidecars(drawn: Files) -> Sidecars:
    """The numbers of the drawn figures."""
    return {key: json.loads(paths[0].read_text(encoding="utf-8")) for key, paths in drawn.items()}


def measured(key: tuple[str, str], trace: Trace, seed: int = 1) -> tuple[dict[str, Any], str]:
    """Return the numbers of one figure, through JSON, and its caption; the figure is painted but not saved."""
    one = FIGURES[key]
    numbers = json.loads(json.dumps(one.measure(trace, seed), allow_nan=False))
    if one.paint is not None:
        with house_style():
            one.paint(numbers).draw_without_rendering()
    return numbers, one.describe(numbers, "")["findings"]


# ---------------------------------------------------------------------------------------------------- one row


def coarse(rng: np.random.Generator, size: int) -> np.ndarray:
    """A row with ties and zeros."""
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
    assert pair.least(tolerances) == [int(hlmtheory.truncation.exact_size(p, q, one)) for one in tolerances]
    for k in range(size + 1):
        gap, mass = pair.distortion(k)
        assert gap == pytest.approx(float(hlmtheory.truncation.resampling_distortion(p, q, k)), abs=1e-9)
        assert mass == pytest.approx(
            float(verification.total_variation(p, hlmtheory.truncation.truncate(q, k))), abs=1e-12
        )


def test_a_flattened_tail_that_is_the_target_is_at_its_worst():
    pair = SortedPair.of(np.full(4, 0.25), np.array([0.5, 0.25, 0.125, 0.125]))
    assert pair.distortion(0) == (1.0, 0.0)
    assert pair.least([0.5, 0.0]) == [int(hlmtheory.truncation.exact_size(pair.p, pair.q, one)) for one in (0.5, 0.0)]


# ------------------------------------------------------------------------------------------------- the sample


def test_the_grid_holds_the_theory(sample: Sample, rows: Rows):
    q, p = (one[:, None] for one in rows)
    flat = hlmtheory.truncation.truncate(q, sample.grid)
    np.testing.assert_allclose(sample.drafts.apart, verification.total_variation(*rows), rtol=1e-12)
    np.testing.assert_allclose(sample.deviation, verification.total_variation(q, flat), atol=1e-14)
    np.testing.assert_allclose(sample.rebuilt, verification.total_variation(p, flat), atol=1e-14)
    np.testing.assert_allclose(
        sample.distortion, hlmtheory.truncation.resampling_distortion(p, q, sample.grid), atol=1e-12
    )
    np.testing.assert_allclose(
        sample.bias(sample.distortion), hlmtheory.truncation.resampling_bias(p, q, sample.grid), atol=1e-12
    )


def test_drafts_are_drawn_and_estimated_as_in_the_paper(sample: Sample, rows: Rows, trace: Trace):
    drafts, (q, p) = sample.drafts, rows
    one = np.arange(len(q)), drafts.token
    np.testing.assert_array_equal(drafts.drafted, q[one])
    np.testing.assert_allclose(drafts.rejection, np.maximum(1 - p[one] / q[one], 0), atol=1e-12)
    tokens = tokens_of(trace, 1)
    fit = uncertainty.fit_linear(tokens.uncertainty, tokens.rejection, binned=True)
    assert drafts.line == (fit.slope, fit.intercept)
    np.testing.assert_allclose(drafts.estimate, np.clip(fit.slope * drafts.uncertainty + fit.intercept, 0, 1))
    assert set(np.round(20 * drafts.uncertainty)) <= set(range(21))


def test_every_rule_has_the_sizes_of_its_function(sample: Sample, rows: Rows, trace: Trace):
    (q, p), drafts = rows, sample.drafts
    beta, estimate, token = drafts.rejection[:, None], drafts.estimate[:, None], drafts.token[:, None]
    wide, tried = q[:, None], {name: np.array(value) for name, value in PARAMETERS.items()}
    half = 0.5 / drafts.apart[:, None]
    eta = np.array(SHARPNESSES)
    expected = {
        "exact": hlmtheory.truncation.exact_size(p[:, None], wide, half * tried["exact"]),
        "certified": hlmtheory.truncation.certified_size(wide, tried["certified"]),
        "online": hlmtheory.truncation.online_size(wide, token, estimate, THETA, sharpness=eta),
        "online, true": hlmtheory.truncation.online_size(wide, token, beta, THETA, sharpness=eta),
        "top-p": hlmtheory.truncation.size_from_top_p(wide, tried["top-p"]),
        "min-p": hlmtheory.truncation.size_from_min_p(wide, tried["min-p"]),
        "top-nσ": hlmtheory.truncation.size_from_top_n_sigma(
            trace.arrays["draft_logits"][:].astype(float)[:, None], tried["top-nσ"]
        ),
    }
    for one in SHOWN:
        name = f"online {one:g}"
        expected[name] = hlmtheory.truncation.online_size(wide, token, estimate, tried[name], sharpness=one)
    assert set(expected) == set(sample.top_k)
    for name, sizes in expected.items():
        np.testing.assert_array_equal(sample.top_k[name], sizes, err_msg=name)
        found = hlmtheory.truncation.resampling_distortion(p[:, None], wide, sizes)
        np.testing.assert_allclose(sample.met[name], found, atol=1e-10, err_msg=name)
    np.testing.assert_array_equal(sample.least, hlmtheory.truncation.exact_size(p, q, THETA))
    swept = np.array(SWEPT)
    np.testing.assert_array_equal(
        sample.swept, hlmtheory.truncation.online_size(wide, token, swept, THETA, sharpness=SHOWN[1])
    )
    certain = hlmtheory.truncation.online_certified_size(wide, token, swept, THETA, estimated=True).k
    np.testing.assert_array_equal(sample.safe, certain)


@pytest.mark.parametrize("theta", [0.05, THETA, 0.5])
def test_offline_sizes_are_those_of_the_theory(theta: float, sample: Sample, rows: Rows):
    q, p = rows
    assert sample.offline(theta) == int(hlmtheory.truncation.offline_size(p, q, theta))
    assert sample.offline(theta, sharp=True) == int(hlmtheory.truncation.offline_size(p, q, theta, sharp=True))
    sent = sample.drafts.uncertainty > SKIP_BELOW
    assert 0 < sent.sum() < len(q)
    assert sample.offline(theta, sent=True) == int(hlmtheory.truncation.offline_size(p[sent], q[sent], theta))


# ------------------------------------------------------------------------------------------------ the figures


def test_fig_8_shows_the_bounds(rows: Rows, sample: Sample, sidecars: Sidecars):
    found = sidecars["cu-hlm", "8"]
    (q, p), drafts = (one[:, None] for one in rows), sample.drafts
    token, estimate = drafts.token[:, None], drafts.estimate[:, None]
    series = {(one["panel"], one["name"]): one["y"] for one in found["series"]}
    k = sample.grid
    expected = {
        (0, "TV(r, r̂)"): hlmtheory.truncation.resampling_distortion(p, q, k),
        (0, "sharp bound"): hlmtheory.truncation.tvd_bound_sharp(p, q, k),
        (0, "published (20)"): hlmtheory.truncation.tvd_bound(p, q, k),
        (1, "Bias"): hlmtheory.truncation.resampling_bias(p, q, k),
        (1, "2Δ_k"): 2 * verification.total_variation(q, hlmtheory.truncation.truncate(q, k)),
    }
    for eta in SHOWN:
        name = (0, f"online (23), η = {eta:g}")
        expected[name] = hlmtheory.truncation.online_bound(q, token, estimate, k, sharpness=eta)
    for name, values in expected.items():
        np.testing.assert_allclose(series[name], values.mean(axis=0), rtol=1e-4, atol=1e-9, err_msg=str(name))
    lost = (drafts.drafted * drafts.rejection)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        certified = np.where(sample.deviation > 0, np.minimum(1, sample.deviation / lost), 0)
    np.testing.assert_allclose(series[0, "Δ_k/(q_d β_d)"], certified.mean(axis=0), rtol=1e-4, atol=1e-9)
    assert found["statistics"]["largest_share_of_published"] <= 0.5 + 1e-9
    assert found["statistics"]["largest_share_of_sharp"] <= 1 + 1e-9


def test_fig_9b_shows_the_bits_of_4(sample: Sample, sidecars: Sidecars):
    found = sidecars["cu-hlm", "9b"]
    payload, distortion, bias = found["series"]
    assert payload["y"] == [k * (8 + 6) for k in payload["x"]]  # 2^5 < 50 ≤ 2^6
    assert found["statistics"]["full_bits"] == 50 * 14 == int(channel.vocabulary_payload_bits(50, 8))
    np.testing.assert_allclose(distortion["y"], sample.distortion.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(
        bias["y"], (2 * sample.drafts.apart[:, None] * sample.distortion).mean(axis=0), rtol=1e-4
    )
    assert found["statistics"]["mean_k"]["offline (21)"] == sample.offline(THETA)
    assert f"{sample.offline(THETA) / 50:.2%}" in found["findings"]
    assert "less than 0.1%" in found["findings"]


def test_fig_3_compares_the_rules(sample: Sample, rows: Rows, sidecars: Sidecars):
    found = sidecars["ours", "3"]
    q, p = rows
    promised = {one["name"]: one for one in found["promised"]}
    certified = hlmtheory.truncation.certified_size(q, EPSILON)
    bias = hlmtheory.truncation.resampling_bias(p, q, certified)
    assert promised["certified"]["mean"] == pytest.approx(certified.mean(), rel=1e-4)
    assert promised["certified"]["bias"] == pytest.approx(bias.mean(), rel=1e-3)
    assert promised["certified"]["largest_bias"] <= EPSILON + 1e-9
    known = bias_size(
        q, total_variation_bound=np.minimum(verification.total_variation(q, p), 1.0), bias_tolerance=EPSILON
    )
    assert promised["certified, T known"]["mean"] == pytest.approx(known.mean(), rel=1e-4)
    assert promised["exact"]["mean"] <= promised["certified"]["mean"]
    assert promised["offline"]["range"] == [sample.offline(THETA)] * 2
    assert all(promised[name]["exceeded"] == 0 for name in ("exact", "certified", "certified, T known"))
    for one in found["series"][:-1]:
        np.testing.assert_allclose(one["y"], sample.top_k[one["name"]].mean(axis=0), rtol=1e-4)
    assert "30 tokens offline, 832 online" in found["findings"]


def test_fig_4_counts_where_the_online_bound_fails(sample: Sample, rows: Rows, sidecars: Sidecars):
    found = sidecars["ours", "4"]
    (q, p), drafts = rows, sample.drafts
    true, estimated, sent = found["series"]
    token = drafts.token[:, None]
    for i, eta in enumerate(SHARPNESSES):
        short = online_shortfall(p[:, None], q[:, None], token, sample.grid, sharpness=eta)
        assert true["share"][i] == pytest.approx((short > 1e-9).mean(), rel=1e-4)
        bound = hlmtheory.truncation.online_bound(
            q[:, None], token, drafts.estimate[:, None], sample.grid, sharpness=eta
        )
        fails = sample.distortion > bound + 1e-9
        assert estimated["share"][i] == pytest.approx(fails.mean(), rel=1e-4)
        if fails.any():
            ratio = sample.distortion[fails] / bound[fails]
            assert estimated["worst"][i] == pytest.approx(ratio.max(), rel=1e-4)
            assert estimated["median"][i] == pytest.approx(np.median(ratio), rel=1e-4)
        k = hlmtheory.truncation.online_size(q, drafts.token, drafts.rejection, THETA, sharpness=eta)
        broken = hlmtheory.truncation.resampling_distortion(p, q, k) > THETA
        assert true["chosen"][i] == pytest.approx(broken.mean(), rel=1e-4)
        part = drafts.uncertainty > SKIP_BELOW
        assert sent["share"][i] == pytest.approx(fails[part].mean(), rel=1e-4)
    assert true["share"][0] > 0
    assert found["statistics"]["sent"] == (drafts.uncertainty > SKIP_BELOW).sum()


def test_fig_5_bins_by_the_rejection(sample: Sample, sidecars: Sidecars):
    found = sidecars["ours", "5"]
    beta = sample.drafts.rejection
    assert sum(found["statistics"]["positions"]) == len(beta)
    assert found["statistics"]["positions"][0] == (beta == 0).sum()
    last = beta > 0.8
    exact = {one["name"]: one["y"] for one in found["series"]}["exact, TV(r, r̂) ≤ θ"]
    assert exact[-1] == pytest.approx(sample.least[last].mean(), rel=1e-4)
    published, safe, certified = (one["y"] for one in found["swept"])
    assert all(np.diff(published) >= 0)
    assert all(np.diff(safe) <= 0)
    assert len(set(certified)) == 1


def test_the_table_stands_beside_the_papers(sample: Sample, sidecars: Sidecars):
    found = sidecars["ours", "II"]
    first, second = found["tables"]
    cells = {row[0]: row[1:] for row in first["rows"]}
    assert cells["k* offline, (21)"] == ["30", str(sample.offline(THETA))]
    assert cells["all entries, (4)"] == ["736,000 bit by (4), not printed", "700 bit"]
    k = sample.online(5.0)
    assert cells["k(t)* online, (24), η = 5"] == ["832; 4 to 5,715", f"{k.mean():,.0f}; {k.min()} to {k.max()}"]
    assert [row[0] for row in second["rows"]][:2] == ["exact", "certified"]
    assert {len(row) for row in second["rows"]} == {len(second["heads"])}
    assert [one["value"] for one in found["printed"]] == [30, 832, 4, 5715]


def test_a_size_between_two_points_is_interpolated():
    bias, sizes = np.array([1.0, 0.1, 0.01]), np.array([0.0, 10.0, 30.0])
    assert truncation_tables._needed(bias, sizes, 0.1) == pytest.approx(10.0)
    assert truncation_tables._needed(bias, sizes, np.sqrt(0.001)) == pytest.approx(20.0)
    assert truncation_tables._needed(bias, sizes, 0.001) is None
    assert truncation_tables._needed(np.zeros(3), sizes, 0.001) is None


# -------------------------------------------------------------------------------------------- seeds, files, edges


@pytest.mark.parametrize("key", KEYS)
def test_the_same_seed_gives_the_same_bytes(key: tuple[str, str], trace: Trace, drawn: Files, tmp_path: Path):
    if key == KEYS[0]:
        truncation_sample._sample.cache_clear()
    again = files(key, trace, tmp_path)
    assert [path.suffix for path in again] == ([".json"] if EXHIBITS[key].paint is None else [".json", ".svg"])
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in drawn[key]]


def test_a_long_trace_is_sampled_by_the_seed(trace: Trace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(truncation_sample, "SAMPLE_VALUES", 50 * 20)
    (first, _), (other, _) = (measured(("cu-hlm", "8"), trace, seed) for seed in (1, 2))
    assert first["positions_drawn"] == other["positions_drawn"] == 20
    assert first["series"] != other["series"]


def test_the_size_of_a_chunk_changes_nothing(trace: Trace, monkeypatch: pytest.MonkeyPatch):
    whole = [FIGURES[key].measure(trace, 1) for key in KEYS]
    truncation_sample._sample.cache_clear()
    monkeypatch.setattr(record, "CHUNK_VALUES", 7 * trace.vocabulary)
    assert [FIGURES[key].measure(trace, 1) for key in KEYS] == whole


@pytest.mark.parametrize("key", KEYS)
def test_the_sidecar_is_whole(key: tuple[str, str], sidecars: Sidecars):
    found = sidecars[key]
    assert found["kind"] == "measured"
    assert found["positions_drawn"] == 60
    assert all(axes[side]["label"] for axes in found.get("axes", []) for side in "xy")
    assert found["source"]["key"] in (ROOT / "validation" / "references.bib").read_text(encoding="utf-8")
    assert "nan" not in found["findings"]


@pytest.mark.parametrize(("positions", "vocabulary"), [(1, 1), (1, 2), (30, 2), (1, 50), (20, 3)])
@pytest.mark.parametrize("key", KEYS)
def test_the_smallest_traces_are_drawn(key: tuple[str, str], positions: int, vocabulary: int, small: dict[Any, Trace]):
    numbers, caption = measured(key, small[positions, vocabulary])
    assert numbers["positions_drawn"] == positions
    assert "nan" not in caption


@pytest.fixture(scope="module")
def small(make_trace: Callable[..., Trace]) -> dict[Any, Trace]:
    """The smallest traces, each made and measured once."""
    return {shape: make_trace(*shape) for shape in [(1, 1), (1, 2), (30, 2), (1, 50), (20, 3)]}


def test_one_model_twice_leaves_the_bounds_undefined(make_trace: Callable[..., Trace]):
    logits = np.random.default_rng(1).normal(0, 1, (9, 20)).astype(np.float16)
    trace = make_trace(draft=logits, target=logits)
    for key in KEYS:
        numbers, caption = measured(key, trace)
        assert numbers["positions_drawn"] == 9
        assert "undefined" in caption


def test_one_hot_rows_are_drawn(make_trace: Callable[..., Trace]):
    draft = np.full((5, 30), -60_000.0)
    draft[:, 3] = 60_000.0
    trace = make_trace(draft=draft, target=np.roll(draft, 1, axis=1))
    for key in KEYS:
        assert measured(key, trace)[0]["positions_drawn"] == 5
