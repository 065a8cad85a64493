"""Users of one server: against enumeration, linear programs and a simulation in steps of time; the claims on draws."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from hlmtheory import policy
from hlmtheory.policy.capacity import server_rates
from hlmtheory.policy.queueing import longest_response, passes


def rates_of(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    count = int(rng.integers(1, 6))
    load = rng.uniform(0.0, 0.6, count) * (rng.random(count) < 0.8)
    return rng.uniform(0.1, 5.0, count), load, rng.uniform(0.2, 3.0, count)


@pytest.mark.parametrize("seed", range(20))
def test_a_linear_program_finds_the_same_rates(seed):
    most, load, weights = rates_of(np.random.default_rng(seed))
    found = linprog(-weights, A_ub=[load], b_ub=[1.0], bounds=[(0.0, x) for x in most])
    assert weights @ server_rates(most, load, weights) == pytest.approx(-found.fun, rel=1e-9)


def test_a_convex_solver_finds_the_same_logarithm():
    cvxpy = pytest.importorskip("cvxpy")
    for seed in range(4):
        most, load, weights = rates_of(np.random.default_rng(seed))
        x = cvxpy.Variable(len(most))
        found = cvxpy.Problem(cvxpy.Maximize(weights @ cvxpy.log(x)), [x <= most, load @ x <= 1.0]).solve()
        ours = server_rates(most, load, weights, utility="log")
        assert weights @ np.log(ours) == pytest.approx(found, rel=1e-6, abs=1e-6)


def test_users_who_may_keep_every_draft_leave_the_server_idle():
    """At the second tangent of the logarithm the plans so far want nothing of the server."""
    hulls, costs = policy.lower_hulls([[100.0]], [[0.0]]), policy.StageCosts(0.35, 0.3, 1e-5)
    found = policy.plan_served(
        [policy.BandUser(hulls, costs, [0.5], [0.5], risk_limit=math.inf)] * 2, policy.SharedServer(0.3), utility="log"
    )
    # alone 1/.35 tokens/s, by the server 1/.3: one of the two decodes alone, or both share the server by halves
    assert found.value == pytest.approx(-math.log(0.35 * 0.3))
    assert found.value <= found.upper_bound <= found.value + 0.03


def test_a_user_who_sends_nothing_loads_no_server_by_a_rounding():
    """Three weights of a third may sum to more than 1."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        weight = rng.uniform(0.1, 1.0, 3)
        if (weight / weight.sum()).sum() > 1.0 or (weight / weight.sum()) @ np.ones(3) > 1.0:
            break
    hulls = policy.lower_hulls(np.full((3, 1), 1e4), np.zeros((3, 1)))
    costs = policy.StageCosts(0.01, 0.3, 1e-5)
    user = policy.BandUser(hulls, costs, [0.5], [0.5] * 3, weight, risk_limit=math.inf)
    found = policy.plan_served([user] * 2, policy.SharedServer(0.3))
    assert found.users[0].skip_share == pytest.approx(1.0)
    assert found.rates.sum() == pytest.approx(200.0)
    assert found.busy == 0.0


def by_steps(
    away: np.ndarray, lengths: np.ndarray, server: policy.SharedServer, many: int, company: int, patience: float
) -> list[tuple[int, int]]:
    """Return the end of the first rounds and their users, from a simulation that looks at each whole moment."""
    arrival = {user: int(away[user, 0]) for user in range(len(away))}
    count, ends, free, now = dict.fromkeys(arrival, 0), [], 0, 0
    running: list[int] = []
    while len(ends) < many:
        if running and free == now:
            for user in running:
                ends.append((now, user))
                count[user] += 1
                arrival[user] = now + int(away[user, count[user] % away.shape[1]])
            running = []
        if not running:
            ready = sorted((at, user) for user, at in arrival.items() if at <= now)
            if len(ready) >= company or (ready and now >= ready[0][0] + patience):
                running = [user for _, user in ready[: server.batch]]
                free = now + int(server.pass_s + server.token_s * sum(int(lengths[user]) + 1 for user in running))
        now += 1
    return ends


@pytest.mark.parametrize("seed", range(24))
def test_passes_are_those_of_a_simulation_in_steps_of_time(seed):
    """The first seeds have a server that starts at once, the others one that waits for company."""
    rng = np.random.default_rng(seed)
    users = int(rng.integers(1, 6))
    away, lengths = rng.integers(1, 20, (users, 7)), rng.integers(0, 5, users)
    server = policy.SharedServer(int(rng.integers(1, 9)), int(rng.integers(0, 3)), int(rng.integers(1, 5)))
    company = 1 if seed < 12 else int(rng.integers(1, min(server.batch, users) + 1))
    patience = math.inf if seed < 12 or seed % 2 else float(rng.integers(0, 12))
    found, longest = [], 0.0
    for one in passes(away.astype(np.float64), lengths, server, company=company, patience_s=patience):
        found += [(int(one.end), user) for user in one.users]
        longest = max(longest, *(one.end - at for at in one.arrived))
        if len(found) >= 60:
            break
    assert found == by_steps(away, lengths, server, len(found), company, patience)[: len(found)]
    assert longest <= longest_response(lengths, server, patience if company > 1 else 0.0)


@pytest.mark.parametrize("users", [1, 2, 3, 5, 20])
def test_equal_times_reach_the_bound_of_the_server(users):
    server = policy.SharedServer(0.25)
    found = policy.queue_rates([0.5] * users, [3] * users, server, rng=np.random.default_rng(users))
    assert found.rates.sum() == pytest.approx(min(users / 0.75, 4.0), rel=1e-9)
    assert (found.least <= found.rates * (1.0 + 1e-9)).all()
    assert (found.rates <= found.most * (1.0 + 1e-9)).all()


@pytest.mark.parametrize(("users", "batch", "away"), [(8, 4, 0.5), (8, 4, 0.125), (6, 3, 0.75), (4, 4, 0.25)])
def test_a_server_that_waits_for_full_passes_runs_groups_in_turn(users, batch, away):
    """Equal users form groups of a full pass. A group's cycle is its own round, or the passes of all groups."""
    server = policy.SharedServer(0.25, 0.0, batch)
    rates = {}
    for company in (1, batch):
        found = policy.queue_rates(
            [away] * users, [3] * users, server, company=company, rng=np.random.default_rng(users)
        )
        rates[company] = found.rates.sum()
    assert found.batch == pytest.approx(batch)
    assert rates[batch] == pytest.approx(users / max(away + 0.25, users / batch * 0.25), rel=1e-6)
    assert rates[batch] >= rates[1] * (1.0 - 1e-9)
    assert found.least.tolist() == [0.0] * users


def test_kept_drafts_lengthen_the_time_away():
    found = policy.queue_rates(
        [0.5], [1], policy.SharedServer(0.25), keep_s=0.125, keep_share=0.5, rounds=20_000, rng=np.random.default_rng(3)
    )
    # a round takes 0.75 s and 0.125 s for each kept draft, of which there are 1 in the mean with variance 2
    assert found.rates[0] == pytest.approx(1.0 / 0.875, abs=4.0 * 0.125 * math.sqrt(2.0 / 15_000) / 0.875**2)
    assert found.most[0] == pytest.approx(1.0 / 0.875)
