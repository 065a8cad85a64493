"""The total variation of short texts of U-HLM by enumeration, beside the overlap bound and the sum of the TVs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import given, store
from hlmtheory.skipping import one_step_risk
from hlmtheory.uncertainty.binomial import skip_probability
from hlmtheory.uncertainty.perturbation import vocabulary_uncertainty
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


class Bounds(NamedTuple):
    """For texts of 1, 2, … T tokens at each threshold, arrays (T, 21): the TV, the overlap bound, and Σ_t E TV_t."""

    distance: Row
    overlap: Row
    total: Row


def bounds_of(target: Sequence[Row], draft: Sequence[Row]) -> Bounds:
    """Return the distance of U-HLM's texts from the target model's, and its bounds, at each threshold of u."""
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


def restricted_logits(model: Any, prompt: Sequence[int], tokens: Sequence[int], length: int) -> list[Row]:
    """Return the model's logits at the chosen tokens, after the prompt and after each prefix shorter than T."""
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
    each = {name: np.stack([getattr(one, name) for one in bounds]) for name in Bounds._fields}  # (prompts, T, 21)
    each["clipped"] = np.minimum(each["total"], 1.0)
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
    }


def main() -> None:
    """Enumerate, and store the numbers."""
    asked = given(__doc__, "trace", "out", models=Path, prompts=24, length=6)
    folder = asked.models
    pair = load_pair(draft=folder / "small", target=folder / "large") if folder else load_pair()
    store(asked.out, result(pair, open_trace(asked.trace), prompts=asked.prompts, length=asked.length))


if __name__ == "__main__":
    main()
