"""Estimates of the acceptance rate from past rounds: flexspec's moving average, and a consistent estimate.

Paper: flexspec (li2025flexspec) Algorithm 2, last line. Part of the module ``draft_length``; τ of K drafts are
accepted, each with probability γ if all drafts before it were accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import COUNT, UNIT_INTERVAL, Domain, DomainError, broadcast, finite_answer, number, option
from hlmtheory._quantities import not_negative, positive, whole_from_one
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.verification import expected_tokens

_LENGTH = whole_from_one("a round drafts at least one token")
_SUMMED = Domain(
    "a whole number in 1..65,536 where its law is summed term by term",
    lambda xp, value: (value >= 1) & (value <= 65_536),
    "no round has so long a draft; take 65,536",
    kind="integer",
)
_WEIGHT = not_negative("give the weight of the first estimate, in drafts")
_TRACKER = {
    "step": UNIT_INTERVAL,
    "accepted": not_negative("give how many drafts were accepted"),
    "examined": positive("give the weight of the first estimate, in drafts"),
}
_METHODS = ("ema_printed", "consistent")


@dataclass(frozen=True, slots=True)
class AcceptanceTracker:
    """A running estimate of γ from past rounds: flexspec's moving average as printed, or a consistent estimate.

    "ema_printed" is Algorithm 2: γ̂ ← (1 - μ)γ̂ + μ τ/K. It follows E[τ/K] = γ(1 - γ^K)/(K(1 - γ)), the share of drafts
    accepted at this K. So 1 + γ̂K is right at the K in use. For K > 1 the estimate is below γ and depends on K, so it is
    wrong at other lengths.

    "consistent" is the number of accepted drafts over the number of examined drafts, min(τ + 1, K) per round, both
    with forgetting rate μ. E[τ] = γ E[min(τ + 1, K)] for every K, even a K that was chosen from the past. With μ = 0
    this is the maximum-likelihood estimate.

    Parameters
    ----------
    step : float
        μ in [0, 1].
    method : {"ema_printed", "consistent"}
    accepted, examined : float
        Numerator and denominator of the estimate. To begin with γ̂ = 0.8 and the weight of 10 drafts, give 8 and 10.
        For "ema_printed" only the quotient matters.

    Raises
    ------
    ValueError
        If the step is outside [0, 1], the method is unknown, or the quotient is not in [0, 1].

    Examples
    --------
    >>> tracker = AcceptanceTracker(step=0.1, method="ema_printed")
    >>> tracker.update(accepted=2, draft_length=6).estimate.__round__(4)
    0.7533
    """

    step: float
    method: str = "consistent"
    accepted: float = 0.8
    examined: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        option("method", self.method, _METHODS)
        step, accepted, examined = (number(_TRACKER[name], name, getattr(self, name)) for name in _TRACKER)
        number(UNIT_INTERVAL, "accepted / examined", accepted / examined)
        for name, value in zip(_TRACKER, (step, accepted, examined), strict=True):
            object.__setattr__(self, name, value)

    @property
    def estimate(self) -> float:
        """γ̂."""
        return self.accepted / self.examined

    def update(self, accepted: int, draft_length: int) -> AcceptanceTracker:
        """The tracker after one more round, in which τ of K drafts were accepted.

        Raises
        ------
        ValueError
            If K is below 1 or not an integer, or τ is not in 0..K.
        """
        draft_length = number(_LENGTH, "draft_length", draft_length)
        accepted = number(_up_to(draft_length), "accepted", accepted)
        keep = 1.0 - self.step
        if self.method == "ema_printed":  # Algorithm 2, last line
            return replace(self, accepted=keep * self.estimate + self.step * accepted / draft_length, examined=1.0)
        examined = min(accepted + 1, draft_length)
        return replace(self, accepted=keep * self.accepted + accepted, examined=keep * self.examined + examined)


@finite_answer
def tracker_moments(
    acceptance: Array,
    draft_length: Array,
    rounds: Array,
    step: Array,
    *,
    method: str = "consistent",
    start: Array = 0.8,
    weight: Array = 1.0,
) -> tuple[Array, Array]:
    """Bias and variance of an :class:`AcceptanceTracker` after n rounds of K drafts.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ in [0, 1].
    draft_length, rounds : integer array, shape (...)
        K, 1 or more, for "ema_printed" up to 65,536; and n, 0 or more.
    step : array, shape (...)
        μ in [0, 1].
    method : {"ema_printed", "consistent"}
        The result is exact for "ema_printed"; for "consistent" it is the leading order in 1/n (delta method).
    start, weight : array, shape (...)
        The first estimate, in [0, 1], and its weight in drafts (no effect on "ema_printed").

    Returns
    -------
    bias, variance : array, shape (...)
        E[γ̂] - γ and Var γ̂.

    Raises
    ------
    ValueError
        If a value is outside its range or the method is unknown.

    Examples
    --------
    >>> bias, variance = tracker_moments(0.8, 6, 1000, 0.05, method="ema_printed")
    >>> round(float(bias), 4), round(float(variance), 5)
    (-0.3081, 0.00375)
    """
    option("method", method, _METHODS)
    xp, gamma, length, n, mu, first, prior = arrays(
        acceptance=acceptance, draft_length=draft_length, rounds=rounds, step=step, start=start, weight=weight
    )
    UNIT_INTERVAL.check(xp, "step", mu)
    UNIT_INTERVAL.check(xp, "start", first)
    _WEIGHT.check(xp, "weight", prior)
    _LENGTH.check(xp, "draft_length", length)
    broadcast(
        acceptance=gamma.shape,
        draft_length=length.shape,
        rounds=n.shape,
        step=mu.shape,
        start=first.shape,
        weight=prior.shape,
    )
    examined = expected_tokens(gamma, length - 1)  # E[min(τ + 1, K)]
    (_, gamma, mu, first, prior, examined) = (xp, *floating(xp, gamma, mu, first, prior, examined))
    k, n = (xp.astype(COUNT.check(xp, name, count), gamma.dtype) for name, count in (("K", length), ("rounds", n)))
    left = (1.0 - mu) ** n
    if method == "ema_printed":
        # The moving average is linear in τ/K, so both moments are exact
        mean, variance = accepted_moments(xp, gamma, length)
        forgets = mu / (2.0 - mu) * (1.0 - left * left)
        return left * first + (1.0 - left) * mean / k - gamma, forgets * variance / (k * k)
    # Sums of the weights of the rounds, and of their squares
    ones = xp.ones_like(left)
    total = xp.where(mu > 0, (1.0 - left) / xp.where(mu > 0, mu, ones), n)
    squares = xp.where(mu > 0, (1.0 - left * left) / xp.where(mu > 0, mu * (2.0 - mu), ones), n)
    if bool(xp.any((n == 0) & (prior == 0))):
        raise DomainError("weight must be positive where rounds is 0, as nothing was seen; got 0; give a prior")
    # Delta method for the quotient of accepted and examined drafts
    seen = left * prior + total * examined
    skew = examined - 1.0 - (k - 1.0) * gamma**k  # E[(τ - γX)X], X = min(τ + 1, K)
    bias = left * prior * (first - gamma) / seen - squares * skew / (seen * seen)
    return bias, squares * gamma * (1.0 - gamma) * examined / (seen * seen)


def _up_to(length: int) -> Domain:
    return Domain(
        f"a whole number in 0..K with K = {length}",
        lambda xp, value: (value >= 0) & (value <= length),
        "no more drafts are accepted than were sent",
        kind="integer",
    )


def accepted_moments(xp: Any, gamma: Array, length: Array) -> tuple[Array, Array]:
    """E[τ] and Var τ: P(τ ≥ i) = γ^i for i ≤ K, so E[τ²] = Σ (2i - 1) γ^i."""
    length = _SUMMED.check(xp, "draft_length", length)
    i = xp.arange(1, int(xp.max(length)) + 1, dtype=gamma.dtype, device=gamma.device)
    reached = gamma[..., None] ** i
    reached = xp.where(i <= xp.astype(length, gamma.dtype)[..., None], reached, xp.zeros_like(reached))
    mean = xp.sum(reached, axis=-1)
    return mean, xp.sum((2.0 * i - 1.0) * reached, axis=-1) - mean * mean


# --------------------------------------------------------------------------------------------- claims
#
# tracker. E[τ/K] = (γ + ... + γ^K)/K falls with K for 0 < γ < 1, so no γ̂ serves two lengths.
# tracker_in_use. At the K in use E[τ] = K E[τ/K] by definition.
# tracker_mean, tracker_variance. Unroll the last line of Algorithm 2 over n rounds.
# tracker_consistent. Draft i is examined if the i - 1 drafts before it were accepted, so min(τ + 1, K) drafts are. Each
#   of these is accepted with probability γ given the past (Wald). So τ - γ min(τ + 1, K) are martingale differences.


def _law(xp: Any, gamma: Array, length: Array) -> tuple[Array, Array]:
    """The law of τ: j = 0..max K and P(τ = j)."""
    length = _SUMMED.check(xp, "draft_length", length)
    j = xp.arange(0, int(xp.max(length)) + 1, dtype=gamma.dtype, device=gamma.device)
    k = xp.astype(length, gamma.dtype)[..., None]
    reached = gamma[..., None] ** j
    stops = xp.where(j < k, reached * (1.0 - gamma[..., None]), reached)
    return j, xp.where(j <= k, stops, xp.zeros_like(stops))


def _mean_share(acceptance: Array, draft_length: Array) -> Array:
    """E[τ/K]."""
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    UNIT_INTERVAL.check(xp, "acceptance", gamma)
    j, law = _law(xp, gamma, _LENGTH.check(xp, "draft_length", length))
    return xp.sum(j * law, axis=-1) / xp.astype(length, gamma.dtype)


def _linear_in_use(acceptance: Array, draft_length: Array) -> Array:
    """1 + γ̂K with γ̂ = E[τ/K] by the law of τ."""
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    return 1.0 + _mean_share(gamma, length) * xp.astype(length, gamma.dtype)


def _accepted_elsewhere(acceptance: Array, other_length: Array) -> Array:
    """E[τ] at the other length, by the sum γ + ... + γ^K′."""
    xp, gamma, other = arrays(acceptance=acceptance, other_length=other_length)
    return accepted_moments(xp, gamma, _LENGTH.check(xp, "other_length", other))[0]


def _extrapolated(acceptance: Array, draft_length: Array, other_length: Array) -> Array:
    """K′ E[τ/K]."""
    xp, gamma, other = arrays(acceptance=acceptance, other_length=other_length)
    return _mean_share(gamma, draft_length) * xp.astype(_LENGTH.check(xp, "other_length", other), gamma.dtype)


def _variance_of_share(acceptance: Array, draft_length: Array) -> Array:
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    j, law = _law(xp, gamma, length)
    k = xp.astype(length, gamma.dtype)[..., None]
    share = xp.where(j <= k, j / k, xp.zeros_like(law))
    return xp.sum((share - _mean_share(acceptance, draft_length)[..., None]) ** 2 * law, axis=-1)


def _unrolled(step: Array, rounds: Array, begin: Array, innovation: Array, power: int) -> Array:
    """Apply x ← (1 - μ)ᵖ x + μᵖ y n times."""
    xp, mu, n, x, y = arrays(step=step, rounds=rounds, begin=begin, innovation=innovation)
    x = x + 0.0 * (y + mu)
    for i in range(int(xp.max(n))):
        x = xp.where(n > i, (1.0 - mu) ** power * x + mu**power * y, x)
    return x


def _mean_unrolled(acceptance: Array, draft_length: Array, rounds: Array, step: Array, start: Array) -> Array:
    return _unrolled(step, rounds, start, _mean_share(acceptance, draft_length), 1)


def _mean_closed(acceptance: Array, draft_length: Array, rounds: Array, step: Array, start: Array) -> Array:
    moments = tracker_moments(acceptance, draft_length, rounds, step, method="ema_printed", start=start)
    return acceptance + moments[0]


def _variance_unrolled(acceptance: Array, draft_length: Array, rounds: Array, step: Array) -> Array:
    return _unrolled(step, rounds, 0.0 * acceptance, _variance_of_share(acceptance, draft_length), 2)


def _variance_closed(acceptance: Array, draft_length: Array, rounds: Array, step: Array) -> Array:
    return tracker_moments(acceptance, draft_length, rounds, step, method="ema_printed")[1]


def _mean_accepted(acceptance: Array, draft_length: Array) -> Array:
    """E[τ]."""
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    return _mean_share(gamma, length) * xp.astype(length, gamma.dtype)


def _mean_examined(acceptance: Array, draft_length: Array) -> Array:
    """γ E[min(τ + 1, K)]."""
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    j, law = _law(xp, gamma, _LENGTH.check(xp, "draft_length", length))
    k = xp.astype(length, gamma.dtype)[..., None]
    return gamma * xp.sum(xp.minimum(j + 1.0 + xp.zeros_like(law), k + xp.zeros_like(law)) * law, axis=-1)


_PAPER = "li2025flexspec"

CLAIMS = (
    Claim(
        id="draft_length.tracker",
        source=Source(_PAPER, "Algorithm 2, argmax over K, were γ̂ the same for every K"),
        origin=Origin.IMPLIED,
        statement="E[τ | K′] = K′ γ̂ for any length K′, with γ̂ = E[τ/K] measured at the length K in use",
        relation=Relation.EQ,
        lhs=_accepted_elsewhere,
        rhs=_extrapolated,
        refuted={"acceptance": 0.8, "draft_length": 6, "other_length": 2},
        condition=lambda other_length: 1 + other_length,
    ),
    Claim(
        id="draft_length.tracker_in_use",
        source=Source(_PAPER, "Algorithm 2, 1 + γ̂K, and last line"),
        origin=Origin.IMPLIED,
        statement="E[τ | K] + 1 = 1 + γ̂K at the length K in use, with γ̂ = E[τ/K] measured there",
        relation=Relation.EQ,
        lhs=expected_tokens,
        rhs=_linear_in_use,
        attained=Attained({"acceptance": 0.8, "draft_length": 6}),
        condition=lambda draft_length: 1 + draft_length,
    ),
    Claim(
        id="draft_length.tracker_mean",
        source=Source(_PAPER, "Algorithm 2, last line"),
        origin=Origin.NEW,
        statement="the printed average after n rounds has mean (1 − μ)ⁿγ̂₀ + (1 − (1 − μ)ⁿ)(γ + ... + γ^K)/K",
        relation=Relation.EQ,
        lhs=_mean_unrolled,
        rhs=_mean_closed,
        attained=Attained({"acceptance": 0.8, "draft_length": 6, "rounds": 20, "step": 0.1, "start": 0.8}),
    ),
    Claim(
        id="draft_length.tracker_variance",
        source=Source(_PAPER, "Algorithm 2, last line"),
        origin=Origin.NEW,
        statement="the printed average after n rounds has variance μ/(2 − μ)·(1 − (1 − μ)²ⁿ)·Var(τ/K)",
        relation=Relation.EQ,
        lhs=_variance_unrolled,
        rhs=_variance_closed,
        attained=Attained({"acceptance": 0.8, "draft_length": 6, "rounds": 20, "step": 0.1}),
    ),
    Claim(
        id="draft_length.tracker_consistent",
        source=Source(_PAPER, "Algorithm 2, last line, corrected"),
        origin=Origin.CORRECTED,
        statement="E[τ] = γ E[min(τ + 1, K)]: accepted over examined drafts estimates γ, whatever K",
        relation=Relation.EQ,
        lhs=_mean_accepted,
        rhs=_mean_examined,
        attained=Attained({"acceptance": 0.8, "draft_length": 6}),
        condition=lambda draft_length: 1 + draft_length,
    ),
)
