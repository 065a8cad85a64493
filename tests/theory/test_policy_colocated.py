"""A server with its own draft model: the claims on draws, a queue in steps of time, and where a device does win."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from hlmtheory import all_claims, policy
from hlmtheory.claims import Status


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
    plan = policy.colocated_plan(np.full(depths, levels.mean()), draft_s, policy.SharedServer(pass_s, token_s))

    def gain(rate, depth, chance):
        """The most E[tokens to come] - rate · seconds, if all drafts so far are accepted with this chance."""
        stop = 1.0 - rate * (pass_s + token_s * (depth + 1) + draft_s * depth)
        if depth == depths:
            return stop
        more = sum(0.5 * (chance * level + gain(rate, depth + 1, chance * level)) for level in levels)
        return max(stop, more)

    best = brentq(lambda rate: gain(rate, 0, 1.0), 1e-6, 2.0 + depths / (pass_s + token_s) + 1.0 / pass_s)
    assert plan.rate * (1 - 1e-9) <= best <= plan.ceiling * (1 + 1e-9)
