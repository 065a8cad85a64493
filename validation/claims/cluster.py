"""Compute the parts of a check on the workers of a dask scheduler, in other processes or on other machines.

A task names a part by its number. The worker reads the block of the trace itself and sends back a tally for each claim,
a few kilobytes. Tallies are merged in the order of the parts, so the results are those of one process, whatever the
number, the speed and the failures of the workers. dask computes a part again if its worker is lost; a part that waits
for a paused worker is sent to others too.

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
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from validation.claims.check import Part, PartsOf, Work
from validation.claims.order import CONTINUES, Order
from validation.claims.worker import Failure, about, compute, first_line, question
from validation.errors import UserError
from validation.models.devices import cores

LOCAL = "local"
WAIT_S = 30.0
"""Seconds to wait for an answer of a scheduler, and for its first worker."""
STALLED_S = 30.0
"""Seconds to wait for a worker to come back, or for one that has paused to continue."""
POLL_S = 0.5
WORKERS_S = 5.0
"""Seconds after which the workers are counted again: some may have joined."""
ADDRESS = re.compile(r"(tcp|tls)://([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")


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
    if first >= len(work):
        return
    order = Order.of(work, claims)
    with _connected(address, local_workers) as client:
        threads = _check_workers(client, address, order.path)
        tasks = _Tasks(client, address, order, threads)
        waiting: deque[tuple[int, Any]] = deque()
        for number in range(first, len(work)):
            waiting.append((number, tasks.sent(number)))
            if len(waiting) > 2 * tasks.threads():
                yield tasks.part(*waiting.popleft())
        while waiting:
            yield tasks.part(*waiting.popleft())


class _Tasks:
    """The tasks of one check on the workers of a scheduler.

    Parameters
    ----------
    client : distributed.Client
    address : str
    order : Order
    threads : int
        Of all workers.
    """

    def __init__(self, client: Any, address: str, order: Order, threads: int) -> None:
        self.client, self.address, self.order = client, address, order
        self.run = uuid.uuid4().hex
        self._threads, self._counted = threads, time.monotonic()

    def threads(self) -> int:
        """Return the threads of the workers that are there; counted now and then, since workers join and leave."""
        if time.monotonic() - self._counted > WORKERS_S:
            workers = _workers_of(self.client, self.address)
            self._threads = sum(int(one["nthreads"]) for one in workers.values()) or self._threads
            self._counted = time.monotonic()
        return self._threads

    def sent(self, number: int, attempt: int = 0, workers: list[str] | None = None) -> Any:
        """Return the future of one part, sent to these workers or to any."""
        key = f"hlm-{self.run}-{number}-{attempt}"
        try:
            return self.client.submit(compute, self.order, number, key=key, workers=workers)
        except Exception as error:
            if self.client.status == "running":
                raise
            raise _lost(self.address) from error

    def part(self, number: int, future: Any) -> Part:
        """Return a part; raise if its task failed, or if the workers or the scheduler are lost for long."""
        stalled: float | None = None
        since, attempts = time.monotonic(), [future]
        while True:
            for one in attempts:
                if (found := self._found(number, one)) is not None:
                    return found
            workers = _workers_of(self.client, self.address)
            running = [name for name, one in workers.items() if one.get("status") == "running"]
            stalled = None if running else stalled or time.monotonic()
            if stalled is not None and time.monotonic() - stalled > STALLED_S:
                raise UserError(_why_stalled(workers, self.address))
            if time.monotonic() - since > STALLED_S and running and self._is_held(attempts[-1], workers):
                attempts.append(self.sent(number, len(attempts), running))
                since = time.monotonic()

    def _found(self, number: int, future: Any) -> Part | None:
        """Wait for a task for a moment, and return its part; None if it is not there yet."""
        import distributed

        try:
            with suppress(TimeoutError), self.client.as_current():
                distributed.wait(future, timeout=POLL_S)
            if future.status == "error":
                raise _failure(future.exception(timeout=WAIT_S), number, self.address)
            if future.status == "cancelled" or self.client.status != "running":  # "lost": it is computed again
                raise _lost(self.address)
            if future.status == "finished":
                with suppress(TimeoutError):  # its worker may be lost just now; then it is computed again
                    found: Part | Failure = future.result(timeout=POLL_S)
                    if isinstance(found, Failure):
                        raise _refusal(found)
                    return found
        except (distributed.CancelledError, asyncio.CancelledError, OSError) as error:  # the connection was lost
            raise _lost(self.address) from error
        return None

    def _is_held(self, future: Any, workers: Mapping[str, Any]) -> bool:
        """Return whether a task waits for a paused worker, which begins no task and gives none back."""
        processing = _asked(self.client, self.address, lambda: self.client.scheduler.processing(workers=None))
        holders = [name for name, keys in processing.items() if future.key in keys]
        return any(workers.get(name, {}).get("status") == "paused" for name in holders)


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
            f"The scheduler at {address} does not answer within {WAIT_S:g} s ({first_line(error)}); check the address "
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
    answers = _asked(client, address, lambda: client.scheduler.broadcast(msg={"op": "versions"}, workers=names))
    for name, found in answers.items():
        there = found["host"]["python"]
        if tuple(there.split(".")[:2]) != here:
            raise _differs(name, "Python", there, platform.python_version())
    wanted = about(path)
    for name, found in _asked(client, address, lambda: client._run(question(), path, workers=names)).items():
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


def _why_stalled(workers: Mapping[str, Any], address: str) -> str:
    if workers:
        return (
            f"All {len(workers)} workers of {address} have paused for {STALLED_S:g} s, because their memory is nearly "
            f"full; give each more memory (--memory-limit) or fewer threads, and {CONTINUES}."
        )
    return f"No worker is left at {address} for {STALLED_S:g} s; start some, and {CONTINUES}."


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
            f"Part {number} was not computed on {address}: {type(error).__name__} ({first_line(error)}); {CONTINUES}."
        )
    found = UserError(said)
    found.__cause__ = error
    return found


def _workers_of(client: Any, address: str) -> Mapping[str, Any]:
    """Return the workers that the scheduler knows."""
    workers: Mapping[str, Any] = _asked(client, address, lambda: client.scheduler.identity(n_workers=-1))["workers"]
    return workers


def _asked(client: Any, address: str, question: Callable[[], Any]) -> Any:
    """Return the answer of the scheduler, or raise if it does not come in time."""
    try:
        return client.sync(question, callback_timeout=WAIT_S)
    except asyncio.CancelledError as error:
        raise _lost(address) from error
    except (OSError, TimeoutError, ValueError, AttributeError) as error:
        if not isinstance(error, OSError | TimeoutError) and client.status == "running":
            raise
        raise _lost(address) from error


def _lost(address: str) -> UserError:
    return UserError(f"The scheduler at {address} was lost or has restarted; check it, and {CONTINUES}.")
