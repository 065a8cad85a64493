"""Claims of ``draft_length.online``: first the proofs, then the functions of both sides, then the records."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import UNIT_INTERVAL
from hlmtheory._quantities import positive
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Source
from hlmtheory.draft_length.online import ERROR, online_regret_bound, optimistic, radius
from hlmtheory.draft_length.rates import FACTOR

# Proofs, by the last part of the id.
#
# online_regret. Let U be the upper ends, F⁻ the lower end of the mean delay's interval, and K the choice. If all
#   intervals hold, X* ≤ max (1 + Σ U)/(F⁻ + K′M) = R, the rate that K promises. So X* T(K) - E(K) ≤ R T(K) - E(K) =
#   R (F - F⁻) + Σ_{d≤K} (U(d) - S(d)). F - F⁻ is at most 2 r of the range of the delay, and R at most the rate at the
#   least delay without rejections. U(d) - S(d) ≤ min(1, 2 r(N_d)). In the sum over the rounds, N_d passes 0, 1, ..
#   once each, as only rounds with K ≥ d count there.
# online_estimate. False: see the counterexample. A draft that is rejected in the first round has the estimate 0, and no
#   later round examines it.


_TIME = positive("give the seconds of a draft or a round")


def _instance(
    acceptances: Array,
    draft_s: Array,
    verify_s: Array,
    rise: Array,
    expected: Array,
    luck: Array,
    waits: Array,
    error: Array,
) -> tuple[Any, ...]:
    """Return the namespace and the checked arguments; a round takes ``verify_s`` to ``rise`` times as long."""
    given = {"acceptances": acceptances, "draft_s": draft_s, "verify_s": verify_s, "rise": rise}
    given |= {"expected": expected, "luck": luck, "waits": waits, "error": error}
    xp, *values = arrays(**given)
    for name, value in zip(given, values, strict=True):
        domain = {"draft_s": _TIME, "verify_s": _TIME, "rise": FACTOR, "error": ERROR}.get(name, UNIT_INTERVAL)
        domain.check(xp, name, value)
    return (xp, *(xp.astype(value, xp.float64) for value in values))


def _played(hopeful: bool, **instance: Array) -> tuple[Array, Array, Array]:
    """Play the rounds; return the tokens lost, the examined rounds N_d, and whether all intervals held."""
    xp, alpha, slope, cost, factor, mean, luck, waits, delta = _instance(**instance)
    extent, chances = cost * (factor - 1.0), xp.cumulative_prod(alpha, axis=-1)
    lengths = xp.arange(alpha.shape[-1] + 1, dtype=xp.float64, device=alpha.device)
    means = alpha.shape[-1] + 1
    seconds, tokens = (cost + mean * extent)[..., None] + lengths * slope[..., None], _tokens(xp, chances)
    best = xp.max(tokens / seconds, axis=-1, keepdims=True)
    seen, kept, waited = 0.0 * alpha, 0.0 * alpha, 0.0 * mean
    lost, held = 0.0 * mean, mean >= 0.0
    for t in range(waits.shape[-1]):
        late = radius(xp, 0.0 * mean + t, delta, means)
        share = xp.where(seen > 0, kept / xp.where(seen > 0, seen, 1.0), 1.0)
        wrong = xp.where(seen > 0, xp.abs(share - chances), 0.0) > radius(xp, seen, delta[..., None], means)
        held = held & ~xp.any(wrong, axis=-1) & (xp.abs(waited / max(t, 1) - mean) <= late)
        if hopeful:
            low = cost + extent * xp.clip(waited / max(t, 1) - late, min=0.0)
            length = optimistic(xp, seen, kept, low, slope, delta)[0][..., None]
        else:
            length = xp.argmax(_tokens(xp, share) / seconds, axis=-1, keepdims=True)
        lost = lost + xp.take_along_axis(best * seconds - tokens, length, axis=-1)[..., 0]
        tried = xp.astype(lengths[1:] <= xp.astype(length, xp.float64), xp.float64)
        seen, waited = seen + tried, waited + waits[..., t]
        kept = kept + tried * xp.cumulative_prod(xp.astype(luck[..., t, :] < alpha, xp.float64), axis=-1)
    return lost, seen, held


def _tokens(xp: Any, chances: Array) -> Array:
    """Return E(K) for K = 0, 1, .."""
    return 1.0 + xp.cumulative_sum(xp.concat([0.0 * chances[..., :1], chances], axis=-1), axis=-1)


def _side(value: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of the instance, by name."""

    @wraps(_instance)
    def side(**instance: Array) -> Array:
        return value(**instance)

    return side


def _bound(hopeful: bool, **instance: Array) -> Array:
    """Return the bound for the rounds that examined each depth."""
    xp, alpha, slope, cost, factor, _, _, waits, delta = _instance(**instance)
    seen = xp.astype(_played(hopeful, **instance)[1], xp.int64)
    lengths = xp.arange(alpha.shape[-1] + 1, dtype=xp.float64, device=alpha.device)
    fastest = xp.max((lengths + 1.0) / (cost[..., None] + lengths * slope[..., None]), axis=-1)
    rounds = xp.astype(0.0 * cost, xp.int64) + waits.shape[-1]
    return online_regret_bound(seen, error=delta, rounds=rounds, range_tokens=cost * (factor - 1.0) * fastest)


_PAPER = Source("sun2026delay", "abstract: UCB-SpecStop")
_CASE = {"acceptances": [0.0], "verify_s": 1.0, "draft_s": 1.0 - 2.0**-20, "rise": 1.0, "expected": 0.5, "error": 0.5}
_TWO = {"luck": [[0.5], [0.5]], "waits": [0.5, 0.5]}
_UNLUCKY = {"acceptances": [0.9], "verify_s": 1.0, "draft_s": 0.5, "rise": 1.0, "expected": 0.5, "error": 0.5}
_HELD = Assumption("all intervals hold", _side(lambda **instance: _played(True, **instance)[2]))

CLAIMS = (
    Claim(
        id="draft_length.online_regret",
        source=_PAPER,
        statement=(
            "Σ_t (X* T(K_t) − E(K_t)) ≤ Σ_d W(N_d) + v W(T) for optimistic K_t as long as all intervals hold, "
            "that of the mean delay too"
        ),
        lhs=_side(lambda **instance: _played(True, **instance)[0]),
        rhs=_side(lambda **instance: _bound(True, **instance)),
        assumptions=(_HELD,),
        attained=Attained(_CASE | _TWO, ratio=1.0 - 2.0**-20),
    ),
    Claim(
        id="draft_length.online_estimate",
        source=_PAPER,
        origin=Origin.IMPLIED,
        statement="the bound holds for the length with the best estimate, in place of the best upper end",
        lhs=_side(lambda **instance: _played(False, **instance)[0]),
        rhs=_side(lambda **instance: _bound(False, **instance)),
        assumptions=(Assumption("all intervals hold", _side(lambda **instance: _played(False, **instance)[2])),),
        refuted=_UNLUCKY | {"luck": [[0.95]] * 9, "waits": [0.5] * 9},
    ),
)
