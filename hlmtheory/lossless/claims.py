"""What draws show about a sampler's law, on every outcome of a short run whose law may depend on the past."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import (
    UNIT_INTERVAL,
    entry_for_each,
    leading_dimensions,
    same_vocabulary,
    token_of,
)
from hlmtheory._runs import HORIZON, NODES, along, ever, outcomes, pasts, settings
from hlmtheory._simplex import chains, distributions, text_law
from hlmtheory.claims import Assumption, Attained, Claim, Source
from hlmtheory.lossless.ceiling import distance_ceiling
from hlmtheory.lossless.evidence import DOMAINS, distance_bound, law_wealth
from hlmtheory.lossless.power import OPEN, power_to_find

HALF = 4  # draws in each half of those of a ceiling

# Proofs, by the last part of the id. D = f(x) - P f for the test function f of the next draw, which earlier draws fix;
# λ' = min(λ, 0.9/P f) ≤ λ. Ville's inequality: a nonnegative supermartingale that starts at 1 ever reaches 1/δ with
# probability at most δ.
#
# level. Under the target's law E[1 + λ'D | past] = 1, and 1 + λ'D ≥ 0.1 > 0. So every wealth is a martingale, and so is
#   their mean with fixed weights. Ville.
# bound. E[D | past] = (Q - P) f ≤ TV(Q, P). So E[1 + λ'D | past] ≤ 1 + λ' TV ≤ exp(λ TV), and Π (1 + λ'D) exp(-λ Σ TV)
#   is a supermartingale for each f and λ; so is their mean, since Σ TV is the same in all. It falls as Σ TV grows, and
#   it is 1/δ where Σ TV is the bound. So by Ville Σ TV is ever below the bound with probability at most δ.
# conditional. Σ_x Q(x) TV(Q(.|x), P(.|x)) = ½ Σ |Q(x, v) - Q(x) P(v|x)|
#   ≤ ½ Σ |Q(x, v) - P(x, v)| + ½ Σ |P(x) - Q(x)| P(v|x), with P(x, v) = P(x) P(v|x).
# conditional_twice. TV of the first tokens is at most that of more tokens; insert this in conditional.
# text. |Q(x, v) - P(x, v)| ≤ Q(x) |Q(v|x) - P(v|x)| + |Q(x) - P(x)| P(v|x). Sum, halve, and use it for x again.
# power. From the needed number of successes on, the wealth of one test and one λ, over the K J of the mean, is 1/δ or
#   more after n draws; the mean is at least that. Successes are binomial.
# ceiling. Frequencies: one draw changes TV(Q̂, Q) by at most 1/n, and its mean is at most the sum of the standard
#   deviations √(Q_v (1 - Q_v)/n_c)/2, by Cauchy and Schwarz at most √((M - 1)/n_c)/2: McDiarmid. Halves: with
#   δ_v = Q_v - P_v, weights w that sum to 1 and ‖δ‖² = Σ δ²/w, TV ≤ ‖δ‖/2. Let h = (Q̂_A - P)/w. Given half A, the
#   mean of h over half B has the mean δ·h + P·h: an empirical Bernstein bound. And δ·h is a mean over half A of δ/w,
#   less P·δ/w, with the mean ‖δ‖²; since δ/w ≥ -P/w ≥ -2 and E (δ/w)² ≤ ‖δ‖² max Q/w, Bernstein's one-sided bound
#   gives δ·h ≥ ‖δ‖² - a ‖δ‖ - c. Chernoff bounds every Q_v. Solve for ‖δ‖; three events share δ/2. Half B has
#   the shares s'_c of the prompts, and all draws have s_c: Σ s_c TV_c ≤ max_c (s_c/s'_c) Σ s'_c TV_c.
#   Likeliest: with the likeliest cell A of a prompt, TV ≤ (P(A) - Q(A))⁺ + 1 - P(A) ≤ 1 - Q(A) + 1 - P(A). Of n draws
#   with several probabilities to be outside, whose mean is m, at most c are outside with a probability of at most
#   P(Bin(n, m) ≤ c), if c ≤ n m - 1 (Hoeffding, 1956). Which of the three share δ depends on P alone.
# grouped. TV(Q, P) = Σ_x (P(x) - Q(x))⁺. An outcome alone in its group gives what the group gives to the TV of the
#   groups. The outcomes of any other group give at most its P. So the groups of one outcome sum to at most the TV of
#   the groups, and the others to at most P of them together.


def _ever_accused(expected_by_past: Array, error: Array, bet: Array) -> Array:
    """Return P(the wealth ever reaches 1/δ) under the target's law; the event tested depends on the past."""
    xp, mean = pasts("expected_by_past", expected_by_past)
    _, delta, share = settings(DOMAINS, error=error, bet=bet)
    event, _, chance, expected = outcomes(xp, mean)
    wealth = law_wealth(event[:, None, :], expected[..., None, :], share[..., None, None])
    return ever(xp, chance, wealth >= -xp.log(delta)[..., None, None])


def _ever_above(expected_by_past: Array, law_by_past: Array, error: Array, bet: Array) -> Array:
    """Return P(the bound is ever above the mean distance so far) under the sampler's law."""
    xp, mean = pasts("expected_by_past", expected_by_past)
    _, law = pasts("law_by_past", law_by_past)
    _, delta, share = settings(DOMAINS, error=error, bet=bet)
    event, nodes, chance, own = outcomes(xp, law)
    expected = along(xp, mean, nodes)
    bound = distance_bound(event[:, None, :], expected[..., None, :], delta[..., None], share[..., None, None])
    draws = xp.arange(1, HORIZON + 1, dtype=xp.float64, device=law.device)
    apart = xp.cumulative_sum(xp.abs(own - expected), axis=-1) / draws
    return ever(xp, chance, bound > apart)


def _given_error(error: Array) -> Array:
    return settings(DOMAINS, error=error)[1]


def _apart(xp: Any, p: Array, q: Array, tokens: int) -> Array:
    """Return TV of the laws of the first tokens, from all texts."""
    return 0.5 * xp.sum(xp.abs(text_law(xp, p, tokens) - text_law(xp, q, tokens)), axis=-1)


def _step_means(target_chain: Array, law_chain: Array) -> tuple[Any, list[Array]]:
    """Return for each token the mean of TV(Q(.|x), P(.|x)) over the sampler's prefixes, from the states' law."""
    xp, p, q = chains(target_chain=target_chain, law_chain=law_chain)
    steps = 0.5 * xp.sum(xp.abs(p - q), axis=-1)
    state = xp.astype(xp.arange(p.shape[-1], device=p.device) == 0, xp.float64)
    found = []
    for _ in range(HORIZON):
        found.append(xp.sum(state * steps, axis=-1))
        state = xp.sum(state[..., None] * q, axis=-2)
    return xp, found


def _second_step(target_chain: Array, law_chain: Array) -> Array:
    return _step_means(target_chain, law_chain)[1][1]


def _sum_of_steps(target_chain: Array, law_chain: Array) -> Array:
    xp, means = _step_means(target_chain, law_chain)
    return xp.sum(xp.stack(means), axis=0)


def _pairs_apart(weight: float, prefix: float) -> Callable[[Array, Array], Array]:
    """Return the side that weighs TV of the first two tokens, and of the first one."""

    def side(target_chain: Array, law_chain: Array) -> Array:
        xp, p, q = chains(target_chain=target_chain, law_chain=law_chain)
        return weight * _apart(xp, p, q, 2) + prefix * _apart(xp, p, q, 1)

    return side


def _texts_apart(target_chain: Array, law_chain: Array) -> Array:
    xp, p, q = chains(target_chain=target_chain, law_chain=law_chain)
    return _apart(xp, p, q, HORIZON)


def _grouped(target_law: Array, sampler_law: Array, groups: Array) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, the two laws (..., V), and whether outcome x is in group g (..., V, V)."""
    xp, _, p, q = distributions(target_law=target_law, sampler_law=sampler_law)
    own = arrays(target_law=target_law, groups=groups)[2]
    own = token_of(p.shape[-1]).check(xp, "groups", own)
    entry_for_each("outcome", groups=tuple(own.shape))
    same_vocabulary(target_law=p, groups=own)
    leading_dimensions(target_law=tuple(p.shape[:-1]), sampler_law=tuple(q.shape[:-1]), groups=tuple(own.shape[:-1]))
    return xp, p, q, own[..., None] == xp.arange(p.shape[-1], device=p.device)


def _outcomes_apart(target_law: Array, sampler_law: Array, groups: Array) -> Array:
    """Return TV of the outcomes, one by one."""
    xp, p, q, member = _grouped(target_law, sampler_law, groups)
    return 0.5 * xp.sum(xp.sum(xp.where(member, xp.abs(p - q)[..., None], 0.0), axis=-1), axis=-1)


def _groups_apart(target_law: Array, sampler_law: Array, groups: Array) -> Array:
    """Return TV of the groups plus the target's probability of the groups with several outcomes."""
    xp, p, q, member = _grouped(target_law, sampler_law, groups)
    of_target, of_sampler = (xp.sum(xp.where(member, law[..., :, None], 0.0), axis=-2) for law in (p, q))
    several = xp.sum(xp.astype(member, xp.int64), axis=-2) > 1
    return 0.5 * xp.sum(xp.abs(of_target - of_sampler), axis=-1) + xp.sum(xp.where(several, of_target, 0.0), axis=-1)


def _each(function: Callable[..., float], **values: Array) -> Array:
    """Return a function of numbers for each entry of a batch."""
    xp, *given = settings({**OPEN, "law": UNIT_INTERVAL, "bets": DOMAINS["bets"]}, **values)
    host = np.broadcast_arrays(*map(to_numpy, given))
    found = [function(*map(float, row)) for row in zip(*(one.ravel() for one in host), strict=True)]
    return xp.asarray(np.reshape(np.array(found, dtype=np.float64), host[0].shape).tolist(), dtype=xp.float64)


def _promised(distance: Array, event: Array, error: Array, bet: Array) -> Array:
    """Return the power that is promised for T draws."""

    def one(apart: float, mean: float, delta: float, share: float) -> float:
        return power_to_find(HORIZON, apart, delta, 1, mean, [share]) if apart + mean < 1.0 else float("nan")

    return _each(one, distance=distance, event=event, error=error, bet=bet)


def _reached(distance: Array, event: Array, error: Array, bet: Array) -> Array:
    """Return P(the wealth ever reaches 1/δ) if the event has the probability a + TV, over all runs."""

    def one(apart: float, mean: float, delta: float, share: float) -> float:
        total = 0.0
        for run in itertools.product((0.0, 1.0), repeat=HORIZON):
            wealth = law_wealth([run], [[mean] * HORIZON], [share])
            if (np.asarray(wealth) >= -np.log(delta)).any():
                total += float(np.prod([mean + apart if x else 1.0 - mean - apart for x in run]))
        return total

    return _each(one, distance=distance, event=event, error=error, bet=bet)


def _room_for_distance(distance: Array, event: Array) -> Array:
    _, apart, mean = arrays(distance=distance, event=event)
    return apart + mean < 1.0


def _below_distance(law: Array, event: Array, error: Array) -> Array:
    """Return P(the ceiling is below the distance) for an event, over all numbers of it in two halves."""

    def one(q: float, p: float, delta: float) -> float:
        weights = [math.comb(HALF, k) * q**k * (1.0 - q) ** (HALF - k) for k in range(HALF + 1)]
        total = 0.0
        for i, j in itertools.product(range(HALF + 1), repeat=2):
            if distance_ceiling([i, HALF - i], [j, HALF - j], [p, 1.0 - p], delta) < abs(q - p):
                total += weights[i] * weights[j]
        return total

    return _each(one, law=law, event=event, error=error)


_BETTING = "waudbysmith2024betting"
_SURE = 15 / 16
_WON = (1.0 + 0.9 / _SURE * (1.0 - _SURE)) ** HORIZON
"""Wealth after T events of probability 15/16 with the largest bet, which is lost if one fails to occur."""
_RUN = {"expected_by_past": [_SURE] * NODES, "error": (1.0 + 1e-8) / _WON, "bet": 1.0}
_RUN_RATIO = (_SURE**HORIZON) * _WON / (1.0 + 1e-8)
_SMALL = 2.0**-10
_SLIVER = {
    "target_chain": [[0.0, 0.5, 0.5], [1.0 - _SMALL, _SMALL, 0.0], [1.0, 0.0, 0.0]],
    "law_chain": [
        [0.0, 0.5 * (1.0 - _SMALL), 0.5 * (1.0 + _SMALL)],
        [1.0, 0.0, 0.0],
        [1.0 / (1.0 + _SMALL), _SMALL / (1.0 + _SMALL), 0.0],
    ],
}
_LEAVES = {"target_chain": [[1.0, 0.0], [0.0, 1.0]], "law_chain": [[0.875, 0.125], [0.0, 1.0]]}
"""At each step the sampler leaves the target's only text with probability 1/8, for good."""

CLAIMS = (
    Claim(
        id="lossless.level",
        source=Source(_BETTING, "the capital process, for test functions chosen from earlier draws"),
        statement="P(∃t: W_t ≥ 1/δ) ≤ δ if every draw has the target's law given the earlier ones",
        lhs=_ever_accused,
        rhs=_given_error,
        attained=Attained(_RUN, ratio=_RUN_RATIO),
        ceiling=1.0,
    ),
    Claim(
        id="lossless.bound",
        source=Source(_BETTING, "confidence sequences, for distances that vary"),
        statement="P(∃t: bound_t > the mean of TV(Q_1, P_1)..TV(Q_t, P_t)) ≤ δ; the laws may depend on the past",
        lhs=_ever_above,
        rhs=_given_error,
        attained=Attained({**_RUN, "law_by_past": [_SURE] * NODES}, ratio=_RUN_RATIO),
        ceiling=1.0,
    ),
    Claim(
        id="lossless.conditional",
        source=Source(_BETTING, "applied to a token given the sampler's own prefix"),
        statement="E_{x~Q} TV(Q(·|x), P(·|x)) ≤ TV of the texts with that token + TV of the prefixes",
        lhs=_second_step,
        rhs=_pairs_apart(1.0, 1.0),
        attained=Attained({"target_chain": [[0.5, 0.5], [0.5, 0.5]], "law_chain": [[0.5, 0.5], [0.25, 0.75]]}),
        ceiling=1.0,
    ),
    Claim(
        id="lossless.conditional_twice",
        source=Source(_BETTING, "applied to a token given the sampler's own prefix"),
        statement="E_{x~Q} TV(Q(·|x), P(·|x)) ≤ 2 TV of the texts with that token",
        lhs=_second_step,
        rhs=_pairs_apart(2.0, 0.0),
        attained=Attained(_SLIVER, ratio=1.0 - _SMALL / 2),
        ceiling=1.0,
        condition=lambda target_chain, law_chain: 1e3,
    ),
    Claim(
        id="lossless.text",
        source=Source("leviathan2023fast", "Algorithm 1, for any sampler's text"),
        statement="TV of texts ≤ Σ_t E_{x~Q} TV(Q(·|x), P(·|x)): prefixes of the sampler",
        lhs=_texts_apart,
        rhs=_sum_of_steps,
        attained=Attained(_LEAVES),
        ceiling=1.0,
    ),
    Claim(
        id="lossless.power",
        source=Source(_BETTING, "the capital process, for an event of known probability"),
        statement="power promised for n draws ≤ P(∃t ≤ n: W_t ≥ 1/δ) if the event has the probability a + TV",
        lhs=_promised,
        rhs=_reached,
        assumptions=(Assumption("a + TV < 1", _room_for_distance),),
        attained=Attained({"distance": 0.25, "event": 0.5, "error": (1.0 + 1e-8) / 1.5**4, "bet": 1.0}),
        ceiling=1.0,
    ),
    Claim(
        id="lossless.ceiling",
        source=Source("maurer2009empirical", "Theorem 4, for half of the draws given the other half"),
        statement="P(distance_ceiling < TV(Q, P)) ≤ δ for independent draws of one law",
        lhs=_below_distance,
        rhs=_given_error,
        attained=Attained(  # a third: three bounds share δ, and one of them is exact
            {"law": 155 / 512, "event": 2.0**-20, "error": 0.75}, ratio=(357 + 8 * 155) * 357**7 / 512**8 / 0.75
        ),
        ceiling=1.0,
    ),
    Claim(
        id="lossless.grouped",
        source=Source("leviathan2023fast", "Theorem 1, for laws that are known on groups of outcomes"),
        statement="TV of two laws ≤ TV of their groups + the target's probability of groups with several outcomes",
        lhs=_outcomes_apart,
        rhs=_groups_apart,
        attained=Attained(
            {"target_law": [0.5, 0.5, 0.0], "sampler_law": [0.25, 0.0, 0.75], "groups": [0, 1, 1]}, ratio=1.0
        ),
        ceiling=1.0,
    ),
)
