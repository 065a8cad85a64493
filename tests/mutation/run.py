"""Mutation testing: do the tests notice a change of one place in hlmtheory, or in five folders of validation?

    python tests/mutation/run.py results.json [--mutants 320] [--seed 1] [--jobs 2]
    python tests/mutation/run.py results.json --package validation --mutants 150
    python tests/mutation/run.py results.json --survivors

A sample of cosmic-ray's mutants, spread over all modules, one for each place; no claims, type annotations, or mutants
that nearly always crash. The tests that reach a mutant's line run on it, the quickest of each kind first; it is caught
if one fails that passes on the unchanged code within the same limits. ``--survivors`` runs the slow ones too on the
others. Mutants exist in forked processes alone. The same command continues an interrupted run. See README.md.
"""

import argparse
import ast
import json
import os
import random
import re
import resource
import sqlite3
import subprocess
import sys
import traceback
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cached_property
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
CRASHING = re.compile(r"_(BitOr|BitAnd|BitXor|LShift|RShift|Is|IsNot|In|NotIn)$")
"""Operators whose result most types refuse."""
FLOOR = 12
"""Minimum number of mutants of a module, if it has this many."""
BUDGET = 40.0
"""Seconds that the tests of a mutant take without it; survivors meet the rest."""
LIMIT = 600
"""CPU seconds for a survivor's tests: a mutant that takes longer counts as caught. Of the first tests it is less."""
MEMORY = 12 * 2**30
"""Bytes of address space; a mutant that needs more counts as caught."""
DRAWN = ("__init__.py", "arguments.py", "_samplers.py", "_joint.py")
"""Files without code to test: names, and the instances that tests draw."""
NOT_LOADED = 3
"""Exit status of a process whose tests never imported the mutant."""
THEORY = ("tests/theory", "hlmtheory")
FOLDERS = ("decoding", "trace", "audit", "link", "planning")
"""Folders of validation that are tested."""
UNTRACED = ("bad_input", "bounds_round_up", "policy_bound", "batching_facilities", "batching_waves")
"""Tests that are too slow under coverage; only survivors meet them."""


def module_of(path: str) -> str:
    """Return the module of the theory: a folder of hlmtheory, or ``_shared`` for its private files."""
    parts = Path(path).parts
    return parts[1] if len(parts) > 2 else "_shared"


def own_tests(path: str) -> list[str]:
    if path.startswith("validation/"):
        return sorted(str(test.relative_to(ROOT)) for test in (ROOT / "tests" / path).parent.glob("test_*.py"))
    stems = {module_of(path), Path(path).stem} - {"_shared"}
    tests = (ROOT / "tests/theory").glob("test_*.py")
    names = tuple(f"test_{stem.strip('_')}" for stem in stems)
    return sorted(str(test.relative_to(ROOT)) for test in tests if test.stem.startswith(names))


def untested(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return start and end, as (line, column), of the type annotations and of the claims of a file."""
    notes = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    notes += [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Claim"]
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in notes if n is not None]


def places(package: str) -> list[dict[str, Any]]:
    """Return one mutant for each place of the package's code, drawn from the mutants of cosmic-ray there."""
    from cosmic_ray.commands.init import _all_work_items

    folders = ["hlmtheory"] if package == "hlmtheory" else [f"validation/{name}" for name in FOLDERS]
    files = [path.relative_to(ROOT) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    files = [path for path in files if "theorems" not in path.parts and path.name not in DRAWN]
    notes = {str(path): untested(ast.parse((ROOT / path).read_text(encoding="utf-8"))) for path in files}
    found = defaultdict(list)
    for item in _all_work_items(files, {}):
        (mutation,) = item.mutations
        path, start = str(mutation.module_path), tuple(mutation.start_pos)
        evaluated = not any(first <= start < last for first, last in notes[path])
        if evaluated and not CRASHING.search(mutation.operator_name):
            found[path, start].append((mutation.operator_name, mutation.occurrence))
    rng = random.Random(0)
    return [
        {"path": path, "line": start[0], "column": start[1], "operator": operator, "occurrence": occurrence}
        for (path, start), offered in sorted(found.items())
        for operator, occurrence in [rng.choice(sorted(offered))]
    ]


def sample(mutants: list[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """Return ``count`` mutants, at least :data:`FLOOR` of each module if half of them suffice, in random order."""
    rng = random.Random(seed)
    by_module = defaultdict(list)
    for mutant in mutants:
        by_module[module_of(mutant["path"])].append(mutant)
    floor = min(FLOOR, count // (2 * len(by_module)))
    chosen, rest = [], []
    for members in by_module.values():
        rng.shuffle(members)
        chosen += members[:floor]
        rest += members[floor:]
    chosen += rng.sample(rest, max(0, min(count - len(chosen), len(rest))))
    rng.shuffle(chosen)
    return chosen


def name_of(mutant: dict[str, Any]) -> tuple[str, int, int]:
    return mutant["path"], mutant["line"], mutant["column"]


def mutated_code(mutant: dict[str, Any]) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (ROOT / mutant["path"]).read_text(encoding="utf-8")
    return mutate_code(source, get_operator(mutant["operator"])(), mutant["occurrence"])


class Reach:
    """Which tests reach a line of a package, from one run of them under coverage."""

    def __init__(self, folder: Path, package: str, jobs: int) -> None:
        self.data, self.times = folder / "coverage", folder / "times.xml"
        if not self.times.exists():
            folder.mkdir(exist_ok=True)
            words = ["-q", "-n", str(jobs), "--dist=worksteal"]
            words += [f"--cov={package}", "--cov-context=test", "--cov-report="]
            ignored = [f"--ignore=tests/theory/test_{name}.py" for name in UNTRACED]
            tests = THEORY if package == "hlmtheory" else [f"tests/validation/{name}" for name in FOLDERS]
            settings = {**os.environ, "HYPOTHESIS_PROFILE": "few", "COVERAGE_FILE": str(self.data)}
            command = [sys.executable, "-P", "-m", "pytest", *words, f"--junitxml={self.times}", *ignored, *tests]
            if subprocess.run(command, cwd=ROOT, env=settings, check=False).returncode:
                self.times.unlink(missing_ok=True)
                raise SystemExit("Some tests fail without a mutant; mend them first.")

    @cached_property
    def seconds(self) -> dict[tuple[str, str], float]:
        cases = ElementTree.parse(self.times).iter("testcase")
        return {(case.get("classname", ""), case.get("name", "")): float(case.get("time", 0)) for case in cases}

    def time_of(self, test: str) -> float:
        file, _, name = test.partition("::")
        parents, name = name.split("::")[:-1], name.split("::")[-1]
        return self.seconds.get((".".join([file[:-3].replace("/", "."), *parents]), name), 0.0)

    def tests(self, path: str, lines: range) -> list[str]:
        """Return the tests that reach any of these lines: of each function the quickest case first, then the others.

        The fixture of a file may reach a line for all tests of the file: then it is a line of the file's tests.
        """
        query = """select distinct context.context, arc.fromno, arc.tono from arc
            join file on file.id = arc.file_id join context on context.id = arc.context_id where file.path = ?"""
        with sqlite3.connect(self.data) as data:
            rows = data.execute(query, (str(ROOT / path),)).fetchall()
        near = {context for context, first, last in rows if context and (first in lines or last in lines)}
        reached = {context.rpartition("|")[0] for context in near or {context for context, _, _ in rows if context}}
        files = {context.partition("::")[0] for context in near if context.endswith("|setup")}
        every = {context.rpartition("|")[0] for context, _, _ in rows if context.partition("::")[0] in files}
        kinds = defaultdict(list)
        for test in sorted(reached | every, key=self.time_of):
            kinds[test.partition("[")[0]].append(test)
        ranked = [(rank, self.time_of(test), test) for kind in kinds.values() for rank, test in enumerate(kind)]
        return [test for _, _, test in sorted(ranked)]


def lines_of(mutant: dict[str, Any]) -> range:
    """Return the lines of the innermost statement around a mutant; of a function or a block, its head."""
    tree = ast.parse((ROOT / mutant["path"]).read_text(encoding="utf-8"))
    found = range(mutant["line"], mutant["line"] + 1)
    for node in ast.walk(tree):  # outer before inner
        if isinstance(node, ast.stmt) and node.lineno <= mutant["line"] <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body and body[0].lineno > node.lineno else node.end_lineno
            found = range(node.lineno, (last or node.lineno) + 1)
    return found


class FirstFailure:
    """A plugin of pytest that writes the name of the first test that fails to a pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os.write(self.pipe, report.nodeid.encode())


def first_failure(path: str, code: str, tests: list[str], limit: int = LIMIT) -> str | None:
    """Return the first test that fails in a forked process in which ``path`` holds ``code``, or None if all pass.

    If the process ends without a failed test, as when its CPU seconds are over, the result is an empty string.
    """
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        with os.fdopen(read) as pipe:
            name = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == NOT_LOADED:
            raise RuntimeError(f"No test imported {path}: the mutant was never run.")
        return None if status == 0 else name
    try:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.environ["HYPOTHESIS_PROFILE"] = "few"
        target, real, loaded = str(ROOT / path), SourceFileLoader.get_code, []

        def get_code(loader: SourceFileLoader, name: str) -> Any:
            if loader.path != target:
                return real(loader, name)
            loaded.append(name)
            return compile(code, target, "exec", dont_inherit=True)

        SourceFileLoader.get_code = get_code
        import pytest

        # pytest loads a given file with its own loader, unless asserts stay as they are
        words = ["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", *dict.fromkeys(tests)]
        status = pytest.main(words, plugins=[FirstFailure(write)])
        os._exit(NOT_LOADED if not loaded else 0 if status == 0 else 1)
    except BaseException:
        traceback.print_exc()
        os._exit(2)


def outcome_of(mutant: dict[str, Any], reach: Reach, again: bool = False) -> dict[str, Any]:
    """Return whether a mutant survives, the test that catches it, and whether that test passes without the mutant."""
    path, tests = mutant["path"], reach.tests(mutant["path"], lines_of(mutant))
    if again:
        slow = [file for file in own_tests(path) if file.endswith(tuple(f"{name}.py" for name in UNTRACED))]
        return _judged(mutant, [*slow, *tests], LIMIT)
    own = {path, *own_tests(path)}  # collecting all files takes longer than most tests
    for mine in (True, False):
        chosen, left = [], BUDGET
        for test in (test for test in tests if (test.partition("::")[0] in own) is mine):
            if reach.time_of(test) <= left:
                chosen.append(test)
                left -= reach.time_of(test)
        outcome = _judged(mutant, chosen, 40 + round(3 * (BUDGET - left))) if chosen else {"survived": True}
        if not outcome["survived"]:
            return outcome
    return {"survived": True}


def _judged(mutant: dict[str, Any], tests: list[str], limit: int) -> dict[str, Any]:
    """Run the tests on the mutant. If one fails, run them up to it on the unchanged code, within the same limit."""
    path = mutant["path"]
    test = first_failure(path, mutated_code(mutant), tests, limit)
    if test is None:
        return {"survived": True}
    same = tests[: tests.index(test) + 1] if test in tests else tests
    control = first_failure(path, (ROOT / path).read_text(encoding="utf-8"), same, limit)
    return {"survived": False, "by": test or "time or crash", "control": control is None}


def is_caught(mutant: dict[str, Any]) -> bool:
    """Return whether a test fails with the mutant, and the same tests pass without it."""
    return not mutant["survived"] and bool(mutant["control"])


def preload() -> None:
    """Import the packages that the tests need, except ours, so that forked processes need not import them."""
    import cosmic_ray.mutating
    import cvxpy
    import hypothesis.extra.numpy
    import pytest
    import scipy.stats
    import statsmodels.api
    import sympy
    import torch

    torch.set_num_threads(1)
    del cosmic_ray, cvxpy, hypothesis, pytest, scipy, statsmodels, sympy
    assert not any(name.split(".")[0] in ("hlmtheory", "validation") for name in sys.modules)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--package", choices=("hlmtheory", "validation"), default="hlmtheory")
    parser.add_argument("--mutants", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--survivors", action="store_true", help="test those that survived once more, with more tests")
    options = parser.parse_args()
    options.results = options.results.resolve()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    reach = Reach(options.results.with_suffix(".reach"), options.package, options.jobs)
    preload()
    done = json.loads(options.results.read_text()) if options.results.exists() else []
    if options.survivors:
        waiting = [one for one in done if not is_caught(one) and not one.get("again")]
    else:
        chosen = sample(places(options.package), options.mutants, options.seed)
        known = {name_of(one) for one in done}
        waiting = [one for one in chosen if name_of(one) not in known]
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = {pool.submit(outcome_of, mutant, reach, options.survivors): mutant for mutant in waiting}
        for outcome in as_completed(outcomes):
            mutant = outcomes[outcome]
            if not options.survivors:
                done.append(mutant)
            mutant |= outcome.result() | ({"again": True} if options.survivors else {})
            options.results.write_text(json.dumps(done, indent=1) + "\n")
            if not is_caught(mutant):
                word = "survived" if mutant["survived"] else "fails without it too"
                print("{word}: {path}:{line}:{column} {operator}".format(word=word, **mutant), flush=True)
    caught = Counter(module_of(one["path"]) for one in done if is_caught(one))
    tested = Counter(module_of(one["path"]) for one in done)
    for module in sorted(tested):
        print(f"{module:14} {caught[module]:4} of {tested[module]:4} caught")
    print(f"{'all':14} {caught.total():4} of {tested.total():4} caught, {caught.total() / tested.total():.1%}")


if __name__ == "__main__":
    main()
