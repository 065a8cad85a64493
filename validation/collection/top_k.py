"""Read top-k log-probabilities from the answers of engines, for each model of a pair.

=====================  =================================================================================================
engine                 content of the JSON file (one answer, a list of answers, or JSONL)
=====================  =================================================================================================
vLLM, nested           ``prompt_logprobs``: a list with null first, then ``{token id: {"logprob", "rank"}}``; the
                       token of the text comes first, at any rank
vLLM, flat             ``prompt_logprobs``: ``{start_indices, end_indices, token_ids, logprobs, ranks}``
SGLang                 ``meta_info.input_top_logprobs``: null first, then lists of ``[logprob, id, text]``;
                       ``input_token_logprobs``: the token of the text at each place
llama.cpp's server     ``completion_probabilities``: ``[{id, logprob, top_logprobs: [{id, logprob}]}]``
=====================  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.acceptance.json_files import read_json
from validation.errors import UserError

LARGEST_ID = 2**31 - 1

Entry = tuple[int, float]
"""A token and its log-probability."""
Place = tuple[int, list[Entry]]
"""The token of the text at a position, and the largest entries of the distribution there, in descending order."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The k largest log-probabilities at N positions of texts.

    Attributes
    ----------
    tokens : int64 array, shape (N, k)
        Tokens, the most probable first.
    log_probabilities : float64 array, shape (N, k)
        Their log-probabilities in nats.
    text_tokens : int64 array, shape (N,)
        The token of the text.
    texts : int64 array, shape (N,)
        The number of the text.
    where : str
        The file.
    """

    tokens: NDArray[np.int64]
    log_probabilities: NDArray[np.float64]
    text_tokens: NDArray[np.int64]
    texts: NDArray[np.int64]
    where: str

    @property
    def k(self) -> int:
        """Return the number of entries at each position."""
        return int(self.tokens.shape[1])


def read_top_k(path: str | Path) -> TopK:
    """Return the lists of a file; k is the length of the shortest list.

    Raises
    ------
    UserError
        The file is missing, damaged, empty or of an unknown format, or its values were processed after the softmax.
    """
    path = Path(path)
    places: list[Place] = []
    texts: list[int] = []
    for number, (where, answer) in enumerate(read_json(path)):
        try:
            found = list(_places(where, answer))
        except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
            raise UserError(f"{where} is damaged: {error!r}; check that it is complete.") from error
        places += found
        texts += [number] * len(found)
    if not places:
        raise UserError(f"{path} has no log-probabilities; ask the engine for the top k of the prompt.")
    k = min(len(entries) for _, entries in places)
    if k == 0:
        raise UserError(f"{path} has a position without any token; ask for the top k, with k at least 1.")
    listed = [entries[:k] for _, entries in places]
    return TopK(
        np.array([[token for token, _ in entries] for entries in listed]),
        np.array([[value for _, value in entries] for entries in listed]),
        np.array([token for token, _ in places]),
        np.array(texts),
        str(path),
    )


def refuse_other_texts(draft: TopK, target: TopK) -> None:
    """Refuse two files with different texts.

    Raises
    ------
    UserError
        The message names the position of the first difference.
    """
    if len(draft.texts) != len(target.texts) or (draft.texts != target.texts).any():
        raise UserError(
            f"{draft.where} has {len(draft.texts):,} positions and {target.where} has {len(target.texts):,}, or their "
            "texts differ in length; ask both models for the same texts."
        )
    different = np.flatnonzero(draft.text_tokens != target.text_tokens)
    if len(different):
        at = int(different[0])
        first = int(np.argmax(draft.texts == draft.texts[at]))
        raise UserError(
            f"The texts differ: at position {at - first} of text {draft.texts[at]}, {draft.where} has token "
            f"{draft.text_tokens[at]} and {target.where} has {target.text_tokens[at]}; give both models the same text "
            "and tokenizer."
        )


def _places(where: str, answer: Any) -> Iterator[Place]:
    """Yield the positions of one answer."""
    if not isinstance(answer, Mapping):
        raise UserError(f"{where} is not an answer of an engine; an object is needed.")
    choices = answer.get("choices")
    if answer.get("prompt_logprobs") is None and isinstance(choices, list) and choices:
        answer = choices[0]
    meta = answer.get("meta_info", {})
    if answer.get("prompt_logprobs") is not None:
        found = answer["prompt_logprobs"]
        yield from _flat(where, found) if isinstance(found, Mapping) else _nested(where, found)
    elif meta.get("input_top_logprobs") is not None:
        yield from _sglang(where, meta)
    elif answer.get("completion_probabilities") is not None:
        yield from _llama_cpp(where, answer["completion_probabilities"])
    else:
        raise UserError(
            f"{where} must have prompt_logprobs (vLLM), meta_info.input_top_logprobs (SGLang) or "
            "completion_probabilities (llama.cpp)."
        )


def _nested(where: str, found: Sequence[Any]) -> Iterator[Place]:
    for at, row in enumerate(found):
        if row is None:
            continue
        here = f"{where}, place {at}"
        entries = [(_id(here, token), _log(here, one["logprob"]), one.get("rank")) for token, one in row.items()]
        yield _without_extra(here, entries)


def _flat(where: str, found: Mapping[str, Any]) -> Iterator[Place]:
    ends = zip(found["start_indices"], found["end_indices"], strict=True)
    for at, (start, end) in enumerate(ends):
        here = f"{where}, place {at}"
        if start == end:
            continue
        rows = [found[name][start:end] for name in ("token_ids", "logprobs", "ranks")]
        if not 0 <= start < end or any(len(row) != end - start for row in rows):
            raise UserError(f"{here} uses the entries {start} to {end}, which the file does not hold.")
        entries = zip(*rows, strict=True)
        yield _without_extra(here, [(_id(here, token), _log(here, value), rank) for token, value, rank in entries])


def _without_extra(where: str, entries: list[tuple[int, float, Any]]) -> Place:
    """Return a position of vLLM; its first entry is the token of the text, which may not be among the largest."""
    token, _, rank = entries[0]
    listed = [(one, value) for one, value, _ in entries]
    if rank is None or rank > len(entries):  # at rank len(entries) it is the smallest of the top k
        listed = listed[1:]
    return token, _ordered(where, listed)


def _sglang(where: str, meta: Mapping[str, Any]) -> Iterator[Place]:
    texts = meta["input_token_logprobs"]
    if len(texts) != len(meta["input_top_logprobs"]):
        raise UserError(f"{where}: input_top_logprobs and input_token_logprobs differ in length; the file is damaged.")
    for at, (row, text) in enumerate(zip(meta["input_top_logprobs"], texts, strict=True)):
        if row is None:
            continue
        here = f"{where}, place {at}"
        yield _id(here, text[1]), _ordered(here, [(_id(here, one[1]), _log(here, one[0])) for one in row])


def _llama_cpp(where: str, found: Sequence[Mapping[str, Any]]) -> Iterator[Place]:
    for at, place in enumerate(found):
        here = f"{where}, place {at}"
        if "top_logprobs" not in place:
            raise UserError(
                f"{here} has no top_logprobs: with post_sampling_probs the values are taken after the sampler; leave "
                "it out of the request."
            )
        entries = [(_id(here, one["id"]), _log(here, one["logprob"])) for one in place["top_logprobs"]]
        yield _id(here, place["id"]), _ordered(here, entries)


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
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 1e-4:
        raise UserError(
            f"{where}: {str(value)[:40]!r} is not a log-probability; raw logits and probabilities are not read."
        )
    return float(value)
