"""The truncated messages of CU-HLM on a sample of positions: how many probabilities, how many bytes, which Bias."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec import encode, truncated_message
from hlmtheory.truncation import certified_size, online_size, resampling_bias
from validation.decoding.methods.single_draft import BITS, CERTIFIED_BITS
from validation.decoding.trace_drafts import offline_k
from validation.planning.menu import Line
from validation.planning.positions import ROUNDING, positions_of, sampled, without_residue
from validation.planning.profile import Profile, remembered
from validation.trace.reader import Trace, TraceChunk, probabilities

Array = NDArray[Any]
SAMPLE = 384
"""Positions of the sample; each needs a sort of its rows."""
DISTORTION, SHARPNESS = 0.1, 5.0
"""θ and η of cu-hlm (21), (24), as in :class:`validation.decoding.methods.single_draft.CuHlmOnline`."""


def messages(
    trace: Trace, profile: Profile, line: Line | None, bias: float, cache: Path | None = None
) -> dict[str, dict[str, Array]]:
    """Return the messages of each kind of CU-HLM: offline, online, and certified with the given Bias."""
    fit = None if line is None else (line.slope, line.intercept)
    key = ["whole, without residues", SAMPLE, trace.positions, str(profile.prompts[0]), fit, bias]

    def made() -> dict[str, dict[str, list[float]]]:
        measured = _measure(trace, line, bias)
        return {kind: {name: value.tolist() for name, value in one.items()} for kind, one in measured.items()}

    plain = remembered(cache, key, made)
    return {kind: {name: np.array(value) for name, value in one.items()} for kind, one in plain.items()}


def sampled_chunks(trace: Trace) -> Iterator[TraceChunk]:
    """Yield the positions of the sample, some at a time."""
    rows = np.unique(np.linspace(0, trace.positions - 1, min(SAMPLE, trace.positions)).astype(np.int64))
    for block in np.array_split(rows, max(1, -(-len(rows) * trace.vocabulary // 2**21))):
        yield TraceChunk(**{name: np.array(array[block]) for name, array in trace.arrays.items()})


def _measure(trace: Trace, line: Line | None, bias: float) -> dict[str, dict[str, Array]]:
    rng = np.random.default_rng(2)
    found: dict[str, list[tuple[Array, Array, Array]]] = {}
    sent = []
    offline = offline_k(trace, DISTORTION)
    for chunk in sampled_chunks(trace):
        at = positions_of(chunk, rng.random(len(chunk.tokens)))
        skip = without_residue(sampled(at.draft_mass[:, 0]))
        sent.append(1.0 - np.concatenate([np.zeros((len(skip), 1)), skip], axis=1))
        q, p = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
        token = np.argmax(np.cumsum(q, axis=-1) > rng.random((len(q), 1)), axis=-1)
        sizes: dict[str, tuple[Array, Array]] = {}
        if offline is not None:
            sizes[f"offline k = {offline}"] = (np.full(len(q), offline), np.full(len(q), BITS))
        if line is not None:
            estimate = np.clip(line.slope * at.uncertainty + line.intercept, 0.0, 1.0)
            online = np.asarray(online_size(q, token, estimate, DISTORTION, sharpness=SHARPNESS))
            sizes["online"] = (online, np.full(len(q), BITS))
        if bias > 0:
            sizes[f"certified, Bias ≤ {bias:g}"] = _certified(q, bias)
        for kind, (k, bits) in sizes.items():
            length = np.array(
                [
                    8 * len(encode(truncated_message(row, k=int(n), token=int(d), bits=int(b))))
                    for row, n, d, b in zip(q, k, token, bits, strict=True)
                ]
            )
            lost = np.asarray(resampling_bias(p, q, k))
            found.setdefault(kind, []).append((k.astype(np.float64), length.astype(np.float64), lost))
    weight = np.concatenate(sent)
    return {kind: _weighted(weight, *map(np.concatenate, zip(*parts, strict=True))) for kind, parts in found.items()}


def _certified(q: Array, bias: float) -> tuple[Array, Array]:
    """Return the certified k and the bits of a probability for each row; more bits where the usual are too few."""
    usual, most = CERTIFIED_BITS
    try:
        return np.asarray(certified_size(q, bias, bits_per_probability=usual)), np.full(len(q), usual)
    except ValueError:
        found = []
        for row in q:
            try:
                found.append((int(certified_size(row, bias, bits_per_probability=usual)), usual))
            except ValueError:
                found.append((int(certified_size(row, bias, bits_per_probability=most)), most))
        sizes, widths = np.array(found).T
        return sizes, widths


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
