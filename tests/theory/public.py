"""Every name of the theory that refuses bad input, with its object: the public ones, and those of claims alone."""

from __future__ import annotations

from importlib import import_module

import hlmtheory

INNER = {
    "batching.planner": "johnson_order",
    "channel.blocks": "sample_transfer_times",
    "channel.latency": "mean_round_throughput round_throughput",
    "channel.path_loss": "free_space_gain",
    "conformal.controller": "regret_bound_rate",
    "draft_length.optimum": "stationary_draft_length",
    "draft_length.published": "survival_interval",
    "draft_length.rates": "etgr_profile",
    "draft_length.regret": "worst_draft_length_regret",
    "draft_length.rounds": "round_energy",
    "draft_length.tracking": "tracker_moments",
    "lattice.payload": "batch_length exact_payload_bits",
    "lattice.quantization": "distortion_bound rejection_bound",
    "ofdma.shares": "kkt_residual sum_latency sum_shares uniform_gain",
    "policy.batched": "BatchedPlan plan_batched",
    "policy.coherence": "CoherentCosts coherent_costs",
    "policy.fading": "FadingSkip fading_skip",
    "policy.goodput": "GoodputPlan plan_goodput",
    "policy.money": "CostPlan plan_cost",
    "policy.shares": "share_rates share_residual",
    "serving.costs": "run_time",
    "serving.free": "free_latency",
    "serving.pipeline": "pipeline_latency step_times",
    "serving.random_steps": "steps_distribution",
    "skipping.bill": "bill_bound_on_device round_bill",
    "skipping.risk": "truncated_step_risk",
    "truncation.budget": "SizeAllocation optimal_sizes",
    "truncation.distances": "DeviationBounds deviation_bounds",
    "truncation.multi_draft": "multi_draft_distribution",
    "truncation.rules": "min_p_of_size top_n_sigma_of_size top_p_of_size",
    "truncation.sizes": "bias_size",
    "truncation.softplus": "online_shortfall softplus_distance",
    "truncation.worst_case": "worst_case_target",
    "uncertainty.binomial": "decision_error draws_needed",
    "verification.block_claims": "block_distribution",
    "verification.misdeclared": "misdeclared_distribution",
    "verification.tokens": "expected_tokens_profile",
    "verification.tree": "sibling_acceptance tree_distribution",
    "verification.updates": "tokens_after_update",
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
