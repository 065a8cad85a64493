"""Split verification: the server accepts, and the device replaces a rejected draft (ning2025dssd, abstract)."""

import numpy as np

from hlmtheory._array import Array, arrays, floating, in_kind
from hlmtheory._domains import UNIT_INTERVAL, entry_for_each, leading_dimensions
from hlmtheory._quantities import positive
from hlmtheory._simplex import canonical
from hlmtheory.channel.latency import vocabulary_payload_bits
from hlmtheory.sides.host import Values

_BITS = positive("a distribution has some bits")


def downlink_bits(acceptances: Array, row_bits: Array) -> Array:
    """Return the mean bits of distributions down in a round of K drafts: (1 - α_1 … α_K) V b, α (..., K)."""
    xp, alpha, bits = arrays(acceptances=acceptances, row_bits=row_bits)
    kind = floating(xp, alpha, bits)[0].dtype
    alpha = xp.astype(UNIT_INTERVAL.check(xp, "acceptances", alpha), xp.float64)
    entry_for_each("draft", acceptances=tuple(alpha.shape))
    bits = xp.astype(_BITS.check(xp, "row_bits", bits), xp.float64)
    leading_dimensions(acceptances=tuple(alpha.shape[:-1]), row_bits=tuple(bits.shape))
    return in_kind(xp, (1.0 - xp.prod(alpha, axis=-1)) * bits, kind)


def rows_side(one: Values) -> float:
    """Return the mean number of rows down, outcome by outcome: the first rejected draft is 1, 2, .., K."""
    total, reached = 0.0, 1.0
    for alpha in one["acceptances"].tolist():
        total += reached * (1.0 - alpha)
        reached *= alpha
    return total


def by_mean(one: Values) -> float:
    """Return what ``channel.downlink_mean, channel.downlink_floor`` takes."""
    return float(1.0 - one["acceptances"].mean() ** len(one["acceptances"]))


def _sizes(one: Values) -> tuple[int, float, float]:
    """Return K, and the bits of a token and of a distribution."""
    size, width = one["vocabulary"], one["bits_per_probability"]
    row, indexed = (float(vocabulary_payload_bits(size, width, index=index)) for index in (False, True))
    return len(one["acceptances"]), (indexed - row) / float(size), row


def split(one: Values) -> float:
    """Return the bits of a round both ways: tokens and probabilities up, and a row down if a draft is rejected."""
    length, token, row = _sizes(one)
    return length * (float(one["bits_per_probability"]) + token) + float(downlink_bits(one["acceptances"], row))


def whole_rows(one: Values) -> float:
    """Return what ``channel.split_bits`` takes."""
    length, token, row = _sizes(one)
    return length * (row + token)


def _received(one: Values) -> tuple[Array, Array, Array, float]:
    """Return p, q, the law if the device draws from (p̂ - q)⁺, and Σ (p̂ - q)⁺."""
    p, q, told = (canonical(name, one[name]) for name in ("target", "draft", "received"))
    residual = np.maximum(told - q, 0.0)
    mass = float(residual.sum())
    kept = np.minimum(p, q)
    return p, q, kept + (q - kept).sum() * (residual / mass if mass > 0 else told), mass


def received_bias(one: Values) -> float:
    """Return what ``channel.downlink_truncated`` takes."""
    p, _, law, _ = _received(one)
    return float(0.5 * np.abs(law - p).sum())


def received_error(one: Values) -> float:
    """Return what ``channel.downlink_truncated`` takes."""
    return float(0.5 * np.abs(canonical("target", one["target"]) - canonical("received", one["received"])).sum())


def noise(one: Values) -> float:
    """Return 1 + T/T̂, the factor by which the residual magnifies a rounding of its row."""
    p, q, _, mass = _received(one)
    return float(1.0 + np.maximum(p - q, 0.0).sum() / (mass or 1.0))
