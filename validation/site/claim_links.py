"""Where a claim leads: the lemmas that its proof names, its tests, its pictures and studies, and how to cite it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from html import escape
from itertools import chain
from pathlib import Path

import hlmtheory
from hlmtheory.claims import Claim
from validation.plots import EXHIBITS, commit_of_code
from validation.report.results import heading, slug
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
    files = {path.relative_to(root).as_posix(): path for path in sorted((root / "tests" / "theory").rglob("test_*.py"))}
    known = hlmtheory.all_claims().keys()
    words = {file: set(re.findall(r"[a-z_]+\.[a-z_0-9]+", path.read_text("utf-8"))) for file, path in files.items()}
    return {file: frozenset(known & found) for file, found in words.items() if file != EVERY}


def shown(claim: Claim, root: Path = ROOT) -> list[str]:
    """Return links to the figures, tables and studies about a claim, in reStructuredText."""
    stems, files = {one.stem: one for one in EXHIBITS.values()}, _named(root).get(claim.id, frozenset())
    found = {stem for file in files if (stem := file.partition(".")[0]) in stems}
    links = []
    for one in sorted((stems[stem] for stem in found), key=lambda one: (one.paper, one.number)):
        links.append(f"`{one.paper}, {heading(one)} <../results/{one.paper}.html#{slug(heading(one))}>`__")
    studies = sorted({parts[1] for file in files if len(parts := file.split("/")) > 2})
    return links + [f"`study {name} <{REPOSITORY}/blob/main/figures/studies/{name}/README.md>`__" for name in studies]


@cache
def _named(root: Path) -> Mapping[str, frozenset[str]]:
    """Return the files in ``figures`` about each claim: what a paragraph that names it links to, and its own study."""
    found: dict[str, set[str]] = {}
    for file in ("docs/results/new.md", "paper_repro.md"):
        text = (root / file).read_text(encoding="utf-8")
        rows = [part.splitlines() if part.startswith("|") else [part] for part in text.split("\n\n")]
        for part in chain.from_iterable(rows):  # a table is read line by line
            for name in _ID.findall(part):
                found.setdefault(name, set()).update(_LINK.findall(part))
    for path in sorted((root / "figures" / "studies").glob("*/README.md")):
        for name in _ID.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(f"studies/{path.parent.name}/README.md")
    return {name: frozenset(files) for name, files in found.items()}


def bibtex(claim: Claim) -> str:
    """Return the entry of a claim for BibTeX, with the version and the commit of the code."""
    commit = (commit_of_code() or "").partition(" ")[0]  # none outside a checkout
    version = hlmtheory.__version__ + (f", commit {commit[:12]}" if commit else "")
    return f"""@software{{hlmtheory:{claim.id},
  author  = {{The hlmtheory contributors}},
  title   = {{Claim {claim.id.replace("_", chr(92) + "_")} of hlmtheory}},
  version = {{{version}}},
  url     = {{{REPOSITORY}/blob/{commit or "main"}/{claim.proof.file}}},
}}"""


def citation(claim: Claim) -> str:
    """Return the folded part of a claim's entry that says how to cite it, in reStructuredText."""
    lines = "\n".join(f"   {line}" for line in escape(bibtex(claim)).splitlines())
    return f'.. raw:: html\n\n   <details class="cite"><summary>Cite this</summary><pre>\n{lines}\n   </pre></details>'
