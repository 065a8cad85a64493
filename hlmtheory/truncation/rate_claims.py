"""The acceptance rate that the server computes from the decoded distribution of the draft."""

from __future__ import annotations

from hlmtheory._array import Array, arrays
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.truncation.reconstruction import truncate
from hlmtheory.verification import acceptance_rate, decoded_acceptance_rate, total_variation

# Proofs, by the last part of the id.
#
# decoded_rate. Σ min(p, q) = 1 - TV(p, q), and the total variation obeys the triangle inequality.


def _error(target: Array, draft: Array, k: Array) -> Array:
    """Return |Σ min(p, q̂) - Σ min(p, q)|."""
    exact = acceptance_rate(target, draft)
    decoded, _ = decoded_acceptance_rate(target, truncate(draft, k), 0.0)
    xp, exact, decoded = arrays(exact=exact, decoded=decoded)
    return xp.abs(decoded - exact)


def _deviation(target: Array, draft: Array, k: Array) -> Array:
    """Return Δ_k."""
    return total_variation(draft, truncate(draft, k))


CLAIMS = (
    Claim(
        id="truncation.decoded_rate",
        source=Source("oh2025cuhlm", "(15)-(17), for the acceptance rate"),
        statement="|Σ min(p, q̂) − Σ min(p, q)| ≤ Δ_k: the acceptance rate that the server knows from k entries",
        lhs=_error,
        rhs=_deviation,
        attained=Attained({"target": [1.0, 0.0], "draft": [1.0, 0.0], "k": 0}),
        ceiling=1.0,
    ),
)
