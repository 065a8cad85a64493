"""Merge the shards of a trace: copy their batches, in order, into the trace that one process would have written.

Arrays, settings and prompts are the same bit for bit, if the machines round alike.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from validation.collection.collect import BEGINNING, Batch, Progress, batches_of, write_manifest
from validation.collection.fingerprint import finished_trace
from validation.collection.shards import Shard, comparable, read_shard
from validation.errors import UserError
from validation.trace.reader import Trace, TraceWriter, check_disk_space, open_trace
from validation.trace.remote import RemotePath, place

COPIED_VALUES = 2**24  # logits of each model in memory at a time


def merge_shards(
    folders: Sequence[str | Path],
    store_path: str | Path | RemotePath,
    *,
    progress: Progress | None = None,
    command: str | None = None,
    fresh: bool = False,
) -> Trace:
    shards = in_order([read_shard(folder) for folder in folders])
    settings, about = shards[0].settings, shards[0].about
    path, report = place(store_path), progress or (lambda done, total, text: None)
    if not fresh and (finished := finished_trace(path, settings)) is not None:
        return finished
    batches = _batches_needed(shards)
    total = sum(shards[one.number % len(shards)].counts[one.number // len(shards)] for one in batches)
    vocabulary = next(shard.rows.vocabulary for shard in shards if shard.rows is not None)
    with TraceWriter(path, vocabulary, settings=settings, fresh=fresh) as writer:
        check_disk_space(path, max(0, total - writer.positions), vocabulary)
        state = BEGINNING | writer.state
        state |= {name: sum(shard.state[name] for shard in shards) for name in ("sampling", "scoring_and_storing")}
        for one in batches[state["batches"] :]:
            report(writer.positions, total, f"copying batch {one.number + 1} of {len(batches)}")
            _copy(shards[one.number % len(shards)], one.number // len(shards), writer)
            state["batches"], state["texts"] = one.number + 1, state["texts"] + len(one.chosen)
            writer.commit(state)
        used = list(dict.fromkeys(i for one in batches for i in one.chosen))
        write_manifest(writer, settings, about, used, state, command)
        writer.manifest["shards"] = [_summary(shard) for shard in shards]
    report(total, total, "done")
    return open_trace(path)


def in_order(shards: Sequence[Shard]) -> list[Shard]:
    if not shards:
        raise UserError("There are no shards; give the folder of each.")
    first = shards[0]
    found: dict[int, Shard] = {}
    for shard in shards:
        ours, theirs = (comparable(one.settings) | {"shards": one.place.of} for one in (first, shard))
        if ours != theirs:
            names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
            said = "; ".join(f"{name}: {ours.get(name, 'none')} and {theirs.get(name, 'none')}" for name in names)
            raise UserError(
                f"{first.folder} and {shard.folder} are shards of different collections ({said}); merge those that "
                "one command with --shard 1/N to N/N collected."
            )
        if (other := found.get(shard.place.number)) is not None:
            raise UserError(f"Shard {shard.place} was given twice, at {other.folder} and {shard.folder}; give it once.")
        found[shard.place.number] = shard
    if missing := [str(n) for n in range(1, first.place.of + 1) if n not in found]:
        of = first.place.of
        raise UserError(f"Of {of} shards, number {', '.join(missing)} is missing; give the folders of all {of}.")
    return [found[number] for number in sorted(found)]


def _batches_needed(shards: Sequence[Shard]) -> list[Batch]:
    settings, positions = shards[0].settings, 0
    found = []
    for one in batches_of(len(shards[0].about["prompts"]), settings):
        if settings["positions"] is not None and positions >= settings["positions"]:
            break
        counts, index = shards[one.number % len(shards)].counts, one.number // len(shards)
        if index >= len(counts):
            raise _incomplete(shards, one.number)
        positions += counts[index]
        found.append(one)
    return found


def _incomplete(shards: Sequence[Shard], missing: int) -> UserError:
    settings: Mapping[str, Any] = shards[0].settings
    counts = [count for shard in shards for count in shard.counts]
    needed, remedy = -(-len(shards[0].about["prompts"]) // settings["batch"]), "the same command"
    if settings["positions"] is not None:
        mean = sum(counts) / len(counts) if counts else settings["batch"] * settings["new_tokens"]
        needed = max(missing + 1, int(-(-settings["positions"] // mean)))
        remedy = f"the same command with --batches {needed}"
    lacking = [
        f"Shard {shard.place} at {shard.folder} has {len(shard.ends)} of its {shard.place.own(needed)} batches"
        for shard in shards
        if len(shard.ends) < shard.place.own(needed)
    ]
    return UserError(f"{'; '.join(lacking)}: continue with {remedy}, then merge again.")


def _copy(shard: Shard, index: int, writer: TraceWriter) -> None:
    assert shard.rows is not None
    start, stop = [0, *shard.ends][index], shard.ends[index]
    step = max(1, COPIED_VALUES // shard.rows.vocabulary)
    for low in range(start, stop, step):
        high = min(low + step, stop)
        writer.append(**{name: array[low:high] for name, array in shard.rows.arrays.items()})


def _summary(shard: Shard) -> dict[str, Any]:
    seconds = round(shard.state["sampling"] + shard.state["scoring_and_storing"], 3)
    return {"shard": str(shard.place), "batches": len(shard.ends), "seconds": seconds}
