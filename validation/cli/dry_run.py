"""The estimate of ``hlm validate --dry-run``: what a run of a pair costs, before anything is started."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from validation.cli.display import waiting
from validation.cli.run import print_json
from validation.cli.tables import print_table, say

if TYPE_CHECKING:
    from rich.console import Console

    from validation.claims.cost import Cost
    from validation.cli.collect import Collection


def show_dry_run(console: Console, asked: Collection, *, figures: bool, all_claims: bool, as_json: bool) -> None:
    """Print the cost of a run; nothing is stored or downloaded."""
    from validation.claims.cost import Asked, cost_of_pair
    from validation.collection.collect import encode_prompts

    os.environ["HF_HUB_OFFLINE"] = "1"
    prompts, settings = asked.read_prompts(), asked.settings
    size = Asked(settings["positions"], settings["new_tokens"], len(prompts), figures, all_claims, asked.models.memory)
    pair = asked.models.load(console)
    loading_s = time.process_time()  # since this process began
    encoded = encode_prompts(pair, prompts, size.new_tokens)
    with waiting(console, "timing the models") as caption:
        cost = cost_of_pair(pair, encoded, size, settings["seed"], loading_s, caption)
    _show(console, cost)
    if as_json:
        print_json(cost.as_json())


def _show(console: Console, cost: Cost) -> None:
    stages = ", ".join(f"{_bytes(size)} for {name}" for name, size in cost.memory.items())
    say(
        console,
        f"{cost.positions:,} positions in {cost.batches:,} batches, V = {cost.vocabulary:,}. Disk: "
        f"{_bytes(cost.disk)}.",
        f"Memory: {stages} ({cost.workers} processes).",
    )
    rows = []
    for step in cost.steps:
        count = f"{step.count:,.0f} {step.unit}" if step.unit not in ("run", "pair") else "once"
        rows.append([step.name, count, _time(step.each_s), _time(step.cpu_s), f"{step.origin}: {step.source}"])
    rows.append(["all", "", "", _time(cost.cpu_s), ""])
    print_table(console, "Steps", ("step", "count", "each", "CPU time", "from"), rows, left=("step", "from"))
    whole = f"In all {_time(cost.cpu_s)} of CPU time, so {_time(cost.wall_s)} on idle cores. Nothing was started."
    say(console, *cost.remarks, whole)


def _bytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _time(seconds: float) -> str:
    """Return a time with three digits and its unit.

    >>> [_time(value) for value in (0.00123, 2.5, 250.0, 9000.0)]
    ['1.23 ms', '2.5 s', '4.2 min', '2.5 h']
    """
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"
