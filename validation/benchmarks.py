"""Measure the check of the claims, its speed or its memory: ``python -m validation.benchmarks check|memory``."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hlmtheory
from hlmtheory.claims import Claim
from validation.claims.check import block_rows, check_trace
from validation.claims.instances import scenarios
from validation.trace.reader import SyntheticTrace, TraceWriter, open_trace

STREAMED = (
    *("verification.tokens", "skipping.mean_rejection", "truncation.softplus"),
    *("lattice.dropped_mass", "channel.downlink", "shared_seed.match"),
)
"""One claim of each module that a trace serves; not the slowest, because 10^6 positions take an hour."""


def speeds(positions: int = 2048, vocabulary: int = 4096) -> dict[str, float]:
    """Return positions per second: of reading a stored trace alone, and of the check of each module's claims."""
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
        found = {"read": positions / (time.perf_counter() - began)}
        for module, claims in modules.items():
            began = time.perf_counter()
            check_trace(trace, claims=claims)
            found[module] = positions / (time.perf_counter() - began)
    return found


def peak_growth(positions: int, vocabulary: int) -> int:
    """Check one claim of each module on a synthetic trace; return the bytes that this process grew by on Linux."""
    chosen = {name.split(".")[0]: claim for name, claim in reversed(hlmtheory.all_claims().items())}
    chosen |= {name.split(".")[0]: hlmtheory.all_claims()[name] for name in STREAMED}
    first = {claim.id: claim for claim in chosen.values()}
    before = _resident("VmRSS")
    check_trace(SyntheticTrace(positions, vocabulary), claims=first)  # type: ignore[arg-type]
    return max(_resident("VmHWM") - before, 1)


def _resident(name: str) -> int:
    """Return the bytes of this process's memory now (VmRSS) or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def main(measured: str = "check") -> None:
    if measured == "memory":  # of a process of its own for each length, because a peak never falls
        for positions in (1_000, 10_000):
            code = f"from validation.benchmarks import peak_growth; print(peak_growth({positions}, 32_000))"
            done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
            print(f"{positions:6,} positions at V = 32,000: {int(done.stdout) / 1e6:.1f} MB")
    else:
        found = speeds()
        for name, speed in found.items():
            print(f"{name:15} {speed:10,.0f} positions/s, {speed / found['read']:.3g} of reading")


if __name__ == "__main__":
    main(*sys.argv[1:])
