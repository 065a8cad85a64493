"""Compute the table of what a running system can know: certificates of skipping and intervals of the acceptance rate.

The simulated rows are the stored result of an experiment, ``figures/studies/anytime``; this module simulates
nothing. The measured rows audit U-HLM along the texts of a trace.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.skipping import audit_bound
from hlmtheory.skipping.audit import audit_wealth
from validation.decoding.trace_drafts import Tokens, tokens_of
from validation.estimates import told
from validation.plots.common.record import Numbers, plain, table_of
from validation.plots.common.stored import read
from validation.trace.reader import Trace

STORED = Path(__file__).with_name("anytime.json")
"""Written by ``figures/studies/anytime/simulate.py``."""

RATES = (0.05, 0.1, 0.2)  # π
THRESHOLDS = (0.1, 0.2, 0.3)  # u_th of U-HLM
RISK, ERROR = 0.02, 0.05  # ε and δ
COINS = 100  # draws of the audits, for the same drafts
CHUNK = 10  # of these at a time


def stored() -> dict[str, Any]:
    return read(STORED)


def _audited(tokens: Tokens, threshold: float, rate: float, seed: int) -> dict[str, Any]:
    skipped = tokens.skipped(threshold)
    rng = np.random.default_rng([seed, 7, round(100 * threshold), round(100 * rate)])
    first, bound = [], np.nan
    for _ in range(0, COINS, CHUNK):
        losses = tokens.rejection * skipped * (rng.random((CHUNK, len(skipped))) < rate)
        enough = audit_wealth(losses, rate, RISK) >= -np.log(ERROR)
        first.append(np.where(enough.any(axis=-1), 1.0 + enough.argmax(axis=-1), np.inf))
        bound = float(audit_bound(losses[0], rate, ERROR)[-1]) if np.isnan(bound) else bound
    needed = np.concatenate(first)
    median = float(np.quantile(needed, 0.5, method="higher"))
    return {
        "threshold": threshold,
        "audit_probability": rate,
        "skipped": plain(skipped.mean(), 4),
        "sent_for_audit": plain(rate * skipped.mean(), 4),
        "risk": plain((tokens.rejection * skipped).mean(), 4),
        "certified": plain(np.isfinite(needed).mean(), 4),
        "median": int(median) if np.isfinite(median) else None,
        "bound": plain(bound, 4),
    }


COLUMNS: dict[str, str | Callable[[Any], str]] = {
    "u_th": "{threshold:g}",
    "π": "{audit_probability:g}",
    "drafts skipped without audits": "{skipped:.1%}",
    "of all drafts sent for audits": "{sent_for_audit:.1%}",
    "mean risk met": "{risk:.4f}",
    f"certified below {RISK:g}": f"{{certified:.0%}} of {COINS} audits",
    "median tokens": lambda one: told(one["median"], ","),
    "upper bound at the end, of one audit": "{bound:.4f}",
}


def measure_table(trace: Trace, seed: int) -> Numbers:
    """Return Table VII of ours: audits along the texts of a trace, and the stored simulations."""
    tokens, found = tokens_of(trace, seed), stored()
    audits = [_audited(tokens, threshold, rate, seed) for threshold in THRESHOLDS for rate in RATES]
    count = len(tokens.rows)
    title = f"Audits of U-HLM along the {count:,} tokens of the texts, δ = {ERROR:.0%}"
    return {
        "tables": [table_of(title, COLUMNS, audits)],
        "statistics": {
            "simulated": {name: found[name] for name in ("risk", "truth", "error", "tokens_to_certify")},
            "audits": audits,
        },
        "positions_drawn": count,
    }
