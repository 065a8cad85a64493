"""What a round costs, and the records of a plan for one user."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hlmtheory._domains import COUNT, number
from hlmtheory._quantities import not_negative, positive

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]


_TIME = not_negative("give a time in seconds")
_AMOUNT = not_negative("give bits")
_DOMAINS = {
    "draft_s": positive("give the time of a draft token in seconds"),
    "verify_s": positive("give the time of a verification in seconds"),
    "seconds_per_bit": positive("give 1/rate with the rate in bit/s; over a link of rate 0 nothing arrives"),
    "round_trip_s": _TIME,
    "verify_token_s": _TIME,
    "fixed_s": _TIME,
}


@dataclass(frozen=True, slots=True)
class StageCosts:
    """Times and bits of the rounds of one user.

    Parameters
    ----------
    draft_s : float
        Time of a draft token, in seconds; positive.
    verify_s : float
        Time of a verification, in seconds; positive.
    seconds_per_bit : float
        1/R, with R the rate of the whole band in bit/s; positive.
    round_trip_s : float
        Round-trip time of the link, in seconds.
    verify_token_s : float
        What each draft of a round adds to the verification, in seconds.
    fixed_s : float
        Any other time of a round, such as the downlink's, in seconds.
    header_bits, token_bits : float
        Bits of a round, and of each draft in it, besides its distribution's message.

    Raises
    ------
    ValueError
        If a value is not a finite number in its range.

    Examples
    --------
    >>> StageCosts(draft_s=0.25, verify_s=0.5, seconds_per_bit=1e-6, round_trip_s=0.125).fixed_time(2)
    1.125
    """

    draft_s: float
    verify_s: float
    seconds_per_bit: float
    round_trip_s: float = 0.0
    verify_token_s: float = 0.0
    fixed_s: float = 0.0
    header_bits: float = 0.0
    token_bits: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = number(_DOMAINS.get(field.name, _AMOUNT), field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    def _on_link(self, seconds_per_bit: float) -> StageCosts:
        """Return the same costs on another link; its seconds a bit are not checked."""
        other = copy(self)
        object.__setattr__(other, "seconds_per_bit", seconds_per_bit)
        return other

    def fixed_time(self, draft_length: int) -> float:
        """Return A(K), the time of a round of K drafts without its air time, in seconds."""
        k = number(COUNT, "draft_length", draft_length)
        server = self.verify_s + k * self.verify_token_s
        return float(k * self.draft_s + server + self.round_trip_s + self.fixed_s)


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """What a device must know of a plan: prices, and from when on the first draft of a round is skipped.

    The message is the hull's corner with the least ``bit_price`` · bits + y · risk. With m its bits' price, the device
    keeps the first draft without verification if ``skips`` and ``skip_slope`` · β̂ - m ≤ ``skip_level``.
    """

    draft_length: int  # K; 0 if the server decodes alone
    skips: bool  # whether any draft may be skipped
    bit_price: float  # tokens a bit
    first_risk_price: float  # tokens a unit of risk
    later_risk_prices: tuple[float, ...]  # of places 2 to K; without an entry as the place before
    skip_slope: float  # in tokens, as skip_level
    skip_level: float

    def risk_price(self, place: int) -> float:
        """Return y of a place of a round, from 1."""
        prices = (self.first_risk_price, *self.later_risk_prices)
        return prices[min(place, len(prices)) - 1]


@dataclass(frozen=True, slots=True)
class PlanPart:
    """Decisions that a mixture takes in a share of the rounds; fields as in :class:`UserPlan`."""

    share: float
    draft_length: int
    rule: DeviceRule
    skip: NDArray[np.bool_]
    first: Integers
    later: Integers
    tokens: float
    skip_share: float


@dataclass(frozen=True, slots=True)
class UserPlan:
    """The best decisions of one user, what they give, and a bound that no others within the limit exceed, rounded up.

    A mixture's numbers are means over all rounds; its decisions are its largest part's, which may break the limit.
    """

    draft_length: int  # K of a round that is sent; 0 if the server decodes alone
    rule: DeviceRule  # the decisions by prices, for rows that the plan has not seen
    skip: NDArray[np.bool_]  # (N,), where the first draft of a round is kept unverified
    first: Integers  # (N,), the corner that a row is sent with as first draft, also if it is skipped
    later: Integers  # (max(K - 1, 0), N), the same for places 2 to K
    tokens: float  # E, mean of a round
    fixed_s: float  # A, mean time of a round without air time
    band_s: float  # c, mean air time of a round on the whole band
    bits: float  # for each emitted token
    risk: float  # for each emitted token
    skip_share: float  # of the rounds that are one skipped draft
    rate: float  # E/(A + c), tokens a second
    upper_bound: float
    mixture: tuple[PlanPart, ...] = ()  # empty if all rounds have the decisions above

    @property
    def gap(self) -> float:
        """How much faster than this plan another could be, relative to it."""
        return max(self.upper_bound / self.rate - 1.0, 0.0)

    @property
    def parts(self) -> tuple[PlanPart, ...]:
        """The mixture; without one, all rounds as one part."""
        own = (self.draft_length, self.rule, self.skip, self.first, self.later, self.tokens, self.skip_share)
        return self.mixture or (PlanPart(1.0, *own),)

    @property
    def sent_drafts(self) -> float:
        """Mean drafts that a round sends."""
        return sum(part.share * (1.0 - part.skip_share) * part.draft_length for part in self.parts)


class Totals(NamedTuple):
    """Means over the rounds of a plan: tokens, seconds without and on air, risk, bits, skipped rounds, toll.

    The toll is what a priced server takes of the tokens' worth.
    """

    tokens: float
    fixed_s: float
    band_s: float
    risk: float
    bits: float
    skipped: float
    toll: float = 0.0

    @property
    def seconds(self) -> float:
        """The mean time of a round."""
        return self.fixed_s + self.band_s
