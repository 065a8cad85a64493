"""Random numbers on a grid: every text that the loop can write, with its exact law.

A table lists rows of probabilities by prefix: after node n and token v comes node n V + v + 1. If a random number
decides between events whose probabilities are multiples of 1/G, then G numbers, one in the middle of each cell,
represent all numbers. The mean over all combinations is then the exact law of the loop's texts.
"""

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.random_streams import ACCEPT, DRAFT, PURPOSES, REPLACE, Noise
from validation.decoding.records import GenerationRecord
from validation.models.pair import Pair

PROMPTS = [
    Prompt("one", "two and two make", "test"),
    Prompt("two", "it was the best of", "test"),
    Prompt("three", "what", "test"),
    Prompt("four", "three apples and four apples and three", "test"),
    Prompt("five", "the sum of the times", "test"),
]


class TableModel:
    """A language model over V tokens that stores the tokens in the cache, so that a wrong slot changes its output."""

    def __init__(self, table: np.ndarray, prompt_length: int) -> None:
        self.dtype = torch.float64
        self.table, self.prompt_length, self.calls = torch.from_numpy(table).clamp_min(1e-300).log(), prompt_length, 0

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past_key_values: Any,
        use_cache: bool,
    ) -> SimpleNamespace:
        """Return the logits of the new tokens, each given the tokens in the cache that the mask shows."""
        self.calls += 1
        assert use_cache
        assert attention_mask.shape[:3] == (len(input_ids), 1, input_ids.shape[1])
        new = self.stored(input_ids)[:, None, :, None].double()
        seen = self.understood(past_key_values.update(new, new, 0)[0][:, 0, :, 0].long())
        logits = torch.empty((*input_ids.shape, self.table.shape[1]), dtype=torch.float64)
        for column in range(input_ids.shape[1]):
            node = torch.zeros(len(seen), dtype=torch.int64)
            visible = attention_mask[:, 0, column] == 0  # a token's ancestors lie before it, in order
            for slot in range(self.prompt_length, seen.shape[1]):
                following = node * self.table.shape[1] + seen[:, slot] + 1
                node = torch.where(visible[:, slot] & (following < len(self.table)), following, node)
            logits[:, column] = self.table[node]
        return SimpleNamespace(logits=logits)

    __call__ = forward

    def stored(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens

    def understood(self, entries: torch.Tensor) -> torch.Tensor:
        return entries


class _Words:
    bos_token_id = None

    def __call__(self, texts: Sequence[str], verbose: bool = True) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[[int(word) for word in text.split()] for text in texts])


def table_pair(
    draft: np.ndarray, target: np.ndarray, *, prompt: str = "0", end_tokens: tuple[int, ...] = (), context: int = 64
) -> Pair:
    """Return a pair of table models; ``prompt`` sets how many tokens of a prompt the tables do not see."""
    length = len(prompt.split())
    return Pair(
        name="tables",
        draft=TableModel(draft, length),
        target=TableModel(target, length),
        tokenizer=_Words(),
        vocabulary=draft.shape[1],
        context=context,
        end_tokens=end_tokens,
        device=torch.device("cpu"),
        dtype="float64",
        draft_name="tables/draft",
        target_name="tables/target",
        draft_parameters=0,
        target_parameters=0,
    )


def nodes(vocabulary: int, positions: int) -> int:
    return sum(vocabulary**n for n in range(positions))


def node(*tokens: int, vocabulary: int = 3) -> int:
    place = 0
    for token in tokens:
        place = place * vocabulary + token + 1
    return place


def halves(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.permuted(np.tile([0.5, 0.5, 0.0], (count, 1)), axis=1)


def quarters(rng: np.random.Generator, count: int, vocabulary: int = 3) -> np.ndarray:
    return rng.multinomial(4, np.full(vocabulary, 1.0 / vocabulary), size=count) / 4.0


class Grid(Noise):
    """The random numbers of all combinations, one combination for each row."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__(0, [str(i) for i in range(len(table))], table.shape[1] - 1)
        self._table = table

    def drafts(self, rows: np.ndarray, positions: np.ndarray, ahead: np.ndarray, count: int) -> np.ndarray:
        """Return the random number of the position, also if it is drafted again: so the grid stays small."""
        return self.uniforms(DRAFT, rows, positions, count)


def grid(positions: int, cells: dict[int, int]) -> np.ndarray:
    """Return all combinations of the middles of that many cells, for each purpose at each position."""
    keys = [(position, purpose) for position in range(positions) for purpose in cells]
    choices = [[(c + 0.5) / cells[purpose] for c in range(cells[purpose])] for _, purpose in keys]
    found = np.full((int(np.prod([len(c) for c in choices])), positions + 1, PURPOSES), 0.5)
    for place, values in enumerate(zip(*itertools.product(*choices), strict=True)):
        found[:, keys[place][0], keys[place][1]] = values
    return found


def all_texts(
    pair: Pair, method: Method, positions: int, cells: dict[int, int], *, prompt: str = "0", **options: Any
) -> list[GenerationRecord]:
    table = grid(positions, cells)
    return decode(
        pair,
        [Prompt(str(i), prompt, "grid") for i in range(len(table))],
        method,
        new_tokens=positions,
        batch=len(table),
        noise=lambda seed, names, count: Grid(table),
        **options,
    )


def law_of(rows: Sequence[GenerationRecord]) -> dict[tuple[int, ...], float]:
    law: dict[tuple[int, ...], float] = {}
    for row in rows:
        law[tuple(row.tokens)] = law.get(tuple(row.tokens), 0.0) + 1.0 / len(rows)
    return law


def exact_law(target: np.ndarray, positions: int, end_tokens: tuple[int, ...] = ()) -> dict[tuple[int, ...], float]:
    size = target.shape[1]

    def go_on(text: tuple[int, ...], node: int, mass: float) -> dict[tuple[int, ...], float]:
        if len(text) == positions or (text and text[-1] in end_tokens):
            return {text: mass}
        found: dict[tuple[int, ...], float] = {}
        for token in range(size):
            if target[node, token] > 0:
                found |= go_on((*text, token), node * size + token + 1, mass * float(target[node, token]))
        return found

    return go_on((), 0, 1.0)


def distance(first: dict[tuple[int, ...], float], second: dict[tuple[int, ...], float]) -> float:
    return 0.5 * sum(abs(first.get(text, 0.0) - second.get(text, 0.0)) for text in first.keys() | second.keys())


SAMPLED = {DRAFT: 2, ACCEPT: 2, REPLACE: 4}
"""Cells where q is of halves and p of quarters over three tokens."""
CERTAIN = {ACCEPT: 4, REPLACE: 12}
"""Cells where drafts are certain and p is of quarters."""
