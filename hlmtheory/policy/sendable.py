"""What the device of a policy can send, as far as a server can tell that does not know the draft model's distribution.

A row is accepted if the device sends it for some q at the policy's temperature and, under ``CertifiedRows``, at the
rule's prices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hlmtheory._combinatorics import about_log2
from hlmtheory.codec.enumerative import LONGEST_INDEX
from hlmtheory.codec.frame import LATTICE_ROWS, LONGEST_MESSAGE, MIXED_ROWS, TOKENS, Limits, UnexpectedError
from hlmtheory.codec.menu import PROBABILITY_BITS
from hlmtheory.codec.messages import KINDS, TOP_K, LatticeDraft, TokenDraft
from hlmtheory.codec.reachable import quantised, written
from hlmtheory.policy.codec_hulls import Entries, codec_hulls, entries
from hlmtheory.policy.device import DevicePolicy, cheapest_corner
from hlmtheory.policy.device_parts import CertifiedRows, Coded, LatticeRows, SeededTokens, StreamedTokens

NO_ROW_BITS = 4
"""A row of no probabilities: its kind, no size, and a width of 1."""

Entry = tuple[str, int, int]
"""The kind of a row, its K, and its b or ℓ."""

_NEAR = 1e-9  # a sum of probabilities is rounded
_HEAD = 32
"""More bytes than the frame and the head of a message take: 2 + 4 + 4, then 3 + 2 + 1 + 3 + 4."""


@dataclass(frozen=True, slots=True)
class Sendable:
    """What one policy's device can send."""

    policy: DevicePolicy
    places: tuple[frozenset[Entry], ...]  # coded rows of each place of a message, the last also of later ones
    tokens: int  # the most tokens of a quantised row; 0 without quantised rows
    drafts: int  # the most drafts of a message; 0 if every first draft is skipped
    longest: int  # the most bytes of a message

    @classmethod
    def of(cls, policy: DevicePolicy) -> Sendable:
        """Return what the device of a policy can send."""
        messages, vocabulary, tokens = policy.messages, policy.vocabulary, 0
        places: tuple[frozenset[Entry], ...] = (frozenset({(TOP_K, 0, 1)}),)
        bits = float(NO_ROW_BITS)
        if isinstance(messages, CertifiedRows):
            places, bits = _certified(policy, messages)
        elif isinstance(messages, LatticeRows):
            places = (frozenset(),)
            tokens, bits = _quantised(policy, messages)
        sends = (tokens or places[0]) and not _always_skips(policy, 0.0)
        drafts = policy.rule.draft_length if sends else 0
        own = 0 if tokens or isinstance(messages, SeededTokens) else PROBABILITY_BITS
        body = -(-drafts * (int(bits) + own + (vocabulary - 1).bit_length()) // 8)
        longest = _HEAD + (min(body, LONGEST_INDEX) if tokens else body)
        return cls(policy, places, tokens, drafts, min(longest, LONGEST_MESSAGE))

    def limits(self) -> Limits:
        """Return what is checked before a message is decoded."""
        kinds = {LatticeRows: LATTICE_ROWS, SeededTokens: TOKENS, StreamedTokens: TOKENS}
        kind = kinds.get(type(self.policy.messages), MIXED_ROWS)
        return Limits(kind, self.policy.vocabulary, self.drafts, self.longest, self.check_row)

    def check_row(self, place: int, kind: str, size: int, parameter: int) -> None:
        """Refuse a row of a K, b or ℓ that the policy's device cannot choose."""
        messages = self.policy.messages
        if isinstance(messages, LatticeRows):
            good = size <= self.tokens and parameter == messages.resolution
        else:
            good = (kind, size, parameter) in self.places[min(place, len(self.places) - 1)]
        if not good:
            raise UnexpectedError(f"draft {place} as {kind} of {size} tokens at {parameter} units or bits")

    def check_draft(self, place: int, draft: Coded) -> None:
        """Refuse values that no distribution at the policy's temperature has."""
        vocabulary, messages = self.policy.vocabulary, self.policy.messages
        if isinstance(draft, TokenDraft):
            return
        if isinstance(draft, LatticeDraft):
            threshold = messages.threshold if isinstance(messages, LatticeRows) else 0.0
            good = quantised(draft, threshold, vocabulary)
        else:
            certain = self.policy.temperature > 0 or draft.probability == 1.0
            good = certain and written(draft, vocabulary)
        if not good:
            raise UnexpectedError(f"draft {place} with values of no distribution at this temperature and threshold")


def _quantised(policy: DevicePolicy, messages: LatticeRows) -> tuple[int, float]:
    """The most tokens of a quantised row, and at least as many bits as one takes with its size and its token."""
    vocabulary, units = policy.vocabulary, messages.resolution
    most = min(messages.top_k or vocabulary, vocabulary, units)
    if messages.threshold > 0:
        most = max(1, int(min(most, (1.0 + _NEAR) / messages.threshold)))  # the quotient may be infinite
    if policy.temperature == 0:
        most = 1
    sets = about_log2(vocabulary, min(most, vocabulary // 2))
    return most, sets + about_log2(units + most - 1, most - 1) + math.log2(most) + math.log2(vocabulary) + 2.0


def _certified(policy: DevicePolicy, messages: CertifiedRows) -> tuple[tuple[frozenset[Entry], ...], float]:
    """The menu's entries that the prices allow at each place of a round, and the most bits of one."""
    menu, rule = entries(policy.vocabulary, messages.menu), policy.rule
    least = menu.bits.min()
    fits = policy.bits_limit is None or bool(least <= policy.bits_limit)
    near = menu.bits <= (max(policy.bits_limit, int(least)) if policy.bits_limit is not None else menu.bits.max())
    allowed = []
    for price in (rule.first_risk_price, *rule.later_risk_prices):
        good = near & (menu.bits == least) if price <= 0 else near
        if policy.temperature == 0:  # q is known up to the order of its tokens
            good = good & _certain(policy, messages, menu, price)
        allowed.append(good)
    if rule.skips:
        sent = [fits and not _always_skips(policy, rule.bit_price * float(bits)) for bits in menu.bits.tolist()]
        # without prices of their own, later places have the first one's, and are not skipped
        allowed = [allowed[0] & np.asarray(sent), *(allowed[1:] or allowed)]
    names = [KINDS[kind] for kind in menu.kind.tolist()]
    every = list(zip(names, menu.k.tolist(), menu.parameter.tolist(), strict=True))
    places = tuple(frozenset(every[n] for n in np.flatnonzero(good).tolist()) for good in allowed)
    return places, float(menu.bits[np.logical_or.reduce(allowed)].max(initial=0))


def _certain(policy: DevicePolicy, messages: CertifiedRows, menu: Entries, price: float) -> NDArray[np.bool_]:
    """Which entry the device chooses for a distribution with a single 1."""
    hulls = codec_hulls(np.eye(1, policy.vocabulary), menu=messages.menu)
    corner, _ = cheapest_corner(hulls, policy.rule.bit_price, price, policy.bits_limit)
    return np.asarray(np.arange(len(menu.bits)) == hulls.entry[corner])


def _always_skips(policy: DevicePolicy, cost: float) -> bool:
    """Whether the rule skips a first draft at this cost or more, whatever its uncertainty in [0, 1] is."""
    rule, line = policy.rule, policy.line
    if not rule.skips or line is None:
        return False
    ends = (min(max(line.slope * u + line.intercept, 0.0), 1.0) for u in (0.0, 1.0))
    return cost - max(rule.skip_slope * beta for beta in ends) + rule.skip_level >= 0
