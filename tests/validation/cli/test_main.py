"""The command line, end to end on tiny models, and its messages on bad input."""

import json
import re
from importlib import import_module

import numpy as np
import pytest
from markupsafe import escape

import hlmtheory
from tests.validation.command_line import run
from tests.validation.html_elements import Elements
from validation.claims.instances import scenarios
from validation.plots import FIGURES
from validation.trace.reader import open_trace

SOME_FIGURES = {key: FIGURES[key] for key in (("cu-hlm", "4a"), ("cu-hlm", "6"))}
"""The others have tests of their own."""


@pytest.fixture(scope="module")
def finished(folders, tmp_path_factory):
    base = tmp_path_factory.mktemp("run")
    prompts = [("two and two", "sums"), ("what is <b>bold</b>", "tags"), ("the best of times", "sums")]
    lines = (json.dumps({"prompt": text, "source": source}) for text, source in prompts)
    (base / "prompts.jsonl").write_text("\n".join(lines))
    words = ("validate", "--draft", str(folders[0]), "--target", str(folders[1]), "--positions", "150")
    words += ("--new-tokens", "24", "--prompts", str(base / "prompts.jsonl"), "--out", str(base / "out"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("validation.plots.FIGURES", SOME_FIGURES)
        result = run(*words)
    assert result.exit_code == 0, result.output
    return base / "out", words


def test_validate_writes_verdicts_figures_and_report(finished):
    folder, _ = finished
    tallies = json.loads((folder / "claims.json").read_text())["tallies"]
    assert set(tallies) == set(hlmtheory.all_claims()) - set(scenarios())
    report = (folder / "report.html").read_text()
    assert all(name in report for name in hlmtheory.all_claims())
    plan = json.loads(run("plan", "--trace", str(folder / "trace"), "--json").stdout)
    lines = "\n".join(plan["answer"]).split("\n")
    assert all(escape(line.partition(": ")[2]) in re.sub("</?a[^>]*>", "", report) for line in lines)
    options = re.search(r"hlm plan --trace \S+(.*) --page", report)[1].split()
    again = json.loads(run("plan", "--trace", str(folder / "trace"), *options, "--json").stdout)
    assert (again["answer"], again["request"]["server_draft_basis"]) == (plan["answer"], "given")
    trace = open_trace(folder / "trace")
    rows, owners = trace.rows(0, trace.positions), [one["id"] for one in trace.manifest["prompts"]]
    parts = {r"sums\s*2 prompts,": owners[::2], r"tags\s*1 prompt,": owners[1:2]}
    for name, part in {**parts, "on 1 held-out prompt:": plan["split"]["test"]}.items():
        own = np.isin(rows["prompt_index"], [owners.index(one) for one in part])
        counts = f"{np.sum(own & (rows['position'] == 0))} texts, {own.sum()} positions"
        assert re.search(f"{name} {counts}", Elements(report).text), (name, counts)
    assert (folder / "figures" / "cu-hlm-fig6.svg").stat().st_size


@pytest.mark.parametrize("everything", [False, True])
def test_only_all_claims_checks_what_does_not_depend_on_the_models(finished, tmp_path, monkeypatch, everything):
    known = hlmtheory.all_claims()
    some = {name: known[name] for name in ("verification.overlap", "channel.markov")}
    monkeypatch.setattr(hlmtheory, "all_claims", lambda: some)
    words = ("validate", "--trace", str(finished[0] / "trace"), "--out", str(tmp_path), "--no-figures", "--json")
    result = run(*words, *["--all-claims"] * everything)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert set(said["outcomes"]) == set(said["tallies"]) == (set(some) if everything else {"verification.overlap"})
    assert said["certificate"]["claims"] == 1 - everything


def test_other_settings_are_refused_until_asked_to_begin_anew(finished):
    folder, words = finished
    before = (folder / "trace" / "journal.jsonl").read_bytes()
    result = run(*words, "--seed", "2")
    assert result.exit_code == 2
    assert (folder / "trace" / "journal.jsonl").read_bytes() == before
    result = run(*words, "--seed", "2", "--fresh", "--no-figures")
    assert result.exit_code == 0, result.output
    assert json.loads((folder / "trace" / "manifest.json").read_text())["seed"] == 2


def test_ctrl_c_at_any_moment_leaves_a_run_that_the_same_command_resumes(finished, tmp_path, monkeypatch):
    words = (*finished[1][:-1], str(tmp_path), "--positions", "200")
    monkeypatch.setattr("validation.plots.FIGURES", SOME_FIGURES)
    moments = {
        "collect": ("validation.collection.collect._score_and_store", 1),
        "check": ("validation.claims.check.check_trace", 0),
        "figures": ("validation.plots.draw", 1),
        "report": ("validation.report.html.write_report", 0),
    }
    for name, (place, calls) in moments.items():
        with pytest.MonkeyPatch.context() as patch:
            interrupt_after(patch, place, calls)
            result = run(*words)
        assert result.exit_code == 130, (name, result.output)
        assert "Traceback" not in result.output
        assert not any((tmp_path / file).exists() for file in ("report.html", "figures"))
        assert (tmp_path / "claims.json").exists() == (name in ("figures", "report"))  # a finished check is kept
        assert (tmp_path / "trace" / "manifest.json").exists() == (name != "collect")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert {file.name for file in tmp_path.iterdir()} == {"claims.json", "figures", "plan", "report.html", "trace"}


def interrupt_after(patch: pytest.MonkeyPatch, place: str, calls: int) -> None:
    module, _, name = place.rpartition(".")
    original, seen = getattr(import_module(module), name), [0]

    def interrupted(*args: object, **options: object) -> object:
        seen[0] += 1
        if seen[0] > calls:
            raise KeyboardInterrupt
        return original(*args, **options)

    patch.setattr(place, interrupted)


def test_a_folder_that_is_no_trace_is_not_removed(finished, tmp_path):
    _, words = finished
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "diary.txt").write_text("mine")
    result = run(*words, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert (tmp_path / "trace" / "diary.txt").exists()
