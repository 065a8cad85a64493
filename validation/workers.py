"""Run functions on the workers of a dask scheduler, on this machine or on several; every wait has a limit.

dask computes a task again if its worker is lost. Results come in the order of the calls. Before anything is sent,
every worker says which source, libraries and processor it has, because otherwise the last digits may differ.
"""

import asyncio
import logging
import platform
import re
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, cast

import numpy as np

import hlmtheory
from validation.errors import UserError, first_line
from validation.models.devices import cores
from validation.provenance import code_digest, versions

LOCAL = "local"
WAIT_S = 30.0
"""Seconds to wait for an answer of a scheduler, for its first worker, and for a running worker when all are gone."""
POLL_S = 0.5
AHEAD = 2
"""Calls that are sent for each thread of a worker before the first result is taken."""
ADDRESS = re.compile(r"(tcp|tls)://([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")
LIBRARIES = ("numpy", "scipy", "array-api-compat")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a scheduler; ``"local"`` starts one on this machine, with one worker process a core."""
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
            warnings.simplefilter("ignore")  # versions are compared by refuse_other_workers
            if address == LOCAL:
                cluster = distributed.LocalCluster(
                    n_workers=cores(),
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


def workers_of(client: Any) -> Mapping[str, Any]:
    """Return the workers that the scheduler knows; raise if it does not answer in time."""
    try:
        found = client.sync(lambda: client.scheduler.identity(n_workers=-1), callback_timeout=WAIT_S)
    except (asyncio.CancelledError, OSError, TimeoutError, ValueError, AttributeError) as error:
        raise _lost() from error
    workers: Mapping[str, Any] = found["workers"]
    return workers


def _lost() -> UserError:
    return UserError(
        "The scheduler was lost or has restarted; check it, and the same command continues from what is stored."
    )


# ------------------------------------------------------------------------------------------------ equal workers


def about_here() -> dict[str, str]:
    """Return what this process has that a result depends on: source, libraries, processor."""
    features = cast("dict[str, Any]", np.show_config(mode="dicts")).get("SIMD Extensions", {})
    return versions(*LIBRARIES) | {
        "hlmtheory": f"{hlmtheory.__version__} (source {code_digest()[:8]})",
        "processor": " ".join([platform.machine(), *features.get("found", [])]),
    }


def refuse_other_workers(client: Any, address: str) -> int:
    """Wait for a worker, refuse workers that differ from this process, and return the number of their threads."""
    until = time.monotonic() + WAIT_S
    while not (workers := workers_of(client)):
        if time.monotonic() > until:
            raise UserError(
                f"The scheduler at {address} has no worker after {WAIT_S:g} s; start some: dask worker {address}"
            )
        time.sleep(POLL_S)
    wanted = about_here()
    try:
        answers = client.run(about_here, workers=[*workers], on_error="return")
    except (OSError, TimeoutError, asyncio.CancelledError) as error:
        raise _lost() from error
    for name, found in answers.items():
        if isinstance(found, ImportError | AttributeError) or "ModuleNotFoundError" in str(found):
            raise UserError(f"The worker {name} lacks this version of hlmtheory ({found}); install it there.")
        if isinstance(found, BaseException):
            raise UserError(f"The worker {name} does not answer ({first_line(found)}); end it or start it again.")
        for what, value in wanted.items():
            if found.get(what) != value:
                remedy = "give both the same version"
                if what == "processor":
                    remedy = "switch off what not all have, in all processes, with NPY_DISABLE_CPU_FEATURES"
                raise UserError(
                    f"The worker {name} has another {what}: {found.get(what)} there, {value} here. The last digits "
                    f"could differ, so nothing was sent; {remedy}."
                )
    return sum(int(worker["nthreads"]) for worker in workers.values())


# --------------------------------------------------------------------------------------------------------- calls


def in_order(
    client: Any, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], threads: int
) -> Iterator[Any]:
    """Yield the results of a function in the order of its calls; a window of calls is sent ahead."""
    waiting: deque[Any] = deque()
    for call in calls:
        waiting.append(client.submit(function, *call, pure=False))
        if len(waiting) > AHEAD * threads:
            yield _result(client, waiting.popleft())
    while waiting:
        yield _result(client, waiting.popleft())


def _result(client: Any, future: Any) -> Any:
    """Return the result of a task; raise if it failed, or if the workers or the scheduler are lost for long."""
    from distributed import CancelledError
    from distributed.scheduler import KilledWorker

    stalled: float | None = None
    while True:
        try:
            return future.result(timeout=POLL_S)
        except UserError:
            raise
        except KilledWorker as error:
            raise UserError(
                "A worker ended while it computed, as workers do that need more memory than their limit; give each "
                "more memory (--memory-limit) or fewer threads, and the same command continues."
            ) from error
        except (CancelledError, asyncio.CancelledError, OSError) as error:
            if not isinstance(error, TimeoutError):
                raise _lost() from error
        except Exception as error:
            raise UserError(
                f"A task failed on a worker with {type(error).__name__} ({first_line(error)}); run it without "
                "--scheduler to see where."
            ) from error
        if client.status != "running":
            raise _lost()
        running = any(worker.get("status") == "running" for worker in workers_of(client).values())
        stalled = None if running else stalled or time.monotonic()
        if stalled is not None and time.monotonic() - stalled > WAIT_S:
            raise UserError(
                f"No worker has run for {WAIT_S:g} s: all are gone, or have paused because their memory is nearly "
                "full; start some or give each more memory (--memory-limit), and the same command continues."
            )
