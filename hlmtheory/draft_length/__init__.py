"""How many tokens to draft in a round: throughput ETGR(K) = E(K)/T(K), T(K) = F + K M, and its maximiser.

Papers: flexspec (li2025flexspec) (2), (7)-(11), Algorithm 2, Table I and Fig. 6; sun2026delay for the delay. E(K)
counts the server's own token, as the 1 + γ̂K of Algorithm 2 does; the τ of (2) and (11) counts accepted drafts alone.
F and M may be any cost that is affine in K: seconds, joules, bytes, or a weighted sum of them.
"""

from hlmtheory.draft_length.censored import acceptance_by_depth, tokens_by_length
from hlmtheory.draft_length.delay import critical_delays
from hlmtheory.draft_length.online import online_regret_bound, optimistic_draft_length
from hlmtheory.draft_length.optimum import draft_length_regret, optimal_draft_length
from hlmtheory.draft_length.published import split_tokens
from hlmtheory.draft_length.rates import etgr
from hlmtheory.draft_length.rounds import round_costs
from hlmtheory.draft_length.tracking import AcceptanceTracker

__all__ = [
    "AcceptanceTracker",
    "acceptance_by_depth",
    "critical_delays",
    "draft_length_regret",
    "etgr",
    "online_regret_bound",
    "optimal_draft_length",
    "optimistic_draft_length",
    "round_costs",
    "split_tokens",
    "tokens_by_length",
]
