"""List the tasks that make every published figure and table: for each pair, for the experiments, and for the page."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from validation.decoding.studies import STUDIES
from validation.errors import UserError
from validation.models import smollm2
from validation.plots import EXHIBITS, Decoding
from validation.reproduce.experiments import EXPERIMENTS
from validation.reproduce.training import parents_of

PAPERS = tuple(dict.fromkeys(paper for paper, _ in EXHIBITS))
ALL = "all"
STEP = ("-m", "validation.reproduce.steps")
CODE = {
    "collect": ("collection", "models", "trace"),
    "fit": ("decoding", "trace"),
    "check": ("claims", "trace"),
    "decode": ("decoding", "models", "trace"),
}
"""Folders of ``validation`` that make a step's result, besides the theory."""


class Scope(NamedTuple):
    """What is made of a pair.

    ``studies`` are decoded; a figure of another one is not drawn. The texts of the pairs ``beside`` are compared with
    those of this pair. Positions of the trace, the tokens of its texts, and the most tokens of a decoded text are those
    of ``hlm validate`` and ``hlm decode`` by default.
    """

    studies: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    positions: int | None = None
    new_tokens: int | None = None
    text_tokens: int | None = None


PAIRS = {
    "builtin": Scope(tuple(STUDIES)),
    smollm2.NAME: Scope(("hlm", "design"), positions=2_400, new_tokens=60, text_tokens=96),
    "wide": Scope(),
    "instructed": Scope(("hlm", "design"), beside=("instructed-distilled", "instructed-larger")),
}
"""The pairs of the figures; :mod:`validation.training` says how those are trained that are."""
NAMED = ("builtin", smollm2.NAME)
"""Pairs that are found by name: nothing is trained, and no folder is given."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is made, of which inputs, and where.

    ``out/PAIR`` holds one pair's trace, texts and figures. ``data`` and ``models`` are the folders of the texts and of
    the models of other pairs. A quick run has few positions, prompts and tokens, and publishes nothing. ``claims`` is a
    module whose claims alone are checked; ``texts`` are the prompts of a study in a whole run, which each figure says.
    """

    root: Path
    out: Path
    paper: str = ALL
    commit: str = ""
    pairs: tuple[str, ...] = ("builtin",)
    data: Path | None = None
    models: Path | None = None
    quick: bool = False
    positions: int = 1_500
    new_tokens: int = 40
    prompts: int = 6
    text_tokens: int = 24
    claims: str = ""
    studies: tuple[str, ...] = tuple(STUDIES)
    texts: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One command with its files: what follows the interpreter's name, run in the repository's root."""

    name: str
    argv: tuple[str, ...]
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    code: str = ""
    needs: str = ""


@cache
def code_of(*folders: str) -> str:
    """Return a hash of the theory's code and of these folders of ``validation``; the figures name their data files."""
    found, root = hashlib.sha256(), Path(__file__).resolve().parents[2]
    for folder in ("hlmtheory", *(f"validation/{name}" for name in folders)):
        for path in sorted((root / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def tasks_of(setting: Setting) -> list[Task]:
    """Return the tasks of a setting, each after those that it needs."""
    if setting.paper not in (ALL, *PAPERS):
        raise UserError(f"There is no paper {setting.paper!r}; choose one of: {ALL}, {', '.join(PAPERS)}.")
    if unknown := [name for name in setting.pairs if name not in PAIRS]:
        raise UserError(f"There is no pair {unknown[0]!r}; choose one of: {', '.join(PAIRS)}.")
    found = [task for pair in setting.pairs for task in _pair_tasks(setting, pair)]
    if setting.quick or "builtin" not in setting.pairs:  # experiments are on the built-in pair
        return found
    return [*found, *_experiment_tasks(setting)]


def chosen(tasks: list[Task], only: Sequence[str]) -> list[Task]:
    """Return the tasks with these names and those that make their inputs; all tasks without names."""
    if not only:
        return tasks
    names = {task.name for task in tasks}
    if unknown := [name for name in only if name not in names]:
        raise UserError(f"There is no task {unknown[0]!r}; choose one of: {', '.join(sorted(names))}.")
    wanted, files = set(only), set[Path]()
    for task in reversed(tasks):
        if task.name in wanted or files & set(task.outputs):
            wanted.add(task.name)
            files.update(task.inputs)
    return [task for task in tasks if task.name in wanted]


def models_of(setting: Setting, pair: str) -> tuple[Path, Path] | None:
    """Return the folders of a pair's draft and target model; None for a pair that is found by name."""
    if pair in NAMED:
        return None
    folder = (setting.models or Path("models")) / pair
    return folder / "small", folder / "large"


def studies_of(setting: Setting, scope: Scope) -> list[str]:
    """Return the studies of a pair that the figures of a paper need."""
    wanted = {one.study for one in EXHIBITS.values() if isinstance(one, Decoding) and _asked(setting, one.paper)}
    return [name for name in scope.studies if name in wanted and name in setting.studies]


def _asked(setting: Setting, paper: str) -> bool:
    return setting.paper in (ALL, paper)


def _pair_tasks(setting: Setting, pair: str) -> list[Task]:
    """Return the tasks of a published pair, and those of the pairs that it is compared with, which start from it."""
    scope, run = PAIRS[pair], setting.out / pair
    studies = studies_of(setting, scope)
    beside = {other: setting.out / other for other in scope.beside if "hlm" in studies}
    found = _texts_tasks(setting, pair, studies)
    found += [task for other in beside for task in _texts_tasks(setting, other, ["hlm"])]
    trace, drawn = run / "trace" / "manifest.json", run / "drawn.json"
    some = ["--claims", setting.claims] if setting.claims else []
    found.append(_task(setting, pair, "check", *some, inputs=(trace,), outputs=(run / "claims.json",)))
    texts = [run / "decoded" / study / "study.json" for study in studies]
    texts += [folder / "decoded" / "hlm" / "study.json" for folder in beside.values()]
    others = [word for folder in beside.values() for word in ("--beside", str(folder))]
    read = (trace, run / "decoded" / "fitted.json", *texts)
    commit = setting.commit or "no commit"
    drawing = ("draw", "--paper", setting.paper, *others, *_texts_words(setting))
    found.append(_task(setting, pair, *drawing, inputs=read, outputs=(drawn,), code=commit))
    if not setting.quick:
        publishing, record = ("publish", "--root", str(setting.root), *others), run / "published.json"
        shown = (drawn, run / "claims.json")
        found.append(_task(setting, pair, *publishing, inputs=shown, outputs=(record,), code=commit))
    return found


def _texts_tasks(setting: Setting, pair: str, studies: Sequence[str]) -> list[Task]:
    """Return the tasks that train a pair, collect its trace, fit it and decode its studies."""
    run, models = setting.out / pair, models_of(setting, pair)
    trace, fitted = run / "trace" / "manifest.json", run / "decoded" / "fitted.json"
    found, weights = list[Task](), _weights(setting, pair)
    if models is not None and not all(file.exists() for file in weights):
        folder = models[0].parent.parent
        training = (*STEP, "train", "--pair", pair, "--models", str(folder), "--data", str(setting.data))
        parents = tuple(file for parent in parents_of(pair) for file in _weights(setting, parent))
        found.append(Task(f"{pair}:train", training, parents, weights, needs=_needs(setting, pair)))
    scope = setting if setting.quick else PAIRS.get(pair, Scope())
    sizes = [*_option("positions", scope.positions), *_option("new-tokens", scope.new_tokens)]
    found.append(_task(setting, pair, "collect", *sizes, inputs=weights, outputs=(trace,)))
    found.append(_task(setting, pair, "fit", inputs=(trace,), outputs=(fitted,)))
    answers = ["--data", str(setting.data)] if setting.data else []
    short = ["--prompts", str(setting.prompts), "--new-tokens", str(setting.text_tokens)] if setting.quick else []
    if not setting.quick:
        short = _option("new-tokens", PAIRS.get(pair, Scope()).text_tokens)
    for study in studies:
        more = ("--study", study, *answers, *short, *_texts_words(setting))
        made = tuple(run / "decoded" / study / name for name in ("study.json", "scores.json"))
        found.append(_task(setting, pair, f"decode:{study}", *more, inputs=(trace, fitted), outputs=made))
    return found


def _option(name: str, value: int | None) -> list[str]:
    return [] if value is None else [f"--{name}", str(value)]


def _texts_words(setting: Setting) -> list[str]:
    return ["--prompts", str(setting.texts)] if setting.texts and not setting.quick else []


def _task(
    setting: Setting,
    pair: str,
    step: str,
    *more: str,
    inputs: tuple[Path, ...],
    outputs: tuple[Path, ...],
    code: str = "",
) -> Task:
    """Return a task of a pair; ``code`` is the hash of its step's code if not given."""
    kind, models = step.partition(":")[0], models_of(setting, pair)
    words = ["--run", str(setting.out / pair), "--pair", pair]
    words += [] if models is None else ["--draft", str(models[0]), "--target", str(models[1])]
    needs = _needs(setting, pair)
    return Task(f"{pair}:{step}", (*STEP, kind, *words, *more), inputs, outputs, code or code_of(*CODE[kind]), needs)


def _weights(setting: Setting, pair: str) -> tuple[Path, ...]:
    """Return the files of a pair's models; none for the built-in pair, which is part of the project."""
    if pair == smollm2.NAME:
        return () if _needs(setting, pair) else (smollm2.weights_file(),)
    return tuple(folder / "model.safetensors" for folder in models_of(setting, pair) or ())


def _needs(setting: Setting, pair: str) -> str:
    """Return what a pair's tasks lack, in words; empty if they can run."""
    if pair == smollm2.NAME:
        try:
            smollm2.weights_file()
        except UserError as error:
            return str(error)
        return ""
    if setting.data or all(file.exists() for file in _weights(setting, pair)):
        return ""
    return f"the pair {pair} in --models, or the texts (--data) to train it"


def _experiment_tasks(setting: Setting) -> list[Task]:
    trace = setting.out / "builtin" / "trace"
    found = []
    for one in EXPERIMENTS:
        if _asked(setting, one.paper):
            work = setting.out / "experiments" / one.name
            places = {"data": setting.data, "models": setting.models, "trace": trace, "work": work}
            argv = [word.format(**places) for word in one.argv]
            inputs = (trace / "manifest.json",) if "{trace}" in one.argv else ()
            log = work.with_suffix(".log")
            words = (*STEP, "experiment", "--log", str(log), "--", *argv)
            missing = one.missing(setting.data, setting.models)
            found.append(Task(f"experiment:{one.name}", words, inputs, (log,), code_of(), missing))
    return found
