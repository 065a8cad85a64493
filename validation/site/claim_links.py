"""Where a claim leads: the lemmas that its proof names, its tests, its pictures and studies, and how to cite it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from html import escape
from pathlib import Path

import hlmtheory
from hlmtheory.claims import Claim
from validation.plots import EXHIBITS, commit_of_code
from validation.report.results import heading, slug
from validation.report.verdicts import MAIN_RESULTS
from validation.site.pages import REPOSITORY, ROOT

EVERY = "tests/theory/test_every_claim.py"
"""The tests that every claim has."""

_ID = re.compile(r"`([a-z_]+\.[a-z_0-9]+)`")
_LINK = re.compile(r"\]\(\S*figures/([\w/.-]+)\)")


def lemmas(claim: Claim, known: Collection[str]) -> list[str]:
    """Return the ids of the claims that a proof names, with their module or, within the module, without it."""
    module, _, own = claim.id.partition(".")
    words = re.findall(r"(?<![\w.])[a-z][a-z_0-9]*(?:\.[a-z_0-9]+)?", claim.proof.text)
    full = [word if "." in word else f"{module}.{word}" for word in words if "." in word or "_" in word]
    return [name for name in dict.fromkeys(full) if name in known and name != f"{module}.{own}"]


def named_in_tests(claim: Claim, root: Path = ROOT) -> list[str]:
    """Return the files of tests that name a claim, after those that test all claims."""
    return [EVERY, *(file for file, ids in _tested(root).items() if claim.id in ids)]


@cache
def _tested(root: Path) -> dict[str, frozenset[str]]:
    """Return the claims that each file of tests of the theory names."""
    files = {path.relative_to(root).as_posix(): path for path in sorted((root / "tests" / "theory").rglob("test_*.py"))}
    known = hlmtheory.all_claims().keys()
    words = {file: set(re.findall(r"[a-z_]+\.[a-z_0-9]+", path.read_text("utf-8"))) for file, path in files.items()}
    return {file: frozenset(known & found) for file, found in words.items() if file != EVERY}


def shown(claim: Claim, root: Path = ROOT) -> list[str]:
    """Return links to the figures, tables and studies about a claim, in reStructuredText."""
    exhibits = {one.exhibit for one in MAIN_RESULTS if one.claim == claim.id and one.exhibit}
    stems = {one.stem: key for key, one in EXHIBITS.items()}
    files = _named(root).get(claim.id, frozenset())
    exhibits |= {stems[stem] for file in files if (stem := file.partition(".")[0]) in stems}
    links = []
    for key in sorted(exhibits):
        one = EXHIBITS[key]
        links.append(f"`{one.paper}, {heading(one)} <../results/{one.paper}.html#{slug(heading(one))}>`__")
    studies = sorted({parts[1] for file in files if len(parts := file.split("/")) > 2})
    return links + [f"`study {name} <{REPOSITORY}/blob/main/figures/studies/{name}/README.md>`__" for name in studies]


@cache
def _named(root: Path) -> Mapping[str, frozenset[str]]:
    """Return the files in ``figures`` about each claim: what a paragraph that names it links to, and its own study."""
    found: dict[str, set[str]] = {}
    page = (root / "docs" / "results" / "new.md").read_text(encoding="utf-8")
    for paragraph in [*page.split("\n\n"), *page.splitlines()]:
        for name in _ID.findall(paragraph):
            if not paragraph.startswith("| topic"):  # a table is read line by line
                found.setdefault(name, set()).update(_LINK.findall(paragraph))
    for path in sorted((root / "figures" / "studies").glob("*/README.md")):
        for name in _ID.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(f"studies/{path.parent.name}/README.md")
    return {name: frozenset(files) for name, files in found.items()}


def bibtex(claim: Claim) -> str:
    """Return the entry of a claim for BibTeX, with the version and the commit of the code."""
    commit = _commit()
    place = f"{REPOSITORY}/blob/{commit or 'main'}/{claim.proof.file}"
    version = hlmtheory.__version__ + (f", commit {commit[:12]}" if commit else "")
    return "\n".join(
        [
            f"@software{{hlmtheory:{claim.id},",
            "  author  = {{The hlmtheory contributors}},",
            f"  title   = {{Claim {claim.id.replace('_', chr(92) + '_')} of hlmtheory}},",
            f"  version = {{{version}}},",
            f"  url     = {{{place}}},",
            "}",
        ]
    )


@cache
def _commit() -> str:
    """Return the commit of the code, or nothing outside a checkout."""
    return (commit_of_code() or "").partition(" ")[0]


def citation(claim: Claim) -> str:
    """Return the folded part of a claim's entry that says how to cite it, in reStructuredText."""
    lines = "\n".join(f"   {line}" for line in escape(bibtex(claim)).splitlines())
    return f'.. raw:: html\n\n   <details class="cite"><summary>Cite this</summary><pre>\n{lines}\n   </pre></details>'
