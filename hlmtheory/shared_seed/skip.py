"""What a token costs that is kept without the server, where device and server draw from one stream."""

from __future__ import annotations

from hlmtheory._array import Array, in_kind, take
from hlmtheory._simplex import distributions, skip_probabilities
from hlmtheory.shared_seed.match import sorted_matches


def skip_mismatch(target: Array, draft: Array, skip: Array) -> Array:
    """Return the probability that the device keeps a token which is not the server's: Σ_v s_v (q_v - t_v).

    Here t_v = P(a = b = v). The device keeps its token v with probability s_v, and emits the server's token otherwise.
    The emitted token differs from the server's, a draw from p, only if the device keeps a token a ≠ b. So this bounds
    the total variation of the emitted token's law from p, and its mean sum along a text that of the text. It is at
    least Σ_v s_v (q_v - p_v)⁺, the charge of a skip with rejection sampling
    (:func:`hlmtheory.skipping.one_step_risk`), because t_v ≤ min(q_v, p_v). That charge is no bound here: behind a
    token that is not kept comes the server's, given that the device's was not kept, and not the residual.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Distributions p and q.
    skip : array, shape (..., V) or broadcastable to it
        s_v in [0, 1], or a boolean.

    Returns
    -------
    array, shape (...)
        In [0, 1].

    Raises
    ------
    ValueError
        If a row is not a distribution, a skip probability is outside [0, 1], or the shapes do not match.

    Examples
    --------
    >>> round(float(skip_mismatch([0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0])), 12)
    0.166666666667
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    p, q, s = xp.broadcast_arrays(p, q, skip_probabilities(xp, skip, q))
    matched, _, order = sorted_matches(xp, p, q)
    unmatched = xp.clip(take(xp, q, order) - matched, min=0.0)
    lost = xp.sum(take(xp, s, order) * unmatched, axis=-1)
    return in_kind(xp, xp.clip(lost, max=1.0), kind)
