"""Parameters of methods, fitted to a trace and stored in one file of a run: ``RUN/decoded/fitted.json``.

Texts and figures of a run use this fit. Its fingerprint stands beside every number that was published.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.skipping import skip_thresholds
from hlmtheory.skipping.calibration import calibrate_threshold, threshold_losses
from validation.collection.fingerprint import weights_mark
from validation.decoding.methods.registry import Fitted
from validation.decoding.trace_drafts import Tokens, along_texts, offline_k, paper_line, tokens_of
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.reader import Trace
from validation.trace.sealed import read_sealed, write_sealed

FIT_FILE = Path("decoded") / "fitted.json"
MODEL_KEYS = {"small_name": "the draft model", "large_name": "the target model", "vocabulary": "a vocabulary of"}
"""Keys of a manifest that tell two pairs apart, in words."""


def fit(trace: Trace, *, distortion_tolerance: float = 0.1, risk: float = 0.05, seed: int = 1) -> Fitted:
    """Fit the papers' line and thresholds, k* by θ of cu-hlm (21), and a threshold by conformal risk control.

    ``risk`` is the largest allowed mean rejection risk of a token of the next text under the calibrated threshold; it
    needs at least 1/risk - 1 texts.
    """
    tokens = tokens_of(trace, seed)
    line = paper_line(tokens)
    if line is None or not line[0] > 0:
        reason = "u is constant" if line is None else f"slope {line[0]:.3g}"
        raise UserError(f"The rejection probability does not rise with the uncertainty ({reason}).")
    share = float(np.mean(tokens.rejection > 0))
    averse, prone = skip_thresholds(*line, non_acceptance=share)
    k = offline_k(trace, distortion_tolerance)
    return Fitted(*line, share, float(averse), float(prone), _calibrated(tokens, risk), 0 if k is None else k)


def _calibrated(tokens: Tokens, risk: float) -> float:
    prompts = len(np.unique(tokens.prompt))
    if (prompts + 1) * risk < 1.0:
        raise UserError(
            f"The trace has {prompts} prompts, and a risk of {risk:g} takes {int(np.ceil(1 / risk)) - 1}; collect "
            "more, or allow a larger risk."
        )
    both = (tokens.uncertainty, tokens.rejection)
    uncertainty, rejection = (along_texts(values, tokens.text, 0.0) for values in both)
    grid = np.linspace(0.0, 1.0, 101)
    losses = np.asarray(threshold_losses(uncertainty, rejection, grid)) / uncertainty.shape[1]
    return float(calibrate_threshold(losses, grid, risk=risk, bound=1.0, prompt=tokens.prompt_of_text).threshold)


def fitted_to(trace: Trace, file: Path) -> Fitted:
    if (stored := _read(trace, file)) is not None:
        return stored
    fitted = fit(trace)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(file, {"trace": _mark(trace), "fitted": asdict(fitted)})
    return fitted


def of_other_models(trace: Trace, pair: Pair) -> str:
    """Return a remark if the trace, to which thresholds are fitted, is of other models or prompts; else an empty one.

    A model whose weights are those of the trace is the same under any name.
    """
    named, now = trace.manifest.get("pair", {}), pair.describe()
    known = trace.manifest.get("settings") or {}
    weights = {"small_name": ("small_weights", pair.draft), "large_name": ("large_weights", pair.target)}

    def same(key: str) -> bool:
        if key not in named or named[key] == now[key]:
            return True
        stored, model = weights.get(key, ("", None))
        return stored in known and known[stored] == weights_mark(model)

    remarks = []
    if keys := [key for key in MODEL_KEYS if not same(key)]:
        told = " and ".join(f"{MODEL_KEYS[key]} {named[key]} (here {now[key]})" for key in keys)
        remarks = [f"of {told}. Give --run the run of these models to fit to them."]
    if named.get("chat", False) != now.get("chat", False):
        there, here = ("with", "without") if named.get("chat") else ("without", "with")
        remarks.append(f"collected {there} --chat, and these prompts are given {here} it.")
    return f"Thresholds are fitted to {trace.path}, {' It was '.join(remarks)}" if remarks else ""


def fit_mark(fitted: Mapping[str, Any]) -> str:
    plain = {name: None if value is None else float(value) for name, value in fitted.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def stored_fit(trace: Trace) -> str | None:
    """Return the fingerprint of the fit that is stored beside a trace; None if none of this trace is."""
    if not isinstance(trace.path, Path):  # a run is stored in a folder
        return None
    stored = _read(trace, trace.path.parent / FIT_FILE)
    return None if stored is None else fit_mark(asdict(stored))


def _read(trace: Trace, file: Path) -> Fitted | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, UserError, KeyError, TypeError):
        if (there := read_sealed(file))["trace"] == _mark(trace):
            return Fitted(**there["fitted"])
    return None


def _mark(trace: Trace) -> dict[str, Any]:
    return {"created": trace.manifest.get("created"), "positions": trace.positions}
