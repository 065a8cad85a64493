"""Late rejection: each round keeps as many drafts as the round before it accepted, whatever becomes of its own.

Then it emits a token of p, or of the residual. Its own count is of all its K drafts, shown in the text or not.
"""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from hlmtheory._array import Array

State = tuple[int | None, int, int]
"""Drafts that the round keeps (None in a first round by the rule), drafts of it so far, and how many were accepted."""
Further = Callable[[int, int], Array]


def late_texts(
    rows: tuple[Array, Array],
    tokens: Array,
    masks: tuple[Array, Array],
    most: int,
    start: int | None,
    residual: bool,
    further: Further,
) -> Array:
    """Return the probabilities (n,) of texts, tokens (n, D), from the rows p and q (n, D, V) of each token.

    The masks (n, D) are of tokens that are drawn, and of places behind the end of a text. The first round keeps
    ``start`` of K = ``most`` drafts. ``further(t, r)`` are the probabilities (n, r + 1) that of r drafts from token t
    on, which the text does not show, 0 to r are accepted.
    """
    left = np.maximum(rows[0] - rows[1], 0.0)
    lost = left.sum(axis=-1)
    rest = np.where(lost[..., None] > 0, left / np.where(lost > 0, lost, 1.0)[..., None], rows[0])
    of_p, drafted, of_rest = (np.take_along_axis(x, tokens[..., None], -1)[..., 0].T for x in (*rows, rest))
    accept = np.divide(of_p, drafted, out=np.ones_like(of_p), where=of_p < drafted)
    state: dict[State, Array] = {(start, 0, 0): np.ones(len(tokens))}
    depth = tokens.shape[1]
    for t in range(depth):
        moved: defaultdict[State, Array] = defaultdict(lambda: np.zeros(len(tokens)))
        for (kept, place, count), mass in state.items():
            drawn, last = mass * drafted[t], mass * (of_rest if residual and place < most else of_p)[t]
            if kept is None and place < most:
                moved[None, place + 1, place + 1] += drawn * accept[t]
                moved[place, 0, 0] += mass * lost[:, t] * of_rest[t]
            elif kept is not None and place < kept:
                passed = accept[t] if count == place else 0.0
                moved[kept, place + 1, place + 1] += drawn * passed
                moved[kept, place + 1, count] += drawn * (1.0 - passed)
            elif kept is None or count < kept:
                moved[count, 0, 0] += last
            else:  # all kept drafts were accepted; the hidden ones decide how many the next round keeps
                for number, share in enumerate(further(t, min(most - kept, max(depth - 1 - t - kept, 0))).T):
                    moved[kept + number, 0, 0] += last * share
        quiet = {key: np.where(masks[1][:, t], mass, 0.0) for key, mass in state.items()}
        state = quiet | {key: quiet.get(key, 0.0) + np.where(masks[0][:, t], x, 0.0) for key, x in moved.items()}
    return np.asarray(sum(state.values(), np.zeros(len(tokens))))
