"""What each way of drafting and of lossless verification would accept, replayed on the texts of a trace.

Given the emitted token y: a greedy draft is accepted if it is y, a sampled one by rejection with min(1, q(y)/p(y)), by
match with q(y). Where a step begins is a Markov chain along the text, so expected steps are exact sums. Steps that the
end of a text would cut are left out. The intervals are over texts.
"""

import numpy as np

from validation.arrays import Array
from validation.collection.import_lists import CORPUS
from validation.decoding.intervals import ratio
from validation.errors import UserError
from validation.estimates import Estimate
from validation.trace.reader import LOGITS, Trace, probabilities

LAWS = {
    "greedy": "greedy drafts, match or rejection",
    "rejection": "sampled drafts, rejection",
    "match": "sampled drafts, match",
}
ROWS = 128


def lengths_by_law(trace: Trace, draft_length: int, confidence: float = 0.95) -> dict[str, Estimate]:
    """Return the tokens of a step of ``draft_length`` drafts under each key of :data:`LAWS`."""
    if trace.kind != LOGITS:
        raise UserError("The trace has the most probable tokens only; the laws need whole rows of both models.")
    if trace.manifest.get("texts") == CORPUS:
        raise UserError("The texts are a corpus's; the laws are replayed along texts that the target model wrote.")
    parts, begins = [], []
    last = np.inf
    for chunk in trace.chunks(ROWS):
        if (chunk.tokens < 0).any():
            raise UserError("The trace has positions without a token; the laws are replayed along texts.")
        parts.append(_chances(chunk.draft_logits, chunk.target_logits, chunk.tokens))
        begins.append(np.diff(chunk.position, prepend=last) <= 0)
        last = chunk.position[-1]
    chances, text = np.concatenate(parts, axis=1), np.cumsum(np.concatenate(begins)) - 1
    counts = np.bincount(text)
    if counts.max() <= draft_length:
        needed = f"{draft_length + 1} tokens, as a step of {draft_length} drafts needs"
        raise UserError(f"No text of the trace has {needed}.")
    place = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    estimates = {}
    for name, row in zip(LAWS, chances, strict=True):
        along = np.zeros((counts.max(), len(counts)))
        along[place, text] = row
        estimates[name] = ratio(*_steps(along, counts, draft_length), confidence=confidence)
    return estimates


def _steps(chances: Array, length: Array, drafts: int) -> tuple[Array, Array]:
    """Return the expected tokens of the whole steps of each text, and their number, (texts,) each."""
    padded = np.concatenate([chances, np.zeros((drafts, len(length)))])
    start = np.zeros((len(padded) + 2, len(length)))
    start[0] = 1.0
    steps, tokens = np.zeros(len(length)), np.zeros(len(length))
    for t in range(len(chances)):
        alive = np.where(t + drafts < length, start[t], 0.0)
        steps += alive
        tokens += alive
        for j in range(drafts):
            lost = alive * (1.0 - padded[t + j])
            start[t + j + 1] += lost
            alive = alive - lost
            tokens += alive
        start[t + drafts + 1] += alive
    return tokens, steps


def _chances(draft_logits: Array, target_logits: Array, tokens: Array) -> Array:
    """Return P(the draft of each position was accepted | its token) under each law, (3, n)."""
    q, p = probabilities(draft_logits), probabilities(target_logits)
    at = np.arange(len(tokens)), tokens
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(p[at] > 0, np.minimum(1.0, q[at] / p[at]), 0.0)
    return np.stack([(q.argmax(axis=-1) == tokens).astype(np.float64), kept, q[at]])
