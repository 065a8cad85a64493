"""A threshold by conformal risk control: held-out prompts guarantee E[risk of the next prompt] ≤ ε.

The rule of angelopoulos2022crc: with losses L_i(λ) that never fall as the threshold λ rises and are at most B, take the
largest λ of the grid with (Σ_i L_i(λ) + B)/(n + 1) ≤ ε. The prompts have to be exchangeable with the next one; tokens
within a prompt may depend on each other in any way, and no line is fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hlmtheory._array import Array, arrays, in_kind, is_kind, take, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions, number
from hlmtheory._quantities import positive
from hlmtheory.uncertainty.binomial import unnarrowed

TARGET = positive("give the rejection risk that may be had on average, such as 0.01")
LARGEST = positive("give the largest loss that a prompt can have: T for a sum over T tokens, 1 for a mean")
_LOSSES = Domain("in [0, bound]", lambda xp, value: value >= 0, "give the losses of threshold_losses")
_BLOCK = 2**20  # entries that are compared at a time
_GRID = Domain("finite and rising", lambda xp, value: xp.isfinite(value), "sort the thresholds, each of them once")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A calibrated threshold.

    Attributes
    ----------
    threshold : float
        λ̂: skip where the uncertainty is at most that. -inf if no threshold of the grid will do: skip nothing.
    empirical_risk : float
        Mean loss of the held-out prompts there; 0 if nothing is skipped.
    corrected_risk : float
        (Σ L_i(λ̂) + B)/(n + 1), at most the wanted risk.
    prompts : int
        n.
    """

    threshold: float
    empirical_risk: float
    corrected_risk: float
    prompts: int


def threshold_losses(uncertainty: Array, rejection_by_token: Array, thresholds: Array) -> Array:
    """Loss of each prompt at each threshold: Σ_t β_t 1{u_t ≤ λ} over its tokens.

    With u and β of the drafts at every position of a text of the *large* model the losses do not depend on the
    threshold other than by the indicator, so they never fall as it rises; along the text that the hybrid system would
    have written they could. The mean of such a loss is the sum of the one-step total variations, which bounds the
    total variation of whole responses (claim ``skipping.sequence``).

    Parameters
    ----------
    uncertainty : array, shape (n, T)
        u of each token; any finite score for which a smaller one is skipped first.
    rejection_by_token : array, shape (n, T)
        β of each token, in [0, 1]; 0 beyond the end of a shorter text.
    thresholds : array, shape (L,)
        Finite and rising, in the floating type of the uncertainty as well: there they are compared, as ``u <= λ``
        with a plain number λ is, so that a u at a threshold is skipped here if and only if it is in use.

    Returns
    -------
    array, shape (n, L)
        In [0, T]: ``bound=T`` of :func:`calibrate_threshold`, however small the losses of these prompts are. Divided
        by T they are risks per token, and ``bound=1``.

    Raises
    ------
    ValueError
        If a value is outside its domain or the shapes do not match.

    Examples
    --------
    >>> threshold_losses([[0.1, 0.4]], [[0.25, 0.5]], [0.0, 0.2, 0.4]).tolist()
    [[0.0, 0.25, 0.75]]
    """
    xp, u, beta, grid = arrays(uncertainty=uncertainty, rejection_by_token=rejection_by_token, thresholds=thresholds)
    grid = unnarrowed(xp, thresholds, grid)
    _FINITE.check(xp, "uncertainty", u)
    UNIT_INTERVAL.check(xp, "rejection_by_token", beta)
    _rising(xp, grid)
    if is_kind(xp, u.dtype, "real floating"):
        grid = in_kind(xp, grid, u.dtype)
        _rising(xp, grid)
    if u.ndim != 2 or u.shape != beta.shape:
        raise DomainError(
            f"uncertainty and rejection_by_token must share a shape (prompts, tokens); got {tuple(u.shape)} and "
            f"{tuple(beta.shape)}; pad shorter texts with rejection_by_token 0"
        )
    return in_kind(xp, _sums(xp, u, in_kind(xp, beta, xp.float64), grid), widest(xp, u, beta))


def calibrate_threshold(losses: Array, thresholds: Array, *, risk: float, bound: float) -> Calibration:
    """Largest threshold for which the expected loss of the next prompt is at most ``risk``.

    Parameters
    ----------
    losses : array, shape (n, L)
        Loss of each held-out prompt at each threshold, in [0, B], never falling along a row:
        :func:`threshold_losses`. Where nothing is skipped the loss is 0.
    thresholds : array, shape (L,)
        Finite and rising, chosen without a look at the losses.
    risk : float
        ε > 0.
    bound : float
        B: what no prompt's loss can exceed, the next one's included. It follows from how the loss is defined, never
        from the losses that were seen: a sum over T tokens has B = T. Do not clip the sum to 1, as the mean of the
        clipped sum is no bound on the total variation.

    Returns
    -------
    Calibration
        E[L_{n+1}(λ̂)] ≤ ε, the mean over the held-out prompts and the next one; see ``skipping.calibrated``.

    Raises
    ------
    ValueError
        If n + 1 < B/ε: not even zero losses would do; says which n does. If the losses are outside [0, B] or fall
        along a row, the thresholds do not rise, ε or B is not positive, or the shapes do not match.

    Examples
    --------
    >>> losses = [[0.0, 0.5], [0.0, 0.25], [0.0, 0.0]]  # means over tokens, so at most 1
    >>> found = calibrate_threshold(losses, [0.1, 0.2], risk=0.25, bound=1.0)
    >>> found.threshold, found.corrected_risk
    (0.1, 0.25)
    """
    xp, table, grid = arrays(losses=losses, thresholds=thresholds)
    grid = unnarrowed(xp, thresholds, grid)
    risk, bound = number(TARGET, "risk", risk), number(LARGEST, "bound", bound)
    _rising(xp, grid)
    if table.ndim != 2 or table.shape[-1:] != grid.shape or not table.shape[0]:
        raise DomainError(
            f"losses must have one row per prompt and one column per threshold; got {tuple(table.shape)} for "
            f"{grid.shape[0]} thresholds; one prompt is a table of one row"
        )
    table = checked_losses(xp, table, xp.asarray(float(bound), dtype=xp.float64))
    prompts = table.shape[0]
    if bound / (prompts + 1) > risk:
        raise DomainError(
            f"losses must come from at least {_fewest(bound, risk)} prompts, n + 1 ≥ bound/risk; got {prompts}; "
            "add prompts, or allow more risk"
        )
    corrected = (xp.sum(table, axis=0) + bound) / (prompts + 1)
    count = int(admissible(xp, corrected, xp.asarray(float(risk), dtype=xp.float64, device=corrected.device)))
    if not count:
        return Calibration(-math.inf, 0.0, float(bound) / (prompts + 1), prompts)
    at = count - 1
    return Calibration(float(grid[at]), float(xp.mean(table[:, at])), float(corrected[at]), prompts)


def held_out_risk(losses: Array, risk: Array, bound: Array) -> Array:
    """Mean loss of a prompt at the threshold that the other n prompts calibrate.

    Parameters
    ----------
    losses : array, shape (..., n + 1, L)
        As of :func:`calibrate_threshold`.
    risk, bound : array, shape (...)
        ε and B.

    Returns
    -------
    array, shape (...)
        (1/(n+1)) Σ_i L_i(λ̂ without prompt i), at most ε.

    Raises
    ------
    ValueError
        If a loss is outside [0, B] or falls along a row, or ε or B is not positive.

    Examples
    --------
    >>> float(held_out_risk([[0.0, 0.5], [0.0, 0.25]], 0.75, 1.0))
    0.375
    """
    xp, table, wanted, most = arrays("risk", "bound", losses=losses, risk=risk, bound=bound)
    TARGET.check(xp, "risk", wanted)
    LARGEST.check(xp, "bound", most)
    if table.ndim < 2 or 0 in table.shape[-2:]:
        raise DomainError(
            f"losses must have one row per prompt and one column per threshold; got {tuple(table.shape)}; "
            "one prompt is a table of one row"
        )
    leading_dimensions(losses=tuple(table.shape[:-2]), risk=tuple(wanted.shape), bound=tuple(most.shape))
    wanted, most = (in_kind(xp, value, xp.float64)[..., None, None] for value in (wanted, most))
    table = checked_losses(xp, table, most)
    others = xp.sum(table, axis=-2, keepdims=True) - table
    count = admissible(xp, (others + most) / table.shape[-2], wanted[..., 0])
    own = take(xp, xp.broadcast_to(table, (*count.shape, table.shape[-1])), xp.clip(count - 1, min=0)[..., None])
    return xp.mean(xp.where(count > 0, own[..., 0], 0.0), axis=-1)


def admissible(xp: Any, corrected: Array, risk: Array) -> Array:
    """Number of thresholds, from the lowest on, that keep the corrected risk (..., L) within ε."""
    within = xp.astype(corrected <= risk[..., None], xp.int64)
    return xp.sum(xp.cumulative_prod(within, axis=-1), axis=-1)


def checked_losses(xp: Any, losses: Array, bound: Array) -> Array:
    """In float64; in [0, B] and never falling along a row."""
    if not bool(xp.all(_LOSSES.check(xp, "losses", losses) <= bound)):
        raise DomainError("losses must be in [0, bound]; one is not; give the largest loss a prompt can have as bound")
    if not bool(xp.all(losses[..., 1:] >= losses[..., :-1])):
        raise DomainError(
            "losses must not fall as the threshold rises; a row does; take them on texts that do not depend on the "
            "threshold"
        )
    return in_kind(xp, losses, xp.float64)


def _sums(xp: Any, u: Array, beta: Array, grid: Array) -> Array:
    """Σ_t β_t 1{u_t ≤ λ}, in blocks of thresholds so that memory stays bounded.

    Every block has one shape, the last one repeats the highest threshold: sums over the same tree cannot fall by
    rounding as λ rises, which the calibration takes for granted.
    """
    count = grid.shape[0]
    step = min(count, max(1, _BLOCK // max(1, math.prod(u.shape))))
    levels = xp.take(grid, xp.clip(xp.arange(-(-count // step) * step, device=grid.device), max=count - 1), axis=0)
    u, beta = u[:, None, :], beta[:, None, :]
    parts = [
        xp.sum(xp.where(u <= levels[start : start + step, None], beta, 0.0), axis=-1)
        for start in range(0, levels.shape[0], step)
    ]
    return xp.concat(parts, axis=-1)[:, :count]


def _fewest(bound: float, risk: float) -> int:
    """Smallest n with B/(n + 1) ≤ ε, with the quotient rounded as in the rule."""
    most = Fraction(float(bound))
    exact = math.ceil(most / Fraction(float(risk))) - 1
    return exact - 1 if float(most / exact) <= risk else exact


def _rising(xp: Any, thresholds: Array) -> None:
    if thresholds.ndim != 1 or not thresholds.shape[0]:
        raise DomainError(f"thresholds must be one row; got shape {tuple(thresholds.shape)}; give at least one")
    _GRID.check(xp, "thresholds", thresholds)
    if not bool(xp.all(thresholds[1:] > thresholds[:-1])):
        raise DomainError("thresholds must be rising; two are not; sort them, each of them once")


_FINITE = Domain("finite", lambda xp, value: xp.isfinite(value), "give the score by which a draft is skipped")
