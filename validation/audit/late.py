"""The law of a sampler that applies a rejection one round late: the variants, and the drafts that no text shows."""

from collections.abc import Iterator

import numpy as np

from hlmtheory.verification.late import late_texts
from validation.arrays import Array
from validation.audit.laws import Law

HIDDEN = 128
"""Most continuations that are summed over after a prefix."""


def late_rejections(
    laws: tuple[Law, Law], prompt: int, tokens: Array, rows: tuple[Array, Array], masks: tuple[Array, Array], depth: int
) -> Iterator[tuple[str, Array]]:
    """Yield the label and the probabilities (n,) of each variant: K, the count at the start, and the end's token."""
    held: dict[tuple[int, int], Array] = {}

    def further(t: int, most: int) -> Array:
        if most and (t, most) not in held:
            prefix, first, place = np.unique(tokens[:, :t], axis=0, return_index=True, return_inverse=True)
            both = np.minimum(rows[0][first, t], rows[1][first, t])
            held[t, most] = _accepted(laws, prompt, both, prefix, most)[place.reshape(-1)]
        return held[t, most] if most else np.ones((len(tokens), 1))

    for most in range(1, depth):
        for start in (0, most, None) if laws[0].vocabulary ** (most - 1) <= HIDDEN else ():
            for residual in (False, True):
                label = f"K = {most}, {start} kept first, {'replacement' if residual else 'token of p'}"
                yield label, late_texts(rows, tokens, masks, most, start, residual, further)


def _accepted(laws: tuple[Law, Law], prompt: int, both: Array, prefix: Array, most: int) -> Array:
    """Return the probabilities (n, r + 1) that 0, 1, ..., r of the r drafts behind a prefix are accepted."""
    found, size = np.zeros((len(both), most + 1)), both.shape[1]
    found[:, 0] = 1.0 - both.sum(axis=-1)
    later = np.ones((len(both), size, 1))
    if most > 1:
        after = np.pad(np.repeat(prefix, size, axis=0), ((0, 0), (0, 2)))
        after[:, -2] = np.tile(np.arange(size), len(prefix))
        rows = np.minimum(*(law.next_rows(prompt, after)[:, -1] for law in laws))
        later = _accepted(laws, prompt, rows, after[:, :-1], most - 1).reshape(len(prefix), size, most)
        later[:, list(laws[0].end_tokens)] = np.eye(1, most)  # nothing is drafted behind an end
    found[:, 1:] = (both[..., None] * later).sum(axis=1)
    return found
