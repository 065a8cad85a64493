"""Whether a sampler keeps the target's law, from its draws: bounds on the total variation, and power."""

from __future__ import annotations

from hlmtheory.lossless.evidence import LawTest, distance_bound, law_wealth

CLAIMS = ()

__all__ = ["CLAIMS", "LawTest", "distance_bound", "law_wealth"]
