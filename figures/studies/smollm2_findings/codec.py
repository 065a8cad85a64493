"""Bits of the cheapest certified codec at a bias of 0.05 on a trace, beside top-k and K-SQS: one point of ours Fig. 7.

    PYTHONPATH=. python3 figures/studies/smollm2_findings/codec.py TRACE OUT.json [--positions 96]

The whole figure takes long at V = 49,152. This measures one of its columns, on positions that are drawn as there, with
the figure's functions. Intervals are of a bootstrap over prompts, at 95%.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import with_interval
from numpy.typing import NDArray

from hlmtheory import codec, truncation
from validation.plots.common.record import sampled, sampled_positions
from validation.plots.common.truncation.sample import SAMPLE_VALUES
from validation.plots.ours import codec_bits
from validation.trace.identity import fingerprint
from validation.trace.reader import open_trace, probabilities

EPSILON, SEED, WIDTH = 0.05, 1, 24


def top_k(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bits of the certified top-k of each row, with the size that is sent."""
    vocabulary = q.shape[-1]
    good = 2.0 * np.asarray(truncation.message_deviation(q, bits_per_probability=WIDTH)) <= EPSILON
    if not good.any(axis=-1).all():
        raise SystemExit(f"A row has no k of {WIDTH} bits for a bias of {EPSILON}; take more bits.")
    return good.argmax(axis=-1) * float(WIDTH + (vocabulary - 1).bit_length()) + vocabulary.bit_length()


def k_sqs(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bits of K-SQS with the cheapest K and ℓ whose mean bias is at most ε."""
    ordered = -np.sort(-q, axis=-1)
    positive = np.count_nonzero(ordered > 0, axis=-1)
    best: tuple[float, NDArray[np.float64]] | None = None
    for k in codec_bits._octaves(q.shape[-1]):
        for units in codec_bits.RESOLUTIONS:
            bits, bias = codec_bits._quantised(ordered, np.minimum(k, positive), units)
            if bias.mean() <= EPSILON and (best is None or bits.mean() < best[0]):
                best = float(bits.mean()), np.asarray(bits, dtype=np.float64)
    if best is None:
        raise SystemExit(f"No K and ℓ reach a mean bias of {EPSILON}; try more resolutions.")
    return best[1]


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--positions", type=int, default=codec_bits.POSITIONS)
    given = parser.parse_args()
    trace, start = open_trace(given.trace), time.process_time()
    count = max(1, SAMPLE_VALUES // trace.vocabulary)
    logits = np.concatenate([draft for draft, _ in sampled(trace, count, SEED)])
    chosen = np.sort(np.random.default_rng([SEED, 7]).choice(len(logits), given.positions, replace=False))
    q = np.asarray(probabilities(logits[chosen]))
    prompts = np.asarray(trace.arrays["prompt_index"][:])[sampled_positions(trace, count, SEED)[chosen]]
    cheapest = codec.cheapest_codec(q, EPSILON)
    found: dict[str, Any] = {"cheapest codec": np.asarray(cheapest.bits, dtype=np.float64)}
    found |= {f"certified top-k, {WIDTH} bits": top_k(q), "K-SQS, best K and ℓ, not certified": k_sqs(q)}
    result = {
        "kind": "measured",
        "trace": fingerprint(trace),
        "positions_of_trace": trace.positions,
        "positions": len(q),
        "prompts": len(np.unique(prompts)),
        "vocabulary": trace.vocabulary,
        "bias": EPSILON,
        "bits": {name: with_interval(bits, prompts) for name, bits in found.items()},
        "kinds": {kind: float(np.mean(cheapest.kind == n)) for n, kind in enumerate(codec.CODEC_KINDS[:3])},
        "cpu_s": round(time.process_time() - start, 1),
    }
    given.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
