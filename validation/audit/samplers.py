"""Samplers to audit: a user's function, a call of transformers' generate, one of our methods, or a file of draws."""

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hlmtheory._array import brief
from validation.audit.driver import Batch, padded
from validation.audit.laws import Law
from validation.collection.prompts import Prompt
from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import METHODS, info_of
from validation.decoding.methods.registry import Fitted, Setup
from validation.decoding.methods.rows import Absent
from validation.errors import UserError
from validation.models.pair import Pair

Sampler = Callable[..., Any]
MOST_PROMPTS = 10_000
HELD = 1024
"""Draws of one prompt that wait while a file is read."""


def transformers_sampler(model: Any, *, new_tokens: int, **options: Any) -> Sampler:
    """Return a sampler that calls ``model.generate`` once for each draw, as assisted generation needs."""

    def sample(prompts: Sequence[Sequence[int]], n: int, seed: int) -> list[list[list[int]]]:
        import torch

        torch.manual_seed(seed)
        found = []
        for prompt in prompts:
            ids = torch.tensor([list(prompt)], device=model.device)
            mask = torch.ones_like(ids)
            calls = (
                model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=new_tokens, **options)
                for _ in range(n)
            )
            found.append([texts[0, ids.shape[1] :].tolist() for texts in calls])
        return found

    return sample


def method_sampler(
    pair: Pair, method: Method, prompts: Sequence[str | Prompt], *, temperature: float, top_p: float
) -> Sampler:
    from validation.decoding.loop import decode

    asked = [one if isinstance(one, Prompt) else Prompt("", one, "audit") for one in prompts]
    settings: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "times": (1.0, 1.0)}

    def sample(ids: Sequence[Sequence[int]], n: int, seed: int, depth: int) -> list[list[list[int]]]:
        named = [replace(one, id=f"{c}-{i}") for c, one in enumerate(asked) for i in range(n)]
        batch = min(len(named), 256)
        records = decode(pair, named, method, new_tokens=depth, batch=batch, seed=seed, **settings)
        tokens = [list(record.tokens) for record in records]
        return [tokens[c * n : (c + 1) * n] for c in range(len(prompts))]

    return sample


def file_prompts(path: Path) -> list[Any]:
    """Return the different prompts of a file of draws, in the order in which they first occur."""
    prompts: dict[Any, None] = {}
    for key, _ in lines_of_draws(path):
        prompts.setdefault(key)
        if len(prompts) > MOST_PROMPTS:
            raise UserError(f"{path} holds more than {MOST_PROMPTS:,} prompts; an audit needs many draws of each.")
    if not prompts:
        raise UserError(f"{path} holds no draws; give one JSON object a line.")
    return [list(key) for key in prompts]


def file_batches(
    path: Path, law: Law, prompts: Sequence[Any], depth: int, pad: int | None
) -> Generator[Batch, None, None]:
    """Yield the draws of a file; memory holds at most ``HELD`` of each prompt."""
    places = {tuple(prompt): i for i, prompt in enumerate(prompts)}
    held: list[list[list[int]]] = [[] for _ in places]
    for key, texts in lines_of_draws(path):
        place = places[key]
        held[place] += texts
        if len(held[place]) >= HELD:
            yield place, padded(law, held[place], depth, pad)
            held[place] = []
    for place, texts in enumerate(held):
        if texts:
            yield place, padded(law, texts, depth, pad)


def lines_of_draws(path: Path) -> Iterator[tuple[Any, list[list[int]]]]:
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                one = json.loads(line)
                key = tuple(_ids(one["prompt"]))
                texts = one["continuations"] if "continuations" in one else [one["continuation"]]
                if not isinstance(texts, list):
                    raise TypeError(f"{brief(texts)} where a list of continuations is needed")
                texts = [_ids(text) for text in texts]
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                why = f"lacks {error}" if isinstance(error, KeyError) else f"has {error}"
                raise UserError(
                    f'{path}, line {number}: write {{"prompt": [ids], "continuation": [ids]}}, or "continuations": a '
                    f"list of them. The line {why}."
                ) from error
            yield key, texts


def _ids(value: Any) -> list[int]:
    if not isinstance(value, list):
        raise TypeError(f"{brief(value)} where a list of ids is needed")
    for token in value:
        if type(token) is not int or abs(token) >= 2**63:
            raise TypeError(f"{brief(token)} where a whole number is needed")
    return value


def method_named(name: str, draft_length: int = 4, *, of_link: bool = False) -> Method:
    """Return a decoding method by its stored name, with K drafts; a refusal lists all, or those ``of_link`` alone."""
    unfitted = Setup(Fitted(1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 30), draft_length)
    defaults = [info.default(unfitted) for info in METHODS.values() if info.default is not None]
    by_name = {method.name: method for method in defaults}
    found: Method | None = by_name.get(name)
    found = found or next((by_name[candidate] for candidate in by_name if info_of(candidate).name == name), None)
    if found is None:
        names = [candidate for candidate in by_name if not (of_link and isinstance(by_name[candidate].format, Absent))]
        nearest = "\n  ".join(get_close_matches(name, names, len(names), 0.0))
        raise UserError(f"There is no method {name!r}; the methods are, the nearest first:\n  {nearest}")
    return found
