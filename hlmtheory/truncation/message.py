"""The message as it is sent: k values rounded to b_prob bits, and what the server makes of them.

Paper: cu-hlm (oh2025cuhlm) Section IV-B; b_prob = 8 is in V-A. The draft's index and q_d, unrounded, go with every
message (:func:`hlmtheory.truncated_message` makes such ones): acceptance is by q_d itself, which rounding would
distort without bound. A value is rounded *down* to a multiple of 1/(2^b - 1), so that what was decoded never exceeds
1 in sum; what that loses joins the rest, which is spread over the entries that were not sent (if all were, over those
that were rounded). Symbols are those of :mod:`hlmtheory.truncation`; q̂ is here what was decoded, rounding included,
and Δ_k its distance from q; q̂^(d) has q_d in its place.
"""

from __future__ import annotations

from typing import Any, NoReturn

from hlmtheory._array import Array, arrays, in_kind, sort_descending, tail_sums
from hlmtheory._domains import Domain, DomainError, leading_dimensions, token_of
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.truncation.reconstruction import (
    at_size,
    bias_of,
    draft_and_size,
    kept,
    pair_and_size,
    tail_excess,
    truncated,
    upward,
)
from hlmtheory.truncation.rounded import Rounded
from hlmtheory.truncation.tails import Tails

WIDTH = Domain(
    "a whole number in 1..52",
    lambda xp, value: (value >= 1) & (value <= 52),
    "give the bits of one value, such as 8",
    kind="integer",
)
BITS = 8
"""b_prob of cu-hlm V-A."""


def decoded_draft(
    draft: Array, k: Array, *, bits_per_probability: int = BITS, draft_token: Array | None = None
) -> Array:
    """The row q̂ that the server decodes from k rounded values.

    Parameters
    ----------
    draft : array, shape (..., V)
        Probability rows.
    k : integer array, shape (...) or broadcastable to it
        How many entries are sent, 0..V; equal ones by lowest index.
    bits_per_probability : int
        b_prob, 1 to 52.
    draft_token : integer array, shape (...), optional
        d, whose q_d the server has unrounded and puts in its place. It then knows no less:
        Δ_k is at most that of :func:`message_deviation`.

    Returns
    -------
    array, shape (..., V)
        Probability rows.

    Raises
    ------
    ValueError
        If a row is no distribution, k no integer in 0..V, b_prob none in 1..52, or d no token.

    Examples
    --------
    >>> decoded_draft([0.5, 0.25, 0.125, 0.125], 2, bits_per_probability=1).tolist()
    [0.0, 0.0, 0.5, 0.5]
    >>> decoded_draft([0.5, 0.25, 0.125, 0.125], 2, bits_per_probability=1, draft_token=0).tolist()
    [0.5, 0.0, 0.25, 0.25]
    """
    xp, kind, q, k = draft_and_size(draft, k)
    levels = _levels(bits_per_probability)
    sent, k = kept(xp, q, k)
    q = xp.broadcast_to(q, sent.shape)
    value = xp.where(sent, xp.floor(q * levels) / levels, 0.0)
    others = xp.ones_like(sent)
    if draft_token is not None:
        _, q, token = arrays(draft=q, draft_token=draft_token)
        token = token_of(q.shape[-1]).check(xp, "draft_token", token)
        batch = leading_dimensions(draft=tuple(q.shape[:-1]), draft_token=tuple(token.shape))
        drafted = xp.arange(q.shape[-1], device=q.device) == xp.broadcast_to(token, batch)[..., None]
        sent, value, others = sent | drafted, xp.where(drafted, q, value), ~drafted
    return in_kind(xp, completed(xp, value, sent, others), kind)


def message_deviation(draft: Array, *, bits_per_probability: int = BITS) -> Array:
    """Δ_k = TV(q, q̂) of what the server decodes, for every k = 0..V at once.

    Beyond the entries of at least 1/(2^b - 1), whose value does not round to 0, it never falls with k, k = V apart.

    Parameters
    ----------
    draft : array, shape (..., V)
        Probability rows.
    bits_per_probability : int
        b_prob, 1 to 52.

    Returns
    -------
    array, shape (..., V + 1)
        The certificate Bias ≤ 2 Δ_k holds with it for what was sent, whatever the draft, if q_d goes unrounded and
        the other values are rounded down (claim ``truncation.message``).

    Raises
    ------
    ValueError
        If a row is no distribution, or b_prob no integer in 1..52.

    Examples
    --------
    >>> message_deviation([0.5, 0.25, 0.125, 0.125], bits_per_probability=2).round(3).tolist()
    [0.25, 0.194, 0.417, 0.542, 0.083]
    """
    xp, kind, q = distributions(draft=draft)
    size, levels = q.shape[-1], _levels(bits_per_probability)
    ordered = sort_descending(xp, xp.reshape(q, (-1, size)))
    value = xp.floor(ordered * levels) / levels
    lost = _sums(xp, ordered - value)
    tails = tail_sums(xp, ordered)
    deviation = lost + tail_excess(xp, ordered, tails, tails + lost)
    deviation = xp.concat([deviation[:, :size], _all_sent(xp, ordered, value)], axis=-1)
    return upward(xp, xp.reshape(deviation, (*q.shape[:-1], size + 1)), kind)


def decoded_output_distribution(target: Array, draft: Array, decoded: Array) -> Array:
    """Law of the emitted token when the server accepts by q̂_d too: mechanism (i) of cu-hlm IV-B, which it sets aside.

    law_v = q_v min(1, p_v/q̂_v) + r̂_v Σ_i q_i (1 - p_i/q̂_i)⁺. With drafts from q̂ that would be p, so by the
    data-processing inequality TV(law, p) ≤ TV(q, q̂): the same guarantee, and q_d need not be sent.

    Parameters
    ----------
    target, draft, decoded : array, shape (..., V)
        Probability rows p, q and q̂, as from :func:`truncate` or :func:`decoded_draft`. A draft with q̂_d = 0 is
        accepted.

    Returns
    -------
    array, shape (..., V)
        Sums to 1.

    Raises
    ------
    ValueError
        If a row is no distribution or the vocabularies differ.

    Examples
    --------
    >>> decoded_output_distribution([0.5, 0.25, 0.25], [0.75, 0.25, 0.0], [0.75, 0.125, 0.125]).tolist()
    [0.5, 0.375, 0.125]
    """
    xp, kind, p, q, decoded = distributions(target=target, draft=draft, decoded=decoded)
    return in_kind(xp, _decoded_law(xp, p, q, decoded), kind)


def least_message_size(tails: Tails, bias: Array, bits: int) -> Array:
    """The least k (R,) with 2 Δ_k ≤ bias (R,), rounding included, for sorted rows (R, V).

    Looks at the entries that do not round to 0, at most 2^b - 1 a row, and at k = V: no other k is better.
    """
    xp, bias = tails.xp, bias[:, None]
    rounded = Rounded.of(tails, _levels(bits))
    k, found = rounded.least(bias)
    if bool(xp.all(found)):
        return k[:, 0]
    whole = 2.0 * rounded.everything()
    good = found | (whole <= bias)
    if not bool(xp.all(good)):
        index = int(xp.argmin(xp.astype(good[:, 0], xp.int8)))
        _refuse_unattainable(rounded.row(index), index, bits)
    return xp.where(found, k, tails.size)[:, 0]


def completed(xp: Any, value: Array, sent: Array, others: Array) -> Array:
    """The values and, over the entries not sent, what they lack of 1; over ``others`` if all were sent."""
    home = xp.where(xp.all(sent, axis=-1, keepdims=True), others, ~sent)
    rest = 1.0 - xp.sum(value, axis=-1, keepdims=True)
    rest = xp.where(rest > 0, rest, 0.0)  # a rounding of the sum; the values themselves never exceed q
    count = xp.count_nonzero(home, axis=-1, keepdims=True)
    share = rest / xp.astype(xp.where(count > 0, count, 1), value.dtype)
    return normalised(xp, value + xp.where(home, share, 0.0))[0]


def _levels(bits: int) -> int:
    """The largest code, 2^b - 1, that stands for 1."""
    xp, number = arrays(bits_per_probability=bits)
    if number.ndim:
        raise DomainError(f"bits_per_probability must be one number; got {bits!r}; messages of one kind share it")
    return (1 << int(WIDTH.check(xp, "bits_per_probability", number))) - 1


def _sums(xp: Any, values: Array) -> Array:
    """Sums of the first k = 0..C entries."""
    return xp.flip(tail_sums(xp, xp.flip(values, axis=-1)), axis=-1)


def _all_sent(xp: Any, ordered: Array, value: Array) -> Array:
    """Δ_V, where what the rounding loses is spread over all entries, (R, 1)."""
    lost = ordered - value
    share = xp.mean(lost, axis=-1, keepdims=True)
    return xp.sum(xp.clip(lost - share, min=0.0), axis=-1, keepdims=True)


def _decoded_law(xp: Any, p: Array, q: Array, decoded: Array) -> Array:
    beta = rejection(xp, p, decoded)
    distorted = normalised(xp, excess(xp, p, decoded))[0]
    return q * (1.0 - beta) + xp.sum(q * beta, axis=-1, keepdims=True) * distorted


def _refuse_unattainable(row: Rounded, index: int, bits: int) -> NoReturn:
    """Say what the row can do at best, of all its sizes."""
    xp = row.tails.xp
    none = xp.zeros_like(row.tails.before[:, :1])
    every = row.deviations(xp.astype(none, xp.int64), none, row.count)[1]
    least = 2.0 * min(float(xp.min(every)), float(row.everything()[0, 0]))
    raise DomainError(
        f"tolerance must be at least {least:.4g} at row {index} of the batch, "
        f"since {bits} bits can do no better there; give more bits_per_probability"
    )


# --------------------------------------------------------------------------------------------- claims
#
# message. The proof of truncation.tvd_sharp uses of q̂ only that it is a distribution, so it holds for the decoded row,
#   and with it 2 T TV(r, r̂) ≤ 2 TV(q, q̂), where r̂ is 0/0 too, then at most 2 T = 2 TV(q, q̂). Draft d is rejected with
#   probability q_d β_d, as it should be, since the server has q_d itself, and replaced from the r̂ of q̂^(d), so that
#   Bias ≤ Σ_d q_d β_d 2 TV(r, r̂^(d)): a mean, with weights q_d β_d/T, of what is bounded for each d, so at most 2 Δ_k.
#   TV(q, q̂) is a sum over the entries that lose: the values sent are rounded down, so all of them lose, together E_k,
#   and of the others those above their share μ = (tail + E_k)/(V - k).
#   Where all are sent, E_V goes to all, and TV is the sum of what exceeds its mean.
#   With q_d unrounded Δ_k does not rise, so TV(q, q̂^(d)) ≤ Δ_k for each d. If d was sent, E_k falls, and μ with it. If
#   not, and q_d ≥ μ, the share of the others falls, and so does their gain Σ (μ - q_i)⁺; if q_d < μ it rises, and their
#   loss E_k + Σ (q_i - μ)⁺ falls. Where all are sent the same goes for the roundings q_i - f_i, of which d's leaves the
#   mean and the sum.
# beyond the last value that is not 0, at K: the rest R to be spread stays, and one entry t, the largest left, goes from
#   the n that share it, so μ rises from R/n to R/(n - 1), E by t. If t < μ nothing is above μ, and the loss rises by t.
#   Else it rises by t - (t - μ), less at most (n - 1) (R/(n - 1) - R/n) = μ. So Δ never falls from K on, k = V apart.
# decoded_acceptance. What the server does with a draft is a Markov kernel M that depends on p and q̂ alone. Drafts from
#   q̂ would make it emit p, that is M q̂ = p; drafts from q make it emit M q. TV(M q, M q̂) ≤ TV(q, q̂).


def _message_bias(target: Array, draft: Array, token: Array, k: Array) -> Array:
    """2 T TV(r, r̂^(d)): the Bias if every rejected draft were replaced from the row decoded with d's probability."""
    xp, p, q, token, k = arrays(target=target, draft=draft, token=token, k=k)
    token = token_of(q.shape[-1]).check(xp, "token", token)
    xp, _, p, q, k = pair_and_size(p, q, k)
    return bias_of(xp, p, q, decoded_draft(q, k, draft_token=token))


def _message_certificate(draft: Array, k: Array) -> Array:
    xp, _, q, k = draft_and_size(draft, k)
    return 2.0 * at_size(xp, message_deviation(q), k)


def _decoded_bias(target: Array, draft: Array, k: Array) -> Array:
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return xp.sum(xp.abs(_decoded_law(xp, p, q, truncated(xp, q, k)) - p), axis=-1)


def _certificate(draft: Array, k: Array) -> Array:
    xp, _, q, k = draft_and_size(draft, k)
    return 2.0 * distance(xp, q, truncated(xp, q, k))


CLAIMS = (
    Claim(
        id="truncation.message",
        source=Source("oh2025cuhlm", "IV-B, and V-A for b_prob = 8"),
        origin=Origin.NEW,
        statement="2 T TV(r, r̂^(d)) ≤ 2 Δ_k for any draft d, q_d sent unrounded and k values rounded down to 8 bits: "
        "so their mean over the rejected drafts, which bounds the Bias, is at most 2 Δ_k, with the rounding in Δ_k",
        relation=Relation.LE,
        lhs=_message_bias,
        rhs=_message_certificate,
        attained=Attained({"target": [0.56, 0.24, 0.2], "draft": [0.6, 0.24, 0.16], "token": 0, "k": 1}),
        ceiling=2.0,
    ),
    Claim(
        id="truncation.decoded_acceptance",
        source=Source("oh2025cuhlm", "IV-B, mechanism (i)"),
        origin=Origin.NEW,
        statement="Bias ≤ 2 Δ_k also when acceptance uses the decoded q̂_d: q_d need not be sent",
        relation=Relation.LE,
        lhs=_decoded_bias,
        rhs=_certificate,
        attained=Attained({"target": [0.5, 0.25, 0.25], "draft": [0.5, 0.375, 0.125], "k": 1}),
        ceiling=2.0,
    ),
)
