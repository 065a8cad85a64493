"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

from hlmtheory._array import Array, arrays, take
from hlmtheory._domains import token_of
from hlmtheory._simplex import law_overlap
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.verification.block_claims import CLAIMS as _BLOCK_CLAIMS
from hlmtheory.verification.interval_claims import CLAIMS as _INTERVAL_CLAIMS
from hlmtheory.verification.lossy_claims import CLAIMS as _LOSSY_CLAIMS
from hlmtheory.verification.misdeclared import CLAIMS as _MISDECLARED_CLAIMS
from hlmtheory.verification.multi_draft_claims import CLAIMS as _MULTI_DRAFT_CLAIMS
from hlmtheory.verification.rule import (
    acceptance_rate,
    greedy_output_distribution,
    output_distribution,
    rejection_probability,
    residual_distribution,
    total_variation,
)
from hlmtheory.verification.tokens import expected_tokens, expected_tokens_profile, rate_and_length
from hlmtheory.verification.tree import CLAIMS as _TREE_CLAIMS
from hlmtheory.verification.update_claims import CLAIMS as _UPDATE_CLAIMS

# Proofs, by the last part of the id.
#
# acceptance. q_v (1 - β_v) = min(p_v, q_v), also where q_v = 0.
# overlap. min(p, q) = q - (q - p)⁺. Σ (q - p)⁺ = TV, since Σ (q - p)⁺ and Σ (p - q)⁺ have difference 0 and sum 2 TV.
# unbiased. TV r_v = (p_v - q_v)⁺, and min(p_v, q_v) + (p_v - q_v)⁺ = p_v.
# unbiased_one_beta, unbiased_one_resampling, unbiased_printed. No proof: the counterexamples. (9) prints the drawn
#   token's β, but the law needs β_v of every token v and the mean rejection Σ q β. Correcting one of the two factors is
#   not enough.
# rejection_ratio. β_v = (1 - p_v/q_v)⁺ by definition.
# tokens_iid. P(at least j drafts accepted) = α^j; sum over j = 0..K.
# tokens. N - 1 = Σ_j 1{drafts 1..j accepted}. By the chain rule each indicator has mean Π_{i≤j} α_i, where α_i is the
#   rate of draft i given that drafts 1..i-1 were accepted.
# greedy. law_v - p_v = q_a (1{v = a} - p_v), whose positive part is q_a (1 - p_a).


def _at_token(values: Array, token: Array) -> Array:
    """Return the entry of each row at its token, shape (..., 1)."""
    xp, values, token = arrays(values=values, token=token)
    token = token_of(values.shape[-1]).check(xp, "token", token)
    return take(xp, values, token[..., None])


def _mean_rejection(target: Array, draft: Array) -> Array:
    xp, q = arrays(draft=draft)
    return xp.sum(q * rejection_probability(target, draft), axis=-1, keepdims=True)


def _assembled(target: Array, draft: Array, *, beta: Array, resampled: Array) -> Array:
    """Return q_v (1 - β_v) + resampled · r_v for the two factors that a paper gives."""
    _, q = arrays(draft=draft)
    return q * (1.0 - beta) + resampled * residual_distribution(target, draft)


def _uhlm_one_beta(target: Array, draft: Array, token: Array) -> Array:
    """Return u-hlm (9) with a corrected second factor; the drawn token's β still replaces every β_v."""
    beta = _at_token(rejection_probability(target, draft), token)
    return law_overlap(_assembled(target, draft, beta=beta, resampled=_mean_rejection(target, draft)), target)


def _uhlm_one_resampling(target: Array, draft: Array, token: Array) -> Array:
    """Return u-hlm (9) with a corrected first factor; the drawn token's β still replaces Σ q β."""
    beta = rejection_probability(target, draft)
    return law_overlap(_assembled(target, draft, beta=beta, resampled=_at_token(beta, token)), target)


def _uhlm_printed(target: Array, draft: Array, token: Array) -> Array:
    """Return u-hlm (9) as printed, with both errors."""
    beta = _at_token(rejection_probability(target, draft), token)
    return law_overlap(_assembled(target, draft, beta=beta, resampled=beta), target)


def _uhlm_ratio(target: Array, draft: Array, token: Array) -> Array:
    """Return u-hlm (10) for a point mass y_d: p/q where p < q, else 0."""
    xp, p, q = arrays(target=_at_token(target, token), draft=_at_token(draft, token))
    below = p < q
    return xp.where(below, p / xp.where(below, q, 1.0), 0.0)[..., 0]


def _ones(target: Array) -> Array:
    xp, p = arrays(target=target)
    return xp.ones_like(p[..., 0])


def _stopping_mean(acceptances: Array) -> Array:
    """Return E[N] from the distribution of the stopping time: Σ_n n P(N = n)."""
    xp, alpha = arrays(acceptances=acceptances)
    ones = xp.ones((*alpha.shape[:-1], 1), dtype=alpha.dtype, device=alpha.device)
    reached = xp.concat([ones, xp.cumulative_prod(alpha, axis=-1)], axis=-1)
    stops = reached * xp.concat([1.0 - alpha, ones], axis=-1)
    return xp.sum(stops * xp.arange(1, stops.shape[-1] + 1, dtype=alpha.dtype, device=alpha.device), axis=-1)


def _stopping_mean_iid(acceptance: Array, draft_length: Array) -> Array:
    """Return E[N] = Σ_n n P(N = n) for one α and each length, term by term up to LONGEST_SUM drafts."""
    xp, alpha, length = rate_and_length(acceptance, draft_length)
    alpha, length = xp.broadcast_arrays(alpha, length)
    tokens, reached = xp.zeros_like(alpha), xp.ones_like(alpha)
    largest = int(xp.max(length)) if 0 not in length.shape else 0
    for n in range(1, min(largest, LONGEST_SUM) + 2):
        stops = xp.where(length + 1 == n, reached, reached * (1.0 - alpha))
        tokens = tokens + xp.where(length + 1 >= n, float(n) * stops, 0.0)
        reached = reached * alpha
    return tokens


def _few_enough(draft_length: Array) -> Array:
    return arrays(draft_length=draft_length)[1] <= LONGEST_SUM


def _terms(draft_length: Array) -> Array:
    """Return the number of roundings in the sum over a round."""
    xp, length = arrays(draft_length=draft_length)
    return 1.0 + xp.astype(length, xp.float64)


def _top_loss(target: Array, draft: Array) -> Array:
    """Return q_a (1 - p_a), where p_a is the largest entry and q_a is looked up."""
    xp, p, q = arrays(target=target, draft=draft)
    top = xp.argmax(p, axis=-1, keepdims=True)
    return take(xp, q, xp.broadcast_to(top, (*q.shape[:-1], 1)))[..., 0] * (1.0 - xp.max(p, axis=-1))


LONGEST_SUM = 4096  # drafts; a longer sum would be slow
_HALVES = {"target": [0.25, 0.75], "draft": [0.5, 0.5]}
_THIRDS = {"target": [0.25, 0.5, 0.25], "draft": [0.5, 0.25, 0.25], "token": 0}

CLAIMS = (
    Claim(
        id="verification.acceptance",
        source=Source("leviathan2023fast", "Theorem 3.5"),
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
        lhs=lambda target, draft: law_overlap(output_distribution(target, draft), target),
        rhs=_ones,
        attained=Attained(_HALVES),
    ),
    Claim(
        id="verification.unbiased_one_beta",
        source=Source("oh2024uhlm", "(9), its second factor mended"),
        origin=Origin.IMPLIED,
        statement="q_v (1 − β_d) + Σ_i q_i β_i r_v = p_v for every v, with β_d of the drawn token d",
        relation=Relation.EQ,
        lhs=_uhlm_one_beta,
        rhs=_ones,
        refuted=_THIRDS,
    ),
    Claim(
        id="verification.unbiased_one_resampling",
        source=Source("oh2024uhlm", "(9), its first factor mended"),
        origin=Origin.IMPLIED,
        statement="q_v (1 − β_v) + β_d r_v = p_v for every v, with β_d of the drawn token d",
        relation=Relation.EQ,
        lhs=_uhlm_one_resampling,
        rhs=_ones,
        refuted=_THIRDS,
    ),
    Claim(
        id="verification.unbiased_printed",
        source=Source("oh2024uhlm", "(9) as printed"),
        origin=Origin.MISPRINT,
        statement="q_v (1 − β_d) + β_d r_v = p_v for every v, with β_d of the drawn token d",
        relation=Relation.EQ,
        lhs=_uhlm_printed,
        rhs=_ones,
        refuted=_THIRDS,
    ),
    Claim(
        id="verification.rejection_ratio",
        source=Source("oh2024uhlm", "(10) as printed, y_d known"),
        origin=Origin.MISPRINT,
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
        statement="E[tokens] = Σ_n n P(N = n) = 1 + Σ_{j≤K} Π_{i≤j} α_i, α_i = P(accept i | 1..i−1 accepted)",
        relation=Relation.EQ,
        lhs=_stopping_mean,
        rhs=expected_tokens_profile,
        attained=Attained({"acceptances": [0.5, 1.0]}),
    ),
    Claim(
        id="verification.greedy",
        source=Source("li2025flexspec", "Algorithm 2"),
        statement="TV(law of Algorithm 2, p) = q_a (1 − p_a), a = argmax p: 0 only if p is one-hot or q_a = 0",
        relation=Relation.EQ,
        lhs=lambda target, draft: total_variation(greedy_output_distribution(target, draft), target),
        rhs=_top_loss,
        attained=Attained({"target": [0.75, 0.25], "draft": [0.5, 0.5]}),
    ),
    *_MISDECLARED_CLAIMS,
    *_INTERVAL_CLAIMS,
    *_UPDATE_CLAIMS,
    *_TREE_CLAIMS,
    *_MULTI_DRAFT_CLAIMS,
    *_BLOCK_CLAIMS,
    *_LOSSY_CLAIMS,
)
