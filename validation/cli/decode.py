"""The command ``hlm decode``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import decoded_lines, decoded_screen, open_console, progress_bar, waiting
from validation.cli.options import AT_LEAST_1, FILE, SEED, chat_option, option, output_options, version_options
from validation.cli.run import print_json, tell_notes
from validation.cli.tables import say
from validation.errors import UserError, naming

if TYPE_CHECKING:
    from validation.decoding.studies import Decoded
    from validation.models.pair import Pair


@click.command()
@click.argument("name")
@option("--run", None, FILE, default=Path("runs/builtin"))
@option("--pair named", "A named pair.  [default: builtin]")
@option("--draft", "The draft model, as in `hlm validate`.")
@option("--target", "The target model: a folder (also of a peft adapter), .gguf file or hub name.")
@version_options
@option("--prompts", "Your prompts, perhaps each with a `reference`.", FILE)
@chat_option
@option("--new-tokens", "Maximum new tokens.", click.IntRange(min=0), default=512)
@option("--batch", "Texts per batch.", AT_LEAST_1, default=16)
@option("--method only", "Only this method; may be given several times.", multiple=True)
@option("--policy", "A policy.json of `hlm plan`; adds its method, called planned.", FILE)
@option("--seed", None, SEED, default=1)
@option("--device", "auto, cpu, cuda, cuda:1, and so on.", default="auto")
@option("--dtype", "Type of the weights.  [default: float32 on the CPU, elsewhere as stored]")
@output_options
def decode(
    name: str, run: Path, prompts: Path | None, only: tuple[str, ...], policy: Path | None, **options: Any
) -> None:
    """Continue prompts by the methods of a study.

    NAME is the study: hlm (the methods of cu-hlm and u-hlm), design (their thresholds and sizes), greedy (the methods
    of all papers but edge-sd, at temperature 0), nucleus (the same, at temperature 1 with top-p 0.9), common (two
    models with tokenizers of their own: lossless methods on the tokens that both have, at temperature 1) or reference
    (the same methods for one tokenizer: the texts that `hlm device` writes with the same seed).

    Thresholds are fitted to the trace of `hlm validate` in the same folder; the last two need none. Finished texts are
    kept: the same command continues after Ctrl-C or a crash. `hlm figure` draws from them. Speeds are computed from the
    number of forward passes and the time of one pass of each model, measured once per run.
    """
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.decoding import studies
    from validation.decoding.fitting import fitted_to, of_other_models
    from validation.decoding.methods.planned import planned_methods, refuse_other_models
    from validation.decoding.pass_times import FILE, passes_of
    from validation.models.pair import load_pair
    from validation.models.two_tokenizers import load_two
    from validation.trace.reader import open_trace

    known = studies.STUDIES | {study.name: study for study in (studies.COMMON, studies.REFERENCE)}
    if name not in known:
        raise UserError(f"There is no study {name!r}; choose one of: {', '.join(known)}.")
    study, folder = known[name], run / "decoded" / name
    models = {option: options[option] for option in ("draft", "target", "base", "changed_anchor", "chat")}
    models |= {"name": options["named"], "device": options["device"], "dtype": options["dtype"]}
    settings = {option: options[option] for option in ("new_tokens", "batch", "seed")}
    if study is studies.COMMON:
        _refuse_common(models, policy)
    planned = planned_methods(policy, study.temperature, study.top_p)
    own = [method.name for method in planned]
    only = tuple(own[0] if own and method == "planned" else method for method in only)
    console = open_console(quiet=options["quiet"], stderr=options["as_json"])
    trace = open_trace(run / "trace") if study.fits else None
    chosen = builtin_prompts()[:100] if prompts is None else read_prompts(prompts)
    fitted = None
    if trace is not None:
        with waiting(console, "fitting thresholds to the trace"), naming(folder):
            fitted = fitted_to(trace, folder.parent / "fitted.json")
    studies.refuse_unknown(study, only, [*(method.name for method in study.methods(fitted)), *own])
    with waiting(console, "loading the two models"):
        if study is studies.COMMON:
            pair = load_two(**{name: models[name] for name in ("draft", "target", "chat", "device", "dtype")})
        else:
            pair = load_pair(**models)
    tell_notes(console, pair)
    refuse_other_models(planned, pair)
    if trace is not None and (remark := of_other_models(trace, pair)):
        say(console, remark)
    with waiting(console, "timing a pass of each model"), naming(folder):
        passes = passes_of(pair, folder.parent)
    with progress_bar(console) as report, naming(folder):
        settings |= {"only": only, "more": planned, "progress": report}
        decoded = studies.decode_study(study, pair, chosen, trace, folder, **settings)
    with naming(folder):
        texts = studies.write_texts(decoded, chosen, pair.tokenizer, folder)
    sample = studies.sample_of(decoded, chosen, pair.tokenizer)
    decoded_screen(console, decoded, passes, folder.parent / FILE, texts, sample)
    shares = _shares(pair, decoded) if study is studies.COMMON else {}
    if shares:
        say(
            console,
            f"Of the tokens of these texts {shares['of_texts']:.1%} are common; no more drafts can be accepted "
            "(vocabulary.target_mass).",
        )
    if options["as_json"]:
        about = {"study": name, "run": str(run), "texts": str(texts), "passes": passes.plain()}
        about |= {"common": shares} if shares else {}
        print_json(about | {"methods": decoded_lines(decoded, passes)})


def _refuse_common(models: dict[str, Any], policy: Path | None) -> None:
    if not (models["draft"] and models["target"]):
        raise UserError("The study common is of two models with tokenizers of their own; give --draft and --target.")
    options = {"--pair": "name", "--base": "base", "--changed-anchor": "changed_anchor"}
    given = {option: models[name] for option, name in options.items()} | {"--policy": policy}
    if named := [name for name, value in given.items() if value]:
        raise UserError(f"{named[0]} is for models with one tokenizer; leave it out, or use another study.")


def _shares(pair: Pair, decoded: Decoded) -> dict[str, float]:
    """Return the common tokens, their share of the target's vocabulary, and that of the texts' tokens."""
    from validation.models.two_tokenizers import common_share

    count = len(pair.draft.common)
    texts = [record.tokens for record in decoded.records]
    return {"tokens": count, "of_vocabulary": count / pair.vocabulary, "of_texts": common_share(pair, texts)}
