"""Parameters of methods, fitted to a trace: the line, the thresholds and the sizes."""

from __future__ import annotations

import numpy as np

from hlmtheory.skipping import calibrate_threshold, skip_thresholds, threshold_losses
from validation.decoding.methods.registry import Fitted
from validation.decoding.trace_drafts import Tokens, offline_k, paper_line, tokens_of
from validation.errors import UserError
from validation.trace.reader import Trace


def fit(trace: Trace, *, distortion_tolerance: float = 0.1, risk: float = 0.05, seed: int = 1) -> Fitted:
    """Fit the papers' line and thresholds, the top-k k*, and a threshold by conformal risk control.

    At each position a draft is drawn from the draft model's distribution at temperature 1; its uncertainty is that of
    20 perturbed draws (:func:`~validation.decoding.trace_drafts.tokens_of`). k* is fitted to the whole trace.

    Parameters
    ----------
    distortion_tolerance : float
        θ of cu-hlm (21).
    risk : float
        Largest allowed mean rejection risk of a token of the next text under the calibrated threshold. It needs at
        least 1/risk - 1 texts.
    seed : int
        Of the drawn drafts.
    """
    tokens = tokens_of(trace, seed)
    line = paper_line(tokens)
    if line is None or not line[0] > 0:
        found = "u is constant" if line is None else f"slope {line[0]:.3g}"
        raise UserError(f"The rejection probability does not rise with the uncertainty ({found}).")
    share = float(np.mean(tokens.rejection > 0))
    averse, prone = skip_thresholds(*line, non_acceptance=share)
    k = offline_k(trace, distortion_tolerance)
    limit = _calibrated(tokens, risk)
    return Fitted(*line, share, float(averse), float(prone), limit, 0 if k is None else k)


def _calibrated(tokens: Tokens, risk: float) -> float:
    """Return the largest threshold whose expected risk per token of the next prompt is within the allowed risk."""
    prompts = len(np.unique(tokens.prompt))
    if (prompts + 1) * risk < 1.0:
        raise UserError(
            f"The trace has {prompts} prompts, and a risk of {risk:g} takes {int(np.ceil(1 / risk)) - 1}; collect "
            "more, or allow a larger risk."
        )
    uncertainty, rejection = (tokens.along_texts(values, 0.0) for values in (tokens.uncertainty, tokens.rejection))
    grid = np.linspace(0.0, 1.0, 101)
    losses = np.asarray(threshold_losses(uncertainty, rejection, grid)) / uncertainty.shape[1]
    return float(calibrate_threshold(losses, grid, risk=risk, bound=1.0, prompt=tokens.prompt_of_text).threshold)
