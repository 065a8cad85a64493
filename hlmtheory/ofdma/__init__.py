"""Bandwidth shares of the uplinks of K users of a cell, at a fixed SNR; edge-sd (zhu2025edgesd) (15)-(16), (26)-(27).

User k uploads λI_k bits at w_k B η_k bit/s, η_k = log₂(1 + SNR_k), and c_k = λI_k/η_k is its need of the band.
"""

from hlmtheory.ofdma.shares import minmax_latency, minmax_shares

__all__ = ["minmax_latency", "minmax_shares"]
