"""Both sides of the claims of ``censored_claims`` on coverage: how often an interval holds, over all outcomes."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions
from hlmtheory._quantities import open_unit
from hlmtheory.draft_length.censored import anytime, clopper_pearson
from hlmtheory.draft_length.censored_sides import kept_drafts, law_of_lengths

_ROUNDS = 12
"""Largest number of rounds of an instance; the coverage is summed over all outcomes."""
_ENGINE_ROUNDS, _ENGINE_DEPTH = 8, 2
"""Rounds and largest draft length of the engines over which the probability of a miss is maximised."""
_ERROR = open_unit("δ_d is the probability that the interval of depth d ever misses, such as 0.05")
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


def engine_miss(acceptances: Array, errors: Array) -> Array:
    """Return the largest P(the interval of some depth misses after the last round) over all engines.

    An engine chooses the draft length of each of 8 rounds, 0 to K, from all past outcomes. Dynamic programming over
    the examined and accepted drafts of each depth, from the last round back.
    """
    xp, alphas, deltas = _depths_and_errors(acceptances, errors)
    depth = alphas.shape[-1]
    size = _ENGINE_ROUNDS + 1
    count = xp.arange(size, dtype=xp.float64, device=alphas.device)
    missed = xp.zeros(tuple(alphas.shape[:-1]) + (size,) * (2 * depth), dtype=xp.float64, device=alphas.device)
    for d in range(depth):  # axes r_1, a_1, r_2, a_2
        examined = count[:, None] + 0.0 * count
        accepted = xp.minimum(count[None, :], examined)
        low, high = anytime(xp, accepted, examined, deltas[..., d, None, None])
        alpha = alphas[..., d, None, None]
        outside = xp.astype((alpha < low) | (alpha > high), xp.float64)
        shape = [1] * (2 * depth)
        shape[2 * d] = shape[2 * d + 1] = size
        missed = xp.maximum(missed, xp.reshape(outside, (*outside.shape[:-2], *shape)))
    for _ in range(_ENGINE_ROUNDS):
        best = missed
        for length in range(1, depth + 1):
            best = xp.maximum(best, _after_round(xp, missed, alphas, 0, length))
        missed = best
    return missed[(..., *((0,) * (2 * depth)))]


def _after_round(xp: Any, missed: Array, alphas: Array, depth: int, length: int) -> Array:
    """Return the expectation of ``missed`` after the drafts from ``depth`` on of a round that drafts ``length``."""
    if depth == length:
        return missed
    axis = 2 * (depth - alphas.shape[-1])
    rejected = xp.roll(missed, -1, axis=axis)  # one more is examined; what wraps around is never reached
    accepted = xp.roll(rejected, -1, axis=axis + 1)
    alpha = xp.reshape(alphas[..., depth], (*alphas.shape[:-1], *((1,) * (2 * alphas.shape[-1]))))
    return alpha * _after_round(xp, accepted, alphas, depth + 1, length) + (1.0 - alpha) * rejected


def summed_errors(acceptances: Array, errors: Array) -> Array:
    """Return Σ_d δ_d."""
    xp, _, deltas = _depths_and_errors(acceptances, errors)
    return xp.sum(deltas, axis=-1)


def _depths_and_errors(acceptances: Array, errors: Array) -> tuple[Any, Array, Array]:
    xp, alphas, deltas = arrays(acceptances=acceptances, errors=errors)
    UNIT_INTERVAL.check(xp, "acceptances", alphas)
    _ERROR.check(xp, "errors", deltas)
    if not alphas.ndim or not 1 <= alphas.shape[-1] <= _ENGINE_DEPTH or alphas.shape[-1:] != deltas.shape[-1:]:
        raise DomainError(
            f"acceptances and errors must have an entry for each depth up to {_ENGINE_DEPTH}; got shapes "
            f"{tuple(alphas.shape)} and {tuple(deltas.shape)}; give one or two of each"
        )
    leading_dimensions(acceptances=tuple(alphas.shape[:-1]), errors=tuple(deltas.shape[:-1]))
    alphas, deltas = in_kind(xp, alphas, xp.float64), in_kind(xp, deltas, xp.float64)
    return xp, alphas + xp.zeros_like(deltas), deltas + xp.zeros_like(alphas)


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
