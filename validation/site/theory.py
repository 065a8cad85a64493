"""A page for each topic of the theory, generated from the claim records, and one with their sources."""

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from itertools import groupby

import hlmtheory
from hlmtheory._notation import symbols
from hlmtheory.claims import Claim, Origin, Relation, repaired
from validation.claims.results import Results, Tally
from validation.printable import counted
from validation.provenance import PAPERS, REPOSITORY
from validation.report.citations import bibliography, cite, in_order, is_on, quotes, relation_to_source, title_of
from validation.report.html import topic_title
from validation.report.tables import KINDS, UNPUBLISHED, counterexample_text, instance_text, plain_cells, table_row
from validation.site.pages import escaped, formula, sentence

LONG_LIST = re.compile(r"\(([^(),]+(?:,[^(),]+){2}),[^()]{80,}, ([^(),]+)\)")
THEORY = """\
Theory by topic
===============

There are {count} claims, of which {published} are printed in a paper and {new} are new. Each has its statement, source,
assumptions, proof, lemmas and tightest case known. A printed statement that is false stays, with its counterexample.
``python3 hlm claims ID`` prints one. The pages are made from the records that the tests read.

*Verdict* is that of the published run: on how many positions of the built-in pair, or on how many simulated instances
if no language model is needed; how near the worst instance is to failing (worst slack); the largest left over right
side seen, and the largest known; and the share of instances where the bound says nothing (vacuous).

"""


def anchor(name: str, kind: str = "claim") -> str:
    """Return the anchor of the entry of a claim or a source, which is also its id in the page's HTML."""
    return f"{kind}-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def measured(claim: Claim, tally: Tally | None) -> str:
    outcome, *_, scope, slack, ratio, vacuous = plain_cells(table_row(claim, tally, UNPUBLISHED, counterexample=False))
    facts = (f"worst slack {slack}", f"left/right {ratio}", f"vacuous {vacuous}")
    shown = [fact for fact in facts if not fact.endswith((" –", " identity"))]
    counts = rf"fails on {tally.violated:,} of \3 (\1)\2" if tally else ""
    said = re.sub(r"fails on (\S+) here(.*), (\S+ \w+ instances)", counts, f"{outcome}, {scope} instances")
    said = re.sub(r"(counterexample; )on no (.*?) here(.*), (\S+ \w+ \2s)", r"its \1none of \4 shows it\3", said)
    return ", ".join([said, *shown]) if tally else outcome


def linked(names: Iterable[str]) -> str:
    return ", ".join(f":ref:`{name} <{anchor(name)}>`" for name in names)


def claim_entry(claim: Claim, tally: Tally | None = None) -> str:
    """Return the entry of a claim: a paper's words, statement, symbols, source, proof, tight case or counterexample."""
    true, known = claim.standing == "true", hlmtheory.all_claims()
    proof, named, better = repaired(claim, known)
    texts = (claim.statement, *(a.statement for a in claim.assumptions), proof)
    meanings = (f"{formula(name)}\n   {formula(said)}" for name, said in symbols(claim, "; ".join(texts)).items())
    rows = [
        f".. _{anchor(claim.id)}:",
        f"{claim.id}\n{'~' * len(claim.id)}",
        *["**In print:**"] * bool(quotes(claim)),
        *(f".. rst-class:: in-print\n\n{formula(words)}" for words in quotes(claim)),
        f".. rst-class:: statement {str(true).lower()}\n\n{formula(claim.statement)}",
        *(f"**Cite instead** {linked([name])}: {formula(known[name].conditioned)}." for name in better),
        ".. rst-class:: symbols\n\n" + "\n".join(meanings),
        f":Status: **{claim.standing}**" + ("" if true else f" – {KINDS[claim.standing]}") + "\n"
        f":{relation_to_source(claim)}: :ref:`{escaped(cite(claim.source))} <{anchor(claim.source.key, 'source')}>`\n"
        f":Assumptions: {formula('; '.join(a.statement for a in claim.assumptions)) or 'none'}\n"
        f":Takes: {', '.join(f'``{name}``' for name in claim.takes)}\n"
        f":Verdict: {escaped(measured(claim, tally))}\n" + (f":Proof names: {linked(named)}" if named else ""),
    ]
    where = f"{REPOSITORY}/blob/main/{claim.proof.file}#L{claim.proof.line}"
    word = "Proof" if true else "Why it is false"
    proof = proof if true else re.sub(r"^(a|[a-z]{2,}) ", lambda first: first[0].capitalize(), proof)
    rows.append(f"**{word}.** {sentence(proof)} (`{claim.proof.file} <{where}>`__)")
    if claim.attained is not None:
        most = f"The largest left over right side known is {claim.attained.ratio:.6g}"
        ratio = "Both sides are equal" if claim.relation is Relation.EQ else most
        tight = LONG_LIST.sub(r"(\1, …, \2)", instance_text(claim.attained.instance))
        rows.append(f"**Tight case.** {ratio}, at {escaped(tight)}.")
    if claim.refuted is not None:
        rows.append(f"**Counterexample.** {escaped(counterexample_text(claim, claim.refuted))}.")
    return "\n\n".join(rows)


def listed(claim: Claim) -> str:
    return f"{linked([claim.id])}: {escaped(cite(claim.source))}, {claim.kind}\n   {formula(claim.statement)}"


def topic_page(module: str, claims: Mapping[str, Claim], results: Results | None = None) -> str:
    """Return the page of a module: its claims by standing and origin, the refuted ones first."""
    mine, false, about = of_topic(module, claims)
    tallies, title = results.tallies if results else {}, topic_title(module)
    numbers = [f"{found} {'is' if found == 1 else 'are'}" for found in (len(mine) - false, false)]
    parts = [
        f".. _theory-{module}:",
        f"{title}\n{'=' * len(title)}",
        escaped(about),
        f"{counted(len(mine), 'claim')}: {numbers[0]} true; {numbers[1]} false, with a counterexample each. q is the "
        f"draft model's distribution, p the target model's; :doc:`its functions and notation </api/{module}>`.",
    ]
    for kind in ("refuted", *(one.value for one in Origin), "false reading"):
        if found := [one for one in mine if one.kind == kind]:
            entries = (claim_entry(claim, tallies.get(claim.id)) for claim in found)
            parts += [f"{kind.capitalize()}\n{'-' * len(kind)}", f"{KINDS[kind].capitalize()}.", *entries]
    return "\n\n".join(parts) + "\n"


def of_topic(module: str, claims: Mapping[str, Claim]) -> tuple[list[Claim], int, str]:
    """Return the claims of a module, how many of them are false, and what the module is about."""
    mine = [claim for name, claim in claims.items() if name.split(".")[0] == module]
    about = (import_module(f"hlmtheory.{module}").__doc__ or "").split("\n", 1)[0]
    return mine, sum(claim.standing != "true" for claim in mine), about


def topics(claims: Mapping[str, Claim]) -> list[str]:
    return [module for module in hlmtheory.MODULES if any(name.startswith(f"{module}.") for name in claims)]


def index_page(claims: Mapping[str, Claim]) -> str:
    """Return the page that lists the topics, with the number of true and false claims."""
    cells = [["topic", "what it is about", "true", "false"]]
    for module in topics(claims):
        mine, false, about = of_topic(module, claims)
        cells.append([f":doc:`{topic_title(module)} <{module}>`", escaped(about), f"{len(mine) - false}", f"{false}"])
    tree = "\n".join(f"   {module}" for module in topics(claims))
    origins = [claim.origin for claim in claims.values()]
    printed = origins.count(Origin.PRINTED) + origins.count(Origin.MISPRINT)
    told = THEORY.format(count=len(claims), published=printed, new=origins.count(Origin.NEW))
    rows = "\n".join("   * - " + "\n     - ".join(row) for row in cells)
    table = f".. list-table::\n   :header-rows: 1\n   :widths: 30 50 10 10\n\n{rows}"
    return told + table + f"\n\n.. toctree::\n   :hidden:\n   :maxdepth: 1\n\n{tree}\n   sources\n"


def sources_page(claims: Mapping[str, Claim]) -> str:
    """Return the page of the sources: full citation, address, and the claims, of the five papers in their order."""
    parts = ["Sources\n=======", "Every work that a claim names, from ``references.bib``."]
    names = {key: paper for paper, key in PAPERS.items()}
    keys = sorted({claim.source.key for claim in claims.values()}, key=lambda key: bibliography()[key]["full"])
    for key in keys:
        entry, paper = bibliography()[key], names.get(key, key)
        mine = in_order([claim for claim in claims.values() if is_on(claim, paper)], paper)
        parts += [
            f".. _{anchor(key, 'source')}:",
            f"{entry['short']}\n{'-' * (2 * len(entry['short']))}",
            f"{escaped(entry['full'])} {entry['link']}",
            f"{counted(len(mine), 'claim')}{'' if key in names else f': {linked(one.id for one in mine)}'}.",
        ]
        for (title, _), group in groupby(mine, lambda one: (title_of(one), one.source.key)):
            parts += [f"**{title}**", "\n".join(map(listed, group))] if key in names else []
    return "\n\n".join(parts) + "\n"


def theory_pages(results: Results | None = None) -> dict[str, str]:
    """Return every generated page of the theory, by its path in the site's source; with verdicts, if given."""
    known = hlmtheory.all_claims()
    made = {f"theory/{module}.rst": topic_page(module, known, results) for module in topics(known)}
    return {"theory/index.rst": index_page(known), "theory/sources.rst": sources_page(known), **made}
