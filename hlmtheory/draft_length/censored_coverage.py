"""Both sides of the claims of ``censored_claims`` on coverage: how often an interval holds, over all outcomes."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, Domain
from hlmtheory._quantities import open_unit
from hlmtheory.draft_length.censored import clopper_pearson
from hlmtheory.draft_length.censored_sides import kept_drafts, law_of_lengths

_ROUNDS = 12
"""Largest number of rounds of an instance; the coverage is summed over all outcomes."""
_FEW = Domain(f"a whole number in 1..{_ROUNDS}", lambda xp, v: (v >= 1) & (v <= _ROUNDS), "give fewer", kind="integer")
_LEVEL = open_unit("give the share of cases in which the interval must hold")


def _binomials(xp: Any, chance: Array) -> Array:
    """Return P(Binomial(r, chance) = a) for r and a in 0..12, shape (..., 13, 13)."""
    size = _ROUNDS + 1
    ways = [[float(comb(r, a)) for a in range(size)] for r in range(size)]
    r, a = _outcomes(xp, chance)
    chance = chance[..., None, None]
    return xp.asarray(ways, dtype=xp.float64, device=chance.device) * chance**a * (1.0 - chance) ** (r - a)


def _outcomes(xp: Any, like: Array) -> tuple[Array, Array]:
    """Return r and a in 0..12, with a ≤ r, shape (13, 13)."""
    one = xp.arange(_ROUNDS + 1, dtype=xp.float64, device=like.device)
    r = one[:, None] + 0.0 * one[None, :]
    return r, xp.minimum(one[None, :] + 0.0 * r, r)


def band_coverage(length_law: Array, acceptances: Array, rounds: Array, confidence: Array) -> Array:
    """Return the probability that the intervals of all depths hold, summed over outcomes from the deepest depth up."""
    xp, law, alphas = law_of_lengths(length_law, acceptances)
    _, n, level = arrays(rounds=rounds, confidence=confidence)
    n, level = _FEW.check(xp, "rounds", n), _LEVEL.check(xp, "confidence", level)
    depth = alphas.shape[-1]
    r, a = _outcomes(xp, alphas)
    levels = in_kind(xp, level, xp.float64)[..., None, None] ** (1.0 / depth)
    low, high = clopper_pearson(xp, a + 0.0 * levels, r + 0.0 * levels, to_numpy(levels))
    kept = kept_drafts(xp, law)
    after = xp.ones_like(alphas[..., :1] + 0.0 * r[0, :])
    for d in range(depth - 1, -1, -1):
        alpha = alphas[..., d, None, None]
        holds = xp.astype((low <= alpha) & (alpha <= high), xp.float64)
        good = xp.sum(_binomials(xp, alphas[..., d]) * holds * after[..., None, :], axis=-1)  # by r_d
        after = xp.sum(_binomials(xp, kept[..., d]) * good[..., None, :], axis=-1)  # by a_{d-1}
    return _of_rounds(xp, after, n)


def delta_coverage(acceptance: Array, rounds: Array, confidence: Array) -> Array:
    """Return P(|a/r - α| ≤ z √(a/r (1 - a/r)/r)) for r rounds of one draft."""
    from scipy.special import ndtri

    xp, alpha, n, level = arrays(acceptance=acceptance, rounds=rounds, confidence=confidence)
    UNIT_INTERVAL.check(xp, "acceptance", alpha)
    n, level = _FEW.check(xp, "rounds", n), _LEVEL.check(xp, "confidence", level)
    alpha = in_kind(xp, alpha, xp.float64)
    r, a = _outcomes(xp, alpha)
    share = a / xp.where(r > 0, r, 1.0)
    z = np.asarray(ndtri(0.5 + np.asarray(to_numpy(level), dtype=np.float64) / 2.0))
    error = xp.sqrt(share * (1.0 - share) / xp.where(r > 0, r, 1.0))
    half = xp.asarray(z, dtype=xp.float64, device=alpha.device)[..., None, None] * error
    holds = xp.astype(xp.abs(share - alpha[..., None, None]) <= half, xp.float64)
    return _of_rounds(xp, xp.sum(_binomials(xp, alpha) * holds, axis=-1), n)


def _of_rounds(xp: Any, by_rounds: Array, rounds: Array) -> Array:
    hot = xp.arange(_ROUNDS + 1, device=rounds.device) == rounds[..., None]
    return xp.sum(xp.where(hot, by_rounds, xp.zeros_like(by_rounds)), axis=-1)


def asked(length_law: Array, acceptances: Array, rounds: Array, confidence: Array) -> Array:
    """Return the confidence that is asked for."""
    xp, level = arrays(confidence=confidence)
    return in_kind(xp, _LEVEL.check(xp, "confidence", level), xp.float64)


def asked_of_delta(acceptance: Array, rounds: Array, confidence: Array) -> Array:
    """Return the confidence that is asked for."""
    xp, level = arrays(confidence=confidence)
    return in_kind(xp, _LEVEL.check(xp, "confidence", level), xp.float64)
