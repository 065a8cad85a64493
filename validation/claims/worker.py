"""What a worker of a dask scheduler does for a check: it reads a block of the trace, and sends back its tallies."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from threading import Lock
from typing import Any, cast

import numpy as np

import hlmtheory
from validation.claims.check import Part, Place, Work
from validation.claims.progress import LIBRARIES, code_mark, trace_mark
from validation.errors import UserError
from validation.models.devices import out_of_memory
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


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker has no part. It is returned: dask loses an error whose traceback is too deep to be sent."""

    said: str
    lines: str  # where it failed; the last lines of its traceback


def compute(order: Order, number: int) -> Part | Failure:
    """Return one part, with tallies in place of verdicts, or why there is none; this runs on a worker."""
    try:
        return _work_of(order).job(number)().counted()
    except UserError as error:  # other source, another trace
        return Failure(str(error), "")
    except Exception as error:
        if said := out_of_memory(error):
            return Failure(f"A worker ran out of memory at part {number}: {said}", "")
        said = (
            f"Part {number} failed on a worker with {type(error).__name__} ({first_line(error)}); "
            "to see where, run the check without --scheduler."
        )
        return Failure(said, "".join(traceback.format_exception(error, limit=-20)))


def _work_of(order: Order) -> Work:
    with _ONE:  # a worker may have several threads
        return _made(order)


_ONE = Lock()


@lru_cache(maxsize=2)
def _made(order: Order) -> Work:
    if code_mark() != order.code:
        raise UserError(f"A worker that joined later has another source of hlmtheory; update it, and {CONTINUES}.")
    trace = _opened(order.path)
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


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _address(trace: Trace) -> str:
    """Return the path or the address from which a worker opens the same trace."""
    where: Any = trace.path
    return where if isinstance(where, str) else str(where.resolve())


def _opened(address: str) -> Trace:
    if address.startswith(SYNTHETIC):
        return cast("Trace", SyntheticTrace.at(address))
    return open_trace(address, kinds=(LOGITS, LISTS))


def about(path: str) -> dict[str, str]:
    """Return what this process has that a result depends on, and a mark of the trace that it reads.

    Parameters
    ----------
    path : str
        The trace, as the worker would open it.

    Returns
    -------
    dict of str
        By a readable name; ``"problem"`` only if the trace cannot be read.
    """
    found = {"hlmtheory": f"{hlmtheory.__version__} (source {code_mark()[:8]})"}
    found |= {name: version(name) for name in LIBRARIES}
    features = cast("dict[str, Any]", np.show_config(mode="dicts")).get("SIMD Extensions", {})
    found["processor"] = " ".join([platform.machine(), *features.get("found", [])])
    try:
        _opened(path)
        found["trace"] = trace_mark(path)
    except (UserError, OSError) as error:
        found["problem"] = str(error)
    return found


def question() -> Callable[[str], dict[str, str]]:
    """Return a function that is sent by value, so that a worker without this package can answer it."""

    def ask(path: str) -> dict[str, str]:
        try:
            from validation.claims.worker import about
        except ModuleNotFoundError as error:
            return {"lacks": str(error.name)}
        except ImportError:
            return {"hlmtheory": "an older version"}
        return about(path)

    return ask
