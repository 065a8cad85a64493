"""The command ``hlm import``."""

import shlex

import click

from validation.cli.display import open_console, progress_bar
from validation.cli.options import PLACE, option, quiet_option
from validation.cli.tables import say
from validation.cli.top_k import list_options, read_processing
from validation.errors import UserError
from validation.trace.remote import Place


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
def import_(
    draft: str,
    target: str,
    vocabulary: int | None,
    processing: str | None,
    draft_processing: str | None,
    target_processing: str | None,
    tokens: str | None,
    texts: str | None,
    text_origin: str | None,
    out: Place,
    dtype: str,
    fresh: bool,
    quiet: bool,
) -> None:
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
    given = {"--tokens": tokens, "--texts": texts} if listed else {"--vocabulary": vocabulary}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise UserError(f"{wrong[0]} belongs to {'arrays' if listed else 'lists'}; leave it out.")
    defaults = ("raw_logprobs", "raw_logprobs") if listed else (default_values(draft), default_values(target))
    said = read_processing(processing, draft_processing, target_processing, defaults)
    with progress_bar(console) as report:
        if listed:
            sources = [open_lists(where, one) for where, one in zip((draft, target), said, strict=True)]
            trace = import_lists(
                sources[0],
                sources[1],
                out,
                vocabulary=vocabulary,
                processing=said,
                text_origin=text_origin or CORPUS,
                fresh=fresh,
                progress=report,
            )
        else:
            trace = import_logits(
                draft,
                target,
                out,
                tokens=tokens,
                texts=texts,
                dtype=dtype,
                processing=said,
                text_origin=text_origin,
                fresh=fresh,
                progress=report,
            )
    for note in trace.manifest["notes"]:
        say(console, note)
    console.print(f"{trace.positions:,} positions, V = {trace.vocabulary:,}.")
    say(console, shlex.join(["python3", "hlm", "validate", "--trace", str(out)]))
