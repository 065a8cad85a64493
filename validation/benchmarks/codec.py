"""Benchmark ``codec``: time of the codec on a message of K = 512 tokens."""

from __future__ import annotations

import math
import time

import numpy as np

from hlmtheory import codec, lattice, verification
from validation.benchmarks.measurement import Measurement

VOCABULARY, SIZE, RESOLUTION = 32_000, 512, 100
LIMIT_MS = 0.3
CODERS = {"entropy": "entropy-coded", "enumerative": "enumerated"}


def drawn(scale: float = 3.0, seed: int = 0) -> codec.LatticeMessage:
    """Return one message: the 512 largest entries of a softmax, on the lattice of 1/100."""
    rng = np.random.default_rng(seed)
    row = verification.softmax(rng.normal(scale=scale, size=VOCABULARY))
    support = lattice.top_support(row, SIZE)
    counts = lattice.quantize(row, support=support, resolution=RESOLUTION)
    return codec.lattice_message(counts, support=support, token=int(np.argmax(counts)))


def measure(repeats: int = 200) -> list[Measurement]:
    """Measure encoding and decoding of a message against the limit, and its bytes against the formula."""
    message = drawn()
    bits = float(lattice.payload_bits(VOCABULARY, SIZE, RESOLUTION, adaptive=True))
    found = []
    for coder, word in CODERS.items():
        coded = codec.encode(message, coder=coder)
        best = math.inf
        for _ in range(repeats):
            began = time.thread_time()
            codec.decode(codec.encode(message, coder=coder))
            best = min(best, time.thread_time() - began)
        found += [
            Measurement(f"K = {SIZE}, {word}: encode and decode", 1e3 * best, "ms", "the limit", 1e3 * best / LIMIT_MS),
            Measurement(f"K = {SIZE}, {word}: bits", 8.0 * len(coded), "bit", "the formula", 8.0 * len(coded) / bits),
        ]
    return found
