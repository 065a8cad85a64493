"""Domains of the quantities of a link."""

from __future__ import annotations

from hlmtheory._domains import Domain
from hlmtheory._quantities import at_least_one, not_negative, positive, whole_from_one

DOMAINS = {
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "bandwidth_hz": positive("give the band of the uplink in Hz"),
    "snr": positive("give the ratio, not dB; over a dead link nothing arrives, over a noiseless one at once"),
    "distance_m": positive("give a distance in metres"),
    "reference_m": positive("give a distance in metres"),
    "reference_gain": positive("give the gain at the reference distance as a ratio, not in dB"),
    "exponent": not_negative("give the path-loss exponent: 2 in free space, 2.7 to 5 in towns"),
    "times_s": positive("a round takes some time, in seconds"),
    "bound": positive("give the number that the mean is claimed not to exceed"),
    "cut": positive("give the SNR below which a block is given up; without it the mean is infinite"),
    "width": at_least_one("give the ratio of the strip's upper end to its lower end"),
}
COUNT = whole_from_one("count tokens, or bits")
DRAWS = Domain(
    "a whole number, 0 to 10,000,000",
    lambda xp, value: (value >= 0) & (value <= 10_000_000),
    "draw more in several calls, so that memory suffices",
    kind="integer",
)
