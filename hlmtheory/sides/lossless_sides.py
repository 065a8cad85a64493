"""What draws show about a sampler's law, on every outcome of a short run whose law may depend on the past."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, entry_for_each, leading_dimensions, same_vocabulary, token_of
from hlmtheory._runs import HORIZON, settings
from hlmtheory._simplex import chains, distributions, text_law
from hlmtheory.lossless.ceiling import distance_ceiling
from hlmtheory.lossless.evidence import DOMAINS, law_wealth
from hlmtheory.lossless.power import OPEN, power_to_find

HALF = 4  # draws in each half of those of a ceiling

# D = f(x) - P f for the test function f of the next draw, which earlier draws fix;
# λ' = min(λ, 0.9/P f) ≤ λ. Ville's inequality: a nonnegative supermartingale that starts at 1 ever reaches 1/δ with
# probability at most δ.


def given_error(error: Array) -> Array:
    return settings(DOMAINS, error=error)[1]


def apart_side(xp: Any, p: Array, q: Array, tokens: int) -> Array:
    """Return TV of the laws of the first tokens, from all texts."""
    return 0.5 * xp.sum(xp.abs(text_law(xp, p, tokens) - text_law(xp, q, tokens)), axis=-1)


def step_means(target_chain: Array, law_chain: Array) -> tuple[Any, list[Array]]:
    """Return for each token the mean of TV(Q(.|x), P(.|x)) over the sampler's prefixes, from the states' law."""
    xp, p, q = chains(target_chain=target_chain, law_chain=law_chain)
    steps = 0.5 * xp.sum(xp.abs(p - q), axis=-1)
    state = xp.astype(xp.arange(p.shape[-1], device=p.device) == 0, xp.float64)
    found = []
    for _ in range(HORIZON):
        found.append(xp.sum(state * steps, axis=-1))
        state = xp.sum(state[..., None] * q, axis=-2)
    return xp, found


def second_step(target_chain: Array, law_chain: Array) -> Array:
    return step_means(target_chain, law_chain)[1][1]


def pairs_apart(weight: float, prefix: float) -> Callable[[Array, Array], Array]:
    """Return the side that weighs TV of the first two tokens, and of the first one."""

    def side(target_chain: Array, law_chain: Array) -> Array:
        xp, p, q = chains(target_chain=target_chain, law_chain=law_chain)
        return weight * apart_side(xp, p, q, 2) + prefix * apart_side(xp, p, q, 1)

    return side


def grouped_side(target_law: Array, sampler_law: Array, groups: Array) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, the two laws (..., V), and whether outcome x is in group g (..., V, V)."""
    xp, _, p, q = distributions(target_law=target_law, sampler_law=sampler_law)
    own = arrays(target_law=target_law, groups=groups)[2]
    own = token_of(p.shape[-1]).check(xp, "groups", own)
    entry_for_each("outcome", groups=tuple(own.shape))
    same_vocabulary(target_law=p, groups=own)
    leading_dimensions(target_law=tuple(p.shape[:-1]), sampler_law=tuple(q.shape[:-1]), groups=tuple(own.shape[:-1]))
    return xp, p, q, own[..., None] == xp.arange(p.shape[-1], device=p.device)


def _each(function: Callable[..., float], **values: Array) -> Array:
    """Return a function of numbers for each entry of a batch."""
    xp, *given = settings({**OPEN, "law": UNIT_INTERVAL, "bets": DOMAINS["bets"]}, **values)
    host = np.broadcast_arrays(*map(to_numpy, given))
    found = [function(*map(float, row)) for row in zip(*(one.ravel() for one in host), strict=True)]
    return xp.asarray(np.reshape(np.array(found, dtype=np.float64), host[0].shape).tolist(), dtype=xp.float64)


def promised_side(distance: Array, event: Array, error: Array, bet: Array) -> Array:
    """Return the power that is promised for T draws."""

    def one(apart: float, mean: float, delta: float, share: float) -> float:
        return power_to_find(HORIZON, apart, delta, 1, mean, [share]) if apart + mean < 1.0 else float("nan")

    return _each(one, distance=distance, event=event, error=error, bet=bet)


def reached(distance: Array, event: Array, error: Array, bet: Array) -> Array:
    """Return P(the wealth ever reaches 1/δ) if the event has the probability a + TV, over all runs."""

    def one(apart: float, mean: float, delta: float, share: float) -> float:
        total = 0.0
        for run in itertools.product((0.0, 1.0), repeat=HORIZON):
            wealth = law_wealth([run], [[mean] * HORIZON], [share])
            if (np.asarray(wealth) >= -np.log(delta)).any():
                total += float(np.prod([mean + apart if x else 1.0 - mean - apart for x in run]))
        return total

    return _each(one, distance=distance, event=event, error=error, bet=bet)


def room_for_distance(distance: Array, event: Array) -> Array:
    _, apart, mean = arrays(distance=distance, event=event)
    return apart + mean < 1.0


def below_distance(law: Array, event: Array, error: Array) -> Array:
    """Return P(the ceiling is below the distance) for an event, over all numbers of it in two halves."""

    def one(q: float, p: float, delta: float) -> float:
        weights = [math.comb(HALF, k) * q**k * (1.0 - q) ** (HALF - k) for k in range(HALF + 1)]
        total = 0.0
        for i, j in itertools.product(range(HALF + 1), repeat=2):
            if distance_ceiling([i, HALF - i], [j, HALF - j], [p, 1.0 - p], delta) < abs(q - p):
                total += weights[i] * weights[j]
        return total

    return _each(one, law=law, event=event, error=error)
