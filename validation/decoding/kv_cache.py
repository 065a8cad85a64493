"""A causal model that reads several sequences of different lengths together, and can roll tokens back.

All slots read equally many tokens; one with fewer new tokens reads filler after them, which no query sees and the next
tokens overwrite. To take back a rejected token, only ``cached`` is lowered. When a sequence is finished, the last slots
are copied into the free ones (:meth:`CachedModel.keep`).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.arrays import Array
from validation.errors import UserError
from validation.models.devices import wait_for

if TYPE_CHECKING:
    import torch

COUNTS_BACK = ("gpt_neo",)
"""Model families whose local attention counts back from the last position, so all slots are shifted to end there."""


class KeyValueCache:
    """Keys and values by batch slot and position; models of transformers take it as ``past_key_values``."""

    is_compileable = False

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.at_layer: Callable[[], None] | None = None
        self._stored: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by layer
        self._indices: dict[torch.device, Any] = {}
        self.prepare(np.zeros((0, 0), dtype=np.int64), 0, None)

    def prepare(self, positions: Array, seen: int, shifted: Array | None) -> None:
        """Set where the next pass stores its keys and values, and which positions it sees."""
        self._positions, self._seen, self._shifted = positions, seen, shifted
        self._indices.clear()
        # one slot whose new tokens follow each other is a slice, which is stored faster than by indices
        self._slice: slice | None = None
        if len(positions) == 1 and positions.size and shifted is None:
            first, last = int(positions[0, 0]), int(positions[0, -1])
            if last - first == positions.shape[1] - 1:
                self._slice = slice(first, last + 1)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store keys and values (slots, heads, m, size) of the new tokens, and return those that the queries see."""
        if self.at_layer is not None:
            self.at_layer()
        if layer not in self._stored:
            shape = (keys.shape[0], keys.shape[1], self.capacity)
            self._stored[layer] = (keys.new_zeros((*shape, keys.shape[3])), values.new_zeros((*shape, values.shape[3])))
        if self._slice is not None:
            for stored, new in zip(self._stored[layer], (keys, values), strict=True):
                stored[:1, :, self._slice] = new
            return self._stored[layer][0][:1, :, : self._seen], self._stored[layer][1][:1, :, : self._seen]
        slots, positions, shifted = self._indices_on(keys.device)
        views = []
        for stored, new in zip(self._stored[layer], (keys, values), strict=True):
            stored[slots, :, positions] = new.transpose(1, 2)
            whole = shifted is None
            views.append(stored[: len(slots), :, : self._seen] if whole else stored[slots, :, shifted].transpose(1, 2))
        return views[0], views[1]

    def keep(self, slots: Array, used: Array) -> None:
        """Keep only these slots, in this order; if a slot moves, copy only its used positions."""
        moved = [(int(source), place, int(used[source])) for place, source in enumerate(slots) if source != place]
        for source, place, size in moved:
            for stored in chain.from_iterable(self._stored.values()):
                stored[place, :, :size] = stored[source, :, :size]

    def move(self, slot: int, first: int, offsets: Sequence[int]) -> None:
        """Move the positions ``first`` + ``offsets`` of a slot to ``first``, ``first`` + 1, and so on."""
        if list(offsets) == list(range(len(offsets))):
            return
        for stored in chain.from_iterable(self._stored.values()):
            stored[slot, :, first : first + len(offsets)] = stored[slot][:, [first + offset for offset in offsets]]

    def part(self, slots: Array) -> KeyValueCache:
        import torch

        some = KeyValueCache(self.capacity)
        for layer, pair in self._stored.items():
            index = torch.from_numpy(slots).to(pair[0].device)
            some._stored[layer] = (pair[0][index], pair[1][index])
        return some

    def _indices_on(self, device: torch.device) -> Any:
        import torch

        if device not in self._indices:
            slots = torch.arange(self._positions.shape[0], device=device)[:, None]
            shifted = None if self._shifted is None else torch.from_numpy(self._shifted).to(device)
            self._indices[device] = (slots, torch.from_numpy(self._positions).to(device), shifted)
        return self._indices[device]


class JointCache(KeyValueCache):
    """The caches of several texts for one pass: slot i is the only slot of cache i, of a capacity of its own."""

    def __init__(self, caches: Sequence[KeyValueCache]) -> None:
        self._caches = list(caches)
        super().__init__(max(cache.capacity for cache in caches))

    def prepare(self, positions: Array, seen: int, shifted: Array | None) -> None:
        super().prepare(positions, seen, shifted)
        for i, cache in enumerate(self._caches if len(positions) else ()):
            last = cache.capacity - 1
            row = None if shifted is None else np.minimum(shifted[i : i + 1], last)
            cache.prepare(np.minimum(positions[i : i + 1], last), seen if row is not None else min(seen, last + 1), row)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store each slot's keys and values in its own cache, and return what the queries see, zeros behind it."""
        shape = (*keys.shape[:2], self._seen)
        joined = keys.new_zeros((*shape, keys.shape[3])), values.new_zeros((*shape, values.shape[3]))
        for i, cache in enumerate(self._caches):
            parts = cache.update(keys[i : i + 1], values[i : i + 1], layer)
            for whole, part in zip(joined, parts, strict=True):
                whole[i, :, : part.shape[2]] = part[0]
        return joined


class CachedModel:
    """One model, the sequences that it reads, and its cache."""

    def __init__(
        self, model: Any, vocabulary: int, device: torch.device, slots: int, capacity: int, context: int
    ) -> None:
        import torch

        self.model, self.vocabulary, self.device, self.context = model, vocabulary, device, context
        self.cached = np.zeros(slots, dtype=np.int64)
        self.seconds = 0.0
        self._cache = KeyValueCache(capacity)
        config = getattr(model, "config", None)
        self._shifts = getattr(config, "model_type", "") in COUNTS_BACK
        self._sliced = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._for_layers = _masks_by_layer(config)
        dtype = getattr(model, "dtype", torch.float32)
        self._dtype, self._hidden = dtype, torch.finfo(dtype).min
        self._reach, self._bands = 2 * capacity, dict[tuple[int, int], Any]()
        self._in_numpy = device.type == "cpu" and dtype in (torch.float32, torch.float64, torch.float16)

    def read(self, tokens: Array, until: Array, *, rows: int | Array, only: Array | None = None) -> list[torch.Tensor]:
        """Read each slot's tokens from ``cached`` up to ``until``, and return each slot's last rows of logits."""
        # positions of the new tokens: every slot gets the same number, filled up with filler
        reached = np.maximum(until, self.cached)
        fresh, longest = (reached - self.cached).tolist(), max(self.cached.tolist())
        width = max(fresh)
        last = tokens.shape[1] - 1  # for filler
        positions: Array = np.minimum(self.cached[:, None] + np.arange(width), last)
        seen, shifted, offset = min(longest + width, tokens.shape[1]), None, None
        if self._shifts:
            seen = longest + width
            if seen > self.context:
                raise UserError(
                    f"This model's local attention needs {seen} positions for the sequences of a batch and the drafts "
                    f"behind them, but knows {self.context}; ask for fewer new tokens."
                )
            offset = seen - width - self.cached[:, None]
            shifted = np.clip(np.arange(seen) - offset, 0, last)
        self._cache.prepare(positions, seen, shifted)

        # the wanted rows of logits, as (slot, first new token, end), and the rows that the model may leave out
        slots = (np.arange(len(fresh)) if only is None else only).tolist()
        counts = [rows] * len(slots) if isinstance(rows, int) else rows.tolist()
        ends = [(slot, max(fresh[slot], 1), count) for slot, count in zip(slots, counts, strict=True) if count]
        wanted = [(slot, max(end - count, 0), end) for slot, end, count in ends]
        first = min([width - 1, *(begin for _, begin, _ in wanted)]) if self._sliced else 0

        # forward pass
        logits = self._forward(tokens, positions, seen, offset, width - first)
        self.cached = reached
        width -= first
        return _parts(logits, [(width * i + begin - first, width * i + end - first) for i, begin, end in wanted])

    def _forward(self, tokens: Array, positions: Array, seen: int, offset: Array | None, keep: int) -> torch.Tensor:
        import torch

        ids = torch.from_numpy(tokens[np.arange(len(positions))[:, None], positions]).to(self.device)
        options: dict[str, Any] = {"logits_to_keep": keep} if self._sliced else {}
        where = torch.from_numpy(positions).to(self.device)
        options["attention_mask"] = self._masks(positions, seen, offset)
        options["position_ids"] = where if seen <= self.context else where.clamp_max(self.context - 1)
        logits: torch.Tensor = self._timed(ids, options).logits
        return logits[..., : self.vocabulary] if logits.shape[-1] > self.vocabulary else logits

    def _timed(self, ids: torch.Tensor, options: dict[str, Any]) -> Any:
        wait_for(self.device)
        began = time.perf_counter()
        out = self.model(ids, past_key_values=self._cache, use_cache=True, **options)
        wait_for(self.device)
        self.seconds = time.perf_counter() - began
        return out

    def call_at_layers(self, call: Callable[[], None] | None) -> None:
        """Call a function in each layer of the passes to come, which gives a pass up if it raises; None ends this."""
        self._cache.at_layer = call

    def keep(self, slots: Array) -> None:
        """Keep only these slots, in this order; a slot must not be overwritten before it has been moved."""
        self._cache.keep(slots, self.cached)
        self.cached = self.cached[slots]

    def part(self, slots: Array) -> CachedModel:
        some = copy(self)
        some.cached, some._cache = self.cached[slots], self._cache.part(slots)
        return some

    def over(self, cache: KeyValueCache, cached: Array) -> CachedModel:
        """Return the model with another cache, of whose slots it has read ``cached`` (slots,) tokens."""
        other = copy(self)
        other._cache, other.cached = cache, cached
        return other

    def _masks(self, positions: Array, seen: int, offset: Array | None) -> Any:
        queries = positions if offset is None else positions + offset

        def make(window: int | None) -> torch.Tensor:
            mask = self._band(1 - (window or self._reach), 1, seen, queries)
            return mask if offset is None else mask.minimum(self._band(0, self._reach, seen, offset))

        return self._for_layers(make)

    def _band(self, first: int, last: int, seen: int, queries: Array) -> torch.Tensor:
        import torch

        if (first, last) not in self._bands:
            far = torch.arange(-self._reach, self._reach)
            row = torch.zeros(len(far), dtype=self._dtype).masked_fill_((far < first) | (far >= last), self._hidden)
            rows = row.to(self.device).unfold(0, self._reach, 1)
            self._bands[first, last] = rows.numpy() if self._in_numpy else rows
        start, rows = self._reach - queries[:, None], self._bands[first, last][:, :seen]
        return torch.from_numpy(rows[start]) if self._in_numpy else rows[torch.from_numpy(start).to(self.device)]


class TreeModel(CachedModel):
    """A model that reads trees of tokens in one pass and keeps a path of each; ``stored`` (slots,) counts tree tokens.

    They lie behind the kept tokens, and a mask shows each node its ancestors only.
    """

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
        import torch

        counts = np.array([len(row) for row in tokens])
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
        options |= (inputs or {}) | ({"output_hidden_states": True} if features else {})
        out = self._timed(torch.from_numpy(ids).to(self.device), options)
        self.stored = self.stored + counts
        return out.logits[..., : self.vocabulary], out.hidden_states[-1] if features else None

    def commit(self, slot: int, nodes: Sequence[int]) -> None:
        """Keep these nodes of a slot's tree, a path in order, as cached tokens, and drop the others."""
        self._cache.move(slot, int(self.cached[slot]), nodes)
        self.cached[slot] += len(nodes)
        self.stored[slot] = 0

    def keep(self, slots: Array) -> None:
        super().keep(slots)
        self.stored = np.zeros_like(self.cached)


def _parts(logits: torch.Tensor, wanted: list[tuple[int, int]]) -> list[torch.Tensor]:
    """Return rows of logits (slots, m, V) in parts; ``wanted`` holds pairs (first, end) over the rows of all slots."""
    rows = logits.flatten(0, 1)
    runs: list[list[int]] = []
    for left, right in wanted:
        if runs and runs[-1][1] == left:
            runs[-1][1] = right
        else:
            runs.append([left, right])
    if len(runs) <= 1 or rows.device.type == "cpu":
        return [rows[left:right] for left, right in runs]
    import torch

    index = np.concatenate([np.arange(left, right) for left, right in runs])
    return [rows.index_select(0, torch.from_numpy(index).to(rows.device))]


def _masks_by_layer(config: Any) -> Callable[[Callable[[int | None], Any]], Any]:
    """Return a function that builds masks in the form the model takes: one for all layers, or one by kind of layer."""
    window = getattr(config, "sliding_window", None) or None
    kinds = set(getattr(config, "layer_types", None) or ())
    if len(kinds) > 1:
        return lambda make: {kind: make(window if kind == "sliding_attention" else None) for kind in kinds}
    sliding = kinds == {"sliding_attention"} or (not kinds and getattr(config, "use_sliding_window", True))
    return lambda make: make(window if sliding else None)
