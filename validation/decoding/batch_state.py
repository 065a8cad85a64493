"""The state of a batch of sequences: kept tokens, drafts in flight, and how far each model has read.

All arrays have one entry for each batch slot. ``tokens[slot]`` holds the prompt up to ``prompt_end``, kept tokens up to
``kept_end``, drafts in flight up to ``draft_end``, then filler. When a sequence is finished, its slot is closed and the
last slots are copied into the free ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.arrays import Array
from validation.decoding.kv_cache import CachedModel
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.session import Draft, Session
from validation.decoding.version_cache import VersionedModel
from validation.errors import UserError
from validation.models.versions import VersionedTarget

if TYPE_CHECKING:
    import torch

    from validation.decoding.methods.base import Method

DRAFT, TARGET = "draft", "target"  # the two models
NOT_BEGUN = -1  # value of the draft length for a round that has not begun


class DecodingError(UserError):
    """A run that could not continue; ``records`` are those of the sequences that were finished."""

    def __init__(self, message: str, records: Sequence[GenerationRecord] = ()) -> None:
        super().__init__(message)
        self.records = list(records)


class BatchState:
    """The sequences of one batch; with ``risk`` skipped drafts are kept until the target model has read them."""

    model_class: type[CachedModel] = CachedModel
    versioned_class: type[VersionedModel] = VersionedModel
    target_here = True  # whether the target model's passes run in this process

    def __init__(
        self,
        session: Session,
        method: Method,
        prompts: list[list[int]],
        records: list[GenerationRecord],
        times: tuple[float, float] | None,
        risk: bool,
        on_finished: Callable[[GenerationRecord], None] | None,
    ) -> None:
        self.session, self.method, self.records, self.risk = session, method, records, risk
        self.times = None if times is None else dict(zip((DRAFT, TARGET), times, strict=True))
        self.noise, self.on_finished = session.noise, on_finished or (lambda record: None)
        self.done: list[GenerationRecord] = []
        pair, count = session.pair, len(prompts)
        # tokens
        self.prompt_end = np.array([len(ids) for ids in prompts], dtype=np.int64)
        capacity = int(self.prompt_end.max()) + session.new_tokens + 2 + method.tree_nodes  # the last is for filler
        self.tokens = np.zeros((count, capacity), dtype=np.int64)
        for slot, ids in enumerate(prompts):
            self.tokens[slot, : len(ids)] = ids
        self.sequences = np.arange(count)  # which sequence of the batch lies in a slot
        self.kept_end, self.draft_end = self.prompt_end.copy(), self.prompt_end.copy()
        # the current round
        self.draft_length = np.full(count, NOT_BEGUN, dtype=np.int64)  # drafts of this round at most
        self.waiting = np.zeros(count, dtype=bool)  # whether its drafts are complete
        self.finished = np.zeros(count, dtype=bool)
        self.skipped = np.zeros(count, dtype=np.int64)  # tokens kept without verification
        self.in_flight: list[list[Draft]] = [[] for _ in range(count)]
        self.seconds = {DRAFT: [0.0] * count, TARGET: [0.0] * count}
        self.passes = {DRAFT: [0] * count, TARGET: [0] * count}
        self.rate: list[float | None] = [None] * count  # of the uplink
        self.unverified: list[list[tuple[int, Draft]]] = [[] for _ in range(count)]  # skipped: position, draft
        # the models and their caches
        shape = (session.vocabulary, pair.device, count, capacity, pair.context)
        draft = self.model_class(pair.draft, *shape) if method.runs_draft else None
        target = self._target(shape) if self.target_here and (method.runs_target or risk) else None
        self.models: dict[str, Any] = {DRAFT: draft, TARGET: target}
        method.begin(session)

    def _target(self, shape: tuple[Any, ...]) -> CachedModel | VersionedModel:
        model = self.session.pair.target
        if not isinstance(model, VersionedTarget):
            return self.model_class(model, *shape)
        return self.versioned_class(model, [record.prompt for record in self.records], self.prompt_end, *shape)

    def left(self, slots: Array) -> Array:
        """Return how many tokens a round of these slots may add."""
        kept = self.kept_end[slots] - self.prompt_end[slots]
        left = self.session.new_tokens - kept
        if isinstance(target := self.session.pair.target, VersionedTarget):
            limits = [target.until_switch(place) for place in kept.tolist()]
            left = np.minimum(
                left, [most if limit is None else limit for most, limit in zip(left, limits, strict=True)]
            )
        return np.asarray(left)

    def add_drafts(self, slots: Array, tokens: Array, drafts: list[Draft]) -> None:
        self.tokens[slots, self.draft_end[slots]] = tokens
        self.draft_end[slots] += 1
        for slot, draft in zip(slots.tolist(), drafts, strict=True):
            self.in_flight[slot].append(draft)

    def keep_skipped(self, slots: Array, tokens: Array, drafts: list[Draft]) -> None:
        """Keep one draft of each of these sequences without verification; the next round begins after it."""
        ends = self.draft_end[slots]
        self.tokens[slots, ends] = tokens
        self.kept_end[slots] = self.draft_end[slots] = ends + 1
        self.draft_length[slots] = NOT_BEGUN
        self.skipped[slots] += 1
        if self.risk:
            for slot, end, draft in zip(slots.tolist(), ends.tolist(), drafts, strict=True):
                self.unverified[slot].append((end, draft))
        self.mark_finished(slots)

    def mark_finished(self, slots: Array) -> None:
        """Mark the sequences whose newest kept token is an end-of-text token, or that have all their new tokens."""
        ended = self.is_end(self.tokens[slots, self.kept_end[slots] - 1])
        for sequence in self.sequences[slots[ended]].tolist():
            self.records[sequence].ended = True
        self.finished[slots] = ended | (self.kept_end[slots] - self.prompt_end[slots] >= self.session.new_tokens)

    def is_end(self, tokens: Array) -> Array:
        return np.array([token in self.session.pair.end_tokens for token in tokens.tolist()], dtype=bool)

    def begin_rates(self, slots: Array) -> None:
        if (channel := self.session.channel) is None:
            return
        for slot in slots.tolist():
            self.rate[slot] = channel.rate(int(self.sequences[slot]))

    def time_messages(self, slots: Array, rounds: list[Round]) -> None:
        if self.session.channel is not None:
            self.session.channel.time(self.sequences[slots], rounds, self.method.real_bytes)

    def close_rounds(self, slots: Array, rounds: list[Round]) -> None:
        """Time the rounds' messages, write the rounds into their records, and reset the slots for the next round."""
        for slot, sequence, exchange in zip(slots.tolist(), self.sequences[slots].tolist(), rounds, strict=True):
            self.records[sequence].rounds.append(exchange)
            self.in_flight[slot] = []
            for model in (DRAFT, TARGET):
                self.seconds[model][slot], self.passes[model][slot] = 0.0, 0
        self.time_messages(slots, rounds)
        self.skipped[slots], self.waiting[slots], self.draft_length[slots] = 0, False, NOT_BEGUN

    def close_slots(self, stay: Array) -> None:
        """Keep only the slots in ``stay`` (n,) bool; only the last slots are copied, into the free ones."""
        count = int(np.count_nonzero(stay))
        slots = np.arange(count)
        slots[~stay[:count]] = count + np.flatnonzero(stay[count:])
        for name in (
            *("tokens", "sequences", "prompt_end", "kept_end", "draft_end"),
            *("draft_length", "waiting", "finished", "skipped"),
        ):
            setattr(self, name, getattr(self, name)[slots])
        columns: list[list[Any]] = [self.rate, self.in_flight, self.unverified]
        for column in (*columns, *self.seconds.values(), *self.passes.values()):
            column[:] = [column[slot] for slot in slots]
        for model in self.models.values():
            if model:
                model.keep(slots)

    def read_prompts(self, which: str) -> None:
        model = self.models[which]
        if model is not None and len(self.sequences) and self.prompt_end.max() >= 2:
            model.read(self.tokens, self.prompt_end - 1, rows=0)

    def forward(self, which: str, slots: Array, rows: int | Array) -> list[torch.Tensor]:
        model = self.models[which]
        assert model is not None
        until = model.cached.copy()
        until[slots] = self.draft_end[slots]
        logits: list[torch.Tensor] = model.read(
            self.tokens, until, rows=rows, only=None if len(slots) == len(self.sequences) else slots
        )
        self.count_pass(which, slots, model.seconds)
        return logits

    def count_pass(self, which: str, slots: Array, seconds: float) -> None:
        """Divide the time of a model's pass evenly among these slots; a given time counts for each."""
        share = seconds / len(slots) if self.times is None else self.times[which]
        for slot in slots.tolist():
            self.seconds[which][slot] += share
            self.passes[which][slot] += 1

    def spent(self, slot: int) -> dict[str, Any]:
        """Return the seconds and passes of both models in a slot's round, by the fields of :class:`Round`."""
        seconds = {f"{model}_s": each[slot] for model, each in self.seconds.items()}
        return seconds | {f"{model}_passes": each[slot] for model, each in self.passes.items()}

    def require_finite(self, which: str, slots: Array, mass: Array) -> None:
        """Raise if a distribution has non-finite or zero mass: ``mass`` (n,) are the sums for these slots."""
        bad = next((i for i, total in enumerate(mass.tolist()) if not 0 < total < math.inf), None)
        if bad is None:
            return
        slot, pair = slots[bad], self.session.pair
        name = pair.draft_name if which == DRAFT else pair.target_name
        raise DecodingError(
            f"The {which} model ({name}) gives logits that are not finite, at prompt "
            f"{self.records[self.sequences[slot]].prompt!r}, new token "
            f"{int(self.draft_end[slot] - self.prompt_end[slot])}; check its weights, or run it with dtype float32."
        )
