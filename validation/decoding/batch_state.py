"""The texts of a batch: what of each is kept, what is in flight, and how far each model has read it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.kv_cache import CachedModel
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.session import Draft, Session
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

    from validation.decoding.methods.base import Method

Array = NDArray[Any]
DRAFT, TARGET = range(2)  # the models, where there is a number of each


class DecodingError(UserError):
    """A run that could not go on; ``records`` are those of the sequences that were finished."""

    def __init__(self, message: str, records: Sequence[GenerationRecord] = ()) -> None:
        super().__init__(message)
        self.records = list(records)


class BatchState:
    """The texts of one batch. Arrays have one entry a lane; ``rows`` says which text of the batch a lane holds."""

    def __init__(
        self,
        session: Session,
        method: Method,
        prompts: list[list[int]],
        written: list[GenerationRecord],
        times: tuple[float, float] | None,
        risk: bool,
        finished: Callable[[GenerationRecord], None] | None,
    ) -> None:
        self.session, self.method, self.written, self.times, self.risk = session, method, written, times, risk
        self.clock, self.noise, self.finished = session.clock, session.noise, finished or (lambda row: None)
        self.done: list[GenerationRecord] = []
        pair, count = session.pair, len(prompts)
        self.start = np.array([len(ids) for ids in prompts], dtype=np.int64)
        capacity = int(self.start.max()) + session.new_tokens + 2  # the last slot is for filler
        self.text = np.zeros((count, capacity), dtype=np.int64)
        for lane, ids in enumerate(prompts):
            self.text[lane, : len(ids)] = ids
        self.rows = np.arange(count)
        self.base, self.ends = self.start.copy(), self.start.copy()  # kept tokens, and drafts behind them
        self.wanted = np.full(count, -1, dtype=np.int64)  # drafts of this round at most; -1 before it begins
        self.waiting, self.over = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.skipped = np.zeros(count, dtype=np.int64)  # in this round
        self.seconds = [[0.0] * count for _ in range(2)]  # of each model in it
        self.passes = [[0] * count for _ in range(2)]
        self.spent = np.zeros(count)  # seconds of the rounds before
        self.rate: list[float | None] = [None] * count
        self.flight: list[list[Draft]] = [[] for _ in range(count)]
        self.unseen: list[list[tuple[int, Draft]]] = [[] for _ in range(count)]  # skipped, not yet judged
        shape = (session.vocabulary, pair.device, count, capacity, pair.context)
        self.draft = CachedModel(pair.draft, *shape) if method.runs_draft else None
        self.target = CachedModel(pair.target, *shape) if method.runs_target or risk else None
        method.begin(session)

    def add(self, lanes: Array, tokens: Array, drafts: list[Draft]) -> None:
        """Put a draft behind each of these texts."""
        self.text[lanes, self.ends[lanes]] = tokens
        self.ends[lanes] += 1
        for lane, draft in zip(lanes.tolist(), drafts, strict=True):
            self.flight[lane].append(draft)

    def keep(self, lanes: Array, tokens: Array, drafts: list[Draft]) -> None:
        """Keep a draft of each of these texts that the server will not see; their rounds begin anew behind it."""
        ends = self.ends[lanes]
        self.text[lanes, ends] = tokens
        self.base[lanes] = self.ends[lanes] = ends + 1
        self.wanted[lanes] = -1
        self.skipped[lanes] += 1
        if self.risk:
            for lane, end, draft in zip(lanes.tolist(), ends.tolist(), drafts, strict=True):
                self.unseen[lane].append((end, draft))
        self.end(lanes)

    def end(self, lanes: Array) -> None:
        """Whether these texts are over with their newest tokens."""
        ended = self.is_end(self.text[lanes, self.base[lanes] - 1])
        for row in self.rows[lanes[ended]].tolist():
            self.written[row].ended = True
        self.over[lanes] = ended | (self.base[lanes] - self.start[lanes] >= self.session.new_tokens)

    def is_end(self, tokens: Array) -> Array:
        """Which of these tokens (n,) end a text."""
        ends = self.session.pair.end_tokens
        return np.array([token in ends for token in tokens.tolist()], dtype=bool)

    def close_rounds(self, lanes: Array, rounds: list[Round]) -> None:
        """Put the rounds of these texts away and make ready for the next."""
        for lane, row, one in zip(lanes.tolist(), self.rows[lanes].tolist(), rounds, strict=True):
            self.written[row].rounds.append(one)
            self.flight[lane] = []
            self.seconds[DRAFT][lane] = self.seconds[TARGET][lane] = 0.0
            self.passes[DRAFT][lane] = self.passes[TARGET][lane] = 0
        self.spent[lanes] += [one.draft_s + one.target_s + one.link_s for one in rounds]
        self.skipped[lanes], self.waiting[lanes], self.wanted[lanes] = 0, False, -1

    def close_lanes(self, stay: Array) -> None:
        """Keep these lanes alone; the last ones move into the gaps, so that few are copied."""
        count = int(np.count_nonzero(stay))
        lanes = np.arange(count)
        lanes[~stay[:count]] = count + np.flatnonzero(stay[count:])
        for name in ("start", "text", "rows", "base", "ends", "wanted", "waiting", "over", "skipped", "spent"):
            setattr(self, name, getattr(self, name)[lanes])
        for kept in (self.rate, self.flight, self.unseen, *self.seconds, *self.passes):
            kept[:] = [kept[lane] for lane in lanes]
        for models in (self.draft, self.target):
            if models:
                models.keep(lanes)

    def read_prompt(self, which: str) -> None:
        """All of the prompts but the last token."""
        lanes: CachedModel | None = getattr(self, which)
        if lanes is None or not len(self.rows) or self.start.max() < 2:
            return
        began = time.perf_counter()
        lanes.read(self.text, self.start - 1, rows=0)
        spent = time.perf_counter() - began
        self.clock.prefill += spent
        for row in self.rows:
            self.written[row].prefill_s += spent / len(self.rows)

    def forward(self, which: str, lanes: Array, rows: int | Array) -> list[torch.Tensor]:
        """A pass of a model over what these lanes have not read, shared out among them, and its rows in parts."""
        model: CachedModel = getattr(self, which)
        until = model.cached.copy()
        until[lanes] = self.ends[lanes]
        logits = model.read(self.text, until, rows=rows, only=None if len(lanes) == len(self.rows) else lanes)
        setattr(self.clock, which, getattr(self.clock, which) + model.seconds)
        one = TARGET if which == "target" else DRAFT
        seconds, passes = self.seconds[one], self.passes[one]
        share = model.seconds / len(lanes) if self.times is None else self.times[one]
        for lane in lanes.tolist():
            seconds[lane] += share
            passes[lane] += 1
        return logits

    def refuse(self, which: str, lanes: Array, mass: Array) -> None:
        """Stop where a model's row is none."""
        stray = next((i for i, one in enumerate(mass.tolist()) if not 0 < one < math.inf), None)
        if stray is None:
            return
        lane = lanes[stray]
        pair = self.session.pair
        name = pair.draft_name if which == "draft" else pair.target_name
        prompt = self.written[self.rows[lane]].prompt
        raise DecodingError(
            f"The {which} model ({name}) gives logits that are not finite, at prompt {prompt!r}, new token "
            f"{int(self.ends[lane] - self.start[lane])}; check its weights, or run it with dtype float32."
        )
