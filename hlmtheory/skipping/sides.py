"""Sides of the theorems on skipping."""

from hlmtheory._array import Array, arrays
from hlmtheory.verification import rejection_probability


def mean_rejection_side(target: Array, draft: Array) -> Array:
    """Return E[β_d] = Σ_v q_v β_v."""
    xp, q = arrays(draft=draft)
    return xp.sum(q * rejection_probability(target, draft), axis=-1)


def enough(losses: Array, risk: Array, bound: Array) -> Array:
    _, table, wanted, most = arrays(losses=losses, risk=risk, bound=bound)
    return table.shape[-2] * wanted >= most
