"""Intervals of TV(q, p), the acceptance rate, Δ_k, the Bias and one draft's acceptance from top-k log-probabilities.

Engines return the k largest log-probabilities of a position with their tokens. Each unlisted probability is between 0
and the smallest listed one, and their sum is 1 minus the sum of the listed ones. Every end that is called sharp is
attained by two distributions that agree with the lists.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from hlmtheory._array import Array, Interval, arrays, epsilon, every, in_kind, interval, take, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions, number, size_up_to, token_of
from hlmtheory.truncation._known import Known, least_distance, most_distance
from hlmtheory.truncation.boxes import ERROR

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


@dataclass(frozen=True, slots=True)
class PartialBoxes:
    """Bounds of p and of q, and the number of tokens of each column, for :func:`box_distance` and its like.

    The columns (..., j + k + 1) are the j tokens that q lists, in order, then the k that p lists, then one for all
    others. A token of p's list that q lists too has the count 0.
    """

    target: Interval
    draft: Interval
    count: Array


def partial_distance(
    target_token: Array,
    target_log_probability: Array,
    draft_token: Array,
    draft_log_probability: Array,
    vocabulary: int,
) -> PartialPair:
    """Return the sharp intervals of TV(q, p) and of the acceptance rate from the top k of p and the top j of q.

    Give only the top k: some engines add the sampled token, which may be less probable than an unlisted one.

    Parameters
    ----------
    target_token, target_log_probability : array, shape (..., k)
        The top k of p, in descending order; log-probabilities in nats, -inf for 0, taken as exact.
    draft_token, draft_log_probability : array, shape (..., j)
        The top j of q.
    vocabulary : int
        V.

    Returns
    -------
    PartialPair
        ``total_variation`` and ``acceptance``, intervals of shape (...), rounded outwards.

    Raises
    ------
    ValueError
        If a token repeats or is outside the vocabulary, or a list ascends or has more mass than 1.
    """
    pair = _pair(target_token, target_log_probability, draft_token, draft_log_probability, vocabulary)
    xp, kind = pair.lists.xp, pair.lists.kind
    least = least_distance(xp, pair.target, pair.draft, pair.outside)
    most = xp.maximum(most_distance(xp, pair.target, pair.draft, pair.outside), least)
    return PartialPair(interval(xp, least, most, kind), interval(xp, 1.0 - most, 1.0 - least, kind))


def partial_deviation(draft_log_probability: Array, top_k: Array, vocabulary: int) -> Interval:
    """Return the sharp interval of Δ_k from the log-probabilities of the top j ≥ k tokens of q, in descending order.

    The upper end is a certificate: Bias ≤ 2 Δ_k.
    """
    size = number(VOCABULARY, "vocabulary", vocabulary)
    xp, log, k = arrays(draft_log_probability=draft_log_probability, top_k=top_k)
    kind = widest(xp, log)
    name = "draft_log_probability"
    value, rest, cap = _masses(xp, name, *_checked_list(xp, name, log, size), size)
    k = size_up_to(value.shape[-1]).check(xp, "top_k", k)
    common = leading_dimensions(draft_log_probability=tuple(value.shape[:-1]), top_k=tuple(k.shape))
    value = xp.broadcast_to(value, (*common, value.shape[-1]))
    least, most = deviation_ends(xp, value, rest, cap, xp.broadcast_to(k, common), size)
    return interval(xp, least, most, kind)


def partial_bias(
    target_token: Array,
    target_log_probability: Array,
    draft_token: Array,
    draft_log_probability: Array,
    vocabulary: int,
    top_k: Array,
) -> Interval:
    """Return an outer interval of the Bias if k of the j listed entries of q are sent.

    The upper end is 2 min(max Δ_k, max TV(q, p), mass of p outside the tokens that p lists and q sends): proven, and
    attained for some lists only. The lower end is 0, attained where all listed entries of q are sent.

    Parameters
    ----------
    target_token, target_log_probability : array, shape (..., k)
        The top k of p, in descending order; log-probabilities in nats, -inf for 0, taken as exact.
    draft_token, draft_log_probability : array, shape (..., j)
        The top j of q.
    vocabulary : int
        V.
    top_k : integer array, shape (...)
        k, how many are sent, 0..j.

    Returns
    -------
    Interval
        Of shape (...), rounded outwards.

    Raises
    ------
    ValueError
        If a token repeats or is outside the vocabulary, a list ascends or has more mass than 1, or k > j.
    """
    pair = _pair(target_token, target_log_probability, draft_token, draft_log_probability, vocabulary)
    xp, q = pair.lists.xp, pair.draft
    _, _, k = arrays(draft=q.value, top_k=top_k)
    k = size_up_to(pair.listed.shape[-1]).check(xp, "top_k", k)
    common = leading_dimensions(draft_log_probability=tuple(q.rest.shape), top_k=tuple(k.shape))
    k = xp.broadcast_to(k, common)
    listed = xp.broadcast_to(pair.listed, (*common, pair.listed.shape[-1]))
    _, deviation = deviation_ends(xp, listed, q.rest, q.cap, k, pair.lists.vocabulary)
    apart = most_distance(xp, pair.target, q, pair.outside)
    place = xp.arange(pair.target.mask.shape[-1], device=k.device)
    shared = pair.target.mask & (place < k[..., None])
    outside = 1.0 - xp.sum(xp.where(shared, pair.target.value, 0.0), axis=-1)
    most = 2.0 * xp.minimum(xp.minimum(deviation, apart), xp.clip(outside, min=0.0))
    return interval(xp, xp.zeros_like(most), most, pair.lists.kind)


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
    xp, lists = pair.lists.xp, pair.lists
    _, _, token, u = arrays("uniform", draft=pair.draft.value, token=token, uniform=uniform)
    token = token_of(lists.vocabulary).check(xp, "token", token)
    u = in_kind(xp, UNIT_INTERVAL.check(xp, "uniform", u), xp.float64)
    shapes = {"token": tuple(token.shape), "uniform": tuple(u.shape)}
    leading_dimensions(target_token=tuple(pair.outside.shape), **shapes)
    at = lists.token == token[..., None]
    low, high = draft_ends(xp, at, pair.target, pair.draft, lists.vocabulary)
    accepted, rejected = xp.broadcast_arrays(u < low, u >= high)
    return DraftOutcome(interval(xp, low, high, lists.kind), accepted, rejected)


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


def partial_boxes(
    target_token: Array,
    target_log_probability: Array,
    draft_token: Array,
    draft_log_probability: Array,
    vocabulary: int,
    target_error: Array = 0.0,
    draft_error: Array = 0.0,
) -> PartialBoxes:
    """Return the bounds that two lists of the most probable tokens, as in :func:`partial_distance`, give for p and q.

    ``target_error`` (..., k) and ``draft_error`` (..., j) are the largest |listed - true log-probability|, in nats.
    """
    lists = _aligned(
        target_token, target_log_probability, draft_token, draft_log_probability, vocabulary, target_error, draft_error
    )
    xp, size = lists.xp, lists.vocabulary
    p, q = (_bounds(xp, one, size) for one in (lists.target, lists.draft))
    ends_p = [
        xp.concat(_beside(xp, lists, end, free), axis=-1) for end, free in ((p.low, 0.0 * p.cap), (p.high, p.cap))
    ]
    ends_q = []
    for end, free in ((q.low, 0.0 * q.cap), (q.high, q.cap)):
        others = xp.broadcast_to(free[..., None], (*free.shape, lists.alone.shape[-1] + 1))
        ends_q.append(xp.concat([end, others], axis=-1))
    known = xp.concat([xp.ones_like(lists.partner), xp.astype(lists.alone, xp.int64)], axis=-1)
    count = xp.concat([known, size - xp.sum(known, axis=-1, keepdims=True)], axis=-1)
    return PartialBoxes(_outwards(xp, ends_p, lists.kind), _outwards(xp, ends_q, lists.kind), count)


class _List(NamedTuple):
    name: str
    slack: float  # how much its mass may miss 1 by
    log: Array
    error: Array


class _Lists(NamedTuple):
    """Two checked lists; a column for each token that q lists, in order, then for each that p lists."""

    xp: Any
    kind: Any
    vocabulary: int
    token: Array  # shape (..., j + k)
    partner: Array  # the place of each of q's tokens in p's list, or -1, shape (..., j)
    alone: Array  # whether q does not list a token of p's, shape (..., k)
    target: _List
    draft: _List


def _aligned(
    target_token: Array,
    target_log: Array,
    draft_token: Array,
    draft_log: Array,
    vocabulary: int,
    target_error: Array = 0.0,
    draft_error: Array = 0.0,
) -> _Lists:
    """Check two lists, and find the tokens that are in both."""
    size = number(VOCABULARY, "vocabulary", vocabulary)
    xp, a, x, e, b, y, f = arrays(
        target_token=target_token,
        target_log_probability=target_log,
        target_error=target_error,
        draft_token=draft_token,
        draft_log_probability=draft_log,
        draft_error=draft_error,
    )
    kind, found, slacks = widest(xp, x, y), [], []
    for name, token, log, error in (("target", a, x, e), ("draft", b, y, f)):
        token, what = _checked_tokens(xp, f"{name}_token", token, size), f"{name}_log_probability"
        slack, log = _checked_list(xp, what, log, size)
        error = in_kind(xp, ERROR.check(xp, f"{name}_error", error), xp.float64)
        leading_dimensions(**{what: tuple(log.shape), f"{name}_error": tuple(error.shape)})
        if token.shape[-1] != log.shape[-1]:
            raise DomainError(
                f"{name}_token and {what} must list the same tokens; got {token.shape[-1]} and {log.shape[-1]}; give "
                "one log-probability for each token"
            )
        found.append((token, *xp.broadcast_arrays(log, error)))
        slacks.append((what, slack))
    names = ("target_token", "target_log_probability", "draft_token", "draft_log_probability")
    shapes = (one.shape[:-1] for token, log, _ in found for one in (token, log))
    common = leading_dimensions(**{name: tuple(shape) for name, shape in zip(names, shapes, strict=True)})
    (a, x, e), (b, y, f) = ([xp.broadcast_to(one, (*common, one.shape[-1])) for one in each] for each in found)
    partner, twice = _partners(xp, b, a)
    token = xp.concat([b, a], axis=-1)
    return _Lists(xp, kind, size, token, partner, ~twice, _List(*slacks[0], x, e), _List(*slacks[1], y, f))


def _beside(xp: Any, lists: _Lists, value: Array, free: Array) -> list[Array]:
    """Return p's values at q's tokens, at its own, and at all others; where p lists nothing it has ``free``."""
    padded = xp.concat([value, free[..., None]], axis=-1)
    at = xp.where(lists.partner >= 0, lists.partner, value.shape[-1])
    return [take(xp, padded, at), padded]


class _Pair(NamedTuple):
    """Two lists without errors, as what is known of each row."""

    lists: _Lists
    listed: Array  # the entries of q in descending order, shape (..., j)
    target: Known
    draft: Known
    outside: Array


def _pair(*given: Any) -> _Pair:
    """Check two lists without errors and align them."""
    lists = _aligned(*given)
    xp, partner, alone = lists.xp, lists.partner, lists.alone
    (p, *p_rest), (q, *q_rest) = (
        _masses(xp, one.name, one.slack, one.log, lists.vocabulary) for one in (lists.target, lists.draft)
    )
    beside = _beside(xp, lists, p, 0.0 * p_rest[0])[0]
    none = xp.zeros_like(p)
    known = xp.concat([partner >= 0, alone], axis=-1)
    target = Known(xp.concat([beside, xp.where(alone, p, 0.0)], axis=-1), known, *p_rest)
    draft = Known(xp.concat([q, none], axis=-1), xp.concat([xp.ones_like(partner >= 0), none > 0], axis=-1), *q_rest)
    outside = xp.astype(lists.vocabulary - q.shape[-1] - xp.count_nonzero(alone, axis=-1), xp.float64)
    return _Pair(lists, q, target, draft, outside)


def _checked_tokens(xp: Any, name: str, token: Array, vocabulary: int) -> Array:
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


def _checked_list(xp: Any, name: str, log: Array, vocabulary: int) -> tuple[float, Array]:
    """Return how much a mass may miss 1 by, and the checked log-probabilities in float64."""
    if log.ndim == 0:
        raise DomainError(f"{name} must be a list, shape (..., k); got one number; put it in a list")
    if log.shape[-1] > vocabulary:
        raise DomainError(
            f"{name} must have at most vocabulary = {vocabulary} entries; got {log.shape[-1]}; leave out the padding"
        )
    checked = in_kind(xp, LISTED.check(xp, name, log), xp.float64)
    if not every(xp, checked[..., 1:] <= checked[..., :-1]):
        raise DomainError(f"{name} must be in descending order; got an entry above the one before; sort the list")
    return max(MASS, 8 * epsilon(xp, log.dtype)), checked


def _check_mass(xp: Any, name: str, known: Array, most: Array, slack: float, vocabulary: int) -> None:
    """Refuse a list of more than the mass 1, or whose unlisted tokens cannot hold the rest."""
    if not every(xp, known <= 1.0 + slack):
        raise DomainError(f"{name} must have a mass of at most 1; got {float(xp.max(known)):.10g}; normalise it")
    if not every(xp, most >= 1.0 - slack):
        raise DomainError(
            f"{name} must leave a rest that fits: each other token of vocabulary = {vocabulary} has at most the last "
            f"listed probability; got a sum of at most {float(xp.min(most)):.10g}; list the largest, normalised over "
            "the whole vocabulary"
        )


class _Bounds(NamedTuple):
    """Bounds of the listed entries, and the largest possible value of the others."""

    low: Array
    high: Array
    cap: Array


def _bounds(xp: Any, one: _List, vocabulary: int) -> _Bounds:
    """Return the bounds of a list, widened by what its mass misses."""
    log, error = one.log, one.error
    low, high = xp.exp(log - error), xp.exp(xp.clip(log + error, max=MASS))
    cap = xp.min(high, axis=-1) if log.shape[-1] else xp.ones(log.shape[:-1], dtype=xp.float64, device=log.device)
    known, most = xp.sum(low, axis=-1), xp.sum(high, axis=-1) + float(vocabulary - log.shape[-1]) * cap
    _check_mass(xp, one.name, known, most, one.slack, vocabulary)
    low = low / xp.clip(known, min=1.0)[..., None]
    wider = xp.clip(1.0 / xp.where(most > 0, most, 1.0), min=1.0)
    return _Bounds(low, xp.clip(high * wider[..., None], max=1.0), xp.clip(cap * wider, max=1.0))


def _masses(xp: Any, name: str, slack: float, log: Array, vocabulary: int) -> tuple[Array, Array, Array]:
    """Return the known probabilities, the mass of the rest, and its largest possible entry; mass and known sum to 1."""
    value = xp.exp(log)
    known = xp.sum(value, axis=-1)
    count = float(vocabulary - log.shape[-1])
    cap = value[..., -1] if log.shape[-1] else xp.ones_like(known)
    _check_mass(xp, name, known, known + count * cap, slack, vocabulary)
    rest = xp.minimum(xp.clip(1.0 - known, min=0.0), count * cap)
    whole = known + rest
    return value / whole[..., None], rest / whole, cap / whole


def _outwards(xp: Any, ends: list[Array], kind: Any) -> Interval:
    found = interval(xp, ends[0], ends[1], kind)
    return Interval(xp.clip(found.lower, min=0.0), xp.clip(found.upper, max=1.0))


def _partners(xp: Any, first: Array, second: Array) -> tuple[Array, Array]:
    """Return for each token of the first list its place in the second, or -1, and which of the second have one."""
    j = first.shape[-1]
    both = xp.concat([first, second], axis=-1)
    order = xp.argsort(both, axis=-1, stable=True)
    token = take(xp, both, order)
    same = token[..., 1:] == token[..., :-1]
    false = xp.zeros_like(same[..., :1]) if same.shape[-1] else xp.zeros(both.shape, dtype=xp.bool, device=both.device)
    before, after = (xp.concat(parts, axis=-1)[..., : both.shape[-1]] for parts in ([false, same], [same, false]))
    following = xp.concat([order[..., 1:], order[..., :1]], axis=-1) if both.shape[-1] else order
    place = xp.argsort(order, axis=-1, stable=True)
    partner = take(xp, xp.where(after, following - j, -1), place)
    return partner[..., :j], take(xp, before, place)[..., j:]
