"""Fit the papers' line β = a u + b to our tokens; compute its consequences and its distance from the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import hlmtheory
from hlmtheory import skipping
from hlmtheory.uncertainty import LinearFit
from validation.decoding.trace_drafts import DRAWS, POINTS, Index, Row, Tokens
from validation.plots.common.skipping.sample import ClusteredEstimate, ratio

CELLS = 400  # of the kernel density on [0, 1]


@dataclass(frozen=True, slots=True)
class Risks:
    """Hold the consequences of a rising line: the papers' surrogate R, its bounds, and the exact risk.

    ``discrete``: R and its bound at s = 2, as sums over the 21 points; ``density``: the same, as integrals of the
    kernel density.
    """

    averse: float
    prone: float
    discrete: tuple[float, float]
    density: tuple[float, float]
    exact: float
    surrogate: float


def fit_of(uncertainty: Row, rejection: Row, groups: Index, *, binned: bool) -> LinearFit | None:
    """Fit a line, with intervals clustered by prompt where there are enough prompts; None if u is constant."""
    for labels in (groups, None):
        try:
            return hlmtheory.uncertainty.fit_linear(uncertainty, rejection, groups=labels, binned=binned)
        except ValueError:  # first: one prompt, or u is constant without one of the prompts; second: u is constant
            continue
    return None


def line_of(tokens: Tokens, *, binned: bool) -> LinearFit | None:
    """Return the papers' fit on our tokens."""
    return fit_of(tokens.uncertainty, tokens.rejection, tokens.prompt, binned=binned)


def risks_of(tokens: Tokens, fit: LinearFit | None) -> Risks | None:
    """Return the consequences of the line; None if it does not rise, because u then does not predict the risk."""
    if fit is None or fit.slope <= 0:
        return None
    line = fit.line
    averse, prone = skipping.skip_thresholds(**line)
    gap = skipping.surrogate_gap(tokens.uncertainty, tokens.rejection, **line)
    discrete = (
        skipping.rejection_risk_discrete(tokens.mass, **line),
        skipping.holder_bound_discrete(tokens.mass, **line),
    )
    cells = density_of(tokens)[0]
    density = (
        skipping.rejection_risk(cells, **line),
        skipping.holder_bound(cells, **line),
    )
    return Risks(
        float(averse), float(prone), _floats(discrete), _floats(density), float(gap.exact), float(gap.surrogate)
    )


def _floats(values: Any) -> Any:
    return tuple(map(float, values))


def density_of(tokens: Tokens) -> tuple[Row, float]:
    """Return the Gaussian kernel density of u in equal cells of [0, 1], and the kernel mass outside."""
    from scipy.special import ndtr

    width = float(tokens.uncertainty.std()) * len(tokens.uncertainty) ** -0.2
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    if not width:
        return np.histogram(tokens.uncertainty, edges)[0] / len(tokens.uncertainty), 0.0
    cells = np.diff(tokens.mass @ ndtr((edges - POINTS[:, None]) / width))
    inside = float(cells.sum())
    return cells / inside, 1.0 - inside


def bin_means(uncertainty: Row, rejection: Row, groups: Index) -> list[ClusteredEstimate]:
    """Return the mean β at each of the 21 points; NaN at a point without tokens."""
    point = np.rint(uncertainty * DRAWS).astype(np.int64)
    return [ratio(rejection * (point == index), point == index, groups) for index in range(DRAWS + 1)]
