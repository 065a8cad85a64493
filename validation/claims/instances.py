"""Instances of the claims: arrays from a trace's positions, or drawn from ``hlmtheory/arguments.py``.

q and p are the float64 softmax of the stored logits. The other inputs of a claim (a drawn token, k, a draft length) are
random with a fixed seed, so that a run is reproducible; every k from 0 to V has positive probability. numpy draws and
builds all instances on the host, so that every device checks the same ones.
"""

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Self

import numpy as np

import hlmtheory
from hlmtheory import verification
from hlmtheory.arguments import instance
from hlmtheory.claims import Claim, Instance
from validation.arrays import Array
from validation.trace.reader import TraceChunk, probabilities

MAX_DRAFT_LENGTH = 8
SIZES_BY_DRAFT = (8, 64, 512)  # top_k of likely, middling and unlikely draft tokens
ACTUAL_TEMPERATURE = 0.7  # of a sampler that declares temperature 1
ROW_ARRAYS = (
    *("draft", "target", "actual_draft", "token", "k", "top_k", "acceptance", "draft_length", "sharpness", "skip"),
    "draft_count",
)
WINDOW_ARRAYS = ("acceptances",)
SIMULATED = frozenset(
    {
        "codec.certificate",
        "draft_length.tracker_consistent",
        "draft_length.tracker_in_use",
        "lattice.informative",
        "lattice.misdeclared",
        "truncation.online_direction_worst",
        "verification.multi_draft_optimum",
        "verification.top_drafts",
    }
)
"""Claims that a trace would serve, but which cost too much on all of its positions, or are in scope on few of them."""

Scenario = Callable[[np.random.Generator], Instance]


@dataclass(frozen=True, slots=True)
class InstanceDraws:
    """The random inputs of the instances at n positions; each field has shape (n,)."""

    quantile: Array  # in [0, 1): selects the drawn token
    k: Array
    draft_length: Array
    sharpness: Array  # of a softplus
    skip_from: Array  # smallest draft probability at which verification may be skipped
    skip_level: Array  # probability of skipping there

    @classmethod
    def of(cls, rng: np.random.Generator, count: int, vocabulary: int) -> Self:
        quantile = rng.random(count)
        k = np.floor((vocabulary + 2.0) ** rng.random(count)).astype(np.int64) - 1
        k[rng.random(count) < 0.01] = vocabulary
        lengths = rng.integers(0, MAX_DRAFT_LENGTH + 1, count)
        sharpness, skip_from = 100.0 ** rng.random(count), 1e-6 ** rng.random(count)
        level = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))
        return cls(quantile, k, lengths, sharpness, skip_from, level)

    def __getitem__(self, part: slice) -> Self:
        return type(self)(*(getattr(self, field.name)[part] for field in fields(self)))


def row_arrays(chunk: TraceChunk, draws: InstanceDraws, names: Collection[str] = ROW_ARRAYS) -> dict[str, Array]:
    """Return the named arrays with one entry per position, and always ``draft``, ``target`` and ``acceptance``."""
    draft, target = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
    arrays = {
        "draft": draft,
        "target": target,
        "acceptance": np.minimum(verification.acceptance_rate(target, draft), 1.0),
        "k": draws.k,
        "draft_length": draws.draft_length,
        "sharpness": draws.sharpness,
    }
    if "skip" in names:
        arrays["skip"] = np.where(draft >= draws.skip_from[:, None], draws.skip_level[:, None], 0.0)
    if "draft_count" in names:
        arrays["draft_count"] = 1 + draws.draft_length // 3
    if "actual_draft" in names:
        arrays["actual_draft"] = probabilities(chunk.draft_logits.astype(np.float64) / ACTUAL_TEMPERATURE)
    if "token" in names:
        arrays["token"] = _drawn(draft, draws.quantile)
    if "top_k" in names:
        likely, middling, unlikely = np.minimum(SIZES_BY_DRAFT, draft.shape[-1])
        arrays["top_k"] = np.where(draft >= 0.1, likely, np.where(draft >= 0.001, middling, unlikely))
    return arrays


def _drawn(rows: Array, quantile: Array) -> Array:
    cumulative = np.cumsum(rows, axis=-1)
    return np.asarray(np.argmax(cumulative > (quantile * cumulative[:, -1])[:, None], axis=-1))


def windows(acceptance: Array, chunk: TraceChunk) -> Array:
    """Return acceptance rates at MAX_DRAFT_LENGTH consecutive positions of one sequence, (m, MAX_DRAFT_LENGTH)."""
    if len(acceptance) < MAX_DRAFT_LENGTH:
        return np.empty((0, MAX_DRAFT_LENGTH))
    rows = np.lib.stride_tricks.sliding_window_view(acceptance, MAX_DRAFT_LENGTH)
    last = len(rows)
    steps = chunk.position[MAX_DRAFT_LENGTH - 1 :] - chunk.position[:last]
    whole = (steps == MAX_DRAFT_LENGTH - 1) & (chunk.prompt_index[MAX_DRAFT_LENGTH - 1 :] == chunk.prompt_index[:last])
    return np.asarray(rows[whole])


def scenarios() -> dict[str, Scenario]:
    """Return a generator of simulated instances for each claim that a trace does not serve, by claim id."""
    served = {*ROW_ARRAYS, *WINDOW_ARRAYS}
    return {
        name: partial(instance, claim)
        for name, claim in hlmtheory.all_claims().items()
        if name in SIMULATED or not served.issuperset(claim.takes)
    }


def measured(claims: Mapping[str, Claim]) -> dict[str, Claim]:
    """Return the claims that a trace decides: those without a scenario."""
    tables = scenarios()
    return {name: claim for name, claim in claims.items() if name not in tables}


def scenario_rng(seed: int, claim: str, batch: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(claim.encode()), batch])
