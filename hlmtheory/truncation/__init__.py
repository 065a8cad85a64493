"""Sending k of V probabilities: what the server reconstructs, and how far the emitted distribution is off.

Paper: cu-hlm (oh2025cuhlm) Section IV, (15)-(24), Propositions 1 and 2. ``reconstruction`` is about one given k;
``sizes`` and ``rules`` choose it. ``message`` and ``levels`` are about what is sent, ``softplus`` about the online
bound, ``multi_draft`` about several drafts of a position, and ``partial``, ``boxes`` and ``box_sizes`` about p and q of
which only a part is known. Their claims are in :mod:`hlmtheory.theorems`.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q          ``draft``, draft model's distribution           1         (..., V)
p          ``target``, target model's distribution         1         (..., V)
q̂          truncated q: k largest entries, rest uniform    1         (..., V)
k          ``k``, top-k: entries of q that are sent        tokens    (...)
Δ_k        tail deviation TV(q, q̂)                         1         (..., V + 1)
r          residual (p − q)⁺, normalised                   1         (..., V)
r̂          distorted residual (p − q̂)⁺, normalised         1         (..., V)
========== =============================================== ========= ===========

The draft token's own probability is always sent (cu-hlm IV-B), so acceptance is exact and only the residual is
distorted. Of equal entries of q, those with the lowest index are sent. If TV(q, p) = 0, nothing is rejected, so nothing
is distorted. If TV(q̂, p) ≤ 2^-44 but something is rejected, r̂ is 0/0: it may be any distribution, and the distortion
is taken at its worst, 1 up to rounding. Types and normalisation are those of :mod:`hlmtheory.verification`.
"""

from hlmtheory.truncation.message import decoded_output_distribution
from hlmtheory.truncation.partial import partial_bias, partial_distance
from hlmtheory.truncation.reconstruction import resampling_bias, tail_deviation, truncate, tvd_bound
from hlmtheory.truncation.sizes import certified_size, offline_size, online_size
from hlmtheory.truncation.softplus import online_bound

__all__ = [
    "certified_size",
    "decoded_output_distribution",
    "offline_size",
    "online_bound",
    "online_size",
    "partial_bias",
    "partial_distance",
    "resampling_bias",
    "tail_deviation",
    "truncate",
    "tvd_bound",
]
