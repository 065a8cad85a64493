"""Format the results of a run claim by claim, and update the generated parts of a page."""

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import groupby
from typing import Any

from hlmtheory._array import to_numpy
from hlmtheory.claims import FALSE, Claim, Instance, Relation
from validation.claims.check import Tally
from validation.errors import UserError
from validation.report.citations import cite

STANDINGS = ("true", *FALSE.values())
"""Standings in the order of the tables: true statements, then each kind of false statement."""
KINDS = {
    "true": "proved for all inputs that meet its assumptions",
    "printed": "the source prints it",
    "implied": "printed nowhere, though a reader of the source may infer it",
    "corrected": "derived here: what holds in place of a false statement or reading",
    "known": "a published result, applied here",
    "new": "derived here, in none of the five papers; docs/results/new.md names what is nearest",
    "software": "no result: a check of what the code computes",
    "refuted": "printed as a result, and false",
    "misprint": "false as printed, but what is meant is evident, and true",
    "false reading": "printed nowhere and false, though a reader of the source may infer it",
}
"""Meaning of each status and origin."""

SYMBOLS = {
    "holds": "✓",
    "violated": "✗",
    **dict.fromkeys(FALSE.values(), "△"),
    "refuted": "⊘",
    "inconclusive": "?",
    "out of scope": "–",
}
MISSING, UNPUBLISHED = "not checked", "not yet published"
COLUMNS = (
    *("Outcome", "Claim", "Statement", "Source", "Origin"),
    *("In scope", "Worst slack", "lhs/rhs: seen (known)", "Vacuous"),
)
ROUNDING = 1e-12
MARKER = "<!-- {} generated: {} -->"


def table_row(
    claim: Claim, tally: Tally | None, missing: str = MISSING, *, counterexample: bool = True
) -> dict[str, Any]:
    """Return one claim's cells for both tables, as text; ``missing`` is the outcome without a tally."""
    outcome = tally.outcome if tally else missing
    in_scope = tally.in_scope if tally else 0
    seen = tally.tightest if tally and claim.relation is Relation.LE else -math.inf
    broken = tally.broken if tally else {}
    refuted = claim.refuted if counterexample else None
    proof, _, instead = claim.proof.text.removeprefix("False: ").partition("Instead: ")
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": cite(claim.source),
        "key": claim.source.key,
        "origin": claim.origin.value,
        "assumptions": [(a.statement, broken.get(a.statement, 0)) for a in claim.assumptions],
        "proof": proof,
        "instead": instead,
        "outcome": outcome,
        "never": tally.never if tally else "",
        "undecided": f"{tally.inconclusive:,}" if tally and tally.inconclusive else "",
        "kind": tally.kind if tally else "",
        "standing": claim.standing,
        "symbol": SYMBOLS.get(outcome, "·"),
        "instances": f"{tally.instances:,}" if tally else "0",
        "in_scope": f"{in_scope:,}",
        "slack": _slack(tally.worst_slack) if tally and in_scope else "–",
        "seen": "identity" if claim.relation is Relation.EQ else _number(seen),
        "known": _number(claim.attained.ratio) if claim.attained and claim.relation is Relation.LE else "",
        "vacuous": _share(tally.vacuous, in_scope) if tally and claim.ceiling is not None else "–",
        "violated": f"{tally.violated:,}" if tally else "0",
        "fails": _failing(tally),
        "refuted": refuted and counterexample_text(claim, refuted),
        "sides": refuted and {"≤": " > ", "=": " ≠ "}[claim.relation.value].join(_sides(claim, refuted)),
    }


def _failing(tally: Tally | None) -> str:
    if tally is None or not tally.in_scope:
        return "not measured here"
    return f"fails on {_share(tally.violated, tally.in_scope)} here" if tally.violated else "on no instance here"


def pieces(statement: str) -> list[tuple[str, str]]:
    """Return a statement split into plain text, indices and exponents."""
    found = re.split(r"([_^])(\{[^{}]*\}|\w(?!(?![²³])\w)|(?<=\b\w_)[a-z]{2,}\b|(?<=\^)(?:-?\d+|\*))", statement)
    cut = [("", found[0])]
    for kind, raised, plain in zip(found[1::3], found[2::3], found[3::3], strict=True):
        cut += [(kind, raised.strip("{}")), ("", plain)]
    return [piece for piece in cut if piece[1]]


def counterexample_text(claim: Claim, instance: Instance, *, exact: bool = False) -> str:
    """Return the counterexample of a refuted statement and its two sides, as text."""
    left, right = _sides(claim, instance)
    law = f"; {law_text(claim)}" if claim.law and instance is claim.refuted else ""
    return f"{instance_text(instance, exact=exact)}: left {left}, right {right}{law}"


def law_text(claim: Claim) -> str:
    """Return the law that a counterexample of a claim on laws gives, and the target's."""
    instance = claim.refuted or {}
    laws = (claim.law(**instance), instance["target"]) if claim.law else ()
    return "law " + " instead of ".join(_nested(to_numpy(law), False) for law in laws)


def _sides(claim: Claim, instance: Instance) -> list[str]:
    verdict = claim.check(instance)
    return [_number(0.0 if abs(side) <= ROUNDING else side, 4) for side in (verdict.lhs.item(), verdict.rhs.item())]


def instance_text(instance: Mapping[str, Any], *, exact: bool = False) -> str:
    """Return an instance as text; with ``exact`` as Python reads it, each number with all its digits."""
    arrays = {name: to_numpy(value) for name, value in instance.items()}
    texts = (_nested(value, exact) if value.dtype.kind in "fiub" else str(value) for value in arrays.values())
    return ", ".join(f"{name} = {text}" for name, text in zip(arrays, texts, strict=True))


def _nested(array: Any, exact: bool) -> str:
    """Return an array as nested brackets; four or more equal neighbours are abbreviated with a count."""
    if array.ndim == 0:
        return repr(array.item()) if exact else _exact(float(array))
    runs = [(text, len(list(same))) for text, same in groupby(_nested(part, exact) for part in array)]
    many = "*[{}] * {}" if exact else "{} × {}"
    shown = ", ".join(", ".join([text] * count) if count < 4 else many.format(text, count) for text, count in runs)
    return f"[{shown}]" if exact else f"({shown})"


def _exact(value: float) -> str:
    if not math.isfinite(value):
        return str(value).replace("inf", "∞")
    near = Fraction(value).limit_denominator(1000)
    short = round(value, 3) == value or abs(float(near) - value) > 1e-15
    return _number(value) if short else str(near)


def _number(value: float, digits: int = 3) -> str:
    if not math.isfinite(value):
        return "–"
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}").replace("-", "−")


def _slack(value: float) -> str:
    """Return a slack as text; one within rounding is shown as 0, because rounding differs between machines."""
    return f"0 (±{ROUNDING:.0e})" if abs(value) <= ROUNDING else _number(value)


def _share(part: int, whole: int) -> str:
    if not whole:
        return "–"
    if 0 < part < whole:
        return f"{min(max(100 * part / whole, 0.1), 99.9):.1f}%"
    return "100%" if part else "0%"


def plain_cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of one claim under COLUMNS, from what table_row returns."""
    outcome = row["outcome"]
    if row["outcome"] in FALSE.values():
        outcome += f" by counterexample; {row['fails']}"
    outcome += f", {row['undecided']} undecided" if row["undecided"] else ""
    ratio = f"{row['seen']} ({row['known']})" if row["known"] else row["seen"]
    scope = f"{row['in_scope']} {row['kind']}".strip()
    texts = [row["statement"], row["source"], row["origin"], scope, row["slack"], ratio, row["vacuous"]]
    return [outcome, row["id"], *texts]


def markdown_table(table: Mapping[str, Any]) -> str:
    r"""Return heads and rows of text as a Markdown table, under the title if there is one.

    >>> print(markdown_table({"heads": ["a", "b"], "rows": [["1", "x|y"]]}))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    lines = [f"| {' | '.join(map(_escape, cells))} |" for cells in (table["heads"], *table["rows"])]
    lines.insert(1, f"|{'---|' * len(table['heads'])}")
    title = [f"{_escape(table['title'])}:", ""] if table.get("title") else []
    return "\n".join([*title, *lines])


def _escape(text: str) -> str:
    text = re.sub(r"([\\|*`\[\]<])", r"\\\1", text.replace("\n", " "))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)  # an underscore inside a word needs no escape


def update_between_markers(text: str, name: str, table: str) -> str:
    """Return the text with the content between the markers of that name replaced."""
    begin, end = (MARKER.format(word, name) for word in ("begin", "end"))
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise UserError(f"The text does not hold {begin} and after it {end}, once each; put them where the table goes.")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table.strip()}\n{end}{rest.split(end)[1]}"
