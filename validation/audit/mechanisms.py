"""Mechanisms by which speculative decoding loses the target's law.

Each mechanism predicts a law of the text from the target's rows p and the draft's rows q. The law of a mechanism that
acts on one token at a time is a recursion over the place in the round (:func:`local_likelihoods`), for any vocabulary.
The others need all continuations (:mod:`validation.audit.naming`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.audit.laws import Law, extended_rows

Array = NDArray[Any]

MECHANISMS = {
    "stale_draft": "the server verifies all drafts of a round with the q of its first draft",
    "draft_temperature": "the drafts are drawn at another temperature than the q that the server verifies with",
    "draft_before_top_p": "the drafts are drawn from q after top-k or top-p, but the server verifies with q before it",
    "residual_not_normalised": "the residual (p - q)⁺ is drawn from without normalisation; the rest is the last token",
    "residual_by_rank": "the residual subtracts q from p by rank, and not by token id",
    "noise_reused": "the draw from the residual uses the draft's random number again",
    "greedy_draft_ratio": "drafts are the draft model's likeliest token, but are accepted with p/q",
    "zero_accepted": "a draft with p = 0 is accepted when the random number is 0",
    "bonus_from_draft": "the bonus token is drawn from q",
    "end_passed_over": "the text goes on behind an end-of-text token",
    "min_p_dropped": "min-p is left out of the target's distributions that verify drafts",
    "penalty_dropped": "the repetition penalty is left out of the target's distributions that verify drafts",
}
"""What each mechanism does, by its name."""

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Draft lengths that are tried."""
TEMPERATURES = (0.5, 0.7, 1.4, 2.0)
"""Draft temperatures that are tried, relative to the q of the server; and 1, if the server's is another."""
COIN = 1.0 / 256
"""Probability that a random number is exactly 0, if it has 8 bits."""
OF_TARGET = ("min_p_dropped", "penalty_dropped")
"""Mechanisms that change the target's rows at drafts; the bonus token's row may be right or wrong."""
NONE = ("", "")
"""The key of the target's own law."""


def tempered(rows: Array, exponent: float) -> Array:
    """Return the rows to a power, normalised."""
    found: Array = rows**exponent
    total: Array = found.sum(axis=-1, keepdims=True)
    return np.asarray(found / total)


def local_likelihoods(
    law: Law, draft: Law, prompt: int, tokens: Array, depth: int
) -> Iterator[tuple[tuple[str, str], Array]]:
    """Yield each variant of each local mechanism with the probabilities (n,) of texts that begin with tokens (n, T).

    Variants that are the target's law on D tokens are left out. The recursion runs over the place j of the next token
    in its round: 0..K - 1 are drafts, K is the bonus token.
    """
    known = np.minimum(tokens, law.vocabulary - 1)
    p, q = law.next_rows(prompt, known), draft.next_rows(prompt, known)
    inside = tokens < law.vocabulary
    alive = extended_rows(law, prompt, tokens)[0][..., -1] == 0.0  # before the end of the text
    x = known[..., None]
    ended = ~alive & ~inside
    at_p = np.take_along_axis(p, x, axis=-1)[..., 0] * inside
    yield NONE, np.where(alive, at_p, ended).prod(axis=1)
    if law.end_tokens:
        yield from _passed_over(law, draft, prompt, tokens)
    for name, label, parts in _variants(p, q, x, *(_rows_without(one, prompt, known) for one in (law, draft))):
        for most in LENGTHS:
            if name == "bonus_from_draft" and most >= depth:
                continue
            yield (name, f"K = {most} {label}"), parts.likelihood(most, alive & inside, ended)


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


def _rows_without(law: Law, prompt: int, tokens: Array) -> dict[str, Array]:
    rows = getattr(law, "rows_without", None)
    return {} if rows is None else rows(prompt, tokens)


def _variants(
    p: Array, q: Array, x: Array, other_p: dict[str, Array], other_q: dict[str, Array]
) -> Iterator[tuple[str, str, _Parts]]:
    for name in ("stale_draft", "residual_not_normalised", "residual_by_rank", "noise_reused", "zero_accepted"):
        yield name, "", _Parts(name, p, q, q, x)
    yield "bonus_from_draft", "", _Parts("bonus_from_draft", p, q, q, x, bonus=q)
    greedy = np.zeros_like(q)
    np.put_along_axis(greedy, q.argmax(axis=-1)[..., None], 1.0, axis=-1)
    yield "greedy_draft_ratio", "", _Parts("greedy_draft_ratio", p, greedy, q, x)
    for temperature in TEMPERATURES:
        drawn = tempered(q, 1.0 / temperature)
        yield "draft_temperature", f"× {temperature:g}", _Parts("draft_temperature", p, drawn, q, x)
    for name in ("draft_temperature", "draft_before_top_p"):
        if name in other_q:
            yield name, "run", _Parts(name, p, q, other_q[name], x)
    if "draft_temperature" in other_q:
        yield "draft_temperature", "1", _Parts("draft_temperature", p, other_q["draft_temperature"], q, x)
    for name in OF_TARGET:
        if name in other_p:
            for label, bonus in (("", p), ("bonus too", other_p[name])):
                yield name, label, _Parts(name, other_p[name], q, q, x, bonus=bonus)


class _Parts:
    """The probabilities of a drawn token as an accepted draft, as a replacement, and as a bonus token."""

    def __init__(self, name: str, p: Array, drawn: Array, told: Array, x: Array, bonus: Array | None = None) -> None:
        self._name, self._p, self._drawn, self._told, self._x = name, p, drawn, told, x
        self._bonus = np.take_along_axis(p if bonus is None else bonus, x, axis=-1)[..., 0]
        self._held: dict[int, tuple[Array, Array]] = {}

    def likelihood(self, most: int, alive: Array, ended: Array) -> Array:
        """Return the probabilities of the draws with K drafts a round."""
        n, depth = alive.shape
        state = np.zeros((n, most + 1))
        state[:, 0] = 1.0
        for t in range(depth):
            after, last = self.step(t, state)
            after[:, 0] = last
            quiet = np.where(ended[:, t, None], state, 0.0)
            state = np.where(alive[:, t, None], after, quiet)  # 0 for a token behind the end, or for no token before it
        total: Array = state.sum(axis=1)
        return total

    def step(self, t: int, state: Array) -> tuple[Array, Array]:
        """Return the probabilities of the next places (n, K + 1) but 0, and that token t is the last of its round."""
        most = state.shape[1] - 1
        after, last = np.zeros_like(state), state[:, most] * self._bonus[:, t]
        for j in range(min(most, t + 1)):
            accepted, replaced = self._at(t, j if self._name == "stale_draft" else 0)
            after[:, j + 1] = state[:, j] * accepted
            last = last + state[:, j] * replaced
        return after, last

    def _at(self, t: int, back: int) -> tuple[Array, Array]:
        key = t * 64 + back
        if key not in self._held:
            p, drawn, x = self._p[:, t], self._drawn[:, t], self._x[:, t]
            told = self._told[:, t - back]
            accept = np.divide(p, told, out=(p > 0).astype(np.float64), where=p < told)
            if self._name == "zero_accepted":
                accept = np.maximum(accept, COIN)
            kept, rejected = drawn * accept, drawn * (1.0 - accept)
            lost = rejected.sum(axis=-1, keepdims=True)
            residual = self._residual(p, told)
            if self._name == "noise_reused":
                replaced = self._again(residual, drawn, rejected, x)
            else:
                replaced = (lost * np.take_along_axis(residual, x, axis=-1))[:, 0]
            self._held[key] = np.take_along_axis(kept, x, axis=-1)[:, 0], replaced
        return self._held[key]

    def _residual(self, p: Array, told: Array) -> Array:
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
        return np.asarray(np.where(total > 0, left / np.where(total > 0, total, 1.0), p))

    def _again(self, residual: Array, drawn: Array, rejected: Array, x: Array) -> Array:
        top = np.take_along_axis(np.cumsum(residual, axis=-1), x, axis=-1)
        low = top - np.take_along_axis(residual, x, axis=-1)
        ends = np.cumsum(drawn, axis=-1)
        common = np.maximum(np.minimum(ends, top) - np.maximum(ends - drawn, low), 0.0)
        share = np.divide(rejected, drawn, out=np.zeros_like(drawn), where=drawn > 0)
        found: Array = (common * share).sum(axis=-1)
        return found
