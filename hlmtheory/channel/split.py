"""Split verification: the server accepts, and the device replaces a rejected draft (ning2025dssd, abstract)."""

from __future__ import annotations

from functools import partial

import numpy as np

from hlmtheory._array import Array, arrays, floating, in_kind
from hlmtheory._domains import SIMPLEX, UNIT_INTERVAL, entry_for_each, leading_dimensions
from hlmtheory._quantities import positive
from hlmtheory._sides import Values, host_side
from hlmtheory._simplex import canonical
from hlmtheory.channel.latency import COUNT, vocabulary_payload_bits
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
    alpha = xp.astype(UNIT_INTERVAL.check(xp, "acceptances", alpha), xp.float64)
    entry_for_each("draft", acceptances=tuple(alpha.shape))
    bits = xp.astype(_BITS.check(xp, "row_bits", bits), xp.float64)
    leading_dimensions(acceptances=tuple(alpha.shape[:-1]), row_bits=tuple(bits.shape))
    return in_kind(xp, (1.0 - xp.prod(alpha, axis=-1)) * bits, kind)


def _rows(one: Values) -> float:
    """Return the mean number of rows down, outcome by outcome: the first rejected draft is 1, 2, .., K."""
    total, reached = 0.0, 1.0
    for alpha in one["acceptances"].tolist():
        total += reached * (1.0 - alpha)
        reached *= alpha
    return total


def _by_mean(one: Values) -> float:
    return float(1.0 - one["acceptances"].mean() ** len(one["acceptances"]))


def _sizes(one: Values) -> tuple[int, float, float]:
    """Return K, and the bits of a token and of a distribution."""
    size, width = one["vocabulary"], one["bits_per_probability"]
    row, indexed = (float(vocabulary_payload_bits(size, width, index=index)) for index in (False, True))
    return len(one["acceptances"]), (indexed - row) / float(size), row


def _split(one: Values) -> float:
    """Return the bits of a round both ways: tokens and probabilities up, and a row down if a draft is rejected."""
    length, token, row = _sizes(one)
    return length * (float(one["bits_per_probability"]) + token) + float(downlink_bits(one["acceptances"], row))


def _whole_rows(one: Values) -> float:
    length, token, row = _sizes(one)
    return length * (row + token)


def _received(one: Values) -> tuple[Array, Array, Array, float]:
    """Return p, q, the law if the device draws from (p̂ - q)⁺, and Σ (p̂ - q)⁺."""
    p, q, told = (canonical(name, one[name]) for name in ("target", "draft", "received"))
    residual = np.maximum(told - q, 0.0)
    mass = float(residual.sum())
    kept = np.minimum(p, q)
    return p, q, kept + (q - kept).sum() * (residual / mass if mass > 0 else told), mass


def _received_bias(one: Values) -> float:
    p, _, law, _ = _received(one)
    return float(0.5 * np.abs(law - p).sum())


def _received_error(one: Values) -> float:
    return float(0.5 * np.abs(canonical("target", one["target"]) - canonical("received", one["received"])).sum())


def _noise(one: Values) -> float:
    """Return 1 + T/T̂, the factor by which the residual magnifies a rounding of its row."""
    p, q, _, mass = _received(one)
    return float(1.0 + np.maximum(p - q, 0.0).sum() / (mass or 1.0))


_side = partial(
    host_side,
    {
        **dict.fromkeys(("target", "draft", "received"), SIMPLEX),
        **dict.fromkeys(("vocabulary", "bits_per_probability"), COUNT),
        "acceptances": UNIT_INTERVAL,
    },
    dict.fromkeys(("target", "draft", "received", "acceptances"), 1),
)
_ROUND, _ANSWER = ("acceptances", "vocabulary", "bits_per_probability"), ("target", "draft", "received")
_SPLIT = Source("ning2025dssd", "abstract: a single downlink transmission in place of the drafts' distributions")
_ROW = Source("ning2025dssd", "abstract: the single downlink transmission, if that distribution is truncated")
# the rejected draft is replaced by token 1 where token 2 is meant
_MOVED = {"target": [0.5, 0.25, 0.25], "draft": [0.75, 0.25, 0.0], "received": [0.5, 0.5, 0.0]}
_SEVERAL = Assumption(
    "K ≥ 2 and V ≥ 2: there are several distributions to replace",
    _side(lambda one: len(one["acceptances"]) >= 2 and one["vocabulary"] >= 2, *_ROUND[:2], test=True),
)

SPLIT_CLAIMS = (
    Claim(
        id="channel.downlink",
        source=_SPLIT,
        statement="E[distributions down in a round] = 1 − α_1 ⋯ α_K, α_i = P(accept i | 1..i−1 accepted)",
        relation=Relation.EQ,
        lhs=_side(_rows, "acceptances"),
        rhs=lambda acceptances: downlink_bits(acceptances, 1.0),
        attained=Attained({"acceptances": [0.5, 0.5]}),
    ),
    Claim(
        id="channel.downlink_mean",
        source=_SPLIT,
        origin=Origin.IMPLIED,
        statement="E[distributions down in a round] = 1 − ᾱ^K, ᾱ the mean of the rates α_i",
        relation=Relation.EQ,
        lhs=_side(_rows, "acceptances"),
        rhs=_side(_by_mean, "acceptances"),
        refuted={"acceptances": [1.0, 0.5]},
    ),
    Claim(
        id="channel.downlink_floor",
        source=_SPLIT,
        statement="1 − ᾱ^K ≤ E[distributions down in a round], ᾱ the mean of α_i, in rounds with one profile",
        lhs=_side(_by_mean, "acceptances"),
        rhs=_side(_rows, "acceptances"),
        attained=Attained({"acceptances": [0.5, 0.5]}),
        ceiling=1.0,
    ),
    Claim(
        id="channel.split_bits",
        source=_SPLIT,
        origin=Origin.PUBLISHED,
        statement="bits of a round, up and down: K(b + ⌈log₂ V⌉) + (1 − Π α_i) V b ≤ K(V b + ⌈log₂ V⌉)",
        lhs=_side(_split, *_ROUND),
        rhs=_side(_whole_rows, *_ROUND),
        assumptions=(_SEVERAL,),
        attained=Attained({"acceptances": [0.0, 1.0], "vocabulary": 2, "bits_per_probability": 8}),
    ),
    Claim(
        id="channel.downlink_truncated",
        source=_ROW,
        statement="TV(law, p) ≤ TV(p, p̂) if p̂ is sent down and the device draws from (p̂ − q)⁺",
        lhs=_side(_received_bias, *_ANSWER),
        rhs=_side(_received_error, "target", "received"),
        attained=Attained(_MOVED),
        condition=_side(_noise, *_ANSWER),
        ceiling=1.0,
    ),
)
