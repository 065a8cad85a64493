"""Start and end a command line: missing extras and Ctrl-C. Importing this module needs no extra."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from validation.cli.exits import INTERRUPTED, REFUSED, missing_extra


def main() -> None:
    """Run ``hlm``, the script that pip makes."""
    start(_commands)


def _commands(**options: Any) -> None:
    if sys.argv[1:] == ["--version"]:  # must work without any extra
        from hlmtheory import __version__

        print(f"hlmtheory, version {__version__}")
        return
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # torch's threads sleep while they wait. Threads that spin were over 20 times slower on two cores with other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from validation.cli.commands import main as commands

    commands(**options)


def start(commands: Callable[..., Any]) -> None:
    """Run a command line, then end this process.

    If a package is missing, the message names the extra to install. After Ctrl-C the process ends at once and does not
    wait for running threads.
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
        os._exit(INTERRUPTED)  # sys.exit would wait for running threads
    sys.exit(code)


def _write_anything(stream: TextIO) -> None:
    """Escape characters that a stream's encoding lacks, so that they do not stop the command."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
