"""Fingerprint the code that makes a result: a module with all modules of this project that it imports."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("hlmtheory", "validation")


@cache
def code_of(*modules: str) -> str:
    """Return 16 hexadecimal digits that change if the code of a module, or of a module that it imports, changes.

    Imports inside functions count; imports for type checkers, comments, docstrings and the layout do not. The theory is
    imported as one package, so that all of ``hlmtheory`` counts where a part of it is imported. Data files beside the
    modules of ``validation/plots`` are not code: the figures name them.

    Parameters
    ----------
    modules : str
        Names of modules, such as ``"validation.decoding.studies"``.

    Examples
    --------
    >>> code_of("validation.errors") == code_of("validation.errors")
    True
    """
    found = hashlib.sha256()
    for name in sorted(closure(modules)):
        found.update(f"{name} {_digest(name)}\n".encode())
    return found.hexdigest()[:16]


def closure(modules: Iterable[str]) -> set[str]:
    """Return the given modules and all modules of this project that they import, directly or not."""
    waiting, found = list(modules), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imported(name)
    return found


@cache
def _file(name: str) -> Path | None:
    """Return the file of a module of this project, None for any other name."""
    if name.partition(".")[0] not in PACKAGES:
        return None
    place = ROOT / Path(*name.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.exists()), None)


@cache
def _imported(name: str) -> list[str]:
    """Return the modules of this project that one module imports."""
    if name == "hlmtheory":
        files = sorted((ROOT / "hlmtheory").rglob("*.py"))
        return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    names = []
    for node in _nodes(_tree(name)):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    modules = ["hlmtheory" if one.partition(".")[0] == "hlmtheory" else one for one in names]
    return sorted({one for one in modules if _file(one) is not None})


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes, without those that only type checkers read."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def _tree(name: str) -> ast.Module:
    file = _file(name)
    return ast.parse("" if file is None else file.read_text(encoding="utf-8"))


@cache
def _digest(name: str) -> str:
    """Return a hash of a module's code without docstrings."""
    tree = _tree(name)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            constant = body[0].value
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                body[0] = ast.Expr(ast.Constant(""))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
