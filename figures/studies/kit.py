"""What studies share: arguments, stamps and records of results, rows of a trace, intervals over prompts, pictures."""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.plots.common import stored
from validation.plots.common.record import plain
from validation.plots.common.style import canvas, house_style, save
from validation.provenance import commit_of_code, now
from validation.trace.reader import Trace, probabilities

Array = NDArray[Any]
SHELF = Path(__file__).parent
ROWS, RESAMPLES = 256, 2_000

MAIN = {
    "acceptance_by_depth": "acceptance_replay",
    "aligned_draft": "measure",
    "audit_software": "audit_software",
    "block_verification": "measure",
    "c_sqs": "decode_texts",
    "edge_sd_plans": "measure",
    "flexspec_tables": "decode_rows",
    "gpu": "measure",
    "growth": "measure",
    "multi_draft": "measure",
    "plan": "plan_study",
    "policy_bound": "brute_force",
    "running_link": "measure",
    "shared_seed": "measure",
    "smollm2_findings": "measure",
    "speed_of_light": "measure",
    "vllm": "measure",
}
"""The script that ``hlm study NAME`` runs, by study; a README names the others."""


def given(text: str | None, *places: str, **options: Any) -> argparse.Namespace:
    """Read the command line: paths by position, then options with their defaults."""
    parser = argparse.ArgumentParser(description=(text or "").splitlines()[0])
    for name in places:
        parser.add_argument(name.removesuffix("*"), type=Path, nargs="+" if name.endswith("*") else None)
    for name, default in options.items():
        word = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(word, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(word, type=default)
        elif isinstance(default, tuple):
            parser.add_argument(word, nargs="+", default=default)
        else:
            parser.add_argument(word, type=type(default), default=default)
    return parser.parse_args()


def stamp() -> dict[str, Any]:
    """Return what says where a result is from: command, commit and CPU seconds."""
    script = Path(sys.argv[0]).resolve().relative_to(SHELF.parents[1])
    command = " ".join(["python3", str(script), *(Path(word).name for word in sys.argv[1:])])
    return {"command": command, "commit": commit_of_code(), "cpu_s": round(time.process_time())}


def store(out: Path, found: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Write a result with its stamp, and print where it is."""
    out.write_text(json.dumps({**stamp(), **found}, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")
    print(out)


def record(name: str, file: Path, *, command: str, models: str, data: str, commit: str) -> None:
    """Record a stored experiment: its file with checksum, commit and date, its command, models and data."""
    about = {
        "file": file.resolve().relative_to(stored.ROOT).as_posix(),
        "digest": stored.digest(file),
        "commit": commit,
        "date": now()[:10],
        "command": command,
        "models": models,
        "data": data,
    }
    known = stored.records() if stored.RECORDS.exists() else {}
    text = json.dumps(dict(sorted({**known, name: about}.items())), indent=1, ensure_ascii=False)
    stored.RECORDS.write_text(text + "\n", encoding="utf-8")


def read(path: Path) -> Any:
    """Return what a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def blocks(trace: Trace, every: int = 1, size: int = ROWS) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the places of every n-th position of a trace, in blocks, and the logits of draft and target there."""
    rows = np.arange(0, trace.positions, every)
    for some in np.array_split(rows, -(-len(rows) // size)):
        whole = slice(int(some[0]), int(some[-1]) + 1)
        q, p = (np.asarray(trace.arrays[f"{side}_logits"][whole])[::every] for side in ("draft", "target"))
        yield some, q, p


def laws(trace: Trace, every: int = 1, size: int = ROWS) -> Iterator[tuple[Array, Array, Array]]:
    """Yield places, q and p, as :func:`blocks`."""
    for some, q, p in blocks(trace, every, size):
        yield some, probabilities(q), probabilities(p)


def mean_interval(values: Array, prompts: Array) -> list[float]:
    """Return the mean of positions with its 95% interval of a bootstrap over prompts."""
    index = np.unique(prompts, return_inverse=True)[1]
    sums, counts = np.bincount(index, values), np.bincount(index)
    picks = np.random.default_rng(1).integers(0, len(sums), (RESAMPLES, len(sums)))
    ends = np.quantile(sums[picks].sum(axis=1) / counts[picks].sum(axis=1), [0.025, 0.975])
    return [float(one) for one in (values.mean(), *ends)]


def means(parts: Sequence[Mapping[str, Array]], prompts: Array) -> dict[str, list[float]]:
    """Return mean and interval of each column of blocks of positions."""
    return {name: plain(mean_interval(np.concatenate([part[name] for part in parts]), prompts), 5) for name in parts[0]}


@contextmanager
def picture(path: Path, size: tuple[float, float], panels: int = 1) -> Iterator[tuple[Any, Any]]:
    """Give a figure in the house style and its panels, and save it under the name of the numbers."""
    with house_style():
        figure, axes = canvas(size, panels)
        yield figure, axes
        save(figure, path.with_suffix(".svg"))


def legend(figure: Any, axes: Any, columns: int) -> None:
    """Put the labels of the first panel below the figure, once."""
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)
