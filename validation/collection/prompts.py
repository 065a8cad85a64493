"""Read the prompts of a collection: built-in, from a JSON-lines file, or from plain text with one prompt per line."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.input_files import parse, text_lines
from validation.models.sources import PAIRS_FOLDER

LONGEST_LINE = 2**22
"""Maximum characters per line, enough for a context of a million tokens. Tokenizing needs 200 bytes per character."""

BUILTIN_PROMPTS = PAIRS_FOLDER / "builtin" / "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt with its id, its source, and its reference answer, if it has one."""

    id: str
    text: str
    source: str
    reference: str | None = None
    messages: tuple[tuple[str, str], ...] = ()

    def plain(self) -> dict[str, Any]:
        values = asdict(self)
        return values if self.messages else {name: value for name, value in values.items() if name != "messages"}


def builtin_prompts(*, limit: int | None = None) -> list[Prompt]:
    """Return prompts from texts held out of the built-in pair's training (GSM8K test, PEPs, novels)."""
    return read_prompts(BUILTIN_PROMPTS, limit=limit)


def read_prompts(path: str | Path, *, limit: int | None = None) -> list[Prompt]:
    path = Path(path)
    if limit is not None and limit < 1:
        raise UserError(f"The limit of prompts is {limit}; it must be at least 1.")
    if not path.name.endswith((".jsonl", ".jsonl.gz", ".txt")):
        raise UserError(f"{path} does not end in .jsonl, .jsonl.gz or .txt; rename it or convert it to one of them.")
    prompts: dict[str, Prompt] = {}
    for number, (where, line) in enumerate(text_lines(path, LONGEST_LINE), 1):
        prompt = _prompt(path, number, where, line)
        if prompt.id in prompts:
            raise UserError(f"{where}: the id {prompt.id!r} was used before; give each prompt its own.")
        prompts[prompt.id] = prompt
        if len(prompts) == limit:
            break
    if not prompts:
        raise UserError(f"{path} is empty; put at least one prompt into it.")
    return list(prompts.values())


def _prompt(path: Path, number: int, where: str, line: str) -> Prompt:
    row = {"prompt": line} if path.suffix == ".txt" else parse(where, line)
    if not isinstance(row, dict) or not row.keys() & {"prompt", "messages"}:
        raise UserError(f'{where}: the field \'prompt\' is missing; write lines like {{"prompt": "..."}}.')
    messages = () if "prompt" in row else _messages(where, row["messages"])
    text = "\n".join(f"{role}: {content}" for role, content in messages) if messages else row["prompt"]
    if not isinstance(text, str):
        raise UserError(f"{where}: the prompt is {text!r}, not a text; put it in quotes.")
    if not text.strip():
        raise UserError(f"{where}: the prompt is empty; remove the line or fill it in.")
    reference = row.get("reference")
    if not isinstance(reference, str | None):
        raise UserError(f"{where}: the reference is {reference!r}, not a text; put it in quotes, or leave it out.")
    name, source = str(row.get("id", f"line-{number}")), str(row.get("source", path.name))
    for what, value in (("prompt", text), ("id", name), ("source", source), ("reference", reference or "")):
        _refuse_surrogate(where, what, value)
    return Prompt(name, text, source, reference or None, messages)


def _messages(where: str, found: object) -> tuple[tuple[str, str], ...]:
    like = 'write "messages": [{"role": "user", "content": "..."}]'
    if not isinstance(found, list) or not found:
        raise UserError(f"{where}: the messages are no list of messages; {like}.")
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict) or not all(isinstance(one.get(name), str) for name in ("role", "content")):
            raise UserError(f"{where}: message {number} has no role and content that are texts; {like}.")
        if more := sorted(one.keys() - {"role", "content"}):
            raise UserError(f"{where}: message {number} has the field {more[0]!r}, which is not read; leave it out.")
    if found[-1]["role"] == "assistant" or not found[-1]["content"].strip():
        raise UserError(f"{where}: the last message leaves nothing to answer; end with a turn of the user.")
    return tuple((one["role"], one["content"]) for one in found)


def _refuse_surrogate(where: str, what: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}: the {what} holds {value[error.start]!a} (character {error.start + 1}), half of a surrogate "
            "pair, which is not text; write the whole pair, or leave it out."
        ) from error
