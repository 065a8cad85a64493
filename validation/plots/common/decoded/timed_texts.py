"""Convert the texts of a study to arrays, and compute their latency over many links at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np

from hlmtheory.channel import db_to_linear
from validation.arrays import Array
from validation.decoding.intervals import counts_of, divide, draw_texts, estimate
from validation.decoding.links import BANDWIDTH_HZ, airtime, fading_links
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.random_streams import Noise
from validation.decoding.records import GenerationRecord
from validation.decoding.seconds import Times
from validation.decoding.seconds import seconds as seconds_of
from validation.decoding.studies import Decoded
from validation.estimates import CONFIDENCE, Estimate

RESAMPLES = 500
WORDS = ("median", "total")
"""``tokens_per_s_text_median`` and ``tokens_per_s`` of :mod:`validation.decoding.metrics`."""
_FIELDS = ("skipped", "draft_passes", "target_passes", "bits", "bytes")
_READ = attrgetter(*_FIELDS)


@dataclass(frozen=True, slots=True)
class Texts:
    """Hold n texts of one method, ordered by prompt id, with R exchanges in total."""

    prompts: tuple[str, ...]
    tokens: Array
    draft_passes: Array
    target_passes: Array
    text: Array
    block: Array
    encoded: Array
    formula: Array


def read_texts(rows: Sequence[GenerationRecord]) -> Texts:
    rows = sorted(rows, key=lambda row: row.prompt)
    tables = [np.array([_READ(one) for one in (*row.rounds, row.last)], dtype=np.float64) for row in rows]
    sums = dict(zip(_FIELDS, np.stack([table.sum(axis=0) for table in tables]).T, strict=True))
    asked = dict(zip(_FIELDS, np.concatenate([table[:-1] for table in tables]).T, strict=True))
    # as in the loop: one fading block for each exchange, and one for each token that skips verification
    blocks = [np.cumsum(table[:-1, 0] + 1.0) - 1.0 for table in tables]
    return Texts(
        tuple(row.prompt for row in rows),
        np.array([float(len(row.tokens)) for row in rows]),
        sums["draft_passes"],
        sums["target_passes"],
        np.repeat(np.arange(len(rows)), [len(row.rounds) for row in rows]),
        np.concatenate(blocks).astype(np.int64),
        8.0 * asked["bytes"],
        asked["bits"],
    )


def read_study(decoded: Decoded) -> dict[str, Texts]:
    """Return the texts by method, without methods whose texts depend on the link rate."""
    return {method: read_texts(rows) for (method, link), rows in decoded.by_method.items() if link == "none"}


@dataclass(frozen=True, slots=True)
class Fading:
    """Hold fading blocks of mean 1 by prompt, (prompts, blocks), as the generation loop draws them."""

    prompts: tuple[str, ...]
    gains: Array

    def of(self, texts: Texts) -> Array:
        place = {name: i for i, name in enumerate(self.prompts)}
        rows = np.array([place[name] for name in texts.prompts])
        return np.asarray(self.gains[rows[texts.text], texts.block])


def draw_fading(study: dict[str, Texts], seed: int, k_factor_db: float | None = None) -> Fading:
    """Draw Rayleigh fading, or Rician with that K-factor, with enough blocks for every method."""
    prompts = tuple(sorted({name for texts in study.values() for name in texts.prompts}))
    place = {name: i for i, name in enumerate(prompts)}
    needed = np.zeros(len(prompts), dtype=np.int64)
    for texts in study.values():
        rows = np.array([place[name] for name in texts.prompts])
        np.maximum.at(needed, rows[texts.text], texts.block + 1)
    (link,) = fading_links([0.0], k_factor_db=k_factor_db, bandwidth_hz=1.0)
    channel = link.open(Noise(seed, prompts, 0))
    gains = np.ones((len(prompts), int(needed.max(initial=0))))
    for row, count in enumerate(needed.tolist()):
        gains[row, :count] = [channel.rate(row) for _ in range(count)]
    gains = np.expm1(gains * np.log(2.0))  # the rate at 1 Hz is log₂(1 + S)
    for row, count in enumerate(needed.tolist()):
        gains[row, count:] = 1.0
    return Fading(prompts, gains)


def still(study: dict[str, Texts]) -> Fading:
    """Return constant gains of 1: every exchange has the mean SNR."""
    prompts = tuple(sorted({name for texts in study.values() for name in texts.prompts}))
    most = max((int(texts.block.max(initial=-1)) + 1 for texts in study.values()), default=0)
    return Fading(prompts, np.ones((len(prompts), most)))


@dataclass(frozen=True, slots=True)
class BootstrapDraws:
    """Hold one number for each of L links, and its bootstrap values over the texts."""

    value: Array  # (L,)
    drawn: Array  # (resamples, L)

    def over(self, other: Self) -> Self:
        return type(self)(divide(self.value, other.value), divide(self.drawn, other.drawn))

    def estimates(self) -> list[Estimate]:
        columns = zip(self.value, self.drawn.T, strict=True)
        return [estimate(value, drawn, CONFIDENCE) for value, drawn in columns]


def link_seconds(
    texts: Texts, fading: Fading, snr_db: float, *, bandwidth_hz: float = BANDWIDTH_HZ, bits: str = "encoded"
) -> Array:
    """Return the uplink time of each exchange, shape (R,), of the bits "encoded", or by the "formula" cu-hlm (4)."""
    return airtime(getattr(texts, bits), bandwidth_hz, float(db_to_linear(float(snr_db))) * fading.of(texts))


def speeds(
    texts: Texts,
    fading: Fading,
    average_snr_db: Sequence[float],
    *,
    seed: int,
    times: tuple[float, float] = PAPER_TIMES,
    **link: Any,
) -> dict[str, BootstrapDraws]:
    """Return tokens per second over each link, by the metrics of ``WORDS``."""
    chosen = draw_texts(len(texts.tokens), RESAMPLES, seed)
    counts = counts_of(chosen, len(texts.tokens))
    models = seconds_of({"drafts": texts.draft_passes, "passes": texts.target_passes}, Times(*times))
    found: dict[str, list[tuple[Any, Array]]] = {word: [] for word in WORDS}
    for snr_db in average_snr_db:
        seconds = models + sum_by(texts, link_seconds(texts, fading, snr_db, **link))
        each = divide(texts.tokens, seconds)
        found["median"].append((np.median(each), np.median(each[chosen], axis=-1)))
        found["total"].append((texts.tokens.sum() / seconds.sum(), (counts @ texts.tokens) / (counts @ seconds)))
    return {
        word: BootstrapDraws(np.array([value for value, _ in pairs]), np.stack([drawn for _, drawn in pairs], axis=-1))
        for word, pairs in found.items()
    }


def sum_by(texts: Texts, values: Array) -> Array:
    """Sum over the exchanges of each text, shape (n,)."""
    return np.asarray(np.bincount(texts.text, weights=values, minlength=len(texts.tokens)))
