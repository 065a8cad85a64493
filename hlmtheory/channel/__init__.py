"""The link: payload, Shannon latency, throughput, path loss, fading, mean latencies, and what message sizes tell.

Papers: cu-hlm (oh2025cuhlm) (4)-(6), u-hlm (oh2024uhlm) (3)-(4), edge-sd (zhu2025edgesd) Section IV,
alouini1999capacity, ning2025dssd. Ratios are never in dB here. The mean latency of a transfer within one fading block
is infinite.
"""

from hlmtheory.channel.fading import Rayleigh, Rician
from hlmtheory.channel.latency import db_to_linear, log_distance_gain, shannon_latency, vocabulary_payload_bits
from hlmtheory.channel.links import GilbertElliott, TraceLink

__all__ = [
    "GilbertElliott",
    "Rayleigh",
    "Rician",
    "TraceLink",
    "db_to_linear",
    "log_distance_gain",
    "shannon_latency",
    "vocabulary_payload_bits",
]
