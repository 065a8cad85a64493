"""What a token costs that is kept without the server, where device and server draw from one stream."""

from __future__ import annotations

from hlmtheory._array import Array, in_kind, take
from hlmtheory._simplex import distributions, skip_probabilities
from hlmtheory.shared_seed.match import sorted_matches


def skip_mismatch(target: Array, draft: Array, skip: Array) -> Array:
    """Return P(the device keeps a token that is not the server's), a bound on TV(law, p): Σ_v s_v (q_v - t_v).

    t_v = P(a = b = v) ≤ min(p_v, q_v), so this is at least Σ_v s_v (q_v - p_v)⁺, the charge with rejection sampling,
    which is no bound here: behind a token that is not kept comes the server's, not the residual.
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    p, q, s = xp.broadcast_arrays(p, q, skip_probabilities(xp, skip, q))
    matched, _, order = sorted_matches(xp, p, q)
    unmatched = xp.clip(take(xp, q, order) - matched, min=0.0)
    lost = xp.sum(take(xp, s, order) * unmatched, axis=-1)
    return in_kind(xp, xp.clip(lost, max=1.0), kind)
