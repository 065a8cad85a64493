"""Measure the losses of a trace's texts at each threshold of the uncertainty: overlap loss and sum of TVs."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from validation.arrays import Index, Row
from validation.decoding import trace_drafts
from validation.trace.reader import Trace, TraceChunk, probabilities

SAMPLED_VALUES = 7 * 10**8  # probabilities per draw: 170,000 positions at V = 4,096, 21,900 at V = 32,000
MAX_TEMPERATURE = 2.0
BLOCK = 64  # weights per block; a sample's block is found from the sums of the blocks
FOREIGN = 4.0
"""Largest allowed difference of the texts' mean log-probability from its expected value, in standard errors."""


@dataclass(frozen=True)
class Losses:
    """Hold the losses along n texts of at most T tokens, at the 21 thresholds 0, .05, …, 1.

    ``kept`` (n, T, 21): min(1, S_x/p_x), 1 beyond the end; ``tv`` (n, T, 21): one-step total variation, 0 beyond it;
    ``sent`` (n, T, 21): probability that the draft is sent, 0 beyond it; ``length`` (n,): tokens of a text; ``prompt``
    (n,): 0, 1, …; ``surprise``: Σ (H(p) + ln p_x) over all tokens, in standard errors; ``positions``: tokens in all.
    """

    kept: Row
    tv: Row
    sent: Row
    length: Index
    prompt: Index
    surprise: float
    positions: int

    @property
    def prompts(self) -> int:
        return int(self.prompt.max()) + 1

    @property
    def longest(self) -> int:
        return int(self.length.max())

    @property
    def of_the_target_model(self) -> bool:
        """Return whether the texts can be the target model's own samples at temperature 1."""
        return bool(abs(self.surprise) <= FOREIGN)

    def overlap(self, length: int) -> Row:
        """Return the loss 1 - Π min(1, S_x/p_x) of each prompt, (prompts, 21), over the first tokens of its texts."""
        return self._of_prompts(1.0 - np.prod(self.kept[:, :length], axis=1))

    def total(self, length: int) -> Row:
        """Return Σ_t TV_t of each prompt, (prompts, 21), over the first tokens of its texts."""
        return self._of_prompts(np.sum(self.tv[:, :length], axis=1))

    def sent_tokens(self, length: int) -> tuple[Row, Index]:
        """Return how many drafts of each prompt are sent, (prompts, 21), and how many there are, (prompts,)."""
        sent = np.zeros((self.prompts, len(trace_drafts.POINTS)))
        np.add.at(sent, self.prompt, self.sent[:, :length].sum(axis=1))
        return sent, np.bincount(self.prompt, np.minimum(self.length, length)).astype(np.int64)

    def _of_prompts(self, values: Row) -> Row:
        count = np.bincount(self.prompt)[:, None]
        total = np.zeros((len(count), values.shape[1]))
        np.add.at(total, self.prompt, values)
        return total / count


def losses_of(trace: Trace, seed: int) -> Losses:
    """Return the losses of the texts of a trace, computed once for the figure and the table."""
    return _losses(trace, seed, SAMPLED_VALUES)


@lru_cache(maxsize=2)
def _losses(trace: Trace, seed: int, values: int) -> Losses:
    rows = np.concatenate(trace_drafts.even_texts(trace, values // trace.vocabulary))
    rng = np.random.default_rng([seed, 6])
    parts = [_at_positions(chunk, rng) for _, chunk in trace_drafts.chunks_of(trace, rows)]
    kept, tv, sent, surprise, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
    text = trace_drafts.text_of(trace, rows)
    length = np.bincount(text)
    first = np.searchsorted(text, np.arange(len(length)))
    spread = float(np.sqrt(variance.sum()))
    return Losses(
        kept=trace_drafts.along_texts(kept, text, 1.0),
        tv=trace_drafts.along_texts(tv, text, 0.0),
        sent=trace_drafts.along_texts(sent, text, 0.0),
        length=length,
        prompt=trace_drafts.prompt_of(trace, rows)[first],
        surprise=float(surprise.sum()) / spread if spread else 0.0,
        positions=len(rows),
    )


def _at_positions(chunk: TraceChunk, rng: np.random.Generator) -> tuple[Row, Row, Row, Row, Row]:
    """Return min(1, S_x/p_x), the one-step TV and P(sent) at each threshold, (n, 21), then H + ln p_x and its variance.

    By ``skipping.overlap_loss``, min(1, S_x/p_x) = 1 - σ (1 - q_x/p_x)⁺ with σ = Σ_v q_v s_v β_v / TV(q, p).
    """
    q, p = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
    at = np.arange(len(q))
    q_x, p_x = q[at, chunk.tokens], p[at, chunk.tokens]
    over = np.maximum(q - p, 0.0)  # q_v β_v
    tv = over.sum(axis=-1)
    lost, kept_back = _skipped(perturbed_samples(chunk.draft_logits, rng), over, q)
    lost[:, -1], kept_back[:, -1] = tv, 1.0  # u ≤ 1: every draft is skipped
    share = np.minimum(lost / np.where(tv > 0, tv, 1.0)[:, None], 1.0)
    fell = np.where(p_x > q_x, (p_x - q_x) / np.where(p_x > 0, p_x, 1.0), 0.0)
    information = -np.log(np.where(p > 0, p, 1.0))
    entropy = np.sum(p * information, axis=-1)
    variance = np.sum(p * (information - entropy[:, None]) ** 2, axis=-1)
    return 1.0 - share * fell[:, None], lost, 1.0 - kept_back, entropy - information[at, chunk.tokens], variance


def _skipped(samples: Index, *masses: Row) -> list[Row]:
    """Return the sum of each mass (n, V) over the tokens with u ≤ threshold, (n, 21); 0 in the last column."""
    same = samples[:, :, None] == samples[:, None, :]
    first = ~np.any(same & np.tri(trace_drafts.DRAWS, k=-1, dtype=bool), axis=-1)
    differing = trace_drafts.DRAWS - same.sum(axis=-1)  # 20 u
    flat = (np.arange(len(samples))[:, None] * (trace_drafts.DRAWS + 1) + differing).ravel()
    found = []
    for mass in masses:
        own = np.take_along_axis(mass, samples, axis=-1) * first
        by_u = np.bincount(flat, own.ravel(), minlength=len(samples) * (trace_drafts.DRAWS + 1))
        found.append(np.cumsum(by_u.reshape(-1, trace_drafts.DRAWS + 1), axis=-1, dtype=np.float64))
    return found


def perturbed_samples(logits: NDArray[np.floating], rng: np.random.Generator) -> Index:
    """Return 20 tokens for each row of logits, each from softmax(z/θ) with its own θ uniform in (0, 2]."""
    count, vocabulary = len(logits), logits.shape[-1]
    blocks = -(-vocabulary // BLOCK)
    gaps = np.full((count, blocks * BLOCK), np.inf, dtype=np.float32)
    wide = logits.astype(np.float32)
    gaps[:, :vocabulary] = wide.max(axis=-1, keepdims=True) - wide
    at, found = np.arange(count), np.empty((count, trace_drafts.DRAWS), dtype=np.int64)
    for draw in range(trace_drafts.DRAWS):
        temperature, quantile = MAX_TEMPERATURE * (1.0 - rng.random(count)), rng.random(count)
        weights = np.exp(gaps * (-1.0 / temperature)[:, None].astype(np.float32)).reshape(count, blocks, BLOCK)
        sums = np.cumsum(weights.sum(axis=-1), axis=-1, dtype=np.float64)
        goal = quantile * sums[:, -1]
        block = _first_above(sums, goal)
        before = np.where(block > 0, sums[at, block - 1], 0.0)
        inside = np.cumsum(weights[at, block], axis=-1, dtype=np.float64)
        found[:, draw] = block * BLOCK + _first_above(inside, goal - before)
    return found


def _first_above(sums: Row, goal: Row) -> Index:
    """Return the first index whose sum exceeds the goal; if rounding leaves none, the last index with a weight."""
    last = np.argmax(sums, axis=-1)  # the first of equal sums is the last index with a weight
    return np.asarray(np.minimum(np.sum(sums <= goal[:, None], axis=-1), last))
