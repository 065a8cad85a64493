"""How many tokens to draft in a round: throughput as a function of the draft length, and its maximiser.

Papers: flexspec (li2025flexspec) (2), (7)-(11), Algorithm 2, Table I and Fig. 6; sun2026delay for the delay.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
γ          ``acceptance``, of a draft given those before   1         (...)
K          ``draft_length``                                tokens    (...)
K_max      ``max_draft_length``                            tokens    (...)
F          ``fixed``, T_fixed: cost of a round's start     s         (...)
M          ``marginal``, T_marginal: what each draft adds  s         (...)
T(K)       F + K M                                         s         (...)
τ          ``accepted`` drafts of a round                  tokens    (...)
E(K)       expected tokens of a round, with the server's:  tokens    (...)
           (1 - γ^{K+1})/(1 - γ)
ETGR(K)    E(K)/T(K), effective token generation rate      tokens/s  (...)
μ          ``step`` of a tracker                           1         (...)
========== =============================================== ========= ===========

F and M may be any cost that is affine in K: seconds, joules, bytes, or a weighted sum of them. The same
maximiser then gives the most tokens per unit of that cost.
"""

from __future__ import annotations

from hlmtheory.draft_length.censored import DepthAcceptance, TokensByLength, acceptance_by_depth, tokens_by_length
from hlmtheory.draft_length.claims import CLAIMS
from hlmtheory.draft_length.delay import critical_delays
from hlmtheory.draft_length.online import online_regret_bound, optimistic_draft_length
from hlmtheory.draft_length.optimum import optimal_draft_length, optimal_draft_length_profile, surrogate_draft_length
from hlmtheory.draft_length.published import mean_interval, position_interval, single_rate, split_tokens
from hlmtheory.draft_length.rates import cost_per_token, etgr
from hlmtheory.draft_length.regret import draft_length_regret
from hlmtheory.draft_length.rounds import round_costs, synchronisation_time
from hlmtheory.draft_length.tracking import AcceptanceTracker

__all__ = [
    "CLAIMS",
    "AcceptanceTracker",
    "DepthAcceptance",
    "TokensByLength",
    "acceptance_by_depth",
    "cost_per_token",
    "critical_delays",
    "draft_length_regret",
    "etgr",
    "mean_interval",
    "online_regret_bound",
    "optimal_draft_length",
    "optimal_draft_length_profile",
    "optimistic_draft_length",
    "position_interval",
    "round_costs",
    "single_rate",
    "split_tokens",
    "surrogate_draft_length",
    "synchronisation_time",
    "tokens_by_length",
]
