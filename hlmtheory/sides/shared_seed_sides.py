"""The sides and assumptions of the claims of :mod:`hlmtheory.shared_seed`, with its notation.

Where a side is a public function, the other one is another computation: the law of a mismatch, an enumeration in
fractions, a text, or a simulation of events.
"""

import heapq
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, take, to_numpy
from hlmtheory._domains import DomainError, leading_dimensions
from hlmtheory._remember import remembered
from hlmtheory._simplex import chains, distance, distributions, quotient, skip_probabilities
from hlmtheory.shared_seed.lists import list_match_bound, list_match_probability
from hlmtheory.shared_seed.match import SIZE, match_floor, match_rules
from hlmtheory.shared_seed.stream import SEED, race_winner
from hlmtheory.shared_seed.streamed import DOMAINS, streamed_rate

LENGTH = 8  # tokens of a text
ENOUGH = 400  # drafts of a simulation; 0.9^400 = 5e-19
MOST_SIMULATED = 0.9
IN_TIME = 10**12  # parts of the time since the first arrival; one part decides no order
DRAFTED, VERIFIED, ARRIVED, ANSWERED = range(4)  # events of one moment happen in this order
LARGEST_LIST = 5  # tokens of an enumerated vocabulary


@remembered
def _pieces(target: Array, draft: Array) -> tuple[Any, Array, Array, Array, Array]:
    """Return p, q, P(mismatch and b = v), and P(a = b = v), as :func:`_of_some`."""
    xp, p, q, _, mismatched, matched = _of_some(target, draft, 1.0)
    return xp, p, q, mismatched, matched


@remembered
def _of_some(target: Array, draft: Array, skip: Array) -> tuple[Any, Array, Array, Array, Array, Array]:
    """Return p, q, s, Σ_u s_u P(a = u ≠ v = b), and P(a = b = v), by the ratio s of the two races' times.

    Let the server's race end at s times the time of the device's. Between two neighbours of the s_w = q_w/p_w the
    tokens that can win for the device are those with s_w > s, with the mass Q under q, and for the server the others,
    with the mass P under p. The density of s with a mismatch is Q P/(Q + sP)², its integral up to s is
    P s/(Q + sP) for constant P and Q. So P(mismatch and b = v) = p_v ∫ Q/(Q + sP)² ds from s_v on. If only some of
    the device's tokens count, each with its weight, the sum of their weights under q stands in place of the upper Q.
    """
    xp, _, p, q = distributions(target=target, draft=draft)
    p, q, weight = xp.broadcast_arrays(p, q, skip_probabilities(xp, skip, q))
    odds = xp.where(p > 0, quotient(xp, q, p), xp.inf)
    order = xp.argsort(odds, axis=-1, stable=False)
    p, q, odds, weight = (take(xp, row, order) for row in (p, q, odds, weight))
    first = xp.zeros_like(p[..., :1])
    under_p = xp.cumulative_sum(p, axis=-1)
    counted, mass_q = (  # between s_v and the next; the second is Q
        xp.concat([xp.flip(xp.cumulative_sum(xp.flip(row, axis=-1), axis=-1), axis=-1)[..., 1:], first], axis=-1)
        for row in (weight * q, q)
    )
    there, goes_on = odds < xp.inf, xp.concat([odds[..., 1:] < xp.inf, first > 0], axis=-1)
    here = xp.where(there, odds, 0.0)
    following = xp.where(goes_on, xp.concat([here[..., 1:], first], axis=-1), here)
    at, at_next = (
        xp.where(there, mass_q + s * under_p, 1.0) for s in (here, following)
    )  # Q + sP, the same on each side
    at, at_next, last = (under_or_one(xp, value) for value in (at, at_next, under_p))
    # The integral of Q/(Q + sP)² from s_v to the next, or to infinity.
    piece = counted / at * xp.where(goes_on, (following - here) / at_next, 1.0 / xp.where(goes_on, 1.0, last))
    piece = xp.where(there, piece, 0.0)
    after = xp.flip(xp.cumulative_sum(xp.flip(piece, axis=-1), axis=-1), axis=-1)
    return xp, p, q, weight, p * after, xp.where(there, q / at, 0.0)


def under_or_one(xp: Any, mass: Array) -> Array:
    """Return the mass, or 1 where it is 0."""
    return xp.where(mass > 0, mass, 1.0)


def no_mismatch(target: Array, draft: Array) -> Array:
    """Return 1 - P(a ≠ b), from the joint law of the two winners."""
    xp, _, _, mismatched, _ = _pieces(target, draft)
    return 1.0 - xp.sum(mismatched, axis=-1)


def law_overlap(target: Array, draft: Array) -> Array:
    """Return 1 - TV of the law of b, summed over the device's tokens, and p."""
    xp, p, _, mismatched, matched = _pieces(target, draft)
    return 1.0 - 0.5 * xp.sum(xp.abs(mismatched + matched - p), axis=-1)


def skipped_distance(target: Array, draft: Array, skip: Array) -> Array:
    """Return TV(law, p) if token v of the device is emitted with probability s_v, and the server's token otherwise."""
    xp, _, q, s, mismatched, matched = _of_some(target, draft, skip)
    return xp.sum(xp.clip(s * (q - matched) - mismatched, min=0.0), axis=-1)


def overlap(target: Array, draft: Array) -> Array:
    """Return 1 - T."""
    xp, _, p, q = distributions(target=target, draft=draft)
    return xp.sum(xp.minimum(p, q), axis=-1)


def floor(target: Array, draft: Array) -> Array:
    """Return (1 - T)/(1 + T)."""
    return match_floor(distance_of(target, draft))


def distance_of(target: Array, draft: Array) -> Array:
    """Return T."""
    xp, _, p, q = distributions(target=target, draft=draft)
    return distance(xp, p, q)


def ones(target: Array, draft: Array) -> Array:
    """Return 1 for each pair."""
    xp, _, p, q = distributions(target=target, draft=draft)
    return xp.ones_like(distance(xp, p, q))


def value_of_message(target: Array, draft: Array) -> Array:
    """Return 1 - T - P(a = b), with the latter from the law of a mismatch."""
    return overlap(target, draft) - no_mismatch(target, draft)


def apart(target: Array, draft: Array) -> Array:
    """Return Σ p q / (p + q - p q)."""
    xp, _, p, q = distributions(target=target, draft=draft)
    either = p + q * (1.0 - p)
    return xp.sum(p * (q / under_or_one(xp, either)), axis=-1)


def sampled_apart(target: Array, draft: Array) -> Array:
    """Return Σ p q."""
    return match_rules(target, draft).apart


def greedy_draft(target: Array, draft: Array) -> Array:
    """Return p(argmax q)."""
    return match_rules(target, draft).greedy_draft


def joint_law(joint: Array) -> tuple[Any, Array]:
    """Return a joint law of the two sides' tokens (..., V, V), normalised."""
    xp, _, flat = distributions(joint=_flat(joint))
    side = round(flat.shape[-1] ** 0.5)
    return xp, xp.reshape(flat, (*flat.shape[:-1], side, side))


def _flat(joint: Array) -> Array:
    xp, joint = arrays(joint=joint)
    if joint.ndim < 2 or joint.shape[-1] != joint.shape[-2]:
        raise DomainError(f"joint must be square; got shape {tuple(joint.shape)}; give P(a, b) of V × V tokens")
    return xp.reshape(joint, (*joint.shape[:-2], joint.shape[-1] ** 2))


def agreement(joint: Array) -> Array:
    """Return P(a = b)."""
    xp, law = joint_law(joint)
    return xp.sum(xp.stack([law[..., v, v] for v in range(law.shape[-1])], axis=-1), axis=-1)


def joint_overlap(joint: Array) -> Array:
    """Return 1 - TV of the two laws of one token."""
    xp, law = joint_law(joint)
    return xp.sum(xp.minimum(xp.sum(law, axis=-1), xp.sum(law, axis=-2)), axis=-1)


def list_of(target: Array, draft: Array, list_size: Array) -> Array:
    """Return :func:`list_match_probability` for lists of different length."""
    xp, p, q, size = _with_size(target, draft, list_size)
    found = xp.zeros_like(p[..., 0])
    for count in sorted(set(to_numpy(size).reshape(-1).tolist())):
        at_most = min(count, p.shape[-1])
        found = xp.where(size == count, xp.asarray(list_match_probability(p, q, at_most)), found)
    return found


def _with_size(target: Array, draft: Array, list_size: Array) -> tuple[Any, Array, Array, Array]:
    xp, _, p, q = distributions(target=target, draft=draft)
    p, q = xp.broadcast_arrays(p, q)
    size = SIZE.check(xp, "list_size", arrays(draft=q, list_size=list_size)[2])
    leading_dimensions(draft=tuple(q.shape[:-1]), list_size=tuple(size.shape))
    return xp, p, q, xp.broadcast_to(size, q.shape[:-1])


def list_enumerated(target: Array, draft: Array, list_size: Array) -> Array:
    """Return P(b is among the L first), by all sets of tokens ahead of b, in fractions."""
    xp, p, q, size = _with_size(target, draft, list_size)
    host = [to_numpy(value) for value in (p, q, size)]
    rows = p.shape[-1]
    flat = zip(
        host[0].reshape(-1, rows).tolist(),
        host[1].reshape(-1, rows).tolist(),
        host[2].reshape(-1).tolist(),
        strict=True,
    )
    values = [_enumerated(*one) if rows <= LARGEST_LIST else 0.0 for one in flat]
    return xp.asarray(np.reshape(values, host[2].shape), device=p.device)


def _enumerated(p: list[float], q: list[float], size: int) -> float:
    """Σ_v Σ_{|S| < L} ∫ e^{-x M_v} Π_S (e^{x δ_w} - 1) dx, with each product multiplied out."""
    exact_p, exact_q = ([Fraction(value) / sum(map(Fraction, row)) for value in row] for row in (p, q))
    total = Fraction(0)
    for v in [v for v in range(len(p)) if p[v] > 0 and q[v] > 0]:
        slow, fast = [w / exact_p[v] for w in exact_p], [w / exact_q[v] for w in exact_q]
        inner = sum(map(max, slow, fast))
        leads = [b - a for a, b in zip(slow, fast, strict=True) if b > a]
        for count in range(min(size, len(leads) + 1)):
            for ahead in itertools.combinations(leads, count):
                for kept in range(count + 1):
                    for part in itertools.combinations(ahead, kept):
                        total += Fraction((-1) ** (count - kept)) / (inner - sum(part))
    return float(total)


def few_tokens(target: Array, draft: Array) -> Array:
    """Return whether the vocabulary can be enumerated."""
    xp, _, p, q = distributions(target=target, draft=draft)
    return xp.zeros_like(distance(xp, p, q)) + p.shape[-1] <= LARGEST_LIST


def list_bound(target: Array, draft: Array, list_size: Array) -> Array:
    """Return the bound by a Poisson number."""
    _, p, q, size = _with_size(target, draft, list_size)
    return list_match_bound(p, q, size)


def _chains(target_chain: Array, draft_chain: Array, seed: Array, draft_length: Array) -> tuple[Any, ...]:
    """Return chains (N, V, V), seeds and draft lengths (N,) on the host, and the batch's shape."""
    xp, p, q = chains(target_chain=target_chain, draft_chain=draft_chain)
    _, _, seed, length = arrays(target_chain=p, seed=seed, draft_length=draft_length)
    seed, length = SEED.check(xp, "seed", seed), SIZE.check(xp, "draft_length", length)
    batch = leading_dimensions(
        target_chain=tuple(p.shape[:-2]),
        draft_chain=tuple(q.shape[:-2]),
        seed=tuple(seed.shape),
        draft_length=tuple(length.shape),
    )
    square = p.shape[-2:]
    p, q = (np.broadcast_to(to_numpy(rows), (*batch, *square)).reshape(-1, *square) for rows in (p, q))
    seed, length = (np.broadcast_to(to_numpy(value), batch).reshape(-1) for value in (seed, length))
    return xp, batch, p, q, seed.tolist(), length.tolist()


def _alone(target: np.ndarray[Any, Any], seed: int) -> list[int]:
    """Return the text of the target model alone, behind token 0."""
    text: list[int] = []
    for position in range(LENGTH):
        text.append(int(race_winner(target[text[-1] if text else 0], seed, position)))
    return text


def _with_drafts(target: np.ndarray[Any, Any], draft: np.ndarray[Any, Any], seed: int, length: int) -> list[int]:
    """Return the text with rounds of drafts."""
    text: list[int] = []
    while len(text) < LENGTH:
        start, drafted = len(text), [text[-1] if text else 0]
        for ahead in range(length):
            drafted.append(int(race_winner(draft[drafted[-1]], seed, start + ahead)))
        for ahead in range(length + 1):
            text.append(int(race_winner(target[drafted[ahead]], seed, start + ahead)))
            if ahead == length or text[-1] != drafted[ahead + 1]:
                break
    return text[:LENGTH]


def text_length(target_chain: Array, draft_chain: Array, seed: Array, draft_length: Array) -> Array:
    """Return the number of tokens of a text."""
    xp, batch, p, *_ = _chains(target_chain, draft_chain, seed, draft_length)
    return xp.full(batch, float(LENGTH)) if p.size else xp.zeros(batch)


def same_tokens(target_chain: Array, draft_chain: Array, seed: Array, draft_length: Array) -> Array:
    """Return how many tokens of the text with drafts are those of the target model alone."""
    xp, batch, p, q, seeds, lengths = _chains(target_chain, draft_chain, seed, draft_length)
    texts = [(_alone(p[i], one), _with_drafts(p[i], q[i], one, lengths[i])) for i, one in enumerate(seeds)]
    same = [float(sum(a == b for a, b in zip(*pair, strict=True))) for pair in texts]
    return xp.asarray(np.reshape(np.array(same), batch))


def _times(acceptance: Array, draft_time: Array, round_trip: Array, verify_time: Array) -> tuple[Any, ...]:
    xp, *given = arrays(acceptance=acceptance, draft_time=draft_time, round_trip=round_trip, verify_time=verify_time)
    given = [DOMAINS[name].check(xp, name, value) for name, value in zip(DOMAINS, given, strict=True)]
    return (xp, *xp.broadcast_arrays(*(in_kind(xp, value, xp.float64) for value in given)))


def streamed_seconds(acceptance: Array, draft_time: Array, round_trip: Array, verify_time: Array) -> Array:
    """Return the seconds per token of the public function."""
    return 1.0 / streamed_rate(acceptance, draft_time, round_trip, verify_time).rate


def simulated_seconds(acceptance: Array, draft_time: Array, round_trip: Array, verify_time: Array) -> Array:
    """Return the seconds per token of a simulation of events."""
    return _simulated(False, acceptance, draft_time, round_trip, verify_time)


def bonus_seconds(acceptance: Array, draft_time: Array, round_trip: Array, verify_time: Array) -> Array:
    """Return the same if each answer also holds the server's token behind the last draft of its pass."""
    return _simulated(True, acceptance, draft_time, round_trip, verify_time)


def _simulated(bonus: bool, *given: Array) -> Array:
    xp, *values = _times(*given)
    host = [to_numpy(value) for value in values]
    flat = zip(*(value.reshape(-1).tolist() for value in host), strict=True)
    found = [_seconds(alpha, *map(Fraction, times), bonus=bonus) for alpha, *times in flat]
    return xp.asarray(np.reshape(np.array(found, dtype=np.float64), host[0].shape))


def _seconds(alpha: float, draft: Fraction, trip: Fraction, verify: Fraction, *, bonus: bool) -> float:
    """Return E[time to the first mismatch] / E[tokens until then], with what precedes a mismatch simulated once."""
    known = _known_at(draft, trip, verify, bonus=bonus)
    chance = (1.0 - alpha) * alpha ** np.arange(ENOUGH)
    return float(np.sum(chance * np.array(known))) * (1.0 - alpha)


def _known_at(draft: Fraction, trip: Fraction, verify: Fraction, *, bonus: bool) -> list[float]:
    """Return for each draft the time at which the device knows the server's token at its place.

    An answer holds the tokens of its pass, with ``bonus`` one more. What arrives as a pass ends, or by a part in
    10^12 of the time before, is not in the next one, unless that would hold nothing.
    """
    unit = math.lcm(draft.denominator, (trip / 2).denominator, verify.denominator)
    each, link, whole = (
        int(time * unit) for time in (draft, trip / 2, verify)
    )  # whole numbers, so that ties are exact
    events = [(each, DRAFTED, 0)]
    waiting: list[tuple[int, int]] = []  # moment of arrival and place
    first = each + link
    known: list[float] = []
    busy = False
    while events:
        now, kind, place = heapq.heappop(events)
        if kind == DRAFTED:
            heapq.heappush(events, (now + link, ARRIVED, place))
            if place < ENOUGH:
                heapq.heappush(events, (now + each, DRAFTED, place + 1))
        elif kind == ARRIVED:
            waiting.append((now, place))
        elif kind == VERIFIED:
            busy = False
            heapq.heappush(events, (now + link, ANSWERED, place))
        else:
            known += [now / unit] * (place + 1 + bonus - len(known))
        if waiting and not busy:
            in_time = [entry for entry in waiting if (now - entry[0]) * IN_TIME > now - first] or waiting
            heapq.heappush(events, (now + whole, VERIFIED, in_time[-1][1]))
            waiting, busy = waiting[len(in_time) :], True
    return known[:ENOUGH]


def few_drafts(acceptance: Array) -> Array:
    """Return whether 400 drafts are enough."""
    xp, alpha = arrays(acceptance=acceptance)
    return DOMAINS["acceptance"].check(xp, "acceptance", alpha) <= MOST_SIMULATED


def fastest_seconds(acceptance: Array, draft_time: Array, round_trip: Array, verify_time: Array) -> Array:
    """Return (m t_d + R + V)/m."""
    _, alpha, draft, trip, verify = _times(acceptance, draft_time, round_trip, verify_time)
    return draft + (1.0 - alpha) * (trip + verify)


def bonus_formula(acceptance: Array, draft_time: Array, round_trip: Array, verify_time: Array) -> Array:
    """Return ((m - α) t_d + R + V)/m."""
    _, alpha, draft, trip, verify = _times(acceptance, draft_time, round_trip, verify_time)
    return draft + (1.0 - alpha) * (trip + verify - alpha * draft)


def one_draft_a_pass(draft_time: Array, verify_time: Array, round_trip: Array) -> Array:
    """Return whether V ≤ t_d ≤ R + V."""
    _, _, draft, trip, verify = _times(0.0, draft_time, round_trip, verify_time)
    return (verify <= draft) & (draft <= trip + verify)
