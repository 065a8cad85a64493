"""What lyu2026distance prints on a draft model far from its target, and where its limit on pipelining holds.

Its abstract was at hand, and public summaries of its propositions; the body was not. t is the time of a draft, on the
device and on the server alike, V that of a pass, R the round trip, α the acceptance rate, γ and K numbers of drafts.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory.claims import Assumption, Attained, Claim, Source
from hlmtheory.draft_length import optimal_draft_length
from hlmtheory.shared_seed import streamed_rate
from hlmtheory.shared_seed.streamed import DOMAINS
from hlmtheory.verification import expected_tokens

# Proofs, by the last part of the id.
#
# colocated_streamed. Let ε = 1 - α, K the best length of a server that drafts, D = K t + V, c = εD/(1 - α^{K+1}) its
#   time of a token. As one more draft does not help, c ≤ t/α^{K+1}, so εD α^{K+1} ≤ t (1 - α^{K+1}), which is c ≤
#   t + εD. A device that never stops takes t + ε(R + V + W) ≥ t + ε(K t + V) = t + εD a token, if R ≥ K t.


def _checked(**times: Array) -> tuple[Any, ...]:
    xp, *given = arrays(**times)
    return xp, *(DOMAINS[name].check(xp, name, value) for name, value in zip(times, given, strict=True))


def _best(acceptance: Array, draft_time: Array, verify_time: Array) -> Array:
    """Return K, the best length of a server that drafts, up to 4,096 drafts."""
    _, draft, verify = _checked(draft_time=draft_time, verify_time=verify_time)
    return optimal_draft_length(acceptance, verify, draft, 4096, min_draft_length=0)


def _best_seconds(acceptance: Array, draft_time: Array, verify_time: Array) -> Array:
    """Return (K t + V)/E(K)."""
    xp, draft, verify = _checked(draft_time=draft_time, verify_time=verify_time)
    length = _best(acceptance, draft, verify)
    return (xp.astype(length, xp.float64) * draft + verify) / expected_tokens(acceptance, length)


def _streamed_seconds(acceptance: Array, draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    return 1.0 / streamed_rate(acceptance, draft_time, round_trip, verify_time).rate


def _far_enough(acceptance: Array, draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    xp, draft, trip = _checked(draft_time=draft_time, round_trip=round_trip)
    return trip >= xp.astype(_best(acceptance, draft, verify_time), xp.float64) * draft


DISTANCE_CLAIMS = (
    Claim(
        id="policy.colocated_streamed",
        source=Source("lyu2026distance", "abstract, on pipelining, for a device that never stops drafting"),
        statement="min_K (K t + V)/E(K) ≤ t + (1 − α)(R + V + W) if R ≥ K t, K the server's best length",
        lhs=_best_seconds,
        rhs=_streamed_seconds,
        assumptions=(Assumption("R ≥ K t", _far_enough),),
        attained=Attained(
            {"acceptance": 0.998046875, "draft_time": 0.25 - 2.0**-30, "verify_time": 0.375, "round_trip": 5.25},
            ratio=0.9989834116620351,  # on the faster side of the jump at 0.25
        ),
        condition=lambda acceptance: 64.0 + 0.0 * acceptance,
    ),
)
