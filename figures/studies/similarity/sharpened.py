"""Does skipping verification sharpen the law of a token? Exact one-step laws at positions of a trace; run by hand.

PYTHONPATH=. python3 figures/studies/similarity/sharpened.py TRACE similarity.json [--positions 1000]

At each position the draft d is drawn from q, and U-HLM keeps it without verification if u(d) ≤ u_th; otherwise it is
accepted with probability min(1, p_d / q_d), and a rejected draft is replaced by a token of norm((p - q)⁺). The law e of
the emitted token is summed over all d, with u(d) by quadrature, so that nothing is sampled. Compared are the entropy of
e and its cross-entropy to p, the nats a token that a text's perplexity averages, with those of p, of q, and of the
target model at lower temperatures. Two rivals separate the causes: the same number of skips drawn without a look at d,
and all drafts kept (e = q).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from hlmtheory.uncertainty import MAX_TEMPERATURE
from validation.decoding.fit_file import FIT_FILE, fit_mark, fitted_to
from validation.plots.common.record import plain
from validation.trace.identity import fingerprint
from validation.trace.reader import Trace, open_trace, probabilities

Array = NDArray[np.float64]
TEMPERATURES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)
NODES = 24  # of Gauss-Legendre over the temperatures of the perturbation
ROWS = 64


def uncertainties(logits: Array) -> Array:
    """Return u(d) of every token d: one minus its mean probability over temperatures from 0 to the largest."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    found = np.zeros_like(logits)
    for node, weight in zip((nodes + 1.0) * MAX_TEMPERATURE / 2.0, weights / 2.0, strict=True):
        scaled = (logits - logits.max(axis=-1, keepdims=True)) / node
        rows = np.exp(scaled)
        found += weight * rows / rows.sum(axis=-1, keepdims=True)
    return 1.0 - found


def emitted(p: Array, q: Array, kept: Array) -> Array:
    """Return the law of the emitted token if a draft d is kept without verification with probability kept[d].

    >>> emitted(np.array([[0.5, 0.5]]), np.array([[0.75, 0.25]]), np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    >>> emitted(np.array([[0.5, 0.5]]), np.array([[0.75, 0.25]]), np.ones((1, 2))).tolist()
    [[0.75, 0.25]]
    """
    accepted = (1.0 - kept) * np.minimum(p, q)
    rejected = ((1.0 - kept) * np.maximum(q - p, 0.0)).sum(axis=-1, keepdims=True)
    residual = np.maximum(p - q, 0.0)
    mass = residual.sum(axis=-1, keepdims=True)
    return np.asarray(kept * q + accepted + rejected * residual / np.where(mass > 0, mass, 1.0))


def nats(law: Array, p: Array) -> tuple[Array, Array]:
    """Return the entropy of a law, and its cross-entropy to p."""
    return entr(law).sum(axis=-1), -(law * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


def measure(trace: Trace, positions: int, thresholds: dict[str, float]) -> dict[str, Any]:
    """Return means over evenly spaced positions, with 95% intervals over prompts."""
    rows = np.unique(np.linspace(0, trace.positions - 1, positions).astype(np.int64))
    prompts = np.asarray(trace.arrays["prompt_index"][:])[rows]
    found: dict[str, list[tuple[Array, Array, Array]]] = {}
    for part in np.array_split(rows, max(1, len(rows) // ROWS)):
        q_logits, p_logits = (
            np.array([trace.arrays[name][int(row)] for row in part]) for name in ("draft_logits", "target_logits")
        )
        q, p = probabilities(q_logits), probabilities(p_logits)
        u = uncertainties(q_logits.astype(np.float64))
        laws: dict[str, tuple[Array, Array]] = {"target": (p, np.zeros(len(p))), "draft": (q, np.ones(len(p)))}
        for name, threshold in thresholds.items():
            kept = (u <= threshold).astype(np.float64)
            share = (kept * q).sum(axis=-1)
            laws[f"U-HLM, {name}"] = emitted(p, q, kept), share
            laws[f"as many skips at random, {name}"] = emitted(p, q, np.repeat(share[:, None], q.shape[-1], 1)), share
        for temperature in TEMPERATURES[1:]:
            sharp = p ** (1.0 / temperature)
            laws[f"target at temperature {temperature:g}"] = sharp / sharp.sum(axis=-1, keepdims=True), np.zeros(len(p))
        for name, (law, share) in laws.items():
            found.setdefault(name, []).append((*nats(law, p), share))
    whole = {name: [np.concatenate(column) for column in zip(*parts, strict=True)] for name, parts in found.items()}
    base = whole["target"]
    return {
        name: {
            "skipped": plain(columns[2].mean(), 5),
            "entropy": plain(columns[0].mean(), 5),
            "cross_entropy": plain(columns[1].mean(), 5),
            "cross_entropy_less_target": plain(interval(columns[1] - base[1], prompts), 4),
            "entropy_less_target": plain(interval(columns[0] - base[0], prompts), 4),
        }
        for name, columns in whole.items()
    }


def interval(values: Array, prompts: NDArray[np.int64], draws: int = 2_000) -> tuple[float, float, float]:
    """Return the mean with the 95% interval of a bootstrap over prompts."""
    index = np.unique(prompts, return_inverse=True)[1]
    sums, counts = np.bincount(index, values), np.bincount(index)
    picks = np.random.default_rng(1).integers(0, len(sums), (draws, len(sums)))
    low, high = np.quantile(sums[picks].sum(axis=1) / counts[picks].sum(axis=1), [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--positions", type=int, default=1_000)
    given = parser.parse_args()
    trace = open_trace(given.trace)
    fitted = fitted_to(trace, given.trace.parent / FIT_FILE)
    thresholds = {"calibrated": fitted.calibrated, "0.8": 0.8, "risk-prone": fitted.risk_prone}
    about = {
        "kind": "measured",
        "pair": trace.manifest.get("pair", {}).get("name"),
        "trace": fingerprint(trace),
        "fit": fit_mark({name: getattr(fitted, name) for name in fitted.__slots__}),
        "positions": given.positions,
        "thresholds": plain(list(thresholds.values()), 5),
    }
    laws = measure(trace, given.positions, thresholds)
    given.out.write_text(json.dumps(about | {"laws": laws}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, one in laws.items():
        print(f"{name:45s}", one)


if __name__ == "__main__":
    main()
