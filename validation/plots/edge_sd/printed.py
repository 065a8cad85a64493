"""Savings that edge-sd (zhu2025edgesd) Section IV prints in its text."""

from __future__ import annotations

from dataclasses import dataclass

from hlmtheory._domains import DomainError
from validation.plots.common.record import Printed

BASELINES = ("sequential", "max", "heuristic", "equal")
PAIR_NAMES = ("68M, 7B", "1.1B, 7B", "1.1B, 13B")


@dataclass(frozen=True, slots=True)
class Saving:
    """Hold a printed saving of the total latency.

    Attributes
    ----------
    figure : str
        E.g. ``"7b"``.
    baseline : str
        "sequential", "max" or "heuristic": a scheme of :data:`validation.claims.scenarios.cell.SCHEMES`. "equal":
        Algorithm 1 with equal bandwidth shares, at 25 MHz.
    changed : tuple of str and int
        The one field of the load that differs from Table II at this point of the figure, and its value.
    percent : float
        The printed saving, in percent of the baseline.
    """

    figure: str
    baseline: str
    changed: tuple[str, int]
    percent: float

    def __post_init__(self) -> None:
        if self.baseline not in BASELINES:
            raise DomainError(f"baseline must be one of {', '.join(BASELINES)}; got {self.baseline!r}")


BANDWIDTH_SAVINGS = tuple(
    Saving(figure, "equal", ("pair", pair), percent)
    for pair, (figure, percent) in enumerate((("9a", 44.9), ("9b", 29.3), ("9c", 25.2)))
)

BATCHING_SAVINGS = (
    Saving("7b", "sequential", ("longest_input", 512), 31.6),
    Saving("7c", "sequential", ("longest_output", 1792), 30.7),
    Saving("8a", "max", ("users", 90), 21.4),
    Saving("8b", "heuristic", ("longest_input", 1792), 19.6),
    Saving("8c", "heuristic", ("longest_output", 1024), 20.5),
)

ALL_SAVINGS = BANDWIDTH_SAVINGS + BATCHING_SAVINGS
GROUPS = {"bandwidth": BANDWIDTH_SAVINGS, "batching": BATCHING_SAVINGS, "all": ALL_SAVINGS}

_BANDWIDTH_PLACES = ("Section IV-C, abstract", "Section IV-C", "Section IV-C")
_BATCHING_PLACES = (
    ("SD without pipeline at I_max = 512", "Section IV-A, Fig. 7(b)"),
    ("SD without pipeline at O_max = 1792", "Section IV-A, Fig. 7(c)"),
    ("max batching at K = 90", "Section IV-B, Fig. 8(a)"),
    ("heuristic batching at I_max = 1792", "Section IV-B, Fig. 8(b)"),
    ("heuristic batching at O_max = 1024", "Section IV-B, Fig. 8(c)"),
)

PRINTED: dict[str, Printed] = {
    saving.figure: Printed(
        f"saving of the total latency against equal shares, {name}, K = 100, 25 MHz, in percent", saving.percent, place
    )
    for saving, name, place in zip(BANDWIDTH_SAVINGS, PAIR_NAMES, _BANDWIDTH_PLACES, strict=True)
} | {
    saving.figure: Printed(f"saving against {what}, in percent", saving.percent, place)
    for saving, (what, place) in zip(BATCHING_SAVINGS, _BATCHING_PLACES, strict=True)
}
"""The printed savings as records of the sidecars, by figure."""
