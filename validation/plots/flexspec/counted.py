"""Time the counted rounds of ``figures/studies/flexspec_tables`` over flexspec's networks, and replay rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.draft_length import (
    AcceptanceTracker,
    optimal_draft_length,
    surrogate_draft_length,
)
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S
from validation.decoding.studies import CLOUD_S, RATES_BPS, flexspec_links
from validation.decoding.wire import index_bits
from validation.errors import UserError
from validation.plots.common.stored import from_experiment

Column = NDArray[np.float64]
STORED = Path(__file__).resolve().parents[3] / "figures" / "studies" / "flexspec_tables" / "rows.json"
DELAYS_S = {link.name: 2.0 * link.way.propagation_s for link in flexspec_links()}
"""Delay of a round, both ways: Cloud-Only's time of Table III less a pass of the cloud."""
STEP = 0.1
"""μ of the moving average; flexspec prints none."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Hold the counts of a method's texts, one entry for each prompt."""

    tokens: Column
    rounds: Column
    drafted: Column
    accepted: Column
    resampled: Column
    draft_passes: Column
    target_passes: Column
    bytes: Column
    down_bytes: Column

    def of(self, chosen: NDArray[Any]) -> Texts:
        return Texts(*(getattr(self, name)[chosen] for name in Texts.__slots__))

    def seconds(
        self, network: str, *, draft_s: float = FLEXSPEC_DRAFT_S, cloud_s: float = CLOUD_S, delay_s: float | None = None
    ) -> Column:
        delay = DELAYS_S[network] if delay_s is None else delay_s
        sent = 8.0 * (self.bytes + self.down_bytes) / RATES_BPS[network]
        return delay * self.rounds + draft_s * self.draft_passes + cloud_s * self.target_passes + sent


@dataclass(frozen=True, slots=True)
class Fate:
    """Hold the target model's verification of a text, position by position."""

    runs: list[int]
    ended: bool
    most: int


@dataclass(frozen=True)
class Counted:
    """Hold what the study stored."""

    about: dict[str, Any]
    rows: dict[tuple[str, float, str, str, str], Texts]
    flags: dict[tuple[str, float, str], list[Fate]]
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def sources(self) -> NDArray[np.str_]:
        return np.array([prompt["source"] for prompt in self.about["prompts"]])


@cache
def counted(file: Path = STORED) -> Counted:
    """Read the stored counts."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"There are no counted rounds at {file}; restore the file from the repository.") from error
    rows = {
        (one["version"], one["temperature"], one["draft"], one["method"], one["link"]): Texts(
            *np.asarray(one["texts"], dtype=np.float64).T
        )
        for one in stored["rows"]
    }
    most = stored["about"]["new_tokens"]
    flags = {
        (one["version"], one["temperature"], one["draft"]): [fate_of(text, most) for text in one["texts"]]
        for one in stored["flags"]
    }
    return Counted(stored["about"], rows, flags, from_experiment("flexspec_tables") if file == STORED else {})


def fate_of(flags: str, most: int) -> Fate:
    """Return the fate of a text from the flags of its positions; a final ``.`` says that the text ended by itself.

    >>> fate_of("1101.", 48)
    Fate(runs=[2, 1, 0, 1], ended=True, most=48)
    """
    digits = flags.rstrip(".")
    runs, run = [0] * len(digits), 0
    for place in reversed(range(len(digits))):
        run = run + 1 if digits[place] == "1" else 0
        runs[place] = run
    return Fate(runs, flags != digits, most)


Rule = Callable[[float], int]
"""Maps a moving average to the next draft length."""
NO_AVERAGE = "none"
"""For rules that need no moving average."""


def replay(fate: Fate, rule: Rule, method: str = "consistent") -> list[tuple[int, int]]:
    """Return drafts and accepted drafts of each round by a rule.

    >>> replay(Fate([2, 1, 0, 1, 0], False, 5), fixed(2), NO_AVERAGE)
    [(2, 2), (2, 1)]
    """
    tracker = None if method == NO_AVERAGE else AcceptanceTracker(step=STEP, method=method)
    place, end, rounds = 0, len(fate.runs), []
    while place < end:
        most = min(rule(tracker.estimate if tracker else 0.0), fate.most - place)
        kept = min(fate.runs[place], most)
        over = fate.ended and place + kept == end  # the text's last token was a draft, so no token follows it
        drafted = kept if over else most
        rounds.append((drafted, kept))
        if drafted and tracker:
            tracker = tracker.update(kept, drafted)
        place += kept + 1
    return rounds


def replayed(fates: Sequence[Fate], rules: Sequence[Rule], *, vocabulary: int, lossless: bool, method: str) -> Texts:
    """Return the counts of texts by one rule each."""
    width = index_bits(vocabulary)
    columns = []
    for fate, rule in zip(fates, rules, strict=True):
        rounds = np.asarray(replay(fate, rule, method), dtype=np.float64).reshape(-1, 2)
        drafted, kept = rounds.T
        rejected = kept < drafted
        up = np.ceil((16.0 + (width + 32.0 * lossless) * drafted) / 8.0)
        token = np.ceil((np.ceil(np.log2(drafted + 1.0)) + width) / 8.0)
        down = np.where(rejected, 2.0 + 4.0 * vocabulary, token) if lossless else token
        sums = (drafted.sum(), kept.sum(), rejected.sum(), drafted.sum(), len(rounds), up.sum(), down.sum())
        columns.append((float(len(fate.runs)), float(len(rounds)), *map(float, sums)))
    return Texts(*np.asarray(columns, dtype=np.float64).T)


def fixed(length: int) -> Rule:
    """Return the rule of a fixed length."""
    return lambda average: length


def cost(network: str, draft_s: float, bits: float, *, round_s: float | None = None) -> tuple[float, float]:
    """Return F and M of a round in seconds; ``round_s`` replaces delay and pass."""
    whole = DELAYS_S[network] + CLOUD_S if round_s is None else round_s
    return whole, draft_s + bits / RATES_BPS[network]


def by_surrogate(fixed_s: float, marginal_s: float, most: int) -> Rule:
    """Return Algorithm 2's rule."""
    return lambda average: int(surrogate_draft_length(average, fixed_s, marginal_s, most))


def by_optimum(fixed_s: float, marginal_s: float, most: int) -> Rule:
    """Return K* of the moving average of accepted over verified drafts."""
    return lambda average: _optimum(average, fixed_s, marginal_s, most)


@cache
def _optimum(average: float, fixed_s: float, marginal_s: float, most: int) -> int:
    return int(optimal_draft_length(average, fixed_s, marginal_s, most))
