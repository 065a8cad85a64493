"""List the tasks that make every published figure and table: for each pair, and for the page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from validation.decoding.studies import STUDIES
from validation.errors import UserError
from validation.models import hub_weights, smollm2
from validation.plots import EXHIBITS, Decoding
from validation.provenance import code_digest

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
code_of = cache(code_digest)


FROM_LOGITS = (
    *(f"cu-hlm-fig{number}" for number in ("4a", "4b", "5a", "5b", "6", "8", "9a", "9b")),
    *("u-hlm-fig3", "u-hlm-fig5", "ours-fig3", "ours-fig7", "ours-fig9"),
)
"""Exhibits that take minutes at a vocabulary of 151,936 tokens."""


class Scope(NamedTuple):
    """What is made of a pair: decoded studies, pairs whose texts are compared, sizes, and exhibits if not all."""

    studies: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    positions: int | None = None
    new_tokens: int | None = None
    text_tokens: int | None = None
    exhibits: tuple[str, ...] = ()


PAIRS = {
    "builtin": Scope(tuple(STUDIES)),
    smollm2.NAME: Scope(("hlm", "design"), positions=2_400, new_tokens=60, text_tokens=96),
    hub_weights.QWEN_CODER: Scope(positions=2_400, new_tokens=48, exhibits=FROM_LOGITS),
    "wide": Scope(),
    "instructed": Scope(("hlm", "design"), beside=("instructed-distilled", "instructed-larger")),
}
"""The pairs of the figures; :mod:`validation.training` says how those are trained that are."""
CHATS = (smollm2.NAME, hub_weights.QWEN_CODER)
"""Pairs of models that others tuned for turns of a chat."""
NAMED = ("builtin", *CHATS)
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


def tasks_of(setting: Setting) -> list[Task]:
    if setting.paper not in (ALL, *PAPERS):
        raise UserError(f"There is no paper {setting.paper!r}; choose one of: {ALL}, {', '.join(PAPERS)}.")
    if unknown := [name for name in setting.pairs if name not in PAIRS]:
        raise UserError(f"There is no pair {unknown[0]!r}; choose one of: {', '.join(PAIRS)}.")
    return [task for pair in setting.pairs for task in _pair_tasks(setting, pair)]


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
    """Return the tasks of a published pair, and those of the pairs that it is compared with."""
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
    """Return the tasks that collect a pair's trace, fit it and decode its studies."""
    run = setting.out / pair
    trace, fitted = run / "trace" / "manifest.json", run / "decoded" / "fitted.json"
    found, weights = list[Task](), _weights(setting, pair)
    scope = setting if setting.quick else PAIRS.get(pair, Scope())
    sizes = [*_option("positions", scope.positions), *_option("new-tokens", scope.new_tokens)]
    answers = ["--data", str(setting.data)] if setting.data else []
    sizes += answers if pair == hub_weights.QWEN_CODER else []  # where its prompts are
    found.append(_task(setting, pair, "collect", *sizes, inputs=weights, outputs=(trace,)))
    found.append(_task(setting, pair, "fit", inputs=(trace,), outputs=(fitted,)))
    short = _option("new-tokens", scope.text_tokens) + (_option("prompts", setting.prompts) if setting.quick else [])
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
    """Return the files of a pair's models; none for a pair that is part of the project or pinned by hash."""
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
    if pair == hub_weights.QWEN_CODER:
        known = os.environ.get(hub_weights.FOLDER) and setting.data
        return "" if known else f"the folder of the weights in {hub_weights.FOLDER}, and the prompts in --data"
    if all(file.exists() for file in _weights(setting, pair)):
        return ""
    return f"the pair {pair} in --models; `python -m validation.training --pair {pair}` trains it"
