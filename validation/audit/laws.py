"""The target's law: rows of probabilities for the next token, from a table or a model.

Every law has ``vocabulary`` V, ``prompts`` (lists of token ids), ``end_tokens``, and ``rows``. The symbol V means
"nothing": it follows an end-of-text token with probability 1, so that a text which goes on is noticed.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from validation.arrays import Array
from validation.errors import UserError

ORDER = ("repetition_penalty", "temperature", "top_k", "top_p", "min_p")
ORDERS = {
    "transformers": ORDER,
    "vllm": ("repetition_penalty", "temperature", "min_p", "top_k", "top_p"),
    "llama.cpp": ("repetition_penalty", "top_k", "top_p", "min_p", "temperature"),
}
"""The order in which an engine applies them; the other penalties stand with the first, before it the biases."""
DROPPED = {
    "draft_temperature": ("temperature",),
    "draft_before_top_p": ("top_k", "top_p", "min_p"),
    "temperature_dropped": ("temperature",),
    "top_k_dropped": ("top_k",),
    "top_p_dropped": ("top_p",),
    "min_p_dropped": ("min_p",),
    "penalty_dropped": ("repetition_penalty", "presence_penalty", "frequency_penalty"),
    "min_tokens_dropped": ("min_tokens",),
    "bias_dropped": ("logit_bias",),
}
"""The settings that a mechanism leaves out."""


class Law(Protocol):
    """Distributions of the next token after a prompt and any continuation."""

    vocabulary: int
    prompts: list[list[int]]
    end_tokens: tuple[int, ...]

    def next_rows(self, prompt: int, tokens: Array) -> Array:
        """Return the rows (m, D, V) of the tokens (m, D) of a prompt, each given those before it."""
        ...


def extended_rows(law: Law, prompt: int, tokens: Array) -> tuple[Array, Array]:
    """Return rows (m, D, V + 1) and how far rounding may move each of them, (m, D)."""
    known = np.where(tokens < law.vocabulary, tokens, 0)
    uncertain = getattr(law, "uncertain_rows", None)
    extended, slack = np.zeros((*tokens.shape, law.vocabulary + 1)), np.zeros(tokens.shape)
    if uncertain is None:
        extended[..., :-1] = law.next_rows(prompt, known)
    else:
        extended[..., :-1], slack = uncertain(prompt, known)
    ended = np.isin(tokens, law.end_tokens) | (tokens == law.vocabulary)
    after = np.zeros(tokens.shape, dtype=bool)
    after[:, 1:] = np.logical_or.accumulate(ended, axis=1)[:, :-1]
    extended[after] = 0.0
    extended[after, -1] = 1.0
    return extended, np.where(after, 0.0, slack)


@dataclass
class TableLaw:
    """A toy law: one row for each prefix, in the order of a tree (after node n and token v comes node n V + v + 1)."""

    table: Array
    prompts: list[list[int]] = field(default_factory=lambda: [[0]])
    end_tokens: tuple[int, ...] = ()
    processors: Processors | None = None

    def __post_init__(self) -> None:
        if not _are_ids(self.prompts, np.inf) or not self.prompts:
            raise UserError(
                f"The prompts are {self.prompts!r:.60}; they must be lists of token ids, such as [[5, 17]]."
            )
        table = np.asarray(self.table, dtype=np.float64)
        self.table = table[None] if table.ndim == 2 else table
        if self.table.ndim != 3 or self.table.shape[0] not in (1, len(self.prompts)):
            raise UserError(f"The table has the shape {table.shape}; it must be (nodes, V) or (prompts, nodes, V).")
        sums = self.table.sum(axis=-1)
        if not (np.isfinite(self.table).all() and (self.table >= 0).all() and np.allclose(sums, 1, rtol=0, atol=1e-6)):
            raise UserError("A row of the table is no distribution; each must sum to 1.")
        if not _are_ids([list(self.end_tokens)], self.table.shape[-1]):
            raise UserError(f"An end-of-text token is outside 0..{self.table.shape[-1] - 1}: {self.end_tokens!r:.60}.")
        self.raw, self.vocabulary = self.table / sums[..., None], self.table.shape[-1]
        self._made, self._without = self.processors or Processors(), dict[str, TableLaw]()
        if self._made.repetition_penalty != 1 or (self._made.penalises and self._made.count_prompt):
            raise UserError(
                "A table has no logits and no prompts, so a repetition penalty, or one that counts the prompt, has no "
                "meaning; leave it out."
            )
        self.table = np.asarray(self.raw)
        if self._made != Processors():
            texts: list[tuple[int, ...]] = [()]
            for before in texts:
                if len(texts) >= self.raw.shape[1]:
                    break
                texts += [(*before, token) for token in range(self.vocabulary)]
            texts, lengths = texts[: self.raw.shape[1]], [len(text) for text in texts[: self.raw.shape[1]]]
            self.table = np.stack([self._rows(own, texts, lengths) for own in self.raw])

    def _rows(self, rows: Array, seen: Sequence[Sequence[int]], lengths: Sequence[int]) -> Array:
        with np.errstate(divide="ignore"):
            logits = np.log(rows)
        early = np.array([length < self._made.min_tokens for length in lengths])
        banned = early[:, None] & np.isin(np.arange(self.vocabulary), self.end_tokens)
        return self._made.uncertain_rows(logits, seen, [len(text) for text in seen], banned)[0]

    own_mechanisms = True

    def rows_without(self, prompt: int, tokens: Array, names: Sequence[str]) -> dict[str, Array]:
        """Return the rows (m, D, V) without one of the processors, by the name of the mechanism that leaves it out."""
        for name, other in self._made.without(names).items():
            if name not in self._without:
                self._without[name] = TableLaw(self.raw, self.prompts, self.end_tokens, other)
        return {name: law.next_rows(prompt, tokens) for name, law in self._without.items() if name in names}

    def rows_seeing(self, prompt: int, tokens: Array, seen: Sequence[int]) -> Array:
        """Return the rows (m, D, V) if penalties see, of the tokens before, only those at the places ``seen``.

        A table without penalties is read as the law with penalties: its row after the tokens that are seen.
        """
        found = np.empty((*tokens.shape, self.vocabulary))
        for t in range(tokens.shape[1]):
            texts, place = np.unique(tokens[:, :t], axis=0, return_inverse=True)
            known = texts[:, [s for s in seen if s < t]]
            if self._made.penalises:
                table = self.raw[prompt if len(self.raw) > 1 else 0]
                rows = self._rows(table[self._nodes(texts)], known.tolist(), [t] * len(texts))
            else:
                rows = self.table[prompt if len(self.table) > 1 else 0][self._nodes(known)]
            found[:, t] = rows[place.reshape(-1)]
        return found

    def _nodes(self, texts: Array) -> Array:
        node = np.zeros(len(texts), dtype=np.int64)
        for token in texts.T:
            node = node * self.vocabulary + token + 1
        return node

    @property
    def depth(self) -> int:
        nodes, depth = 0, 0
        while nodes + self.vocabulary**depth <= self.table.shape[1]:
            nodes += self.vocabulary**depth
            depth += 1
        return depth

    def next_rows(self, prompt: int, tokens: Array) -> Array:
        """Return the rows (m, D, V) of the tokens (m, D), each given those before it."""
        if tokens.shape[1] > self.depth:
            raise UserError(f"The table has rows to depth {self.depth}; ask for --depth {self.depth} or less.")
        table = self.table[prompt if len(self.table) > 1 else 0]
        nodes = [self._nodes(tokens[:, :t]) for t in range(tokens.shape[1])]
        return np.asarray(table[np.stack(nodes, axis=1)])


def _are_ids(lists: Any, below: float) -> bool:
    return isinstance(lists, list) and all(
        isinstance(ids, list) and all(type(one) is int and 0 <= one < min(below, 2**31) for one in ids) for ids in lists
    )


def read_tables(path: Path) -> dict[str, Any]:
    """Return ``target``, and if given ``draft``, ``prompts`` and ``end_tokens``, of a .npz or .json file."""
    try:
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
        else:
            with path.open("rb") as file, np.load(file) as stored:
                content = {name: stored[name] for name in stored.files}
        tables = {name: np.asarray(content[name], dtype=np.float64) for name in ("target", "draft") if name in content}
        rest = {name: np.asarray(content[name]).tolist() for name in ("prompts", "end_tokens") if name in content}
    except (ValueError, TypeError, KeyError, AttributeError, EOFError, RecursionError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is no table: it must hold `target`, an array of rows; {error}.") from error
    if "target" not in tables:
        raise UserError(f"{path} has no `target`; store the rows under that name.")
    return tables | rest


@dataclass(frozen=True)
class Processors:
    """What an engine does to logits before it samples, in its order."""

    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    order: tuple[str, ...] | str = ORDER  # or an engine of ``ORDERS``
    rounding: float = 0.0
    """Relative rounding of the engine's numbers: 0 for an exact table, 1e-5 for float32, 1e-2 for bfloat16."""
    presence_penalty: float = 0.0  # taken from the logits of drawn tokens, with the repetition penalty
    frequency_penalty: float = 0.0  # as often as the token was drawn
    count_prompt: bool = False  # whether these two count the prompt's tokens too, as in llama.cpp
    min_tokens: int = 0  # an end-of-text token cannot come before
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token, bias), added first

    def __post_init__(self) -> None:
        if isinstance(self.order, str):
            object.__setattr__(self, "count_prompt", self.count_prompt or self.order == "llama.cpp")
            parts = tuple(part.strip() for part in self.order.split(","))
            object.__setattr__(self, "order", ORDERS.get(self.order, parts))
        for name, good, must in (
            ("temperature", 0 <= self.temperature < np.inf, "0 (greedy) or more"),
            ("top_k", self.top_k >= 0, "0 (all) or more"),
            ("top_p", 0 < self.top_p <= 1, "in (0, 1]"),
            ("min_p", 0 <= self.min_p <= 1, "in [0, 1]"),
            ("repetition_penalty", 0.001 <= self.repetition_penalty <= 1000, "in 0.001..1000"),
            ("rounding", 0 <= self.rounding < 0.5, "0 or more, and below 0.5"),
            ("presence_penalty", abs(self.presence_penalty) <= 1000, "in -1000..1000"),
            ("frequency_penalty", abs(self.frequency_penalty) <= 1000, "in -1000..1000"),
            ("min_tokens", self.min_tokens >= 0, "0 or more"),
            ("logit_bias", all(t >= 0 and abs(b) <= 1000 for t, b in self.logit_bias), "ids, biases in -1000..1000"),
        ):
            if not good:
                raise UserError(f"{name} is {getattr(self, name)}; it must be {must}.")
        if sorted(self.order) != sorted(ORDER):
            raise UserError(f"The order is {', '.join(self.order)}; name each of {', '.join(ORDER)} once.")

    @property
    def penalises(self) -> bool:
        """Return whether the rows depend on which tokens came before, beyond the model's own."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)

    def without(self, names: Sequence[str] = tuple(DROPPED)) -> dict[str, Processors]:
        """Return the settings that an engine may confuse with these, by the name of the mechanism."""
        off = Processors()
        changed = {
            name: replace(self, **{setting: getattr(off, setting) for setting in left_out})
            for name, left_out in DROPPED.items()
            if name in names
        }
        if self.temperature == 0:
            changed.pop("draft_temperature", None)
        return {name: other for name, other in changed.items() if other != self}

    def uncertain_rows(
        self, logits: Array, contexts: Sequence[Sequence[int]], drawn: Any = 0, banned: Array | None = None
    ) -> tuple[Array, Array]:
        """Return probabilities (m, V), and the total variation (m,) by which ``rounding`` may move each row.

        Of each context the last ``drawn`` ids were drawn, and are no prompt; ``banned`` (m, V) are tokens that cannot
        come.
        """
        logits = self._biased(logits, banned)
        unsure = np.zeros(logits.shape, dtype=bool)
        for name in self.order:
            if name == "repetition_penalty":
                logits = self._penalised(logits, contexts, drawn)
                continue
            logits, also = getattr(self, f"_{name}")(logits)
            unsure |= also
        rows = _softmax(logits)
        return rows, np.minimum((rows * unsure).sum(axis=-1) + self.rounding, 1.0)

    def penalised(self, logits: Array, contexts: Sequence[Sequence[int]], drawn: Any, banned: Array | None) -> Array:
        """Return logits (m, V) after the biases and penalties, without the other processors."""
        return self._penalised(self._biased(logits, banned), contexts, drawn)

    def _biased(self, logits: Array, banned: Array | None) -> Array:
        logits = np.array(logits, dtype=np.float64)
        for token, bias in self.logit_bias:
            if token >= logits.shape[-1]:
                raise UserError(f"The logit bias names token {token}; it must be in 0..{logits.shape[-1] - 1}.")
            logits[:, token] += bias
        if banned is None or not banned.any():
            return logits
        kept = np.where(banned, -np.inf, logits)
        return np.where(np.isfinite(kept).any(axis=-1, keepdims=True), kept, logits)

    def _penalised(self, logits: Array, contexts: Sequence[Sequence[int]], drawn: Any) -> Array:
        if not self.penalises:
            return logits
        for row, seen, new in zip(logits, contexts, np.broadcast_to(drawn, len(contexts)).tolist(), strict=True):
            ids = np.unique(np.asarray(seen, dtype=np.int64))
            row[ids] *= np.where(row[ids] < 0, self.repetition_penalty, 1.0 / self.repetition_penalty)
            counted = seen if self.count_prompt else seen[len(seen) - new :]
            ids, counts = np.unique(np.asarray(counted, dtype=np.int64), return_counts=True)
            row[ids] -= self.presence_penalty + self.frequency_penalty * counts
        return logits

    def _temperature(self, logits: Array) -> tuple[Array, Any]:
        if self.temperature == 0:
            top = logits.argmax(axis=-1)[:, None]
            near = logits >= np.take_along_axis(logits, top, axis=-1) - self._width(logits.max(axis=-1, keepdims=True))
            found = np.full_like(logits, -np.inf)
            np.put_along_axis(found, top, 0.0, axis=-1)
            return found, near & (self.rounding > 0) & (near.sum(axis=-1, keepdims=True) > 1)
        with np.errstate(over="ignore"):
            largest = logits.max(axis=-1, keepdims=True)
            shift = np.where(np.isfinite(largest / self.temperature), 0.0, largest)  # or all would overflow
            return (logits - shift) / self.temperature, False

    def _top_k(self, logits: Array) -> tuple[Array, Any]:
        if not 0 < self.top_k < logits.shape[-1]:
            return logits, False
        border = np.partition(logits, -self.top_k, axis=-1)[:, -self.top_k, None]
        width = self._width(border)
        keep = logits >= border - width
        near = keep & (logits <= border + width) & (keep.sum(axis=-1, keepdims=True) > self.top_k)
        return np.where(keep, logits, -np.inf), near & (self.rounding > 0)

    def _top_p(self, logits: Array) -> tuple[Array, Any]:
        if self.top_p >= 1:
            return logits, False
        order = np.argsort(-logits, axis=-1, kind="stable")
        rows = np.take_along_axis(_softmax(logits), order, axis=-1)
        before = np.cumsum(rows, axis=-1) - rows  # the mass before the token
        inside = before < self.top_p
        near = (np.abs(before - self.top_p) <= self.rounding) & (self.rounding > 0)
        border = np.where(inside | near, rows, np.inf).min(axis=-1, keepdims=True)
        tied = ~inside & (rows >= border * (1.0 - self.rounding)) & (self.rounding > 0)
        near |= tied | (inside & (rows <= border * (1.0 + self.rounding)) & tied.any(axis=-1, keepdims=True))
        keep, unsure = np.zeros(logits.shape, dtype=bool), np.zeros(logits.shape, dtype=bool)
        np.put_along_axis(keep, order, inside | near, axis=-1)
        np.put_along_axis(unsure, order, near, axis=-1)
        return np.where(keep, logits, -np.inf), unsure

    def _min_p(self, logits: Array) -> tuple[Array, Any]:
        if self.min_p == 0:
            return logits, False
        rows = _softmax(logits)
        border = self.min_p * rows.max(axis=-1, keepdims=True)
        keep = rows >= border * (1.0 - self.rounding)
        near = keep & (rows <= border * (1.0 + self.rounding)) & (self.rounding > 0)
        return np.where(keep, logits, -np.inf), near

    def _width(self, border: Array) -> Array:
        return np.asarray(self.rounding * (1.0 + np.where(np.isfinite(border), np.abs(border), 0.0)))


def _softmax(logits: Array) -> Array:
    rows = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
