"""The plugin of pytest: its three outcomes, in a run of pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from validation.audit import LawBrokenError, NotEnoughDrawsError, TableLaw, keeps_law

ROOT = Path(__file__).resolve().parents[3]
FILE = '''
"""Tests of a sampler, as a user writes them."""

import sys

import numpy as np

from validation.audit import TableLaw

FAIR, BIASED = TableLaw([[0.5, 0.5]]), TableLaw([[0.8, 0.2]])


def sample(prompts, n, seed):
    return [np.random.default_rng(seed).integers(2, size=(n, 1)) for _ in prompts]


def test_kept(keeps_law):
    assert keeps_law(sample, FAIR, depth=1, draws=20_000).verdict == "kept"


def test_broken(keeps_law):
    keeps_law(sample, BIASED, depth=1, draws=20_000, draft=FAIR)


def test_not_enough(keeps_law):
    keeps_law(sample, FAIR, depth=1, draws=100)


def test_without_the_fixture():
    assert "torch" not in sys.modules
'''


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "torch.py").write_text("raise ImportError('torch is not installed')")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "validation.pytest_plugin", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=inherited | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_engine.py").write_text(FILE)
    return run_pytest(folder, *options)


def test_three_outcomes_without_torch(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.returncode == 1
    assert "1 failed, 2 passed, 1 undecided" in found.stdout
    assert "Not kept: the law of the next token is at least" in found.stdout
    assert "prompt 0, after []: token" in found.stdout
    summary = found.stdout.split("laws that samplers keep")[1]
    assert "test_kept\n  Kept: the law of the next token is at most" in summary
    assert "test_not_enough\n  Not enough draws" in summary
    assert "would be found with" in summary


def coins(prompts: list[list[int]], n: int, seed: int) -> list[np.ndarray]:
    return [np.random.default_rng(seed).choice(2, size=(n, 1), p=[0.7, 0.3]) for _ in prompts]


def test_an_error_carries_its_report() -> None:
    with pytest.raises(LawBrokenError) as broken:
        keeps_law(coins, TableLaw([[0.6, 0.4]]), depth=1, draws=20_000)
    assert 0 < broken.value.report.at_least < 0.1
    with pytest.raises(NotEnoughDrawsError) as unknown:
        keeps_law(coins, TableLaw([[0.7, 0.3]]), depth=1, draws=200)
    assert unknown.value.report.draws == 200


def test_a_difference_of_a_half_that_the_cells_hide_is_no_pass() -> None:
    """Two tokens, each one of 400: the second is one of a half that the first fixes, and each cell has its share."""
    law = TableLaw(np.full((1 + 400, 400), 1 / 400))

    def sample(prompts: list[list[int]], n: int, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        first, half = rng.integers(400, size=n), rng.integers(200, size=n)
        return [np.stack([first, (first + half) % 400], axis=1) for _ in prompts]

    given = {"depth": 2, "draws": 2_000, "within": 0.4}
    with pytest.raises(NotEnoughDrawsError, match="No difference found in the cells"):
        keeps_law(sample, law, **given)
    report = keeps_law(sample, law, **given, whole=False)
    assert report.verdict == "no difference found in the cells"
    assert report.at_most_on_cells <= 0.4 < 0.5 <= report.at_most
