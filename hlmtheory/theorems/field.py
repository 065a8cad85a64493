"""Theorems of other papers, and readings of them, by topic."""

from functools import partial

from hlmtheory._array import arrays
from hlmtheory._domains import COUNT as DRAFT_COUNT
from hlmtheory._domains import SIMPLEX, UNIT_INTERVAL
from hlmtheory._quantities import not_negative, open_unit, positive, whole_from_one
from hlmtheory._runs import along, ever, pasts, settings
from hlmtheory._simplex import distance, law_overlap, rejection_by_token
from hlmtheory.channel.fading import Rayleigh, Rician, capacity_by_quadrature
from hlmtheory.channel.latency import COUNT, efficiency
from hlmtheory.channel.leak import CLASSES, ROUNDS
from hlmtheory.channel.links import GilbertElliott
from hlmtheory.channel.split import by_mean, rows_side, split, whole_rows
from hlmtheory.claims import CORRECTED, IMPLIED, PRINTED, Assumption, Source, eq, le, theorem
from hlmtheory.draft_length.delay import below_critical
from hlmtheory.draft_length.rates import LENGTH, etgr
from hlmtheory.serving.goodput import LOAD
from hlmtheory.serving.shapes import LENGTH as CONTEXT_LENGTH
from hlmtheory.serving.shapes import POSITIVE_COUNT, SECONDS
from hlmtheory.shared_seed.match import match_probability, message_value
from hlmtheory.sides import (
    block_sides,
    censored_sides,
    goodput_sides,
    online_sides,
    shared_seed_sides,
    vocabulary_sides,
)
from hlmtheory.sides import lattice_sides as sides
from hlmtheory.sides.audit_sides import given_error, runs
from hlmtheory.sides.colocated_sides import device_rate, no_slower, server_plan
from hlmtheory.sides.host import host_side
from hlmtheory.sides.leak_sides import rounds_entropy
from hlmtheory.sides.multi_draft_sides import independent_cut
from hlmtheory.sides.user_sides import DOMAINS as USER_DOMAINS
from hlmtheory.sides.verification_sides import mean_rejection, ones_side
from hlmtheory.skipping.audit import DOMAINS as AUDIT_DOMAINS
from hlmtheory.theorems import c_sqs, cu_hlm
from hlmtheory.verification.multi_draft import multi_draft_optimum
from hlmtheory.verification.rule import acceptance_rate, total_variation

COINS = {"kept": [0.5, 0.5], "draft_length": 1}
DEFENCE = Source("wei2024spills", "padding of packets; the cost is ours")
ROUND = ("kept", "draft_length")
side = partial(
    host_side,
    {
        **dict.fromkeys(("length_law", "target_chain"), SIMPLEX),
        "kept": UNIT_INTERVAL,
        "draft_length": ROUNDS["draft_length"],
        "sizes": not_negative("give sizes of messages"),
        "weights": positive("give how often each size is sent"),
        "classes": CLASSES,
        "tops": None,
    },
    {"target_chain": 2, **dict.fromkeys(("length_law", "kept", "sizes", "weights", "tops"), 1)},
)
SPLIT = Source("ning2025dssd", "abstract: a single downlink transmission in place of the drafts' distributions")
CHANNEL_side = partial(
    host_side,
    {
        **dict.fromkeys(("target", "draft", "received"), SIMPLEX),
        **dict.fromkeys(("vocabulary", "bits_per_probability"), COUNT),
        "acceptances": UNIT_INTERVAL,
    },
    dict.fromkeys(("target", "draft", "received", "acceptances"), 1),
)
CHANNEL_ROUND = ("acceptances", "vocabulary", "bits_per_probability")
SEVERAL = Assumption(
    "K ≥ 2 and V ≥ 2: there are several distributions to replace",
    CHANNEL_side(lambda one: len(one["acceptances"]) >= 2 and one["vocabulary"] >= 2, *CHANNEL_ROUND[:2], test=True),
)
CONTEXTS = ("context_law", *censored_sides.POOLED, "depth")
KM = "kaplan1958nonparametric"
DOMAINS = {
    **dict.fromkeys(("length_law", "context_law", "context_lengths"), SIMPLEX),
    **dict.fromkeys(("acceptances", "context_acceptances", "joint_law"), UNIT_INTERVAL),
    **dict.fromkeys(("draft_length", "other_length"), whole_from_one("a round drafts at least one token")),
    "depth": whole_from_one("give a depth"),
    "accepted": DRAFT_COUNT,
    "errors": open_unit("δ_d is the probability that the interval of depth d ever misses, such as 0.05"),
}
RANK = {
    **dict.fromkeys(("length_law", "context_law", "acceptances", "accepted", "errors"), 1),
    **dict.fromkeys(("context_lengths", "context_acceptances", "joint_law"), 2),
}
DRAFT_LENGTH_side = partial(host_side, DOMAINS, RANK)
test = partial(DRAFT_LENGTH_side, test=True)
JOINT = ("joint_law", "depth")
PAPER = "sun2026delay"
DRAFT_LENGTH_PAPER = Source("sun2026delay", "abstract: UCB-SpecStop")
UNLUCKY = {"acceptances": [0.9], "verify_s": 1.0, "draft_s": 0.5, "rise": 1.0, "expected": 0.5, "error": 0.5}
POLICY_CONTEXTS = ("context_law", "context_acceptances", "context_lengths")
DEVICE = (*POLICY_CONTEXTS, "other_s", "draft_s", "pass_s", "token_s")
FAST_SERVER = Assumption("t_s ≤ t_d: the server drafts at least as fast as the device", no_slower)
FIRST_SEEN = {"context_lengths": [[0.0] * 10 + [1.0], [0.0, 1.0] + [0.0] * 9]}
ITS_DEVICE = {"draft_s": 0.1, "other_s": 0.0}
OWN = ("server_draft_s", "pass_s", "token_s")
SOURCE = Source("leviathan2023fast", "Theorem 3.8, with the draft model on the device or on the server")
SURE_OR_NOT = {
    "context_law": [0.5, 0.5],
    "context_acceptances": [[1.0] * 10, [0.0] * 10],
    "context_lengths": [[0.0] * 10 + [1.0], [1.0] + [0.0] * 10],
    "server_draft_s": 0.1,
    "pass_s": 1.0,
    "token_s": 0.0,
}
"""Half of the rounds accept all drafts, half none. Who knows it drafts 10 or none: 12 tokens in 3 s."""
POLICY_RANK = {"acceptances": 1, "context_law": 1, "context_acceptances": 2, "context_lengths": 2}
POLICY_side = partial(host_side, USER_DOMAINS, POLICY_RANK)
SERVING_DOMAINS = {
    **dict.fromkeys(("acceptance", "mix"), UNIT_INTERVAL),
    **dict.fromkeys(("target_pass", "draft_pass", "overhead_s"), SECONDS),
    "draft_length": DRAFT_COUNT,
    "context": CONTEXT_LENGTH,
    "batch_size": POSITIVE_COUNT,
    "load": LOAD,
}
SERVING_side = partial(host_side, SERVING_DOMAINS, {"target_pass": 1, "draft_pass": 1})
SERVING_test = partial(SERVING_side, test=True)
AT_ONE = Assumption("drafts pay at batch 1", SERVING_test(goodput_sides.pays_for_one, *goodput_sides.ROUND))
CASE = {
    "acceptance": 0.5,
    "target_pass": [1.0, 0.125, 0.0],
    "draft_pass": [0.125, 0.0, 0.0],
    "draft_length": 2,
    "context": 0.0,
    "overhead_s": 0.0,
}
"""E = 1.75 and T_2 = 1.25 + 0.375 B: drafts lose from B = 0.5/0.15625 = 3.2 on."""
SMART = "liu2024goodput"
LATENCY = "kong2026latency"
TURNED = {"target": [0.5, 0.25, 0.25], "draft": [0.25, 0.5, 0.25]}
DALIRI = "daliri2025coupling"
CHAIN = {
    "target_chain": [[0.5, 0.5], [0.25, 0.75]],
    "draft_chain": [[1.0, 0.0], [1.0, 0.0]],
    "seed": 7,
    "draft_length": 3,
}
ONE_SURE = {"target": [1.0, 0.0], "draft": [0.75, 0.25]}
SHORT = {"acceptance": 0.5, "draft_time": 1.0, "round_trip": 1.0, "verify_time": 1.0}
SIMULATED = Assumption("α ≤ 0.9", shared_seed_sides.few_drafts)
STREAMED = "liu2024pearl"
AFTER_TWO = [0.0, *2 * [0.0], *4 * [1.0], *8 * [0.0]]
BETTING = "waudbysmith2024betting"
NEARLY_ALL = 1.0 - 2.0**-32
LARGE_THEN_SMALL = [*3 * [NEARLY_ALL], *12 * [2.0**-16]]
EXACT = Source("sun2025block", "Theorem 1")
LONGER = Source("sun2025block", "Theorem 2")
SKIPPING = Source("sun2025block", "Algorithm 2, with drafts that are not verified")
OPTIMUM = Source("hu2025multidraft", "abstract, the dual")
ROWS = {"target": [0.5, 0.25, 0.25], "draft": [0.25, 0.5, 0.25], "draft_count": 2}
DRAFTS = Assumption(
    "q(A) > 0: there is a token to draft", lambda draft, support: vocabulary_sides.mass_side(draft, support) > 0
)
HALF = {"target": [0.25, 0.25, 0.5], "draft": [0.25, 0.25, 0.5], "support": [True, True, False]}
TIMOR = "timor2025heterogeneous"


@theorem(
    "channel.capacity",
    Source("alouini1999capacity", "capacity with constant power, no diversity"),
    PRINTED,
    tight={"mean_snr": 10.0},
)
def capacity(mean_snr):
    """E[log₂(1 + S)] = e^{1/m} E₁(1/m)/ln 2 under Rayleigh fading.

    E[log(1 + S)] = ∫ P(S > s)/(1 + s) ds = e^{1/m} E₁(1/m) for an exponential S. For a Gamma(j + 1) S, by parts, e^z
    Σ_{k≤j+1} E_k(z); summing the Poisson mixture over j in the other order gives the closed form.
    """
    return eq(Rayleigh(mean_snr).capacity(), capacity_by_quadrature(Rayleigh(mean_snr)))


@theorem(
    "channel.capacity_jensen",
    Source("alouini1999capacity", "capacity with constant power"),
    PRINTED,
    tight={"mean_snr": 1e-9, "k_factor": 0.0},
    condition=lambda k_factor: 1.0 + k_factor,
)
def capacity_jensen(mean_snr, k_factor):
    """E[log₂(1 + S)] ≤ log₂(1 + m): fading only costs capacity.

    log is concave.
    """
    left = Rician(mean_snr, k_factor).capacity()
    xp, m = arrays(mean_snr=mean_snr)
    return le(left, efficiency(xp, m))


@theorem(
    "channel.outage",
    Source("alouini1999capacity", "outage probability"),
    PRINTED,
    tight={"mean_snr": 10.0, "probability": 0.125},
)
def outage(mean_snr, probability):
    """P(log₂(1 + S) ≤ R) = p at the outage rate R of p, under Rayleigh fading 1 − exp(−(2^R − 1)/m).

    F(F⁻¹(p)) = p.
    """
    return eq(Rayleigh(mean_snr).outage_probability(Rayleigh(mean_snr).rate_quantile(probability)), probability)


@theorem(
    "channel.markov",
    Source("gilbert1960capacity", "the burst-noise channel"),
    PRINTED,
    tight={"leave_good": 0.0625, "leave_bad": 0.25},
)
def markov(leave_good, leave_bad):
    """the share leave_good/(leave_good + leave_bad) of bad slots is stationary.

    πP = π.
    """
    bad = GilbertElliott(1.0, 0.0, leave_good, leave_bad, 1.0).share_of_bad()
    return eq(bad * (1.0 - leave_bad) + (1.0 - bad) * leave_good, bad)


@theorem("channel.leak_constant", DEFENCE, IMPLIED, false=COINS)
def leak_constant():
    """H(R) ≤ 0: messages of one size leak nothing about the text.

    False: for the same text, messages of one size show the number of rounds, which depends on the accepted drafts.
    Instead: channel.leak_text.
    """
    return le(side(rounds_entropy, *ROUND), side(lambda one: 0.0, *ROUND))


@theorem("channel.downlink_mean", SPLIT, IMPLIED, false={"acceptances": [1.0, 0.5]})
def downlink_mean():
    """E[distributions down in a round] = 1 − ᾱ^K, ᾱ the mean of the rates α_i.

    False: see the counterexample. α_1 … α_K is the geometric mean to the power K, not the arithmetic one.
    Instead: channel.downlink.
    """
    return eq(CHANNEL_side(rows_side, "acceptances"), CHANNEL_side(by_mean, "acceptances"))


@theorem(
    "channel.split_bits",
    SPLIT,
    PRINTED,
    assuming=(SEVERAL,),
    tight={"acceptances": [0.0, 1.0], "vocabulary": 2, "bits_per_probability": 8},
)
def split_bits():
    """bits of a round, up and down: K(b + ⌈log₂ V⌉) + (1 − Π α_i) V b ≤ K(V b + ⌈log₂ V⌉).

    Both send the K tokens. Of the rest, K b + (1 - Π α_i) V b ≤ (K + V) b ≤ K V b if K ≥ 2 and V ≥ 2.
    """
    return le(CHANNEL_side(split, *CHANNEL_ROUND), CHANNEL_side(whole_rows, *CHANNEL_ROUND))


@theorem(
    "draft_length.censored_before",
    Source(KM, "the product-limit estimate, were a k that is chosen before the outcome enough"),
    IMPLIED,
    assuming=(
        Assumption("some round of a context examines depth d", test(censored_sides.pooled_is_examined, *CONTEXTS)),
    ),
    false={
        "context_law": [0.5, 0.5],
        "context_acceptances": [[0.875, 0.875], [0.125, 0.125]],
        "context_lengths": [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
        "depth": 2,
    },
)
def censored_before():
    """Σ_{k≥d} Σ_{i≥d} E n / Σ_{k≥d} Σ_{i≥d−1} E n = α_d for every k that is chosen before the outcome, such as by
    the request.

    False: see the counterexample. A rule that drafts two tokens for easy requests (α = 7/8) and one for hard
    requests (α = 1/8) depends on the request only. Depth 2 is then examined for easy requests only. The estimate is
    7/8, but (49 + 1)/(56 + 8) = 25/32 of the drafts would be accepted. Instead: draft_length.censored.
    """
    return eq(
        DRAFT_LENGTH_side(censored_sides.pooled_estimate, *CONTEXTS),
        DRAFT_LENGTH_side(censored_sides.pooled_truth, *CONTEXTS),
    )


@theorem(
    "draft_length.censored_confidence",
    Source(KM, "the product-limit estimate, were k the drafts before the first unsure one"),
    IMPLIED,
    assuming=(Assumption("a k with depth d occurs", test(censored_sides.joint_is_examined, *JOINT)),),
    false={"joint_law": [[0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]], "depth": 2},
)
def censored_confidence():
    """Σ_{k≥d} Σ_{i≥d} E n / Σ_{k≥d} Σ_{i≥d−1} E n = α_d for a k that looks at the draft model's confidence in its
    own tokens.

    False: let the draft stop before a token if it is unsure of it, and let these be the tokens that would be
    rejected. Then every drafted token is accepted. Instead: draft_length.censored.
    """
    return eq(
        DRAFT_LENGTH_side(
            lambda one: censored_sides.estimate_side(censored_sides.joint_side(one)[1], one["depth"]), *JOINT
        ),
        DRAFT_LENGTH_side(censored_sides.joint_truth, *JOINT),
    )


@theorem(
    "draft_length.delay_one",
    Source(PAPER, "abstract: the critical delay; its formula by the authors' experiments"),
    PRINTED,
    assuming=(Assumption("F + delay ≤ M ((1 + γ)/γ² − 1)", below_critical),),
    tight={"acceptance": 0.5, "other_length": 2, "fixed": 5.0, "marginal": 1.0},
)
def delay_one(acceptance, other_length, fixed, marginal):
    """ETGR(K) ≤ ETGR(1) for every K ≥ 1 if F + delay ≤ M ((1 + γ)/γ² − 1).

    For equal acceptances c_1 = (1 + γ)/γ² - 1. With F = 2d + c_v and M = c_d + c_v, for a delay d each way, F/M =
    c_1 is d = M (1 + γ)/(2 γ²) - (c_d + 2 c_v)/2, as in the authors' experiments. By delay_threshold no longer draft
    is better at or below it.
    """
    xp, length = arrays(other_length=other_length)
    left = etgr(acceptance, LENGTH.check(xp, "other_length", length), fixed, marginal)
    xp, gamma = arrays(acceptance=acceptance)
    return le(left, etgr(gamma, xp.ones_like(gamma, dtype=xp.int64), fixed, marginal))


@theorem(
    "draft_length.online_estimate",
    DRAFT_LENGTH_PAPER,
    IMPLIED,
    assuming=(
        Assumption("all intervals hold", online_sides.side(lambda one: online_sides.played(False, one)[2], test=True)),
    ),
    false=UNLUCKY | {"luck": [[0.95]] * 9, "waits": [0.5] * 9},
)
def online_estimate():
    """Σ_t (X* T(K_t) − E(K_t)) ≤ Σ_d W(N_d) + v W(T) for K_t with the best estimate, in place of the best upper end.

    False: see the counterexample. A draft that is rejected in the first round has the estimate 0, and no later round
    examines it. Instead: draft_length.online_regret.
    """
    return le(
        online_sides.side(lambda one: online_sides.played(False, one)[0]),
        online_sides.side(lambda one: online_sides.bound_side(False, one)),
    )


@theorem(
    "lattice.nearest",
    Source("reznik2011", "Section 2.2, Algorithm 1"),
    PRINTED,
    assuming=(c_sqs.POSITIVE, Assumption("the competitor has a count, and none off the support", sides.on_support)),
    tight={"draft": [0.5, 0.5], "k": 2, "counts": [1, 0]},
    ceiling=1.0,
)
def nearest():
    """TV(q̄, q̂) ≤ TV(q̄, c/ℓ) for all counts c on the support with sum ℓ: no lattice point is nearer.

    Minimise Σ |c - x| over integer c with Σ c = ℓ. c_i may be taken in {⌊x_i⌋, ⌊x_i⌋ + 1}: otherwise, moving a unit
    from an entry that is too high to one that is too low does not raise the sum. Then r entries are up, and the sum
    is Σ_up (1 - f) + Σ_down f = r + Σ f - 2 Σ_up f, smallest for the r largest remainders.
    """
    return le(sides.nearest, sides.farther)


@theorem(
    "policy.colocated_speed_any", SOURCE, IMPLIED, assuming=(FAST_SERVER,), false=SURE_OR_NOT | ITS_DEVICE | FIRST_SEEN
)
def colocated_speed_any():
    """tokens a second of a device that ends a round where its draft model is unsure ≤ max over K of E(K)/(K t_s +
    V(K)), those of a server that does not look.

    False: let half of the rounds be sure (all drafts accepted), the others unsure (the first is rejected), t = 0.1, V =
    1. Rounds of 10 drafts give 6 tokens in 2 seconds, and no other K is better. A device that sees after one draft that
    it is unsure, and then sends, gives 11 + 1 tokens in 2 + 1.1 seconds. Instead: policy.colocated_speed_looks.
    """
    return le(
        POLICY_side(device_rate, *DEVICE), POLICY_side(lambda one: server_plan(one).rate, *POLICY_CONTEXTS[:2], *OWN)
    )


@theorem(
    "serving.goodput_everywhere",
    Source(SMART, "a reading of speedups at batch 1"),
    IMPLIED,
    assuming=(AT_ONE,),
    false=CASE | {"batch_size": 8},
)
def goodput_everywhere():
    """K drafts that pay at batch 1 pay at every batch: T_K(B) ≤ E T_0(B).

    False: a token of the target's pass takes b. If the gain G(B) = u + v B has u > 0 > v, K drafts lose from -u/v on.
    Instead: serving.goodput_crossover, serving.goodput_long.
    """
    return le(
        SERVING_side(goodput_sides.drafting_s, *goodput_sides.ROUND, "batch_size"),
        SERVING_side(goodput_sides.as_many_tokens_alone_s, *goodput_sides.ROUND, "batch_size"),
    )


@theorem(
    "serving.goodput_light_even",
    Source(LATENCY, "the batch by Little's law"),
    IMPLIED,
    assuming=(
        Assumption("drafts pay at batch 1 and lose above B*", SERVING_test(goodput_sides.upper, *goodput_sides.ROUND)),
    ),
    false=CASE | {"mix": 1.0},
    condition=SERVING_side(goodput_sides.digits_near_the_crossing, *goodput_sides.ROUND, "mix"),
)
def goodput_light_even():
    """up to the load B*/T_0(B*), at which requests that arrive evenly hold as many either way, K drafts hold no more
    sequences in the server than no drafts.

    False: with requests that arrive evenly B*/T_0(B*) is where both hold B*. At random drafts, whose rounds take
    longer for each sequence, hold more from (B* - 1)/T_0(B*) on. Instead: serving.goodput_light.
    """
    return le(
        SERVING_side(goodput_sides.held_at(0.0, drafting=True), *goodput_sides.ROUND, "mix"),
        SERVING_side(goodput_sides.held_at(0.0, drafting=False), *goodput_sides.ROUND, "mix"),
    )


@theorem(
    "shared_seed.match",
    Source("moulton2018maximally", "the index J_P, with an exponential race as its sampler"),
    PRINTED,
    tight=TURNED,
)
def match():
    """P(a = b) = Σ_v 1/Σ_w max(q_w/q_v, p_w/p_v).

    a = b = v if E_w ≥ E_v max(q_w/q_v, p_w/p_v) for every w. Given E_v = x this has the probability exp(-x Σ_{w≠v}
    max(q_w/q_v, p_w/p_v)); ∫ e^{-x M_v} dx = 1/M_v. The other side: let α = min E/q and β = min E/p be won by u ≠ v.
    Their density is q_u p_v exp(-Σ_w max(α q_w, β p_w)) where β p_u ≤ α q_u and α q_v ≤ β p_v. With s = β/α the
    integral over α is q_u p_v/g(s)², g(s) = Σ max(q_w, s p_w) = Q + sP.
    """
    return eq(match_probability, shared_seed_sides.no_mismatch)


@theorem("shared_seed.floor", Source(DALIRI, "abstract, for Gumbel sampling"), PRINTED, tight=cu_hlm.THIRDS)
def floor():
    """P(a = b) ≥ (1 − T)/(1 + T).

    M_v ≤ Σ_w max(q_w, p_w)/min(q_v, p_v) = (1 + T)/min(q_v, p_v), and Σ min = 1 - T. Attained by uniform rows on
    sets of one size: m common tokens of n each give m/(2n - m).
    """
    return le(shared_seed_sides.floor, match_probability)


@theorem("shared_seed.upper", Source(DALIRI, "abstract"), PRINTED, tight=cu_hlm.HALVES, ceiling=1.0)
def shared_seed_upper():
    """P(a = b) ≤ 1 − T.

    M_v ≥ Σ_w q_w/q_v = 1/q_v, and ≥ 1/p_v. So t_v ≤ min(q_v, p_v).
    """
    return le(match_probability, shared_seed_sides.overlap)


@theorem(
    "shared_seed.upper_reached",
    Source(DALIRI, "read as if the seed replaced the message"),
    IMPLIED,
    false=cu_hlm.THIRDS,
)
def upper_reached():
    """P(a = b) = 1 − T: a shared seed accepts what rejection sampling accepts.

    False: with three tokens the sum M_v takes some terms from q and others from p. Instead: shared_seed.match.
    """
    return eq(match_probability, shared_seed_sides.overlap)


@theorem("shared_seed.law", Source(DALIRI, "the condition that b is drawn from p"), PRINTED, tight=TURNED)
def law():
    """Σ_u P(a = u, b = v) = p_v for every v: the emitted token has the law p, whatever q is.

    P(b = v) = P(v wins with rates p): E_w/p_w is Exp(p_w), and the minimum of independent Exp(p_w) is w's with
    probability p_w/Σ p. It does not depend on q, on how many drafts there are, or on what the link does, since b is
    emitted whether a = b or not; and positions have independent streams, so the text's law is the product.
    """
    return eq(shared_seed_sides.law_overlap, shared_seed_sides.ones)


@theorem("shared_seed.invariant", Source(DALIRI, "drafter-invariant speculative decoding"), PRINTED, tight=CHAIN)
def invariant():
    """all 8 tokens of a text with drafts are those of the target model alone, for any q, K and seed.

    By induction over positions: every emitted token is the winner of p's race at its position, a function of the
    prefix, the seed and the position. A draft decides only how many positions a round verifies.
    """
    return eq(shared_seed_sides.same_tokens, shared_seed_sides.text_length)


@theorem("shared_seed.message_value_any", Source(DALIRI, "its two bounds"), IMPLIED, false=ONE_SURE)
def message_value_any(target, draft):
    """p(argmax q) − P(a = b) ≤ T(1 − T)/(1 + T): what a message can add, whatever law the drafts have.

    False: 1 - T bounds drafts that are drawn from q. With p = (1, 0) the argmax of q = (.75, .25) is accepted with
    1, a draft from q with .75 at most, and .75 is what a shared seed accepts of two tokens.
    Instead: shared_seed.message_value.
    """
    return le(
        shared_seed_sides.greedy_draft(target, draft) - shared_seed_sides.no_mismatch(target, draft),
        message_value(shared_seed_sides.distance_of(target, draft)),
    )


@theorem(
    "shared_seed.any_scheme",
    Source(DALIRI, "abstract, the optimal coupling"),
    PRINTED,
    tight={"joint": [[0.5, 0.25], [0.0, 0.25]]},
    ceiling=1.0,
)
def any_scheme():
    """P(a = b) ≤ 1 − TV(law of a, law of b) for every joint law, whatever is sent; 1 − T if a is from q.

    P(a = b = v) ≤ min(P(a = v), P(b = v)); sum over v. A message about q, whatever it holds, gives some joint law of
    the draft, drawn from q, and the emitted token, drawn from p.
    """
    return le(shared_seed_sides.agreement, shared_seed_sides.joint_overlap)


@theorem(
    "shared_seed.streamed_bonus_rate",
    Source(STREAMED, "where each answer also holds the server's next token"),
    CORRECTED,
    assuming=(SIMULATED, Assumption("V ≤ t_d ≤ R + V", shared_seed_sides.one_draft_a_pass)),
    condition=lambda acceptance: 0.0 * acceptance + 64.0,
    tight=SHORT,
)
def streamed_bonus_rate():
    """seconds per token = ((m − α) t_d + R + V)/m with that token, for V ≤ t_d ≤ R + V.

    With V ≤ t_d a pass holds one draft. Its answer tells draft J, the one that fails, at J t_d + R + V if J ≥ 1,
    which is not before the draft is made since t_d ≤ R + V; and at t_d + R + V if J = 0. The mean is (m - 1) t_d +
    (1 - α) t_d + R + V.
    """
    return eq(shared_seed_sides.bonus_formula, shared_seed_sides.bonus_seconds)


@theorem(
    "skipping.audit_predictable",
    Source(BETTING, "the capital process, read for the mean of means that vary"),
    IMPLIED,
    false={"risks": AFTER_TWO, "bet_by_past": LARGE_THEN_SMALL, "audit_probability": 0.5, "risk": 0.25, "error": 0.8},
    ceiling=1.0,
)
def audit_predictable(risks, bet_by_past, audit_probability, risk, error):
    """P(∃t: M_t ≥ 1/δ and the mean of μ_1..μ_t ≥ ε) ≤ δ for λ_t that may depend on the past.

    False: see the counterexample. Bets are large while the risk is 0, and nearly 0 while it is 1.
    Instead: skipping.audit_mean.
    """
    xp, lost, nodes, probability, mu = runs(risks, audit_probability)
    _, pi, wanted, delta = settings(AUDIT_DOMAINS, audit_probability=audit_probability, risk=risk, error=error)
    bets = along(xp, pasts("bet_by_past", bet_by_past, AUDIT_DOMAINS["bets"])[1], nodes)
    pi, wanted = (value[..., None, None] for value in (pi, wanted))
    wealth = xp.cumulative_prod(1.0 + bets / (1.0 / pi - wanted) * (wanted - lost / pi), axis=-1)
    crossed = wealth * delta[..., None, None] >= 1.0
    return le(ever(xp, probability, crossed & (xp.cumulative_sum(mu - wanted, axis=-1) >= 0)), given_error(error))


@theorem("verification.block_exact", EXACT, PRINTED, tight=block_sides.HALVES, condition=block_sides.rounding)
def block_exact(targets, drafts):
    """the texts have the law p if the longest block that passes is kept, and (w_i p − q)⁺ follows it.

    First P(τ ≥ i | x_1..x_i) = w_i, from the last block to the first. For i = K it is h_K = w_K. For i < K, P(τ > i
    | x_1..x_i) = Σ q(v) min(1, w_i p(v)/q(v)) = Σ min(q, w_i p) = w_i - S_i =: b. Block i passes on its own with h_i
    = S_i/(1 - b), so P(τ ≥ i) = b + (1 - b) h_i = b + S_i = w_i, and P(τ = i | x_1..x_i) = S_i. Now let E be the
    probability that the text begins with x_1..x_i. Of E, Q w_i is with τ ≥ i and the rest has left the drafts. The
    rest goes on with p. The other part goes on with Q S_i (w_i p - q)⁺/S_i, if τ = i, and with Q min(q, w_i p), if τ
    > i: together Q w_i p. So the text goes on with E p. The message may be q̂ ≠ q if the drafts are drawn from q̂:
    then q is q̂ here, as for a quantised distribution.
    """
    xp, p, q = block_sides.tree_rows(targets, drafts)
    return eq(
        law_overlap(block_sides.law_side(xp, p, q, q), block_sides.text_laws(xp, p)[-1]),
        block_sides.one_side(targets, drafts),
    )


@theorem("verification.block_never_loses", LONGER, PRINTED, tight=block_sides.HALVES, condition=block_sides.rounding)
def block_never_loses(targets, drafts):
    """E[tokens] token by token ≤ E[tokens] by block, for all drafts.

    Token by token, P(τ ≥ i | x_1..x_i) = a_i = Π min(1, p/q). w_{i-1} ≤ 1 gives w_i ≥ w_{i-1} min(1, p/q), so w_i ≥
    a_i for all drafts. They are equal as long as no ratio above 1 follows one below 1.
    """
    xp, p, q = block_sides.tree_rows(targets, drafts)
    return le(
        block_sides.mean_tokens(xp, q, block_sides.block_weights(xp, p, q, alone=True)),
        block_sides.tokens_of_passes(targets, drafts),
    )


@theorem(
    "verification.block_token_skips",
    SKIPPING,
    IMPLIED,
    false={
        "targets": [[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]],
        "drafts": [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]],
        "skips": [[False, False], [False, False], [True, False]],
    },
)
def block_token_skips(targets, drafts, skips):
    """if the draft decides that it is kept, by w_i = w_{i−1}, TV(law, P) ≤ E[Σ s β], as token by token.

    False: see the counterexample. It keeps drafts with p > q alone, whose β is 0, by w_i = w_{i-1}. The rule would
    have raised the weight to w_{i-1} p/q, and S_{i-1} counts on it. Instead: skipping.risk_is_tv.
    """
    xp, p, q, skipped = block_sides.with_skips(targets, drafts, skips, 2)
    left = distance(xp, block_sides.law_side(xp, p, q, q, skipped), block_sides.text_laws(xp, p)[-1])
    reached = xp.concat(block_sides.text_laws(xp, q)[:-1], axis=-1)
    lost = xp.sum(xp.where(skipped, q * rejection_by_token(xp, p, q), 0.0), axis=-1)
    return le(left, xp.sum(reached * lost, axis=-1))


@theorem(
    "verification.block_token_residual",
    EXACT,
    IMPLIED,
    false={
        "targets": [[0.25, 0.25, 0.5], *[[0.5, 0.5, 0.0]] * 3],
        "drafts": [[0.5, 0.5, 0.0], *[[0.0, 0.25, 0.75]] * 3],
    },
)
def block_token_residual(targets, drafts):
    """the texts have the law p if the longest block that passes is kept, and (p − q)⁺ follows it.

    False: see the counterexample. After x_1..x_i the part w_i p has to be left, of which min(q, w_i p) is there; (p
    - q)⁺ leaves min(q, p). Instead: verification.block_exact.
    """
    xp, p, q = block_sides.tree_rows(targets, drafts)
    return eq(
        law_overlap(block_sides.law_side(xp, p, q, q, token_residual=True), block_sides.text_laws(xp, p)[-1]),
        block_sides.one_side(targets, drafts),
    )


@theorem("verification.acceptance", Source("leviathan2023fast", "Theorem 3.5"), PRINTED, tight=cu_hlm.HALVES)
def verification_acceptance(target, draft):
    """P(accept) = Σ_v q_v (1 − β_v) = Σ_v min(p_v, q_v).

    q_v (1 - β_v) = min(p_v, q_v), also where q_v = 0.
    """
    return eq(1.0 - mean_rejection(target, draft)[..., 0], acceptance_rate(target, draft))


@theorem("verification.overlap", Source("leviathan2023fast", "Lemma 3.3"), PRINTED, tight=cu_hlm.HALVES)
def overlap(target, draft):
    """Σ_v min(p_v, q_v) = 1 − TV(q, p).

    min(p, q) = q - (q - p)⁺. Σ (q - p)⁺ = TV, since Σ (q - p)⁺ and Σ (p - q)⁺ have difference 0 and sum 2 TV.
    """
    return eq(acceptance_rate(target, draft), 1.0 - total_variation(target, draft))


@theorem("verification.multi_draft_optimum", OPTIMUM, PRINTED, tight=ROWS)
def verification_multi_draft_optimum():
    """the best acceptance of n independent drafts, 1 + min_H (p(H) − q(H)ⁿ) over all sets, is attained at a set of the
    tokens with the largest q/p.

    A rule is a flow of 1 from the drafted sets A, with capacity P(A), to tokens v ∈ A, with capacity p_v: what flows
    is accepted, and the rest of A's mass goes to the rest of p. So the most that is accepted is a maximal flow, and
    that is the least cut. A cut has the tokens H and the sets A ⊆ H on the source's side, and costs p(H) + 1 - P(A ⊆
    H). For independent drafts P(A ⊆ H) = q(H)ⁿ. Let H be best, s = q(H), λ = n sⁿ⁻¹. xⁿ is convex, so each H′ has
    p(H′) - q(H′)ⁿ ≤ p(H′) - sⁿ - λ(q(H′) - s). H′ = {p < λ q} makes the right side least, so it is at most its value
    at H, p(H) - sⁿ. So H′ is best too, and it begins every order by descending q/p.
    """
    return eq(independent_cut, multi_draft_optimum)


@theorem(
    "vocabulary.lossless",
    Source(TIMOR, "abstract: the methods preserve the target distribution; for the token-level one"),
    PRINTED,
    assuming=(DRAFTS,),
    tight=HALF,
)
def lossless(target, draft, support):
    """the law is p for drafts from q on the common tokens A, renormalised: its overlap with p is 1.

    q_A is a distribution over the target's vocabulary, and drafts are drawn from it and verified with it. So the law
    is p as for every draft distribution (verification.unbiased). A token outside of A comes from the residual.
    """
    return eq(law_overlap(vocabulary_sides.law_side(target, draft, support), target), ones_side(target))
