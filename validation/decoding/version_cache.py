"""The caches of a target with several versions: keys and values count only for the version that computed them.

It has the interface of :class:`validation.decoding.kv_cache.CachedModel`. An entry is used again only by the version
that computed it, and only while the tokens up to it still stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.arrays import Array
from validation.decoding.kv_cache import CachedModel
from validation.models.versions import VersionedTarget

if TYPE_CHECKING:
    import torch


class _Memory:
    """What a cache holds: how many tokens of each slot, which tokens, and which version read them."""

    def __init__(self, slots: int, capacity: int) -> None:
        self.length = np.zeros(slots, dtype=np.int64)
        self.tokens = np.full((slots, capacity), -1, dtype=np.int64)
        self.owner = np.full(slots, "", dtype=object)

    def valid(self, tokens: Array) -> Array:
        other = self.tokens != tokens
        same = np.where(other.any(axis=1), other.argmax(axis=1), tokens.shape[1])
        return np.asarray(np.minimum(self.length, same))

    def keep(self, slots: Array) -> None:
        self.length, self.tokens, self.owner = self.length[slots], self.tokens[slots], self.owner[slots]


class VersionedModel:
    """The versions of a target, the sequences of ``prompts`` that they read, and their caches."""

    def __init__(self, target: VersionedTarget, prompts: Sequence[str], prompt_end: Array, *arguments: Any) -> None:
        self.target, self.prompts = target, np.array([*prompts, None], dtype=object)[:-1]
        self.prompt_end, self.rounds = prompt_end.copy(), np.zeros(len(prompts), dtype=np.int64)
        self.models = {name: CachedModel(model, *arguments) for name, model in target.versions.items()}
        slots, capacity = arguments[2], arguments[3]
        if target.caches == "rebuilt":
            only = _Memory(slots, capacity)
            self._memory = dict.fromkeys(self.models, only)
            stored = next(iter(self.models.values()))._cache
            for model in self.models.values():
                model._cache = stored
        else:
            self._memory = {name: _Memory(slots, capacity) for name in self.models}
        self.cached = np.zeros(slots, dtype=np.int64)
        self.seconds = 0.0

    def read(self, tokens: Array, until: Array, *, rows: int | Array, only: Array | None = None) -> list[torch.Tensor]:
        """Read as :meth:`CachedModel.read` does, each slot by the version of its round."""
        import torch

        slots = np.arange(len(until)) if only is None else only
        counts = np.broadcast_to(np.asarray(rows), slots.shape)
        places = until[slots] - counts + 1 - self.prompt_end[slots]  # new tokens before the round
        versions = self._versions(slots, counts, places)
        logits: dict[int, torch.Tensor] = {}
        self.seconds = 0.0
        for name, model in self.models.items():
            (mine,) = (versions == name).nonzero()
            if not len(mine):
                continue
            chosen, memory = slots[mine], self._memory[name]
            model.cached = memory.valid(tokens)
            model.cached[chosen] = np.clip(until[chosen] - counts[mine], 0, model.cached[chosen])
            model.cached[chosen[memory.owner[chosen] != name]] = 0
            goal = model.cached.copy()
            goal[chosen] = until[chosen]
            if (goal > model.cached).any():
                if parts := model.read(tokens, goal, rows=counts[mine], only=chosen):
                    each = torch.cat(parts).split(counts[mine].tolist())
                    logits |= dict(zip(mine.tolist(), each, strict=True))
                self.seconds += model.seconds
            memory.length, memory.owner[chosen] = model.cached.copy(), name
            memory.tokens[chosen] = tokens[chosen]
        self.cached = np.maximum(until, self.cached)
        return [logits[i] for i in range(len(slots)) if i in logits]

    def _versions(self, slots: Array, counts: Array, places: Array) -> Array:
        names = []
        for slot, count, place in zip(slots.tolist(), counts.tolist(), places.tolist(), strict=True):
            prompt = self.prompts[slot]
            names.append(self.target.of_round(prompt, int(self.rounds[slot]), place if count else 0))
            if count:
                self.target.served.setdefault(prompt, []).append((place, names[-1]))
                self.rounds[slot] += 1
        return np.array(names, dtype=object)

    def keep(self, slots: Array) -> None:
        stored = set()
        for name, model in self.models.items():
            memory = self._memory[name]
            if id(memory) not in stored:
                stored.add(id(memory))
                model._cache.keep(slots, memory.length)
                memory.keep(slots)
            model.cached = memory.length.copy()
        self.prompts, self.prompt_end, self.rounds = self.prompts[slots], self.prompt_end[slots], self.rounds[slots]
        self.cached = self.cached[slots]
