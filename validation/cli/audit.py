"""The command ``hlm audit``: whether a sampler keeps the target's law."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console, waiting
from validation.cli.exits import INTERRUPTED, PARTLY, Verdict
from validation.cli.options import (
    AT_LEAST_1,
    FILE,
    SEED,
    GroupedCommand,
    chat_option,
    json_option,
    option,
    quiet_option,
)
from validation.cli.run import print_json
from validation.cli.tables import print_table, say
from validation.errors import UserError
from validation.planning.quantities import read_time

if TYPE_CHECKING:
    from rich.console import Console

    from validation.audit.driver import Batch
    from validation.audit.laws import Law, Processors
    from validation.audit.report import AuditReport
    from validation.audit.session import Audit

SETTINGS: tuple[str, ...] = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
SETTINGS += ("presence_penalty", "frequency_penalty", "min_tokens", "logit_bias")
SAMPLERS = "--sampler, --draws-from, --generate, --method or --compare"
LAWS = "--target or --table"
HELP = """Say whether a sampler keeps the target's law.

Speculative decoding should draw exactly what the target model would. This command draws from your sampler, with its
own random numbers, and compares the draws with the target's probabilities: token by token, and several tokens
together. Name one sampler (--sampler, --draws-from, --generate or --method) and one law (--target or --table); or
--compare with --target.

\b
Examples:
  hlm audit --sampler mine.py:sample --target models/llama
  hlm audit --generate --assistant models/small --target models/llama
  hlm audit --draws-from draws.jsonl --table toy.npz --epsilon 0.02
  hlm audit --sampler vllm:http://127.0.0.1:8000 --target models/llama
  hlm audit --compare alone.jsonl drafted.jsonl --target models/llama

Exit codes: 0 the law is kept; 1 it is not; 2 the command cannot run as given; 3 it is not shown (not enough draws, or
on the cells alone); 130 interrupted, with what is known so far."""
NOTES = """\b
mine.py:sample is a function sample(prompts, n, seed): for each prompt, a list
of token ids, it returns n lists of new token ids. It uses its own random
numbers; different seeds give independent draws.

\b
draws.jsonl has one line for each draw:
  {"prompt": [5, 17], "continuation": [3, 9, 2, 8]}"""

of_sampler = partial(option, group="Sampler")
of_law = partial(option, group="Target's law")
of_settings = partial(option, group="Settings of the law")
of_test = partial(option, group="Test")


@click.command(cls=GroupedCommand, help=HELP, epilog=NOTES)
@of_sampler("--sampler", "Your module:function or FILE.py:function, or a server: vllm:http://… or llama:http://…")
@of_sampler("--draws-from", "A file of draws, JSON lines.", FILE)
@of_sampler("--generate", "transformers' generate on --target, with --assistant or --prompt-lookup.", is_flag=True)
@of_sampler("--method", "One of our decoding methods, such as `fixed K`, on the built-in or the given pair.")
@of_sampler("--assistant", "With --generate: the assistant model, a folder or a hub name.")
@of_sampler("--prompt-lookup", "With --generate: tokens drafted by prompt lookup.", AT_LEAST_1)
@of_sampler("--new-tokens", "Tokens that --generate or a server draws.  [default: DEPTH]", AT_LEAST_1)
@of_sampler("--call-time", "Longest time of one call of --sampler.", default="3600s")
@of_sampler("--pad-token", "The token that fills up a text behind its end.", int)
@of_sampler(
    "--compare", "Two files of greedy texts: where they part, and whether --rounding explains it.", FILE, nargs=2
)
@of_law("--target", "The target model: a folder, a .gguf file or a hub name. With --method, `builtin` if left out.")
@of_law("--table", "A toy law: .npz or .json with `target`, rows by prefix.", FILE)
@of_law("--draft", "The draft model (or `draft` in the table), as --target: names the mechanism of a difference.")
@of_law("--end-token ends", "An end-of-text token; by default the model's.", int, multiple=True)
@of_settings("--temperature", "0 is greedy.", float, default=1.0)
@of_settings("--top-k", "0 keeps all tokens.", int, default=0)
@of_settings("--top-p", None, click.FloatRange(0.0, 1.0, min_open=True), default=1.0)
@of_settings("--min-p", None, float, default=0.0)
@of_settings("--repetition-penalty", None, float, default=1.0)
@of_settings("--presence-penalty", "Of drawn tokens; with --order llama.cpp, of the prompt's too.", float, default=0.0)
@of_settings("--frequency-penalty", "As --presence-penalty, as often as a token was drawn.", float, default=0.0)
@of_settings("--min-tokens", "Tokens before an end-of-text token may come.", int, default=0)
@of_settings("--logit-bias", "TOKEN:BIAS, added to a logit; may be given several times.", multiple=True)
@of_settings(
    "--order",
    "In which the engine applies them: transformers, vllm, llama.cpp, or their names, such as temperature,top_k.  "
    "[default: as the sampler's, or transformers]",
)
@of_settings(
    "--rounding", "Relative rounding of the engine: 1e-2 for bfloat16.  [default: 1e-5, float32; 0 for a table]", float
)
@of_test("--depth", "Tokens of a continuation.", click.IntRange(1, 64), default=4)
@of_test("--draws", "The most draws.", AT_LEAST_1, default=100_000)
@of_test("--level", "Probability of a wrong answer.", click.FloatRange(1e-100, 1, max_open=True), default=0.001)
@of_test(
    "--epsilon",
    "Total variation up to which the law counts as kept.",
    click.FloatRange(0.001, 1, max_open=True),
    default=0.05,
)
@of_test("--all-draws", "Go on after the verdict is known, for a sharper bound.", is_flag=True)
@of_test("--accept-cells", "Exit with 0 also if no difference is found in the cells, which is no proof.", is_flag=True)
@json_option
@option("--prompts", "Texts to continue, .txt or .jsonl.  [default: built in]", FILE)
@chat_option
@option("--prompt-count", "Prompts to use.", AT_LEAST_1, default=4)
@option("--seed", None, SEED, default=1)
@option("--device", "auto, cpu, cuda, cuda:1, ...", default="cpu")
@quiet_option
def audit(**options: Any) -> None:
    _one_of(options, SAMPLERS, "sampler", "draws_from", "generate", "method", "compare")
    console = open_console(quiet=options["quiet"], stderr=options["as_json"])
    if options["compare"]:
        _compare(options, console)
        return
    with waiting(console, "loading the models"):
        law, draft, source = _prepare(options)
    from validation.audit import KEPT, NOT_KEPT, ON_CELLS, Audit
    from validation.audit.driver import feed

    running = Audit(law, options["depth"], options["level"], options["epsilon"], planned=options["draws"], draft=draft)
    running.notes += _foreign_rows(options)
    stopped = False
    try:
        with waiting(console, "drawing") as say:
            feed(running, source, not options["all_draws"], _progress(say, console.is_terminal or options["quiet"]))
    except KeyboardInterrupt:
        stopped = True
    report = running.report()
    show(console, report, stopped)
    if options["as_json"]:
        print_json(report.as_json() | {"interrupted": stopped})
    if stopped:
        sys.exit(INTERRUPTED)
    if report.verdict == NOT_KEPT:
        raise Verdict
    if report.verdict != KEPT and not (report.verdict == ON_CELLS and options["accept_cells"]):
        sys.exit(PARTLY)


def _foreign_rows(options: dict[str, Any]) -> list[str]:
    """Say that another engine has other rows, where the target is a .gguf file and that engine draws."""
    name = str(options["target"] or "")
    if not name.endswith(".gguf") or options["generate"] or options["method"]:
        return []
    remark = (
        f"The law is that of {name} in transformers. An engine that reads this file rounds its numbers anew, so its "
        'rows differ, and "not kept" may be said of a sampler that is right. For a verdict about the sampler, give the '
        "engine's own rows with --table; docs/audit.md says how."
    )
    if not options["quiet"]:
        click.echo(remark, err=True)
    return [remark]


def _compare(options: dict[str, Any], console: Console) -> None:
    from validation.audit.compare import partings, read_pairs
    from validation.audit.laws import Processors
    from validation.audit.models import FLOAT32, ModelLaw, load_model

    if not options["target"]:
        raise UserError("--compare needs the model whose texts these are: give --target.")
    prompts, pairs = read_pairs(*options["compare"])
    notes, rounding = _foreign_rows(options), FLOAT32 if options["rounding"] is None else options["rounding"]
    with waiting(console, "comparing"):
        model, _ = load_model(options["target"], options["device"])
        processors = Processors(**_settings(options))  # the biases and penalties count
        parted = partings(ModelLaw(model, prompts, processors), pairs)
    explained = sum(parting.needed <= rounding for parting in parted)
    needed = max((parting.needed for parting in parted), default=0.0)
    console.print(f"{len(pairs):,} pairs of texts, of {len(prompts):,} prompts in both files: {len(parted):,} part.")
    if parted:
        console.print(
            f"A relative rounding of {rounding:g} explains {explained:,} of them; {needed:.2g} would explain all. "
            f"A pass in float32 has {FLOAT32:g}, one in bfloat16 0.01 (--rounding)."
        )
    rows: list[list[Any]] = []
    for parting in parted:
        cells = "{}, {}".format(*parting.tokens), f"{parting.gap:.4f}", "{:.4f}, {:.4f}".format(*parting.below)
        rows.append([parting.prompt, parting.place, *cells, f"{parting.needed:.2g}"])
    heads = ["prompt", "tokens before", "tokens", "gap of the two largest logits", "below the largest", "needs"]
    print_table(console, "Where they part", heads, rows)
    if options["as_json"]:
        parts = [asdict(parting) for parting in parted]
        print_json({"pairs": len(pairs), "rounding": rounding, "partings": parts, "notes": notes})
    if explained < len(parted):
        raise Verdict


def _one_of(options: dict[str, Any], named: str, *names: str) -> None:
    if sum(bool(options[name]) for name in names) != 1:
        raise UserError(f"Give exactly one of {named}; `hlm audit --help` shows examples.")


def _prepare(options: dict[str, Any]) -> tuple[Law, Law | None, Generator[Batch, None, None]]:
    from validation.audit.driver import batches
    from validation.audit.engines import server_engine, server_sampler
    from validation.audit.laws import Processors
    from validation.audit.models import FLOAT32
    from validation.audit.samplers import file_batches, file_prompts
    from validation.sampler_process import RemoteSampler

    engine = server_engine(options["sampler"])
    rounding = options["rounding"]
    if rounding is None:
        rounding = 0.0 if options["table"] else FLOAT32
    order = options["order"] or engine or "transformers"
    processors = Processors(**_settings(options), order=order, rounding=rounding)
    if options["method"] and not options["table"]:
        options["target"] = options["target"] or "builtin"
    _one_of(options, LAWS, "target", "table")
    seconds, server = read_time("--call-time", options["call_time"]), None
    if engine:  # ask it before the models are loaded
        server = server_sampler(options["sampler"], processors, new_tokens=options["new_tokens"], seconds=seconds)
    path = options["draws_from"]
    drawn = None if path is None else file_prompts(path)
    if options["chat"] and (drawn is not None or not options["target"]):
        raise UserError("--chat is about texts; --draws-from and --table have token ids: leave it out.")
    if options["target"]:
        law, draft, sample = _of_model(options, processors, drawn)
    else:
        law, draft = _of_table(options, processors, drawn)
        sample = None
    if drawn is not None:
        return law, draft, file_batches(path, law, drawn, options["depth"], options["pad_token"])
    if options["sampler"]:
        sample = server or RemoteSampler(options["sampler"], seconds)
    if sample is None:
        raise UserError("--generate and --method need a model: give --target.")
    settings = {name: options[name] for name in ("draws", "depth", "seed")}
    return law, draft, batches(law, sample, **settings, pad=options["pad_token"])


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    biases = []
    for pair in options["logit_bias"]:
        token, _, bias = pair.partition(":")
        try:
            biases.append((int(token), float(bias)))
        except ValueError as error:
            raise UserError(f"--logit-bias is {pair!r}; write TOKEN:BIAS, such as 50:-1.5.") from error
    return {name: options[name] for name in SETTINGS} | {"logit_bias": tuple(biases)}


def _of_table(options: dict[str, Any], processors: Processors, drawn: Any) -> tuple[Law, Law | None]:
    from validation.audit.laws import TableLaw, read_tables

    tables = read_tables(options["table"])
    several = tables["target"].ndim == 3
    prompts = drawn or tables.get("prompts") or [[c] for c in range(len(tables["target"]) if several else 1)]
    ends = options["ends"] or tuple(tables.get("end_tokens", ()))
    target = TableLaw(tables["target"], prompts, ends, processors)
    return target, TableLaw(tables["draft"], prompts, ends, processors) if "draft" in tables else None


def _of_model(options: dict[str, Any], processors: Processors, drawn: Any) -> tuple[Law, Law | None, Any]:
    from validation.audit.models import ModelLaw, chosen_prompts, load_model
    from validation.audit.samplers import transformers_sampler
    from validation.collection.collect import ids_of
    from validation.models.chat import require_template
    from validation.models.pair import same_vocabulary

    depth, device = options["depth"], options["device"]
    if options["method"]:
        return _of_method(options, processors)
    model, tokenizer = load_model(options["target"], device)
    ids = drawn
    if ids is None:
        if options["chat"]:
            require_template(tokenizer, options["target"])
        _say_plain(options, tokenizer)
        asked = chosen_prompts(options["prompts"], options["prompt_count"])
        ids = ids_of(tokenizer, asked, chat=options["chat"])
    law = ModelLaw(model, ids, processors, end_tokens=options["ends"] or None)
    small = draft = None
    if helper := options["assistant"] or options["draft"]:
        small, other = load_model(helper, device)
        same_vocabulary(other, tokenizer, names=(helper, options["target"]))
        draft = ModelLaw(small, ids, processors, end_tokens=law.end_tokens, vocabulary=law.vocabulary)
    if not options["generate"]:
        return law, draft, None
    _refuse(options, "transformers has", "presence_penalty", "frequency_penalty")
    call: dict[str, Any] = {
        "do_sample": processors.temperature > 0,
        "repetition_penalty": processors.repetition_penalty,
        "min_new_tokens": processors.min_tokens or None,
        "sequence_bias": {(token,): bias for token, bias in processors.logit_bias} or None,
    }
    if processors.temperature > 0:
        call |= {name: getattr(processors, name) for name in ("temperature", "top_k", "top_p")}
        call |= {"min_p": processors.min_p} if processors.min_p else {}
    if options["assistant"]:
        call["assistant_model"] = small
    if options["prompt_lookup"]:
        call["prompt_lookup_num_tokens"] = options["prompt_lookup"]
    return law, draft, transformers_sampler(model, new_tokens=options["new_tokens"] or depth, **call)


def _of_method(options: dict[str, Any], processors: Processors) -> tuple[Law, Law | None, Any]:
    from validation.audit.models import ModelLaw, chosen_prompts
    from validation.audit.samplers import method_named, method_sampler
    from validation.collection.collect import encode_prompts
    from validation.models.pair import load_pair

    _refuse(options, "Our methods have", *(name for name in SETTINGS if name not in ("temperature", "top_p")))
    named: dict[str, Any] = (
        {} if options["target"] == "builtin" else {"draft": options["draft"], "target": options["target"]}
    )
    pair = load_pair("builtin" if not named else None, **named, chat=options["chat"], device=options["device"])
    _say_plain(options, pair.tokenizer)
    asked = chosen_prompts(options["prompts"], options["prompt_count"])
    ids = encode_prompts(pair, asked, options["depth"])
    laws = [
        ModelLaw(model, ids, processors, end_tokens=pair.end_tokens, vocabulary=pair.vocabulary)
        for model in (pair.target, pair.draft)
    ]
    method = method_named(options["method"])
    sample = method_sampler(pair, method, asked, temperature=processors.temperature, top_p=processors.top_p)
    return laws[0], laws[1], sample


def _refuse(options: dict[str, Any], who: str, *names: str) -> None:
    from validation.audit.laws import Processors

    for name in names:
        if options[name] != getattr(Processors(), name):
            raise UserError(f"{who} no {name}; leave out --{name.replace('_', '-')}.")


def _say_plain(options: dict[str, Any], tokenizer: Any) -> None:
    from validation.models.chat import PLAIN, has_template

    if has_template(tokenizer) and not (options["chat"] or options["quiet"]):
        click.echo(PLAIN, err=True)


def _progress(say: Callable[[str], None], shown: bool) -> Callable[[Audit], None]:
    """Return the function that shows the progress; where there is no bar, a line at each doubling of the draws."""
    printed = 0

    def tell(now: Audit) -> None:
        nonlocal printed
        say(now.line())
        if not shown and now.draws >= 2 * printed:
            printed = now.draws
            click.echo(now.line(), err=True)

    return tell


def show(console: Console, report: AuditReport, stopped: bool = False) -> None:
    """Print what is known: the verdict, the bounds of each depth, and what shows a difference."""
    if stopped:
        say(console, f"Stopped after {report.draws:,} draws. What is known so far holds as it is:")
    for number, line in enumerate(report.sentences()):
        say(console, line, style="bold" if number == 0 else None)
    depths = range(1, report.depth + 1)
    least = {(one.depth, one.kind): f"{one.at_least:.4f}" for one in report.bounds}
    rows: list[list[Any]] = [[depth, least[depth, "token"], least[depth, "joint"]] for depth in depths]
    print_table(console, "Total variation is at least", ("depth", "next token", "all tokens so far"), rows)
    rows = []
    for one in report.witnesses:
        rows.append([one.prompt, " ".join(map(str, one.prefix)) or "(start)", one.token, f"{one.seen:,}"])
        rows[-1] += [f"{one.draws:,}", f"{one.seen / max(1, one.draws):.5f}", f"{one.expected:.5f}"]
    heads = ["prompt", "prefix", "token", "seen", "draws", "share", "target"]
    print_table(console, "Where it shows", heads, rows)
    from validation.audit.mechanisms import MECHANISMS

    heads = ["mechanism", "p-value", "log-likelihood above the target's law", "what it does"]
    rows = [[m.name, f"{m.p_value:.2g}", f"{m.gain:,.1f}", MECHANISMS[m.name]] for m in (report.mechanisms or ())[:3]]
    print_table(
        console, "Mechanisms that the draws do not exclude, likeliest first", heads, rows, left=(heads[0], heads[3])
    )
