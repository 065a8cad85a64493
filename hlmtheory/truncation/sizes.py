"""How many of V probabilities to send: the published rules, exact ones, and those that come with a guarantee.

Paper: cu-hlm (oh2025cuhlm) Sections IV-B to IV-D, (19), (21), (24). Symbols are those of
:mod:`hlmtheory.truncation`; θ is ``tolerance`` and b a lower bound on the rejection probability β_d.

What k would follow the uncertainty rightly. Nothing but q and an upper bound τ on the mean rejection probability
T = TV(q, p) = Σ q_v β_v being known, the largest Bias is 2 min(τ, Δ_k), for every k, 0 too (``truncation.bias_worst``).
So no entry need be sent while τ ≤ ε/2, and beyond that the least k with 2 Δ_k ≤ ε, which τ does not move: a step,
:func:`bias_size`. The paper's own
criterion, TV(r, r̂) ≤ θ, has its worst case at min(1, Δ_k / (q_d β_d)), so its k *falls* as β_d rises:
:func:`online_certified_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, DomainError, leading_dimensions, token_of
from hlmtheory._quantities import not_negative
from hlmtheory._simplex import distance, distributions, quotient
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.truncation.message import least_message_size
from hlmtheory.truncation.ranked import NOISE, Ranked
from hlmtheory.truncation.reconstruction import resampling_bias, resampling_distortion, truncate, tvd_bound, upward
from hlmtheory.truncation.softplus import draft_probability, online_denominator, rejection_at
from hlmtheory.truncation.tails import Tails, least_size, sorted_batch
from hlmtheory.verification import total_variation

TOLERANCE = not_negative("give the largest distortion or bias that is allowed, such as 0.1")


@dataclass(frozen=True, slots=True)
class CertifiedSize:
    """A size with what is known of it.

    Attributes
    ----------
    k : int64 array, shape (...)
    bound : array, shape (...)
        min(1, Δ_k / (q_d b)), rounded up: at most the tolerance, or 1, but for that. 0 where Δ_k = 0 was needed because
        q_d b = 0.
    certified : bool
        Whether TV(r, r̂) ≤ ``bound`` is guaranteed; False if ``rejection`` was an estimate such as a·u + b.
    """

    k: Array
    bound: Array
    certified: bool


def exact_size(target: Array, draft: Array, tolerance: Array) -> Array:
    """Least k with TV(r, r̂_k) ≤ θ: what only the server, knowing p, could choose.

    TV(r, r̂_k) can rise with k (``truncation.monotone_distortion``), so no search by halves finds it. Each k that is
    looked at, O(V), rules out those behind it until q̂ has changed enough: some dozens are left in a model's row.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.
    tolerance : array, shape (...) or broadcastable to it
        θ, 0 or more.

    Returns
    -------
    int64 array, shape (...)
        k* of cu-hlm (19), in 0..V-1. 0 where target = draft: nothing is rejected, so nothing is distorted; and for
        θ ≥ 1. A Δ_k ≤ θ TV(q, p), which bounds the distortion, is enough: rounding then costs no entry.

    Raises
    ------
    ValueError
        If a row is no distribution, θ is negative or not finite, or the vocabularies differ.

    Examples
    --------
    >>> int(exact_size([0.5, 0.25, 0.25], [0.625, 0.25, 0.125], 0.1))
    2
    """
    xp, target, draft, theta = arrays(target=target, draft=draft, tolerance=tolerance)
    _, _, p, q = distributions(target=target, draft=draft)
    theta = in_kind(xp, TOLERANCE.check(xp, "tolerance", theta), xp.float64)
    pairs = leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]))
    batch = leading_dimensions(target=pairs, tolerance=tuple(theta.shape))
    p, q = (xp.reshape(xp.broadcast_to(row, (*pairs, q.shape[-1])), (-1, q.shape[-1])) for row in (p, q))
    row = np.broadcast_to(np.reshape(np.arange(p.shape[0]), pairs), batch).reshape(-1)
    limit = np.broadcast_to(to_numpy(theta), batch).reshape(-1)
    sizes = np.zeros(row.size, dtype=np.int64)
    order = np.lexsort((-limit, row))  # each pair is sorted once; its sizes rise as θ falls
    for i in np.unique(row):
        places = order[row[order] == i]
        sizes[places] = Ranked.of(p[int(i), :], q[int(i), :]).least(limit[places].tolist())
    return xp.reshape(xp.asarray(sizes, device=q.device), batch)


def offline_size(target: Array, draft: Array, tolerance: Array, *, sharp: bool = False) -> Array:
    """One k for many tokens: the least with mean_t U(k, t) ≤ θ.

    Parameters
    ----------
    target, draft : array, shape (..., T, V)
        Probability rows of T tokens. U is undefined where target = draft: such a token is refused.
    tolerance : array, shape (...) or broadcastable to it
        θ, 0 or more.
    sharp : bool
        Whether U is the published 2 Δ_k / TV(q, p) or half of that, which is a bound as well.

    Returns
    -------
    int64 array, shape (...)
        k* of cu-hlm (21), in 0..V-1.

    Raises
    ------
    ValueError
        If a row is no distribution, there is no token, target = draft for one, or θ is negative or not finite.

    Examples
    --------
    >>> target, draft = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [[0.625, 0.25, 0.125], [0.5, 0.375, 0.125]]
    >>> int(offline_size(target, draft, 0.8)), int(offline_size(target, draft, 0.8, sharp=True))
    (2, 1)
    """
    xp, target, draft, theta = arrays(target=target, draft=draft, tolerance=tolerance)
    _, _, p, q = distributions(target=target, draft=draft)
    shape = leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]))
    if len(shape) == 0 or shape[-1] == 0:
        raise DomainError(f"draft must have an axis of tokens; got shape {tuple(q.shape)}; give rows of T ≥ 1 tokens")
    theta = in_kind(xp, TOLERANCE.check(xp, "tolerance", theta), xp.float64)
    batch = leading_dimensions(draft=shape[:-1], tolerance=tuple(theta.shape))
    apart = xp.broadcast_to(distance(xp, p, q), (*batch, shape[-1]))
    _refuse_equal(xp, apart)
    return _least_offline(xp, q, apart, theta, sharp)


def _least_offline(xp: Any, q: Array, apart: Array, theta: Array, sharp: bool) -> Array:
    """The least k with mean_t U(k, t) ≤ θ, TV(q, p) being ``apart`` (..., T)."""
    batch, tokens = tuple(apart.shape[:-1]), apart.shape[-1]
    tails = Tails.of(xp, xp.reshape(xp.broadcast_to(q, (*batch, tokens, q.shape[-1])), (-1, q.shape[-1])))
    apart = xp.reshape(apart, (-1, tokens, 1))
    theta = xp.reshape(xp.broadcast_to(theta, batch), (-1, 1))

    def meets(sizes: Array) -> Array:
        shape = (*apart.shape[:2], sizes.shape[-1])
        each = xp.reshape(xp.broadcast_to(sizes[:, None, :], shape), (shape[0] * shape[1], shape[2]))
        deviation = xp.reshape(tails.deviation(each), shape)
        return xp.mean((1.0 if sharp else 2.0) * deviation / apart, axis=1) <= theta  # (21)

    rough = tails.rough()
    rough = xp.reshape(rough, (*apart.shape[:2], rough.shape[-1]))
    near = tails.near(xp.mean((1.0 if sharp else 2.0) * rough / apart, axis=1) <= theta)
    return xp.reshape(least_size(xp, meets, near, q.shape[-1] - 1), batch)


def online_size(draft: Array, draft_token: Array, rejection: Array, tolerance: Array, *, sharpness: Array) -> Array:
    """Least k with Ū(k) ≤ θ, on the device: no bound on the distortion (``truncation.online_gap``).

    Parameters
    ----------
    draft : array, shape (..., V)
        Probability rows.
    draft_token : integer array, shape (...)
        d, the token drawn from the row.
    rejection : array, shape (...)
        β_d in [0, 1]; in the paper the estimate a·u + b.
    tolerance : array, shape (...)
        θ, 0 or more.
    sharpness : array, shape (...)
        η of the softplus, at least 1e-6; the paper does not print its value.

    Returns
    -------
    int64 array, shape (...)
        k(t)* of cu-hlm (24), in 0..V-1. Rises with β_d, though the distortion falls.

    Raises
    ------
    ValueError
        If a row is no distribution, d no token of it, β_d outside [0, 1], θ negative or η below 1e-6.

    Examples
    --------
    >>> online_size([0.5, 0.2, 0.15, 0.1, 0.05], 0, [0.1, 0.5, 0.9], 0.5, sharpness=2.0).tolist()
    [3, 3, 4]
    """
    xp, theta = arrays(draft=draft, tolerance=tolerance)[::2]
    theta = in_kind(xp, TOLERANCE.check(xp, "tolerance", theta), xp.float64)
    q, denominator = online_denominator(draft, draft_token, rejection, sharpness)
    return least_by_deviation(xp, q, 0.5 * theta * denominator)


def certified_size(draft: Array, tolerance: Array, *, bits_per_probability: int | None = None) -> Array:
    """Least k with 2 Δ_k ≤ ε: the emitted token's Bias is at most ε, whatever the large model says.

    Parameters
    ----------
    draft : array, shape (..., V)
        Probability rows.
    tolerance : array, shape (...) or broadcastable to it
        ε, 0 or more: the largest Σ_v |law_v - p_v|, twice a total variation.
    bits_per_probability : int, optional
        b_prob: Δ_k is then that of the message as the server decodes it, rounding included
        (:func:`message_deviation`), which can rise with k. The bound is for values that are rounded down and a q_d
        that goes unrounded, as :func:`hlmtheory.truncated_message` sends them. Unrounded if None.

    Returns
    -------
    int64 array, shape (...)
        In 0..V-1, or 0..V with rounding.

    Raises
    ------
    ValueError
        If a row is no distribution, ε is negative or not finite, or with so few bits no k meets it.

    Examples
    --------
    >>> int(certified_size([0.5, 0.25, 0.125, 0.125], 0.1))
    2
    """
    xp, draft, epsilon = arrays(draft=draft, tolerance=tolerance)
    epsilon = in_kind(xp, TOLERANCE.check(xp, "tolerance", epsilon), xp.float64)
    q = distributions(draft=draft)[2]
    if bits_per_probability is None:
        return least_by_deviation(xp, q, 0.5 * epsilon)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), tolerance=tuple(epsilon.shape))
    rows = xp.reshape(xp.broadcast_to(q, (*batch, q.shape[-1])), (-1, q.shape[-1]))
    each = xp.reshape(xp.broadcast_to(epsilon, batch), (-1,))
    return xp.reshape(least_message_size(xp, rows, each, bits_per_probability), batch)


def bias_size(draft: Array, rejection: Array, tolerance: Array) -> Array:
    """Least k with 2 min(T, Δ_k) ≤ ε: how the size rightly follows the uncertainty.

    Parameters
    ----------
    draft : array, shape (..., V)
        Probability rows.
    rejection : array, shape (...)
        An upper bound on T = TV(q, p) = Σ_v q_v β_v, the chance that the draft from this row is rejected.
    tolerance : array, shape (...)
        ε, 0 or more, on the Bias of the emitted token.

    Returns
    -------
    int64 array, shape (...)
        0 where 2 T ≤ ε, else :func:`certified_size`: no rule that knows only q and an upper bound on T can send
        fewer, since for each k some target within it has a Bias of 2 min(T, Δ_k).

    Raises
    ------
    ValueError
        If a row is no distribution, T is outside [0, 1], or ε is negative or not finite.

    Examples
    --------
    >>> bias_size([0.5, 0.25, 0.125, 0.125], [0.04, 0.2, 0.9], 0.1).tolist()
    [0, 2, 2]
    """
    xp, draft, rejection, epsilon = arrays(draft=draft, rejection=rejection, tolerance=tolerance)
    epsilon = in_kind(xp, TOLERANCE.check(xp, "tolerance", epsilon), xp.float64)
    rejected = in_kind(xp, UNIT_INTERVAL.check(xp, "rejection", rejection), xp.float64)
    size = certified_size(draft, epsilon)
    return xp.where(2.0 * rejected <= epsilon, 0, size)


def online_certified_size(
    draft: Array, draft_token: Array, rejection: Array, tolerance: Array, *, estimated: bool
) -> CertifiedSize:
    """Least k with Δ_k / (q_d b) ≤ θ: guarantees TV(r, r̂) ≤ θ if b is a lower bound on β_d.

    Parameters
    ----------
    draft : array, shape (..., V)
        Probability rows.
    draft_token : integer array, shape (...)
        d, the token drawn from the row.
    rejection : array, shape (...)
        b in [0, 1].
    tolerance : array, shape (...)
        θ, 0 or more. From 1 on nothing need be sent.
    estimated : bool
        True if b is an estimate, as a·u + b of a regression is; False if b ≤ β_d is known.

    Returns
    -------
    CertifiedSize
        Falls with b. Where q_d b = 0 nothing is known of TV(q, p), and k is such that Δ_k = 0.

    Raises
    ------
    ValueError
        If a row is no distribution, d no token of it, b outside [0, 1], or θ negative or not finite.

    Examples
    --------
    >>> found = online_certified_size([0.5, 0.25, 0.125, 0.125], 0, [0.1, 0.9], 0.5, estimated=True)
    >>> found.k.tolist(), found.certified
    ([2, 1], False)
    """
    xp, draft, token, b, theta = arrays(draft=draft, draft_token=draft_token, rejection=rejection, tolerance=tolerance)
    theta = in_kind(xp, TOLERANCE.check(xp, "tolerance", theta), xp.float64)
    b = in_kind(xp, UNIT_INTERVAL.check(xp, "rejection", b), xp.float64)
    _, kind, q = distributions(draft=draft)
    lost = draft_probability(xp, q, token) * b
    tails, least = least_in_tails(xp, q, theta * lost)
    k = xp.where(theta >= 1, 0, least)
    deviation = xp.reshape(tails.deviation(xp.reshape(k, (-1, 1))), tuple(k.shape))
    bound = xp.clip(quotient(xp, deviation, lost), max=1.0)  # no distance exceeds 1
    return CertifiedSize(k, upward(xp, bound, kind), not estimated)


def least_by_deviation(xp: Any, q: Array, limit: Array) -> Array:
    """The least k with Δ_k ≤ limit, of the broadcast shape."""
    return least_in_tails(xp, q, limit)[1]


def least_in_tails(xp: Any, q: Array, limit: Array) -> tuple[Tails, Array]:
    """The same, and the sorted rows."""
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), limit=tuple(limit.shape))
    tails = sorted_batch(xp, q, batch)
    limit = xp.reshape(xp.broadcast_to(limit, batch), (-1, 1))
    near = tails.near(tails.rough() <= limit)
    least = least_size(xp, lambda sizes: tails.deviation(sizes) <= limit, near, q.shape[-1] - 1)
    return tails, xp.reshape(least, batch)


def _refuse_equal(xp: Any, apart: Array) -> None:
    """U(k) is 2 Δ_k / 0 where the rows agree."""
    if not bool(xp.all(apart > 0)):
        index = int(xp.argmin(xp.reshape(apart, (-1,))))
        raise DomainError(
            f"draft must differ from target, or the bound is undefined; they agree at token {index} of the batch; "
            "leave such tokens out: nothing is rejected there"
        )


# --------------------------------------------------------------------------------------------- claims
#
# exact, exact_least. The search stops at the first k that meets (19), or at one that must, by truncation.tvd_sharp.
#   That no k which it leaps over meets (19) is proven in ranked.py.
# offline. TV(r, r̂) ≤ Δ_k/TV(q, p) ≤ U/2 for each token, so the mean is at most half of mean U ≤ θ.
# offline_least, size_least. Both bounds fall with k (truncation.monotone), so a search by halves finds the least.
# size_certified is truncation.certificate at the size chosen by it.
# online is false: Ū need not bound the distortion (truncation.online_gap), so the k of (24) need not keep it below θ.

TARGETED = 0.1
"""θ of cu-hlm V-B, and the bias aimed at."""


def _exact_distortion(target: Array, draft: Array, tolerance: Array) -> Array:
    return resampling_distortion(target, draft, exact_size(target, draft, tolerance))


def _theta(tolerance: Array) -> Array:
    xp, theta = arrays(tolerance=tolerance)
    return TOLERANCE.check(xp, "tolerance", theta)


def _least_below(target: Array, draft: Array, tolerance: Array) -> Array:
    """min_{k < k*} TV(r, r̂_k), by every k on its own; infinite where k* = 0."""
    xp, p, q = arrays(target=target, draft=draft)
    k = exact_size(p, q, tolerance)
    sizes = xp.arange(q.shape[-1] + 1, device=q.device)
    every = resampling_distortion(p[..., None, :], q[..., None, :], sizes)
    exists = total_variation(p[..., None, :], truncate(q[..., None, :], sizes)) > NOISE
    return xp.min(xp.where((sizes < k[..., None]) & exists, every, xp.inf), axis=-1)


def _sends_something(target: Array, draft: Array, tolerance: Array) -> Array:
    return exact_size(target, draft, tolerance) > 0


def _many(targets: Array, drafts: Array) -> tuple[Any, Array, Array]:
    """The rows of many tokens, refused by the names that they have in an instance."""
    xp, _, p, q = distributions(targets=targets, drafts=drafts)
    return xp, p, q


def _offline_k(targets: Array, drafts: Array, tolerance: Array) -> Array:
    """The k of (21); where target = draft, which is out of scope, as if they were 1 apart."""
    xp, p, q = _many(targets, drafts)
    apart = distance(xp, p, q)
    return _least_offline(xp, q, xp.where(apart > 0, apart, 1.0), _theta(tolerance), sharp=False)


def _all_differ(targets: Array, drafts: Array) -> Array:
    xp, p, q = _many(targets, drafts)
    return xp.all(distance(xp, p, q) > 0, axis=-1)


def _largest_inverse(targets: Array, drafts: Array) -> Array:
    """max_t 1/TV(q, p): the mean has the least certain of its terms."""
    xp, p, q = _many(targets, drafts)
    apart = distance(xp, p, q)
    return xp.max(quotient(xp, xp.ones_like(apart), apart), axis=-1)


def _offline_distortion(targets: Array, drafts: Array, tolerance: Array) -> Array:
    """mean_t TV(r_t, r̂_t) at the k of (21)."""
    xp, p, q = _many(targets, drafts)
    k = _offline_k(p, q, tolerance)
    return xp.mean(resampling_distortion(p, q, k[..., None]), axis=-1)


def _offline_before(targets: Array, drafts: Array, tolerance: Array) -> Array:
    """mean_t U(k* - 1, t); at k* = 0 that of 0, out of scope."""
    xp, p, q = _many(targets, drafts)
    k = _offline_k(p, q, tolerance)
    return xp.mean(tvd_bound(p, q, xp.where(k > 0, k - 1, 0)[..., None]), axis=-1)


def _offline_sends(targets: Array, drafts: Array, tolerance: Array) -> Array:
    return _offline_k(targets, drafts, tolerance) > 0


def _online_distortion(target: Array, draft: Array, token: Array, sharpness: Array) -> Array:
    """TV(r, r̂) at the k of (24) for θ = 0.1, with the true β_d."""
    xp, p, q, token = arrays(target=target, draft=draft, token=token)
    token = token_of(q.shape[-1]).check(xp, "token", token)
    k = online_size(q, token, rejection_at(p, q, token), TARGETED, sharpness=sharpness)
    return resampling_distortion(p, q, k)


def _certified_bias(target: Array, draft: Array) -> Array:
    return resampling_bias(target, draft, certified_size(draft, TARGETED))


def _certificate_before(draft: Array) -> Array:
    """2 Δ at one less than the certified size, as the distance it is."""
    xp, q = arrays(draft=draft)
    k = certified_size(q, TARGETED)
    return 2.0 * total_variation(q, truncate(q, xp.where(k > 0, k - 1, 0)))


def _certified_sends(draft: Array) -> Array:
    return certified_size(draft, TARGETED) > 0


def _aimed(draft: Array) -> Array:
    """θ or ε = 0.1 for each row."""
    xp, q = arrays(draft=draft)
    return xp.zeros_like(q[..., 0]) + TARGETED


def _inverse_distance(target: Array, draft: Array) -> Array:
    xp, apart = arrays(distance=total_variation(target, draft))
    return quotient(xp, xp.ones_like(apart), apart)


_TIGHT = {"target": [0.5, 0.25, 0.25], "draft": [0.625, 0.25, 0.125]}
_FLAT = {
    "target": [0.5, 0.20875, 0.10375, 0.09375, 0.09375],
    "draft": [0.625, 0.10375, 0.10375, 0.08375, 0.08375],
    "token": 0,
    "sharpness": 1.0,
}
_DIFFER = Assumption("target ≠ draft for every token", _all_differ)
_OFFLINE = Source("oh2025cuhlm", "(21)")
_EXACT = Source("oh2025cuhlm", "(19)")

CLAIMS = (
    Claim(
        id="truncation.exact",
        source=_EXACT,
        origin=Origin.PUBLISHED,
        statement="TV(r, r̂_k) ≤ θ at the k* of (19)",
        relation=Relation.LE,
        lhs=_exact_distortion,
        rhs=_theta,
        attained=Attained({**_TIGHT, "tolerance": 0.5}),
        condition=_inverse_distance,
    ),
    Claim(
        id="truncation.exact_least",
        source=_EXACT,
        origin=Origin.PUBLISHED,
        statement="θ ≤ TV(r, r̂_k) for every k < k*: no fewer entries will do",
        relation=Relation.LE,
        lhs=_theta,
        rhs=_least_below,
        assumptions=(Assumption("k* of (19) > 0", _sends_something),),
        attained=Attained({**_TIGHT, "tolerance": 0.4999}, ratio=0.9998),
        condition=_inverse_distance,
    ),
    Claim(
        id="truncation.offline",
        source=_OFFLINE,
        origin=Origin.PUBLISHED,
        statement="mean_t TV(r, r̂_k) ≤ θ at the k* of (21): by half, always",
        relation=Relation.LE,
        lhs=_offline_distortion,
        rhs=_theta,
        assumptions=(_DIFFER,),
        attained=Attained({"targets": [_TIGHT["target"]], "drafts": [_TIGHT["draft"]], "tolerance": 1.0}, ratio=0.5),
        condition=_largest_inverse,
    ),
    Claim(
        id="truncation.offline_least",
        source=_OFFLINE,
        origin=Origin.PUBLISHED,
        statement="θ ≤ mean_t U(k* − 1, t): no fewer entries meet (21)",
        relation=Relation.LE,
        lhs=_theta,
        rhs=_offline_before,
        assumptions=(_DIFFER, Assumption("k* of (21) > 0", _offline_sends)),
        attained=Attained(
            {"targets": [_TIGHT["target"]], "drafts": [_TIGHT["draft"]], "tolerance": 0.999}, ratio=0.999
        ),
        condition=_largest_inverse,
    ),
    Claim(
        id="truncation.online",
        source=Source("oh2025cuhlm", "Remark 3, (24)"),
        origin=Origin.PUBLISHED,
        statement="TV(r, r̂) ≤ θ at the k* of (24), with the true β_d, any η and θ = 0.1",
        relation=Relation.LE,
        lhs=_online_distortion,
        rhs=_aimed,
        refuted=_FLAT,
        condition=_inverse_distance,
    ),
    Claim(
        id="truncation.size_certified",
        source=Source("oh2025cuhlm", "(24)"),
        origin=Origin.CORRECTED,
        statement="Bias ≤ ε at the least k with 2 Δ_k ≤ ε (checked for ε = 0.1)",
        relation=Relation.LE,
        lhs=_certified_bias,
        rhs=_aimed,
        attained=Attained({"target": [0.4502, 0.2998, 0.25], "draft": [0.5, 0.2998, 0.2002]}, ratio=0.996),
        ceiling=2.0,
    ),
    Claim(
        id="truncation.size_least",
        source=Source("oh2025cuhlm", "(24)"),
        origin=Origin.NEW,
        statement="ε ≤ 2 Δ at one entry less: no smaller k is certified by Δ (checked for ε = 0.1)",
        relation=Relation.LE,
        lhs=_aimed,
        rhs=_certificate_before,
        assumptions=(Assumption("the certified size is not 0", _certified_sends),),
        attained=Attained({"draft": [0.5, 0.3002, 0.1998]}, ratio=0.1 / 0.1004),
    ),
)
