"""The process in which a user's sampler runs: it may exit, fail, or be killed, and only this process ends.

Requests come in on the standard input and answers go out on the standard output, one JSON object a line. Before the
sampler is imported, both are moved out of its way: it reads nothing, and what it prints goes to the error output.
"""

import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from validation.errors import UserError

LARGEST_REPLY = 2**26
"""Characters of an answer: 4,096 draws of 64 tokens need fewer than 2 million."""
FORMS = "check the name, give FILE.py:function, or for a server vllm:http://HOST:PORT or llama:http://HOST:PORT"
TWICE = "came back in two processes; a process that it forks must end by os._exit"


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
