"""Shared parts of the truncation figures: the paper's numbers, undefined values, bits, and line styles."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hlmtheory.channel import vocabulary_payload_bits
from validation.plots.common import style
from validation.plots.common.printed import CU, value
from validation.plots.common.record import plain
from validation.plots.common.style import AMBER, DARK, MIDDLE, Axes

BITS = 8  # b_prob of cu-hlm V-A
FULL = 32_000  # |V| of cu-hlm V-A
OFFLINE = value(CU, "k_offline")
LOOKS: dict[str, dict[str, Any]] = {
    "exact": {"color": "black", "linestyle": "-"},
    "certified": {"color": DARK, "linestyle": (0, (4, 2))},
    "offline": {"color": MIDDLE, "linestyle": (0, (5, 1, 1, 1))},
    "online 1": {"color": "#8a6414", "linestyle": (0, (1, 1.2))},
    "online 5": {"color": AMBER, "linestyle": (0, (4, 2))},
    "online 20": {"color": "#e3bd6b", "linestyle": "-"},
    "top-p": {"color": "0.6", "linestyle": (0, (4, 2))},
    "min-p": {"color": "0.6", "linestyle": (0, (1, 1.2))},
    "top-nσ": {"color": "0.75", "linestyle": "-"},
}
"""Line styles: the bound black, ours dark, the published rules warm, samplers grey."""

axis = partial(style.axis, scale="log")
"""Return one axis of a panel, logarithmic by default."""


def defined(values: ArrayLike, digits: int = 5) -> Any:
    """Round values like ``plain``, with None for non-finite values, because JSON has no infinity."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return [defined(value, digits) for value in array]
    return plain(array, digits) if np.isfinite(array) else None


def average(values: ArrayLike, axis: int | None = None) -> Any:
    """Return the mean; NaN for an empty array."""
    array = np.asarray(values, dtype=np.float64)
    return array.mean(axis=axis) if len(array) else np.full(array.shape[1:] if axis == 0 else (), np.nan)


def say(value: float | None, form: str = ",.0f") -> str:
    return "undefined" if value is None else format(value, form)


def full_bits(vocabulary: int) -> int:
    return int(vocabulary_payload_bits(vocabulary, BITS))


def curve(axes: Axes, x: ArrayLike, y: ArrayLike, **look: Any) -> None:
    """Draw a line with gaps at None and, on a logarithmic axis, at values that are not positive."""
    xs, ys = (np.array(values, dtype=np.float64) for values in (x, y))
    for values, scale in ((xs, axes.get_xscale()), (ys, axes.get_yscale())):
        if scale == "log":
            values[~(values > 0)] = np.nan
    axes.plot(xs, ys, **look)


def decades(lines: Sequence[Sequence[float | None]], lowest: float) -> tuple[float, float]:
    """Return limits of a logarithmic axis that hold all drawn values, but not below ``lowest``.

    >>> decades([[0.0, 2.0], [None]], 1e-3), decades([], 1e-3)
    ((1.0, 3.0), (0.001, 1.0))
    """
    array = np.array([value for line in lines for value in line], dtype=np.float64)
    array = array[np.isfinite(array) & (array > lowest)]
    return (float(array.min() / 2), float(array.max() * 1.5)) if array.size else (lowest, 1.0)
