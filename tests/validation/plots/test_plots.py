"""The figures: their numbers equal the library's, and their bytes depend on nothing else."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlmtheory
from hlmtheory import truncation, verification
from validation import plots
from validation.errors import UserError
from validation.plots import EXHIBITS, FIGURES, Simulation, Table, Tag, draw, find_exhibits
from validation.plots.common import record
from validation.plots.cu_hlm import concentration
from validation.trace.reader import Trace, TraceWriter, open_trace, probabilities

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = [number for paper, number in FIGURES if paper == "cu-hlm"]


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


def rows(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """q and p of the whole trace."""
    return tuple(probabilities(trace.arrays[name]) for name in ("draft_logits", "target_logits"))


def sidecar(number: str, trace: Trace, folder: Path, seed: int = 1) -> dict[str, Any]:
    """The sidecar of one figure, just drawn."""
    path, _ = draw(FIGURES["cu-hlm", number], trace, folder, command="hlm figure", seed=seed, commit="c0ffee")
    return json.loads(path.read_text(encoding="utf-8"))


# ----------------------------------------------------------------------------------------------------- numbers


def test_fig_5a_shows_the_sorted_rows(trace: Trace, tmp_path: Path):
    (series,) = sidecar("5a", trace, tmp_path)["series"]
    ordered = -np.sort(-rows(trace)[0], axis=-1)[:, np.array(series["x"]) - 1]
    assert series["x"][0] == 1
    assert series["x"][-1] == 50
    np.testing.assert_allclose(series["mean"], ordered.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(series["low"], np.quantile(ordered, 0.1, axis=0), rtol=1e-8)
    np.testing.assert_allclose(series["high"], np.quantile(ordered, 0.9, axis=0), rtol=1e-8)


def test_fig_5b_shows_the_residual_probability_and_the_deviation(trace: Trace, tmp_path: Path):
    remains, deviation = sidecar("5b", trace, tmp_path)["series"]
    draft, _ = rows(trace)
    sizes = np.array(remains["x"])
    kept = np.cumsum(-np.sort(-draft, axis=-1), axis=-1)[:, sizes - 1]
    np.testing.assert_allclose(remains["mean"], (1 - kept).mean(axis=0), atol=1e-9)
    exact = [np.mean(verification.total_variation(draft, truncation.truncate(draft, k))) for k in sizes]
    np.testing.assert_allclose(deviation["mean"], exact, atol=1e-9)
    assert deviation["x"] == remains["x"]


def test_fig_6_shows_bias_and_distortion(trace: Trace, tmp_path: Path):
    found = sidecar("6", trace, tmp_path)
    draft, target = rows(trace)
    distance = verification.total_variation(target, draft)
    np.testing.assert_allclose(found["tv_q_p"], distance, rtol=1e-5)
    for series in found["series"]:
        k = series["k"]
        np.testing.assert_allclose(
            series["tv_r"], truncation.resampling_distortion(target, draft, k), rtol=1e-5, atol=1e-12
        )
        np.testing.assert_allclose(series["bias"], truncation.resampling_bias(target, draft, k), rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(series["bias"], 2 * distance * series["tv_r"], rtol=1e-4, atol=1e-12)
    x, y = (np.ravel([series[key] for series in found["series"]]) for key in ("tv_r", "bias"))
    assert found["statistics"]["pearson_r"] == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-4)
    assert found["statistics"]["largest_deviation_from_identity"] < 1e-13


def test_the_printed_correlation_stands_beside_ours(trace: Trace, tmp_path: Path):
    found = sidecar("6", trace, tmp_path)
    assert [printed["value"] for printed in found["printed"]] == [0.9763]
    assert found["printed"][0]["place"] == "Section IV-B, below (18)"
    assert "0.9763" in found["findings"]
    assert f"{found['statistics']['pearson_r']:.4f}" in found["findings"]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_sidecar_says_what_was_drawn_and_how(number: str, trace: Trace, tmp_path: Path):
    found = sidecar(number, trace, tmp_path)
    kept = {
        key: found[key] for key in ("figure", "command", "seed", "commit", "pair", "positions", "vocabulary", "kind")
    }
    assert kept == {
        "figure": f"cu-hlm {number}",
        "command": "hlm figure",
        "seed": 1,
        "commit": "c0ffee",
        "pair": "a pair",
        "positions": 60,
        "vocabulary": 50,
        "kind": "measured",
    }
    assert found["hlmtheory"] == hlmtheory.__version__
    assert all(axes[side]["label"] for axes in found["axes"] for side in "xy")
    assert found["source"]["key"] in (ROOT / "validation" / "references.bib").read_text(encoding="utf-8")


def test_a_long_trace_is_sampled_by_the_seed(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(concentration, "SCATTER_POSITIONS", 10)
    monkeypatch.setattr(concentration, "RANKED_VALUES", 50 * 20)
    assert sidecar("6", trace, tmp_path)["positions_drawn"] == 10
    assert sidecar("5a", trace, tmp_path)["positions_drawn"] == 20
    assert "20 of 60 positions" in sidecar("5b", trace, tmp_path)["method"]
    first, again, other = (sidecar("6", trace, tmp_path, seed)["tv_q_p"] for seed in (1, 1, 2))
    assert first == again != other


def test_the_size_of_a_chunk_changes_nothing(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = [sidecar(number, trace, tmp_path) for number in NUMBERS]
    monkeypatch.setattr(record, "CHUNK_VALUES", 7 * trace.vocabulary)
    assert [sidecar(number, trace, tmp_path) for number in NUMBERS] == whole


# ------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("number", NUMBERS)
def test_the_same_trace_gives_the_same_bytes(number: str, trace: Trace, tmp_path: Path):
    import matplotlib as mpl

    one = FIGURES["cu-hlm", number]
    paths = [draw(one, trace, tmp_path / "a", command="hlm figure", seed=1)]
    with mpl.rc_context({"font.size": 20, "lines.linewidth": 5, "svg.hashsalt": "another"}):
        paths.append(draw(one, trace, tmp_path / "b", command="hlm figure", seed=1))
        assert mpl.rcParams["font.size"] == 20
    (json_, svg), (json_again, svg_again) = paths
    assert (svg.name, json_.name) == (f"cu-hlm-fig{number}.svg", f"cu-hlm-fig{number}.json")
    assert svg.read_bytes() == svg_again.read_bytes()
    assert json_.read_bytes() == json_again.read_bytes()
    assert not re.search(rb"<dc:date>|\d{4}-\d\d-\d\dT", svg.read_bytes())


def test_pyplot_is_never_loaded_and_matplotlib_only_to_draw(trace: Trace, tmp_path: Path):
    code = (
        "import sys; from validation.plots import FIGURES, draw; from validation.trace.reader import open_trace\n"
        "assert not {'matplotlib', 'torch'} & set(sys.modules)\n"
        f"draw(FIGURES['cu-hlm', '6'], open_trace({str(trace.path)!r}), {str(tmp_path)!r}, command='', seed=1)\n"
        "assert not {'matplotlib.pyplot', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


# ------------------------------------------------------------------------------------------------ edges, errors


@pytest.mark.parametrize(("positions", "vocabulary"), [(1, 1), (1, 2), (3, 2), (1, 50), (20, 3)])
@pytest.mark.parametrize("number", NUMBERS)
def test_the_smallest_traces_are_drawn(
    number: str, positions: int, vocabulary: int, make_trace: Callable[..., Trace], tmp_path: Path
):
    assert sidecar(number, make_trace(positions, vocabulary), tmp_path)["positions_drawn"] == positions


def test_one_model_twice_has_no_correlation(make_trace: Callable[..., Trace], tmp_path: Path):
    logits = np.random.default_rng(1).normal(0, 1, (9, 20)).astype(np.float16)
    found = sidecar("6", make_trace(draft=logits, target=logits), tmp_path)
    assert found["statistics"]["pearson_r"] is None
    assert "undefined" in found["findings"]


@pytest.mark.parametrize("number", NUMBERS)
def test_probabilities_that_underflow_are_drawn(number: str, make_trace: Callable[..., Trace], tmp_path: Path):
    draft = np.full((5, 30), -60_000.0)
    draft[:, 3] = 60_000.0
    target = np.roll(draft, 1, axis=1)
    found = sidecar(number, make_trace(draft=draft, target=target), tmp_path)
    assert found["positions_drawn"] == 5


@pytest.mark.parametrize(("paper", "number"), [("cu-hlm", "99"), ("no-paper", "5a")])
def test_an_unknown_figure_is_refused(paper: str, number: str):
    with pytest.raises(UserError, match=rf"{paper} {number}.*cu-hlm 5a, cu-hlm 5b, cu-hlm 6"):
        find_exhibits(paper, number)


def test_without_a_number_every_figure_of_the_paper_is_found():
    assert find_exhibits("cu-hlm") == [one for (paper, _), one in EXHIBITS.items() if paper == "cu-hlm"]


def test_every_folder_of_the_figures_keeps_its_name():
    """`import validation.plots.edge_sd.beside as b` reads the package's attribute."""
    folders = [folder.name for folder in pkgutil.iter_modules(plots.__path__)]
    assert set(folders) == {"common", "cu_hlm", "u_hlm", "c_sqs", "flexspec", "edge_sd", "ours"}
    for folder in folders:
        package = importlib.import_module(f"validation.plots.{folder}")
        assert getattr(plots, folder) is package
    import validation.plots.edge_sd.beside as beside

    assert beside.__name__ == "validation.plots.edge_sd.beside"


def test_no_two_exhibits_have_one_number():
    assert len(EXHIBITS) == sum(len(paper.FIGURES) for paper in plots._PAPERS)


def test_a_figure_of_a_pair_needs_a_trace(tmp_path: Path):
    with pytest.raises(UserError, match=r"cu-hlm Fig\. 6 is drawn from a trace; collect one"):
        draw(FIGURES["cu-hlm", "6"], None, tmp_path, command="", seed=1)


def test_a_simulated_table_needs_none(tmp_path: Path):
    numbers = {"basis": "two runs", "tables": [Table("", ("what", "value"), (("a", "1"),)).plain()]}
    table = Simulation(
        paper="a-paper",
        number="II",
        source="oh2025cuhlm",
        title="Numbers",
        tag=Tag.SIMULATED,
        shows="Ours.",
        paint=None,
        message="Two rows.",
        caption=lambda numbers: "That is all.",
        method="By hand.",
        simulate=lambda seed: {**numbers, "statistics": {"seed": seed}},
    )
    (path,) = draw(table, None, tmp_path, command="hlm figure a-paper II", seed=3)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == "a-paper-tableII.json"
    assert found["caption"] == "a-paper Table II: Two rows. Ours. Simulated."
    assert found["findings"] == "Two rows. That is all."
    assert found["method"] == "By hand. Simulated: two runs."
    assert (found["kind"], found["statistics"]) == ("simulated", {"seed": 3})


SOURCES = sorted(Path(plots.__path__[0]).rglob("*.py"))


def test_what_papers_share_imports_no_paper():
    papers = tuple(f"validation.plots.{paper}" for paper in ("cu_hlm", "u_hlm", "c_sqs", "flexspec", "edge_sd", "ours"))
    shared = [path for path in SOURCES if "common" in path.parts]
    assert len(shared) > 10
    assert [path.name for path in shared if any(paper in path.read_text(encoding="utf-8") for paper in papers)] == []


def test_no_figure_reads_a_family_off_the_beginning_of_a_name():
    """Figures read it from the registry: ``info_of(name).family``."""
    assert [path.name for path in SOURCES if ".startswith(" in path.read_text(encoding="utf-8")] == []
