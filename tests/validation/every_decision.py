"""Every random decision of the tree loop: all texts that it can write, with their exact law.

A decision is a choice between events of known probabilities. A run is repeated once for each sequence of choices, and
its weight is the product of their probabilities. So the law is that of the loop's own code, for any tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.random_streams import Chance, Noise
from validation.models.pair import Pair

Law = dict[tuple[int, ...], float]


@dataclass
class Script:
    given: list[int]
    taken: list[tuple[int, int]] = field(default_factory=list)  # the choice, and of how many
    weight: float = 1.0

    def choose(self, probabilities: Sequence[float]) -> int:
        place = len(self.taken)
        choice = self.given[place] if place < len(self.given) else 0
        self.taken.append((choice, len(probabilities)))
        self.weight *= probabilities[choice]
        return choice

    def following(self) -> list[int] | None:
        rest = list(self.taken)
        while rest and rest[-1][0] + 1 == rest[-1][1]:
            rest.pop()
        return [choice for choice, _ in rest[:-1]] + [rest[-1][0] + 1] if rest else None


class Scripted(Chance):
    def __init__(self, script: Script) -> None:
        self.script = script

    def happens(self, part: float, whole: float) -> bool:
        probability = min(1.0, part / whole) if whole > 0 else 0.0
        if probability in (0.0, 1.0):
            return probability == 1.0
        return self.script.choose([probability, 1.0 - probability]) == 0

    def token(self, weights: np.ndarray) -> int:
        (some,) = np.nonzero(weights)
        if len(some) == 1:
            return int(some[0])
        return int(some[self.script.choose((weights[some] / weights.sum()).tolist())])


class ScriptedNoise(Noise):
    def __init__(self, script: Script, names: Sequence[str], positions: int) -> None:
        super().__init__(0, names, positions)
        self.script = script

    def chance(self, sequence: int, position: int) -> Chance:
        return Scripted(self.script)


def every_outcome(run: Callable[[Script], tuple[int, ...]]) -> Law:
    law: Law = {}
    given: list[int] | None = []
    while given is not None:
        script = Script(given)
        found = run(script)
        law[found] = law.get(found, 0.0) + script.weight
        given = script.following()
    return law


def tree_law(pair: Pair, method: Method, positions: int, *, prompt: str = "0", **options: Any) -> Law:
    def run(script: Script) -> tuple[int, ...]:
        def noise(seed: int, names: Sequence[str], count: int) -> Noise:
            return ScriptedNoise(script, names, count)

        (row,) = decode(pair, [Prompt("0", prompt, "all")], method, new_tokens=positions, noise=noise, **options)
        return tuple(row.tokens)

    return every_outcome(run)
