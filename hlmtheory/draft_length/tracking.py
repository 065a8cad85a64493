"""Estimates of the acceptance rate from past rounds: flexspec's moving average, and a consistent estimate.

Paper: flexspec (li2025flexspec) Algorithm 2, last line. Part of the module ``draft_length``; τ of K drafts are
accepted, each with probability γ if all drafts before it were accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import UNIT_INTERVAL, number, option
from hlmtheory._quantities import not_negative, positive, whole_from_one, whole_in

LENGTH = whole_from_one("a round drafts at least one token")
_SUMMED = whole_in(1, 65_536, "its law is summed term by term; no round has so long a draft")
_TRACKER = {
    "step": UNIT_INTERVAL,
    "accepted": not_negative("give how many drafts were accepted"),
    "examined": positive("give the weight of the first estimate, in drafts"),
}
_METHODS = ("ema_printed", "consistent")


@dataclass(frozen=True, slots=True)
class AcceptanceTracker:
    """A running estimate of γ from past rounds: flexspec's moving average as printed, or a consistent estimate.

    "ema_printed" is Algorithm 2: γ̂ ← (1 - μ)γ̂ + μ τ/K, the share accepted at this K, wrong at other lengths.
    "consistent" is accepted over examined drafts, min(τ + 1, K) per round, both with forgetting rate μ, for every K.

    Parameters
    ----------
    step : float
        μ in [0, 1].
    method : {"ema_printed", "consistent"}
    accepted, examined : float
        Numerator and denominator of the estimate: for γ̂ = 0.8 and the weight of 10 drafts, 8 and 10.

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
        """The tracker after one more round, in which τ of K drafts were accepted."""
        draft_length = number(LENGTH, "draft_length", draft_length)
        accepted = number(whole_in(0, draft_length, "at most all drafts are accepted"), "accepted", accepted)
        keep = 1.0 - self.step
        if self.method == "ema_printed":  # Algorithm 2, last line
            return replace(self, accepted=keep * self.estimate + self.step * accepted / draft_length, examined=1.0)
        examined = min(accepted + 1, draft_length)
        return replace(self, accepted=keep * self.accepted + accepted, examined=keep * self.examined + examined)


# --------------------------------------------------------------------------------------------- claims


def law_side(xp: Any, gamma: Array, length: Array) -> tuple[Array, Array]:
    """The law of τ: j = 0..max K and P(τ = j)."""
    length = _SUMMED.check(xp, "draft_length", length)
    j = xp.arange(0, int(xp.max(length)) + 1, dtype=gamma.dtype, device=gamma.device)
    k = xp.astype(length, gamma.dtype)[..., None]
    reached = gamma[..., None] ** j
    stops = xp.where(j < k, reached * (1.0 - gamma[..., None]), reached)
    return j, xp.where(j <= k, stops, xp.zeros_like(stops))


def mean_share(acceptance: Array, draft_length: Array) -> Array:
    """Return what ``draft_length.tracker`` takes."""
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    UNIT_INTERVAL.check(xp, "acceptance", gamma)
    j, law = law_side(xp, gamma, LENGTH.check(xp, "draft_length", length))
    return xp.sum(j * law, axis=-1) / xp.astype(length, gamma.dtype)


def linear_in_use(acceptance: Array, draft_length: Array) -> Array:
    """1 + γ̂K with γ̂ = E[τ/K] by the law of τ."""
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    return 1.0 + mean_share(gamma, length) * xp.astype(length, gamma.dtype)
