"""The claims of :mod:`hlmtheory.codec`, and why they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory.claims import Attained, Claim, Relation, Source
from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.menu_claims import CLAIMS as _MENU_CLAIMS
from hlmtheory.codec.messages import LatticeMessage, TruncatedMessage, lattice_message, truncated_message
from hlmtheory.codec.text_budget import CLAIMS as _TEXT_CLAIMS
from hlmtheory.codec.truncated import decoded_rows
from hlmtheory.truncation.message import BITS, message_certificate

#
# Proofs, by the last part of the id.
#
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


CLAIMS = (
    Claim(
        id="codec.round_trip",
        source=Source("bhattacharjee2025csqs", "Alg. 1, line 10, and Alg. 2, line 18"),
        statement="decode(encode(message)) = message",
        relation=Relation.EQ,
        lhs=lambda counts, support, token: _each(counts, support, token, _comes_back),
        rhs=lambda token: 0 * arrays(token=token)[1] + 1,
        attained=Attained({"counts": [6, 0, 4, 0], "support": [True, False, True, False], "token": 2}),
    ),
    Claim(
        id="codec.certificate",
        source=Source("oh2025cuhlm", "IV-B, and V-A for b_prob = 8"),
        statement="Σ |q − q̂^(d)| ≤ 2 Δ_k for the row decoded from the bytes of any draft d, 8 bits a value: the "
        "largest Bias over all p if each rejected draft is replaced from it",
        lhs=_decoded_distance,
        rhs=message_certificate,
        attained=Attained({"draft": [0.6, 0.24, 0.16], "token": 0, "k": 1}),
        ceiling=2.0,
    ),
    *_MENU_CLAIMS,
    *_TEXT_CLAIMS,
)
