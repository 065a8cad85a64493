"""Run tasks with doit: skip what is up to date, store each finished task at once, measure the time.

doit compares the hashes of a task's inputs, its command and its code with those of its last run. It stores what it
knows when it ends, so each task is a run of doit of its own: a kill loses at most one task.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.processes import run_to_end
from validation.reproduce.tasks import Task
from validation.trace.journal import write_atomically

STATE, TIMES = ".doit.sqlite3", "times.json"
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
    """Return a runner that runs each task as a process of its own in a folder; SIGTERM ends both.

    Raises
    ------
    UserError
        The runner raises it if the process fails.
    """

    def run(task: Task) -> None:
        code = run_to_end([sys.executable, *task.argv], cwd=root)
        if code:
            raise UserError(f"{task.name} ended with exit code {code}; the same command continues.")

    return run


def states(tasks: Sequence[Task], out: Path, known: Mapping[str, float] | None = None) -> list[State]:
    """Return the state of each task without running any.

    Parameters
    ----------
    tasks : sequence of Task
        Each after those that it needs.
    out : Path
        Folder of the runs, where states and times are stored.
    known : mapping of str to float, optional
        Seconds of tasks that never ran here, by name.
    """
    from doit.dependency import Dependency, SqliteDB

    times = {**(known or {}), **read_times(out)}
    found: list[State] = []
    made: set[Path] = set()  # outputs that will be new
    store = Dependency(SqliteDB, str(out / STATE)) if out.exists() else None
    try:
        for task in tasks:
            seconds = times.get(task.name)
            blocked = task.needs or _needed(task, found)
            if blocked:
                found.append(State(task, NOT_RUN, f"needs {blocked}", seconds))
                continue
            new = any(path in made for path in task.inputs)
            if not new and store is not None and store.get_status(_doit_task(task, None), {}).status == "up-to-date":
                found.append(State(task, UP_TO_DATE, "", seconds))
                continue
            made.update(task.outputs)
            found.append(State(task, TO_RUN, "", seconds))
    finally:
        if store is not None:
            store.close()
    return found


def run_tasks(tasks: Sequence[Task], out: Path, runner: Runner, report: Report) -> list[State]:
    """Run the tasks that are not up to date, in their order; after a failure, run those that do not depend on it.

    Parameters
    ----------
    tasks : sequence of Task
    out : Path
        Folder of the runs, where states and times are stored.
    runner : callable
        Runs one task; raises a UserError if it fails.
    report : callable
        Called with a line for each task.
    """
    out.mkdir(parents=True, exist_ok=True)
    found: list[State] = []
    for number, task in enumerate(tasks, 1):
        blocked = task.needs or _needed(task, found)
        state = State(task, NOT_RUN, f"needs {blocked}") if blocked else _run_one(task, out, runner)
        report(f"[{number}/{len(tasks)}] {line_of(state)}")
        found.append(state)
    return found


def line_of(state: State) -> str:
    """Return one line for a state.

    >>> line_of(State(Task("builtin:fit", ()), "to run", seconds=22.0))
    'builtin:fit: to run (22 s)'
    """
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
    """Return a time in words.

    >>> duration(None), duration(42.4), duration(600), duration(9000)
    ('time unknown', '42 s', '10 min', '2.5 h')
    """
    if seconds is None:
        return "time unknown"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def read_times(out: Path) -> dict[str, float]:
    """Return the stored seconds of the tasks, by name; none if the file is missing or damaged."""
    try:
        found = json.loads((out / TIMES).read_text(encoding="utf-8"))
        return {str(name): float(seconds) for name, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _needed(task: Task, found: Sequence[State]) -> str:
    """Return the names of the tasks that did not run and make inputs of this one."""
    absent = [s.task for s in found if s.word in (NOT_RUN, FAILED)]
    return ", ".join(one.name for one in absent if set(one.outputs) & set(task.inputs))


def _run_one(task: Task, out: Path, runner: Runner) -> State:
    """Run one task in a run of doit; return its state."""
    from doit.cmd_base import TaskLoader2
    from doit.doit_cmd import DoitMain
    from doit.reporter import ZeroReporter

    began, ran, problems = time.perf_counter(), [], []

    def action() -> None:
        ran.append(task.name)
        try:
            for path in task.outputs:
                path.parent.mkdir(parents=True, exist_ok=True)
            runner(task)
        except UserError as error:
            problems.append(str(error))
            raise

    class Loader(TaskLoader2):  # type: ignore[misc]
        def load_doit_config(self) -> dict[str, Any]:
            return {"dep_file": str(out / STATE), "backend": "sqlite3", "reporter": ZeroReporter, "verbosity": 2}

        def load_tasks(self, cmd: Any, pos_args: Any) -> list[Any]:
            return [_doit_task(task, action)]

    code = DoitMain(Loader(), config_filenames=()).run(["run", task.name])
    seconds = time.perf_counter() - began
    if code:
        return State(task, FAILED, problems[0] if problems else f"doit ended with code {code}", seconds)
    if not ran:
        return State(task, UP_TO_DATE, "", read_times(out).get(task.name))
    times = {**read_times(out), task.name: round(seconds, 1)}
    write_atomically(out / TIMES, json.dumps(times, indent=1) + "\n")
    return State(task, DONE, "", seconds)


def _doit_task(task: Task, action: Callable[[], None] | None) -> Any:
    """Return the task as doit's record."""
    from doit.task import dict_to_task
    from doit.tools import config_changed

    return dict_to_task(
        {
            "name": task.name,
            "actions": [action] if action else None,
            "file_dep": [str(path) for path in task.inputs],
            "targets": [str(path) for path in task.outputs],
            "uptodate": [config_changed({"argv": list(task.argv), "code": task.code})],
        }
    )
