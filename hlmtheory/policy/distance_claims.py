"""What lyu2026distance prints on a draft model far from its target, and where its limit on pipelining holds.

Its abstract was at hand, and public summaries of its propositions; the body was not. t is the time of a draft, on the
device and on the server alike, V that of a pass, R the round trip, α the acceptance rate, γ and K numbers of drafts.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import COUNT
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.draft_length import optimal_draft_length
from hlmtheory.policy.colocated_claims import Values, _never_idle, _side, _simulated
from hlmtheory.shared_seed import streamed_rate
from hlmtheory.shared_seed.streamed import DOMAINS
from hlmtheory.verification import expected_tokens

# Proofs, by the last part of the id.
#
# colocated_capacity_printed. As colocated_capacity, with a pass of constant time.
# colocated_window. A round of γ drafts takes γ t + R + V and gives E(γ) tokens; decoding alone takes V a token. The
#   two are equal at R = (E(γ) - 1) V - γ t.
# colocated_pipelined. If the next γ drafts are made during the round trip, and all guesses are right, a round takes
#   max(γ t, R + V). With R ≥ γ t that is at least γ t + V, the round of a server that drafts itself. Both give E(γ).
# colocated_streamed. Let ε = 1 - α, K the best length of a server that drafts, D = K t + V, c = εD/(1 - α^{K+1}) its
#   time of a token. As one more draft does not help, c ≤ t/α^{K+1}, so εD α^{K+1} ≤ t (1 - α^{K+1}), which is c ≤
#   t + εD. A device that never stops takes t + ε(R + V + W) ≥ t + ε(K t + V) = t + εD a token, if R ≥ K t.


def _parts(acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array) -> tuple[Any, ...]:
    """Return the namespace, α, γ, t and V in float64, and E(γ)."""
    xp, alpha, length, draft, verify = arrays(
        acceptance=acceptance, draft_length=draft_length, draft_time=draft_time, verify_time=verify_time
    )
    tokens = expected_tokens(alpha, length)
    draft, verify = _seconds(xp, draft_time=draft, verify_time=verify)
    return xp, alpha, xp.astype(length, xp.float64), draft, verify, tokens


def _seconds(xp: Any, **times: Array) -> list[Array]:
    return [DOMAINS[name].check(xp, name, value) for name, value in times.items()]


def _break_even(acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array) -> Array:
    """Return (E(γ) - 1) V - γ t, which may be negative."""
    _, _, length, draft, verify, tokens = _parts(acceptance, draft_length, draft_time, verify_time)
    return (tokens - 1.0) * verify - length * draft


def _token_seconds(
    acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array, round_trip: Array
) -> Array:
    """Return (γ t + R + V)/E(γ), with E from the outcomes of a round: 1, 2, .., γ + 1 tokens."""
    xp, alpha, length, draft, verify, _ = _parts(acceptance, draft_length, draft_time, verify_time)
    mean, reached = xp.zeros_like(alpha + length), xp.ones_like(alpha + length)
    for n in range(1, int(xp.max(length)) + 2):
        stops = xp.where(length + 1 == n, reached, reached * (1.0 - alpha))
        mean = mean + xp.where(length + 1 >= n, float(n) * stops, 0.0)
        reached = reached * alpha
    return (length * draft + round_trip + verify) / mean


def _at(limit: Any) -> dict[str, Any]:
    """Return the sides, the time of a token if the round trip is exactly the limit and without drafts, and when."""

    def side(acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array) -> Array:
        values = (acceptance, draft_length, draft_time, verify_time)
        return _token_seconds(*values, limit(*values))

    def holds(acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array) -> Array:
        return limit(acceptance, draft_length, draft_time, verify_time) >= 0

    scope = (Assumption("the round trip is 0 or more", holds),)
    return {"lhs": side, "rhs": _alone, "assumptions": scope}


def _roundings(draft_length: Array, draft_time: Array) -> Array:
    """Return the scale of the rounding error of a round's time."""
    xp, length, draft = arrays(draft_length=draft_length, draft_time=draft_time)
    return 8.0 * (1.0 + xp.astype(length, xp.float64)) * (1.0 + draft)


def _alone(acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array) -> Array:
    _, alpha, _, _, verify, _ = _parts(acceptance, draft_length, draft_time, verify_time)
    return verify + 0.0 * alpha


def _server(acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array) -> Array:
    """Return (γ t + V)/E(γ)."""
    _, _, length, draft, verify, tokens = _parts(acceptance, draft_length, draft_time, verify_time)
    return (length * draft + verify) / tokens


def _pipelined(
    acceptance: Array, draft_length: Array, draft_time: Array, verify_time: Array, round_trip: Array
) -> Array:
    """Return max(γ t, R + V)/E(γ)."""
    xp, _, length, draft, verify, tokens = _parts(acceptance, draft_length, draft_time, verify_time)
    (_, trip) = arrays(round_trip=round_trip)
    return xp.maximum(length * draft, _seconds(xp, round_trip=trip)[0] + verify) / tokens


def _best(acceptance: Array, draft_time: Array, verify_time: Array) -> Array:
    """Return K, the best length of a server that drafts, up to 4,096 drafts."""
    xp, draft, verify = arrays(draft_time=draft_time, verify_time=verify_time)
    draft, verify = _seconds(xp, draft_time=draft, verify_time=verify)
    return optimal_draft_length(acceptance, verify, draft, 4096, min_draft_length=0)


def _best_seconds(acceptance: Array, draft_time: Array, verify_time: Array) -> Array:
    return _server(acceptance, _best(acceptance, draft_time, verify_time), draft_time, verify_time)


def _streamed_seconds(acceptance: Array, draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    return 1.0 / streamed_rate(acceptance, draft_time, round_trip, verify_time).rate


def _far(draft_length: Array, draft_time: Array, round_trip: Array) -> Array:
    xp, length, draft, trip = arrays(draft_length=draft_length, draft_time=draft_time, round_trip=round_trip)
    (draft,) = _seconds(xp, draft_time=draft)
    return trip >= xp.astype(COUNT.check(xp, "draft_length", length), xp.float64) * draft


def _far_enough(acceptance: Array, draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    return _far(_best(acceptance, draft_time, verify_time), draft_time, round_trip)


def _constant(of: Any) -> Any:
    """Return a function of one instance for a pass of constant time."""
    return lambda one: of({**one, "token_s": 0.0})


def _printed_gain(one: Values) -> float:
    return float(1.0 + one["draft_length"] * one["server_draft_s"] / one["pass_s"])


_KEY = "lyu2026distance"
_ABSTRACT = "abstract, on pipelining"
_QUEUE = ("server_draft_s", "pass_s", "draft_length", "away_s", "users")
_CASE = {"acceptance": 0.5, "draft_length": 1, "draft_time": 0.25, "verify_time": 1.0}

_DRAFTS_ON: dict[str, Any] = {
    "relation": Relation.LE,
    "lhs": _best_seconds,
    "rhs": _streamed_seconds,
    "condition": lambda acceptance: 64.0 + 0.0 * acceptance,
}

DISTANCE_CLAIMS = (
    Claim(
        id="policy.colocated_capacity_printed",
        source=Source(_KEY, "abstract: 1 + γ t_d/t_v times the clients"),
        origin=Origin.PUBLISHED,
        statement="a full server verifies 1 + γ t/V times as many rounds of γ drafts if devices draft them",
        relation=Relation.EQ,
        lhs=_side(_constant(_simulated), *_QUEUE),
        rhs=_side(_printed_gain, "server_draft_s", "pass_s", "draft_length"),
        assumptions=(
            Assumption(
                "the server is never idle: users return within (N − 1) V",
                _side(_constant(_never_idle), "draft_length", "away_s", "users", "pass_s", test=True),
            ),
        ),
        attained=Attained({"server_draft_s": 0.125, "pass_s": 0.5, "draft_length": 2, "away_s": 0.25, "users": 2}),
    ),
    Claim(
        id="policy.colocated_window",
        source=Source(_KEY, "Table III, γ = 5, t = 10 ms, as a public summary quotes its 13 round trips"),
        origin=Origin.PUBLISHED,
        statement="(γ t + R + V)/E(γ) = V at R = (E(γ) − 1) V − γ t: the longest round trip that gains on no drafts",
        relation=Relation.EQ,
        **_at(_break_even),
        attained=Attained(_CASE),
        condition=_roundings,
    ),
    Claim(
        id="policy.colocated_pipelined",
        source=Source(_KEY, _ABSTRACT),
        origin=Origin.PUBLISHED,
        statement="(γ t + V)/E(γ) ≤ max(γ t, R + V)/E(γ) if R ≥ γ t: drafting γ ahead does not beat the server's own",
        relation=Relation.LE,
        lhs=_server,
        rhs=_pipelined,
        assumptions=(Assumption("R ≥ γ t", _far),),
        attained=Attained(_CASE | {"round_trip": 0.25}),
    ),
    Claim(
        id="policy.colocated_streamed",
        source=Source(_KEY, f"{_ABSTRACT}, for a device that never stops drafting"),
        origin=Origin.NEW,
        statement="min_K (K t + V)/E(K) ≤ t + (1 − α)(R + V + W) if R ≥ K t, K the server's best length",
        assumptions=(Assumption("R ≥ K t", _far_enough),),
        attained=Attained(
            {"acceptance": 0.998046875, "draft_time": 0.25 - 2.0**-30, "verify_time": 0.375, "round_trip": 5.25},
            ratio=0.9989834116620351,  # on the faster side of the jump at 0.25
        ),
        **_DRAFTS_ON,
    ),
)
