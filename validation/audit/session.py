"""The audit itself: it takes draws chunk by chunk, and says at any time what is known.

Lower bounds on the distance are those of :class:`hlmtheory.lossless.LawTest`: they hold for all depths, for single
tokens and jointly, and at all times at once. Memory does not grow with the number of draws.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hlmtheory.lossless import LawTest
from hlmtheory.lossless.power import distance_ceiling
from validation.audit.laws import Law, extended_rows
from validation.audit.partition import Partition
from validation.audit.tests_of_law import JointTests, TokenTests
from validation.errors import UserError

Array = NDArray[Any]
KEPT, NOT_KEPT, UNDECIDED = "kept", "not kept", "not enough draws"
FIRST_CHUNK, LARGEST_CHUNK, GROWTH = 64, 4096, 4
VALUES = 2**23  # probabilities in memory at a time


@dataclass(frozen=True)
class DepthBound:
    """What is known of one depth: at least this far apart, with simultaneous confidence over depths, kinds and time."""

    depth: int
    kind: str  # "token": given the sampler's own prefixes; "joint": the first ``depth`` tokens together
    at_least: float
    log_wealth: float


@dataclass(frozen=True)
class Witness:
    """A prefix and a token whose share in the draws is far from the target's probability."""

    prompt: int
    prefix: tuple[int, ...]
    token: int
    seen: int
    draws: int
    expected: float  # the target's probability
    z: float


@dataclass(frozen=True)
class AuditReport:
    """What an audit knows."""

    verdict: str
    draws: int
    depth: int
    level: float
    epsilon: float
    bounds: tuple[DepthBound, ...]
    at_least: float
    at_most: float
    complete: bool
    cells: int
    found_after: int | None
    witnesses: tuple[Witness, ...] = ()
    mechanisms: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass
class Audit:
    """An audit of one sampler against one law.

    Parameters
    ----------
    law : Law
    depth : int
        D, the number of tokens of each continuation.
    level : float
        Probability of a wrong accusation, over all depths and whenever one looks.
    epsilon : float
        The law counts as kept if the distance of the joint laws of D tokens is at most this.
    tolerance : float
        Distances up to this are put down to rounding in the target's rows.
    most_cells : int
        Leaves of the partition of a prompt's continuations.
    """

    law: Law
    depth: int = 4
    level: float = 0.001
    epsilon: float = 0.05
    tolerance: float = 1e-6
    most_cells: int = 20_000
    draft: Law | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare the tests."""
        if not 0 < self.level < 1 or not 0 < self.epsilon < 1 or self.depth < 1:
            raise UserError("level and epsilon must be in (0, 1), and depth at least 1.")
        each = max(16, self.most_cells // max(1, len(self.law.prompts)))
        self._partitions = [Partition(self.law, c, self.depth, each) for c in range(len(self.law.prompts))]
        share = self.level / (2 * self.depth)
        self._token = [TokenTests(self.law, t) for t in range(self.depth)]
        self._joint = [JointTests(self._partitions, t) for t in range(self.depth)]
        self._token_laws = [LawTest(TokenTests.count, share) for _ in range(self.depth)]
        self._joint_laws = [LawTest(JointTests.count, share) for _ in range(self.depth)]
        self.draws = 0
        self.found_after: int | None = None
        self._best: dict[tuple[str, int], float] = {}
        self._looks = 0
        self._at_most = 1.0

    def update(self, prompt: int, tokens: ArrayLike) -> None:
        """Take draws (n, D) of one prompt, in the order in which they were made; V stands for "nothing" after the end.

        Raises
        ------
        UserError
            If a token is not in the vocabulary, or the shape is wrong.
        """
        given = np.asarray(tokens, dtype=np.int64)
        if given.ndim != 2 or given.shape[1] != self.depth:
            raise UserError(f"The draws have the shape {given.shape}; it must be (n, {self.depth}).")
        if given.size and (given.min() < 0 or given.max() > self.law.vocabulary):
            raise UserError(f"A token is outside 0..{self.law.vocabulary - 1}.")
        start = 0
        limit = max(1, VALUES // (self.depth * (self.law.vocabulary + 1)))
        while start < len(given):
            size = min(max(FIRST_CHUNK, self.draws // GROWTH), LARGEST_CHUNK, limit)
            self._chunk(prompt, given[start : start + size])
            start += size

    def _chunk(self, prompt: int, tokens: Array) -> None:
        rows = extended_rows(self.law, prompt, tokens)
        probabilities = np.take_along_axis(rows, tokens[..., None], axis=-1)[..., 0]
        along = np.cumprod(probabilities, axis=1)
        cells = self._partitions[prompt].walk(tokens)
        self.draws += len(tokens)
        for t in range(self.depth):
            self._token_laws[t].update(*self._token[t].measure(prompt, tokens, rows[:, t]))
            self._joint_laws[t].update(*self._joint[t].measure(prompt, tokens, cells, along[:, t]))
            for kind, test in (("token", self._token_laws[t]), ("joint", self._joint_laws[t])):
                bound = test.bound
                self._best[kind, t] = max(self._best.get((kind, t), 0.0), bound)
                if bound > self.tolerance and self.found_after is None:
                    self.found_after = self.draws

    @property
    def at_least(self) -> float:
        """Return the largest lower bound on the distance of the joint laws."""
        return max(self._joint_at_least(t) for t in range(self.depth)) if self._best else 0.0

    def _joint_at_least(self, t: int) -> float:
        """Return the bound of the joint law of t + 1 tokens: its own, half a token's, or that of fewer tokens."""
        return max(
            max(self._best.get(("joint", s), 0.0), self._best.get(("token", s), 0.0) / (1 if s == 0 else 2))
            for s in range(t + 1)
        )

    def at_most(self) -> float:
        """Return an upper bound on the distance of the laws on the partition."""
        last, cells = self._joint[-1], [part.cells(self.depth) for part in self._partitions]
        width = max(map(len, cells))
        counts, masses = np.zeros((len(cells), width), dtype=np.int64), np.zeros((len(cells), width))
        for c, own in enumerate(cells):
            counts[c, : len(own)], masses[c, : len(own)] = last.seen[c][own], self._partitions[c].mass[own]
        look = max(0.0, math.log2(max(self.draws, 64) / 64))
        return distance_ceiling(counts, masses, self.level / ((look + 1) * (look + 2)))

    @property
    def found(self) -> bool:
        """Return whether it is shown that the law is not kept."""
        return self.found_after is not None

    def verdict(self) -> str:
        """Return the verdict now."""
        return NOT_KEPT if self.found else KEPT if self.at_most() <= self.epsilon else UNDECIDED

    def report(self) -> AuditReport:
        """Return what is known now."""
        at_most, at_least, found, verdict = self.at_most(), self.at_least, self.found, self.verdict()
        bounds = []
        for t in range(self.depth):
            best = self._best.get(("token", t), 0.0)
            bounds.append(DepthBound(t + 1, "token", best, self._token_laws[t].log_wealth))
            bounds.append(DepthBound(t + 1, "joint", self._joint_at_least(t), self._joint_laws[t].log_wealth))
        shown = sorted((one for test in self._token for one in test.witnesses(8)), key=lambda one: -abs(one[0]))[:8]
        witnesses = tuple(Witness(c, prefix, token, seen, n, p, z) for z, c, prefix, token, seen, n, p in shown)
        return AuditReport(
            verdict=verdict,
            draws=self.draws,
            depth=self.depth,
            level=self.level,
            epsilon=self.epsilon,
            bounds=tuple(bounds),
            at_least=at_least,
            at_most=at_most,
            complete=all(part.complete for part in self._partitions),
            cells=sum(len(part.cells(self.depth)) for part in self._partitions),
            found_after=self.found_after,
            witnesses=witnesses if found else (),
            notes=tuple(self.notes),
        )
