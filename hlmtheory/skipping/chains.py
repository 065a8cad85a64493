"""The effect of skipping on the distribution of whole texts, for short Markov chains whose texts are enumerated."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array
from hlmtheory._domains import DomainError
from hlmtheory._simplex import distributions, skip_probabilities
from hlmtheory.skipping.risk import one_step_risk
from hlmtheory.verification import output_distribution

HORIZON = 4  # tokens of a text


def _chains(target_chain: Array, draft_chain: Array, skip_chain: Array) -> tuple[Any, Array, Array, Array, Array]:
    """Rows (..., V, V) of p, q, s and the emitted law, each for the token before; every text begins after token 0."""
    xp, _, p, q = distributions(target_chain=target_chain, draft_chain=draft_chain)
    if p.ndim < 2 or p.shape[-1] != p.shape[-2]:
        raise DomainError(f"target_chain must be square; got shape {tuple(p.shape)}; give a row for each token before")
    s = skip_probabilities(xp, skip_chain, q, "skip_chain")
    return xp, p, q, s, output_distribution(p, q, skip=s)


def _text_law(xp: Any, rows: Array) -> Array:
    """Probabilities (..., V^HORIZON) of all texts."""
    size = rows.shape[-1]
    law = rows[..., 0, :]
    for _ in range(HORIZON - 1):
        parts = xp.reshape(law, (*law.shape[:-1], -1, size, 1)) * rows[..., None, :, :]
        law = xp.reshape(parts, (*law.shape[:-1], -1))
    return law


def text_distance(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """TV between the laws of whole texts, computed over all texts of HORIZON tokens."""
    xp, p, _, _, law = _chains(target_chain, draft_chain, skip_chain)
    return 0.5 * xp.sum(xp.abs(_text_law(xp, p) - _text_law(xp, law)), axis=-1)


def _summed_risk(which: int, target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """Σ_t E[one-step TV], prefixes from p, q or the emitted law."""
    xp, p, q, s, law = _chains(target_chain, draft_chain, skip_chain)
    risk = one_step_risk(p, q, s)
    rows = (p, q, law)[which]
    state = xp.astype(xp.arange(p.shape[-1], device=p.device) == 0, xp.float64)
    total = xp.zeros_like(risk[..., 0])
    for _ in range(HORIZON):
        total = total + xp.sum(state * risk, axis=-1)
        state = xp.sum(state[..., None] * rows, axis=-2)
    return total


def from_target(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """Σ_t E[one-step TV], the prefixes drawn from the target model."""
    return _summed_risk(0, target_chain, draft_chain, skip_chain)
