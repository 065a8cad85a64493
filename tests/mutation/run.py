"""Mutation testing of hlmtheory: do the theory's tests notice a change of one place in the code?

    python tests/mutation/run.py results.json [--mutants 320] [--seed 1] [--jobs 2] [--modules channel ofdma]
    python tests/mutation/run.py results.json --survivors

Needs the extras ``validation`` and ``test`` and the package cosmic-ray, which finds the places and makes the mutants.
A sample of the mutants is tested, spread over all modules. Three kinds are left out: claims and the instances that they
draw, which are tests themselves; type annotations, which are never evaluated; and mutants that nearly always crash and
so prove little (arithmetic turned into an operation on bits, a comparison turned into ``is``). There is one mutant for
each place.

The first command runs the tests of the mutant's module, with few examples. The second command runs, for each survivor,
all tests of the theory with few examples, then the module's tests with the examples of CI. The code on disk is not
changed: each mutant exists only in a forked process. Results are written after each mutant, and the same command
continues an interrupted run. README.md in this folder names the survivors.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import sys
import traceback
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CRASHING = re.compile(r"_(BitOr|BitAnd|BitXor|LShift|RShift|Is|IsNot|In|NotIn)$")
"""Operators whose result most types refuse."""
FLOOR = 12
"""Minimum number of mutants of a module, if it has this many."""
CPU_SECONDS = {"few": 400, "ci": 1800}
"""Seconds for the tests of one mutant; a mutant that takes longer counts as caught."""
MEMORY = 12 * 2**30
"""Bytes of address space; a mutant that needs more counts as caught."""
DRAWN = ("__init__.py", "arguments.py", "_samplers.py", "_joint.py")
"""Files without code to test: names, and the instances that tests draw."""
NOT_LOADED = 3
"""Exit status of a process whose tests never imported the mutant."""
ALL_TESTS = ("tests/theory", "hlmtheory")


def module_of(path: str) -> str:
    """Return the module of the theory: a folder of hlmtheory, or ``_shared`` for its private files."""
    parts = Path(path).parts
    return parts[1] if len(parts) > 2 else "_shared"


def own_tests(path: str) -> list[str]:
    """Return the test files named after the file or its module, the tests of claims, and the module's doctests."""
    stems = {module_of(path), Path(path).stem} - {"_shared"}
    tests = (ROOT / "tests/theory").glob("test_*.py")
    names = tuple(f"test_{stem.strip('_')}" for stem in stems)
    found = sorted(str(test.relative_to(ROOT)) for test in tests if test.stem.startswith(names))
    return [
        *found,
        "tests/theory/test_claims.py",
        "tests/theory/test_every_claim.py",
        str(Path(*Path(path).parts[:2])),
    ]


def untested(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return start and end, as (line, column), of the type annotations and of the claims of a file."""
    notes = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    notes += [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Claim"]
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in notes if n is not None]


def places() -> list[dict[str, Any]]:
    """Return one mutant for each place of the theory's code, drawn from the mutants of cosmic-ray there."""
    from cosmic_ray.commands.init import _all_work_items

    files = [path.relative_to(ROOT) for path in sorted((ROOT / "hlmtheory").rglob("*.py"))]
    files = [path for path in files if not path.name.endswith("claims.py") and path.name not in DRAWN]
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
    """Return ``count`` mutants, at least :data:`FLOOR` of each module, in random order."""
    rng = random.Random(seed)
    by_module = defaultdict(list)
    for mutant in mutants:
        by_module[module_of(mutant["path"])].append(mutant)
    chosen, rest = [], []
    for members in by_module.values():
        rng.shuffle(members)
        chosen += members[:FLOOR]
        rest += members[FLOOR:]
    chosen += rng.sample(rest, max(0, min(count - len(chosen), len(rest))))
    rng.shuffle(chosen)
    return chosen


def name_of(mutant: dict[str, Any]) -> tuple[str, int, int]:
    """Return the name of a mutant: its place."""
    return mutant["path"], mutant["line"], mutant["column"]


def mutated_code(mutant: dict[str, Any]) -> str:
    """Return the whole file with its one change."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (ROOT / mutant["path"]).read_text(encoding="utf-8")
    code: str = mutate_code(source, get_operator(mutant["operator"])(), mutant["occurrence"])
    return code


def passes(path: str, code: str, tests: list[str] | tuple[str, ...], profile: str) -> bool:
    """Return whether the tests pass, in a forked process in which ``path`` holds ``code``."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == NOT_LOADED:
            raise RuntimeError(f"No test imported {path}: the mutant was never run.")
        return status == 0
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS[profile], CPU_SECONDS[profile] + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.environ["HYPOTHESIS_PROFILE"] = profile
        if module_of(path) != "_shared" and tests != ALL_TESTS:
            os.environ["CLAIMS_OF"] = f"{module_of(path)}."
        target, real, loaded = str(ROOT / path), SourceFileLoader.get_code, []

        def get_code(loader: SourceFileLoader, name: str) -> Any:
            if loader.path != target:
                return real(loader, name)
            loaded.append(name)
            return compile(code, target, "exec", dont_inherit=True)

        SourceFileLoader.get_code = get_code
        import pytest

        # pytest loads a given file with its own loader, unless asserts stay as they are
        status = pytest.main(["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", *dict.fromkeys(tests)])
        os._exit(NOT_LOADED if not loaded else 0 if status == 0 else 1)
    except BaseException:
        traceback.print_exc()
        os._exit(2)


def survives(mutant: dict[str, Any], again: bool = False) -> bool:
    """Return whether no test notices the mutant: its module's tests, or if it survived these, all tests."""
    path, code = mutant["path"], mutated_code(mutant)
    if not again:
        return passes(path, code, own_tests(path), "few")
    return passes(path, code, ALL_TESTS, "few") and passes(path, code, own_tests(path), "ci")


def refuse_broken_tests(pool: ThreadPoolExecutor, paths: list[str]) -> None:
    """Stop if the tests fail on the unchanged code: they would catch every mutant."""
    chosen = list({module_of(path): path for path in paths}.values())
    passed = pool.map(
        lambda path: passes(path, (ROOT / path).read_text(encoding="utf-8"), own_tests(path), "few"), chosen
    )
    for path, passing in zip(chosen, passed, strict=True):
        if not passing:
            raise SystemExit(f"The tests of {path} fail without a mutant; run them by hand first.")


def preload() -> None:
    """Import the packages that the tests need, except the theory, so that forked processes need not import them."""
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
    assert not any(name.split(".")[0] == "hlmtheory" for name in sys.modules)


def main() -> None:
    """Test the sample and print how many mutants of each module were caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--mutants", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modules", nargs="*", default=())
    parser.add_argument("--survivors", action="store_true", help="test those that survived once more, with more tests")
    options = parser.parse_args()
    options.results = options.results.resolve()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    preload()
    done = json.loads(options.results.read_text()) if options.results.exists() else []
    if options.survivors:
        waiting = [one for one in done if one["survived"] and not one.get("again")]
    else:
        chosen = sample(places(), options.mutants, options.seed)
        known = {name_of(one) for one in done}
        waiting = [one for one in chosen if name_of(one) not in known]
        waiting = [one for one in waiting if not options.modules or module_of(one["path"]) in options.modules]
    with ThreadPoolExecutor(options.jobs) as pool:
        if not options.survivors:
            passed = {module_of(one["path"]) for one in done if one["survived"]}  # a survivor shows that its tests pass
            refuse_broken_tests(pool, [one["path"] for one in waiting if module_of(one["path"]) not in passed])
        outcomes = pool.map(lambda mutant: survives(mutant, options.survivors), waiting)
        for mutant, survived in zip(waiting, outcomes, strict=True):
            if not options.survivors:
                done.append(mutant)
            mutant |= {"survived": survived} | ({"again": True} if options.survivors else {})
            options.results.write_text(json.dumps(done, indent=1) + "\n")
            if survived:
                print("survived: {path}:{line}:{column} {operator}".format(**mutant), flush=True)
    caught = Counter(module_of(one["path"]) for one in done if not one["survived"])
    tested = Counter(module_of(one["path"]) for one in done)
    for module in sorted(tested):
        print(f"{module:14} {caught[module]:4} of {tested[module]:4} caught")
    print(f"{'all':14} {caught.total():4} of {tested.total():4} caught, {caught.total() / tested.total():.1%}")


if __name__ == "__main__":
    main()
