"""Output of ``hlm claims``: a list of claims or one claim in full, as text or JSON; and that of a user's own claims."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hlmtheory import all_claims
from hlmtheory._array import to_numpy
from validation.claims.certificate import certificate, entry
from validation.claims.instances import scenarios
from validation.claims.own import Own, read_own, registered
from validation.cli.tables import print_table, say
from validation.errors import UserError, nearest
from validation.installed import ROOT, as_typed
from validation.report.citations import PAPERS, bibliography, cite, relation_to_source
from validation.report.publish import published_pairs
from validation.report.tables import instance_text, plain_cells, table_row
from validation.site.theory import FALSE_WORDS, measured

if TYPE_CHECKING:
    from rich.console import Console

    from hlmtheory.claims import Claim, Instance
    from validation.claims.results import Results, Tally

EVERY_CLAIM = "tests/theory/test_every_claim.py"


def find_claims(known: Mapping[str, Claim], wanted: str | None) -> list[Claim]:
    """Return all claims, those of one module, or the one with that id."""
    found = [claim for name, claim in known.items() if wanted in (None, name, name.split(".")[0])]
    if not found:
        near = nearest(str(wanted), [*dict.fromkeys(name.split(".")[0] for name in known), *known])
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UserError(f"There is no claim {wanted!r}; {hint}`python3 hlm claims` lists the {len(known)} there are.")
    return found


def claims_of_paper(found: list[Claim], paper: str) -> list[Claim]:
    """Return the claims that come from one paper."""
    name = paper.lower()
    key = PAPERS.get(name, name)
    keys = {claim.source.key for claim in all_claims().values()}
    if key not in keys:
        near = nearest(name, [*PAPERS, *sorted(keys)])
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UserError(f"There is no paper {paper!r}; {hint}Choose one of {', '.join(PAPERS)}, or a cited key.")
    chosen = [claim for claim in found if claim.source.key == key]
    if not chosen:
        raise UserError(f"None of these {len(found)} claims comes from {paper}; leave out one of the two choices.")
    return chosen


def show_list(console: Console, listed: list[Claim]) -> None:
    """Print the id, statement, status and source of each claim."""
    for claim in listed:
        say(console, claim.id, style="bold")
        console.print(f"  {claim.statement}", highlight=False)
        console.print(f"  {_status(claim)}; {claim.origin.value}; {cite(claim.source)}", highlight=False)
    console.print(as_typed(f"{len(listed)} claims; `python3 hlm claims ID` shows one in full."))
    certified = certificate()
    if said := certified.sentence(sum(claim.id in certified.tallies for claim in listed), "of them"):
        say(console, said)


def show_claim(console: Console, claim: Claim, own: Own | None = None) -> None:
    """Print one claim in full; ``own`` is what drawn instances say of a user's own."""
    attained, source = claim.attained, bibliography().get(claim.source.key, {"full": claim.source.key, "link": ""})
    rows = {
        "statement": claim.statement,
        "status": _status(claim, own) + (f": {FALSE_WORDS[claim.standing]}" if claim.standing in FALSE_WORDS else ""),
        relation_to_source(claim).lower(): cite(claim.source),
        "reference": f"{source['full']} {source['link']}".strip(),
        "origin": claim.origin.value,
        "assumptions": "; ".join(a.statement for a in claim.assumptions) or "none",
        "checked on": ", ".join(claim.takes),
        "checked by": "hlm validate" + " --all-claims" * (claim.id in scenarios()) + " --claims FILE" * bool(own),
        **{f"measured, {place}": measured(claim, tally) for place, tally in _tallies(claim, own).items()},
        "largest lhs/rhs known": attained and f"{attained.ratio:.6g} at {instance_text(attained.instance, exact=True)}",
        "counterexample": (counterexample := (own and own.counterexample) or claim.refuted)
        and _with_sides(claim, counterexample),
        "symbols": "draft is q, target is p; the table at the head of its topic in hlmtheory has the others",
        "tests": ", ".join(_tests(claim)),
        "proof": f"{claim.proof.file}, line {claim.proof.line}: {claim.proof.text}",
    }
    console.print(claim.id, style="bold")
    for label, value in rows.items():
        if value:
            console.print(f"  {label}: {value}", highlight=False)


def _tallies(claim: Claim, own: Own | None) -> dict[str, Tally]:
    """Return what was found of a claim, by place: on each published pair, or on simulated instances."""
    found = {name: results.tallies.get(claim.id) for name, results in _published().items()}
    tallies = {f"pair {name}": tally for name, tally in found.items() if tally and tally.kind == "measured"}
    simulated = own.tally if own else certificate().tallies.get(claim.id)
    return tallies | ({"simulated": simulated} if simulated else {})


@cache
def _published() -> dict[str, Results]:
    return published_pairs(ROOT)


@cache
def _named_in_tests() -> dict[str, set[str]]:
    """Return the words of the form ``module.name`` in each file of tests/; none where tests/ is not installed."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    texts = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return {name: set(re.findall(r"[a-z_]+\.\w+", text)) for name, text in texts.items()}


def _tests(claim: Claim) -> list[str]:
    """Return the test files that exercise a claim: the one of all claims, and those that name it."""
    named = [file for file, words in _named_in_tests().items() if claim.id in words or file == EVERY_CLAIM]
    return sorted(named, key=lambda file: file != EVERY_CLAIM) if claim.proof.file.startswith("hlmtheory/") else []


def _with_sides(claim: Claim, instance: Instance) -> str:
    verdict = claim.check(instance)
    return f"{instance_text(instance, exact=True)}: left {verdict.lhs.item():.6g}, right {verdict.rhs.item():.6g}"


def plain_claim(claim: Claim, own: Own | None = None) -> dict[str, Any]:
    """Return a claim as a JSON object."""
    source = bibliography().get(claim.source.key, {})
    return {
        "id": claim.id,
        "statement": claim.statement,
        "status": _status(claim, own),
        "origin": claim.origin.value,
        "source": {"key": claim.source.key, "place": claim.source.place, "cited": cite(claim.source)} | source,
        "relation": claim.relation.value,
        "assumptions": [assumption.statement for assumption in claim.assumptions],
        "takes": list(claim.takes),
        "ceiling": claim.ceiling,
        "largest_ratio_known": claim.attained and claim.attained.ratio,
        "tight_case": claim.attained and _plain(claim.attained.instance),
        "counterexample": (counterexample := (own and own.counterexample) or claim.refuted) and _plain(counterexample),
        "measured": {place: entry(tally) for place, tally in _tallies(claim, own).items()},
        "tests": _tests(claim),
        "proof": claim.proof.text,
        "proof_at": {"file": claim.proof.file, "line": claim.proof.line},
    }


def _plain(instance: Instance) -> dict[str, Any]:
    plain = {name: to_numpy(value).tolist() for name, value in instance.items()}
    return dict(json.loads(json.dumps(plain), parse_constant=str))  # JSON has no infinity


def _status(claim: Claim, own: Own | None = None) -> str:
    if own is not None:
        return f"{own.tally.outcome} on drawn instances"
    return "stands" if claim.standing == "true" else claim.standing


def own_claims(file: Path | None, seed: int = 1) -> dict[str, Own]:
    """Return the claims of a user's file, checked on drawn instances; they count as claims until the command ends."""
    own = {} if file is None else read_own(file, seed)
    click.get_current_context().with_resource(registered(own))
    return own


def show_own(console: Console, tallies: Mapping[str, Tally]) -> None:
    """Print what drawn instances or a trace say of a user's claims."""
    rows = []
    for name, tally in tallies.items():
        *_, scope, slack, ratio, _ = plain_cells(table_row(all_claims()[name], tally))
        rows.append([name, tally.outcome, scope, ratio, slack])
    heads = ("claim", "outcome", "in scope", "lhs/rhs: seen (known)", "worst slack")
    print_table(console, "Your claims", heads, rows, left=heads[:2])


def violated_by_draws(console: Console, own: Mapping[str, Own]) -> dict[str, str]:
    """Print what drawn instances say of a user's claims; return the counterexample of each that is violated."""
    show_own(console, {name: mine.tally for name, mine in own.items()})
    found = {name: _with_sides(mine.claim, mine.counterexample) for name, mine in own.items() if mine.counterexample}
    for name, counterexample in found.items():
        click.echo(f"{name} is violated: {counterexample}.", err=True)
    return found
