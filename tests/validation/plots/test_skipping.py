"""Figures of uncertainty and skipping: their numbers equal the library's, and undefined values are named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from validation.plots.common.skipping.words import shown

import hlmtheory
from hlmtheory import verification
from validation.decoding import trace_drafts
from validation.decoding.trace_drafts import POINTS, Tokens, tokens_of
from validation.models import pair as pair_module
from validation.plots import FIGURES as EVERY
from validation.plots import draw
from validation.plots.common.skipping import line_fit as skipping_lines
from validation.plots.common.skipping import numbers as skipping_numbers
from validation.plots.common.skipping import printed as skipping_printed
from validation.plots.common.skipping import sample as tokens_module
from validation.plots.common.skipping.sample import accepted_if_skipped, mean, ratio
from validation.plots.ours import skipping_table as skipping_table
from validation.plots.ours.skipping_table import calibrated
from validation.trace.reader import Trace, TraceWriter, open_trace, probabilities
from validation.uncertainty import baselines

ROOT = Path(__file__).resolve().parents[3]
TABLE = ("ours", "I")
KEYS = [*(("cu-hlm", number) for number in ("2", "4a", "4b", "9a")), *(("u-hlm", number) for number in "3456"), TABLE]
FIGURES = {key: EVERY[key] for key in KEYS}


def make(
    folder: Path, *, draft: Any = None, target: Any = None, texts: int = 5, prompts: int = 5, **pair: Any
) -> Trace:
    """60 positions over 50 entries in texts of one length, or the given rows."""
    rng = np.random.default_rng(0)
    if draft is None:
        draft = rng.normal(0, 1, (60, 50)) * rng.gamma(2, 1.5, (60, 1))
    if target is None:
        target = draft + rng.normal(0, 1, draft.shape)
    text = np.repeat(np.arange(texts), len(draft) // texts)
    position = np.tile(np.arange(len(draft) // texts), texts)
    with TraceWriter(folder / "trace", draft.shape[1], {"pair": {"name": "a pair", **pair}}) as writer:
        writer.append(draft, target, np.zeros(len(draft), dtype=np.int32), text % prompts, position)
    return open_trace(folder / "trace")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Five texts of twelve tokens."""
    return make(tmp_path_factory.mktemp("traces"))


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


# ------------------------------------------------------------------------------------------------ tokens


def test_the_tokens_are_drafts_with_their_uncertainty_and_rejection(trace: Trace):
    tokens = tokens_of(trace, 1)
    assert tokens.rows.tolist() == list(range(60))
    assert tokens.text.tolist() == [row // 12 for row in range(60)]
    q, p = (probabilities(trace.arrays[name]) for name in ("draft_logits", "target_logits"))
    at = np.arange(60), tokens.token
    np.testing.assert_allclose(tokens.rejection, np.maximum(1 - p[at] / q[at], 0), atol=1e-12)
    np.testing.assert_allclose(tokens.uncertainty, tokens.point / 20, atol=1e-12)
    expected = hlmtheory.uncertainty.expected_uncertainty(np.float64(trace.arrays["draft_logits"]), tokens.token)
    noise = np.sqrt(np.sum(expected * (1 - expected) / 20)) / 60
    assert abs(tokens.uncertainty.mean() - expected.mean()) < 4 * noise
    assert q[at].mean() > 1.5 * np.mean(q)  # drawn from q, not evenly
    assert tokens.mass.sum() == pytest.approx(1)


def test_tokens_are_kept_and_hang_on_the_seed(trace: Trace):
    assert tokens_of(trace, 1) is tokens_of(trace, 1)
    assert tokens_of(trace, 1).uncertainty.tolist() != tokens_of(trace, 2).uncertainty.tolist()


def test_a_long_trace_is_drawn_in_whole_texts(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace_drafts, "PERTURBED_VALUES", 50 * 30)
    monkeypatch.setattr(trace_drafts, "CHUNK_VALUES", 50 * 5)
    tokens = tokens_of(trace, 1)
    assert tokens.rows.tolist() == [*range(12), *range(24, 36)]
    assert tokens.prompt.tolist() == [0] * 12 + [1] * 12
    assert "24 of 60 positions" in sidecar(("cu-hlm", "4b"), trace, tmp_path)["method"]
    monkeypatch.setattr(trace_drafts, "PERTURBED_VALUES", 50 * 7)
    assert tokens_of(trace, 1).rows.tolist() == list(range(7))


def test_texts_of_one_prompt_are_one_cluster(tmp_path: Path):
    tokens = tokens_of(make(tmp_path, prompts=2), 1)
    assert (tokens.texts, tokens.prompt_of_text.tolist()) == (5, [0, 1, 0, 1, 0])
    table = tokens.along_texts(tokens.rejection, -1.0)
    np.testing.assert_array_equal(table.ravel(), tokens.rejection)


def test_a_short_text_is_filled_up():
    text = np.array([0, 0, 0, 1])
    tokens = tokens_from(text, np.zeros(4), np.array([0.1, 0.2, 0.3, 0.4]), 3)
    assert tokens.along_texts(tokens.rejection, 0.0).tolist() == [[0.1, 0.2, 0.3], [0.4, 0.0, 0.0]]


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


@pytest.mark.parametrize("key", FIGURES)
def test_an_exhibit_is_drawn_the_same_each_time(key: tuple[str, str], trace: Trace, tmp_path: Path):
    first = sidecar(key, trace, tmp_path / "one")
    skipping_tokens_clear()
    assert sidecar(key, trace, tmp_path / "two") == first
    assert FIGURES[key].measure(trace, 2) != FIGURES[key].measure(trace, 1)
    assert first["positions_drawn"] == 60
    assert first["kind"] == "measured"
    assert first["source"]["key"] in (ROOT / "validation" / "references.bib").read_text(encoding="utf-8")
    pictures = [sorted((tmp_path / name).glob("*.svg")) for name in ("one", "two")]
    assert len(pictures[0]) == (key != TABLE)
    for one, two in zip(*pictures, strict=True):
        assert one.read_bytes() == two.read_bytes()


def skipping_tokens_clear() -> None:
    """Clear the cache."""
    trace_drafts._tokens.cache_clear()


@pytest.mark.parametrize("key", [("cu-hlm", "2"), ("u-hlm", "3")])
def test_uncertainty_against_rejection(key: tuple[str, str], trace: Trace, tmp_path: Path):
    found, tokens = sidecar(key, trace, tmp_path), tokens_of(trace, 1)
    (series,) = found["series"]
    for index, value in enumerate(series["mean"]):
        at = tokens.rejection[tokens.point == index]
        assert value is None if not len(at) else value == pytest.approx(at.mean())
    r = np.corrcoef(tokens.uncertainty, tokens.rejection)[0, 1]
    assert found["statistics"]["pearson_r"] == {"temperature perturbation": pytest.approx(r)}
    assert f"{r:.3f}" in found["findings"]
    rows = np.arange(60), tokens.token
    known = np.corrcoef(1 - probabilities(trace.arrays["draft_logits"])[rows], tokens.rejection)[0, 1]
    assert found["statistics"]["pearson_r_of_one_less_draft_probability"] == pytest.approx(known)
    assert f"r is {known:.3f} over all tokens" in found["findings"]
    assert "MC dropout and prompt perturbation are left out" in found["findings"]


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
        assert shown(fit.slope, ".3f") in found["findings"]
    assert found["statistics"]["non_acceptance"]["value"] == pytest.approx(delta)
    *_, tokens_line, bins_line = found["series"]
    assert tokens_line["mean"][0] == pytest.approx(found["statistics"]["tokens"]["line"]["intercept"])
    assert bins_line["mean"][1] == pytest.approx(sum(found["statistics"]["bins"]["line"][k] for k in LINE), abs=1e-8)


LINE = ("slope", "intercept")


def test_the_density_of_the_uncertainty(trace: Trace, tmp_path: Path):
    found, tokens = sidecar(("cu-hlm", "4b"), trace, tmp_path), tokens_of(trace, 1)
    share, density = found["series"]
    np.testing.assert_allclose(share["mean"], [np.mean(tokens.point == index) for index in range(21)], atol=1e-9)
    width = tokens.uncertainty.std() * 60**-0.2
    x = np.array(density["x"])
    kernels = np.exp(-0.5 * ((x[:, None] - tokens.uncertainty) / width) ** 2).mean(axis=1) / width / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(density["mean"], kernels / (1 - density["outside"]), rtol=1e-3)
    assert np.mean(density["mean"]) == pytest.approx(1, abs=1e-4)
    assert f"{100 * density['outside']:.1f}%" in found["findings"]


def test_rates_over_the_threshold(trace: Trace, tmp_path: Path):
    found, tokens = sidecar(("cu-hlm", "9a"), trace, tmp_path), tokens_of(trace, 1)
    sent, accepted, skipped = found["series"]
    np.testing.assert_allclose(sent["x"], POINTS, atol=1e-9)
    np.testing.assert_allclose(sent["mean"], [np.mean(tokens.uncertainty > x) for x in POINTS], atol=1e-9)
    assert skipped["mean"][-1] == 1.0
    assert accepted["mean"][-1] == pytest.approx(1 - tokens.rejection.mean())
    wrong = np.mean(tokens.rejection * (tokens.uncertainty <= 0.8))
    assert found["statistics"]["skipped_and_rejected"]["0.8"]["value"] == pytest.approx(wrong)
    assert f"{accepted['mean'][16]:.3f}" in found["findings"]
    assert sidecar(("u-hlm", "4"), trace, tmp_path)["series"] == [sent]


def test_methods_at_their_thresholds(trace: Trace, tmp_path: Path):
    found, tokens = sidecar(("u-hlm", "6"), trace, tmp_path), tokens_of(trace, 1)
    prone, averse, random = found["series"]
    assert [prone["threshold"], averse["threshold"]] == found["statistics"]["bins"]["thresholds"][::-1]
    assert prone["transmission"]["value"] == pytest.approx(np.mean(tokens.uncertainty > prone["threshold"]))
    assert random["transmission"]["value"] == prone["transmission"]["value"]
    assert random["skipped_if_accepted"]["value"] == pytest.approx(1 - prone["transmission"]["value"])
    assert random["accepted_if_skipped"]["value"] == pytest.approx(1 - tokens.rejection.mean())


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
        "a": f"{fit.slope:.4f} [{shown(low)}, {shown(high)}]",
        "R²": f"{fit.r_squared:.4f}",
        "risk-averse threshold −b/a": shown(averse),
        "risk-prone threshold (Δ − b)/a": shown(prone),
        "R, summed over the 21 points": f"{hlmtheory.skipping.rejection_risk_discrete(mass, **line):.4f}",
        "its Hölder bound, s = 2": f"{hlmtheory.skipping.holder_bound_discrete(mass, **line):.4f}",
        "exact less R, over the 21 points": shown(gap.exact - gap.surrogate, "+.4f"),
        "of which below −b/a": shown(gap.below, "+.4f"),
        "of which off the line": shown(gap.misfit, "+.4f"),
    }
    assert {name: cells[name][2] for name in expected} == expected
    assert cells["a"][:2] == ["0.815", "0.82"]
    assert cells["exact one-step TV, risk-prone"][2].startswith(f"{gap.exact:.4f} [")
    lost = tokens.rejection * (tokens.uncertainty <= prone)
    assert cells["sum of the one-step TVs of a text, risk-prone"][2].startswith(f"{lost.sum() / 5:.2f}")
    assert found["statistics"]["sequence_bound"]["tokens"] == pytest.approx(min(1.0, lost.sum() / 5))
    assert f"{shown(found['statistics']['exact']['bins']['value'])}" in found["findings"]


def test_the_exact_risk_needs_no_drawing(trace: Trace):
    tokens = tokens_of(trace, 1)
    found, count = skipping_table.without_drawing(trace, tokens, {"one": 0.5, "all": 1.0})
    q, p = (probabilities(trace.arrays[name]) for name in ("draft_logits", "target_logits"))
    skip = hlmtheory.uncertainty.skip_probability(
        hlmtheory.uncertainty.vocabulary_uncertainty(np.float64(trace.arrays["draft_logits"])), 0.5
    )
    assert count == 60
    assert found["one"].value == pytest.approx(np.mean(np.sum(skip * np.maximum(q - p, 0), axis=-1)))
    assert found["all"].value == pytest.approx(np.mean(verification.total_variation(p, q)))


def test_few_positions_of_a_large_vocabulary_are_computed_exactly(trace: Trace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(skipping_table, "EXACT_VALUES", 50 * 7)
    assert skipping_table.without_drawing(trace, tokens_of(trace, 1), {"one": 0.5})[1] == 7


def many_prompts(rejection: float, prompts: int = 60) -> Tokens:
    """Texts of 4 tokens, more uncertain towards their end."""
    rng = np.random.default_rng(5)
    text = np.repeat(np.arange(prompts), 4)
    uncertainty = rng.integers(0, 21, len(text)) / 20
    return tokens_from(text, uncertainty, rejection * uncertainty, 5)


def test_calibration_is_that_of_the_library():
    tokens = many_prompts(0.5)
    rows = {row["risk"]: row for row in calibrated(tokens)}
    assert [risk for risk, row in rows.items() if "threshold" in row] == [0.05, 0.1]  # n + 1 ≥ 1/ε with n = 40
    lost = np.stack([(tokens.rejection * (tokens.uncertainty <= x)).reshape(60, 4).sum(axis=1) / 5 for x in POINTS], 1)
    held_out = np.arange(60) % 3 == 2
    found = hlmtheory.skipping.calibrate_threshold(lost[~held_out], POINTS, risk=0.1, bound=1.0)
    row = rows[0.1]
    assert row["threshold"] == found.threshold
    assert row["corrected_risk"] == pytest.approx(found.corrected_risk)
    assert row["corrected_risk"] <= 0.1
    column = round(20 * found.threshold)
    assert row["held_out_risk"]["value"] == pytest.approx(lost[held_out, column].mean())
    assert row["held_out_sum"] == pytest.approx(5 * lost[held_out, column].mean())
    sent = (tokens.uncertainty > found.threshold).reshape(60, 4)[held_out].mean()
    assert row["held_out_transmission"]["value"] == pytest.approx(sent)
    assert row["leave_one_out"] == pytest.approx(float(hlmtheory.skipping.held_out_risk(lost, 0.1, 1.0)))
    cells = skipping_table._calibration_table(list(rows.values()), 5).rows
    assert cells[0][1] == "needs 101 prompts, there are 40"
    assert cells[3][1] == f"{found.threshold:g}"


def test_where_no_threshold_will_do_nothing_is_skipped():
    text = np.repeat(np.arange(60), 4)
    rows = calibrated(tokens_from(text, np.zeros(240), np.ones(240), 4))
    assert rows[-1]["threshold"] is None
    assert rows[-1]["held_out_risk"]["value"] == 0.0
    assert rows[-1]["held_out_transmission"]["value"] == 1.0
    assert skipping_table._calibration_table(rows, 4).rows[-1][1] == "skip nothing"


def test_what_a_function_of_u_explains():
    text = np.arange(8)
    u = np.array([0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1])
    beta = np.array([0.2, 0.4, 0.0, 0.0, 0.2, 0.2, 0.5, 0.9])
    tokens = tokens_from(text, u, beta, 1)
    dummies = np.stack([u == value for value in (0, 0.5, 1)], axis=1).astype(float)
    left = beta - dummies @ np.linalg.lstsq(dummies, beta)[0]
    assert skipping_lines.explained_at_most(tokens) == pytest.approx(
        1 - left @ left / np.sum((beta - beta.mean()) ** 2)
    )
    fit = skipping_lines.line_of(tokens, binned=True)
    misses = np.array([0.3, 0.1, 0.7]) - fit.slope * np.array([0, 0.5, 1]) - fit.intercept
    at, miss = skipping_lines.largest_miss(tokens, fit)
    assert (at, miss) == (0.5, pytest.approx(misses[1]))
    assert abs(miss) == pytest.approx(np.abs(misses).max())
    steep = skipping_lines.line_of(tokens_from(text, u, u, 1), binned=True)
    means = skipping_lines.bin_means(u, beta, text)
    outside = [not means[at].low <= at / 20 <= means[at].high for at in (0, 10, 20)]
    assert skipping_lines.points_off(tokens, steep) == (sum(outside), 3)
    assert any(outside)


# ------------------------------------------------------------------------------------------------ edges

SURE = np.tile(np.concatenate([[60.0], np.zeros(49)]), (60, 1))


def falling() -> dict[str, Any]:
    """Certain drafts that are rejected, and uncertain drafts that are accepted."""
    draft, target = SURE.copy(), SURE.copy()
    draft[::2] = target[::2] = 0.0
    target[1::2, 0], target[1::2, 1] = 0.0, 60.0
    return {"draft": draft, "target": target}


EDGES: dict[str, dict[str, Any]] = {
    "one text": {"texts": 1, "prompts": 1},
    "constant uncertainty": {"draft": SURE, "target": 0.0 * SURE},
    "all accepted": {"target": None, "texts": 5},
    "nothing varies": {"draft": SURE, "target": SURE},
    "the line falls": falling(),
    "two prompts": {"prompts": 2},
}


def edge_trace(name: str, folder: Path) -> Trace:
    """The trace of a limiting case."""
    given = dict(EDGES[name])
    if name == "all accepted":
        given["draft"] = np.random.default_rng(0).normal(0, 3, (60, 50))
        given["target"] = given["draft"]
    return make(folder, **given)


@pytest.mark.parametrize("name", EDGES)
def test_edges_have_numbers_and_captions(name: str, tmp_path: Path):
    trace = edge_trace(name, tmp_path)
    for figure in FIGURES.values():
        numbers = figure.measure(trace, 1)
        assert "NaN" not in json.dumps(numbers)
        assert not re.search(r"\bnan\b", figure.describe(numbers, "")["findings"] + json.dumps(numbers))
        for table in numbers.get("tables", []):
            assert all(len(row) == len(table["heads"]) for row in table["rows"])


@pytest.mark.parametrize("key", [key for key in FIGURES if key not in (TABLE, ("u-hlm", "3"), ("u-hlm", "4"))])
@pytest.mark.parametrize("name", ["one text", "constant uncertainty"])
def test_edges_are_painted(name: str, key: tuple[str, str], tmp_path: Path):
    sidecar(key, edge_trace(name, tmp_path), tmp_path)
    assert len(list(tmp_path.glob("*.svg"))) == 1


def test_one_text_has_no_intervals(tmp_path: Path):
    trace = edge_trace("one text", tmp_path)
    cells = rows_of(sidecar(TABLE, trace, tmp_path))
    assert "[" not in cells["a"][2]
    assert "[" not in cells["transmission rate, risk-prone"][2]
    assert sidecar(("cu-hlm", "9a"), trace, tmp_path)["series"][0]["low"][0] is None


def test_without_a_slope_the_caption_says_so(tmp_path: Path):
    trace = edge_trace("constant uncertainty", tmp_path)
    assert "No line can be fitted to the tokens" in sidecar(("cu-hlm", "4a"), trace, tmp_path)["findings"]
    assert "undefined" in sidecar(("cu-hlm", "2"), trace, tmp_path)["findings"]
    found = sidecar(TABLE, trace, tmp_path)
    assert "there is no threshold" in found["findings"]
    assert rows_of(found)["a"][2:] == ["undefined", "undefined"]
    assert rows_of(found)["risk-prone threshold (Δ − b)/a"][2:] == ["undefined", "undefined"]


def test_a_line_that_falls_gives_no_threshold(tmp_path: Path):
    trace = edge_trace("the line falls", tmp_path)
    found = sidecar(("u-hlm", "6"), trace, tmp_path)
    assert found["series"] == []
    assert "no threshold to draw" in found["findings"]
    assert found["statistics"]["tokens"]["line"]["slope"] < 0
    assert "undefined, as no line rises" in sidecar(("cu-hlm", "4a"), trace, tmp_path)["findings"]


# ------------------------------------------------------------------------------------------------ the baselines


class FakePair:
    """The attributes of a pair that the figures read."""

    vocabulary, draft_parameters = 50, 7


def fake_measures(left_out: dict[str, str]) -> Callable[..., baselines.Baselines]:
    """Replace dropout by the rejection probability itself, at twelve rows, out of order."""

    def measure(trace: Trace, pair: Any, *, positions: int, seed: int) -> baselines.Baselines:
        assert positions == skipping_numbers.BASELINE_POSITIONS
        rows = np.r_[24:30, 0:6]
        drafts = tokens_of(trace, seed).token[rows]
        beta = np.round(20 * tokens_of(trace, seed).rejection[rows]) / 20
        return baselines.Baselines(rows, drafts, {baselines.DROPOUT: beta}, left_out)

    return measure


@pytest.fixture
def builtin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """A trace of a pair with the name "builtin"."""
    why = {baselines.PARAPHRASES: "Prompt perturbation is left out: there is nothing in /some/folder."}
    monkeypatch.setattr(pair_module, "load_pair", lambda name: FakePair())
    monkeypatch.setattr(baselines, "baseline_measures", fake_measures(why))
    return make(tmp_path, name="builtin", small_parameters=7)


def test_the_baselines_stand_beside_at_the_same_positions(builtin: Trace, tmp_path: Path):
    found, tokens = sidecar(("cu-hlm", "2"), builtin, tmp_path), tokens_of(builtin, 1)
    temperature, dropout = found["series"]
    assert (temperature["tokens"], dropout["tokens"]) == (60, 12)
    rows = np.r_[0:6, 24:30]
    beta = tokens.rejection[rows]
    r = np.corrcoef(np.round(20 * beta) / 20, beta)[0, 1]
    assert dropout["pearson_r"] == pytest.approx(r)
    at = found["statistics"]["pearson_r_at_the_positions_of_the_rivals"]
    assert at[baselines.DROPOUT] == pytest.approx(r)
    assert set(at) == {baselines.DROPOUT, "temperature perturbation"}
    assert "Prompt perturbation is left out: it needs nltk and a WordNet dictionary." in found["findings"]
    assert "/some/folder" not in json.dumps(found)
    names = [one["name"] for one in sidecar(("u-hlm", "6"), builtin, tmp_path)["series"]]
    assert names[-1] == "U-HLM, MC dropout"


def test_the_baselines_are_left_out_for_another_pair_of_that_name(
    builtin: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(FakePair, "draft_parameters", 8)
    found = sidecar(("u-hlm", "3"), builtin, tmp_path)
    assert len(found["series"]) == 1
    assert "the trace is of another pair" in found["findings"]


# ------------------------------------------------------------------------------------------------ what is printed


def test_the_printed_r_squared_is_of_21_means():
    assert skipping_printed.fraction_of_bins() == pytest.approx(0.9774, abs=5e-5)
    assert pytest.approx(0.505, abs=5e-4) == 0.7106**2


def test_the_printed_rates_contradict_the_printed_risk():
    wrong, inside = skipping_printed.false_positives(), skipping_printed.between_thresholds()
    assert wrong == pytest.approx(0.748 * 0.143)
    assert wrong > 10 * 9.87e-3
    # Of the densities with the bound's norm, a flat one has the most mass on I; it gives the printed bound by (13).
    width = 0.5956 / 0.815
    assert 0.5956**1.5 / np.sqrt(3 * 0.815) * np.sqrt((inside / width) ** 2 * width) == pytest.approx(9.87e-3)
    assert inside == pytest.approx(0.0287, abs=5e-5)


def test_the_printed_thresholds_of_uhlm_do_not_agree():
    rng = np.random.default_rng(0)
    a, b, delta = (rng.uniform(low, high, 20_000) for low, high in ((0.815, 0.825), (-0.065, -0.055), (0.3005, 0.3015)))
    averse = rng.uniform(0.0725, 0.0735, 20_000)
    for with_averse, reached in ((False, (delta - b) / a), (True, delta / a + averse)):
        low, high = skipping_printed.prone_range(with_averse=with_averse)
        assert low <= reached.min() < low + 0.002
        assert high - 0.002 < reached.max() <= high
    assert skipping_printed.prone_range(with_averse=False)[0] == pytest.approx(0.4309, abs=5e-5)
    assert skipping_printed.prone_range(with_averse=True)[0] > 0.436


def test_every_claim_that_the_findings_name_is_there():
    named = set(re.findall(r"\((\w+\.\w+)\)", " ".join(row[1] for row in skipping_printed.findings().rows)))
    assert len(named) == 4
    assert named <= set(hlmtheory.all_claims())
