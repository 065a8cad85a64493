"""Where a command line begins and ends: exit codes, a missing extra, Ctrl-C. It needs no package of any extra."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires
from typing import Any, TextIO

VIOLATED, REFUSED, PARTLY, INTERRUPTED, CLOSED = 1, 2, 3, 130, 141
EXIT_CODES = """\
Exit codes: 0 done, no claim is violated; 1 a claim is violated, a test failed, or `repro --check` found a stale table;
2 you can mend it (a wrong argument, a missing file, a full disk); 3 partly done, the rest is listed; 130 interrupted;
141 the reader of the output left (`| head`)."""
PROJECT = "hlmtheory"


def main() -> None:
    """Run ``hlm``, the script that pip makes."""
    start(_commands)


def _commands(**options: Any) -> None:
    if sys.argv[1:] == ["--version"]:  # without an extra, too
        from hlmtheory import __version__

        print(f"hlmtheory, version {__version__}")
        return
    from validation.__main__ import main as commands

    commands(**options)


def start(commands: Callable[..., Any]) -> None:
    """Run a command line to its end; this process ends with it.

    A package that is missing is explained. After Ctrl-C the process ends at once, though a thread may still be at work
    on what nobody waits for.
    """
    for stream in (sys.stdout, sys.stderr):
        _write_anything(stream)
    code: Any = 0
    try:
        commands(prog_name="hlm")
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        code = INTERRUPTED
    except ModuleNotFoundError as error:
        said = missing_extra(error)
        if said is None:
            raise
        print(f"Error: {said}", file=sys.stderr)
        code = REFUSED
    if code == INTERRUPTED and threading.active_count() > 1:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(INTERRUPTED)  # sys.exit would wait for the threads
    sys.exit(code)


def _write_anything(stream: TextIO) -> None:
    """Let a stream take any text: what its encoding lacks is written as an escape, and does not end the command."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """The sentence for a package that belongs to an extra of this project; None for any other.

    >>> missing_extra(ModuleNotFoundError("No module named 'click'", name="click"))
    "This command needs click; install the extra: pip install '.[validation]' in the project's folder."
    """
    package = (error.name or "").split(".")[0]
    extra = _extras().get(package)
    if extra is None:
        return None
    return f"This command needs {package}; install the extra: pip install '.[{extra}]' in the project's folder."


def _extras() -> dict[str, str]:
    """The extra that brings each package: ``validation`` if that one does, else the first."""
    found: dict[str, str] = {}
    try:
        wanted = requires(PROJECT) or []
    except PackageNotFoundError:
        return found
    for line in wanted:
        if match := re.fullmatch(r"([\w.-]+)[^;]*;\s*extra == ['\"](\w+)['\"]", line):
            module, extra = match[1].replace("-", "_").lower(), match[2]
            if extra == "validation" or module not in found:
                found[module] = extra
    return found
