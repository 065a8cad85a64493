"""Claims on what the sizes of messages leak, each with its proof above its record."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, DomainError, broadcast, entry_for_each, mask, numbers
from hlmtheory._quantities import not_negative, positive
from hlmtheory._simplex import distributions
from hlmtheory.channel.leak import CLASSES, ROUNDS, rounds_leak, size_classes
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Source

# Proofs, by the last part of the id. X is the text, T its trace, R its rounds, log is to base 2.
#
# leak_text. H(T) = H(R) + H(T | R) since T has its length, and each of R messages has one of m sizes, so
#   H(T | R) ≤ E[R] log m. Equal where sizes are uniform and independent.
# leak_rounds. H(R) ≤ log |range of R|. A round gives 1 to K + 1 tokens, so ⌈N/(K + 1)⌉ ≤ R ≤ N. Equal at N = 2, K = 1
#   and a draft that matches half of the time.
# leak_constant. False by the same text: messages of one size show the number of rounds, which depends on the accepted
#   drafts.
# leak_classes. In any padding the messages of one class are padded to it, so with the tops given a message is best
#   padded to the smallest top at or above it. Then classes are intervals of sizes, and a top between two sizes may be
#   lowered to the size below. The best last class begins somewhere, and what is before it is a smaller problem: the
#   recursion tries all places.


def _entropy(probabilities: Any) -> float:
    """Return the entropy in bits of numbers that sum to 1."""
    return -math.fsum(value * math.log2(value) for value in probabilities if value > 0)


def _each(function: Callable[..., float], *given: Any) -> Any:
    """Return what a function gives for each instance; ``given`` are arrays, and the dimensions of one instance."""
    batch = np.broadcast_shapes(*(value.shape[: value.ndim - own] for value, own in given))
    wide = [np.broadcast_to(value, (*batch, *value.shape[value.ndim - own :])) for value, own in given]
    found = np.empty(batch)
    for place in np.ndindex(batch):
        found[place] = function(*(value[place] for value in wide))
    return found


def _chain(length_law: Array, target_chain: Array) -> tuple[Any, Any]:
    _, _, law = distributions(length_law=length_law)
    _, _, chain = distributions(target_chain=target_chain)
    if chain.ndim < 2 or chain.shape[-1] != chain.shape[-2]:
        raise DomainError(f"target_chain must be square; got shape {tuple(chain.shape)}; give a row for each size")
    return to_numpy(law), to_numpy(chain)


def _text_entropy(length_law: Array, target_chain: Array) -> Array:
    """Return H(T) by enumeration: R messages, whose sizes are a chain that begins with its first row."""
    law, chain = _chain(length_law, target_chain)

    def one(law: Any, chain: Any) -> float:
        found = []
        for rounds, weight in enumerate(law.tolist()):
            for sizes in product(range(len(chain)), repeat=rounds):
                steps = zip((0, *sizes), sizes, strict=False)
                found.append(weight * math.prod(float(chain[a, b]) for a, b in steps))
        return _entropy(found)

    return _each(one, (law, 1), (chain, 2))


def _text_bound(length_law: Array, target_chain: Array) -> Array:
    """Return H(R) + E[R] log₂ m."""
    law, _ = _chain(length_law, target_chain)
    return _each(_entropy, (law, 1)) + _message_bound(length_law, target_chain)


def _message_bound(length_law: Array, target_chain: Array) -> Array:
    """Return E[R] log₂ m."""
    law, chain = _chain(length_law, target_chain)
    return (law * np.arange(law.shape[-1])).sum(axis=-1) * math.log2(chain.shape[-1]) + 0.0 * chain[..., 0, 0]


def _matches(kept: Array, draft_length: Array) -> tuple[Any, Any]:
    given = arrays(kept=kept, draft_length=draft_length)
    chances = numbers(UNIT_INTERVAL, "kept", given[1])
    entry_for_each("token", kept=chances.shape)
    return chances, numbers(ROUNDS["draft_length"], "draft_length", given[2])


def _rounds_entropy(kept: Array, draft_length: Array) -> Array:
    """Return H(R) of a text whose drafts match with these probabilities, from the law of each round's start."""
    chances, length = _matches(kept, draft_length)

    def one(chances: Any, length: Any) -> float:
        size, most = len(chances), int(length)
        start = np.zeros((size + 1, size + 1))  # by position, and rounds so far
        start[0, 0] = 1.0
        for place in range(size):
            alive, drafts = start[place], min(most, size - place)
            for depth in range(drafts):
                start[place + depth + 1, 1:] += (alive * (1.0 - chances[place + depth]))[:-1]
                alive = alive * chances[place + depth]
            start[min(place + drafts + 1, size), 1:] += alive[:-1]
        return _entropy(start[size].tolist())

    return _each(one, (chances, 1), (length, 0))


def _rounds_bound(kept: Array, draft_length: Array) -> Array:
    chances, length = _matches(kept, draft_length)
    return np.asarray(rounds_leak(np.full(chances.shape[:-1], chances.shape[-1]), length))


def _nothing(kept: Array, draft_length: Array) -> Array:
    chances, length = _matches(kept, draft_length)
    return 0.0 * chances[..., 0] + 0.0 * length


def _messages(sizes: Array, weights: Array, classes: Array) -> tuple[Any, Any, Any]:
    s, w = numbers(_SIZES, "sizes", sizes), numbers(_SHARES, "weights", weights)
    entry_for_each("size", sizes=s.shape, weights=w.shape)
    broadcast(sizes=s.shape, weights=w.shape)
    return s, w, numbers(CLASSES, "classes", classes)


def _by_program(sizes: Array, weights: Array, classes: Array) -> Array:
    s, w, m = _messages(sizes, weights, classes)
    return _each(lambda s, w, m: size_classes(s, w, int(m)).mean, (s, 1), (w, 1), (m, 0))


def _padded(sizes: Any, weights: Any, tops: list[float]) -> float:
    """Return the mean padded size, infinite if a message has no class."""
    padded = [min((top for top in tops if top >= size), default=math.inf) for size in sizes.tolist()]
    return float(np.dot(padded, weights) / weights.sum())


def _by_competitor(sizes: Array, weights: Array, classes: Array, tops: Array) -> Array:
    s, w, m = _messages(sizes, weights, classes)
    return _each(lambda s, w, m, y: _padded(s, w, s[y].tolist()), (s, 1), (w, 1), (m, 0), (_tops(tops, s), 1))


def _tops(tops: Array, sizes: Any) -> Any:
    xp, given = arrays(tops=tops)
    chosen = to_numpy(mask(xp, "tops", given))
    broadcast(sizes=sizes.shape, tops=chosen.shape)
    return chosen


def _competes(sizes: Array, weights: Array, classes: Array, tops: Array) -> Array:
    s, _, m = _messages(sizes, weights, classes)

    def one(s: Any, m: Any, y: Any) -> float:
        return float(y.sum() > 0 and len(set(s[y].tolist())) <= m and max(s[y]) == max(s))

    return _each(one, (s, 1), (m, 0), (_tops(tops, s), 1)) == 1.0


def _roundings(sizes: Array, weights: Array, classes: Array) -> Array:
    """Return the scale of the rounding of a mean: a sum over the sizes."""
    s, w, _ = _messages(sizes, weights, classes)
    return s.shape[-1] * (1.0 + (s * w).sum(axis=-1) / w.sum(axis=-1))


_SIZES = not_negative("give sizes of messages")
_SHARES = positive("give how often each size is sent")
_COINS = {"kept": [0.5, 0.5], "draft_length": 1}
_FOUR = {"sizes": [10.0, 12.0, 40.0, 90.0], "weights": [5.0, 5.0, 5.0, 1.0], "classes": 2}
_DEFENCE = Source("wei2024spills", "padding of packets; the cost is ours")

LEAK_CLAIMS = (
    Claim(
        id="channel.leak_text",
        source=_DEFENCE,
        statement="H(T) ≤ H(R) + E[R] log₂ m, for R messages of m sizes",
        lhs=_text_entropy,
        rhs=_text_bound,
        attained=Attained({"length_law": [0.25, 0.25, 0.5], "target_chain": [[0.5, 0.5], [0.5, 0.5]]}),
    ),
    Claim(
        id="channel.leak_rounds",
        source=_DEFENCE,
        statement="H(R) ≤ log₂(N − ⌈N/(K + 1)⌉ + 1), the rounds of N tokens, whatever drafts match",
        lhs=_rounds_entropy,
        rhs=_rounds_bound,
        attained=Attained(_COINS),
    ),
    Claim(
        id="channel.leak_constant",
        source=_DEFENCE,
        origin=Origin.IMPLIED,
        statement="H(R) ≤ 0: messages of one size leak nothing about the text",
        lhs=_rounds_entropy,
        rhs=_nothing,
        refuted=_COINS,
    ),
    Claim(
        id="channel.leak_classes",
        source=_DEFENCE,
        statement="the least mean of m classes ≤ Σ w s̄/Σ w of any m classes that hold every message",
        lhs=_by_program,
        rhs=_by_competitor,
        condition=_roundings,
        assumptions=(Assumption("the competitor has at most m sizes, the largest among them", _competes),),
        attained=Attained({**_FOUR, "tops": [False, True, False, True]}),
    ),
)
