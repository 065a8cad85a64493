"""Measure speed and memory as ratios: ``python -m validation.benchmarks [ROW ...]``."""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from hlmtheory.claims import Claim
from validation.cli.display import open_console
from validation.cli.refusals import refusals
from validation.cli.tables import print_table
from validation.errors import UserError, naming
from validation.models.machine import machine
from validation.provenance import now
from validation.trace.reader import SyntheticTrace, Trace, TraceWriter, open_trace

IMPORTS = {
    "nothing": "pass",
    "numpy": "import numpy",
    "hlmtheory": "import hlmtheory",
    "hlmtheory and its claims": "import hlmtheory; hlmtheory.all_claims()",
    "validation.cli.commands": "import validation.cli.commands",
    "validation.claims.check": "import validation.claims.check",
}
HEADS = ("what", "value", "unit", "against", "ratio")
CHECK_POSITIONS, CHECK_VOCABULARY = 2048, 4096
MEMORY_POSITIONS, MEMORY_VOCABULARY, MEMORY_LIMIT = 10_000, 32_000, 1.5e9

STREAMED = (
    "verification.tokens",
    "skipping.mean_rejection",
    "truncation.softplus",
    "lattice.dropped_mass",
    "channel.downlink",
    "shared_seed.match",
)
"""One claim of each module that a trace serves; not the slowest, because 10^6 positions take an hour."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: a value and its ratio to a reference of the same run."""

    what: str
    value: float
    unit: str
    against: str
    ratio: float  # value divided by that of ``against``


def resident(name: str) -> int:
    """Return the bytes of this process's memory on Linux, now (VmRSS) or at its peak (VmHWM)."""
    status = Path("/proc/self/status")
    if not status.exists():
        raise UserError(f"Memory is read from {status}, which this system lacks; leave this row out.")
    lines = status.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def stored(trace: SyntheticTrace, path: Path) -> Trace:
    with TraceWriter(path, trace.vocabulary) as writer:
        for chunk in trace.chunks(256):
            writer.append(**chunk.arrays)
    return open_trace(path)


def measure_imports(repeats: int = 7) -> list[Measurement]:
    """Measure the time to start Python and import the packages, against numpy alone; the minimum of several runs."""
    best = dict.fromkeys(IMPORTS, float("inf"))
    for _ in range(repeats):
        for name, code in IMPORTS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            best[name] = min(best[name], time.perf_counter() - began)
    return [Measurement(f"import {n}", 1e3 * s, "ms", "import numpy", s / best["numpy"]) for n, s in best.items()]


def measure_check(positions: int = CHECK_POSITIONS, vocabulary: int = CHECK_VOCABULARY) -> list[Measurement]:
    """Measure the positions per second of the check by module, against reading alone."""
    from validation.claims.check import block_rows, check_trace

    with tempfile.TemporaryDirectory() as folder:
        trace = stored(SyntheticTrace(positions, vocabulary), Path(folder, "trace"))
        began = time.perf_counter()
        for chunk in trace.chunks(block_rows(vocabulary)):
            del chunk
        read = positions / (time.perf_counter() - began)
        measured = [Measurement("read", read, "positions/s", "read", 1.0)]
        for module, claims in _modules().items():
            began = time.perf_counter()
            check_trace(trace, claims=claims)
            speed = positions / (time.perf_counter() - began)
            measured.append(Measurement(module, speed, "positions/s", "read", speed / read))
    return measured


def _modules() -> dict[str, dict[str, Claim]]:
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
    code = f"from validation.benchmarks import stream; print(stream({positions}, {vocabulary}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout)


def stream(positions: int, vocabulary: int) -> int:
    """Check one claim of each module on a synthetic trace; return this process's peak growth in bytes."""
    import hlmtheory
    from validation.claims.check import check_trace

    chosen = {name.split(".")[0]: claim for name, claim in reversed(hlmtheory.all_claims().items())}
    chosen |= {name.split(".")[0]: hlmtheory.all_claims()[name] for name in STREAMED}
    first = {claim.id: claim for claim in chosen.values()}
    before = resident("VmRSS")
    check_trace(SyntheticTrace(positions, vocabulary), claims=first)  # type: ignore[arg-type]
    return max(resident("VmHWM") - before, 1)


ROWS: dict[str, Callable[[], list[Measurement]]] = {
    "import": measure_imports,
    "check": measure_check,
    "memory": measure_memory,
}


def save(path: Path, name: str, measured: list[Measurement], command: str) -> None:
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows[name] = {
        "date": now(),
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
    """Measure the named ROWS, or all."""
    console = open_console()
    for name in rows or ROWS:
        with refusals(), console.status(f"Measuring {name}"), naming(out):
            measured = ROWS[name]()
            save(out, name, measured, shlex.join(["python", "-m", "validation.benchmarks", *sys.argv[1:]]))
        lines = [[line.what, f"{line.value:,.4g}", line.unit, line.against, f"{line.ratio:.3g}"] for line in measured]
        print_table(console, name, HEADS, lines, left=("what", "unit", "against"))


if __name__ == "__main__":
    main()
