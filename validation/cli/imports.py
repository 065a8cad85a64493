"""The commands ``hlm import`` and ``hlm top-k``: what engines returned, as a trace or as intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console, progress_bar, waiting
from validation.cli.options import FILE, PLACE, json_option, option, quiet_option, together
from validation.cli.run import print_json, tell_stored
from validation.cli.tables import print_table
from validation.errors import UserError
from validation.trace.remote import Place

if TYPE_CHECKING:
    from validation.collection.processing import Processing
    from validation.collection.top_k import ListedText, ListSource


list_options = together(
    option("--vocabulary", "V, the outputs of the models' head (lists).", click.IntRange(1, 2**31)),
    option(
        "--processing",
        "What the values are: raw_logprobs, raw_logits, or processed_logprobs,temperature=0.7,top_p=0.9.",
    ),
    option("--draft-processing", "The same, of the draft model alone."),
    option("--target-processing", "The same, of the target model alone."),
)
"""The options about lists and about what was done to the values."""


def read_processing(options: dict[str, Any], defaults: tuple[str, str]) -> tuple[Processing, Processing]:
    """Return what was done to the values of the draft and the target model; refuse a mix."""
    from validation.collection.processing import parse_processing, refuse_mixed

    both, draft, target = (options[name] for name in ("processing", "draft_processing", "target_processing"))
    if both is not None and (draft is not None or target is not None):
        raise UserError("--processing speaks of both models; leave out --draft-processing and --target-processing.")
    texts = (both or draft, both or target)
    first, second = (parse_processing(text, default) for text, default in zip(texts, defaults, strict=True))
    refuse_mixed(first, second)
    return first, second


@click.command("import")
@option("--draft", "The draft model's values: FILE, FILE:KEY of an array (N, V), or FOLDER.", required=True)
@option("--target", "The target model's values, the same.", required=True)
@list_options
@option("--tokens", "The tokens that were emitted, (N,) integers (arrays).")
@option("--texts", "Which text each row belongs to, (N,) integers; one text if left out (arrays).")
@option(
    "--text-origin",
    "Who wrote the texts.  [default: corpus; for arrays not recorded]",
    click.Choice(["corpus", "target"]),
)
@option("--out", "The trace to make: a folder, or s3://BUCKET/NAME.", PLACE, required=True)
@option("--dtype", None, click.Choice(["auto", "float16", "float32"]), default="auto")
@option("--fresh", "Delete the trace in that folder first.", is_flag=True)
@quiet_option
def import_(draft: str, target: str, out: Place, quiet: bool, **options: Any) -> None:
    """Make a trace of your own logits or log-probabilities.

    Whole rows: .npy, .safetensors, zarr, or llama.cpp's store, which `llama-perplexity --kl-divergence-base FILE`
    writes: one for each model, from the same text and -c. Rows of one text lie together, in order.

    Lists of the most probable tokens: vLLM's prompt_logprobs, SGLang's input_top_logprobs or llama.cpp's
    completion_probabilities in JSON or JSONL, or a folder of DistillKit.

    Then `hlm validate --trace FOLDER` checks every claim that the values decide.
    """
    from validation.collection.import_lists import CORPUS, holds_lists, import_lists, open_lists
    from validation.collection.import_logits import default_values, import_logits

    console = open_console(quiet=quiet)
    listed, other = (holds_lists(where) for where in (draft, target))
    if listed != other:
        rows, lists = (target, draft) if listed else (draft, target)
        raise UserError(f"{rows} holds whole rows and {lists} lists of tokens; give both models in one form.")
    if wrong := [name for name in (("tokens", "texts") if listed else ("vocabulary",)) if options[name] is not None]:
        raise UserError(f"--{wrong[0]} belongs to {'arrays' if listed else 'lists'}; leave it out.")
    defaults = ("raw_logprobs", "raw_logprobs") if listed else (default_values(draft), default_values(target))
    said = read_processing(options, defaults)
    with progress_bar(console) as report:
        common: dict[str, Any] = {"processing": said, "fresh": options["fresh"], "progress": report}
        if listed:
            first, second = (open_lists(where, values) for where, values in zip((draft, target), said, strict=True))
            common |= {"text_origin": options["text_origin"] or CORPUS, "vocabulary": options["vocabulary"]}
            trace = import_lists(first, second, out, **common)
        else:
            common |= {name: options[name] for name in ("tokens", "texts", "dtype", "text_origin")}
            trace = import_logits(draft, target, out, **common)
    tell_stored(console, trace, out)


def _answers(source: ListSource, after: tuple[int, ...]) -> Iterator[ListedText]:
    for text in source.texts():
        yield text.from_answer(after)


def _ids(text: str | None) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isdecimal() and len(part) < 11 for part in parts):
        raise UserError(f"--answer-after is {text!r}; give token ids with commas between.")
    return tuple(map(int, parts))


@click.command("top-k")
@option("--draft", "Lists of the draft model.", FILE, required=True)
@option("--target", "Lists of the target model.", FILE, required=True)
@list_options
@option(
    "--answer-after",
    "Count positions from the answer on: it begins after the last of these token ids in a text, such as "
    "151644,77091,198.  [default: the answer_start of each answer]",
    callback=lambda _, __, text: _ids(text),
    metavar="IDS",
)
@option("--whole-text", "Count the positions of template and prompt too.", is_flag=True)
@json_option
def top_k(
    draft: Path, target: Path, answer_after: tuple[int, ...], whole_text: bool, as_json: bool, **options: Any
) -> None:
    """Bound the acceptance rate of a pair from top-k log-probabilities, and certify how many probabilities to send.

    The files are JSON or JSONL, one answer for each text: vLLM's prompt_logprobs (nested or flat), SGLang's
    input_top_logprobs, or llama.cpp's completion_probabilities; or folders of DistillKit. The other probabilities are
    not known, so each result is an interval. Of chats only the answers count. `hlm import` stores the lists, and
    `hlm validate --trace` then checks the claims that they decide.
    """
    from validation.collection.import_lists import open_lists
    from validation.collection.intervals import intervals
    from validation.collection.processing import processing_note
    from validation.collection.top_k import pair_lists

    if answer_after and whole_text:
        raise UserError("--answer-after leaves out template and prompt, --whole-text takes them; give one of both.")
    console = open_console(stderr=as_json)
    said = read_processing(options, ("raw_logprobs", "raw_logprobs"))
    if any(values.logits for values in said):
        raise UserError("Intervals need log-probabilities; import logits of all tokens with `hlm import`.")
    one, other = (open_lists(path, values) for path, values in zip((draft, target), said, strict=True))
    if not whole_text:
        one, other = (replace(source, texts=partial(_answers, source, answer_after)) for source in (one, other))
    with waiting(console, "reading the lists"):
        found = intervals(pair_lists(one, other, options["vocabulary"]))
    low, high = found.acceptance
    console.print(
        f"{found.places:,} positions of {found.texts:,} texts, V = {found.vocabulary:,}; at each, {found.draft_k} "
        f"probabilities of the draft model and {found.target_k} of the target model are known."
    )
    console.print(processing_note(*said))
    console.print(
        f"Mean acceptance rate: {low:.4f} to {high:.4f}; the widest interval of one position is {found.widest:.4f}."
    )
    heads = ("Bias at most", "positions where the list is long enough", "mean k there")
    means = ("-" if x.mean_k is None else f"{x.mean_k:.1f}" for x in found.certified)
    rows = ((f"{x.bias:g}", f"{x.covered:.1%}", mean) for x, mean in zip(found.certified, means, strict=True))
    print_table(console, "Probabilities to send, certified from the draft model's list", heads, rows)
    if as_json:
        print_json(asdict(found) | {"processing": [asdict(values) for values in said]})
