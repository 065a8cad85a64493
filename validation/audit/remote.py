"""A user's sampler in a process of its own, seen from the audit: it answers, or the audit says why it does not."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from validation.audit.worker import LARGEST_REPLY, TWICE
from validation.errors import UserError

CALL_SECONDS = 3600.0
"""Longest time of one call of a sampler."""
LAST_SECONDS = 2.0
"""Time in which a process that has closed its output ends, and a copy that the sampler forked still comes back."""
WAKE = 0.1  # seconds between two looks at a process that does not answer
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from validation.audit.worker import serve; serve({})"


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
