"""Mechanisms by which speculative decoding loses the target's law.

Each mechanism predicts a law of the text from the target's rows p and the draft's rows q. The law of a mechanism that
acts on one token at a time is a recursion over the place in the round (:func:`local_likelihoods`), for any vocabulary.
The others need all continuations (:mod:`validation.audit.naming`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.audit.late import late_rejections
from validation.audit.laws import DROPPED, Law, extended_rows

MECHANISMS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""What each mechanism does, in words."""
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Draft lengths that are tried."""
TEMPERATURES = (0.5, 0.7, 1.4, 2.0)
"""Draft temperatures that are tried, relative to the q of the server; and 1, if the server's is another."""
COIN = 1.0 / 256
"""Probability that a random number is exactly 0, if it has 8 bits."""
OF_DRAFT = ("draft_temperature", "draft_before_top_p")
"""Settings of the draft that are not those of the q that the server verifies with."""
OF_TARGET = tuple(name for name in DROPPED if name not in OF_DRAFT)
"""Mechanisms that change the target's rows at drafts; the bonus token's row may be right or wrong."""
HISTORY = "penalty_of_last_token"
BY_PLACE = ("stale_draft", "first_draft_unverified")
"""Mechanisms for which the place of a draft in its round matters."""
WITH_BONUS = ("bonus_from_draft", "draft_unverified", "rejected_draft_kept")
"""Mechanisms that differ from simpler ones, or from the target's law, only after the end of a round."""
HISTORIES = 2**12
"""Most sets of seen tokens, times the vocabulary, over which the ends of rounds are summed."""
NONE = ("", "")
"""The key of the target's own law."""


def certain(rows: Array) -> Array:
    """Return distributions that have all mass at the likeliest token."""
    one_hot = np.zeros_like(rows)
    np.put_along_axis(one_hot, rows.argmax(axis=-1)[..., None], 1.0, axis=-1)
    return one_hot


def local_likelihoods(
    law: Law, draft: Law | None, prompt: int, tokens: Array, depth: int, others: Mapping[str, Array] | None = None
) -> Iterator[tuple[tuple[str, str], Array]]:
    """Yield each variant of each local mechanism with the probabilities (n,) of texts that begin with tokens (n, T).

    Variants that are the target's law on D tokens are left out. The recursion runs over the place j of the next token
    in its round: 0..K - 1 are drafts, K is the bonus token. ``others`` are the first q (V,) of other prompts: of a
    mix-up with them, the law of the first token alone is predicted.
    """
    known = np.minimum(tokens, law.vocabulary - 1)
    p, x = law.next_rows(prompt, known), known[..., None]
    inside = tokens < law.vocabulary
    alive = extended_rows(law, prompt, tokens)[0][..., -1] == 0.0  # before the end of the text
    ended, state = ~alive & ~inside, alive & inside

    def each(rows: Array) -> Array:
        return np.where(alive, np.take_along_axis(rows, x, axis=-1)[..., 0] * inside, ended)

    yield NONE, each(p).prod(axis=1)
    other_p = _rows_without(law, prompt, known, OF_TARGET)
    for name, rows in other_p.items():
        yield (name, "all tokens"), each(rows).prod(axis=1)
    sees = getattr(law, "own_mechanisms", False) and (hasattr(law, "table") or "penalty_dropped" in other_p)
    histories = _Histories(law, prompt, known, state, ended) if sees else None
    if histories is not None:
        for most in LENGTHS[: depth - 1]:
            yield (HISTORY, f"K = {most}, all accepted"), histories.likelihood(most, None)
    if draft is None:
        return
    q = draft.next_rows(prompt, known)
    if histories is not None and law.vocabulary * 2 ** (depth - 1) <= HISTORIES:
        for most in LENGTHS[: depth - 1]:
            yield (HISTORY, f"K = {most}"), histories.likelihood(most, q)
    if law.end_tokens:
        yield from _passed_over(law, draft, prompt, tokens)
    for label, told in (others or {}).items():
        first = _Parts("", p[:, :1], q[:, :1], np.broadcast_to(told, q[:, :1].shape), x[:, :1])
        yield ("q_of_other_row", label), first.likelihood(1, state[:, :1], ended[:, :1]) * each(p)[:, 1:].prod(axis=1)
    yield ("draft_unverified", "K or more tokens"), each(q).prod(axis=1)
    other_q = _rows_without(draft, prompt, known, OF_DRAFT)
    for name, label, parts, bonus in _variants(p, q, x, other_p, other_q):
        fewest = 2 if name == "first_draft_unverified" else 1
        most = depth - 1 if name in WITH_BONUS else LENGTHS[-1]
        for length in LENGTHS[fewest - 1 : most]:
            yield (name, f"K = {length} {label}"), parts.likelihood(length, state, ended, bonus)
    for label, likelihood in late_rejections((law, draft), prompt, known, (p, q), (state, ended), depth):
        yield ("late_rejection", label), likelihood


def _passed_over(law: Law, draft: Law, prompt: int, tokens: Array) -> Iterator[tuple[tuple[str, str], Array]]:
    """Yield the law of texts that stop at an end-of-text token only if it is the last token of its round."""
    inside = tokens < law.vocabulary
    known = np.where(inside, tokens, law.end_tokens[0])
    p, q = law.next_rows(prompt, known), draft.next_rows(prompt, known)
    parts, end = _Parts("end_passed_over", p, q, q, known[..., None]), np.isin(known, law.end_tokens)
    first = np.where(end & inside, np.arange(tokens.shape[1]), tokens.shape[1]).min(axis=1)
    merged = inside.sum(axis=1) == first + 1
    for most in LENGTHS[1:]:
        state, stopped = np.zeros((len(tokens), most + 1)), np.zeros(len(tokens))
        state[:, 0] = 1.0
        for t in range(tokens.shape[1]):
            drawn = inside[:, t] | merged
            after, last = parts.step(t, np.where(drawn[:, None], state, 0.0))
            over = np.where(end[:, t], last + after[:, most], 0.0)  # no bonus token follows such a draft
            stopped = np.where(inside[:, t], 0.0, stopped) + over
            after[:, 0] = last
            after[end[:, t, None] & np.isin(np.arange(most + 1), (0, most))] = 0.0
            state = after
        yield ("end_passed_over", f"K = {most} "), state.sum(axis=1) + stopped


def _rows_without(law: Law, prompt: int, tokens: Array, names: tuple[str, ...]) -> dict[str, Array]:
    rows = getattr(law, "rows_without", None)
    return {} if rows is None else rows(prompt, tokens, names)


def _variants(
    p: Array, q: Array, x: Array, other_p: dict[str, Array], other_q: dict[str, Array]
) -> Iterator[tuple[str, str, _Parts, Array]]:
    def at(rows: Array) -> Array:
        return np.asarray(np.take_along_axis(rows, x, axis=-1)[..., 0])

    right, top, greedy = at(p), at(certain(p)), certain(q)
    for name in ("stale_draft", "residual_not_normalised", "residual_by_rank", "noise_reused", "zero_accepted"):
        yield name, "", _Parts(name, p, q, q, x), right
    yield "bonus_from_draft", "", _Parts("bonus_from_draft", p, q, q, x), at(q)
    yield "greedy_draft_ratio", "", _Parts("greedy_draft_ratio", p, greedy, q, x), right
    for label, drawn in (("", q), ("greedy drafts", greedy)):
        for name in ("draft_unverified", "first_draft_unverified", "rejected_draft_kept", "replaced_from_target"):
            yield name, label, _Parts(name, p, drawn, drawn, x), right
        for name in ("verified_by_argmax", "replaced_by_argmax"):
            for second_way in (False, True):
                parts = _Parts(name, p, drawn, drawn, x, second_way)
                yield name, f"{label} {second_way}", parts, right
                yield name, f"{label} {second_way}, bonus too", parts, top
    for temperature in TEMPERATURES:
        powers = q ** (1.0 / temperature)
        drawn = powers / powers.sum(axis=-1, keepdims=True)
        yield "draft_temperature", f"× {temperature:g}", _Parts("draft_temperature", p, drawn, q, x), right
    for name, rows in other_q.items():
        yield name, "run", _Parts(name, p, q, rows, x), right
    if "draft_temperature" in other_q:
        yield "draft_temperature", "1", _Parts("", p, other_q["draft_temperature"], q, x), right
    for name, rows in other_p.items():
        yield name, "drafts", _Parts(name, rows, q, q, x), right


class _Histories:
    """The law of texts whose penalties see only the last token of each round: a sum over the ends of the rounds."""

    def __init__(self, law: Any, prompt: int, known: Array, alive: Array, ended: Array) -> None:
        self._given, self._x, self._alive, self._ended = (law, prompt, known), known[..., None], alive, ended
        self._rows: dict[tuple[int, ...], Array] = {}

    def likelihood(self, most: int, q: Array | None) -> Array:
        """Return the probabilities of the draws with K drafts a round, from q or, if None, all accepted."""
        (n, depth), (law, *text) = self._alive.shape, self._given
        start = np.zeros((n, most + 1))
        start[:, 0] = 1.0
        states: dict[tuple[int, ...], Array] = {(): start}
        parts: dict[tuple[int, ...], _Parts] = {}
        for t in range(depth):
            following: dict[tuple[int, ...], Array] = {}
            for seen, state in states.items():
                if seen not in self._rows:
                    self._rows[seen] = law.rows_seeing(*text, seen)
                if seen not in parts:
                    p = self._rows[seen]
                    parts[seen] = _Parts("", p, *(p if q is None else q,) * 2, self._x)
                after, last = parts[seen].step(t, state)
                quiet = np.where(self._ended[:, t, None], state, 0.0)
                following[seen] = following.get(seen, 0.0) + np.where(self._alive[:, t, None], after, quiet)
                if last.any():
                    over = np.zeros_like(state)
                    over[:, 0] = np.where(self._alive[:, t], last, 0.0)
                    following[*seen, t] = over
            states = {seen: state for seen, state in following.items() if state.any()}
        return np.asarray(sum((state.sum(axis=1) for state in states.values()), np.zeros(n)))


class _Parts:
    """The probabilities of a drawn token as an accepted draft, as a replacement, and as a bonus token."""

    def __init__(self, name: str, p: Array, drawn: Array, told: Array, x: Array, second_way: bool = False) -> None:
        self._name, self._p, self._drawn, self._told, self._x = name, p, drawn, told, x
        self._second_way, self._bonus = second_way, np.take_along_axis(p, x, axis=-1)[..., 0]
        self._held: dict[tuple[int, int], tuple[Array, Array]] = {}

    def likelihood(self, most: int, alive: Array, ended: Array, bonus: Array | None = None) -> Array:
        """Return the probabilities of the draws with K drafts a round, and a bonus token from p or from ``bonus``."""
        n, depth = alive.shape
        self._bonus = self._bonus if bonus is None else bonus
        state = np.zeros((n, most + 1))
        state[:, 0] = 1.0
        for t in range(depth):
            after, last = self.step(t, state)
            after[:, 0] = last
            quiet = np.where(ended[:, t, None], state, 0.0)
            state = np.where(alive[:, t, None], after, quiet)  # 0 for a token behind the end, or for no token before it
        return np.asarray(state.sum(axis=1))

    def step(self, t: int, state: Array) -> tuple[Array, Array]:
        """Return the probabilities of the next places (n, K + 1) but 0, and that token t is the last of its round."""
        most = state.shape[1] - 1
        after, last = np.zeros_like(state), state[:, most] * self._bonus[:, t]
        for j in range(min(most, t + 1)):
            accepted, replaced = self._at(t, j if self._name in BY_PLACE else 0)
            after[:, j + 1] = state[:, j] * accepted
            last = last + state[:, j] * replaced
        return after, last

    def _at(self, t: int, place: int) -> tuple[Array, Array]:
        if (t, place) not in self._held:
            p, drawn, x = self._p[:, t], self._drawn[:, t], self._x[:, t]
            told = self._told[:, t - place if self._name == "stale_draft" else t]
            accept = np.divide(p, told, out=(p > 0).astype(np.float64), where=p < told)
            if self._name == "zero_accepted":
                accept = np.maximum(accept, COIN)
            elif self._name == "verified_by_argmax":
                accept = certain(p)
            elif self._name == "draft_unverified" or (self._name == "first_draft_unverified" and place == 0):
                accept = np.ones_like(p)
            kept, rejected = drawn * accept, drawn * (1.0 - accept)
            lost = rejected.sum(axis=-1, keepdims=True)
            residual = self._residual(p, told)
            if self._name == "noise_reused":
                replaced = self._again(residual, drawn, rejected, x)
            elif self._name == "rejected_draft_kept":
                replaced = np.take_along_axis(rejected, x, axis=-1)[:, 0]
            else:
                replaced = (lost * np.take_along_axis(residual, x, axis=-1))[:, 0]
            self._held[t, place] = np.take_along_axis(kept, x, axis=-1)[:, 0], replaced
        return self._held[t, place]

    def _residual(self, p: Array, told: Array) -> Array:
        if self._name == "replaced_from_target" or (self._name == "verified_by_argmax" and self._second_way):
            return p
        if self._name == "verified_by_argmax" or (self._name == "replaced_by_argmax" and not self._second_way):
            return certain(p)
        if self._name == "residual_by_rank":
            order = np.argsort(-p, axis=-1, kind="stable")
            left = np.maximum(np.take_along_axis(p, order, axis=-1) + np.sort(-told, axis=-1), 0.0)
            found = np.zeros_like(p)
            np.put_along_axis(found, order, left, axis=-1)
            left = found
        else:
            left = np.maximum(p - told, 0.0)
        total = left.sum(axis=-1, keepdims=True)
        if self._name == "residual_not_normalised":
            left[:, -1:] += np.maximum(1.0 - total, 0.0)
            return np.asarray(left)
        left = np.where(total > 0, left / np.where(total > 0, total, 1.0), p)
        return certain(left) if self._name == "replaced_by_argmax" else np.asarray(left)

    def _again(self, residual: Array, drawn: Array, rejected: Array, x: Array) -> Array:
        top = np.take_along_axis(np.cumsum(residual, axis=-1), x, axis=-1)
        low = top - np.take_along_axis(residual, x, axis=-1)
        ends = np.cumsum(drawn, axis=-1)
        common = np.maximum(np.minimum(ends, top) - np.maximum(ends - drawn, low), 0.0)
        share = np.divide(rejected, drawn, out=np.zeros_like(drawn), where=drawn > 0)
        return np.asarray((common * share).sum(axis=-1))
