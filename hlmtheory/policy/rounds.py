"""The rounds of one user at one draft length: means of any decisions, and the best decisions at given prices."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy.costs import DeviceRule, Integers, Numbers, StageCosts, Totals
from hlmtheory.policy.hulls import Hulls, Priced

Mask = NDArray[np.bool_]


class Prices(NamedTuple):
    """θ in tokens a second, μ in tokens for each unit of risk, κ in tokens a joule, and the worth of a token."""

    rate: float
    risk: float = 0.0
    joules: float = 0.0
    token: float = 1.0


class Limits(NamedTuple):
    """The most risk and the most joules for each emitted token; infinite without a limit."""

    risk: float = math.inf
    joules: float = math.inf


class Decisions(NamedTuple):
    """Which rows are skipped as first drafts, and the corners that rows send as first and as later drafts."""

    skip: Mask
    first: Integers
    later: Integers


class Rounds:
    """Rounds of K drafts that begin at N rows with given weights.

    If the first draft is skipped, the round is over: 1 token, no bits, the risk β̂ of the row. Otherwise K drafts are
    sent. The others of them are rows as likely as any. Place i is reached with the probability Π_{j<i} α_j. With K = 0
    the server decodes one token alone. A round that is sent is worth ``toll`` tokens less than those it gives.
    """

    def __init__(
        self,
        hulls: Hulls,
        priced: Priced,
        costs: StageCosts,
        acceptances: Numbers,
        rejection: Numbers,
        draft_length: int,
        *,
        skipping: bool,
        bonus: bool,
        blocked: Mask | None = None,
        toll: float = 0.0,
    ) -> None:
        k = draft_length
        self.hulls, self.priced, self.costs, self.length = hulls, priced, costs, k
        self.rejection, self.weight = rejection, priced.weight
        self.may_skip, self.capped = skipping and k > 0, blocked is not None
        self.blocked = np.zeros(len(rejection), dtype=bool) if blocked is None else blocked  # rows that cannot be sent
        after = np.concatenate(([1.0], np.cumprod(acceptances[1:k])))[:k]  # given that the first is accepted
        self.more = float(after[: k if bonus else k - 1].sum()) if k else 0.0
        self.reached = float(np.cumprod(acceptances[: k - 1]).sum()) if k > 1 else 0.0
        self.fixed = costs.fixed_time(k)
        self.toll = toll  # tokens that a round which is sent must pay to the server
        self.plain_bits = costs.header_bits + k * costs.token_bits

    def totals(self, made: Decisions) -> Totals:
        """Means over rounds for any decisions."""
        w, skip, k, costs = self.weight, made.skip, self.length, self.costs
        skipped = float(w @ skip)
        sent = w * ~skip
        share = float(sent.sum())
        bits, risk, tokens = share * self.plain_bits, 0.0, share
        if k:
            bits += float(sent @ self.hulls.bits[made.first])
            risk += float(sent @ self.hulls.risk[made.first]) + float(w @ (skip * self.rejection))
            tokens += self.more * float(sent @ (1.0 - self.rejection))
        if k > 1:
            bits += share * (k - 1) * float(w @ self.hulls.bits[made.later])
            risk += share * self.reached * float(w @ self.hulls.risk[made.later])
        joules = skipped * costs.draft_j + share * (k * costs.draft_j + costs.round_j) + costs.joules_per_bit * bits
        fixed = skipped * costs.draft_s + share * self.fixed
        return Totals(
            tokens + skipped, fixed, costs.seconds_per_bit * bits, risk, joules, bits, skipped, share * self.toll
        )

    def rule(self, prices: Prices, limits: Limits) -> DeviceRule:
        """The decisions at given prices, as numbers that a device can apply to a new row."""
        k, costs, x = self.length, self.costs, self._bit_price(prices)
        worth = self._worth(prices, limits)
        later = prices.risk * self.reached / (k - 1) if k > 1 else 0.0
        bits, risk = self.priced.mean(x, later) if k > 1 else (0.0, 0.0)
        rest = (k - 1) * (x * bits + later * risk) + x * self.plain_bits
        rest += prices.rate * (self.fixed - costs.draft_s) + prices.joules * ((k - 1) * costs.draft_j + costs.round_j)
        rest += prices.token * self.toll
        # skip: worth - μ β̂ ≥ worth (1 + (1 - β̂) S) - m - rest
        slope = prices.risk - worth * self.more
        return DeviceRule(k, self.may_skip, x, prices.risk, later, slope, rest - worth * self.more)

    def best(self, prices: Prices, limits: Limits) -> tuple[Decisions, float]:
        """The decisions with the most value at given prices, and this value V."""
        rule, costs = self.rule(prices, limits), self.costs
        worth, rows = self._worth(prices, limits), len(self.weight)
        if self.length == 0:
            paid = prices.rate * self.fixed + rule.bit_price * self.plain_bits + prices.joules * costs.round_j
            value = worth - paid - prices.token * self.toll
            unused = self.hulls.start[:-1]  # no message is sent
            return Decisions(np.zeros(rows, dtype=bool), unused, unused), value
        first = self.priced.corners(rule.bit_price, rule.first_risk_price)
        cost = rule.bit_price * self.hulls.bits[first] + prices.risk * self.hulls.risk[first]
        alone = worth - prices.risk * self.rejection - prices.rate * costs.draft_s - prices.joules * costs.draft_j
        gain = cost - rule.skip_slope * self.rejection + rule.skip_level  # of skipping
        skip = (gain >= 0) | self.blocked if self.may_skip else np.zeros(rows, dtype=bool)
        value = float(self.weight @ np.where(skip, alone, alone - gain))
        later = self.priced.corners(rule.bit_price, rule.later_risk_price)
        return Decisions(skip, first, later), value

    @cached_property
    def least_seconds(self) -> float:
        """A lower bound on the mean time of a round, whatever is decided."""
        costs = self.costs
        least = self.hulls.bits[self.hulls.start[:-1]]
        bits = self.plain_bits + (least + (self.length - 1) * float(self.weight @ least) if self.length else 0.0)
        sent = self.fixed + costs.seconds_per_bit * bits + np.zeros(len(self.weight))
        return float(self.weight @ (np.minimum(sent, costs.draft_s) if self.may_skip else sent))

    def _worth(self, prices: Prices, limits: Limits) -> float:
        """A token's value: its own, and what the limits allow for each token, at their prices."""
        risk = prices.risk * limits.risk if prices.risk else 0.0
        return prices.token + risk + (prices.joules * limits.joules if prices.joules else 0.0)

    def _bit_price(self, prices: Prices) -> float:
        return prices.rate * self.costs.seconds_per_bit + prices.joules * self.costs.joules_per_bit
