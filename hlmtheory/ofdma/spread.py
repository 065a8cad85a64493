"""Bandwidth shares where each user spreads its power over its share: SNR_k = s_k/w_k, s_k over the whole band."""

from __future__ import annotations

_STEPS = 64  # bisection steps; the logarithm is then exact to its last digits
_NEWTON = 60  # maximum number of decreasing steps; about ten are needed
_SMALL, _TERMS = 0.0625, 14  # x below which ln(1 + x) uses its series, and its number of terms
