"""Claims where a user spreads its power over its share, SNR_k = s_k/w_k, each with its proof above its record."""

from __future__ import annotations

# Proofs, by the last part of the id.
#


SPREAD_CLAIMS = ()
