"""Measure a check's speed and memory as ratios: ``python -m validation.benchmarks [ROW ...]``."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

import hlmtheory
from hlmtheory.claims import Claim
from validation.claims.check import block_rows, check_trace
from validation.claims.instances import scenarios
from validation.cli.display import open_console
from validation.cli.refusals import refusals
from validation.cli.tables import print_table
from validation.errors import UserError
from validation.trace.reader import SyntheticTrace, TraceWriter, open_trace

HEADS = ("what", "value", "unit", "against", "ratio")
CHECK_POSITIONS, CHECK_VOCABULARY = 2048, 4096
MEMORY_POSITIONS, MEMORY_VOCABULARY, MEMORY_LIMIT = 10_000, 32_000, 1.5e9

STREAMED = (
    *("verification.tokens", "skipping.mean_rejection", "truncation.softplus"),
    *("lattice.dropped_mass", "channel.downlink", "shared_seed.match"),
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


def measure_check(positions: int = CHECK_POSITIONS, vocabulary: int = CHECK_VOCABULARY) -> list[Measurement]:
    """Measure the positions per second of the check by module, against reading alone."""
    modules: dict[str, dict[str, Claim]] = {}
    for name, claim in hlmtheory.all_claims().items():
        if name not in scenarios():
            modules.setdefault(name.split(".")[0], {})[name] = claim
    with tempfile.TemporaryDirectory() as folder:
        with TraceWriter(Path(folder, "trace"), vocabulary) as writer:
            for chunk in SyntheticTrace(positions, vocabulary).chunks(256):
                writer.append(**chunk.arrays)
        trace = open_trace(Path(folder, "trace"))
        began = time.perf_counter()
        for chunk in trace.chunks(block_rows(vocabulary)):
            del chunk
        read = positions / (time.perf_counter() - began)
        measured = [Measurement("read", read, "positions/s", "read", 1.0)]
        for module, claims in modules.items():
            began = time.perf_counter()
            check_trace(trace, claims=claims)
            speed = positions / (time.perf_counter() - began)
            measured.append(Measurement(module, speed, "positions/s", "read", speed / read))
    return measured


def measure_memory() -> list[Measurement]:
    """Measure peak memory growth while one claim per module checks a synthetic trace, against a tenth of its length."""
    resident("VmHWM")  # raises if the memory cannot be read
    peaks = []
    for positions in (MEMORY_POSITIONS // 10, MEMORY_POSITIONS):
        code = f"from validation.benchmarks import stream; print(stream({positions}, {MEMORY_VOCABULARY}))"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        peaks.append(int(done.stdout))
    name = f"{MEMORY_POSITIONS:,} positions at V = {MEMORY_VOCABULARY:,}"
    return [
        Measurement(name, peaks[1] / 1e6, "MB", "a tenth as many", peaks[1] / peaks[0]),
        Measurement(name, peaks[1] / 1e6, "MB", f"the limit, {MEMORY_LIMIT / 1e6:,.0f} MB", peaks[1] / MEMORY_LIMIT),
    ]


def stream(positions: int, vocabulary: int) -> int:
    """Check one claim of each module on a synthetic trace; return this process's peak growth in bytes."""
    chosen = {name.split(".")[0]: claim for name, claim in reversed(hlmtheory.all_claims().items())}
    chosen |= {name.split(".")[0]: hlmtheory.all_claims()[name] for name in STREAMED}
    first = {claim.id: claim for claim in chosen.values()}
    before = resident("VmRSS")
    check_trace(SyntheticTrace(positions, vocabulary), claims=first)  # type: ignore[arg-type]
    return max(resident("VmHWM") - before, 1)


ROWS: dict[str, Callable[[], list[Measurement]]] = {"check": measure_check, "memory": measure_memory}


@click.command()
@click.argument("rows", nargs=-1, type=click.Choice(list(ROWS)))
def main(rows: tuple[str, ...]) -> None:
    """Measure the named ROWS, or all."""
    console = open_console()
    for name in rows or ROWS:
        with refusals(), console.status(f"Measuring {name}"):
            measured = ROWS[name]()
        lines = [[line.what, f"{line.value:,.4g}", line.unit, line.against, f"{line.ratio:.3g}"] for line in measured]
        print_table(console, name, HEADS, lines, left=("what", "unit", "against"))


if __name__ == "__main__":
    main()
