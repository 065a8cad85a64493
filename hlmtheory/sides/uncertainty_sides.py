"""Sides of the theorems on the uncertainty of a draft."""

from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, softmax, to_numpy
from hlmtheory._domains import check_logits, token_of
from hlmtheory.uncertainty.perturbation import DOMAINS, MAX_TEMPERATURE, sample_uncertainty
from hlmtheory.uncertainty.quadrature import gap_of

# A logit of -inf adds 0 to every softmax, as if the token were not in the vocabulary: each theorem is then on the
# row of the other V' < V logits.


class _Replay(np.random.Generator):
    """Stand-in for a generator that returns a given share of θmax, then a given quantile of the sample."""

    def __init__(self, *given: Any) -> None:
        super().__init__(np.random.PCG64(0))  # no number is drawn from it
        self._given = iter(given)

    def random(self, shape: Any) -> Any:  # type: ignore[override]
        return np.broadcast_to(next(self._given), shape).copy()


def sampled_side(logits: Array, token: Array, temperatures: Array) -> Array:
    """Return E[u | z, d, θ] of the sampler; for each θ⁽ᵐ⁾, bisect the quantile up to which a sample differs."""
    xp, z, token, theta = _perturbation(logits, token, temperatures)
    host, token = to_numpy(theta), xp.broadcast_to(token[..., None], theta.shape)
    warmest = float(np.max(host, initial=0.0)) or MAX_TEMPERATURE
    low, high = np.zeros_like(host), np.ones_like(host)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        rng = _Replay(1.0 - host / warmest, middle)
        u = sample_uncertainty(z[..., None, :], token, draws=1, max_temperature=warmest, rng=rng)
        differs = to_numpy(u) == 1.0
        low, high = np.where(differs, middle, low), np.where(differs, high, middle)
    return xp.asarray(np.mean((low + high) / 2.0, axis=-1), device=z.device)


def coldness(temperatures: Array) -> Array:
    """Return θmax over the smallest temperature; θ is 1 minus a share of θmax, rounded."""
    xp, theta = arrays(temperatures=temperatures)
    return xp.max(theta) / xp.min(theta, axis=-1)


def differing(logits: Array, token: Array, temperatures: Array) -> Array:
    """Return (1/M) Σ_m Σ_{v≠d} softmax(z/θ⁽ᵐ⁾)_v, adding the other tokens one by one."""
    xp, rows, token = _perturbed(logits, token, temperatures)
    others = xp.arange(rows.shape[-1], device=rows.device) != token[..., None]
    return xp.mean(xp.sum(xp.where(others[..., None, :], rows, 0.0), axis=-1), axis=-1)


def not_same(logits: Array, token: Array, temperatures: Array) -> Array:
    """Return 1 - (1/M) Σ_m softmax(z/θ⁽ᵐ⁾)_d."""
    xp, rows, token = _perturbed(logits, token, temperatures)
    return 1.0 - xp.mean(gap_of(xp, rows, token[..., None]), axis=-1)


def _perturbed(logits: Array, token: Array, temperatures: Array) -> tuple[Array, Array, Array]:
    """Return the distributions of (8), shape (..., M, V)."""
    xp, z, token, theta = _perturbation(logits, token, temperatures)
    gaps = z - xp.max(z, axis=-1, keepdims=True)
    return xp, softmax(xp, gaps[..., None, :] / theta[..., None]), token


def _perturbation(logits: Array, token: Array, temperatures: Array) -> tuple[Array, ...]:
    """Return the namespace and the three arguments, each checked in its domain."""
    xp, z, token, theta = arrays(logits=logits, token=token, temperatures=temperatures)
    check_logits(xp, z)
    token = token_of(z.shape[-1]).check(xp, "token", token)
    return xp, z, token, DOMAINS["temperatures"].check(xp, "temperatures", theta)


_HALVINGS = 54  # exact to the last bit of a probability
