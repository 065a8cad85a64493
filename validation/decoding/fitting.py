"""Parameters of methods, fitted to a trace: the line, the thresholds and the sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import calibrate_threshold, skip_thresholds, threshold_losses
from hlmtheory.truncation import offline_size
from hlmtheory.uncertainty import expected_uncertainty, fit_linear
from validation.decoding.methods.registry import Fitted
from validation.errors import UserError
from validation.trace.reader import Trace, probabilities

Array = NDArray[Any]
OFFLINE_TOKENS = 200
"""Number of tokens to which k* is fitted; each token costs a sort of its distributions."""


def fit(trace: Trace, *, distortion_tolerance: float = 0.1, risk: float = 0.05, seed: int = 1) -> Fitted:
    """Fit the papers' line and thresholds, the top-k k*, and a threshold by conformal risk control.

    At each position a draft is drawn from the draft model's distribution at temperature 1; its uncertainty is the
    expected one.

    Parameters
    ----------
    trace : Trace
    distortion_tolerance : float
        θ of cu-hlm (21).
    risk : float
        Largest allowed mean rejection risk of a token of the next text under the calibrated threshold. It needs at
        least 1/risk - 1 texts.
    seed : int
        Seed of the drawn drafts.

    Returns
    -------
    Fitted

    Raises
    ------
    UserError
        If the trace has too few texts for that risk, or its line does not rise.
    """
    rng = np.random.default_rng(seed)
    u, beta, below, text = [], [], [], []
    pairs: list[tuple[Array, Array]] = []
    texts = -1
    for chunk in trace.chunks():
        q, p = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
        token = np.argmax(np.cumsum(q, axis=-1) > rng.random((len(q), 1)), axis=-1)
        q_d, p_d = (np.take_along_axis(row, token[:, None], axis=-1)[:, 0] for row in (q, p))
        u.append(np.asarray(expected_uncertainty(chunk.draft_logits.astype(np.float64), token)))
        beta.append(np.maximum(0.0, 1.0 - p_d / q_d))
        below.append(p_d < q_d)
        for position in chunk.position:
            texts += int(position == 0)
            text.append(texts)
        if sum(len(rows) for rows, _ in pairs) < OFFLINE_TOKENS:
            pairs.append((q, p))
    uncertainty, rejection, group = np.concatenate(u), np.concatenate(beta), np.array(text)
    line = fit_linear(uncertainty, rejection)
    if not line.slope > 0:
        raise UserError(f"The rejection probability does not rise with the uncertainty (slope {line.slope:.3g}).")
    share = float(np.concatenate(below).mean())
    averse, prone = skip_thresholds(line.slope, line.intercept, share)
    q, p = (np.concatenate(rows)[:OFFLINE_TOKENS] for rows in zip(*pairs, strict=True))
    k = int(offline_size(p, q, distortion_tolerance))
    limit = _calibrated(uncertainty, rejection, group, risk)
    return Fitted(line.slope, line.intercept, share, float(averse), float(prone), limit, k)


def _calibrated(uncertainty: Array, rejection: Array, text: Array, risk: float) -> float:
    """Return the largest threshold whose expected risk per token of the next text is within the allowed risk."""
    count, length = int(text[-1]) + 1, int(np.bincount(text).max())
    if (count + 1) * risk < 1.0:
        raise UserError(
            f"The trace has {count} texts, and a risk of {risk:g} takes {int(np.ceil(1 / risk)) - 1}; collect more, or "
            "allow a larger risk."
        )
    table = np.zeros((2, count, length))
    place = np.concatenate([np.arange(n) for n in np.bincount(text)])
    table[:, text, place] = uncertainty, rejection
    grid = np.linspace(0.0, 1.0, 101)
    losses = np.asarray(threshold_losses(table[0], table[1], grid)) / length
    return float(calibrate_threshold(losses, grid, risk=risk, bound=1.0).threshold)
