"""Which mechanism explains the draws: how well each one fits them, and how likely it makes them.

A mechanism's p-value compares the counts of cells with its law of the cells: the likelihood under a Dirichlet mixture
around that law over its own is a martingale under the mechanism, so by Ville's inequality the p-value is valid at any
time. Its gain is the log-likelihood of the draws above that of the target's law.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from validation.audit.laws import Law, Processors, TableLaw
from validation.audit.mechanisms import LENGTHS, MECHANISMS, NONE, OF_TARGET, TEMPERATURES, local_likelihoods, tempered
from validation.audit.partition import Partition

Array = NDArray[Any]
Key = tuple[str, str]
MOST_SCORED = 20_000
"""Draws from which a gain is computed."""
MOST_TEXTS = 5_000
"""Continuations of a table that are enumerated."""
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
    draft: Law
    depth: int
    scored: int = 0
    _gains: dict[Key, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.law.prompts)
        most = max(16, CELLS // count)
        self._partitions = [Partition(self.law, c, self.depth, most, likely=True) for c in range(count)]
        self._counts = [np.zeros(len(part.mass), dtype=np.int64) for part in self._partitions]
        self._texts: list[dict[Key, Array]] = []  # of tables: the probability of every text
        self._cells: list[dict[Key, Array]] = []  # the probability of every cell, where a difference was shown

    def count(self, prompt: int, tokens: Array) -> None:
        """Count draws (n, D) by cell."""
        own = self._partitions[prompt].walk(tokens)[:, -1]
        self._counts[prompt] += np.bincount(own, minlength=len(self._counts[prompt]))

    def score(self, prompt: int, tokens: Array) -> None:
        """Take the likelihood of draws (n, D)."""
        tokens = tokens[: MOST_SCORED - self.scored]
        if not len(tokens):
            return
        self._prepare()
        symbols = self.law.vocabulary + 1
        if self._texts:
            places = tokens @ symbols ** np.arange(self.depth - 1, -1, -1)
            found = {key: law[places] for key, law in self._texts[prompt].items()}
        else:
            found = dict(local_likelihoods(self.law, self.draft, prompt, tokens, self.depth))
        uniform = max(SMOOTH * float(symbols) ** -self.depth, 1e-300)  # of a large vocabulary it would be 0
        base = np.log((1 - SMOOTH) * found[NONE] + uniform)
        for key, likelihood in found.items():
            gain = float((np.log((1 - SMOOTH) * likelihood + uniform) - base).sum())
            self._gains[key] = self._gains.get(key, 0.0) + gain
        self.scored += len(tokens)

    def fits(self) -> tuple[Fit, ...]:
        """Return the mechanisms that the draws do not exclude, likeliest first; of each, the likeliest such variant."""
        if not self._cells:
            return ()
        best: dict[str, Fit] = {}
        for key, gain in self._gains.items():
            if key[0] and gain > max(-np.log(EXCLUDED), best[key[0]].gain if key[0] in best else 0.0):
                p_value = float(np.exp(min(0.0, -self._evidence(key))))
                if p_value > EXCLUDED:
                    best[key[0]] = Fit(key[0], p_value, gain)
        ranked = sorted(best.values(), key=lambda one: -one.gain)
        return tuple(one for one in ranked if one.gain > ranked[0].gain - LEAD)

    def _evidence(self, key: Key) -> float:
        """Return the logarithm of the mixture's likelihood of the counts over that of a variant."""
        powers = np.array(CONCENTRATIONS)[:, None]
        found = np.zeros(len(CONCENTRATIONS))
        for part, counts, laws in zip(self._partitions, self._counts, self._cells, strict=True):
            own = part.cells(self.depth)
            seen, mass = counts[own], laws[key][own]
            smooth = min(0.5, SMOOTH + float(part.slack[-1]))
            mass = (1.0 - smooth) * mass / mass.sum() + smooth / len(own)
            here = seen > 0
            n, m = seen[here].astype(np.float64), mass[here]
            found += (gammaln(powers * m + n) - gammaln(powers * m) - n * np.log(m)).sum(axis=-1)
            found += (gammaln(powers) - gammaln(powers + n.sum()))[:, 0] + n.sum() * np.log1p(-smooth)
        return float(logsumexp(found) - np.log(len(found)))

    def _prepare(self) -> None:
        if self._cells:
            return
        if (
            isinstance(self.law, TableLaw)
            and isinstance(self.draft, TableLaw)
            and (self.law.vocabulary + 1) ** self.depth <= MOST_TEXTS
            and min(self.law.depth, self.draft.depth) >= self.depth
        ):
            self._texts = [self._laws(c) for c in range(len(self.law.prompts))]
        self._cells = [self._of_cells(c) for c in range(len(self.law.prompts))]

    def _of_cells(self, prompt: int) -> dict[Key, Array]:
        """Return the probability of every node of a prompt's tree under each variant."""
        part = self._partitions[prompt]
        if self._texts:
            grid = np.indices([self.law.vocabulary + 1] * self.depth).reshape(self.depth, -1).T
            nodes = part.walk(grid)[:, -1]
            return {
                key: np.bincount(nodes, weights=mass, minlength=len(part.mass))
                for key, mass in self._texts[prompt].items()
            }
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
                for key, mass in local_likelihoods(self.law, self.draft, prompt, tokens, self.depth):
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

    def _laws(self, prompt: int) -> dict[tuple[str, str], Array]:
        """Return the probability of every text (symbols^D,) of a prompt under each variant."""
        from validation.decoding.defect_laws import defective_law

        assert isinstance(self.law, TableLaw)
        assert isinstance(self.draft, TableLaw)
        law, draft, ends = self.law, self.draft, frozenset(self.law.end_tokens)
        p, q = (one.table[prompt if len(one.table) > 1 else 0] for one in (law, draft))
        raw_p, raw_q = (one.raw[prompt if len(one.raw) > 1 else 0] for one in (law, draft))
        made = law.processors or Processors()
        simple = made.temperature > 0 and not made.top_k and not made.min_p
        run = {"temperature": made.temperature, "top_p": made.top_p}
        other_p, other_q = (
            {
                name: TableLaw(rows, processors=other).table[0]
                for name, other in (one.processors or Processors()).without().items()
            }
            for one, rows in ((law, raw_p), (draft, raw_q))
        )
        special: list[tuple[str, str, Array, Array, dict[str, Any]]] = [
            (name, label, q, bonus, {"verified": other_p[name]})
            for name in OF_TARGET
            if name in other_p
            for label, bonus in (("", p), ("bonus too", other_p[name]))
        ]
        if "draft_temperature" in other_q:
            special.append(("draft_temperature", "1", q, p, {"drawn": other_q["draft_temperature"]}))
        if simple and made.temperature != 1:
            special.append(("draft_temperature", "run", raw_q, raw_p, run))
        if simple and made.top_p < 1:
            special.append(("draft_before_top_p", "run", raw_q, raw_p, run))
        special += [
            ("draft_temperature", f"× {t:g}", q, tempered(p, t), {"temperature": t})  # p^t at temperature t is p
            for t in TEMPERATURES
        ]
        plain = [name for name in MECHANISMS if name not in (*OF_TARGET, "draft_temperature", "draft_before_top_p")]
        variants = [*((name, "", q, p, dict[str, Any]()) for name in plain), *special]
        found = {}
        for most in (one for one in LENGTHS if one <= self.depth):
            for name, label, first, second, options in variants:
                try:
                    texts = defective_law(name, first, second, self.depth, ends, max_draft_length=most, **options)
                except IndexError:  # it needs rows behind the end of the table
                    continue
                found[name, f"K = {most} {label}"] = self._array(texts)
        none = defective_law(None, q, p, self.depth, ends, max_draft_length=1)
        return found | {NONE: self._array(none)}

    def _array(self, texts: dict[tuple[int, ...], float]) -> Array:
        symbols = self.law.vocabulary + 1
        found = np.zeros(symbols**self.depth)
        ends = frozenset(self.law.end_tokens)
        for text, mass in texts.items():
            place, end = 0, next((t for t, token in enumerate(text) if token in ends), self.depth)
            known = end + 1 if ends.issuperset(text[end:]) else len(text)  # further end-of-text tokens are "nothing"
            for t in range(self.depth):
                place = place * symbols + (text[t] if t < min(known, len(text)) else symbols - 1)
            found[place] += mass
        return found
