"""The message: k values rounded to b_prob bits, and the distribution that the server decodes from them.

Paper: cu-hlm (oh2025cuhlm) Section IV-B; b_prob = 8 is in V-A. Every message holds the draft's index and its
probability q_d, unrounded (:func:`hlmtheory.codec.truncated_message`): the server accepts by q_d, and rounding it
would distort acceptance without bound. A value is rounded *down* to a multiple of 1/(2^b - 1), so the decoded values
never sum to more than 1. The mass that rounding loses joins the rest, which is spread over the entries that were not
sent; if all were sent, over those that were rounded. Symbols are those of :mod:`hlmtheory.truncation`. Here q̂ is the
decoded distribution, rounding included, and Δ_k its distance from q; q̂^(d) is q̂ with the exact q_d.
"""

from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, Array, arrays, in_kind, to_numpy, upward, widest
from hlmtheory._domains import Domain, DomainError, leading_dimensions, size_up_to, token_of
from hlmtheory._simplex import canonical, distributions, excess, normalised, rejection_by_token
from hlmtheory.truncation.levels import completed, levels_of, message_deviations, values_of
from hlmtheory.truncation.reconstruction import at_size, draft_and_size, kept

WIDTH = Domain(
    "a whole number in 1..52",
    lambda xp, value: (value >= 1) & (value <= 52),
    "give the bits of one value, such as 8",
    kind="integer",
)
BITS = 8
"""b_prob of cu-hlm V-A."""


def decoded_draft(draft: Array, top_k: Array, *, bits_per_probability: int = BITS, token: Array | None = None) -> Array:
    """The distribution q̂ (..., V) that the server decodes from k rounded values of b_prob bits.

    With ``token`` the server has the exact q_d, and Δ_k is at most that of :func:`message_deviation`.
    """
    bits = _width(bits_per_probability)
    xp, given, k = arrays(draft=draft, top_k=top_k)
    q = canonical("draft", given)
    k = to_numpy(size_up_to(q.shape[-1]).check(xp, "top_k", k))
    sent, _ = kept(NUMPY, q, k)
    value = np.where(sent, values_of(levels_of(q, bits), bits), 0.0)
    others = np.ones_like(sent)
    if token is not None:
        _, _, token = arrays(draft=given, token=token)
        token = to_numpy(token_of(q.shape[-1]).check(xp, "token", token))
        batch = leading_dimensions(draft=sent.shape[:-1], token=token.shape)
        drafted = np.arange(q.shape[-1]) == np.broadcast_to(token, batch)[..., None]
        sent, value, others = sent | drafted, np.where(drafted, q, value), ~drafted
    row = completed(np.ascontiguousarray(value), sent, others)
    return in_kind(xp, xp.asarray(row, device=device(given)), widest(xp, given))


def message_deviation(draft: Array, *, bits_per_probability: int = BITS) -> Array:
    """Δ_k = TV(q, q̂) of the decoded distribution, for every k = 0..V, shape (..., V + 1).

    Rounded up, by (8 V + 64) 2^-52 at most and to the caller's type, unless one token has all the mass. So Bias ≤ 2 Δ_k
    for the bytes that are sent, rounding included, whatever the draft (claim ``codec.certificate``). Once values round
    to 0, Δ_k no longer falls as k rises, except at k = V.
    """
    bits = _width(bits_per_probability)
    xp, given = arrays(draft=draft)
    most = message_deviations(canonical("draft", given), bits)
    return upward(xp, xp.asarray(most, device=device(given)), widest(xp, given))


def decoded_output_distribution(target: Array, draft: Array, decoded: Array) -> Array:
    """Distribution of the emitted token if the server also accepts by q̂_d: mechanism (i) of cu-hlm IV-B.

    law_v = q_v min(1, p_v/q̂_v) + r̂_v Σ_i q_i (1 - p_i/q̂_i)⁺. With drafts from q̂ the law would be p, so TV(law, p) ≤
    TV(q, q̂): the same guarantee without sending q_d. A draft with q̂_d = 0 is accepted.

    The rows have shape (..., V); one that is no distribution raises a ValueError.
    """
    xp, kind, p, q, decoded = distributions(target=target, draft=draft, decoded=decoded)
    beta = rejection_by_token(xp, p, decoded)
    distorted = normalised(xp, excess(xp, p, decoded))[0]
    return in_kind(xp, q * (1.0 - beta) + xp.sum(q * beta, axis=-1, keepdims=True) * distorted, kind)


def least_message_size(draft: Array, bias: NDArray[np.float64], bits: Any) -> NDArray[np.int64]:
    """The smallest k with 2 Δ_k ≤ bias (...), on the host, for unchecked rows."""
    bits = _width(bits)
    rows = canonical("draft", draft)
    batch = leading_dimensions(draft=rows.shape[:-1], bias_tolerance=bias.shape)
    most = 2.0 * message_deviations(rows, bits)
    good = most <= bias[..., None]
    short = np.flatnonzero(~np.any(good, axis=-1))
    if short.size:
        least = np.broadcast_to(most.min(axis=-1), batch).flat[short[0]]
        raise DomainError(
            f"bias_tolerance must be at least {least * 1.0005:.4g} at row {short[0]} of the batch, "
            f"since {bits} bits can do no better there; give more bits_per_probability"
        )
    return np.asarray(np.argmax(good, axis=-1))


def _width(bits: Any) -> int:
    """b_prob as a number."""
    xp, number = arrays(bits_per_probability=bits)
    if number.ndim:
        raise DomainError(f"bits_per_probability must be one number; got {bits!r}; messages of one kind share it")
    return int(WIDTH.check(xp, "bits_per_probability", number))


#
# Δ_k beyond K, the last k with a non-zero value: the mass R that is spread stays the same. The largest entry t that is
#   not yet sent leaves the n entries that share R, so μ rises from R/n to R/(n - 1), and E rises by t. If t < μ no
#   entry is above μ, and the loss rises by t. Otherwise it rises by t - (t - μ), less at most (n - 1) (R/(n - 1) - R/n)
#   = μ. So Δ never falls from K on, except at k = V.


def message_certificate(draft: Array, k: Array) -> Array:
    """2 Δ_k of the message."""
    xp, _, q, k = draft_and_size(draft, k)
    return 2.0 * at_size(xp, message_deviation(q), k)
