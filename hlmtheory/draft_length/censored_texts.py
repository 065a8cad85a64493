"""Both sides of the claims of ``censored_claims`` on one text: its rounds at two draft lengths."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import COUNT, entry_for_each, leading_dimensions
from hlmtheory._quantities import whole_from_one
from hlmtheory.draft_length.published import split_tokens

_LENGTH = whole_from_one("a round drafts at least one token")


def _text(accepted: Array, draft_length: Array, other_length: Array) -> tuple[Any, Array, Array, Array]:
    xp, runs, length, other = arrays(accepted=accepted, draft_length=draft_length, other_length=other_length)
    runs = COUNT.check(xp, "accepted", runs)
    entry_for_each("token of the text", accepted=tuple(runs.shape))
    length, other = _LENGTH.check(xp, "draft_length", length), _LENGTH.check(xp, "other_length", other)
    leading_dimensions(accepted=tuple(runs.shape[:-1]), draft_length=tuple(length.shape), other=tuple(other.shape))
    return xp, runs, length, other


def _starts(xp: Any, runs: Array, length: Array) -> Array:
    """Return 1 at each token where a round of K drafts begins, else 0; the first round begins at token 0."""
    at = xp.zeros_like(runs[..., 0] + length)
    begins = []
    for t in range(runs.shape[-1]):
        here = at == t
        at = xp.where(here, t + 1 + xp.minimum(runs[..., t], length), at)
        begins.append(xp.astype(here, xp.float64))
    return xp.stack(begins, axis=-1)


def rounds_of_text(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return the number of rounds of K′ drafts over the text."""
    xp, runs, _, other = _text(accepted, draft_length, other_length)
    return xp.sum(_starts(xp, runs, other), axis=-1)


def split_rounds(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, by :func:`split_tokens` of their histogram."""
    xp, runs, length, other = _text(accepted, draft_length, other_length)
    begins = _starts(xp, runs, length)
    seen = xp.minimum(runs, length[..., None])
    values = xp.arange(int(xp.max(seen)) + 1, device=runs.device)
    histogram = xp.sum(xp.where(seen[..., None] == values, begins[..., None], 0.0), axis=-2)
    tokens = xp.sum(begins * xp.astype(seen + 1, xp.float64), axis=-1)
    return tokens / split_tokens(histogram, other)


def goes_on(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return whether L at the next token is at least L - 1."""
    xp, runs, _, _ = _text(accepted, draft_length, other_length)
    return xp.all(runs[..., 1:] >= runs[..., :-1] - 1, axis=-1)
