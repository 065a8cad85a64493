"""Claims on what the sizes of messages leak, each with its proof above its record."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from hlmtheory._domains import SIMPLEX, UNIT_INTERVAL, DomainError
from hlmtheory._quantities import not_negative, positive
from hlmtheory._sides import Values, host_side
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
    return -math.fsum(value * math.log2(value) for value in probabilities if value > 0)


def _chain(one: Values) -> tuple[Any, Any]:
    law, chain = one["length_law"], one["target_chain"]
    if len(chain) != chain.shape[-1]:
        raise DomainError(f"target_chain must be square; got shape {chain.shape}; give a row for each size")
    return law / law.sum(), chain / chain.sum(axis=-1, keepdims=True)


def _text_entropy(one: Values) -> float:
    """Return H(T) by enumeration: R messages, whose sizes are a chain that begins with its first row."""
    law, chain = _chain(one)
    found = []
    for rounds, weight in enumerate(law.tolist()):
        for sizes in product(range(len(chain)), repeat=rounds):
            steps = zip((0, *sizes), sizes, strict=False)
            found.append(weight * math.prod(float(chain[a, b]) for a, b in steps))
    return _entropy(found)


def _text_bound(one: Values) -> float:
    law, chain = _chain(one)
    return _entropy(law) + float(law @ np.arange(len(law))) * math.log2(len(chain))


def _rounds_entropy(one: Values) -> float:
    """Return H(R) of a text whose drafts match with these probabilities, from the law of each round's start."""
    chances, most = one["kept"], int(one["draft_length"])
    size = len(chances)
    start = np.zeros((size + 1, size + 1))  # by position, and rounds so far
    start[0, 0] = 1.0
    for place in range(size):
        alive, drafts = start[place], min(most, size - place)
        for depth in range(drafts):
            start[place + depth + 1, 1:] += (alive * (1.0 - chances[place + depth]))[:-1]
            alive = alive * chances[place + depth]
        start[min(place + drafts + 1, size), 1:] += alive[:-1]
    return _entropy(start[size].tolist())


def _best_mean(one: Values) -> float:
    return size_classes(one["sizes"], one["weights"], int(one["classes"])).mean


def _competing_mean(one: Values) -> float:
    tops = one["sizes"][one["tops"]].tolist()
    padded = [min((top for top in tops if top >= size), default=math.inf) for size in one["sizes"].tolist()]
    return float(np.dot(padded, one["weights"]) / one["weights"].sum())


def _competes(one: Values) -> bool:
    tops = set(one["sizes"][one["tops"]].tolist())
    return bool(0 < len(tops) <= one["classes"] and max(tops) == max(one["sizes"]))


def _roundings(one: Values) -> float:
    """Return the scale of the rounding of a mean: a sum over the sizes."""
    return float(len(one["sizes"]) * (1.0 + one["sizes"] @ one["weights"] / one["weights"].sum()))


_side = partial(
    host_side,
    {
        **dict.fromkeys(("length_law", "target_chain"), SIMPLEX),
        "kept": UNIT_INTERVAL,
        "draft_length": ROUNDS["draft_length"],
        "sizes": not_negative("give sizes of messages"),
        "weights": positive("give how often each size is sent"),
        "classes": CLASSES,
        "tops": None,
    },
    {"target_chain": 2, **dict.fromkeys(("length_law", "kept", "sizes", "weights", "tops"), 1)},
)
_TEXT, _ROUND, _MESSAGES = ("length_law", "target_chain"), ("kept", "draft_length"), ("sizes", "weights", "classes")
_COINS = {"kept": [0.5, 0.5], "draft_length": 1}
_FOUR = {"sizes": [10.0, 12.0, 40.0, 90.0], "weights": [5.0, 5.0, 5.0, 1.0], "classes": 2}
_DEFENCE = Source("wei2024spills", "padding of packets; the cost is ours")

LEAK_CLAIMS = (
    Claim(
        id="channel.leak_text",
        source=_DEFENCE,
        statement="H(T) ≤ H(R) + E[R] log₂ m, for R messages of m sizes",
        lhs=_side(_text_entropy, *_TEXT),
        rhs=_side(_text_bound, *_TEXT),
        attained=Attained({"length_law": [0.25, 0.25, 0.5], "target_chain": [[0.5, 0.5], [0.5, 0.5]]}),
    ),
    Claim(
        id="channel.leak_rounds",
        source=_DEFENCE,
        statement="H(R) ≤ log₂(N − ⌈N/(K + 1)⌉ + 1), the rounds of N tokens, whatever drafts match",
        lhs=_side(_rounds_entropy, *_ROUND),
        rhs=_side(lambda one: float(rounds_leak(len(one["kept"]), one["draft_length"])), *_ROUND),
        attained=Attained(_COINS),
    ),
    Claim(
        id="channel.leak_constant",
        source=_DEFENCE,
        origin=Origin.IMPLIED,
        statement="H(R) ≤ 0: messages of one size leak nothing about the text",
        lhs=_side(_rounds_entropy, *_ROUND),
        rhs=_side(lambda one: 0.0, *_ROUND),
        refuted=_COINS,
    ),
    Claim(
        id="channel.leak_classes",
        source=_DEFENCE,
        statement="the least mean of m classes ≤ Σ w s̄/Σ w of any m classes that hold every message",
        lhs=_side(_best_mean, *_MESSAGES),
        rhs=_side(_competing_mean, *_MESSAGES, "tops"),
        condition=_side(_roundings, *_MESSAGES),
        assumptions=(
            Assumption(
                "the competitor has at most m sizes, the largest among them",
                _side(_competes, *_MESSAGES, "tops", test=True),
            ),
        ),
        attained=Attained({**_FOUR, "tops": [False, True, False, True]}),
    ),
)
