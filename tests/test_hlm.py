"""The launcher: standard library alone, one clear sentence for each way it can fail."""

from __future__ import annotations

import ast
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from validation.__main__ import main as command_line

ROOT = Path(__file__).resolve().parent.parent


def load():
    """The script as a module, without writing a .pyc beside it."""
    loader = SourceFileLoader("hlm_launcher", str(ROOT / "hlm"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("hlm_launcher", loader))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


@pytest.fixture
def hlm():
    return load()


@pytest.fixture
def root(tmp_path):
    """A project folder, with a space in its name."""
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n")
    (folder / "constraints.txt").write_text("numpy==2.0\n")
    return folder


@pytest.fixture
def environment(hlm, root):
    """What looks like an environment: its interpreter is a link to one that stays where it is."""
    folder = root / ".venv"
    python = hlm.python_of(folder)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text("version = 3.11.7\n")
    return folder


@pytest.fixture
def no_processes(hlm, monkeypatch):
    """Fail if the launcher starts anything."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"started {args}")

    for name in ("run", "Popen"):
        monkeypatch.setattr(hlm.subprocess, name, refuse)
    monkeypatch.setattr(hlm.os, "execv", refuse)


# ------------------------------------------------------------------------------------------- the script itself


def test_it_parses_on_an_old_python_and_needs_the_standard_library_alone():
    tree = ast.parse((ROOT / "hlm").read_text(encoding="utf-8"), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_it_is_executable():
    assert os.access(ROOT / "hlm", os.X_OK)


# ---------------------------------------------------------------------------------------------- help and names


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
@pytest.mark.usefixtures("no_processes")
def test_help_needs_no_set_up(hlm, root, capsys, argv):
    assert hlm.main(argv, root) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in hlm.COMMANDS)
    assert "hlm COMMAND --help" in text
    assert not (root / ".venv").exists()


@pytest.mark.parametrize("command", ["test", "setup"])
@pytest.mark.usefixtures("no_processes")
def test_its_own_commands_explain_themselves_without_set_up(hlm, root, capsys, command):
    assert hlm.main([command, "--help"], root) == 0
    assert f"hlm {command}" in capsys.readouterr().out


@pytest.mark.usefixtures("no_processes")
def test_an_unknown_command_is_refused_with_the_known_ones(hlm, root, capsys):
    assert hlm.main(["validat"], root) == 2
    said = capsys.readouterr().err
    assert "'validat'" in said
    assert "validate" in said
    assert said.count("\n") == 1


@pytest.mark.usefixtures("no_processes")
def test_an_unknown_extra_is_refused_with_the_known_ones(hlm, root, capsys):
    assert hlm.main(["setup", "everything"], root) == 2
    said = capsys.readouterr().err
    assert "'everything'" in said
    assert "validation" in said


def test_every_command_of_the_command_line_is_known(hlm):
    assert set(hlm.COMMANDS) - {"test", "setup"} == set(command_line.commands)


# ------------------------------------------------------------------------------------------ what Python lacks


@pytest.mark.usefixtures("no_processes")
def test_an_old_python_is_told_which_one_is_needed(hlm, root, capsys, monkeypatch):
    monkeypatch.setattr(hlm.sys, "version_info", (3, 8, 18, "final", 0))
    assert hlm.main(["validate"], root) == 2
    said = capsys.readouterr().err
    assert "needs Python 3.11 or newer, this is 3.8.18" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("version", [(3, 11), (3, 13, 0), (4, 0)])
def test_a_new_python_is_fine(hlm, version):
    assert hlm.python_problem(version) is None


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_python_without_venv_gets_one_sentence(hlm, root, capsys, monkeypatch, missing):
    monkeypatch.setattr(hlm, "find_spec", lambda name: None if name == missing else object())
    monkeypatch.setattr(hlm, "runs", lambda *command: False)
    assert hlm.main(["validate"], root) == 2
    said = capsys.readouterr().err
    assert "sudo apt install python3-venv" in said
    assert said.count("\n") == 1
    assert not (root / ".venv").exists()


def test_a_failed_environment_leaves_nothing_behind(hlm, root, monkeypatch):
    def half(command, **_):
        Path(command[-1]).mkdir()
        return subprocess.CompletedProcess(command, 1, stdout="no space\nleft on device\n")

    monkeypatch.setattr(hlm, "runs", lambda *command: False)
    monkeypatch.setattr(hlm.subprocess, "run", half)
    with pytest.raises(hlm.SetupError, match="no space left on device") as caught:
        hlm.make_environment(root / ".venv")
    assert "\n" not in str(caught.value)
    assert not (root / ".venv").exists()


def test_an_interrupt_while_the_environment_is_made_leaves_nothing_behind(hlm, root, capsys, monkeypatch):
    def interrupted(command, **_):
        Path(command[-1]).mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(hlm, "runs", lambda *command: False)
    monkeypatch.setattr(hlm.subprocess, "run", interrupted)
    assert hlm.main(["validate"], root) == 130
    assert "again" in capsys.readouterr().err
    assert not (root / ".venv").exists()


def test_an_environment_that_works_is_kept(hlm, environment, monkeypatch):
    monkeypatch.setattr(hlm, "runs", lambda *command: True)
    monkeypatch.setattr(hlm.subprocess, "run", pytest.fail)
    hlm.make_environment(environment)
    assert hlm.python_of(environment).exists()


def test_an_environment_with_an_old_python_is_not_deleted(hlm, environment, monkeypatch):
    monkeypatch.setattr(hlm, "runs", lambda python, *rest: rest == ("--version",))
    with pytest.raises(hlm.SetupError, match=r"older than 3\.11; delete that folder"):
        hlm.make_environment(environment)
    assert environment.exists()


# --------------------------------------------------------------------------------------------- announcement


def test_the_announcement_names_packages_sizes_time_and_place(hlm, root):
    said = hlm.announcement(root / ".venv", ("validation", "test"))
    for word in ("torch", "numpy", "pytest", "1.8 GB", "300 MB", "80 seconds", str(root / ".venv"), "PIP_INDEX_URL"):
        assert word in said
    assert max(map(len, said.replace(str(root), "").splitlines())) <= 120


def test_the_announcement_of_the_core_alone_does_not_speak_of_torch(hlm, root):
    assert "torch" not in hlm.announcement(root / ".venv", ())


def test_every_extra_is_announced(hlm):
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(hlm.DOWNLOADS) == {"", *extras}


# -------------------------------------------------------------------------------------------------- the stamp


def test_no_stamp_means_not_ready(hlm, root, environment):
    assert not hlm.is_ready(root, environment, ())


def test_a_stamp_holds_for_its_extras_and_fewer(hlm, root, environment):
    hlm.write_stamp(environment, hlm.fingerprint(root, environment), ["validation", "test"])
    assert hlm.is_ready(root, environment, ("validation",))
    assert hlm.is_ready(root, environment, ("test", "validation"))
    assert not hlm.is_ready(root, environment, ("validation", "dev"))


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", ".venv/pyvenv.cfg"])
def test_a_stamp_ends_when_what_it_rests_on_changes(hlm, root, environment, name):
    hlm.write_stamp(environment, hlm.fingerprint(root, environment), ["validation"])
    with (root / name).open("a") as file:
        file.write("# changed\n")
    assert not hlm.is_ready(root, environment, ("validation",))


def test_a_stamp_ends_when_the_folder_moves(hlm, root, environment):
    hlm.write_stamp(environment, hlm.fingerprint(root, environment), ["validation"])
    moved = root.with_name("elsewhere")
    shutil.copytree(root, moved, symlinks=True)
    assert not hlm.is_ready(moved, moved / ".venv", ("validation",))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fingerprint": "x"}', '{"extras": 1, "fingerprint": 2}'])
def test_a_damaged_stamp_is_no_stamp(hlm, environment, text):
    (environment / "hlm-stamp.json").write_text(text)
    assert hlm.read_stamp(environment) == {"fingerprint": "", "extras": []}


def test_a_stamp_without_its_interpreter_is_no_stamp(hlm, root, environment):
    hlm.write_stamp(environment, hlm.fingerprint(root, environment), [])
    hlm.python_of(environment).unlink()
    assert not hlm.is_ready(root, environment, ())


# ------------------------------------------------------------------------------------------------- the set-up


@pytest.fixture
def pip(hlm, monkeypatch):
    """Record the calls of pip and let them succeed."""
    calls = []
    monkeypatch.setattr(hlm, "runs", lambda *command: True)
    monkeypatch.setattr(hlm, "run_pip", lambda command, root, terminal: calls.append(command))
    return calls


def test_set_up_installs_once_with_the_constraints(hlm, root, environment, pip, capsys):
    hlm.set_up(root, environment, ("validation",), terminal=False)
    hlm.set_up(root, environment, ("validation",), terminal=False)
    assert len(pip) == 1
    assert pip[0][-4:] == ["-c", "constraints.txt", "-e", ".[validation]"]
    assert capsys.readouterr().out.count("1.8 GB") == 1


def test_set_up_keeps_earlier_extras(hlm, root, environment, pip):
    hlm.set_up(root, environment, ("dev",), terminal=False)
    hlm.set_up(root, environment, ("validation",), terminal=False)
    assert pip[-1][-1] == ".[validation,dev]"
    assert hlm.is_ready(root, environment, ("dev", "validation"))


def test_a_failed_installation_leaves_no_stamp(hlm, root, environment, monkeypatch):
    monkeypatch.setattr(hlm, "runs", lambda *command: True)

    def fail(command, root, terminal):
        raise hlm.SetupError("no")

    monkeypatch.setattr(hlm, "run_pip", fail)
    with pytest.raises(hlm.SetupError):
        hlm.set_up(root, environment, (), terminal=False)
    assert not hlm.is_ready(root, environment, ())


def test_pip_that_fails_is_one_message_with_its_last_lines_and_the_command(hlm, root, capsys, monkeypatch):
    class Pip:
        def __init__(self, command, **options):
            assert options["cwd"] == str(root)
            self.stdout = io.StringIO("".join(f"line {i}\n" for i in range(100)) + "ERROR: no route to host\n")

        def wait(self):
            return 1

    monkeypatch.setattr(hlm.subprocess, "Popen", Pip)
    monkeypatch.setattr(hlm, "make_environment", lambda environment: None)
    assert hlm.main(["validate"], root) == 2
    said = capsys.readouterr().err
    assert "pip ended with exit code 1" in said
    assert "ERROR: no route to host" in said
    assert "line 1\n" not in said
    assert f"cd '{root}' && " in said
    assert "-c constraints.txt -e '.[validation]'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("terminal", [True, False])
def test_real_output_is_read_from_either_stream(hlm, root, terminal, capfd):
    script = "import sys; print('Downloading x (1 MB)', flush=True); print('ERROR: y', file=sys.stderr); sys.exit(3)"
    with pytest.raises(hlm.SetupError, match=r"exit code 3.*\n(.*\n)*  ERROR: y"):
        hlm.run_pip([sys.executable, "-c", script], root, terminal=terminal)
    assert "Downloading x" in capfd.readouterr().out


def test_two_starts_do_not_fight(hlm, root, tmp_path):
    fcntl = pytest.importorskip("fcntl", reason="this system has no file locks")
    path = root / "constraints.txt"
    with path.open("rb") as file:
        with hlm.lock(path), pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and it is given back


# --------------------------------------------------------------------------------------- what runs in the end


class Replaced(Exception):
    """The process became this command."""


@pytest.fixture
def replaced(hlm, monkeypatch):
    """Say what the process becomes, and where."""

    def execv(path, command):
        raise Replaced(path, command, os.getcwd())

    monkeypatch.setattr(hlm.os, "execv", execv)
    monkeypatch.setattr(hlm, "set_up", lambda *args, **kwargs: None)

    def run(argv, root):
        before = os.getcwd()
        try:
            with pytest.raises(Replaced) as caught:
                hlm.main(argv, root)
        finally:
            os.chdir(before)
        return caught.value.args

    return run


@pytest.mark.skipif(os.name == "nt", reason="there a child process runs instead")
def test_a_command_runs_in_the_users_folder(hlm, root, replaced):
    path, command, where = replaced(["validate", "--prompts", "my file.txt"], root)
    assert path == str(hlm.python_of(root / ".venv"))
    assert command[1:] == ["-P", "-m", "validation", "validate", "--prompts", "my file.txt"]
    assert where == os.getcwd()


@pytest.fixture
def started(hlm, monkeypatch):
    """What runs before the process becomes something else; each of them ends with the code that is put in front."""
    found, codes = [], [0]

    def run(command, *, cwd, env):
        found.append((command, cwd, env["HYPOTHESIS_PROFILE"]))
        if codes[0] is None:
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, codes[0])

    monkeypatch.setattr(hlm.subprocess, "run", run)
    return found, codes


@pytest.mark.skipif(os.name == "nt", reason="there a child process runs instead")
def test_tests_run_at_the_root_after_coverage_with_a_floor(root, replaced, started, monkeypatch):
    monkeypatch.delenv("HYPOTHESIS_PROFILE", raising=False)
    _, command, where = replaced(["test"], root)
    ((first, there, profile),) = started[0]
    assert os.path.samefile(where, root)
    assert os.path.samefile(there, root)
    assert {"--cov=hlmtheory", "--cov-branch", "--cov-fail-under=95", "tests/theory", "hlmtheory"} <= set(first)
    assert profile == "few"
    assert command[1:] == ["-m", "pytest", "-q"]
    assert os.environ["HYPOTHESIS_PROFILE"] == "ci"
    monkeypatch.delenv("HYPOTHESIS_PROFILE")


@pytest.mark.parametrize(("code", "said"), [(1, 1), (None, 130)], ids=["too little coverage", "Ctrl-C"])
def test_without_coverage_no_more_tests_run(hlm, root, started, monkeypatch, code, said):
    monkeypatch.setattr(hlm, "set_up", lambda *args, **kwargs: None)
    monkeypatch.setattr(hlm, "replace_by", lambda *args, **kwargs: pytest.fail("went on"))
    started[1][:] = [code]
    assert hlm.main(["test"], root) == said


@pytest.mark.skipif(os.name == "nt", reason="there a child process runs instead")
def test_a_subset_has_no_coverage_and_keeps_the_users_profile(root, replaced, monkeypatch):
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "deep")
    _, command, _ = replaced(["test", "tests/test_claims.py", "-x"], root)
    assert command[-2:] == ["tests/test_claims.py", "-x"]
    assert not any("cov" in word for word in command[1:])
    assert os.environ["HYPOTHESIS_PROFILE"] == "deep"
