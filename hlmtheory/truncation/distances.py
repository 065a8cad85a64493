"""Upper bounds on Δ_k by other distances: cu-hlm IV-C asks whether they give tighter bounds, and they do not.

TV(r, r̂) ≤ Δ_k / max(TV(q, p), TV(q̂, p)) is attained, and the device knows Δ_k = TV(q, q̂) itself. A bound that
replaces this total variation by another distance of q and q̂ can only be larger. Paper: cu-hlm (oh2025cuhlm) after (21).
"""

from __future__ import annotations

_TERMS = 18
"""Terms of the series: the next one is below 2^-53 of the first for |y| < 1/8."""


# --------------------------------------------------------------------------------------------- claims
#


CLAIMS = ()
