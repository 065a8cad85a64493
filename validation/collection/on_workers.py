"""Collect a trace on the workers of a dask scheduler: one shard each, which are then merged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from validation.collection.collect import DEFAULT_BATCH, Progress, settings_of
from validation.collection.merge import merge_shards
from validation.collection.prompts import Prompt
from validation.collection.shards import ShardNumber, collect_shard, its_share, remove_shard
from validation.models.devices import return_freed_memory
from validation.models.pair import load_pair
from validation.trace.reader import Trace
from validation.workers import connected, in_order, refuse_other_workers, workers_of


def collect_on_workers(
    address: str,
    models: Mapping[str, Any],
    prompts: Sequence[Prompt],
    settings: Mapping[str, Any],
    path: Path,
    *,
    progress: Progress | None = None,
    command: str | None = None,
    fresh: bool = False,
) -> Trace:
    folder = path.absolute().with_name(f"{path.name}-shards")
    with connected(address) as client:
        refuse_other_workers(client, address)
        begun = sorted(folder.glob("*-of-*"))
        count = int(begun[0].name.rpartition("-")[2]) if begun and not fresh else len(workers_of(client))
        folders = [folder / f"{number}-of-{count}" for number in range(1, count + 1)]

        def collected(batches: int | None, fresh: bool) -> list[list[int]]:
            calls = [
                (dict(models), list(prompts), dict(settings), str(shard), number, count, batches, command, fresh)
                for number, shard in enumerate(folders, 1)
            ]
            return list(in_order(client, collect_on_worker, calls, count))

        counts = collected(None, fresh)
        if settings["positions"] is not None:  # a shard that reached its share early lacks a batch that others have
            collected(count * max(map(len, counts)), False)
    trace = merge_shards(folders, path, progress=progress, command=command, fresh=fresh)
    for shard in folders:
        remove_shard(shard)
    if not any(folder.iterdir()):
        folder.rmdir()
    return trace


def collect_on_worker(
    models: Mapping[str, Any],
    prompts: list[Prompt],
    settings: Mapping[str, Any],
    folder: str,
    number: int,
    of: int,
    batches: int | None,
    command: str | None,
    fresh: bool,
) -> list[int]:
    """Collect one shard in this process, and return the positions of each of its batches."""
    pair, place = load_pair(**models), ShardNumber(number, of)
    every, encoded = settings_of(pair, prompts, batch=DEFAULT_BATCH, **settings)
    share = its_share(every, place, batches)
    counts = collect_shard(pair, prompts, every, encoded, folder, place, go_on=share, command=command, fresh=fresh)
    del pair
    return_freed_memory()
    return counts
