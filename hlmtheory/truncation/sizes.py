"""How many of V probabilities to send: the published rules, the exact one, and rules with a guarantee.

Paper: cu-hlm (oh2025cuhlm) Sections IV-B to IV-D, (19), (21), (24). Symbols are those of :mod:`hlmtheory.truncation`; θ
is ``distortion_tolerance``, on TV(r, r̂); ε is ``bias_tolerance``, on Σ_v |law_v - p_v|, twice a total variation.

How k should depend on the uncertainty: suppose that only q and an upper bound τ on the mean rejection probability T =
TV(q, p) = Σ q_v β_v are known. Then the largest Bias is 2 min(τ, Δ_k) for every k (``truncation.bias_worst``). So k = 0
is enough while τ ≤ ε/2; beyond that k is the smallest with 2 Δ_k ≤ ε, whatever τ is: :func:`certified_size`. The
paper's own criterion, TV(r, r̂) ≤ θ, has its worst case at min(1, Δ_k / (q_d β_d)), so its k *falls* as β_d rises
(``truncation.online_direction_worst``).
"""

from typing import Any

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, in_kind, spread, to_numpy
from hlmtheory._domains import DomainError, entry_for_each, flag, leading_dimensions, number
from hlmtheory._quantities import not_negative
from hlmtheory._simplex import distance, distributions
from hlmtheory.truncation._search.pairs import SortedPair
from hlmtheory.truncation._search.tails import Tails
from hlmtheory.truncation.message import least_message_size
from hlmtheory.truncation.multi_draft import DRAFT_COUNT
from hlmtheory.truncation.softplus import denominator_at, draft_probability

TOLERANCE = not_negative("give the largest distortion or bias that is allowed, such as 0.1")


def exact_size(target: Array, draft: Array, distortion_tolerance: Array) -> Array:
    """k* of cu-hlm (19): the smallest k with TV(r, r̂_k) ≤ θ, an oracle, since only the server knows p.

    TV(r, r̂_k) can rise with k (``truncation.monotone_distortion``), so the scan starts at k = 0; a k that fails also
    rules out the next k whose q̂ is too close to its own. A k with Δ_k ≤ θ TV(q, p) is accepted, since that bounds the
    distortion, with the rounding of Δ_k added where it matters. 0 where target = draft and for θ ≥ 1.
    """
    xp, target, draft, theta = arrays(
        "target", "draft", "distortion_tolerance", target=target, draft=draft, distortion_tolerance=distortion_tolerance
    )
    theta = in_kind(xp, TOLERANCE.check(xp, "distortion_tolerance", theta), xp.float64)
    _, _, p, q = distributions(target=target, draft=draft)
    shapes = {"target": p.shape[:-1], "draft": q.shape[:-1], "distortion_tolerance": theta.shape}
    batch = leading_dimensions(**{name: tuple(shape) for name, shape in shapes.items()})
    rows = (np.broadcast_to(to_numpy(values), (*batch, values.shape[-1])) for values in (p, q))
    p, q, limits = *rows, np.broadcast_to(to_numpy(theta), batch)
    sizes = [SortedPair.of(p[n], q[n]).least([float(limits[n])])[0] for n in np.ndindex(*batch)]
    return xp.asarray(np.reshape(np.asarray(sizes, dtype=np.int64), batch), device=device(target))


def offline_size(target: Array, draft: Array, distortion_tolerance: Array, *, sharp: bool = False) -> Array:
    """One k for many tokens: the smallest with mean_t U(k, t) ≤ θ.

    Parameters
    ----------
    target, draft : array, shape (..., T, V)
        Distributions of T tokens. U is undefined where target = draft: such a token is refused.
    distortion_tolerance : array, shape (...) or broadcastable to it
        θ, 0 or more.
    sharp : bool
        False: U is the published 2 Δ_k / TV(q, p). True: half of it, which bounds the distortion as well.

    Returns
    -------
    int64 array, shape (...)
        k* of cu-hlm (21), in 0..V-1.

    Raises
    ------
    ValueError
        If a row is not a distribution, T = 0, target = draft for a token, or θ is negative or not finite.

    Examples
    --------
    >>> target, draft = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [[0.625, 0.25, 0.125], [0.5, 0.375, 0.125]]
    >>> int(offline_size(target, draft, 0.8)), int(offline_size(target, draft, 0.8, sharp=True))
    (2, 1)
    """
    xp, target, draft, theta = arrays(
        "target", "draft", "distortion_tolerance", target=target, draft=draft, distortion_tolerance=distortion_tolerance
    )
    _, _, p, q = distributions(target=target, draft=draft)
    gap = distance(xp, p, q)
    entry_for_each("token", draft=tuple(gap.shape))
    theta = in_kind(xp, TOLERANCE.check(xp, "distortion_tolerance", theta), xp.float64)
    _refuse_equal(xp, gap)
    return least_offline(xp, q, gap, theta, sharp=flag("sharp", sharp))


def least_offline(xp: Any, q: Array, gap: Array, theta: Array, *, sharp: bool) -> Array:
    """The smallest k with mean_t U(k, t) ≤ θ, with ``gap`` (..., T) for TV(q, p)."""
    batch = leading_dimensions(draft=tuple(gap.shape[:-1]), distortion_tolerance=tuple(theta.shape))
    with np.errstate(over="ignore"):  # infinite where the distance is below 1e-308
        weight = (1.0 if sharp else 2.0) / spread(xp, gap, (*batch, gap.shape[-1]))  # (21)
    return Tails.of(xp, q).least_mean(weight, theta)


def online_size(
    draft: Array, token: Array, rejection_probability: Array, distortion_tolerance: Array, *, sharpness: Array
) -> Array:
    """The smallest k with Ū(k) ≤ θ, on the device; the distortion may exceed θ (``truncation.online_gap``).

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    token : integer array, shape (...)
        d, the token drawn from the row.
    rejection_probability : array, shape (...)
        β_d in [0, 1]; in the paper the estimate a·u + b.
    distortion_tolerance : array, shape (...)
        θ, 0 or more.
    sharpness : array, shape (...)
        η of the softplus, at least 1e-6; the paper does not print its value.

    Returns
    -------
    int64 array, shape (...)
        k(t)* of cu-hlm (24), in 0..V-1. It rises with β_d, although the distortion falls.

    Raises
    ------
    ValueError
        If a row is not a distribution, d is not a token of it, β_d is outside [0, 1], θ is negative or η is below 1e-6.

    Examples
    --------
    >>> online_size([0.5, 0.2, 0.15, 0.1, 0.05], 0, [0.1, 0.5, 0.9], 0.5, sharpness=2.0).tolist()
    [3, 3, 4]
    """
    xp, draft, token, beta, theta, eta = arrays(
        *("draft", "rejection_probability", "distortion_tolerance", "sharpness"),
        draft=draft,
        token=token,
        rejection_probability=rejection_probability,
        distortion_tolerance=distortion_tolerance,
        sharpness=sharpness,
    )
    theta = in_kind(xp, TOLERANCE.check(xp, "distortion_tolerance", theta), xp.float64)
    q = distributions(draft=draft)[2]
    _refuse_shapes(q, token=token, rejection_probability=beta, distortion_tolerance=theta, sharpness=eta)
    denominator = denominator_at(xp, draft_probability(xp, q, token), beta, eta)
    return Tails.of(xp, q).least(0.5 * theta * denominator, "distortion_tolerance")  # (24)


def certified_size(
    draft: Array, bias_tolerance: Array, *, bits_per_probability: int | None = None, draft_count: int = 1
) -> Array:
    """The smallest k with 2 m Δ_k ≤ ε: the emitted token's Bias is at most ε, whatever the target is.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    bias_tolerance : array, shape (...) or broadcastable to it
        ε, 0 or more: the largest Σ_v |law_v - p_v|, twice a total variation.
    bits_per_probability : int, optional
        b_prob: Δ_k is then :func:`message_deviation`, which includes all rounding of the bytes that
        :func:`hlmtheory.codec.truncated_message` sends and the server decodes; it can rise with k. The levels depend
        only on the values of the row, not on its library, type, order in memory or batch. None: values unrounded.
    draft_count : int
        m, 1 to 64: how many independent drafts the position has, verified one after the other. For a tree, the number
        of children of the node; see :func:`multi_draft_distribution`.

    Returns
    -------
    int64 array, shape (...)
        In 0..V-1, or 0..V with ``bits_per_probability``. Without it, the rounding of Δ_k in float64, (V + 4) 2^-52 of
        the mass that is not sent, is added where it is more than a millionth of ε/2; for ε = 0 all entries of the tail
        must be equal.

    Raises
    ------
    ValueError
        If a row is not a distribution, ε is negative or not finite, or no k meets it with so few bits.

    Examples
    --------
    >>> int(certified_size([0.5, 0.25, 0.125, 0.125], 0.1))
    2
    """
    xp, draft, epsilon = arrays("draft", "bias_tolerance", draft=draft, bias_tolerance=bias_tolerance)
    m = number(DRAFT_COUNT, "draft_count", draft_count)
    epsilon = in_kind(xp, TOLERANCE.check(xp, "bias_tolerance", epsilon), xp.float64) / m
    if bits_per_probability is not None:
        sizes = least_message_size(draft, to_numpy(epsilon), bits_per_probability)
        return xp.asarray(sizes, device=device(draft))
    q = distributions(draft=draft)[2]
    return Tails.of(xp, q).least(0.5 * epsilon, "bias_tolerance", sure=True)


def _refuse_shapes(q: Array, **others: Array) -> None:
    """Raise if the arguments do not broadcast; the message names all of them."""
    leading_dimensions(draft=tuple(q.shape[:-1]), **{name: tuple(value.shape) for name, value in others.items()})


def _refuse_equal(xp: Any, gap: Array) -> None:
    """Raise if draft and target agree at a token, because U(k) is 2 Δ_k / 0 there."""
    if not bool(xp.all(gap > 0)):
        index = int(xp.argmin(xp.reshape(gap, (-1,))))
        raise DomainError(
            f"draft must differ from target, or the bound is undefined; they agree at token {index} of the batch; "
            "leave such tokens out: nothing is rejected there"
        )
