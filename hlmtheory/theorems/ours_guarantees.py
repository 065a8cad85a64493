"""Our theorems on guarantees: the audit of a sampler, the bill of skips, the risk for the next prompt."""

from hlmtheory._array import arrays, in_kind
from hlmtheory._domains import DomainError
from hlmtheory._runs import HORIZON, NODES, along, ever, outcomes, pasts, settings
from hlmtheory._simplex import chains, distributions
from hlmtheory.claims import KNOWN, NEW, Assumption, Source, le, theorem
from hlmtheory.lossless.evidence import DOMAINS, distance_bound, law_wealth
from hlmtheory.sides import audit_sides, lossless_sides
from hlmtheory.sides.bill_sides import chain_noise, deviations, device_noise, distance_side, noise, parts_side
from hlmtheory.sides.skipping_sides import enough
from hlmtheory.skipping.audit import DOMAINS as AUDIT_DOMAINS
from hlmtheory.skipping.audit import audit_bound
from hlmtheory.skipping.bill import bill_bound, bill_bound_on_device, position_bill
from hlmtheory.skipping.calibration import held_out_risk
from hlmtheory.skipping.confident import above_side
from hlmtheory.skipping.rounds import round_text_distance, summed_bill
from hlmtheory.skipping.text_risk import text_risk
from hlmtheory.theorems import field

SURE = 15 / 16
WON = (1.0 + 0.9 / SURE * (1.0 - SURE)) ** HORIZON
"""Wealth after T events of probability 15/16 with the largest bet, which is lost if one fails to occur."""
RUN = {"expected_by_past": [SURE] * NODES, "error": (1.0 + 1e-8) / WON, "bet": 1.0}
RUN_RATIO = (SURE**HORIZON) * WON / (1.0 + 1e-8)
SMALL = 2.0**-10
SLIVER = {
    "target_chain": [[0.0, 0.5, 0.5], [1.0 - SMALL, SMALL, 0.0], [1.0, 0.0, 0.0]],
    "law_chain": [
        [0.0, 0.5 * (1.0 - SMALL), 0.5 * (1.0 + SMALL)],
        [1.0, 0.0, 0.0],
        [1.0 / (1.0 + SMALL), SMALL / (1.0 + SMALL), 0.0],
    ],
}
LEAVES = {"target_chain": [[1.0, 0.0], [0.0, 1.0]], "law_chain": [[0.875, 0.125], [0.0, 1.0]]}
"""At each step the sampler leaves the target's only text with probability 1/8, for good."""
AT_THE_RISK = {"risks": [0.25] * NODES, "audit_probability": 0.5, "risk": 0.25}
"""A run without a loss has probability (7/8)^4; with a bet of nearly 1 its wealth is nearly (8/7)^4."""
JUST = (7 / 8) ** 4 * (1.0 + 1e-8)
ONE_Q = {
    "target": [0.25, 0.5, 0.25],
    "draft": [0.75, 0.25, 0.0],
    "skip": [0.0, 0.0, 0.0],
    "decoded": [[0.75, 0.125, 0.125]],
}
"""Nothing is skipped: r = (0, 1/2, 1/2), r̂ = (0, 3/4, 1/4), and half of the drafts are rejected."""
PAPER = Source("oh2025cuhlm", "(10), (15)-(18), for a whole round")
BOTH = {
    "target": [0.0, 0.5, 0.5],
    "draft": [1.0, 0.0, 0.0],
    "skip": [0.5, 0.0, 0.0],
    "decoded": [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]],
}
"""r̂ is on token 2 alone. No p has a larger bill for this q, skip and Δ = 1/2."""
SAFE_SKIPPED = {
    "target": [0.5, 0.0, 0.25, 0.25],
    "draft": [0.5, 0.5, 0.0, 0.0],
    "skip": [1.0, 0.0, 0.0, 0.0],
    "decoded": [[0.5, 0.25, 0.0, 0.25]],
}
"""The safe draft is skipped, so that the other one, half of the drafts, carries the whole deviation 1/4."""
CHAIN = {
    "target_chain": [[0.0, 0.25, 0.25, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.25, 0.25, 0.5]],
    "draft_chain": [[0.0, 0.5, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.5]],
    "skip_chain": [[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5]],
    "decoded_chain": [
        [[0.0, 0.125, 0.25, 0.625]],
        [[0.0, 1.0, 0.0, 0.0]],
        [[0.0, 0.0, 1.0, 0.0]],
        [[0.0, 0.125, 0.25, 0.625]],
    ],
}
"""After token 3 the next token is drafted as at the start: the first two places are billed, the bonus is not."""
EVEN_LOSSES = {"losses": [[0.5]] * 64, "risk": 32.5 / 64, "bound": 1.0}
TEXTS = 8


@theorem(
    "lossless.level",
    Source(field.BETTING, "the capital process, for test functions chosen from earlier draws"),
    NEW,
    tight=RUN,
    ratio=RUN_RATIO,
    ceiling=1.0,
)
def level(expected_by_past, error, bet):
    """P(∃t: W_t ≥ 1/δ) ≤ δ if every draw has the target's law given the earlier ones.

    Under the target's law E[1 + λ'D | past] = 1, and 1 + λ'D ≥ 0.1 > 0. So every wealth is a martingale, and so is
    their mean with fixed weights. Ville.
    """
    xp, mean = pasts("expected_by_past", expected_by_past)
    _, delta, share = settings(DOMAINS, error=error, bet=bet)
    event, _, chance, expected = outcomes(xp, mean)
    wealth = law_wealth(event[:, None, :], expected[..., None, :], share[..., None, None])
    return le(ever(xp, chance, wealth >= -xp.log(delta)[..., None, None]), lossless_sides.given_error(error))


@theorem(
    "lossless.bound",
    Source(field.BETTING, "confidence sequences, for distances that vary"),
    NEW,
    tight={**RUN, "law_by_past": [SURE] * NODES},
    ratio=RUN_RATIO,
    ceiling=1.0,
)
def lossless_bound(expected_by_past, law_by_past, error, bet):
    """P(∃t: bound_t > the mean of TV(Q_1, P_1)..TV(Q_t, P_t)) ≤ δ; the laws may depend on the past.

    E[D | past] = (Q - P) f ≤ TV(Q, P). So E[1 + λ'D | past] ≤ 1 + λ' TV ≤ exp(λ TV), and Π (1 + λ'D) exp(-λ Σ TV) is
    a supermartingale for each f and λ; so is their mean, since Σ TV is the same in all. It falls as Σ TV grows, and
    it is 1/δ where Σ TV is the bound. So by Ville Σ TV is ever below the bound with probability at most δ.
    """
    xp, mean = pasts("expected_by_past", expected_by_past)
    _, law = pasts("law_by_past", law_by_past)
    _, delta, share = settings(DOMAINS, error=error, bet=bet)
    event, nodes, chance, own = outcomes(xp, law)
    expected = along(xp, mean, nodes)
    bound = distance_bound(event[:, None, :], expected[..., None, :], delta[..., None], share[..., None, None])
    draws = xp.arange(1, HORIZON + 1, dtype=xp.float64, device=law.device)
    apart = xp.cumulative_sum(xp.abs(own - expected), axis=-1) / draws
    return le(ever(xp, chance, bound > apart), lossless_sides.given_error(error))


@theorem(
    "lossless.conditional",
    Source(field.BETTING, "applied to a token given the sampler's own prefix"),
    NEW,
    tight={"target_chain": [[0.5, 0.5], [0.5, 0.5]], "law_chain": [[0.5, 0.5], [0.25, 0.75]]},
    ceiling=1.0,
)
def conditional():
    """E_{x~Q} TV(Q(·|x), P(·|x)) ≤ TV of the texts with that token + TV of the prefixes.

    Σ_x Q(x) TV(Q(.|x), P(.|x)) = ½ Σ |Q(x, v) - Q(x) P(v|x)| ≤ ½ Σ |Q(x, v) - P(x, v)| + ½ Σ |P(x) - Q(x)| P(v|x),
    with P(x, v) = P(x) P(v|x).
    """
    return le(lossless_sides.second_step, lossless_sides.pairs_apart(1.0, 1.0))


@theorem(
    "lossless.conditional_twice",
    Source(field.BETTING, "applied to a token given the sampler's own prefix"),
    NEW,
    tight=SLIVER,
    ratio=1.0 - SMALL / 2,
    ceiling=1.0,
    condition=lambda target_chain, law_chain: 1e3,
)
def conditional_twice():
    """E_{x~Q} TV(Q(·|x), P(·|x)) ≤ 2 TV of the texts with that token.

    TV of the first tokens is at most that of more tokens; insert this in conditional.
    """
    return le(lossless_sides.second_step, lossless_sides.pairs_apart(2.0, 0.0))


@theorem(
    "lossless.text", Source("leviathan2023fast", "Algorithm 1, for any sampler's text"), NEW, tight=LEAVES, ceiling=1.0
)
def text(target_chain, law_chain):
    """TV of texts ≤ Σ_t E_{x~Q} TV(Q(·|x), P(·|x)): prefixes of the sampler.

    |Q(x, v) - P(x, v)| ≤ Q(x) |Q(v|x) - P(v|x)| + |Q(x) - P(x)| P(v|x). Sum, halve, and use it for x again.
    """
    xp, p, q = chains(target_chain=target_chain, law_chain=law_chain)
    left = lossless_sides.apart_side(xp, p, q, HORIZON)
    xp, means = lossless_sides.step_means(target_chain, law_chain)
    return le(left, xp.sum(xp.stack(means), axis=0))


@theorem(
    "lossless.power",
    Source(field.BETTING, "the capital process, for an event of known probability"),
    NEW,
    assuming=(Assumption("a + TV < 1", lossless_sides.room_for_distance),),
    tight={"distance": 0.25, "event": 0.5, "error": (1.0 + 1e-8) / 1.5**4, "bet": 1.0},
    ceiling=1.0,
)
def power():
    """power promised for n draws ≤ P(∃t ≤ n: W_t ≥ 1/δ) if the event has the probability a + TV.

    From the needed number of successes on, the wealth of one test and one λ, over the K J of the mean, is 1/δ or
    more after n draws; the mean is at least that. Successes are binomial.
    """
    return le(lossless_sides.promised_side, lossless_sides.reached)


@theorem(
    "lossless.ceiling",
    Source("maurer2009empirical", "Theorem 4, for half of the draws given the other half"),
    NEW,
    tight={"law": 155 / 512, "event": 2.0**-20, "error": 0.75},
    ratio=(357 + 8 * 155) * 357**7 / 512**8 / 0.75,
    ceiling=1.0,
)
def ceiling():
    """P(distance_ceiling < TV(Q, P)) ≤ δ for independent draws of one law.

    Frequencies: one draw changes TV(Q̂, Q) by at most 1/n, and its mean is at most the sum of the standard
    deviations √(Q_v (1 - Q_v)/n_c)/2, by Cauchy and Schwarz at most √((M - 1)/n_c)/2: McDiarmid. Halves: with δ_v =
    Q_v - P_v, weights w that sum to 1 and ‖δ‖² = Σ δ²/w, TV ≤ ‖δ‖/2. Let h = (Q̂_A - P)/w. Given half A, the mean of
    h over half B has the mean δ·h + P·h: an empirical Bernstein bound. And δ·h is a mean over half A of δ/w, less
    P·δ/w, with the mean ‖δ‖²; since δ/w ≥ -P/w ≥ -2 and E (δ/w)² ≤ ‖δ‖² max Q/w, Bernstein's one-sided bound gives
    δ·h ≥ ‖δ‖² - a ‖δ‖ - c. Chernoff bounds every Q_v. Solve for ‖δ‖; three events share δ/2. Half B has the shares
    s'_c of the prompts, and all draws have s_c: Σ s_c TV_c ≤ max_c (s_c/s'_c) Σ s'_c TV_c. Likeliest: with the
    likeliest cell A of a prompt, TV ≤ (P(A) - Q(A))⁺ + 1 - P(A) ≤ 1 - Q(A) + 1 - P(A). Of n draws with several
    probabilities to be outside, whose mean is m, at most c are outside with a probability of at most P(Bin(n, m) ≤
    c), if c ≤ n m - 1 (Hoeffding, 1956). Which of the three share δ depends on P alone.
    """
    return le(lossless_sides.below_distance, lossless_sides.given_error)


@theorem(
    "lossless.grouped",
    Source("leviathan2023fast", "Theorem 1, for laws that are known on groups of outcomes"),
    NEW,
    tight={"target_law": [0.5, 0.5, 0.0], "sampler_law": [0.25, 0.0, 0.75], "groups": [0, 1, 1]},
    ceiling=1.0,
)
def grouped(target_law, sampler_law, groups):
    """TV of two laws ≤ TV of their groups + the target's probability of groups with several outcomes.

    TV(Q, P) = Σ_x (P(x) - Q(x))⁺. An outcome alone in its group gives what the group gives to the TV of the groups.
    The outcomes of any other group give at most its P. So the groups of one outcome sum to at most the TV of the
    groups, and the others to at most P of them together.
    """
    xp, p, q, member = lossless_sides.grouped_side(target_law, sampler_law, groups)
    left = 0.5 * xp.sum(xp.sum(xp.where(member, xp.abs(p - q)[..., None], 0.0), axis=-1), axis=-1)
    of_target, of_sampler = (xp.sum(xp.where(member, law[..., :, None], 0.0), axis=-2) for law in (p, q))
    several = xp.sum(xp.astype(member, xp.int64), axis=-2) > 1
    return le(
        left, 0.5 * xp.sum(xp.abs(of_target - of_sampler), axis=-1) + xp.sum(xp.where(several, of_target, 0.0), axis=-1)
    )


@theorem(
    "skipping.audit_mean",
    Source(field.BETTING, "the capital process, for means that vary"),
    NEW,
    tight={**AT_THE_RISK, "bet": field.NEARLY_ALL, "error": JUST},
    ceiling=1.0,
)
def audit_mean():
    """P(∃t: M_t ≥ 1/δ and the mean of μ_1..μ_t ≥ ε) ≤ δ for a fixed λ; the risks may depend on the past.

    1 + λ(ε - μ) ≤ exp(λ(ε - μ)). So M_t exp(λ Σ(μ_i - ε)) is a supermartingale for every fixed λ, and so is its mean
    over fixed λs. Where the mean of μ_1, ..., μ_t is at least ε, this supermartingale is at least M_t. Ville.
    """
    return le(audit_sides.false_by_fixed_bet, audit_sides.given_error)


@theorem(
    "skipping.audit_bound",
    Source(field.BETTING, "confidence sequences, for means that vary"),
    NEW,
    tight={
        "risks": [1.0] * NODES,
        "audit_probability": 2.0**-20,
        "bet": field.NEARLY_ALL,
        "error": 1.0 - 3.9999 * 2.0**-20,
    },
    ceiling=1.0,
)
def skipping_audit_bound(risks, audit_probability, error, bet):
    """P(∃t: the mean of μ_1..μ_t > its bound) ≤ δ; the risks may depend on the past.

    1 - λμ ≤ exp(-λμ). So exp(λ Σ μ_i) Π (1 - λX_i) is a supermartingale, and so is its mean over fixed λs. The
    supermartingale rises with Σ μ_i and equals 1/δ at the bound, so by Ville Σ μ_i exceeds the bound with
    probability at most δ.
    """
    xp, lost, _, probability, mu = audit_sides.runs(risks, audit_probability)
    _, pi, delta, share = settings(AUDIT_DOMAINS, audit_probability=audit_probability, error=error, bet=bet)
    bound = audit_bound(lost, pi[..., None], delta[..., None], share[..., None, None])
    tokens = xp.arange(1, HORIZON + 1, dtype=xp.float64, device=mu.device)
    return le(ever(xp, probability, xp.cumulative_sum(mu, axis=-1) / tokens > bound), audit_sides.given_error(error))


@theorem("skipping.bill", PAPER, NEW, tight=ONE_Q, ceiling=1.0, condition=noise)
def bill():
    """TV(law of the token, p) ≤ bill = Σ q s β + Σ_d q_d (1 − s_d) β_d TV(r, r̂⁽ᵈ⁾), for any q̂⁽ᵈ⁾.

    Replace every r̂⁽ᵈ⁾ by r in the law. By risk_is_tv the new law is at distance Σ q s β from p. The two laws are
    mixtures of the same parts, except that with weight w_d = q_d (1 - s_d) β_d one has r and the other r̂⁽ᵈ⁾. The
    triangle inequality gives the bound, for any r̂⁽ᵈ⁾, so also for the worst choice where it is 0/0.
    """
    return le(distance_side, position_bill)


@theorem(
    "skipping.bill_largest",
    PAPER,
    NEW,
    tight={"target": [0.0, 0.5, 0.5], "draft": [1.0, 0.0, 0.0], "skip": [0.5, 0.0, 0.0], "deviation": [0.5, 0.25, 0.0]},
    ceiling=1.0,
)
def bill_largest(target, draft, skip, deviation):
    """Σ q s β + Σ_d q_d (1 − s_d) β_d min(1, TV(q, q̂⁽ᵈ⁾)/T) ≤ Σ q s β + Λ min(1, max_d TV(q, q̂⁽ᵈ⁾)/T).

    Λ = Σ_d q_d (1 - s_d) β_d, and TV(q, q̂⁽ᵈ⁾) is at most the largest of the drafts d that may be sent.
    """
    left = bill_bound(target, draft, skip, deviation)
    xp, q, s, skipped, sent, tv = parts_side(target, draft, skip)
    delta = xp.max(xp.where(q * (1.0 - s) > 0, arrays(q=q, deviation=deviation)[2], 0.0), axis=-1)
    return le(left, skipped + xp.minimum(sent, sent / xp.where(tv > 0, tv, 1.0) * delta))


@theorem("skipping.bill_device", PAPER, NEW, tight=BOTH, ceiling=1.0, condition=device_noise)
def bill_device(target, draft, skip, decoded):
    """bill ≤ Σ q s + (1 − Σ q s) max_d TV(q, q̂⁽ᵈ⁾): the device knows it, whatever p.

    Let A = Σ q s, Δ be the largest TV(q, q̂⁽ᵈ⁾) of the drafts that may be sent, m = min(1, Δ/T), and x = Σ q s β ≤
    min(A, T). As x + Λ = T, the bill is at most x + (T - x) m. If T ≤ A this is at most T ≤ A. Otherwise it is at most
    A + (T - A) m. For T ≥ Δ, (T - A) m = Δ (1 - A/T) ≤ Δ (1 - A). For T < Δ, (T - A) m = T - A ≤ Δ - A ≤ Δ (1 - A).
    """
    return le(
        position_bill(target, draft, skip, decoded),
        bill_bound_on_device(draft, skip, deviations(target, draft, skip, decoded)),
    )


@theorem("skipping.bill_joint", PAPER, NEW, tight=SAFE_SKIPPED, ceiling=1.0, condition=device_noise)
def bill_joint(target, draft, skip, decoded):
    """TV(law of the token, p) ≤ Σ q s β + min(1 − Σ q s, max_d TV(q, q̂⁽ᵈ⁾)): a message costs its TV(q, q̂⁽ᵈ⁾) once at
    a position, however few of its drafts are sent.

    By bill, bill_deviation and bill_largest TV(law, p) is at most Σ q s β + Λ min(1, max TV(q, q̂⁽ᵈ⁾)/T). Λ is at most
    T, so that Λ/T is at most 1; and at most Σ q (1 - s), since no β exceeds 1.
    """
    left = distance_side(target, draft, skip, decoded)
    xp, q, s, skipped, _, _ = parts_side(target, draft, skip)
    delta = xp.max(xp.where(q * (1.0 - s) > 0, deviations(target, draft, skip, decoded), 0.0), axis=-1)
    return le(left, skipped + xp.minimum(xp.sum(q * (1.0 - s), axis=-1), delta))


@theorem("skipping.bill_text", PAPER, NEW, tight=CHAIN, ceiling=1.0, condition=chain_noise)
def bill_text():
    """TV(law of the text, target model's) ≤ Σ_t E[bill at t], prefixes and places in the round from the system; the
    bonus token costs 0.

    The system maps what it knows, the prefix and the place in its round, to a law S of the next token and to what it
    knows then. Let law j emit its first j tokens by the system and the rest by the target model. Laws j - 1 and j
    agree in the first j - 1 tokens, by the system, and the target model goes on from the prefix alone. They differ
    in the law of token j, by TV(S, p), which is at most the bill at a draft, and 0 at a bonus. Sum over j.
    """
    return le(round_text_distance, summed_bill)


@theorem(
    "skipping.calibrated",
    Source("angelopoulos2022crc", "Theorem 1"),
    KNOWN,
    assuming=(Assumption("n + 1 ≥ B/ε", enough),),
    tight=EVEN_LOSSES,
    ratio=64 / 65,
)
def calibrated(losses, risk, bound):
    """(1/(n+1)) Σ_i L_i(λ̂ of the other n) ≤ ε: for exchangeable prompts E[L_{n+1}(λ̂)] ≤ ε.

    Let λ* be the largest threshold with Σ_{i≤n+1} L_i(λ) ≤ (n + 1) ε. Without prompt i the rule requires Σ_{j≠i} L_j(λ)
    + B ≤ (n + 1) ε, which is stricter, as L_i ≤ B. So λ̂_i ≤ λ*, L_i(λ̂_i) ≤ L_i(λ*), and the mean over i is at most ε.
    If the prompts are exchangeable, each of the n + 1 is equally likely to be the last, for all n + 1 curves.
    """
    return le(held_out_risk(losses, risk, bound), arrays(risk=risk)[1])


@theorem(
    "skipping.confident",
    Source("bates2021rcps", "Theorem 1, with the wealth of fixed bets"),
    NEW,
    tight={"mass": [0.5, 0.5], "losses": [[0.0], [1.0]], "risk": 0.5, "error": 0.0626, "bet": 0.999999},
    ratio=0.0625 / 0.0626,
    ceiling=1.0,
)
def confident(mass, losses, risk, error, bet):
    """P(E[L(λ̂)] ≥ ε) ≤ δ over the calibration prompts.

    The losses do not fall as the threshold rises, so neither does their mean R(λ). Let λ* be the lowest threshold of
    the grid with R(λ*) ≥ ε. If R(λ̂) ≥ ε, then λ̂ ≥ λ*, and since the rule stops at the first threshold without
    evidence, the wealth at λ* is at least 1/δ. Each of its factors 1 + λ(ε - L_i) is positive, and has the mean 1 +
    λ(ε - R(λ*)) ≤ 1; the prompts are independent, so that the mean of the wealth is at most 1. By Markov it is 1/δ
    or more with probability δ at most. No union over thresholds is needed.
    """
    return le(above_side(mass, losses, risk, error, bet), arrays(error=error)[1])


@theorem(
    "skipping.text_risk",
    Source("hoeffding1963", "(2.1)"),
    KNOWN,
    tight={"mass": [0.5 - 2.0**-30, 0.0, 0.5 + 2.0**-30], "error": 2.0**-7},
    ratio=(1.0 - 2.0**-29) ** TEXTS,
    ceiling=1.0,
)
def skipping_text_risk(mass, error):
    """P(E[loss] is above the interval of n losses in [0, 1]) ≤ error/2, and so below it.

    A loss X in [0, 1] with mean μ has E[e^{λX}] ≤ 1 - μ + μ e^λ by convexity, as a coin of mean μ has. So Chernoff's
    bound for coins holds: P(mean ≤ x) ≤ e^{-n kl(x, μ)} for x ≤ μ. The upper end U(x) rises with x. If μ is above
    it, the mean is at most the largest x with U(x) < μ, where n kl(x, μ) > ln(2/error). The other end alike. It is
    attained by coins of which none loses: P(mean = 0) = (1 - μ)^n, and U(0) = 1 - (error/2)^{1/n}.
    """
    xp, _, m = distributions(mass=mass)
    _, delta = arrays(error=error)
    if m.shape[-1] != 3:
        raise DomainError(f"mass must have three entries, for the losses 0, 1/2 and 1; got shape {tuple(m.shape)}")
    sums = 2 * TEXTS + 1
    law = in_kind(xp, xp.broadcast_to(xp.arange(sums, device=m.device) == 0, (*m.shape[:-1], sums)), m.dtype)
    for _ in range(TEXTS):
        none = xp.zeros_like(law[..., :1])
        once = xp.concat([none, law[..., :-1]], axis=-1)
        twice = xp.concat([none, once[..., :-1]], axis=-1)
        law = m[..., :1] * law + m[..., 1:2] * once + m[..., 2:] * twice
    half = xp.arange(sums, device=m.device)[:, None] - 2 * xp.arange(TEXTS, device=m.device)
    losses = xp.clip(in_kind(xp, half, xp.float64) / 2.0, min=0.0, max=1.0)  # TEXTS losses for each sum
    found = text_risk(losses, delta[..., None])
    expected = (m[..., 1] / 2.0 + m[..., 2])[..., None]
    wrong = (found.high < expected, found.low > expected)
    above, below = (xp.sum(xp.where(end, law, 0.0), axis=-1) for end in wrong)
    return le(xp.maximum(above, below), arrays(error=error)[1] / 2.0)
