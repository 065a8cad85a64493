"""Format numbers of the skipping figures."""

from __future__ import annotations

import numpy as np

UNDEFINED = "undefined"


def shown(number: float | None, form: str = ".4f") -> str:
    """Format a number with a true minus sign.

    >>> shown(-0.0661), shown(float("nan"))
    ('−0.0661', 'undefined')
    """
    return UNDEFINED if number is None or np.isnan(number) else format(number, form).replace("-", "−")


def with_interval(number: float | None, ends: tuple[float, float] | None, form: str = ".4f") -> str:
    """Format a number with its interval, if it has one.

    >>> with_interval(0.5, (0.25, 0.75), ".2f"), with_interval(0.5, None, ".2f")
    ('0.50 [0.25, 0.75]', '0.50')
    """
    if ends is None or np.isnan(ends).any():
        return shown(number, form)
    return f"{shown(number, form)} [{shown(ends[0], form)}, {shown(ends[1], form)}]"
