"""Output of ``hlm claims``: a list of claims or one claim in full, as text or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hlmtheory import all_claims
from validation.claims.certificate import certificate
from validation.claims.instances import scenarios
from validation.cli.tables import say
from validation.errors import UserError, nearest
from validation.installed import as_typed
from validation.report.citations import PAPERS, cite, relation_to_source
from validation.site.theory import FALSE_WORDS

if TYPE_CHECKING:
    from rich.console import Console

    from hlmtheory.claims import Claim


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


def show_claim(console: Console, claim: Claim) -> None:
    """Print one claim in full."""
    rows = {
        "statement": claim.statement,
        "status": "stands" if claim.standing == "true" else f"{claim.standing}: {FALSE_WORDS[claim.standing]}",
        relation_to_source(claim).lower(): cite(claim.source),
        "origin": claim.origin.value,
        "assumptions": "; ".join(a.statement for a in claim.assumptions) or "none",
        "checked on": ", ".join(claim.takes),
        "checked by": _checked_by(claim),
        "largest lhs/rhs known": claim.attained and f"{claim.attained.ratio:.6g} at {dict(claim.attained.instance)}",
        "counterexample": claim.refuted and dict(claim.refuted),
        "symbols": "draft is q, target is p; the table at the head of its topic in hlmtheory has the others",
        "proof": f"{claim.proof.file}, line {claim.proof.line}: {claim.proof.text}",
    }
    console.print(claim.id, style="bold")
    for label, value in rows.items():
        if value is not None:
            console.print(f"  {label}: {value}", highlight=False)


def _checked_by(claim: Claim) -> str:
    """Return who checks a claim: ``hlm validate`` on a trace, or the release on simulated instances."""
    certified = certificate()
    if tally := certified.tallies.get(claim.id):
        said = f"the release, {certified.commits}, on {tally.instances:,} simulated instances"
        return f"{said}: {tally.outcome}"
    return "hlm validate --all-claims" if claim.id in scenarios() else "hlm validate"


def plain_claim(claim: Claim) -> dict[str, Any]:
    """Return a claim as a JSON object."""
    return {
        "id": claim.id,
        "statement": claim.statement,
        "status": _status(claim),
        "origin": claim.origin.value,
        "source": {"key": claim.source.key, "place": claim.source.place, "cited": cite(claim.source)},
        "relation": claim.relation.value,
        "assumptions": [assumption.statement for assumption in claim.assumptions],
        "takes": list(claim.takes),
        "ceiling": claim.ceiling,
        "largest_ratio_known": claim.attained and claim.attained.ratio,
        "counterexample": claim.refuted and {name: str(value) for name, value in claim.refuted.items()},
        "proof": claim.proof.text,
    }


def _status(claim: Claim) -> str:
    return "stands" if claim.standing == "true" else claim.standing
