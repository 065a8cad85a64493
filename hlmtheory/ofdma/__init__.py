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
s_k        ``full_band_snr``, SNR of user k with w_k = 1   1         (..., K)
========== =============================================== ========= ===========

There are two rules for the power. As in the paper, the closed forms assume a **fixed SNR**: SNR_k does not depend on
the share, so a user's power grows with it (a fixed power density). Where a user **spreads** a fixed power over its own
share of white noise, SNR_k = s_k/w_k with s_k the SNR over the whole band: :func:`spread_finish_times` and
:func:`spread_minmax_shares`. In cells as in edge-sd Section IV the closed-form shares finish before their t*,
which is 1.29 times as long on average. They finish 9% after the best shares; the worst of 200 cells loses 15%.
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
