"""Rounds whose messages last for several coherence blocks: costs that are too small, and costs that are too large.

Over blocks of T_c seconds with independent SNRs the mean time m(B) of a message of B bits is not linear in B. But it
lies between B/C and B/C + T_c, C = W E[log₂(1 + S)] (claims ``channel.transfer_floor``, ``channel.transfer_ceiling``).
"""

from __future__ import annotations

from hlmtheory._quantities import positive

_BAND = positive("give the band of the uplink in Hz")
