"""The claims of :mod:`hlmtheory.codec`, and why they hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.enumerative import index_of
from hlmtheory.codec.messages import LatticeMessage, lattice_message
from hlmtheory.lattice.payload import exact_payload_bits

#
# Proofs. enumerative. The number of the batch is below N = Π C(V, K) C(ℓ + K - 1, K - 1) · |tokens with a count|, and
#   the length of N - 1 in bits is ⌈log₂ N⌉ < log₂ N + 1.
# round_trip. Each step has an inverse: mixed radix, colexicographic places, units and bars, the frame.


def _each(counts: Array, support: Array, token: Array, measure: Callable[[LatticeMessage], float]) -> NDArray[Any]:
    """A number of each instance, a batch of one draft, on the host."""
    rows, kept, drawn = (to_numpy(value) for value in arrays(counts=counts, support=support, token=token)[1:])
    size = rows.shape[-1:]
    batch = np.broadcast_shapes(rows.shape[:-1], kept.shape[:-1], drawn.shape)
    rows, kept, drawn = (
        np.broadcast_to(value, shape) for value, shape in ((rows, batch + size), (kept, batch + size), (drawn, batch))
    )
    found = np.empty(batch)
    for index in np.ndindex(batch):
        found[index] = measure(lattice_message(rows[index], support=kept[index], token=drawn[index]))
    return found


def _length(message: LatticeMessage) -> float:
    """Bits of the largest number of such a batch."""
    return (index_of(message)[1] - 1).bit_length()


def _formula(message: LatticeMessage) -> float:
    """c-sqs (1) and log₂ of the tokens that may have been drawn, summed over the batch, and one bit."""
    return 1.0 + sum(
        exact_payload_bits(message.vocabulary, draft.size, draft.resolution) + math.log2(np.count_nonzero(draft.counts))
        for draft in message.drafts
    )


def _comes_back(message: LatticeMessage) -> float:
    return float(decode(encode(message)) == message)


_EDGE = {"counts": [1] + [0] * 256, "support": [True] + [False] * 256, "token": 0}

CLAIMS = (
    Claim(
        id="codec.enumerative",
        source=Source("bhattacharjee2025csqs", "(1), (2), (5)"),
        origin=Origin.NEW,
        statement="bits of the enumerated draft and its token ≤ log₂C(V, K) + log₂C(ℓ+K−1, K−1) + log₂#{b > 0} + 1",
        relation=Relation.LE,
        lhs=lambda counts, support, token: _each(counts, support, token, _length),
        rhs=lambda counts, support, token: _each(counts, support, token, _formula),
        attained=Attained(_EDGE, ratio=9 / (1 + math.log2(257))),
    ),
    Claim(
        id="codec.round_trip",
        source=Source("bhattacharjee2025csqs", "Alg. 1, line 10, and Alg. 2, line 18"),
        origin=Origin.NEW,
        statement="decode(encode(message)) = message",
        relation=Relation.EQ,
        lhs=lambda counts, support, token: _each(counts, support, token, _comes_back),
        rhs=lambda token: 0 * arrays(token=token)[1] + 1,
        attained=Attained({"counts": [6, 0, 4, 0], "support": [True, False, True, False], "token": 2}),
    ),
)
