"""Run the tests, for ``python3 hlm test``; the environment has to be there.

usage: python3 hlm test [PYTEST ARGUMENTS]

Without arguments: the theory's tests with their branch coverage of hlmtheory (at least 95%), then all other tests, on
up to four cores. Property tests draw 5 examples each. HYPOTHESIS_PROFILE=dev|ci|deep draws 50, 100 or 10,000: the
theory's property tests then run again, without the tracing that doubles their time. Where CI is set, the default is ci.
With arguments (a file, -k NAME, -x): they go to pytest, on one core, without coverage; the default is dev.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTEST = (sys.executable, "-P", "-m", "pytest", "-q")  # -P: import nothing from the current folder
PARALLEL = ("-n", "auto", "--maxprocesses=4", "--dist=worksteal")
"""One process per core, at most four, because each takes about 1 GB."""
COVERAGE = ("--cov=hlmtheory", "--cov-branch", "--cov-report=term-missing:skip-covered", "--cov-fail-under=95")
UNTRACED = tuple(
    f"tests/theory/test_{name}.py"
    for name in ("bad_input", "bounds_round_up", "policy_bound", "batching_facilities", "batching_waves")
)
"""Tests over all functions and by brute force, run without coverage: tracing is slow, and others cover the code."""
THEORY = (*(f"--ignore={file}" for file in UNTRACED), "tests/theory", "hlmtheory")


def others(root: Path, profile: str) -> list[str]:
    """Return the tests that the run with coverage leaves out; the profile ``few`` leaves out the long ones, too."""
    files = sorted(path.relative_to(root).as_posix() for path in (root / "tests").glob("test_*.py"))
    folders = ["tests/validation"] if profile == "few" else ["tests/device", "tests/validation"]
    return [*files, *folders, *UNTRACED]


def run_all(root: Path) -> int:
    """Run all tests; return the first exit code that is not 0."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}  # the processes share the cores
    profile = environment.get("HYPOTHESIS_PROFILE") or ("ci" if environment.get("CI") else "few")

    def run(words: tuple[str, ...] | list[str], profile: str) -> int:
        settings = {**environment, "HYPOTHESIS_PROFILE": profile}
        return subprocess.run([*PYTEST, *PARALLEL, *words], cwd=root, env=settings, check=False).returncode

    if code := run([*COVERAGE, *THEORY], "few"):
        return code
    code = run(others(root, profile), profile)
    if profile != "few":  # the theory's other tests do not depend on the profile
        code = run(["-m", "hypothesis", *THEORY], profile) or code
    return code


def main(words: list[str], root: Path = ROOT) -> int:
    """Run all tests, or what pytest is asked for; return the exit code."""
    if {"-h", "--help"} & set(words):
        print(str(__doc__).partition("\n\n")[2], end="")
        return 0
    try:
        return subprocess.run([*PYTEST, *words], cwd=root, check=False).returncode if words else run_all(root)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
