"""The estimate of ``hlm validate --dry-run``: what a run of a pair costs, before anything is started."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from validation.cli.display import waiting
from validation.cli.run import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from validation.claims.cost import Asked, Cost
    from validation.cli.collect import Collection
    from validation.collection.prompts import Prompt
    from validation.models.pair import Shapes


SMALL = 5e8
"""Parameters of both models up to which they are loaded for a trial."""


def show_dry_run(console: Console, asked: Collection, *, figures: bool, all_claims: bool, as_json: bool) -> None:
    """Print the cost of a run; nothing is stored."""
    from validation.claims.cost import Asked

    prompts, settings = asked.read_prompts(), asked.settings
    size = Asked(settings["positions"], settings["new_tokens"], len(prompts), figures, all_claims, asked.models.memory)
    cost = _estimated(console, asked, prompts, size)
    _show(console, cost)
    if as_json:
        print_json(cost.as_json())


def _estimated(console: Console, asked: Collection, prompts: list[Prompt], size: Asked) -> Cost:
    from validation.claims.cost import cost_of_pair, cost_of_shapes
    from validation.collection.collect import encode_prompts, ids_of
    from validation.models.devices import choose_device, free_memory, working_memory
    from validation.models.pair import shapes_of

    models = asked.models
    shapes = shapes_of(models.name, draft=models.draft, target=models.target, base=models.base)
    where = choose_device(models.device)
    width = _width(models.dtype)
    needed = working_memory(width * sum(shapes.parameters))
    room = min((one for one in (size.memory, free_memory(where)) if one is not None), default=needed)
    if shapes.here and needed <= room and sum(shapes.parameters) <= SMALL:
        pair = models.load(console)
        loading_s = time.process_time()  # since this process began
        encoded = encode_prompts(pair, prompts, size.new_tokens)
        with waiting(console, "timing the models") as say:
            return cost_of_pair(pair, encoded, size, asked.settings["seed"], loading_s, say)
    ids = ids_of(shapes.tokenizer, prompts, chat=models.chat)
    mean = sum(map(len, ids)) / len(ids)
    return cost_of_shapes(shapes.parameters, shapes.vocabulary, mean, size, width, _why(shapes, needed, room))


def _why(shapes: Shapes, needed: int, room: int) -> str:
    if not shapes.here:
        return "The weights are not on this machine, and nothing was downloaded"
    if needed > room:
        return f"The models need {needed / 1e9:.2f} GB, and {room / 1e9:.2f} GB are there"
    return f"To load and time {sum(shapes.parameters) / 1e9:.2g} billion parameters takes as long as a small run"


def _width(dtype: str | None) -> int:
    import torch

    return int((torch.float32 if dtype is None else getattr(torch, dtype)).itemsize)


def _show(console: Console, cost: Cost) -> None:
    from rich import box
    from rich.table import Table

    console.print(
        f"{cost.positions:,} positions in {cost.batches:,} batches, V = {cost.vocabulary:,}. Disk: "
        f"{_bytes(cost.disk)} ({cost.disk_origin}).",
        highlight=False,
        soft_wrap=True,
    )
    stages = ", ".join(f"{_bytes(size)} for {name}" for name, size in cost.memory.items())
    console.print(f"Memory: {stages} ({cost.workers} processes).", highlight=False, soft_wrap=True)
    table = Table(box=box.SIMPLE)
    table.add_column("step")
    table.add_column("count", justify="right")
    table.add_column("each", justify="right")
    table.add_column("CPU time", justify="right")
    table.add_column("from")
    for step in cost.steps:
        count = f"{step.count:,.0f} {step.unit}" if step.unit not in ("run", "pair") else "once"
        table.add_row(step.name, count, _time(step.each_s), _time(step.cpu_s), f"{step.origin}: {step.source}")
    table.add_row("all", "", "", _time(cost.cpu_s), "")
    console.print(table)
    for remark in cost.remarks:
        console.print(remark, soft_wrap=True)
    console.print(
        f"In all {_time(cost.cpu_s)} of CPU time, so {_time(cost.wall_s)} on idle cores. Nothing was started.",
        highlight=False,
        soft_wrap=True,
    )


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
