"""The sides and assumptions of the claims of :mod:`hlmtheory.lattice`, with its notation.

A K outside 1..V gives an empty support and rows of zeros here and is out of the claims' scope; the public functions
refuse it. The rows of a tree over all sequences of T tokens are listed level by level: the row after the sequence of
node n and token v is at n·V + v + 1.
"""

from typing import Any

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import COUNT, Domain, leading_dimensions, same_vocabulary, size_up_to, tree_levels
from hlmtheory._simplex import distance, distributions, excess, largest, law_overlap, normalised, quotient
from hlmtheory.lattice.arithmetic import RESOLUTION, SLACK_BITS, kept_part, sharp_distortion
from hlmtheory.lattice.payload import allocate, exact_payload_bits, payload_bits
from hlmtheory.lattice.quantization import quantize

PAPER_RESOLUTION = 100
"""ℓ of the paper's experiments; claims about measured distributions are checked at it."""

_LENGTH = Domain("a whole number, 1 or more", lambda xp, value: value >= 1, "L counts drafts", kind="integer")


def top(draft: Array, k: Array) -> tuple[Any, Array, Array]:
    """The draft distribution and the mask of its K largest entries; the assumption excludes an empty support."""
    xp, draft, k = arrays(draft=draft, k=k)
    _, _, q = distributions(draft=draft)
    k = size_up_to(q.shape[-1]).check(xp, "k", k)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), k=tuple(k.shape))
    q = xp.broadcast_to(q, (*batch, q.shape[-1]))
    return xp, q, largest(xp, q, xp.broadcast_to(k, batch)[..., None])


def units_of(xp: Any, q: Array, resolution: Array) -> Array:
    resolution = RESOLUTION.check(xp, "resolution", arrays(q=q, resolution=resolution)[2])
    leading_dimensions(draft=tuple(q.shape[:-1]), resolution=tuple(resolution.shape))
    return xp.broadcast_to(resolution, q.shape[:-1])[..., None]


def all_positive(draft: Array, k: Array) -> Array:
    """Whether at least K ≥ 1 entries are positive, so that the K largest are."""
    xp, draft, k = arrays(draft=draft, k=k)
    positive = xp.count_nonzero(distributions(draft=draft)[2] > 0, axis=-1)
    return (k >= 1) & (k <= positive)


def lattice_point(xp: Any, q: Array, kept: Array, resolution: Array) -> Array:
    """q̂ = b/ℓ of the public :func:`quantize`; zeros where it refuses the support, which is out of the claims' scope."""
    inside = xp.any(kept, axis=-1, keepdims=True) & ~xp.any(kept & (q <= 0), axis=-1, keepdims=True)
    counts = quantize(q, support=xp.where(inside, kept, q > 0), resolution=resolution)
    units = xp.astype(resolution, xp.float64)[..., None]
    return xp.where(inside, xp.astype(counts, xp.float64) / units, 0.0)


def quantised(draft: Array, k: Array, resolution: Array) -> tuple[Any, Array, Array, Array]:
    """q̄ and q̂ of the K largest, and the dropped mass."""
    xp, q, kept = top(draft, k)
    units = units_of(xp, q, resolution)
    row, dropped = kept_part(xp, q, kept)
    return xp, row, lattice_point(xp, q, kept, units[..., 0]), dropped


def distortion(draft: Array, k: Array, resolution: Array) -> Array:
    xp, row, q_hat, _ = quantised(draft, k, resolution)
    return distance(xp, row, q_hat)


def bound(k: Array, resolution: Array) -> Array:
    xp, k, units = arrays(k=k, resolution=resolution)
    units = RESOLUTION.check(xp, "resolution", units)
    return xp.astype(k, xp.float64) / (4.0 * xp.astype(units, xp.float64))


def bound_sharp(k: Array, resolution: Array) -> Array:
    xp, k, units = arrays(k=k, resolution=resolution)
    k, units = COUNT.check(xp, "k", k), RESOLUTION.check(xp, "resolution", units)
    return xp.where(k > 0, sharp_distortion(xp, xp.where(k > 0, k, 1), units), 0.0)


def _corrections(draft: Array, k: Array, resolution: Array, *, renormalised: bool) -> Array:
    """|Σ⌊ℓ q + ½⌋ - ℓ|: the units that Alg. 2 still has to add or take back."""
    xp, q, kept = top(draft, k)
    units = xp.astype(units_of(xp, q, resolution), xp.float64)
    row = kept_part(xp, q, kept)[0] if renormalised else xp.where(kept, q, 0.0)
    nearest = xp.sum(xp.floor(units * row + 0.5), axis=-1)
    return xp.abs(nearest - units[..., 0])


def competitor(draft: Array, k: Array, counts: Array) -> tuple[Any, Array, Array, Array]:
    """q, the support, and the counts of a competitor."""
    xp, q, kept = top(draft, k)
    counts = COUNT.check(xp, "counts", arrays(q=q, counts=counts)[2])
    same_vocabulary(draft=q, counts=counts)
    return xp, q, kept, counts


def nearest(draft: Array, k: Array, counts: Array) -> Array:
    """TV(q̄, q̂) at the resolution of the competitor."""
    xp, q, kept, counts = competitor(draft, k, counts)
    resolution = xp.maximum(xp.sum(counts, axis=-1), xp.ones_like(counts[..., 0]))
    kept = xp.broadcast_to(kept, (*resolution.shape, kept.shape[-1]))
    return distance(xp, kept_part(xp, q, kept)[0], lattice_point(xp, xp.broadcast_to(q, kept.shape), kept, resolution))


def farther(draft: Array, k: Array, counts: Array) -> Array:
    xp, q, kept, counts = competitor(draft, k, counts)
    weights = xp.astype(counts, xp.float64)
    return distance(xp, kept_part(xp, q, kept)[0], normalised(xp, weights)[0])


def on_support(draft: Array, k: Array, counts: Array) -> Array:
    xp, _, kept, counts = competitor(draft, k, counts)
    return xp.any(counts > 0, axis=-1) & ~xp.any((counts > 0) & ~kept, axis=-1)


def distance_to_kept(draft: Array, k: Array) -> Array:
    xp, q, kept = top(draft, k)
    return distance(xp, q, kept_part(xp, q, kept)[0])


def dropped(draft: Array, k: Array) -> Array:
    xp, q, kept = top(draft, k)
    return kept_part(xp, q, kept)[1]


def exact_bits(vocabulary: Array, k: Array, resolution: Array) -> Array:
    """Payload by Python integers, row by row on the host."""
    given = arrays(vocabulary=vocabulary, k=k, resolution=resolution)[1:]
    host = np.broadcast_arrays(*(to_numpy(value) for value in given))
    return np.vectorize(lambda v, size, units: exact_payload_bits(int(v), int(size), int(units)), otypes=[float])(*host)


def rejection_rate(target: Array, draft: Array, k: Array) -> Array:
    xp, _, q_hat, _ = quantised(draft, k, PAPER_RESOLUTION)
    return distance(xp, distributions(target=target, draft=draft)[2], q_hat)


def position_bound(target: Array, draft: Array, k: Array) -> Array:
    xp, _, p, q = distributions(target=target, draft=draft)
    return distance(xp, q, p) + dropped(draft, k) + bound(k, PAPER_RESOLUTION)


def position_bound_sharp(target: Array, draft: Array, k: Array) -> Array:
    xp, _, p, q = distributions(target=target, draft=draft)
    return distance(xp, q, p) + dropped(draft, k) + bound_sharp(k, PAPER_RESOLUTION)


def law(target: Array, draft: Array, k: Array, *, drawn_from_draft: bool) -> Array:
    """Return the law of the emitted token if q̂ is declared and drafts are drawn from q̂ or from q."""
    xp, _, q_hat, _ = quantised(draft, k, PAPER_RESOLUTION)
    _, _, p, q = distributions(target=target, draft=draft)
    drawn = q if drawn_from_draft else q_hat
    accepted = drawn * xp.clip(quotient(xp, p, q_hat), max=1.0)
    resampled = 1.0 - xp.sum(accepted, axis=-1, keepdims=True)
    return accepted + resampled * normalised(xp, excess(xp, p, q_hat))[0]


def lossless(target: Array, draft: Array, k: Array) -> Array:
    return law_overlap(law(target, draft, k, drawn_from_draft=False), target)


def misdeclared(target: Array, draft: Array, k: Array) -> Array:
    return law_overlap(law(target, draft, k, drawn_from_draft=True), target)


def prefix_mass(xp: Any, p: Array, places: list[slice]) -> Array:
    """Probability of each prefix under the law of the rows, shape (..., N)."""
    mass = [xp.ones_like(p[..., :1, 0])]
    for place in places[:-1]:
        following = mass[-1][..., None] * p[..., place, :]
        mass.append(xp.reshape(following, (*following.shape[:-2], -1)))
    return xp.concat(mass, axis=-1)


def expected_rejections(xp: Any, p: Array, q_hat: Array, length: Array, places: list[slice]) -> Array:
    """E[rejected and resampled drafts] over a sequence of T tokens, drafts from q̂ in batches of L, shape (...)."""
    states = xp.arange(len(places) + 1, device=p.device)
    drafted = (states < length[..., None])[..., None, :]  # (..., 1, I)
    mass = xp.astype(xp.broadcast_to(states == 0, (*p.shape[:-2], 1, len(places) + 1)), p.dtype)
    rejected = xp.zeros_like(p[..., 0, 0])
    for place in places:
        rows, drafts = p[..., place, :], q_hat[..., place, :]
        accepted, lost = xp.minimum(rows, drafts), xp.clip(rows - drafts, min=0.0)
        trying = xp.where(drafted, mass, 0.0)
        tried = xp.sum(trying, axis=-1)
        rejected = rejected + xp.sum(tried * xp.sum(lost, axis=-1), axis=-1)
        # after a rejection or a bonus token a new batch starts; after an acceptance the batch goes on
        bonus = xp.sum(mass, axis=-1) - tried
        restart = tried[..., None] * lost + bonus[..., None] * rows
        going_on = accepted[..., None] * trying[..., None, :-1]
        following = xp.concat([restart[..., None], going_on], axis=-1)  # (..., n, V, I)
        mass = xp.reshape(following, (*following.shape[:-3], -1, following.shape[-1]))
    return rejected


def tree(targets: Array, drafts: Array, k: Array, resolution: Array) -> tuple[Any, Array, Array, Array, Array]:
    """p, q and q̂ on every prefix of a tree, and the dropped mass there; K and ℓ are of each prefix, (..., rows)."""
    xp, targets, drafts, k, resolution = arrays(targets=targets, drafts=drafts, k=k, resolution=resolution)
    _, _, p, q = distributions(targets=targets, drafts=drafts)
    _, _, q_hat, dropped = quantised(q, k, resolution)
    return xp, p, q, q_hat, dropped


def tree_rejections(targets: Array, drafts: Array, k: Array, resolution: Array, draft_length: Array) -> Array:
    xp, p, _, q_hat, _ = tree(targets, drafts, k, resolution)
    length = _LENGTH.check(xp, "draft_length", arrays(p=p, draft_length=draft_length)[2])
    return expected_rejections(xp, p, q_hat, length, tree_levels("targets", p))


def tree_bound(targets: Array, drafts: Array, k: Array, resolution: Array, *, sharp: bool) -> Array:
    """Σ_n E_{prefix ~ p}[TV(q, p) + dropped + rounding]."""
    xp, p, q, _, dropped = tree(targets, drafts, k, resolution)
    rounding = (bound_sharp if sharp else bound)(k, resolution)
    position = distance(xp, q, p) + dropped + arrays(p=p, rounding=rounding)[2]
    return xp.sum(prefix_mass(xp, p, tree_levels("targets", p)) * position, axis=-1)


def tree_bound_published(targets: Array, drafts: Array, k: Array, resolution: Array) -> Array:
    return tree_bound(targets, drafts, k, resolution, sharp=False)


def tree_bound_sharp(targets: Array, drafts: Array, k: Array, resolution: Array) -> Array:
    return tree_bound(targets, drafts, k, resolution, sharp=True)


def positive_on_tree(drafts: Array, k: Array) -> Array:
    xp, drafts, k = arrays(drafts=drafts, k=k)
    return xp.all(all_positive(distributions(drafts=drafts)[2], k), axis=-1)


def allocated(draft: Array, budget_bits: Array) -> Array:
    """Dropped mass and D of the allocated K and ℓ; infinite where their bits exceed the budget."""
    found = allocate(draft, budget_bits)
    xp, wrong = arrays(wrong=dropped(draft, found.k) + _worst_rounding(found.k, found.resolution))
    fits = allocated_bits(draft, budget_bits) <= arrays(wrong=wrong, budget=budget_bits)[2] + SLACK_BITS
    return xp.where(fits, wrong, xp.inf)


def allocated_bits(draft: Array, budget_bits: Array) -> Array:
    """Bits of the allocated K and ℓ by whole numbers, not as the allocation reports them."""
    found = allocate(draft, budget_bits)
    xp, _ = arrays(k=found.k)
    vocabulary = draft.shape[-1]
    size = exact_bits(vocabulary, found.k, found.resolution) + float((vocabulary - 1).bit_length())
    return xp.asarray(size, device=device(found.k))


def other_distortion(draft: Array, k: Array, resolution: Array) -> Array:
    return dropped(draft, k) + _worst_rounding(k, resolution)


def _worst_rounding(k: Array, resolution: Array) -> Array:
    """D without the formula of the allocation: the maximum of j(K - j)/(Kℓ) over j ≤ ℓ, at j = ℓ or near K/2."""
    xp, size, units = arrays(k=k, resolution=resolution)
    size, units = (xp.astype(value, xp.float64) for value in (COUNT.check(xp, "k", size), units))
    RESOLUTION.check(xp, "resolution", arrays(k=k, resolution=resolution)[2])
    left = [xp.minimum(units, xp.floor((size + more) / 2.0)) for more in (0.0, 1.0)]
    wrong = [j * (size - j) / (xp.where(size > 0, size, 1.0) * units) for j in left]
    return xp.clip(xp.maximum(*wrong), min=0.0)


def affordable(draft: Array, k: Array, resolution: Array, budget_bits: Array) -> Array:
    xp, k = arrays(k=k)
    bits = payload_bits(draft.shape[-1], xp.where(k > 0, k, 1), resolution, adaptive=True)
    return bits <= budget_bits + SLACK_BITS


def corrections_renormalised(draft: Array, k: Array, resolution: Array) -> Array:
    return _corrections(draft, k, resolution, renormalised=True)


def corrections_printed(draft: Array, k: Array, resolution: Array) -> Array:
    return _corrections(draft, k, resolution, renormalised=False)


def stirling_bits(vocabulary: Array, k: Array, resolution: Array) -> Array:
    return payload_bits(vocabulary, k, resolution)
