"""Claims on a server with a draft model of its own, each with its proof above its record."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays
from hlmtheory._sides import Values, host_side
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.draft_length import optimal_draft_length
from hlmtheory.policy.capacity import SharedServer
from hlmtheory.policy.colocated import ColocatedPlan, capacity_gain, colocated_plan
from hlmtheory.policy.queueing import passes
from hlmtheory.policy.user_claims import DOMAINS as USER_DOMAINS
from hlmtheory.shared_seed import streamed_rate
from hlmtheory.shared_seed.streamed import DOMAINS
from hlmtheory.verification import expected_tokens

# Proofs, by the last part of the id.
#
# colocated_speed. The server repeats the device's rounds: the same drafts, drawn from the same distributions, and the
#   same verification. So it emits the same tokens, round by round, in K t_s + V(K) ≤ K t_d + a + V(K) seconds, where a
#   ≥ 0 is the time of messages, round trip and queue. If K is independent of what would be accepted, rounds of each K
#   give E(K) in the mean. With the shares w of rounds of each K, the rate Σ w E/Σ w (K t_s + V) is a mean of
#   E/(K t_s + V), so it is at most the largest of them.
# colocated_speed_any. False: let half of the rounds be sure (all drafts accepted), the others unsure (the first is
#   rejected), t = 0.1, V = 1. Rounds of 10 drafts give 6 tokens in 2 seconds, and no other K is better. A device that
#   sees after one draft that it is unsure, and then sends, gives 11 + 1 tokens in 2 + 1.1 seconds.
# colocated_speed_looks. As colocated_speed: the server repeats the rounds, with the same stops, since these depend on
#   the draft model's distributions and drafts, which it has too. The rule that is best for its times is no slower.
# colocated_speed_most. A round of K drafts with N tokens has N - 1 ≤ K. So it takes K t_s + s + s'(K + 1) ≥ (N - 1) t_s
#   + s + s' N, and a rate is at most f(E N), f(x) = x/((x - 1) t_s + s + s' x). f is monotone, and 1 ≤ E N ≤ E(K_max)
#   whatever the rule is, since N - 1 is at most the drafts that would be accepted. So the rate is at most the larger
#   of f(1) = 1/V(0) and f(E(K_max)). A rule that stops before each rejected draft attains it.
# colocated_capacity. A server that is never idle completes a round in V(K) seconds if devices draft, and in K t_s +
#   V(K) if it drafts; both give E(K) tokens in the mean. It is not idle if N users return from their devices within
#   (N - 1) V(K), the time in which it verifies the other users' rounds.
# colocated_gain_floor. Let d(K) = σ/E be the time of the server for a token if devices draft, and e(K)
#   = (σ + K t_s/B)/E if it drafts, least at K' and K''. The gain is e(K'')/d(K'). It is at most e(K')/d(K'), since
#   e(K'') is the least e, and at least e(K'')/d(K''), since d(K') is the least d. Both are 1 + K t_s/(B σ(K)).
# colocated_streamed. Let ε = 1 - α, K the best length of a server that drafts, D = K t + V, c = εD/(1 - α^{K+1}) its
#   time of a token. As one more draft does not help, c ≤ t/α^{K+1}, so εD α^{K+1} ≤ t (1 - α^{K+1}), which is c ≤
#   t + εD. A device that never stops takes t + ε(R + V + W) ≥ t + ε(K t + V) = t + εD a token, if R ≥ K t.

_LAPS = 3
"""Rounds of each user that are simulated."""


def _tokens(acceptances: Any, length: int) -> float:
    """The mean tokens of a round, over its outcomes: the number of accepted drafts before the first rejection."""
    total, reached = 0.0, 1.0
    for accepted, alpha in enumerate(acceptances[:length].tolist()):
        total += reached * (1.0 - alpha) * (accepted + 1)
        reached *= alpha
    return total + reached * (len(acceptances[:length]) + 1)


def _server(one: Values) -> SharedServer:
    return SharedServer(float(one["pass_s"]), float(one["token_s"]), int(one.get("batch", 1)))


def _rounds(one: Values, draft_s: float, away_s: float) -> tuple[Any, Any]:
    """The mean tokens and the seconds of a round, for each context and each K."""
    count = one["context_lengths"].shape[-1]
    tokens = [[_tokens(alphas, k) for k in range(count)] for alphas in one["context_acceptances"]]
    drafts = np.arange(count)
    return np.array(tokens), drafts * draft_s + away_s + one["pass_s"] + one["token_s"] * (drafts + 1)


def _device_rate(one: Values) -> float:
    """The rate of a device that drafts, sends and waits in turn, with a law of K for each context."""
    tokens, seconds = _rounds(one, float(one["draft_s"]), float(one["other_s"]))
    lengths = one["context_lengths"] / one["context_lengths"].sum(axis=-1, keepdims=True)
    return float(one["context_law"] @ (lengths * tokens).sum(axis=-1) / (one["context_law"] @ (lengths @ seconds)))


def _server_plan(one: Values) -> ColocatedPlan:
    reached = one["context_law"] @ np.cumprod(one["context_acceptances"], axis=-1) / one["context_law"].sum()
    before = np.concatenate([[1.0], reached[:-1]])
    alphas = np.minimum(np.divide(reached, before, out=np.zeros_like(reached), where=before > 0), 1.0)
    return colocated_plan(alphas, float(one["server_draft_s"]), _server(one))


def _looking_rate(one: Values) -> float:
    """The largest rate of a server that knows the context of a round before it drafts: all choices of K are tried."""
    tokens, seconds = _rounds(one, float(one["server_draft_s"]), 0.0)
    choices = np.array(list(itertools.product(range(len(seconds)), repeat=len(tokens))))
    made = np.take_along_axis(tokens, choices.T, axis=-1)
    return float(np.max(one["context_law"] @ made / (one["context_law"] @ seconds[choices.T])))


def _busy_s(one: Values, pass_s: float, away_s: float) -> float:
    """The time from the first pass to the end of the last one, for some rounds of each user."""
    users, k = int(one["users"]), int(one["draft_length"])
    made = passes(np.full((users, 1), away_s), np.full(users, k), SharedServer(pass_s, float(one["token_s"])))
    seen = list(itertools.islice(made, _LAPS * users))
    return float(seen[-1].end - seen[0].start)


def _simulated(one: Values) -> float:
    """The time that a server needs for rounds that it drafts, over that for rounds that devices draft."""
    pass_s, drafting = float(one["pass_s"]), float(one["draft_length"] * one["server_draft_s"])
    return _busy_s(one, pass_s + drafting, 0.0) / _busy_s(one, pass_s, float(one["away_s"]))


def _at_length(one: Values, length: int) -> float:
    load = one["pass_s"] / one.get("batch", 1) + one["token_s"] * (length + 1)
    return float(1.0 + length * one["server_draft_s"] / one.get("batch", 1) / load)


def _best_length(one: Values, *, drafting: bool) -> int:
    """The K with the least time of the server for a token, by trying all."""
    batch = float(one["batch"])

    def load(k: int) -> float:
        own = k * float(one["server_draft_s"]) if drafting else 0.0
        return ((float(one["pass_s"]) + own) / batch + float(one["token_s"]) * (k + 1)) / _tokens(one["acceptances"], k)

    return min(range(len(one["acceptances"]) + 1), key=load)


def _gain(one: Values) -> float:
    return capacity_gain(one["acceptances"], float(one["server_draft_s"]), _server(one)).gain


def _independent(one: Values) -> bool:
    lengths = one["context_lengths"][one["context_law"] > 0]
    return bool((lengths == lengths[:1]).all())


def _no_slower(*, server_draft_s: Array, draft_s: Array) -> Array:
    _, own, device = arrays(server_draft_s=server_draft_s, draft_s=draft_s)
    return own <= device


def _never_idle(one: Values) -> bool:
    verifying = one["pass_s"] + one["token_s"] * (one["draft_length"] + 1)
    return bool(one["away_s"] <= (one["users"] - 1) * verifying * (1.0 - 1e-12))


def _checked(**times: Array) -> tuple[Any, ...]:
    xp, *given = arrays(**times)
    return xp, *(DOMAINS[name].check(xp, name, value) for name, value in zip(times, given, strict=True))


def _best(acceptance: Array, draft_time: Array, verify_time: Array) -> Array:
    """Return K, the best length of a server that drafts, up to 4,096 drafts."""
    _, draft, verify = _checked(draft_time=draft_time, verify_time=verify_time)
    return optimal_draft_length(acceptance, verify, draft, 4096, min_draft_length=0)


def _best_seconds(acceptance: Array, draft_time: Array, verify_time: Array) -> Array:
    xp, draft, verify = _checked(draft_time=draft_time, verify_time=verify_time)
    length = _best(acceptance, draft, verify)
    return (xp.astype(length, xp.float64) * draft + verify) / expected_tokens(acceptance, length)


def _streamed_seconds(acceptance: Array, draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    return 1.0 / streamed_rate(acceptance, draft_time, round_trip, verify_time).rate


def _far_enough(acceptance: Array, draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    xp, draft, trip = _checked(draft_time=draft_time, round_trip=round_trip)
    return trip >= xp.astype(_best(acceptance, draft, verify_time), xp.float64) * draft


_RANK = {"acceptances": 1, "context_law": 1, "context_acceptances": 2, "context_lengths": 2}
_side = partial(host_side, USER_DOMAINS, _RANK)
_SOURCE = Source("leviathan2023fast", "Theorem 3.8, with the draft model on the device or on the server")
_OWN = ("server_draft_s", "pass_s", "token_s")
_QUEUE = (*_OWN, "draft_length", "away_s", "users")
_LOADS = (*_OWN, "acceptances", "batch")
_CONTEXTS = ("context_law", "context_acceptances", "context_lengths")
_DEVICE = (*_CONTEXTS, "other_s", "draft_s", "pass_s", "token_s")
_FAST_SERVER = Assumption("t_s ≤ t_d: the server drafts at least as fast as the device", _no_slower)
_SURE_OR_NOT = {
    "context_law": [0.5, 0.5],
    "context_acceptances": [[1.0] * 10, [0.0] * 10],
    "context_lengths": [[0.0] * 10 + [1.0], [1.0] + [0.0] * 10],
    "server_draft_s": 0.1,
    "pass_s": 1.0,
    "token_s": 0.0,
}
"""Half of the rounds accept all drafts, half none. Who knows it drafts 10 or none: 12 tokens in 3 s."""
_ITS_DEVICE = {"draft_s": 0.1, "other_s": 0.0}
_FIRST_SEEN = {"context_lengths": [[0.0] * 10 + [1.0], [0.0, 1.0] + [0.0] * 9]}

COLOCATED_CLAIMS = (
    Claim(
        id="policy.colocated_speed",
        source=_SOURCE,
        statement=(
            "tokens a second of a device that drafts, sends and waits in turn, loses nothing and draws K independently "
            "of what would be accepted ≤ max over K of E(K)/(K t_s + V(K)), those of a server that drafts itself and "
            "streams"
        ),
        lhs=_side(_device_rate, *_DEVICE),
        rhs=_side(lambda one: _server_plan(one).rate, *_CONTEXTS[:2], *_OWN),
        assumptions=(
            _FAST_SERVER,
            Assumption(
                "K is independent of what would be accepted: no look at the draft model's confidence",
                _side(_independent, "context_law", "context_lengths", test=True),
            ),
        ),
        attained=Attained(
            {
                "context_law": [1.0],
                "context_acceptances": [[0.75]],
                "context_lengths": [[0.0, 1.0]],
                "other_s": 0.0,
                "draft_s": 0.25,
                "server_draft_s": 0.25,
                "pass_s": 0.5,
                "token_s": 0.0,
            }
        ),
    ),
    Claim(
        id="policy.colocated_speed_any",
        source=_SOURCE,
        origin=Origin.IMPLIED,
        statement="the same for a device that ends a round where its draft model is unsure, and a server that does not",
        lhs=_side(_device_rate, *_DEVICE),
        rhs=_side(lambda one: _server_plan(one).rate, *_CONTEXTS[:2], *_OWN),
        assumptions=(_FAST_SERVER,),
        refuted=_SURE_OR_NOT | _ITS_DEVICE | _FIRST_SEEN,
    ),
    Claim(
        id="policy.colocated_speed_looks",
        source=_SOURCE,
        statement=(
            "tokens a second of a device that drafts, sends and waits in turn and loses nothing, with any rule for K ≤ "
            "those of a server that drafts itself, streams, and looks at its draft model as the device does"
        ),
        lhs=_side(_device_rate, *_DEVICE),
        rhs=_side(_looking_rate, *_CONTEXTS, *_OWN),
        assumptions=(_FAST_SERVER,),
        attained=Attained(_SURE_OR_NOT | _ITS_DEVICE),
    ),
    Claim(
        id="policy.colocated_speed_most",
        source=_SOURCE,
        statement=(
            "tokens a second of a server that drafts at most K tokens and knows what will be accepted ≤ the larger of "
            "1/V(0) and E/((E − 1) t_s + s + s' E), E = E(K): the most that a look adds to max E(K)/(K t_s + V(K))"
        ),
        lhs=_side(_looking_rate, *_CONTEXTS, *_OWN),
        rhs=_side(lambda one: _server_plan(one).ceiling, *_CONTEXTS[:2], *_OWN),
        attained=Attained(_SURE_OR_NOT),
    ),
    Claim(
        id="policy.colocated_capacity",
        source=_SOURCE,
        statement="a full server verifies 1 + K t_s/V(K) times as many rounds of K drafts if devices draft them",
        relation=Relation.EQ,
        lhs=_side(_simulated, *_QUEUE),
        rhs=_side(lambda one: _at_length(one, int(one["draft_length"])), *_OWN, "draft_length"),
        assumptions=(
            Assumption(
                "the server is never idle: users return within (N − 1) V(K)",
                _side(_never_idle, "draft_length", "away_s", "users", "pass_s", "token_s", test=True),
            ),
        ),
        attained=Attained(
            {"server_draft_s": 0.125, "pass_s": 0.5, "token_s": 0.0, "draft_length": 2, "away_s": 0.25, "users": 2}
        ),
    ),
    Claim(
        id="policy.colocated_gain_floor",
        source=_SOURCE,
        statement="1 + K t_s/(B σ(K)), K the server's best, ≤ users of a full server if devices draft, over without",
        lhs=_side(lambda one: _at_length(one, _best_length(one, drafting=True)), *_LOADS),
        rhs=_side(_gain, *_LOADS),
        attained=Attained({"server_draft_s": 0.125, "pass_s": 0.5, "token_s": 0.0, "acceptances": [1.0], "batch": 1}),
    ),
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
