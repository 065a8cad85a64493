"""The lines of flexspec's Tables III to VI from counted rounds: which texts a method has, and their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from validation.decoding.intervals import DEFAULT_CONFIDENCE, DEFAULT_RESAMPLES, IntervalEstimate, draw_texts, estimate
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S
from validation.decoding.methods.registry import info_of
from validation.decoding.wire import index_bits
from validation.plots.flexspec import counted as c
from validation.plots.flexspec.counted import Counted, Texts
from validation.plots.flexspec.printed import DATASETS, NETWORKS

BASE, PLAIN, ALIGNED = "version 0", "plain", "aligned"
CLOUD, STANDARD, MEDUSA, EAGLE, DSSD = "Cloud-Only", "Std. SD", "Medusa-1", "EAGLE-2", "DSSD"
FLEXSPEC = "FlexSpec"
EXACT, RULE_ALONE = "aligned draft with K*", "FlexSpec's rule, plain draft"
LENGTHS = tuple(range(1, 9))
"""Fixed draft lengths of the replay."""


@dataclass(frozen=True, slots=True)
class Line:
    """Describe a line of the tables."""

    name: str
    column: str | None
    draft: str
    method: str


RULE, OPTIMUM = "flexspec linear, printed acceptance", "K*"
LINES = (
    Line(CLOUD, CLOUD, PLAIN, "cloud only"),
    Line("Lookahead", "Lookahead", PLAIN, "n-gram Lookahead"),
    Line("prompt lookup (PLD)", None, PLAIN, "prompt lookup"),
    Line(STANDARD, STANDARD, PLAIN, "fixed K"),
    Line(MEDUSA, MEDUSA, PLAIN, "Medusa-1"),
    Line(EAGLE, EAGLE, PLAIN, "EAGLE-2"),
    Line(DSSD, DSSD, PLAIN, "DSSD"),
    Line(FLEXSPEC, FLEXSPEC, ALIGNED, RULE),
    Line(EXACT, None, ALIGNED, OPTIMUM),
    Line(RULE_ALONE, None, PLAIN, RULE),
)
"""Methods in the order of the tables. FlexSpec is the aligned draft with Algorithm 2 as printed."""


@dataclass(frozen=True)
class Case:
    """A version of the target model at a temperature."""

    study: Counted
    temperature: float
    version: str = BASE

    @property
    def lossless_bits(self) -> int:
        return index_bits(self.study.about["vocabulary"]) + (32 if self.temperature else 0)

    def there(self, draft: str) -> bool:
        return (self.version, self.temperature, draft) in self.study.flags

    @cached_property
    def lines(self) -> dict[str, dict[str, Texts]]:
        found = {network: {line.name: self._texts(line, network) for line in LINES} for network in NETWORKS}
        return {
            network: {name: texts for name, texts in by.items() if texts is not None} for network, by in found.items()
        }

    def _texts(self, line: Line, network: str) -> Texts | None:
        """Return the texts of a line; None if it was not run. Replayed rules take the times of that network."""
        if line.method == OPTIMUM:
            return self.replay(line.draft, network, c.by_optimum) if self.there(line.draft) else None
        found = {
            link: texts
            for (version, temperature, draft, method, link), texts in self.study.rows.items()
            if (version, temperature, draft) == (self.version, self.temperature, line.draft)
            and info_of(method).name == line.method
        }
        # a rule whose lengths are the same over all networks is decoded over one of them
        return found.get(network) or next(iter(found.values()), None)

    def replay(
        self,
        draft: str,
        network: str,
        make: Callable[[float, float, int], c.Rule],
        *,
        draft_s: float = FLEXSPEC_DRAFT_S,
        round_s: float | None = None,
        method: str = "consistent",
    ) -> Texts:
        """Return the texts of a rule of the past; ``make`` maps F, M and K_max to the rule."""
        fixed, marginal = c.cost(network, draft_s, self.lossless_bits, round_s=round_s)
        rule = make(fixed, marginal, self.study.about["max_draft_length"])
        return self.replayed(draft, [rule] * len(self.study.about["prompts"]), method)

    def replayed(self, draft: str, rules: list[c.Rule], method: str = c.NO_AVERAGE) -> Texts:
        fates = self.study.flags[self.version, self.temperature, draft]
        lossless, vocabulary = bool(self.temperature), self.study.about["vocabulary"]
        return c.replayed(fates, rules, vocabulary=vocabulary, lossless=lossless, method=method)

    def by_length(self, draft: str, network: str) -> dict[str, Texts]:
        """Return the texts of every choice of the draft length, lossless: fixed, K*, by Algorithm 2."""
        count = len(self.study.about["prompts"])
        found = {f"fixed K = {k}": self.replayed(draft, [c.fixed(k)] * count) for k in LENGTHS}
        found["K*"] = self.replay(draft, network, c.by_optimum)
        found["Algorithm 2"] = self.replay(draft, network, c.by_surrogate, method="ema_printed")
        return found


Times = Callable[[Texts], NDArray[np.float64]]
"""Maps texts to their seconds."""


def over(network: str) -> Times:
    """Return the seconds over a network with the times of the tables."""
    return partial(_seconds, network=network)


def _seconds(texts: Texts, network: str) -> NDArray[np.float64]:
    return texts.seconds(network)


def milliseconds(texts: Texts, times: Times) -> float:
    """Return ms per token."""
    return float(1e3 * times(texts).sum() / texts.tokens.sum())


def speed_up(texts: Texts, cloud: Texts, times: Times, seed: int) -> IntervalEstimate:
    """Return tokens per second over those of Cloud-Only on the same prompts, with its interval."""
    return quotient((times(cloud), cloud.tokens), (times(texts), texts.tokens), seed)


def speed_ups(case: Case, network: str, source: str | None, seed: int) -> dict[str, IntervalEstimate]:
    """Return the speed-up of each line that was run, on one prompt set or on all of the paper's six."""
    chosen, lines = chosen_prompts(case.study, source), case.lines[network]
    if CLOUD not in lines:
        return {}
    cloud = lines[CLOUD].of(chosen)
    return {name: speed_up(texts.of(chosen), cloud, over(network), seed) for name, texts in lines.items()}


def chosen_prompts(study: Counted, source: str | None) -> NDArray[np.bool_]:
    """Return which prompts are of a set, or of any of the paper's six."""
    return np.asarray(study.sources == source if source else np.isin(study.sources, DATASETS))


Columns = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Numerator and denominator of a ratio of totals, one entry for each text."""


def quotient(one: Columns, other: Columns, seed: int) -> IntervalEstimate:
    """Return one ratio of totals over another on the same texts, with its interval."""
    chosen = draw_texts(len(one[0]), DEFAULT_RESAMPLES, seed)

    def ratio(columns: Columns, texts: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        return np.asarray(columns[0][texts].sum(axis=-1) / columns[1][texts].sum(axis=-1))

    whole = slice(None)
    return estimate(
        ratio(one, whole) / ratio(other, whole), ratio(one, chosen) / ratio(other, chosen), DEFAULT_CONFIDENCE
    )
