"""List the tasks that make every published figure and table: for each pair, for the experiments, and for the page.

A task is one command, the files it reads and makes, and the code it runs. :mod:`validation.reproduce.engine` runs them.

===================  ==========================================================================================
task                 makes
===================  ==========================================================================================
``PAIR:train``       the models, if they are not there (``builtin`` is part of the project)
``PAIR:collect``     the trace: logits of both models at every position
``PAIR:fit``         the line, the thresholds and k*: one fit for texts and figures
``PAIR:check``       the verdict of every claim
``PAIR:decode:S``    the decoded texts of the study S, with their scores
``PAIR:draw``        the figures and tables of the trace, of the replayed texts, and those without a pair
``PAIR:publish``     the pair's folder of ``figures/`` and the generated tables of ``paper_repro.md``
``experiment:N``     the stored result of ``figures/experiments/N``
===================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from validation.decoding.studies import STUDIES
from validation.errors import UserError
from validation.plots import EXHIBITS, Decoding
from validation.reproduce.code import code_of
from validation.reproduce.experiments import EXPERIMENTS

PAPERS = tuple(dict.fromkeys(paper for paper, _ in EXHIBITS))
ALL = "all"
PAIRS = ("builtin", "wide")
STEP = ("-m", "validation.reproduce.steps")
CODE = {
    "collect": ("validation.collection.collect", "validation.models.pair", "validation.collection.prompts"),
    "fit": ("validation.decoding.fitting",),
    "check": ("validation.claims.check", "validation.claims.scenarios"),
    "decode": ("validation.decoding.studies",),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What is made, of which inputs, and where.

    Attributes
    ----------
    root : Path
        The repository.
    out : Path
        Folder of the runs: ``out/PAIR`` holds one pair's trace, texts and figures.
    paper : str
        One of :data:`PAPERS`, or ``"all"``.
    commit : str
        Commit of the code; drawn again if it changes.
    pairs : tuple of str
        Some of :data:`PAIRS`.
    data, models : Path or None
        Folder of the texts, for training and some experiments; folder of the models of other pairs.
    quick : bool
        Few positions, prompts and tokens; nothing is published.
    positions, new_tokens, prompts, text_tokens : int
        Of a quick run: positions of the trace and their tokens a text, prompts of a study and their tokens.
    claims : str
        Check only the claims of this module; all if empty.
    studies : tuple of str
        The studies that are decoded; the figures of the others are left out.
    texts : int or None
        Prompts of a study in a whole run; each figure says the number. Default: that of ``hlm decode``.
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
    """One command with its files.

    Attributes
    ----------
    name : str
    argv : tuple of str
        What follows the interpreter's name; run in the repository's root.
    inputs, outputs : tuple of Path
        A task is up to date if its outputs exist, its inputs have not changed, and neither has ``code``.
    code : str
        Fingerprint of the code, or the commit.
    needs : str
        What is missing, if the task cannot run.
    """

    name: str
    argv: tuple[str, ...]
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    code: str = ""
    needs: str = ""


def tasks_of(setting: Setting) -> list[Task]:
    """Return the tasks of a setting, each after those that it needs.

    Raises
    ------
    UserError
        If there is no such paper or pair.
    """
    if setting.paper not in (ALL, *PAPERS):
        raise UserError(f"There is no paper {setting.paper!r}; choose one of: {ALL}, {', '.join(PAPERS)}.")
    if unknown := [name for name in setting.pairs if name not in PAIRS]:
        raise UserError(f"There is no pair {unknown[0]!r}; choose one of: {', '.join(PAIRS)}.")
    found = [task for pair in setting.pairs for task in _pair_tasks(setting, pair)]
    return [*found, *([] if setting.quick else _experiment_tasks(setting))]


def chosen(tasks: list[Task], only: Sequence[str]) -> list[Task]:
    """Return the tasks with these names and those that make their inputs; all tasks without names.

    Raises
    ------
    UserError
        If there is no such task.
    """
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
    """Return the folders of a pair's draft and target model; None for the built-in pair."""
    if pair == "builtin":
        return None
    folder = (setting.models or Path("models")) / pair
    return folder / "small", folder / "large"


def studies_of(setting: Setting, pair: str) -> list[str]:
    """Return the studies that the figures of a paper need; the texts of other pairs than the built-in are not drawn."""
    if pair != "builtin":
        return []
    wanted = {one.study for one in EXHIBITS.values() if isinstance(one, Decoding) and _asked(setting, one.paper)}
    return [name for name in STUDIES if name in wanted and name in setting.studies]


def _asked(setting: Setting, paper: str) -> bool:
    return setting.paper in (ALL, paper)


def _pair_tasks(setting: Setting, pair: str) -> list[Task]:
    run = setting.out / pair
    trace, decoded = run / "trace" / "manifest.json", run / "decoded"
    models = models_of(setting, pair)
    words, found, needs = ["--run", str(run), "--pair", pair], list[Task](), ""
    weights: tuple[Path, ...] = ()
    if models is not None:
        words += ["--draft", str(models[0]), "--target", str(models[1])]
        weights = tuple(folder / "model.safetensors" for folder in models)
        if not all(file.exists() for file in weights):
            needs = "" if setting.data else f"the pair {pair} in --models, or the texts (--data) to train it"
            training = [*STEP, "train", "--pair", pair, "--models", str(models[0].parent), "--data", str(setting.data)]
            found.append(Task(f"{pair}:train", tuple(training), outputs=weights, needs=needs))
    sizes = ["--positions", str(setting.positions), "--new-tokens", str(setting.new_tokens)] if setting.quick else []

    def task(step: str, *more: str, inputs: tuple[Path, ...], outputs: tuple[Path, ...], code: str = "") -> Task:
        name, kind = f"{pair}:{step}", step.partition(":")[0]
        own = code or code_of(*CODE[kind])
        return Task(name, (*STEP, kind, *words, *more), inputs, outputs, own, needs)

    found.append(task("collect", *sizes, inputs=weights, outputs=(trace,)))
    found.append(task("fit", inputs=(trace,), outputs=(decoded / "fitted.json",)))
    some = ["--claims", setting.claims] if setting.claims else []
    found.append(task("check", *some, inputs=(trace,), outputs=(run / "claims.json",)))
    studies = studies_of(setting, pair)
    answers = ["--data", str(setting.data)] if setting.data else []
    short = ["--prompts", str(setting.prompts), "--new-tokens", str(setting.text_tokens)] if setting.quick else []
    if not setting.quick and setting.texts:
        short = ["--prompts", str(setting.texts)]
    for study in studies:
        fit = (trace, decoded / "fitted.json")
        made = (decoded / study / "study.json", decoded / study / "scores.json")
        found.append(task(f"decode:{study}", "--study", study, *answers, *short, inputs=fit, outputs=made))
    texts = tuple(decoded / study / "study.json" for study in studies)
    drawn, commit = run / "drawn.json", setting.commit or "no commit"
    paper = ["--paper", setting.paper]
    found.append(
        task("draw", *paper, inputs=(trace, decoded / "fitted.json", *texts), outputs=(drawn,), code=commit),
    )
    if not setting.quick:
        inputs, record = (drawn, run / "claims.json"), (run / "published.json",)
        found.append(task("publish", "--root", str(setting.root), inputs=inputs, outputs=record, code=commit))
    return found


def _experiment_tasks(setting: Setting) -> list[Task]:
    run = setting.out / "builtin"
    found = []
    for one in EXPERIMENTS:
        if not _asked(setting, one.paper):
            continue
        missing = one.missing(setting.data, setting.models)
        places = {
            "data": setting.data,
            "models": setting.models,
            "trace": run / "trace",
            "work": setting.out / "experiments" / one.name,
        }
        argv = tuple(word.format(**{key: str(value) for key, value in places.items()}) for word in one.argv)
        inputs = (run / "trace" / "manifest.json",) if one.reads_trace else ()
        log = setting.out / "experiments" / f"{one.name}.log"
        found.append(
            Task(
                f"experiment:{one.name}",
                (*STEP, "experiment", "--log", str(log), "--", *argv),
                inputs,
                (log,),
                code_of("hlmtheory"),
                missing,
            )
        )
    return found
