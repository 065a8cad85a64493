"""Compute the table of intervals for a pair of models from top-k log-probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory import truncation, verification
from hlmtheory.truncation.partial import partial_deviation, partial_draft
from validation.plots.common.record import Numbers, plain, sampled, table_of
from validation.plots.common.truncation.sample import SAMPLE_VALUES
from validation.trace.reader import Trace, probabilities

SIZES = (5, 20, 100, 1000)
Row = NDArray[np.float64]


def _listed(rows: Row, k: int) -> tuple[NDArray[np.int64], Row]:
    """Return the tokens and log-probabilities of the k largest entries."""
    token = np.argsort(-rows, axis=-1, kind="stable")[:, :k]
    with np.errstate(divide="ignore"):
        return token, np.log(np.take_along_axis(rows, token, axis=-1))


def _of_lists(p: Row, q: Row, k: int, quantile: Row) -> dict[str, Row]:
    """Return the listed mass and the intervals' widths from two lists of k at n positions, each of shape (n,)."""
    lists = (*_listed(p, k), *_listed(q, k), p.shape[-1])
    pair = truncation.partial_distance(*lists)
    cumulative = np.cumsum(q, axis=-1)
    draft = np.argmax(cumulative > (quantile * cumulative[:, -1])[:, None], axis=-1)
    fate = partial_draft(*lists, token=draft, uniform=0.5).probability
    found = {
        "listed target": np.exp(lists[1]).sum(axis=-1),
        "listed draft": np.exp(lists[3]).sum(axis=-1),
        "acceptance width": pair.acceptance.upper - pair.acceptance.lower,
        "largest deviation": partial_deviation(lists[3], k, p.shape[-1]).upper,
        "largest bias": truncation.partial_bias(*lists, k=k).upper,
        "bias": truncation.resampling_bias(p, q, k),
        "decided": 1.0 - (fate.upper - fate.lower),  # the share of u in [0, 1] for which the lists decide
        "known": (fate.upper == fate.lower).astype(np.float64),
        "outside": np.abs(
            np.clip(verification.acceptance_rate(p, q), pair.acceptance.lower, pair.acceptance.upper)
            - verification.acceptance_rate(p, q)
        ),
    }
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def _measured(trace: Trace, seed: int) -> dict[int, dict[str, Row]]:
    vocabulary = trace.vocabulary
    found: dict[int, list[dict[str, Row]]] = {min(k, vocabulary): [] for k in SIZES}
    rng = np.random.default_rng([seed, 1])
    for draft, target in sampled(trace, max(1, SAMPLE_VALUES // vocabulary), seed):
        q, p = probabilities(draft), probabilities(target)
        quantile = rng.random(len(q))
        for k, parts in found.items():
            parts.append(_of_lists(p, q, k, quantile))
    return {
        k: {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} for k, parts in found.items()
    }


def _spread(name: str) -> Any:
    """Return the cell of a quantity: its mean and 95th percentile."""
    return lambda one: f"{one[1][name].mean():.2g}; {np.quantile(one[1][name], 0.95):.2g}"


COLUMNS = {
    "k": lambda one: f"{one[0]:,}",
    "mass listed of q; of p": lambda one: f"{one[1]['listed draft'].mean():.1%}; {one[1]['listed target'].mean():.1%}",
    "width of the acceptance rate": _spread("acceptance width"),
    "largest Δ_k": _spread("largest deviation"),
    "largest Bias": _spread("largest bias"),
    "true Bias": _spread("bias"),
    "drafts decided": lambda one: f"{one[1]['decided'].mean():.1%}",
    "both probabilities listed": lambda one: f"{one[1]['known'].mean():.1%}",
}


def measure_table(trace: Trace, seed: int) -> Numbers:
    """Measure Table IX of ours: the widths of the intervals that top-k lists leave."""
    of_lists = _measured(trace, seed)
    title = "What the top k log-probabilities of p and q tell; mean; 95th percentile"
    lists = {
        str(k): {name: plain(values.mean(), 5) for name, values in found.items() if name != "outside"}
        | {f"{name} 95%": plain(np.quantile(found[name], 0.95), 5) for name in ("acceptance width", "largest bias")}
        for k, found in of_lists.items()
    }
    outside = plain(max(float(found["outside"].max()) for found in of_lists.values()), 2)
    return {
        "tables": [table_of(title, COLUMNS, of_lists.items())],
        "statistics": {"lists": lists, "outside": outside},
        "positions_drawn": len(next(iter(of_lists.values()))["bias"]),
    }
