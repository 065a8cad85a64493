"""The command ``hlm top-k``."""

from __future__ import annotations

from pathlib import Path

import click

from validation.cli.display import open_console
from validation.cli.run import print_json

PATH = click.Path(path_type=Path)


@click.command("top-k")
@click.option("--draft", required=True, type=PATH, help="The draft model's top-k log-probabilities of some texts.")
@click.option("--target", required=True, type=PATH, help="The target model's, of the same texts.")
@click.option("--vocabulary", required=True, type=click.IntRange(1, 2**31), help="V, the outputs of the models' head.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; all else goes to the error output.")
def top_k(draft: Path, target: Path, vocabulary: int, as_json: bool) -> None:
    """Bound the acceptance rate of a pair from top-k log-probabilities, and certify how many probabilities to send.

    The files are JSON or JSONL, one answer for each text: vLLM's prompt_logprobs (nested or flat), SGLang's
    input_top_logprobs, or llama.cpp's completion_probabilities. The other probabilities are not known, so each result
    is an interval. Claims are not checked: they need whole distributions.
    """
    from rich import box
    from rich.table import Table

    from validation.collection.intervals import intervals
    from validation.collection.top_k import read_top_k

    found = intervals(read_top_k(draft), read_top_k(target), vocabulary)
    console = open_console(stderr=as_json)
    low, high = found.acceptance
    console.print(
        f"{found.places:,} positions of {found.texts:,} texts, V = {vocabulary:,}; at each, {found.draft_k} "
        f"probabilities of the draft model and {found.target_k} of the target model are known."
    )
    console.print(
        f"Mean acceptance rate: {low:.4f} to {high:.4f}; the widest interval of one position is {found.widest:.4f}."
    )
    table = Table(title="Probabilities to send, certified from the draft model's list", box=box.SIMPLE)
    for head in ("Bias at most", "positions where the list is long enough", "mean k there"):
        table.add_column(head, justify="right")
    for one in found.certified:
        mean = "-" if one.mean_k is None else f"{one.mean_k:.1f}"
        table.add_row(f"{one.bias:g}", f"{one.covered:.1%}", mean)
    console.print(table)
    if as_json:
        print_json(found.as_json())
