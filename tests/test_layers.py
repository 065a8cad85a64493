"""The order of the folders of ``validation/``: no import goes to a higher folder, and no imports form a cycle."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (
    "printable",
    "errors",
    "processes",
    "acceptance",
    "models",
    "trace",
    "collection",
    "training",
    "claims",
    "decoding",
    "audit",
    "uncertainty",
    "planning",
    "plots",
    "report",
    "site",
    "reproduce",
    "cli",
    "benchmarks",
    "stub",
    "__main__",
)
"""A file imports from its own folder and from those before it. An import for type checkers alone is exempt."""


def name_of(path: Path) -> str:
    """Return the module name of a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    """Return every module of ``validation/`` except the package itself, which is empty."""
    found = {name_of(path): path for path in sorted((ROOT / "validation").rglob("*.py"))}
    return {name: path for name, path in found.items() if name != "validation"}


def runtime_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of a file, also inside functions, without the code that only type checkers read."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def imports(text: str) -> set[str]:
    """The modules of ``validation/`` that a source text imports.

    >>> sorted(imports("from validation.trace import reader, sealed"))
    ['validation.trace.reader', 'validation.trace.sealed']
    """
    names = set()
    for node in runtime_nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules() else node.module for name in inner}
    return {name for name in names if name in modules()}


@cache
def graph() -> dict[str, set[str]]:
    """Return the imports of each module, and the packages of these imports if the module is not inside them."""
    edges = {}
    for name, path in modules().items():
        wanted = imports(path.read_text(encoding="utf-8")) - {name}
        packages = {parent for one in wanted for parent in ancestors(one)}
        edges[name] = wanted | {one for one in packages if not name.startswith(f"{one}.") and one != name}
    return edges


def ancestors(name: str) -> list[str]:
    """The packages that a module lies in, without ``validation``."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(2, len(parts))]


def folder(name: str) -> str:
    """The folder of ``validation/`` that a module lies in, or the module's own name."""
    return name.split(".")[1]


def test_every_folder_has_its_place() -> None:
    assert {folder(name) for name in modules()} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_import_runs_up(layer: str) -> None:
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    up = [
        f"{name} imports {one}"
        for name, wanted in graph().items()
        if folder(name) == layer
        for one in sorted(wanted)
        if folder(one) not in allowed
    ]
    assert up == []


def test_no_import_runs_in_a_circle() -> None:
    try:
        tuple(TopologicalSorter(graph()).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_relative_imports_are_not_used() -> None:
    """The two tests above would not see them."""
    relative = [
        name
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    from validation.plots import draw", {"validation.plots"}),
        ("import validation.cli.start as s", {"validation.cli.start"}),
        (
            "if TYPE_CHECKING:\n    import validation.cli.start\nelse:\n    import validation.errors",
            {"validation.errors"},
        ),
        ("import hlmtheory, numpy", set()),
    ],
)
def test_an_import_is_found_wherever_it_stands(text: str, found: set[str]) -> None:
    assert imports(text) == found
