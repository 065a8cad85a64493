"""Estimate rates and risks over the drafts of a trace (:mod:`validation.decoding.trace_drafts`).

Every estimate over tokens has an interval that is clustered by prompt.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import hlmtheory
from hlmtheory import skipping
from hlmtheory.skipping.holder import holder_bound_discrete, rejection_risk_discrete
from hlmtheory.skipping.risk import surrogate_gap
from hlmtheory.uncertainty.regression import LinearFit
from validation.arrays import Index, Row
from validation.decoding.trace_drafts import DRAWS, POINTS, Tokens
from validation.estimates import Estimate, clustered


def ratio(numerator: Any, denominator: Any, groups: Index) -> Estimate:
    """Return Σ numerator / Σ denominator over tokens, with a 95% interval clustered by prompt."""
    index = np.unique(groups, return_inverse=True)[1]
    above, below = (np.bincount(index, np.broadcast_to(part, groups.shape)) for part in (numerator, denominator))
    return clustered(above, below)


def mean(values: Any, groups: Index) -> Estimate:
    """Return the mean over tokens; see :func:`ratio`."""
    return ratio(values, 1.0, groups)


def transmission_rate(tokens: Tokens, threshold: float) -> Estimate:
    return mean(~tokens.skipped(threshold), tokens.prompt)


def one_step(tokens: Tokens, threshold: float) -> Estimate:
    """Return the mean one-step total variation E[β_d 1{u ≤ u_th}], the share of drafts skipped and rejected."""
    return mean(tokens.rejection * tokens.skipped(threshold), tokens.prompt)


def accepted_if_skipped(tokens: Tokens, threshold: float) -> Estimate:
    """Return P(accepted | skipped), the true skip rate of cu-hlm V-A; a draft counts with its probability 1 - β."""
    skipped = tokens.skipped(threshold)
    return ratio(skipped * (1.0 - tokens.rejection), skipped, tokens.prompt)


def skipped_if_accepted(tokens: Tokens, threshold: float) -> Estimate:
    """Return P(skipped | accepted), the true skip rate of u-hlm IV."""
    accepted = 1.0 - tokens.rejection
    return ratio(tokens.skipped(threshold) * accepted, accepted, tokens.prompt)


CELLS = 400  # of the kernel density on [0, 1]


@dataclass(frozen=True, slots=True)
class Risks:
    """Hold the consequences of a rising line: R and its bound at s = 2, as sums and integrals, and the exact risk."""

    averse: float
    prone: float
    discrete: float
    discrete_bound: float
    density: float
    density_bound: float
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
    return fit_of(tokens.uncertainty, tokens.rejection, tokens.prompt, binned=binned)


def risks_of(tokens: Tokens, fit: LinearFit | None) -> Risks | None:
    """Return the consequences of the line; None if it does not rise, because u then does not predict the risk."""
    if fit is None or fit.slope <= 0:
        return None
    line = fit.line
    averse, prone = skipping.skip_thresholds(**line)
    gap = surrogate_gap(tokens.uncertainty, tokens.rejection, **line)
    cells, mass = density_of(tokens)[0], tokens.mass
    discrete = rejection_risk_discrete(mass, **line), holder_bound_discrete(mass, **line)
    density = skipping.rejection_risk(cells, **line), skipping.holder_bound(cells, **line)
    each = averse, prone, *discrete, *density, gap.exact, gap.surrogate
    return Risks(*map(float, each))


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


def bin_means(uncertainty: Row, rejection: Row, groups: Index) -> list[Estimate]:
    """Return the mean β at each of the 21 points; NaN at a point without tokens."""
    point = np.rint(uncertainty * DRAWS).astype(np.int64)
    return [ratio(rejection * (point == index), point == index, groups) for index in range(DRAWS + 1)]
