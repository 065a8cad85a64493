"""The exact law of a sampler: it runs along every path of its random choices.

The random numbers of torch and of ``random`` are replaced: a draw from a distribution tries each token, a uniform
number that is compared tries both answers.
"""

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch


class Paths:
    """Each run takes the next path; ``weight`` is the probability of the path taken."""

    def __init__(self) -> None:
        self.left: list[list[int]] = [[]]

    def choose(self, weights: list[float]) -> int:
        """Return the choice of this path, and keep the others for later runs."""
        place = len(self.taken)
        if place < len(self.given):
            choice = self.given[place]
        else:
            choice, *others = [i for i, weight in enumerate(weights) if weight > 1e-12]
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

    def law(self, run: Callable[[], list[int]]) -> dict[tuple[int, ...], float]:
        """Return the probability of each text that ``run`` may return."""
        found: dict[tuple[int, ...], float] = {}
        names = {"multinomial": self.multinomial, "rand": self.uniform}
        names["rand_like"] = lambda like, **_: self.uniform(*like.shape)
        with patch.multiple(torch, **names), patch.object(random, "random", self.uniform), torch.inference_mode():
            while self.left:
                self.given, self.taken, self.weight = self.left.pop(), [], 1.0
                text = tuple(run())
                found[text] = found.get(text, 0.0) + self.weight
        return found


class Uniform:
    """Uniform numbers of which only an interval is known; a comparison splits it."""

    def __init__(self, paths: Paths, parts: list[list[float]], shape: tuple[int, ...], scale: Any = 1.0) -> None:
        self.paths, self.parts, self.shape, self.scale = paths, parts, shape, scale

    def __lt__(self, bound: Any) -> Any:
        bounds = (torch.as_tensor(bound).double() / self.scale).expand(self.shape).reshape(-1).tolist()
        answers = [self._below(*pair) for pair in zip(self.parts, bounds, strict=True)]
        return torch.tensor(answers).reshape(self.shape)

    def _below(self, part: list[float], bound: float) -> bool:
        low, high = part
        split = min(max(bound, low), high)
        answer = self.paths.choose([high - split, split - low]) == 1
        part[:] = [low, split] if answer else [split, high]
        return answer

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
        if not self.shape:
            return self.item()
        step = len(self.parts) // self.shape[0]
        parts = [self.parts[i * step : (i + 1) * step] for i in range(self.shape[0])]
        return [Uniform(self.paths, part, self.shape[1:]).tolist() for part in parts]


def text_law(draw: Callable[[list[int]], list[int]], prompt: list[int], depth: int) -> dict[tuple[int, ...], float]:
    """Return the law of the first ``depth`` new tokens of a sampler that calls ``draw`` until it has them."""
    laws: list[dict[tuple[int, ...], float]] = [{} for _ in range(depth + 1)]
    laws[0][()] = 1.0
    for known in laws[:depth]:
        for text, mass in known.items():
            for more, share in Paths().law(lambda text=text: draw([*prompt, *text])).items():  # type: ignore[misc]
                longer = (*text, *more)[:depth]
                laws[len(longer)][longer] = laws[len(longer)].get(longer, 0.0) + mass * share
    return laws[depth]
