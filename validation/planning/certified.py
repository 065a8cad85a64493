"""DSSD with a certified answer: rounds of K drafts with q_d, after a rejection as little of p as a limit ε allows.

The law of each token is within ε of the target's, whatever the models are (``channel.downlink_truncated``), so the law
of a text of n tokens is within n ε. Bytes are measured on a sample, weighted by how often a draft is rejected.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from hlmtheory.policy.answers import answer_size, coded_answer
from hlmtheory.policy.device import ANSWER_BITS
from validation.decoding.methods.rows import CERTIFIED
from validation.planning.option import Option
from validation.planning.profile import DRAFT_LENGTHS, Profile, digest, rejection_bits, remembered, reply_bits
from validation.planning.rounds import COUNTS
from validation.planning.truncated import sampled_chunks
from validation.trace.reader import Trace, probabilities

LIMITS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)  # ε of a token


def answer_options(profile: Profile, answers: Mapping[float, float]) -> Iterator[Option]:
    """Yield the option of every draft length and limit; ``answers``: :func:`answer_bits`."""
    down, exchanges = COUNTS.index("down_bits"), COUNTS.index("exchanges")
    longest = int(profile.lengths.max())
    for limit, bits in answers.items():
        loss, token_loss = (np.full(profile.texts, min(n * limit, 1.0)) for n in (longest, 1))
        for k, whole in zip(DRAFT_LENGTHS, profile.split, strict=True):
            counts = whole.copy()
            with_p = counts[:, down] - counts[:, exchanges] * reply_bits(profile.vocabulary)
            counts[:, down] += with_p / rejection_bits(profile.vocabulary) * (bits - 32.0 * profile.vocabulary)
            label = f"ε = {limit:g}, K = {k}"
            yield Option(CERTIFIED, label, counts, k, -np.inf, loss, token_loss, (1, 1), answer_limit=limit)


def answer_bits(trace: Trace, profile: Profile, cache: Path | None = None) -> dict[float, float]:
    """Return the mean bits of p̂ after a rejection, by limit that 24 bits a probability keep."""
    limits = [limit for limit in LIMITS if limit >= profile.vocabulary * 2.0**-ANSWER_BITS]
    key = {"limits": limits, "trace": digest(trace)}
    return dict(zip(limits, remembered(cache, key, lambda: _measured(trace, limits)), strict=True))


def _measured(trace: Trace, limits: list[float]) -> list[float]:
    weights, sizes = [], []
    for chunk in sampled_chunks(trace):
        q, p = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
        weights.append(np.maximum(q - p, 0.0).sum(axis=-1))
        sizes.append(np.stack([answer_size(p, limit) for limit in limits], axis=-1))
    weight, size = np.concatenate(weights), np.concatenate(sizes)
    weight = weight if weight.any() else np.ones(len(weight))
    each, place = np.unique(size, return_inverse=True)
    bits = np.array([8.0 * len(coded_answer(p[0], 0, int(n))) for n in each])  # the size alone decides the length
    means: list[float] = (weight @ bits[place].reshape(size.shape) / weight.sum()).tolist()
    return means
