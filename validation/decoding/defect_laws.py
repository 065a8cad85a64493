"""The law of the texts that each defect of ``tests/validation/audit/defects.py`` gives, by enumeration.

No function of the loop is used, so the two check each other. The models are tables of distributions by prefix: after
node n and token v comes node n V + v + 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Text = tuple[int, ...]
Law = dict[Text, float]
COIN_FLOOR = 2.0**-8  # a coin below this number is 0 in the control of the zero-probability comparison


def processed(table: Array, temperature: float, top_p: float) -> Array:
    """Return distributions (..., V) at a temperature, cut to the likeliest tokens of total mass ``top_p``."""
    rows = np.asarray(table, dtype=np.float64)
    if temperature == 0:
        return np.asarray(np.eye(rows.shape[-1])[rows.argmax(axis=-1)])
    rows = (rows / rows.max(axis=-1, keepdims=True)) ** (1.0 / temperature)  # a power of the largest is never 0
    rows = rows / rows.sum(axis=-1, keepdims=True)
    if top_p >= 1:
        return np.asarray(rows)
    ordered = -np.sort(-rows, axis=-1)
    before = np.cumsum(ordered, axis=-1) - ordered
    border = np.where(before < top_p, ordered, np.inf).min(axis=-1, keepdims=True)
    cut = np.where(rows >= border, rows, 0.0)
    return np.asarray(cut / cut.sum(axis=-1, keepdims=True))


def node_of(text: Text, vocabulary: int) -> int:
    place = 0
    for token in text:
        place = place * vocabulary + token + 1
    return place


@dataclass(frozen=True, slots=True)
class _State:
    """A text between two rounds, and what the target model's cache says that it is."""

    text: Text
    seen: Text


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two tables, as drafts are drawn from one and judged by others."""

    drawn: Array  # (nodes, V): what drafts are drawn from
    told: Array  # (nodes, V): q of the acceptance and the residual
    bonus: Array  # (nodes, V): what a bonus token is drawn from if it is drawn from q
    verified: Array  # (nodes, V): p of the acceptance and the residual
    target: Array  # (nodes, V)


def defective_law(
    defect: str | None,
    draft: Array,
    target: Array,
    positions: int,
    end_tokens: frozenset[int],
    *,
    max_draft_length: int = 2,
    temperature: float = 1.0,
    top_p: float = 1.0,
    by_block: bool = False,
    drawn: Array | None = None,
    verified: Array | None = None,
) -> Law:
    """Return the law of the texts of speculative decoding with a defect (the name of a mechanism), or with none."""
    q, p = processed(draft, temperature, top_p), processed(target, temperature, top_p)
    told = {
        "draft_temperature": lambda: q if drawn is not None else processed(draft, 1.0, top_p),
        "draft_before_top_p": lambda: processed(draft, temperature, 1.0),
    }.get(defect or "", lambda: q)()
    if drawn is None:
        drawn = processed(draft, 0.0, 1.0) if defect == "greedy_draft_ratio" else q
    by_block |= defect == "block_token_rule"
    rounds = _Rounds(
        defect,
        _Pair(drawn, told, q, p if verified is None else verified, p),
        positions,
        end_tokens,
        max_draft_length,
        by_block,
    )
    law: Law = {}
    waiting = {_State((), ()): 1.0}
    while waiting:
        following: dict[_State, float] = {}
        for state, mass in waiting.items():
            for after, chance in rounds.after(state):
                if len(after.text) >= positions or (after.text and after.text[-1] in end_tokens):
                    law[after.text] = law.get(after.text, 0.0) + mass * chance
                else:
                    following[after] = following.get(after, 0.0) + mass * chance
        waiting = following
    return law


@dataclass(frozen=True, slots=True)
class _Rounds:
    defect: str | None
    pair: _Pair
    positions: int
    end_tokens: frozenset[int]
    most: int
    by_block: bool = False

    def row(self, table: Array, text: Text) -> Array:
        return np.asarray(table[node_of(text, table.shape[1])])

    def after(self, state: _State) -> Iterator[tuple[_State, float]]:
        left = self.positions - len(state.text)
        for drafts, mass in self.drafts(state.text, min(self.most, left)):
            reached = mass
            if self.by_block:
                for i, chance, weight in self.blocks(state, drafts):
                    ways = self.replaced(state, drafts, i, weight) if weight else self.accepted(state, drafts, left)
                    for after, part in ways:
                        yield after, mass * chance * part
                continue
            for i in range(len(drafts)):
                chance = self.accepts(state, drafts, i)
                if chance < 1:
                    for after, part in self.replaced(state, drafts, i):
                        yield after, reached * (1.0 - chance) * part
                reached *= chance
                if reached == 0:
                    break
            if reached > 0:
                for after, part in self.accepted(state, drafts, left):
                    yield after, reached * part

    def drafts(self, text: Text, most: int) -> Iterator[tuple[Text, float]]:
        waiting: list[tuple[Text, float]] = [((), 1.0)]
        for _ in range(most):
            longer: list[tuple[Text, float]] = []
            for drafts, mass in waiting:
                if drafts and drafts[-1] in self.end_tokens and self.defect != "end_passed_over":
                    yield drafts, mass
                    continue
                row = self.row(self.pair.drawn, (*text, *drafts))
                longer += [((*drafts, int(v)), mass * float(row[v])) for v in np.flatnonzero(row)]
            waiting = longer
        yield from waiting

    def told(self, state: _State, drafts: Text, i: int) -> Array:
        return self.row(self.pair.told, (*state.text, *(() if self.defect == "stale_draft" else drafts[:i])))

    def accepts(self, state: _State, drafts: Text, i: int) -> float:
        p = float(self.row(self.pair.verified, (*state.seen, *drafts[:i]))[drafts[i]])
        q = float(self.told(state, drafts, i)[drafts[i]])
        ratio = min(1.0, p / q) if q > 0 else float(p > 0)
        if self.defect == "zero_accepted":
            return max(ratio, COIN_FLOOR)
        if self.defect == "next_coin" and i:
            low, high = _interval(self.row(self.pair.drawn, (*state.text, *drafts[: i - 1])), drafts[i - 1])
            if i > 1:
                raise ValueError("the law of next_coin is enumerated for at most two drafts")
            return float(np.clip((ratio - low) / max(high - low, 1e-300), 0.0, 1.0))
        return ratio

    def blocks(self, state: _State, drafts: Text) -> Iterator[tuple[int, float, float]]:
        """Yield how many drafts may be kept, the probability, and the weight for the residual; 0 for all drafts."""
        weights, spare = [1.0], []
        for i, token in enumerate(drafts):
            p, q = self.row(self.pair.verified, (*state.seen, *drafts[:i])), self.told(state, drafts, i)
            spare.append(float(np.maximum(weights[-1] * p - q, 0.0).sum()))
            weights.append(min(1.0, weights[-1] * float(p[token]) / float(q[token])))
        yield len(drafts), weights[-1], 0.0
        left = 1.0 - weights[-1]
        for i in reversed(range(len(drafts))):
            passes = spare[i] / (spare[i] + (1.0 - weights[i])) if i and spare[i] else float(i == 0)
            passes = weights[i] if self.defect == "block_token_rule" else passes
            if left * passes > 0:
                yield i, left * passes, weights[i]
            left *= 1.0 - passes

    def replaced(self, state: _State, drafts: Text, i: int, weight: float = 1.0) -> Iterator[tuple[_State, float]]:
        kept = drafts[:i]
        p = self.row(self.pair.verified, (*state.seen, *kept))
        weight = 1.0 if self.defect == "block_token_rule" else weight
        law = self.residual(weight * p, self.told(state, drafts, i))
        if self.defect == "noise_reused":
            law = _drawn_again(law, *_interval(self.row(self.pair.drawn, (*state.text, *kept)), drafts[i]))
        for token in np.flatnonzero(law).tolist():
            text = (*state.text, *kept, token)
            wrong = drafts[i] if self.defect == "cache_off_by_one" else token
            after = _State(text, (*state.seen, *kept, wrong))
            if self.defect == "bonus_after_rejection" and len(text) < self.positions and token not in self.end_tokens:
                behind = self.row(self.pair.target, (*state.seen, *drafts))
                for more in np.flatnonzero(behind).tolist():
                    longer = _State((*after.text, more), (*after.seen, more))
                    yield longer, float(law[token]) * float(behind[more])
            else:
                yield after, float(law[token])

    def residual(self, p: Array, q: Array) -> Array:
        if self.defect == "residual_not_normalised":
            left = np.maximum(p - q, 0.0)
            left[-1] += max(1.0 - left.sum(), 0.0)
            return left
        order = np.arange(len(p))
        if self.defect == "residual_by_rank":
            order, q = np.argsort(-p, kind="stable"), -np.sort(-q)
            p = p[order]
        left = np.maximum(p - q, 0.0)
        left = left / left.sum() if left.any() else p
        found = np.zeros_like(left)
        found[order] = left
        return found

    def accepted(self, state: _State, drafts: Text, left: int) -> Iterator[tuple[_State, float]]:
        after = _State((*state.text, *drafts), (*state.seen, *drafts))
        if left <= len(drafts) or (drafts and drafts[-1] in self.end_tokens):
            yield after, 1.0
            return
        by_draft = self.defect == "bonus_from_draft"
        row = self.row(self.pair.bonus, after.text) if by_draft else self.row(self.pair.target, after.seen)
        for token in np.flatnonzero(row).tolist():
            yield replace(after, text=(*after.text, token), seen=(*after.seen, token)), float(row[token])


def _interval(row: Array, token: int) -> tuple[float, float]:
    """Return the numbers in [0, 1) that draw a token."""
    ends = np.cumsum(row)
    return float(ends[token] - row[token]), float(ends[token])


def _drawn_again(law: Array, low: float, high: float) -> Array:
    """Return the law of a token that is drawn by a number known to lie in an interval."""
    ends = np.cumsum(law)
    if not low < high:  # the interval is below the rounding of its ends
        return np.asarray(np.arange(len(law)) == min(int((ends <= low).sum()), len(law) - 1), dtype=np.float64)
    common = np.minimum(ends, high) - np.maximum(ends - law, low)
    return np.asarray(np.maximum(common, 0.0) / (high - low))
