"""Honest messages, mutated, and for which q a device sends what a server accepts of them.

The witness q of an accepted message is found by linear programming from the definition of each code, and given to the
device's own code.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog

from hlmtheory import codec, wire
from hlmtheory.codec.frame import framed, unframed, varint
from hlmtheory.codec.messages import KINDS, LatticeDraft, MixedDraft
from hlmtheory.codec.selection import CodecChoice
from hlmtheory.policy.costs import DeviceRule

V = 60
SMALL = codec.CodecMenu(
    kinds=("top-k", "lattice", "mixture"), widths=(4, 9), sizes=(1, 2, 3, 5, 8), resolutions=(1, 4, 32, 100)
)
PRICED = DeviceRule(4, False, 2.0**-8, 4.0, (2.0,), 1.0, 0.0)
SKIPS = DeviceRule(4, True, 2.0**-8, 4.0, (0.0,), 3.0, 0.25)
POLICIES = {
    "probabilities": wire.DevicePolicy(V, 1.0, wire.threshold_rule(4), wire.DraftProbabilities()),
    "certified answers": wire.DevicePolicy(V, 1.0, wire.threshold_rule(4), wire.CertifiedAnswers(0.05)),
    "top-k on a lattice": wire.DevicePolicy(V, 1.0, wire.threshold_rule(4), wire.LatticeRows(100, top_k=16)),
    "threshold on a lattice": wire.DevicePolicy(V, 1.0, wire.threshold_rule(4), wire.LatticeRows(100, threshold=0.034)),
    "coarse lattice": wire.DevicePolicy(V, 0.7, wire.threshold_rule(2), wire.LatticeRows(7, top_k=5, threshold=0.11)),
    "menu": wire.DevicePolicy(V, 1.0, PRICED, wire.CertifiedRows(SMALL)),
    "menu with a limit": wire.DevicePolicy(V, 1.0, PRICED, wire.CertifiedRows(SMALL), bits_limit=70),
    "menu that skips": wire.DevicePolicy(
        V, 1.0, SKIPS, wire.CertifiedRows(SMALL), wire.UncertaintyLine(0.9, 0.01), bits_limit=90
    ),
    "default menu": wire.DevicePolicy(V, 1.0, PRICED, wire.CertifiedRows()),
    "cold probabilities": wire.DevicePolicy(V, 0.0, wire.threshold_rule(4), wire.DraftProbabilities()),
    "cold lattice": wire.DevicePolicy(V, 0.0, wire.threshold_rule(4), wire.LatticeRows(100, top_k=16)),
    "cold menu": wire.DevicePolicy(V, 0.0, PRICED, wire.CertifiedRows(SMALL)),
    "shared seed": wire.DevicePolicy(V, 1.0, wire.threshold_rule(4), wire.SeededTokens()),
    "cold shared seed": wire.DevicePolicy(V, 0.0, wire.threshold_rule(4), wire.SeededTokens()),
    "large vocabulary": wire.DevicePolicy(32_000, 1.0, wire.threshold_rule(8), wire.LatticeRows(100, top_k=32)),
}
ROUNDING = 1e-12
"""By how much a q_d may miss the border of what a device sends: q sums to 1 but for rounding."""


def logits_of(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return logits of rows of many kinds: peaked, flat, with ties and with masked tokens."""
    row = rng.normal(scale=rng.choice([0.0, 0.1, 1.0, 4.0, 30.0]), size=size)
    if rng.random() < 0.3:
        row = np.round(row)
    if rng.random() < 0.2:
        row[rng.random(size) < 0.5] = -np.inf
        row[rng.integers(size)] = 0.0
    return row


def honest(policy: wire.DevicePolicy, rng: np.random.Generator) -> bytes | None:
    drafts = []
    for _ in range(int(rng.integers(1, policy.rule.draft_length + 1))):
        where = {"seed": int(rng.integers(2**63)), "position": len(drafts)}
        drafts.append(policy.draft(logits_of(rng, policy.vocabulary), place=len(drafts) + 1, rng=rng, **where))
        if drafts[-1].skip:
            return None
    return policy.message(drafts)


def mutations(policies: dict[str, wire.DevicePolicy], count: int, seed: int = 0) -> Iterator[tuple[str, bytes, bool]]:
    """Yield names of policies, each with a message for its server, and whether its own device did not send it."""
    rng = np.random.default_rng(seed)
    names = list(policies)
    pool = {name: [m for _ in range(12) if (m := honest(policies[name], rng)) is not None] for name in names}
    every = [message for messages in pool.values() for message in messages]
    for n in range(count):
        name = names[n % len(names)]
        if n % 100 == 0:
            fresh = honest(policies[name], rng)
            pool[name][int(rng.integers(len(pool[name])))] = fresh or pool[name][0]
        source = pool[name] if rng.random() < 0.8 else every
        sent = source[int(rng.integers(len(source)))]
        message = mutated(sent, every, rng)
        yield name, message, source is every or message != sent


def mutated(message: bytes, every: list[bytes], rng: np.random.Generator) -> bytes:
    kind, body = unframed(message)
    way = int(rng.integers(11))
    if way == 0:  # flip a few bits of the body
        return framed(kind, _flipped(body, int(rng.integers(1, 4)), rng))
    if way == 1:  # flip one bit near the end: values, tokens and probabilities
        return framed(kind, body[:-8] + _flipped(body[-8:], 1, rng))
    if way == 2:  # set bytes
        data = bytearray(body)
        for place in rng.integers(len(data), size=int(rng.integers(1, 4))):
            data[int(place)] = int(rng.integers(256))
        return framed(kind, bytes(data))
    if way == 3:  # cut, or append
        more = rng.bytes(int(rng.integers(1, 40)))
        return framed(kind, body[: int(rng.integers(1, len(body) + 1))] if rng.random() < 0.5 else body + more)
    if way == 4:  # another kind of frame
        return framed(int(rng.integers(6)), body)
    if way == 5:  # another vocabulary, or number of drafts
        head = varint(int(rng.choice([2, V - 1, V, V + 1, 2**18]))) + varint(int(rng.choice([1, 4, 5, 4096])))
        return framed(kind, head + body[2:])
    if way == 6:  # parts of two
        other = unframed(every[int(rng.integers(len(every)))])[1]
        return framed(kind, body[: int(rng.integers(len(body)))] + other[int(rng.integers(len(other))) :])
    if way == 7:  # the frame itself
        return _flipped(message, 1, rng)
    if way == 8:  # random, up to the policy's own length and beyond
        return framed(int(rng.integers(4)), rng.bytes(int(rng.integers(1, 300))))
    if way == 9:  # the head, then random
        return framed(kind, body[:5] + rng.bytes(max(len(body) - 5, 1)))
    return message


def _flipped(data: bytes, count: int, rng: np.random.Generator) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for place in rng.integers(8 * len(data), size=count).tolist():
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def is_sent(policy: wire.DevicePolicy, drafts: tuple[Any, ...]) -> bool:
    """Return whether some q of each draft makes the device's own code send it."""
    return all(_draft_is_sent(policy, draft) for draft in drafts)


def _draft_is_sent(policy: wire.DevicePolicy, draft: Any) -> bool:
    if policy.temperature == 0:
        cold = np.full(policy.vocabulary, -1.0)
        cold[draft.token] = 0.0
        rng = np.random.default_rng(0)
        return any(policy.decide(cold, draft.token, place=place, rng=rng).coded == draft for place in (1, 2))
    if isinstance(policy.messages, wire.SeededTokens):
        return policy.decide(np.zeros(policy.vocabulary), draft.token, rng=np.random.default_rng(0)).coded == draft
    if isinstance(policy.messages, wire.DraftProbabilities):
        row = np.zeros(policy.vocabulary)
        row[draft.token] = draft.probability
        return 0 < draft.probability <= 1 and policy._coded(row, draft.token, None) == draft
    if isinstance(policy.messages, wire.LatticeRows):
        return _quantised_from(policy, policy.messages, draft)
    return _coded_from(policy.vocabulary, draft)


def _quantised_from(policy: wire.DevicePolicy, messages: wire.LatticeRows, draft: LatticeDraft) -> bool:
    """x/ℓ with x - counts in [a, a + 1] and x ≥ ℓ τ; the program keeps as far as it can from the borders."""
    k, units = draft.size, draft.resolution
    q = np.zeros(policy.vocabulary)
    if k == 1:
        q[draft.support] = 1.0
    else:
        low = messages.threshold * units
        eye, ones = np.eye(k), np.ones((k, 1))
        above = np.hstack([-eye, ones, ones])  # a + margin - x ≤ -counts
        below = np.hstack([eye, -ones, ones])  # x - a - 1 + margin ≤ counts
        kept = np.hstack([-eye, 0.0 * ones, ones])  # x ≥ ℓ τ + margin
        found = linprog(
            [*[0.0] * (k + 1), -1.0],
            A_ub=np.vstack([above, below, kept]),
            b_ub=np.concatenate([-draft.counts, draft.counts + 1.0, np.full(k, -low)]),
            A_eq=[[*[1.0] * k, 0.0, 0.0]],
            b_eq=[units],
            bounds=[*[(0.0, None)] * k, (-1.0, 0.0), (0.0, None)],
        )
        if found.status != 0:
            return False
        q[draft.support] = np.maximum(found.x[:k] / units, messages.threshold)
    with np.errstate(divide="ignore"):
        row = policy.distribution(policy.temperature * np.log(q / q.sum()))
    counts = np.zeros(policy.vocabulary)
    counts[draft.support] = draft.counts
    return bool(np.array_equal(np.rint(row * units), counts)) or (k > 1 and -found.fun < 1e-6)


def _coded_from(vocabulary: int, draft: MixedDraft) -> bool:
    """Whether some q with this q_d is coded as this row by :func:`hlmtheory.codec.coded_message`."""
    kind = KINDS.index(draft.kind)
    parameter = draft.bits or draft.resolution
    choice = CodecChoice(*map(np.asarray, (kind, draft.support.size, parameter, draft.kind != "lattice", 0, 0.0)))
    near = False
    for q, margin in _candidates(vocabulary, draft):
        again = codec.coded_message(q, choice, token=draft.token).drafts[0]
        near = near or margin < 1e-6
        same = np.array_equal(again.support, draft.support) and np.array_equal(again.values, draft.values)
        if same and again.rest == draft.rest and abs(again.probability / draft.probability - 1) < 1e-9:
            return True
    return near


def _candidates(vocabulary: int, draft: MixedDraft) -> Iterator[tuple[np.ndarray, float]]:
    """Yield q in the interior of the row's polytope, with the distance from its border."""
    k, values = draft.support.size, draft.values.astype(float)
    if draft.kind == "top-k":
        scale = 2.0**draft.bits - 1
        yield from _solved(vocabulary, draft, values / scale, np.minimum((values + 1) / scale, 1.0), (0.0, 1.0), None)
        return
    units = draft.resolution
    rest = (0.0, 1.0) if draft.rest is None else (draft.rest / units, (draft.rest + 1) / units)
    yield from _solved(vocabulary, draft, (values - 1) / units, (values + 1) / units, rest, values / units)
    if draft.kind == "lattice":
        first = int(values.argmax())
        low, high = (values - 1) / units, values / units
        low[first], high[first] = 0.0, (values[first] - 1) / units
        yield from _solved(vocabulary, draft, low, high, rest, None, largest=first)
    assert k


def _solved(
    vocabulary: int,
    draft: MixedDraft,
    low: np.ndarray,
    high: np.ndarray,
    rest: tuple[float, float],
    rounded: np.ndarray | None,
    largest: int | None = None,
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield a solution over q (V,), the smallest written entry m, the offset a, and the margin."""
    k, size = draft.support.size, vocabulary + 3
    m, a, margin = vocabulary, vocabulary + 1, vocabulary + 2
    unit = 1.0 / max(draft.resolution, 1)
    written = np.zeros(vocabulary, dtype=bool)
    written[draft.support] = True
    rows, right = [], []

    def below(entries: dict[int, float], value: float) -> None:
        row = np.zeros(size)
        for place, factor in entries.items():
            row[place] += factor
        rows.append(row)
        right.append(value)

    for n, token in enumerate(draft.support.tolist()):
        slack = {} if token == draft.token else {margin: 1.0}
        below({token: -1.0, m: 1.0}, 0.0)
        below({token: -1.0, **slack}, -low[n])
        below({token: 1.0, **slack}, high[n])
        if rounded is not None:
            below({token: -1.0, a: unit, **slack}, -rounded[n])
            below({token: 1.0, a: -unit, **slack}, rounded[n] + unit)
        if largest is not None and n != largest:
            below({token: 1.0, int(draft.support[largest]): -1.0}, 0.0)
    for token in np.flatnonzero(~written).tolist() if k else []:
        below({token: 1.0, m: -1.0, **({} if token == draft.token else {margin: 1.0})}, 0.0)
    tail = dict.fromkeys(np.flatnonzero(~written).tolist(), 1.0)
    if tail and rest != (0.0, 1.0):
        below({**tail, margin: 1.0}, rest[1])
        below({**dict.fromkeys(tail, -1.0), margin: 1.0}, -rest[0])
    bounds: list[tuple[float, float | None]] = [(0.0, 1.0)] * vocabulary + [(0.0, 1.0), (-1.0, 0.0), (0.0, 1.0)]
    bounds[draft.token] = (draft.probability - ROUNDING, min(draft.probability + ROUNDING, 1.0))
    cost = np.zeros(size)
    cost[margin] = -1.0
    for give_up in (False, True):  # without a margin, q is at a border: entries of the tail may all have to be equal
        if give_up:
            bounds[margin] = (0.0, 0.0)
            cost = np.zeros(size)
        total = np.zeros((1, size))
        total[0, :vocabulary] = 1.0
        done = linprog(
            cost, A_ub=np.array(rows) if rows else None, b_ub=right or None, A_eq=total, b_eq=[1.0], bounds=bounds
        )
        if done.status == 0:
            yield np.maximum(done.x[:vocabulary], 0.0), float(done.x[margin])
