"""Claims on how many entries to send, with their proofs; :mod:`hlmtheory.truncation.sizes` has the functions."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import token_of
from hlmtheory._simplex import distance, distributions, quotient
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Source
from hlmtheory.truncation._claim_sides import inverse_distance
from hlmtheory.truncation.reconstruction import NOISE, resampling_bias, resampling_distortion, truncate, tvd_bound
from hlmtheory.truncation.sizes import TOLERANCE, certified_size, exact_size, least_offline, online_size
from hlmtheory.truncation.softplus import rejection_at
from hlmtheory.verification import total_variation

# exact, exact_least. The scan stops at the first k that meets (19), or at one that must, by truncation.tvd_sharp.
#   ``_search/pairs.py`` proves that no skipped k meets (19).
# offline. TV(r, r̂) ≤ Δ_k/TV(q, p) ≤ U/2 for each token, so the mean distortion is at most half of mean U ≤ θ.
# offline_least. Both bounds fall with k (truncation.monotone), so bisection finds the smallest k.
# size_certified. It is truncation.certificate at the chosen k.

TARGETED = 0.1
"""Value of θ in cu-hlm V-B, also used for ε in the claims."""


def _exact_distortion(target: Array, draft: Array, distortion_tolerance: Array) -> Array:
    return resampling_distortion(target, draft, exact_size(target, draft, distortion_tolerance))


def _theta(distortion_tolerance: Array) -> Array:
    xp, theta = arrays(distortion_tolerance=distortion_tolerance)
    return TOLERANCE.check(xp, "distortion_tolerance", theta)


def _least_below(target: Array, draft: Array, distortion_tolerance: Array) -> Array:
    """Return min_{k < k*} TV(r, r̂_k), computing every k separately; infinite where k* = 0."""
    xp, p, q = arrays(target=target, draft=draft)
    k = exact_size(p, q, distortion_tolerance)
    sizes = xp.arange(q.shape[-1] + 1, device=q.device)
    every = resampling_distortion(p[..., None, :], q[..., None, :], sizes)
    exists = total_variation(p[..., None, :], truncate(q[..., None, :], sizes)) > NOISE
    return xp.min(xp.where((sizes < k[..., None]) & exists, every, xp.inf), axis=-1)


def _sends_something(target: Array, draft: Array, distortion_tolerance: Array) -> Array:
    return exact_size(target, draft, distortion_tolerance) > 0


def _many(targets: Array, drafts: Array) -> tuple[Any, Array, Array]:
    """Return the checked rows of several tokens; errors use the names of the instance."""
    xp, _, p, q = distributions(targets=targets, drafts=drafts)
    return xp, p, q


def _offline_k(targets: Array, drafts: Array, distortion_tolerance: Array) -> Array:
    """Return the k of (21); where target = draft, which is out of scope, TV(q, p) is replaced by 1."""
    xp, p, q = _many(targets, drafts)
    apart = distance(xp, p, q)
    return least_offline(xp, q, xp.where(apart > 0, apart, 1.0), _theta(distortion_tolerance), sharp=False)


def _all_differ(targets: Array, drafts: Array) -> Array:
    xp, p, q = _many(targets, drafts)
    return xp.all(distance(xp, p, q) > 0, axis=-1)


def _largest_inverse(targets: Array, drafts: Array) -> Array:
    """Return max_t 1/TV(q, p), because the least certain term determines the error of the mean."""
    xp, p, q = _many(targets, drafts)
    apart = distance(xp, p, q)
    return xp.max(quotient(xp, xp.ones_like(apart), apart), axis=-1)


def _offline_distortion(targets: Array, drafts: Array, distortion_tolerance: Array) -> Array:
    """Return mean_t TV(r_t, r̂_t) at the k of (21)."""
    xp, p, q = _many(targets, drafts)
    k = _offline_k(p, q, distortion_tolerance)
    return xp.mean(resampling_distortion(p, q, k[..., None]), axis=-1)


def _offline_before(targets: Array, drafts: Array, distortion_tolerance: Array) -> Array:
    """Return mean_t U(k* - 1, t); k* = 0 is out of scope."""
    xp, p, q = _many(targets, drafts)
    k = _offline_k(p, q, distortion_tolerance)
    return xp.mean(tvd_bound(p, q, xp.where(k > 0, k - 1, 0)[..., None]), axis=-1)


def _offline_sends(targets: Array, drafts: Array, distortion_tolerance: Array) -> Array:
    return _offline_k(targets, drafts, distortion_tolerance) > 0


def _online_distortion(target: Array, draft: Array, token: Array, sharpness: Array) -> Array:
    """Return TV(r, r̂) at the k of (24) for θ = 0.1, with the true β_d."""
    xp, p, q, token = arrays(target=target, draft=draft, token=token)
    token = token_of(q.shape[-1]).check(xp, "token", token)
    k = online_size(q, token, rejection_at(p, q, token), TARGETED, sharpness=sharpness)
    return resampling_distortion(p, q, k)


def _certified_bias(target: Array, draft: Array) -> Array:
    return resampling_bias(target, draft, certified_size(draft, TARGETED))


def _aimed(draft: Array) -> Array:
    """Return θ or ε = 0.1 for each row."""
    xp, q = arrays(draft=draft)
    return xp.zeros_like(q[..., 0]) + TARGETED


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
        lhs=_exact_distortion,
        rhs=_theta,
        attained=Attained({**_TIGHT, "distortion_tolerance": 0.5}),
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.exact_least",
        source=_EXACT,
        origin=Origin.PUBLISHED,
        statement="θ ≤ TV(r, r̂_k) for every k < k*: no fewer entries will do",
        lhs=_theta,
        rhs=_least_below,
        assumptions=(Assumption("k* of (19) > 0", _sends_something),),
        attained=Attained({**_TIGHT, "distortion_tolerance": 0.4999}, ratio=0.9998),
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.offline",
        source=_OFFLINE,
        origin=Origin.PUBLISHED,
        statement="mean_t TV(r, r̂_k) ≤ θ at the k* of (21): by half, always",
        lhs=_offline_distortion,
        rhs=_theta,
        assumptions=(_DIFFER,),
        attained=Attained(
            {"targets": [_TIGHT["target"]], "drafts": [_TIGHT["draft"]], "distortion_tolerance": 1.0}, ratio=0.5
        ),
        condition=_largest_inverse,
    ),
    Claim(
        id="truncation.offline_least",
        source=_OFFLINE,
        origin=Origin.PUBLISHED,
        statement="θ ≤ mean_t U(k* − 1, t): no fewer entries meet (21)",
        lhs=_theta,
        rhs=_offline_before,
        assumptions=(_DIFFER, Assumption("k* of (21) > 0", _offline_sends)),
        attained=Attained(
            {"targets": [_TIGHT["target"]], "drafts": [_TIGHT["draft"]], "distortion_tolerance": 0.999}, ratio=0.999
        ),
        condition=_largest_inverse,
    ),
    Claim(
        id="truncation.online",
        source=Source("oh2025cuhlm", "Remark 3, (24), with the distortion for the estimated distortion"),
        origin=Origin.IMPLIED,
        statement=(
            "TV(r, r̂) ≤ θ at the k* of (24), with the true β_d, any η and θ = 0.1; the paper says that the "
            "estimated distortion is"
        ),
        lhs=_online_distortion,
        rhs=_aimed,
        refuted=_FLAT,
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.size_certified",
        source=Source("oh2025cuhlm", "(24)"),
        origin=Origin.CORRECTED,
        statement="Bias ≤ ε at the smallest k with 2 Δ_k ≤ ε (checked for ε = 0.1)",
        lhs=_certified_bias,
        rhs=_aimed,
        attained=Attained({"target": [0.4502, 0.2998, 0.25], "draft": [0.5, 0.2998, 0.2002]}, ratio=0.996),
        ceiling=2.0,
    ),
)
