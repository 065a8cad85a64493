"""Split verification: the server accepts, and the device replaces a rejected draft (ning2025dssd, abstract)."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, floating, in_kind
from hlmtheory._domains import UNIT_INTERVAL, DomainError, leading_dimensions
from hlmtheory._quantities import positive
from hlmtheory._simplex import distance, distributions, excess, normalised
from hlmtheory.channel.latency import vocabulary_payload_bits
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source

_BITS = positive("a distribution has some bits")

# Proofs, by the last part of the id.
#
# downlink. A row goes down if and only if a draft is rejected, and the first rejected one is draft i with probability
#   α_1 … α_{i-1} (1 - α_i). These sum to 1 - α_1 … α_K.
# downlink_mean. No proof: the counterexample. α_1 … α_K is the geometric mean to the power K, not the arithmetic one.
# downlink_floor. The geometric mean is at most the arithmetic one.
# split_bits. Both send the K tokens. Of the rest, K b + (1 - Π α_i) V b ≤ (K + V) b ≤ K V b if K ≥ 2 and V ≥ 2.
# downlink_truncated. Let a = (p - q)⁺ and c = (p̂ - q)⁺ with sums T and T̂. law - p = T (c/T̂ - a/T), and the law is
#   min(p, q) + T c/T̂. If T̂ ≥ T: TV = T Σ (c/T̂ - a/T)⁺ ≤ Σ (c - a)⁺. If T̂ < T: TV = T Σ (a/T - c/T̂)⁺ ≤ Σ (a - c)⁺.
#   Both are at most TV(p, p̂), since x ↦ (x - q)⁺ moves no two numbers apart. For T̂ = 0 any token may be drawn: TV ≤ T
#   = TV(q, p) = TV(p, p̂).


def downlink_bits(acceptances: Array, row_bits: Array) -> Array:
    """Return the mean bits of distributions down in a round of K drafts: (1 - α_1 … α_K) V b, α (..., K)."""
    xp, alpha, bits = arrays(acceptances=acceptances, row_bits=row_bits)
    kind = floating(xp, alpha, bits)[0].dtype
    alpha = _rates(xp, alpha)
    bits = xp.astype(_BITS.check(xp, "row_bits", bits), xp.float64)
    leading_dimensions(acceptances=tuple(alpha.shape[:-1]), row_bits=tuple(bits.shape))
    return in_kind(xp, (1.0 - xp.prod(alpha, axis=-1)) * bits, kind)


def _rates(xp: Any, alpha: Array, name: str = "acceptances") -> Array:
    alpha = xp.astype(UNIT_INTERVAL.check(xp, name, alpha), xp.float64)
    if alpha.ndim == 0 or alpha.shape[-1] == 0:
        raise DomainError(f"{name} must have one rate for each draft; got shape {tuple(alpha.shape)}; give a draft")
    return alpha


def _rows(acceptances: Array) -> Array:
    """Return the mean number of rows down, outcome by outcome: the first rejected draft is 1, 2, .., K."""
    xp, alpha = arrays(acceptances=acceptances)
    alpha = _rates(xp, alpha)
    total, reached = xp.zeros_like(alpha[..., 0]), xp.ones_like(alpha[..., 0])
    for i in range(alpha.shape[-1]):
        total = total + reached * (1.0 - alpha[..., i])
        reached = reached * alpha[..., i]
    return total


def _by_mean(acceptances: Array) -> Array:
    """Return 1 - ᾱ^K with the mean ᾱ of the rates."""
    xp, alpha = arrays(acceptances=acceptances)
    alpha = _rates(xp, alpha)
    return 1.0 - xp.mean(alpha, axis=-1) ** alpha.shape[-1]


def _sizes(acceptances: Array, vocabulary: Array, bits_per_probability: Array) -> tuple[int, Array, Array, Array]:
    """Return K, and the bits of a token, a probability and a distribution, in float64."""
    xp, alpha, size, width = arrays(
        acceptances=acceptances, vocabulary=vocabulary, bits_per_probability=bits_per_probability
    )
    row, indexed = (vocabulary_payload_bits(size, width, index=index) for index in (False, True))
    size, width, row, indexed = (xp.astype(value, xp.float64) for value in (size, width, row, indexed))
    return alpha.shape[-1], (indexed - row) / size, width, row


def _split(acceptances: Array, vocabulary: Array, bits_per_probability: Array) -> Array:
    """Return the bits of a round both ways: tokens and probabilities up, and a row down if a draft is rejected."""
    length, token, width, row = _sizes(acceptances, vocabulary, bits_per_probability)
    return length * (width + token) + downlink_bits(acceptances, row)


def _whole_rows(acceptances: Array, vocabulary: Array, bits_per_probability: Array) -> Array:
    """Return the bits of a round that sends each draft with its distribution."""
    length, token, _, row = _sizes(acceptances, vocabulary, bits_per_probability)
    return length * (row + token)


def _received_law(target: Array, draft: Array, received: Array) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, p, the law if the device draws from (p̂ - q)⁺, and Σ (p̂ - q)⁺."""
    xp, _, p, q, told = distributions(target=target, draft=draft, received=received)
    residual, mass = normalised(xp, excess(xp, told, q))
    residual = xp.where(mass[..., None] > 0, residual, told)
    kept = xp.minimum(p, q)
    return xp, p, kept + xp.sum(q - kept, axis=-1, keepdims=True) * residual, mass


def _received_bias(target: Array, draft: Array, received: Array) -> Array:
    xp, p, law, _ = _received_law(target, draft, received)
    return 0.5 * xp.sum(xp.abs(law - p), axis=-1)


def _received_error(target: Array, received: Array) -> Array:
    xp, _, p, told = distributions(target=target, received=received)
    return distance(xp, p, told)


def _noise(target: Array, draft: Array, received: Array) -> Array:
    """Return 1 + T/T̂, the factor by which the residual magnifies a rounding of its row."""
    xp, p, _, mass = _received_law(target, draft, received)
    _, _, _, q = distributions(target=target, draft=draft)
    return 1.0 + distance(xp, p, q) / xp.where(mass > 0, mass, 1.0)


def _drafts(acceptances: Array, vocabulary: Array) -> Array:
    """Return whether K ≥ 2 and V ≥ 2."""
    _xp, alpha, size = arrays(acceptances=acceptances, vocabulary=vocabulary)
    return (size >= 2) & (alpha.shape[-1] >= 2)


_SPLIT = Source("ning2025dssd", "abstract: a single downlink transmission in place of the drafts' distributions")
_ROW = Source("ning2025dssd", "abstract: the single downlink transmission, if that distribution is truncated")
# the rejected draft is replaced by token 1 where token 2 is meant
_MOVED = {"target": [0.5, 0.25, 0.25], "draft": [0.75, 0.25, 0.0], "received": [0.5, 0.5, 0.0]}

SPLIT_CLAIMS = (
    Claim(
        id="channel.downlink",
        source=_SPLIT,
        statement="E[distributions down in a round] = 1 − α_1 ⋯ α_K, α_i = P(accept i | 1..i−1 accepted)",
        relation=Relation.EQ,
        lhs=_rows,
        rhs=lambda acceptances: downlink_bits(acceptances, 1.0),
        attained=Attained({"acceptances": [0.5, 0.5]}),
    ),
    Claim(
        id="channel.downlink_mean",
        source=_SPLIT,
        origin=Origin.IMPLIED,
        statement="E[distributions down in a round] = 1 − ᾱ^K, ᾱ the mean of the rates α_i",
        relation=Relation.EQ,
        lhs=_rows,
        rhs=_by_mean,
        refuted={"acceptances": [1.0, 0.5]},
    ),
    Claim(
        id="channel.downlink_floor",
        source=_SPLIT,
        statement="1 − ᾱ^K ≤ E[distributions down in a round], ᾱ the mean of α_i, in rounds with one profile",
        lhs=_by_mean,
        rhs=_rows,
        attained=Attained({"acceptances": [0.5, 0.5]}),
        ceiling=1.0,
    ),
    Claim(
        id="channel.split_bits",
        source=_SPLIT,
        origin=Origin.PUBLISHED,
        statement="bits of a round, up and down: K(b + ⌈log₂ V⌉) + (1 − Π α_i) V b ≤ K(V b + ⌈log₂ V⌉)",
        lhs=_split,
        rhs=_whole_rows,
        assumptions=(Assumption("K ≥ 2 and V ≥ 2: there are several distributions to replace", _drafts),),
        attained=Attained({"acceptances": [0.0, 1.0], "vocabulary": 2, "bits_per_probability": 8}),
    ),
    Claim(
        id="channel.downlink_truncated",
        source=_ROW,
        statement="TV(law, p) ≤ TV(p, p̂) if p̂ is sent down and the device draws from (p̂ − q)⁺",
        lhs=_received_bias,
        rhs=_received_error,
        attained=Attained(_MOVED),
        condition=_noise,
        ceiling=1.0,
    ),
)
