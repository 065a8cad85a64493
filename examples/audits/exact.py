"""The exact law of a sampler: it runs along every path of its random choices.

It must draw by ``torch.multinomial``, ``torch.rand``, ``torch.rand_like`` or ``random.random`` alone. These are
replaced: a draw from a distribution tries each token, a uniform number that is compared tries both answers.
"""

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch

Law = dict[tuple[int, ...], float]


class Paths:
    """Each run takes the next path; ``weight`` is the probability of the path taken."""

    def choose(self, weights: list[float]) -> int:
        """Return the choice of this path, and keep the others for later runs."""
        place = len(self.taken)
        choice, *others = self.given[place : place + 1] or [i for i, weight in enumerate(weights) if weight > 1e-12]
        self.left += [[*self.taken, other] for other in others]
        self.taken.append(choice)
        self.weight *= weights[choice] / sum(weights)
        return choice

    def multinomial(self, rows: Any, _: int = 1, **more: Any) -> Any:
        """Stand in for ``torch.multinomial`` with one draw of each row."""
        drawn = [self.choose(row.double().tolist()) for row in rows.reshape(-1, rows.shape[-1])]
        return torch.tensor(drawn).reshape(*rows.shape[:-1], 1)

    def uniform(self, *shape: Any, **_: Any) -> "Uniform":
        """Stand in for ``torch.rand``."""
        sizes = tuple(shape[0]) if shape and not isinstance(shape[0], int) else shape
        return Uniform(self, [[0.0, 1.0] for _ in range(torch.Size(sizes).numel())], sizes)

    def law(self, run: Callable[[], list[int]]) -> Law:
        """Return the probability of each text that ``run`` may return."""
        found: Law = defaultdict(float)
        names = {"multinomial": self.multinomial, "rand": self.uniform}
        names["rand_like"] = lambda like, **_: self.uniform(*like.shape)
        self.left: list[list[int]] = [[]]
        with patch.multiple(torch, **names), patch.object(random, "random", self.uniform), torch.inference_mode():
            while self.left:
                self.given, self.taken, self.weight = self.left.pop(), [], 1.0
                text = tuple(run())
                found[text] += self.weight
        return found


class Uniform:
    """Uniform numbers of which only an interval is known; a comparison splits it."""

    def __init__(self, paths: Paths, parts: list[list[float]], shape: tuple[int, ...], scale: Any = 1.0) -> None:
        self.paths, self.parts, self.shape, self.scale = paths, parts, shape, scale

    def __lt__(self, bound: Any) -> Any:
        answers = []
        limits = (torch.as_tensor(bound) / self.scale).double().expand(self.shape).reshape(-1).tolist()
        for part, limit in zip(self.parts, limits, strict=True):
            low, high = part
            split = min(max(limit, low), high)
            answers.append(self.paths.choose([high - split, split - low]) == 1)
            part[:] = [low, split] if answers[-1] else [split, high]
        return torch.tensor(answers).reshape(self.shape)

    def __gt__(self, bound: Any) -> Any:
        return ~(self < bound)

    __le__, __ge__ = __lt__, __gt__

    def __mul__(self, factor: Any) -> "Uniform":
        return Uniform(self.paths, self.parts, self.shape, self.scale * factor)

    def item(self) -> "Uniform":
        """Return the number as a scalar."""
        return Uniform(self.paths, self.parts, ())

    def tolist(self) -> Any:
        """Return nested lists of scalars."""
        step = len(self.parts) // self.shape[0] if self.shape else 0
        parts = [self.parts[i : i + step] for i in range(0, len(self.parts), step)] if step else []
        return [Uniform(self.paths, part, self.shape[1:]).tolist() for part in parts] if step else self.item()


def text_law(draw: Callable[[list[int]], list[int]], prompt: list[int], depth: int) -> Law:
    """Return the law of the first ``depth`` new tokens of a sampler that calls ``draw`` until it has them."""
    laws: list[Law] = [defaultdict(float) for _ in range(depth + 1)]
    laws[0][()] = 1.0
    for known in laws[:depth]:
        for text, mass in known.items():
            for more, share in Paths().law(lambda text=text: draw([*prompt, *text])).items():  # type: ignore[misc]
                longer = (*text, *more)[:depth]
                laws[len(longer)][longer] += mass * share
    return laws[depth]
