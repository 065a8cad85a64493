"""What a pass of a shared server waits for, and what limits its users."""

from __future__ import annotations

import pytest

from hlmtheory.policy import BandUser, SharedServer, StageCosts, lower_hulls, plan_served
from validation.planning.waits import predicted

PASS_S, ALPHA = 0.03, [0.75, 0.75]


def band(users, batch, *, bits=100.0, draft_s=0.012, utility="linear", round_trip_s=0.02):
    """Return the prediction for equal users whose rounds have two drafts, and these users."""
    costs = StageCosts(draft_s, PASS_S, 1e-7, round_trip_s=round_trip_s)
    hulls = lower_hulls([[bits]], [[0.0]])
    members = [BandUser(hulls, costs, ALPHA, draft_lengths=[2], skipping=False)] * users
    server = SharedServer(PASS_S, 0.0, batch)
    return predicted(plan_served(members, server, utility=utility), members, server, utility), members, server


@pytest.mark.parametrize(("users", "batch", "utility"), [(8, 4, "linear"), (8, 4, "log"), (6, 3, "linear")])
def test_a_pass_waits_for_all_rounds_of_its_group(users, batch, utility):
    """Z = 44 ms is longer than a pass: two groups in full passes wait for nothing, while passes of 3 and 1 collide."""
    found, members, _ = band(users, batch, utility=utility)
    away = members[0].costs.fixed_time(2) - PASS_S
    tokens = 1.0 + 0.75 + 0.75**2
    assert found.company == batch
    assert found.rates.sum() == pytest.approx(users * tokens / (away + PASS_S), rel=0.02)  # 2% is the spread of Z
    assert found.rates.sum() > 1.15 * found.at_once
    assert found.rates.sum() <= found.plan.rates.sum()
    assert found.patience_s == pytest.approx(users * tokens / found.at_once, rel=0.01)


@pytest.mark.parametrize(("users", "batch"), [(1, 4), (8, 1), (32, 4)])
def test_a_pass_that_is_alone_or_full_anyway_starts_at_once(users, batch):
    found, _, _ = band(users, batch)
    assert found.company == 1
    assert found.rates.sum() == found.at_once
