"""Measure speed and memory as ratios: ``python -m validation.benchmarks [ROW ...]``.

A ratio compares two quantities measured in succession on one machine, so it depends less on the machine than either.
Rounds of variants alternate, so that another process that runs for a while disturbs all of them alike. A sampled text
may be lucky, so each turn of ``generate`` has a seed of its own, and all its turns count together. Each row takes
minutes and is written to ``runs/bench.json`` when it is done.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console
from validation.cli.refusals import refusals
from validation.errors import UserError, naming
from validation.models.machine import machine
from validation.trace.reader import SyntheticTrace, Trace, TraceWriter, open_trace

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
CHECK_POSITIONS, CHECK_VOCABULARY = 2048, 4096
MEMORY_POSITIONS, MEMORY_VOCABULARY, MEMORY_LIMIT = 10_000, 32_000, 1.5e9


NEW_TOKENS, ROUNDS, BATCHES, DRAFTS = 64, 6, (1, 8), 4
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
    """Store a synthetic trace and open it."""
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
    code = f"from validation.benchmarks import stream; print(stream({positions}, {vocabulary}))"
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


def measure_generate(
    pair: Pair | None = None,
    prompts: Sequence[Prompt] | None = None,
    new_tokens: int = NEW_TOKENS,
    rounds: int = ROUNDS,
    batches: Sequence[int] = BATCHES,
) -> list[Measurement]:
    """Measure tokens per second against transformers' ``generate``, with and without assistant.

    transformers takes an assistant for one sequence at a time, so that a batch is generated one after the other. Its
    assistant stops after a draft of which it is unsure, and then makes fewer passes than for a fixed number of drafts.
    So it is measured as it is, and with as many drafts as ours.
    """
    from validation.collection.prompts import builtin_prompts
    from validation.decoding.methods.multi_draft import FixedLength
    from validation.decoding.methods.single_draft import Hlm, TargetOnly
    from validation.models.pair import load_pair

    pair = pair or load_pair("builtin", device="auto")
    known = prompts or builtin_prompts(limit=max(batches))
    methods = (TargetOnly(), FixedLength(DRAFTS), Hlm())
    measured = []
    for size in batches:
        some = known[:size]
        alone = [[prompt] for prompt in some]
        assisted = partial(_generated, pair, alone, new_tokens, assistant_model=pair.draft)
        runs: dict[str, Callable[[int], int]] = {
            "generate": partial(_generated, pair, [some], new_tokens),
            "generate with assistant": assisted,
            f"generate with assistant, K = {DRAFTS}": drafting(pair.draft, DRAFTS)(assisted),
        }
        runs |= {f"ours, {method.name}": partial(_ours, pair, some, method, new_tokens) for method in methods}
        speeds = _speeds(runs, rounds)
        measured += [
            Measurement(f"batch {size}, {name}", speed, "tokens/s", "generate", speed / speeds["generate"])
            for name, speed in speeds.items()
        ]
    return measured


def _ours(pair: Pair, prompts: Sequence[Prompt], method: Any, new_tokens: int, seed: int) -> int:
    """Return the number of tokens that our loop decodes."""
    from validation.decoding.loop import decode

    records = decode(pair, prompts, method, new_tokens=new_tokens, batch=len(prompts), seed=seed)
    return sum(len(record.tokens) for record in records)


@contextmanager
def drafting(assistant: Any, count: int) -> Iterator[None]:
    """Let an assistant of transformers draft this many tokens in every round, however unsure it is."""
    config = assistant.generation_config
    chosen = {
        "num_assistant_tokens": count,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    before = {name: getattr(config, name) for name in chosen}
    try:
        vars(config).update(chosen)
        yield
    finally:
        vars(config).update(before)


def _generated(pair: Pair, groups: Sequence[Sequence[Prompt]], new_tokens: int, seed: int, **options: Any) -> int:
    """Return the number of tokens that transformers generates for groups of prompts, padded on the left."""
    import torch

    torch.manual_seed(seed)
    pad, count = (pair.end_tokens or (0,))[0], 0
    for group in groups:
        ids = [pair.tokenizer(prompt.text)["input_ids"] for prompt in group]
        width = max(map(len, ids))
        padded = torch.tensor([[pad] * (width - len(tokens)) + tokens for tokens in ids], device=pair.device)
        mask = torch.tensor([[0] * (width - len(tokens)) + [1] * len(tokens) for tokens in ids], device=pair.device)
        with torch.inference_mode():
            text = pair.target.generate(
                padded,
                attention_mask=mask,
                do_sample=True,
                top_k=0,
                max_new_tokens=new_tokens,
                pad_token_id=pad,
                **options,
            )
        for row in text[:, width:].tolist():
            ends = [place for place, token in enumerate(row) if token in pair.end_tokens]
            count += min(ends[0] + 1, len(row)) if ends else len(row)
    return count


def _speeds(runs: Mapping[str, Callable[[int], int]], rounds: int) -> dict[str, float]:
    """Return the number per second of each run, over alternating rounds, each with its seed, behind a warm-up round."""
    counts, seconds = dict.fromkeys(runs, 0), dict.fromkeys(runs, 0.0)
    for turn in range(rounds + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            count = run(turn)
            if turn:
                counts[name] += count
                seconds[name] += time.perf_counter() - began
    return {name: counts[name] / seconds[name] for name in runs}


ROWS: dict[str, Callable[[], list[Measurement]]] = {
    "import": measure_imports,
    "check": measure_check,
    "generate": measure_generate,
    "memory": measure_memory,
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
    """Measure the named ROWS, or all."""
    from rich.table import Table

    console = open_console()
    for name in rows or ROWS:
        with refusals(), console.status(f"Measuring {name}"), naming(out):
            measured = ROWS[name]()
            save(out, name, measured, shlex.join(["python", "-m", "validation.benchmarks", *sys.argv[1:]]))
        table = Table("what", "value", "unit", "against", "ratio", title=name)
        for line in measured:
            table.add_row(line.what, f"{line.value:,.4g}", line.unit, line.against, f"{line.ratio:.3g}")
        console.print(table)


if __name__ == "__main__":
    main()
