"""Output of ``hlm claims``: a list of claims or one claim in full, as text or JSON; and that of a user's own claims."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from hlmtheory import MODULES, all_claims
from hlmtheory._notation import new_symbols, symbols, table
from hlmtheory.arguments import ARGUMENTS
from hlmtheory.claims import Claim, Origin, Relation, repaired
from hlmtheory.own import Trial, listed, read_theorems, trial
from validation.claims.certificate import certificate, entry
from validation.claims.check import Tally, tally_of
from validation.cli.tables import print_table, say
from validation.errors import UserError, nearest
from validation.installed import ROOT, as_typed
from validation.printable import counted
from validation.provenance import PAPERS
from validation.report import citations
from validation.report.publish import commit_of_check, published_pairs
from validation.report.tables import KINDS, counterexample_text, law_text, plain_cells, table_row
from validation.site.theory import measured

if TYPE_CHECKING:
    from rich.console import Console


LONG_LIST = re.compile(r"\[([^][,]+(?:,[^][,]+){2}),[^][]{80,}, ([^][,]+)\]")
EVERY_CLAIM = "tests/theory/test_every_claim.py"


def find_claims(known: Mapping[str, Claim], wanted: str | None) -> list[Claim]:
    found = [one for name, one in known.items() if wanted in (None, name, name.split(".")[0])]
    found = found or [one for one in known.values() if citations.is_on(one, str(wanted).lower())]
    if not found:
        near = nearest(str(wanted), [*PAPERS, *dict.fromkeys(name.split(".")[0] for name in known), *known])
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UserError(f"There is no claim {wanted!r}; {hint}`python3 hlm claims` lists the {len(known)} there are.")
    return citations.in_order(found, str(wanted))


def claims_of_paper(found: list[Claim], paper: str) -> list[Claim]:
    if chosen := [claim for claim in found if citations.is_on(claim, paper.lower())]:
        return citations.in_order(chosen, paper.lower())
    near, names = nearest(paper, PAPERS), ", ".join(PAPERS)
    hint = f"did you mean {near[0]}? Else " if near else ""
    raise UserError(f"None of these {len(found)} claims is on {paper!r}; {hint}choose one of {names}, or a cited key.")


def _shown_false(claim: Claim) -> str:
    """Say the two sides of a false claim's counterexample, if they are numbers, or its law."""
    verdict = None if claim.refuted is None else claim.check(claim.refuted)
    if verdict is None or np.size(verdict.lhs) != 1:
        return ""
    shown = law_text(claim) if claim.law else f"{float(verdict.lhs):.4g} against {float(verdict.rhs):.4g}"
    better = ", ".join(repaired(claim, all_claims())[2])
    return f" (false: {shown}{better and '; cite '}{better})"


def _how_tight(claim: Claim) -> str:
    """Say the largest known left/right, if it is below 1 in two digits."""
    ratio = claim.attained.ratio if claim.attained and claim.relation is Relation.LE else 1.0
    return f" (largest left/right known: {ratio:.2f})" if ratio < 0.995 else ""


def show_list(console: Console, listed: list[Claim], own: Mapping[str, Trial]) -> None:
    """Print claims in the order of :func:`find_claims`, under a line for each paper."""
    kinds = {one.id: one.kind for one in listed}
    kinds |= {name: "yours" for name, one in own.items() if name in kinds and one.claim.origin is Origin.NEW}
    kinds |= {name: "violated" for name, one in own.items() if name in kinds and one.counterexample}
    counts, wide = Counter(kinds.values()), max(map(len, kinds), default=0)
    known, shown = dict[str, str](), 0 < len(kinds.keys() - own) < 100  # all claims have too many symbols
    say(console, as_typed(f"{counted(len(listed), 'claim')}. `python3 hlm claims ID` shows symbols and proof."))
    rest = "All others but yours" if own else "All others"
    say(console, f"Refuted, misprint, false reading: false as stated. {rest} are proved; †: under assumptions.")
    say(console, "A largest left/right is named where it is below 0.995: the bound is not known to be attained.")
    say(console, *["where: what a symbol means from there on, said again where it changes."] * shown)
    for kind, meaning in (KINDS | OWN).items():
        if counts[kind]:
            say(console, f"{counts[kind]:5} {kind:13}  {meaning}")
    for key, group in groupby(listed, key=lambda claim: claim.source.key):
        name, claims = {value: short for short, value in PAPERS.items()}.get(key, key), list(group)
        full = citations.bibliography().get(key, {"full": "your source."})["full"]
        say(console, f"\n{name}: {full} Claims: {len(claims)}.", style="bold")
        for also in PAPERS:
            if PAPERS[also] != key and all(citations.is_on(claim, also) for claim in claims):
                say(console, f"  Each is on {also} too: its source names the place there.")
        parts = [(title, list(part)) for title, part in groupby(claims, key=citations.title_of)]
        heads = ((title if len(parts) > 1 else "", *run) for title, part in parts for run in _by_module(part))
        for title, module, part in heads:
            if title or module:
                say(console, f"  {', '.join(filter(None, (title, module)))}:", style="bold")
            for claim in part:
                place = f"  {claim.id:{wide}}  {kinds[claim.id]:13}  {claim.source.place}"
                marks = f"{_shown_false(claim)}{_how_tight(claim)}{' †' if claim.assumptions else ''}"
                say(console, place, f"      {claim.statement}{marks}")
                if shown and claim.id not in own and (new := new_symbols(claim, claim.statement, known, PAPERS)):
                    say(console, *_lines_of(new), style="dim")
    certified = certificate()
    if said := certified.sentence(sum(claim.id in certified.tallies for claim in listed), "of them"):
        say(console, "", said)


def _by_module(part: list[Claim]) -> list[tuple[str, list[Claim]]]:
    """Return the claims of each module under its name, in the order of MODULES; up to 25 stay one run."""
    runs: dict[str, list[Claim]] = {}
    for claim in part:
        runs.setdefault(claim.id.partition(".")[0], []).append(claim)
    found = sorted(runs.items(), key=lambda run: [*MODULES, run[0]].index(run[0]))
    return found if len(part) > 25 and len(runs) > 1 else [("", part)]


def _lines_of(symbols: Sequence[str]) -> list[str]:
    """Return what symbols mean on lines of at most some 120 characters, cut between symbols."""
    lines = [f"      where {symbol}" for symbol in symbols[:1]]
    for symbol in symbols[1:]:
        if len(lines[-1]) + len(symbol) < 117:
            lines[-1] += f" | {symbol}"
        else:
            lines.append(f"            {symbol}")
    return lines


OWN = {"yours": "of your file; no drawn instance violates it", "violated": "of your file; a drawn instance violates it"}
VALUES = {"ceiling": "the left side is never larger", "largest_ratio_known": "left side over right side"}
MEASURED = (
    "slack: right side less left side on these, a counterexample apart; ±1e-12: rounding; left/right: largest seen, "
    "and largest known; vacuous: share whose right side reaches the ceiling, where the bound says nothing; "
    "undecided: within rounding"
)
"""What the words and numbers of a claim mean."""
SAID = ("in_print", "statement", "cite_instead", "symbols")
ORDER = (*SAID, "status", "origin", "source", "assumptions", "proof", "proof_names")
SHORT, WIDE = 100, 12
"""Characters of a proof that only names another one; width of a column of symbols."""


def _symbols(claim: Claim, text: str, own: Trial | None) -> str:
    from rich.cells import cell_len, set_cell_size

    about = ast.get_docstring(ast.parse(Path(claim.proof.file).read_text(encoding="utf-8"))) if own else None
    named = dict(table(about or "")) or {ARGUMENTS[name].symbol: f"argument {name}" for name in claim.takes}
    pairs = named if own else symbols(claim, text)
    wide = min(max(map(cell_len, pairs), default=0), WIDE)
    return "".join(
        f"\n    {set_cell_size(symbol, max(wide, cell_len(symbol)))}  {meaning}" for symbol, meaning in pairs.items()
    )


def show_claim(console: Console, claim: Claim, own: Trial | None = None) -> None:
    """Print one claim in full; ``own`` is what drawn instances say of a user's own."""
    console.print(claim.id, style="bold")
    plain = plain_claim(claim, own)
    counterexample = (own and own.counterexample) or claim.refuted
    for key in ("status", "origin"):
        plain[key] += f" ({KINDS[plain[key]]})" if plain[key] in KINDS else ""
    plain |= {key: f"{plain[key]:g} ({said})" for key, said in VALUES.items() if plain[key] is not None}
    source = " ".join(plain["source"][key] for key in ("full", "link") if plain["source"].get(key))
    relation = f"{citations.relation_to_source(claim)}: ".removeprefix("Source: ")
    plain["source"] = f"{relation}{citations.cite(claim.source)}. {source}".rstrip()
    proof, used, better = repaired(claim, of := all_claims())
    whole = [name for name in used if len(proof) < SHORT]  # a proof that only names another
    proofs = [proof, *(f"\n    {name}: {repaired(of[name], of)[0]}" for name in whole)]
    plain["proof"] = "".join(proofs).replace("\n\n", "\n\n    ")
    lemmas = (repaired(one, of)[1] for one in (claim, *map(of.__getitem__, whole)))
    names = dict.fromkeys(name for some in lemmas for name in some if name not in whole)
    plain["proof_names"] = as_typed(f"{', '.join(names)}; `python3 hlm claims ID` prints one") if names else None
    texts = (claim.statement, *(a.statement for a in claim.assumptions), plain["proof"])
    known, instead = dict[str, str](), [""]
    if not own:
        new_symbols(claim, "; ".join(texts), known, PAPERS)
    for one in map(of.__getitem__, better):
        new = [] if own else new_symbols(one, one.conditioned, known, PAPERS)
        instead += [f"    {one.id}: {one.conditioned}", *_lines_of(new)]
    plain["cite_instead"] = "\n".join(instead) or None
    plain["in_print"] = "".join(f"\n    {quote}" for quote in citations.quotes(claim)) or None
    plain["symbols"] = _symbols(claim, "; ".join(texts), own) or None
    found = [f"\n    {place}: {measured(claim, tally)}" for place, tally in _tallies(claim, own).items()]
    words = "; ".join(part for part in MEASURED.split("; ") if part.partition(":")[0] in "".join(found))
    plain["measured"] = "".join([*found, f"\n    ({words})" if words else ""]) or None
    commit = commit_of_check(ROOT, claim.id) if found else ""
    plain["cite"] = None if own else f"\n{citations.bibtex(claim, commit)}".rstrip()
    contradicted = bool(own and own.counterexample)
    tight = None if contradicted else claim.attained and counterexample_text(claim, claim.attained.instance, exact=True)
    plain["tight_case"] = tight and LONG_LIST.sub(r"[\1, …, \2; --json has all]", tight)
    plain["counterexample"] = counterexample and counterexample_text(claim, counterexample, exact=True)
    plain["tests"][3:] = [f"{len(plain['tests']) - 3} more, by --json"] * (len(plain["tests"]) > 3)
    named = "proof" if counterexample is None or contradicted else "disproof"
    for key in dict.fromkeys((*ORDER, *plain)):
        value = plain[key]
        text = "; ".join(value) or "none" if isinstance(value, list) else value
        if text is not None and key != "id":
            word = key.replace("measured", "checked").replace("proof", named)
            word += " (contradicted)" if contradicted and key == "proof" else ""
            say(console, f"  {word.replace('_', ' ')}: {text}".replace(": \n", ":\n", 1))


def _tallies(claim: Claim, own: Trial | None) -> dict[str, Tally]:
    """Return what was found of a claim, by place: on each published pair, or on simulated instances."""
    found = {name: results.tallies.get(claim.id) for name, results in published_pairs(ROOT).items()}
    tallies = {f"pair {name}": tally for name, tally in found.items() if tally and tally.kind == "measured"}
    simulated = tally_of(own) if own else certificate().tallies.get(claim.id)
    return tallies | ({"simulated": simulated} if simulated else {})


@cache
def _naming_tests() -> dict[str, list[str]]:
    """Return the files of tests/ that name a claim, by its id; none where tests/ is not installed."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for name in set(re.findall(r"[a-z_]+\.\w+", file.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(file.relative_to(ROOT).as_posix())
    return found


def plain_claim(claim: Claim, own: Trial | None = None) -> dict[str, Any]:
    plain = claim.plain()
    plain["source"] |= {"cited": citations.cite(claim.source)} | citations.bibliography().get(claim.source.key, {})
    plain["in_print"] = citations.in_print().get(claim.id)
    plain["measured"] = {place: entry(tally) for place, tally in _tallies(claim, own).items()}
    plain["tests"] = [] if own else list(dict.fromkeys([EVERY_CLAIM, *_naming_tests().get(claim.id, [])]))
    if own:
        plain["status"] = f"{tally_of(own).outcome} on drawn instances"
        plain["origin"] = "yours" if claim.origin is Origin.NEW else plain["origin"]
        if own.counterexample:
            plain["counterexample"] = {name: value.tolist() for name, value in own.counterexample.items()}
    return plain


def own_claims(file: Path | None, seed: int = 1) -> dict[str, Trial]:
    """Return the claims of a user's file, checked on drawn instances; they count as claims until the command ends."""
    trials = [trial(claim, seed) for claim in read_theorems(file)] if file else []
    click.get_current_context().with_resource(listed(trial.claim for trial in trials))
    return {trial.claim.id: trial for trial in trials}


def show_own(console: Console, tallies: Mapping[str, Tally]) -> None:
    rows = []
    for name, tally in tallies.items():
        *_, scope, slack, ratio, _ = plain_cells(table_row(all_claims()[name], tally))
        rows.append([name, tally.outcome, scope, ratio, slack])
    heads = ("claim", "outcome", "in scope", "lhs/rhs: seen (known)", "worst slack")
    print_table(console, "Your claims", heads, rows, left=heads[:2])


def violated_by_draws(console: Console, own: Mapping[str, Trial]) -> dict[str, str]:
    """Print what drawn instances say of a user's claims; return the counterexample of each that is violated."""
    show_own(console, {name: tally_of(trial) for name, trial in own.items()})
    found = {}
    for name, one in own.items():
        if one.counterexample:
            found[name] = counterexample_text(one.claim, one.counterexample, exact=True)
            click.echo(f"{name} is violated: {found[name]}.", err=True)
    return found
