"""Measure speed and memory as ratios: ``python -m validation.benchmarks [ROW ...]``.

A ratio compares two quantities measured in succession on one machine, so it depends less on the machine than either.
``memory-full`` streams 10^6 positions, takes about an hour, and runs only if it is named. The other rows of ``ROWS``
take minutes. Each row is written to ``runs/bench.json`` when it is done.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from validation.benchmarks.measurement import STREAMED, Measurement, resident, stored
from validation.cli.display import open_console
from validation.cli.refusals import refusals
from validation.errors import naming
from validation.models.machine import machine
from validation.trace.synthetic import SyntheticTrace

if TYPE_CHECKING:
    from hlmtheory.claims import Claim
    from validation.collection.prompts import Prompt
    from validation.models.pair import Pair

IMPORTS = {
    "nothing": "pass",
    "numpy": "import numpy",
    "hlmtheory": "import hlmtheory",
    "hlmtheory and its claims": "import hlmtheory; hlmtheory.all_claims()",
    "validation.cli.commands": "import validation.cli.commands",
    "validation.claims.check": "import validation.claims.check",
}
COLLECTED_POSITIONS = 2000
CHECK_POSITIONS, CHECK_VOCABULARY = 2048, 4096
MEMORY_POSITIONS, MEMORY_VOCABULARY, MEMORY_LIMIT = 10_000, 32_000, 1.5e9


# --------------------------------------------------------------------------------------------------------- rows


def measure_imports(repeats: int = 7) -> list[Measurement]:
    """Measure the time to start Python and import the packages, against numpy alone; the minimum of several runs."""
    best = dict.fromkeys(IMPORTS, float("inf"))
    for _ in range(repeats):
        for name, code in IMPORTS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            best[name] = min(best[name], time.perf_counter() - began)
    return [Measurement(f"import {n}", 1e3 * s, "ms", "import numpy", s / best["numpy"]) for n, s in best.items()]


def measure_collection(pair: Pair, prompts: Sequence[Prompt], **settings: int) -> list[Measurement]:
    """Measure the positions per second of a collection with storage, against its forward passes alone."""
    from validation.benchmarks.collection import measure_pace

    pace = measure_pace(pair, prompts, **settings)
    bare, whole = (sum(pace.positions) / sum(seconds) for seconds in (pace.forwards, pace.collection))
    return [
        Measurement("forward passes", bare, "positions/s", "forward passes", 1.0),
        Measurement("collect", whole, "positions/s", "forward passes", pace.ratio),
    ]


def measure_check(positions: int = CHECK_POSITIONS, vocabulary: int = CHECK_VOCABULARY) -> list[Measurement]:
    """Measure the positions per second of the check by module, on numpy, torch and a GPU, against reading alone."""
    import torch

    from validation.claims.check import block_rows, check_trace

    places = ["numpy", "cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    with tempfile.TemporaryDirectory() as folder:
        trace = stored(SyntheticTrace(positions, vocabulary), Path(folder, "trace"))
        began = time.perf_counter()
        for chunk in trace.chunks(block_rows(vocabulary)):
            del chunk
        read = positions / (time.perf_counter() - began)
        measured = [Measurement("read", read, "positions/s", "read", 1.0)]
        for module, claims in _modules().items():
            speeds = {}
            for place in places:
                began = time.perf_counter()
                check_trace(trace, claims=claims, device=place)
                what = f"{module}, {place if place == 'numpy' else f'torch {place}'}"
                speeds[what] = positions / (time.perf_counter() - began)
            plain = f"{module}, numpy"
            measured += [
                Measurement(what, speed, "positions/s", "read", speed / read) for what, speed in speeds.items()
            ]
            measured += [
                Measurement(what, speed, "positions/s", plain, speed / speeds[plain])
                for what, speed in speeds.items()
                if what != plain
            ]
    return measured


def _modules() -> dict[str, dict[str, Claim]]:
    """Return the claims that a trace serves, by module."""
    import hlmtheory
    from validation.claims.instances import scenarios

    modules: dict[str, dict[str, Claim]] = {}
    simulated = scenarios()
    for name, claim in hlmtheory.all_claims().items():
        if name not in simulated:
            modules.setdefault(name.split(".")[0], {})[name] = claim
    return modules


def measure_memory(positions: int = MEMORY_POSITIONS, vocabulary: int = MEMORY_VOCABULARY) -> list[Measurement]:
    """Measure peak memory growth while one claim per module checks a synthetic trace, against a tenth of its length."""
    resident("VmHWM")  # raises if the memory cannot be read
    short, long = (_peak_in_child(count, vocabulary) for count in (max(positions // 10, 1), positions))
    name = f"{positions:,} positions at V = {vocabulary:,}"
    return [
        Measurement(name, long / 1e6, "MB", "a tenth as many", long / short),
        Measurement(name, long / 1e6, "MB", f"the limit, {MEMORY_LIMIT / 1e6:,.0f} MB", long / MEMORY_LIMIT),
    ]


def _peak_in_child(positions: int, vocabulary: int) -> int:
    code = f"from validation.benchmarks.__main__ import stream; print(stream({positions}, {vocabulary}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout)


def stream(positions: int, vocabulary: int) -> int:
    """Check one claim of each module on a synthetic trace; return this process's peak growth in bytes.

    For a module that a trace serves, the claim is that of ``STREAMED``; for the others, a simulated one.
    """
    import hlmtheory
    from validation.claims.check import check_trace

    chosen = {name.split(".")[0]: claim for name, claim in reversed(hlmtheory.all_claims().items())}
    chosen |= {name.split(".")[0]: hlmtheory.all_claims()[name] for name in STREAMED}
    first = {claim.id: claim for claim in chosen.values()}
    before = resident("VmRSS")
    check_trace(SyntheticTrace(positions, vocabulary), claims=first)  # type: ignore[arg-type]
    return max(resident("VmHWM") - before, 1)


# ------------------------------------------------------------------------------------------------- the command


def _measure_builtin() -> list[Measurement]:
    from validation.collection.prompts import builtin_prompts
    from validation.models.pair import load_pair

    return measure_collection(load_pair(device="auto"), builtin_prompts(), positions=COLLECTED_POSITIONS)


ROWS: dict[str, Callable[[], list[Measurement]]] = {
    "import": measure_imports,
    "collection": _measure_builtin,
    "check": measure_check,
    "decoding": lambda: import_module("validation.benchmarks.decoding").measure_decoding(),
    "verification": lambda: import_module("validation.benchmarks.decoding").measure_verification(),
    "edge": lambda: import_module("validation.benchmarks.planning").measure(),
    "codec": lambda: import_module("validation.benchmarks.codec").measure(),
    "relay": lambda: import_module("validation.benchmarks.relay").measure(),
    "truncation": lambda: import_module("validation.benchmarks.truncation").measure(),
    "generate": lambda: import_module("validation.benchmarks.speed").measure_generate(),
    "threads": lambda: import_module("validation.benchmarks.speed").measure_threads(),
    "bandwidth": lambda: import_module("validation.benchmarks.speed").measure_bandwidth(),
    "pareto": lambda: import_module("validation.benchmarks.plans").measure_plans(),
    "memory": measure_memory,
    "memory-full": lambda: measure_memory(10**6),
}


def save(path: Path, name: str, measured: list[Measurement], command: str) -> None:
    """Write one row into the file of results and keep the other rows."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows[name] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "command": command,
        "measurements": [asdict(line) for line in measured],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@click.command()
@click.argument("rows", nargs=-1, type=click.Choice(list(ROWS)))
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/bench.json"), show_default=True)
def main(rows: tuple[str, ...], out: Path) -> None:
    """Measure the named ROWS, or all but memory-full."""
    from rich.table import Table

    console = open_console()
    for name in rows or [name for name in ROWS if name != "memory-full"]:
        with refusals(), console.status(f"Measuring {name}"), naming(out):
            measured = ROWS[name]()
            save(out, name, measured, shlex.join(["python", "-m", "validation.benchmarks.__main__", *sys.argv[1:]]))
        table = Table("what", "value", "unit", "against", "ratio", title=name)
        for line in measured:
            table.add_row(line.what, f"{line.value:,.4g}", line.unit, line.against, f"{line.ratio:.3g}")
        console.print(table)


if __name__ == "__main__":
    main()
