"""Show why two engines print different acceptance for one pair of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from validation.acceptance.planners import Estimate
    from validation.acceptance.reconcile import Reconciliation

VERDICTS = {True: "agree", False: "differ", None: "not decided"}


def show_reconciliation(console: Console, found: Reconciliation, laws: Mapping[str, Estimate]) -> None:
    """Print both sides by each convention, what follows, and what each law would accept on the trace."""
    from rich import box
    from rich.table import Table

    from validation.acceptance.reconcile import CONVENTIONS

    table = Table(title="One pair, two engines, by each convention", box=box.SIMPLE)
    table.add_column("convention")
    for letter, engine in zip("AB", found.engines, strict=True):
        table.add_column(f"{letter}: {engine}", justify="right")
    table.add_column("B over A", justify="right")
    table.add_column("verdict")
    for row in found.rows:
        apart = "-" if row.apart is None else f"{100 * row.apart:+.1f}%"
        cells = ["-" if one is None else str(one) for one in (row.first, row.second)]
        cells = [cell + (" *" if row.key == key else "") for cell, key in zip(cells, found.printed, strict=True)]
        table.add_row(CONVENTIONS[row.key], *cells, apart, VERDICTS[row.agree])
    console.print(table)
    console.print("* as the engine prints its acceptance length.", soft_wrap=True)
    for said in found.findings:
        console.print(said, soft_wrap=True, markup=False, highlight=False)
    for said in _law_sentences(found, laws):
        console.print(said, soft_wrap=True, markup=False, highlight=False)


def plain_reconciliation(found: Reconciliation, laws: Mapping[str, Estimate]) -> dict[str, Any]:
    """Return the reconciliation as plain values."""
    from dataclasses import asdict

    return found.as_json() | ({"laws": {name: asdict(one) for name, one in laws.items()}} if laws else {})


def _law_sentences(found: Reconciliation, laws: Mapping[str, Estimate]) -> list[str]:
    """Return what each law would accept on the trace, and to which side it fits."""
    if not laws:
        return []
    from validation.planning.laws import LAWS

    row = next(row for row in found.rows if row.key == "common")
    said = ["On the trace's texts, at the shorter K, tokens a step would be:"]
    for name, number in laws.items():
        fits = [
            letter
            for letter, side in zip("AB", (row.first, row.second), strict=True)
            if side is not None
            and None not in (side.low, side.high, number.low, number.high)
            and side.low <= number.high  # type: ignore[operator]
            and number.low <= side.high  # type: ignore[operator]
        ]
        fitting = f"fits {' and '.join(fits)}" if fits else "fits neither"
        said.append(f"  {LAWS[name]}: {number}; {fitting}.")
    return said
