"""When to stay on the device: thresholds, what skipping costs, and guarantees for it.

Papers: cu-hlm (oh2025cuhlm) (10)-(14) and Theorem 1, u-hlm (oh2024uhlm) (8)-(14); angelopoulos2022crc.

========== ==================================================== ========= ===========
symbol     name                                                 unit      shape
========== ==================================================== ========= ===========
q          ``draft``, draft model's distribution                1         (..., V)
p          ``target``, target model's distribution              1         (..., V)
d          the draft token                                      1
β_v        probability that v is rejected, (1 − p_v/q_v)⁺       1         (..., V)
s_v        ``skip``, probability that draft v is not sent       1         (..., V)
u, u_th    uncertainty; skip where u ≤ u_th                     1         (...)
a, b       ``slope``, ``intercept`` of the line β = a u + b     1         (...)
Δ          ``non_acceptance``, P(p_d < q_d)                     1         (...)
I          uncertainties from -b/a to (Δ - b)/a                 1
R          the papers' rejection risk ∫_I (a u + b) f(u) du     1         (...)
k(v), r̂    ``top_k``, entries sent for draft v; the residual    tokens    (..., V)
ε, B       ``risk`` wanted on average; largest loss ``bound``   1         (...)
========== ==================================================== ========= ===========

A skipped draft is emitted unverified, so TV(law of the emitted token, p) = Σ_v q_v s_v β_v (one_step_risk); its sum
along texts bounds the TV of whole texts. The papers' R replaces β by a u + b and omits u < -b/a (surrogate_gap).

Types and normalisation are those of :mod:`hlmtheory.verification`.
"""

from hlmtheory.skipping.audit import SkipAudit, audit_bound
from hlmtheory.skipping.calibration import calibrate
from hlmtheory.skipping.confident import confident_threshold
from hlmtheory.skipping.holder import holder_bound, rejection_risk, skip_thresholds
from hlmtheory.skipping.risk import non_acceptance, one_step_risk
from hlmtheory.skipping.text_risk import text_risk

__all__ = [
    "SkipAudit",
    "audit_bound",
    "calibrate",
    "confident_threshold",
    "holder_bound",
    "non_acceptance",
    "one_step_risk",
    "rejection_risk",
    "skip_thresholds",
    "text_risk",
]
