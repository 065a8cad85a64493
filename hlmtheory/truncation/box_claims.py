"""Claims of boxes: bounds of Δ_k and of the Bias if log-probabilities are known up to an error."""

from __future__ import annotations

from hlmtheory._array import Array, arrays
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.truncation.box_sizes import box_bias
from hlmtheory.truncation.boxes import Interval
from hlmtheory.truncation.partial_claims import rounded_boxes
from hlmtheory.truncation.reconstruction import resampling_bias


def _bias(target: Array, draft: Array, k: Array, error: Array) -> Array:
    return resampling_bias(target, draft, k) + 0.0 * arrays(draft=draft, error=error)[2]


def _bias_box(target: Array, draft: Array, k: Array, error: Array) -> Interval:
    low, high, low_q, high_q = rounded_boxes(target, draft, error)[1:]
    return box_bias(low, high, low_q, high_q, k)


_ROUNDED = Source("oh2025cuhlm", "(15)-(17), from quantised log-probabilities")

CLAIMS = (
    Claim(
        id="truncation.partial_box_bias",
        source=_ROUNDED,
        statement="Bias ≤ 2 min(max T, max Σ (a − s b)⁺, max Σ (s b − a)⁺), log-probabilities within ±e; outer",
        lhs=_bias,
        rhs=lambda target, draft, k, error: _bias_box(target, draft, k, error).upper,
        attained=Attained({"target": [0.125, 0.5, 0.375], "draft": [0.5, 0.375, 0.125], "k": 1, "error": 0.0}),
        ceiling=2.0,
    ),
)
