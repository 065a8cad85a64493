"""The claims of :mod:`hlmtheory.codec`, and why they hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.enumerative import encode_lattice, index_of
from hlmtheory.codec.frame import varint
from hlmtheory.codec.menu_claims import CLAIMS as _MENU_CLAIMS
from hlmtheory.codec.messages import LatticeMessage, TruncatedMessage, lattice_message, truncated_message
from hlmtheory.codec.text_budget import CLAIMS as _TEXT_CLAIMS
from hlmtheory.codec.truncated import decoded_rows
from hlmtheory.truncation.message import BITS, message_certificate

#
# Proofs, by the last part of the id.
#
# enumerative. The number of the batch is below N = Π C(V, K) C(ℓ + K - 1, K - 1) · |tokens with a count|, and the
#   length of N - 1 in bits is ⌈log₂ N⌉ < log₂ N + 1.
# certificate. This is truncation.message with q̂^(d) in the server's float64 numbers. The choice of k and the encoder
#   compute the levels by one function of the canonical row, and the choice of k and the server compute the values by
#   one function of the level. All other rounding is below the slack in message_deviations; its docstring derives
#   the slack.
# round_trip. Each step has an inverse: mixed radix, colexicographic places, units and bars, the frame.


def _each(counts: Array, support: Array, token: Array, measure: Callable[[LatticeMessage], float]) -> NDArray[Any]:
    """Return one number per instance, computed on the host for a batch of one draft."""
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
    """Return the bit length of the number: the coder's count of the batches, or the bytes written if that is more."""
    (draft,) = message.drafts
    head = varint(message.vocabulary) + varint(1) + b"." + varint(draft.size) + varint(draft.resolution)
    written = len(encode_lattice(message)) - len(head)
    return max((index_of(message)[1] - 1).bit_length(), 8 * written - 7)


def _formula(message: LatticeMessage) -> float:
    """Return 1 + log₂ of the number of drafts, counted by additions, without the coder's binomials."""
    (draft,) = message.drafts
    supports, rows = _supports(message.vocabulary, draft.size), _rows_of_counts(draft.size, draft.resolution)
    return 1.0 + math.log2(supports) + math.log2(rows) + math.log2(np.count_nonzero(draft.counts))


@cache
def _supports(vocabulary: int, size: int) -> int:
    """Return the number of sets of ``size`` tokens, by Pascal's triangle."""
    sets = [1] + [0] * size
    for _ in range(vocabulary):
        sets = [1, *(more + same for more, same in pairwise(sets))]
    return sets[size]


@cache
def _rows_of_counts(size: int, resolution: int) -> int:
    """Return the number of rows of ``size`` counts that sum to the resolution, adding one entry at a time."""
    rows = [1] + [0] * resolution  # entry s: the number of rows with sum s
    for _ in range(size):
        rows = list(accumulate(rows))
    return rows[resolution]


def _comes_back(message: LatticeMessage) -> float:
    return float(decode(encode(message)) == message)


def _decoded_distance(draft: Array, token: Array, k: Array) -> Array:
    """Return Σ |q - q̂^(d)| for the distribution that the server decodes from the bytes."""
    xp, draft, token, k = arrays(draft=draft, token=token, k=k)
    batch = np.broadcast_shapes(tuple(draft.shape[:-1]), tuple(token.shape), tuple(k.shape))
    q = np.broadcast_to(to_numpy(draft), (*batch, draft.shape[-1])).reshape(-1, draft.shape[-1])
    drawn, sizes = (np.broadcast_to(to_numpy(value), batch).reshape(-1) for value in (token, k))
    found = [np.abs(row - _received(row, d, size)).sum() for row, d, size in zip(q, drawn, sizes, strict=True)]
    return xp.asarray(np.reshape(found, batch), device=device(draft))


def _received(row: NDArray[np.float64], token: int, k: int) -> NDArray[np.float64]:
    """Return the distribution that the server decodes from the bytes of one draft."""
    message = decode(encode(truncated_message(row, k=k, token=token, bits=BITS)))
    if not isinstance(message, TruncatedMessage):
        raise AssertionError(f"a truncated message came back as {type(message).__name__}")
    (found,) = decoded_rows(message)
    received: NDArray[np.float64] = found
    return received


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
    Claim(
        id="codec.certificate",
        source=Source("oh2025cuhlm", "IV-B, and V-A for b_prob = 8"),
        origin=Origin.NEW,
        statement="Σ |q − q̂^(d)| ≤ 2 Δ_k for the row decoded from the bytes of any draft d, 8 bits a value: the "
        "largest Bias over all p if each rejected draft is replaced from it",
        relation=Relation.LE,
        lhs=_decoded_distance,
        rhs=message_certificate,
        attained=Attained({"draft": [0.6, 0.24, 0.16], "token": 0, "k": 1}),
        ceiling=2.0,
    ),
    *_MENU_CLAIMS,
    *_TEXT_CLAIMS,
)
