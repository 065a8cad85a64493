"""The rounds of one user at one draft length: means of any decisions, and the best decisions at given prices.

A round is charged β̂ if its first draft is skipped, Δ of its message at the first place, and Δ at a later place times
the probability of getting there (``skipping.bill_joint``). A message depends on the row's hull and place alone.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy.costs import DeviceRule, Integers, Numbers, StageCosts, Totals
from hlmtheory.policy.hulls import Hulls, Priced

Mask = NDArray[np.bool_]

_CELLS = 8  # of the probability that a first draft is accepted, for the bound
_ALTERNATIONS = 6  # between the skipped rows and the prices of the messages


class Prices(NamedTuple):
    """θ in tokens a second, μ in tokens for each unit of risk, and the worth of a token."""

    rate: float
    risk: float = 0.0
    token: float = 1.0


class Decisions(NamedTuple):
    """The rows that are skipped as first drafts, and each row's corner as a first draft and at each later place."""

    skip: Mask  # (N,)
    first: Integers  # (N,), also of rows that are skipped
    later: Integers  # (max(K - 1, 0), N)


class Choice(NamedTuple):
    """Decisions, and the rule that makes them on new rows."""

    made: Decisions
    rule: DeviceRule


class Rounds:
    """Rounds of K drafts that begin at N rows with given weights; drafts 2 to K are at rows drawn by the weights.

    Place 2 is reached with 1 - β̂ of the row, place i with Π_{1<j<i} α_j times that. K = 0: the server decodes alone.
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
        toll: float = 0.0,
    ) -> None:
        k = draft_length
        self.hulls, self.priced, self.costs, self.length = hulls, priced, costs, k
        self.rejection, self.kept, self.weight = rejection, 1.0 - rejection, priced.weight
        self.may_skip = skipping and k > 0
        after = np.concatenate(([1.0], np.cumprod(acceptances[1:k])))[:k]  # given that the first is accepted
        self.more = float(after[: k if bonus else k - 1].sum()) if k else 0.0
        self.reached = after[: max(k - 1, 0)]  # of the later places
        self.fixed = costs.fixed_time(k)
        self.toll = toll  # tokens that a round which is sent must pay to the server
        self.plain_bits = costs.header_bits + k * costs.token_bits

    def totals(self, made: Decisions, *, charged: bool = True) -> Totals:
        """Means over rounds for any decisions; without ``charged`` a skipped row is not charged for its message."""
        w, skip, k, costs = self.weight, made.skip, self.length, self.costs
        skipped = float(w @ skip)
        sent = w * ~skip
        share = float(sent.sum())
        bits, risk, tokens = share * self.plain_bits, 0.0, share
        if k:
            bits += float(sent @ self.hulls.bits[made.first])
            risk += float(w @ (skip * self.rejection))
            risk += float((w if charged and share > 0 else sent) @ self.hulls.risk[made.first])
            tokens += self.more * float(sent @ self.kept)
        if k > 1:
            bits += share * float((self.hulls.bits[made.later] @ w).sum())
            risk += float(sent @ self.kept) * float(self.reached @ (self.hulls.risk[made.later] @ w))
        fixed = skipped * costs.draft_s + share * self.fixed
        return Totals(tokens + skipped, fixed, costs.seconds_per_bit * bits, risk, bits, skipped, share * self.toll)

    def choices(self, prices: Prices, limit: float, *, charged: bool) -> list[Choice]:
        """Good decisions at given prices: skipped rows and message prices, found in turn; the best without a skip."""
        x, k = self._bit_price(prices), self.length
        if k == 0:
            unused = self.hulls.start[:-1]  # no message is sent
            none = Decisions(np.zeros(len(self.weight), dtype=bool), unused, np.zeros((0, len(unused)), dtype=np.int64))
            return [Choice(none, self._rule(prices, limit, 0.0, 0.0))]
        sent = self.weight
        found: list[Choice] = []
        for _ in range(_ALTERNATIONS if self.may_skip else 1):
            first_price = prices.risk / max(float(sent.sum()), 1e-9) if charged else prices.risk
            rule = self._rule(prices, limit, first_price, float(sent @ self.kept) / float(sent.sum()))
            first = self.priced.corners(x, rule.first_risk_price)
            cost = x * self.hulls.bits[first] + (0.0 if charged else prices.risk) * self.hulls.risk[first]
            gain = cost - rule.skip_slope * self.rejection + rule.skip_level  # of skipping
            skip = gain >= 0 if self.may_skip else np.zeros(len(gain), dtype=bool)
            places = [self.priced.corners(x, price) for price in rule.later_risk_prices]
            later = np.stack(places) if places else np.zeros((0, len(first)), dtype=np.int64)
            known = any((skip == other.made.skip).all() for other in found)
            found.append(Choice(Decisions(skip, first, later), rule))
            sent = self.weight * ~skip
            if known or not sent.any():
                break
        return found

    def best(self, prices: Prices, limit: float, *, charged: bool) -> tuple[Choice, Totals]:
        """The best of the choices at given prices, of all drafts skipped and of none, and its means."""
        found = self.choices(prices, limit, charged=charged)
        if self.may_skip:
            made, rule = found[-1]
            found += [Choice(made._replace(skip=np.full(len(self.weight), skip)), rule) for skip in (True, False)]
        means = [self.totals(choice.made, charged=charged) for choice in found]
        place = int(np.argmax([self._worth_of(totals, prices, limit) for totals in means]))
        return found[place], means[place]

    def value(self, prices: Prices, limit: float) -> float:
        """An upper bound on V, the value of all decisions, even if skipped rows are not charged for their messages.

        Later corners follow from the mean acceptance of the sent rows, by cells (proof of ``policy.user_bound``).
        """
        x, worth, costs, k = self._bit_price(prices), self._worth(prices, limit), self.costs, self.length
        paid = prices.rate * self.fixed + x * self.plain_bits + prices.token * self.toll
        send = worth - paid + 0.0 * self.weight
        size = worth + paid + 0.0 * self.weight  # of the terms, which cancel
        rounding = (len(self.weight) + 16) * 2.0**-52
        if k == 0:
            return float(self.weight @ (send + rounding * size))
        first = self.priced.corners(x, prices.risk)
        cost = x * self.hulls.bits[first] + prices.risk * self.hulls.risk[first]
        send, size = send + worth * self.more * self.kept - cost, size + worth * self.more * self.kept + cost
        if not self.may_skip:
            bits, risk = self._later(x, prices.risk * np.atleast_1d(self.weight @ self.kept))
            rest = x * bits[0] + prices.risk * risk[0] * (self.weight @ self.kept)
            return float(self.weight @ (send + rounding * size) - rest * (1.0 - rounding))
        kept_s = prices.risk * self.rejection + prices.rate * costs.draft_s
        alone = worth - kept_s + rounding * (worth + kept_s)
        later = self._later_costs(x, prices.risk) if k > 1 else np.zeros((1, len(send)))
        return float((np.maximum(alone, send + rounding * size - later * (1.0 - rounding)) @ self.weight).max())

    def _later_costs(self, x: float, risk: float) -> Numbers:
        """Lower bounds on the cost of the later places, by cell and row."""
        own = self.kept
        edges = np.linspace(own.min(), own.max(), _CELLS + 1 if own.max() > own.min() else 2)
        bits, lost = self._later(x, risk * edges)
        cost = x * bits + risk * edges * lost
        below = x * bits[:-1, None] + risk * lost[:-1, None] * self.kept
        above = x * bits[1:, None] + risk * lost[1:, None] * self.kept
        within = np.interp(self.kept, edges, cost)
        low, high = edges[:-1, None], edges[1:, None]
        return np.where(self.kept <= low, below, np.where(self.kept >= high, above, within))

    def _later(self, x: float, price: Numbers) -> tuple[Numbers, Numbers]:
        """Mean bits of the later places, and their risk if place 2 is reached, at prices of risk in place 2."""
        bits, risk = self.priced.mean(x, price[:, None] * self.reached)
        return bits.sum(axis=-1), risk @ self.reached

    def _rule(self, prices: Prices, limit: float, first: float, kept: float) -> DeviceRule:
        """The rule of given prices, with the price of risk in first messages and the mean acceptance of sent rows."""
        k, costs, x = self.length, self.costs, self._bit_price(prices)
        worth, later = self._worth(prices, limit), prices.risk * kept * self.reached
        bits, risk = self._later(x, np.atleast_1d(prices.risk * kept))
        rest = x * (float(bits[0]) + self.plain_bits) + prices.token * self.toll
        rest += prices.rate * (self.fixed - costs.draft_s)
        # send: (1 - β̂) (worth · more - risk of later places) - bits of the first message - rest; skip: - μ β̂
        accepted = worth * self.more - prices.risk * float(risk[0])
        return DeviceRule(k, self.may_skip, x, first, tuple(later.tolist()), prices.risk - accepted, rest - accepted)

    @cached_property
    def least_seconds(self) -> float:
        """A lower bound on the mean time of a round, whatever is decided."""
        costs = self.costs
        least = self.hulls.bits[self.hulls.start[:-1]]
        bits = self.plain_bits + (least + (self.length - 1) * float(self.weight @ least) if self.length else 0.0)
        sent = self.fixed + costs.seconds_per_bit * bits + np.zeros(len(self.weight))
        return float(self.weight @ (np.minimum(sent, costs.draft_s) if self.may_skip else sent))

    def _worth(self, prices: Prices, limit: float) -> float:
        """A token's value: its own, and what the limit allows for each token, at its price."""
        return prices.token + (prices.risk * limit if prices.risk else 0.0)

    def _worth_of(self, totals: Totals, prices: Prices, limit: float) -> float:
        spent = prices.rate * totals.seconds + prices.risk * totals.risk
        return self._worth(prices, limit) * totals.tokens - prices.token * totals.toll - spent

    def _bit_price(self, prices: Prices) -> float:
        return prices.rate * self.costs.seconds_per_bit
