"""The link: payload, Shannon latency, throughput, path loss, fading, mean latencies, and what message sizes tell.

Papers: cu-hlm (oh2025cuhlm) (4)-(6), u-hlm (oh2024uhlm) (3)-(4), edge-sd (zhu2025edgesd) Section IV,
alouini1999capacity, ning2025dssd. Ratios are never in dB here. The mean latency of a transfer within one fading block
is infinite.
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
