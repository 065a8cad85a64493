"""What the envelopes of messages and answers cost a plan: see :mod:`hlmtheory.policy.session`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlmtheory.policy import envelope_bits
from validation.planning.menu import Option
from validation.planning.rounds import COUNTS

ROUNDS = 128
"""Rounds of a text, so that their number takes one byte."""

SEALS = {
    "none": 0,
    "checksum": envelope_bits(ROUNDS, authenticated=False),
    "hmac": envelope_bits(ROUNDS, authenticated=True),
}
"""Bits of an envelope, by the name that the command line has for it."""


def sealed(options: Sequence[Option], seal: str) -> list[Option]:
    """Return the options with an envelope around each message to the server and each answer."""
    bits = SEALS[seal]
    if not bits:
        return list(options)
    found = []
    for option in options:
        counts = option.counts.copy()
        for direction in ("up_bits", "down_bits"):
            counts[..., COUNTS.index(direction)] += bits * counts[..., COUNTS.index("exchanges")]
        found.append(replace(option, counts=counts))
    return found
