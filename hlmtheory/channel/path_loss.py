"""Path loss: the power gain over a distance."""

from __future__ import annotations

from hlmtheory._array import Array
from hlmtheory._domains import finite_answer
from hlmtheory._quantities import checked
from hlmtheory.channel.quantities import DOMAINS

# ------------------------------------------------------------------------------------------- path loss


@finite_answer
def log_distance_gain(distance_m: Array, *, reference_gain: Array, exponent: Array, reference_m: Array = 1.0) -> Array:
    """Return the power gain g₀ (d/d₀)^-α.

    Parameters
    ----------
    distance_m : array, shape (...)
        d, in metres.
    reference_gain : array, shape (...)
        g₀, the gain at d₀, as a ratio: -30 dB in edge-sd Section IV.
    exponent : array, shape (...)
        α; 2 in edge-sd Section IV.
    reference_m : array, shape (...)
        d₀, in metres.

    Returns
    -------
    array, shape (...)
        A ratio.

    Raises
    ------
    ValueError
        If a value is not finite or not positive, or the exponent is negative.

    Examples
    --------
    >>> round(float(log_distance_gain(100.0, reference_gain=1e-3, exponent=2.0)), 12)
    1e-07
    """
    _, distance, gain, alpha, reference = checked(
        DOMAINS, distance_m=distance_m, reference_gain=reference_gain, exponent=exponent, reference_m=reference_m
    )
    return gain * (distance / reference) ** -alpha
