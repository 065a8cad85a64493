"""Publish a run in the repository: ``figures/`` and the generated parts of ``paper_repro.md``.

``figures/claims.json`` holds the verdicts of the published run and a description of its models, so that the tables can
be regenerated and checked without a trace. ``figures/NAME/`` holds the same for another pair.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import hlmtheory
from validation.claims.certificate import PLACE, certificate, certificate_text
from validation.claims.check import Results, load_results
from validation.decoding.fitting import stored_fit
from validation.errors import UserError
from validation.plots import EXHIBITS, new_words, restate
from validation.plots.common.record import MISSING
from validation.provenance import commit_of_code, versions
from validation.report import results as results_pages
from validation.report.tables import SYMBOLS, UNPUBLISHED, markdown_table, update_between_markers
from validation.trace.reader import fingerprint, open_trace

PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
STAMPS = ("added", "command", "commit", "created", "seconds", "versions")
"""Keys whose values differ between two runs of the same code and settings."""

PAGE = Path("paper_repro.md")
BUILTIN = Path(__file__).parents[1] / "pairs" / "builtin"


def publish(
    run: Path, simulated: Path, root: Path, name: str = "builtin", *, whole: bool = False, beside: Sequence[Path] = ()
) -> list[Path]:
    """Copy the figures and verdicts of a run into the repository, regenerate the tables, and return the files written.

    A file whose content is already published is not rewritten; with ``whole`` every file is, so that all are stamped
    with one commit. ``run`` is the folder of ``hlm validate``, ``simulated`` that of ``hlm figure``.
    """
    if PLAIN_NAME.fullmatch(name) is None:
        raise UserError(f"The pair cannot be called {name!r}: start with a letter or digit, then also '.', '_', '-'.")
    results = load_results(run / "claims.json")
    shelf = root / "figures" if name == "builtin" else root / "figures" / name
    _refuse_fewer(shelf / "claims.json", results)
    trace = open_trace(run / "trace")
    manifest, commit = trace.manifest, commit_of_code()
    if whole and (commit is None or commit.endswith("changes")):
        raise UserError("What is published names its commit; commit the changes of hlmtheory and validation first.")
    shelf.mkdir(exist_ok=True)
    made = sorted((run / "figures").iterdir())
    if name == "builtin" and simulated.exists():
        made += sorted((simulated / "figures").iterdir())
    sidecars = [] if whole else [figure for figure in made if figure.suffix == ".json"]
    same = {figure.stem for figure in sidecars if _same(figure, shelf / figure.name)}
    taken = [figure for figure in made if figure.stem not in same or not (shelf / figure.name).exists()]
    written = [Path(shutil.copy(figure, shelf / figure.name)) for figure in taken]
    known = hlmtheory.all_claims()
    said = {claim: known[claim].statement for claim in results.tallies if claim in known}
    others = {"beside": {other.name: _marks(other) for other in beside}} if beside else {}
    facts = _run_facts(manifest, name) | _marks(run) | others
    record = {"run": facts, "results": json.loads(results.to_json()), "statements": said}
    found = run / "published.json"
    found.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if whole or not _same(found, shelf / "claims.json"):
        written.append(Path(shutil.copy(found, shelf / "claims.json")))
    if whole:  # later code may have drawn and described it otherwise than the code that measured it
        for figure in made:
            if figure.suffix == ".json":
                restate(shelf / figure.name)
    return [*written, regenerate(root)]


def add_verdicts(run: Path, root: Path) -> list[Path]:
    """Add a run's verdicts on claims that the built-in pair's record lacks, if both are of the same trace."""
    file = root / "figures" / "claims.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    mark, known = fingerprint(open_trace(run / "trace")), hlmtheory.all_claims()
    found = load_results(run / "claims.json")
    if mark != record["run"]["trace"]:
        raise UserError(
            f"{run} has the trace {mark}, and {file.name} is of {record['run']['trace']}; publish a whole run."
        )
    lacking = sorted(found.tallies.keys() & known.keys() - _results(record).tallies.keys())
    record["results"]["tallies"] |= {name: json.loads(found.to_json())["tallies"][name] for name in lacking}
    record.setdefault("statements", {}).update({name: known[name].statement for name in lacking})
    record.setdefault("added", {}).update(dict.fromkeys(lacking, commit_of_code()))
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return [file, regenerate(root)]


def _refuse_fewer(published: Path, results: Results) -> None:
    if not published.exists():
        return
    there = json.loads(published.read_text(encoding="utf-8"))["results"]["tallies"]
    if lost := there.keys() & hlmtheory.all_claims().keys() - results.tallies.keys():
        raise UserError(
            f"The run did not check {len(lost)} claims that are published, such as {min(lost)}; to keep their "
            "verdicts, run `python3 hlm validate --all-claims` first."
        )


def _marks(run: Path) -> dict[str, Any]:
    commits, trace = run / "commits.json", open_trace(run / "trace")
    steps = json.loads(commits.read_text(encoding="utf-8")) if commits.exists() else {}
    return {"trace": fingerprint(trace), "fit": stored_fit(trace), "commits": steps}


def _same(made: Path, published: Path) -> bool:
    if not published.exists():
        return False
    one, other = (_unstamped(json.loads(path.read_text(encoding="utf-8"))) for path in (made, published))
    return bool(one == other)


def _unstamped(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _unstamped(part) for key, part in value.items() if key not in STAMPS}


def regenerate(root: Path) -> Path:
    """Rewrite what is generated: stale words of sidecars, parts of the page, the list of claims, the certificate."""
    for sidecar in filter(new_words, _sidecars(root)):
        restate(sidecar)
    text = (root / PAGE).read_text(encoding="utf-8")
    for marker, part in tables(root).items():
        text = update_between_markers(text, marker, part)
    for path, content in {PAGE: text, **_files(root)}.items():
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != content:
            (root / path).write_text(content, encoding="utf-8", newline="")
    return root / PAGE


def stale_tables(root: Path) -> list[str]:
    """Return the generated parts and files that differ from their sources, and the verdicts that differ on the page."""
    page = (root / PAGE).read_text(encoding="utf-8")
    old = [f"{PAGE}: {name}" for name, part in tables(root).items() if update_between_markers(page, name, part) != page]
    old += [f"{PAGE}: {name}" for name in results_pages.other_verdicts(page, published(root))]
    old += [sidecar.name for sidecar in filter(new_words, _sidecars(root))]
    without = (one for one in _sidecars(root) if MISSING in json.loads(one.read_text(encoding="utf-8"))["caption"])
    old += [f"{one.name}: a missing number" for one in without]
    for path, content in _files(root).items():
        there = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        both = (text.splitlines() for text in (there, content))
        if len({tuple(line for line in one if not line.startswith(UNPUBLISHED)) for one in both}) > 1:
            old.append(path.as_posix())
    return old


def _sidecars(root: Path) -> list[Path]:
    places = [root / "figures", *(record.parent for record in sorted(root.glob("figures/*/claims.json")))]
    found = [place / f"{one.stem}.json" for place in places for one in EXHIBITS.values()]
    return [path for path in found if path.exists()]


def _files(root: Path) -> dict[Path, str]:
    record = _read_records(root)[0]
    former = (root / PLACE).read_text(encoding="utf-8") if (root / PLACE).exists() else ""
    return {
        PLACE: certificate_text(record["run"] | {"added": record.get("added", {})}, _results(record), former),
        Path("figures", "claims.csv"): results_pages.claims_csv(published(root)),
    }


def tables(root: Path) -> dict[str, str]:
    """Return the generated parts of ``paper_repro.md`` by the name of their marker."""
    records = _read_records(root)
    results = [published(root), *map(_results, records[1:])]
    return {
        "beside": results_pages.beside(root / "figures"),
        "best": results_pages.best(root / "figures"),
        "pairs": _pairs_table([record["run"] for record in records], results),
    }


def published(root: Path) -> Results:
    """Return the verdicts of the built-in pair's published run on statements of today, and those of the certificate."""
    return certificate().completed(_results(_read_records(root)[0]))


@cache
def published_pairs(root: Path) -> dict[str, Results]:
    """Return the verdicts of the published run of each pair; none where ``figures/`` is not installed."""
    records = _read_records(root) if (root / "figures" / "claims.json").is_file() else []
    return {record["run"]["pair"]: _results(record) for record in records}


def commit_of_check(root: Path, claim: str) -> str:
    """Return the commit at which the release checked a claim, by the certificate or the built-in pair's record."""
    stored = json.loads((Path(__file__).parents[2] / PLACE).read_text(encoding="utf-8"))
    later = {} if claim in stored["claims"] else dict.fromkeys(stored.get("added", {}), stored["about"].get("later"))
    if (root / "figures" / "claims.json").is_file():
        later |= _read_records(root)[0].get("added", {})
    return str(later.get(claim, stored["about"]["commit"]))


def _read_records(root: Path) -> list[dict[str, Any]]:
    figures = root / "figures"
    try:
        files = [figures / "claims.json", *sorted(figures.glob("*/claims.json"))]
        return [json.loads(path.read_text(encoding="utf-8")) for path in files]
    except FileNotFoundError as error:
        raise UserError("No figures/claims.json; run `python3 hlm validate` and `python3 hlm publish`.") from error


def _run_facts(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    kept = ("positions", "vocabulary", "seed", "new_tokens", "created")
    pair = manifest["pair"]
    facts = {"pair": name, "parameters": [pair["small_parameters"], pair["large_parameters"]]}
    facts |= {"versions": versions("numpy", "scipy")} | {key: manifest[key] for key in kept}
    return facts | {"texts": len(manifest["prompts"])}


def _pairs_table(runs: list[dict[str, Any]], results: list[Results]) -> str:
    summaries = [result.summary for result in results]
    checked = [result.positions for result in results]
    rows = [
        ("parameters", [" and ".join(f"{count:,}" for count in run["parameters"]) for run in runs]),
        ("vocabulary", [f"{run['vocabulary']:,}" for run in runs]),
        ("positions in the trace", [f"{run['positions']:,}" for run in runs]),
        ("prompts, seed", [f"{run['texts']}, {run['seed']}" for run in runs]),
        ("acceptance rate, mean", [f"{s['acceptance']:.3f}" for s in summaries]),
        ("positions whose likeliest draft has q ≥ 0.9", [f"{s['certain_share']:.1%}" for s in summaries]),
        ("positions whose likeliest draft has q ≤ 0.5", [f"{s['uncertain_share']:.1%}" for s in summaries]),
    ]
    if checked != [run["positions"] for run in runs]:  # the means are over these
        rows.insert(4, ("of them checked, the first ones", [f"{count:,}" for count in checked]))
    for name in summaries[0]:
        if name.startswith("size_for_bias_"):
            bias = float(name.removeprefix("size_for_bias_"))
            title = f"probabilities sent for a bias ≤ {bias:.0%}, mean"
            rows.append((title, [f"{s[name]:,.0f}" if name in s else "–" for s in summaries]))
    counts = [Counter((tally.kind, tally.outcome) for tally in result.tallies.values()) for result in results]
    order = [*SYMBOLS, *{outcome for count in counts for _, outcome in count}]  # an unknown outcome comes last
    kinds = sorted({pair for count in counts for pair in count}, key=lambda pair: (pair[0], order.index(pair[1])))
    for kind, outcome in kinds:
        shown = counts if kind == "measured" else counts[:1]  # simulated claims are checked once
        cells = [str(count[kind, outcome]) for count in shown] + ["–"] * (len(counts) - len(shown))
        rows.append((f"claims {kind}: {outcome}", cells))
    heads = ["pair", *(run["pair"] for run in runs)]
    return markdown_table({"heads": heads, "rows": [[name, *cells] for name, cells in rows]})


def _results(record: dict[str, Any]) -> Results:
    results = Results.from_json(json.dumps(record["results"]))
    said, now = record.get("statements", {}), hlmtheory.all_claims()
    for name in [name for name in results.tallies if name in said and name in now]:
        if said[name] != now[name].statement:
            del results.tallies[name]
    return results
