"""Call functions in processes of this machine, for work that threads cannot share because of Python's lock.

Processes are spawned and not forked: a context of CUDA and the threads of torch do not survive a fork. Each computes
with one thread, so that processes times threads is at most the number of cores. A process ends when its parent ends,
however that ends. Ctrl-C is the parent's: it ends the processes at once.
"""

import multiprocessing
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, Self, TypeVar

from validation.errors import UserError

T = TypeVar("T")
Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module, and its arguments; both are pickled."""

TRIES = 3
"""Times that the processes are started before a call is given up."""
POLL_S = 0.2
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_to_end(argv: Sequence[str], **options: Any) -> int:
    """Run a command and return its exit code; SIGTERM ends the command too, then this process as Ctrl-C does."""
    with subprocess.Popen(list(argv), **options) as child:

        def end(*_: object) -> None:
            child.terminate()
            raise KeyboardInterrupt

        if threading.current_thread() is not threading.main_thread():  # only the main thread may set a handler
            return child.wait()
        before = signal.signal(signal.SIGTERM, end)
        try:
            return child.wait()
        except KeyboardInterrupt:
            child.wait()  # not in the handler: the wait that it interrupts holds a lock
            raise
        finally:
            signal.signal(signal.SIGTERM, before)


def in_threads(jobs: Iterable[Callable[[], T]], workers: int) -> Iterator[T]:
    """Run jobs in threads of this process and yield their results in order, so that sums are reproducible."""
    pool = ThreadPoolExecutor(workers)
    finished = False
    try:
        waiting: deque[Future[T]] = deque()
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        finished = True
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)


class Processes:
    """Worker processes, started by the first call and ended with the block."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None
        self._lost = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End all processes at once; what they compute is lost."""
        if self._pool is None:
            return
        for process in list((self._pool._processes or {}).values()):
            with suppress(OSError):
                process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None

    def in_order(self, calls: Iterable[Call], *, ahead: int, tick: Callable[[], None] | None = None) -> Iterator[Any]:
        waiting: deque[tuple[Call, Future[Any]]] = deque()
        self._lost = 0
        for call in calls:
            waiting.append((call, self._send(call)))
            if len(waiting) >= ahead:
                yield self._first(waiting, tick)
        while waiting:
            yield self._first(waiting, tick)

    def _first(self, waiting: deque[tuple[Call, Future[Any]]], tick: Callable[[], None] | None) -> Any:
        while True:
            try:
                future = waiting[0][1]
                while not wait([future], timeout=POLL_S).done:
                    if tick is not None:
                        tick()
                found = future.result()
                waiting.popleft()
                return found
            except BrokenProcessPool as error:
                self._lost += 1
                if self._lost >= TRIES:
                    raise UserError(
                        f"A worker process ended {self._lost} times before its work was done, as it does when the "
                        "memory is full; free some memory, and run the same command again."
                    ) from error
                again = [(call, one if one.done() and not one.exception() else None) for call, one in waiting]
                self.end()
                waiting.clear()
                waiting.extend((call, kept or self._send(call)) for call, kept in again)

    def _send(self, call: Call) -> Future[Any]:
        function, arguments = call
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.count, mp_context=context, initializer=_begin)
        try:
            return self._pool.submit(function, *arguments)
        except BrokenProcessPool as error:  # a process was lost since the last look
            lost: Future[Any] = Future()
            lost.set_exception(error)
            return lost


def _begin() -> None:
    """Prepare a new process: one thread, no Ctrl-C, and no life after its parent's."""
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before numpy or torch is imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "fork"):  # a lock that a library makes, such as tqdm's, has then no name left when this is killed
        multiprocessing.set_start_method("fork", force=True)
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
