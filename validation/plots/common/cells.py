"""Format numbers with their intervals as cells of a table."""

from __future__ import annotations

import math
from typing import Any

NONE = "–"


def told(number: float | None, form: str = ".4f") -> str:
    """Format a number with a true minus sign; None and NaN become a dash.

    >>> told(-0.0661), told(float("nan"))
    ('−0.0661', '–')
    """
    return NONE if number is None or math.isnan(number) else format(number, form).replace("-", "−")


def cell(found: Any, form: str = ".4f") -> str:
    """Format an estimate, whose ``value``, ``low`` and ``high`` are attributes or keys; None becomes a dash.

    >>> cell({"value": 0.5, "low": 0.25, "high": 0.75}, ".2f"), cell({"value": 0.5, "low": None, "high": None}, ".2f")
    ('0.50 [0.25, 0.75]', '0.50')
    """
    if found is None:
        return NONE
    value, low, high = (found[key] if isinstance(found, dict) else getattr(found, key) for key in ENDS)
    ends = [told(low, form), told(high, form)]
    return told(value, form) if NONE in ends else f"{told(value, form)} [{', '.join(ends)}]"


ENDS = ("value", "low", "high")
