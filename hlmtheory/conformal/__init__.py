"""Adaptive support: a threshold that is controlled online so that the mean dropped mass meets a target.

Paper: c-sqs (bhattacharjee2025csqs) (6)-(9), Algorithm 1, Theorem 2, Appendix A.3.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q_n        rows of ``drafts``, draft model's next token    1         (..., T, V)
τ_n        ``threshold``, smallest probability kept        1         (...)
ε          ``epsilon``, target of the mean dropped mass     1         (...)
η          ``learning_rate``                               1         (...)
d_n        dropped mass, q_n outside {q_n ≥ τ_n}           1         (...)
T          ``steps``, positions                            1         (...)
V          ``vocabulary``, tokens of a row                 1         (...)
c_n        (τ_n - max q_n)⁺, amount of a clip              1         (...)
========== =============================================== ========= ===========

The update (8) is τ_{n+1} = τ_n - η(d_n - ε). The top token is always kept, since no draft can be drawn from an empty
support. The paper writes β for τ and α for ε; here those letters are the rejection probability and the acceptance rate.

Without a clip τ winds up: while the rows are peaked, d_n stays below ε and τ rises without limit. When the rows
flatten, τ needs equally many positions to come down. A clip of τ at the row's largest probability does not change the
support, except for ties of the top token. It also keeps the guarantee: the sharp bound then holds in every window of
positions, with the largest probability of the window's first row in place of τ_1. The disadvantage is that the mean
may stay below ε, which costs bits.

:mod:`hlmtheory.conformal.mass_budget` has a controller without regret: it drops no more than a budget that grows by ε
with each position.
"""

from __future__ import annotations

from hlmtheory.conformal.claims import CLAIMS
from hlmtheory.conformal.controller import Run, ThresholdController, regret_bound, regret_bound_sharp, threshold_support
from hlmtheory.conformal.mass_budget import MassBudgetController, mass_budget_bound, smallest_support

__all__ = [
    "CLAIMS",
    "MassBudgetController",
    "Run",
    "ThresholdController",
    "mass_budget_bound",
    "regret_bound",
    "regret_bound_sharp",
    "smallest_support",
    "threshold_support",
]
