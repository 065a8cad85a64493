"""Format sources as text, from ``references.bib``."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

from hlmtheory.claims import Source

BIBLIOGRAPHY = Path(__file__).resolve().parents[1] / "references.bib"

PAPERS = {
    "cu-hlm": "oh2025cuhlm",
    "u-hlm": "oh2024uhlm",
    "c-sqs": "bhattacharjee2025csqs",
    "flexspec": "li2025flexspec",
    "edge-sd": "zhu2025edgesd",
}
"""Key in ``references.bib`` of each of the five papers, by short name."""


def cite(source: Source) -> str:
    """Return a source as text: first author, year, place.

    >>> cite(Source("oh2025cuhlm", "Fig. 6"))
    'Oh et al. (2025), Fig. 6'
    """
    return f"{bibliography().get(source.key, {}).get('short', source.key)}, {source.place}"


@cache
def bibliography() -> dict[str, dict[str, str]]:
    """Return the citations of ``references.bib`` by key; empty if the file is not installed.

    Returns
    -------
    dict
        ``short``, author and year; ``full``; ``link``, the address by DOI or arXiv number, empty if neither is known.
    """
    if not BIBLIOGRAPHY.is_file():
        return {}
    text = BIBLIOGRAPHY.read_text(encoding="utf-8")
    entries = {}
    for entry in re.finditer(r"^@\w+\{([^,\s]+),\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        fields: dict[str, str] = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", entry[2], re.MULTILINE))
        authors = [_plain(author).split(",")[0] for author in fields.get("author", entry[1]).split(" and ")]
        names = {1: authors[0], 2: " and ".join(authors)}.get(len(authors), f"{authors[0]} et al.")
        short = f"{names} ({fields.get('year', 'undated')})"
        number = f" arXiv:{fields['eprint']}." if fields.get("archiveprefix") == "arXiv" else ""
        full = f"{short}. {_plain(fields.get('title', ''))}.{number}"
        entries[entry[1]] = {"short": short, "full": full, "link": _link(fields)}
    return entries


def _link(fields: dict[str, str]) -> str:
    if "doi" in fields:
        return f"https://doi.org/{fields['doi']}"
    return f"https://arxiv.org/abs/{fields['eprint']}" if fields.get("archiveprefix") == "arXiv" else ""


def _plain(text: str) -> str:
    """Return BibTeX text without braces, with accent commands replaced by letters."""
    text = re.sub(r"\{\\'(\w)\}", "\\1\u0301", text)
    return unicodedata.normalize("NFC", re.sub(r"[{}]", "", text))
