"""What the repository shows of a run: ``figures/`` and the generated tables of ``paper_repro.md``.

``figures/claims.json`` holds the verdicts of the published run and the models they are of, so that the tables can be
regenerated, and found stale, on a machine that has no trace.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import hlmtheory
from validation.check import Results, load_results
from validation.errors import UserError
from validation.tables import claims_table, stale, update_between_markers
from validation.traces import open_trace

PAIR_FOLDER = Path(__file__).parent / "pairs" / "builtin"


def publish(run: Path, root: Path) -> list[Path]:
    """Copy the figures and verdicts of a run into the repository and regenerate the tables.

    Parameters
    ----------
    run : Path
        A folder that ``hlm validate`` wrote.
    root : Path
        The repository, with ``figures/`` and ``paper_repro.md``.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    UserError
        If the run has no results or no trace, or a marker is missing.
    """
    results = load_results(run / "claims.json")
    manifest = open_trace(run / "trace").manifest
    written = []
    for figure in sorted((run / "figures").iterdir()):
        written.append(Path(shutil.copy(figure, root / "figures" / figure.name)))
    record = {"run": _run_facts(manifest), "results": json.loads(results.to_json())}
    (root / "figures" / "claims.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page = root / "paper_repro.md"
    text = page.read_text(encoding="utf-8")
    for name, table in tables(root).items():
        text = update_between_markers(text, name, table)
    page.write_text(text, encoding="utf-8")
    return [*written, root / "figures" / "claims.json", page]


def stale_tables(root: Path) -> list[str]:
    """Names of the generated tables of ``paper_repro.md`` that no longer agree with what backs them."""
    return stale(root / "paper_repro.md", tables(root))


def tables(root: Path) -> dict[str, str]:
    """Every generated table, by the name of its marker."""
    try:
        record = json.loads((root / "figures" / "claims.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError("There is no figures/claims.json; run `hlm validate` and `hlm repro`.") from error
    results = Results.from_json(json.dumps(record["results"]))
    return {
        "pair": _pair_table(record["run"], results),
        "claims": claims_table(hlmtheory.all_claims(), results),
        "figures": _figures(root / "figures"),
    }


def _run_facts(manifest: dict[str, Any]) -> dict[str, Any]:
    kept = ("pair", "positions", "vocabulary", "seed", "new_tokens", "created")
    return {name: manifest[name] for name in kept} | {"texts": len(manifest["prompts"])}


def _figures(folder: Path) -> str:
    """Every figure with its caption, which states our numbers beside the printed ones."""
    shown = []
    for sidecar in sorted(folder.glob("*-fig*.json")):
        about = json.loads(sidecar.read_text(encoding="utf-8"))
        picture = f"![{about['figure']}](figures/{sidecar.with_suffix('.svg').name})"
        shown.append(f"{picture}\n\n{about['caption']} Numbers: [`{sidecar.name}`](figures/{sidecar.name}).")
    return "\n\n".join(shown)


def _pair_table(run: dict[str, Any], results: Results) -> str:
    """What the pair is like on the trace, and what its training recorded."""
    pair, summary = run["pair"], results.summary
    rows = [
        ("pair", f"{pair['name']}: {pair['small_parameters']:,} and {pair['large_parameters']:,} parameters"),
        ("vocabulary", f"{run['vocabulary']:,}"),
        ("trace", f"{run['positions']:,} positions after {run['texts']} prompts, seed {run['seed']}"),
        ("acceptance rate, mean", f"{summary['acceptance']:.3f}"),
        ("positions whose likeliest draft has q ≥ 0.9", f"{summary['certain_share']:.1%}"),
        ("positions whose likeliest draft has q ≤ 0.5", f"{summary['uncertain_share']:.1%}"),
    ]
    for name, entries in summary.items():
        if name.startswith("size_for_bias_"):
            bias = float(name.removeprefix("size_for_bias_"))
            rows.append((f"probabilities to send for a bias of at most {bias:.0%}, mean", f"{entries:,.0f}"))
    for size in ("small", "large"):
        card = PAIR_FOLDER / size / "training.json"
        if pair["name"] == "builtin" and card.exists():
            losses = json.loads(card.read_text(encoding="utf-8"))["held_out_nats_per_token"]
            values = ", ".join(f"{source} {loss:.3f}" for source, loss in losses.items())
            rows.append((f"{size} model, held-out nats per token", values))
    return "\n".join(["| what | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
