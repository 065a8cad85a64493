"""Time flexspec's methods on decoded texts, and replay the texts with any fixed draft length.

A method that follows the rate has its own texts for each network. Texts of all other methods are timed over a network
in post-processing. Both models take the times given here, not measured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from validation.decoding.intervals import DEFAULT_CONFIDENCE, DEFAULT_RESAMPLES, IntervalEstimate, draw_texts, estimate
from validation.decoding.links import FadingLink
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import (
    FLEXSPEC_DRAFT_S,
    Dssd,
    FixedLength,
    FlexSpec,
    Lookahead,
    PromptLookup,
)
from validation.decoding.methods.single_draft import CloudOnly, Hlm
from validation.decoding.metrics import Summary, summarize
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.retiming import retime
from validation.decoding.studies import CLOUD_S, RATES_BPS, Decoded
from validation.decoding.wire import index_bits
from validation.errors import UserError

Column = NDArray[np.float64]

TIMES = (FLEXSPEC_DRAFT_S, CLOUD_S)
"""Time of a draft on the Jetson AGX Orin (Table V; Tables III and IV do not name their device), and of a cloud pass."""
SET = "GSM8K"
"""Prompt set of Figs. 4 and 6, and of the latencies, lengths and distributions of Tables III and IV."""
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Fixed draft lengths of the replay."""


@dataclass(frozen=True, slots=True)
class Line:
    """Describe a line of the tables: name, column in Tables III and IV, and method; None means not run."""

    name: str
    column: str | None
    chosen: Callable[[Method], bool] | None = None


def _kind(kind: type[Method]) -> Callable[[Method], bool]:
    return lambda method: type(method) is kind


def _flexspec(policy: str, printed: bool) -> Callable[[Method], bool]:
    return lambda method: isinstance(method, FlexSpec) and (method.policy, method.by_argmax) == (policy, printed)


CLOUD, STANDARD = "Cloud-Only", "standard SD"
PRINTED, LINEAR = "FlexSpec, as printed", "FlexSpec, lossless"
EXACT_PRINTED, EXACT = "FlexSpec with K*", "FlexSpec with K*, lossless"
LINES = (
    Line(CLOUD, "Cloud-Only", _kind(CloudOnly)),
    Line("Lookahead", "Lookahead", _kind(Lookahead)),
    Line("prompt lookup (PLD)", None, _kind(PromptLookup)),
    Line(STANDARD, "Std. SD", _kind(FixedLength)),
    Line("Medusa-1", "Medusa-1"),
    Line("EAGLE-2", "EAGLE-2"),
    Line("DSSD", "DSSD", _kind(Dssd)),
    Line(PRINTED, "FlexSpec", _flexspec("linear", True)),
    Line(LINEAR, None, _flexspec("linear", False)),
    Line(EXACT_PRINTED, None, _flexspec("exact", True)),
    Line(EXACT, None, _flexspec("exact", False)),
)
"""Methods of a study in the order of the tables."""


def of_the_set(study: Decoded) -> Decoded:
    """Return the texts of the paper's prompt set; all texts if there are none of that set."""
    return study.of_source(SET) if SET in study.sources else study


def methods_of(study: Decoded) -> dict[str, Method]:
    """Return the methods that were run, by the names of the lines.

    Raises
    ------
    UserError
        Cloud-Only, the baseline of all other methods, is missing.
    """
    made = study.methods
    found = {line.name: method for line in LINES if line.chosen is not None for method in made if line.chosen(method)}
    if CLOUD not in found:
        raise UserError(f"The study {study.name!r} has no texts of {CLOUD!r}; decode it without leaving methods out.")
    return found


def timed(
    study: Decoded, method: Method, link: FadingLink, times: tuple[float, float] = TIMES
) -> list[GenerationRecord]:
    """Return the texts of a method over one network without fading, with the given pass times."""
    if not method.follows_rate:
        return retime(study.by_method[method.name, "none"], link, [method], times=times)

    def passes_timed(one: Round) -> Round:
        return replace(one, draft_s=one.draft_passes * times[0], target_s=one.target_passes * times[1])

    return [
        replace(row, rounds=[passes_timed(one) for one in row.rounds], last=passes_timed(row.last))
        for row in study.by_method[method.name, link.name]
    ]


@dataclass(frozen=True, slots=True)
class Timed:
    """Hold the texts of a method over a network, ordered by prompt id, and their summary."""

    method: Method
    rows: list[GenerationRecord]
    summary: Summary

    @property
    def columns(self) -> tuple[Column, Column]:
        """Return seconds and tokens of each text."""
        return np.array([row.seconds for row in self.rows]), np.array([float(len(row.tokens)) for row in self.rows])


def time_all(study: Decoded, link: FadingLink, seed: int) -> dict[str, Timed]:
    """Time every line that was run, over a network."""
    found = {}
    for name, method in methods_of(study).items():
        rows = sorted(timed(study, method, link), key=lambda row: row.prompt)
        found[name] = Timed(method, rows, summarize(rows, seed=seed))
    return found


# ------------------------------------------------------------------------------------------------- fixed lengths


@dataclass(frozen=True, slots=True)
class Fate:
    """Hold the target model's verification of a text, position by position.

    Attributes
    ----------
    runs : list of int
        Number of consecutive accepted drafts from each position on.
    ended : bool
        Whether the text ended by itself, before ``most`` tokens.
    most : int
    """

    runs: list[int]
    ended: bool
    most: int


def fates(study: Decoded) -> list[Fate] | None:
    """Return the fates of HLM's texts, which verify one draft at every position; None if HLM was not run.

    What HLM accepts and emits at a position depends only on the text before it. This holds for every lossless method:
    a verified token is accepted with the same probability and emitted with the same distribution, whether the round
    continues or not. So any draft-length rule that uses only the past can be replayed on these rounds, and the result
    has the distribution of that method. At temperature 0 nothing is random, and the result is that method's own text.
    """
    found = [method.name for method in study.methods if type(method) is Hlm]
    rows = study.by_method.get((found[0], "none")) if found else None
    if rows is None:
        return None
    fates = []
    for row in sorted(rows, key=lambda row: row.prompt):
        runs, run = [0] * len(row.rounds), 0
        for place in reversed(range(len(row.rounds))):
            run = run + 1 if row.rounds[place].accepted else 0
            runs[place] = run
        fates.append(Fate(runs, row.ended, int(study.about["new_tokens"])))
    return fates


def replay(fate: Fate, length: int) -> list[tuple[int, int]]:
    """Return drafts and accepted drafts of each round of speculative decoding with a fixed draft length.

    Drafts after a rejected one are not known. They are assumed to reach the fixed length, even if an end of text
    would have stopped them.

    >>> replay(Fate([2, 1, 0, 1, 0], False, 5), 2)
    [(2, 2), (2, 1)]
    """
    place, end, rounds = 0, len(fate.runs), []
    while place < end:
        most = min(length, fate.most - place)
        kept = min(fate.runs[place], most)
        over = fate.ended and place + kept == end  # the text's last token was a draft, so no token follows it
        rounds.append((kept if over else most, kept))
        place += kept + 1
    return rounds


def replayed_seconds(drafts: Sequence[Column], link: FadingLink, *, vocabulary: int, bits_per_draft: int) -> Column:
    """Return the seconds of each text from the drafts of its rounds; a draft is an index and more bits."""
    width = index_bits(vocabulary) + bits_per_draft
    found = []
    for counts in drafts:
        up = 8.0 * np.ceil((16.0 + width * counts) / 8.0)  # draft count in 16 bits, rounded up to whole bytes
        link_s = up / RATES_BPS[link.name] + link.way.extra(up, np.zeros(len(up)))
        found.append(float(counts.sum() * TIMES[0] + len(counts) * TIMES[1] + link_s.sum()))
    return np.array(found)


def quotient(one: tuple[Column, Column], other: tuple[Column, Column], seed: int) -> IntervalEstimate:
    """Return one ratio Σ seconds/Σ tokens over another on the same texts, ordered by prompt id, with its interval."""
    chosen = draw_texts(len(one[0]), DEFAULT_RESAMPLES, seed)

    def ratio(columns: tuple[Column, Column], texts: NDArray[np.int64] | slice) -> Column:
        return np.asarray(columns[0][texts].sum(axis=-1) / columns[1][texts].sum(axis=-1))

    whole = slice(None)
    return estimate(
        ratio(one, whole) / ratio(other, whole), ratio(one, chosen) / ratio(other, chosen), DEFAULT_CONFIDENCE
    )
