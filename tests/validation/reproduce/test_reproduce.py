"""``hlm reproduce``: tasks are skipped when they are up to date, and a tiny run goes from the models to the figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from validation.collection.prompts import Prompt
from validation.decoding.methods.registry import Fitted
from validation.errors import UserError
from validation.models import smollm2
from validation.reproduce import steps
from validation.reproduce.engine import DONE, FAILED, NOT_RUN, TO_RUN, UP_TO_DATE, run_tasks, states
from validation.reproduce.experiments import EXPERIMENTS
from validation.reproduce.tasks import Setting, Task, chosen, tasks_of


def chain(folder: Path, *, code: str = "1") -> list[Task]:
    """Two tasks: the second reads what the first makes."""
    first, second = folder / "first", folder / "second"
    return [
        Task("a", ("a",), (folder / "given",), (first,), code),
        Task("b", ("b",), (first,), (second,), code),
    ]


def writing(ran: list[str], *, fails: tuple[str, ...] = ()) -> Callable[[Task], None]:
    """A runner that writes the outputs of a task, from the content of its inputs."""

    def run(task: Task) -> None:
        ran.append(task.name)
        if task.name in fails:
            raise UserError(f"{task.name} failed")
        for path in task.outputs:
            path.write_text("".join(one.read_text() for one in task.inputs) + task.name)

    return run


def words(found: list[object]) -> list[str]:
    return [one.word for one in found]  # type: ignore[attr-defined]


def test_a_second_run_does_nothing_and_a_change_runs_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("x")
    out, ran, lines = tmp_path / "out", [], []
    assert words(states(chain(tmp_path), out)) == [TO_RUN, TO_RUN]
    assert words(run_tasks(chain(tmp_path), out, writing(ran), lines.append)) == [DONE, DONE]
    assert ran == ["a", "b"]
    assert words(run_tasks(chain(tmp_path), out, writing(ran), lines.append)) == [UP_TO_DATE] * 2
    assert words(states(chain(tmp_path), out)) == [UP_TO_DATE] * 2
    assert ran == ["a", "b"]
    (tmp_path / "given").write_text("y")
    assert words(states(chain(tmp_path), out)) == [TO_RUN] * 2  # b as well: its input will be new
    run_tasks(chain(tmp_path), out, writing(ran), lines.append)
    assert ran == ["a", "b", "a", "b"]
    (out / "done.json").write_text("{")  # damaged: all runs again
    assert words(states(chain(tmp_path), out)) == [TO_RUN] * 2
    run_tasks(chain(tmp_path), out, writing(ran), lines.append)
    (tmp_path / "second").unlink()
    assert words(states(chain(tmp_path), out)) == [UP_TO_DATE, TO_RUN]
    assert words(states(chain(tmp_path, code="2"), out)) == [TO_RUN, TO_RUN]  # other code makes other results


def test_a_stop_loses_one_task_and_a_failure_blocks_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("x")
    out, ran, lines = tmp_path / "out", [], []
    found = run_tasks(chain(tmp_path), out, writing(ran, fails=("b",)), lines.append)
    assert words(found) == [DONE, FAILED]
    assert found[1].why == "b failed"
    assert words(run_tasks(chain(tmp_path), out, writing(ran), lines.append)) == [UP_TO_DATE, DONE]
    assert ran == ["a", "b", "b"]
    (tmp_path / "given").write_text("y")
    found = run_tasks(chain(tmp_path), out, writing(ran, fails=("a",)), lines.append)
    assert words(found) == [FAILED, NOT_RUN]

    def killed(task: Task) -> None:
        if task.name == "b":
            raise KeyboardInterrupt
        writing(ran)(task)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(chain(tmp_path), out, killed, lines.append)
    assert words(states(chain(tmp_path), out)) == [UP_TO_DATE, TO_RUN]


def test_each_task_comes_after_what_makes_its_inputs_and_what_is_missing_is_said(tmp_path: Path) -> None:
    tasks = {task.name: task for task in tasks_of(Setting(tmp_path, tmp_path / "out", pairs=("builtin", "wide")))}
    assert "wide in --models" in tasks["wide:collect"].needs
    assert tasks["experiment:flexspec_tables"].needs.startswith("gsm8k")
    assert not tasks["builtin:collect"].needs
    assert {f"builtin:decode:{name}" for name in ("hlm", "design")} <= tasks.keys()
    found = {one.task.name: one for one in states(list(tasks.values()), tmp_path / "out")}
    assert (found["wide:draw"].word, found["builtin:draw"].word) == (NOT_RUN, TO_RUN)
    names = [task.name for task in chosen(list(tasks.values()), ["builtin:decode:hlm"])]
    assert names == ["builtin:collect", "builtin:fit", "builtin:decode:hlm"]
    with pytest.raises(UserError, match="no paper 'x'"):
        tasks_of(Setting(tmp_path, tmp_path, paper="x"))
    trained = Setting(tmp_path, tmp_path / "out", pairs=("instructed",), data=tmp_path / "data", models=tmp_path / "m")
    made = set[Path]()
    for task in tasks_of(trained):
        assert set(task.inputs) <= made, task.name
        made.update(task.outputs)
    for module in (one.argv[1] for one in EXPERIMENTS):
        assert (Path(__file__).parents[3] / module.replace(".", "/")).with_suffix(".py").is_file()


def test_the_real_model_is_found_by_name_or_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise UserError("run 'python3 hlm setup smollm2'")

    setting = Setting(tmp_path, tmp_path / "out", pairs=("smollm2",))
    monkeypatch.setattr(smollm2, "weights_file", missing)
    assert {task.needs for task in tasks_of(setting)} == {"run 'python3 hlm setup smollm2'"}
    monkeypatch.setattr(smollm2, "weights_file", lambda: tmp_path / "model.gguf")
    tasks = {task.name: task for task in tasks_of(setting)}
    assert not any(task.needs for task in tasks.values())
    assert tasks["smollm2:collect"].inputs == (tmp_path / "model.gguf",)
    assert tasks["smollm2:collect"].argv[-4:] == ("--positions", "2400", "--new-tokens", "60")
    assert tasks["smollm2:decode:hlm"].argv[-2:] == ("--new-tokens", "96")
    assert {"smollm2:decode:hlm", "smollm2:decode:design", "smollm2:publish"} <= tasks.keys()
    assert not [name for name in tasks if name.startswith("experiment") or name.endswith("train")]


def test_a_tiny_run_goes_from_the_models_to_the_figures(
    tmp_path: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick, with two tiny models in the place of the built-in pair, and each step in this process."""
    from validation.models import pair as pairs
    from validation.plots import EXHIBITS

    real = pairs.load_pair
    monkeypatch.setattr(pairs, "load_pair", lambda *_, **__: real(draft=folders[0], target=folders[1]))
    texts = [Prompt(f"p{number}", f"two and {number}", "GSM8K") for number in range(40)]
    monkeypatch.setattr("validation.collection.prompts.builtin_prompts", lambda: texts)
    fitted = Fitted(0.5, 0.0, 0.5, 0.0, 0.9, 0.5, 30)  # random models have no rising line
    monkeypatch.setattr("validation.decoding.fitting.fit", lambda trace: fitted)
    drawn = ("cu-hlm", "4a"), ("cu-hlm", "1"), ("ours", "3")
    monkeypatch.setattr("validation.plots.EXHIBITS", {key: EXHIBITS[key] for key in drawn})
    setting = Setting(
        Path(__file__).parents[3],
        tmp_path / "runs",
        quick=True,
        positions=80,
        new_tokens=4,
        prompts=2,
        text_tokens=3,
        claims="lattice",
        studies=("hlm",),
        commit="c",
    )
    tasks = tasks_of(setting)
    lines: list[str] = []
    found = run_tasks(tasks, setting.out, lambda task: steps.main(task.argv[2:]), lines.append)
    assert words(found) == [DONE] * 5, lines
    run = setting.out / "builtin"
    sidecars = [json.loads(file.read_text()) for file in sorted((run / "figures").glob("*.json"))]
    assert [one["figure"] for one in sidecars] == ["cu-hlm 1", "cu-hlm 4a", "ours 3"]
    assert len({(one["commit"], one["trace"], one["fit"]) for one in sidecars}) == 1
    assert all(sidecars[0][name] for name in ("trace", "fit"))
    stamps = json.loads((run / steps.STAMPS).read_text())
    assert set(stamps) == {"collect", "fit", "check", "decode:hlm", "draw"}
    again = run_tasks(tasks, setting.out, lambda task: pytest.fail(task.name), lines.append)
    assert words(again) == [UP_TO_DATE] * 5


def test_sigterm_ends_the_running_task_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """A stand-in run of two tasks: the second waits until it is stopped, and no process of it is left."""
    (tmp_path / "waits.py").write_text(
        "import os, pathlib, sys, time\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "pathlib.Path('pid').write_text(str(os.getpid()))\n"
        "while not pathlib.Path('go').exists():\n"
        "    time.sleep(0.02)\n"
        "out.write_text('made')\n"
    )
    (tmp_path / "run.py").write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from validation.reproduce.engine import in_a_process, run_tasks\n"
        "from validation.reproduce.tasks import Task\n"
        "here = Path.cwd()\n"
        "tasks = [\n"
        "    Task('a', ('-c', 'open(\"first\", \"a\").write(\"x\")'), (), (here / 'first',), '1'),\n"
        "    Task('b', ('waits.py', 'second'), (here / 'first',), (here / 'second',), '1'),\n"
        "]\n"
        "run_tasks(tasks, here / 'out', in_a_process(here), print)\n"
    )
    root = Path(__file__).parents[3]
    words_ = [sys.executable, "run.py"]
    settings = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(root)}, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words_, **settings) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        child = int((tmp_path / "pid").read_text())
        process.terminate()
        try:
            assert process.wait(60) != 0
        finally:
            process.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not (tmp_path / "second").exists()
    (tmp_path / "go").write_text("")
    assert subprocess.run(words_, **settings, timeout=60).returncode == 0
    assert (tmp_path / "second").read_text() == "made"
    assert (tmp_path / "first").read_text() == "x"  # the first task was not run again
