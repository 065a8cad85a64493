"""No import goes to a higher folder, and no imports of files form a circle.

Every import counts: of a file, inside a function, for type checkers alone, and ``import_module`` of a name.
"""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("hlmtheory", "validation")
LAYERS = (
    "hlmtheory",
    "arrays",
    "printable",
    "installed",
    "errors",
    "estimates",
    "from_json",
    "input_files",
    "provenance",
    "processes",
    "sampler_process",
    "acceptance",
    "models",
    "workers",
    "trace",
    "collection",
    "training",
    "claims",
    "decoding",
    "audit",
    "pytest_plugin",
    "uncertainty",
    "planning",
    "link",
    "plots",
    "report",
    "site",
    "reproduce",
    "cli",
    "benchmarks",
    "__main__",
)
"""``hlmtheory``, then the folders of ``validation/``: a file imports from its own and from those before it."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    """Return every module except the two packages themselves: one is empty, the other imports its modules lazily."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {name_of(path): path for path in paths if name_of(path) not in PACKAGES}


def imports(text: str) -> set[str]:
    """The modules that a source text imports.

    >>> sorted(imports("from validation.trace import reader, sealed"))
    ['validation.trace.reader', 'validation.trace.sealed']
    """
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "a relative import would not be seen here"  # noqa: PT018
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules() else node.module for name in inner}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    return {name for name in names if name in modules()}


@cache
def graph() -> dict[str, set[str]]:
    """Return the imports of each module, and the packages of these imports if the module is not inside them."""
    edges = {}
    for name, path in modules().items():
        wanted = imports(path.read_text(encoding="utf-8")) - {name}
        packages = {parent for other in wanted for parent in ancestors(other)}
        edges[name] = wanted | {package for package in packages if not f"{name}.".startswith(f"{package}.")}
    return edges


def ancestors(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(2, len(parts))]


def folder(name: str) -> str:
    """``hlmtheory``, or the folder of ``validation/`` that a module lies in, or the module's own name."""
    first, second, *_ = name.split(".")
    return first if first == "hlmtheory" else second


def test_every_folder_has_its_place():
    assert {folder(name) for name in modules()} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_import_runs_up(layer):
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    up = [
        f"{name} imports {other}"
        for name, wanted in graph().items()
        if folder(name) == layer
        for other in sorted(wanted)
        if folder(other) not in allowed
    ]
    assert up == []


def test_no_import_runs_in_a_circle():
    try:
        tuple(TopologicalSorter(graph()).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
