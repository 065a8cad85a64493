"""The commands that make every published figure and table: for each pair, those of ``hlm`` in their order."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from validation import plots
from validation.decoding.studies import STUDIES
from validation.errors import UserError
from validation.models import hub_weights, smollm2
from validation.plots import Decoding, Figure, Simulation
from validation.provenance import code_digest

PAPERS = tuple(dict.fromkeys(paper for paper, _ in plots.EXHIBITS))
ALL = "all"
HLM, OWN = ("-m", "validation"), ("-m", "validation.reproduce.inputs")
VIOLATED, PARTLY = 1, 3
"""Exit codes that end no task: a claim is violated, and published as such; a figure has no inputs."""
CODE = {
    "collect": ("collection", "models", "trace"),
    "fit": ("decoding", "trace"),
    "check": ("claims", "trace"),
    "decode": ("decoding", "models", "trace"),
}
"""Folders of ``validation`` that make a step's result, besides the theory."""
STAMPS = "commits.json"
"""File of a run: the commit of each finished task."""
code_of = cache(code_digest)

FROM_LOGITS = (
    *(f"cu-hlm-fig{number}" for number in ("4a", "4b", "5a", "5b", "6", "8", "9a", "9b")),
    *("u-hlm-fig3", "u-hlm-fig5", "ours-fig3", "ours-fig7", "ours-fig9"),
    *("ours-fig8", "c-sqs-fig2", "c-sqs-fig4", "flexspec-fig4", "flexspec-tableIII", "flexspec-tableIV"),
)
"""Exhibits that take minutes at a vocabulary of 151,936 tokens, and those of stored experiments."""


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
WIDE = ("--once", "--batch", "16")
"""The pair ``wide`` has all texts of its first prompts."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is made, of which inputs, and where.

    ``out/PAIR`` holds one pair's trace, texts and figures. ``data`` and ``models`` are the folders of the texts and of
    the models of other pairs. A quick run has few positions, prompts and tokens, and publishes nothing. ``texts`` are
    the prompts of a study in a whole run, which each figure says.
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
    studies: tuple[str, ...] = tuple(STUDIES)
    texts: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Commands with their files: each what follows the interpreter's name, run in the repository's root.

    The exit code of a command may be ``allowed``. In the folder ``run`` the commit of the task is kept.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    code: str = ""
    needs: str = ""
    allowed: tuple[int, ...] = (0,)
    run: Path | None = None


def tasks_of(setting: Setting) -> list[Task]:
    if setting.paper not in (ALL, *PAPERS):
        raise UserError(f"There is no paper {setting.paper!r}; choose one of: {ALL}, {', '.join(PAPERS)}.")
    if unknown := [name for name in setting.pairs if name not in PAIRS]:
        raise UserError(f"There is no pair {unknown[0]!r}; choose one of: {', '.join(PAIRS)}.")
    return [task for pair in setting.pairs for task in _pair_tasks(setting, pair)]


def models_of(setting: Setting, pair: str) -> tuple[Path, Path] | None:
    """Return the folders of a pair's draft and target model; None for a pair that is found by name."""
    if pair in NAMED:
        return None
    folder = (setting.models or Path("models")) / pair
    return folder / "small", folder / "large"


def _pair_tasks(setting: Setting, pair: str) -> list[Task]:
    scope, run = PAIRS[pair], setting.out / pair
    asked = [one for one in plots.EXHIBITS.values() if setting.paper in (ALL, one.paper)]
    wanted = {one.study for one in asked if isinstance(one, Decoding)}
    studies = [name for name in scope.studies if name in wanted and name in setting.studies]
    beside = [setting.out / other for other in scope.beside if "hlm" in studies]
    found = _texts_tasks(setting, pair, studies)
    found += [task for other in beside for task in _texts_tasks(setting, other.name, ["hlm"])]
    trace, claims, stamps = (run / name for name in ("trace/manifest.json", "claims.json", STAMPS))
    every = [] if setting.quick or pair in CHATS else ["--all-claims"]
    check = (*HLM, "validate", "--trace", str(trace.parent), "--out", str(run), "--no-figures", *every)
    found.append(_task(setting, pair, "check", check, inputs=(trace,), outputs=(claims,), allowed=(0, VIOLATED)))
    # a simulation has no pair; of `instructed` the texts alone, for the rest the built-in pair is the better one
    kinds: dict[str, tuple[type, ...]] = {"instructed": (Decoding,)}
    kinds |= dict.fromkeys(("builtin", hub_weights.QWEN_CODER), (Figure, Decoding, Simulation))
    others = [word for folder in beside for word in ("--beside", _shown(setting, folder))]
    drawn: dict[tuple[str, bool], list[str]] = {}
    for one in asked:
        study = one.study if isinstance(one, Decoding) else ""
        shown = isinstance(one, kinds.get(pair, (Figure, Decoding))) and one.stem in (scope.exhibits or [one.stem])
        if shown and study in ("", *studies):
            drawn.setdefault((one.paper, study == "hlm" and bool(beside)), []).append(one.number)
    where = ("--trace", _shown(setting, trace.parent), "--out", _shown(setting, run / "figures"), "--pair", pair)
    drawing = [
        (*HLM, "figure", paper, *numbers, *where, *(others if both else ())) for (paper, both), numbers in drawn.items()
    ]
    read = (trace, run / "decoded" / "fitted.json", *(run / "decoded" / name / "study.json" for name in studies))
    read += tuple(folder / "decoded" / "hlm" / "study.json" for folder in beside)
    at: Any = {"code": setting.commit or "no commit"}
    found.append(_task(setting, pair, "draw", *drawing, inputs=read, outputs=(stamps,), allowed=(0, PARTLY), **at))
    if not setting.quick:
        publish = (*HLM, "publish", "--run", str(run), "--pair", pair, "--whole", *others)
        made = (run / "published.json",)
        found.append(_task(setting, pair, "publish", publish, inputs=(*read, stamps, claims), outputs=made, **at))
    return found


def _texts_tasks(setting: Setting, pair: str, studies: Sequence[str]) -> list[Task]:
    run, weights = setting.out / pair, _weights(setting, pair)
    trace, prompts, fitted = run / "trace" / "manifest.json", run / "prompts", run / "decoded" / "fitted.json"
    scope = setting if setting.quick else PAIRS.get(pair, Scope())
    models = models_of(setting, pair)
    named = ["--pair", pair] if models is None else ["--draft", str(models[0]), "--target", str(models[1])]
    named += ["--chat"] if pair in CHATS else []
    texts = setting.prompts if setting.quick else setting.texts
    asked = [*_option("texts", texts), *_option("data", setting.data), *_option("models", setting.models)]
    ask = (*OWN, "prompts", "--pair", pair, "--out", str(prompts), *asked)
    sizes = [*_option("positions", scope.positions), *_option("new-tokens", scope.new_tokens)]
    sizes += WIDE if pair == "wide" and not setting.quick else []
    same = (*named, "--seed", "1", "--device", "cpu")
    collect = (*HLM, "collect", "--prompts", str(prompts / "trace.jsonl"), "--out", str(trace.parent), *sizes, *same)
    fit = (*OWN, "fit", "--trace", str(trace.parent))
    found = [
        _task(setting, pair, "collect", ask, collect, inputs=weights, outputs=(trace,)),
        _task(setting, pair, "fit", fit, inputs=(trace,), outputs=(fitted,)),
    ]
    for study in studies:
        given, made = ("--run", str(run), "--prompts", str(prompts / f"{study}.jsonl")), run / "decoded" / study
        decode = (*HLM, "decode", study, *given, *_option("new-tokens", scope.text_tokens), *same)
        outputs = (made / "study.json", made / "scores.json")
        found.append(_task(setting, pair, f"decode:{study}", ask, decode, inputs=(trace, fitted), outputs=outputs))
    return found


def _shown(setting: Setting, path: Path) -> str:
    return str(path.relative_to(setting.root) if path.is_relative_to(setting.root) else path)


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [f"--{name}", str(value)]


def _task(setting: Setting, pair: str, step: str, *commands: tuple[str, ...], code: str = "", **more: Any) -> Task:
    own, run = code or code_of(*CODE[step.partition(":")[0]]), None if step == "publish" else setting.out / pair
    return Task(f"{pair}:{step}", commands, code=own, needs=_needs(setting, pair), run=run, **more)


def _weights(setting: Setting, pair: str) -> tuple[Path, ...]:
    if pair == smollm2.NAME:
        return () if _needs(setting, pair) else (smollm2.weights_file(),)
    return tuple(folder / "model.safetensors" for folder in models_of(setting, pair) or ())


def _needs(setting: Setting, pair: str) -> str:
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
