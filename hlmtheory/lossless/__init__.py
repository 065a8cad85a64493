"""Whether a sampler keeps the target's law, from its draws: bounds on the total variation, and power."""

from __future__ import annotations

from hlmtheory.lossless.ceiling import distance_ceiling
from hlmtheory.lossless.evidence import LawTest, distance_bound, law_wealth
from hlmtheory.lossless.power import draws_to_find, power_to_find, smallest_found

CLAIMS = ()

__all__ = [
    "CLAIMS",
    "LawTest",
    "distance_bound",
    "distance_ceiling",
    "draws_to_find",
    "law_wealth",
    "power_to_find",
    "smallest_found",
]
