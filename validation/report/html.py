"""Write the report of a run as one HTML file that opens offline."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hlmtheory
from hlmtheory._notation import symbols
from hlmtheory.claims import FALSE, Claim
from validation.claims.certificate import certificate
from validation.plots import FIGURES
from validation.plots.common.record import claims_words, printed_words
from validation.printable import printable_value
from validation.provenance import PAPERS, REPOSITORY, commit_of_code, versions
from validation.report import first_screen
from validation.report.citations import bibliography, in_print
from validation.report.tables import KINDS, pieces, table_row
from validation.trace.format import LISTS

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

    from validation.claims.check import Results

TEMPLATES = Path(__file__).resolve().parent / "templates"
LIBRARIES = ("numpy", "torch", "transformers", "matplotlib")
EXCERPT_LENGTH, NAME_LENGTH, SOURCES = 390, 80, 5
"""Characters of a text and of a name, which are cut if longer; sources of prompts named."""
NAMED = re.compile(r"(``.+?``|\b[a-z_]+\.[a-z_]\w*)")  # code and ids of claims in a proof
PAGES = re.compile(r"\b(docs/[\w/]+\.md|paper_repro\.md)")
SHORT_PROOF = re.compile(r"(.{150,}?[.)])\s(?=[A-Z“].{150})", re.S)  # the sentences of a long proof that are not folded
WIDE = 260.0  # points from which a picture is wider than a telephone, which scrolls it


def write_report(
    folder: str | Path,
    *,
    results: Results,
    manifest: Mapping[str, Any],
    figures: Sequence[Path],
    command: str,
    trace: str = "",
    plan: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``report.html``, with everything inlined, into a folder; return its path."""
    claims, plan = hlmtheory.all_claims(), plan or {}
    certified = certificate()
    released = claims.keys() & certified.tallies.keys() - results.tallies.keys()
    results = certified.completed(results)
    rows = [_with_symbols(claim, table_row(claim, results.tallies.get(name))) for name, claim in claims.items()]
    counts = first_screen.partition(claims, results)
    true = [tally for name, tally in results.tallies.items() if name in claims and claims[name].refuted is None]
    parts = {"vacuous": Counter(one.kind for one in true if one.vacuous)}
    parts["out of scope"] = Counter(one.kind for one in true if one.out_of_scope)
    text = _template().render(
        topics=_topics([row for row in rows if not row["refuted"]]),
        refuted=[(kind, KINDS[kind], [row for row in rows if row["standing"] == kind]) for kind in FALSE.values()],
        counts={outcome: sum(kinds.values()) for outcome, kinds in counts.items()},
        parts=parts,
        partition=first_screen.partition_table(counts, parts),
        outcomes=counts,
        printed=in_print(),
        violated=[row["id"] for row in rows if row["outcome"] == "violated"],
        send=first_screen.what_to_send(results, manifest.get("vocabulary"), figures),
        ids=claims.keys(),
        released=released,
        release=certified.commits if released else "",
        results=results,
        run=_run(manifest),
        sources=_sources(claims),
        figures=[_figure(sidecar, prefix=f"f{i}-") for i, sidecar in enumerate(figures, 1)],
        command=command,
        trace=trace,
        plan=plan,
        speeds=_inline(plan["picture"], "plan-", "Predicted tokens/s of each policy") if "picture" in plan else "",
        of_pair=sum(counts[outcome]["measured"] for outcome in first_screen.CLAIM_OUTCOMES),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    path = Path(folder) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, finalize=printable_value, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"pieces": pieces, "named": NAMED.split, "pages": PAGES.split}
    environment.globals["repository"] = f"{REPOSITORY}/blob/main/"
    return environment.get_template("report.html.j2")


def _with_symbols(claim: Claim, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its proof in two parts, and what the symbols of the statement and of the proof alone mean."""
    proof, known = row["proof"], claim.id.partition(".")[0] in hlmtheory.MODULES
    first = found[1] if (found := SHORT_PROOF.match(proof)) else proof
    stated, every = (symbols(claim, text) if known else {} for text in (claim.statement, f"{claim.statement}; {proof}"))
    others = {symbol: meaning for symbol, meaning in every.items() if stated.get(symbol) != meaning}
    if "letters" in in_print().get(claim.id, {}):  # they say what stands for the paper's letters
        stated, others = ({symbol: of[symbol] for symbol in of if symbol[:3] != "in "} for of in (stated, others))
    return {**row, "proof": first, "rest": proof[len(first) :], "stated": stated, "others": others}


def topic_title(module: str) -> str:
    return "OFDMA" if module == "ofdma" else module.replace("_", " ").capitalize()


def _topics(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["id"].split(".")[0], []).append(row)
    topics = []
    for name, claims in found.items():
        about = import_module(f"hlmtheory.{name}").__doc__ if name in hlmtheory.MODULES else "Your own claims."
        title = (about or name).split("\n", 1)[0]
        outcomes = list(Counter((row["symbol"], row["outcome"]) for row in claims).items())
        topics.append({"name": name, "head": topic_title(name), "title": title, "rows": claims, "outcomes": outcomes})
    return topics


def _sources(claims: Mapping[str, Claim]) -> list[tuple[str, str, str]]:
    keys = {claim.source.key for claim in claims.values()}
    entries = [(key, bibliography().get(key, {"full": key, "link": ""})) for key in keys]
    short = {key: f" (here {name})" for name, key in PAPERS.items()}
    rows = ((key, entry["full"] + short.get(key, ""), entry["link"]) for key, entry in entries)
    return sorted(rows, key=lambda row: row[1])


def _run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    pair, prompts = manifest.get("pair", {}), list(manifest.get("prompts", []))
    sources = Counter(_excerpt(prompt.get("source") or "unnamed", NAME_LENGTH) for prompt in prompts)
    return {
        "pair": _excerpt(pair.get("name", "unnamed"), NAME_LENGTH),
        "models": [
            (role, _excerpt(pair.get(f"{key}_name", "?"), EXCERPT_LENGTH), pair.get(f"{key}_parameters"))
            for role, key in (("draft", "small"), ("target", "large"))
        ],
        "weights": pair.get("dtype"),
        "vocabulary": manifest.get("vocabulary"),
        "positions": manifest.get("positions"),
        "seed": manifest.get("seed"),
        "created": manifest.get("created", "?"),
        "notes": [_excerpt(note, EXCERPT_LENGTH) for note in manifest.get("notes", [])],
        "texts": {"corpus": "from a corpus", "target": "written by the target model"}.get(manifest.get("texts", "")),
        "lists": manifest.get("kind") == LISTS,
        "prompts": len(prompts),
        "sources": sources.most_common(SOURCES),
        "more_sources": len(sources) - SOURCES,
        "versions": [*versions(*LIBRARIES).items(), ("commit", commit_of_code() or "unknown")],
    }


def _excerpt(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 2].rstrip()} …"


def _figure(sidecar: Path, *, prefix: str) -> dict[str, Any]:
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    name, _, caption = about["caption"].partition(": ")
    details = " ".join(filter(None, [printed_words(about), about["method"], claims_words(about)]))
    picture = sidecar.with_suffix(".svg")
    svg = _inline(picture, prefix, f"{name}: {about['title']}. {caption}") if picture.exists() else ""
    width = re.search(r'<svg[^>]*\swidth="([\d.]+)pt"', svg)
    cut = partial(_excerpt, length=EXCERPT_LENGTH)
    tables = [
        {**table, "heads": [*map(cut, table["heads"])], "rows": [[*map(cut, row)] for row in table["rows"]]}
        for table in about.get("tables", [])
    ]
    return {
        "svg": svg,
        "wide": bool(width and float(width[1]) >= WIDE),
        "anchor": re.sub(r"[^\w.-]+", "-", sidecar.stem),
        "for_deployment": getattr(FIGURES.get(tuple(about["figure"].split(" "))), "for_deployment", False),
        "name": name,
        "title": about["title"],
        "caption": caption,
        "details": details,
        "drawn": about.get("positions_drawn"),
        "tables": tables,
    }


def _inline(path: Path, prefix: str, title: str) -> Markup:
    """Return one of our own SVG files as an element of the page, with a prefix on its ids to keep them unique."""
    from markupsafe import Markup, escape

    svg = path.read_text(encoding="utf-8")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(?::\w+)?="[^"]*"', "", svg)  # HTML predefines both namespaces
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{prefix}", svg)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1))
