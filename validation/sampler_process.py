"""A user's sampler in a process of its own: it may exit, fail, or be killed, and only that process ends.

Requests go to its standard input and answers come from its standard output, one JSON object a line. Before the sampler
is imported there, both are moved out of its way: it reads nothing, and what it prints goes to the error output.
"""

import importlib
import importlib.util
import inspect
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from validation.errors import UserError

CALL_SECONDS = 3600.0
"""Longest time of one call of a sampler."""
LAST_SECONDS = 2.0
"""Time in which a process that has closed its output ends, and a copy that the sampler forked still comes back."""
WAKE = 0.1  # seconds between two looks at a process that does not answer
LARGEST_REPLY = 2**26
"""Characters of an answer: 4,096 draws of 64 tokens need fewer than 2 million."""
FORMS = "check the name, give FILE.py:function, or for a server vllm:http://HOST:PORT or llama:http://HOST:PORT"
TWICE = "came back in two processes; a process that it forks must end by os._exit"
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from validation.sampler_process import serve; serve({})"
)


class RemoteSampler:
    """The function ``module:function`` or ``FILE.py:function``, imported and called in another process."""

    def __init__(self, name: str, seconds: float = CALL_SECONDS) -> None:
        if not name.rpartition(":")[0]:
            raise UserError(f"{name!r} names no function; write module:function or FILE.py:function.")
        self.__name__, self._seconds, self._waits = name, seconds, False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START.format("sys.argv[2]"), json.dumps(sys.path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the audit, which then ends these processes together
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[bytes] = self._process.stdin
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        self._answer({})

    def __call__(self, prompts: Sequence[Sequence[int]], n: int, seed: int, depth: int) -> Any:
        return self._answer({"prompts": [list(prompt) for prompt in prompts], "n": n, "seed": seed, "depth": depth})

    def close(self) -> None:
        try:
            if not self._waits and self._process.poll() is None:
                self._input.close()
                if self._next_line(LAST_SECONDS):
                    raise UserError(f"{self.__name__} {TWICE}.")
        finally:
            self._end()

    def _answer(self, request: dict[str, Any]) -> Any:
        self._waits = True
        try:
            if request:
                self._input.write(json.dumps(request).encode() + b"\n")
                self._input.flush()
            line = self._next_line(self._seconds)
        except OSError:  # it has closed its input
            line = b""
        if not line:
            raise UserError(f"{self.__name__} {self._end(0.0 if line is None else LAST_SECONDS)}")
        try:
            answer = json.loads(line)
        except ValueError:  # two processes wrote at once
            answer = {"error": f"{self.__name__} {TWICE}."}
        if "error" in answer:
            self._end()
            raise UserError(answer["error"])
        self._waits = False
        return answer.get("returned")

    def _read(self, output: IO[bytes]) -> None:
        with output:
            while line := output.readline(2 * LARGEST_REPLY):
                self._lines.put(line)
        self._lines.put(b"")

    def _next_line(self, seconds: float) -> bytes | None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended = self._process.poll() is not None
            try:
                return self._lines.get(timeout=WAKE)
            except queue.Empty:
                if ended and self._waits:
                    return b""
        return None

    def _end(self, seconds: float = 0.0) -> str:
        self._waits = True
        try:
            code: int | None = self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):
            self._input.close()
        if code is None:
            return f"gave no answer; a call may take {self._seconds:g} seconds (--call-time)."
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        return f"ended its process {how} in place of returning draws; correct it."


def function_named(name: str) -> Callable[..., Any]:
    """Return the function ``module:function`` or ``FILE.py:function``."""
    place, _, function = name.rpartition(":")
    if place.endswith(".py"):
        path = Path(place)
        spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
        if spec is None or spec.loader is None:
            raise UserError(f"There is no file {place!r}; check the path.")
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent))
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not place.startswith(error.name):
                raise
            raise UserError(f"There is no module {place!r} here; {FORMS}.") from error
    sampler: Callable[..., Any] | None = getattr(module, function, None)
    if sampler is None or not callable(sampler):
        raise UserError(f"{place!r} has no function {function!r}; {FORMS}.")
    return sampler


def answer(function: Callable[..., Any], name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a sampler returns, as plain values, or why it returns nothing."""
    depth = {"depth": asked["depth"]} if "depth" in inspect.signature(function).parameters else {}
    try:
        returned = function(asked["prompts"], asked["n"], asked["seed"], **depth)
        reply = json.dumps({"returned": returned}, default=_plain)
        if len(reply) > LARGEST_REPLY:
            return {"error": f"{name} returned lists that are too long; return the new tokens of n texts alone."}
        plain: dict[str, Any] = json.loads(reply)
        return plain
    except _NoListError as error:
        return {"error": f"{name} returned {error}; for each prompt, return a list of n lists of token ids."}
    except BaseException as error:  # SystemExit and the like must not end the audit as if all were well
        return {"error": raised(name, error)}


class _NoListError(Exception):
    """A sampler returned something that is no list."""


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise _NoListError(type(value).__name__)


def raised(name: str, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    try:
        said = str(error)
    except BaseException as worse:
        said = type(worse).__name__
    where = f"{last.filename}, line {last.lineno}"
    return f"{name} raised {type(error).__name__} ({said}) in {where}; correct it."


def serve(name: str) -> None:
    """Import the sampler, then answer each request until the input ends."""
    requests, replies, own = os.dup(0), os.dup(1), os.getpid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def tell(said: dict[str, Any]) -> None:
        """Answer; a copy of this process that the sampler forked says so and ends."""
        copy = os.getpid() != own
        rest = json.dumps({"error": f"{name} {TWICE}."} if copy else said).encode() + b"\n"
        while rest:
            rest = rest[os.write(replies, rest) :]
        if copy:
            os._exit(0)

    try:
        function = function_named(name)
    except UserError as error:
        tell({"error": str(error)})
        return
    except BaseException as error:
        tell({"error": raised(name, error)})
        return
    tell({"ready": True})
    with os.fdopen(requests, encoding="utf-8") as lines:
        for line in lines:
            tell(answer(function, name, json.loads(line)))
