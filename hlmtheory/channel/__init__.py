"""The link: payload, Shannon latency, throughput, path loss, fading, mean latencies, and what message sizes tell.

Papers: cu-hlm (oh2025cuhlm) (4)-(6), u-hlm (oh2024uhlm) (3)-(4), edge-sd (zhu2025edgesd) Section IV; capacity
under Rayleigh fading is in alouini1999capacity; split verification in
ning2025dssd.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
V          ``vocabulary``                                  tokens    (...)
B          ``bits``, payload                               bit       (...)
W          ``bandwidth_hz``                                Hz        (...)
S          ``snr``, received signal-to-noise ratio         1         (...)
m          ``mean_snr``, E[S]                              1         (...)
κ          ``k_factor``, line-of-sight over scattered      1         (...)
f, F       density and distribution function of S          1         (...)
========== =============================================== ========= ===========

Ratios are never in dB here; :func:`db_to_linear` and the like convert. A block-fading link draws one S per block of
T_c seconds. ``shannon_latency`` and the latencies of ``Rayleigh`` and ``Rician`` keep S constant for the whole
transfer, and their mean over S is infinite. Special
functions are computed by scipy on the host, in float64; results are returned in the library and on the device of the
input.
"""

from __future__ import annotations

from hlmtheory.channel.claims import CLAIMS
from hlmtheory.channel.decibels import db_to_linear, dbm_to_watts
from hlmtheory.channel.fading import QuadratureEstimate, Rayleigh, Rician
from hlmtheory.channel.latency import shannon_latency, throughput, vocabulary_payload_bits
from hlmtheory.channel.leak import SizeClasses, rounds_leak, size_classes
from hlmtheory.channel.links import GilbertElliott, TraceLink
from hlmtheory.channel.path_loss import log_distance_gain
from hlmtheory.channel.split import downlink_bits

__all__ = [
    "CLAIMS",
    "GilbertElliott",
    "QuadratureEstimate",
    "Rayleigh",
    "Rician",
    "SizeClasses",
    "TraceLink",
    "db_to_linear",
    "dbm_to_watts",
    "downlink_bits",
    "log_distance_gain",
    "rounds_leak",
    "shannon_latency",
    "size_classes",
    "throughput",
    "vocabulary_payload_bits",
]
