"""The command ``hlm top-k``, and the options that it shares with ``hlm import``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console, waiting
from validation.cli.options import FILE, json_option, option, together
from validation.cli.run import print_json
from validation.cli.tables import print_table
from validation.errors import UserError

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
