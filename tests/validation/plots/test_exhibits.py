"""One contract for every exhibit: it is drawn from a small trace, and its sidecar holds what is drawn."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlmtheory
from tests.validation.plots.conftest import Maker, decoded_study
from validation.collection.prompts import Prompt
from validation.decoding.scoring import score_key
from validation.decoding.studies import Decoded
from validation.errors import UserError
from validation.models.pair import Pair
from validation.plots import EXHIBITS, FIGURES, Decoding, Exhibit, Figure, Simulation, Tag, draw, find_exhibits
from validation.plots.common import record
from validation.plots.common.stored import pairs_with
from validation.plots.common.style import house_style
from validation.plots.common.values import as_csv
from validation.plots.edge_sd import numbers as edge_sd
from validation.plots.flexspec import counted as counted_lines
from validation.plots.ours import codec_bits, fading_mean
from validation.trace.reader import Trace

ROOT = Path(__file__).resolve().parents[3]
PROMPTS = [Prompt("b", "two and two", "Alpaca"), Prompt("a", "it was", "x")]
TRACED = [one.stem for one in FIGURES.values()]
ANEW = TRACED if os.environ.get("DEEP") == "1" else TRACED[::4]  # whose pictures are drawn twice
SIMULATED = [one for one in EXHIBITS.values() if isinstance(one, Simulation)]
DECODED = [one for one in EXHIBITS.values() if isinstance(one, Decoding)]
BY_STEM = {one.stem: one for one in EXHIBITS.values()}
PAINTED: list[Any] = []  # the last picture


@pytest.fixture(scope="module", autouse=True)
def small() -> Any:
    real = counted_lines.stored
    stored, record = real("flexspec_tables")
    for row in (*stored["rows"], *stored["flags"]):
        row["texts"] = row["texts"][::6]
    stored["about"]["prompts"] = stored["about"]["prompts"][::6]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fading_mean, "SAMPLES", 1_000)
        patch.setattr(codec_bits, "POSITIONS", 3)
        patch.setattr(counted_lines, "DEFAULT_RESAMPLES", 50)
        patch.setattr(counted_lines, "stored", lambda name: real(name) if " " in name else (stored, record))
        patch.setattr(counted_lines, "counted", counted_lines.counted.__wrapped__)
        yield


@pytest.fixture(scope="module")
def trace(make_trace: Maker) -> Trace:
    return make_trace(texts=20, prompts=20)


@pytest.fixture(scope="module")
def studies(pair: Pair) -> dict[str, Decoded]:
    return {name: study(name, pair) for name in ("hlm", "design")}


def study(name: str, pair: Pair) -> Decoded:
    found = decoded_study(name, pair, PROMPTS, lambda method: method[-2:] in ("ly", " 0", ".6", "0)"))
    scores = {score_key(row): {"similarity_large": 0.1 * len(row.tokens), "nats_total": 2.0} for row in found.records}
    return replace(found, scores=scores)


def drawn(one: Exhibit, folder: Path, trace: Trace | None, **more: Any) -> list[Path]:
    def paint(numbers: Any) -> Any:
        PAINTED[:] = [one.paint(json.loads(json.dumps(numbers)))]  # as the sidecar has them
        return PAINTED[0]

    kept = replace(one, paint=one.paint and paint)
    return draw(kept, trace, folder, command="hlm figure", seed=1, commit="c0ffee", **more)


def check(one: Exhibit, paths: Sequence[Path]) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(paths[0].read_text(encoding="utf-8"))
    assert [path.suffix for path in paths] == ([".json", ".svg"] if one.paint else [".json"])
    told = {"figure": f"{one.paper} {one.number}", "kind": one.tag, "title": one.title, "seed": 1, "commit": "c0ffee"}
    assert about.items() >= (told | {"hlmtheory": hlmtheory.__version__}).items()
    assert re.fullmatch(rf"{re.escape(one.paper)} (Figure|Table) .*: .*\.", about["caption"])
    assert not re.search(r"[{}]|\bnan\b", about["caption"])
    assert about["method"].endswith(about["basis"])
    assert about["source"]["key"] in (ROOT / "validation" / "references.bib").read_text(encoding="utf-8")
    assert about["printed"] == [asdict(number) for number in one.printed]
    assert about["claims"] == [name for name in one.claims if name in hlmtheory.all_claims()]
    tables = about.get("tables", [])
    assert len(tables) == 1 or (EXHIBITS[one.paper, one.number].paint and not tables)
    for table in tables:
        assert table["rows"]
        assert all(len(row) == len(table["heads"]) for row in table["rows"])
    rows = list(csv.reader(as_csv(about).splitlines()))
    assert {len(row) for row in rows} == {5}
    if EXHIBITS[one.paper, one.number].paint:
        assert all(axes[side]["label"] for axes in about["axes"] for side in "xy")
        assert sum(row[0] in ("series", "bars", "swept", "promised") for row in rows) > 4
        for axes in PAINTED.pop().axes if one.paint else ():
            lines = [np.asarray(line.get_ydata(), dtype=np.float64) for line in axes.get_lines()]
            assert any(np.isfinite(line).any() for line in lines) or axes.patches or axes.collections
    return about


@pytest.mark.parametrize("stem", TRACED)
def test_a_figure_of_a_trace_keeps_the_contract_and_depends_on_nothing_else(
    stem: str, trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib as mpl

    one = BY_STEM[stem]
    paths = drawn(one, tmp_path / "a", trace)
    about = check(one, paths)
    assert about["positions_drawn"] <= about["positions"] == 60
    monkeypatch.setattr(record, "CHUNK_VALUES", 7 * trace.vocabulary)  # the size of a chunk changes nothing
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": "another"}):
        again = drawn(one if stem in ANEW else replace(one, paint=None), tmp_path / "b", trace)
    assert [path.read_bytes() for path in paths[: len(again)]] == [path.read_bytes() for path in again]
    assert all(not re.search(rb"<dc:date>|\d{4}-\d\d-\d\dT", path.read_bytes()) for path in paths)


@pytest.mark.parametrize("one", SIMULATED, ids=lambda one: one.stem)
def test_a_figure_without_a_model_keeps_the_contract(one: Simulation, tmp_path: Path) -> None:
    if one.paper == "edge-sd" and one.number != "5":
        one = small_simulation(one)
    for own, pair in [(one, None), *((replace(one, paint=None), pair) for pair in pairs_with(one.experiment))]:
        about = check(own, drawn(own, tmp_path, None, pair=pair))
        assert pair in (None, "builtin") or about["experiment"]["name"] == f"{one.experiment} {pair}"


def test_the_numbers_of_another_pair_are_refused(make_trace: Maker, tmp_path: Path) -> None:
    trace = make_trace(name="builtin")
    for paper, number, pair, said in (
        ("c-sqs", "5", "qwen-coder", r"Fig\. 5 has no numbers of the pair qwen-coder; it has those of: builtin\."),
        ("ours", "8", "none", "has no numbers of the pair none; it has those of: qwen-coder"),
        ("edge-sd", "7a", "qwen-coder", "no model is in it, so leave out --pair"),
        ("cu-hlm", "6", "mine", "would show the pair builtin, not mine; give the --trace of mine"),
    ):
        with pytest.raises(UserError, match=said):
            drawn(EXHIBITS[paper, number], tmp_path, trace, pair=pair)


def small_simulation(one: Simulation) -> Simulation:
    base = edge_sd.Load(users=5, longest_input=64, longest_output=24)
    sizes: dict[str, Any] = {"runs": 2, "base": base}
    if one.number == "6":
        sizes["values"] = (0.5, 0.9)
    if one.number[0] in "78":
        sizes["values"] = {"a": (3, 5), "b": (32, 64), "c": (12, 24)}[one.number[1]]
    if one.number[0] == "9":
        sizes["shared_by"] = (3, 6)
    simulate = one.simulate
    return replace(one, simulate=lambda seed: simulate(seed, **sizes))


@pytest.mark.parametrize("one", DECODED, ids=lambda one: one.stem)
def test_a_figure_of_texts_keeps_the_contract(one: Decoding, studies: dict[str, Decoded], tmp_path: Path) -> None:
    about = check(one, drawn(one, tmp_path / "a", None, decoded=[studies[one.study]]))
    assert "prompts: 1 of Alpaca, 1 of x" in about["basis"]
    again = drawn(replace(one, paint=None), tmp_path / "b", None, decoded=[studies[one.study]])
    assert json.loads(again[0].read_text(encoding="utf-8")) == about
    with pytest.raises(UserError, match=f"decode them with `python3 hlm decode {one.study}`"):
        drawn(one, tmp_path, None)


@pytest.fixture(scope="module")
def limits(make_trace: Maker) -> list[Trace]:
    same = np.random.default_rng(1).normal(0, 1, (10, 20)).astype(np.float16)
    certain = np.full((10, 30), -60_000.0)
    certain[:, 3] = 60_000.0
    return [
        make_trace(1, 2, texts=1, prompts=1),
        make_trace(draft=same, target=same),
        make_trace(draft=certain, target=np.roll(certain, 1, axis=1)),
    ]


@pytest.mark.filterwarnings("ignore:.*log-scaled")  # matplotlib's, of an axis without positive values
@pytest.mark.parametrize("stem", [stem for stem in TRACED if stem not in ("ours-fig7", "ours-tableV")])
def test_the_limiting_cases_have_numbers(stem: str, limits: list[Trace]) -> None:
    one = BY_STEM[stem]
    assert isinstance(one, Figure)
    for trace in limits:
        numbers = one.measure(trace, 1)
        json.dumps(numbers, allow_nan=False)
        assert "{" not in one.sentence(numbers)
        if one.paint:
            with house_style():
                one.paint(numbers)


def test_a_sentence_says_what_is_undefined() -> None:
    one = Exhibit(
        paper="p", number="1", source="s", title="t", tag=Tag.MEASURED, message="{a[0][-1]:.2f}, {a[b]}, {c}."
    )
    assert one.sentence({"statistics": {"a": [[1.0, -2.0]]}}) == "−2.00, undefined, undefined."
    assert replace(one, otherwise="None.").sentence({"statistics": {"a": [[1.0, -2.0]]}}) == "None."
    assert one.describe({"statistics": {"a": [[0.5]]}}, "All.")["caption"] == (
        "p Figure 1: 0.50, undefined, undefined. Measured."
    )


def test_pyplot_is_never_loaded_and_matplotlib_only_to_draw(trace: Trace, tmp_path: Path) -> None:
    code = (
        "import sys; from validation.plots import FIGURES, draw; from validation.trace.reader import open_trace\n"
        "assert not {'matplotlib', 'torch'} & set(sys.modules)\n"
        f"draw(FIGURES['cu-hlm', '6'], open_trace({str(trace.path)!r}), {str(tmp_path)!r}, command='', seed=1)\n"
        "assert not {'matplotlib.pyplot', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_what_does_not_exist_is_refused(tmp_path: Path) -> None:
    for paper, number, said in (("cu-hlm", "99", "5a, 5b, 6"), ("no-paper", "5a", "cu-hlm"), ("ours", "VI", "VII")):
        with pytest.raises(UserError, match=rf"{paper} {number}.*{said}"):
            find_exhibits(paper, number)
    assert [one.number for one in find_exhibits("cu-hlm", "4")] == ["4a", "4b"]
    with pytest.raises(UserError, match=r"cu-hlm Fig\. 6 is drawn from a trace; collect one"):
        drawn(FIGURES["cu-hlm", "6"], tmp_path, None)
    assert find_exhibits("cu-hlm") == [one for (paper, _), one in EXHIBITS.items() if paper == "cu-hlm"]
