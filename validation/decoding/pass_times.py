"""Seconds of a forward pass of each model on this machine, measured once for a run and used for every method.

The seconds in a record come from a batch, on a machine that may have had other work; the numbers of passes do not. So a
speed is tokens / (draft passes · t_draft + target passes · t_target), with both times measured one text at a time.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from validation.decoding.intervals import ratio
from validation.decoding.kv_cache import CachedModel
from validation.decoding.records import GenerationRecord
from validation.errors import UserError
from validation.estimates import Estimate
from validation.from_json import loaded
from validation.models.machine import machine
from validation.models.pair import Pair
from validation.provenance import now
from validation.trace.sealed import read_sealed, write_sealed

DRAFTS, TOKENS_BEFORE, REPEATS, WARM_UP = 4, 64, 21, 3
FILE = "passes.json"
STORED = {"draft": "small", "target": "large"}  # names in the file


@dataclass(frozen=True, slots=True)
class Pass:
    """Seconds of a pass over some new tokens: the median and the quartiles of several."""

    tokens: int
    median_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class Passes:
    """One draft token of the draft model, and a verification of K + 1 tokens by the target model."""

    draft: Pass
    target: Pass
    before: int
    repeats: int
    models: dict[str, str]
    date: str

    def plain(self) -> dict[str, Any]:
        return {STORED.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        names = {stored: name for name, stored in STORED.items()}
        return loaded(cls, {names.get(stored, stored): value for stored, value in plain.items()})


def measure_passes(pair: Pair, *, drafts: int = DRAFTS, before: int = TOKENS_BEFORE, repeats: int = REPEATS) -> Passes:
    """Time a pass of each model with a filled cache, for one text, as the generation loop runs it."""
    before = max(1, min(before, pair.context - drafts - 2))
    draft = _time(pair, pair.draft, before, 1, repeats)
    target = _time(pair, pair.target, before, drafts + 1, repeats)
    return Passes(draft, target, before, repeats, _models(pair), now())


def passes_of(pair: Pair, folder: Path) -> Passes:
    file = folder / FILE
    try:
        there = Passes.of(read_sealed(file))
    except (OSError, UserError, ValueError):
        there = None
    if there is not None and there.models == _models(pair):
        return there
    passes = measure_passes(pair)
    folder.mkdir(parents=True, exist_ok=True)
    write_sealed(file, passes.plain())
    return passes


def speed(records: Sequence[GenerationRecord], passes: Passes) -> Estimate:
    """Return the tokens per second of these texts, from pass counts and measured pass times, with an interval."""
    records = sorted(records, key=lambda record: record.prompt)
    times = {"draft_passes": passes.draft.median_s, "target_passes": passes.target.median_s}
    seconds = [sum(record.total(name) * time for name, time in times.items()) for record in records]
    return ratio(np.array([float(len(record.tokens)) for record in records]), np.array(seconds))


def risk_per_token(records: Sequence[GenerationRecord]) -> Estimate:
    """Return Σ risk / Σ tokens, which bounds the mean total variation of a token's law; None if it was not computed."""
    records = sorted(records, key=lambda record: record.prompt)
    if not all(record.risk_computed for record in records):
        return Estimate(None)
    risks = np.array([record.total("risk") for record in records])
    return ratio(risks, np.array([float(len(record.tokens)) for record in records]))


def _models(pair: Pair) -> dict[str, str]:
    described: dict[str, Any] = pair.describe()
    names = ("small_name", "large_name", "small_commit", "large_commit", "device", "dtype")
    known = {name: str(described[name]) for name in names if name in described}
    return known | {name: str(machine()[name]) for name in ("processor", "cores")}


def _time(pair: Pair, model: Any, before: int, tokens: int, repeats: int) -> Pass:
    import torch

    reader = CachedModel(model, pair.vocabulary, pair.device, 1, before + tokens + 1, pair.context)
    text = np.random.default_rng(1).integers(0, pair.vocabulary, (1, before + tokens + 1))
    seconds = []
    with torch.inference_mode():
        reader.read(text, np.array([before]), rows=0)
        for number in range(WARM_UP + repeats):
            reader.cached[:] = before
            reader.read(text, np.array([before + tokens]), rows=tokens)
            if number >= WARM_UP:
                seconds.append(reader.seconds)
    low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
    return Pass(tokens, median, low, high)
