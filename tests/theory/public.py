"""Every name of the theory that refuses bad input, with its object: those of the doors, and those of files alone."""

import inspect
from importlib import import_module
from types import SimpleNamespace

import hlmtheory

INNER = {
    "channel.latency": "dbm_to_watts mean_round_throughput throughput",
    "channel.leak": "rounds_leak size_classes",
    "channel.split": "downlink_bits",
    "codec.messages": "LatticeDraft MixedDraft TokenDraft",
    "codec.mixed": "message_bytes",
    "conformal.controller": "regret_bound_sharp smallest_support",
    "draft_length.optimum": "optimal_draft_length_profile stationary_draft_length surrogate_draft_length",
    "draft_length.published": "mean_interval position_interval single_rate",
    "draft_length.rates": "etgr_profile",
    "draft_length.rounds": "synchronisation_time",
    "lattice.payload": "exact_payload_bits",
    "lattice.quantization": "distortion_bound_sharp dropped_mass",
    "lossless.evidence": "distance_bound law_wealth",
    "lossless.power": "power_to_find smallest_found",
    "ofdma.shares": "finish_times kkt_residual sum_latency sum_shares",
    "policy.capacity": "server_rates",
    "policy.hulls": "Hulls",
    "serving.costs": "decoding_steps expected_steps steps_distribution upload_bits",
    "serving.goodput": "fit_passes goodput load_batch round_line",
    "serving.pipeline": "step_times",
    "shared_seed.lists": "list_match_bound list_match_probability",
    "shared_seed.match": "match_floor match_rules",
    "shared_seed.stream": "exponentials race",
    "skipping.audit": "audit_wealth fewest_tokens_to_certify",
    "skipping.bill": "bill_bound bill_bound_on_device position_bill",
    "skipping.calibration": "calibrate_threshold held_out_risk threshold_losses",
    "skipping.holder": "holder_bound_discrete rejection_risk_discrete",
    "skipping.risk": "surrogate_gap",
    "truncation.box_sizes": "box_bias box_deviation",
    "truncation.boxes": "box_distance quantised_box",
    "truncation.message": "decoded_draft message_deviation",
    "truncation.multi_draft": "multi_draft_distribution",
    "truncation.partial": "partial_boxes partial_deviation partial_draft",
    "truncation.reconstruction": "resampling_distortion tvd_bound_sharp",
    "truncation.rules": "size_from_min_p size_from_top_n_sigma size_from_top_p",
    "truncation.sizes": "exact_size",
    "truncation.softplus": "softplus_distance softplus_gap",
    "uncertainty.binomial": "skip_probability",
    "uncertainty.perturbation": "vocabulary_uncertainty",
    "verification.block": "block_acceptance",
    "verification.intervals": "decoded_acceptance_rate",
    "verification.lossy": "relaxed_acceptance threshold_acceptance top_acceptance typical_acceptance",
    "verification.misdeclared": "misdeclared_distribution",
    "verification.multi_draft": "multi_draft_optimum top_draft_optimum",
    "verification.rule": "greedy_output_distribution",
    "verification.tokens": "expected_tokens_profile",
    "verification.tree": "sibling_acceptance tree_distribution",
    "verification.updates": "largest_distance",
}
"""On no door, but checked as the names there are: a theorem, a command or a study imports them from their files."""


def public_names() -> dict[str, object]:
    """Return the names in ``__all__`` of every module, and the inner ones; each has one object."""
    found: dict[str, object] = {}
    for module in (import_module(f"hlmtheory.{name}") for name in hlmtheory.MODULES):
        for name in sorted(module.__all__):
            assert found.setdefault(name, getattr(module, name)) is getattr(module, name), name
    for module, names in ((import_module(f"hlmtheory.{place}"), names) for place, names in INNER.items()):
        found.update({name: getattr(module, name) for name in names.split()})
    return found


NAMES = public_names()
theory = SimpleNamespace(**NAMES)
BY_EITHER = {"finish_times", "minmax_shares", "minmax_latency"}
"""They take an SNR, or else a spectral efficiency."""

UNCHECKED = ("CertifiedAnswers", "SeededTokens", "StreamedTokens")
"""Records that check what they hold; a text of JSON with other values is tested with the policy."""


def is_record(name: str, item: object) -> bool:
    fields = getattr(item, "_fields", getattr(item, "__dataclass_fields__", ()))
    return inspect.isclass(item) and bool(fields) and (name in UNCHECKED or not hasattr(item, "__post_init__"))


RECORDS = {
    name
    for file in {item.__module__ for item in NAMES.values()}
    for name, item in vars(import_module(file)).items()
    if is_record(name, item)
}
"""Answers: made by the library alone, and no function takes one."""


def public() -> dict[str, object]:
    found = {}
    for name, item in NAMES.items():
        if not callable(item) or name in RECORDS or (inspect.isclass(item) and issubclass(item, Exception)):
            continue
        found[name] = item
        own = [base for base in getattr(item, "__mro__", ()) if base is item or base.__name__.startswith("_")]
        for method, function in ((one, getattr(item, one)) for base in own for one in vars(base)):
            if (
                inspect.isfunction(function)
                and not method.startswith("_")
                and len(inspect.signature(function).parameters) > 1
            ):
                found[f"{name}.{method}"] = function
    return found


PUBLIC = public()
