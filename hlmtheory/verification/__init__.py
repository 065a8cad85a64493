"""Acceptance, rejection and resampling: the distribution of what speculative decoding emits.

Papers: cu-hlm (oh2025cuhlm) (2)-(3), u-hlm (oh2024uhlm) (9)-(10), edge-sd (7), flexspec Algorithm 2; the rule itself is
Leviathan and others, 2023 (leviathan2023fast) and Chen and others, 2023 (chen2023accelerating).

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q          ``draft``, draft model's distribution           1         (..., V)
p          ``target``, target model's distribution         1         (..., V)
r          ``residual`` (p − q)⁺, normalised               1         (..., V)
β_v        probability that v is rejected, (1 − p_v/q_v)⁺  1         (..., V)
s_v        ``skip``, probability of no verification        1         (..., V)
α          acceptance rate Σ min(p, q)                     1         (...)
K          ``draft_length``                                tokens    (...)
========== =============================================== ========= ===========

A draft v ~ q is accepted with probability 1 - β_v = min(1, p_v/q_v); a rejected one is replaced by a
token from r. Where q_v = 0 the draft v never occurs and β_v is 0. Where TV(q, p) = 0 nothing is
rejected, so r does not exist and its entries are all 0.

Results are float64 if an argument is, else float32; plain numbers take the library and type of the arrays in the call.
"""

from hlmtheory.verification.block import block_weights
from hlmtheory.verification.intervals import acceptance_interval
from hlmtheory.verification.lossy import lossy_price
from hlmtheory.verification.rule import (
    acceptance_rate,
    output_distribution,
    rejection_probability,
    residual_distribution,
    softmax,
    total_variation,
)
from hlmtheory.verification.tokens import expected_tokens
from hlmtheory.verification.updates import acceptance_after_update

__all__ = [
    "acceptance_after_update",
    "acceptance_interval",
    "acceptance_rate",
    "block_weights",
    "expected_tokens",
    "lossy_price",
    "output_distribution",
    "rejection_probability",
    "residual_distribution",
    "softmax",
    "total_variation",
]
