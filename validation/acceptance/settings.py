"""Write an engine's flags for a draft length, and the acceptance that its simulator takes.

vLLM and llama.cpp take rates by position (the share of steps that accept so far) or one mean length, SGLang and
TensorRT-LLM a mean. It leaves the variance of a step open, and so the slowest answer, which a batch waits for.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.acceptance.record import AcceptanceRecord
from validation.errors import UserError

ENGINES = ("vllm", "sglang", "llama.cpp", "tensorrt-llm")
ANSWERS, TOKENS = 8, 60
"""Answers of a batch, and tokens of each, whose slowest one is compared."""
BY_RATE = "each step has the measured law; that answers differ and steps hang together is lost"
_MEAN = "only the mean is kept, with the least variance"
BY_MEAN = {
    "vllm": _MEAN,
    "sglang": f"{_MEAN}; one draw serves the whole batch, so its answers end together",
    "llama.cpp": "only the mean is kept, with one rate at every depth",
    "tensorrt-llm": f"{_MEAN} (older versions: a whole number); it is AL - 1, where the other engines take AL",
}
"""What a mean loses at each engine."""
SAMPLED_FAILS = "vLLM 0.32 on CPUs fails with sampled drafts, until mended; no GPU was tried: docs/engines.md"
TRIED = {"sampled": SAMPLED_FAILS, "greedy": "vLLM's greedy drafts were tried at temperature 0 alone, on CPUs"}
"""What audits of an engine have shown, by its drafts."""
LONGER = "longer drafts may be better: record more, such as K = {}"


def tied_lengths(ends: tuple[int, int] | None) -> str:
    """Return the draft lengths from the shortest to the longest that counts do not tell apart; "" for one alone."""
    return "" if ends is None or ends[0] == ends[1] else f"K = {ends[0]} to {ends[1]}"


def variance(law: Sequence[float]) -> float:
    counts = np.arange(len(law))
    return float(counts**2 @ np.asarray(law) - (counts @ np.asarray(law)) ** 2)


def slowest(law: Sequence[float], answers: int = ANSWERS, tokens: int = TOKENS) -> float:
    """Return the expected steps of the slowest answer; steps are independent."""
    left, expected = np.eye(1, tokens)[0], 0.0
    while (unfinished := float(left.sum())) > 1e-12:
        expected += 1.0 - (1.0 - unfinished) ** answers
        after = np.zeros(tokens)
        for accepted, share in enumerate(law):
            after[accepted + 1 :] += share * left[: max(tokens - accepted - 1, 0)]
        left = after
    return expected


def measured_law(records: Sequence[AcceptanceRecord], length: int) -> list[float] | None:
    """Return the law of the accepted drafts of a step; None if a record has totals only."""
    tables = [record.histogram for record in records]
    if None in tables:
        return None
    counts = np.array([sum(table.get(i, 0) for table in tables if table) for i in range(length + 1)], dtype=np.float64)
    return [float(share) for share in counts / counts.sum()]


def law_of_mean(engine: str, accepted: float, length: int) -> list[float]:
    """Return the law that an engine makes of a mean: one rate at each depth, or the two whole numbers around it."""
    depths = np.arange(1, length + 1)
    if engine != "llama.cpp":
        survival = np.clip(accepted - depths + 1.0, 0.0, 1.0)
    elif accepted >= length:
        survival = np.ones(length)
    else:
        from scipy.optimize import brentq

        survival = brentq(lambda rate: float(np.sum(rate**depths)) - accepted, 0.0, 1.0) ** depths
    return [float(share) for share in -np.diff([1.0, *survival, 0.0])]


def synthetic(engine: str, accepted: float, length: int, law: Sequence[float] | None) -> list[dict[str, Any]]:
    """Return the settings of an engine's simulator, by rates if a law is known and by mean, with what each keeps."""
    if not 0.0 <= accepted <= length:
        raise UserError(f"{accepted:g} accepted drafts of {length} a step; between 0 and {length} are possible.")
    mean = float(f"{1.0 + accepted:.4g}")
    rates = None if law is None else [round(float(sum(law[depth:])), 4) for depth in range(1, length + 1)]
    base = {"num_speculative_tokens": length, "rejection_sample_method": "synthetic"}
    kinds = {"synthetic_acceptance_rates": rates}, {"synthetic_acceptance_length": mean}
    listed, longest = ",".join(map(str, rates or ())), f"--spec-draft-n-max {length}"
    written: dict[str, tuple[str | None, ...]] = {
        "vllm": tuple(f"--speculative-config '{json.dumps(base | kind)}'" for kind in kinds),
        "llama.cpp": (f"{longest} --spec-synth-rates {listed}", f"{longest} --spec-synth-len {mean:g}"),
        "sglang": (
            None,
            f"SGLANG_SIMULATE_ACC_LEN={mean:g} SGLANG_SIMULATE_ACC_METHOD=match-expected "
            "SGLANG_SIMULATE_ACC_TOKEN_MODE=real-draft-token",
        ),
        "tensorrt-llm": (None, f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={accepted:.4g}"),
    }
    by_rate, by_mean = written[engine]
    forms: list[tuple[Any, str, Sequence[float]]] = [] if law is None or by_rate is None else [(by_rate, BY_RATE, law)]
    forms.append((by_mean, BY_MEAN[engine], law_of_mean(engine, accepted, length)))
    measured = {} if law is None else {"measured_variance": variance(law), "measured_slowest": slowest(law)}
    return [
        {"setting": setting, "loss": loss, "variance": variance(kept), "slowest": slowest(kept)} | measured
        for setting, loss, kept in forms
    ]


def flags(engine: str, length: int, schedule: Sequence[tuple[int, int, int]], *, sampled: bool = False) -> str:
    """Return an engine's flags for a draft length, or for one by batch size; ``sampled`` drafts need their own."""
    longest, several = max([length, *(drafts for _, _, drafts in schedule)]), len(schedule) > 1
    if longest == 0:
        return "drafting does not pay at these times: serve without speculative decoding."
    more: dict[str, Any] = {"num_speculative_tokens_per_batch_size": [list(row) for row in schedule]} if several else {}
    more |= {"draft_sample_method": "probabilistic"} if sampled else {}
    table = ", ".join(f"{last}: {drafts}" for _, last, drafts in schedule if drafts)
    candidates = {first: {"candidate_steps": [drafts]} for first, _, drafts in schedule}
    alone = f"--spec-draft-n-max {length or longest} --spec-draft-p-min 0"
    limits = [f"max_draft_len: {longest}", *([f"draft_len_schedule: {{{table}}}"] if several else [])]
    steps = f"--speculative-num-steps {longest} --speculative-eagle-topk 1 --speculative-num-draft-tokens {longest + 1}"
    return {
        "vllm": f"--speculative-config '{json.dumps({'num_speculative_tokens': longest} | more)}'",
        "sglang": f"{steps}; --speculative-adaptive-config: {json.dumps(candidates)}" if several else steps,
        "llama.cpp": f"{alone} --spec-draft-sampling probabilistic" if sampled else alone,
        "tensorrt-llm": f"speculative_config: {{{', '.join(limits)}}}",
    }[engine]
