"""Upper bound ≥ best of all plans of one part, on small instances of several users; and the stored result for 200.

The enumeration is the study ``figures/studies/policy_bound``.
"""

import importlib
import os

import numpy as np

brute_force = importlib.import_module("figures.studies.policy_bound.brute_force")
served_gaps = importlib.import_module("figures.studies.policy_bound.served_gaps")

INSTANCES = 40 if os.environ.get("DEEP") == "1" else 5


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


def test_the_bound_with_a_server_is_above_the_best_plan_and_the_best_plan_above_ours():
    for one in [served_gaps.compare(seed, served_gaps.UTILITIES[seed % 2]) for seed in (2, 5, 12)]:
        assert one["upper_bound"] >= one["best"] * (1.0 - 1e-9) >= one["plan"] * (1.0 - 2e-9), one
        assert one["best"] <= one["plan"] * 1.02, one


def test_tangents_at_the_best_mixture_bound_the_logarithm():
    """With tangents at the plan's own rates the bound was 4.8% above it, as a geometric mean."""
    found = served_gaps.compare(13, "log")
    assert found["users"] == 3
    assert found["upper_bound"] <= found["plan"] * 1.01
