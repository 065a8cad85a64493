"""Claims of :mod:`hlmtheory.shared_seed` and their proofs."""

from __future__ import annotations

from hlmtheory._array import arrays
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.shared_seed import sides
from hlmtheory.shared_seed.match import match_probability, message_value, skip_mismatch
from hlmtheory.skipping.risk import one_step_risk

#
# Proofs, by the last part of the id.
#
# Notation: E_w independent Exp(1), a = argmin E_w/q_w, b = argmin E_w/p_w, t_v = P(a = b = v), M_v = 1/t_v, T = TV(q,
#   p).
#
# match. a = b = v if E_w ≥ E_v max(q_w/q_v, p_w/p_v) for every w. Given E_v = x this has the probability exp(-x Σ_{w≠v}
#   max(q_w/q_v, p_w/p_v)); ∫ e^{-x M_v} dx = 1/M_v. The other side: let α = min E/q and β = min E/p be won by u ≠ v.
#   Their density is q_u p_v exp(-Σ_w max(α q_w, β p_w)) where β p_u ≤ α q_u and α q_v ≤ β p_v. With s = β/α the
#   integral over α is q_u p_v/g(s)², g(s) = Σ max(q_w, s p_w) = Q + sP.
# floor. M_v ≤ Σ_w max(q_w, p_w)/min(q_v, p_v) = (1 + T)/min(q_v, p_v), and Σ min = 1 - T. Attained by uniform rows on
#   sets of one size: m common tokens of n each give m/(2n - m).
# upper. M_v ≥ Σ_w q_w/q_v = 1/q_v, and ≥ 1/p_v. So t_v ≤ min(q_v, p_v).
# upper_reached. False: with three tokens the sum M_v takes some terms from q and others from p.
# law. P(b = v) = P(v wins with rates p): E_w/p_w is Exp(p_w), and the minimum of independent Exp(p_w) is w's with
#   probability p_w/Σ p. It does not depend on q, on how many drafts there are, or on what the link does, since b is
#   emitted whether a = b or not; and positions have independent streams, so the text's law is the product.
# skip. The emitted token is a if the device keeps it and b otherwise, so it differs from b, a draw from p, only if a is
#   kept and a ≠ b: with probability Σ_v s_v (q_v - t_v). Attained if only one token v is ever kept: then the law of v
#   exceeds p_v by s_v q_v - s_v t_v.
# skip_as_verified. False: Σ_v s_v (q_v - p_v)⁺ is the distance if a token that is not kept is verified by rejection
#   sampling, whose residual lacks the tokens with q_v > p_v. Here it is b, given that the device's token is not kept.
# invariant. By induction over positions: every emitted token is the winner of p's race at its position, a function of
#   the prefix, the seed and the position. A draft decides only how many positions a round verifies.
# message_value. P(a = b) ≥ (1 - T)/(1 + T) by floor, and (1 - T) - (1 - T)/(1 + T) = T(1 - T)/(1 + T).
# message_value_most. The derivative (1 - 2T - T²)/(1 + T)² is 0 at T = √2 - 1, where the value is 3 - 2√2.
# any_scheme. P(a = b = v) ≤ min(P(a = v), P(b = v)); sum over v. A message about q, whatever it holds, gives some joint
#   law of the draft, drawn from q, and the emitted token, drawn from p.
# list. Given b = v and E_v = x, token w is ahead of v in the device's race if E_w < x q_w/q_v, while E_w ≥ x p_w/p_v is
#   known: with probability 1 - exp(-x (q_w/q_v - p_w/p_v)⁺), independently. The list holds v if fewer than L are ahead.
# list_bound. A Bernoulli number with P(0) = e^{-λ} is at most a Poisson number with mean λ, in law. So the number ahead
#   is at most Poisson with mean x D, D = M_v - 1/p_v, and Σ_{j<L} ∫ e^{-x/p_v} e^{-xD} (xD)^j/j! dx = p_v (1 - (1 -
#   t_v/p_v)^L).
# apart. t_v ≥ q_v p_v/(q_v + p_v - q_v p_v): M_v = Q/q_v + P/p_v, where Q ≤ 1, and P ≤ 1 - p_v since v is not in it. So
#   q_v p_v M_v ≤ p_v + q_v (1 - p_v).
# order. q_v + p_v - q_v p_v ≤ 1, so Σ q p ≤ P(a = b) by apart.
# message_value_any. False: 1 - T bounds drafts that are drawn from q. With p = (1, 0) the argmax of q = (.75, .25) is
#   accepted with 1, a draft from q with .75 at most, and .75 is what a shared seed accepts of two tokens.
# streamed. Let J drafts be accepted before the one that fails, P(J = j) = (1 - α) α^j. It is made at (J + 1) t_d,
#   arrives R/2 later, waits for the pass in progress, takes V, and its answer takes R/2. The first pass starts with
#   draft 0. If t_d < V the server is never idle after it: each open interval of length V has an arrival. So pass i
#   starts i V later, and draft j ≥ 1 is in pass ⌊j t_d/V⌋ + 1, as one that arrives when a pass starts misses it. The
#   mean is Σ_i P(pass of J > i) = P(J ≥ 1) + Σ_{i≥1} P(J t_d ≥ i V) = α + Σ_{i≥1} α^⌈i V/t_d⌉. If t_d ≥ V no draft
#   waits. Rounds are independent, so the long-run rate is E[J + 1]/E[time]. Where j t_d = i V, a draft that does not
#   miss its pass gives the other side of a jump.
# streamed_fastest. A wait is at least 0.
# streamed_bonus_rate. With V ≤ t_d a pass holds one draft. Its answer tells draft J, the one that fails, at J t_d + R +
#   V if J ≥ 1, which is not before the draft is made since t_d ≤ R + V; and at t_d + R + V if J = 0. The mean is (m -
#   1) t_d + (1 - α) t_d + R + V.

_DALIRI = "daliri2025coupling"
_STREAMED = "liu2024pearl"
_SIMULATED = Assumption("α ≤ 0.9", sides.few_drafts)
_THIRDS = {"target": [0.5, 0.5, 0.0], "draft": [0.5, 0.0, 0.5]}
_TURNED = {"target": [0.5, 0.25, 0.25], "draft": [0.25, 0.5, 0.25]}
_TWO = {"target": [0.25, 0.75], "draft": [0.5, 0.5]}
_ONE_SURE = {"target": [1.0, 0.0], "draft": [0.75, 0.25]}
_POINTS = {"target": [1.0, 0.0], "draft": [1.0, 0.0]}
_SKIPPED = _THIRDS | {"skip": [1.0, 0.0, 0.0]}
_FIRST_LIST = _THIRDS | {"list_size": 1}
_CHAIN = {
    "target_chain": [[0.5, 0.5], [0.25, 0.75]],
    "draft_chain": [[1.0, 0.0], [1.0, 0.0]],
    "seed": 7,
    "draft_length": 3,
}
_SHORT = {"acceptance": 0.5, "draft_time": 1.0, "round_trip": 1.0, "verify_time": 1.0}
_LONG = {"acceptance": 0.75, "draft_time": 0.25, "round_trip": 0.5, "verify_time": 1.0}

CLAIMS = (
    Claim(
        id="shared_seed.match",
        source=Source("moulton2018maximally", "the index J_P, with an exponential race as its sampler"),
        origin=Origin.PUBLISHED,
        statement="P(a = b) = Σ_v 1/Σ_w max(q_w/q_v, p_w/p_v)",
        relation=Relation.EQ,
        lhs=match_probability,
        rhs=sides.no_mismatch,
        attained=Attained(_TURNED),
    ),
    Claim(
        id="shared_seed.floor",
        source=Source(_DALIRI, "abstract, for Gumbel sampling"),
        origin=Origin.PUBLISHED,
        statement="P(a = b) ≥ (1 − T)/(1 + T)",
        lhs=sides.floor,
        rhs=match_probability,
        attained=Attained(_THIRDS),
    ),
    Claim(
        id="shared_seed.upper",
        source=Source(_DALIRI, "abstract"),
        origin=Origin.PUBLISHED,
        statement="P(a = b) ≤ 1 − T",
        lhs=match_probability,
        rhs=sides.overlap,
        attained=Attained(_TWO),
        ceiling=1.0,
    ),
    Claim(
        id="shared_seed.upper_reached",
        source=Source(_DALIRI, "read as if the seed replaced the message"),
        origin=Origin.IMPLIED,
        statement="P(a = b) = 1 − T: a shared seed accepts what rejection sampling accepts",
        relation=Relation.EQ,
        lhs=match_probability,
        rhs=sides.overlap,
        refuted=_THIRDS,
    ),
    Claim(
        id="shared_seed.law",
        source=Source(_DALIRI, "the condition that b is drawn from p"),
        origin=Origin.PUBLISHED,
        statement="Σ_u P(a = u, b = v) = p_v for every v: the emitted token has the law p, whatever q is",
        relation=Relation.EQ,
        lhs=sides.law_overlap,
        rhs=sides.ones,
        attained=Attained(_TURNED),
    ),
    Claim(
        id="shared_seed.skip",
        source=Source(_DALIRI, "where the device keeps some of its tokens unseen"),
        statement="TV(law, p) ≤ Σ_v s_v (q_v − t_v), t_v = P(a = b = v), if the device keeps its token v with s_v",
        lhs=sides.skipped_distance,
        rhs=skip_mismatch,
        attained=Attained(_SKIPPED),
        ceiling=1.0,
    ),
    Claim(
        id="shared_seed.skip_as_verified",
        source=Source("oh2025cuhlm", "the threshold (10), kept where a shared seed replaces rejection sampling"),
        origin=Origin.IMPLIED,
        statement="TV(law, p) = Σ_v s_v (q_v − p_v)⁺: a skipped token costs what it costs with rejection sampling",
        relation=Relation.EQ,
        lhs=sides.skipped_distance,
        rhs=one_step_risk,
        refuted=_SKIPPED,
    ),
    Claim(
        id="shared_seed.invariant",
        source=Source(_DALIRI, "drafter-invariant speculative decoding"),
        origin=Origin.PUBLISHED,
        statement="all 8 tokens of a text with drafts are those of the target model alone, for any q, K and seed",
        relation=Relation.EQ,
        lhs=sides.same_tokens,
        rhs=sides.text_length,
        attained=Attained(_CHAIN),
    ),
    Claim(
        id="shared_seed.message_value",
        source=Source(_DALIRI, "its two bounds"),
        statement="1 − T − P(a = b) ≤ T(1 − T)/(1 + T): what a message about q can add for drafts from q",
        lhs=sides.value_of_message,
        rhs=lambda target, draft: message_value(sides.distance_of(target, draft)),
        attained=Attained(_THIRDS),
    ),
    Claim(
        id="shared_seed.message_value_any",
        source=Source(_DALIRI, "its two bounds"),
        origin=Origin.IMPLIED,
        statement="p(argmax q) − P(a = b) ≤ T(1 − T)/(1 + T): what a message can add, whatever law the drafts have",
        lhs=lambda target, draft: sides.greedy_draft(target, draft) - sides.no_mismatch(target, draft),
        rhs=lambda target, draft: message_value(sides.distance_of(target, draft)),
        refuted=_ONE_SURE,
    ),
    Claim(
        id="shared_seed.message_value_most",
        source=Source(_DALIRI, "its two bounds"),
        statement="T(1 − T)/(1 + T) ≤ 3 − 2√2 = 0.1716",
        lhs=message_value,
        rhs=lambda total_variation: 0.0 * arrays(total_variation=total_variation)[1] + (3.0 - 2.0 * 2.0**0.5),
        attained=Attained({"total_variation": 2.0**0.5 - 1.0}),
    ),
    Claim(
        id="shared_seed.any_scheme",
        source=Source(_DALIRI, "abstract, the optimal coupling"),
        origin=Origin.PUBLISHED,
        statement="P(a = b) ≤ 1 − TV(law of a, law of b) for every joint law, whatever is sent; 1 − T if a is from q",
        lhs=sides.agreement,
        rhs=sides.joint_overlap,
        attained=Attained({"joint": [[0.5, 0.25], [0.0, 0.25]]}),
        ceiling=1.0,
    ),
    Claim(
        id="shared_seed.list",
        source=Source("rowan2025list", "for several races; here the L first of one race"),
        statement="P(b among the L first of q's race) = Σ_v p_v ∫ e^{−τ} P(fewer than L are ahead of v) dτ",
        relation=Relation.EQ,
        lhs=sides.list_of,
        rhs=sides.list_enumerated,
        assumptions=(Assumption("V ≤ 5", sides.few_tokens),),
        attained=Attained({"target": [0.5, 0.25, 0.25], "draft": [0.125, 0.5, 0.375], "list_size": 2}),
    ),
    Claim(
        id="shared_seed.list_bound",
        source=Source("rowan2025list", "list matching lemma, for several races"),
        statement="P(b among the L first) ≥ Σ_v p_v (1 − (1 − t_v/p_v)^L), t_v = P(a = b = v)",
        lhs=sides.list_bound,
        rhs=sides.list_of,
        attained=Attained(_FIRST_LIST),
    ),
    Claim(
        id="shared_seed.apart",
        source=Source(_DALIRI, "beside two independent draws"),
        statement="Σ_v q_v p_v/(q_v + p_v − q_v p_v) ≤ P(a = b)",
        lhs=sides.apart,
        rhs=match_probability,
        attained=Attained(_POINTS),
    ),
    Claim(
        id="shared_seed.order",
        source=Source(_DALIRI, "beside two independent draws"),
        statement="Σ_v q_v p_v ≤ P(a = b): a shared seed matches at least as often as two seeds",
        lhs=sides.sampled_apart,
        rhs=match_probability,
        attained=Attained({"target": [1.0, 0.0], "draft": [0.5, 0.5]}),
    ),
    Claim(
        id="shared_seed.streamed",
        source=Source(_STREAMED, "drafting during verification; the rate for constant times"),
        statement=(
            "seconds per token = (m t_d + R + V + W)/m, m = 1/(1 − α), W the exact wait for a pass, which a draft that "
            "arrives as it starts misses"
        ),
        relation=Relation.EQ,
        lhs=sides.streamed_seconds,
        rhs=sides.simulated_seconds,
        assumptions=(_SIMULATED,),
        condition=lambda acceptance: 0.0 * acceptance + 64.0,
        attained=Attained(_LONG),
    ),
    Claim(
        id="shared_seed.streamed_fastest",
        source=Source(_STREAMED, "drafting during verification"),
        statement="seconds per token ≥ (m t_d + R + V)/m",
        lhs=sides.fastest_seconds,
        rhs=sides.simulated_seconds,
        assumptions=(_SIMULATED,),
        condition=lambda acceptance: 0.0 * acceptance + 64.0,
        attained=Attained(_SHORT),
    ),
    Claim(
        id="shared_seed.streamed_bonus_rate",
        source=Source(_STREAMED, "where each answer also holds the server's next token"),
        origin=Origin.CORRECTED,
        statement="seconds per token = ((m − α) t_d + R + V)/m with that token, for V ≤ t_d ≤ R + V",
        relation=Relation.EQ,
        lhs=sides.bonus_formula,
        rhs=sides.bonus_seconds,
        assumptions=(_SIMULATED, Assumption("V ≤ t_d ≤ R + V", sides.one_draft_a_pass)),
        condition=lambda acceptance: 0.0 * acceptance + 64.0,
        attained=Attained(_SHORT),
    ),
)
