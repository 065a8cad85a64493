"""Machine-checked theory of hybrid language models over a wireless link.

Public names live in modules, one per topic, and are loaded on first use:

>>> import hlmtheory
>>> float(hlmtheory.acceptance_rate([0.25, 0.75], [0.5, 0.5]))
0.75
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlmtheory.claims import Claim

__version__ = "0.1.0"

MODULES = {
    "verification": (
        "softmax",
        "total_variation",
        "rejection_probability",
        "acceptance_rate",
        "residual_distribution",
        "output_distribution",
        "greedy_output_distribution",
        "expected_tokens",
        "expected_tokens_profile",
    ),
    "uncertainty": (
        "sample_uncertainty",
        "expected_uncertainty",
        "quadrature_error",
        "vocabulary_uncertainty",
        "skip_probability",
        "decision_error",
        "draws_needed",
        "LinearFit",
        "fit_linear",
    ),
    "skipping": (
        "skip_thresholds",
        "rejection_risk",
        "rejection_risk_discrete",
        "holder_bound",
        "holder_bound_discrete",
        "best_holder_bound",
        "surrogate_gap",
        "one_step_risk",
        "truncated_step_risk",
        "sequence_risk",
        "threshold_losses",
        "Calibration",
        "calibrate_threshold",
        "held_out_risk",
    ),
    "truncation": (
        "truncate",
        "tail_deviation",
        "resampling_distortion",
        "resampling_bias",
        "tvd_bound",
        "tvd_bound_sharp",
        "exact_size",
        "offline_size",
        "online_size",
        "certified_size",
        "bias_size",
        "online_certified_size",
        "CertifiedSize",
        "decoded_draft",
        "message_deviation",
        "decoded_output_distribution",
        "softplus_gap",
        "softplus_distance",
        "online_bound",
        "online_shortfall",
        "safe_sharpness",
        "worst_case_target",
        "DeviationBounds",
        "deviation_bounds",
        "size_from_top_p",
        "top_p_of_size",
        "size_from_min_p",
        "min_p_of_size",
        "size_from_top_n_sigma",
        "top_n_sigma_of_size",
        "SizeAllocation",
        "optimal_sizes",
    ),
    "lattice": (
        "top_support",
        "dropped_mass",
        "quantize",
        "distortion_bound",
        "distortion_bound_sharp",
        "payload_bits",
        "exact_payload_bits",
        "batch_length",
        "rejection_bound",
        "Allocation",
        "allocate",
    ),
    "codec": (
        "CodecError",
        "LatticeDraft",
        "LatticeMessage",
        "TruncatedDraft",
        "TruncatedMessage",
        "lattice_message",
        "truncated_message",
        "decoded_rows",
        "encode",
        "decode",
    ),
    "conformal": (
        "threshold_support",
        "ThresholdController",
        "regret_bound",
        "regret_bound_sharp",
        "regret_bound_rate",
    ),
    "channel": (
        "db_to_linear",
        "linear_to_db",
        "dbm_to_watts",
        "watts_to_dbm",
        "vocabulary_payload_bits",
        "shannon_latency",
        "round_throughput",
        "throughput",
        "mean_round_throughput",
        "free_space_gain",
        "log_distance_gain",
        "Rayleigh",
        "Rician",
        "QuadratureEstimate",
        "mean_transfer_time",
        "sample_transfer_times",
        "GilbertElliott",
        "TraceLink",
    ),
    "ofdma": (
        "finish_times",
        "minmax_shares",
        "minmax_latency",
        "sum_shares",
        "sum_latency",
        "kkt_residual",
        "uniform_gain",
        "spread_finish_times",
        "spread_minmax_shares",
    ),
    "draft_length": (
        "round_costs",
        "round_energy",
        "etgr",
        "cost_per_token",
        "etgr_profile",
        "stationary_draft_length",
        "optimal_draft_length",
        "optimal_draft_length_profile",
        "surrogate_draft_length",
        "draft_length_regret",
        "worst_draft_length_regret",
        "synchronisation_time",
        "AcceptanceTracker",
        "tracker_moments",
    ),
    "serving": (
        "ModelShape",
        "Device",
        "Task",
        "Service",
        "DeviceFit",
        "forward_flops",
        "peak_memory",
        "run_time",
        "decoding_steps",
        "stage_times",
        "step_times",
        "pipeline_latency",
        "inference_latency",
        "upload_bits",
        "fit_device",
        "free_schedule",
        "free_latency",
        "free_bound",
        "expected_steps",
        "steps_distribution",
    ),
    "batching": ("METHODS", "Plan", "plan", "plan_latency", "lower_bound", "johnson_order"),
}
"""Every module and the public names in it."""

_MODULE_OF = {name: module for module, names in MODULES.items() for name in names}

__all__ = ["MODULES", "all_claims", *_MODULE_OF]


def all_claims() -> dict[str, Claim]:
    """Every claim of every module, by id, in the order of the modules."""
    claims = [claim for module in MODULES for claim in import_module(f"hlmtheory.{module}").CLAIMS]
    return {claim.id: claim for claim in claims}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hlmtheory' has no attribute {name!r}")
    return getattr(import_module(f"hlmtheory.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
