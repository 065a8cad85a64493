"""Collect one shard of a trace: every N-th batch, in a store of its own.

A batch has its own seed and the same prompts whoever collects it, so :mod:`validation.collection.merge` can put the
batches of all shards in order. A shard is a folder with ``shard.json`` (settings, prompts) and ``rows``, a
trace that is never finished, so that the shard can be continued.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from validation.collection.collect import BEGINNING, Batch, Progress, batches_of, collect_batch
from validation.collection.prompts import Prompt
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.format import read_committed
from validation.trace.journal import JOURNAL, Lock, has_begun
from validation.trace.reader import Trace, TraceWriter, check_disk_space, open_trace
from validation.trace.reopen import clear
from validation.trace.sealed import read_sealed, write_sealed

FILE, ROWS = "shard.json", "rows"
FORMAT, VERSION = "hlm-shard", 1

GoOn = Callable[[int, list[int]], bool]
"""Called with the number of the next batch and the positions of each batch stored so far."""


@dataclass(frozen=True, slots=True)
class ShardNumber:
    """Which shard this is: ``number`` from 1 to ``of``."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def own(self, batches: int) -> int:
        """Return how many of the first ``batches`` batches belong to this shard."""
        return len(range(self.number - 1, batches, self.of))


@dataclass(frozen=True, slots=True)
class Shard:
    folder: Path
    place: ShardNumber
    settings: dict[str, Any]  # those of :func:`validation.collection.collect.settings_of`
    about: dict[str, Any]  # ``pair``, ``notes`` and ``prompts``, as plain values
    rows: Trace | None  # None if nothing is stored
    ends: list[int]  # the row after each of its batches
    state: dict[str, Any]  # texts and seconds

    @property
    def counts(self) -> list[int]:
        """Return the positions of each of its batches."""
        return [int(count) for count in np.diff([0, *self.ends])]


def shard_number(text: str) -> ShardNumber:
    first, slash, second = text.partition("/")
    if not (slash and first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
        raise UserError(f"The shard is {text!r}; give I/N with I from 1 to N, for example 2/3.")
    return ShardNumber(int(first), int(second))


def comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that all shards share. Of the device this is the type: each machine numbers its devices."""
    return {**settings, "device": str(settings["device"]).partition(":")[0]}


def collect_shard(
    pair: Pair,
    prompts: Sequence[Prompt],
    settings: Mapping[str, Any],
    encoded: list[list[int]],
    folder: str | Path,
    place: ShardNumber,
    *,
    go_on: GoOn,
    progress: Progress | None = None,
    command: str | None = None,
    fresh: bool = False,
) -> list[int]:
    folder, report = Path(folder), progress or (lambda done, total, text: None)
    positions, new_tokens = settings["positions"], settings["new_tokens"]
    _refuse_foreign(folder)
    own = comparable(settings) | {"shard": place.number, "shards": place.of}
    share = len(prompts) * new_tokens if positions is None else positions + settings["batch"] * new_tokens
    every = place.own(-(-len(prompts) // settings["batch"]))  # its batches, if each prompt is used once
    with TraceWriter(folder / ROWS, pair.vocabulary, settings=own, fresh=fresh, finish=False) as writer:
        check_disk_space(folder, max(0, share // place.of - writer.positions), pair.vocabulary)
        about = {"pair": pair.describe(), "notes": list(pair.notes), "prompts": [prompt.plain() for prompt in prompts]}
        content: dict[str, Any] = {"format": FORMAT, "version": VERSION, "shard": place.number, "shards": place.of}
        content |= {"settings": dict(settings), "about": about, "command": command}
        write_sealed(folder / FILE, content)
        state = BEGINNING | writer.state
        counts = read_shard(folder).counts
        for one in own_batches(len(prompts), settings, place):
            if one.number // place.of < len(counts):  # stored by an earlier run
                continue
            if not go_on(one.number, counts):
                break
            at = (len(counts), every) if positions is None else (writer.positions, -(-positions // place.of))
            before = writer.positions
            collect_batch(pair, prompts, encoded, one, new_tokens, writer, state, partial(report, *at))
            state["batches"] = len(counts) + 1
            writer.commit(state)
            counts.append(writer.positions - before)
    report(*(2 * (len(counts) if positions is None else sum(counts),)), "done")
    return counts


def its_share(settings: Mapping[str, Any], place: ShardNumber, batches: int | None = None) -> GoOn:
    """Return the rule of a shard that knows no other: collect 1/N of the positions, or its part of ``batches``."""

    def go_on(number: int, counts: list[int]) -> bool:
        if settings["positions"] is None or number < (batches or 0):
            return True
        return batches is None and place.of * sum(counts) < settings["positions"]

    return go_on


def own_batches(count: int, settings: Mapping[str, Any], place: ShardNumber) -> Iterator[Batch]:
    return islice(batches_of(count, settings), place.number - 1, None, place.of)


def read_shard(folder: str | Path) -> Shard:
    """Open a shard for reading, up to its last committed batch."""
    folder = Path(folder)
    try:
        found = read_sealed(folder / FILE)
    except FileNotFoundError as error:
        what = "a whole trace" if has_begun(folder) else "no shard"
        raise UserError(
            f"There is {what} at {folder}; collect a shard with `hlm collect --shard I/N`, or check the path."
        ) from error
    if (found.get("format"), found.get("version")) != (FORMAT, VERSION):
        raise UserError(f"{folder / FILE} is not that of a shard that this program knows; check the path.")
    place = ShardNumber(found["shard"], found["shards"])
    shard = Shard(folder, place, found["settings"], found["about"], None, [], dict(BEGINNING))
    if not has_begun(folder / ROWS):
        return shard
    committed = read_committed(folder / ROWS)
    if committed.header["settings"] != comparable(shard.settings) | {"shard": place.number, "shards": place.of}:
        raise UserError(f"{folder / ROWS} does not belong to {folder / FILE}; restore both from one copy.")
    if not committed.rows:
        return shard
    rows = open_trace(folder / ROWS, partial=True)
    return replace(shard, rows=rows, ends=_batch_ends(shard, rows), state=BEGINNING | committed.state)


def remove_shard(folder: Path) -> None:
    """Remove a shard; other files in its folder stay."""
    with contextlib.suppress(FileNotFoundError), Lock(folder / ROWS):
        clear(folder / ROWS)
    for path, remove in ((folder / ROWS, Path.rmdir), (folder / FILE, Path.unlink), (folder, Path.rmdir)):
        with contextlib.suppress(OSError):
            remove(path)


def _batch_ends(shard: Shard, rows: Trace) -> list[int]:
    """Return the row after each batch: a text starts where the position is 0, and a batch has a known set of texts."""
    starts = np.flatnonzero(np.asarray(rows.arrays["position"]) == 0)
    prompts = rows.arrays["prompt_index"][starts]
    ends: list[int] = []
    at = 0
    for one in own_batches(len(shard.about["prompts"]), shard.settings, shard.place):
        if at == len(starts):
            break
        last = at + len(one.rows)
        if sorted(prompts[at:last].tolist()) != sorted(one.rows):
            raise UserError(
                f"The rows of {shard.folder} are not those of its batches (batch {one.number}); collect it again with "
                "--fresh."
            )
        at = last
        ends.append(int(starts[at]) if at < len(starts) else rows.positions)
    return ends


def _refuse_foreign(folder: Path) -> None:
    try:
        inside = {file.name for file in folder.iterdir()}
    except FileNotFoundError:
        return
    if inside and not inside & {FILE, ROWS}:
        what = "A trace" if JOURNAL in inside else "Something other than a shard"
        raise UserError(f"{what} lies at {folder}; choose another folder.")
