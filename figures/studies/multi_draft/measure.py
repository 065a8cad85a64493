"""Measure how often one of n drafts of a position is accepted, for the rules of the field and the best rule."""

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch

from figures.studies.kit import given, legend, picture, read, store
from hlmtheory.verification.multi_draft import multi_draft_optimum, top_draft_optimum
from validation.collection.collect import encode_prompts
from validation.collection.prompts import builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.models.pair import load_pair
from validation.plots.common.style import COLUMN, DARK, GREY

PROMPTS, NEW, EVERY, MOST = 24, 24, 2, 8
CHILDREN, RACES = 12, 100
"""Draws of the children of a position, and of races."""
NODES = np.exp(np.arange(-10.0, 40.0, 0.25))
"""Times of a race, for integrals over ln t."""


def rows_of(pair: Any, prompts: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return p and q at the measured positions, and the number of them in each prompt."""
    target: list[np.ndarray] = []
    draft: list[np.ndarray] = []
    counts = []
    encoded = encode_prompts(pair, prompts, NEW)
    for ids, record in zip(encoded, decode(pair, prompts, FixedLength(4), new_tokens=NEW, batch=16), strict=True):
        text = torch.tensor([[*ids, *record.tokens]])
        for model, rows in ((pair.target, target), (pair.draft, draft)):
            with torch.no_grad():
                logits = model(text).logits[0, len(ids) - 1 : -1 : EVERY]
            rows.append(logits.double().softmax(-1).numpy())
        counts.append(len(rows[-1]))
    return np.concatenate(target), np.concatenate(draft), np.array(counts)


def divided(rows: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Return rows by their sums; another row where the sum is rounding alone."""
    total = rows.sum(axis=1, keepdims=True)
    return np.where(total > 1e-12, rows / np.maximum(total, 1e-300), otherwise)


def tried(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the acceptance of 1..MOST independent drafts that are tried in turn (SpecInfer), (MOST, rows)."""
    left, found = np.ones(len(p)), []
    for _ in range(MOST):
        left = left * np.maximum(q - p, 0.0).sum(axis=1)
        p = divided(np.maximum(p - q, 0.0), p)
        found.append(1.0 - left)
    return np.array(found)


def k_seq(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the acceptance of SpecTr's K-SEQ: each try with min(1, p/(ρ q)), ρ the least that leaves the law p."""
    found = []
    for n in range(1, MOST + 1):
        low, high = np.ones(len(p)), np.full(len(p), float(n))
        for _ in range(50):
            rho = (low + high) / 2.0
            each = np.minimum(q, p / rho[:, None]).sum(axis=1)
            too_small = 1.0 - (1.0 - each) ** n > rho * each
            low, high = np.where(too_small, rho, low), np.where(too_small, high, rho)
        found.append(1.0 - (1.0 - np.minimum(q, p / high[:, None]).sum(axis=1)) ** n)
    return np.array(found)


def tried_children(p: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the acceptance of children drawn without replacement and tried in turn (our tree), (MOST, rows)."""
    found, rows = np.zeros((MOST, len(p))), np.arange(len(p))
    for _ in range(CHILDREN):
        race = rng.exponential(size=q.shape) / np.maximum(q, 1e-300)
        first = np.argpartition(race, MOST, axis=1)[:, :MOST]
        first = np.take_along_axis(first, np.argsort(np.take_along_axis(race, first, 1), axis=1), 1)
        now, left, lost = p, q.copy(), np.ones(len(p))
        for n, token in enumerate(first.T):
            draft = divided(left, left)
            lost = lost * (1.0 - np.minimum(1.0, now[rows, token] / np.maximum(draft[rows, token], 1e-300)))
            found[n] += (1.0 - lost) / CHILDREN
            now = divided(np.maximum(now - draft, 0.0), now)
            left[rows, token] = 0.0
    return found


def lists(p: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return how often the server's token is among the first n of the device's race, (MOST, rows)."""
    found = np.zeros((MOST, len(p)))
    for _ in range(RACES):
        times = rng.exponential(size=q.shape)
        token = np.argmin(times / np.maximum(p, 1e-300), axis=1)
        race = times / np.maximum(q, 1e-300)
        ahead = (race < np.take_along_axis(race, token[:, None], 1)).sum(axis=1)
        found += (ahead < np.arange(1, MOST + 1)[:, None]) / RACES
    return found


def best_of_children(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return a bound on every exact rule for n children without replacement, (MOST, rows)."""
    order = np.argsort(p / np.maximum(q, 1e-300), axis=1)
    p, q = np.take_along_axis(p, order, 1), np.take_along_axis(q, order, 1)
    outside = np.flip(np.cumsum(np.flip(q, 1), axis=1), 1)
    came = np.zeros((MOST, len(p), len(NODES)))  # exactly j tokens of H came before t
    came[0] = 1.0
    best, mass = np.ones((MOST, len(p))), np.zeros(len(p))
    for v in range(p.shape[1]):
        late = np.exp(-q[:, v : v + 1] * NODES)
        came[1:] = came[1:] * late + came[:-1] * (1.0 - late)
        came[0] *= late
        mass += p[:, v]
        rest = outside[:, v + 1] if v + 1 < p.shape[1] else np.zeros(len(p))
        weight = 0.25 * NODES * rest[:, None] * np.exp(-rest[:, None] * NODES)
        within = np.einsum("jrt,rt->jr", np.maximum(1.0 - np.cumsum(came, axis=0), 0.0), weight)
        best = np.minimum(best, 1.0 + mass - np.where(rest > 0, within, 1.0))
    return best


def acceptances(p: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
    """Return the acceptance of each rule, (MOST, rows)."""
    rng, counts = np.random.default_rng(0), range(1, MOST + 1)
    return {
        "independent: best rule": np.array([multi_draft_optimum(p, q, n) for n in counts]),
        "independent: K-SEQ": k_seq(p, q),
        "independent: tried in turn": tried(p, q),
        "without replacement: no rule is better": best_of_children(p, q),
        "without replacement: tried in turn (draft tree)": tried_children(p, q, rng),
        "shared seed: a list": lists(p, q, rng),
        "sure and one drawn: best rule (draft tree, sure)": np.array([top_draft_optimum(p, q, n) for n in counts]),
    }


LINES = {
    "without replacement: no rule is better": ("black", "dotted", ""),
    "shared seed: a list": (DARK, "solid", "s"),
    "sure and one drawn: best rule (draft tree, sure)": (GREY, "solid", "o"),
    "independent: best rule": ("0.65", "dotted", ""),
    "without replacement: tried in turn (draft tree)": (GREY, "dashed", "d"),
    "independent: K-SEQ": ("0.65", "dashed", "^"),
    "independent: tried in turn": ("0.8", "dashed", "v"),
}


def draw(stored: Path) -> None:
    """Draw the acceptance by the number of drafts."""
    with picture(stored, (1.4 * COLUMN[0], 3.4)) as (figure, (axes,)):
        for rule, (color, line, mark) in LINES.items():
            found = [one[0] for one in read(stored)["rules"][rule]]
            axes.plot(range(1, len(found) + 1), found, color=color, linestyle=line, marker=mark, label=rule)
        axes.set(xlabel="drafts of a position", ylabel="one of them is accepted")
        legend(figure, (axes,), 1)


def main() -> None:
    """Measure, store and draw."""
    asked = given(__doc__, "out", prompts=PROMPTS)
    pair, prompts = load_pair("builtin"), builtin_prompts(limit=asked.prompts)
    torch.manual_seed(1)
    p, q, counts = rows_of(pair, prompts)
    ends = np.concatenate([[0], np.cumsum(counts)])
    rules = {
        rule: [astuple(ratio(one, counts.astype(np.float64))) for one in np.add.reduceat(found, ends[:-1], axis=1)]
        for rule, found in acceptances(p, q).items()
    }
    store(asked.out, {"pair": "builtin", "prompts": len(prompts), "positions": len(p), "rules": rules})
    draw(asked.out)


if __name__ == "__main__":
    main()
