"""Write an engine's flags for a draft length, and the acceptance that its simulator takes.

A simulator accepts drafts at a prescribed rate. vLLM and llama.cpp take rates by position (the share of steps that
accept so far) or one mean length; SGLang and TensorRT-LLM take a mean. A mean leaves the variance of a step open, and
each engine fills it in another way: the slowest of several answers, which a batch waits for, is not the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validation.acceptance.record import AcceptanceRecord
from validation.errors import UserError

ENGINES = ("vllm", "sglang", "llama.cpp", "tensorrt-llm")
ANSWERS, TOKENS = 8, 60
"""Answers of a batch, and tokens of each, whose slowest one is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A setting of a simulator, and the law of a step under it."""

    setting: str
    law: tuple[float, ...]  # of the accepted drafts of a step
    loss: str

    @property
    def variance(self) -> float:
        """Return the variance of the tokens of a step."""
        return variance(self.law)


def variance(law: Sequence[float]) -> float:
    """Return the variance of the accepted drafts of a step."""
    counts = np.arange(len(law))
    mean = counts @ np.asarray(law)
    return float(counts**2 @ np.asarray(law) - mean**2)


def slowest(law: Sequence[float], answers: int = ANSWERS, tokens: int = TOKENS) -> float:
    """Return the expected steps of the slowest of some answers, whose steps are independent."""
    left: NDArray[np.float64] = np.eye(1, tokens)[0]
    expected = 0.0
    while (unfinished := float(left.sum())) > 1e-12:
        expected += 1.0 - (1.0 - unfinished) ** answers
        after = np.zeros(tokens)
        for accepted, share in enumerate(law):
            after[accepted + 1 :] += share * left[: max(tokens - accepted - 1, 0)]
        left = after
    return expected


def measured_law(records: Sequence[AcceptanceRecord], length: int) -> tuple[float, ...] | None:
    """Return the law of the accepted drafts of a step; None if a record has totals only."""
    counts = np.zeros(length + 1)
    for record in records:
        if record.histogram is None:
            return None
        for accepted, steps in record.histogram.items():
            counts[accepted] += steps
    return tuple((counts / counts.sum()).tolist())


def two_point(accepted: float, length: int) -> tuple[float, ...]:
    """Return the law of the two whole numbers around a mean: the least variance that a mean allows."""
    law = np.zeros(length + 1)
    whole = min(int(accepted), length - 1)
    law[whole], law[whole + 1] = 1.0 - (accepted - whole), accepted - whole
    return tuple(law.tolist())


def constant_rate(accepted: float, length: int) -> tuple[float, ...]:
    """Return the law of drafts that are each accepted with one probability."""
    from scipy.optimize import brentq

    depths = np.arange(1, length + 1)
    rate = 1.0 if accepted >= length else float(brentq(lambda p: float(np.sum(p**depths)) - accepted, 0.0, 1.0))
    ends = np.concatenate([[1.0], rate**depths, [0.0]])
    return tuple((ends[:-1] - ends[1:]).tolist())


def synthetic(engine: str, accepted: float, length: int, law: Sequence[float] | None) -> list[Form]:
    """Return the settings of an engine's simulator for a mean number of accepted drafts, or for their law."""
    if not 0.0 <= accepted <= length:
        raise UserError(f"{accepted:g} accepted drafts of {length} a step; between 0 and {length} are possible.")
    mean = f"{1.0 + accepted:.4g}"
    rates = [] if law is None else [round(float(sum(law[depth:])), 4) for depth in range(1, length + 1)]
    said = {
        "one": "Only the mean is kept: the least variance",
        "law": "Each step has the measured law; that answers differ, and steps hang together, is lost",
    }
    if engine == "vllm":
        base = {"num_speculative_tokens": length, "rejection_sample_method": "synthetic"}
        by_rate = [json.dumps(base | {"synthetic_acceptance_rates": rates})] if rates else []
        by_mean = json.dumps(base | {"synthetic_acceptance_length": float(mean)})
        by_rate = [f"--speculative-config '{setting}'" for setting in by_rate]
        by_mean = f"--speculative-config '{by_mean}'"
    elif engine == "llama.cpp":
        by_rate = [f"--spec-draft-n-max {length} --spec-synth-rates {','.join(map(str, rates))}"] if rates else []
        by_mean = f"--spec-draft-n-max {length} --spec-synth-len {mean}"
        said["one"] = "Only the mean is kept: one rate at every depth"
    elif engine == "sglang":
        by_rate = []
        by_mean = (
            f"SGLANG_SIMULATE_ACC_LEN={mean} SGLANG_SIMULATE_ACC_METHOD=match-expected "
            "SGLANG_SIMULATE_ACC_TOKEN_MODE=real-draft-token"
        )
        said["one"] += ", and one draw serves the whole batch, so its answers end together"
    else:
        by_rate = []
        by_mean = f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={accepted:.4g}"
        said["one"] += ". It takes AL - 1, the accepted drafts alone; the other engines take AL"
    one = constant_rate(accepted, length) if engine == "llama.cpp" else two_point(accepted, length)
    return [
        *(Form(setting=setting, law=tuple(law or ()), loss=said["law"]) for setting in by_rate),
        Form(setting=by_mean, law=one, loss=said["one"]),
    ]


def flags(engine: str, length: int, schedule: Sequence[tuple[int, int, int]]) -> list[str]:
    """Return the flags of an engine for a draft length, or for one by batch size where its range is above 1."""
    ranges = [row for row in schedule if schedule[-1][1] > 1]
    longest = max([length, *(row[2] for row in ranges)])
    if longest == 0:
        return ["Drafting does not pay at these times: serve without speculative decoding."]
    if engine == "vllm":
        config: dict[str, object] = {"num_speculative_tokens": longest}
        if ranges:
            config["num_speculative_tokens_per_batch_size"] = [list(row) for row in ranges]
        return [f"--speculative-config '{json.dumps(config)}'  (beside your method and model)"]
    if engine == "sglang":
        said = "" if len(ranges) < 2 else "  (by batch size: --sglang FILE, for --speculative-adaptive-config)"
        steps = f"--speculative-num-steps {longest} --speculative-eagle-topk 1"
        return [f"{steps} --speculative-num-draft-tokens {longest + 1}{said}"]
    if engine == "llama.cpp":
        said = "" if len(ranges) < 2 else "  (one length for all batches)"
        return [f"--spec-draft-n-max {length or longest} --spec-draft-p-min 0{said}"]
    table = ", ".join(f"{last}: {drafts}" for _, last, drafts in ranges if drafts)
    said = f"\n  draft_len_schedule: {{{table}}}" if len(ranges) > 1 else ""
    return [f"speculative_config:\n  max_draft_len: {longest}{said}"]
