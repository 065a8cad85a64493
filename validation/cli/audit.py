"""The command ``hlm audit``: whether a sampler keeps the target's law."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console
from validation.cli.exits import INTERRUPTED, PARTLY, VIOLATED
from validation.cli.run import print_json
from validation.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from validation.audit.session import AuditReport


@click.command()
@click.option("--sampler", help="Your function: module:function or FILE.py:function.")
@click.option("--table", type=click.Path(path_type=Path), help="A toy law: .npz with an array `target` of rows.")
@click.option("--depth", type=click.IntRange(min=1), default=4, show_default=True, help="Tokens of a continuation.")
@click.option("--draws", type=click.IntRange(min=1), default=100_000, show_default=True, help="The most draws.")
@click.option("--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.001, show_default=True)
@click.option("--epsilon", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; all else goes to the error output.")
def audit(
    sampler: str | None,
    table: Path | None,
    depth: int,
    draws: int,
    level: float,
    epsilon: float,
    seed: int,
    as_json: bool,
) -> None:
    """Say whether a sampler keeps the target's law, from its draws."""
    import numpy as np

    from validation.audit import NOT_KEPT, UNDECIDED, Audit, TableLaw
    from validation.audit.driver import batches, feed

    if sampler is None or table is None:
        raise UserError("Give --sampler and --table.")
    with np.load(table) as stored:
        law = TableLaw(stored["target"])
    console = open_console(stderr=as_json)
    one = Audit(law, depth, level, epsilon)
    stopped = False
    try:
        feed(one, batches(law, load_function(sampler), draws=draws, depth=depth, seed=seed, pad=None), True)
    except KeyboardInterrupt:
        stopped = True
    report = one.report()
    show(console, report)
    if as_json:
        print_json(report.as_json())
    if stopped:
        sys.exit(INTERRUPTED)
    sys.exit(VIOLATED if report.verdict == NOT_KEPT else PARTLY if report.verdict == UNDECIDED else 0)


def load_function(name: str) -> Callable[..., Any]:
    """Return the function of ``module:function`` or ``FILE.py:function``."""
    place, _, function = name.rpartition(":")
    if not place:
        raise UserError(f"{name!r} names no function; write module:function or FILE.py:function.")
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise UserError(f"There is no file {place!r}; check the path.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise UserError(f"{place!r} is no Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent))
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise UserError(
                f"There is no module {place!r}; give a module in this folder, or FILE.py:function."
            ) from error
    found = getattr(module, function, None)
    if not callable(found):
        raise UserError(f"{place!r} has no function {function!r}; check the name.")
    return found  # type: ignore[no-any-return]


def show(console: Console, report: AuditReport) -> None:
    """Print what is known."""
    console.print(
        f"{report.verdict}: {report.draws:,} draws, TV at least {report.at_least:.4f}, at most {report.at_most:.4f}"
    )
