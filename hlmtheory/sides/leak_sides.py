"""Sides of the theorems on what the sizes of messages leak."""

import math
from itertools import product
from typing import Any

import numpy as np

from hlmtheory._domains import DomainError
from hlmtheory.channel.leak import size_classes
from hlmtheory.sides.host import Values

# X is the text, T its trace, R its rounds, log is to base 2.


def _entropy(probabilities: Any) -> float:
    return -math.fsum(value * math.log2(value) for value in probabilities if value > 0)


def _chain(one: Values) -> tuple[Any, Any]:
    law, chain = one["length_law"], one["target_chain"]
    if len(chain) != chain.shape[-1]:
        raise DomainError(f"target_chain must be square; got shape {chain.shape}; give a row for each size")
    return law / law.sum(), chain / chain.sum(axis=-1, keepdims=True)


def text_entropy(one: Values) -> float:
    """Return H(T) by enumeration: R messages, whose sizes are a chain that begins with its first row."""
    law, chain = _chain(one)
    found = []
    for rounds, weight in enumerate(law.tolist()):
        for sizes in product(range(len(chain)), repeat=rounds):
            steps = zip((0, *sizes), sizes, strict=False)
            found.append(weight * math.prod(float(chain[a, b]) for a, b in steps))
    return _entropy(found)


def text_bound(one: Values) -> float:
    law, chain = _chain(one)
    return _entropy(law) + float(law @ np.arange(len(law))) * math.log2(len(chain))


def rounds_entropy(one: Values) -> float:
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


def best_mean(one: Values) -> float:
    return size_classes(one["sizes"], one["weights"], int(one["classes"])).mean


def competing_mean(one: Values) -> float:
    tops = one["sizes"][one["tops"]].tolist()
    padded = [min((top for top in tops if top >= size), default=math.inf) for size in one["sizes"].tolist()]
    return float(np.dot(padded, one["weights"]) / one["weights"].sum())


def competes(one: Values) -> bool:
    tops = set(one["sizes"][one["tops"]].tolist())
    return bool(0 < len(tops) <= one["classes"] and max(tops) == max(one["sizes"]))


def roundings(one: Values) -> float:
    """Return the scale of the rounding of a mean: a sum over the sizes."""
    return float(len(one["sizes"]) * (1.0 + one["sizes"] @ one["weights"] / one["weights"].sum()))
