"""A skip threshold whose mean loss is at most ε with confidence 1 - δ over the calibration prompts (bates2021rcps).

The evidence at a threshold is the wealth Π (1 + λ(ε - L_i)) of :func:`audit_wealth` without audits, the mean over fixed
bets: it does not depend on the order of the prompts, and uses that most losses are far below 1.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, DomainError, leading_dimensions, number
from hlmtheory._quantities import open_unit
from hlmtheory._simplex import distributions
from hlmtheory.skipping.audit import BETS, DOMAINS, audit_wealth, fewest_tokens_to_certify
from hlmtheory.skipping.calibration import prompts_table
from hlmtheory.uncertainty.binomial import unnarrowed

_RISK = open_unit("give the largest allowed mean loss, such as 0.1")
_ERROR = open_unit("δ is the probability of a calibration above ε, such as 0.05")
PROMPTS = 4
"""Calibration prompts of the claim's instances."""


@dataclass(frozen=True, slots=True)
class ConfidentThreshold:
    """A threshold that was calibrated with confidence; -inf if no threshold has enough evidence.

    ``prompts_needed`` is about how many prompts with losses like those at the lowest threshold give evidence for it.
    """

    threshold: float
    empirical_risk: float
    prompts: int
    prompts_needed: float


def confident_threshold(losses: Array, thresholds: Array, *, risk: float, error: float = 0.05) -> ConfidentThreshold:
    """Return the largest threshold with P(E[L(λ̂)] ≥ risk) ≤ error (``skipping.confident``).

    Parameters
    ----------
    losses : array, shape (n, L)
        Of each prompt at each threshold, in [0, 1]; they do not fall along a row.
    thresholds : array, shape (L,)
        Ascending.
    risk, error : float
        ε and δ, in (0, 1).

    Returns
    -------
    ConfidentThreshold
        The threshold, -inf if none is certified, its mean loss, n, and the fewest prompts that could certify one.

    Raises
    ------
    ValueError
        If a loss or a number is outside its range, or a row falls.
    """
    xp, table, grid = arrays(losses=losses, thresholds=thresholds)
    grid = unnarrowed(xp, thresholds, grid)
    wanted, delta = number(_RISK, "risk", risk), number(_ERROR, "error", error)
    table = prompts_table(xp, table, grid, 1.0, None)
    wealth = to_numpy(audit_wealth(table.T, 1.0, wanted, BETS)[..., -1])
    count = int(_certified(wealth, delta))
    prompts = int(table.shape[0])
    fewest = float(fewest_tokens_to_certify(1.0, wanted, delta))
    need = max(fewest, prompts * -math.log(delta) / float(wealth[0])) if wealth[0] > 0 else math.inf
    if not count:
        return ConfidentThreshold(-math.inf, 0.0, prompts, need)
    return ConfidentThreshold(float(grid[count - 1]), float(xp.mean(table[:, count - 1])), prompts, need)


def _certified(wealth: Any, error: Any) -> Any:
    """How many thresholds, counted from the lowest, have a wealth (..., L) of 1/δ or more."""
    enough = wealth >= np.nextafter(-np.log(error), np.inf)[..., None]
    return np.sum(np.cumprod(enough, axis=-1), axis=-1)


def above_side(mass: Array, losses: Array, risk: Array, error: Array, bet: Array) -> Array:
    """Return P(E[L(λ̂)] ≥ ε) for PROMPTS prompts, each of one kind with these losses (..., kinds, L)."""
    xp, _, m = distributions(mass=mass)
    _, table, wanted, delta, share = arrays(losses=losses, risk=risk, error=error, bet=bet)
    UNIT_INTERVAL.check(xp, "losses", table)
    for name, domain, value in (("risk", _RISK, wanted), ("error", _ERROR, delta), ("bet", DOMAINS["bets"], share)):
        domain.check(xp, name, value)
    if table.ndim < 2 or table.shape[-2] != m.shape[-1]:
        raise DomainError(f"losses must have a row for each of {m.shape[-1]} kinds; got shape {tuple(table.shape)}")
    leading_dimensions(mass=tuple(m.shape[:-1]), losses=tuple(table.shape[:-2]), risk=tuple(wanted.shape))
    law, curves, eps, dlt, one = (to_numpy(in_kind(xp, x, xp.float64)) for x in (m, table, wanted, delta, share))
    curves = np.maximum.accumulate(curves, axis=-1)
    draws = np.asarray(list(itertools.product(range(law.shape[-1]), repeat=PROMPTS)))
    chance = np.prod(law[..., draws], axis=-1)
    seen = np.moveaxis(curves[..., draws, :], -1, -2)  # (..., draws, L, PROMPTS)
    wealth = np.asarray(audit_wealth(seen, 1.0, eps[..., None, None], one[..., None, None, None])[..., -1])
    count = _certified(wealth, dlt[..., None])
    mean = np.sum(law[..., None] * curves, axis=-2)
    bad = np.concatenate([np.zeros((*mean.shape[:-1], 1), dtype=bool), mean >= eps[..., None]], axis=-1)
    bad = np.broadcast_to(bad, (*count.shape[:-1], bad.shape[-1]))
    return xp.asarray(np.sum(np.where(np.take_along_axis(bad, count, axis=-1), chance, 0.0), axis=-1), device=m.device)
