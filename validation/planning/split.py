"""The split of a plan's texts by prompt: to choose, to calibrate, to predict.

Texts of one prompt are alike, so every promise, prediction and interval counts prompts.
"""

from dataclasses import dataclass

import numpy as np

from validation.arrays import Array

PARTS = ("train", "calibrate", "test")


@dataclass(frozen=True, slots=True)
class Split:
    """Texts of a plan: to choose, to calibrate, to predict; all of them where there are too few prompts to split."""

    train: Array  # Numbers of the texts of each part
    calibrate: Array  # Numbers of the texts of each part
    test: Array  # Numbers of the texts of each part
    enough: bool  # Whether there were enough prompts to split
    prompt: Array  # (texts,): number of each text's prompt

    @property
    def prompts(self) -> dict[str, int]:
        return {part: len(np.unique(self.prompt[getattr(self, part)])) for part in PARTS}

    def sums(self, values: Array, texts: Array) -> Array:
        """Return the sums over the texts of each prompt, (prompts, ...), of values (texts, ...) of all texts."""
        return self._grouped(values, texts)[0]

    def means(self, values: Array, texts: Array) -> Array:
        """Return the means over the texts of each prompt, (prompts, ...), of values (texts, ...) of all texts."""
        sums, texts_of = self._grouped(values, texts)
        return np.asarray(sums / texts_of.reshape(-1, *(1,) * (values.ndim - 1)))

    def _grouped(self, values: Array, texts: Array) -> tuple[Array, Array]:
        prompt = self.prompt[texts]
        texts_of = np.bincount(prompt)
        sums = np.zeros((len(texts_of), *values.shape[1:]))
        np.add.at(sums, prompt, values[texts])
        return sums[texts_of > 0], texts_of[texts_of > 0]


def split_prompts(prompts: Array, seed: int = 1) -> Split:
    """Return the texts split by prompt into three parts; texts of one prompt stay together."""
    names, prompt = np.unique(prompts, return_inverse=True)
    every = np.arange(len(prompt))
    if len(names) < len(PARTS):
        return Split(every, every[:0], every, enough=False, prompt=prompt)
    part = np.empty(len(names), dtype=np.int64)
    part[np.random.default_rng(seed).permutation(len(names))] = np.arange(len(names)) % len(PARTS)
    train, calibrate, test = (every[part[prompt] == number] for number in range(len(PARTS)))
    return Split(train, calibrate, test, enough=True, prompt=prompt)
