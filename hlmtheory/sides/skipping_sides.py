"""Sides of the theorems on skipping."""

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import chains, skip_probabilities, text_law
from hlmtheory.skipping.risk import one_step_risk
from hlmtheory.verification import output_distribution, rejection_probability


def mean_rejection_side(target: Array, draft: Array) -> Array:
    """Return E[β_d] = Σ_v q_v β_v."""
    xp, q = arrays(draft=draft)
    return xp.sum(q * rejection_probability(target, draft), axis=-1)


def enough(losses: Array, risk: Array, bound: Array) -> Array:
    _, table, wanted, most = arrays(losses=losses, risk=risk, bound=bound)
    return table.shape[-2] * wanted >= most


HORIZON = 4  # tokens of a text


def law_of_chain(target_chain: Array, draft_chain: Array, skip_chain: Array) -> tuple[Any, Array, Array, Array, Array]:
    """Rows (..., V, V) of p, q, s and the emitted law, each for the token before."""
    xp, p, q = chains(target_chain=target_chain, draft_chain=draft_chain)
    s = skip_probabilities(xp, skip_chain, q, "skip_chain")
    return xp, p, q, s, output_distribution(p, q, skip=s)


def text_distance(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """TV between the laws of whole texts, computed over all texts of HORIZON tokens."""
    xp, p, _, _, law = law_of_chain(target_chain, draft_chain, skip_chain)
    return 0.5 * xp.sum(xp.abs(text_law(xp, p, HORIZON) - text_law(xp, law, HORIZON)), axis=-1)


def from_target(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """Σ_t E[one-step TV], the prefixes drawn from the target model."""
    xp, p, q, s, _ = law_of_chain(target_chain, draft_chain, skip_chain)
    risk = one_step_risk(p, q, s)
    state = xp.astype(xp.arange(p.shape[-1], device=p.device) == 0, xp.float64)
    total = xp.zeros_like(risk[..., 0])
    for _ in range(HORIZON):
        total = total + xp.sum(state * risk, axis=-1)
        state = xp.sum(state[..., None] * p, axis=-2)
    return total
