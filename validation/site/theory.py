"""A page for each topic of the theory, generated from the claim records, and one with their sources."""

import re
from collections.abc import Mapping
from importlib import import_module

import hlmtheory
from hlmtheory.claims import FALSE, Claim, Origin, Relation, lemmas
from validation.claims.results import Results, Tally
from validation.printable import counted
from validation.provenance import REPOSITORY
from validation.report.citations import bibliography, cite, relation_to_source
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
    cells = plain_cells(table_row(claim, tally, UNPUBLISHED, counterexample=False))
    outcome, *_, scope, slack, ratio, vacuous = cells
    facts = [f"worst slack {slack}"] if slack != "–" else []
    facts += [f"left/right {ratio}"] if ratio not in ("identity", "–") else []
    facts += [f"vacuous {vacuous}"] if vacuous != "–" else []
    return ", ".join([outcome, f"{scope} instances", *facts]) if tally else outcome


def claim_entry(claim: Claim, tally: Tally | None = None) -> str:
    """Return the entry of a claim: statement, source, assumptions, proof, and its tight case or counterexample."""
    mark = "true" if claim.standing == "true" else "false"
    named = ", ".join(f":ref:`{name} <{anchor(name)}>`" for name in lemmas(claim, hlmtheory.all_claims()))
    rows = [
        f".. _{anchor(claim.id)}:",
        f"{claim.id}\n{'~' * len(claim.id)}",
        f".. rst-class:: statement {mark}\n\n{formula(claim.statement)}",
        f":Status: **{claim.standing}**" + ("" if mark == "true" else f" – {KINDS[claim.standing]}") + "\n"
        f":{relation_to_source(claim)}: :ref:`{escaped(cite(claim.source))} <{anchor(claim.source.key, 'source')}>`\n"
        f":Assumptions: {formula('; '.join(a.statement for a in claim.assumptions)) or 'none'}\n"
        f":Checked on: {', '.join(f'``{name}``' for name in claim.takes)}\n"
        f":Verdict: {escaped(measured(claim, tally))}\n" + (f":Proof names: {named}" if named else ""),
    ]
    where = f"{REPOSITORY}/blob/main/{claim.proof.file}#L{claim.proof.line}"
    word = "Proof." if mark == "true" else "Why it is false."
    text = claim.proof.text.removeprefix("False: ").removeprefix("False. ") if mark == "false" else claim.proof.text
    rows.append(f"**{word}** {sentence(text)} (`{claim.proof.file} <{where}>`__)")
    if claim.attained is not None:
        known = f"The largest left over right side known is {claim.attained.ratio:.6g}"
        ratio = "Both sides are equal" if claim.relation is Relation.EQ else known
        tight = LONG_LIST.sub(r"(\1, …, \2)", instance_text(claim.attained.instance))
        rows.append(f"**Tight case.** {ratio}, at {escaped(tight)}.")
    if claim.refuted is not None:
        rows.append(f"**Counterexample.** {escaped(counterexample_text(claim, claim.refuted))}.")
    return "\n\n".join(rows)


def topic_page(module: str, claims: Mapping[str, Claim], results: Results | None = None) -> str:
    """Return the page of a module: its claims, the true ones by origin, then the false ones."""
    mine = [claim for name, claim in claims.items() if name.split(".")[0] == module]
    tallies = results.tallies if results else {}
    true = [claim for claim in mine if claim.standing == "true"]
    false = [claim for claim in mine if claim.standing != "true"]
    about = (import_module(f"hlmtheory.{module}").__doc__ or "").split("\n", 1)[0]
    title = topic_title(module)
    numbers = [f"{len(found)} {'is' if len(found) == 1 else 'are'}" for found in (true, false)]
    parts = [
        f".. _theory-{module}:",
        f"{title}\n{'=' * len(title)}",
        escaped(about),
        f"{counted(len(mine), 'claim')}: {numbers[0]} true; {numbers[1]} false, with a counterexample each. q is the "
        f"draft model's distribution, p the target model's; :doc:`its functions and notation </api/{module}>`.",
    ]
    groups = [(one.value, [claim for claim in true if claim.origin is one]) for one in Origin]
    groups += [(kind, [claim for claim in false if claim.standing == kind]) for kind in FALSE.values()]
    for kind, found in groups:
        if found:
            entries = (claim_entry(claim, tallies.get(claim.id)) for claim in found)
            parts += [f"{kind.capitalize()}\n{'-' * len(kind)}", f"{KINDS[kind].capitalize()}.", *entries]
    return "\n\n".join(parts) + "\n"


def topics(claims: Mapping[str, Claim]) -> list[str]:
    present = {name.split(".")[0] for name in claims}
    return [module for module in hlmtheory.MODULES if module in present]


def index_page(claims: Mapping[str, Claim]) -> str:
    """Return the page that lists the topics, with the number of true and false claims."""
    rows = [".. list-table::\n   :header-rows: 1\n   :widths: 30 50 10 10\n", "   * - topic", "     - what it is about"]
    rows += ["     - true", "     - false"]
    for module in topics(claims):
        mine = [claim for name, claim in claims.items() if name.split(".")[0] == module]
        false = sum(claim.standing != "true" for claim in mine)
        about = (import_module(f"hlmtheory.{module}").__doc__ or "").split("\n", 1)[0]
        rows += [f"   * - :doc:`{topic_title(module)} <{module}>`", f"     - {escaped(about)}"]
        rows += [f"     - {len(mine) - false}", f"     - {false}"]
    tree = "\n".join(f"   {module}" for module in topics(claims))
    origins = [claim.origin for claim in claims.values()]
    printed = origins.count(Origin.PRINTED) + origins.count(Origin.MISPRINT)
    told = THEORY.format(count=len(claims), published=printed, new=origins.count(Origin.NEW))
    return told + "\n".join(rows) + f"\n\n.. toctree::\n   :hidden:\n   :maxdepth: 1\n\n{tree}\n   sources\n"


def sources_page(claims: Mapping[str, Claim]) -> str:
    """Return the page of the sources: full citation, with its address if it has one, and the claims."""
    parts = ["Sources\n=======", "Every work that a claim names, from ``references.bib``."]
    keys = sorted({claim.source.key for claim in claims.values()}, key=lambda key: bibliography()[key]["full"])
    for key in keys:
        entry = bibliography()[key]
        mine = [name for name, claim in claims.items() if claim.source.key == key]
        links = ", ".join(f":ref:`{name} <{anchor(name)}>`" for name in mine)
        parts += [
            f".. _{anchor(key, 'source')}:",
            f"{entry['short']}\n{'-' * (2 * len(entry['short']))}",
            f"{escaped(entry['full'])} {entry['link']}",
            f"{len(mine)} claim{'s' if len(mine) > 1 else ''}: {links}.",
        ]
    return "\n\n".join(parts) + "\n"


def theory_pages(results: Results | None = None) -> dict[str, str]:
    """Return every generated page of the theory, by its path in the site's source; with verdicts, if given."""
    known = hlmtheory.all_claims()
    made = {f"theory/{module}.rst": topic_page(module, known, results) for module in topics(known)}
    return {"theory/index.rst": index_page(known), "theory/sources.rst": sources_page(known), **made}
