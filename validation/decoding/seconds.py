"""Counts × times = seconds, of texts that were decoded and of texts that are planned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.arrays import Array

DRAFTS, PASSES, TRIPS = "drafts on the device", "passes on the server", "round trips"
UP, DOWN = "the uplink", "the downlink"
_NOTHING = 1e-9  # bits: what a sum of rounded numbers leaves


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a pass, and a link; each is a number or an array that broadcasts with the counts."""

    draft_s: Any = 0.0  # of a pass of the draft model
    target_s: Any = 0.0  # of a pass of the target model
    token_s: Any = 0.0  # that each token adds to a pass of the target model
    round_trip_s: Any = 0.0
    up_bps: Any = np.inf  # 0: the link is down
    down_bps: Any = np.inf


def parts(counts: Mapping[str, Any], times: Times) -> dict[str, Array]:
    """Return the seconds of each part, for counts by their names in :data:`validation.planning.rounds.COUNTS`.

    ``drafts`` and ``passes`` are passes of the two models, ``verified`` the tokens that the target model reads,
    ``exchanges`` the round trips, ``up_bits`` and ``down_bits`` what is sent. What is left out is 0. Bits that a link
    of rate 0 must send take for ever.
    """
    drafts, passes, verified, exchanges, up_bits, down_bits = (
        np.asarray(counts.get(name, 0.0))
        for name in ("drafts", "passes", "verified", "exchanges", "up_bits", "down_bits")
    )
    rate = np.asarray(times.up_bps, dtype=np.float64)
    up = np.where(up_bits > 0, up_bits / np.where(rate > 0, rate, 1.0), 0.0)
    return {
        DRAFTS: drafts * times.draft_s,
        PASSES: passes * times.target_s + verified * times.token_s,
        TRIPS: exchanges * times.round_trip_s,
        UP: np.where((rate > 0) | (up_bits <= _NOTHING), up, np.inf),
        DOWN: down_bits / times.down_bps,
    }


def seconds(counts: Mapping[str, Any], times: Times) -> Array:
    """Return the seconds of texts with these counts, one part after the other; see :func:`parts`."""
    return np.asarray(sum(parts(counts, times).values()))
