"""One valid call of every public function, constructor and method; the sweep of bad input starts from it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory import channel, codec, conformal, draft_length, lossless, policy, serving, skipping
from validation.trace.writer import TraceWriter

MODEL = serving.ModelShape(1, 2, 3)
DEVICE = serving.Device(0.25, 1.0)
SERVICE = serving.Service(MODEL, MODEL, DEVICE, DEVICE, 0.5)
PASSES = {
    "target_pass": [4.5, 0.5, 0.25],
    "draft_pass": [1.5, 0.25, 0.125],
    "context": 2.5,
    "overhead_s": 0.5,
}
TASKS = [serving.Task(2, 3), serving.Task(3, 2)]
LINK = channel.Rician(10.0, 2.0)
CHAIN = channel.GilbertElliott(8e6, 1e6, 0.0625, 0.25, 0.5)
RECORDED = channel.TraceLink([0.0, 1.0], [1e6, 3e6])
TRACKER = draft_length.AcceptanceTracker(0.1, "consistent", 0.75, 1.0)
LATTICE = codec.lattice_message([6, 0, 4, 0], support=[True, False, True, False], token=2)
CHOSEN = codec.cheapest_codec([0.625, 0.25, 0.125], 0.25)
MIXED = codec.coded_message([0.625, 0.25, 0.125], CHOSEN, token=2)
HULLS = policy.lower_hulls([[16.5, 64.5], [8.5, 32.5]], [[0.25, 0.0], [0.5, 0.125]])
STAGES = policy.StageCosts(0.125, 0.25, 0.00390625)
POLICY = policy.DevicePolicy(3, 1.5, policy.threshold_rule(2), policy.DraftProbabilities())
DRAFTED = POLICY.draft([0.5, 1.5, -1.0], rng=np.random.default_rng(1))
USERS = [
    policy.BandUser(HULLS, STAGES, [0.75, 0.5], risk_limit=np.inf, draft_lengths=[1, 2], skipping=False)
    for _ in range(2)
]
SERVER = policy.SharedServer(0.25, 0.125, 2)
TRUNCATED = codec.truncated_message([0.5, 0.25, 0.125, 0.125], k=2, token=2, bits=3)


def sides() -> tuple[policy.DeviceSession, policy.ServerSession]:
    """Return the two sides of a new session, because calls change them."""
    both = (policy.DeviceSession, policy.ServerSession)
    device, server = (side(POLICY, session=b"text 0001", key=b"k" * 16) for side in both)
    return device, server


def waiting() -> policy.DeviceSession:
    """Return a device whose first message has no answer yet."""
    device, _ = sides()
    device.message([DRAFTED])
    return device


def answered() -> bytes:
    """Return the answer to that message."""
    device, server = sides()
    return server.verify(device.message([DRAFTED]), [R] * 2, rng=np.random.default_rng(1))


class Forgetful(set[int]):
    """A set that takes nothing up, so that one seed may be used again."""

    def add(self, element: int) -> None:
        """Leave the seed out."""


STREAM = policy.DevicePolicy(3, 1.5, policy.threshold_rule(1), policy.StreamedTokens(), bonus=False)
STREAMED: dict[str, Any] = {"policy": STREAM, "session": b"text 0001", "key": b"k" * 16, "seed": 7, "position": 3}


def streamed() -> tuple[policy.StreamedDevice, policy.StreamedServer, bytes]:
    """Return the two sides of a streamed session, and the message of the first draft, which the server has not read."""
    device, server = policy.StreamedDevice(**STREAMED), policy.StreamedServer(**STREAMED, used=Forgetful())
    return device, server, device.draft([0.5, 1.5, -1.0])[1]


def reading() -> policy.StreamedServer:
    """Return a server that has read the first draft."""
    _, server, message = streamed()
    server.receive(message)
    return server


def controller(steps: int = 0) -> conformal.ThresholdController:
    """Return a new controller, because calls change it."""
    made = conformal.ThresholdController(0.25, 0.5, 0.25)
    for _ in range(steps):
        made.step([0.5, 0.25, 0.125, 0.125])
    return made


def budget(steps: int = 0) -> conformal.MassBudgetController:
    """Return a new budget, because calls change it."""
    made = conformal.MassBudgetController(0.25)
    for _ in range(steps):
        made.step([0.5, 0.25, 0.125, 0.125])
    return made


_FOLDER = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, _FOLDER)


def stored_trace() -> str:
    """Return the folder of a trace with one position."""
    with TraceWriter(_FOLDER, vocabulary=2) as writer:
        writer.append(*2 * [np.zeros((1, 2))], *3 * [np.zeros(1)])
    return str(_FOLDER)


P, Q, R = [0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.625, 0.25, 0.125]
LISTS = {
    "target_token": [3, 7],
    "target_log_probability": [-0.75, -1.5],
    "draft_token": [7, 9],
    "draft_log_probability": [-1.0, -2.5],
    "vocabulary": 40,
}
LINE = {"slope": 0.75, "intercept": -0.125, "non_acceptance": 0.5}
CELL = {"bits": [100.0, 200.0], "spectral_efficiency": [1.0, 4.0]}
SPREAD = {"bits": [100.0, 200.0], "full_band_snr": [0.5, 1.5]}
STEPS = {"draft_times": [[1.5, 2.5], [1.5, 2.0]], "verify_times": [[0.5, 1.5], [0.5, 2.5]], "steps": [2, 2]}
COSTS = {"fixed": 0.125, "marginal": 0.0625}

VALID_CALLS: dict[str, dict[str, Any]] = {
    # verification
    "softmax": {"logits": [0.5, 1.5, -1.0]},
    "total_variation": {"p": P, "q": Q},
    "rejection_probability": {"target": P, "draft": Q},
    "acceptance_rate": {"target": P, "draft": Q},
    "residual_distribution": {"target": P, "draft": Q},
    "output_distribution": {"target": P, "draft": Q, "skip": [0.25, 0.5, 0.75], "residual": R},
    "greedy_output_distribution": {"target": P, "draft": Q},
    "misdeclared_distribution": {"target": P, "draft": Q, "actual_draft": R},
    "tree_distribution": {"targets": [P], "drafts": [Q], "draft_count": 2},
    "block_weights": {"targets": [P, R], "drafts": [Q, P], "tokens": [0, 1]},
    "block_acceptance": {"targets": [P, R], "drafts": [Q, P], "tokens": [0, 1]},
    "lossy_price": {"target": P, "draft": Q, "accept": [0.25, 0.5, 0.75], "residual": R},
    "relaxed_acceptance": {"target": P, "draft": Q, "factor": 1.5},
    "typical_acceptance": {"target": P, "epsilon": 0.25, "delta": 0.5},
    "threshold_acceptance": {"target": P, "single": 0.75, "accumulated": 0.5},
    "top_acceptance": {"target": P, "top_k": 2, "margin": 0.25},
    "sibling_acceptance": {"target": P, "draft": Q, "draft_count": 2},
    "multi_draft_optimum": {"target": P, "draft": Q, "draft_count": 2},
    "top_draft_optimum": {"target": P, "draft": Q, "draft_count": 2},
    "acceptance_interval": {"accepted": 3.5, "examined": 5, "error": 0.25, "form": "varying"},
    "decoded_acceptance_rate": {"target": P, "decoded": Q, "deviation": 0.125},
    "acceptance_after_update": {"acceptance": 0.75, "distance": 0.125},
    "largest_distance": {"divergence": 0.5},
    "expected_tokens": {"acceptance": 0.75, "draft_length": 3},
    "expected_tokens_profile": {"acceptances": [0.5, 0.75]},
    # shared_seed
    "exponentials": {"seed": 3, "position": 2, "vocabulary": 5},
    "list_match_bound": {"target": P, "draft": Q, "size": 2},
    "list_match_floor": {"total_variation": 0.25, "size": 2},
    "list_match_probability": {"target": P, "draft": Q, "size": 2},
    "match_floor": {"total_variation": 0.25},
    "match_probability": {"target": P, "draft": Q},
    "match_rules": {"target": P, "draft": Q},
    "message_value": {"total_variation": 0.25},
    "race": {"probabilities": P, "seed": 3, "position": 2},
    "race_list": {"probabilities": P, "seed": 3, "position": 2, "size": 2},
    "race_winner": {"probabilities": P, "seed": 3, "position": 2},
    "skip_mismatch": {"target": P, "draft": Q, "skip": [0.25, 0.5, 0.75]},
    "stream_key": {"seed": 3, "prompt": 2},
    "streamed_rate": {"acceptance": 0.75, "draft_time": 0.125, "round_trip": 0.25, "verify_time": 0.5},
    # vocabulary
    "common_acceptance": {"target": P, "draft": Q, "support": [True, False, True]},
    # uncertainty
    "sample_uncertainty": {
        "logits": [0.5, 1.5, -1.0],
        "draft_token": 1,
        "draws": 5,
        "max_temperature": 1.5,
        "rng": np.random.default_rng(1),
    },
    "expected_uncertainty": {"logits": [0.5, 1.5, -1.0], "draft_token": 1, "max_temperature": 1.5},
    "vocabulary_uncertainty": {"logits": [0.5, 1.5, -1.0], "max_temperature": 1.5},
    "skip_probability": {"expected": 0.25, "threshold": 0.75, "draws": 5},
    "fit_linear": {
        "uncertainty": [0.0, 0.25, 0.5, 1.0, 0.25, 0.75, 0.5, 1.0],
        "rejection_by_token": [0.0, 0.25, 0.5, 0.75, 0.125, 0.5, 0.375, 1.0],
        "groups": [0, 0, 0, 0, 1, 1, 1, 1],
        "binned": False,
        "confidence": 0.875,
    },
    # skipping
    "calibrate": {"losses_by_prompt": [[[0.25, 0.5], [0.5, 0.75]], [[0.125, 0.5], [1.5, 0.25]]], "limit": 0.75},
    "skip_thresholds": LINE,
    "non_acceptance": {"target": [0.625, 0.375], "draft": [0.5, 0.5]},
    "rejection_risk": {"cell_probabilities": [0.25, 0.75], **LINE},
    "rejection_risk_discrete": {"mass": [0.25, 0.5, 0.25], **LINE},
    "holder_bound": {"cell_probabilities": [0.25, 0.75], **LINE, "exponent": 1.5},
    "holder_bound_discrete": {"mass": [0.25, 0.5, 0.25], **LINE, "exponent": 1.5},
    "best_holder_bound": {"cell_probabilities": [0.25, 0.75], **LINE, "discrete": True},
    "surrogate_gap": {"uncertainty": [0.0, 0.5, 0.75], "rejection_by_token": [0.25, 0.5, 0.75], **LINE},
    "one_step_risk": {"target": P, "draft": Q, "skip": [0.25, 0.5, 0.75]},
    "position_bill": {"target": P, "draft": Q, "skip": [0.25, 0.5, 0.75], "decoded": [R]},
    "bill_bound": {"target": P, "draft": Q, "skip": [0.25, 0.5, 0.75], "deviation": [0.25, 0.125, 0.0]},
    "bill_bound_on_device": {"draft": Q, "skip": [0.25, 0.5, 0.75], "deviation": [0.25, 0.125, 0.0]},
    "overlap_risk": {"target": [P, Q], "draft": [Q, R], "skip": [[0.25, 0.5, 0.75], [0.5, 0.5, 0.5]], "token": [1, 0]},
    "confident_threshold": {
        "losses": [[0.0, 0.25], [0.125, 0.5]],
        "thresholds": [0.5, 1.5],
        "risk": 0.75,
        "error": 0.5,
        "prompt": [3, 5],
    },
    "audit_wealth": {
        "audited_rejection": [0.0, 0.5, 0.25],
        "audit_probability": 0.5,
        "risk": 0.125,
        "bets": [0.25, 0.75],
    },
    "audit_bound": {
        "audited_rejection": [0.0, 0.5, 0.25],
        "audit_probability": 0.5,
        "error": 0.125,
        "bets": [0.25, 0.75],
    },
    "fewest_tokens_to_certify": {"audit_probability": 0.5, "risk": 0.125, "error": 0.25},
    "SkipAudit": {"audit_probability": 0.5, "risk": 0.125, "error": 0.25, "bets": [0.25, 0.75]},
    "SkipAudit.update": {"audited_rejection": 0.5},
    "law_wealth": {"outcome": [[0.0, 1.0, 0.5]], "expected": [[0.25, 0.5, 0.5]], "bets": [0.25, 0.75]},
    "distance_bound": {
        "outcome": [[0.0, 1.0, 0.5]],
        "expected": [[0.25, 0.5, 0.5]],
        "error": 0.125,
        "bets": [0.25, 0.75],
    },
    "distance_ceiling": {"first": [3, 1, 2], "second": [2, 2, 2], "target": P, "error": 0.125},
    "power_to_find": {"draws": 50, "distance": 0.25, "error": 0.125, "tests": 2, "event": 0.5, "bets": [0.25, 0.75]},
    "smallest_found": {"draws": 50, "error": 0.125, "tests": 2, "power": 0.5, "event": 0.5, "bets": [0.25, 0.75]},
    "draws_to_find": {
        "distance": 0.25,
        "error": 0.125,
        "tests": 2,
        "power": 0.5,
        "event": 0.5,
        "bets": [0.25, 0.75],
    },
    "text_distance": {"step_distance": 0.25, "tokens": 3},
    "LawTest": {"tests": 1, "error": 0.125, "bets": [0.25, 0.75]},
    "LawTest.update": {"outcome": [[0.0, 1.0, 0.5]], "expected": [[0.25, 0.5, 0.5]]},
    "text_risk": {"losses": [0.25, 0.0, 0.5], "error": 0.125},
    "sequence_risk": {"step_risks": [[0.25, 0.0], [0.25, 0.5]]},
    "threshold_losses": {
        "uncertainty": [[0.125, 0.375]],
        "rejection_by_token": [[0.25, 0.5]],
        "thresholds": [0.0, 0.25, 0.5],
    },
    "calibrate_threshold": {
        "losses": [[0.0, 0.5], [0.0, 0.25], [0.0, 0.0]],
        "thresholds": [0.125, 0.25],
        "risk": 0.375,
        "bound": 1.5,
        "prompt": [3, 5, 4],
    },
    "held_out_risk": {"losses": [[0.0, 0.5], [0.0, 0.25]], "risk": 0.75, "bound": 1.5},
    # truncation
    "truncate": {"draft": R, "k": 1},
    "tail_deviation": {"draft": R},
    "resampling_distortion": {"target": P, "draft": R, "k": 1},
    "resampling_bias": {"target": P, "draft": R, "k": 1},
    "tvd_bound": {"target": P, "draft": R, "k": 1},
    "tvd_bound_sharp": {"target": P, "draft": R, "k": 1},
    "exact_size": {"target": P, "draft": R, "distortion_tolerance": 0.125},
    "offline_size": {"target": [P, Q], "draft": [R, P], "distortion_tolerance": 0.125, "sharp": True},
    "online_size": {
        "draft": R,
        "draft_token": 0,
        "rejection_probability": 0.5,
        "distortion_tolerance": 0.25,
        "sharpness": 2.5,
    },
    "certified_size": {"draft": R, "bias_tolerance": 0.25, "bits_per_probability": 8, "draft_count": 2},
    "decoded_draft": {"draft": R, "k": 1, "bits_per_probability": 4, "draft_token": 0},
    "message_deviation": {"draft": R, "bits_per_probability": 4},
    "multi_draft_distribution": {"target": P, "draft": Q, "k": 1, "draft_count": 2},
    "partial_distance": LISTS,
    "partial_deviation": {"draft_log_probability": [-1.0, -2.5], "k": 1, "vocabulary": 40},
    "partial_bias": {**LISTS, "k": 1},
    "partial_draft": {**LISTS, "token": 7, "uniform": 0.25},
    "box_distance": {
        "target_lower": [0.125, 0.25, 0.0],
        "target_upper": [0.375, 0.75, 0.5],
        "draft_lower": [0.25, 0.125, 0.0],
        "draft_upper": [0.5, 0.75, 0.25],
        "count": [1, 1, 2],
    },
    "box_deviation": {
        "draft_lower": [0.25, 0.125, 0.0],
        "draft_upper": [0.5, 0.75, 0.25],
        "k": 1,
        "count": [1, 1, 2],
    },
    "box_bias": {
        "target_lower": [0.125, 0.25, 0.0],
        "target_upper": [0.375, 0.75, 0.5],
        "draft_lower": [0.25, 0.125, 0.0],
        "draft_upper": [0.5, 0.75, 0.25],
        "k": 1,
        "count": [1, 1, 2],
    },
    "partial_boxes": {**LISTS, "target_error": 0.125, "draft_error": 0.25},
    "quantised_box": {"log_probability": [-0.375, -1.25, -16.5], "error": 0.125, "floor": -16.0},
    "decoded_output_distribution": {"target": P, "draft": Q, "decoded": R},
    "softplus_gap": {"z": [-0.5, 0.75], "sharpness": 2.5},
    "softplus_distance": {"target": P, "draft": Q, "sharpness": 2.5},
    "online_bound": {"draft": R, "draft_token": 0, "rejection_probability": 0.5, "k": 1, "sharpness": 2.5},
    "safe_sharpness": {"draft_probability": 0.75, "rejection_probability": 0.25},
    "size_from_top_p": {"draft": R, "p": 0.75},
    "size_from_min_p": {"draft": R, "p": 0.75},
    "size_from_top_n_sigma": {"logits": [0.5, 1.5, -1.0], "n": 0.5},
    "optimal_sizes": {"draft_rows": [P, R], "budget_bits": 40, "bits_per_probability": 4, "exact": False},
    # lattice
    "top_support": {"draft": R, "k": 1},
    "dropped_mass": {"draft": R, "support": [True, True, False]},
    "quantize": {"draft": R, "support": [True, True, False], "resolution": 10},
    "distortion_bound_sharp": {"k": 3, "resolution": 100},
    "payload_bits": {"vocabulary": 4096, "k": 64, "resolution": 100, "adaptive": True},
    "exact_payload_bits": {"vocabulary": 40, "k": 6, "resolution": 10, "adaptive": True},
    "allocate": {"draft": R, "budget_bits": 12.5, "adaptive": True},
    # codec
    "LatticeDraft": {"support": np.array([0, 2]), "counts": np.array([6, 4]), "token": 2},
    "LatticeMessage": {"vocabulary": 4, "drafts": LATTICE.drafts},
    "TruncatedDraft": {"indices": np.array([0, 1]), "levels": np.array([3, 1]), "token": 2, "probability": 0.125},
    "TruncatedMessage": {"vocabulary": 4, "bits": 3, "drafts": TRUNCATED.drafts},
    "TokenDraft": {"token": 2},
    "TokenMessage": {"vocabulary": 4, "drafts": (codec.TokenDraft(2),)},
    "lattice_message": {"counts": [6, 0, 4, 0], "support": [True, False, True, False], "token": 2},
    "truncated_message": {"draft": R, "k": 2, "token": 2, "bits": 3},
    "CodecMenu": {"kinds": ("top-k", "lattice"), "widths": (4, 8), "sizes": (1, 2), "resolutions": (10, 100)},
    "cheapest_codec": {"draft": R, "bias_tolerance": 0.25, "menu": codec.CodecMenu()},
    "MixedDraft": {
        "kind": "mixture",
        "support": np.array([0, 1]),
        "values": np.array([6, 3]),
        "rest": 1,
        "bits": 0,
        "token": 2,
        "probability": 0.125,
    },
    "MixedMessage": {"vocabulary": 3, "drafts": MIXED.drafts},
    "coded_message": {"draft": R, "choice": CHOSEN, "token": 2, "probability": True},
    "message_bytes": {"vocabulary": 3, "bits": [20, 30], "probability": True},
    "optimal_codecs": {"bits": [[20.0, 4.0], [90.0, 10.0]], "bias": [[0.5, 1.5], [0.5, 1.5]], "bias_budget": 2.5},
    "decoded_rows": {"message": TRUNCATED},
    "encode": {"message": LATTICE, "coder": "enumerative"},
    "decode": {"data": codec.encode(LATTICE)},
    # conformal
    "threshold_support": {"draft": R, "threshold": 0.375},
    "ThresholdController": {"epsilon": 0.25, "learning_rate": 0.5, "threshold": 0.375, "clip": True},
    "ThresholdController.step": {"draft": R},
    "ThresholdController.run": {"drafts": [R, R]},
    "ThresholdController.roll_back": {"accepted": 1, "printed": False},
    "smallest_support": {"draft": R, "allowance": 0.25},
    "MassBudgetController": {"epsilon": 0.25, "limit": 0.75},
    "MassBudgetController.step": {"draft": R, "threshold": 0.375},
    "MassBudgetController.run": {"drafts": [R, R]},
    "MassBudgetController.roll_back": {"accepted": 1},
    "mass_budget_bound": {"epsilon": 0.25, "steps": 100, "first": 3, "limit": 0.75},
    "regret_bound": {"epsilon": 0.25, "learning_rate": 0.5, "threshold": 0.375, "steps": 100},
    "regret_bound_sharp": {
        "epsilon": 0.25,
        "learning_rate": 0.5,
        "threshold": 0.375,
        "steps": 100,
        "vocabulary": 4,
    },
    # channel
    "downlink_bits": {"acceptances": [0.5, 0.75], "row_bits": 96.0},
    "db_to_linear": {"db": [-20.0, 3.5]},
    "dbm_to_watts": {"dbm": [-20.0, 3.5]},
    "vocabulary_payload_bits": {"vocabulary": 32_000, "bits_per_probability": 8, "index": False},
    "shannon_latency": {"bits": 1000.5, "bandwidth_hz": 1e6, "snr": 1.5},
    "throughput": {"times_s": [0.5, 1.5]},
    "log_distance_gain": {"distance_m": 100.5, "reference_gain": 1e-3, "exponent": 2.5, "reference_m": 1.5},
    "Rayleigh": {"mean_snr": 10.5},
    "Rician": {"mean_snr": 10.5, "k_factor": 2.5},
    "Rician.sample": {"rng": np.random.default_rng(1), "size": 3},
    "Rician.density": {"snr": 1.5},
    "Rician.distribution": {"snr": 1.5},
    "Rician.quantile": {"probability": 0.25},
    "Rician.outage_probability": {"rate": 1.5},
    "Rician.rate_quantile": {"probability": 0.25},
    "Rician.latency_quantile": {"probability": 0.25, "bits": 1000.5, "bandwidth_hz": 1e6},
    "Rician.mean_latency": {"bits": 1000.5, "bandwidth_hz": 1e6, "outage": 0.125},
    "Rician.inverse_efficiency": {"cut": 0.5, "upper": 2.5},
    "rounds_leak": {"tokens": 40, "draft_length": 4},
    "size_classes": {"sizes": [10.5, 12.5, 40.5], "weights": [5.5, 5.5, 1.5], "classes": 2},
    "GilbertElliott": {
        "good_bps": 8e6,
        "bad_bps": 1e6,
        "leave_good": 0.0625,
        "leave_bad": 0.25,
        "slot_s": 0.5,
    },
    "GilbertElliott.correlation": {"slots": 3},
    "GilbertElliott.sample": {"rng": np.random.default_rng(1), "slots": 3},
    "TraceLink": {"time_s": [0.0, 1.5], "throughput_bps": [1e6, 3e6]},
    "TraceLink.delivered_bits": {"until_s": 1.5},
    "TraceLink.transfer_time": {"bits": 1e5, "start_s": 0.5},
    # ofdma
    "finish_times": {**CELL, "shares": [0.5, 0.25], "bandwidth_hz": 100.5},
    "minmax_shares": CELL,
    "minmax_latency": {**CELL, "bandwidth_hz": 100.5},
    "sum_shares": CELL,
    "sum_latency": {**CELL, "bandwidth_hz": 100.5},
    "kkt_residual": {**CELL, "shares": [0.5, 0.5], "objective": "minmax"},
    # draft_length
    "round_costs": {
        "rate_bps": 1e4,
        "bits_per_token": 16.5,
        "header_bits": 320.5,
        "propagation_s": 0.25,
        "cloud_base_s": 0.125,
        "cloud_slope_s": 0.125,
        "edge_start_s": 0.125,
        "edge_slope_s": 0.125,
        "downlink_s": 0.125,
    },
    "etgr": {"acceptance": 0.75, "draft_length": 3, **COSTS},
    "cost_per_token": {"acceptance": 0.75, "draft_length": 3, **COSTS},
    "etgr_profile": {"acceptances": [0.75, 0.5], **COSTS},
    "stationary_draft_length": {"acceptance": 0.75, **COSTS},
    "optimal_draft_length": {"acceptance": 0.75, **COSTS, "max_draft_length": 16, "min_draft_length": 1},
    "optimistic_draft_length": {"examined": [4, 3], "accepted": [3, 1], **COSTS, "error": 0.25},
    "online_regret_bound": {"examined": [4, 3], "error": 0.25, "rounds": 5, "range_tokens": 1.5},
    "critical_delays": {"acceptances": [0.75, 0.5], **COSTS},
    "optimal_draft_length_profile": {"acceptances": [0.75, 0.5], **COSTS, "min_draft_length": 1},
    "surrogate_draft_length": {"acceptance": 0.75, **COSTS, "max_draft_length": 16, "bonus": True},
    "draft_length_regret": {"acceptance": 0.75, "believed": 0.5, **COSTS, "max_draft_length": 16},
    "synchronisation_time": {"size_bytes": 3.2e9, "rate_bps": 10e6},
    "AcceptanceTracker": {"step": 0.25, "method": "consistent", "accepted": 0.75, "examined": 1.5},
    "AcceptanceTracker.update": {"accepted": 2, "draft_length": 6},
    "acceptance_by_depth": {"counts": [[0, 0, 0], [5, 5, 0], [5, 2, 3]], "confidence": 0.875, "method": "anytime"},
    "tokens_by_length": {"counts": [[0, 0, 0], [5, 5, 0], [5, 2, 3]], "confidence": 0.875, "method": "delta"},
    "position_interval": {"position_rates": [0.5, 0.25, 0.125], "mean_draft_length": 2.5},
    "mean_interval": {"mean_accepted": 0.75, "draft_length": 2, "other_length": 3},
    "split_tokens": {"histogram": [2.5, 0.0, 1.5, 0.5], "draft_length": 2},
    "single_rate": {"mean_accepted": 0.75, "draft_length": 2},
    # serving
    "ModelShape": {"layers": 1, "hidden": 2, "feed_forward": 3},
    "Device": {"c1": 0.25, "c2": 1.5},
    "Task": {"input_tokens": 2, "output_tokens": 3},
    "Service": {
        "draft": MODEL,
        "verify": MODEL,
        "draft_device": DEVICE,
        "verify_device": DEVICE,
        "acceptance": 0.5,
        "memory": 1e6,
    },
    "forward_flops": {"model": MODEL, "new_tokens": 5.5, "cached_tokens": 10.5},
    "peak_memory": {"model": MODEL, "input_tokens": 5.5, "output_tokens": 10.5, "batch_size": 2, "draft_length": 1},
    "decoding_steps": {"output_tokens": [3, 4], "acceptance": 0.5, "draft_length": 1},
    "stage_times": {"service": SERVICE, "draft_length": 1, "input_tokens": 2, "batch_size": 3},
    "step_times": {"stage": [11.5, 6.5, 2.5], "step": [1, 2, 3]},
    "inference_latency": {
        "draft_stages": [[2.5, 2.5, 0.0], [3.5, 3.5, 0.5]],
        "verify_stages": [[4.5, 4.5, 0.0], [1.5, 1.5, 0.5]],
        "steps": [2, 1],
    },
    "upload_bits": {"draft": MODEL, "verify": MODEL, "input_tokens": 5.5},
    "fit_passes": {
        "batch_size": [1, 2, 4, 4, 2],
        "width": [1, 1, 1, 2, 2],
        "context": [8.5, 16.5, 8.5, 8.5, 8.5],
        "seconds": [1.75, 3.5, 4.0, 5.0, 3.25],
        "confidence": 0.875,
    },
    "round_line": {**PASSES, "draft_length": 2},
    "goodput": {"tokens": 2.5, "fixed": 6.5, "slope": 2.5, "batch_size": 4.5},
    "crossover_batch": {"tokens": 2.5, **PASSES, "draft_length": 2},
    "load_batch": {"load": 0.5, "tokens": 2.5, "fixed": 6.5, "slope": 2.5},
    "fit_device": {
        "flops": [1.5, 2.5, 3.5],
        "batch_size": [2, 1, 2],
        "seconds": [5.5, 6.5, 13.5],
        "confidence": 0.875,
    },
    # batching
    "plan": {
        "tasks": TASKS,
        "service": SERVICE,
        "method": "dp",
        "schedule": "free",
        "memory_rule": "each",
        "draft_lengths": [1, 2],
        "static_size": 4,
        "max_labels": 100,
    },
    "plan_latency": {
        "tasks": TASKS,
        "service": SERVICE,
        "batches": [[0], [1]],
        "draft_length": 2,
        "order": "given",
        "schedule": "free",
        "memory_rule": "each",
        "waves": [1, 1],
    },
    "lower_bound": {
        "tasks": TASKS,
        "service": SERVICE,
        "draft_length": 2,
        "schedule": "free",
        "memory_rule": "each",
        "close": False,
    },
    # policy
    "fading_skip": {
        "link": LINK,
        "bits": 1024.5,
        "bandwidth_hz": 1e4,
        "server_s": 0.0625,
        "worth_s": 0.25,
    },
    "Hulls": {
        "start": [0, 2],
        "bits": [10.5, 30.5],
        "risk": [0.5, 0.25],
        "entry": [0, 2],
        "codec": None,
    },
    "codec_hulls": {"draft": [[0.5, 0.25, 0.125, 0.125]], "menu": codec.CodecMenu(sizes=(1, 2), resolutions=(4,))},
    "lower_hulls": {"bits": [[10.5, 20.5]], "risk": [[0.5, 0.25]]},
    "StageCosts": {
        "draft_s": 0.125,
        "verify_s": 0.25,
        "seconds_per_bit": 0.00390625,
        "round_trip_s": 0.0625,
        "verify_token_s": 0.03125,
        "fixed_s": 0.015625,
        "header_bits": 16.5,
        "token_bits": 12.5,
    },
    "StageCosts.fixed_time": {"draft_length": 2},
    "plan_user": {
        "hulls": HULLS,
        "costs": STAGES,
        "acceptances": [0.75, 0.5],
        "rejection": [0.25, 0.5],
        "weight": [1.5, 2.5],
        "risk_limit": 0.25,
        "draft_lengths": [1, 2],
        "skipping": True,
        "bonus": True,
        "mixing": True,
    },
    "BandUser": {
        "hulls": HULLS,
        "costs": STAGES,
        "acceptances": [0.75, 0.5],
        "rejection": [0.25, 0.5],
        "weight": [1.5, 2.5],
        "risk_limit": 0.25,
        "draft_lengths": [1, 2],
        "skipping": True,
        "bonus": True,
        "utility_weight": 1.5,
    },
    "plan_users": {"users": USERS, "utility": "log"},
    "plan_served": {"users": USERS, "server": SERVER, "utility": "log"},
    "SharedServer": {"pass_s": 0.25, "token_s": 0.125, "batch": 2},
    "SharedServer.alone_s": {"draft_length": 2},
    "SharedServer.load_s": {"draft_length": 2},
    "colocated_plan": {"acceptances": [0.75, 0.5], "server_draft_s": 0.125, "server": SERVER},
    "capacity_gain": {"acceptances": [0.75, 0.5], "server_draft_s": 0.125, "server": SERVER},
    "server_rates": {"most": [2.5, 3.5], "load_s": [0.5, 0.25], "weights": [1.5, 2.5], "utility": "log"},
    "queue_rates": {
        "away_s": [0.5, 0.25],
        "draft_lengths": [2, 3],
        "server": SERVER,
        "keep_s": [0.125, 0.25],
        "keep_share": [0.5, 0.25],
        "spread": 0.125,
        "rounds": 20,
        "company": 1,
        "patience_s": 0.25,
        "rng": np.random.default_rng(1),
    },
    "throughput_shares": {
        "tokens": [2.5, 3.5],
        "fixed_s": [0.5, 0.25],
        "band_s": [0.5, 0.75],
        "weights": [1.5, 0.5],
        "utility": "log",
    },
    # traces
    "open_trace": {"path": stored_trace()},
    "UncertaintyLine": {"slope": 0.75, "intercept": 0.125, "max_temperature": 1.5, "draws": 5},
    "UncertaintyLine.rejection": {"logits": [0.5, 1.5, -1.0], "token": 1, "rng": np.random.default_rng(1)},
    "Guarantee": {"quantity": "a token's total variation", "value": 0.125, "basis": "measured", "prompts": 53},
    "CertifiedRows": {"menu": codec.CodecMenu()},
    "LatticeRows": {"resolution": 10, "top_k": 2, "threshold": 0.125},
    "DraftProbabilities": {},
    "CertifiedAnswers": {"limit": 0.125},
    "SeededTokens": {"stream": "philox4x32-10 race 1"},
    "StreamedTokens": {"stream": "philox4x32-10 race 1"},
    "StreamedDevice": STREAMED,
    "StreamedDevice.draft": {"logits": [0.5, 1.5, -1.0]},
    "StreamedDevice.tokens": {"answer": reading().verify([R])},
    "StreamedServer": STREAMED | {"used": Forgetful()},
    "StreamedServer.receive": {"message": streamed()[2]},
    "StreamedServer.verify": {"target": [R]},
    "threshold_rule": {"draft_length": 2, "threshold": 0.375},
    "DevicePolicy": {
        "vocabulary": 3,
        "temperature": 1.5,
        "rule": policy.threshold_rule(2),
        "messages": policy.SeededTokens(),
        "line": policy.UncertaintyLine(0.75, 0.125),
        "planned_for": "3 ab cd",
        "bonus": True,
        "bits_limit": 100,
        "guarantees": [policy.Guarantee("speed", 31.5, "measured", 53)],
        "alone": True,
        "message_sizes": [24, 40],
        "block": False,
    },
    "DevicePolicy.distribution": {"logits": [0.5, 1.5, -1.0]},
    "DevicePolicy.draft": {
        "logits": [0.5, 1.5, -1.0],
        "place": 1,
        "rng": np.random.default_rng(1),
        "seed": 7,
        "position": 3,
    },
    "DevicePolicy.decide": {"logits": [0.5, 1.5, -1.0], "token": 1, "place": 1, "rng": np.random.default_rng(1)},
    "DevicePolicy.message": {"drafts": [DRAFTED]},
    "DevicePolicy.server_row": {"draft": DRAFTED},
    "DevicePolicy.tokens": {
        "drafts": [DRAFTED],
        "answer": policy.ServerAnswer(0, None, np.array(R)),
        "rng": np.random.default_rng(1),
    },
    "ServerPolicy": {"policy": POLICY},
    "ServerPolicy.received": {"message": POLICY.message([DRAFTED])},
    "ServerPolicy.verify": {
        "message": POLICY.message([DRAFTED]),
        "target": [R, R],
        "rng": np.random.default_rng(1),
        "seed": 7,
        "position": 3,
    },
    "envelope_bits": {"rounds": 100, "authenticated": True},
    "DeviceSession": {"policy": POLICY, "session": b"text 0001", "key": b"k" * 16, "seed": 7},
    "DeviceSession.message": {"drafts": [DRAFTED]},
    "DeviceSession.tokens": {"answer": answered(), "rng": np.random.default_rng(1)},
    "ServerSession": {"policy": POLICY, "session": b"text 0001", "key": b"k" * 16, "seed": 7, "used": set[int]()},
    "ServerSession.received": {"message": sides()[0].message([DRAFTED])},
    "ServerSession.verify": {
        "message": sides()[0].message([DRAFTED]),
        "target": [R, R],
        "rng": np.random.default_rng(1),
        "position": 3,
    },
}

RECEIVERS: dict[str, Any] = {
    "PassFit": serving.PassFit(
        (1.5, 0.5, 0.0), 0.25, 0.5, 2, ((0.5, -0.25, 0.0), (-0.25, 0.25, 0.0), (0.0,) * 3), 0.75
    ),
    "LawTest": lambda: lossless.LawTest(1, 0.125),
    "SkipAudit": lambda: skipping.SkipAudit(0.5, 0.125, 0.25),
    "ThresholdController.step": controller,
    "ThresholdController.run": controller,
    "ThresholdController.roll_back": lambda: controller(2),
    "MassBudgetController.step": budget,
    "MassBudgetController.run": budget,
    "MassBudgetController.roll_back": lambda: budget(2),
    "Rician": LINK,
    "GilbertElliott": CHAIN,
    "TraceLink": RECORDED,
    "AcceptanceTracker": TRACKER,
    "StageCosts": STAGES,
    "SharedServer": SERVER,
    "UncertaintyLine": policy.UncertaintyLine(0.75, 0.125),
    "DevicePolicy": POLICY,
    "ServerPolicy": policy.ServerPolicy(POLICY),
    "DeviceSession.message": lambda: sides()[0],
    "DeviceSession.tokens": waiting,
    "ServerSession": lambda: sides()[1],
    "StreamedDevice": lambda: streamed()[0],
    "StreamedServer.receive": lambda: streamed()[1],
    "StreamedServer.verify": reading,
}
"""What a method is called on: an object, or for one that changes what makes it."""

RECORDS = {
    "MatchRules",
    "StreamedRate",
    "LossyPrice",
    "RateInterval",
    "UpdateInterval",
    "LinearFit",
    "Thresholds",
    "BestBound",
    "SurrogateGap",
    "Calibration",
    "Run",
    "ConfidentThreshold",
    "TextRisk",
    "DraftOutcome",
    "Interval",
    "PartialBoxes",
    "PartialPair",
    "SizeAllocation",
    "Allocation",
    "CodecAllocation",
    "CodecChoice",
    "QuadratureEstimate",
    "DepthAcceptance",
    "TokensByLength",
    "DeviceFit",
    "PassFit",
    "SizeClasses",
    "Plan",
    "StoredTrace",
    "DeviceRule",
    "PlanPart",
    "UserPlan",
    "SharedPlan",
    "ServedPlan",
    "QueueRates",
    "ColocatedPlan",
    "CapacityGain",
    "DeviceDraft",
    "ServerAnswer",
    "FadingSkip",
}
"""Answers: made by the library alone, and no function takes one."""

_MASKED = "-inf is a masked entry: a token of probability 0"
_DECISION = "a decision for each draft is as good as its probability"
_LABEL = "any label of a prompt will do"
_ABSENT = "an infinite number of bits stands for a message that does not exist"
_WORDS = "any text that can be printed will do"
_EXPONENT = "Hölder's exponent may be infinite"

ALLOWED: dict[tuple[str, str], dict[str, str]] = {
    ("lower_hulls", "bits"): {"an entry inf": _ABSENT},
    ("DevicePolicy", "planned_for"): {"'no such option'": _WORDS},
    ("Guarantee", "quantity"): {"'no such option'": _WORDS},
    **{
        (name, "logits"): {"an entry -inf": _MASKED}
        for name in (
            "softmax",
            "UncertaintyLine.rejection",
            "DevicePolicy.distribution",
            "DevicePolicy.draft",
            "StreamedDevice.draft",
            "DevicePolicy.decide",
            "sample_uncertainty",
            "expected_uncertainty",
            "quadrature_error",
            "vocabulary_uncertainty",
            "size_from_top_n_sigma",
            "top_n_sigma_of_size",
        )
    },
    **{
        (name, argument): {"True": _DECISION, "an array of bools": _DECISION}
        for name, argument in (
            ("output_distribution", "skip"),
            ("lossy_price", "accept"),
            ("one_step_risk", "skip"),
            ("skip_mismatch", "skip"),
            ("overlap_risk", "skip"),
            ("truncated_step_risk", "skip"),
            ("position_bill", "skip"),
            ("bill_bound", "skip"),
            ("bill_bound_on_device", "skip"),
            ("round_bill", "kept"),
        )
    },
    ("quantised_box", "log_probability"): {"an entry -inf": _MASKED},
    ("quantised_box", "floor"): {"-inf": "a row without a floor"},
    ("fit_linear", "groups"): dict.fromkeys(
        ("an array of strings", "an entry '2'", "an entry 2.5", "an entry 2.0", "an entry 1e-310"), _LABEL
    ),
    ("holder_bound", "exponent"): {"inf": _EXPONENT},
    ("holder_bound_discrete", "exponent"): {"inf": _EXPONENT},
    ("Service", "memory"): {"inf": "a memory that never binds"},
    **{(name, "risk_limit"): {"inf": "no limit"} for name in ("plan_user", "BandUser")},
}
"""For an argument the strays that are values after all, by label, each with the reason."""

INFINITE = {
    "critical_delays": "no delay makes a draft worth it that is never accepted",
    "crossover_batch": "drafts may pay at all large batches",
    "confident_threshold": "-inf skips nothing, and no number of prompts suffices where the losses are too large",
    "skip_thresholds": "thresholds beyond [0, 1] skip no draft or every one, however far beyond",
    "best_holder_bound": "the best exponent may be s = ∞",
    "online_bound": "a bound that says nothing",
    "safe_sharpness": "where q_d β_d = 0 no sharpness is safe",
    "stationary_draft_length": "a draft that costs nothing or always is accepted is best without end",
    "fading_skip": "no SNR is high enough for a message that is not worth its time",
}
"""Functions whose answer may be infinite, each with the reason."""

UNDEFINED = {
    "acceptance_by_depth": "a depth that no round examined has no estimate",
    "tokens_by_length": "a depth that no round examined has no estimate",
}
"""Functions whose answer may hold NaN, each with the reason."""
