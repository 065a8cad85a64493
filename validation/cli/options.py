"""Option classes shared by several commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from validation.trace.remote import place


class PlaceType(click.ParamType[Any]):
    """A folder, or the address of a store: ``s3://``, ``http://``, ``https://``."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a Path or a RemotePath."""
        return place(value)


class SizeType(click.ParamType[Any]):
    """A number of bytes with a unit: ``500M``, ``8G``, ``8GB``, ``1.5T``; 1G is 10^9 bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the bytes."""
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([MGT])B?", str(value).strip(), re.IGNORECASE)
        size = 0 if found is None else int(float(found[1]) * {"M": 10**6, "G": 10**9, "T": 10**12}[found[2].upper()])
        if not size:
            self.fail(f"{value!r} is no size; give for example 500M, 8G or 1.5T.", param, ctx)
        return size


PLACE = PlaceType()
SIZE = SizeType()
SEED = click.IntRange(0, 2**63 - 1)
"""What all generators of random numbers take."""
FILE = click.Path(path_type=Path)
DEVICE = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
DTYPE = click.option("--dtype", help="Type of the weights.  [default: float32 on the CPU, elsewhere as stored]")
KEY = click.option(
    "--key", type=FILE, help="A file with a secret of 16 to 64 bytes; the server's may have more, one a line."
)
DRAFT_TIME = click.option(
    "--draft-time", default="0ms", show_default=True, help="Each pass of the draft takes at least so long."
)


def version_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a target that is a version of a base model."""
    for option in (
        click.option(
            "--changed-anchor",
            is_flag=True,
            help="Accept an aligned draft whose target changed the anchor: exact, but slower.",
        ),
        click.option("--base", help="The base model of an adapter given as --target.  [default: as the adapter says]"),
    ):
        command = option(command)
    return command


def pair_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the models, in the help's order."""
    options = (
        click.option("--pair", "name", help="A named pair; `builtin` needs no network.  [default: builtin]"),
        click.option(
            "--draft",
            help="The draft model: a folder, a .gguf file, or a hub name such as owner/model or owner/model@revision.",
        ),
        click.option(
            "--target",
            help="The target model: a folder (also of a peft adapter), .gguf file or hub name.",
        ),
        version_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


chat_option = click.option(
    "--chat", is_flag=True, help="Make each prompt a turn of the user, by the tokenizer's chat template."
)


def collection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a collection, in the help's order."""
    path = click.Path(path_type=Path)
    options = (
        click.option("--prompts", type=path, help="Your prompts: .txt (one per line) or .jsonl."),
        chat_option,
        click.option(
            "--positions",
            type=click.IntRange(min=1),
            default=20_000,
            show_default=True,
            help="Minimum number of positions; the last text is finished.",
        ),
        click.option(
            "--new-tokens", type=click.IntRange(min=1), default=160, show_default=True, help="Longest continuation."
        ),
        click.option(
            "--seed", type=SEED, default=1, show_default=True, help="Seed of the texts and of all random draws."
        ),
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, and so on."),
        click.option("--dtype", help="Type of the weights.  [default: float32 on the CPU, elsewhere as stored]"),
        click.option(
            "--memory",
            type=SIZE,
            metavar="SIZE",
            help="Use at most this much memory, such as 8G.  [default: what is free]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors; see the exit code.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object; all else goes to the error output."
)
