"""The objectives of ``hlm plan`` against those of the theory, for rounds without skips."""

from __future__ import annotations

import numpy as np
import pytest

from hlmtheory import channel, policy
from hlmtheory.policy.goodput import plan_goodput
from hlmtheory.policy.money import plan_cost
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link, fading_link

BITS, LENGTH, ALPHA = 24_000.0, 2, [0.75, 0.5]


def counts() -> np.ndarray:
    """Return the mean counts of a round of two drafts."""
    tokens = 1.0 + ALPHA[0] + ALPHA[0] * ALPHA[1]
    known = {"tokens": tokens, "drafts": LENGTH, "passes": 1, "exchanges": 1, "verified": LENGTH}
    known["up_bits"] = LENGTH * BITS
    return np.array([float(known.get(name, 0.0)) for name in COUNTS])


def user(seconds_per_bit: float, setting: Setting) -> policy.BandUser:
    costs = policy.StageCosts(
        setting.draft_s,
        setting.verify_s,
        seconds_per_bit,
        round_trip_s=setting.link.round_trip_s,
        verify_token_s=setting.verify_token_s,
    )
    return policy.BandUser(policy.lower_hulls([[BITS]], [[0.0]]), costs, ALPHA, draft_lengths=[LENGTH], skipping=False)


@pytest.mark.parametrize("fading", [False, True])
def test_both_find_the_same_cost_of_a_token(fading):
    link = fading_link(1e7, channel.Rician(10.0, 4.0), 10.0, 0.02) if fading else constant_link(1e7, 0.02)
    setting = Setting(link, 0.012, 0.03, verify_token_s=0.001, server_price=2.0, time_price=0.3, objective="cost")
    found = plan_cost(user(float(np.mean(1.0 / link.rates)), setting), 0.3, server_price=2.0)
    assert 1.0 / setting.value(counts()) == pytest.approx(found.cost, rel=1e-9)


def test_the_goodput_of_the_theory_is_below_the_mean_over_blocks_and_near_to_it():
    """A rate is convex in the seconds of a bit, so the rate at their mean is below the mean rate."""
    law, limit = channel.Rayleigh(10.0), 0.11
    link = fading_link(1e6 * np.log2(11.0), law, 10.0, 0.02)
    setting = Setting(link, 0.012, 0.03, latency_s=limit, objective="goodput")
    found = plan_goodput(user(1e-6, setting), law, 1e6, limit)
    value = float(setting.value(counts()))
    assert 0.1 < found.outage < 0.9
    assert found.goodput <= value * 1.01  # the command has 200 levels
    assert found.goodput >= value * 0.97
