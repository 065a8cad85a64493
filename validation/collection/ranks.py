"""Collect a trace by several processes that torchrun started, on one machine or more.

Rank r of N collects shard r + 1 of N in a store of its own. The ranks tell each other only numbers: their settings and
the positions of each batch. These pass through the key-value store that torchrun offers (TCPStore), not through a
collective: so a rank may be slow, and may be killed and started again, while the others work. Each rank repeats its
numbers every second; a rank that is silent for ``wait`` seconds when another needs it counts as lost.

At the end rank 0 merges the shards (:mod:`validation.collection.merge`), which must lie in a folder that it sees.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from validation.collection.collect import DEFAULT_BATCH, Progress, settings_of
from validation.collection.fingerprint import finished_trace
from validation.collection.merge import merge_shards
from validation.collection.prompts import Prompt
from validation.collection.shards import FILE, GoOn, ShardNumber, collect_shard, comparable, read_shard, remove_shard
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.journal import Lock
from validation.trace.reader import Trace
from validation.trace.reopen import what_to_go_on_from

if TYPE_CHECKING:
    from torch.distributed import TCPStore

DEFAULT_WAIT = 120.0
"""Seconds that a rank may be silent."""
BEAT = 1.0  # seconds between two reports of a rank, or more if there are many
GOODBYE = 5.0  # seconds that a rank that ends takes at most to say so

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rank:
    """One process among those that torchrun started."""

    number: int
    world: int
    local: int
    address: str
    port: int
    hosts: bool  # whether this process offers the store; under torchrun its agent does
    attempt: int  # how often torchrun has restarted the ranks

    @property
    def place(self) -> ShardNumber:
        """Return the shard of this rank."""
        return ShardNumber(self.number + 1, self.world)

    def device(self, name: str) -> str:
        """Return the device for a rank: of several GPUs each rank of a machine takes its own."""
        import torch

        if name != "auto" or not torch.cuda.is_available():
            return name
        return f"cuda:{self.local % torch.cuda.device_count()}"


def this_rank(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return the rank of this process from the variables that torchrun sets, or None if it runs alone.

    Raises
    ------
    UserError
        A variable is missing or is not a number in its range.
    """
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    given = {name: environment.get(name, "") for name in names}
    if not (given["RANK"] and given["WORLD_SIZE"]) or given["WORLD_SIZE"] == "1":
        return None
    if missing := [name for name in names if not given[name]]:
        raise UserError(f"RANK and WORLD_SIZE are set, but {missing[0]} is not; start the ranks with torchrun.")
    numbers = {name: given[name] for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
    numbers |= {name: environment.get(name, "0") for name in ("LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")}
    for name, value in numbers.items():
        if not value.isdecimal():
            raise UserError(f"{name} is {value!r}, which is not a number; start the ranks with torchrun.")
    rank, world = int(given["RANK"]), int(given["WORLD_SIZE"])
    if rank >= world:
        raise UserError(f"RANK is {rank}, but WORLD_SIZE is {world}; number the ranks from 0 to {world - 1}.")
    agent = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Rank(
        number=rank,
        world=world,
        local=int(numbers["LOCAL_RANK"]),
        address=given["MASTER_ADDR"],
        port=int(given["MASTER_PORT"]),
        hosts=rank == 0 and not agent,
        attempt=int(numbers["TORCHELASTIC_RESTART_COUNT"]),
    )


class Link:
    """What the ranks know of each other. A thread exchanges it, so that no lost machine can block this process.

    Use as a context manager, from before the models are loaded; an error in the block is told to the other ranks.

    Parameters
    ----------
    rank : Rank
    wait : float
        Seconds that another rank may be silent while this one waits for it.
    """

    def __init__(self, rank: Rank, wait: float = DEFAULT_WAIT) -> None:
        self.rank, self.wait = rank, wait
        self._mine: Facts = {}
        self._seen: dict[int, tuple[Facts, float]] = {}  # another rank's facts, and when they last changed
        self._news = threading.Condition()
        self._version = self._told = 0  # of this rank's facts, and up to which they were exchanged
        self._answered = self._began = time.monotonic()
        self._broken = ""
        self._waiting = False
        self._ended = False
        self._thread = threading.Thread(target=self._exchange, name="ranks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            said = str(error) if isinstance(error, UserError) else "interrupted" if kind is KeyboardInterrupt else ""
            self.tell(failed=said or type(error).__name__)
        with self._news:
            self._news.wait_for(lambda: self._told >= self._version or self._broken, timeout=GOODBYE)
            if error is not None and self.rank.hosts:  # the others read it before the store ends with this process
                self._news.wait_for(lambda: self._broken, timeout=2 * BEAT)
            self._ended = True
            self._news.notify_all()

    def tell(self, **facts: Any) -> None:
        """Make facts known to the other ranks, soon."""
        with self._news:
            self._mine |= facts
            self._version += 1
            self._news.notify_all()

    def known(self) -> dict[int, Facts]:
        """Return the facts of every rank from which something was heard, this one included."""
        with self._news:
            return {number: facts for number, (facts, _) in self._seen.items()} | {self.rank.number: dict(self._mine)}

    def wait_until(self, ready: Callable[[dict[int, Facts]], bool]) -> dict[int, Facts]:
        """Return the facts as soon as ``ready(facts)``.

        Raises
        ------
        UserError
            Another rank failed or is silent, or the store does not answer.
        """
        try:
            while not ready(facts := self.known()):
                with self._news:
                    self._waiting = True
                    self._refuse_lost()
                    self._news.wait(timeout=BEAT)
        finally:
            self._waiting = False
        return facts

    def _refuse_lost(self) -> None:
        """Raise if what is waited for cannot come."""
        safe = "what is stored is safe, and the same command continues from it"
        where = f"{self.rank.address}:{self.rank.port}"
        now = time.monotonic()
        for number, (facts, _) in sorted(self._seen.items()):
            if said := facts.get("failed"):
                raise UserError(f"Rank {number} of {self.rank.world} stopped ({said.rstrip('.')}); {safe}.")
        if self._broken:
            raise UserError(f"The ranks cannot reach each other at {where} ({self._broken}); {safe}.")
        if now - self._answered > self.wait:
            raise UserError(f"Nothing was heard from {where} for {self.wait:g} s, where the ranks meet; {safe}.")
        for number in range(self.rank.world):
            facts, heard = self._seen.get(number, ({}, self._began))
            if number != self.rank.number and not facts.get("done") and now - heard > self.wait:
                raise UserError(
                    f"Nothing was heard from rank {number} of {self.rank.world} for {self.wait:g} s; {safe}."
                )

    # -------------------------------------------------------------------------------- in the thread

    def _exchange(self) -> None:
        """Write this rank's facts and read those of the others, again and again."""
        try:
            store = self._join()
            while not self._ended:
                self._once(store)
                with self._news:
                    pause = max(BEAT / 5 if self._waiting else BEAT, self.rank.world / 50)
                    self._news.wait_for(lambda: self._ended or self._told < self._version, timeout=pause)
        except Exception as error:  # torch raises several types, DistNetworkError and RuntimeError among them
            with self._news:
                self._broken = str(error).strip().split("\n")[0] or type(error).__name__
                self._news.notify_all()

    def _join(self) -> TCPStore:
        from torch.distributed import TCPStore

        until = time.monotonic() + self.wait
        while not self.rank.hosts:  # torch prints a stack of C++ where nobody listens
            try:
                socket.create_connection((self.rank.address, self.rank.port), timeout=self.wait).close()
                break
            except OSError:
                if time.monotonic() > until or self._ended:
                    raise
                time.sleep(BEAT / 4)
        return TCPStore(
            self.rank.address,
            self.rank.port,
            is_master=self.rank.hosts,
            timeout=timedelta(seconds=self.wait),
            wait_for_workers=False,
        )

    def _once(self, store: TCPStore) -> None:
        with self._news:
            version, mine = self._version, json.dumps({**self._mine, "beat": time.time_ns()})
        store.set(_key(self.rank.number), mine)
        for number in range(self.rank.world):
            facts, _ = self._seen.get(number, ({}, 0.0))
            if number == self.rank.number or facts.get("done") or not store.check([_key(number)]):
                continue
            found = json.loads(store.get(_key(number)))
            if found != facts:
                with self._news:
                    self._seen[number] = found, time.monotonic()
        with self._news:
            self._told, self._answered = version, time.monotonic()
            self._news.notify_all()


def _key(rank: int) -> str:
    return f"hlm/collect/{rank}"


def collect_as_rank(
    link: Link,
    pair: Pair,
    prompts: Sequence[Prompt],
    store_path: str | Path,
    *,
    positions: int | None,
    new_tokens: int,
    seed: int,
    batch: int = DEFAULT_BATCH,
    progress: Progress | None = None,
    command: str | None = None,
    fresh: bool = False,
) -> Trace | None:
    """Collect this rank's shard; on rank 0 wait for all others, merge, and return the trace, elsewhere None.

    The shards lie beside the trace, in ``TRACE-shards``, until they are merged. A rank that was killed and started
    again collects what it had not stored. Parameters as :func:`validation.collection.collect.collect`.

    Raises
    ------
    UserError
        As ``collect``; also if the ranks have different settings, one is lost, or rank 0 does not see a shard.
    """
    rank, path = link.rank, Path(store_path)
    fresh = fresh and not rank.attempt  # a restart must not delete what it is to continue
    settings, encoded = settings_of(pair, prompts, positions=positions, new_tokens=new_tokens, batch=batch, seed=seed)
    finished = None
    if rank.number == 0:
        if not fresh:
            finished = finished_trace(path, settings)
        if finished is None and path.exists():
            with Lock(path):  # refuse what lies there now, not at the end
                what_to_go_on_from(path, pair.vocabulary, "float16", settings, fresh=fresh)
    link.tell(settings=json.loads(json.dumps(comparable(settings))), finished=finished is not None)
    _refuse_different(link)
    folders = [shards_folder(path) / f"{number}-of-{rank.world}" for number in range(1, rank.world + 1)]
    if not link.known()[0]["finished"]:
        counts = collect_shard(
            pair,
            prompts,
            settings,
            encoded,
            folders[rank.number],
            rank.place,
            go_on=_while_needed(link, settings),
            progress=progress,
            command=command,
            fresh=fresh,
        )
        link.tell(counts=counts)
    link.tell(done=True)
    if rank.number:
        return None
    facts = link.wait_until(lambda facts: all(facts.get(n, {}).get("done") for n in range(rank.world)))
    if finished is None:
        _wait_for_shards(folders, [len(facts[n]["counts"]) for n in range(rank.world)], link.wait)
        finished = merge_shards(folders, path, progress=progress, command=command)
    _remove_shards(shards_folder(path))
    return finished


def _remove_shards(folder: Path) -> None:
    """Remove the shards in a folder, also those of another number of ranks; other files stay."""
    if not folder.is_dir():
        return
    for one in folder.iterdir():
        if (one / FILE).is_file():
            remove_shard(one)
    if not any(folder.iterdir()):
        folder.rmdir()


def shards_folder(path: Path) -> Path:
    """Return the folder of the shards of a trace."""
    return path.with_name(f"{path.name}-shards")


def _refuse_different(link: Link) -> None:
    """Wait for the settings of all ranks, and refuse any that differ from those of rank 0."""
    world = range(link.rank.world)
    facts = link.wait_until(lambda facts: all("settings" in facts.get(number, {}) for number in world))
    ours = facts[0]["settings"]
    for number in world:
        theirs = facts[number]["settings"]
        if names := [name for name in ours if ours[name] != theirs.get(name)]:
            said = "; ".join(f"{name}: {ours[name]} and {theirs.get(name, 'none')}" for name in names)
            raise UserError(
                f"Ranks 0 and {number} have different settings ({said}); give all ranks the same models, prompts and "
                "options."
            )


def _while_needed(link: Link, settings: Mapping[str, Any]) -> GoOn:
    """Return the rule of a rank: collect a batch unless the rounds before it hold enough positions.

    In a round each rank collects one batch. The sizes of earlier rounds are waited for only if they can decide.
    """
    most = settings["batch"] * settings["new_tokens"]

    def go_on(number: int, counts: list[int]) -> bool:
        link.tell(counts=list(counts))
        if settings["positions"] is None:
            return True
        rounds = number // link.rank.world

        def stored(facts: dict[int, Facts]) -> tuple[int, int]:
            """Return the positions of the earlier rounds that are known, and how many batches are not."""
            each = [facts.get(rank, {}).get("counts", [])[:rounds] for rank in range(link.rank.world)]
            return sum(map(sum, each)), sum(rounds - len(counts) for counts in each)

        def decided(facts: dict[int, Facts]) -> bool:
            known, missing = stored(facts)
            return known >= settings["positions"] or known + missing * most < settings["positions"] or not missing

        return bool(stored(link.wait_until(decided))[0] < settings["positions"])

    return go_on


def _wait_for_shards(folders: Sequence[Path], batches: Sequence[int], wait: float) -> None:
    """Wait until all shards can be read here; a network file system may show them late."""
    until = time.monotonic() + wait
    for folder, count in zip(folders, batches, strict=True):
        while True:
            try:
                if len(read_shard(folder).ends) >= count:
                    break
                error = UserError(f"{folder} holds fewer than {count} batches.")
            except UserError as found:
                error = found
            if time.monotonic() > until:
                raise UserError(
                    f"All ranks are done, but rank 0 does not see all shards ({str(error).rstrip('.')}); if the "
                    "machines share no folder, bring the shards together and run `hlm merge`."
                )
            time.sleep(BEAT)
