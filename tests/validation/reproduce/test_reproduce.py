"""``hlm reproduce``: tasks are skipped when they are up to date, and a tiny run goes from the models to the figures."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.validation import command_line
from validation.cli.commands import main
from validation.collection.prompts import Prompt
from validation.decoding.methods.registry import Fitted
from validation.errors import UserError
from validation.models import pair as pairs
from validation.plots import EXHIBITS
from validation.reproduce import inputs
from validation.reproduce.engine import DONE, FAILED, NOT_RUN, TO_RUN, UP_TO_DATE, run_tasks, states
from validation.reproduce.tasks import PAIRS, STAMPS, Setting, Task, tasks_of


def chain(folder: Path, *, code: str = "1") -> list[Task]:
    first, second = folder / "first", folder / "second"
    return [Task("a", (("a",),), (folder / "given",), (first,), code), Task("b", (("b",),), (first,), (second,), code)]


def writing(ran: list[str], *, fails: tuple[str, ...] = ()) -> Callable[[Task], None]:
    def run(task: Task) -> None:
        ran.append(task.name)
        if task.name in fails:
            raise UserError(f"{task.name} failed")
        for path in task.outputs:
            path.write_text("".join(one.read_text() for one in task.inputs) + task.name)

    return run


def run_here(task):
    for _, module, *arguments in task.commands:
        if module == "validation":
            done = command_line.run(*arguments)
            assert done.exit_code in task.allowed, done.output
        else:
            inputs.main(arguments)


def words(found: list[object]) -> list[str]:
    return [one.word for one in found]


def test_a_second_run_does_nothing_and_a_change_runs_what_reads_it(tmp_path):
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


def test_a_stop_loses_one_task_and_a_failure_blocks_what_reads_it(tmp_path):
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

    def killed(task):
        if task.name == "b":
            raise KeyboardInterrupt
        writing(ran)(task)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(chain(tmp_path), out, killed, lines.append)
    assert words(states(chain(tmp_path), out)) == [UP_TO_DATE, TO_RUN]


def test_each_task_comes_after_what_makes_its_inputs_and_what_is_missing_is_said(tmp_path):
    tasks = {task.name: task for task in tasks_of(Setting(tmp_path, tmp_path / "out", pairs=("builtin", "wide")))}
    assert "wide in --models" in tasks["wide:collect"].needs
    assert not tasks["builtin:collect"].needs
    assert {f"builtin:decode:{name}" for name in ("hlm", "design")} <= tasks.keys()
    found = {one.task.name: one for one in states(list(tasks.values()), tmp_path / "out")}
    assert (found["wide:draw"].word, found["builtin:draw"].word) == (NOT_RUN, TO_RUN)
    with pytest.raises(UserError, match="no paper 'x'"):
        tasks_of(Setting(tmp_path, tmp_path, paper="x"))


def test_each_command_of_each_pair_has_options_that_hlm_knows(tmp_path):
    setting = Setting(tmp_path, tmp_path / "out", pairs=tuple(PAIRS), models=tmp_path, data=tmp_path, texts=50)
    for task in [*tasks_of(setting), *tasks_of(replace(setting, quick=True))]:
        for _, module, name, *words in task.commands:
            if module == "validation":
                assert main.commands[name].make_context(name, words).params
            else:
                assert name in ("prompts", "fit")
    drawn = next(task for task in tasks_of(setting) if task.name == "instructed:draw")
    assert {"--beside" in words for words in drawn.commands} == {True, False}
    assert not any(str(tmp_path) in word for words in drawn.commands for word in words)


def test_the_prompts_of_a_chat_pair_are_of_each_set_in_turn(tmp_path, monkeypatch):
    for name in inputs.CHAT_SETS:
        (tmp_path / name).mkdir()
        rows = [{"id": f"{name}-{i}", "prompt": f"{i}?", "split": "train" if i == 0 else "test"} for i in range(3)]
        with gzip.open(tmp_path / name / "dev.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    found = inputs.chat_prompts(tmp_path)
    assert [one.id for one in found] == [f"{name}-{i}" for i in (1, 2) for name in inputs.CHAT_SETS]
    assert found[0].text == "Complete this Python function.\n\n1?"
    setting = Setting(tmp_path, tmp_path / "out", pairs=("qwen-coder",), data=tmp_path)
    monkeypatch.delenv("HLM_WEIGHTS", raising=False)
    assert "HLM_WEIGHTS" in tasks_of(setting)[0].needs
    monkeypatch.setenv("HLM_WEIGHTS", str(tmp_path))
    first = tasks_of(setting)[0]
    assert (first.needs, first.commands[0][-2:]) == ("", ("--data", str(tmp_path)))


def test_a_tiny_run_goes_from_the_models_to_the_figures(tmp_path, folders, monkeypatch):
    """Quick, with two tiny models in the place of the built-in pair, and each command in this process."""
    real = pairs.load_pair
    monkeypatch.setattr(pairs, "load_pair", lambda *_, **__: real(draft=folders[0], target=folders[1]))
    texts = [Prompt(f"p{number}", f"two and {number}", "GSM8K") for number in range(40)]
    monkeypatch.setattr("validation.collection.prompts.builtin_prompts", lambda: texts)
    fitted = Fitted(0.5, 0.0, 0.5, 0.0, 0.9, 0.5, 30)  # random models have no rising line
    monkeypatch.setattr("validation.decoding.fitting.fit", lambda trace: fitted)
    drawn = ("cu-hlm", "4a"), ("cu-hlm", "1"), ("ours", "3")
    monkeypatch.setattr("validation.plots.EXHIBITS", {key: EXHIBITS[key] for key in drawn})
    sizes = {"positions": 80, "new_tokens": 4, "prompts": 2, "text_tokens": 3}
    setting = Setting(Path(__file__).parents[3], tmp_path / "runs", quick=True, studies=("hlm",), commit="c", **sizes)
    tasks = tasks_of(setting)
    lines = []
    found = run_tasks(tasks, setting.out, run_here, lines.append)
    assert words(found) == [DONE] * 5, lines
    run = setting.out / "builtin"
    sidecars = [json.loads(file.read_text()) for file in sorted((run / "figures").glob("*.json"))]
    assert [one["figure"] for one in sidecars] == ["cu-hlm 1", "cu-hlm 4a", "ours 3"]
    assert len({(one["commit"], one["trace"], one["fit"]) for one in sidecars}) == 1
    assert all(sidecars[0][name] for name in ("trace", "fit"))
    assert set(json.loads((run / STAMPS).read_text())) == {"collect", "fit", "check", "decode:hlm", "draw"}
    again = run_tasks(tasks, setting.out, lambda task: pytest.fail(task.name), lines.append)
    assert words(again) == [UP_TO_DATE] * 5
    once = ("collect", "--once", "--batch", "2", "--new-tokens", "2", "--prompts", run / "prompts" / "hlm.jsonl")
    assert command_line.run(*once, "--out", tmp_path / "once").exit_code == 0
    settings = json.loads((tmp_path / "once" / "manifest.json").read_text())["settings"]
    assert (settings["positions"], settings["batch"]) == (None, 2)
    command_line.one_sentence(command_line.run(*once, "--shard", "1/2", "--out", tmp_path), "for one process")
