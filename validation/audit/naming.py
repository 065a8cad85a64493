"""Which mechanism explains the draws: how well each one fits them, and how likely it makes them.

A mechanism's p-value compares the counts of cells with its law of the cells: the likelihood under a Dirichlet mixture
around that law over its own is a martingale under the mechanism, so by Ville's inequality the p-value is valid at any
time. Its gain is the log-likelihood of the draws above that of the target's law.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln, logsumexp

from validation.arrays import Array
from validation.audit.laws import Law
from validation.audit.mechanisms import NONE, local_likelihoods
from validation.audit.partition import Partition

Key = tuple[str, str]
MOST_SCORED = 20_000
"""Draws from which a gain is computed."""
CELLS = 1_000
"""Leaves of the partitions of all prompts on which a p-value is computed."""
EXCLUDED = 0.01
"""A mechanism is excluded if its p-value is this or below, or the draws are not 1/this times as likely under it."""
LEAD = 9.2
"""Log-likelihood by which a mechanism is behind another that is not excluded, so that it is not named."""
CONCENTRATIONS = tuple(2.0**power for power in range(4, 18, 2))
"""Of the Dirichlet laws around a mechanism's law: small ones see large differences, large ones small differences."""
SMOOTH = 1e-6  # share of a uniform law, so that no draw is impossible
VALUES = 2**23  # probabilities in memory at a time


@dataclass(frozen=True)
class Fit:
    """A mechanism that the draws do not exclude."""

    name: str
    p_value: float
    gain: float


@dataclass
class Naming:
    """The mechanisms, judged by the draws of a sampler."""

    law: Law
    draft: Law | None
    depth: int
    scored: int = 0
    _gains: dict[Key, float] = field(default_factory=dict)
    _waiting: dict[int, list[Array]] = field(default_factory=dict)  # draws to score, by prompt
    _firsts: list[Array] = field(default_factory=list)  # the draft's first row after each prompt

    def __post_init__(self) -> None:
        count = len(self.law.prompts)
        most = max(16, CELLS // count)
        self._partitions = [Partition(self.law, c, self.depth, most, likely=True) for c in range(count)]
        self._counts, self._first = ([np.zeros(len(one.mass), dtype=int) for one in self._partitions] for _ in "12")
        self._cells: list[dict[Key, Array]] = []  # the probability of every cell, where a difference was shown

    def count(self, prompt: int, tokens: Array) -> None:
        """Count draws (n, D) by cell."""
        own = self._partitions[prompt].walk(tokens)
        for counts, depth in ((self._counts, -1), (self._first, 0)):
            counts[prompt] += np.bincount(own[:, depth], minlength=len(counts[prompt]))

    def score(self, prompt: int, tokens: Array) -> None:
        """Take draws (n, D) whose likelihood is asked for."""
        tokens = tokens[: MOST_SCORED - self.scored]
        self.scored += len(tokens)
        self._waiting.setdefault(prompt, []).append(tokens)

    def fits(self) -> tuple[Fit, ...]:
        """Return the mechanisms that the draws do not exclude, likeliest first; of each, the likeliest such variant.

        Two of one law are equally likely: the simpler one is first, in the order of the likelihoods.
        """
        if not self._cells:
            self._cells = [self._of_cells(c) for c in range(len(self.law.prompts))]
        symbols = self.law.vocabulary + 1
        uniform = max(SMOOTH * float(symbols) ** -self.depth, 1e-300)  # of a large vocabulary it would be 0
        for prompt, waiting in self._waiting.items():  # each text of a prompt once
            tokens, times = np.unique(np.concatenate(waiting), axis=0, return_counts=True)
            for some in np.array_split(np.arange(len(tokens)), 1 + len(tokens) * self.depth * symbols // VALUES):
                found = dict(self._likelihoods(prompt, tokens[some]))
                base = np.log((1 - SMOOTH) * found[NONE] + uniform)
                for key, likelihood in found.items():
                    gain = float(((np.log((1 - SMOOTH) * likelihood + uniform) - base) * times[some]).sum())
                    self._gains[key] = self._gains.get(key, 0.0) + gain
        self._waiting.clear()
        best: dict[str, Fit] = {}
        for key, gain in self._gains.items():
            if key[0] and gain > max(-np.log(EXCLUDED), best[key[0]].gain if key[0] in best else 0.0):
                p_value = float(np.exp(min(0.0, -self._evidence(key))))
                if p_value > EXCLUDED:
                    best[key[0]] = Fit(key[0], p_value, gain)
        ranked = sorted(best.values(), key=lambda one: -round(one.gain, 6))
        return tuple(one for one in ranked if one.gain > ranked[0].gain - LEAD)

    def _likelihoods(self, prompt: int, tokens: Array) -> Iterator[tuple[Key, Array]]:
        count, draft = len(self.law.prompts), self.draft
        if draft is not None and not self._firsts and count > 1:
            one = np.zeros((1, 1), dtype=np.int64)
            self._firsts = [draft.next_rows(c, one)[0, 0] for c in range(count)]
        places = {"next": (prompt + 1) % count, "previous": (prompt - 1) % count, "first": 0}
        others = {label: self._firsts[c] for label, c in places.items()} if self._firsts else None
        return local_likelihoods(self.law, draft, prompt, tokens, self.depth, others)

    def _evidence(self, key: Key) -> float:
        depth, given = (1, self._first) if key[0] == "q_of_other_row" else (self.depth, self._counts)
        powers = np.array(CONCENTRATIONS)[:, None]
        found = np.zeros(len(CONCENTRATIONS))
        for part, counts, laws in zip(self._partitions, given, self._cells, strict=True):
            own = part.cells(depth)
            seen, mass = counts[own], laws[key][own]
            smooth = min(0.5, SMOOTH + float(part.slack[depth - 1]))
            mass = (1.0 - smooth) * mass / mass.sum() + smooth / len(own)
            here = seen > 0
            n, m = seen[here].astype(np.float64), mass[here]
            found += (gammaln(powers * m + n) - gammaln(powers * m) - n * np.log(m)).sum(axis=-1)
            found += (gammaln(powers) - gammaln(powers + n.sum()))[:, 0] + n.sum() * np.log1p(-smooth)
        return float(logsumexp(found) - np.log(len(found)))

    def _of_cells(self, prompt: int) -> dict[Key, Array]:
        part = self._partitions[prompt]
        found: dict[Key, Array] = {}
        ended = np.array([self.law.vocabulary in prefix for prefix in part.prefixes])
        length = np.where(ended, self.depth, part.level)  # behind the end of a text, nothing but "nothing" follows
        for depth in range(1, self.depth + 1):
            own = np.flatnonzero(part.single & (length == depth))
            size = max(1, VALUES // (depth * (self.law.vocabulary + 1)))
            for some in (own[i : i + size] for i in range(0, len(own), size)):
                tokens = np.full((len(some), depth), self.law.vocabulary)
                for row, node in zip(tokens, some.tolist(), strict=True):
                    row[: part.level[node]] = part.prefixes[node]
                for key, mass in self._likelihoods(prompt, tokens):
                    found.setdefault(key, np.zeros(len(part.mass)))[some] = mass
        place = {prefix: node for node, prefix in enumerate(part.prefixes)}
        parents = np.array([place[prefix[:-1]] for prefix in part.prefixes[1:]])
        for mass in found.values():
            mass[0] = 1.0
            rest = mass.copy()
            np.subtract.at(rest, parents, mass[1:])  # of the leaf that other tokens share, the mass is still 0
            shared = np.flatnonzero(~part.single)
            mass[shared] = np.maximum(rest[parents[shared - 1]], 0.0)
        return found
