"""The command ``hlm import``."""

import shlex
from typing import Any

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
    for note in trace.manifest["notes"]:
        say(console, note)
    console.print(f"{trace.positions:,} positions, V = {trace.vocabulary:,}.")
    say(console, shlex.join(["python3", "hlm", "validate", "--trace", str(out)]))
