"""Show why two engines print different acceptance for one pair of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from validation.cli.tables import print_table, say
from validation.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from validation.acceptance.reconcile import Reconciliation, Side
    from validation.estimates import Estimate
    from validation.trace.remote import Place

VERDICTS = {True: "agree", False: "differ", None: "not decided"}


def show_reconciliation(console: Console, found: Reconciliation, laws: Mapping[str, Estimate]) -> None:
    """Print both sides by each convention, what follows, and what each law would accept on the trace."""
    from validation.acceptance.reconcile import CONVENTIONS

    rows = []
    for row in found.rows:
        apart = "-" if row.apart is None else f"{100 * row.apart:+.1f}%"
        cells = ["-" if one is None else str(one) for one in (row.first, row.second)]
        cells = [cell + (" *" if row.key == key else "") for cell, key in zip(cells, found.printed, strict=True)]
        rows.append([CONVENTIONS[row.key], *cells, apart, VERDICTS[row.agree]])
    engines = (f"{letter}: {engine}" for letter, engine in zip("AB", found.engines, strict=True))
    heads = ["convention", *engines, "B over A", "verdict"]
    print_table(console, "One pair, two engines, by each convention", heads, rows, left=("convention", "verdict"))
    say(console, "* as the engine prints its acceptance length.", *found.findings, *_law_sentences(found, laws))


def plain_reconciliation(found: Reconciliation, laws: Mapping[str, Estimate]) -> dict[str, Any]:
    return found.as_json() | ({"laws": {name: one.plain() for name, one in laws.items()}} if laws else {})


def _law_sentences(found: Reconciliation, laws: Mapping[str, Estimate]) -> list[str]:
    if not laws:
        return []
    from validation.acceptance.reconcile import overlap
    from validation.planning.laws import LAWS

    row = next(row for row in found.rows if row.key == "common")
    said = ["On the trace's texts, at the shorter K, tokens a step would be:"]
    for name, number in laws.items():
        fits = [letter for letter, side in zip("AB", (row.first, row.second), strict=True) if overlap(side, number)]
        fitting = f"fits {' and '.join(fits)}" if fits else "fits neither"
        said.append(f"  {LAWS[name]}: {number}; {fitting}.")
    return said


def laws_beside(side: Side, laws: Place, confidence: float) -> dict[str, Any]:
    """Return the share of drafts that an engine accepted and that each law would accept on a trace, and sentences."""
    from validation.acceptance.reconcile import overlap, replay
    from validation.estimates import Estimate
    from validation.planning.laws import LAWS, lengths_by_law
    from validation.trace.reader import open_trace

    summary, length = side.summary, side.longest
    if summary.copied or length is None:
        why = "copied drafts have no law" if summary.copied else "the K of a step is not recorded; give --draft-length"
        raise UserError(f"--laws compares the drafts of a model, K in a step: {why}.")
    own = (replay(side, length, confidence) or Estimate(summary.mean_acceptance_length)) + -1.0
    own *= 1.0 / length
    shares = {
        name: (one + -1.0) * (1.0 / length)
        for name, one in lengths_by_law(open_trace(laws), length, confidence).items()
    }
    law = {"standard": "rejection", "match": "match"}.get(summary.verification or "")
    if summary.draft_sampling != "sampled":
        law = "greedy" if summary.draft_sampling == "greedy" and summary.lossless is not False else None
    said = [f"Your verifier accepts {own} of its drafts, {length} in a step. On the trace's texts the pair gives:"]
    for name, share in shares.items():
        if law in (None, name):
            agree = overlap(own, share)
            verdict = "not decided, because a side has no interval" if agree is None else VERDICTS[agree]
            said.append(f"  {LAWS[name]}: {share}; {verdict}.")
            if law and agree is False:
                said.append(
                    "The drafts are not accepted as this law says: the prompts, the temperature, the top-k or top-p "
                    "or the weights are not those of the trace, or the verifier has a defect."
                )
    return {"own": own.plain(), "laws": {name: one.plain() for name, one in shares.items()}, "findings": said}
