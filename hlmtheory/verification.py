"""The algebra of accept, reject, resample: what speculative decoding emits.

Papers: cu-hlm (oh2025cuhlm) (2)-(3), u-hlm (oh2024uhlm) (9)-(10), edge-sd (7), flexspec Algorithm 2;
the rule itself is Leviathan and others, 2023 (leviathan2023fast) and Chen and others, 2023
(chen2023accelerating).

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q          ``draft``, small model's next-token row         1         (..., V)
p          ``target``, large model's next-token row        1         (..., V)
r          ``residual``, (p - q)⁺ normalised               1         (..., V)
β_v        rejection probability of draft v                1         (..., V)
s_v        ``skip``, probability of not asking the server  1         (..., V)
α          acceptance rate Σ min(p, q)                     1         (...)
K          ``draft_length``                                tokens    (...)
========== =============================================== ========= ===========

A draft v ~ q is accepted with probability 1 - β_v = min(1, p_v/q_v); a rejected one is replaced by a
token from r. Where q_v = 0 the draft v never occurs and β_v is 0. Where TV(q, p) = 0 nothing is
rejected and there is no residual: its row is all zeros.

Rows are divided by their sum in float64 and everything is computed there; answers come in float64 if an
argument did, else in float32. Beside arrays, plain numbers and lists take their library and type.
"""

from __future__ import annotations

from hlmtheory._array import Array, arrays, floating, in_kind, take
from hlmtheory._array import softmax as _softmax
from hlmtheory._domains import (
    COUNT,
    LOGITS,
    SIMPLEX,
    UNIT_INTERVAL,
    DomainError,
    leading_dimensions,
    same_vocabulary,
    token_of,
)
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source


def softmax(logits: Array) -> Array:
    """Probability rows from logits: every other function takes those.

    Parameters
    ----------
    logits : array, shape (..., V)
        Finite. Half types are computed and answered in float32.

    Returns
    -------
    array, shape (..., V)
        Probability rows.

    Raises
    ------
    ValueError
        If a logit is NaN or infinite.

    Examples
    --------
    >>> softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    xp, z = arrays(logits=logits)
    (z,) = floating(xp, LOGITS.check(xp, "logits", z))
    return _softmax(xp, z)


def total_variation(p: Array, q: Array) -> Array:
    """Total variation distance ½ Σ_v |p_v - q_v|.

    Parameters
    ----------
    p, q : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (...)
        In [0, 1].

    Raises
    ------
    ValueError
        If a row is no distribution or the vocabularies differ.

    Examples
    --------
    >>> float(total_variation([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]))
    0.5
    """
    xp, kind, p, q = distributions(p=p, q=q)
    return in_kind(xp, distance(xp, p, q), kind)


def rejection_probability(target: Array, draft: Array) -> Array:
    """Probability β_v = (1 - p_v/q_v)⁺ that the draft v is rejected; 0 where q_v = 0.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (..., V)
        In [0, 1]; cu-hlm, below (3).

    Raises
    ------
    ValueError
        If a row is no distribution or the vocabularies differ.

    Examples
    --------
    >>> rejection_probability([0.25, 0.75], [0.5, 0.5]).tolist()
    [0.5, 0.0]
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    return in_kind(xp, rejection(xp, p, q), kind)


def acceptance_rate(target: Array, draft: Array) -> Array:
    """Probability α = Σ_v min(p_v, q_v) that a draft is accepted.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (...)
        In [0, 1]; equals 1 - TV(q, p).

    Raises
    ------
    ValueError
        If a row is no distribution or the vocabularies differ.

    Examples
    --------
    >>> float(acceptance_rate([0.25, 0.75], [0.5, 0.5]))
    0.75
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    rate = xp.sum(xp.minimum(p, q), axis=-1)
    return in_kind(xp, xp.clip(rate, max=1.0), kind)  # 1 for equal rows, whatever the rounding


def residual_distribution(target: Array, draft: Array) -> Array:
    """Distribution r = (p - q)⁺ / Σ (p - q)⁺ from which a rejected draft is replaced.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (..., V)
        cu-hlm (2). All zeros where target = draft: nothing is rejected, so there is no residual.

    Raises
    ------
    ValueError
        If a row is no distribution or the vocabularies differ.

    Examples
    --------
    >>> residual_distribution([0.25, 0.25, 0.5], [0.5, 0.25, 0.25]).tolist()
    [0.0, 0.0, 1.0]
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    return in_kind(xp, normalised(xp, excess(xp, p, q))[0], kind)


def output_distribution(
    target: Array, draft: Array, *, skip: Array | None = None, residual: Array | None = None
) -> Array:
    """Exact law of the emitted token.

    With probability s_v the draft v is kept unseen; otherwise it is verified, and if rejected replaced
    by a token from the residual: law_v = q_v s_v + q_v (1 - s_v)(1 - β_v) + r_v Σ_i q_i (1 - s_i) β_i.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.
    skip : array, shape (..., V) or broadcastable, optional
        Probability s_v in [0, 1] of skipping the server when the draft is v; never, if None.
    residual : array, shape (..., V), optional
        What replaces a rejected draft: the true residual if None. Rows may be all zeros where nothing
        is rejected.

    Returns
    -------
    array, shape (..., V)
        Sums to 1. Equals ``target`` if both options are None: cu-hlm (3).

    Raises
    ------
    ValueError
        If a row is no distribution, a skip probability is outside [0, 1], or the vocabularies differ.

    Examples
    --------
    >>> output_distribution([0.25, 0.75], [0.5, 0.5]).tolist()
    [0.25, 0.75]
    >>> output_distribution([0.25, 0.75], [0.5, 0.5], skip=[1.0, 1.0]).tolist()
    [0.5, 0.5]
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    verified = q if skip is None else q * (1.0 - _skip_probability(xp, skip, q))
    beta = rejection(xp, p, q)
    rejected = xp.sum(verified * beta, axis=-1, keepdims=True)
    r = normalised(xp, excess(xp, p, q))[0] if residual is None else _replacement(xp, residual, p, q)
    return in_kind(xp, (q - verified) + verified * (1.0 - beta) + rejected * r, kind)


def greedy_output_distribution(target: Array, draft: Array) -> Array:
    """Law of the token that flexspec's Algorithm 2 emits at temperature 1.

    It accepts the draft when that is the argmax a of p, and samples p otherwise:
    law_v = q_a 1{v = a} + (1 - q_a) p_v.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows. Ties of the largest target probability go to the lowest index.

    Returns
    -------
    array, shape (..., V)
        Sums to 1; differs from ``target`` by TV = q_a (1 - p_a).

    Raises
    ------
    ValueError
        If a row is no distribution or the vocabularies differ.

    Examples
    --------
    >>> greedy_output_distribution([0.75, 0.25], [0.5, 0.5]).tolist()
    [0.875, 0.125]
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    top = xp.arange(p.shape[-1], device=p.device) == xp.argmax(p, axis=-1, keepdims=True)
    accepted = xp.sum(xp.where(top, q, 0.0), axis=-1, keepdims=True)
    return in_kind(xp, accepted * xp.astype(top, q.dtype) + (1.0 - accepted) * p, kind)


def expected_tokens(acceptance: Array, draft_length: Array) -> Array:
    """Expected tokens of one round with i.i.d. acceptance: (1 - α^{K+1}) / (1 - α).

    Parameters
    ----------
    acceptance : array, shape (...)
        α in [0, 1].
    draft_length : integer array, shape (...)
        K ≥ 0 drafts; the token the server adds itself is counted.

    Returns
    -------
    array, shape (...)
        Between 1 and K + 1; edge-sd (7).

    Raises
    ------
    ValueError
        If α is outside [0, 1], or K is negative or no integer.

    Examples
    --------
    >>> expected_tokens([0.5, 1.0], 3).tolist()
    [1.875, 4.0]
    """
    xp, alpha, length = _rate_and_length(acceptance, draft_length)
    count = xp.astype(length, alpha.dtype) + 1.0
    inner = (alpha > 0) & (alpha < 1)
    # expm1 keeps all digits as α → 1, where the printed quotient is 0/0
    logarithm = xp.log(xp.where(inner, alpha, xp.full_like(alpha, 0.5)))
    tokens = xp.expm1(count * logarithm) / xp.expm1(logarithm)
    return xp.where(alpha == 1, count, xp.where(inner, tokens, 1.0))


def expected_tokens_profile(acceptances: Array) -> Array:
    """Expected tokens of one round: 1 + Σ_{j≤K} Π_{i≤j} α_i.

    Parameters
    ----------
    acceptances : array, shape (..., K)
        α_i in [0, 1]: the probability that draft i is accepted *given that drafts 1..i-1 were*. With the
        marginal rates instead the formula is wrong: of two streams, one accepting both drafts and one
        none, 2 tokens come out on average, not 1.75.

    Returns
    -------
    array, shape (...)
        Between 1 and K + 1.

    Raises
    ------
    ValueError
        If a rate is outside [0, 1].

    Examples
    --------
    >>> float(expected_tokens_profile([0.5, 1.0]))
    2.0
    """
    xp, alpha = arrays(acceptances=acceptances)
    (alpha,) = floating(xp, UNIT_INTERVAL.check(xp, "acceptances", alpha))
    if alpha.ndim == 0:
        raise DomainError("acceptances must have an axis of drafts; got shape (); give one rate per draft")
    return 1.0 + xp.sum(xp.cumulative_prod(alpha, axis=-1), axis=-1)


def _skip_probability(xp: Array, skip: Array, q: Array) -> Array:
    """s_v in float64, one per draft or one for all."""
    _, _, s = arrays(draft=q, skip=skip)
    UNIT_INTERVAL.check(xp, "skip", s)
    leading_dimensions(draft=tuple(q.shape), skip=tuple(s.shape))
    return xp.astype(s, xp.float64)


def _replacement(xp: Array, residual: Array, p: Array, q: Array) -> Array:
    """The given residual; its row may be zeros where p exceeds q nowhere, as there is none."""
    _, _, r = arrays(draft=q, residual=residual)
    first = xp.astype(xp.arange(q.shape[-1], device=q.device) == 0, r.dtype)  # passes for a distribution
    none = ~xp.any(p > q, axis=-1, keepdims=True)
    if r.ndim:
        same_vocabulary(residual=r, draft=q)
        none = none & xp.all(r == 0, axis=-1, keepdims=True)
    SIMPLEX.check(xp, "residual", xp.where(none, first, r) if r.ndim else r)
    return normalised(xp, xp.astype(r, xp.float64))[0]


def _rate_and_length(acceptance: Array, draft_length: Array) -> tuple[Array, Array, Array]:
    xp, alpha, length = arrays(acceptance=acceptance, draft_length=draft_length)
    (alpha,) = floating(xp, UNIT_INTERVAL.check(xp, "acceptance", alpha))
    length = COUNT.check(xp, "draft_length", length)
    leading_dimensions(acceptance=tuple(alpha.shape), draft_length=tuple(length.shape))
    return xp, alpha, length


# --------------------------------------------------------------------------------------------- claims
#
# Proofs. acceptance: q_v (1 - β_v) = min(p_v, q_v), also where q_v = 0.
# overlap: min(p, q) = q - (q - p)⁺, and Σ (q - p)⁺ = TV, since Σ (q - p)⁺ and Σ (p - q)⁺ have difference 0
# and sum 2 TV.
# unbiased: TV r_v = (p_v - q_v)⁺, and min(p_v, q_v) + (p_v - q_v)⁺ = p_v.
# tokens_iid: P(at least j drafts accepted) = α^j; sum over j = 0..K.
# tokens: N - 1 = Σ_j 1{drafts 1..j accepted}; by the chain rule each indicator has mean Π_{i≤j} α_i, where
# α_i is the rate of draft i given that 1..i-1 were accepted.
# greedy: law_v - p_v = q_a (1{v = a} - p_v), whose positive part is q_a (1 - p_a).


def _overlap(law: Array, target: Array) -> Array:
    """1 - ½ Σ |law - p|: 1 exactly where the law is p, also for a "law" that does not sum to 1."""
    xp, law, p = arrays(law=law, target=target)
    return 1.0 - 0.5 * xp.sum(xp.abs(law - p), axis=-1)


def _at_token(values: Array, token: Array) -> Array:
    """The entry of each row at its token, shape (..., 1)."""
    xp, values, token = arrays(values=values, token=token)
    token = token_of(values.shape[-1]).check(xp, "token", token)
    return take(xp, values, token[..., None])


def _mean_rejection(target: Array, draft: Array) -> Array:
    xp, q = arrays(draft=draft)
    return xp.sum(q * rejection_probability(target, draft), axis=-1, keepdims=True)


def _assembled(target: Array, draft: Array, *, beta: Array, resampled: Array) -> Array:
    """q_v (1 - β_v) + resampled · r_v with whatever a paper puts in for the two factors."""
    _, q = arrays(draft=draft)
    return q * (1.0 - beta) + resampled * residual_distribution(target, draft)


def _uhlm_one_beta(target: Array, draft: Array, token: Array) -> Array:
    """u-hlm (9), its second factor mended: the drawn token's β for every β_v."""
    beta = _at_token(rejection_probability(target, draft), token)
    return _overlap(_assembled(target, draft, beta=beta, resampled=_mean_rejection(target, draft)), target)


def _uhlm_one_resampling(target: Array, draft: Array, token: Array) -> Array:
    """u-hlm (9), its first factor mended: the drawn token's β for Σ q β."""
    beta = rejection_probability(target, draft)
    return _overlap(_assembled(target, draft, beta=beta, resampled=_at_token(beta, token)), target)


def _uhlm_printed(target: Array, draft: Array, token: Array) -> Array:
    """u-hlm (9) as printed, with both."""
    beta = _at_token(rejection_probability(target, draft), token)
    return _overlap(_assembled(target, draft, beta=beta, resampled=beta), target)


def _uhlm_ratio(target: Array, draft: Array, token: Array) -> Array:
    """u-hlm (10) for a point mass y_d: p/q where p < q, else 0."""
    xp, p, q = arrays(target=_at_token(target, token), draft=_at_token(draft, token))
    below = p < q
    return xp.where(below, p / xp.where(below, q, 1.0), 0.0)[..., 0]


def _ones(target: Array) -> Array:
    xp, p = arrays(target=target)
    return xp.ones_like(p[..., 0])


def _stopping_mean(acceptances: Array) -> Array:
    """E[N] from the law of the stopping time itself: Σ_n n P(N = n)."""
    xp, alpha = arrays(acceptances=acceptances)
    ones = xp.ones((*alpha.shape[:-1], 1), dtype=alpha.dtype, device=alpha.device)
    reached = xp.concat([ones, xp.cumulative_prod(alpha, axis=-1)], axis=-1)
    stops = reached * xp.concat([1.0 - alpha, ones], axis=-1)
    return xp.sum(stops * xp.arange(1, stops.shape[-1] + 1, dtype=alpha.dtype, device=alpha.device), axis=-1)


def _stopping_mean_iid(acceptance: Array, draft_length: Array) -> Array:
    """The same for one α and each length: Σ_n n P(N = n), term by term up to LONGEST_SUM drafts."""
    xp, alpha, length = _rate_and_length(acceptance, draft_length)
    alpha, length = xp.broadcast_arrays(alpha, length)
    tokens, reached = xp.zeros_like(alpha), xp.ones_like(alpha)
    longest = int(xp.max(length)) if 0 not in length.shape else 0
    for n in range(1, min(longest, LONGEST_SUM) + 2):
        stops = xp.where(length + 1 == n, reached, reached * (1.0 - alpha))
        tokens = tokens + xp.where(length + 1 >= n, float(n) * stops, 0.0)
        reached = reached * alpha
    return tokens


def _few_enough(draft_length: Array) -> Array:
    return arrays(draft_length=draft_length)[1] <= LONGEST_SUM


def _terms(draft_length: Array) -> Array:
    """How many roundings the sum of a round has behind it."""
    xp, length = arrays(draft_length=draft_length)
    return 1.0 + xp.astype(length, xp.float64)


def _top_loss(target: Array, draft: Array) -> Array:
    """q_a (1 - p_a), with p_a as the largest entry and q_a looked up."""
    xp, p, q = arrays(target=target, draft=draft)
    top = xp.argmax(p, axis=-1, keepdims=True)
    return take(xp, q, xp.broadcast_to(top, (*q.shape[:-1], 1)))[..., 0] * (1.0 - xp.max(p, axis=-1))


LONGEST_SUM = 4096  # drafts; a term-by-term sum of more would keep the check waiting
_HALVES = {"target": [0.25, 0.75], "draft": [0.5, 0.5]}
_THIRDS = {"target": [0.25, 0.5, 0.25], "draft": [0.5, 0.25, 0.25], "token": 0}

CLAIMS = (
    Claim(
        id="verification.acceptance",
        source=Source("leviathan2023fast", "Cor. 3.6"),
        origin=Origin.PUBLISHED,
        statement="P(accept) = Σ_v q_v (1 − β_v) = Σ_v min(p_v, q_v)",
        relation=Relation.EQ,
        lhs=lambda target, draft: 1.0 - _mean_rejection(target, draft)[..., 0],
        rhs=acceptance_rate,
        attained=Attained(_HALVES),
    ),
    Claim(
        id="verification.overlap",
        source=Source("leviathan2023fast", "Lemma 3.3"),
        origin=Origin.PUBLISHED,
        statement="Σ_v min(p_v, q_v) = 1 − TV(q, p)",
        relation=Relation.EQ,
        lhs=acceptance_rate,
        rhs=lambda target, draft: 1.0 - total_variation(target, draft),
        attained=Attained(_HALVES),
    ),
    Claim(
        id="verification.unbiased",
        source=Source("oh2025cuhlm", "(3)"),
        origin=Origin.PUBLISHED,
        statement="q_v (1 − β_v) + Σ_i q_i β_i r_v = p_v for every v: the overlap of the law with p is 1",
        relation=Relation.EQ,
        lhs=lambda target, draft: _overlap(output_distribution(target, draft), target),
        rhs=_ones,
        attained=Attained(_HALVES),
    ),
    Claim(
        id="verification.unbiased_one_beta",
        source=Source("oh2024uhlm", "(9), its second factor mended"),
        origin=Origin.NEW,
        statement="q_v (1 − β_d) + Σ_i q_i β_i r_v = p_v for every v, with β_d of the drawn token d",
        relation=Relation.EQ,
        lhs=_uhlm_one_beta,
        rhs=_ones,
        refuted=_THIRDS,
    ),
    Claim(
        id="verification.unbiased_one_resampling",
        source=Source("oh2024uhlm", "(9), its first factor mended"),
        origin=Origin.NEW,
        statement="q_v (1 − β_v) + β_d r_v = p_v for every v, with β_d of the drawn token d",
        relation=Relation.EQ,
        lhs=_uhlm_one_resampling,
        rhs=_ones,
        refuted=_THIRDS,
    ),
    Claim(
        id="verification.unbiased_printed",
        source=Source("oh2024uhlm", "(9) as printed"),
        origin=Origin.PUBLISHED,
        statement="q_v (1 − β_d) + β_d r_v = p_v for every v, with β_d of the drawn token d",
        relation=Relation.EQ,
        lhs=_uhlm_printed,
        rhs=_ones,
        refuted=_THIRDS,
    ),
    Claim(
        id="verification.rejection_ratio",
        source=Source("oh2024uhlm", "(10) as printed, y_d known"),
        origin=Origin.PUBLISHED,
        statement="β_d = 1{p_d < q_d} p_d / q_d, where the paper's own rule gives (1 − p_d / q_d)⁺",
        relation=Relation.EQ,
        lhs=lambda target, draft, token: _at_token(rejection_probability(target, draft), token)[..., 0],
        rhs=_uhlm_ratio,
        refuted={**_HALVES, "target": [0.125, 0.875], "token": 0},
    ),
    Claim(
        id="verification.tokens_iid",
        source=Source("zhu2025edgesd", "(7)"),
        origin=Origin.PUBLISHED,
        statement="E[tokens] = Σ_n n P(N = n) = (1 − α^{K+1}) / (1 − α) for i.i.d. acceptance at rate α",
        relation=Relation.EQ,
        lhs=_stopping_mean_iid,
        rhs=expected_tokens,
        assumptions=(Assumption("K ≤ 4,096, where the left side is summed term by term", _few_enough),),
        attained=Attained({"acceptance": 0.5, "draft_length": 3}),
        condition=_terms,
    ),
    Claim(
        id="verification.tokens",
        source=Source("zhu2025edgesd", "generalises (7)"),
        origin=Origin.NEW,
        statement="E[tokens] = Σ_n n P(N = n) = 1 + Σ_{j≤K} Π_{i≤j} α_i, α_i = P(accept i | 1..i−1 accepted)",
        relation=Relation.EQ,
        lhs=_stopping_mean,
        rhs=expected_tokens_profile,
        attained=Attained({"acceptances": [0.5, 1.0]}),
        condition=lambda acceptances: float(acceptances.shape[-1] + 1),
    ),
    Claim(
        id="verification.greedy",
        source=Source("li2025flexspec", "Algorithm 2"),
        origin=Origin.NEW,
        statement="TV(law of Algorithm 2, p) = q_a (1 − p_a), a = argmax p: 0 only if p is one-hot or q_a = 0",
        relation=Relation.EQ,
        lhs=lambda target, draft: total_variation(greedy_output_distribution(target, draft), target),
        rhs=_top_loss,
        attained=Attained({"target": [0.75, 0.25], "draft": [0.5, 0.5]}),
    ),
)
