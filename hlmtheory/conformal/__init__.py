"""Adaptive support: a threshold that is controlled online so that the mean dropped mass meets a target.

Paper: c-sqs (bhattacharjee2025csqs) (6)-(9), Algorithm 1, Theorem 2, Appendix A.3.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q_n        ``drafts``, q at position n, given its prefix   1         (..., T, V)
τ_n        ``threshold``, smallest probability kept        1         (...)
ε          ``epsilon``, target of the mean dropped mass     1         (...)
η          ``learning_rate``                               1         (...)
d_n        mass of q_n below τ_n, but for the top token    1         (...)
K_n        tokens that are kept at position n              tokens    (...)
T          ``steps``, positions                            1         (...)
========== =============================================== ========= ===========

The update (8) is τ_{n+1} = τ_n - η(d_n - ε). The top token is always kept, since no draft can be drawn from an empty
support. The paper writes β for τ and α for ε; here those letters are the rejection probability and the acceptance rate.

The threshold winds up: while the rows are peaked, d_n stays below ε and τ rises without limit. When the rows flatten,
τ needs equally many positions to come down. A budget has no regret: it drops no more than what grows by ε with each
position.
"""

from hlmtheory.conformal.controller import MassBudgetController, ThresholdController, regret_bound, threshold_support

__all__ = ["MassBudgetController", "ThresholdController", "regret_bound", "threshold_support"]
