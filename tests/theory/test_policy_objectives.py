"""Goodput, cost, coherence blocks and batches: against grids, enumeration and simulation; the claims on instances."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from hlmtheory import batching, channel, policy, serving
from hlmtheory.policy.batched import plan_batched
from hlmtheory.policy.goodput import plan_goodput
from hlmtheory.policy.money import plan_cost


def a_user(seed: int, **options) -> policy.BandUser:
    """Return a user with four rows, each with five messages of 1 to 100 kbit."""
    rng = np.random.default_rng(seed)
    bits = np.exp(rng.uniform(np.log(1e3), np.log(1e5), (4, 5)))
    hulls = policy.lower_hulls(bits, rng.beta(0.5, 3.0, (4, 5)))
    costs = policy.StageCosts(
        0.01, 0.05, 1e-6, 0.02, verify_token_s=0.002, draft_j=0.05, round_j=0.2, joules_per_bit=1e-6
    )
    return policy.BandUser(hulls, costs, [0.8, 0.7, 0.6], rng.beta(0.5, 1.5, 4), **{"risk_limit": np.inf, **options})


def arguments(user: policy.BandUser) -> tuple:
    return user.hulls, user.costs, user.acceptances


def options(user: policy.BandUser) -> dict:
    return {"rejection": user.rejection, "risk_limit": user.risk_limit, "skipping": user.skipping}


# ---------------------------------------------------------------------------------------------------------- goodput


@pytest.mark.parametrize("law", [channel.Rayleigh(10.0), channel.Rician(3.0, 4.0)])
@pytest.mark.parametrize("seed", range(3))
def test_no_outage_of_a_fine_grid_has_more_goodput(seed, law):
    user = a_user(seed, skipping=False)
    band, limit = 2e6, 0.15
    found = plan_goodput(user, law, band, limit, tolerance=0.005)
    best = 0.0
    for outage in np.arange(1, 200) / 200:
        mean = float(law.mean_latency(1.0, band, outage=outage).value)
        costs = replace(user.costs, seconds_per_bit=mean)
        slow = 1.0 / (band * float(law.rate_quantile(outage)))
        try:
            plan = policy.plan_user(
                user.hulls,
                costs,
                user.acceptances,
                **options(user),
                round_limit_s=limit,
                limit_seconds_per_bit=slow,
            )
        except ValueError:
            continue
        best = max(best, (1.0 - outage) * plan.rate)
    assert 0.0 < best <= found.upper_bound
    assert found.gap < 0.0051
    assert found.goodput >= best * 0.995


def test_goodput_in_blocks_that_are_drawn():
    """The share of blocks in time and the mean time over them are those of draws of the link."""
    user, band, limit = a_user(1, skipping=False), 2e6, 0.15
    found = plan_goodput(user, channel.Rayleigh(10.0), band, limit)
    plan, hulls = found.plan, user.hulls
    rate = band * np.log2(1.0 + np.random.default_rng(1).exponential(10.0, 400_000))
    k = plan.draft_length
    longest = hulls.bits[plan.first].max() + hulls.bits[plan.later].max(axis=1).sum()
    kept = rate >= band * float(channel.Rayleigh(10.0).rate_quantile(found.outage))
    seconds = user.costs.fixed_time(k) + longest / rate[kept]
    assert k > 0
    assert seconds.max() <= limit * (1 + 1e-9)
    assert kept.mean() == pytest.approx(1.0 - found.outage, abs=0.003)
    mean = plan.fixed_s + plan.bits * plan.tokens * (1.0 / rate[kept]).mean()
    assert kept.mean() * plan.tokens / mean == pytest.approx(found.goodput, rel=0.005)


def test_a_band_whose_rates_no_float_holds_is_planned_as_a_huge_one():
    huge, beyond = (plan_goodput(a_user(0), channel.Rayleigh(10.0), band, 0.2) for band in (1e200, 1.7e308))
    assert beyond.goodput == pytest.approx(huge.goodput)
    assert beyond.outage == huge.outage


def test_a_round_that_no_rate_shortens_is_refused():
    with pytest.raises(ValueError, match="round_limit_s must be at least"):
        plan_goodput(a_user(0, skipping=False), channel.Rayleigh(10.0), 1e6, 0.06)
    with pytest.raises(ValueError, match="link must be one link"):
        plan_goodput(a_user(0), channel.Rayleigh([1.0, 2.0]), 1e6, 1.0)


# ------------------------------------------------------------------------------------------------------------- cost


@pytest.mark.parametrize("seed", range(3))
def test_no_mixture_of_decisions_costs_less(seed):
    """Against every K, skip and message by place of two rows, and all mixtures of them, priced by hand."""
    user = a_user(seed, risk_limit=0.05)
    hulls = policy.lower_hulls(np.floor(user.hulls.bits[:4].reshape(2, 2)), [[0.3, 0.1], [0.2, 0.0]])
    user = replace(user, hulls=hulls, rejection=user.rejection[:2], acceptances=[0.8, 0.7])
    second, server, joule = 2.0, 3.0, 0.5
    found = plan_cost(user, second, server_price=server, joule_price=joule)
    c, alpha = user.costs, user.acceptances
    corners = [range(int(hulls.start[n]), int(hulls.start[n + 1])) for n in range(2)]
    plans = []
    for k, skip in itertools.product(range(3), itertools.product((0, 1), repeat=2)):
        for place in itertools.product(*corners, *corners):
            first, later = place[:2], place[2:]
            money = tokens = risk = extra = 0.0
            for n in range(2):
                if k and skip[n]:
                    money, tokens = money + second * c.draft_s + joule * c.draft_j, tokens + 1.0
                    risk, extra = risk + user.rejection[n], extra + hulls.risk[first[n]] * (not all(skip))
                    continue
                bits = (hulls.bits[first[n]] if k else 0.0) + max(k - 1, 0) * hulls.bits[list(later)].mean()
                seconds = k * c.draft_s + c.round_trip_s + c.seconds_per_bit * bits
                busy = c.verify_s + k * c.verify_token_s
                money += second * (seconds + busy) + server * busy
                money += joule * (k * c.draft_j + c.round_j + c.joules_per_bit * bits)
                accepted = 1.0 - user.rejection[n]
                tokens += 1.0 + (accepted * (1.0 + (alpha[1] if k > 1 else 0.0)) if k else 0.0)
                risk += hulls.risk[first[n]] if k else 0.0
                risk += accepted * hulls.risk[list(later)].mean() if k > 1 else 0.0
            plans.append((money, tokens, risk, extra))
    money, tokens, risk, extra = np.asarray(plans).T

    def least(lost):
        over = (lost - 0.05 * tokens)[None]
        return optimize.linprog(money, A_ub=over, b_ub=[0.0], A_eq=tokens[None], b_eq=[1.0]).fun

    assert found.lower_bound <= least(risk) * (1 + 1e-9)
    assert least(risk + extra) * (1 - 1e-9) <= found.cost <= least(risk + extra) * 1.02


def test_with_seconds_alone_the_cheapest_plan_is_the_fastest():
    user = a_user(2, risk_limit=0.1)
    plan, cheap = policy.plan_user(*arguments(user), **options(user)), plan_cost(user, 4.0)
    assert cheap.cost == pytest.approx(4.0 / plan.rate, rel=1e-9)
    assert cheap.plan.rate == pytest.approx(plan.rate, rel=1e-9)
    assert cheap.plan.gap == pytest.approx(plan.gap, abs=1e-9)


def test_energy_makes_rounds_shorter_or_rarer():
    user = a_user(0, skipping=False)
    user = replace(user, costs=replace(user.costs, draft_j=1.0))
    plain, dear = (plan_cost(user, 1.0, joule_price=price) for price in (0.0, 1e3))
    assert dear.plan.joules < plain.plan.joules
    assert dear.plan.rate <= plain.plan.rate


# -------------------------------------------------------------------------------------------------------- coherence


# ---------------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("seed", range(2))
def test_no_messages_and_batches_together_are_faster(seed):
    rng = np.random.default_rng(seed)
    bits, risk = np.floor(np.exp(rng.uniform(7.0, 10.0, (2, 2)))), np.sort(rng.uniform(0.0, 0.3, (2, 2)))[:, ::-1]
    bits.sort(axis=1)
    hulls, limit, slow, alpha = policy.lower_hulls(bits, risk), 0.19, 1e-6, 0.7
    model, edge = serving.ModelShape(1, 4, 8), serving.Device(2.0**-16, 2.0**-7)
    service = serving.Service(model, model, edge, serving.Device(2.0**-16, 2.0**-5), alpha)
    tasks = [serving.Task(int(i), int(o)) for i, o in rng.integers(1, 20, (3, 2))]
    given = {"risk_limit": limit, "draft_lengths": [1, 2, 3]}
    found = plan_batched(hulls, tasks, service, slow, method="exact", **given)
    least = np.inf
    for length, chosen in itertools.product((1, 2, 3), itertools.product((0, 1), repeat=6)):
        places = np.asarray(chosen).reshape(3, 2)[:length]
        if any(chosen[2 * length :]):
            continue  # the same messages
        tokens = sum(alpha**n for n in range(length + 1))
        spent = sum(alpha**n * risk[[0, 1], own].mean() for n, own in enumerate(places))
        if spent > limit * tokens:
            continue
        sent = sum(bits[[0, 1], own].mean() for own in places)
        air = replace(service, draft_device=serving.Device(edge.c1, edge.c2 + slow * sent / length))
        for label in itertools.product(range(3), repeat=3):
            if any(one > max(label[:n], default=-1) + 1 for n, one in enumerate(label)):
                continue  # the same parts under other names
            parts = [np.flatnonzero(np.asarray(label) == one).tolist() for one in sorted(set(label))]
            for order in itertools.permutations(parts):
                least = min(least, batching.plan_latency(tasks, air, order, length, "johnson"))
    assert found.lower_bound <= least * (1 + 1e-9)
    assert found.latency == pytest.approx(least, rel=0.02)
    quick = plan_batched(hulls, tasks, service, slow, method="dp", **given)
    assert quick.latency >= found.latency * (1 - 1e-9)
    assert quick.lower_bound <= found.latency * (1 + 1e-9)


def test_the_bound_on_batches_is_that_of_messages_at_random():
    """Half of the messages may be the short one: one row cannot do so, but its bound is the latency of the mixture."""
    hulls, slow = policy.lower_hulls([[1000.0, 9000.0]], [[0.25, 0.0]]), 1e-5
    model, device = serving.ModelShape(1, 1, 1), serving.Device(0.0, 0.25)
    tasks = [serving.Task(1, 4), serving.Task(2, 3)]

    def latency(bits: float) -> float:
        edge = serving.Device(0.0, 0.25 + slow * bits)
        service = serving.Service(model, model, edge, device, 1.0)
        return batching.plan(tasks, service, "exact", draft_lengths=[1]).latency

    service = serving.Service(model, model, device, device, 1.0)
    found = plan_batched(
        hulls, tasks, service, slow, risk_limit=0.0625, draft_lengths=[1], method="exact"
    )  # two tokens a step: 0.125 of risk
    assert found.bits == 9000.0
    assert found.latency == pytest.approx(latency(9000.0), rel=1e-12)
    assert found.lower_bound == pytest.approx(latency(5000.0), rel=1e-9)


def test_a_limit_on_risk_that_no_message_keeps_is_named():
    hulls = policy.lower_hulls([[64.0]], [[0.5]])
    model, device = serving.ModelShape(1, 1, 1), serving.Device(0.0, 1.0)
    service = serving.Service(model, model, device, device, 0.5)
    with pytest.raises(ValueError, match="risk_limit must be at least"):
        plan_batched(hulls, [serving.Task(1, 2)], service, 1e-6, risk_limit=0.01)
    with pytest.raises(ValueError, match="method must be one of"):
        plan_batched(hulls, [serving.Task(1, 2)], service, 1e-6, method="autoregressive")


def test_a_subnormal_risk_is_as_good_as_none():
    """The price at which such a step pays is beyond float64."""
    hulls = policy.lower_hulls([[4.0, 1.0], [1.0, 1.0]], [[0.0, 5e-324], [5e-324, 5e-324]])
    found = policy.plan_user(hulls, policy.StageCosts(1.0, 1.0, 1e-6), [0.0], rejection=[0.0, 0.0], risk_limit=0.125)
    assert found.rate == pytest.approx(1.0)
