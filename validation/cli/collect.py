"""The commands ``hlm collect`` and ``hlm merge``, and the collection of ``hlm validate`` with its ``--dry-run``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console, progress_bar, waiting
from validation.cli.options import AT_LEAST_1, PLACE, collection_options, option, pair_options, quiet_option, together
from validation.cli.run import collect_trace, print_json, tell_next, tell_notes, tell_stored, typed_command
from validation.cli.tables import print_table, say
from validation.errors import UserError
from validation.trace.remote import Place, RemotePath

if TYPE_CHECKING:
    from rich.console import Console

    from validation.claims.cost import Cost
    from validation.collection.prompts import Prompt
    from validation.models.pair import Pair
    from validation.trace.reader import Trace


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Models:
    name: str | None
    draft: str | None
    target: str | None
    base: str | None
    changed_anchor: bool
    device: str
    dtype: str | None
    memory: int | None
    chat: bool
    weights: Path | None

    def load(self, console: Console) -> Pair:
        from validation.models.pair import load_pair

        with waiting(console, "loading the two models") as say:
            pair = load_pair(**asdict(self), report=lambda text: say(f"loading the two models: {text}"))
        tell_notes(console, pair)
        return pair


@dataclass(frozen=True, slots=True)
class Collection:
    models: Models
    prompts: Path | None  # None: the built-in ones
    settings: dict[str, Any]
    fresh: bool

    def read_prompts(self) -> list[Prompt]:
        from validation.collection.prompts import builtin_prompts, read_prompts

        return builtin_prompts() if self.prompts is None else read_prompts(self.prompts)


def collection_command(out: Decorator, fresh: str) -> Decorator:
    """Add the options of a collection to a command, which takes them as its first argument, a :class:`Collection`."""

    def added(command: Callable[..., None]) -> Any:
        @wraps(command)
        def gathered(**given: Any) -> None:
            models = Models(**{field.name: given.pop(field.name) for field in fields(Models)})
            settings = {name: given.pop(name) for name in ("positions", "new_tokens", "seed")}
            command(Collection(models, given.pop("prompts"), settings, given.pop("fresh")), **given)

        return together(pair_options, collection_options, out, option("--fresh", fresh, is_flag=True))(gathered)

    return added


def collect_here(console: Console, asked: Collection, prompts: list[Prompt], where: Callable[[Pair], Place]) -> Trace:
    from validation.models.devices import return_freed_memory

    pair = asked.models.load(console)
    trace = collect_trace(console, pair, prompts, where(pair), asked.settings, typed_command(), asked.fresh)
    del pair
    return_freed_memory()
    return trace


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
    _show_cost(console, cost)
    if as_json:
        print_json(cost.as_json())


def _show_cost(console: Console, cost: Cost) -> None:
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


@click.command()
@collection_command(
    option("--out", "A folder, or s3://BUCKET/NAME; a shard needs a folder.", PLACE, required=True),
    fresh="Delete what is stored in that folder and collect again.",
)
@option("--shard", "Collect only the I-th of N shards, given as I/N; `hlm merge` joins all N.")
@option(
    "--batches", "With --shard: collect the shard's part of this number of batches, not of --positions.", AT_LEAST_1
)
@option("--scheduler", "Collect on dask's workers: local, or the address of a scheduler, tcp://HOST:PORT.")
@option("--once", "Continue each prompt once, whatever --positions; for one process.", is_flag=True)
@option("--batch", "Texts per batch, for one process.  [default: 32]", AT_LEAST_1)
@quiet_option
def collect(
    asked: Collection,
    out: Place,
    shard: str | None,
    batches: int | None,
    scheduler: str | None,
    once: bool,
    batch: int | None,
    quiet: bool,
) -> None:
    """Collect the logits of two models, on one machine or on several, and check nothing.

    \b
    One process:       hlm collect --out TRACE
    dask's workers:    hlm collect --scheduler tcp://HOST:8786 --out TRACE
    Separate machines: hlm collect --shard 1/3 --out A    (2/3 and 3/3 elsewhere)
                       hlm merge A B C --out TRACE

    Each way gives the same trace. The same command continues what was stopped.
    """  # noqa: D301 (click takes the character, not an escape)
    console, prompts = open_console(quiet=quiet), asked.read_prompts()
    if isinstance(out, RemotePath) and (shard or scheduler):
        raise UserError(f"Shards need a folder each; give --out FOLDER, then `hlm merge SHARDS --out {out}`.")
    if shard is not None and scheduler is not None:
        raise UserError("--scheduler gives each worker its shard; leave out --shard.")
    if (once or batch is not None) and (shard or scheduler):
        raise UserError("--once and --batch are for one process; leave them out, or --shard and --scheduler.")
    if shard is not None and isinstance(out, Path):
        _collect_shard(console, asked, prompts, out, shard, batches)
        return
    if batches is not None:
        raise UserError("--batches counts the batches of a shard; give it with --shard.")
    if scheduler is not None and isinstance(out, Path):
        from validation.collection.on_workers import collect_on_workers

        options: dict[str, Any] = {"command": typed_command(), "fresh": asked.fresh}
        with progress_bar(console) as options["progress"]:
            trace = collect_on_workers(scheduler, asdict(asked.models), prompts, asked.settings, out, **options)
        say(console, f"{trace.positions:,} positions are at {out}.")
    else:
        own = asked.settings | ({"positions": None} if once else {}) | ({} if batch is None else {"batch": batch})
        collect_here(console, replace(asked, settings=own), prompts, lambda pair: out)
    tell_next(console, out)


def _collect_shard(
    console: Console, asked: Collection, prompts: list[Prompt], out: Path, shard: str, batches: int | None
) -> None:
    from validation.collection.collect import DEFAULT_BATCH, settings_of
    from validation.collection.shards import collect_shard, its_share, shard_number

    place = shard_number(shard)
    pair = asked.models.load(console)
    every, encoded = settings_of(pair, prompts, batch=DEFAULT_BATCH, **asked.settings)
    options: dict[str, Any] = {"go_on": its_share(every, place, batches), "command": typed_command()}
    with progress_bar(console) as options["progress"]:
        counts = collect_shard(pair, prompts, every, encoded, out, place, fresh=asked.fresh, **options)
    several = "batch" if len(counts) == 1 else "batches"
    say(console, f"Shard {place}: {len(counts)} {several}, {sum(counts):,} positions, at {out}.")
    if not counts:
        say(console, "The other shards have all batches that these positions need: this one adds nothing.")


@click.command()
@click.argument("shards", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("--out", "The trace to make: a folder, or s3://BUCKET/NAME.", PLACE, required=True)
@option("--fresh", "Delete the trace in that folder first.", is_flag=True)
@quiet_option
def merge(shards: tuple[Path, ...], out: Place, fresh: bool, quiet: bool) -> None:
    """Merge the shards that `hlm collect --shard I/N` made into one trace.

    SHARDS are the folders of all N, in any order. They stay as they are. Arrays, settings and prompts of the trace are
    those that one process would have written.
    """
    from validation.collection.merge import merge_shards

    console = open_console(quiet=quiet)
    with progress_bar(console) as report:
        trace = merge_shards(shards, out, progress=report, command=typed_command(), fresh=fresh)
    tell_stored(console, trace, out)
