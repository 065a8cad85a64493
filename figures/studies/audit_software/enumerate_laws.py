"""Enumerate the law of the first token of other people's functions: every draw and every coin is tried."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from samplers import version_of

P = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]], dtype=torch.float64)
Q = torch.tensor([[0.3, 0.4, 0.3], [0.5, 0.2, 0.3], [0.2, 0.6, 0.2]], dtype=torch.float64)


class Branches:
    """Runs a function once for each way its random choices can fall."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.taken: list[list[float]] = []

    def choose(self, probabilities: list[float]) -> int:
        """Return the choice of this run at the next place."""
        place = len(self.taken)
        self.taken.append(probabilities)
        if place == len(self.path):
            self.path.append(next(i for i, one in enumerate(probabilities) if one > 0))
        return self.path[place]

    def law(self, run: Callable[[], int], outcomes: int) -> torch.Tensor:
        """Return the probability of each outcome of ``run``."""
        found, self.path = torch.zeros(outcomes, dtype=torch.float64), []
        while True:
            self.taken = []
            outcome = run()
            weight = 1.0
            for chosen, probabilities in zip(self.path, self.taken, strict=True):
                weight *= probabilities[chosen]
            found[outcome] += weight
            while self.path:  # the next way: the last place that has another choice left
                rest = self.taken[len(self.path) - 1]
                later = [i for i in range(self.path[-1] + 1, len(rest)) if rest[i] > 0]
                if later:
                    self.path[-1] = later[0]
                    break
                self.path.pop()
            else:
                return found

    def multinomial(self, probabilities: torch.Tensor, num_samples: int = 1, **_: Any) -> torch.Tensor:
        """Stand in for ``torch.multinomial``."""
        row = probabilities.reshape(-1)
        place = self.choose((row / row.sum()).tolist())
        return torch.full((*probabilities.shape[:-1], 1), place)

    def rand(self, *_: Any, **__: Any) -> Coin:
        """Stand in for ``torch.rand`` of one number that is compared once."""
        return Coin(self)

    rand_like = rand


class Coin:
    """A uniform number whose one comparison is a choice."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches

    def _below(self, limit: Any) -> bool:
        share = min(1.0, max(0.0, float(limit)))
        return self._branches.choose([1 - share, share]) == 1

    __lt__ = __le__ = _below


def markov(table: torch.Tensor) -> Callable[[torch.Tensor], Any]:
    """Return a model whose next token depends on the last one."""
    return lambda ids: SimpleNamespace(logits=table.log()[ids])


def cases() -> dict[str, Callable[[], int]]:
    """Return each function's first token after token 0."""
    found: dict[str, Callable[[], int]] = {}
    if version_of("sequential-speculative-decoding"):
        from seqspecdecod.capped_hsd import capped_hsd_step
        from seqspecdecod.naive_hsd import naive_hsd_step
        from seqspecdecod.standard_sd import standard_speculative_step

        for step in (standard_speculative_step, naive_hsd_step, capped_hsd_step):
            for gamma in (1, 2, 3):

                def run(step: Any = step, gamma: int = gamma) -> int:
                    ids = torch.tensor([[0]])
                    heat = {"draft_temperature": 1.0, "target_temperature": 1.0}
                    return int(step(markov(Q), markov(P), ids, gamma=gamma, **heat)[0][0, 1])

                found[f"sequential-speculative-decoding: {step.__name__}, gamma = {gamma}"] = run
    if version_of("rotalabs-accel"):
        from rotalabs_accel.speculative import rejection_sample

        def one() -> int:
            draft = torch.multinomial(Q[0], 1)[0]
            return int(rejection_sample(P[0, draft], Q[0, draft], draft, P[0].log())[1])

        found["rotalabs-accel: rejection_sample"] = one
    return found


def main() -> None:
    """Write the law of each function, and its distance from the target's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    answers = []
    for name, run in cases().items():
        branches = Branches()
        answer: dict[str, Any] = {"case": name, "version": version_of(name.split(":")[0]), "target": P[0].tolist()}
        try:
            with (
                patch.object(torch, "multinomial", branches.multinomial),
                patch.object(torch, "rand", branches.rand),
                patch.object(torch, "rand_like", branches.rand_like),
            ):
                law = branches.law(run, 3)
            distance = float(0.5 * (law - P[0]).abs().sum())
            answer |= {"law": law.tolist(), "total": float(law.sum()), "total_variation": distance}
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            answer["raised"] = f"{type(error).__name__}: {error}"
        answers.append(answer)
        print(answer)
    parser.parse_args().out.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
