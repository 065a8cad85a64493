"""Claims of ``censored`` and ``published``: what follows from counts of accepted drafts, and what does not."""

from __future__ import annotations

from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.draft_length.censored_coverage import engine_miss, summed_errors
from hlmtheory.draft_length.censored_sides import (
    censored_estimate,
    is_examined,
    joint_estimate,
    joint_is_examined,
    joint_truth,
    mean_low,
    pooled_estimate,
    pooled_is_examined,
    pooled_truth,
    position_low,
    tokens_at_other,
    true_acceptance,
)
from hlmtheory.draft_length.censored_texts import goes_on, rounds_of_text, split_rounds

# Proofs, by the last part of the id. L counts the drafts that would be accepted if the draft had no end, S(d) =
# P(L ≥ d), α_d = S(d)/S(d - 1); a round that drafts k shows i = min(k, L). H(d) = P(i ≥ d), G(d) = P(k ≥ d).
#
# censored. i ≥ d iff k ≥ d and L ≥ d, so Σ_{k≥d} Σ_{i≥d} E n = P(k ≥ d, L ≥ d) = G(d) S(d) for independent k and L.
#   In the same way the rounds with k ≥ d and i ≥ d - 1 are G(d) S(d - 1). The quotient is α_d.
# censored_before. False: see the counterexample. A rule that drafts two tokens for easy requests (α = 7/8) and one for
#   hard requests (α = 1/8) depends on the request only. Depth 2 is then examined for easy requests only. The estimate
#   is 7/8, but (49 + 1)/(56 + 8) = 25/32 of the drafts would be accepted.
# censored_confidence. False: let the draft stop before a token if it is unsure of it, and let these be the tokens that
#   would be rejected. Then every drafted token is accepted.
# position_floor. α_d = h_d/g_d with h_d = H(d)/H(d - 1). α_e ≤ 1 gives g_e in [h_e, 1], and
#   κ = Σ_d Π_{e≤d} g_e rises in every g_e. For a given g_d κ is at most (d - 1) + g_d (K - d + 1), with all others 1,
#   and at least its value with all others h_e (g_1 = 1). So g_d is at least the root of the first and at most the root
#   of the second. In between κ takes every value, since it is continuous in the other g_e: both ends are attained.
# mean_floor. S falls in d and has the sum m over d ≤ k. So over the first K ≤ k its mean is at least
#   m/k, with equality for a constant S. Its sum is at most min(m, K), with equality if S is 1 for as long as possible.
#   For K > k the further S(d) lie between 0 and S(k) ≤ m/k.
# split. Rounds of K cut the text into segments of i + 1 tokens, with L ≥ i at the first. Where a round of K′ begins j
#   tokens into a segment, L ≥ i - j by the assumption. So it emits at least min(i + 1 - j, K′ + 1) tokens: it ends
#   beyond the segment or advances by K′ + 1. So at most ⌈(i + 1)/(K′ + 1)⌉ rounds begin in the segment.
# adaptive_depths. Take the rounds that examine depth d, one after the other. Whether a round examines d is decided by
#   the past, by its k and by its drafts before d. Given all that, its outcome at d is Bernoulli(α_d). So for each θ,
#   θ^a (1 - θ)^(r - a) / (α_d^a (1 - α_d)^(r - a)) with r = r_d and a = a_d is a nonnegative martingale from 1 over
#   these rounds. So is its mean over θ in [0, 1], which is 1/((r + 1) P(Binomial(r, α_d) = a)). By Ville it ever
#   reaches 1/δ_d with probability at most δ_d, however many rounds examine d. Sum over d.

_KM = "kaplan1958nonparametric"
_SEEN = "some rounds examine depth d"
_CUT = {"length_law": [0.0, 0.5, 0.5], "acceptances": [0.5, 0.5], "depth": 2}
_ONE_OR_THREE = [0.0, 0.5, 0.0, 0.5]

CLAIMS = (
    Claim(
        id="draft_length.censored",
        source=Source(_KM, "the product-limit estimate, for draft lengths"),
        origin=Origin.NEW,
        statement="Σ_{k≥d} Σ_{i≥d} E n / Σ_{k≥d} Σ_{i≥d−1} E n = α_d if k is independent of what would be accepted",
        relation=Relation.EQ,
        lhs=censored_estimate,
        rhs=true_acceptance,
        assumptions=(Assumption(_SEEN, is_examined),),
        attained=Attained(_CUT),
    ),
    Claim(
        id="draft_length.censored_before",
        source=Source(_KM, "the product-limit estimate, were a k that is chosen before the outcome enough"),
        origin=Origin.IMPLIED,
        statement="the same quotient is α_d for every k that is chosen before the outcome, such as by the request",
        relation=Relation.EQ,
        lhs=pooled_estimate,
        rhs=pooled_truth,
        assumptions=(Assumption("some round of a context examines depth d", pooled_is_examined),),
        refuted={
            "context_law": [0.5, 0.5],
            "context_acceptances": [[0.875, 0.875], [0.125, 0.125]],
            "context_lengths": [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
            "depth": 2,
        },
    ),
    Claim(
        id="draft_length.censored_confidence",
        source=Source(_KM, "the product-limit estimate, were k the drafts before the first unsure one"),
        origin=Origin.IMPLIED,
        statement="the same quotient is α_d for a k that looks at the draft's confidence in its own tokens",
        relation=Relation.EQ,
        lhs=joint_estimate,
        rhs=joint_truth,
        assumptions=(Assumption("a k with depth d occurs", joint_is_examined),),
        refuted={"joint_law": [[0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]], "depth": 2},
    ),
    Claim(
        id="draft_length.position_floor",
        source=Source(_KM, "accepted drafts by position and the mean draft length"),
        origin=Origin.NEW,
        statement="P(i ≥ d)/P(i ≥ d−1) over the largest P(k ≥ d | k ≥ d−1) that the rates and E k allow ≤ α_d",
        relation=Relation.LE,
        lhs=position_low,
        rhs=true_acceptance,
        assumptions=(Assumption(_SEEN, is_examined),),
        attained=Attained({"length_law": _ONE_OR_THREE, "acceptances": [0.5, 1.0, 0.25], "depth": 3}),
        ceiling=1.0,
    ),
    Claim(
        id="draft_length.mean_floor",
        source=Source("leviathan2023fast", "(1), for a profile of which only the mean accepted drafts m are known"),
        origin=Origin.NEW,
        statement="1 + m min(1, K/k) ≤ E(K), m the mean of the accepted drafts in rounds of k",
        relation=Relation.LE,
        lhs=mean_low,
        rhs=tokens_at_other,
        attained=Attained({"acceptances": [0.25, 1.0, 1.0], "draft_length": 3, "other_length": 1}),
    ),
    Claim(
        id="draft_length.split",
        source=Source("leviathan2023fast", "rounds of another length over the same text"),
        origin=Origin.NEW,
        statement="rounds of K′ drafts ≤ Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, i of them accepted",
        relation=Relation.LE,
        lhs=rounds_of_text,
        rhs=split_rounds,
        assumptions=(Assumption("one token later at most one draft fewer is accepted", goes_on),),
        attained=Attained({"accepted": [3, 2, 1, 0, 0], "draft_length": 4, "other_length": 1}),
    ),
    Claim(
        id="draft_length.adaptive_depths",
        source=Source("robbins1970statistical", "the mixture of likelihood ratios, at each depth"),
        origin=Origin.NEW,
        statement="P(∃t, d: P(Binomial(r_d, α_d) = a_d) ≤ δ_d/(r_d + 1)) ≤ Σ_d δ_d for any k_t chosen by past rounds",
        relation=Relation.LE,
        lhs=engine_miss,
        rhs=summed_errors,
        attained=Attained({"acceptances": [0.4561], "errors": [2 * 0.4561 * (1.0 + 1e-9)]}, ratio=0.8826616276651047),
        ceiling=1.0,
    ),
)
