"""Train the built-in pair and its variants, step by step; an interrupted step resumes from ``WORK/<pair>-<step>.pt``.

``python -m validation.training --data DATA --out OUT STEP``: tokenizer, small, large and prompts make the built-in
pair; with ``--pair distilled`` parent and small; ``aligned``, ``version --domain code``, ``medusa`` and ``eagle`` train
what stands on ``OUT/large``.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from validation.errors import UserError
from validation.models.sources import PAIRS_FOLDER
from validation.training import loop
from validation.training.aligned import ALIGNED, train_aligned
from validation.training.distil import distillation_loss
from validation.training.heads import COURSES, train_heads
from validation.training.recipes import PAIRS, ROLES, SEED, Continuation, Distillation, PairRecipe, Recipe, build_model
from validation.training.texts import LIBRARIES, RESEARCH, Library, task_prompts, tokens, train_tokenizer, write_prompts
from validation.training.versions import DOMAINS, Update, train_version

EVOLVING = ("aligned", "version", *COURSES)


def train(
    size: str,
    course: Recipe | Continuation | Distillation,
    library: Library,
    data: Path,
    out: Path,
    checkpoint: Path,
    *,
    parent: Path = PAIRS_FOLDER / "builtin",
) -> None:
    """Train, continue or distil one model of the pair; write its weights in bf16 and its record to ``out/<size>``."""
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(out / size)
    documents, held = library.corpus(data)
    taught = tokens(tokenizer, documents)
    tested = {name: tokens(tokenizer, texts) for name, texts in held.items()}
    verifier = _load(out / "large") if size == "small" and (out / "large/model.safetensors").exists() else None
    record: dict[str, Any] = {}
    loss: Callable[[Any, Any], Any] = loop.text_loss
    if isinstance(course, Recipe):
        model = build_model(course, len(tokenizer))
    else:
        model = _load(parent / size)
        before = _measures(model, verifier, tested)
        record = {f"{name}_before": value for name, value in before.items() if name != "held_out_tokens"}
    if isinstance(course, Distillation):
        loss = distillation_loss(_load(out / "large", torch.bfloat16))
    count = model.num_parameters()
    steps = loop.step_count(model, course, taught)
    print(f"{count:,} parameters, {sum(map(len, taught)):,} tokens an epoch, {steps} steps")

    def check() -> dict[str, float]:
        return {name: round(loop.held_out_loss(model, texts, 40)[0], 3) for name, texts in tested.items()}

    seconds = loop.fit(model, course, taught, checkpoint, loss=loss, every=loop.CHECKPOINT_STEPS, check=check)
    model = model.to(torch.bfloat16)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(out / size, safe_serialization=True)
    earlier = [folder / "training.json" for folder in (parent / size, out / "large")]
    licences = [json.loads(file.read_text(encoding="utf-8")).get("licence") for file in earlier if file.exists()]
    told = {"texts": library.name, "licence": RESEARCH if RESEARCH in licences else library.licence}
    record = told | loop.course_record(model, course, taught, seconds) | record
    loop.write_record(out / size, record | _measures(model.float(), verifier, tested))


def _load(folder: Path, dtype: Any = None) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype or torch.float32)


def _measures(model: Any, verifier: Any, tested: dict[str, loop.Documents]) -> dict[str, dict[str, float]]:
    losses = {name: loop.held_out_loss(model, texts) for name, texts in tested.items()}
    found: dict[str, dict[str, float]] = {
        "held_out_nats_per_token": {name: round(loss, 4) for name, (loss, _) in losses.items()},
        "held_out_tokens": {name: count for name, (_, count) in losses.items()},
    }
    if verifier is not None:
        rates = {name: round(loop.held_out_acceptance(model, verifier, texts), 4) for name, texts in tested.items()}
        found["held_out_acceptance"] = rates
    return found


def main() -> None:
    """Parse the command line and run one step of the recipe."""
    parser = argparse.ArgumentParser(description="Make the built-in pair or a variant of it.")
    parser.add_argument("what", choices=["tokenizer", "parent", "small", "large", "prompts", "tasks", *EVOLVING])
    parser.add_argument("--pair", choices=list(PAIRS), default="builtin", help="which recipe")
    parser.add_argument("--texts", choices=list(LIBRARIES), help="training texts, if not those of the recipe")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with gsm8k/, peps/ and so on")
    parser.add_argument("--out", type=Path, default=PAIRS_FOLDER / "builtin")
    parser.add_argument("--work", type=Path, default=Path(".training"), help="checkpoints")
    parser.add_argument("--parent", type=Path, default=PAIRS_FOLDER / "builtin", help="pair of the untrained models")
    parser.add_argument("--shape", choices=list(ALIGNED), default="entry", help="of the aligned draft's own part")
    parser.add_argument("--start", type=Path, help="an aligned draft to go on from")
    parser.add_argument("--domain", choices=list(DOMAINS), default="code", help="texts of the version")
    parser.add_argument("--method", default="lora16", help="of the version: lora16, lora16-all, full, frozen")
    parser.add_argument("--seed", type=int, default=1, help="of the version")
    parser.add_argument("--steps", type=int, default=24, help="of the version")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate of the version")
    parser.add_argument("--base", help="of version or heads, if not OUT/large: a folder, or smollm2 (version)")
    options = parser.parse_args()
    if options.steps < 1 or not 0 < options.rate < 1:
        parser.error(f"--steps is {options.steps} and --rate {options.rate}; give 1 or more, and a rate in (0, 1).")
    try:
        if options.what in EVOLVING:
            _evolve(options)
            return
        _run(options, PAIRS[options.pair])
    except UserError as error:
        parser.error(str(error))


def _evolve(options: argparse.Namespace) -> None:
    if options.what == "aligned":
        library, checkpoint = LIBRARIES[options.texts or "plain"], options.work / f"aligned-{options.shape}.pt"
        train_aligned(
            ALIGNED[options.shape],
            library,
            options.data,
            options.out,
            checkpoint.with_stem(f"{checkpoint.stem}-{options.start.name}") if options.start else checkpoint,
            start=options.start,
        )
        return
    base = options.base or options.out / "large"
    if options.what in COURSES:
        course, checkpoint = COURSES[options.what], options.work / f"heads-{options.what}.pt"
        train_heads(options.what, course, options.data, Path(base), options.out / options.what, checkpoint)
        return
    update = Update(
        domain=options.domain, method=options.method, seed=options.seed, steps=options.steps, rate=options.rate
    )
    train_version(update, base, options.data, options.out / "versions")


def _run(options: argparse.Namespace, recipe: PairRecipe) -> None:
    what = options.what
    library = LIBRARIES[options.texts or recipe.texts]
    if what not in recipe.steps:
        raise UserError(f"The pair {options.pair!r} has no step {what!r}; its steps are {', '.join(recipe.steps)}.")
    if recipe.has_parent and options.out.resolve() == options.parent.resolve():
        raise UserError(f"The pair {options.pair!r} would overwrite its parent {options.parent}; give another --out.")
    if what == "parent":
        shutil.copytree(options.parent / "large", options.out / "large", dirs_exist_ok=True)
        AutoTokenizer.from_pretrained(options.parent / "large").save_pretrained(options.out / "small")
    elif what == "tokenizer":
        train_tokenizer(library.corpus(options.data)[0], options.out, recipe.vocabulary)
    elif what == "prompts":
        write_prompts(library.prompts(options.data), options.out / "prompts.jsonl")
    elif what == "tasks":
        write_prompts(task_prompts(options.data), options.out / "tasks.jsonl")
    else:
        checkpoint = options.work / f"{options.pair}-{what}.pt"
        train(what, getattr(recipe, ROLES[what]), library, options.data, options.out, checkpoint, parent=options.parent)


if __name__ == "__main__":
    main()
