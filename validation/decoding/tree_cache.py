"""A cached causal model that reads trees of tokens in one pass, and keeps one path of each.

The keys and values of a tree lie behind those of the kept tokens, in the order of the nodes, and a mask shows each node
its ancestors only. :meth:`TreeModel.commit` moves those of the accepted path to the front; the rest becomes filler.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.kv_cache import CachedModel
from validation.errors import UserError
from validation.models.devices import wait_for

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]


class TreeModel(CachedModel):
    """A model that can read several continuations of one sequence together; ``stored`` (slots,) counts tree tokens."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self._shifts or not isinstance(self._for_layers(lambda window: window), type(None)):
            raise UserError("A tree of drafts needs a model with full attention; this one has a sliding window.")
        self.stored = np.zeros_like(self.cached)

    def read_nodes(
        self,
        tokens: Sequence[Array],
        offsets: Sequence[Array],
        sees: Sequence[Array],
        *,
        features: bool = False,
        inputs: dict[str, Any] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Read new nodes of each slot's tree in one pass."""
        import torch

        counts = np.array([len(one) for one in tokens])
        width, starts = max(int(counts.max()), 1), self.cached + self.stored
        capacity = self._cache.capacity
        seen = min(int(starts.max()) + width, capacity)
        ids = np.zeros((len(counts), width), dtype=np.int64)
        where, visible = np.zeros_like(ids), np.zeros((len(counts), width, seen), dtype=bool)
        for slot, count in enumerate(counts.tolist()):
            first, start = int(self.cached[slot]), int(starts[slot])
            ids[slot, :count], where[slot, :count] = tokens[slot], first + offsets[slot]
            visible[slot, :count, :first] = True
            visible[slot, :count, first : start + count] = sees[slot]
            visible[slot, count:, 0] = True  # filler
        positions = np.minimum(starts[:, None] + np.arange(width), capacity - 1)
        self._cache.prepare(positions, seen, None)
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=self.device)
        mask.masked_fill_(torch.from_numpy(~visible).to(self.device), self._hidden)
        place = torch.from_numpy(np.minimum(where, self.context - 1)).to(self.device)
        options: dict[str, Any] = {"attention_mask": mask[:, None], "position_ids": place}
        options |= inputs or {}
        if features:
            options["output_hidden_states"] = True
        wait_for(self.device)
        began = time.perf_counter()
        made = self.model(torch.from_numpy(ids).to(self.device), past_key_values=self._cache, use_cache=True, **options)
        wait_for(self.device)
        self.seconds = time.perf_counter() - began
        self.stored = self.stored + counts
        return made.logits[..., : self.vocabulary], made.hidden_states[-1] if features else None

    def commit(self, slot: int, nodes: Sequence[int]) -> None:
        """Keep these nodes of a slot's tree, a path in order, as cached tokens, and drop the others."""
        self._cache.move(slot, int(self.cached[slot]), nodes)
        self.cached[slot] += len(nodes)
        self.stored[slot] = 0

    def drop(self) -> None:
        self.stored[:] = 0

    def keep(self, slots: Array) -> None:
        super().keep(slots)
        self.stored = np.zeros_like(self.cached)
