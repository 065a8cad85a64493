"""One valid call of every public function, constructor and method; the sweep of bad input starts from it."""

import atexit
import inspect
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory import channel, codec, conformal, draft_length, lossless, policy, serving, skipping, wire
from hlmtheory.codec.messages import LatticeDraft, TokenDraft
from validation.trace.writer import TraceWriter

from .public import BY_EITHER, PUBLIC

MODEL = serving.ModelShape(1, 2, 3)
DEVICE = serving.Device(0.25, 1.0)
SERVICE = serving.Service(MODEL, MODEL, DEVICE, DEVICE, 0.5)
TASKS = [serving.Task(2, 3), serving.Task(3, 2)]
LINK = channel.Rician(10.0, 2.0)
CHAIN = channel.GilbertElliott(8e6, 1e6, 0.0625, 0.25, 0.5)
RECORDED = channel.TraceLink([0.0, 1.0], [1e6, 3e6])
TRACKER = draft_length.AcceptanceTracker(0.1, "consistent", 0.75, 1.0)
LATTICE = wire.LatticeMessage(4, (LatticeDraft([0, 2], [6, 4], 2),))
CHOSEN = codec.cheapest_codec([0.625, 0.25, 0.125], 0.25)
MIXED = codec.coded_message([0.625, 0.25, 0.125], CHOSEN, token=2)
HULLS = policy.lower_hulls([[16.5, 64.5], [8.5, 32.5]], [[0.25, 0.0], [0.5, 0.125]])
STAGES = policy.StageCosts(0.125, 0.25, 0.00390625)
POLICY = wire.DevicePolicy(3, 1.5, wire.threshold_rule(2), wire.DraftProbabilities())
DRAFTED = POLICY.draft([0.5, 1.5, -1.0], rng=np.random.default_rng(1))
USERS = [
    policy.BandUser(HULLS, STAGES, [0.75, 0.5], risk_limit=np.inf, draft_lengths=[1, 2], skipping=False)
    for _ in range(2)
]
SERVER = policy.SharedServer(0.25, 0.125, 2)
TRUNCATED = codec.truncated_message([0.5, 0.25, 0.125, 0.125], top_k=2, token=2, bits=3)


def sides() -> tuple[wire.DeviceSession, wire.ServerSession]:
    both = (wire.DeviceSession, wire.ServerSession)
    device, server = (side(POLICY, session=b"text 0001", key=b"k" * 16) for side in both)
    return device, server


def waiting() -> wire.DeviceSession:
    device, _ = sides()
    device.message([DRAFTED])
    return device


def answered() -> bytes:
    device, server = sides()
    return server.verify(device.message([DRAFTED]), [R] * 2, rng=np.random.default_rng(1))


class Forgetful(set[int]):
    def add(self, element: int) -> None:
        pass


STREAM = wire.DevicePolicy(3, 1.5, wire.threshold_rule(1), wire.StreamedTokens(), bonus=False)
STREAMED: dict[str, Any] = {"policy": STREAM, "session": b"text 0001", "key": b"k" * 16, "seed": 7, "position": 3}


def streamed() -> tuple[wire.StreamedDevice, wire.StreamedServer, bytes]:
    """Return the two sides of a streamed session, and the message of the first draft, which the server has not read."""
    device, server = wire.StreamedDevice(**STREAMED), wire.StreamedServer(**STREAMED, used=Forgetful())
    return device, server, device.draft([0.5, 1.5, -1.0])[1]


def reading() -> wire.StreamedServer:
    _, server, message = streamed()
    server.receive(message)
    return server


def controller(steps: int = 0) -> conformal.ThresholdController:
    made = conformal.ThresholdController(0.25, 0.5, 0.25)
    for _ in range(steps):
        made.step([0.5, 0.25, 0.125, 0.125])
    return made


def budget(steps: int = 0) -> conformal.MassBudgetController:
    made = conformal.MassBudgetController(0.25)
    for _ in range(steps):
        made.step([0.5, 0.25, 0.125, 0.125])
    return made


_FOLDER = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, _FOLDER)


def stored_trace() -> str:
    with TraceWriter(_FOLDER, vocabulary=2) as writer:
        writer.append(*2 * [np.zeros((1, 2))], *3 * [np.zeros(1)])
    return str(_FOLDER)


P, Q, R = [0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.625, 0.25, 0.125]

SHARED: list[tuple[Any, str]] = [
    ([0.25, 0.5, 0.75], "accept skip"),
    (0.75, "acceptance limit mean_accepted p single slope"),
    (1, "accepted company layers min_draft_length place rest"),
    (
        0.5,
        "accumulated audit_probability believed cut delta divergence event learning_rate "
        "load n non_acceptance overhead_s power rejection_probability slot_s start_s verify_time",
    ),
    (R, "actual_draft draft residual"),
    (True, "adaptive alone authenticated bonus mixing sharp skipping"),
    (
        0.25,
        "allowance bias_tolerance c1 distance draft_error epsilon leave_bad margin pass_s "
        "patience_s probability propagation_s risk_limit round_trip step step_distance token_s "
        "total_variation uniform verify_s",
    ),
    ([0.5, 0.25], "away_s fixed_s keep_share load_s"),
    (1000000.0, "bad_bps bandwidth_hz memory"),
    (2, "batch batch_size classes draft_count draft_length hidden input_tokens prompt size tests token top_k"),
    ([0.25, 0.75], "bets cell_probabilities"),
    (2.5, "bias_budget context k_factor mean_draft_length sharpness tokens upper"),
    (False, "binned block close index printed"),
    (100, "bits_limit max_labels steps"),
    (4, "bits_per_probability"),
    (16.5, "bits_per_token header_bits"),
    (1.5, "bound c2 exponent factor max_temperature range_tokens rate reference_m temperature utility_weight"),
    (40, "vocabulary"),
    (10.5, "mean_snr"),
    (
        0.125,
        "cloud_base_s cloud_slope_s distortion_tolerance downlink_s draft_time edge_slope_s edge_start_s "
        "error fixed outage risk server_draft_s spread target_error value",
    ),
    ([-20.0, 3.5], "db dbm"),
    (Q, "decoded q"),
    ([0.25, 0.125, 0.0], "deviation draft_lower"),
    (DEVICE, "draft_device verify_device"),
    ([P, R], "targets"),
    ([2.5, 3.5], "most"),
    (5, "draws rounds"),
    ([0, 2], "entry start"),
    (3, "feed_forward other_length output_tokens position slots"),
    (0.0625, "leave_good marginal round_trip_s"),
    (MODEL, "model verify"),
    (P, "probabilities target"),
    ([0.5, 1.5], "thresholds times_s"),
]
"""A value, and the arguments that have it."""

DEFAULTS: dict[str, Any] = {
    **{name: value for value, names in SHARED for name in names.split()},
    "acceptances": [0.75, 0.5],
    "answer": reading().verify([R]),
    "audited_rejection": [0.0, 0.5, 0.25],
    "band_s": [0.5, 0.75],
    "basis": "measured",
    "batches": [[0], [1]],
    "bias": [[0.5, 1.5], [0.5, 1.5]],
    "bits": [100.0, 200.0],
    "choice": CHOSEN,
    "codec": None,
    "costs": STAGES,
    "count": [1, 1, 2],
    "counts": [[0, 0, 0], [5, 5, 0], [5, 2, 3]],
    "data": codec.encode(LATTICE),
    "distance_m": 100.5,
    "draft_lengths": [1, 2],
    "draft_log_probability": [-1.0, -2.5],
    "draft_pass": [1.5, 0.25, 0.125],
    "draft_s": 1.0,
    "draft_stages": [[2.5, 2.5, 0.0], [3.5, 3.5, 0.5]],
    "draft_token": [7, 9],
    "draft_upper": [0.5, 0.75, 0.25],
    "drafts": [DRAFTED],
    "examined": [4, 3],
    "expected": [[0.25, 0.5, 0.5]],
    "first": [3, 1, 2],
    "floor": -16.0,
    "flops": [1.5, 2.5, 3.5],
    "form": "varying",
    "good_bps": 8000000.0,
    "groups": [0, 0, 0, 0, 1, 1, 1, 1],
    "guarantees": [wire.Guarantee("speed", 31.5, "measured", 53)],
    "histogram": [2.5, 0.0, 1.5, 0.5],
    "hulls": HULLS,
    "intercept": -0.125,
    "keep_s": [0.125, 0.25],
    "key": b"k" * 16,
    "kind": "mixture",
    "kinds": ("top-k", "lattice"),
    "line": wire.UncertaintyLine(0.75, 0.125),
    "log_probability": [-0.375, -1.25, -16.5],
    "logits": [0.5, 1.5, -1.0],
    "losses": [[0.0, 0.25], [0.125, 0.5]],
    "losses_by_prompt": [[[0.25, 0.5], [0.5, 0.75]], [[0.125, 0.5], [1.5, 0.25]]],
    "mass": [0.25, 0.5, 0.25],
    "max_draft_length": 16,
    "memory_rule": "each",
    "menu": codec.CodecMenu(),
    "message": POLICY.message([DRAFTED]),
    "message_sizes": [24, 40],
    "messages": wire.SeededTokens(),
    "method": "consistent",
    "objective": "minmax",
    "order": "given",
    "outcome": [[0.0, 1.0, 0.5]],
    "path": stored_trace(),
    "planned_for": "3 ab cd",
    "policy": POLICY,
    "position_rates": [0.5, 0.25, 0.125],
    "prompts": 53,
    "quantity": "a token's total variation",
    "rate_bps": 10000.0,
    "reference_gain": 0.001,
    "rejection": [0.25, 0.5],
    "rejection_by_token": [0.0, 0.25, 0.5, 0.75, 0.125, 0.5, 0.375, 1.0],
    "resolution": 10,
    "resolutions": (10, 100),
    "rng": np.random.default_rng(1),
    "row_bits": 96.0,
    "rule": wire.threshold_rule(2),
    "schedule": "free",
    "second": [2, 2, 2],
    "seconds": [1.75, 3.5, 4.0, 5.0, 3.25],
    "seconds_per_bit": 0.00390625,
    "seed": 7,
    "server": SERVER,
    "service": SERVICE,
    "session": b"text 0001",
    "shares": [0.375, 0.625],
    "size_bytes": 3200000000.0,
    "sizes": (1, 2),
    "spectral_efficiency": [1.0, 4.0],
    "stage": [11.5, 6.5, 2.5],
    "support": [True, True, False],
    "target_log_probability": [-0.75, -1.5],
    "target_lower": [0.125, 0.25, 0.0],
    "target_pass": [4.5, 0.5, 0.25],
    "target_token": [3, 7],
    "target_upper": [0.375, 0.75, 0.5],
    "tasks": TASKS,
    "threshold": 0.375,
    "throughput_bps": [1000000.0, 3000000.0],
    "time_s": [0.0, 1.5],
    **dict.fromkeys(("budget_bits", "token_bits"), 12.5),
    "uncertainty": [0.0, 0.25, 0.5, 1.0, 0.25, 0.75, 0.5, 1.0],
    "used": Forgetful(),
    "users": USERS,
    "utility": "log",
    "values": np.array([6, 3]),
    "verify_stages": [[4.5, 4.5, 0.0], [1.5, 1.5, 0.5]],
    "verify_token_s": 0.03125,
    "waves": [1, 1],
    "weight": [1.5, 2.5],
    "weights": [1.5, 0.5],
    "width": [1, 1, 1, 2, 2],
    "widths": (4, 8),
    "z": [-0.5, 0.75],
}
"""A value of each argument, by its name."""

OWN: dict[str, dict[str, Any]] = {
    "total_variation": {"p": P},
    "tree_distribution": {"targets": [P], "drafts": [Q]},
    "block_weights": {"drafts": [Q, P], "tokens": [0, 1]},
    "block_acceptance": {"drafts": [Q, P], "tokens": [0, 1]},
    "acceptance_interval": {"accepted": 3.5, "examined": 5},
    "decoded_acceptance_rate": {"deviation": 0.125},
    "skip_probability": {"expected": 0.25},
    "non_acceptance": {"target": [0.625, 0.375], "draft": [0.5, 0.5]},
    "surrogate_gap": {"uncertainty": [0.0, 0.5, 0.75], "rejection_by_token": [0.25, 0.5, 0.75]},
    "position_bill": {"decoded": [R]},
    "confident_threshold": {"risk": 0.75, "error": 0.5},
    "SkipAudit.update": {"audited_rejection": 0.5},
    "text_distance": {"tokens": 3},
    "text_risk": {"losses": [0.25, 0.0, 0.5]},
    "threshold_losses": {
        "uncertainty": [[0.125, 0.375]],
        "rejection_by_token": [[0.25, 0.5]],
        "thresholds": [0.0, 0.25, 0.5],
    },
    "calibrate_threshold": {"losses": [[0.0, 0.5], [0.0, 0.25], [0.0, 0.0]], "risk": 0.375, "prompt": [3, 5, 4]},
    "offline_size": {"target": [P, Q], "draft": [R, P]},
    "LatticeDraft": {"support": np.array([0, 2]), "counts": np.array([6, 4])},
    "LatticeMessage": {"drafts": LATTICE.drafts},
    "TruncatedMessage": {"drafts": TRUNCATED.drafts},
    "TokenMessage": {"drafts": (TokenDraft(2),)},
    "truncated_message": {"bits": 3},
    "MixedDraft": {"support": np.array([0, 1]), "bits": 0},
    "MixedMessage": {"drafts": MIXED.drafts},
    "coded_message": {"probability": True},
    "message_bytes": {"bits": [20, 30], "probability": True},
    "optimal_codecs": {"bits": [[20.0, 4.0], [90.0, 10.0]]},
    "decoded_rows": {"message": TRUNCATED},
    "encode": {"message": LATTICE},
    "ThresholdController.run": {"drafts": [R, R]},
    "MassBudgetController.run": {"drafts": [R, R]},
    "shannon_latency": {"bits": 1000.5, "snr": 1.5},
    "Rician.density": {"snr": 1.5},
    "Rician.distribution": {"snr": 1.5},
    "Rician.latency_quantile": {"bits": 1000.5},
    "Rician.mean_latency": {"bits": 1000.5},
    "rounds_leak": {"tokens": 40},
    "size_classes": {"sizes": [10.5, 12.5, 40.5], "weights": [5.5, 5.5, 1.5]},
    "TraceLink.transfer_time": {"bits": 100000.0},
    **{name: {"bandwidth_hz": 100.5} for name in ("finish_times", "minmax_latency", "sum_latency")},  # float16 holds it
    "UncertaintyLine.rejection": {"token": 1},
    "DevicePolicy.decide": {"token": 1},
    "optimistic_draft_length": {"accepted": [3, 1]},
    "AcceptanceTracker": {"accepted": 0.75, "examined": 1.5},
    "acceptance_by_depth": {"method": "anytime"},
    "tokens_by_length": {"method": "anytime"},
    "Service": {"draft": MODEL},
    "peak_memory": {"input_tokens": 5.5, "output_tokens": 10.5},
    "decoding_steps": {"output_tokens": [3, 4]},
    "step_times": {"step": [1, 2, 3]},
    "inference_latency": {"steps": [2, 1]},
    "upload_bits": {"draft": MODEL, "input_tokens": 5.5},
    "fit_passes": {"batch_size": [1, 2, 4, 4, 2], "context": [8.5, 16.5, 8.5, 8.5, 8.5]},
    "goodput": {"batch_size": 4.5},
    "fit_device": {"batch_size": [2, 1, 2], "seconds": [5.5, 6.5, 13.5]},
    "plan": {"method": "dp"},
    "Hulls": {"risk": [0.5, 0.25]},
    "codec_hulls": {"draft": [[0.5, 0.25, 0.125, 0.125]], "menu": codec.CodecMenu(sizes=(1, 2), resolutions=(4,))},
    "lower_hulls": {"bits": [[10.5, 20.5]], "risk": [[0.5, 0.25]]},
    "StageCosts": {"fixed_s": 0.015625},
    "throughput_shares": {"tokens": [2.5, 3.5]},
    "StreamedDevice": {"policy": STREAM},
    "StreamedServer": {"policy": STREAM},
    "StreamedServer.receive": {"message": streamed()[2]},
    "StreamedServer.verify": {"target": [R]},
    "DevicePolicy.server_row": {"draft": DRAFTED},
    "DevicePolicy.tokens": {"answer": wire.ServerAnswer(0, None, np.array(R))},
    "ServerPolicy.verify": {"target": [R, R]},
    "DeviceSession.tokens": {"answer": answered()},
    "ServerSession": {"used": set[int]()},
    "ServerSession.received": {"message": sides()[0].message([DRAFTED])},
    "ServerSession.verify": {"message": sides()[0].message([DRAFTED]), "target": [R, R]},
}
"""For a function the arguments whose value there is another."""


def valid_call(name: str) -> dict[str, Any]:
    """Return a value for each argument of a public function; it may be called by an SNR, or by an efficiency alone."""
    arguments = set(inspect.signature(PUBLIC[name]).parameters) - {"self"}
    values = DEFAULTS | ({"draft": Q} if "target" in arguments else {}) | OWN.get(name, {})
    return {argument: values[argument] for argument in sorted(arguments) if argument != "snr" or name not in BY_EITHER}


VALID_CALLS = {name: valid_call(name) for name in PUBLIC}

RECEIVERS: dict[str, Any] = {
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
    "UncertaintyLine": wire.UncertaintyLine(0.75, 0.125),
    "DevicePolicy": POLICY,
    "ServerPolicy": wire.ServerPolicy(POLICY),
    "DeviceSession.message": lambda: sides()[0],
    "DeviceSession.tokens": waiting,
    "ServerSession": lambda: sides()[1],
    "StreamedDevice": lambda: streamed()[0],
    "StreamedServer.receive": lambda: streamed()[1],
    "StreamedServer.verify": reading,
}
"""What a method is called on: an object, or for one that changes what makes it."""

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
            "vocabulary_uncertainty",
            "size_from_top_n_sigma",
        )
    },
    **{
        (name, argument): {"True": _DECISION, "an array of bools": _DECISION}
        for name, argument in (
            ("output_distribution", "skip"),
            ("lossy_price", "accept"),
            ("one_step_risk", "skip"),
            ("skip_mismatch", "skip"),
            ("position_bill", "skip"),
            ("bill_bound", "skip"),
            ("bill_bound_on_device", "skip"),
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
    "online_bound": "a bound that says nothing",
    "stationary_draft_length": "a draft that costs nothing or always is accepted is best without end",
}
"""Functions whose answer may be infinite, each with the reason."""

UNDEFINED = {
    "acceptance_by_depth": "a depth that no round examined has no estimate",
    "tokens_by_length": "a depth that no round examined has no estimate",
}
"""Functions whose answer may hold NaN, each with the reason."""
