"""Intervals of TV(q, p), the acceptance rate, Δ_k, the Bias and one draft's acceptance from top-k log-probabilities.

Engines return the k largest log-probabilities of a position with their tokens. Each unlisted probability is between 0
and the smallest listed one, and their sum is 1 minus the sum of the listed ones. Every end that is called sharp is
attained by two distributions that agree with the lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays, epsilon, every, in_kind, take, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions, number, size_up_to, token_of
from hlmtheory.truncation._known import Known, least_distance, most_distance
from hlmtheory.truncation.boxes import Interval, interval

MASS = 1e-4
"""Tolerance for the mass of a list: the rounding error of a softmax in float32."""

VOCABULARY = Domain(
    "a whole number, 1 to 2^31",
    lambda xp, value: (value >= 1) & (value <= 2**31),
    "give the number of tokens of the model's head",
    kind="integer",
)
LISTED = Domain(
    f"logarithms of probabilities: {MASS:g} or less, or -inf",
    lambda xp, value: value <= MASS,
    "subtract the logarithm of the sum of exponentials over the whole vocabulary",
)


@dataclass(frozen=True, slots=True)
class PartialPair:
    """Sharp intervals of TV(q, p) and of the acceptance rate 1 - TV(q, p) that agree with two lists."""

    total_variation: Interval
    acceptance: Interval


@dataclass(frozen=True, slots=True)
class DraftOutcome:
    """Acceptance of one draft, as far as two lists determine it: the sharp interval of min(1, p_d/q_d).

    ``accepted`` and ``rejected`` say whether it is, for certain, with the given u; if both are false, the lists do not
    decide.
    """

    probability: Interval
    accepted: Array
    rejected: Array


def partial_distance(
    target_token: Array,
    target_log_probability: Array,
    draft_token: Array,
    draft_log_probability: Array,
    vocabulary: int,
) -> PartialPair:
    """Return the sharp intervals of TV(q, p) and of the acceptance rate from the top k of p and the top j of q.

    The tokens (..., k) and (..., j) have log-probabilities in nats, in descending order, -inf for 0, taken as exact.
    Give only the top k: some engines add the sampled token, which may be less probable than an unlisted one.
    """
    lists = target_token, target_log_probability, draft_token, draft_log_probability
    pair = _pair(*lists, vocabulary)
    xp, kind = pair.xp, pair.kind
    least = least_distance(xp, pair.target, pair.draft, pair.outside)
    most = xp.maximum(most_distance(xp, pair.target, pair.draft, pair.outside).value, least)
    return PartialPair(interval(xp, least, most, kind), interval(xp, 1.0 - most, 1.0 - least, kind))


def partial_deviation(draft_log_probability: Array, k: Array, vocabulary: int) -> Interval:
    """Return the sharp interval of Δ_k from the log-probabilities of the top j ≥ k tokens of q, in descending order.

    The upper end is a certificate: Bias ≤ 2 Δ_k.
    """
    size = number(VOCABULARY, "vocabulary", vocabulary)
    xp, log, k = arrays(draft_log_probability=draft_log_probability, k=k)
    kind = widest(xp, log)
    value, rest, cap = _masses(xp, "draft_log_probability", log, size)
    k = size_up_to(value.shape[-1]).check(xp, "k", k)
    common = leading_dimensions(draft_log_probability=tuple(value.shape[:-1]), k=tuple(k.shape))
    value = xp.broadcast_to(value, (*common, value.shape[-1]))
    least, most = deviation_ends(xp, value, rest, cap, xp.broadcast_to(k, common), size)
    return interval(xp, least, most, kind)


def partial_bias(
    target_token: Array,
    target_log_probability: Array,
    draft_token: Array,
    draft_log_probability: Array,
    vocabulary: int,
    k: Array,
) -> Interval:
    """Return an outer interval of the Bias if k of the j listed entries of q are sent.

    The upper end is 2 min(max Δ_k, max TV(q, p), mass of p outside the tokens that p lists and q sends): proven, and
    attained for some lists only. The lower end is 0, attained where all listed entries of q are sent.
    """
    pair = _pair(target_token, target_log_probability, draft_token, draft_log_probability, vocabulary)
    xp, q = pair.xp, pair.draft
    _, _, k = arrays(draft=q.value, k=k)
    k = size_up_to(pair.listed.shape[-1]).check(xp, "k", k)
    common = leading_dimensions(draft_log_probability=tuple(q.rest.shape), k=tuple(k.shape))
    k = xp.broadcast_to(k, common)
    listed = xp.broadcast_to(pair.listed, (*common, pair.listed.shape[-1]))
    _, deviation = deviation_ends(xp, listed, q.rest, q.cap, k, pair.vocabulary)
    apart = most_distance(xp, pair.target, q, pair.outside).value
    shared = pair.target.mask & (pair.place < k[..., None])
    outside = 1.0 - xp.sum(xp.where(shared, pair.target.value, 0.0), axis=-1)
    most = 2.0 * xp.minimum(xp.minimum(deviation, apart), xp.clip(outside, min=0.0))
    return interval(xp, xp.zeros_like(most), most, pair.kind)


def partial_draft(
    target_token: Array,
    target_log_probability: Array,
    draft_token: Array,
    draft_log_probability: Array,
    vocabulary: int,
    token: Array,
    uniform: Array,
) -> DraftOutcome:
    """Return the sharp interval of min(1, p_d/q_d) of a draft, and whether the lists decide if u is below it."""
    pair = _pair(target_token, target_log_probability, draft_token, draft_log_probability, vocabulary)
    xp = pair.xp
    _, _, token, u = arrays("uniform", draft=pair.draft.value, token=token, uniform=uniform)
    token = token_of(pair.vocabulary).check(xp, "token", token)
    u = in_kind(xp, UNIT_INTERVAL.check(xp, "uniform", u), xp.float64)
    shapes = {"token": tuple(token.shape), "uniform": tuple(u.shape)}
    leading_dimensions(target_token=tuple(pair.outside.shape), **shapes)
    at = pair.token == token[..., None]
    low, high = draft_ends(xp, at, pair.target, pair.draft, pair.vocabulary)
    accepted, rejected = xp.broadcast_arrays(u < low, u >= high)
    return DraftOutcome(interval(xp, low, high, pair.kind), accepted, rejected)


def deviation_ends(xp: Any, value: Array, rest: Array, cap: Array, k: Array, vocabulary: int) -> tuple[Array, Array]:
    """Return the ends of Δ_k from the known entries, in descending order, and the rest's mass and cap."""
    unsent = xp.arange(value.shape[-1], device=value.device) >= k[..., None]
    tail = rest + xp.sum(xp.where(unsent, value, 0.0), axis=-1)
    mean = tail / xp.astype(xp.where(k < vocabulary, vocabulary - k, 1), xp.float64)
    known = xp.sum(xp.where(unsent, xp.clip(value - mean[..., None], min=0.0), 0.0), axis=-1)
    full = xp.floor(rest / xp.where(cap > 0, cap, 1.0))  # entries at the cap; one more has the remainder
    most = full * xp.clip(cap - mean, min=0.0) + xp.clip(rest - full * cap - mean, min=0.0)
    return known, known + most


def draft_ends(xp: Any, at: Array, p: Known, q: Known, vocabulary: int) -> tuple[Array, Array]:
    """Return the smallest and the largest min(1, p_d/q_d), 1 where q_d = 0; ``at`` marks the draft's column."""
    p_low, p_high = _entry(xp, at, p, vocabulary)
    q_low, q_high = _entry(xp, at, q, vocabulary)
    least = xp.where(q_high > p_low, p_low / xp.where(q_high > p_low, q_high, 1.0), 1.0)
    most = xp.where(q_low > p_high, p_high / xp.where(q_low > p_high, q_low, 1.0), 1.0)
    return least, most


def _entry(xp: Any, at: Array, row: Known, vocabulary: int) -> tuple[Array, Array]:
    """Return the smallest and largest probability of the marked token."""
    listed = xp.any(at & row.mask, axis=-1)
    value = xp.sum(xp.where(at & row.mask, row.value, 0.0), axis=-1)
    others = xp.astype(vocabulary - 1 - xp.count_nonzero(row.mask, axis=-1), xp.float64)
    rounding = (row.mask.shape[-1] + 8) * epsilon(xp, xp.float64)  # where the rest just fits, 0 must not become 1e-17
    low = xp.clip(row.rest - xp.clip(others, min=0.0) * row.cap - rounding, min=0.0)
    return xp.where(listed, value, low), xp.where(listed, value, xp.minimum(row.cap, row.rest))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two checked lists with the same token in each column; ``place`` is its rank in q, or j if q does not list it."""

    xp: Any
    kind: Any
    vocabulary: int
    token: Array  # shape (..., k + j); the second column of a token in both lists is marked unknown
    place: Array
    listed: Array  # the entries of q in descending order, shape (..., j)
    target: Known
    draft: Known
    outside: Array


def _pair(target_token: Array, target_log: Array, draft_token: Array, draft_log: Array, vocabulary: int) -> _Pair:
    """Check two lists and align them by one stable sort of the tokens, p's before q's."""
    size = number(VOCABULARY, "vocabulary", vocabulary)
    xp, a, x, b, y = arrays(
        target_token=target_token,
        target_log_probability=target_log,
        draft_token=draft_token,
        draft_log_probability=draft_log,
    )
    kind = widest(xp, x, y)
    a, b = (checked_tokens(xp, name, one, size) for name, one in (("target_token", a), ("draft_token", b)))
    p, p_rest, p_cap = _masses(xp, "target_log_probability", x, size)
    q, q_rest, q_cap = _masses(xp, "draft_log_probability", y, size)
    for name, one, value in (("target", a, p), ("draft", b, q)):
        if one.shape[-1] != value.shape[-1]:
            raise DomainError(
                f"{name}_token and {name}_log_probability must list the same tokens; got {one.shape[-1]} and "
                f"{value.shape[-1]}; give one log-probability for each token"
            )
    common = leading_dimensions(
        target_token=tuple(a.shape[:-1]),
        target_log_probability=tuple(p.shape[:-1]),
        draft_token=tuple(b.shape[:-1]),
        draft_log_probability=tuple(q.shape[:-1]),
    )
    k, j = p.shape[-1], q.shape[-1]
    a, b, p, q = (xp.broadcast_to(one, (*common, one.shape[-1])) for one in (a, b, p, q))
    p_rest, p_cap, q_rest, q_cap = (xp.broadcast_to(one, common) for one in (p_rest, p_cap, q_rest, q_cap))
    both, value = xp.concat([a, b], axis=-1), xp.concat([p, q], axis=-1)
    order = xp.argsort(both, axis=-1, stable=True)
    token, value = take(xp, both, order), take(xp, value, order)
    of_p = order < k
    same = token[..., 1:] == token[..., :-1]
    false = xp.zeros_like(of_p[..., :1])
    before, after = (xp.concat(parts, axis=-1)[..., : k + j] for parts in ([false, same], [same, false]))
    q_known = (~of_p & ~before) | (of_p & after)
    shifted, ranks = (xp.concat([one[..., 1:], one[..., :1]], axis=-1) for one in (value, order))
    place = xp.where(q_known, xp.where(of_p, ranks, order) - k, j)
    target = Known(xp.where(of_p, value, 0.0), of_p, p_rest, p_cap)
    draft = Known(xp.where(q_known, xp.where(of_p, shifted, value), 0.0), q_known, q_rest, q_cap)
    outside = xp.astype(size - xp.count_nonzero(of_p | q_known, axis=-1), xp.float64)
    return _Pair(xp, kind, size, token, place, q, target, draft, outside)


def checked_tokens(xp: Any, name: str, token: Array, vocabulary: int) -> Array:
    """Return the checked tokens of a list: in the vocabulary, each once."""
    if token.ndim == 0:
        raise DomainError(f"{name} must be a list of tokens, shape (..., k); got one number; put it in a list")
    token = token_of(vocabulary).check(xp, name, token)
    ordered = xp.sort(token, axis=-1)
    twice = ordered[..., 1:] == ordered[..., :-1]
    if bool(xp.any(twice)):
        first = int(xp.reshape(ordered[..., 1:], (-1,))[int(xp.argmax(xp.astype(xp.reshape(twice, (-1,)), xp.int8)))])
        raise DomainError(f"{name} must list each token once; got {first} twice in a row; leave out the second")
    return token


def _masses(xp: Any, name: str, log: Array, vocabulary: int) -> tuple[Array, Array, Array]:
    """Return the known probabilities, the mass of the rest, and its largest possible entry; mass and known sum to 1."""
    slack = MASS if epsilon(xp, log.dtype) <= MASS else 8 * epsilon(xp, log.dtype)
    if log.ndim == 0:
        raise DomainError(f"{name} must be a list, shape (..., k); got one number; put it in a list")
    if log.shape[-1] > vocabulary:
        raise DomainError(
            f"{name} must have at most vocabulary = {vocabulary} entries; got {log.shape[-1]}; leave out the padding"
        )
    log = in_kind(xp, LISTED.check(xp, name, log), xp.float64)
    if not every(xp, log[..., 1:] <= log[..., :-1]):
        raise DomainError(f"{name} must be in descending order; got an entry above the one before; sort the list")
    value = xp.exp(log)
    known = xp.sum(value, axis=-1)
    count = float(vocabulary - log.shape[-1])
    cap = value[..., -1] if log.shape[-1] else xp.ones_like(known)
    if not every(xp, known <= 1.0 + slack):
        raise DomainError(f"{name} must have a mass of at most 1; got {float(xp.max(known)):.10g}; normalise it")
    room = known + count * cap
    if not every(xp, room >= 1.0 - slack):
        raise DomainError(
            f"{name} must leave a rest that fits: each of the other {count:.0f} tokens of vocabulary = {vocabulary} "
            f"has at most the last listed probability; got a sum of at most {float(xp.min(room)):.10g}; list the "
            "largest, normalised over the whole vocabulary"
        )
    rest = xp.minimum(xp.clip(1.0 - known, min=0.0), count * cap)
    whole = known + rest
    return value / whole[..., None], rest / whole, cap / whole
