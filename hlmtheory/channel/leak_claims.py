"""Claims on what the sizes of messages leak, each with its proof above its record."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import (
    UNIT_INTERVAL,
    DomainError,
    broadcast,
    entry_for_each,
    leading_dimensions,
    mask,
    numbers,
    token_of,
)
from hlmtheory._quantities import not_negative, positive
from hlmtheory._simplex import distributions
from hlmtheory.channel.leak import CLASSES, ROUNDS, joint_of, leaked_bits, rounds_leak, size_classes
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source

# Proofs, by the last part of the id. X is the text, T its trace, R its rounds, log is to base 2.
#
# leak_entropy. I(X; T) = H(T) - H(T | X), and H(T | X) ≥ 0 for discrete T. Equal where the text determines its trace.
# leak_merged. Padding is a function of the trace: with Z = h(T), I(X; T) = I(X; Z) + I(X; T | Z) ≥ I(X; Z). Equal where
#   h joins no two traces of unequal posterior.
# leak_guess. The best guess of X is right with the probability Σ_t max_x P(x, t), over the t that occur, and each term
#   is at most max_x P(x). Equal if the m traces each belong to one of the likeliest texts.
# leak_added. False: let size and time be fair coins, and let the text be whether they agree. Each alone leaks nothing
#   about it, and both together leak one bit.
# leak_text. H(T) = H(R) + H(T | R) since T has its length, and each of R messages has one of m sizes, so
#   H(T | R) ≤ E[R] log m. Equal where sizes are uniform and independent.
# leak_messages. False: it leaves out H(R). With m = 1, and one or two rounds, the number of messages leaks a bit.
# leak_rounds. H(R) ≤ log |range of R|. A round gives 1 to K + 1 tokens, so ⌈N/(K + 1)⌉ ≤ R ≤ N. Equal at N = 2, K = 1
#   and a draft that matches half of the time.
# leak_constant. False by the same text: messages of one size show the number of rounds, which depends on the accepted
#   drafts.
# leak_classes_mean. Each size is padded to the smallest class at or above it.
# leak_classes. In any padding the messages of one class are padded to it, so with the tops given a message is best
#   padded to the smallest top at or above it. Then classes are intervals of sizes, and a top between two sizes may be
#   lowered to the size below. The best last class begins somewhere, and what is before it is a smaller problem: the
#   recursion tries all places.
# leak_classes_cost. Take the m tops s_min + j(s_max - s_min)/m. No message is padded by more than
#   (s_max - s_min)/m, and lowering a top to a size that is there pads less. Approached at m = 1 where nearly all
#   messages have the least size.


def _entropy(probabilities: Any) -> float:
    """Return the entropy in bits of numbers that sum to 1."""
    return -math.fsum(value * math.log2(value) for value in probabilities if value > 0)


def _trace_entropy(joint: Array) -> Array:
    """Return H(T)."""
    xp, table = joint_of(joint)
    law = xp.sum(table, axis=-2)
    return -xp.sum(xp.where(law > 0, law * xp.log2(xp.where(law > 0, law, 1.0)), 0.0), axis=-1)


def _merged(joint: Array, groups: Array) -> Array:
    """Return I(X; h(T))."""
    xp, table = joint_of(joint)
    own = token_of(table.shape[-1]).check(xp, "groups", arrays(joint=joint, groups=groups)[2])
    leading_dimensions(joint=tuple(table.shape[:-2]), groups=tuple(own.shape[:-1]))
    entry_for_each("trace", joint=tuple(table.shape[-1:]), groups=tuple(own.shape[-1:]))
    into = xp.astype(own[..., :, None] == xp.arange(table.shape[-1], device=own.device), table.dtype)
    return leaked_bits(xp.matmul(table, into))


def _unmerged(joint: Array, groups: Array) -> Array:
    return leaked_bits(joint)


def _best_guess(joint: Array) -> Array:
    xp, table = joint_of(joint)
    return xp.sum(xp.max(table, axis=-2), axis=-1)


def _traces_times_prior(joint: Array) -> Array:
    """Return m max_x P(x), with m traces of positive probability."""
    xp, table = joint_of(joint)
    many = xp.sum(xp.astype(xp.sum(table, axis=-2) > 0, table.dtype), axis=-1)
    return many * xp.max(xp.sum(table, axis=-1), axis=-1)


def _with_difference(xp: Any, table: Array) -> Array:
    """Return P(x, s) for x = s + t mod V, from P(s, t)."""
    size = table.shape[-1]
    s, x = np.arange(size), np.arange(size)[:, None]
    index = xp.asarray((s * size + (x - s) % size).ravel(), device=table.device)
    flat = xp.take(xp.reshape(table, (*table.shape[:-2], -1)), index, axis=-1)
    return xp.reshape(flat, table.shape)


def _leaked_together(joint: Array) -> Array:
    """Return I(X; (S, T)) = H(X) for X = S + T mod V."""
    xp, table = joint_of(joint)
    law = xp.sum(_with_difference(xp, table), axis=-1)
    return -xp.sum(xp.where(law > 0, law * xp.log2(xp.where(law > 0, law, 1.0)), 0.0), axis=-1)


def _leaked_apart(joint: Array) -> Array:
    """Return I(X; S) + I(X; T)."""
    xp, table = joint_of(joint)
    turned = xp.matrix_transpose(table)
    return leaked_bits(_with_difference(xp, table)) + leaked_bits(_with_difference(xp, turned))


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


def _by_padding(sizes: Array, weights: Array, classes: Array) -> Array:
    """Return the mean size of messages that are padded to these classes one by one."""
    s, w, m = _messages(sizes, weights, classes)

    def one(s: Any, w: Any, m: Any) -> float:
        tops = size_classes(s, w, int(m)).tops.tolist()
        if len(tops) > m:
            return math.inf
        return _padded(s, w, tops)

    return _each(one, (s, 1), (w, 1), (m, 0))


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


def _padding(sizes: Array, weights: Array, classes: Array) -> Array:
    """Return the mean padding of the best classes, message by message."""
    s, w, m = _messages(sizes, weights, classes)

    def one(s: Any, w: Any, m: Any) -> float:
        tops = size_classes(s, w, int(m)).tops
        return float(np.dot(tops[np.searchsorted(tops, s)] - s, w) / w.sum())

    return _each(one, (s, 1), (w, 1), (m, 0))


def _roundings(sizes: Array, weights: Array, classes: Array) -> Array:
    """Return the scale of the rounding of a mean: a sum over the sizes."""
    s, w, _ = _messages(sizes, weights, classes)
    return s.shape[-1] * (1.0 + (s * w).sum(axis=-1) / w.sum(axis=-1))


def _range_share(sizes: Array, weights: Array, classes: Array) -> Array:
    s, _, m = _messages(sizes, weights, classes)
    return (s.max(axis=-1) - s.min(axis=-1)) / m


_SIZES = not_negative("give sizes of messages")
_SHARES = positive("give how often each size is sent")
_COINS = {"kept": [0.5, 0.5], "draft_length": 1}
_FOUR = {"sizes": [10.0, 12.0, 40.0, 90.0], "weights": [5.0, 5.0, 5.0, 1.0], "classes": 2}
_ATTACK = Source("wei2024spills", "the attack by the size of each packet; the bound is ours")
_DEFENCE = Source("wei2024spills", "padding of packets; the cost is ours")

LEAK_CLAIMS = (
    Claim(
        id="channel.leak_entropy",
        source=_ATTACK,
        origin=Origin.NEW,
        statement="I(X; T) ≤ H(T): a trace leaks at most its own entropy about a text",
        relation=Relation.LE,
        lhs=leaked_bits,
        rhs=_trace_entropy,
        attained=Attained({"joint": [[0.5, 0.0], [0.0, 0.5]]}),
    ),
    Claim(
        id="channel.leak_merged",
        source=_DEFENCE,
        origin=Origin.NEW,
        statement="I(X; h(T)) ≤ I(X; T): padding is a function of the trace, so it never leaks more",
        relation=Relation.LE,
        lhs=_merged,
        rhs=_unmerged,
        attained=Attained({"joint": [[0.5, 0.0], [0.0, 0.5]], "groups": [1, 0]}),
    ),
    Claim(
        id="channel.leak_guess",
        source=_ATTACK,
        origin=Origin.NEW,
        statement="Σ_t max_x P(x, t) ≤ m max_x P(x): with m traces the best guess is right at most m times as often",
        relation=Relation.LE,
        lhs=_best_guess,
        rhs=_traces_times_prior,
        attained=Attained({"joint": [[0.25, 0.0], [0.0, 0.25], [0.25, 0.0], [0.0, 0.25]]}),
        ceiling=1.0,
    ),
    Claim(
        id="channel.leak_added",
        source=_ATTACK,
        origin=Origin.IMPLIED,
        statement="I(X; sizes, times) ≤ I(X; sizes) + I(X; times), for the text X = S + T mod V",
        relation=Relation.LE,
        lhs=_leaked_together,
        rhs=_leaked_apart,
        refuted={"joint": [[0.25, 0.25], [0.25, 0.25]]},
    ),
    Claim(
        id="channel.leak_text",
        source=_DEFENCE,
        origin=Origin.NEW,
        statement="H(T) ≤ H(R) + E[R] log₂ m, for R messages of m sizes",
        relation=Relation.LE,
        lhs=_text_entropy,
        rhs=_text_bound,
        attained=Attained({"length_law": [0.25, 0.25, 0.5], "target_chain": [[0.5, 0.5], [0.5, 0.5]]}),
    ),
    Claim(
        id="channel.leak_messages",
        source=_DEFENCE,
        origin=Origin.IMPLIED,
        statement="H(T) ≤ E[R] log₂ m: a text leaks through the sizes of its messages alone",
        relation=Relation.LE,
        lhs=_text_entropy,
        rhs=_message_bound,
        refuted={"length_law": [0.0, 0.5, 0.5], "target_chain": [[1.0]]},
    ),
    Claim(
        id="channel.leak_rounds",
        source=_DEFENCE,
        origin=Origin.NEW,
        statement="H(R) ≤ log₂(N − ⌈N/(K + 1)⌉ + 1), the rounds of N tokens, whatever drafts match",
        relation=Relation.LE,
        lhs=_rounds_entropy,
        rhs=_rounds_bound,
        attained=Attained(_COINS),
    ),
    Claim(
        id="channel.leak_constant",
        source=_DEFENCE,
        origin=Origin.IMPLIED,
        statement="H(R) ≤ 0: messages of one size leak nothing about the text",
        relation=Relation.LE,
        lhs=_rounds_entropy,
        rhs=_nothing,
        refuted=_COINS,
    ),
    Claim(
        id="channel.leak_classes_mean",
        source=_DEFENCE,
        origin=Origin.NEW,
        statement="the least mean of m classes = Σ w s̄/Σ w, with s̄ the smallest class at or above s",
        relation=Relation.EQ,
        lhs=_by_program,
        rhs=_by_padding,
        condition=_roundings,
        attained=Attained(_FOUR),
    ),
    Claim(
        id="channel.leak_classes",
        source=_DEFENCE,
        origin=Origin.NEW,
        statement="the least mean of m classes ≤ Σ w s̄/Σ w of any m classes that hold every message",
        relation=Relation.LE,
        lhs=_by_program,
        rhs=_by_competitor,
        condition=_roundings,
        assumptions=(Assumption("the competitor has at most m sizes, the largest among them", _competes),),
        attained=Attained({**_FOUR, "tops": [False, True, False, True]}),
    ),
    Claim(
        id="channel.leak_classes_cost",
        source=_DEFENCE,
        origin=Origin.NEW,
        statement="mean padding of the best m classes ≤ (s_max − s_min)/m",
        relation=Relation.LE,
        lhs=_padding,
        rhs=_range_share,
        attained=Attained({"sizes": [1.0, 2.0], "weights": [1e6, 1.0], "classes": 1}, ratio=1e6 / (1e6 + 1.0)),
    ),
)
