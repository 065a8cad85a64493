"""One server for all users: how much of it a round takes, and the best rates that it can serve.

A pass over at most B rounds takes s + s' seconds a token, K + 1 tokens a round. So a round of K drafts takes at least
σ = s/B + (K + 1) s' of the server, a token d = σ/E, and Σ X d ≤ 1.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, floating, take
from hlmtheory._domains import COUNT, broadcast, entry_for_each, finite_answer, number, option
from hlmtheory._quantities import not_negative, positive, whole_from_one

_SERVER = {
    "pass_s": positive("give the time of a pass of the target model in seconds"),
    "token_s": not_negative("give the time that a token adds to a pass in seconds"),
    "batch": whole_from_one("give the most rounds that one pass verifies; 1: one after the other"),
}


@dataclass(frozen=True, slots=True)
class SharedServer:
    """A server that verifies the rounds of all users.

    Parameters
    ----------
    pass_s : float
        Time of a pass in seconds, however many rounds it verifies; positive.
    token_s : float
        Time that each token adds to a pass, in seconds. A round of K drafts has K + 1 tokens.
    batch : int
        The most rounds that one pass verifies.

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> server = SharedServer(pass_s=0.25, token_s=0.125, batch=2)
    >>> server.alone_s(1), server.load_s(1)
    (0.5, 0.375)
    """

    pass_s: float
    token_s: float = 0.0
    batch: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, number(_SERVER[field.name], field.name, getattr(self, field.name)))

    def alone_s(self, draft_length: int) -> float:
        """Return the time of a pass over one round of K drafts, in seconds."""
        return self.pass_s + self.token_s * (int(number(COUNT, "draft_length", draft_length)) + 1)

    def load_s(self, draft_length: int) -> float:
        """Return the least time of the server that a round of K drafts takes, in full batches, in seconds."""
        tokens = int(number(COUNT, "draft_length", draft_length)) + 1
        return self.pass_s / self.batch + self.token_s * tokens


@finite_answer
def server_rates(most: Array, load_s: Array, weights: Array = 1.0, *, utility: str = "linear") -> Array:
    """Return the tokens per second X (..., U) with the most Σ ω X, or Σ ω log X, that one server can serve.

    X ≤ ``most``, the rates with a free server, and Σ X d ≤ 1 with d = ``load_s``, seconds of the server for a token.
    """
    option("utility", utility, UTILITIES)
    xp, top, load, weight = checked_users(most=most, load_s=load_s, weights=weights)
    top, load, weight = xp.broadcast_arrays(*(xp.astype(one, xp.float64) for one in (top, load, weight)))
    needs = load > 0
    some = xp.where(needs, load, xp.ones_like(load))
    if utility == "linear":
        return _greedy(xp, top, load, xp.where(needs, weight / some, xp.full_like(load, float("inf"))))
    level = _level(xp, top * load, xp.where(needs, weight, xp.zeros_like(load)))
    return xp.where(needs, xp.minimum(top, weight / some * level), top)


def _greedy(xp: Any, top: Array, load: Array, worth: Array) -> Array:
    """Serve the users in the order of their worth, until the server is full."""
    order = xp.argsort(worth, axis=-1, descending=True, stable=True)
    back = xp.argsort(order, axis=-1, stable=True)
    most, each = take(xp, top, order), take(xp, load, order)
    used = most * each
    left = xp.clip(1.0 - (xp.cumulative_sum(used, axis=-1) - used), min=0.0)
    part = xp.where(used > left, left / xp.where(used > left, each, xp.ones_like(each)), most)
    return take(xp, part, back)


def _level(xp: Any, caps: Array, slopes: Array) -> Array:
    """Return the t with Σ min(cap, slope t) = 1; the largest that changes anything if the sum of caps is below 1.

    It is the largest (1 - Σ_S cap)/Σ_rest slope over sets S whose caps hold: those with the least cap/slope.
    """
    some = slopes > 0
    full = xp.where(some, caps / xp.where(some, slopes, xp.ones_like(slopes)), xp.zeros_like(caps))
    order = xp.argsort(full, axis=-1, stable=True)
    cap, slope = take(xp, caps, order), take(xp, slopes, order)
    before = xp.cumulative_sum(cap, axis=-1) - cap
    rest = xp.flip(xp.cumulative_sum(xp.flip(slope, axis=-1), axis=-1), axis=-1)
    lines = xp.where(rest > 0, (1.0 - before) / xp.where(rest > 0, rest, xp.ones_like(rest)), xp.zeros_like(rest))
    end = xp.max(full, axis=-1, keepdims=True)
    found = xp.max(lines, axis=-1, keepdims=True)
    return xp.where(xp.sum(caps, axis=-1, keepdims=True) <= 1.0, end, xp.minimum(found, end))


UTILITIES = ("linear", "log")
"""Objectives: Σ ω X, the tokens per second; and Σ ω log X, proportional fairness."""

_STEPS = 96  # bisection steps on a logarithm; the last digits then no longer change

_DOMAINS = {
    "tokens": positive("leave out users without tokens"),
    "fixed_s": positive("give the time of a round without its air time in seconds; ofdma has the shares without one"),
    "band_s": positive("give the air time of a round on the whole band in seconds; leave out users who send nothing"),
    "weights": positive("leave out users without a weight"),
    "most": positive("leave out users without tokens"),
    "load_s": not_negative("give the seconds of the server for a token; 0: it is not needed"),
}


@finite_answer
def throughput_shares(
    tokens: Array, fixed_s: Array, band_s: Array, weights: Array = 1.0, *, utility: str = "linear"
) -> Array:
    """Return the shares of the band with the most utility.

    Parameters
    ----------
    tokens, fixed_s, band_s : array, shape (..., U)
        E, the mean tokens of a round; A, its time without air time; c, its air time on the whole band, in seconds.
    weights : array, shape (..., U) or broadcastable
        ω, positive.
    utility : {"linear", "log"}
        Σ ω X, or Σ ω log X.

    Returns
    -------
    array, shape (..., U)
        w with sum 1. "linear": w = (√(ω E c/ν) - c)⁺/A, so a user with a small ωE/c may get nothing. "log": the root of
        A w² + c w = ω c/ν. ν makes the sum 1.

    Raises
    ------
    ValueError
        If a value is not positive and finite, the shapes do not broadcast, or the utility has another name.

    Examples
    --------
    >>> throughput_shares([3.0, 3.0], [0.5, 0.5], [0.5, 0.5]).tolist()
    [0.5, 0.5]
    >>> throughput_shares([3.0, 3.0], [0.5, 0.5], [0.125, 4.0]).tolist()
    [1.0, 0.0]
    """
    option("utility", utility, UTILITIES)
    xp, gain, fixed, air, weight = checked_users(tokens=tokens, fixed_s=fixed_s, band_s=band_s, weights=weights)
    gain, fixed, air, weight = xp.broadcast_arrays(*(xp.astype(one, xp.float64) for one in (gain, fixed, air, weight)))
    w = _linear(xp, weight * gain, fixed, air) if utility == "linear" else _log(xp, fixed, air, weight)
    return w / xp.sum(w, axis=-1, keepdims=True)


def _linear(xp: Any, worth: Array, fixed: Array, air: Array) -> Array:
    """Water filling in closed form: the users with the largest ωE/c share the band."""
    order = xp.argsort(worth / air, axis=-1, descending=True)
    value, need, rest = (take(xp, one, order) for one in (worth, air, fixed))
    # With the first n users in, 1/√ν = (1 + Σ c/A)/Σ √(ωEc)/A; the n-th is in if ωE/c > ν
    level = (1.0 + xp.cumulative_sum(need / rest, axis=-1)) / xp.cumulative_sum(xp.sqrt(value * need) / rest, axis=-1)
    inside = xp.sqrt(value / need) * level > 1.0
    last = xp.sum(xp.astype(inside, xp.int64), axis=-1, keepdims=True) - 1
    level = take(xp, level, xp.clip(last, min=0))
    return xp.clip(xp.sqrt(worth * air) * level - air, min=0.0) / fixed


def _log(xp: Any, fixed: Array, air: Array, weight: Array) -> Array:
    """Bisect log ν between max ω c/(A + c), since no share exceeds 1, and Σ ω, since w ≤ ω/ν."""

    def shares(price: Array) -> Array:
        worth = weight / price
        return 2.0 * worth / (1.0 + xp.sqrt(1.0 + 4.0 * fixed / air * worth))

    low = xp.max(weight * air / (fixed + air), axis=-1, keepdims=True)
    high = xp.sum(weight, axis=-1, keepdims=True)
    for _ in range(_STEPS):
        middle = xp.sqrt(low) * xp.sqrt(high)
        much = xp.sum(shares(middle), axis=-1, keepdims=True) > 1.0
        low, high = xp.where(much, middle, low), xp.where(much, high, middle)
    return shares(high)


def checked_users(**values: Any) -> tuple[Any, ...]:
    """Return the namespace and the checked values in their common floating type."""
    xp, *given = arrays(**values)
    shapes = {name: tuple(value.shape) for name, value in zip(values, given, strict=True)}
    entry_for_each("user", **{name: shape for name, shape in shapes.items() if name != "weights" or shape})
    broadcast(**shapes)
    for name, value in zip(values, given, strict=True):
        _DOMAINS[name].check(xp, name, value)
    with np.errstate(all="ignore"):
        return (xp, *floating(xp, *given))
