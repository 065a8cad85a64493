"""Upper bound ≥ best of all plans of one part, on small instances of several users; and the stored result for 200.

The enumeration is the study ``figures/studies/policy_bound``.
"""

from __future__ import annotations

import importlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from hlmtheory.policy import lower_hulls, plan_user

EXPERIMENT = Path(__file__).resolve().parents[2] / "figures" / "studies" / "policy_bound"

brute_force = importlib.import_module("figures.studies.policy_bound.brute_force")
served_gaps = importlib.import_module("figures.studies.policy_bound.served_gaps")

INSTANCES = 40


def test_the_bound_is_above_the_best_plan_of_one_part_and_ours_near_it():
    found = [
        brute_force.compare(brute_force.draw(np.random.default_rng((7, n))), brute_force.UTILITIES[n % 2])
        for n in range(INSTANCES)
    ]
    for one in found:
        assert one["upper_bound"] >= one["best"] * (1.0 - 1e-9) >= one["best_on_grid"] * (1.0 - 2e-9), one
        assert one["limits_kept"], one
    summary = brute_force.summary(found)
    assert summary["loss_median"] <= 0.01
    assert summary["loss_largest"] <= 0.05


def by_loops(user, rows, longest):
    """Every plan of a user with few rows, one after the other: tokens, seconds without air time, and bits."""
    costs, messages = user.costs, range(user.bits.shape[1])
    for k in range(1, longest + 1):
        firsts = product([None, *messages], repeat=rows)
        for first, later in product(firsts, list(product(messages, repeat=rows))):
            tokens = fixed = bits = risk = 0.0
            for n, m in enumerate(first):
                if m is None:
                    tokens += 1.0
                    fixed += costs.draft_s
                    risk += user.rejection[n] + (user.risk[n].min() if any(one is not None for one in first) else 0.0)
                    continue
                fixed += costs.fixed_time(k)
                bits += costs.header_bits + k * costs.token_bits + user.bits[n, m]
                risk += user.risk[n, m]
                alive = 1.0 - user.rejection[n]
                tokens += 1.0 + alive
                for place in range(1, k):
                    risk += alive * np.mean([user.risk[i, later[i]] for i in range(rows)])
                    alive *= user.acceptances[place]
                    tokens += alive
                    bits += np.mean([user.bits[i, later[i]] for i in range(rows)])
            if risk <= user.limit * tokens:
                yield tokens / rows, fixed / rows, bits / rows


@pytest.mark.parametrize("seed", range(3))
def test_the_enumeration_is_that_of_nested_loops(seed, monkeypatch):
    rows, longest = 2, 3
    monkeypatch.setattr(brute_force, "ROWS", rows)
    monkeypatch.setattr(brute_force, "LONGEST", longest)
    user = brute_force.draw(np.random.default_rng((11, seed)))[0]
    table = brute_force.options(user)
    slow = user.costs.seconds_per_bit
    loops = max(
        [e / (a + b * slow) for e, a, b in by_loops(user, rows, longest)]
        + [1.0 / (user.costs.fixed_time(0) + user.costs.header_bits * slow)]
    )
    fast = float(brute_force.rates(table, slow, np.ones(1)).max())
    assert fast == pytest.approx(loops, rel=1e-12)
    found = plan_user(
        lower_hulls(user.bits, user.risk),
        user.costs,
        user.acceptances[:longest],
        rejection=user.rejection,
        risk_limit=user.limit,
    )
    assert found.upper_bound >= fast * (1.0 - 1e-9)
    assert found.rate >= 0.95 * fast


def test_the_bound_with_a_server_is_above_the_best_plan_and_the_best_plan_above_ours():
    found = [served_gaps.compare(seed, served_gaps.UTILITIES[seed % 2]) for seed in (2, 4, 5, 9, 12, 21)]
    for one in found:
        assert one["upper_bound"] >= one["best"] * (1.0 - 1e-9) >= one["plan"] * (1.0 - 2e-9), one
        assert one["best"] <= one["plan"] * 1.02, one


def test_tangents_at_the_best_mixture_bound_the_logarithm():
    """With tangents at the plan's own rates the bound was 4.8% above it, as a geometric mean."""
    found = served_gaps.compare(13, "log")
    assert found["users"] == 3
    assert found["upper_bound"] <= found["plan"] * 1.01
