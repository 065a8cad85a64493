"""A skip threshold by conformal risk control (angelopoulos2022crc): E[risk of the next prompt] ≤ ε.

The rule takes the largest λ of the grid with (Σ_i L_i(λ) + B)/(n + 1) ≤ ε; L_i must not fall as λ rises, nor exceed B.
Prompts must be exchangeable; tokens of a prompt may depend on each other, and its texts count once, by their mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, brief, in_kind, is_kind, take, to_numpy, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions, number, numbers
from hlmtheory._quantities import positive
from hlmtheory.uncertainty.binomial import unnarrowed

TARGET = positive("give the largest allowed mean rejection risk, such as 0.01")
LARGEST = positive("give the largest loss that a prompt can have: T for a sum over T tokens, 1 for a mean")
_LOSSES = Domain("in [0, bound]", lambda xp, value: value >= 0, "give the losses that threshold_losses returns")
_BLOCK = 2**20  # entries compared in one step
_GRID = Domain("finite and rising", lambda xp, value: xp.isfinite(value), "sort the thresholds and drop repeats")
_PROMPT = Domain(
    "a whole number for each row", lambda xp, value: value == value, "number the prompts, such as 0, 0, 1", "integer"
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A calibrated threshold λ̂: skip where u ≤ λ̂; -inf if no threshold is safe.

    ``corrected_risk`` = (Σ L_i(λ̂) + B)/(n + 1), at most the allowed risk; ``prompts`` is n.
    """

    threshold: float
    empirical_risk: float
    corrected_risk: float
    prompts: int


def calibrate(losses_by_prompt: Sequence[Any], limit: float) -> Calibration:
    """Return the largest threshold for which the expected risk per token of the next prompt is at most ``limit``.

    Parameters
    ----------
    losses_by_prompt : sequence of array, shape (T_i, 2)
        For each held-out prompt, u and β of each token, as rows (u, β). Prompts may differ in length. Take both at
        every position of a text of the *target* model, see :func:`threshold_losses`. A prompt's loss is the mean over
        its tokens of β 1{u ≤ λ}, so it is at most 1.
    limit : float
        ε > 0.

    Returns
    -------
    Calibration
        E[loss of the next prompt] ≤ ε, for exchangeable prompts; claim ``skipping.calibrated``. The threshold is one of
        the given u. It may depend on the losses, since every threshold that keeps the corrected risk of n prompts keeps
        the risk of all n + 1.

    Raises
    ------
    ValueError
        If there are fewer than 1/ε - 1 prompts; the message gives the smallest sufficient number. Also if a prompt is
        not rows of two numbers, a u is not finite, β is outside [0, 1], or ε is not positive.

    Examples
    --------
    >>> sure, unsure = [(0.0, 0.0), (0.5, 0.25)], [(0.25, 0.0), (0.5, 0.25), (1.0, 1.0)]
    >>> found = calibrate([sure] * 5 + [unsure] * 5, limit=0.2)
    >>> found.threshold, round(found.corrected_risk, 4)
    (0.5, 0.1856)
    """
    limit = number(TARGET, "limit", limit)
    if isinstance(losses_by_prompt, (str, bytes, dict)) or not hasattr(losses_by_prompt, "__len__"):
        raise DomainError(
            f"losses_by_prompt must be a list of prompts; got {brief(losses_by_prompt)}; stack the tokens of each"
        )
    prompts = [_tokens(f"losses_by_prompt[{place}]", tokens) for place, tokens in enumerate(losses_by_prompt)]
    if 1.0 / (len(prompts) + 1) > limit:
        raise DomainError(
            f"losses_by_prompt needs {_fewest(1.0, limit)} prompts for a limit of {limit:g}; got {len(prompts)}; add "
            "prompts, or allow more risk"
        )
    u, lost = (np.concatenate(parts) for parts in zip(*prompts, strict=True))
    order = np.argsort(u, kind="stable")
    u, total = u[order], np.cumsum(lost[order])
    thresholds = np.flatnonzero(np.append(u[1:] > u[:-1], True))  # all tokens of equal u are skipped together
    corrected = (total[thresholds] + 1.0) / (len(prompts) + 1)
    count = int(np.sum(corrected <= limit))
    if not count:
        return Calibration(-math.inf, 0.0, 1.0 / (len(prompts) + 1), len(prompts))
    at = thresholds[count - 1]
    return Calibration(float(u[at]), float(total[at]) / len(prompts), float(corrected[count - 1]), len(prompts))


def _tokens(name: str, tokens: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return u of each token of a prompt, and β over the number of tokens."""
    rows = numbers(_FINITE, name, tokens)
    if rows.ndim != 2 or rows.shape[-1] != 2 or not len(rows):
        raise DomainError(f"{name} must be rows (u, β), one for each token; got shape {rows.shape}; stack them")
    UNIT_INTERVAL.check(np, name, rows[:, 1])
    return rows[:, 0], rows[:, 1] / len(rows)


def threshold_losses(uncertainty: Array, rejection_by_token: Array, thresholds: Array) -> Array:
    """Return the loss (n, L) of each prompt at each threshold, Σ_t β_t 1{u_t ≤ λ}, in [0, T].

    Take u and β (n, T) along texts of the *target* model; a shorter text has β = 0 beyond its end. Thresholds are
    compared in the type of u, as in use. The mean loss bounds the total variation of whole texts
    (``skipping.sequence``).
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
            f"{tuple(beta.shape)}; pad shorter sequences with rejection_by_token 0"
        )
    return in_kind(xp, _sums(xp, u, in_kind(xp, beta, xp.float64), grid), widest(xp, u, beta))


def calibrate_threshold(
    losses: Array, thresholds: Array, *, risk: float, bound: float, prompt: Array | None = None
) -> Calibration:
    """Return the largest threshold with E[loss of the next prompt] ≤ ``risk``, from losses (n, L) in [0, ``bound``].

    ``bound`` follows from the loss's definition, not from what was seen: a sum over T tokens has T. With ``prompt``
    (n,) a prompt may have several rows, which count as their mean. Raises if n + 1 < bound/risk
    (``skipping.calibrated``).
    """
    xp, table, grid = arrays(losses=losses, thresholds=thresholds)
    grid = unnarrowed(xp, thresholds, grid)
    risk, bound = number(TARGET, "risk", risk), number(LARGEST, "bound", bound)
    table = prompts_table(xp, table, grid, float(bound), prompt)
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
    """Return (1/(n+1)) Σ_i L_i(λ̂ of the other n prompts), from losses (..., n + 1, L); at most ε."""
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
    """Return how many thresholds, counted from the lowest, keep the corrected risk (..., L) at or below ε."""
    within = xp.astype(corrected <= risk[..., None], xp.int64)
    return xp.sum(xp.cumulative_prod(within, axis=-1), axis=-1)


def checked_losses(xp: Any, losses: Array, bound: Array) -> Array:
    """Check that the losses are in [0, B] and do not decrease along a row, and return them in float64."""
    if not bool(xp.all(_LOSSES.check(xp, "losses", losses) <= bound)):
        raise DomainError("losses must be in [0, bound]; one is not; give the largest loss a prompt can have as bound")
    if not bool(xp.all(losses[..., 1:] >= losses[..., :-1])):
        raise DomainError(
            "losses must not fall as the threshold rises; a row does; take them on sequences that do not depend on the "
            "threshold"
        )
    return in_kind(xp, losses, xp.float64)


def prompts_table(xp: Any, table: Array, grid: Array, bound: float, prompt: Array | None) -> Array:
    """Check losses (n, L) and their thresholds, and return the mean losses of each prompt in float64."""
    _rising(xp, grid)
    if table.ndim != 2 or table.shape[-1:] != grid.shape or not table.shape[0]:
        raise DomainError(
            f"losses must have one row per prompt and one column per threshold; got {tuple(table.shape)} for "
            f"{grid.shape[0]} thresholds; one prompt is a table of one row"
        )
    return by_prompt(xp, checked_losses(xp, table, xp.asarray(bound, dtype=xp.float64)), prompt)


def by_prompt(xp: Any, losses: Array, prompt: Array | None) -> Array:
    """Return the mean losses of each prompt, (prompts, L), from the losses of its texts (n, L) and their prompts."""
    if prompt is None:
        return losses
    library, labels = arrays(prompt=prompt)
    labels = to_numpy(_PROMPT.check(library, "prompt", labels))
    if labels.shape != losses.shape[:1]:
        raise DomainError(
            f"prompt must have one entry for each row of losses; got shape {labels.shape} for {losses.shape[0]} rows; "
            "repeat a prompt's number for each of its texts"
        )
    _, texts = np.unique(labels, return_counts=True)
    rows = np.split(np.argsort(labels, kind="stable"), np.cumsum(texts)[:-1])
    # every column adds its rows in the same order, so that rounding keeps the losses from falling along a row
    means = [xp.mean(xp.take(losses, xp.asarray(own, device=losses.device), axis=0), axis=0) for own in rows]
    return xp.stack(means)


def _sums(xp: Any, u: Array, beta: Array, grid: Array) -> Array:
    """Return Σ_t β_t 1{u_t ≤ λ}, computed in blocks of thresholds to bound the memory."""
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
    """Return the smallest n with B/(n + 1) ≤ ε, with the quotient rounded as in the rule."""
    most = Fraction(float(bound))
    exact = math.ceil(most / Fraction(float(risk))) - 1
    return exact - 1 if float(most / exact) <= risk else exact


def _rising(xp: Any, thresholds: Array) -> None:
    if thresholds.ndim != 1 or not thresholds.shape[0]:
        raise DomainError(f"thresholds must be one row; got shape {tuple(thresholds.shape)}; give at least one")
    _GRID.check(xp, "thresholds", thresholds)
    if not bool(xp.all(thresholds[1:] > thresholds[:-1])):
        raise DomainError("thresholds must be rising; two are not; sort them and drop repeats")


_FINITE = Domain("finite", lambda xp, value: xp.isfinite(value), "give the score that the skip rule compares")
