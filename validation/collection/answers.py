"""Read the top-k log-probabilities of engines' answers: a JSON file with one answer or a list, or JSONL.

The formats are vLLM's ``prompt_logprobs``, SGLang's ``input_top_logprobs`` and llama-server's
``completion_probabilities``. An answer may have ``answer_start``, the number of tokens before the model's answer.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from validation.collection.processing import Processing
from validation.collection.top_k import LARGEST_ID, MASS, ListedText, ListSource
from validation.errors import UserError
from validation.input_files import read_json

JSON = (".json", ".jsonl", ".json.gz", ".jsonl.gz")

Entry = tuple[int, float]  # a token and its log-probability
ListedPosition = tuple[int, int, list[Entry]]
"""Its number in the file, the token of the text, and the largest entries there, in descending order."""
Value = Callable[[str, Any], float]


def open_answers(path: Path, processing: Processing) -> ListSource:
    for where, answer in read_json(path):
        found, _ = _engine(where, answer)
        return ListSource(path, found, partial(_texts, path, processing), normalised=not processing.logits)
    raise UserError(f"{path} has no answer; ask the engine for the top k of the prompt.")


def _texts(path: Path, processing: Processing) -> Iterator[ListedText]:
    value = _logit if processing.logits else _log
    for where, answer in read_json(path):
        try:
            text = _text(where, answer, value)
            alone = text.tokens.shape[1] == 1 and processing.top_k != 1 and not processing.logits
            if alone and (text.log_probabilities == 0.0).all():
                raise UserError(DRAFTED.format(where=text.places(0)))
            yield text
        except (AttributeError, KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
            raise UserError(f"{where} is damaged: {error!r}; check that it is complete.") from error


def _text(where: str, answer: Any, value: Value) -> ListedText:
    engine, found = _engine(where, answer)
    start = 0 if engine == "llama-server" else _answer_start(where, answer)
    places = list(_READERS[engine](where, found, value))
    if not places:
        raise UserError(f"{where} has no log-probabilities; ask the engine for the top k of the prompt.")
    sizes = [len(entries) for _, _, entries in places]
    k, longest = min(sizes), max(sizes)
    for number, _, entries in places:
        if not entries and engine != "llama-server":
            raise UserError(
                f"{where}, place {number} is a position without any token; ask for the top k, with k at least 1."
            )
        if not entries or (value is _log and longest > 1 and [one for _, one in entries] == [0.0]):
            raise UserError(DRAFTED.format(where=f"{where}, place {number}"))
    numbers = [number for number, _, _ in places]
    listed = [entries[:k] for _, _, entries in places]
    return ListedText(
        np.array([[token for token, _ in entries] for entries in listed], np.int64),
        np.array([[number for _, number in entries] for entries in listed], np.float64),
        np.array([token for _, token, _ in places], np.int64),
        lambda row: f"{where}, place {numbers[row]}",
        None if start is None else sum(number < start for number in numbers),
    )


DRAFTED = (
    "{where} has no list, or one token with log-probability 0, as a server that drafts writes for an accepted draft: "
    "this server drafts; ask one without, for the top k with k at least 2."
)


def _answer_start(where: str, answer: Mapping[str, Any]) -> int | None:
    start, choices = answer.get("answer_start"), answer.get("choices")
    if start is not None:
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise UserError(f"{where}: answer_start is {str(start)[:40]!r}; a number of tokens is needed.")
        return start
    first = choices[0] if isinstance(choices, list) and choices else None
    chat = answer.get("object") == "chat.completion" or "messages" in answer
    return None if chat or (isinstance(first, Mapping) and "message" in first) else 0


def _engine(where: str, answer: Any) -> tuple[str, Any]:
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if isinstance(choices, list) and choices and answer.get("prompt_logprobs") is None:
        if len(choices) > 1:
            raise UserError(f"{where} has {len(choices)} choices; ask for one (n = 1).")
        answer = choices[0]
    if not isinstance(answer, Mapping):
        raise UserError(f"{where} is not an answer of an engine; an object is needed.")
    meta = answer.get("meta_info")
    if answer.get("prompt_logprobs") is not None:
        return "vllm", answer["prompt_logprobs"]
    if isinstance(meta, Mapping) and meta.get("input_top_logprobs") is not None:
        return "sglang", meta
    if answer.get("completion_probabilities") is not None:
        return "llama-server", answer["completion_probabilities"]
    raise UserError(
        f"{where} must have prompt_logprobs (vLLM), meta_info.input_top_logprobs (SGLang) or "
        "completion_probabilities (llama.cpp)."
    )


def _vllm(where: str, found: Any, value: Value) -> Iterator[ListedPosition]:
    for at, place in enumerate(_flat(where, found) if isinstance(found, Mapping) else found):
        if place is None:
            continue
        row = place.items() if isinstance(place, Mapping) else place
        here = f"{where}, place {at}"
        entries = [(_id(here, token), value(here, one["logprob"]), one.get("rank")) for token, one in row]
        yield at, *_without_extra(here, entries)


def _flat(where: str, found: Mapping[str, Any]) -> Iterator[Any]:
    for at, (start, end) in enumerate(zip(found["start_indices"], found["end_indices"], strict=True)):
        columns = [found[name][start:end] for name in ("token_ids", "logprobs", "ranks")]
        if start != end and (not 0 <= start < end or any(len(column) != end - start for column in columns)):
            raise UserError(f"{where}, place {at} uses the entries {start} to {end}, which the file does not hold.")
        entries = zip(*columns, strict=True)
        yield None if start == end else [(token, {"logprob": one, "rank": rank}) for token, one, rank in entries]


def _without_extra(where: str, entries: list[tuple[int, float, Any]]) -> tuple[int, list[Entry]]:
    """Return a position of vLLM; its first entry is the token of the text, which may not be among the largest."""
    if not entries:
        raise UserError(f"{where} lists no token; the file is damaged.")
    token, _, rank = entries[0]
    listed = [(one, value) for one, value, _ in entries]
    again = any(one == token for one, _ in listed[1:])
    if again or rank is None or rank > len(entries):  # at rank len(entries) it is the smallest of the top k
        listed = listed[1:]
    return token, _ordered(where, listed)


def _sglang(where: str, meta: Mapping[str, Any], value: Value) -> Iterator[ListedPosition]:
    texts = meta["input_token_logprobs"]
    if len(texts) != len(meta["input_top_logprobs"]):
        raise UserError(f"{where}: input_top_logprobs and input_token_logprobs differ in length; the file is damaged.")
    for at, (row, text) in enumerate(zip(meta["input_top_logprobs"], texts, strict=True)):
        if row is None:
            continue
        here = f"{where}, place {at}"
        yield at, _id(here, text[1]), _ordered(here, [(_id(here, one[1]), value(here, one[0])) for one in row])


def _llama_server(where: str, found: Sequence[Mapping[str, Any]], value: Value) -> Iterator[ListedPosition]:
    for at, place in enumerate(found):
        here = f"{where}, place {at}"
        if "top_logprobs" not in place:
            raise UserError(
                f"{here} has no top_logprobs: with post_sampling_probs the values are taken after the sampler; leave "
                "it out of the request."
            )
        entries = [(_id(here, one["id"]), value(here, one["logprob"])) for one in place["top_logprobs"]]
        yield at, _id(here, place["id"]), _ordered(here, entries)


_READERS: dict[str, Callable[[str, Any, Value], Iterator[ListedPosition]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llama-server": _llama_server,
}


def _ordered(where: str, entries: list[Entry]) -> list[Entry]:
    if len({token for token, _ in entries}) < len(entries):
        raise UserError(f"{where} lists a token twice; the file is damaged.")
    return sorted(entries, key=lambda entry: -entry[1])


def _id(where: str, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:12])
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        raise UserError(f"{where}: {str(value)[:40]!r} is not a token id.")
    return value


def _log(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= MASS:
        raise UserError(
            f"{where}: {str(value)[:40]!r} is not a log-probability; for logits say --processing raw_logits, and "
            "probabilities are not read."
        )
    return float(value)


def _logit(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value == math.inf:
        raise UserError(f"{where}: {str(value)[:40]!r} is not a logit.")
    return float(value)
