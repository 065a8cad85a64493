"""Measure forward-pass times against operation counts on this machine: edge-sd (17) and Fig. 5."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory.serving import DeviceFit, ModelShape, fit_device, forward_flops
from validation.models.devices import wait_for

BATCH_SIZES = (1, 2, 4, 8)
INPUT_TOKENS = (32, 64, 128, 256)
REPEATS, FEWEST, PATIENCE_S = 7, 3, 15.0
"""Number of rounds of a model, its minimum, and the seconds after which no round beyond the minimum starts."""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Timed forward passes of one model, as arrays of shape (n,).

    Attributes
    ----------
    model : ModelShape
    input_tokens, batch_size : array
        Input tokens and batch size of each pass.
    flops : array
        Operations for one task, by edge-sd (11).
    rounds : int
        Number of times each pass was timed.
    least, median : array
        Minimum and median over the rounds, in seconds. On a shared machine the minimum is closest to the pass's own
        time.
    """

    model: ModelShape
    input_tokens: np.ndarray[Any, Any]
    batch_size: np.ndarray[Any, Any]
    flops: np.ndarray[Any, Any]
    rounds: int
    least: np.ndarray[Any, Any]
    median: np.ndarray[Any, Any]

    @property
    def load(self) -> np.ndarray[Any, Any]:
        """Return F b, the operations of each pass."""
        return np.asarray(self.flops * self.batch_size)

    @property
    def fit(self) -> DeviceFit:
        """Return c₁ and c₂ of (17), fitted to the minimum times by least squares."""
        return fit_device(self.flops, self.batch_size, self.least)


def model_shape(model: Any) -> ModelShape:
    """Return the number of blocks and the hidden and feed-forward sizes of a transformers model."""
    config = model.config
    return ModelShape(config.num_hidden_layers, config.hidden_size, config.intermediate_size)


def measure_stage_times(
    model: Any,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    input_tokens: Sequence[int] = INPUT_TOKENS,
    *,
    repeats: int = REPEATS,
    patience_s: float = PATIENCE_S,
    seed: int = 1,
) -> StageTimes:
    """Time forward passes over random prompts: each round times every size once, after one warm-up round.

    The passes fill no cache and apply the output layer to the last token only. (11) counts neither the output layer
    nor the embedding, and only two of the three feed-forward matrices of a LLaMA block.

    Parameters
    ----------
    model : transformers model
        In eval mode, on its device.
    batch_sizes, input_tokens : sequence of int
        Every combination is timed.
    repeats : int
        Number of rounds, at least 3.
    patience_s : float
        Seconds after which no further round starts; three rounds always run.
    seed : int
        Seed of the random prompts.

    Returns
    -------
    StageTimes
    """
    import torch

    sizes = [(tokens, batch) for tokens in input_tokens for batch in batch_sizes]
    draw = torch.Generator().manual_seed(seed)
    vocabulary = model.config.vocab_size
    prompts = [torch.randint(vocabulary, (batch, tokens), generator=draw).to(model.device) for tokens, batch in sizes]
    rounds: list[list[float]] = []
    with torch.inference_mode():
        began = time.perf_counter()
        for number in range(repeats + 1):  # the first round is the warm-up
            if number <= FEWEST or time.perf_counter() - began < patience_s:
                rounds.append([_timed(model, prompt) for prompt in prompts])
    seconds = np.asarray(rounds[1:])
    tokens, batches = np.asarray(sizes).T
    shape = model_shape(model)
    flops = np.asarray(forward_flops(shape, tokens))
    return StageTimes(shape, tokens, batches, flops, len(seconds), seconds.min(axis=0), np.median(seconds, axis=0))


def _timed(model: Any, prompt: Any) -> float:
    wait_for(prompt.device)
    began = time.perf_counter()
    model(prompt, use_cache=False, logits_to_keep=1)
    wait_for(prompt.device)
    return time.perf_counter() - began
