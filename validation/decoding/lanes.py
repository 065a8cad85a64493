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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.errors import UserError

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]
COUNTS_SLOTS = ("gpt_neo",)
"""Families whose local attention counts slots back from the last one: every lane's last slot must be the last."""


class Slots:
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
            found.append(stored[:, :, : self._seen] if moved is None else stored[lanes, :, moved].transpose(1, 2))
        return found[0], found[1]

    def keep(self, lanes: Array) -> None:
        """Keep these lanes alone, in this order; only those that move are copied."""
        moved = [(int(source), place) for place, source in enumerate(lanes) if source != place]
        for layer, pair in self._stored.items():
            for stored in pair:
                for source, place in moved:
                    stored[place] = stored[source]
            self._stored[layer] = (pair[0][: len(lanes)], pair[1][: len(lanes)])

    def _placed(self, device: torch.device) -> Any:
        """The indices on the device of a layer."""
        import torch

        if device not in self._where:
            lanes = torch.arange(self._slots.shape[0], device=device)[:, None]
            moved = None if self._moved is None else torch.from_numpy(self._moved).to(device)
            self._where[device] = (lanes, torch.from_numpy(self._slots).to(device), moved)
        return self._where[device]


class Lanes:
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
        self.model, self.vocabulary, self.device, self.context = model, vocabulary, device, context
        self.cached = np.zeros(lanes, dtype=np.int64)
        self.seconds = 0.0  # of the last forward pass
        self._slots = Slots(capacity)
        config = getattr(model, "config", None)
        self._shifts = getattr(config, "model_type", "") in COUNTS_SLOTS
        self._sliced = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._window = _windows(config)

    def read(self, text: Array, until: Array, *, rows: int, only: Array | None = None) -> torch.Tensor:
        """Read each lane's tokens from ``cached`` up to ``until`` and give the last ``rows`` rows of logits of each.

        Parameters
        ----------
        text : int64 array, shape (lanes, capacity)
        until : int64 array, shape (lanes,)
            A lane whose ``until`` is not above its ``cached`` only reads filler, and its logits mean nothing.
        rows : int
            Lanes with fewer new tokens have their first row repeated in front. 0 if none is wanted.
        only : int64 array, shape (n,), optional
            The lanes whose rows are wanted; all of them otherwise.

        Returns
        -------
        tensor, shape (lanes, rows, V) or (n, rows, V)
            Row -1 is the law of the token after the last one read.
        """
        import torch

        fresh = np.maximum(until - self.cached, 0)
        width = int(fresh.max())
        slots: Array = np.minimum(self.cached[:, None] + np.arange(width), text.shape[1] - 1)  # the last is for filler
        ids = torch.from_numpy(np.take_along_axis(text, slots, axis=1)).to(self.device)
        seen, moved, offset = int(slots.max()) + 1, None, np.zeros((len(slots), 1), dtype=np.int64)
        if self._shifts:
            seen = int(self.cached.max()) + width
            if seen > self.context:
                raise UserError(
                    f"This model's local attention needs {seen} slots for texts of a batch and the drafts behind them, "
                    f"but knows {self.context} positions; ask for fewer new tokens."
                )
            offset = seen - width - self.cached[:, None]
            moved = np.clip(np.arange(seen) - offset, 0, text.shape[1] - 1)
        self._slots.aim(slots, seen, moved)
        last = np.maximum(fresh, 1) - 1
        first = max(0, int(last.min()) - rows + 1) if rows else width - 1
        options: dict[str, Any] = {"logits_to_keep": width - first} if self._sliced else {}
        positions = torch.from_numpy(np.minimum(slots, self.context - 1)).to(self.device)
        options |= {"attention_mask": self._masks(slots, seen, offset), "position_ids": positions}
        wait_for(self.device)
        began = time.perf_counter()
        output = self.model(ids, past_key_values=self._slots, use_cache=True, **options).logits
        wait_for(self.device)
        self.seconds = time.perf_counter() - began
        logits = output if self._sliced else output[:, first:]
        reading = fresh > 0
        self.cached = np.where(reading, until, self.cached)
        if only is None and (rows == 0 or (last.min() == last.max() and rows <= width)):  # nothing to pick: no copy
            return logits[:, -rows:, : self.vocabulary]
        chosen = np.arange(len(last)) if only is None else only
        wanted = np.clip(last[chosen, None] + np.arange(1 - rows, 1), 0, None) - first
        lane, index = (torch.from_numpy(i).to(self.device) for i in (chosen[:, None], np.maximum(wanted, 0)))
        return logits[lane, index, : self.vocabulary]

    def keep(self, lanes: Array) -> None:
        """Keep these lanes alone, in this order; none comes before one that it overwrites."""
        self.cached = self.cached[lanes]
        self._slots.keep(lanes)

    def _masks(self, slots: Array, seen: int, offset: Array) -> Any:
        """Which slots each new token sees, as what is added to the attention; one for each kind of layer."""
        place = np.arange(seen) - offset[..., None]
        visible = (place <= slots[..., None]) & (place >= 0)
        return self._window(lambda window: self._added(visible & (place > slots[..., None] - window)))

    def _added(self, visible: Array) -> torch.Tensor:
        import torch

        dtype = getattr(self.model, "dtype", torch.float32)
        mask = torch.zeros(visible.shape, dtype=dtype)
        mask.masked_fill_(torch.from_numpy(~visible), torch.finfo(dtype).min)
        return mask[:, None].to(self.device)


def wait_for(device: torch.device) -> None:
    """Wait for a GPU, so that its time is told."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def _windows(config: Any) -> Callable[[Callable[[float], Any]], Any]:
    """How masks are made for a model: one for all layers, or one by the name of each kind."""
    window = getattr(config, "sliding_window", None) or np.inf
    kinds = set(getattr(config, "layer_types", None) or ())
    if len(kinds) > 1:
        return lambda make: {kind: make(window if kind == "sliding_attention" else np.inf) for kind in kinds}
    sliding = kinds == {"sliding_attention"} or (not kinds and getattr(config, "use_sliding_window", True))
    return lambda make: make(window if sliding else np.inf)
