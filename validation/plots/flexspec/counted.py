"""Time the counted rounds of ``figures/studies/flexspec_tables`` over flexspec's networks, and replay rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hlmtheory.draft_length import AcceptanceTracker, optimal_draft_length
from hlmtheory.draft_length.optimum import surrogate_draft_length
from validation.decoding.intervals import DEFAULT_RESAMPLES, draw_texts, estimate
from validation.decoding.methods.catalogue import info_of
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S
from validation.decoding.seconds import Times, seconds
from validation.decoding.studies import CLOUD_S, RATES_BPS, flexspec_links
from validation.decoding.wire import index_bits
from validation.estimates import CONFIDENCE, Estimate
from validation.plots.common.printed import DATASETS, NETWORKS
from validation.plots.common.stored import named, stored

Column = NDArray[np.float64]
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

    def of(self, chosen: NDArray[Any]) -> Self:
        return type(self)(*(getattr(self, name)[chosen] for name in Texts.__slots__))

    def seconds(
        self, network: str, *, draft_s: float = FLEXSPEC_DRAFT_S, cloud_s: float = CLOUD_S, delay_s: float | None = None
    ) -> Column:
        delay, rate = DELAYS_S[network] if delay_s is None else delay_s, RATES_BPS[network]
        counts = {"drafts": self.draft_passes, "passes": self.target_passes, "exchanges": self.rounds}
        counts |= {"up_bits": 8.0 * self.bytes, "down_bits": 8.0 * self.down_bytes}
        return seconds(counts, Times(draft_s, cloud_s, round_trip_s=delay, up_bps=rate, down_bps=rate))


@dataclass(frozen=True, slots=True)
class Fate:
    """Hold the target model's verification of a text, position by position."""

    runs: list[int]
    ended: bool
    most: int


@dataclass(frozen=True)
class Counted:
    about: dict[str, Any]
    rows: dict[tuple[str, float, str, str, str], Texts]
    flags: dict[tuple[str, float, str], list[Fate]]
    record: dict[str, Any]

    @property
    def sources(self) -> NDArray[np.str_]:
        return np.array([prompt["source"] for prompt in self.about["prompts"]])


@cache
def counted(pair: str | None = None) -> Counted:
    found, record = stored(named("flexspec_tables", pair))
    rows = {
        (one["version"], one["temperature"], one["draft"], one["method"], one["link"]): Texts(
            *np.asarray(one["texts"], dtype=np.float64).T
        )
        for one in found["rows"]
    }
    most = found["about"]["new_tokens"]
    flags = {
        (one["version"], one["temperature"], one["draft"]): [fate_of(text, most) for text in one["texts"]]
        for one in found["flags"]
    }
    return Counted(found["about"], rows, flags, record)


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
    return lambda average: length


def cost(network: str, draft_s: float, bits: float, *, round_s: float | None = None) -> tuple[float, float]:
    """Return F and M of a round in seconds; ``round_s`` replaces delay and pass."""
    whole = DELAYS_S[network] + CLOUD_S if round_s is None else round_s
    return whole, draft_s + bits / RATES_BPS[network]


def by_surrogate(fixed_s: float, marginal_s: float, most: int) -> Rule:
    return lambda average: int(surrogate_draft_length(average, fixed_s, marginal_s, most))


def by_optimum(fixed_s: float, marginal_s: float, most: int) -> Rule:
    """Return K* of the moving average of accepted over verified drafts."""
    return lambda average: _optimum(average, fixed_s, marginal_s, most)


@cache
def _optimum(average: float, fixed_s: float, marginal_s: float, most: int) -> int:
    return int(optimal_draft_length(average, fixed_s, marginal_s, most))


BASE, PLAIN, ALIGNED = "version 0", "plain", "aligned"
CLOUD, STANDARD, MEDUSA, EAGLE, DSSD = "Cloud-Only", "Std. SD", "Medusa-1", "EAGLE-2", "DSSD"
FLEXSPEC = "FlexSpec"
EXACT, RULE_ALONE = "aligned draft with K*", "FlexSpec's rule, plain draft"
LENGTHS = tuple(range(1, 17))
"""Fixed draft lengths of the replay."""


@dataclass(frozen=True, slots=True)
class Line:
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
    study: Counted
    temperature: float

    @property
    def rule(self) -> str:
        """Return the name of FlexSpec's line, or of its rule's where the aligned draft was not run."""
        return FLEXSPEC if FLEXSPEC in self.lines["4G"] else RULE_ALONE

    @property
    def lossless_bits(self) -> int:
        return index_bits(self.study.about["vocabulary"]) + (32 if self.temperature else 0)

    @cached_property
    def lines(self) -> dict[str, dict[str, Texts]]:
        found = {network: {line.name: self._texts(line, network) for line in LINES} for network in NETWORKS}
        return {network: {name: one for name, one in lines.items() if one} for network, lines in found.items()}

    def _texts(self, line: Line, network: str) -> Texts | None:
        if line.method == OPTIMUM:
            known = (BASE, self.temperature, line.draft) in self.study.flags
            return self.replay(line.draft, network, by_optimum) if known else None
        found = {
            link: texts
            for (version, temperature, draft, method, link), texts in self.study.rows.items()
            if (version, temperature, draft) == (BASE, self.temperature, line.draft)
            and info_of(method).name == line.method
        }
        # a rule whose lengths are the same over all networks is decoded over one of them
        return found.get(network) or next(iter(found.values()), None)

    def replay(
        self,
        draft: str,
        network: str,
        make: Callable[[float, float, int], Rule],
        *,
        draft_s: float = FLEXSPEC_DRAFT_S,
        round_s: float | None = None,
        method: str = "consistent",
    ) -> Texts:
        """Return the texts of a rule of the past; ``make`` maps F, M and K_max to the rule."""
        fixed, marginal = cost(network, draft_s, self.lossless_bits, round_s=round_s)
        rule = make(fixed, marginal, self.study.about["max_draft_length"])
        return self.replayed(draft, [rule] * len(self.study.about["prompts"]), method)

    def replayed(self, draft: str, rules: list[Rule], method: str = NO_AVERAGE) -> Texts:
        fates = self.study.flags[BASE, self.temperature, draft]
        lossless, vocabulary = bool(self.temperature), self.study.about["vocabulary"]
        return replayed(fates, rules, vocabulary=vocabulary, lossless=lossless, method=method)

    def by_length(self, draft: str, network: str) -> dict[str, Texts]:
        """Return the texts of every choice of the draft length, lossless: fixed, K*, by Algorithm 2."""
        count = len(self.study.about["prompts"])
        found = {f"fixed K = {k}": self.replayed(draft, [fixed(k)] * count) for k in LENGTHS}
        found["K*"] = self.replay(draft, network, by_optimum)
        found["Algorithm 2"] = self.replay(draft, network, by_surrogate, method="ema_printed")
        return found


Clock = Callable[[Texts], NDArray[np.float64]]
"""Maps texts to their seconds."""


def over(network: str, **times: Any) -> Clock:
    """Return the seconds over a network; ``times`` replace those of the tables."""
    return partial(Texts.seconds, network=network, **times)


def milliseconds(texts: Texts, times: Clock) -> float:
    return float(1e3 * times(texts).sum() / texts.tokens.sum())


def speed_up(texts: Texts, cloud: Texts, times: Clock, seed: int) -> Estimate:
    """Return tokens per second over those of Cloud-Only on the same prompts, with its interval."""
    return quotient((times(cloud), cloud.tokens), (times(texts), texts.tokens), seed)


def speed_ups(case: Case, network: str, source: str | None, seed: int) -> dict[str, Estimate]:
    """Return the speed-up of each line that was run, on one prompt set or on all of the paper's six."""
    chosen, lines = chosen_prompts(case.study, source), case.lines[network]
    cloud = lines[CLOUD].of(chosen)
    return {name: speed_up(texts.of(chosen), cloud, over(network), seed) for name, texts in lines.items()}


def chosen_prompts(study: Counted, source: str | None) -> NDArray[np.bool_]:
    """Return which prompts are of a set, or of any of the paper's six."""
    return np.asarray(study.sources == source if source else np.isin(study.sources, DATASETS))


Columns = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Numerator and denominator of a ratio of totals, one entry for each text."""


def quotient(one: Columns, other: Columns, seed: int) -> Estimate:
    """Return one ratio of totals over another on the same texts, with its interval."""
    chosen = draw_texts(len(one[0]), DEFAULT_RESAMPLES, seed)

    def ratio(columns: Columns, texts: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        return np.asarray(columns[0][texts].sum(axis=-1) / columns[1][texts].sum(axis=-1))

    whole = slice(None)
    return estimate(ratio(one, whole) / ratio(other, whole), ratio(one, chosen) / ratio(other, chosen), CONFIDENCE)
