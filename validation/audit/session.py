"""The audit itself: it takes draws chunk by chunk, and says at any time what is known.

Lower bounds on the distance are those of :class:`hlmtheory.lossless.LawTest`: they hold for all depths, for single
tokens and jointly, for repeats of earlier draws, and at all times at once. Memory does not grow with the number of
draws.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from hlmtheory.lossless import LawTest, distance_ceiling, draws_to_find
from hlmtheory.lossless.power import smallest_found
from validation.arrays import Array
from validation.audit.laws import Law, extended_rows
from validation.audit.naming import MOST_SCORED, Naming
from validation.audit.partition import Partition
from validation.audit.repeats import RepeatTests
from validation.audit.report import KEPT, NOT_KEPT, ON_CELLS, UNDECIDED, AuditReport, DepthBound, Witness
from validation.audit.tests_of_law import JointTests, TokenTests
from validation.errors import UserError

FIRST_CHUNK, LARGEST_CHUNK, GROWTH = 64, 4096, 4
FINE = 20_000
"""Leaves of the partitions of all prompts on which sets of continuations are learned."""
FEWEST = 16
"""Leaves of the partitions of all prompts on which an upper bound is computed, at least."""
FIRST_LOOK = 500
"""Draws at the first upper bound; the next ones are at twice as many, and so on, and at the end."""
BALANCE = 1.05
"""Draws of the prompt with the most over those of the one with the fewest, up to which an upper bound is computed."""
HELD = 4096
"""Draws that wait for a difference to be shown, so that its mechanism can be named from them."""
PATIENCE = 8
"""Draws that explain a difference over those that showed it: then a law a third as far off is excluded."""
TOLERANCE = 1e-6  # a lower bound counts only above this; rounding of the target's rows has its own place, in the law
VALUES = 2**23  # probabilities in memory at a time


@dataclass
class Audit:
    law: Law
    depth: int = 4  # D, tokens of each continuation
    level: float = 0.001  # probability of a wrong accusation, over all depths and whenever one looks
    epsilon: float = 0.05  # the law counts as kept within this distance of the joint laws of D tokens
    planned: int = 100_000  # draws; it decides how fine the cells are
    draft: Law | None = None  # the draft model's law, from which the mechanism is named
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 1e-100 <= self.level < 1 or not 0.001 <= self.epsilon < 1 or self.depth < 1:
            raise UserError("level must be in [1e-100, 1), epsilon in [0.001, 1), and depth at least 1.")
        count = len(self.law.prompts)
        if self.draft is not None:
            if (self.draft.vocabulary, len(self.draft.prompts)) != (self.law.vocabulary, count):
                raise UserError("The draft's law must have the vocabulary and the prompts of the target's.")
            self.draft.next_rows(0, np.zeros((1, self.depth), dtype=np.int64))  # refuse before the first draw
        fine = max(16, self.depth + 1, min(FINE, self.planned) // count)  # D + 1 leaves hold the path of a greedy law
        self._partitions = [Partition(self.law, c, self.depth, fine) for c in range(count)]
        sure = int((self.epsilon**2 * self.planned) ** 2 / 120)  # an exact sampler is then bounded below ε in most runs
        sure = max(4, self.depth + 1, max(FEWEST, sure) // count)
        self._coarse = [
            one if len(one.cells(self.depth)) <= sure else Partition(self.law, c, self.depth, sure)
            for c, one in enumerate(self._partitions)
        ]
        self._cells = [one.cells(self.depth) for one in self._coarse]
        self._masses = np.zeros((count, max(map(len, self._cells))))
        for own, cells, part in zip(self._masses, self._cells, self._coarse, strict=True):
            own[: len(cells)] = part.mass[cells]
        self._halves = [np.zeros((2, len(one.mass)), dtype=np.int64) for one in self._coarse]
        self._given = np.zeros(count, dtype=np.int64)
        share = self._share = self.level / (2 * self.depth + 1)
        self._token = [TokenTests(self.law, t) for t in range(self.depth)]
        self._joint = [JointTests(self._partitions, t) for t in range(self.depth)]
        self._token_laws = [LawTest(TokenTests.count, share) for _ in range(self.depth)]
        self._joint_laws = [LawTest(JointTests.count, share) for _ in range(self.depth)]
        self._repeats, self._repeat_law = RepeatTests(self._partitions, self.depth), LawTest(RepeatTests.count, share)
        alone = self.draft is None and not getattr(self.law, "own_mechanisms", False)
        self._naming = None if alone else Naming(self.law, self.draft, self.depth)
        self._held: list[tuple[int, Array]] = []
        self.draws = self.excluded = 0
        self.found_after: int | None = None
        self._sums: dict[tuple[str, int], float] = {}  # lower bounds on sums of distances over draws: they never fall
        self._looks = 0
        self._closed = False
        self._seen: list[tuple[float, Array]] = []  # upper bounds, with the draws of each prompt at that look

    def update(self, prompt: int, tokens: ArrayLike) -> None:
        """Take draws (n, D) of one prompt, in the order in which they were made; V is "nothing" after the end."""
        given = np.asarray(tokens, dtype=np.int64)
        if given.ndim != 2 or given.shape[1] != self.depth:
            raise UserError(f"The draws have the shape {given.shape}; it must be (n, {self.depth}).")
        if given.size and (given.min() < 0 or given.max() > self.law.vocabulary):
            raise UserError(f"A token is outside 0..{self.law.vocabulary - 1}.")
        call = self._repeats.within(prompt, self._partitions[prompt].walk(given)[:, -1])
        start = 0
        limit = max(1, VALUES // (self.depth * (self.law.vocabulary + 1)))
        while start < len(given):
            size = min(max(FIRST_CHUNK, self.draws // GROWTH), LARGEST_CHUNK, limit)
            here = slice(start, start + size)
            self._chunk(prompt, given[here], (call[0][:, here], call[1][:, here]))
            start += size

    def _chunk(self, prompt: int, tokens: Array, call: tuple[Array, Array]) -> None:
        rows, slack = extended_rows(self.law, prompt, tokens)
        probabilities = np.take_along_axis(rows, tokens[..., None], axis=-1)[..., 0]
        likely = np.where(slack < 1.0, probabilities / np.where(slack < 1.0, 1.0 - slack, 1.0), 1.0)
        along = np.cumprod(np.minimum(likely, 1.0), axis=1)  # no less than an engine's rounding can make it
        cells = self._partitions[prompt].walk(tokens)
        coarse = cells if self._coarse[prompt] is self._partitions[prompt] else self._coarse[prompt].walk(tokens)
        for half in range(2):  # every other draw
            own = coarse[(half + self._given[prompt]) % 2 :: 2, -1]
            self._halves[prompt][half] += np.bincount(own, minlength=self._halves[prompt].shape[1])
        self._given[prompt] += len(tokens)
        self.draws += len(tokens)
        for t in range(self.depth):
            outcome, expected = self._token[t].measure(prompt, tokens, rows[:, t])
            self._token_laws[t].update(outcome, np.minimum(expected + slack[:, t], 1.0))
            self._joint_laws[t].update(*self._joint[t].measure(prompt, tokens, cells, along[:, t]))
            self._take("token", t, self._token_laws[t].bound)
            self._take("joint", t, self._joint_laws[t].bound)
        self._repeat_law.update(*self._repeats.measure(prompt, tokens, along[:, -1], call))
        self._take("repeat", self.depth - 1, self._repeat_law.bound)
        self.excluded += int(((probabilities == 0.0) & (slack == 0.0)).any(axis=1).sum())
        if self.excluded and self.found_after is None:  # under an exact law this never happens
            self.found_after = self.draws
        self._keep(prompt, tokens)
        self._look()

    def _take(self, kind: str, t: int, bound: float) -> None:
        self._sums[kind, t] = max(self._sums.get((kind, t), 0.0), bound * self.draws)
        if bound > TOLERANCE and self.found_after is None:
            self.found_after = self.draws

    def _keep(self, prompt: int, tokens: Array) -> None:
        if self._naming is None:
            return
        self._naming.count(prompt, tokens)
        self._held.append((prompt, tokens))
        if not self.found:
            while sum(len(kept) for _, kept in self._held) > HELD:
                self._held.pop(0)
            return
        while self._held:
            self._naming.score(*self._held.pop(0))

    @property
    def at_least(self) -> float:
        """Return the largest lower bound on the distance of the joint laws, repeats of earlier draws left out."""
        return self._joint_at_least(self.depth - 1)

    def _mean(self, kind: str, t: int) -> float:
        return self._sums.get((kind, t), 0.0) / max(1, self.draws)

    def _joint_at_least(self, t: int) -> float:
        """Return the bound of the joint law of t + 1 tokens: its own, half a token's, or that of fewer tokens."""
        return max(max(self._mean("joint", s), self._mean("token", s) / (1 if s == 0 else 2)) for s in range(t + 1))

    def _look(self) -> None:
        """Compute the upper bound at numbers of draws fixed before: look j spends δ/(2j(j + 1)), the last one δ/2."""
        if self.draws >= self.planned > 0:
            self.close()
        elif self.draws >= FIRST_LOOK * 2**self._looks and self._given.max() <= BALANCE * self._given.min():
            while self.draws >= FIRST_LOOK * 2**self._looks:
                self._looks += 1
            self._bound_above(0.5 * self.level / (self._looks * (self._looks + 1)))

    def close(self) -> None:
        """Compute the last upper bound: no further draws come, and their number did not depend on them."""
        if not self._closed and self.draws:
            self._closed = True
            self._bound_above(0.5 * self.level)

    @property
    def at_most_on_cells(self) -> float:
        """Return the upper bound for the cells, on the mean distance over the prompts of the draws so far.

        An earlier look had other shares of the prompts; the largest ratio of the shares covers the difference.
        """
        least, now = 1.0, self._given / max(1, self.draws)
        for bound, given in self._seen:
            if (given[now > 0] > 0).all():
                least = min(least, bound * float((now[now > 0] / given[now > 0]).max()) * float(given.sum()))
        return least

    @property
    def at_most(self) -> float:
        """Return the upper bound for the whole law: a cell of several continuations may hide all of its probability."""
        rest = self._shared(self.depth)
        return min(1.0, self.at_most_on_cells + rest + (self._moved() if rest else 0.0))

    def _shared(self, depth: int) -> float:
        given = self._given if self.draws else np.ones(len(self._given))
        return float(given @ [part.shared(depth) for part in self._coarse]) / float(given.sum())

    def _moved(self) -> float:
        return max(float(part.slack[-1]) for part in self._coarse)

    def _bound_above(self, error: float) -> None:
        halves = np.zeros((2, *self._masses.shape), dtype=np.int64)
        for c, own in enumerate(self._cells):
            halves[:, c, : len(own)] = self._halves[c][:, own]
        ceiling = distance_ceiling(halves[0], halves[1], self._masses, error) + self._moved()
        self._seen.append((ceiling, self._given.copy()))

    def _draws_to_keep(self) -> int:
        """Return about how many draws bring the upper bound to ε if the law is kept; 0 if more than 10⁹."""
        rest, moved = self._shared(self.depth), self._moved()
        most = self.epsilon - moved - (rest + moved * (rest > 0) if rest < self.epsilon else 0.0)
        masses, count = self._masses / self._masses.sum(axis=1, keepdims=True), len(self._masses)
        rng, draws = np.random.default_rng(0), max(FIRST_LOOK, int(1.25 * self.draws))  # those so far were too few
        while draws <= 10**9:
            half = [rng.multinomial(max(1, draws // (2 * count)), masses) for _ in range(2)]
            if distance_ceiling(half[0], half[1], masses, 0.5 * self.level) <= most:
                return draws
            draws = int(draws * 1.25)
        return 0

    def line(self) -> str:
        where = " on the cells" if self.at_most_on_cells < self.at_most else ""
        most = f"at most {self.at_most_on_cells:.4f}{where}"
        return f"{self.draws:,} draws: TV at least {self.at_least:.4f}, {most} ({self.verdict()})"

    @property
    def found(self) -> bool:
        return self.found_after is not None

    def verdict(self) -> str:
        if self.found:
            return NOT_KEPT
        if self.at_most <= self.epsilon:
            return KEPT
        return ON_CELLS if self.at_most_on_cells <= self.epsilon else UNDECIDED

    def settled(self) -> bool:
        """Return whether further draws would tell nothing new of importance."""
        if self.found_after is None:
            return self.verdict() == KEPT
        if self._naming is not None and self._naming.scored >= MOST_SCORED:
            return True
        if self.draws < PATIENCE * self.found_after:
            return self._naming is None and self.at_least > 0
        return self._naming is None or len(self._naming.fits()) <= 1

    def report(self) -> AuditReport:
        share, tests = self._share, TokenTests.count
        names = ["draws", "depth", "level", "epsilon", "found_after", "excluded"]
        names += ["at_least", "at_most", "at_most_on_cells"]
        event = 0.5 if self.epsilon < 0.5 else 0.5 * (1.0 - self.epsilon)  # it leaves room for a distance of ε
        bounds = []
        for t in range(self.depth):
            bounds.append(DepthBound(t + 1, "token", self._mean("token", t), self._token_laws[t].log_wealth))
            bounds.append(DepthBound(t + 1, "joint", self._joint_at_least(t), self._joint_laws[t].log_wealth))
        shown = sorted((one for test in self._token for one in test.witnesses(8)), key=lambda one: -abs(one[0]))[:8]
        witnesses = tuple(Witness(c, prefix, token, seen, n, p, z) for z, c, prefix, token, seen, n, p in shown)
        return AuditReport(
            **{name: getattr(self, name) for name in names},
            verdict=self.verdict(),
            bounds=tuple(bounds),
            shared=tuple(self._shared(t + 1) for t in range(self.depth)),
            cells=sum(map(len, self._cells)),
            prompts=len(self._cells),
            smallest_found=smallest_found(max(1, self.draws), share, tests),
            draws_to_find=draws_to_find(self.epsilon, share, tests, event=event),
            draws_to_keep=self._draws_to_keep(),
            repeats=self._mean("repeat", self.depth - 1),
            witnesses=witnesses if self.found else (),
            draft_known=self.draft is not None,
            mechanisms=None if self._naming is None or not self._naming.scored else self._naming.fits(),
            notes=tuple(self.notes),
        )
