"""Sharing one uplink band among users: bandwidth shares, their optimality, and what they gain.

Paper: edge-sd (zhu2025edgesd) (15), (26), (27) and Fig. 9.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
λI_k       ``bits``, what user k uploads                   bit       (..., K)
η_k        ``spectral_efficiency``, log₂(1 + SNR_k)        bit/s/Hz  (..., K)
c_k        λI_k/η_k, the band-seconds user k needs         Hz s      (..., K)
w_k        ``shares`` of the band                          1         (..., K)
B          ``bandwidth_hz``                                Hz        (...)
t_k        c_k/(w_k B), when user k has finished           s         (..., K)
========== =============================================== ========= ===========

As in the paper, the SNR of a user does not depend on its share. Where a user spreads its power over its own
share of a white noise, SNR_k rises as w_k falls, and these closed forms no longer hold.
"""

from __future__ import annotations

from hlmtheory.ofdma.claims import CLAIMS
from hlmtheory.ofdma.shares import (
    finish_times,
    kkt_residual,
    minmax_latency,
    minmax_shares,
    sum_latency,
    sum_shares,
    uniform_gain,
)

__all__ = [
    "CLAIMS",
    "finish_times",
    "kkt_residual",
    "minmax_latency",
    "minmax_shares",
    "sum_latency",
    "sum_shares",
    "uniform_gain",
]
