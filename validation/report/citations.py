"""Format sources as text, from ``references.bib``; the claims of a paper in its order, and its words."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import hlmtheory
from hlmtheory.claims import Claim, Origin, Source
from validation.provenance import PAPERS

BIBLIOGRAPHY = Path(__file__).resolve().parents[1] / "references.bib"
PRINTED = Path(__file__).resolve().parent / "printed.toml"

SOFTWARE = """@misc{{hlmtheory,
    author = "{{The hlmtheory contributors}}",
    title = "hlmtheory: the theory of hybrid language models as checkable claims",
    year = "2026",
    version = "{version}",
    url = "https://github.com/hlmtheory/hlmtheory",
    note = "Claim \\texttt{{{claim}}}{commit}"
}}
"""


def bibtex(claim: Claim, checked: str = "") -> str:
    """Return BibTeX: of the source, and of this software at the commit of a check if it is not as printed."""
    name, commit = claim.id.replace("_", r"\_"), f", checked at commit {checked}" if checked else ""
    printed = claim.origin is Origin.PRINTED and claim.refuted is None
    ours = "" if printed else SOFTWARE.format(version=hlmtheory.__version__, claim=name, commit=commit)
    return ours + bibliography().get(claim.source.key, {}).get("bibtex", "")


def cite(source: Source) -> str:
    return f"{bibliography().get(source.key, {}).get('short', source.key)}, {source.place}"


def relation_to_source(claim: Claim) -> str:
    """Return how a claim is related to its source: printed there, corrected, read into it, improved, or built on it."""
    if claim.origin is Origin.NEW:
        return "Improves on" if claim.source.key in PAPERS.values() else "Builds on"
    return {Origin.CORRECTED: "Beside what is printed in", Origin.IMPLIED: "Read into"}.get(claim.origin, "Source")


@cache
def in_print() -> dict[str, dict[str, str]]:
    """Return the words of the papers where they are false, by claim and place; "letters" says what they stand for."""
    return tomllib.loads(PRINTED.read_text(encoding="utf-8"))


def quotes(claim: Claim) -> list[str]:
    """Return the words of a paper where they are false, each after its place, and what its letters stand for."""
    return [said if at == "letters" else f"{at}: “{said}”" for at, said in in_print().get(claim.id, {}).items()]


def is_on(claim: Claim, paper: str) -> bool:
    """Return whether the source of a claim is a paper, or its place names the paper, as in "(12); u-hlm (11)"."""
    named = paper in PAPERS and re.search(rf"(?<![\w-]){paper}\b", claim.source.place)
    return claim.source.key == PAPERS.get(paper, paper) or bool(named)


def in_order(found: list[Claim], first: str) -> list[Claim]:
    """Return claims by paper, from ``first`` and the five papers on; by :data:`TITLES`, file of theorems and line."""
    names = {key: name.replace("-", "_") for name, key in PAPERS.items()}

    def place(claim: Claim) -> tuple[bool, int, str, str, int, bool, str, int]:
        key, file = claim.source.key, Path(claim.proof.file)
        where = file.stem != names.get(key), file.stem, claim.proof.line
        group = key != PAPERS.get(first, first), [*names, key].index(key), cite(claim.source).partition(",")[0], key
        return *group, TITLES.index(title_of(claim)), *where

    return sorted(found, key=place)


TITLES = ("What the paper prints", "What is meant, or holds in its place", "What is added here", "False readings")


def title_of(claim: Claim) -> str:
    return TITLES[{"refuted": 0, "printed": 0, "misprint": 0, "corrected": 1, "false reading": 3}.get(claim.kind, 2)]


@cache
def bibliography() -> dict[str, dict[str, str]]:
    """Return the citations of ``references.bib`` by key; empty if the file is not installed."""
    if not BIBLIOGRAPHY.is_file():
        return {}
    from pybtex.database import parse_file
    from pybtex.richtext import Text

    entries = {}
    for key, entry in parse_file(str(BIBLIOGRAPHY), bib_format="bibtex", encoding="utf-8").entries.items():
        authors = [" ".join(map(str, author.rich_last_names)) for author in entry.persons.get("author", [])] or [key]
        names = {1: authors[0], 2: " and ".join(authors)}.get(len(authors), f"{authors[0]} et al.")
        short = f"{names} ({entry.fields.get('year', 'undated')})"
        number = f" arXiv:{entry.fields['eprint']}." if entry.fields.get("archiveprefix") == "arXiv" else ""
        full = f"{short}. {Text.from_latex(entry.fields['title'])}.{number}"
        text = entry.to_string("bibtex")
        entries[key] = {"short": short, "full": full, "link": _link(entry.fields), "bibtex": text}
    return entries


def _link(fields: Mapping[str, str]) -> str:
    if "doi" in fields:
        return f"https://doi.org/{fields['doi']}"
    return f"https://arxiv.org/abs/{fields['eprint']}" if fields.get("archiveprefix") == "arXiv" else ""
