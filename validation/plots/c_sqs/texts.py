"""Read the counts of the decoded texts of c-sqs, which ``figures/studies/c_sqs`` stores in ``texts.json``.

Passes are counted instead of seconds, so the latency follows for any pass times and any link.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.seconds import Times, seconds
from validation.plots.common.stored import named, stored

Values = NDArray[np.float64]

SIZES = (16, 64, 256)  # K; the paper's text does not print its values
THRESHOLDS = (0.0001, 0.001, 0.01)  # τ_1; the paper does not print its values
MIDDLE_SIZE, MIDDLE_THRESHOLD = 64, 0.001
DRAFT_BITS = 625.0  # allocated bits per draft: 5,000 bits for the eight drafts of K = 64 at V = 4,096
EXPERIMENT = "c_sqs"
PATH = ("accepted", "resampled", "dropped")
"""Fields that the longer texts hold for each round, before the threshold."""
SUMS = (*PATH, "drafted", "bits", "bytes", "rounding", "draft_s", "mismatch")
"""Fields of the records, summed over each text; ``draft_s`` counts passes of the draft model."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold the texts of one method at one temperature.

    ``sums``: by field of SUMS, (texts,); ``rounding``: Σ K/(4ℓ) over the verified drafts, c-sqs (20); ``paths``: PATH
    and the threshold of each round of the longer texts.
    """

    sums: dict[str, Values]
    tokens: Values
    rounds: Values
    rounding: Values
    by_bytes: bool
    paths: Sequence[Any] = ()

    @property
    def looked_at(self) -> Values:
        """Return the verified drafts of each text: the accepted ones, and the first rejected one of each round."""
        return self.sums["accepted"] + self.sums["resampled"]

    @property
    def bits(self) -> Values:
        return 8.0 * self.sums["bytes"] if self.by_bytes else self.sums["bits"]

    def seconds(self, times: Times, rate_bps: float) -> Values:
        """Return the latency of each text, without reading the prompt."""
        counts = {"drafts": self.sums["draft_s"], "passes": self.rounds, "up_bits": self.bits}
        counts |= {"verified": self.sums["drafted"] + self.rounds}
        return seconds(counts, replace(times, up_bps=rate_bps))


@dataclass(frozen=True, slots=True)
class Texts:
    """Hold all texts by method and temperature; ``long`` holds longer ones at the highest temperature, by method."""

    about: dict[str, Any]
    times: Times
    cells: dict[tuple[str, float], Cell]
    long: dict[str, Cell]
    record: dict[str, Any]

    @property
    def temperatures(self) -> list[float]:
        return list(self.about["scale"]["temperatures"])


@cache
def texts(pair: str | None = None) -> Texts:
    found, record = stored(named(EXPERIMENT, pair))
    cells = {(one["method"], one["temperature"]): _cell(one) for one in found.pop("cells")}
    long = {one["method"]: _cell(one) for one in found.pop("long")}
    return Texts(found, Times(**found.pop("times")), cells, long, record)


def _cell(one: dict[str, Any]) -> Cell:
    texts, paths = one["texts"], []
    sums = [text["sums"] for text in texts]
    if isinstance(texts[0]["rounds"], list):
        paths = [text["rounds"] for text in texts]
        along = [[sum(column) for column in list(zip(*path, strict=True))[: len(PATH)]] for path in paths]
        sums = [[*ours, *own] for ours, own in zip(along, sums, strict=True)]
    count = [len(text["rounds"]) if paths else text["rounds"] for text in texts]
    return Cell(
        {name: np.array(column, dtype=np.float64) for name, column in zip(SUMS, zip(*sums, strict=True), strict=True)},
        np.array([text["tokens"] for text in texts], dtype=np.float64),
        np.array(count, dtype=np.float64),
        np.array(one["rounding"]),
        one["by_bytes"],
        paths,
    )
