"""Models whose distributions stand in a table: every text that they can write is enumerated, with its law.

A table lists distributions by prefix: after node n and token v comes node n V + v + 1. The models run in the loop like
any other. They keep the tokens in the cache, so an entry that is wrong there changes what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from validation.models.pair import Pair

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]


class TableModel:
    """A language model over V tokens that stores the tokens in the cache, so that a wrong slot changes its output."""

    def __init__(self, table: Array, prompt_length: int) -> None:
        import torch

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
        import torch

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
        """Return what the cache holds of tokens."""
        return tokens

    def understood(self, entries: torch.Tensor) -> torch.Tensor:
        """Return the tokens that the model takes entries of the cache for."""
        return entries


class _Words:
    """A tokenizer of texts that consist of numbers."""

    bos_token_id = None

    def __call__(self, texts: Sequence[str], verbose: bool = True) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[[int(word) for word in text.split()] for text in texts])


def table_pair(
    draft: Array, target: Array, *, prompt: str = "0", end_tokens: tuple[int, ...] = (), context: int = 64
) -> Pair:
    """Return a pair of table models; ``prompt`` sets how many tokens of a prompt the tables do not see."""
    import torch

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
    """Return the number of rows of a table over that many positions."""
    return sum(vocabulary**n for n in range(positions))


def node(*tokens: int, vocabulary: int = 3) -> int:
    """Return the row of a table after these tokens."""
    place = 0
    for token in tokens:
        place = place * vocabulary + token + 1
    return place
