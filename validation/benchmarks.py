"""Measure the speed of a check by module, against reading alone: ``python -m validation.benchmarks``."""

import tempfile
import time
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
from validation.trace.reader import SyntheticTrace, TraceWriter, open_trace

CHECK_POSITIONS, CHECK_VOCABULARY = 2048, 4096


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: positions per second, and their ratio to those of reading alone."""

    what: str
    value: float
    ratio: float


def measure_check(positions: int = CHECK_POSITIONS, vocabulary: int = CHECK_VOCABULARY) -> list[Measurement]:
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
        measured = [Measurement("read", read, 1.0)]
        for module, claims in modules.items():
            began = time.perf_counter()
            check_trace(trace, claims=claims)
            speed = positions / (time.perf_counter() - began)
            measured.append(Measurement(module, speed, speed / read))
    return measured


@click.command()
def main() -> None:
    """Measure the check of a synthetic trace."""
    console = open_console()
    with refusals(), console.status("Measuring the check"):
        measured = measure_check()
    lines = [[line.what, f"{line.value:,.4g}", f"{line.ratio:.3g}"] for line in measured]
    print_table(console, "check", ("what", "positions/s", "against read"), lines)


if __name__ == "__main__":
    main()
