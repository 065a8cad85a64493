"""Measure acceptance, k and rounds of a trace at other temperatures and on longer texts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hlmtheory as hlm
from figures.studies.kit import blocks, given, laws, mean_interval, store
from hlmtheory import shared_seed, truncation
from hlmtheory.skipping import audit_bound
from hlmtheory.skipping.calibration import calibrate_threshold, held_out_risk
from validation.collection.collect import Text, encode_prompts, teacher_forced_logits
from validation.collection.prompts import Prompt, read_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import CloudOnly
from validation.models.pair import Pair
from validation.trace.reader import Trace, fingerprint, open_trace, probabilities

Array = NDArray[np.float64]
ROWS, DRAFTS, TOP_P = 64, 8, 0.9
THRESHOLDS = np.arange(0.0, 0.5, 0.01)
"""At most one draft of a position is as sure as these."""
RISKS, AUDITED, ERROR, RUNS, CERTIFIED = (0.02, 0.05, 0.1), 0.1, 0.05, 400, 0.1
BIASES = (0.1, 0.02)
SETTINGS = {"T = 1": 1.0, "T = 0.7": 0.7, "T = 0": 0.0, "top-p 0.9": None}


def at_setting(logits: Array, temperature: float | None) -> Array:
    """Return the distributions at a temperature, or by top-p if it is None.

    >>> at_setting(np.log([[0.6, 0.35, 0.05]]), None).round(3).tolist()
    [[0.632, 0.368, 0.0]]
    >>> at_setting(np.log([[0.6, 0.35, 0.05]]), 0.0).tolist()
    [[1.0, 0.0, 0.0]]
    """
    if temperature == 0.0:
        found = np.zeros(logits.shape)
        found[np.arange(len(logits)), logits.argmax(axis=-1)] = 1.0
        return found
    if temperature is not None:
        return probabilities(logits / temperature)
    law = probabilities(logits)
    order = np.argsort(-law, axis=-1, kind="stable")
    sorted_law = np.take_along_axis(law, order, axis=-1)
    before = np.cumsum(sorted_law, axis=-1) - sorted_law
    kept = np.zeros(law.shape)
    np.put_along_axis(kept, order, np.where(before < TOP_P, sorted_law, 0.0), axis=-1)
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


def of_rows(q: Array, p: Array) -> dict[str, Array]:
    """Return acceptance, match by a shared seed and certified k of each position."""
    found = {
        "acceptance": np.asarray(hlm.acceptance_rate(p, q)),
        "shared_seed_match": np.asarray(shared_seed.match_probability(p, q)),
    }
    return found | {f"k at {bias:g}": np.asarray(truncation.certified_size(q, bias), dtype=float) for bias in BIASES}


def drawn(pair: Pair, prompts: Sequence[Prompt], setting: float | None, most: int) -> tuple[dict[str, Array], Array]:
    """Return what :func:`of_rows` says of texts that the target writes at a setting, and their prompts."""
    temperature, top_p = (1.0, TOP_P) if setting is None else (setting, 1.0)
    records = decode(pair, prompts, CloudOnly(), temperature=temperature, top_p=top_p, new_tokens=most, times=(0, 0))
    parts = []
    for record, ids in zip(records, encode_prompts(pair, prompts, most), strict=True):
        text = [Text(0, record.prompt, [*ids, *record.tokens], len(ids))]
        logits = (teacher_forced_logits(pair, side, text)[0].astype(float) for side in ("draft", "target"))
        parts.append(of_rows(*(at_setting(rows, setting) for rows in logits)))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, np.repeat(np.arange(len(records)), [len(record.tokens) for record in records])


def skips(trace: Trace) -> dict[str, Any]:
    """Return thresholds on 1 - max q, calibrated by prompt, and audits of a system that runs with each.

    A draft v is kept without verification if 1 - q_v is at most the threshold. Its risk at a position is q_v β_v.
    """
    unsure, risk = np.empty(trace.positions), np.empty(trace.positions)
    for some, q, p in laws(trace, size=ROWS):
        at = np.arange(len(q)), q.argmax(axis=-1)
        unsure[some], risk[some] = 1.0 - q[at], np.maximum(q[at] - p[at], 0.0)
    prompts = np.unique(np.asarray(trace.arrays["prompt_index"][:]), return_inverse=True)[1]
    kept = unsure[:, None] <= THRESHOLDS
    lost_by_prompt = np.stack([np.bincount(prompts, row) for row in (risk[:, None] * kept).T], axis=-1)
    losses = lost_by_prompt / np.bincount(prompts)[:, None]
    rng, found = np.random.default_rng(1), {}
    for limit in RISKS:
        threshold = float(calibrate_threshold(losses, THRESHOLDS, risk=limit, bound=1.0).threshold)
        own = risk * (unsure <= threshold)
        lost = (rng.random((RUNS, len(own))) < AUDITED * own).astype(float)
        bound = np.concatenate([np.asarray(audit_bound(some, AUDITED, ERROR)) for some in np.array_split(lost, 8)])
        below = bound < CERTIFIED
        found[f"{limit:g}"] = {
            "threshold": threshold,
            "kept": float((unsure <= threshold).mean()),
            "risk": mean_interval(own, prompts),
            "left_one_out": float(held_out_risk(losses, limit, 1.0)),
            "bound": np.quantile(bound[:, -1], [0.5, 0.025, 0.975]).tolist(),
            "wrong": float((bound < np.cumsum(own) / np.arange(1, len(own) + 1)).any(axis=1).mean()),
            "certified": float(below.any(axis=1).mean()),
            "certified_after": float(np.median(np.where(below.any(axis=1), below.argmax(axis=1) + 1, len(own) + 1))),
        }
    return found | {"audit_probability": AUDITED, "error": ERROR, "runs": RUNS, "certificate": CERTIFIED}


def with_interval(values: Array, prompts: NDArray[Any]) -> dict[str, Any]:
    """Return mean, its interval over prompts, and the median."""
    mean, *ends = mean_interval(values, prompts)
    return {"mean": mean, "interval": ends, "median": float(np.median(values))}


def rounds(trace: Trace) -> dict[str, Any]:
    """Return the probability that the first 1, 2, ..., 8 drafts are accepted, and what one rate says of it."""
    tokens = np.asarray(trace.arrays["tokens"][:])
    prompts = np.asarray(trace.arrays["prompt_index"][:])
    places = np.asarray(trace.arrays["position"][:])
    ratio, rate = np.empty(trace.positions), np.empty(trace.positions)
    for whole, q, p in laws(trace, size=ROWS):
        at = np.arange(len(p)), tokens[whole]
        ratio[whole] = q[at] / p[at]
        rate[whole] = np.minimum(p, q).sum(axis=-1)
    text = np.concatenate([[0], np.cumsum((np.diff(prompts) != 0) | (np.diff(places) != 1))])
    starts = np.flatnonzero(text[: 1 - DRAFTS] == text[DRAFTS - 1 :])
    windows = ratio[starts[:, None] + np.arange(DRAFTS)]
    depth = np.cumprod(np.minimum(windows, 1.0), axis=1).mean(axis=0).tolist()
    block = np.minimum(np.minimum.accumulate(np.cumprod(windows, axis=1), axis=1), 1.0)  # verification.block_text
    alpha = float(rate.mean())
    return {
        "rounds": len(starts),
        "alpha": alpha,
        "first_i_accepted": depth,
        "tokens_of_a_round": 1.0 + sum(depth),
        "tokens_of_a_block": 1.0 + float(block.mean(axis=0).sum()),
        "tokens_by_one_rate": sum(alpha**i for i in range(DRAFTS + 1)),
        "rate_at_depth": [later / earlier for earlier, later in zip([1.0, *depth], depth, strict=False)],
    }


def main() -> None:
    """Measure and store."""
    asked = given(__doc__, "trace", "out", every=4, pair="", prompts=Path(), texts=20, new_tokens=32)
    trace = open_trace(asked.trace)
    prompts = np.asarray(trace.arrays["prompt_index"][:])[:: asked.every]
    parts: dict[str, list[dict[str, Array]]] = {name: [] for name in SETTINGS}
    for _, q, p in blocks(trace, asked.every, ROWS):
        for name, setting in SETTINGS.items():
            parts[name].append(of_rows(*(at_setting(one.astype(float), setting) for one in (q, p))))
    found: dict[str, dict[str, Any]] = {
        name: {column: with_interval(np.concatenate([part[column] for part in each]), prompts) for column in each[0]}
        for name, each in parts.items()
    }
    if asked.pair:
        from validation.models.pair import load_pair

        pair, chats = load_pair(asked.pair, chat=True), read_prompts(asked.prompts)[: asked.texts]
        for name, setting in list(SETTINGS.items())[1:]:
            columns, own = drawn(pair, chats, setting, asked.new_tokens)
            found[name] = {column: with_interval(values, own) for column, values in columns.items()}
            found[name]["positions"] = len(own)
    about = {
        "kind": "measured",
        "trace": fingerprint(trace),
        "positions": trace.positions,
        "positions_of_settings": len(prompts),
        "prompts": len(np.unique(prompts)),
        "vocabulary": trace.vocabulary,
    }
    store(asked.out, about | {"settings": found, "rounds": rounds(trace), "skips": skips(trace)})


if __name__ == "__main__":
    main()
