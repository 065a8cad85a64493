"""Every name of the theory that refuses bad input, with its object: the public ones, and those of claims alone."""

from __future__ import annotations

from importlib import import_module

import hlmtheory

INNER = {
    "batching.planner": "johnson_order",
    "channel.latency": "mean_round_throughput",
    "draft_length.optimum": "stationary_draft_length",
    "draft_length.rates": "etgr_profile",
    "lattice.payload": "exact_payload_bits",
    "ofdma.shares": "kkt_residual sum_latency sum_shares",
    "policy.fading": "FadingSkip fading_skip",
    "policy.goodput": "GoodputPlan plan_goodput",
    "policy.money": "CostPlan plan_cost",
    "policy.shares": "share_rates share_residual",
    "serving.pipeline": "pipeline_latency step_times",
    "serving.random_steps": "steps_distribution",
    "skipping.bill": "bill_bound_on_device",
    "truncation.budget": "SizeAllocation optimal_sizes",
    "truncation.multi_draft": "multi_draft_distribution",
    "truncation.softplus": "softplus_distance",
    "verification.misdeclared": "misdeclared_distribution",
    "verification.tokens": "expected_tokens_profile",
    "verification.tree": "sibling_acceptance tree_distribution",
}
"""Not public, because claims and tests alone use them; they check their arguments as public ones do."""


def public_names() -> dict[str, object]:
    """Return the names in ``__all__`` of every module without the claims, and the inner ones; each has one object."""
    found: dict[str, object] = {}
    for module in (import_module(f"hlmtheory.{name}") for name in hlmtheory.MODULES):
        for name in set(module.__all__) - {"CLAIMS"}:
            assert found.setdefault(name, getattr(module, name)) is getattr(module, name), name
    for module, names in ((import_module(f"hlmtheory.{place}"), names) for place, names in INNER.items()):
        found.update({name: getattr(module, name) for name in names.split()})
    return found
