"""Write the report of a run as one HTML file that opens offline."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hlmtheory
from hlmtheory.claims import Claim
from validation.report.citations import bibliography
from validation.report.tables import claims_table, pieces, stale, summary, table_row, update_between_markers
from validation.trace.format import LISTS

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

    from validation.claims.check import Results

__all__ = ["claims_table", "stale", "summary", "update_between_markers", "write_report"]

TEMPLATES = Path(__file__).resolve().parent / "templates"
LIBRARIES = ("numpy", "torch", "transformers", "matplotlib")
EXCERPTS, EXCERPT_LENGTH = 4, 400
FALSE_KINDS = (
    ("refuted", "Printed results that are false", "A paper prints each of them, and it is false as stated."),
    (
        "misprint",
        "Misprints",
        "Printed and false, but the intended statement is evident; it is a separate claim, and holds.",
    ),
    ("false reading", "False readings", "No paper prints them, but a reader may infer them."),
)
"""Title and explanation of each kind of false statement in the report."""


def write_report(
    folder: str | Path,
    *,
    results: Results,
    manifest: Mapping[str, Any],
    figures: Sequence[Path],
    command: str,
    claims: Mapping[str, Claim] | None = None,
) -> Path:
    """Write ``report.html``, with everything inlined.

    Parameters
    ----------
    folder : str or Path
        Output folder; created if it is missing.
    results : Results
    manifest : mapping
        Manifest of the trace.
    figures : sequence of Path
        Sidecars that :func:`validation.plots.draw` wrote; a picture may lie beside each.
    command : str
        Command that reproduces the run.
    claims : mapping of str to Claim, optional
        Default: all claims.

    Returns
    -------
    Path
        Path of the report.
    """
    claims = hlmtheory.all_claims() if claims is None else claims
    rows = [table_row(claim, results.tallies.get(name)) for name, claim in claims.items()]
    text = _template().render(
        rows=[row for row in rows if not row["refuted"]],
        refuted=[(title, note, [row for row in rows if row["standing"] == kind]) for kind, title, note in FALSE_KINDS],
        counts=summary(claims, results),
        results=results,
        run=_run(manifest),
        sources=sorted({bibliography().get(c.source.key, {}).get("full", c.source.key) for c in claims.values()}),
        figures=[_figure(sidecar, prefix=f"f{i}-") for i, sidecar in enumerate(figures, 1)],
        command=command,
        sizes=_sizes(results),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    path = Path(folder) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _template() -> Template:
    """Return the page's template, which escapes every value."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["pieces"] = pieces
    return environment.get_template("report.html.j2")


def _sizes(results: Results) -> list[tuple[str, str]]:
    """Return the mean certified top_k for each bias of the summary."""
    name = "size_for_bias_"
    found = {key.removeprefix(name): size for key, size in results.summary.items() if key.startswith(name)}
    return [(f"{float(bias):.0%}", f"{size:,.0f}") for bias, size in found.items()]


def _run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return models, prompts and versions; a value missing from the manifest becomes a placeholder."""
    pair, prompts = manifest.get("pair", {}), list(manifest.get("prompts", []))
    by_source: dict[str, dict[str, str]] = {}
    for prompt in prompts:
        by_source.setdefault(prompt.get("source", ""), prompt)
    shown = [*by_source.values(), *(prompt for prompt in prompts if prompt not in by_source.values())][:EXCERPTS]
    return {
        "pair": pair.get("name", "unnamed"),
        "models": [
            (role, pair.get(f"{key}_name", "?"), pair.get(f"{key}_parameters"))
            for role, key in (("draft", "small"), ("target", "large"))
        ],
        "vocabulary": manifest.get("vocabulary"),
        "positions": manifest.get("positions"),
        "seed": manifest.get("seed"),
        "created": manifest.get("created", "?"),
        "notes": manifest.get("notes", []),
        "texts": {"corpus": "from a corpus", "target": "written by the target model"}.get(manifest.get("texts", "")),
        "lists": manifest.get("kind") == LISTS,
        "prompts": len(prompts),
        "sources": list(Counter(prompt.get("source") or "unnamed" for prompt in prompts).items()),
        "excerpts": [(p.get("id", ""), p.get("source", ""), _excerpt(p.get("text", ""))) for p in shown],
        "versions": [
            ("hlmtheory", hlmtheory.__version__),
            ("Python", platform.python_version()),
            *((name, _version(name)) for name in LIBRARIES),
        ],
    }


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT_LENGTH else f"{text[:EXCERPT_LENGTH].rstrip()} …"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _figure(sidecar: Path, *, prefix: str) -> dict[str, Any]:
    """Return the template's values for one figure or table; the title is separate from the caption."""
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    name, _, rest = about["caption"].partition(": ")
    title = f"{name}: {about['title']}"
    picture = sidecar.with_suffix(".svg")
    svg = _inline(picture, prefix, title) if picture.exists() else ""
    return {"svg": svg, "title": title, "caption": rest, "tables": about.get("tables", [])}


def _inline(path: Path, prefix: str, title: str) -> Markup:
    """Return one of our own SVG files as an element of the page, with a prefix on its ids to keep them unique."""
    from markupsafe import Markup, escape

    svg = path.read_text(encoding="utf-8")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(?::\w+)?="[^"]*"', "", svg)  # HTML predefines both namespaces
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{prefix}", svg)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1))
