"""Audit packages of others by the adapters of ``examples/audits``; store each verdict, and write the README's table."""

import json
import sys
from collections.abc import Iterator
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from figures.studies.kit import SHELF, given, read
from validation.audit import Processors, TableLaw, audit_sampler

ADAPTERS = SHELF.parents[1] / "examples" / "audits"
README = SHELF / "audit_software" / "README.md"
LEVEL, EPSILON, SEED, DRAWS = 0.001, 0.1, 1, 8_000
KEYS = ("package", "version", "date", "call", "settings")
TABLE = ("package", "call", "settings", "verdict", "draws", "total variation", "adapter's lines")


def adapters() -> Iterator[tuple[str, str, Path]]:
    """Yield package, installed version and file of each adapter whose package is installed."""
    for place in sorted(ADAPTERS.glob("audit_*.py")):
        package = place.stem.removeprefix("audit_").replace("_", "-")
        try:
            yield package, version(package), place
        except PackageNotFoundError:
            print(f"{place.name}: the package {package} is not installed")


def audited(module: Any, name: str, settings: dict[str, Any], draws: int) -> dict[str, Any]:
    """Return verdict, draws and distance of one sampler of an adapter."""
    tables = getattr(module, "TABLES", None) or import_module("toy").tables()
    processors = Processors(**settings)
    target, draft = (TableLaw(tables[side], tables["prompts"], (), processors) for side in ("target", "draft"))
    sample = getattr(module, name)
    try:
        report = audit_sampler(
            target, sample, draft=draft, draws=draws, depth=target.depth, level=LEVEL, epsilon=EPSILON, seed=SEED
        )
    except Exception as error:  # other people's code: what it raises is the answer
        return {"verdict": "raises", "raised": f"{type(error).__name__}: {error}"[:200]}
    found: dict[str, Any] = {"verdict": report.verdict, "draws": report.draws}
    found |= {key: round(getattr(report, key), 6) for key in ("at_least", "at_most", "at_most_on_cells")}
    found |= {"mechanisms": [fit.name for fit in report.mechanisms or ()]}
    if getattr(sample, "draw", None):
        found["exact"] = exact_distance(target, sample.draw)
    return found


def exact_distance(law: TableLaw, draw: Any) -> float:
    """Return the total variation of the enumerated law from the target's, in the mean over the prompts."""
    texts = np.array(list(product(range(law.vocabulary), repeat=law.depth)))
    distances = []
    for number, prompt in enumerate(law.prompts):
        rows = law.next_rows(number, texts)
        expected = np.take_along_axis(rows, texts[..., None], axis=-1)[..., 0].prod(axis=-1)
        found = import_module("exact").text_law(draw, prompt, law.depth)
        given_laws = np.array([found.get(tuple(text), 0.0) for text in texts.tolist()])
        distances.append(0.5 * (np.abs(given_laws - expected).sum() + 1 - given_laws.sum()))
    return round(float(np.mean(distances)), 6)


def cells(row: dict[str, Any]) -> list[str]:
    """Return a row of the README's table."""
    settings = ", ".join(f"{key}={value:g}" for key, value in row["settings"].items())
    distance = ""
    if "exact" in row:
        distance = f"{row['exact']:.3f}"
    elif "draws" in row:
        cells_only = row["at_most"] == 1 > row["at_most_on_cells"]
        most = row["at_most_on_cells"] if cells_only else row["at_most"]
        distance = f"{row['at_least']:.2g}–{most:.2g}" + " on cells" * cells_only
    verdict = f"**{row['verdict']}**" if row["verdict"] in ("not kept", "raises") else row["verdict"]
    verdict += f" ({row['mechanisms'][0]})" if row.get("mechanisms") else ""
    adapter = row.get("adapter")
    lines = len((ADAPTERS / adapter).read_text(encoding="utf-8").splitlines()) if adapter else 0
    where = f"[{lines}](../../../examples/audits/{adapter})" if adapter else row["date"]
    drawn = f"{row['draws']:,}" if "draws" in row else ""
    return [f"{row['package']} {row['version']}", f"`{row['call']}`", settings, verdict, drawn, distance, where]


def table(rows: list[dict[str, Any]]) -> str:
    """Return the README's table of stored audits."""
    lines = [TABLE, ["---"] * len(TABLE), *map(cells, rows)]
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)


def write_table(out: Path) -> None:
    """Put the table of a result file in the place of the README's table."""
    before, rest = README.read_text(encoding="utf-8").split("|package", 1)
    after = rest[rest.index("\n\n") + 1 :]
    README.write_text(before + table(read(out)["audits"]) + after, encoding="utf-8")


def main() -> None:
    """Audit what is installed, put the rows into OUT, and write the README's table."""
    asked = given(__doc__, "out", only="", draws=DRAWS)
    sys.path.insert(0, str(ADAPTERS))
    stored = read(asked.out)
    rows = {(row["package"], row["call"], str(row["settings"])): row for row in stored["audits"]}
    for package, release, place in adapters():
        if asked.only not in package:
            continue
        module = import_module(place.stem)
        for name, (call, settings) in module.CALLS.items():
            values = (package, release, date.today().isoformat(), call, settings)
            row: dict[str, Any] = dict(zip(KEYS, values, strict=True))
            row |= {"adapter": place.name, **audited(module, name, settings, asked.draws)}
            print(*cells(row), flush=True)
            rows[package, call, str(settings)] = row
            ordered = sorted(rows.values(), key=lambda row: row["package"].lower())
            asked.out.write_text(json.dumps(stored | {"audits": ordered}, indent=1) + "\n", encoding="utf-8")
    write_table(asked.out)


if __name__ == "__main__":
    main()
