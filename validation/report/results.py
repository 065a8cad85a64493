"""Write the generated parts of ``paper_repro.md``, and the pages of results that the site alone has.

Each paper has a page with its figures and tables, and so have our own ones and the audit's controls; they are made from
the stored numbers when the site is built.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hlmtheory
from hlmtheory.claims import Claim
from validation.claims.results import Results
from validation.plots import EXHIBITS
from validation.plots.common.record import Exhibit, printed_words
from validation.report.audit_controls import audit_controls
from validation.report.tables import COLUMNS, STANDINGS, UNPUBLISHED, markdown_table, plain_cells, table_row
from validation.report.verdicts import BEST, COVERAGE, MAIN_RESULTS

PAGE = Path("paper_repro.md")
INTRODUCTIONS = {
    "cu-hlm": (
        "CU-HLM: skip what is certain, send the k largest probabilities",
        "Oh et al. (2025): a device drafts one token at a time, skips the server where the draft is certain, and sends "
        "k of V probabilities where it is not.",
    ),
    "u-hlm": (
        "U-HLM: skip what is certain",
        "Oh et al. (2024): the conference version of cu-hlm. A device skips the server where the draft is certain, and "
        "else sends the whole distribution.",
    ),
    "c-sqs": (
        "C-SQS: sparse quantised drafts",
        "Bhattacharjee et al. (2025): a device drafts several tokens from sparse quantised distributions, whose "
        "support is fixed (K-SQS) or follows a threshold (C-SQS).",
    ),
    "flexspec": (
        "FlexSpec: one draft for all versions, a length for each link",
        "Li et al. (2025): a draft model that is aligned once serves all later versions of the target, and the draft "
        "length follows the link.",
    ),
    "edge-sd": (
        "Edge-SD: batches and bandwidth",
        "Zhu et al. (2025): two machines at the edge draft and verify in a pipeline; batches and shares of the band "
        "are chosen for the latency.",
    ),
    "ours": (
        "New figures and tables",
        "Exhibits that are in no paper: what the bounds, rules and certificates of this project do on the same models. "
        "Files and commands call them `ours`.",
    ),
}
"""Title and first sentence of each page of exhibits, by its name on the site."""

READING = (
    "[What we found](../../paper_repro.md) in all papers; [what is refuted](refuted.md); [what holds instead](new.md)."
)
COVERAGE_PAGE = "results/coverage.md"
COVERED = """\
# Figures and tables of the papers

Every figure and table of the papers that shows a result is here. "Absent" are drawings, settings, and what needs a
physical device. All measurements are weaker than the papers' in one respect: our models have 1.6 to 135 million
parameters, the papers' 68 million to 70 billion. "–": nothing else is weaker.
"""
AUDIT_PAGE = "results/audit.md"
AUDIT = """\
# The audit's controls

What [`hlm audit`](../audit.md) finds in samplers whose law is known
([study](../../figures/studies/audit_controls/README.md)). *TV* is the total variation that the defect causes, over five
pairs; *draws until found* are at level .001; a name is *right* if the likeliest mechanism that is not excluded is the
defect. The second table says how many audits of 128 draws accused an exact sampler.
"""
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
"""Numbers of tables in their order."""


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it.

    >>> slug("`truncation.tvd_sharp`"), slug("Table III")
    ('truncationtvd_sharp', 'table-iii')
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def heading(one: Exhibit) -> str:
    """Return the heading of an exhibit on the page of its paper: ``Figure 5a`` or ``Table II``."""
    return one.place.replace("Fig.", "Figure")


def generated(root: Path, results: Results) -> dict[Path, dict[str, str]]:
    """Return the generated parts of the pages of the repository.

    Parameters
    ----------
    root : Path
        The repository.
    results : Results
        Verdicts of the published run of the built-in pair.

    Returns
    -------
    dict
        For each page, relative to the root, the text by the name of its marker.
    """
    figures = root / "figures"
    return {PAGE: {"verdicts": _verdicts(results), "best": _best(figures)}}


def csv_files(root: Path, results: Results) -> dict[Path, str]:
    """Return the CSV file of the claims, by its path relative to the root."""
    return {Path("figures") / "claims.csv": _claims_csv(hlmtheory.all_claims(), results)}


def stale_files(root: Path, results: Results) -> list[str]:
    """Return the CSV files that are missing or differ from the sidecars."""
    old = []
    for path, text in csv_files(root, results).items():
        there = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        if _published_lines(there) != _published_lines(text):
            old.append(path.as_posix())
    return old


def _published_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(UNPUBLISHED)]


def write_files(root: Path, results: Results) -> list[Path]:
    """Write the CSV files whose content changed, and return them."""
    written = []
    for path, text in csv_files(root, results).items():
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text:
            (root / path).write_text(text, encoding="utf-8", newline="")
            written.append(root / path)
    return written


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _read(sidecar: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(sidecar.read_text(encoding="utf-8"))
    return about


def _sidecars(figures: Path, one: Exhibit) -> list[Path]:
    """Return the sidecars of an exhibit: the built-in pair's, then those of other pairs."""
    found = [figures / f"{one.stem}.json", *sorted(figures.glob(f"*/{one.stem}.json"))]
    return [path for path in found if path.exists()]


# ------------------------------------------------------------------------------------------- a page for each paper


def site_pages(root: Path) -> dict[str, str]:
    """Return the pages of results that the site alone has, by their path in its source."""
    pages = {f"results/{paper}.md": paper_page(root / "figures", paper) for paper in INTRODUCTIONS}
    pages[COVERAGE_PAGE] = f"{COVERED}\n{_coverage()}\n"
    controls = audit_controls(root)
    return pages | ({AUDIT_PAGE: f"{AUDIT}\n{controls}\n"} if controls else {})


def paper_page(figures: Path, paper: str) -> str:
    """Return the page of a paper's exhibits, or of ours."""
    title, about = INTRODUCTIONS[paper]
    return f"# {title}\n\n{about} {READING}\n\n{_exhibits(figures, paper)}\n"


def sections() -> dict[str, str]:
    """Return the section on the site of each picture and file of numbers; elsewhere a link leads to the file."""
    places = {f"figures/{one.stem}": f"results/{one.paper}.md#{slug(heading(one))}" for one in EXHIBITS.values()}
    return {f"{stem}.{ending}": place for stem, place in places.items() for ending in ("svg", "json")}


def _where(one: Exhibit) -> str:
    """Return the file of an exhibit: its picture, or the numbers of a table."""
    return f"figures/{one.stem}.{'svg' if one.paint else 'json'}"


def _exhibits(figures: Path, paper: str) -> str:
    """Return the list of a paper's exhibits, then each with its picture, caption and table."""
    ones = sorted(
        (one for one in EXHIBITS.values() if one.paper == paper and _sidecars(figures, one)),
        key=lambda one: 0 if one.number[0].isdigit() else ROMAN.index(one.number) + 1,
    )
    contents = [f"- [{heading(one)}](#{slug(heading(one))}): {_lower(one.title)}" for one in ones]
    return "\n\n".join(["\n".join(contents), *(_exhibit(figures, one) for one in ones)])


def _lower(title: str) -> str:
    """Return a title with a small first letter, unless its first word is a name such as C-SQS or FlexSpec's.

    >>> _lower("Edge devices over 4G"), _lower("FlexSpec's length rule"), _lower("A C-SQS")
    ('edge devices over 4G', "FlexSpec's length rule", 'a C-SQS')
    """
    return title if re.match(r"\w[\w-]*[A-Z]", title) else title[0].lower() + title[1:]


def _exhibit(figures: Path, one: Exhibit) -> str:
    """Return the section of an exhibit: of another pair than the built-in one, what its numbers say."""
    shown = [f"## {heading(one)}"]
    for sidecar in _sidecars(figures, one):
        about, place = _read(sidecar), f"../../{sidecar.relative_to(figures.parent).as_posix()}"
        picture = f"{place.removesuffix('.json')}.svg" if sidecar.with_suffix(".svg").exists() else ""
        if sidecar.parent == figures:
            shown += [f"![{about['figure']}]({picture})"] if picture else []
            shown.append(about["caption"].partition(": ")[2])
            shown += [printed_words(about)] if about["printed"] else []
            shown.append(f"Method: {about['method']} Numbers: [`{sidecar.name}`]({place}).")
        else:
            links = f"[picture]({picture}), [numbers]({place})" if picture else f"[numbers]({place})"
            name = f"**{heading(one)} on the pair {sidecar.parent.name}** ({links}):"
            shown.append(f"{name} {one.sentence(about)} {about['basis']}")
        shown += [markdown_table(table) for table in about.get("tables", [])]
    return "\n\n".join(shown)


# ------------------------------------------------------------------------------------------------------- the claims


def _claims_csv(claims: Mapping[str, Claim], results: Results) -> str:
    """Return the claims by module, in the order of the registry, true statements first, with their verdicts."""
    modules = list(dict.fromkeys(name.partition(".")[0] for name in claims))
    ordered = sorted(
        claims.items(), key=lambda item: (modules.index(item[0].partition(".")[0]), STANDINGS.index(item[1].standing))
    )
    rows = [
        plain_cells(table_row(claim, results.tallies.get(name), UNPUBLISHED, counterexample=False))
        for name, claim in ordered
    ]
    return _csv([COLUMNS, *rows])


# ------------------------------------------------------------------------------------- the first page, paper_repro.md


def _verdicts(results: Results) -> str:
    """Return the main results of the papers with the verdict of the published run, and links."""
    rows = []
    for paper, place, printed, found, claim, exhibit, verdict in MAIN_RESULTS:
        where = []
        if claim:
            row = table_row(
                hlmtheory.all_claims()[claim], results.tallies.get(claim), UNPUBLISHED, counterexample=False
            )
            verdict = verdict or f"{row['symbol']} {row['outcome']}"
            where.append(f"`{claim}`")
        if exhibit:
            one = EXHIBITS[exhibit]
            said = heading(one) if one.paper == paper else f"{heading(one)} of {one.paper}"
            where.append(f"[{said}]({_where(one)})")
        rows.append(f"| {paper} | {place} | {printed} | {verdict} | {found} | {', '.join(where)} |")
    heads = "| paper | place | printed | verdict | what we found | proof, numbers |\n|---|---|---|---|---|---|"
    return "\n".join([heads, *rows])


def _best(figures: Path) -> str:
    """Return the five figures that carry the main messages."""
    shown = []
    for key in BEST:
        one = EXHIBITS[key]
        about = _read(figures / f"{one.stem}.json")
        shown.append(f"![{about['figure']}](figures/{one.stem}.svg)")
        shown.append(f"**[{one.paper}, {heading(one)}]({_where(one)}).** {about['caption'].partition(': ')[2]}")
    return "\n\n".join(shown)


def _coverage() -> str:
    """Return which figures and tables of the papers exist here, and what is weaker."""
    rows = []
    for paper, printed, numbers, weaker in COVERAGE:
        ones = [EXHIBITS[paper, number] for number in numbers]
        where = [f"[{heading(one)}]({one.paper}.md#{slug(heading(one))})" for one in ones]
        rows.append(f"| {paper} | {printed} | {', '.join(where) or 'absent'} | {weaker} |")
    return "\n".join(["| paper | printed | here | weaker than in the paper, and why |", "|---|---|---|---|", *rows])
