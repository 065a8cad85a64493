"""A number with its interval: how it is computed over clusters, and how it is written as JSON and as text."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

NONE = "–"
BRACKETS, DASH, WORDS = "[{}, {}]", "({}–{})", "({} to {})"
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the ends of its interval, each None if it is not known; ``most`` if it lies from value to most."""

    value: float | None
    low: float | None = None
    high: float | None = None
    most: float | None = None

    def map(self, function: Callable[[float], float]) -> Self:
        """Return the estimate of a rising function of the number."""
        ends = {name: getattr(self, name) for name in ("value", "low", "high", "most")}
        return replace(self, **{name: None if end is None else function(end) for name, end in ends.items()})

    def __add__(self, shift: float) -> Self:
        return self.map(lambda end: end + shift)

    def __mul__(self, factor: float) -> Self:
        return self.map(lambda end: end * factor)

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Return the ends for drawing; both are the value itself if there is no interval."""
        return (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)

    @property
    def sign(self) -> int:
        """Return the sign of the whole interval; 0 if it contains 0 or does not exist."""
        return 0 if self.low is None or self.high is None else int(self.low > 0.0) - int(self.high < 0.0)

    def plain(self, digits: int | None = None) -> dict[str, Any]:
        bound = {} if self.most is None else {"most": rounded(self.most, digits)}
        return {name: rounded(getattr(self, name), digits) for name in ("value", "low", "high")} | bound

    def text(self, form: str = ".4f", ends: str = WORDS) -> str:
        """Return the number as text, with its interval if it has one.

        >>> Estimate(0.5, 0.25, 0.75).text(".2f", BRACKETS), str(Estimate(0.5)), str(Estimate(None))
        ('0.50 [0.25, 0.75]', '0.5000', '–')
        """
        said = told(self.value, form) + ("" if self.most is None else f" to {told(self.most, form)}")
        interval = ends.format(told(self.low, form), told(self.high, form))
        return said if NONE in (said, told(self.low), told(self.high)) else f"{said} {interval}"

    def __str__(self) -> str:
        return self.text()


def told(number: float | None, form: str = ".4f") -> str:
    """Format a number with a true minus sign; None and NaN become a dash."""
    return NONE if number is None or math.isnan(number) else format(number, form).replace("-", "−")


def three_digits(number: float) -> str:
    """Return a number with three digits, zeros at the end too: 20.0."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:#.3g}".rstrip(".")


def rounded(number: float | None, digits: int | None = None) -> float | None:
    """Return a number for JSON, with some significant digits; None if it is missing or not finite."""
    if number is None or not math.isfinite(number):
        return None
    return float(number) if digits is None else float(f"{number:.{digits}g}")


def clustered(
    above: ArrayLike, below: ArrayLike = 1.0, *, confidence: float = CONFIDENCE, counts: ArrayLike = 1.0
) -> Estimate:
    """Return Σ above/Σ below over clusters, with Student's interval; one cluster gives none.

    ``counts`` tells how many clusters each entry stands for. A cluster whose denominator is 0 carries no information.
    """
    from scipy.special import stdtrit

    top, bottom, each = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (above, below, counts)))
    top, bottom, each = top[bottom > 0], bottom[bottom > 0], each[bottom > 0]
    count, total = float(each.sum()), float(each @ bottom)
    if not count:
        return Estimate(None)
    mean = float(each @ top / total)
    if count <= 1:
        return Estimate(mean)
    spread = np.sqrt(count / (count - 1.0) * np.sum(each * (top - mean * bottom) ** 2)) / total
    half = float(stdtrit(count - 1.0, (1.0 + confidence) / 2.0) * spread)
    return Estimate(mean, mean - half, mean + half)
