"""Type checkers and editors see every public name, by a stub that ``python -m tests.test_stub`` writes.

The package loads its public names on first use, by ``__getattr__``.
"""

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import hlmtheory

ROOT = Path(__file__).resolve().parent.parent
FILE = Path(hlmtheory.__file__).with_suffix(".pyi")
HEAD = """\
# Written by `python -m tests.test_stub` from MODULES and SHORTCUTS of __init__.py; not by hand.
"""
FOOT = """\
from hlmtheory.claims import Claim

__version__: str
MODULES: tuple[str, ...]
SHORTCUTS: dict[str, str]
__all__: list[str]

def all_claims() -> dict[str, Claim]: ...
def __dir__() -> list[str]: ...
"""


def stub_text() -> str:
    lines = [HEAD]
    lines += [f"from hlmtheory import {module} as {module}\n" for module in sorted(hlmtheory.MODULES)]
    names = sorted((module, name) for name, module in hlmtheory.SHORTCUTS.items())
    lines += [f"from hlmtheory.{module} import {name} as {name}\n" for module, name in names]
    return "".join([*lines, FOOT])


def test_the_stub_is_what_the_modules_make():
    assert FILE.read_text(encoding="utf-8") == stub_text(), "run: python -m tests.test_stub"


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy comes with the extra dev")
def test_mypy_knows_the_names_and_their_types(tmp_path):
    doors = {module: import_module(f"hlmtheory.{module}").__all__ for module in hlmtheory.MODULES}
    names = [f"{module}.{name}" for module, door in doors.items() for name in door]
    asks = ["hlm.certified_siz", "hlm.channel.db_to_linea", *(f"reveal_type(hlm.{name})" for name in names)]
    (tmp_path / "asks.py").write_text("\n".join(["import hlmtheory as hlm", *asks]))
    words = ["--strict", "--config-file", "", "--ignore-missing-imports", "--follow-imports", "silent"]
    command = [sys.executable, "-m", "mypy", *words, "--cache-dir", str(tmp_path / "cache"), "asks.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert 'asks.py:2: error: Module has no attribute "certified_siz"' in lines[0], done.stdout
    assert 'Module has no attribute "db_to_linea"' in done.stdout
    assert done.returncode == 1
    assert sum('Revealed type is "def (' in line for line in lines) == len(names), done.stdout


if __name__ == "__main__":
    FILE.write_text(stub_text(), encoding="utf-8")
    print(FILE)
