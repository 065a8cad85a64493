"""The truncated messages of CU-HLM on a sample of positions: how many probabilities, how many bytes, which Bias."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hlmtheory.truncation import resampling_bias
from validation.arrays import Array
from validation.decoding.methods.single_draft import CuHlm, CuHlmCertified, CuHlmOffline, CuHlmOnline, Cut
from validation.decoding.trace_drafts import offline_k
from validation.planning.option import Line
from validation.planning.positions import ROUNDING, positions_of, sampled, without_residue
from validation.planning.profile import digest, remembered
from validation.trace.reader import Trace, TraceChunk, probabilities

SAMPLE = 384  # Positions of the sample; each needs a sort of its rows
DISTORTION = 0.1  # θ of cu-hlm (21), (24)
CERTIFIED_BIAS = "certified, Bias"  # How the kind of messages begins whose Bias is bounded
ANY = 0.0  # The threshold of a method that is asked for its messages alone


def messages(trace: Trace, line: Line | None, bias: float, cache: Path | None = None) -> dict[str, dict[str, Array]]:
    """Return the messages of each kind of CU-HLM: offline, online, and certified with the given Bias."""
    fit = None if line is None else (line.slope, line.intercept)
    key = ["whole, without residues", SAMPLE, digest(trace), fit, bias]

    def measure() -> dict[str, dict[str, list[float]]]:
        measured = _measure(trace, line, bias)
        return {kind: {name: value.tolist() for name, value in table.items()} for kind, table in measured.items()}

    plain = remembered(cache, key, measure)
    return {kind: {name: np.array(value) for name, value in table.items()} for kind, table in plain.items()}


def sampled_chunks(trace: Trace) -> Iterator[TraceChunk]:
    rows = np.unique(np.linspace(0, trace.positions - 1, min(SAMPLE, trace.positions)).astype(np.int64))
    for block in np.array_split(rows, max(1, -(-len(rows) * trace.vocabulary // 2**21))):
        yield TraceChunk(**{name: np.array(array[block]) for name, array in trace.arrays.items()})


def _measure(trace: Trace, line: Line | None, bias: float) -> dict[str, dict[str, Array]]:
    rng = np.random.default_rng(2)
    by_kind: dict[str, list[tuple[Array, Array, Array]]] = {}
    sent = []
    methods: dict[str, CuHlm] = {}
    offline = offline_k(trace, DISTORTION)
    if offline is not None:
        methods[f"offline k = {offline}"] = CuHlmOffline(ANY, offline)
    if line is not None:
        slope, intercept = line.slope, line.intercept
        methods["online"] = CuHlmOnline(ANY, slope=slope, intercept=intercept, distortion_tolerance=DISTORTION)
    if bias > 0:
        methods[f"{CERTIFIED_BIAS} ≤ {bias:g}"] = CuHlmCertified(ANY, bias_tolerance=bias)
    for chunk in sampled_chunks(trace):
        at = positions_of(chunk, rng.random(len(chunk.tokens)))
        skip = without_residue(sampled(at.draft_mass[:, 0]))
        sent.append(1.0 - np.concatenate([np.zeros((len(skip), 1)), skip], axis=1))
        q, p = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
        token = np.argmax(np.cumsum(q, axis=-1) > rng.random((len(q), 1)), axis=-1)
        for kind, method in methods.items():
            chosen = method.choose_top_k(q, token, at.uncertainty)
            k, bits = (np.broadcast_to(np.asarray(each), len(q)) for each in chosen)
            cuts = map(Cut, k.tolist(), bits.tolist())
            length = [8.0 * len(method.coded(*each)) for each in zip(q, token.tolist(), cuts, strict=True)]
            lost = np.asarray(resampling_bias(p, q, k))
            by_kind.setdefault(kind, []).append((k.astype(np.float64), np.array(length), lost))
    weight = np.concatenate(sent)
    return {kind: _weighted(weight, *map(np.concatenate, zip(*parts, strict=True))) for kind, parts in by_kind.items()}


def _weighted(weight: Array, k: Array, bits: Array, bias: Array) -> dict[str, Array]:
    """Return means over the drafts that are sent, at "skip nothing" and at each threshold; 0 where none is sent."""
    weight = np.where(weight.sum(axis=0) > ROUNDING * len(weight), np.maximum(weight, 0.0), 0.0)
    total = np.where(weight.any(axis=0), weight.sum(axis=0), 1.0)
    order = np.argsort(k)
    share = np.cumsum(weight[order], axis=0) / total
    high = k[order][np.minimum((share < 0.95).sum(axis=0), len(k) - 1)]
    return {
        "mean": (k @ weight) / total,
        "p95": np.where(weight.any(axis=0), high, 0.0),
        "bits": (bits @ weight) / total,
        "bias": (bias @ weight) / total,
    }
