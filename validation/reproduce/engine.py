"""Run commands in their order: skip what is up to date, store each finished one at once with its time."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.processes import run_to_end
from validation.provenance import commit_of_code, file_digest
from validation.reproduce.tasks import STAMPS, Task
from validation.trace.journal import write_atomically

DONE_FILE = "done.json"
UP_TO_DATE, TO_RUN, NOT_RUN, FAILED, DONE = "up to date", "to run", "not run", "failed", "done"

Runner = Callable[[Task], None]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class State:
    """What a task's state is: one of the words above, why, and how many seconds it took when it ran last."""

    task: Task
    word: str
    why: str = ""
    seconds: float | None = None


def in_a_process(root: Path) -> Runner:
    """Return a runner that runs each command as a process of its own in a folder; SIGTERM ends both."""

    def run(task: Task) -> None:
        for command in task.commands:
            if (code := run_to_end([sys.executable, *command], cwd=root)) not in task.allowed:
                raise UserError(f"{task.name} ended with exit code {code}; the same command continues.")

    return run


def states(tasks: Sequence[Task], out: Path, known: Mapping[str, float] | None = None) -> list[State]:
    """Return the state of each task, each after those that it needs, without running any."""
    done, found = _read(out), list[State]()
    made: set[Path] = set()  # outputs that will be new
    for task in tasks:
        seconds = done.get(task.name, {}).get("seconds", (known or {}).get(task.name))
        if blocked := task.needs or _needed(task, found):
            found.append(State(task, NOT_RUN, f"needs {blocked}", seconds))
        elif made.isdisjoint(task.inputs) and _is_done(task, done):
            found.append(State(task, UP_TO_DATE, "", seconds))
        else:
            made.update(task.outputs)
            found.append(State(task, TO_RUN, "", seconds))
    return found


def run_tasks(tasks: Sequence[Task], out: Path, runner: Runner, report: Report) -> list[State]:
    """Run the tasks that are not up to date, in their order; after a failure, run those that do not depend on it."""
    out.mkdir(parents=True, exist_ok=True)
    found: list[State] = []
    for number, task in enumerate(tasks, 1):
        blocked = task.needs or _needed(task, found)
        found.append(State(task, NOT_RUN, f"needs {blocked}") if blocked else _run_one(task, out, runner))
        report(f"[{number}/{len(tasks)}] {line_of(found[-1])}")
    return found


def line_of(state: State) -> str:
    time_said = f" ({duration(state.seconds)})" if state.word in (TO_RUN, DONE) else ""
    why = f": {state.why}" if state.why else ""
    return f"{state.task.name}: {state.word}{time_said}{why}"


def total_of(found: Sequence[State]) -> str:
    """Return one line for the tasks that are to run: how many, and the sum of their known times.

    >>> one, other = Task("a", ()), Task("b", ())
    >>> total_of([State(one, TO_RUN, seconds=5400.0), State(other, TO_RUN), State(other, DONE)])
    'To run: 2 of 3 tasks, 1.5 h, and 1 of unknown time.'
    """
    waiting = [state.seconds for state in found if state.word == TO_RUN]
    known = [seconds for seconds in waiting if seconds is not None]
    unknown = f", and {len(waiting) - len(known)} of unknown time" if len(known) < len(waiting) else ""
    sums = duration(sum(known)) if known or not waiting else duration(None)
    return f"To run: {len(waiting)} of {len(found)} tasks, {sums}{unknown if known else ''}."


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "time unknown"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _needed(task: Task, found: Sequence[State]) -> str:
    absent = [s.task for s in found if s.word in (NOT_RUN, FAILED)]
    return ", ".join(one.name for one in absent if set(one.outputs) & set(task.inputs))


def _run_one(task: Task, out: Path, runner: Runner) -> State:
    done, began = _read(out), time.perf_counter()
    if _is_done(task, done):
        return State(task, UP_TO_DATE, "", done[task.name]["seconds"])
    if done.pop(task.name, None):  # what a stopped run leaves is not up to date
        write_atomically(out / DONE_FILE, json.dumps(done, indent=1) + "\n")
    for path in task.outputs:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        runner(task)
    except UserError as error:
        return State(task, FAILED, str(error), time.perf_counter() - began)
    seconds = time.perf_counter() - began
    done[task.name] = {"mark": _mark(task), "seconds": round(seconds, 1)}
    write_atomically(out / DONE_FILE, json.dumps(done, indent=1) + "\n")
    if task.run is not None:
        stamps = task.run / STAMPS
        before = json.loads(stamps.read_text(encoding="utf-8")) if stamps.exists() else {}
        before[task.name.partition(":")[2]] = commit_of_code()
        write_atomically(stamps, json.dumps(before, indent=1) + "\n")
    return State(task, DONE, "", seconds)


def _is_done(task: Task, done: Mapping[str, Any]) -> bool:
    made = all(path.exists() for path in (*task.inputs, *task.outputs))
    return made and task.name in done and done[task.name]["mark"] == _mark(task)


def _mark(task: Task) -> str:
    found = hashlib.sha256(json.dumps([task.commands, task.code]).encode())
    for path in task.inputs:
        found.update(file_digest(path).encode())
    return found.hexdigest()


def _read(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / DONE_FILE).read_text(encoding="utf-8"))
        return {name: {"mark": str(one["mark"]), "seconds": float(one["seconds"])} for name, one in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}
