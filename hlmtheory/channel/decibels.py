"""Conversions between ratios and dB, and between watts and dBm."""

from __future__ import annotations

from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import Domain, finite_answer

_LEVEL = Domain("finite", lambda xp, value: xp.isfinite(value), "a power of 0 has no level in dB")


@finite_answer
def db_to_linear(db: Array) -> Array:
    """Return the ratio of powers for decibels: 10^(dB/10).

    Parameters
    ----------
    db : array, shape (...)
        Finite, in dB.

    Returns
    -------
    array, shape (...)

    Raises
    ------
    ValueError
        If a value is not finite.

    Examples
    --------
    >>> float(db_to_linear(-20.0))
    0.01
    """
    xp, level = arrays(db=db)
    (level,) = floating(xp, _LEVEL.check(xp, "db", level))
    return 10.0 ** (level / 10.0)


@finite_answer
def dbm_to_watts(dbm: Array) -> Array:
    """Return watts for dBm, decibels relative to a milliwatt."""
    xp, level = arrays(dbm=dbm)
    (level,) = floating(xp, _LEVEL.check(xp, "dbm", level))
    return 10.0 ** ((level - 30.0) / 10.0)
