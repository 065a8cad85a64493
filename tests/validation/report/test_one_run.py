"""All published figures and tables of a pair are of one run, and each says what its numbers are."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from validation.errors import UserError
from validation.plots import EXHIBITS, Tag, draw
from validation.plots.common import stored as common_stored
from validation.plots.common.printed import NUMBERS
from validation.plots.common.stored import SHOWN, digest, from_experiment, records
from validation.report import one_run
from validation.report.one_run import STEPS, differing, sidecars_of_pairs
from validation.report.publish import STAMPS

ROOT = Path(__file__).parents[3]
FIGURES = ROOT / "figures"


def test_what_is_published_of_a_pair_is_of_one_run() -> None:
    assert differing(FIGURES) == {}


def test_a_figure_of_another_commit_trace_or_fit_is_found(tmp_path: Path) -> None:
    run = {"commits": dict.fromkeys(STEPS, "c"), "trace": "t", "fit": "f"}
    (tmp_path / "claims.json").write_text(json.dumps({"run": run, "results": {}}))
    sidecar = {"pair": "builtin", "commit": "c", "trace": "t", "fit": "f"}
    for number, change in enumerate([{}, {"commit": "d"}, {"trace": "u"}, {"fit": None}, {"pair": None, "trace": "u"}]):
        (tmp_path / f"a{number}.json").write_text(json.dumps(sidecar | change))
    assert differing(tmp_path) == {"a1.json": "commit", "a2.json": "trace", "a3.json": "fit"}
    for change, steps in (({"check": "b"}, "check"), ({"check": None}, "check"), ({"decode:hlm": "b"}, "decode:hlm")):
        (tmp_path / "claims.json").write_text(json.dumps({"run": run | {"commits": run["commits"] | change}}))
        assert differing(tmp_path)["claims.json"] == steps  # the steps are of two commits, or one is missing


def test_a_figure_in_the_folder_of_another_pair_is_found(tmp_path: Path) -> None:
    run = {"commits": dict.fromkeys(STEPS, "c"), "trace": "t", "fit": "f"}
    (tmp_path / "wide").mkdir()
    for folder in (tmp_path, tmp_path / "wide"):
        (folder / "claims.json").write_text(json.dumps({"run": run, "results": {}}))
    sidecar = {"commit": "c", "trace": "t", "fit": "f"}
    for place, pair in (("a", "wide"), ("wide/b", "builtin"), ("wide/c", None), ("wide/d", "wide")):
        (tmp_path / f"{place}.json").write_text(json.dumps(sidecar | {"pair": pair}))
    assert differing(tmp_path) == {"a.json": "pair", "wide/b.json": "pair", "wide/c.json": "pair"}


def test_figures_of_one_study_have_its_prompts_and_the_pairs_beside_it_are_of_the_same_commit(tmp_path: Path) -> None:
    other = {"commits": dict.fromkeys(STEPS, "c"), "trace": "u", "fit": "g"}
    run = {"commits": dict.fromkeys(STEPS, "c"), "trace": "t", "fit": "f"}
    sidecar = {"pair": "builtin", "commit": "c", "trace": "t", "fit": "f", "figure": "cu-hlm 1", "prompts": 50}
    (tmp_path / "claims.json").write_text(json.dumps({"run": run, "results": {}}))
    for name, change in (
        ("a", {}),
        ("b", {"figure": "cu-hlm 10a", "prompts": 100}),
        ("c", {"figure": "cu-hlm 9a-texts", "prompts": 100}),  # of another study
        ("d", {"figure": "cu-hlm II", "statistics": {"pairs": ["builtin", "larger"]}}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(sidecar | change))
    assert differing(tmp_path) == {"b.json": "prompts", "d.json": "larger"}
    (tmp_path / "claims.json").write_text(json.dumps({"run": run | {"beside": {"larger": other}}}))
    assert differing(tmp_path) == {"b.json": "prompts"}
    other["commits"]["fit"] = "b"
    (tmp_path / "claims.json").write_text(json.dumps({"run": run | {"beside": {"larger": other}}}))
    assert differing(tmp_path)["claims.json"] == "larger:fit"
    del other["commits"]["fit"]  # a step without a commit
    (tmp_path / "claims.json").write_text(json.dumps({"run": run | {"beside": {"larger": other}}}))
    assert differing(tmp_path)["claims.json"] == "larger:fit"


def test_a_figure_of_another_run_of_its_experiment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"commits": dict.fromkeys(STEPS, "c"), "trace": "t", "fit": "f"}
    (tmp_path / "claims.json").write_text(json.dumps({"run": run, "results": {}}))
    record = {"date": "today", "commit": "e", "digest": "d"}
    known = {"texts": record, "fitted": record | {"trace": "t", "fit": "g"}}
    monkeypatch.setattr(one_run, "records", lambda: known)
    for number, shown in enumerate(
        [{"name": "texts"}, {"name": "texts", "digest": "x"}, {"name": "fitted"}, {"name": "no experiment"}]
    ):
        about = {"pair": None, "basis": "on the built-in pair", "commit": "any", "experiment": record | shown}
        (tmp_path / f"a{number}.json").write_text(json.dumps(about))
    assert differing(tmp_path) == {"a1.json": "digest", "a2.json": "fit", "a3.json": "experiment"}


def test_the_files_of_the_experiments_are_those_that_were_recorded() -> None:
    for name, record in records().items():
        assert digest(ROOT / record["file"]) == record["digest"], name
        assert from_experiment(name)["experiment"] == {"name": name} | {key: record[key] for key in SHOWN}
        assert re.fullmatch("[0-9a-f]{40}", record["commit"]), name
        assert all(record[key] for key in ("command", "models", "data", "date")), name


def test_a_stored_file_that_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_stored, "digest", lambda file: "changed")
    with pytest.raises(UserError, match=r"has changed since the experiment forward_times was recorded"):
        from_experiment("forward_times")


SLOW = {f"flexspec-table{number}.json" for number in ("III", "IV", "V", "VI")}
"""Drawn from the same file as Figures 4 to 6 of flexspec; each takes about ten seconds."""
EXPERIMENTS = {
    f"{one.stem}.json": one
    for one in EXHIBITS.values()
    if "experiment" in json.loads((FIGURES / f"{one.stem}.json").read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", sorted(EXPERIMENTS.keys() - SLOW))
def test_a_figure_of_an_experiment_is_drawn_again_from_its_record(name: str, tmp_path: Path) -> None:
    """The code of today makes the published numbers, and the caption of the stored file."""
    published = json.loads((FIGURES / name).read_text(encoding="utf-8"))
    draw(replace(EXPERIMENTS[name], paint=None), None, tmp_path, command="", seed=published["seed"], commit="")
    drawn = json.loads((tmp_path / name).read_text(encoding="utf-8"))
    assert {key for key in drawn | published if drawn.get(key) != published.get(key)} <= {*STAMPS, "hlmtheory"}
    assert f"stored experiment {published['experiment']['name']} of " in published["method"]


def test_the_fit_of_the_line_is_that_of_the_texts() -> None:
    """The thresholds of Figure 4a are those that the texts were decoded with."""
    names = {"cu-hlm-fig4a.json", "u-hlm-fig6-texts.json"}
    shown = [about for _, file, about in sidecars_of_pairs(FIGURES) if file.name in names and file.parent == FIGURES]
    assert len(shown) == 2
    assert len({about["fit"] for about in shown}) == 1


def test_every_exhibit_has_a_tag_that_its_caption_and_its_sidecar_say() -> None:
    assert {type(one.tag) for one in EXHIBITS.values()} == {Tag}
    for one in EXHIBITS.values():
        for sidecar in (FIGURES / f"{one.stem}.json", *FIGURES.glob(f"*/{one.stem}.json")):
            if sidecar.exists():
                about = json.loads(sidecar.read_text(encoding="utf-8"))
                assert about["kind"] == one.tag, sidecar.name
                assert about["caption"].endswith(one.tag.sentence), sidecar.name
                assert about["basis"].startswith(one.tag.capitalize()), sidecar.name


def test_printed_numbers_stand_in_the_paper() -> None:
    """Each is stored with its digits and the words around them, read from the paper's text."""
    stored = json.loads((ROOT / "validation" / "plots" / "printed_numbers.json").read_text(encoding="utf-8"))
    used = {id(one) for exhibit in EXHIBITS.values() for one in exhibit.printed}
    assert used == {id(one) for one in NUMBERS.values()}  # what is computed from printed numbers is not printed
    assert len(NUMBERS) == len(stored)
    for one in stored:
        assert one["digits"] in one["words"], one
        assert read(one["digits"], one["words"]) in (one["value"], round(100 * one["value"], 9)), one


def read(digits: str, words: str) -> float:
    """Return the number that printed digits stand for; a power of ten may follow them."""
    found = re.search(re.escape(digits) + r"\s*(?:\\times|×)\s*10\^\{?(-?\d+)", words)
    power = int(found[1]) if found else 0
    if inner := re.fullmatch(r"([\d.]+)\s*(?:\\times|×)\s*10\^\{(-?\d+)\}", digits):
        digits, power = inner[1], int(inner[2])
    return float(f"{float(digits.rstrip('%').replace(',', '')) * 10.0**power:.12g}")
