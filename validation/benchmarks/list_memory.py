"""Measure the largest resident memory and the time of an import of top-k lists, by the number of rows.

    python -m validation.benchmarks.list_memory --rows 100000 --rows 10000000 --out figures/studies/list_memory.json

The files are vLLM's flat ``prompt_logprobs`` in JSONL, written here: texts of 1,000 positions with the top 3 of each. A
child process imports them, so that the memory is that of one import. This needs Linux.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

PLACES, K, VOCABULARY = 1000, 3, 32_000


def write_answers(path: Path, rows: int, seed: int) -> None:
    """Write answers with ``rows`` positions in all; ten texts repeat."""
    rng = np.random.default_rng(seed)
    lines = [_answer(rng) for _ in range(10)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows // PLACES):
            file.write(lines[number % len(lines)])


def _answer(rng: np.random.Generator) -> str:
    """Return one line; the token of the text is always the most probable one."""
    values = np.log(np.sort(rng.dirichlet(np.ones(K + 3), PLACES), axis=1)[:, ::-1][:, :K])
    tokens = 1 + np.argsort(rng.random((PLACES, 64)), axis=1)[:, :K]
    tokens[:, 0] = 0
    tokens, values = (np.concatenate([part[:, :1], part], axis=1) for part in (tokens, values))
    width = K + 1
    starts = [0, *range(0, PLACES * width, width)]
    found: dict[str, Any] = {"start_indices": starts, "end_indices": [0, *(start + width for start in starts[1:])]}
    found |= {"token_ids": tokens.reshape(-1).tolist(), "logprobs": values.round(6).reshape(-1).tolist()}
    found["ranks"] = [1, *range(1, K + 1)] * PLACES
    return json.dumps({"prompt_logprobs": found}, separators=(",", ":")) + "\n"


def import_once(folder: Path) -> dict[str, float]:
    """Import the two files of a folder in this process; return the seconds and the largest resident memory in MB."""
    from validation.collection.answers import open_answers
    from validation.collection.import_lists import import_lists
    from validation.collection.processing import Processing

    plain = Processing()
    draft, target = (open_answers(folder / f"{name}.jsonl", plain) for name in ("draft", "target"))
    began = time.perf_counter()
    trace = import_lists(draft, target, folder / "trace", vocabulary=VOCABULARY, processing=(plain, plain))
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": trace.positions, "seconds": round(seconds, 1), "peak_mb": round(peak, 1)}


def measure(rows: int, folder: Path) -> dict[str, float]:
    """Write the files and import them in a child process."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        for seed, name in enumerate(("draft", "target")):
            write_answers(Path(made) / f"{name}.jsonl", rows, seed)
        size = sum(file.stat().st_size for file in Path(made).iterdir())
        code = (
            "import json, sys; from pathlib import Path; from validation.benchmarks.list_memory import import_once; "
            "print(json.dumps(import_once(Path(sys.argv[1]))))"
        )
        done = subprocess.run([sys.executable, "-c", code, made], check=True, capture_output=True, text=True)
        return {**json.loads(done.stdout), "files_mb": round(size / 1e6, 1)}


@click.command()
@click.option("--rows", multiple=True, type=click.IntRange(PLACES), default=(10**5, 10**7), show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Also write the numbers to this file.")
def main(rows: tuple[int, ...], folder: Path, out: Path | None) -> None:
    """Measure an import at each number of rows, the texts of 1,000 positions."""
    found = [measure(count, folder) for count in rows]
    text = json.dumps({"k": K, "vocabulary": VOCABULARY, "imports": found}, indent=1)
    click.echo(text)
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
