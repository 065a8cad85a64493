"""What a plan needs of each position of a trace, computed block by block; the rows themselves are not kept."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np

from hlmtheory._array import NUMPY
from hlmtheory._simplex import quotient
from hlmtheory.lattice import payload_bits, quantize
from hlmtheory.shared_seed.match import sorted_matches
from hlmtheory.uncertainty.binomial import DRAWS, skip_probability
from hlmtheory.uncertainty.perturbation import MAX_TEMPERATURE
from hlmtheory.uncertainty.quadrature import mean_at, quick_rule, scaled_gaps
from validation.arrays import Array
from validation.decoding.wire import index_bits
from validation.trace.reader import TraceChunk, probabilities

BINS = 40  # Bins of the uncertainty, each 1/40 wide; bin b holds b/40 < u ≤ (b + 1)/40
THRESHOLDS = np.arange(1, 21) / 20
"""Thresholds of the uncertainty for which counts are computed, besides "skip nothing"."""
WIDEST = 1024  # Tokens of a row that is quantised, the likeliest: the largest support
CENTRES = np.append((np.arange(BINS - 1) + 0.5) / BINS, 0.999)
"""Uncertainty that stands for each bin. Nearly all tokens of the last bin have an uncertainty close to 1."""
MOST_CHILDREN = 4  # Drafts of one position, at most
ROUNDING = 1e-9  # of a sum of probabilities


@dataclass(frozen=True, slots=True)
class Lattice:
    """A quantised row: the k largest probabilities, or those at or above τ, with resolution ℓ."""

    resolution: int
    k: int | None = None
    threshold: float | None = None

    @property
    def name(self) -> str:
        kept = f"k = {self.k}" if self.k is not None else f"τ = {self.threshold:g}"
        return f"{kept}, ℓ = {self.resolution}"


LATTICES = (
    Lattice(50, k=8),
    Lattice(100, k=16),
    Lattice(100, k=32),
    Lattice(100, k=64),
    Lattice(400, k=64),
    Lattice(1000, k=256),
    Lattice(100, threshold=0.001),
    Lattice(100, threshold=0.004),
    Lattice(100, threshold=0.01),
)


@dataclass(frozen=True, slots=True)
class Positions:
    """Quantities of n positions for C codecs: codec 0 draws its draft from q, the others from a quantised row q̂."""

    acceptance: Array  # (n, C): α = Σ min(p, q̂); of the shared seed Σ_v t_v, with t_v = P(both draw v)
    accepted: Array  # (n, C): min(1, q̂_y/p_y) of the text's token y, or t_y/p_y; α where the trace has no token
    fell: Array  # (n, C): (1 - q̂_y/p_y)⁺, for the overlap loss
    ratio: Array  # (n, C - 1): q̂_y/p_y
    bits: Array  # (n, C): bits of a draft: of q_d and the token, or of the quantised row and the token
    kept: Array  # (n, C): probabilities in the message of a draft
    sizes: Array  # (n, C): tokens with a count in a quantised row; 0 for codec 0
    draft_mass: Array  # (n, C, BINS): Σ q̂_v over the drafts v whose uncertainty is in each bin
    accepted_mass: Array  # (n, C, BINS): Σ min(p_v, q̂_v), or Σ t_v
    moved: Array  # (n, BINS), of the shared seed: P(draft in the bin | token y), less q_y/p_y in the bin of y
    uncertainty: Array  # (n,): u of one draft d that is drawn from q
    rejection: Array  # (n,): β of the same draft, (1 - p_d/q_d)⁺
    greedy: Array  # (n,): whether the text's token is the draft model's likeliest; its p where the trace has no token
    sure: Array  # (n, MOST_CHILDREN): probability that one of 1, 2, ... drafts is accepted, as ``sure_drafts`` has it

    def losses(self, at: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return min(1, S_y/p_y) and the one-step risk at each threshold, (n, C, thresholds).

        Claim ``skipping.overlap_loss``; ``at`` is :func:`cumulative` or :func:`sampled`. With a shared seed, where
        drafts a of a set A are kept, the emitted law is S_v = [v in A] q_v + p_v - P(a in A, b = v). Its risk is at
        most Σ_A (q_v - t_v), because P(a in A, b = v) ≥ t_v for each v of A. This is more than with rejection sampling.
        """
        mass = np.maximum(self.draft_mass - self.accepted_mass, 0.0)  # q̂_v β_v
        lost, distance = at(mass), mass.sum(axis=-1)[..., None]
        share = np.minimum(lost / np.where(distance > 0, distance, 1.0), 1.0)
        factors = np.asarray(1.0 - share * self.fell[..., None])
        known = self.moved.any(axis=-1)
        factors[known, -1] = 1.0 - np.clip(at(self.moved[known]), 0.0, 1.0)
        return factors, lost


def cumulative(mass: Array) -> Array:
    """Return the mass with u at or below each of :data:`THRESHOLDS`, (..., thresholds)."""
    return np.asarray(np.cumsum(mass, axis=-1)[..., 1::2])


def sampled(mass: Array) -> Array:
    """Return the mass that a sampled uncertainty puts at or below each threshold; see ``skip_probability``."""
    return np.asarray(mass @ _weights())


def without_residue(share: Array) -> Array:
    """Return shares in [0, 1], where one that differs from 1 by rounding alone is 1: nothing is left to send."""
    return np.asarray(np.where(share > 1.0 - ROUNDING, 1.0, share))


@cache
def _weights() -> Array:
    return np.asarray(skip_probability(CENTRES[:, None], THRESHOLDS, DRAWS))


def join(parts: list[Positions]) -> Positions:
    return Positions(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Positions)))


def positions_of(chunk: TraceChunk, uniform: Array) -> Positions:
    q, p = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
    at, width = np.arange(len(q)), index_bits(q.shape[-1])
    y, known = np.maximum(chunk.tokens, 0), chunk.tokens >= 0
    p_y, q_y = np.where(known, p[at, y], 0.0), q[at, y]
    d = np.minimum((np.cumsum(q, axis=-1) <= uniform[:, None]).sum(axis=-1), q.shape[-1] - 1)
    index, value = _likeliest(q)
    u, bins = _uncertainty(chunk.draft_logits, np.concatenate([index[:, :BINS], d[:, None]], axis=1))
    low = bins < BINS - 1

    def each(number: float) -> Array:
        return np.full(len(q), number)

    whole = _columns(q, p, q_y, p_y, bins, low) | {"bits": each(width + 32.0), "kept": each(1.0), "sizes": each(0.0)}
    rows = [_quantised_columns(lattice, index, value, p, y, p_y, bins) for lattice in LATTICES]
    matched, given = race_matches(p, q, y)
    divisor = np.where(p_y > 0, p_y, 1.0)
    rate = np.minimum(matched.sum(axis=-1), 1.0)
    accepted = np.where(p_y > 0, np.minimum(matched[at, y] / divisor, 1.0), rate)
    seeded = whole | {"acceptance": rate, "accepted": accepted, "accepted_mass": _by_bin(matched, bins, low)}
    seeded |= {"bits": each(width), "kept": each(0.0)}  # the same drafts as whole rows
    moved = _by_bin(given, bins, low)
    moved[at, bins[at, y]] -= q_y / divisor
    moved[p_y <= 0] = 0.0
    table = {name: np.stack([codec[name] for codec in (whole, *rows, seeded)], axis=1) for name in whole}
    table["ratio"] = table["ratio"][:, :-1]
    return Positions(
        **table,
        moved=moved,
        uncertainty=u[:, -1],
        rejection=np.maximum(0.0, 1.0 - p[at, d] / np.where(q[at, d] > 0, q[at, d], 1.0)),
        greedy=np.where(known, y == q.argmax(axis=-1), p[at, q.argmax(axis=-1)]),
        sure=sure_drafts(p, q, index[:, : MOST_CHILDREN - 1], np.where(known, y, -1)),
    )


def sure_drafts(p: Array, q: Array, likeliest: Array, token: Array) -> Array:
    """Return the probability that one of n drafts is accepted, given the text's token, (positions, likeliest + 1).

    Of n drafts n - 1 are the likeliest tokens S, and one is drawn from q' = q/(1 - q(S)) outside of S. Then one is
    accepted if the text's token y is in S, and else with min(1, q'_y/p_y) (``verification.top_drafts_tried``).
    """
    at, known = np.arange(len(q)), token >= 0
    rest, rates = q.copy(), []
    for sure in range(likeliest.shape[1] + 1):
        if sure:
            rest[at, likeliest[:, sure - 1]] = 0.0
        total = rest.sum(axis=-1, keepdims=True)
        drawn = np.minimum(p, rest / np.where(total > 0, total, 1.0))
        drawn[at[:, None], likeliest[:, :sure]] = p[at[:, None], likeliest[:, :sure]]
        p_y = np.where(known, p[at, token], 0.0)
        accepted = drawn[at, token] / np.where(p_y > 0, p_y, 1.0)
        rates.append(np.minimum(np.where(p_y > 0, accepted, drawn.sum(axis=-1)), 1.0))
    return np.stack(rates, axis=1)


def race_matches(p: Array, q: Array, token: Array) -> tuple[Array, Array]:
    """Return P(both races are won by v) and P(the draft is v | the server's token), for every v.

    With x_v = p_v/q_v and the winners' times α and β, a = u and b = v ≠ u have the density
    q_u p_v exp(-Σ_w max(α q_w, β p_w)) where x_u ≤ α/β ≤ x_v. So P(a = u | b = v) = q_u ∫ dc/h(c)² over c from x_u to
    x_v, with h(c) = Σ_w max(c q_w, p_w), which is linear between two neighbours of the sorted x.
    """
    ordered, _, order = sorted_matches(np, p, q)
    matched = np.empty_like(ordered)
    np.put_along_axis(matched, order, ordered, axis=-1)
    x = np.take_along_axis(quotient(np, p, q), order, axis=-1)
    beyond = np.isinf(x)  # q = 0: such a token is no draft
    x = np.where(beyond, np.where(beyond, 0.0, x).max(axis=-1, keepdims=True), x)
    below = np.cumsum(np.take_along_axis(q, order, axis=-1), axis=-1)
    finite = np.where(beyond, 0.0, np.take_along_axis(p, order, axis=-1))
    above = np.maximum(1.0 - np.cumsum(finite, axis=-1), 0.0)
    h = x * below + above
    integral = np.zeros_like(x)
    integral[:, 1:] = np.cumsum(np.diff(x) / h[:, 1:] / h[:, :-1], axis=-1)
    integral[beyond] += 1.0 / h[beyond]  # from the last ratio on: there Q = 1
    reached = np.empty_like(integral)
    np.put_along_axis(reached, order, integral, axis=-1)
    at = np.arange(len(q))
    given = q * np.maximum(reached[at, token][:, None] - reached, 0.0)
    p_y = p[at, token]
    given[at, token] = matched[at, token] / np.where(p_y > 0, p_y, 1.0)
    return matched, np.where(p_y[:, None] > 0, given, 0.0)


def _uncertainty(logits: Array, tokens: Array) -> tuple[Array, Array]:
    """Return u of the given tokens of each row, and the bin of each token of the vocabulary: for others the last."""
    gaps = np.asarray(scaled_gaps(NUMPY, logits, MAX_TEMPERATURE))
    u = np.clip(1.0 - mean_at(NUMPY, gaps, np.take_along_axis(gaps, tokens, axis=-1), quick_rule()), 0.0, 1.0)
    bins = np.full(gaps.shape, BINS - 1)
    np.put_along_axis(bins, tokens, np.maximum(np.ceil(u * BINS).astype(np.int64) - 1, 0), axis=-1)
    return u, bins


def _columns(row: Array, p: Array, row_y: Array, p_y: Array, bins: Array, chosen: Array) -> dict[str, Array]:
    """Return what :class:`Positions` holds of a codec that draws from ``row``, besides what its message takes."""
    both, known = np.minimum(p, row), p_y > 0
    rate, ratio = np.minimum(both.sum(axis=-1), 1.0), row_y / np.where(known, p_y, 1.0)
    return {
        "acceptance": rate,
        "accepted": np.where(known, np.minimum(1.0, ratio), rate),
        "fell": np.where(known, np.maximum(0.0, 1.0 - ratio), 1.0),
        "ratio": np.where(known, ratio, rate),
        "draft_mass": _by_bin(row, bins, chosen),
        "accepted_mass": _by_bin(both, bins, chosen),
    }


def _quantised_columns(
    lattice: Lattice, index: Array, value: Array, p: Array, y: Array, p_y: Array, bins: Array
) -> dict[str, Array]:
    """Return the columns of a codec that draws from quantised rows over the likeliest tokens, ``index``."""
    row, size, counted = _quantised(lattice, value)
    index, vocabulary = index[:, : row.shape[-1]], p.shape[-1]
    target, bins = (np.take_along_axis(values, index, axis=-1) for values in (p, bins))
    row_y = (row * (index == y[:, None])).sum(axis=-1)
    sizes, place = np.unique(counted, return_inverse=True)
    payload = np.asarray(payload_bits(vocabulary, sizes, lattice.resolution, adaptive=lattice.k is None))
    return _columns(row, target, row_y, p_y, bins, row > 0) | {
        "bits": payload[place] + index_bits(vocabulary),  # and the drawn token
        "kept": size.astype(np.float64),
        "sizes": (row > 0).sum(axis=-1).astype(np.float64),
    }


def _by_bin(values: Array, bins: Array, chosen: Array) -> Array:
    """Return the sum of the chosen values by position and bin; the last bin also holds what is left of all values."""
    count, total = len(values), values.sum(axis=-1)
    place = (np.arange(count)[:, None] * BINS + bins)[chosen]
    masses = np.bincount(place, values[chosen], minlength=count * BINS).reshape(count, BINS)
    masses[:, -1] += np.maximum(total - masses.sum(axis=-1), 0.0)
    return np.asarray(masses)


def _likeliest(q: Array) -> tuple[Array, Array]:
    vocabulary = q.shape[-1]
    first = vocabulary - min(vocabulary, WIDEST)
    index = np.argpartition(q, first, axis=-1)[:, first:]
    value = np.take_along_axis(q, index, axis=-1)
    order = np.argsort(-value, axis=-1, kind="stable")
    return np.take_along_axis(index, order, axis=-1), np.take_along_axis(value, order, axis=-1)


def _quantised(lattice: Lattice, value: Array) -> tuple[Array, Array, Array]:
    """Return the quantised rows over the likeliest tokens, their support sizes, and the sizes that the bits count."""
    if lattice.k is not None:
        width = min(lattice.k, value.shape[-1])
        support = value[:, :width] > 0
    else:
        support = value >= (lattice.threshold or 0.0)
        support[:, 0] = True
        width = int(support.sum(axis=-1).max())
        support = support[:, :width]
    part = value[:, :width] / value[:, :width].sum(axis=-1, keepdims=True)
    counts = np.asarray(quantize(part, support=support, resolution=lattice.resolution))
    size = support.sum(axis=-1)
    return counts / lattice.resolution, size, size if lattice.k is None else np.full(len(value), width)
