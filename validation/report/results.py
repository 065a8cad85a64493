"""Write the generated parts of ``paper_repro.md``, and the pages of results that the site alone has.

Each paper has a page with its figures and tables, and so have our own ones; they are made from the stored numbers when
the site is built.
"""

import csv
import io
import json
import re
from pathlib import Path

import hlmtheory
from validation.claims.results import Results
from validation.plots import EXHIBITS
from validation.plots.common.record import Exhibit, claims_words, printed_words
from validation.provenance import PAPERS
from validation.report.tables import COLUMNS, STANDINGS, UNPUBLISHED, markdown_table, plain_cells, table_row

INTRODUCTIONS = {
    "cu-hlm": ("CU-HLM: skip what is certain, send the k largest probabilities", "Oh et al. (2025)."),
    "u-hlm": ("U-HLM: skip what is certain", "Oh et al. (2024), the conference version of cu-hlm."),
    "c-sqs": ("C-SQS: sparse quantised drafts", "Bhattacharjee et al. (2025)."),
    "flexspec": ("FlexSpec: one draft for all versions, a length for each link", "Li et al. (2025)."),
    "edge-sd": ("Edge-SD: batches and bandwidth", "Zhu et al. (2025)."),
    "ours": ("New figures and tables", "Exhibits in none of the five papers; files and commands call them `ours`."),
}
"""Title and first sentence of each page of exhibits, by its name on the site."""

READING = "[All papers](../../paper_repro.md); [what is refuted](refuted.md); [what holds instead](new.md)."
BEST = (("ours", "3"), ("ours", "8"))
"""The figures that carry the main new messages."""
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
"""Numbers of tables in their order."""
NAMED = re.compile(r"(?<![`\w./-])[a-z_]+\.[a-z_]\w*(?![\w`/])")  # ids of claims that are not code


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def heading(one: Exhibit) -> str:
    """Return the heading of an exhibit on the page of its paper: ``Figure 5a`` or ``Table II``."""
    return one.place.replace("Fig.", "Figure")


def site_pages(root: Path) -> dict[str, str]:
    """Return the pages of results that the site alone has, by their path in its source, each claim's name as code."""
    return {
        f"results/{paper}.md": NAMED.sub(
            lambda name: f"`{name[0]}`" if name[0] in hlmtheory.all_claims() else name[0],
            f"# {title}\n\n{about} {READING}\n\n{_verdicts(root, paper)}{_exhibits(root / 'figures', paper)}\n",
        )
        for paper, (title, about) in INTRODUCTIONS.items()
    }


def _verdicts(root: Path, paper: str) -> str:
    """Return the rows of a paper in the table of verdicts, refuted ones first; none of our own exhibits."""
    page = (root / "paper_repro.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| (?:paper(?= \| place)|{paper}) (\|.*)$", page, re.MULTILINE)
    rows.sort(key=lambda row: "⊘" not in row and not row.startswith("| place"))
    here = {f"../../{file}": place.removeprefix("results/") for file, place in sections().items()}
    led = re.sub(r"\]\((?!https:)", "](../../", "\n".join(rows[1:]).replace("](#", "](paper_repro.md#"))
    table = re.sub(r"(?<=\]\()[^)]+", lambda target: here.get(target[0], target[0]), led)
    letters = page[page.index("Symbols are the papers'") :].partition("\n\n")[0]
    return f"[Its claims](#source-{PAPERS[paper]}). {letters}\n\n{rows[0]}\n{'|---' * 5}|\n{table}\n\n" if table else ""


def sections() -> dict[str, str]:
    """Return the section on the site of each picture and file of numbers; elsewhere a link leads to the file."""
    places = {f"figures/{one.stem}": f"results/{one.paper}.md#{slug(heading(one))}" for one in EXHIBITS.values()}
    return {f"{stem}.{ending}": place for stem, place in places.items() for ending in ("svg", "json")}


def _exhibits(figures: Path, paper: str) -> str:
    ones = sorted(
        (one for one in EXHIBITS.values() if one.paper == paper and _sidecars(figures, one)),
        key=lambda one: 0 if one.number[0].isdigit() else ROMAN.index(one.number) + 1,
    )
    contents = [f"- [{heading(one)}](#{slug(heading(one))}): {one.title}" for one in ones]
    return "\n\n".join(["\n".join(contents), *(_exhibit(figures, one) for one in ones)])


def _exhibit(figures: Path, one: Exhibit) -> str:
    """Return the section of an exhibit: of another pair than the built-in one, what its numbers say."""
    shown = [f"## {heading(one)}"]
    for sidecar in _sidecars(figures, one):
        about = json.loads(sidecar.read_text(encoding="utf-8"))
        place = f"../../{sidecar.relative_to(figures.parent).as_posix()}"
        picture = f"{place.removesuffix('.json')}.svg" if sidecar.with_suffix(".svg").exists() else ""
        if sidecar.parent == figures:
            shown += [f"![{about['figure']}]({picture})"] if picture else []
            shown.append(about["caption"].partition(": ")[2])
            shown += filter(None, [printed_words(about), claims_words(about)])
            shown.append(f"Method: {about['method']} Numbers: [`{sidecar.name}`]({place}).")
        else:
            links = f"[picture]({picture}), [numbers]({place})" if picture else f"[numbers]({place})"
            name = f"**{heading(one)} on the pair {sidecar.parent.name}** ({links}):"
            shown.append(f"{name} {one.sentence(about)} {about['basis']}")
        shown += [markdown_table(table) for table in about.get("tables", [])]
    return "\n\n".join(shown)


def _sidecars(figures: Path, one: Exhibit) -> list[Path]:
    return [at for at in (figures / f"{one.stem}.json", *sorted(figures.glob(f"*/{one.stem}.json"))) if at.exists()]


def best(figures: Path) -> str:
    shown = []
    for key in BEST:
        one = EXHIBITS[key]
        about = json.loads((figures / f"{one.stem}.json").read_text(encoding="utf-8"))
        shown.append(f"![{about['figure']}](figures/{one.stem}.svg)")
        where = f"**[{one.paper}, {heading(one)}](figures/{one.stem}.svg).**"
        shown.append(f"{where} {about['caption'].partition(': ')[2]}")
    return "\n\n".join(shown)


def beside(figures: Path) -> str:
    """Return the captions of the exhibits that measure cu-hlm's and u-hlm's main results."""
    ones = [EXHIBITS[key] for key in (("cu-hlm", "6"), ("cu-hlm", "10a"), ("cu-hlm", "I"), ("u-hlm", "I"))]
    abouts = [json.loads((figures / f"{one.stem}.json").read_text(encoding="utf-8")) for one in ones]
    return "\n".join(f"- {about['caption']}" for about in abouts)


def claims_csv(results: Results) -> str:
    """Return the claims by module, in the order of the registry, true statements first, with their verdicts."""
    claims = hlmtheory.all_claims()
    modules = list(dict.fromkeys(name.partition(".")[0] for name in claims))
    ordered = sorted(
        claims.items(), key=lambda item: (modules.index(item[0].partition(".")[0]), STANDINGS.index(item[1].standing))
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, claim in ordered:
        writer.writerow(plain_cells(table_row(claim, results.tallies.get(name), UNPUBLISHED, counterexample=False)))
    return text.getvalue()


def other_verdicts(page: str, results: Results) -> list[str]:
    """Return the claims whose row in the page's table has another verdict than the published run."""
    wrong = []
    for said, name in re.findall(r"^\|(?:[^|]*\|){3} ([^|]+) \|[^|]*\| `([a-z_]+\.[a-z_0-9]+)`", page, re.MULTILINE):
        if said[0] in "◇?" or said == "△ constant":
            continue
        claim = hlmtheory.all_claims().get(name)
        tally = results.tallies.get(name)
        row = table_row(claim, tally, UNPUBLISHED, counterexample=False) if claim else {"symbol": "", "outcome": ""}
        if said != f"{row['symbol']} {row['outcome']}":
            wrong.append(name)
    return wrong
