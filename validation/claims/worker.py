"""What a worker of a dask scheduler does for a check: it reads a block of the trace, and sends back its tallies."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, cast

import numpy as np

import hlmtheory
from validation.claims.check import Part
from validation.claims.order import Order, opened, work_of
from validation.claims.progress import LIBRARIES, code_mark, trace_mark
from validation.errors import UserError
from validation.models.devices import out_of_memory


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker has no part. It is returned: dask loses an error whose traceback is too deep to be sent."""

    said: str
    lines: str  # where it failed; the last lines of its traceback


def compute(order: Order, number: int) -> Part | Failure:
    """Return one part, with tallies in place of verdicts, or why there is none; this runs on a worker."""
    try:
        return work_of(order).job(number)().counted()
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


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


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
        opened(path)
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
