"""Sending k of V probabilities: what the server reconstructs, and how far the emitted distribution is off.

Paper: cu-hlm (oh2025cuhlm) Section IV, (15)-(24), Propositions 1 and 2. ``reconstruction`` and ``claims`` are about one
given k. The choice of k, the message, the online bound and the budget have their own files, each with its claims.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q          ``draft``, draft model's distribution           1         (..., V)
p          ``target``, target model's distribution         1         (..., V)
q̂          truncated q: k largest entries, rest uniform    1         (..., V)
k          ``k``, top-k: entries of q that are sent        tokens    (...)
Δ_k        tail deviation TV(q, q̂)                         1         (..., V + 1)
r          residual (p - q)⁺ normalised                    1         (..., V)
r̂          distorted residual (p - q̂)⁺ normalised          1         (..., V)
========== =============================================== ========= ===========

The draft token's own probability is always sent (cu-hlm IV-B), so acceptance is exact and only the residual is
distorted. Of equal entries of q, those with the lowest index are sent. If TV(q, p) = 0, nothing is rejected, so nothing
is distorted. If TV(q̂, p) ≤ 2^-44 but something is rejected, r̂ is 0/0: it may be any distribution, and the distortion
is taken at its worst, 1 up to rounding. Types and normalisation are those of :mod:`hlmtheory.verification`.
"""

from __future__ import annotations

from hlmtheory.truncation.box_sizes import box_bias, box_deviation
from hlmtheory.truncation.boxes import Interval, box_distance, quantised_box
from hlmtheory.truncation.message import decoded_draft, decoded_output_distribution, message_deviation
from hlmtheory.truncation.partial import (
    DraftOutcome,
    PartialBoxes,
    PartialPair,
    partial_bias,
    partial_boxes,
    partial_deviation,
    partial_distance,
    partial_draft,
)
from hlmtheory.truncation.reconstruction import (
    resampling_bias,
    resampling_distortion,
    tail_deviation,
    truncate,
    tvd_bound,
    tvd_bound_sharp,
)
from hlmtheory.truncation.rules import size_from_min_p, size_from_top_n_sigma, size_from_top_p
from hlmtheory.truncation.sizes import certified_size, exact_size, offline_size, online_size
from hlmtheory.truncation.softplus import online_bound, softplus_gap

__all__ = [
    "DraftOutcome",
    "Interval",
    "PartialBoxes",
    "PartialPair",
    "box_bias",
    "box_deviation",
    "box_distance",
    "certified_size",
    "decoded_draft",
    "decoded_output_distribution",
    "exact_size",
    "message_deviation",
    "offline_size",
    "online_bound",
    "online_size",
    "partial_bias",
    "partial_boxes",
    "partial_deviation",
    "partial_distance",
    "partial_draft",
    "quantised_box",
    "resampling_bias",
    "resampling_distortion",
    "size_from_min_p",
    "size_from_top_n_sigma",
    "size_from_top_p",
    "softplus_gap",
    "tail_deviation",
    "truncate",
    "tvd_bound",
    "tvd_bound_sharp",
]
