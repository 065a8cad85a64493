"""Sides of the theorems on a server with a draft model of its own."""

import itertools
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays
from hlmtheory.draft_length import optimal_draft_length
from hlmtheory.policy.capacity import SharedServer
from hlmtheory.policy.colocated import ColocatedPlan, capacity_gain, colocated_plan
from hlmtheory.policy.queueing import passes
from hlmtheory.shared_seed.streamed import DOMAINS
from hlmtheory.sides.host import Values

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


def device_rate(one: Values) -> float:
    """The rate of a device that drafts, sends and waits in turn, with a law of K for each context."""
    tokens, seconds = _rounds(one, float(one["draft_s"]), float(one["other_s"]))
    lengths = one["context_lengths"] / one["context_lengths"].sum(axis=-1, keepdims=True)
    return float(one["context_law"] @ (lengths * tokens).sum(axis=-1) / (one["context_law"] @ (lengths @ seconds)))


def server_plan(one: Values) -> ColocatedPlan:
    reached = one["context_law"] @ np.cumprod(one["context_acceptances"], axis=-1) / one["context_law"].sum()
    before = np.concatenate([[1.0], reached[:-1]])
    alphas = np.minimum(np.divide(reached, before, out=np.zeros_like(reached), where=before > 0), 1.0)
    return colocated_plan(alphas, float(one["server_draft_s"]), _server(one))


def looking_rate(one: Values) -> float:
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


def simulated_side(one: Values) -> float:
    """The time that a server needs for rounds that it drafts, over that for rounds that devices draft."""
    pass_s, drafting = float(one["pass_s"]), float(one["draft_length"] * one["server_draft_s"])
    return _busy_s(one, pass_s + drafting, 0.0) / _busy_s(one, pass_s, float(one["away_s"]))


def at_length(one: Values, length: int) -> float:
    load = one["pass_s"] / one.get("batch", 1) + one["token_s"] * (length + 1)
    return float(1.0 + length * one["server_draft_s"] / one.get("batch", 1) / load)


def best_length(one: Values, *, drafting: bool) -> int:
    """The K with the least time of the server for a token, by trying all."""
    batch = float(one["batch"])

    def load(k: int) -> float:
        own = k * float(one["server_draft_s"]) if drafting else 0.0
        return ((float(one["pass_s"]) + own) / batch + float(one["token_s"]) * (k + 1)) / _tokens(one["acceptances"], k)

    return min(range(len(one["acceptances"]) + 1), key=load)


def gain_side(one: Values) -> float:
    return capacity_gain(one["acceptances"], float(one["server_draft_s"]), _server(one)).gain


def independent_side(one: Values) -> bool:
    lengths = one["context_lengths"][one["context_law"] > 0]
    return bool((lengths == lengths[:1]).all())


def no_slower(*, server_draft_s: Array, draft_s: Array) -> Array:
    _, own, device = arrays(server_draft_s=server_draft_s, draft_s=draft_s)
    return own <= device


def never_idle(one: Values) -> bool:
    verifying = one["pass_s"] + one["token_s"] * (one["draft_length"] + 1)
    return bool(one["away_s"] <= (one["users"] - 1) * verifying * (1.0 - 1e-12))


def checked(**times: Array) -> tuple[Any, ...]:
    xp, *given = arrays(**times)
    return xp, *(DOMAINS[name].check(xp, name, value) for name, value in zip(times, given, strict=True))


def best_side(acceptance: Array, draft_time: Array, verify_time: Array) -> Array:
    """Return K, the best length of a server that drafts, up to 4,096 drafts."""
    _, draft, verify = checked(draft_time=draft_time, verify_time=verify_time)
    return optimal_draft_length(acceptance, verify, draft, 4096, min_draft_length=0)


def far_enough(acceptance: Array, draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    xp, draft, trip = checked(draft_time=draft_time, round_trip=round_trip)
    return trip >= xp.astype(best_side(acceptance, draft, verify_time), xp.float64) * draft
