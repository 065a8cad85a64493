"""The total variation of short texts of U-HLM by enumeration, beside the overlap bound and the sum of the TVs.

A pair of models is restricted to six tokens: after each prefix, the logits of both models at these tokens are taken and
normalised. What remains is a chain in which every token depends on the whole prefix, with 6^T texts of T tokens. After
each prefix the law of U-HLM's next token is known exactly, because the probability of each value of u is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import one_step_risk
from hlmtheory.uncertainty import skip_probability, vocabulary_uncertainty
from hlmtheory.verification import output_distribution, softmax
from validation.collection.collect import encode_prompts
from validation.collection.prompts import Prompt
from validation.models.pair import Pair, load_pair
from validation.plots.common.record import plain
from validation.trace.reader import Trace, open_trace, probabilities

if TYPE_CHECKING:
    import torch

Row = NDArray[np.float64]

SIZE = 6
"""Tokens that both models are restricted to."""

DRAWS = 20
THRESHOLDS = np.arange(DRAWS + 1) / DRAWS
BATCH = 36
"""Prefixes that are continued together, each by every token."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """For texts of 1, 2, … T tokens at each threshold, arrays (T, 21): the TV, the overlap bound, and Σ_t E TV_t."""

    distance: Row
    overlap: Row
    total: Row

    @property
    def clipped(self) -> Row:
        """min(1, Σ_t E TV_t)."""
        return np.minimum(self.total, 1.0)


def bounds_of(target: Sequence[Row], draft: Sequence[Row]) -> Bounds:
    """The distance of U-HLM's texts from the target model's, and its bounds, at each threshold of u.

    Parameters
    ----------
    target, draft : sequence of array
        Logits after each prefix of 0, 1, … T - 1 tokens, shapes (V^t, V). The prefixes are in the order of their
        tokens, the last one varying fastest.

    Returns
    -------
    Bounds
    """
    theirs, ours, common = np.ones(1), *2 * [np.ones((len(THRESHOLDS), 1))]
    distances, overlaps, steps = [], [], []
    for target_logits, draft_logits in zip(target, draft, strict=True):
        p, q = softmax(target_logits), softmax(draft_logits)
        skip = skip_probability(vocabulary_uncertainty(draft_logits), THRESHOLDS[:, None, None], DRAWS)
        law = output_distribution(p, q, skip=skip)
        steps.append(np.sum(theirs * one_step_risk(p, q, skip), axis=-1))
        theirs = np.ravel(theirs[:, None] * p)
        ours, common = (
            (mass[..., None] * rows).reshape(len(mass), -1)
            for mass, rows in ((ours, law), (common, np.minimum(p, law)))
        )
        distances.append(0.5 * np.abs(theirs - ours).sum(axis=-1))
        overlaps.append(1.0 - common.sum(axis=-1))
    return Bounds(np.stack(distances), np.stack(overlaps), np.cumsum(steps, axis=0))


# ------------------------------------------------------------------------------------------- the models


def restricted_logits(model: Any, prompt: Sequence[int], tokens: Sequence[int], length: int) -> list[Row]:
    """Return the model's logits at the chosen tokens, after the prompt and after each prefix shorter than ``length``.

    Parameters
    ----------
    model : transformers model
    prompt, tokens : sequence of int
    length : int

    Returns
    -------
    list of array
        As :func:`bounds_of` takes them.
    """
    import torch

    found = [np.empty((len(tokens) ** depth, len(tokens))) for depth in range(length)]
    with torch.inference_mode():
        begun = model(torch.tensor([list(prompt)]), use_cache=True)
        _continue(model, begun, torch.tensor(list(tokens)), found, 0, 0)
    return found


def _continue(model: Any, output: Any, tokens: torch.Tensor, found: list[Row], depth: int, first: int) -> None:
    """Store the logits of prefixes, the first of which has the number ``first``, and go on with each token."""
    import torch

    logits = output.logits[:, -1, tokens].double().numpy()
    count, size = logits.shape
    found[depth][first : first + count] = logits
    if depth + 1 == len(found):
        return
    for start in range(0, count, BATCH):
        chosen = torch.arange(start, min(start + BATCH, count)).repeat_interleave(size)
        after = tokens.repeat(len(chosen) // size)[:, None]
        longer = model(after, past_key_values=_rows_of(output.past_key_values, chosen), use_cache=True)
        _continue(model, longer, tokens, found, depth + 1, (first + start) * size)


def _rows_of(cache: Any, rows: torch.Tensor) -> Any:
    """Return a copy of chosen rows of a cache of keys and values; the cache does not change."""
    chosen = copy(cache)
    chosen.layers = [copy(layer) for layer in cache.layers]
    chosen.batch_select_indices(rows)  # makes new arrays
    return chosen


# ------------------------------------------------------------------------------------------- the experiment


def likeliest_tokens(trace: Trace, prompt: int, excluded: Sequence[int]) -> tuple[list[int], float]:
    """The six tokens that the target model's mean along the texts of a prompt likes most, and their mass in it."""
    rows = np.flatnonzero(np.asarray(trace.arrays["prompt_index"][:]) == prompt)
    mean = probabilities(np.array(trace.arrays["target_logits"][rows])).mean(axis=0)
    mean[list(excluded)] = 0.0
    tokens = np.argsort(-mean, kind="stable")[:SIZE]
    return tokens.tolist(), float(mean[tokens].sum())


def result(pair: Pair, trace: Trace, *, prompts: int, length: int) -> dict[str, Any]:
    """The distances and bounds over evenly spaced prompts of a trace, as the stored file holds them."""
    about = [Prompt(**found) for found in trace.manifest["prompts"]]
    chosen = (np.arange(prompts) * len(about) // prompts).tolist()
    encoded = encode_prompts(pair, [about[index] for index in chosen], length)
    bounds, masses = [], []
    for index, prompt in zip(chosen, encoded, strict=True):
        tokens, mass = likeliest_tokens(trace, index, pair.end_tokens)
        logits = [restricted_logits(model, prompt, tokens, length) for model in (pair.target, pair.draft)]
        bounds.append(bounds_of(*logits))
        masses.append(mass)
        print(f"prompt {len(bounds)} of {prompts}", flush=True)
    names = ("distance", "overlap", "clipped", "total")
    each = {name: np.stack([getattr(one, name) for one in bounds]) for name in names}  # (prompts, T, 21)
    return {
        "pair": pair.name,
        "vocabulary": pair.vocabulary,
        "tokens_kept": SIZE,
        "mass_kept": plain(np.mean(masses), 4),
        "prompts": prompts,
        "thresholds": THRESHOLDS.tolist(),
        "texts": [
            {"length": at + 1} | {name: plain(values[:, at].mean(axis=0), 6) for name, values in each.items()}
            for at in range(length)
        ],
        "of_each_prompt": {name: plain(values[:, -1], 5) for name, values in each.items() if name != "total"},
    } | _compared(each)


def _compared(each: dict[str, Row]) -> dict[str, Any]:
    """How often a bound is below what it bounds, and how far above, where something is lost."""
    distance, overlap, clipped = (each[name] for name in ("distance", "overlap", "clipped"))
    some = distance[:, -1] > 1e-6
    ratios = [np.quantile(bound[:, -1][some] / distance[:, -1][some], (0.0, 0.5, 1.0)) for bound in (overlap, clipped)]
    return {
        "compared": int(np.prod(distance.shape)),
        "overlap_below_distance": int(np.sum(overlap < distance - 1e-12)),
        "clipped_below_overlap": int(np.sum(clipped < overlap - 1e-12)),
        "overlap_over_distance": plain(ratios[0], 4),
        "clipped_over_distance": plain(ratios[1], 4),
    }


def main() -> None:
    """Enumerate, and store the numbers beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, required=True, help="texts and prompts of the pair")
    parser.add_argument("--models", type=Path, help="folder with small and large; the built-in pair if left out")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--length", type=int, default=6, help="T")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    begun = time.perf_counter()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    pair = load_pair(draft=given.models / "small", target=given.models / "large") if given.models else load_pair()
    found = result(pair, open_trace(given.trace), prompts=given.prompts, length=given.length)
    models = f" --models {given.models}" if given.models else ""
    about = {
        "command": f"python3 figures/studies/text_enumeration/enumeration.py --trace {given.trace}{models} "
        f"--prompts {given.prompts} --length {given.length} --out {given.out}",
        "commit": commit,
        "seconds": round(time.perf_counter() - begun),
    }
    given.out.write_text(json.dumps(about | found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
