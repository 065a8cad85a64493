"""Compute the parts of a check in other processes: what they are sent, and how they build the same work from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, cast

import hlmtheory
from validation.claims.check import Place, Work
from validation.claims.progress import code_mark, trace_mark
from validation.errors import UserError
from validation.trace.reader import LISTS, LOGITS, Trace, open_trace
from validation.trace.synthetic import SYNTHETIC, SyntheticTrace

CONTINUES = "the same command continues from what is stored"


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker needs to build the same :class:`.check.Work`; small, since every task carries it."""

    path: str
    claims: tuple[str, ...] | None  # None: all
    seed: int
    device: str | None
    stored_rows: bool
    batches: int
    rows: int
    code: str
    trace: str

    @classmethod
    def of(cls, work: Work, claims: tuple[str, ...]) -> Order:
        """Return the order of a work; the path of its trace becomes absolute."""
        path = _address(work.trace)
        some = None if set(claims) == set(hlmtheory.all_claims()) else claims
        settings = (work.seed, work.place.device, work.stored_rows, work.batches, work.rows)
        return cls(path, some, *settings, code_mark(), trace_mark(path))


def work_of(order: Order) -> Work:
    """Return the work of an order, built once in a process.

    Raises
    ------
    UserError
        This process has another source or reads another trace.
    """
    with _ONE:  # a worker may have several threads
        return _made(order)


_ONE = Lock()


@lru_cache(maxsize=2)
def _made(order: Order) -> Work:
    if code_mark() != order.code:
        raise UserError(f"A worker that joined later has another source of hlmtheory; update it, and {CONTINUES}.")
    trace = opened(order.path)
    if trace_mark(order.path) != order.trace:
        raise UserError(f"A worker that joined later reads another trace at {order.path}; {CONTINUES} without it.")
    claims = hlmtheory.all_claims()
    return Work.of(
        trace,
        claims if order.claims is None else {name: claims[name] for name in order.claims},
        seed=order.seed,
        place=Place.of(order.device or "numpy"),
        stored_rows=order.stored_rows,
        batches=order.batches,
        rows=order.rows,
    )


def _address(trace: Trace) -> str:
    """Return the path or the address from which a worker opens the same trace."""
    where: Any = trace.path
    return where if isinstance(where, str) else str(where.resolve())


def opened(address: str) -> Trace:
    """Return the trace at a path or an address, of any kind."""
    if address.startswith(SYNTHETIC):
        return cast("Trace", SyntheticTrace.at(address))
    return open_trace(address, kinds=(LOGITS, LISTS))
