"""Both sides of the claims of ``censored_claims`` on coverage: how often an interval holds, over all outcomes."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import UNIT_INTERVAL, DomainError, leading_dimensions
from hlmtheory._quantities import open_unit
from hlmtheory.draft_length.censored import anytime

_ENGINE_ROUNDS, _ENGINE_DEPTH = 8, 2
"""Rounds and largest draft length of the engines over which the probability of a miss is maximised."""
_ERROR = open_unit("δ_d is the probability that the interval of depth d ever misses, such as 0.05")
_LEVEL = open_unit("give the share of cases in which the interval must hold")


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


def asked(length_law: Array, acceptances: Array, rounds: Array, confidence: Array) -> Array:
    """Return the confidence that is asked for."""
    xp, level = arrays(confidence=confidence)
    return in_kind(xp, _LEVEL.check(xp, "confidence", level), xp.float64)
