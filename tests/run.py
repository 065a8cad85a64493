"""Run the tests, for ``python3 hlm test``; the environment has to be there.

usage: python3 hlm test [--deep | --coverage] [PYTEST ARGUMENTS]

Without arguments: all tests but the long ones, on up to four cores, with 25 examples a property: 4 to 16 minutes
on two cores. --deep also runs the long ones (a stand-in for an accelerator, a browser, dask with killed workers,
training, simulations of coverage, solvers) after --coverage, and draws 10,000 examples a property: hours. --coverage
measures the branch coverage of hlmtheory by the theory's tests alone (at least 95%). HYPOTHESIS_PROFILE=few|dev|ci|deep
draws 5, 25, 100 or 10,000. With arguments (a file, -k NAME, -x): they go to pytest, on one core, without coverage.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTEST = (sys.executable, "-P", "-m", "pytest", "-q")  # -P: import nothing from the current folder
PARALLEL = ("-n", "auto", "--maxprocesses=4", "--dist=worksteal")
"""One process per core, at most four, because each takes about 1 GB."""
COVERAGE = ("--cov=hlmtheory", "--cov-branch", "--cov-report=term-missing:skip-covered", "--cov-fail-under=95")
UNTRACED = ("bad_input", "bounds_round_up", "policy_bound", "batching_facilities", "batching_waves")
"""Tests over all functions and by brute force, run without coverage: tracing is slow, and others cover the code."""


def main(words: list[str], root: Path = ROOT) -> int:
    if {"-h", "--help"} & set(words):
        print(str(__doc__).partition("\n\n")[2], end="")
        return 0
    own = {"--deep", "--coverage"} & set(words)
    asked = [word for word in words if word not in own]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}  # the processes share the cores
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of the hundred commands compiles the package again
    if own:
        environment = {"HYPOTHESIS_PROFILE": "deep", **environment, "DEEP": "1"}

    def run(*arguments: str, **variables: str) -> int:
        return subprocess.run([*PYTEST, *arguments], cwd=root, env=environment | variables, check=False).returncode

    try:
        if asked:
            return run(*asked)
        ignored = [f"--ignore=tests/theory/test_{name}.py" for name in UNTRACED]
        traced = (*PARALLEL, *COVERAGE, *ignored, "tests/theory", "hlmtheory")
        return (own and run(*traced, HYPOTHESIS_PROFILE="few")) or (0 if "--coverage" in own else run(*PARALLEL))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
