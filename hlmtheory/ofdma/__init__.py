"""Shares of one uplink band among users: the best shares, their optimality conditions, and their gain.

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

As in the paper, the closed forms assume a fixed SNR: SNR_k does not depend on the share, so a user's power grows
with it (a fixed power density).
"""

from __future__ import annotations

from hlmtheory.ofdma.claims import CLAIMS
from hlmtheory.ofdma.shares import finish_times, minmax_latency, minmax_shares

__all__ = [
    "CLAIMS",
    "finish_times",
    "minmax_latency",
    "minmax_shares",
]
