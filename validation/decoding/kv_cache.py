"""A causal model that decodes several texts of different lengths at once, and takes tokens back.

The key and the value of a text's i-th token lie in slot i of its lane. A lane that was given fewer new tokens than
the widest one reads filler behind them, whose keys lie in later slots: a query sees the slots up to its own, so no
token of the text sees them, and the text's next tokens overwrite them. For the same reason a rejected token is taken
back by lowering ``cached`` alone. Nothing is copied, and there are no holes to close.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.errors import UserError

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]
COUNTS_SLOTS = ("gpt_neo",)
"""Families whose local attention counts slots back from the last one: every lane's last slot must be the last."""


class KeyValueCache:
    """Keys and values by lane and slot: what the models of transformers take as ``past_key_values``."""

    is_compileable = False

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._stored: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._where: dict[torch.device, Any] = {}
        self.aim(np.zeros((0, 0), dtype=np.int64), 0, None)

    def aim(self, slots: Array, seen: int, moved: Array | None) -> None:
        """Say where the next new tokens go, (lanes, m), how many slots are seen, and which slot stands where in them.

        ``moved`` (lanes, seen) holds the slot for each place that a query sees, where lanes are shifted.
        """
        self._slots, self._seen, self._moved = slots, seen, moved
        self._where.clear()

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new tokens' keys and values (lanes, heads, m, size) and give all that is seen."""
        if layer not in self._stored:
            shape = (keys.shape[0], keys.shape[1], self.capacity)
            self._stored[layer] = (keys.new_zeros((*shape, keys.shape[3])), values.new_zeros((*shape, values.shape[3])))
        lanes, slots, moved = self._placed(keys.device)
        found = []
        for stored, new in zip(self._stored[layer], (keys, values), strict=True):
            stored[lanes, :, slots] = new.transpose(1, 2)
            seen = stored[: len(lanes), :, : self._seen] if moved is None else stored[lanes, :, moved].transpose(1, 2)
            found.append(seen)
        return found[0], found[1]

    def keep(self, lanes: Array, used: Array) -> None:
        """Keep these lanes alone, in this order; of those that move only the slots used (lanes before,) are copied."""
        moved = [(int(source), place, int(used[source])) for place, source in enumerate(lanes) if source != place]
        for source, place, size in moved:
            for stored in chain.from_iterable(self._stored.values()):
                stored[place, :, :size] = stored[source, :, :size]

    def part(self, lanes: Array) -> KeyValueCache:
        """A copy of these lanes."""
        import torch

        some = KeyValueCache(self.capacity)
        for layer, pair in self._stored.items():
            index = torch.from_numpy(lanes).to(pair[0].device)
            some._stored[layer] = (pair[0][index], pair[1][index])
        return some

    def _placed(self, device: torch.device) -> Any:
        """The indices on the device of a layer."""
        import torch

        if device not in self._where:
            lanes = torch.arange(self._slots.shape[0], device=device)[:, None]
            moved = None if self._moved is None else torch.from_numpy(self._moved).to(device)
            self._where[device] = (lanes, torch.from_numpy(self._slots).to(device), moved)
        return self._where[device]


class CachedModel:
    """One model and the texts it reads.

    Parameters
    ----------
    model : transformers causal language model
    vocabulary : int
        Logits beyond are cut.
    device : torch.device
    lanes : int
        Texts at once.
    capacity : int
        Tokens of a lane at most, filler included.
    context : int
        Positions the model knows; filler beyond shares the last.
    """

    def __init__(
        self, model: Any, vocabulary: int, device: torch.device, lanes: int, capacity: int, context: int
    ) -> None:
        import torch

        self.model, self.vocabulary, self.device, self.context = model, vocabulary, device, context
        self.cached = np.zeros(lanes, dtype=np.int64)
        self.seconds = 0.0  # of the last forward pass
        self._slots = KeyValueCache(capacity)
        config = getattr(model, "config", None)
        self._shifts = getattr(config, "model_type", "") in COUNTS_SLOTS
        self._sliced = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._window = _windows(config)
        dtype = getattr(model, "dtype", torch.float32)
        self._dtype, self._hides = dtype, torch.finfo(dtype).min
        self._reach, self._bands = 2 * capacity, dict[tuple[int, int], Any]()
        self._waits = device.type == "cuda"
        self._in_numpy = device.type == "cpu" and dtype in (torch.float32, torch.float64, torch.float16)

    def read(self, text: Array, until: Array, *, rows: int | Array, only: Array | None = None) -> list[torch.Tensor]:
        """Read each lane's tokens from ``cached`` up to ``until`` and give the last rows of logits of each.

        Parameters
        ----------
        text : int64 array, shape (lanes, capacity)
        until : int64 array, shape (lanes,)
            A lane whose ``until`` is not above its ``cached`` only reads filler, and its logits mean nothing.
        rows : int or int64 array, shape (n,)
            How many of each lane; of one with fewer new tokens only theirs.
        only : int64 array, shape (n,), optional
            The lanes whose rows are wanted; all of them otherwise.

        Returns
        -------
        list of tensor, shapes (k, V)
            Parts of one array of rows, lane after lane, cut where nothing has to be copied. The last row of each lane
            is the law of the token after the last one read.
        """
        import torch

        reached = np.maximum(until, self.cached)
        fresh, longest = (reached - self.cached).tolist(), max(self.cached.tolist())
        width, every = max(fresh), np.arange(len(fresh))
        slots: Array = np.minimum(self.cached[:, None] + np.arange(width), text.shape[1] - 1)  # the last is for filler
        ids = torch.from_numpy(text[every[:, None], slots]).to(self.device)
        seen, moved, offset = min(longest + width, text.shape[1]), None, None
        if self._shifts:
            seen = longest + width
            if seen > self.context:
                raise UserError(
                    f"This model's local attention needs {seen} slots for texts of a batch and the drafts behind them, "
                    f"but knows {self.context} positions; ask for fewer new tokens."
                )
            offset = seen - width - self.cached[:, None]
            moved = np.clip(np.arange(seen) - offset, 0, text.shape[1] - 1)
        self._slots.aim(slots, seen, moved)
        lanes = (every if only is None else only).tolist()
        counts = [rows] * len(lanes) if isinstance(rows, int) else rows.tolist()
        wanted = [(lane, max(fresh[lane], 1), count) for lane, count in zip(lanes, counts, strict=True) if count]
        columns = [(lane, max(end - count, 0), end) for lane, end, count in wanted]
        first = min([width - 1, *(begin for _, begin, _ in columns)]) if self._sliced else 0
        options: dict[str, Any] = {"logits_to_keep": width - first} if self._sliced else {}
        where = torch.from_numpy(slots).to(self.device)
        positions = where if seen <= self.context else where.clamp_max(self.context - 1)
        masks = self._masks(slots, seen, offset)
        options |= {"attention_mask": masks, "position_ids": positions}
        if self._waits:
            wait_for(self.device)
        began = time.perf_counter()
        logits = self.model(ids, past_key_values=self._slots, use_cache=True, **options).logits
        if self._waits:
            wait_for(self.device)
        self.seconds = time.perf_counter() - began
        self.cached = reached
        if logits.shape[-1] > self.vocabulary:
            logits = logits[..., : self.vocabulary]
        width -= first
        return _parts(logits, [(width * i + begin - first, width * i + end - first) for i, begin, end in columns])

    def keep(self, lanes: Array) -> None:
        """Keep these lanes alone, in this order; none comes before one that it overwrites."""
        self._slots.keep(lanes, self.cached)
        self.cached = self.cached[lanes]

    def part(self, lanes: Array) -> CachedModel:
        """A copy of these lanes, to read on without the others."""
        some = copy(self)
        some.cached, some._slots = self.cached[lanes], self._slots.part(lanes)
        return some

    def _masks(self, slots: Array, seen: int, offset: Array | None) -> Any:
        """Which slots each new token sees, as what is added to the attention; one for each kind of layer.

        ``slots`` (lanes, m) are those of the new tokens; each lane's stand ``offset`` (lanes, 1) places further back.
        """
        own = slots if offset is None else slots + offset

        def make(window: int | None) -> torch.Tensor:
            mask = self._band(1 - (window or self._reach), 1, seen, own)
            return mask if offset is None else mask.minimum(self._band(0, self._reach, seen, offset))

        return self._window(make)

    def _band(self, first: int, last: int, seen: int, own: Array) -> torch.Tensor:
        """Masks (lanes, 1, m, seen) by which a token in one place sees those from ``first`` to before ``last`` of it.

        Each is a piece of one row. On the host numpy cuts it, whose small calls take less, if it has the type.
        """
        import torch

        if (first, last) not in self._bands:
            far = torch.arange(-self._reach, self._reach)
            row = torch.zeros(len(far), dtype=self._dtype).masked_fill_((far < first) | (far >= last), self._hides)
            rows = row.to(self.device).unfold(0, self._reach, 1)
            self._bands[first, last] = rows.numpy() if self._in_numpy else rows
        start, rows = self._reach - own[:, None], self._bands[first, last][:, :seen]
        return torch.from_numpy(rows[start]) if self._in_numpy else rows[torch.from_numpy(start).to(self.device)]


def _parts(logits: torch.Tensor, wanted: list[tuple[int, int]]) -> list[torch.Tensor]:
    """Rows of logits (all lanes, m, V), lane after lane: each lane's from one to before another."""
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


def wait_for(device: torch.device) -> None:
    """Wait for a GPU, so that its time is told."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def _windows(config: Any) -> Callable[[Callable[[int | None], Any]], Any]:
    """How masks are made for a model: one for all layers, or one by the name of each kind."""
    window = getattr(config, "sliding_window", None) or None
    kinds = set(getattr(config, "layer_types", None) or ())
    if len(kinds) > 1:
        return lambda make: {kind: make(window if kind == "sliding_attention" else None) for kind in kinds}
    sliding = kinds == {"sliding_attention"} or (not kinds and getattr(config, "use_sliding_window", True))
    return lambda make: make(window if sliding else None)
