"""Properties of the repository as a whole."""

import hashlib
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hlmtheory
from validation.report.citations import bibliography

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("torch", "transformers", "scipy.stats", "cvxpy", "sympy", "statsmodels", "pandas", "matplotlib")


@cache
def project_files() -> tuple[Path, ...]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, so which files belong to the project is not known")
    return tuple(path for path in (ROOT / name for name in names if name) if path.is_file())


@cache
def project_texts() -> dict[str, str]:
    texts = {}
    for path in project_files():
        if b"\0" not in (content := path.read_bytes()):
            texts[path.relative_to(ROOT).as_posix()] = content.decode("utf-8")
    return texts


def lines_with(pattern: str) -> list[str]:
    """Where a pattern occurs in the project's texts: ``file:line: match``."""
    regex = re.compile(pattern, re.IGNORECASE)
    return [
        f"{name}:{number}: {found.group()}"
        for name, text in project_texts().items()
        if regex.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if (found := regex.search(line))
    ]


def test_no_path_of_one_machine():
    assert lines_with(r"/(?:work|root|opt)/|[a-z]:\\users\\") == []


def test_every_pattern_of_long_tests_has_a_test(patterns_of_no_test):
    assert patterns_of_no_test == []


def test_no_registry_is_named():
    """pip's own settings choose the index."""
    assert lines_with(r"py" + r"pi\.org|python" + r"hosted\.org|download\.py" + r"torch\.org") == []


def test_the_license_is_apache_2_verbatim():
    for file in (ROOT / "LICENSE", ROOT / "hlmtheory" / "LICENSE"):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_weights_are_30_mb_at_most():
    sizes = {path: path.stat().st_size for path in project_files() if path.suffix == ".safetensors"}
    assert sum(sizes.values()) <= 30e6


def test_every_source_of_a_claim_is_in_the_bibliography():
    used = {claim.source.key: name for name, claim in hlmtheory.all_claims().items()}
    assert {key: name for key, name in used.items() if key not in bibliography()} == {}


def test_importing_hlmtheory_imports_nothing_heavy():
    code = f"import sys, hlmtheory; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_version_is_the_same_everywhere():
    files = (ROOT / "pyproject.toml", ROOT / "hlmtheory" / "pyproject.toml")
    whole, alone = (tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files)
    assert {name: whole[name] for name in ("name", "requires-python", "dependencies")}.items() <= alone.items()
    assert hlmtheory.__version__ == (version := whole["version"])
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (newest, *_) = re.findall(
        r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M
    )
    assert newest[0] == version
    assert f'\ndate-released: "{newest[1]}"\n' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks, "README.md has no python block"
    namespace = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"README.md, block {number}", "exec"), namespace)


def test_the_template_for_a_theorem_works():
    (block,) = python_blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    namespace = {}
    exec(compile(block, str(ROOT / "hlmtheory/theorems/cu_hlm.py"), "exec"), namespace)
    claim = namespace["one_token"]
    verdict = claim.check(claim.attained.instance)
    assert verdict.holds
    assert verdict.lhs == pytest.approx(claim.attained.ratio * verdict.rhs)
    target, draft = np.random.default_rng(0).dirichlet([0.3] * 5, size=(2, 1000))
    assert claim.check({"target": target, "draft": draft}).in_scope == 1000
    assert claim.check({"target": target, "draft": draft}).holds
