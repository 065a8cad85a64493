"""Draw one draft at each position of some texts of a trace, with its uncertainty and its rejection probability.

The fitted parameters of the methods and all figures of uncertainty and skipping use these drafts, so that they have one
fit. The target model wrote the texts, so sums along them are those of claim ``skipping.sequence``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

import hlmtheory
from validation.arrays import Index, Row
from validation.claims.instances import InstanceDraws, row_arrays
from validation.trace.reader import ARRAYS, Trace, TraceChunk, probabilities

PERTURBED_VALUES = 9 * 10**7  # probabilities per draw of u: 21,900 positions at V = 4,096, 2,800 at V = 32,000
CHUNK_VALUES = 2**17  # logits perturbed at a time, 1 MiB in float64: they stay in the cache for all 20 draws
CHUNKS_READ = 32  # chunks read at a time: 16 MiB of float16 logits
OFFLINE_VALUES = 2**20  # probabilities sorted at a time for k*
DRAWS = 20
POINTS = np.arange(DRAWS + 1) / DRAWS  # possible values of u: 0, .05, …, 1


@dataclass(frozen=True)
class Tokens:
    """One draft at each of n positions, drawn from q; all arrays are (n,)."""

    rows: Index
    token: Index
    uncertainty: Row
    rejection: Row
    likelihood: Row
    text: Index
    prompt: Index
    longest: int

    @property
    def texts(self) -> int:
        return int(self.text[-1]) + 1

    @property
    def point(self) -> Index:
        return np.rint(self.uncertainty * DRAWS).astype(np.int64)

    @cached_property
    def mass(self) -> Row:
        return np.bincount(self.point, minlength=DRAWS + 1) / len(self.point)

    @cached_property
    def prompt_of_text(self) -> Index:
        return self.prompt[np.searchsorted(self.text, np.arange(self.texts))]

    def skipped(self, threshold: float) -> NDArray[np.bool_]:
        return self.uncertainty <= threshold


@lru_cache(maxsize=2)
def tokens_of(trace: Trace, seed: int) -> Tokens:
    """Return drafts, their uncertainty and their rejection probability, computed once for all figures."""
    rows = np.concatenate(even_texts(trace, PERTURBED_VALUES // trace.vocabulary))
    draws = InstanceDraws.of(np.random.default_rng([seed, 0]), trace.positions, trace.vocabulary)
    parts = []
    for part, chunk in chunks_of(trace, rows):
        arrays = row_arrays(chunk, draws[part], ("token",))
        drafts = np.asarray(arrays["token"])
        parts.append((drafts, *rejection_of(arrays["draft"], arrays["target"], drafts)))
    token, rejection, likelihood = (np.concatenate(part) for part in zip(*parts, strict=True))
    uncertainty = uncertainty_at(trace, rows, token, np.random.default_rng([seed, 1]))
    longest = max(int(trace.manifest.get("new_tokens", 0)), int(trace.arrays["position"][:].max()) + 1)
    text, prompt = text_of(trace, rows), prompt_of(trace, rows)
    return Tokens(rows, token, uncertainty, rejection, likelihood, text, prompt, longest)


def even_texts(trace: Trace, positions: int) -> list[Index]:
    """Return the positions of evenly spaced texts, at most ``count``; else the beginning of the first text."""
    at = np.asarray(trace.arrays["position"][:])
    texts = np.split(np.arange(len(at)), np.flatnonzero(at == 0)[1:])
    lengths = np.array([len(text) for text in texts])
    for count in range(len(texts), 0, -1):
        picked = np.arange(count) * len(texts) // count
        if lengths[picked].sum() <= positions:
            return [texts[index] for index in picked]
    return [texts[0][: max(1, positions)]]


def text_of(trace: Trace, rows: Index) -> Index:
    starts = np.flatnonzero(np.asarray(trace.arrays["position"][:]) == 0)
    return np.unique(np.searchsorted(starts, rows, side="right"), return_inverse=True)[1].astype(np.int64)


def along_texts(values: Row, text: Index, fill: float) -> Row:
    """Return the values of positions as a table (texts, longest text, ...), padded with ``fill``."""
    place = np.arange(len(text)) - np.searchsorted(text, text)
    table = np.full((int(text[-1]) + 1, int(place.max()) + 1, *values.shape[1:]), fill)
    table[text, place] = values
    return table


def prompt_of(trace: Trace, rows: Index) -> Index:
    labels = np.asarray(trace.arrays["prompt_index"][:])[rows]
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def chunks_of(trace: Trace, rows: Index) -> Iterator[tuple[slice, TraceChunk]]:
    """Yield the chunks of ascending rows, each consecutive, with their places in the trace."""
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
        parts = np.array_split(run, min(len(run), -(-len(run) * trace.vocabulary // CHUNK_VALUES)))
        for start in range(0, len(parts), CHUNKS_READ):
            together = parts[start : start + CHUNKS_READ]
            first, last = int(together[0][0]), int(together[-1][-1]) + 1
            read = TraceChunk(**{name: np.array(trace.arrays[name][first:last]) for name in ARRAYS})
            for part in together:
                where = slice(int(part[0]), int(part[-1]) + 1)
                yield where, read[where.start - first : where.stop - first]


def uncertainty_at(trace: Trace, rows: Index, token: Index, rng: np.random.Generator) -> Row:
    parts, done = [], 0
    for _, chunk in chunks_of(trace, rows):
        logits = chunk.draft_logits.astype(np.float64)
        drafts = token[done : done + len(logits)]
        parts.append(hlmtheory.uncertainty.sample_uncertainty(logits, drafts, draws=DRAWS, rng=rng))
        done += len(logits)
    return np.concatenate(parts)


def rejection_at(trace: Trace, rows: Index, token: Index) -> Row:
    parts, done = [], 0
    for _, chunk in chunks_of(trace, rows):
        drafts = token[done : done + len(chunk.tokens)]
        parts.append(rejection_of(probabilities(chunk.draft_logits), probabilities(chunk.target_logits), drafts)[0])
        done += len(drafts)
    return np.concatenate(parts)


def rejection_of(draft: Row, target: Row, token: Index) -> tuple[Row, Row]:
    """Return β_d = (1 - p_d/q_d)⁺ and q_d of the drafts."""
    q, p = (np.take_along_axis(rows, token[:, None], axis=-1)[:, 0] for rows in (draft, target))
    return np.maximum(1.0 - p / q, 0.0), q


def paper_line(tokens: Tokens) -> tuple[float, float] | None:
    """Return slope and intercept of the papers' line, fitted to the means at each value of u; None if u is constant."""
    try:
        fit = hlmtheory.uncertainty.fit_linear(tokens.uncertainty, tokens.rejection, binned=True)
    except ValueError:
        return None
    return fit.slope, fit.intercept


@lru_cache(maxsize=2)
def offline_distortions(trace: Trace) -> Row:
    """Return the mean of Δ_k / TV(q, p) at k = 0, …, V over all positions of a trace with q ≠ p."""
    total, count = np.zeros(trace.vocabulary + 1), 0
    for chunk in trace.chunks(max(1, OFFLINE_VALUES // trace.vocabulary)):
        q, p = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
        apart = np.maximum(p - q, 0.0).sum(axis=-1)
        kept = apart > 0
        deviation = np.asarray(hlmtheory.truncation.tail_deviation(q[kept]))
        falling = np.minimum.accumulate(deviation, axis=-1)  # rounding may make it rise
        total += (falling / apart[kept, None]).sum(axis=0)
        count += int(kept.sum())
    return total / count if count else total * np.nan


def offline_k(trace: Trace, theta: float) -> int | None:
    """Return k* of cu-hlm (21), fitted to the whole trace with the tolerance ``theta``; None if q = p everywhere."""
    mean = offline_distortions(trace)
    return None if np.isnan(mean[0]) else int(np.argmax(2.0 * mean <= theta))
