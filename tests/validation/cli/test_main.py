"""The command line, end to end on tiny models, and its messages on bad input."""

from __future__ import annotations

import gc
import json
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hlmtheory
from validation.claims.instances import scenarios
from validation.cli import commands, display
from validation.cli.commands import main
from validation.models import pair as module


def run(*words: str) -> Result:
    """Run one command line."""
    return CliRunner().invoke(main, list(words))


@pytest.fixture(scope="module")
def finished(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """The folder of a finished run, and the command."""
    base = tmp_path_factory.mktemp("run")
    (base / "prompts.txt").write_text("two and two\nwhat is <b>bold</b>\nthe best of times\n")
    words = ("validate", "--draft", str(folders[0]), "--target", str(folders[1]), "--positions", "150")
    words += ("--new-tokens", "24", "--prompts", str(base / "prompts.txt"), "--out", str(base / "out"))
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "Report: file://" in result.output
    return base / "out", words


@pytest.fixture(autouse=True)
def few_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw three figures in every run but the ``finished`` one, which has all: drawing takes longest."""
    from validation import plots

    if "finished" in request.fixturenames:
        request.getfixturevalue("finished")
    monkeypatch.setattr(plots, "FIGURES", dict(list(plots.FIGURES.items())[:3]))


def test_validate_writes_verdicts_figures_and_report(finished: tuple[Path, tuple[str, ...]]) -> None:
    folder, _ = finished
    tallies = json.loads((folder / "claims.json").read_text())["tallies"]
    assert set(tallies) == set(hlmtheory.all_claims()) - set(scenarios())
    report = (folder / "report.html").read_text()
    assert all(name in report for name in hlmtheory.all_claims())
    assert "<b>bold</b>" not in report
    assert "&lt;b&gt;bold&lt;/b&gt;" in report
    for name in ("cu-hlm-fig5a", "cu-hlm-fig5b", "cu-hlm-fig6"):
        assert (folder / "figures" / f"{name}.svg").stat().st_size
        assert json.loads((folder / "figures" / f"{name}.json").read_text())


def test_figures_may_be_left_out(
    finished: tuple[Path, tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"verification.overlap": hlmtheory.all_claims()["verification.overlap"]}
    monkeypatch.setattr(hlmtheory, "all_claims", lambda: one)
    words = ("validate", "--trace", str(finished[0] / "trace"), "--out", str(tmp_path), "--no-figures")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "report.html").read_text()
    assert not list((tmp_path / "figures").iterdir())


def test_the_models_are_released_before_the_check(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    held: list[weakref.ref[Any]] = []
    load = module.load_pair

    def watched(*names: Any, **options: Any) -> Any:
        pair = load(*names, **options)
        held.extend(weakref.ref(one) for one in (pair.draft, pair.target))
        return pair

    def check(*_: Any, **__: Any) -> None:
        gc.collect()
        assert [one() for one in held] == [None, None]

    monkeypatch.setattr(module, "load_pair", watched)
    monkeypatch.setattr(commands, "finish_run", check)
    words = ("--draft", str(folders[0]), "--target", str(folders[1]), "--positions", "20", "--new-tokens", "8")
    (tmp_path / "prompts.txt").write_text("two and two\n")
    result = run("validate", *words, "--prompts", "prompts.txt")
    assert result.exit_code == 0, result.output
    assert len(held) == 2


def test_without_a_terminal_progress_is_a_line_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 30.0, 61.0, 90.0, 122.0, 300.0])
    monkeypatch.setattr(display, "monotonic", lambda: next(clock))
    with display.progress_bar(display.open_console()) as report:
        for done in (10, 20, 30, 40, 100):
            report(done, 100, "checking")
    said = [line for line in capsys.readouterr().out.splitlines() if "to go" in line]
    assert said == [
        "checking: 20 of 100 after 1 min, about 4 min to go",
        "checking: 40 of 100 after 2 min, about 3 min to go",
    ]


@pytest.mark.parametrize("everything", [False, True])
def test_only_all_claims_checks_what_does_not_depend_on_the_models(
    finished: tuple[Path, tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    known = hlmtheory.all_claims()
    some = {name: known[name] for name in ("verification.overlap", "channel.markov")}
    monkeypatch.setattr(hlmtheory, "all_claims", lambda: some)
    words = ("validate", "--trace", str(finished[0] / "trace"), "--out", str(tmp_path), "--json")
    result = run(*words, *["--all-claims"] * everything)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert set(said["outcomes"]) == set(said["tallies"]) == (set(some) if everything else {"verification.overlap"})
    assert said["certificate"]["claims"] == 1 - everything
    released = "1 other claim does not depend on the models; it was checked by the release, commit"
    for text in ((tmp_path / "report.html").read_text(encoding="utf-8"), result.stderr):
        assert (released in " ".join(text.split())) != everything


def test_the_same_command_uses_the_trace_again(finished: tuple[Path, tuple[str, ...]]) -> None:
    folder, words = finished
    before = (folder / "trace" / "journal.jsonl").read_bytes()
    result = run(*words)
    assert "Using the trace at" in result.output
    assert (folder / "trace" / "journal.jsonl").read_bytes() == before
    assert {file.name for file in folder.iterdir()} == {"claims.json", "figures", "report.html", "trace"}
    assert "3 of 3 figures are those of the last run: same data, same code." in plain(result)
    figure = folder / "figures" / "cu-hlm-fig4a.svg"
    figure.write_text("not the one that was drawn")
    assert "2 of 3 figures are those of the last run" in plain(run(*words))
    assert figure.read_text().rstrip().endswith("</svg>")


def test_other_settings_are_refused_until_asked_to_begin_anew(finished: tuple[Path, tuple[str, ...]]) -> None:
    folder, words = finished
    before = (folder / "trace" / "journal.jsonl").read_bytes()
    result = run(*words, "--seed", "2")
    assert result.exit_code == 2
    assert "(seed: 1 there, 2 now); use those, put the new run elsewhere with --out FOLDER, or give" in plain(result)
    assert (folder / "trace" / "journal.jsonl").read_bytes() == before
    result = run(*words, "--seed", "2", "--fresh")
    assert result.exit_code == 0, result.output
    assert json.loads((folder / "trace" / "manifest.json").read_text())["seed"] == 2


def test_ctrl_c_at_any_moment_leaves_a_run_that_the_same_command_resumes(
    finished: tuple[Path, tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, words = finished
    words = (*words[:-1], str(tmp_path), "--positions", "600")
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
        assert "Stopped. The same command continues from what is stored." in result.output
        assert "Traceback" not in result.output
        shown = "claims were measured on this pair's positions" in plain(result)
        assert shown == (name in ("figures", "report")), "the verdict comes before the figures"
        assert not any((tmp_path / file).exists() for file in ("report.html", "figures"))
        assert (tmp_path / "claims.json").exists() == (name in ("figures", "report"))  # a finished check is kept
        assert (tmp_path / "trace" / "manifest.json").exists() == (name != "collect")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert {file.name for file in tmp_path.iterdir()} == {"claims.json", "figures", "report.html", "trace"}


def interrupt_after(patch: pytest.MonkeyPatch, place: str, calls: int) -> None:
    """Press Ctrl-C instead of a function's call, after that many calls."""
    from importlib import import_module

    module, _, name = place.rpartition(".")
    original, seen = getattr(import_module(module), name), [0]

    def interrupted(*args: object, **options: object) -> object:
        seen[0] += 1
        if seen[0] > calls:
            raise KeyboardInterrupt
        return original(*args, **options)

    patch.setattr(place, interrupted)


def test_two_runs_in_one_folder_are_refused(finished: tuple[Path, tuple[str, ...]]) -> None:
    from validation.trace.journal import Lock

    folder, _ = finished
    with Lock(folder):
        result = run("validate", "--trace", str(folder / "trace"), "--out", str(folder))
    assert result.exit_code == 2
    assert "is writing" in plain(result)


def test_a_stored_trace_is_checked_without_models(finished: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    folder, _ = finished
    result = run("validate", "--trace", str(folder / "trace"), "--out", str(tmp_path / "again"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "again" / "report.html").exists()
    result = run("validate", "--trace", str(folder / "trace"), "--small", "x")
    assert "--trace checks a stored trace; leave out --pair" in plain(result)
    copy = Path(shutil.copytree(folder / "trace", tmp_path / "copy"))
    chunk = copy / "arrays" / "tokens" / "c.0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    result = run("validate", "--trace", str(copy), "--out", str(tmp_path / "damaged"))
    assert result.exit_code == 2
    assert "is damaged: chunk 0 of tokens does not match its checksum" in plain(result)
    assert not (tmp_path / "damaged").exists()


def test_own_logits_are_imported_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    draft = rng.normal(0, 3, (80, 20))
    np.savez("logits.npz", draft=draft, target=draft + rng.normal(size=(80, 20)))
    words = ("import", "--draft", "logits.npz:draft", "--target", "logits.npz:target", "--out", "mine")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "80 positions, V = 20." in result.output
    assert "python3 hlm validate --trace mine" in result.output
    result = run("validate", "--trace", "mine")
    assert result.exit_code == 0, result.output
    (report,) = (tmp_path / "runs").glob("mine-*/report.html")
    assert str(report) in plain(result)
    result = run(*words[:3], "--target", "logits.npz:goal", "--out", "other")
    assert result.exit_code == 2
    assert "holds no array 'goal'; there are: draft, target." in plain(result)


def plain(result: Result) -> str:
    """Return the printed text on one line."""
    return " ".join(result.output.split())


def test_a_folder_that_is_no_trace_is_not_removed(finished: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    _, words = finished
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "diary.txt").write_text("mine")
    result = run(*words, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "Something other than a trace lies at" in plain(result)
    assert (tmp_path / "trace" / "diary.txt").exists()


def test_a_figure_of_a_trace(finished: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    folder, _ = finished
    result = run("figure", "cu-hlm", "6", "--trace", str(folder / "trace"), "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "cu-hlm-fig6.svg").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("figure", "cu-hlm", "77"), "5a"),
        (("figure", "cu-hlm", "5a", "--trace", "nowhere"), "There is no trace at nowhere"),
        (("claims", "truncation.none"), "There is no claim 'truncation.none'"),
        (("validate", "--draft", "only-one"), "name the target one too"),
        (("validate", "--pair", "nobody"), "Unknown pair 'nobody'"),
        (("validate", "--prompts", "missing.txt"), "missing.txt"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_an_empty_prompt_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    result = run("validate", "--prompts", str(tmp_path / "empty.txt"))
    assert result.exit_code == 2
    assert "empty.txt" in result.output


def test_claims_lists_all_and_shows_one() -> None:
    assert str(len(hlmtheory.all_claims())) in run("claims").output
    shown = run("claims", "truncation.tvd_sharp").output
    assert "TV(r, r̂) ≤ Δ_k / max(TV(q, p), TV(q̂, p))" in shown
    assert "largest lhs/rhs known: 1" in shown
    assert "checked by: hlm validate\n" in shown
    assert "checked by: the release, commit" in run("claims", "channel.markov").output


def test_help_explains_itself() -> None:
    for words in ((), ("validate",), ("import",), ("claims",), ("figure",), ("repro",)):
        result = run(*words, "--help")
        assert result.exit_code == 0
        assert "Usage" in result.output


def test_the_claims_of_one_module_are_listed() -> None:
    output = run("claims", "codec").output
    assert "codec.enumerative" in output
    assert f"{len(hlmtheory.codec.CLAIMS)} claims" in output
    assert "truncation." not in output


@pytest.mark.parametrize("paper", ["cu-hlm", "CU-HLM", "oh2025cuhlm"])
def test_the_claims_of_one_paper_are_listed(paper: str) -> None:
    found = json.loads(run("claims", "--paper", paper, "--json").stdout)["claims"]
    wanted = [name for name, claim in hlmtheory.all_claims().items() if claim.source.key == "oh2025cuhlm"]
    assert [one["id"] for one in found] == wanted
    both = json.loads(run("claims", "truncation", "--paper", paper, "--json").stdout)["claims"]
    assert [one["id"] for one in both] == [name for name in wanted if name.startswith("truncation.")]


@pytest.mark.parametrize(
    ("paper", "near"), [("edgesd", "edge-sd"), ("flexspek", "flexspec"), ("levathan", "leviathan")]
)
def test_an_unknown_paper_is_answered_with_the_nearest_names(paper: str, near: str) -> None:
    done = run("claims", "--paper", paper)
    assert done.exit_code == 2
    assert f"There is no paper {paper!r}; did you mean" in done.output
    assert near in done.output


def test_a_module_without_claims_of_the_paper_is_refused() -> None:
    done = run("claims", "truncation", "--paper", "edge-sd")
    assert done.exit_code == 2
    assert "claims comes from edge-sd" in done.output


def test_the_former_names_of_the_models_are_known_but_not_shown() -> None:
    for command in ("validate", "decode"):
        assert "--draft" in run(command, "--help").output
        assert "--small" not in run(command, "--help").output
    assert "name the target one too" in run("validate", "--small", "only-one").output


@pytest.mark.parametrize("command", ["validate", "collect", "decode", "audit", "figure"])
def test_a_negative_seed_is_refused(command: str) -> None:
    result = run(command, "--seed=-1")
    assert result.exit_code == 2
    assert "Invalid value for '--seed': -1 is not in the range" in result.output
