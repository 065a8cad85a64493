"""Start and end a command line: its exit code, missing extras, Ctrl-C. Importing this module needs no extra."""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from validation.cli.exits import INTERRUPTED, REFUSED, VIOLATED, Verdict, missing_extra
from validation.installed import COMMANDS, extras_of, pip_line

TRACEBACK = "HLM_TRACEBACK"


def main() -> None:
    start(_commands)


def _commands(**options: Any) -> None:
    if sys.argv[1:] == ["--version"]:  # must work without any extra
        from hlmtheory import __version__

        print(f"hlmtheory, version {__version__}")
        return
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["MPLBACKEND"] = "agg"  # files alone are drawn; Jupyter sets its own, which may be missing here
    # torch's threads sleep while they wait. Threads that spin were over 20 times slower on two cores with other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from validation.cli.commands import main as commands
    except ModuleNotFoundError as error:
        if sys.argv[1:] not in ([], ["-h"], ["--help"]) or missing_extra(error) is None:
            raise
        print(_core_help())
        return
    commands(**options)


def _core_help() -> str:
    """Return the help of an install without extras: the commands, and the line that installs what each needs."""
    lines = ["Usage: hlm COMMAND", "", "The library is installed (import hlmtheory). The commands need more:", ""]
    for extras in dict.fromkeys(map(extras_of, COMMANDS)):
        names = ", ".join(name for name in COMMANDS if extras_of(name) == extras)
        lines += [f"  {names}", f"      {pip_line(extras)}"]
    return "\n".join([*lines, "", "After that, hlm --help says what each does. hlm --version works as it is."])


def start(commands: Callable[..., Any]) -> None:
    """Run a command line, then end this process. This is the one place that decides the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # what an encoding lacks does not stop the command
    code = _run(commands)
    if code == INTERRUPTED and threading.active_count() > 1:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(INTERRUPTED)  # sys.exit would wait for running threads
    sys.exit(code)


def _run(commands: Callable[..., Any]) -> int:
    try:
        commands(prog_name="hlm")
    except Verdict:
        return VIOLATED
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return REFUSED if end.code == VIOLATED else end.code or 0
        print(end.code, file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:  # the panics of Rust packages are no Exception
        print(f"Error: {_sentence(error)}", file=sys.stderr)
        return REFUSED
    return 0


def _sentence(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and (
        said := missing_extra(error, sys.argv[1] if len(sys.argv) > 1 else None)
    ):
        return said
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = " ".join(str(error).split())[:200]
    return (
        f"{type(error).__name__}{place}: {what or 'no reason given'}. Check the files and values that the command was "
        f"given; if they are right, this is a defect of hlm, and {TRACEBACK}=1 shows where."
    )
