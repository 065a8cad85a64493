"""Costs of a round in seconds and joules, and the download time of a new draft model.

Paper: flexspec (li2025flexspec) (7)-(10), Table I and Fig. 6. Part of the module ``draft_length``.
"""

from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import broadcast, finite_answer
from hlmtheory._quantities import not_negative, positive

_AMOUNT = not_negative("give a time in seconds, a size in bits, a power in watts or an energy in joules")
_RATE = positive("give the rate of the link in bit/s; on a dead link no round ends")
_SIZE = positive("give the size in bytes")


@finite_answer
def round_costs(
    rate_bps: Array,
    *,
    bits_per_token: Array,
    header_bits: Array = 0.0,
    propagation_s: Array = 0.0,
    cloud_base_s: Array = 0.0,
    cloud_slope_s: Array = 0.0,
    edge_start_s: Array = 0.0,
    edge_slope_s: Array = 0.0,
    downlink_s: Array = 0.0,
) -> tuple[Array, Array]:
    """Return the fixed and the marginal time (T_fixed, T_marginal) of a round over a link.

    Parameters
    ----------
    rate_bps : array, shape (...)
        R, uplink rate in bit/s.
    bits_per_token, header_bits : array
        b and O_header, in bit.
    propagation_s, downlink_s : array
        T_prop and T_down, of the uplink and the reply with its transmission, in seconds.
    cloud_base_s, cloud_slope_s : array
        T_base and δ_cloud of the verification, in seconds and seconds a token.
    edge_start_s, edge_slope_s : array
        β and α_edge of the drafting, in seconds and seconds a token.

    Returns
    -------
    fixed, marginal : array, shape (...)
        flexspec (10): F = T_prop + T_base + T_down + O/R + β in seconds, M = α_edge + b/R + δ_cloud a token.

    Raises
    ------
    ValueError
        If the rate is not positive and finite, or another value is negative or infinite.

    Examples
    --------
    >>> fixed, marginal = round_costs(1e4, bits_per_token=16, header_bits=320, propagation_s=0.03, edge_slope_s=0.0084)
    >>> float(fixed), float(marginal)
    (0.062, 0.01)
    """
    parts = {
        "bits_per_token": bits_per_token,
        "header_bits": header_bits,
        "propagation_s": propagation_s,
        "cloud_base_s": cloud_base_s,
        "cloud_slope_s": cloud_slope_s,
        "edge_start_s": edge_start_s,
        "edge_slope_s": edge_slope_s,
        "downlink_s": downlink_s,
    }
    xp, rate, *others = arrays(rate_bps=rate_bps, **parts)
    _RATE.check(xp, "rate_bps", rate)
    named = dict(zip(parts, others, strict=True))
    for name, value in named.items():
        _AMOUNT.check(xp, name, value)
    broadcast(rate_bps=rate.shape, **{name: value.shape for name, value in named.items()})
    rate, token, header, propagation, base, cloud, start, edge, down = floating(xp, rate, *others)
    return propagation + base + down + header / rate + start, edge + token / rate + cloud  # (10)


@finite_answer
def synchronisation_time(size_bytes: Array, rate_bps: Array) -> Array:
    """Return the seconds to download a draft model of that size: flexspec's update storm (Table I)."""
    xp, size, rate = arrays(size_bytes=size_bytes, rate_bps=rate_bps)
    size, rate = floating(xp, _SIZE.check(xp, "size_bytes", size), _RATE.check(xp, "rate_bps", rate))
    broadcast(size_bytes=size.shape, rate_bps=rate.shape)
    return 8.0 * size / rate


# --------------------------------------------------------------------------------------------- claims

_TABLE_I = ((10e6, 48.0, 1.0), (50e6, 9.5, 0.1), (300e6, 1.6, 0.1))
"""flexspec Table I: rate in bit/s, printed minutes, unit of the last digit."""


def misfit(size_bytes: Array) -> Array:
    """Largest distance from a printed time of Table I; 1 is half a unit of its last digit."""
    xp, size = arrays(size_bytes=size_bytes)
    rows = [
        xp.abs(synchronisation_time(size, rate) / 60.0 - minutes) / (unit / 2.0) for rate, minutes, unit in _TABLE_I
    ]
    return xp.max(xp.stack(rows), axis=0)


def size_one(size_bytes: Array) -> Array:
    """Return the largest :func:`misfit` at which all printed times fit, 1, in the shape of the sizes."""
    return 0.0 * size_bytes + 1.0


PAPER = "li2025flexspec"
