"""Compute the parts of a check in other processes: what they are sent, and how they build the same work from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, Self, cast

import hlmtheory
from validation.claims.check import Part, PartsOf, Work, parts_here, workers_in_memory
from validation.claims.progress import trace_mark
from validation.errors import UserError
from validation.models.devices import free_host_memory
from validation.processes import Processes
from validation.provenance import code_digest
from validation.trace.reader import LISTS, LOGITS, SYNTHETIC, SyntheticTrace, Trace, open_trace

CONTINUES = "the same command continues from what is stored"
LEAST_PARTS, PARTS_OF_BLOCK = 500, 25
"""Shorter checks take less time than the start of processes; a block of a trace counts as 25 batches of a scenario."""
AHEAD = 64
"""Parts that are sent to each process before the first of them is taken: a part of a simulated claim takes 1 ms to 1 s,
and no process shall wait for a slow one."""

PROCESS_MEMORY = 2**30
"""Bytes of free memory for each worker process: its libraries, its arrays, and the sample of a figure."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker needs to build the same :class:`.check.Work`; small, since every task carries it."""

    path: str
    claims: tuple[str, ...] | None  # None: all
    seed: int
    stored_rows: bool
    batches: int
    rows: int
    code: str
    trace: str

    @classmethod
    def of(cls, work: Work, claims: tuple[str, ...]) -> Self:
        """Return the order of a work; the path of its trace becomes absolute."""
        where: Any = work.trace.path
        path = where if isinstance(where, str) else str(where.resolve())
        some = None if set(claims) == set(hlmtheory.all_claims()) else claims
        settings = (work.seed, work.stored_rows, work.batches, work.rows)
        return cls(path, some, *settings, code_digest(), trace_mark(path))


_ONE = Lock()


@lru_cache(maxsize=2)
def _made(order: Order) -> Work:
    if code_digest() != order.code:
        raise UserError(f"A worker has another source of hlmtheory; update it, and {CONTINUES}.")
    trace = opened(order.path)
    if trace_mark(order.path) != order.trace:
        raise UserError(f"A worker reads another trace at {order.path}; {CONTINUES} without it.")
    claims = hlmtheory.all_claims()
    chosen = claims if order.claims is None else {name: claims[name] for name in order.claims}
    settings: dict[str, Any] = {name: getattr(order, name) for name in ("seed", "stored_rows", "batches", "rows")}
    return Work.of(trace, chosen, **settings)


def opened(address: str) -> Trace:
    if address.startswith(SYNTHETIC):
        return cast("Trace", SyntheticTrace.at(address))
    return open_trace(address, kinds=(LOGITS, LISTS))


def workers_here(vocabulary: int, limit: int | None = None) -> int:
    """Return the number of worker processes for a trace, limited by cores, by free memory and by the user's limit."""
    most, free = workers_in_memory(vocabulary), free_host_memory()
    if limit is not None:
        most = max(1, min(most, limit // PROCESS_MEMORY))
    return most if free is None else max(1, min(most, free // PROCESS_MEMORY))


def in_processes(processes: Processes) -> PartsOf:
    """Return what :func:`.check_trace` takes as ``parts`` to compute in processes of this machine."""
    return partial(_parts, processes)


def _parts(processes: Processes, work: Work, claims: tuple[str, ...], first: int) -> Iterator[Part]:
    last = first
    parts = work.scenes + PARTS_OF_BLOCK * (len(work) - work.scenes)
    if processes.count > 1 and parts >= LEAST_PARTS:
        elsewhere = isinstance(work.trace.path, Path)
        last = max(first, len(work) if elsewhere else work.scenes)
    if last > first:
        order = Order.of(work, claims)
        calls = ((compute_part, (order, number)) for number in range(first, last))
        yield from processes.in_order(calls, ahead=AHEAD * processes.count)
    yield from parts_here(work, claims, last)


def compute_part(order: Order, number: int) -> Part:
    with _ONE:  # a worker may have several threads; the work is built once in a process
        work = _made(order)
    return work.job(number)()
