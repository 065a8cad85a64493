"""Compute the parts of a check on the workers of a dask scheduler, in other processes or on other machines.

A task names a part by its number. The worker reads the block of the trace itself and sends back a tally for each claim,
a few kilobytes. Tallies are merged in the order of the parts, so the results are those of one process, whatever the
number, the speed and the failures of the workers. dask computes a part again if its worker is lost.

Before any part is sent, every worker says which source, libraries and processor it has and which trace it reads. They
must be the same everywhere, because otherwise the last digits may differ. A worker that joins later is checked by its
first task. Every wait has a limit.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import re
import time
import traceback
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from threading import Lock
from typing import Any, cast

import numpy as np

import hlmtheory
from validation.claims.check import Part, PartsOf, Place, Work
from validation.claims.progress import LIBRARIES, code_mark, trace_mark
from validation.errors import UserError
from validation.models.devices import cores, out_of_memory
from validation.trace.reader import LISTS, LOGITS, Trace, open_trace
from validation.trace.synthetic import SYNTHETIC, SyntheticTrace

LOCAL = "local"
WAIT_S = 30.0
"""Seconds to wait for a scheduler, for its first worker, and for a worker to come back."""
POLL_S = 0.5
ADDRESS = re.compile(r"(tcp|tls)://([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")
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


# ----------------------------------------------------------------------------------------------- on a worker


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
            f"Part {number} failed on a worker with {type(error).__name__} ({_first_line(error)}); "
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


def _question() -> Callable[[str], dict[str, str]]:
    """Return a function that is sent by value, so that a worker without this package can answer it."""

    def ask(path: str) -> dict[str, str]:
        try:
            from validation.claims.cluster import about
        except ModuleNotFoundError as error:
            return {"lacks": str(error.name)}
        except ImportError:
            return {"hlmtheory": "an older version"}
        return about(path)

    return ask


# ----------------------------------------------------------------------------------------------- on the client


def on_scheduler(address: str, workers: int | None = None) -> PartsOf:
    """Return what :func:`.check_trace` takes as ``parts`` to compute on the workers of a scheduler.

    Parameters
    ----------
    address : str
        ``"local"`` starts one worker process per core of this machine; else the address of a scheduler.
    workers : int, optional
        Number of worker processes to start with ``"local"``.
    """
    return partial(parts_of_cluster, address=address, local_workers=workers)


def parts_of_cluster(
    work: Work, claims: tuple[str, ...], first: int, address: str, local_workers: int | None = None
) -> Iterator[Part]:
    """Yield the parts from number ``first`` on, in order, computed by the workers of a scheduler.

    Parameters
    ----------
    work : Work
    claims : tuple of str
        Ids of the claims that ``work`` checks, in order.
    first : int
    address : str
        ``"local"`` or the address of a scheduler.
    local_workers : int, optional

    Raises
    ------
    UserError
        dask is missing, the scheduler does not answer or is lost, no worker is left, a worker lacks the package, has
        another version or cannot read the trace, or workers ended one after the other on the same part.
    """
    numbers = iter(range(first, len(work)))
    if first >= len(work):
        return
    order = Order.of(work, claims)
    with _connected(address, local_workers) as client:
        threads = _check_workers(client, address, order.path)
        run = uuid.uuid4().hex
        waiting: deque[tuple[int, Any]] = deque()
        for number in numbers:
            waiting.append((number, _sent(client, order, number, f"hlm-{run}-{number}", address)))
            if len(waiting) > 2 * threads:
                number, future = waiting.popleft()
                yield _result(client, future, number, address)
        for number, future in waiting:
            yield _result(client, future, number, address)


def _sent(client: Any, order: Order, number: int, key: str, address: str) -> Any:
    try:
        return client.submit(compute, order, number, key=key)
    except Exception as error:
        if client.status == "running":
            raise
        raise _lost(address) from error


@contextmanager
def _connected(address: str, local_workers: int | None = None) -> Iterator[Any]:
    """Connect to a scheduler, or start one with workers on this machine."""
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise UserError(
            f"--scheduler needs dask ({error.name} is missing); install the extra: python3 hlm setup validation scale"
        ) from error
    if address != LOCAL and ADDRESS.fullmatch(address) is None:
        raise UserError(f"The scheduler is {address!r}; give local, or an address such as tcp://127.0.0.1:8786.")
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is said in our own words
    cluster = client = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are compared below
            if address == LOCAL:
                cluster = distributed.LocalCluster(
                    n_workers=local_workers or cores(),
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address=None,
                    worker_dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            where = address if cluster is None else cluster.scheduler_address
            with ThreadPoolExecutor(1) as thread:  # the caller's thread may have a loop of its own
                thread.submit(asyncio.run, _greeted(where)).result()
            client = distributed.Client(where, timeout=WAIT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        if cluster is not None:
            cluster.close(timeout=5)
        raise UserError(
            f"The scheduler at {address} does not answer within {WAIT_S:g} s ({_first_line(error)}); check the address "
            "and that it runs."
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client.close(timeout=3)
            if cluster is not None:
                cluster.close(timeout=5)


async def _greeted(address: str) -> None:
    """Wait for a scheduler's first answer; dask's client itself waits without limit for the answer to its greeting."""
    from distributed.core import connect, send_recv

    async def answer() -> None:
        comm = await connect(address, timeout=WAIT_S)
        try:
            await send_recv(comm, op="identity", n_workers=0)
        finally:
            comm.abort()

    await asyncio.wait_for(answer(), WAIT_S)


def _check_workers(client: Any, address: str, path: str) -> int:
    """Refuse workers that differ from this process; return the number of their threads."""
    until = time.monotonic() + WAIT_S
    while not (workers := _workers_of(client, address)):
        if time.monotonic() > until:
            raise UserError(
                f"The scheduler at {address} has no worker after {WAIT_S:g} s; start some: dask worker {address}"
            )
        time.sleep(POLL_S)
    names = [*workers]
    here = platform.python_version_tuple()[:2]
    answers = _asked(client, address, client.scheduler.broadcast, msg={"op": "versions"}, workers=names)
    for name, found in answers.items():
        there = found["host"]["python"]
        if tuple(there.split(".")[:2]) != here:
            raise _differs(name, "Python", there, platform.python_version())
    wanted = about(path)
    for name, found in _asked(client, address, client._run, _question(), path, workers=names).items():
        _compare(name, found, wanted, path)
    return sum(int(one["nthreads"]) for one in workers.values())


def _compare(name: str, found: Mapping[str, str], wanted: Mapping[str, str], path: str) -> None:
    if lacks := found.get("lacks"):
        raise UserError(
            f"The worker {name} lacks {lacks}; install hlmtheory there, in this version, or start it with the same "
            "PYTHONPATH."
        )
    for what, value in wanted.items():
        if what != "trace" and found.get(what) != value:
            raise _differs(name, what, found.get(what, "missing"), value)
    if problem := found.get("problem"):
        raise UserError(
            f"The worker {name} cannot read the trace ({problem.rstrip('.')}); put it where every worker can read it "
            "under the same path."
        )
    if found.get("trace") != wanted.get("trace"):
        raise UserError(f"The worker {name} reads another trace at {path}; give a path that is the same for all.")


def _differs(name: str, what: str, there: str, here: str) -> UserError:
    remedy = "give both the same version"
    if what == "processor":
        here, there = _unlike(here, there), _unlike(there, here)
        remedy = "switch off what not all have, in all processes, with NPY_DISABLE_CPU_FEATURES"
    return UserError(
        f"The worker {name} has another {what}: {there} there, {here} here. The last digits could differ, so nothing "
        f"was sent; {remedy}."
    )


def _unlike(one: str, other: str) -> str:
    """Return the features that only one processor has.

    >>> _unlike("x86_64 AVX2 AVX512F", "x86_64 AVX2")
    'AVX512F'
    """
    return " ".join(word for word in one.split() if word not in other.split()) or "nothing more"


def _result(client: Any, future: Any, number: int, address: str) -> Part:
    """Return the part of a task; raise if it failed, or if the workers or the scheduler are lost for long."""
    import distributed

    stalled: float | None = None
    while True:
        try:
            with suppress(TimeoutError), client.as_current():
                distributed.wait(future, timeout=POLL_S)
            if future.status == "error":
                raise _failure(future.exception(timeout=WAIT_S), number, address)
            if future.status in ("cancelled", "lost") or client.status != "running":
                raise _lost(address)
            if future.status == "finished":
                with suppress(TimeoutError):  # its worker may be lost just now; then it is computed again
                    found: Part | Failure = future.result(timeout=POLL_S)
                    if isinstance(found, Failure):
                        raise _refusal(found)
                    return found
        except (distributed.CancelledError, asyncio.CancelledError) as error:  # the connection was lost
            raise _lost(address) from error
        workers = _workers_of(client, address)
        if any(one.get("status") == "running" for one in workers.values()):
            stalled = None
            continue
        stalled = stalled or time.monotonic()
        if time.monotonic() - stalled > WAIT_S:
            raise UserError(_why_stalled(workers, address))


def _why_stalled(workers: Mapping[str, Any], address: str) -> str:
    if workers:
        return (
            f"All {len(workers)} workers of {address} have paused for {WAIT_S:g} s, because their memory is nearly "
            f"full; give each more memory (--memory-limit) or fewer threads, and {CONTINUES}."
        )
    return f"No worker is left at {address} for {WAIT_S:g} s; start some, and {CONTINUES}."


def _refusal(failure: Failure) -> UserError:
    refusal = UserError(failure.said)
    if failure.lines:
        refusal.add_note(failure.lines)
    return refusal


def _failure(error: BaseException, number: int, address: str) -> UserError:
    """Return the sentence for a task that was not computed; its cause is dask's error."""
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        count = error.allowed_failures + 1
        ended = "A worker of" if count == 1 else f"{count} workers of"
        said = (
            f"{ended} {address} ended while computing part {number}, as workers do that need more memory than their "
            f"limit; give each more memory (--memory-limit) or fewer threads, and {CONTINUES}."
        )
    elif isinstance(error, ModuleNotFoundError):
        said = (
            f"A worker that joined {address} later lacks {error.name}; install hlmtheory there, in this version, and "
            f"{CONTINUES}."
        )
    else:
        said = (
            f"Part {number} was not computed on {address}: {type(error).__name__} ({_first_line(error)}); {CONTINUES}."
        )
    found = UserError(said)
    found.__cause__ = error
    return found


def _workers_of(client: Any, address: str) -> Mapping[str, Any]:
    """Return the workers that the scheduler knows."""
    found = _asked(client, address, client.scheduler.identity, n_workers=-1)
    workers: Mapping[str, Any] = found["workers"]
    return workers


def _asked(client: Any, address: str, question: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Return the answer of the scheduler, or raise if it does not come in time."""
    try:
        return client.sync(question, *args, callback_timeout=WAIT_S, **more)
    except (OSError, TimeoutError, ValueError, AttributeError) as error:
        if not isinstance(error, OSError | TimeoutError) and client.status == "running":
            raise
        raise _lost(address) from error


def _lost(address: str) -> UserError:
    return UserError(f"The scheduler at {address} was lost or has restarted; check it, and {CONTINUES}.")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
