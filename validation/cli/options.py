"""Option classes shared by several commands."""

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from validation.trace.remote import place


class PlaceType(click.ParamType[Any]):
    """A folder, or the address of a store: ``s3://``, ``http://``, ``https://``."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return place(value)


class SizeType(click.ParamType[Any]):
    """A number of bytes with a unit: ``500M``, ``8G``, ``8GB``, ``1.5T``; 1G is 10^9 bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([MGT])B?", str(value).strip(), re.IGNORECASE)
        size = 0 if found is None else int(float(found[1]) * {"M": 10**6, "G": 10**9, "T": 10**12}[found[2].upper()])
        if not size:
            self.fail(f"{value!r} is no size; give for example 500M, 8G or 1.5T.", param, ctx)
        return size


class DraftsType(click.Choice):  # type: ignore[type-arg]
    """How an engine chose its drafts; vLLM's word for ``sampled`` is taken too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in ("draft_model", "eagle", "eagle3", "medusa", "mtp", "ngram"):
            ways = "greedy, sampled (draft_sample_method: probabilistic), or copied for n-grams"
            self.fail(f"{value!r} names what drafts, not how its drafts are drawn; give {ways}.", param, ctx)
        return super().convert("sampled" if value == "probabilistic" else value, param, ctx)


OTHERS = "Options"
"""The group of an option that names none."""
METAVARS = {"time": "TIME", "rtt": "TIME", "rate": "RATE", "snr": "SNR", "factor": "RATIO", "power": "POWER"}
METAVARS |= {"risk": "RISK", "latency": "LIMIT", "leak": "LIMIT", "energy": "ENERGY"}


class GroupedOption(click.Option):
    """An option that knows under which heading of its command's help it belongs."""

    def __init__(self, *names: Any, group: str = OTHERS, **more: Any) -> None:
        super().__init__(*names, **more)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help has its options under the headings of their groups, in the order of the options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(one, "group", OTHERS), []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def option(names: str, said: str | None = None, kind: Any = None, **more: Any) -> Callable[..., Any]:
    """Return a command's option with these names, its help, its type, its default shown, and its ``group``."""
    quantity = METAVARS.get(names.split()[0].rpartition("-")[2])
    shown = {"show_default": "default" in more, "metavar": quantity, **more}
    return click.option(*names.split(), cls=GroupedOption, type=kind, help=said, **shown)


def together(*options: Callable[..., Any]) -> Callable[..., Any]:
    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        return reduce(lambda command, option: option(command), reversed(options), command)

    return added


PLACE = PlaceType()
SIZE = SizeType()
SEED = click.IntRange(0, 2**63 - 1)
"""What all generators of random numbers take."""
FILE = click.Path(path_type=Path)
AT_LEAST_0, AT_LEAST_1 = click.FloatRange(min=0.0), click.IntRange(min=1)
_DEVICE = option("--device", "auto, cpu, cuda, cuda:1, ...", default="auto")
DTYPE = option("--dtype", "Type of the weights.  [default: float32 on the CPU, elsewhere as stored]")
KEY = option("--key", "A file with a secret of 16 to 64 bytes; the server's may have more, one a line.", FILE)
DRAFT_TIME = option("--draft-time", "Each pass of the draft takes at least so long.", default="0ms")
model_options = together(DRAFT_TIME, _DEVICE, DTYPE)
"""The options of a side of a link, which runs one model."""

chat_option = option("--chat", "Make each prompt a turn of the user, by the tokenizer's chat template.", is_flag=True)
quiet_option = option("--quiet -q", "Print nothing but errors; see the exit code.", is_flag=True)
json_option = option(
    "--json as_json", "Print one JSON object; all else goes to the error output.", is_flag=True, group="Output"
)
output_options = together(quiet_option, json_option)
version_options = together(
    option("--base", "The base model of an adapter given as --target.  [default: as the adapter says]"),
    option(
        "--changed-anchor", "Accept an aligned draft whose target changed the anchor: exact, but slower.", is_flag=True
    ),
)
"""The options of a target that is a version of a base model."""
pair_options = together(
    option("--pair name", "A named pair; `builtin` needs no network.  [default: builtin]"),
    option(
        "--draft", "The draft model: a folder, a .gguf file, or a hub name such as owner/model or owner/model@revision."
    ),
    option("--target", "The target model: a folder (also of a peft adapter), .gguf file or hub name."),
    option(
        "--weights", "Folder with the GGUF files, or their parts, of a pair by hub name.  [default: HLM_WEIGHTS]", FILE
    ),
    version_options,
)
collection_options = together(
    option("--prompts", "Your prompts: .txt (one per line) or .jsonl.", FILE),
    chat_option,
    option("--positions", "Minimum number of positions; the last batch of texts is whole.", AT_LEAST_1, default=20_000),
    option("--new-tokens", "Longest continuation.", AT_LEAST_1, default=160),
    option("--seed", "Seed of the texts and of all random draws.", SEED, default=1),
    option("--device", "auto, cpu, cuda, cuda:1, and so on.", default="auto"),
    DTYPE,
    option("--memory", "Use at most this much memory, such as 8G.  [default: what is free]", SIZE, metavar="SIZE"),
)
