"""A server with its own draft model: the claims on draws, a queue in steps of time, and where a device does win."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from hlmtheory import all_claims, policy
from hlmtheory.claims import Status


def test_with_a_slower_server_a_device_is_faster():
    """The false neighbour of the claim: without the assumption it does not hold."""
    claim = all_claims()["policy.colocated_speed"]
    slow = dict(claim.attained.instance) | {"context_acceptances": [[1.0]], "draft_s": 0.125, "server_draft_s": 0.5}
    device, server = (
        float(side(**{name: slow[name] for name in inspect.signature(side).parameters}))
        for side in (claim.lhs, claim.rhs)
    )
    assert device == pytest.approx(2 / 0.625)
    assert server == pytest.approx(2.0)


@pytest.mark.parametrize(("away_s", "rate"), [(0.0, 12 / 3.1), (0.3, 12 / 3.7)])
def test_a_device_that_looks_at_its_confidence_is_faster_than_the_plan_but_not_than_its_ceiling(away_s, rate):
    """Rounds drawn one by one: half are sure, and accept 10 drafts; half are unsure, seen after the first draft."""
    rng, drafts_s, pass_s = np.random.default_rng(1), 0.1, 1.0
    tokens = seconds = 0.0
    for sure in rng.random(40_000) < 0.5:
        drafted = 0
        while drafted < 10:
            drafted += 1
            if not sure:  # the confidence of the draft that was just made
                break
        tokens += 1 + (drafted if sure else 0)
        seconds += drafted * drafts_s + away_s + pass_s
    plan = policy.colocated_plan([0.5] + [1.0] * 9, drafts_s, policy.SharedServer(pass_s))
    assert tokens / seconds == pytest.approx(rate, rel=0.02)
    assert (plan.draft_length, plan.rate, plan.ceiling) == (10, pytest.approx(3.0), pytest.approx(4.0))
    assert plan.rate < tokens / seconds < plan.ceiling
    claims, case = all_claims(), dict(all_claims()["policy.colocated_speed_any"].refuted) | {"other_s": away_s}
    assert claims["policy.colocated_speed"].check(case).status.item() is Status.OUT_OF_SCOPE
    verdict = claims["policy.colocated_speed_looks"].check(case)
    assert verdict.holds
    assert float(verdict.lhs) == pytest.approx(rate)


@given(st.integers(0, 10_000))
def test_no_rule_that_sees_each_draft_before_it_stops_exceeds_the_ceiling(seed):
    """The best of all rules that stop by the confidences seen so far, by backward induction on the gain at a rate.

    Each draft's confidence is its own probability of acceptance, one of two; a rule that is faster than r has a round
    with E[N] - r E[seconds] > 0.
    """
    rng = np.random.default_rng(seed)
    depths, levels = int(rng.integers(1, 7)), rng.random(2)
    draft_s, pass_s, token_s = rng.uniform(0.01, 1.0), rng.uniform(0.05, 1.0), rng.choice([0.0, 0.1])
    alphas = np.full(depths, levels.mean())
    plan = policy.colocated_plan(alphas, draft_s, policy.SharedServer(pass_s, token_s))

    def gain(rate, depth, chance):
        """The most E[tokens to come] - rate · seconds, if all drafts so far are accepted with this chance."""
        stop = 1.0 - rate * (pass_s + token_s * (depth + 1) + draft_s * depth)
        if depth == depths:
            return stop
        more = sum(0.5 * (chance * level + gain(rate, depth + 1, chance * level)) for level in levels)
        return max(stop, more)

    best = brentq(lambda rate: gain(rate, 0, 1.0), 1e-6, 2.0 + depths / (pass_s + token_s) + 1.0 / pass_s)
    assert plan.rate * (1 - 1e-9) <= best <= plan.ceiling * (1 + 1e-9)


def test_a_device_that_skips_is_faster():
    hulls = policy.lower_hulls([[1000.0]], [[0.0]])
    costs = policy.StageCosts(0.0125, 0.03125, 1e-6, round_trip_s=0.02)
    device = policy.plan_user(hulls, costs, [0.75] * 4, rejection=[0.25], risk_limit=1.0)
    server = policy.colocated_plan([0.75] * 4, costs.draft_s, policy.SharedServer(costs.verify_s))
    assert device.rate > server.rate
    exact = policy.plan_user(hulls, costs, [0.75] * 4, skipping=False)
    assert exact.rate < server.rate


def ahead(alpha: float, draft_s: float, pass_s: float, tokens: int, rng: np.random.Generator) -> float:
    """Return the rate of a device that never stops drafting, without a link: a pass reads what is drafted by then.

    A mismatch throws away what was drafted after it. The device guesses no bonus token.
    """
    clock, made, emitted = 0.0, 0.0, 0
    while emitted < tokens:
        begin = max(clock, made + draft_s)  # a pass waits for one draft at least
        ready = int((begin - made + 1e-12) / draft_s)
        end = begin + pass_s
        good = int(rng.geometric(1.0 - alpha)) - 1
        clock = end
        if good >= ready:  # all accepted; the device has gone on from there
            emitted += ready
            made += ready * draft_s
        else:
            emitted += good + 1
            made = end
    return emitted / clock


def test_a_device_that_never_stops_drafting_is_faster():
    rate = ahead(0.96875, 0.0625, 0.5, 20_000, np.random.default_rng(4))
    server = policy.colocated_plan([0.96875] * 200, 0.0625, policy.SharedServer(0.5))
    assert rate > 1.1 * server.rate


def in_steps(users: int, away: int, busy: int, until: int) -> int:
    """Return the rounds that a server completes, from a simulation that looks at each whole moment."""
    back, free, running, done = [0] * users, 0, None, 0
    for now in range(until + 1):
        if running is not None and now == free:
            back[running], running, done = now + away, None, done + 1
        if running is None:
            ready = [user for user in range(users) if back[user] <= now]
            if ready:
                running = min(ready, key=lambda user: back[user])
                back[running], free = math.inf, now + busy
    return done


@pytest.mark.parametrize(
    ("users", "length", "draft", "verify"), [(2, 1, 1, 4), (3, 2, 3, 5), (5, 8, 1, 8), (1, 4, 2, 3)]
)
def test_a_queue_in_steps_of_time_completes_as_many_more_rounds(users, length, draft, verify):
    span = 60 * verify * (verify + length * draft)
    device, own = (
        in_steps(users, *times, span) for times in ((((users - 1) * verify), verify), (0, verify + length * draft))
    )
    assert device / own == pytest.approx(1 + length * draft / verify, rel=1e-12)
