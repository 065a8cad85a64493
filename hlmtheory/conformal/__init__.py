"""Adaptive support: a threshold steered online, so that the dropped mass averages a target, and what it guarantees.

Paper: c-sqs (bhattacharjee2025csqs) (6)-(9), Algorithm 1, Theorem 2, Appendix A.3.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q_n        rows of ``drafts``, draft model's next token    1         (..., T, V)
τ_n        ``threshold``, smallest probability kept        1         (...)
ε          ``epsilon``, dropped mass that is aimed at      1         (...)
η          ``learning_rate``                               1         (...)
d_n        dropped mass, q_n outside {q_n ≥ τ_n}           1         (...)
T          ``steps``, positions                            1         (...)
V          ``vocabulary``, tokens of a row                 1         (...)
c_n        (τ_n - max q_n)⁺, what a clip takes off         1         (...)
========== =============================================== ========= ===========

The update (8) is τ_{n+1} = τ_n - η(d_n - ε). The top token is always kept: with an empty support there is nothing to
draw from. The paper writes β for τ and α for ε, which are rejection probability and acceptance rate here.

Without a clip τ winds up: while the rows are peaked, d_n stays below ε and τ rises without limit, and it takes as long
to come down when they flatten. A clip of τ at the row's largest probability keeps the support as it is, but for ties of
the top, and keeps the guarantee: with it the sharp bound holds in every window of time, with the window's first largest
probability in the place of τ_1. What it gives up is the other side: the mean may stay below ε, at the price of bits.
"""

from __future__ import annotations

from hlmtheory.conformal.claims import CLAIMS
from hlmtheory.conformal.controller import (
    ThresholdController,
    regret_bound,
    regret_bound_rate,
    regret_bound_sharp,
    threshold_support,
)

__all__ = [
    "CLAIMS",
    "ThresholdController",
    "regret_bound",
    "regret_bound_rate",
    "regret_bound_sharp",
    "threshold_support",
]
