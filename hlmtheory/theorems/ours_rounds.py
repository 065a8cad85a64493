"""Our theorems on a round: verification, shared seeds, parts of the vocabulary."""

from hlmtheory._array import Array, arrays
from hlmtheory._domains import tree_levels
from hlmtheory._simplex import distance, distributions, excess, normalised
from hlmtheory.claims import IMPLIED, KNOWN, NEW, Assumption, Source, eq, le, theorem
from hlmtheory.shared_seed.match import match_probability, message_value, skip_mismatch
from hlmtheory.sides import block_sides, lossy_sides, update_sides
from hlmtheory.sides import shared_seed_sides as sides
from hlmtheory.sides.interval_sides import largest_miss, settings
from hlmtheory.sides.multi_draft_sides import counted, top_cut
from hlmtheory.sides.vocabulary_sides import mass_side, whole
from hlmtheory.theorems import cu_hlm, field
from hlmtheory.verification.misdeclared import bias, misdeclared_by
from hlmtheory.verification.multi_draft import checked_rows, multi_draft_optimum, top_draft_optimum
from hlmtheory.verification.rule import acceptance_rate, output_distribution, rejection_probability, total_variation
from hlmtheory.verification.tokens import expected_tokens_profile
from hlmtheory.verification.tree import checked, flat, one_side, sibling_acceptance, tree_distribution
from hlmtheory.vocabulary.intersection import common_acceptance

FIRST_LIST = cu_hlm.THIRDS | {"list_size": 1}
POINTS = {"target": [1.0, 0.0], "draft": [1.0, 0.0]}
LONG = {"acceptance": 0.75, "draft_time": 0.25, "round_trip": 0.5, "verify_time": 1.0}
SECOND = {"targets": [[0.25, 0.75], *[[0.75, 0.25]] * 2], "drafts": [[0.75, 0.25], *[[0.25, 0.75]] * 2]}
DRAFTS = 40
GRID = 10
LINE = Source("yin2024theory", "Theorem 5, for one token; its body was not at hand")
CASCADE = Source("narasimhan2025cascades", "speculative cascades; its body was not at hand")
ROUND = Source("sun2025block", "Theorem 2, with a lossy rule")
HALF = {"target": [0.5, 0.5], "draft": [1.0, 0.0], "actual_draft": [0.5, 0.5]}
POINT = {"target": [0.5, 0.5], "draft": [1.0, 0.0], "draft_count": 2}
SURE = Source("hu2025multidraft", "greedy drafts")
SOURCE = Source("jeon2024recursive", "recursive rejection sampling")
ONE = {"draft": [1.0, 0.0], "old": [1.0, 0.0], "new": [0.5, 0.5]}
PAPER = Source("li2025flexspec", "III-C, Table II")
BRANCH = {
    "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
    "old_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "new_chain": [[0.0, 0.75, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}
"""The versions differ at the first token only. After token 2 the draft is wrong for both."""
KL = Source("fedotov2003refinements", "the largest distance at a given divergence")
PAIR = {"old": [0.7944868122665105, 0.2055131877334895], "new": [0.3434823572503344, 0.6565176427496656]}
"""The pair of update_divergence at s = 2."""
PART = Source(field.TIMOR, "the token-level method, drafts on the common tokens")
VOCABULARY_SURE = {"target": [1.0, 0.0], "draft": [0.5, 0.5], "support": [True, False]}


@theorem(
    "shared_seed.skip",
    Source(field.DALIRI, "where the device keeps some of its tokens unseen"),
    NEW,
    tight=cu_hlm.SKIPPED,
    ceiling=1.0,
)
def shared_seed_skip():
    """TV(law, p) ≤ Σ_v s_v (q_v − t_v), t_v = P(a = b = v), if the device keeps its token v with s_v.

    The emitted token is a if the device keeps it and b otherwise, so it differs from b, a draw from p, only if a is
    kept and a ≠ b: with probability Σ_v s_v (q_v - t_v). Attained if only one token v is ever kept: then the law of
    v exceeds p_v by s_v q_v - s_v t_v.
    """
    return le(sides.skipped_distance, skip_mismatch)


@theorem("shared_seed.message_value", Source(field.DALIRI, "its two bounds"), NEW, tight=cu_hlm.THIRDS)
def shared_seed_message_value(target, draft):
    """1 − T − P(a = b) ≤ T(1 − T)/(1 + T): what a message about q can add for drafts from q.

    P(a = b) ≥ (1 - T)/(1 + T) by floor, and (1 - T) - (1 - T)/(1 + T) = T(1 - T)/(1 + T).
    """
    return le(sides.value_of_message(target, draft), message_value(sides.distance_of(target, draft)))


@theorem(
    "shared_seed.message_value_most",
    Source(field.DALIRI, "its two bounds"),
    NEW,
    tight={"total_variation": 2.0**0.5 - 1.0},
)
def message_value_most(total_variation):
    """T(1 − T)/(1 + T) ≤ 3 − 2√2 = 0.1716.

    The derivative (1 - 2T - T²)/(1 + T)² is 0 at T = √2 - 1, where the value is 3 - 2√2.
    """
    return le(message_value(total_variation), 0.0 * arrays(total_variation=total_variation)[1] + (3.0 - 2.0 * 2.0**0.5))


@theorem(
    "shared_seed.list",
    Source("rowan2025list", "for several races; here the L first of one race"),
    NEW,
    assuming=(Assumption("V ≤ 5", sides.few_tokens),),
    tight={"target": [0.5, 0.25, 0.25], "draft": [0.125, 0.5, 0.375], "list_size": 2},
)
def list_():
    """P(b among the L first of q's race) = Σ_v p_v ∫ e^{−τ} P(fewer than L are ahead of v) dτ.

    Given b = v and E_v = x, token w is ahead of v in the device's race if E_w < x q_w/q_v, while E_w ≥ x p_w/p_v is
    known: with probability 1 - exp(-x (q_w/q_v - p_w/p_v)⁺), independently. v is listed if fewer than L are ahead.
    """
    return eq(sides.list_of, sides.list_enumerated)


@theorem(
    "shared_seed.list_bound", Source("rowan2025list", "list matching lemma, for several races"), NEW, tight=FIRST_LIST
)
def list_bound():
    """P(b among the L first) ≥ Σ_v p_v (1 − (1 − t_v/p_v)^L), t_v = P(a = b = v).

    A Bernoulli number with P(0) = e^{-λ} is at most a Poisson number with mean λ, in law. So the number ahead is at
    most Poisson with mean x D, D = M_v - 1/p_v, and Σ_{j<L} ∫ e^{-x/p_v} e^{-xD} (xD)^j/j! dx = p_v (1 - (1 -
    t_v/p_v)^L).
    """
    return le(sides.list_bound, sides.list_of)


@theorem("shared_seed.apart", Source(field.DALIRI, "beside two independent draws"), NEW, tight=POINTS)
def apart():
    """Σ_v q_v p_v/(q_v + p_v − q_v p_v) ≤ P(a = b).

    t_v ≥ q_v p_v/(q_v + p_v - q_v p_v): M_v = Q/q_v + P/p_v, where Q ≤ 1, and P ≤ 1 - p_v since v is not in it. So
    q_v p_v M_v ≤ p_v + q_v (1 - p_v).
    """
    return le(sides.apart, match_probability)


@theorem(
    "shared_seed.order",
    Source(field.DALIRI, "beside two independent draws"),
    NEW,
    tight={"target": [1.0, 0.0], "draft": [0.5, 0.5]},
)
def order():
    """Σ_v q_v p_v ≤ P(a = b): a shared seed matches at least as often as two seeds.

    q_v + p_v - q_v p_v ≤ 1, so Σ q p ≤ P(a = b) by apart.
    """
    return le(sides.sampled_apart, match_probability)


@theorem(
    "shared_seed.streamed",
    Source(field.STREAMED, "drafting during verification; the rate for constant times"),
    NEW,
    assuming=(field.SIMULATED,),
    condition=lambda acceptance: 0.0 * acceptance + 64.0,
    tight=LONG,
)
def streamed():
    """seconds per token = (m t_d + R + V + W)/m, m = 1/(1 − α), W the exact wait for a pass, which a draft that arrives
    as it starts misses.

    Let J drafts be accepted before the one that fails, P(J = j) = (1 - α) α^j. It is made at (J + 1) t_d, arrives
    R/2 later, waits for the pass in progress, takes V, and its answer takes R/2. The first pass starts with draft 0.
    If t_d < V the server is never idle after it: each open interval of length V has an arrival. So pass i starts i V
    later, and draft j ≥ 1 is in pass ⌊j t_d/V⌋ + 1, as one that arrives when a pass starts misses it. The mean is
    Σ_i P(pass of J > i) = P(J ≥ 1) + Σ_{i≥1} P(J t_d ≥ i V) = α + Σ_{i≥1} α^⌈i V/t_d⌉. If t_d ≥ V no draft waits.
    Rounds are independent, so the long-run rate is E[J + 1]/E[time]. Where j t_d = i V, a draft that does not miss
    its pass gives the other side of a jump.
    """
    return eq(sides.streamed_seconds, sides.simulated_seconds)


@theorem(
    "shared_seed.streamed_fastest",
    Source(field.STREAMED, "drafting during verification"),
    NEW,
    assuming=(field.SIMULATED,),
    condition=lambda acceptance: 0.0 * acceptance + 64.0,
    tight=field.SHORT,
)
def streamed_fastest():
    """seconds per token ≥ (m t_d + R + V)/m.

    A wait is at least 0.
    """
    return le(sides.fastest_seconds, sides.simulated_seconds)


@theorem("verification.block_tokens", field.LONGER, NEW, tight=block_sides.HALVES, condition=block_sides.rounding)
def block_tokens(targets, drafts):
    """E[tokens] = 1 + Σ_{i≤K} E[w_i], the drafts drawn from q.

    By the first step of block_exact, P(τ ≥ i) = E[w_i], and a round has τ + 1 tokens.
    """
    left = block_sides.tokens_of_passes(targets, drafts)
    xp, p, q = block_sides.tree_rows(targets, drafts)
    return eq(left, block_sides.mean_tokens(xp, q, block_sides.block_weights(xp, p, q)))


@theorem("verification.block_text", field.LONGER, NEW, tight=SECOND)
def block_text(targets, drafts):
    """E[N] = 1 + Σ_{i=1..K} E_{x~P} min(1, Q_1/P_1, …, Q_i/P_i): known from the target's texts alone.

    Along a text x a kept block has the mass Q_i w_i = min(Q_i, Q_{i-1} w_{i-1} p(x_i)). So V_i = Q_i w_i/P_i is
    min(V_{i-1}, Q_i/P_i), V_0 = 1. By block_exact a text has the law P and, given that it begins with a kept block,
    goes on with p. So of a target's text x, the first i tokens are kept drafts with probability V_i(x).
    """
    left = block_sides.tokens_of_passes(targets, drafts)
    xp, p, q = block_sides.tree_rows(targets, drafts)
    own, drawn = block_sides.text_laws(xp, p), block_sides.text_laws(xp, q)
    least, total = xp.ones_like(own[0]), xp.ones_like(own[0][..., 0])
    for law, other in zip(own[1:], drawn[1:], strict=True):
        below = other < law
        ratio = xp.where(below, other / xp.where(below, law, 1.0), 1.0)
        least = xp.minimum(xp.repeat(least, p.shape[-1], axis=-1), ratio)
        total = total + xp.sum(law * least, axis=-1)
    return eq(left, total)


@theorem(
    "verification.interval_varying",
    Source("howard2021timeuniform", "the Bernoulli case, mixed over tilts and for means that vary"),
    NEW,
    tight={"error": 0.9617360411447361},
    ratio=0.8902593602945409,
    ceiling=1.0,
)
def interval_varying(error):
    """P(∃n: (α_1 + … + α_n)/n is outside its interval) ≤ δ for rates that may depend on the past.

    E[exp(ηA)] = 1 + α_i(exp(η) - 1) given the past. So exp(ηS) / Π (1 + α_i(exp(η) - 1)) is a martingale from 1.
    log(1 + α(exp(η) - 1)) is concave in α, so the product is at most (1 + m(exp(η) - 1))^n with m the mean. The mean
    over fixed η keeps this. Ville. For a value A in [0, 1], E[exp(ηA)] ≤ 1 + α_i(exp(η) - 1).
    """
    left = largest_miss(error, DRAFTS, "varying", GRID)
    _, delta = settings(error=error)
    return le(left, delta)


@theorem(
    "verification.lossy_frontier",
    LINE,
    KNOWN,
    tight=lossy_sides.HALVES | {"accept": [0.75, 1.0], "replacement": [0.0, 1.0]},
    ceiling=1.0,
)
def lossy_frontier():
    """A = Σ q a ≤ 1 − T + TV(law, p), T = TV(q, p): no acceptance rule and no residual gives more.

    e = Σ (law - p)⁺ ≥ Σ (q a - p)⁺ = A - Σ min(q a, p) ≥ A - Σ min(q, p) = A - (1 - T).
    """
    return le(lossy_sides.rate, lossy_sides.line)


@theorem(
    "verification.lossy_gap",
    LINE,
    NEW,
    tight={"target": [0.5, 0.5], "draft": [1.0, 0.0], "accept": [0.5, 1.0], "replacement": [0.5, 0.5]},
    condition=lossy_sides.rounding,
)
def lossy_gap(target, draft, accept, replacement):
    """1 − T + TV(law, p) − A = Σ (min(p, q) − q a)⁺ + Σ ((1 − A) r − (p − q a)⁺)⁺.

    The two steps above lose Σ min(q, p) - min(q a, p) = Σ (min(p, q) - q a)⁺, because q a ≤ q, and Σ (law - p)⁺ - (q
    a - p)⁺ = Σ (y - (p - q a)⁺)⁺: each term is y where q a ≥ p, else what y exceeds p - q a by.
    """
    left = lossy_sides.line(target, draft, accept, replacement) - lossy_sides.rate(target, draft, accept, replacement)
    xp, p, q, kept, resampled = lossy_sides.masses(target, draft, accept, replacement)
    return eq(left, xp.sum(excess(xp, xp.minimum(p, q), kept) + excess(xp, resampled, excess(xp, p, kept)), axis=-1))


@theorem(
    "verification.lossy_attained",
    LINE,
    NEW,
    tight=lossy_sides.HALVES | {"skip": [0.5, 0.0]},
    condition=lossy_sides.rounding,
)
def lossy_attained(target, draft, skip):
    """A = 1 − T + TV(law, p) for any a ≥ min(1, p/q) with the lossless residual: a = 1 − (1 − s) β.

    q a ≥ min(p, q) makes the first loss 0. Where p > q then a = 1, so the missing mass (p - q a)⁺ is (p - q)⁺ = T r,
    and y = (1 - A) r ≤ T r: the second loss is 0 as well.
    """
    xp, _, q = distributions(draft=draft)
    left = xp.sum(q * lossy_sides.skipping_accept(target, draft, skip), axis=-1)
    law = output_distribution(target, draft, skip=skip)
    return eq(left, 1.0 - total_variation(target, draft) + total_variation(law, target))


@theorem(
    "verification.lossy_cascade", CASCADE, NEW, tight=lossy_sides.HALVES | {"mix": 0.5}, condition=lossy_sides.rounding
)
def lossy_cascade(target, draft, mix):
    """1 − TV(q, π) = 1 − T + TV(π, p) for a cascade with the target π = (1 − δ) q + δ p.

    π = (1 - δ) q + δ p lies between q and p in every entry, so TV(q, π) + TV(π, p) = T.
    """
    return eq(
        acceptance_rate(lossy_sides.mixture(target, draft, mix), draft),
        lossy_sides.cascade_line(target, draft, lossy_sides.mixture(target, draft, mix)),
    )


@theorem(
    "verification.lossy_round",
    ROUND,
    NEW,
    tight={"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]], "skips": [[True, True]]},
)
def lossy_round(targets, drafts, skips):
    """E[N] ≤ 1 + Σ_i (1 − TV(Q_i, P_i) + TV(L_i, P_i)), laws of i drafts, target's and emitted tokens.

    Let K_i(x) be the probability that the first i drafts are x and are kept, L_i the law of the first i tokens. K_i
    ≤ min(Q_i, L_i), so P(at least i kept) = Σ K_i ≤ 1 - TV(Q_i, L_i) ≤ 1 - TV(Q_i, P_i) + TV(L_i, P_i). It holds for
    any rule, by block as well, and for any continuation after a rejection.
    """
    xp, p, q, accept = lossy_sides.rounds_side(targets, drafts, skips)
    reached, total = xp.ones_like(p[..., 0, :1]), xp.zeros_like(p[..., 0, 0])
    for depth, place in enumerate(tree_levels("targets", p)):
        kept = q[..., place, :] * accept[..., place, :]
        total = total + (depth + 1) * xp.sum(reached * (1.0 - xp.sum(kept, axis=-1)), axis=-1)
        reached = flat(xp, reached[..., None] * kept)
    left_side = total + (len(tree_levels("targets", p)) + 1) * xp.sum(reached, axis=-1)
    own, drafted = block_sides.text_laws(xp, p), block_sides.text_laws(xp, q)
    kept, left = xp.ones_like(p[..., 0, :1]), xp.zeros_like(p[..., 0, :1])
    total = xp.ones_like(p[..., 0, 0])
    for i, place in enumerate(tree_levels("targets", p), start=1):
        rows, each = p[..., place, :], q[..., place, :] * accept[..., place, :]
        residual, _ = normalised(xp, excess(xp, rows, q[..., place, :]))
        rejected = kept * xp.clip(1.0 - xp.sum(each, axis=-1), min=0.0)
        left = flat(xp, left[..., None] * rows + rejected[..., None] * residual)
        kept = flat(xp, kept[..., None] * each)
        total = total + 1.0 - distance(xp, drafted[i], own[i]) + distance(xp, kept + left, own[i])
    return le(left_side, total)


@theorem(
    "verification.lossy_early",
    ROUND,
    NEW,
    assuming=(Assumption("α_1 ≥ α_2 ≥ … ≥ α_K", lossy_sides.never_rises),),
    tight={"acceptances": [0.5, 0.5, 0.5], "relaxed": [1.0, 0.5, 0.0]},
)
def lossy_early(acceptances, relaxed):
    """E[N | α_i + e_i] ≤ E[N] of the split that spends the same Σ_i e_i P(i examined) on the first drafts.

    x_i is the probability that draft i is examined, y_i = e_i x_i ≤ (1 - α_i) x_i ≤ 1 - α_i its part of the cost C =
    Σ y_i. From x_{i+1} = α_i x_i + y_i, E[N] - 1 = Σ x_{i+1} is linear in y, and the weight of y_j is w_j = 1 +
    α_{j+1} w_{j+1}, w_K = 1, which never rises if α never does. y_1 + … + y_j ≤ min(C, Σ_{i≤j} (1 - α_i)). The early
    split attains all these at once, because a draft that is always kept leaves x at 1. So by Abel's summation no
    split with this cost gives more.
    """
    xp, alpha, spent = lossy_sides.split_side(acceptances, relaxed)
    left = expected_tokens_profile(alpha + spent)
    reached, cost = xp.ones_like(alpha[..., 0]), xp.zeros_like(alpha[..., 0])
    for i in range(alpha.shape[-1]):
        cost = cost + reached * spent[..., i]
        reached = reached * (alpha[..., i] + spent[..., i])
    tokens, reached = xp.ones_like(cost), xp.ones_like(cost)
    for i in range(alpha.shape[-1]):
        paid = xp.minimum(cost, reached * (1.0 - alpha[..., i]))
        reached, cost = reached * alpha[..., i] + paid, cost - paid
        tokens = tokens + reached
    return le(left, tokens)


@theorem(
    "verification.misdeclared",
    Source("leviathan2023fast", "Algorithm 1, with drafts from another distribution"),
    NEW,
    tight={"target": [0.5, 0.5], "draft": [0.5, 0.5], "actual_draft": [1.0, 0.0]},
    ceiling=1.0,
)
def misdeclared():
    """if drafts are drawn from q′ and the server gets q, then TV(law, p) ≤ TV(q′, q).

    A kernel never increases the total variation (data processing).
    """
    return le(bias, misdeclared_by)


@theorem(
    "verification.misdeclared_found",
    Source("leviathan2023fast", "Algorithm 1, with drafts from another distribution"),
    NEW,
    tight=HALF,
    ceiling=1.0,
    condition=lambda target, draft, actual_draft: 4.0,
)
def misdeclared_found(target, draft, actual_draft):
    """min_v min(1, p_v/q_v) · TV(q′, q) ≤ TV(law, p): if p_v > 0 for all v, only q′ = q gives the law p.

    Let a = min_v (1 - β_v). For every g with values in [0, 1] there is an f with K f = g whose values differ by at
    most 1/a: with m = E_r g, f = g where β_v = 0 (r lives there, so E_r f = m), and elsewhere f = m + (g - m)/(1 -
    β_v). So TV(q′, q) = max_g (q′ - q) g = max_g (law - p) f ≤ TV(law, p)/a.
    """
    xp, _, _, _ = distributions(target=target, draft=draft)
    least = xp.min(1.0 - rejection_probability(target, draft), axis=-1)
    return le(least * misdeclared_by(target, draft, actual_draft), bias(target, draft, actual_draft))


@theorem(
    "verification.multi_draft_tried",
    Source("miao2024specinfer", "multi-step speculative sampling"),
    NEW,
    tight=field.ROWS | {"draft_count": 1},
    ceiling=1.0,
)
def multi_draft_tried(target, draft, draft_count):
    """n independent drafts that are tried in turn are accepted at most with 1 + min_H (p(H) − q(H)ⁿ).

    Trying independent drafts in turn, each with the residual of those before as its target, is a rule
    (truncation.multi_draft with k = V), so the optimum is at least that.
    """
    xp, _, p, q, n = checked_rows(target, draft, draft_count)
    left = xp.ones_like(n)
    for number in counted(xp, n):
        left = xp.where(n > number, left * xp.sum(excess(xp, q, p), axis=-1), left)
        after, mass = normalised(xp, excess(xp, p, q))
        p = xp.where((mass > 0)[..., None], after, p)
    return le(1.0 - left, multi_draft_optimum(target, draft, draft_count))


@theorem("verification.multi_draft_covered", field.OPTIMUM, NEW, tight=POINT, ratio=1.0, ceiling=1.0)
def multi_draft_covered(target, draft, draft_count):
    """1 + min_H (p(H) − q(H)ⁿ) ≤ Σ_v min(p_v, 1 − (1 − q_v)ⁿ).

    P(Y = v and v drafted) ≤ min(p_v, P(v drafted)), and P(v drafted) = 1 - (1 - q_v)ⁿ.
    """
    left = multi_draft_optimum(target, draft, draft_count)
    xp, _, p, q, n = checked_rows(target, draft, draft_count)
    return le(left, 1.0 - xp.sum(excess(xp, p, 1.0 - (1.0 - q) ** n[..., None]), axis=-1))


@theorem("verification.top_drafts", SURE, NEW, tight=field.ROWS)
def top_drafts():
    r"""with the n − 1 most probable tokens G of q as sure drafts and one drawn from q′ = q without G, the best
    acceptance is p(G) + Σ_{v ∉ G} min(p_v, q′_v).

    A is G with one token d ∉ G, P(A ⊆ H) = q′(H \ G) if G ⊆ H, else 0. The cut of the empty H costs 1. With G ⊆ H
    the cost is 1 + p(G) + Σ_{v ∈ H\G} (p_v - q′_v), least at {p < q′}: 1 + p(G) - Σ_{v ∉ G} (q′_v - p_v)⁺ = p(G) +
    Σ_{v ∉ G} min(p_v, q′_v). This is at most 1. If q has no token outside of G, A = G, and it is p(G).
    """
    return eq(top_cut, top_draft_optimum)


@theorem(
    "verification.tree",
    SOURCE,
    NEW,
    tight={"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]], "draft_count": 2},
    condition=lambda targets, drafts, draft_count: 16.0,
)
def tree(targets, drafts, draft_count):
    """a tree's texts have the law p if its children are drawn from q without replacement and tried with (p_i, q_i).

    One node first. Condition on x_1 … x_{i-1}, all rejected. Let the law of the output from try i on be p_i; for i =
    m + 1 that is the rule. Try i emits v as its accepted child with probability min(q_i(v), p_i(v)), and rejects
    with probability Σ (q_i - p_i)⁺ = Σ (p_i - q_i)⁺. Whichever child was rejected, the law of the rest is p_{i+1} by
    the step i + 1, so it adds (p_i - q_i)⁺, and the sum is p_i. So by induction the law of try 1 is p. Only this is
    used of q_i: it may depend on x_1 … x_{i-1}, and x_i is drawn from it and tried. So a certain child (q_i a point
    mass) is allowed too, and so is a number of children that depends on those before. Now the tree: the children of
    an accepted child v are drawn and tried with distributions that depend on the path to v and on draws that are
    independent of what came before, so the next token has the law p after that path; a token that no child gave ends
    the round, and the later tokens are the target's. By the chain rule the law of the text is the target's.
    """
    law = tree_distribution(targets, drafts, draft_count)
    xp, _, p, _, _ = checked(draft_count, targets=targets, drafts=drafts)
    own = xp.ones_like(p[..., :1, :1])
    for place in tree_levels("targets", p):
        own = xp.reshape(own, (*own.shape[:-2], -1, 1)) * p[..., place, :]
    return eq(
        1.0 - 0.5 * xp.sum(xp.abs(law - xp.reshape(own, law.shape)), axis=-1), one_side(targets, drafts, draft_count)
    )


@theorem(
    "verification.tree_coverage",
    SOURCE,
    NEW,
    tight={"targets": [[0.25, 0.75]], "drafts": [[0.5, 0.5]], "draft_count": 1},
    condition=lambda targets, drafts, draft_count: 16.0,
    ceiling=1.0,
)
def tree_coverage(targets, drafts, draft_count):
    """P(a child is accepted) ≤ Σ_v min(p_v, π_v), π_v = P(v is among the children), for any exact rule.

    The output Y has the law p by tree. If a child is accepted, Y is that child: Y is among the children. So
    P(accepted) ≤ Σ_v P(Y = v, v among the children) ≤ Σ_v min(p_v, π_v). No other exact rule accepts more either.
    """
    xp, _, p, q, m = checked(draft_count, targets=targets, drafts=drafts)
    left_side = xp.mean(sibling_acceptance(p, q, m[..., 0]), axis=-1)
    size, included = p.shape[-1], xp.zeros_like(p)
    tokens = xp.arange(size, device=p.device)

    def draw(number: int, weight: Array, left: Array) -> None:
        nonlocal included
        draft, _ = normalised(xp, left)
        chosen = xp.where(m >= number, weight * draft, 0.0)
        included = included + chosen
        if number < min(int(xp.max(m)), size):
            for token in range(size):
                draw(number + 1, chosen[..., token : token + 1], xp.where(tokens == token, 0.0, left))

    draw(1, xp.ones_like(p[..., :1]), q)
    return le(left_side, xp.mean(xp.sum(xp.minimum(p, included), axis=-1), axis=-1))


@theorem("verification.update_floor", PAPER, NEW, tight=ONE, ceiling=1.0)
def update_floor(draft, new, old):
    """1 − α(v) ≤ 1 − α(0) + TV(p_0, p_v) on every prefix, whatever the draft.

    α(v) = 1 - TV(q, p_v), and TV(q, p_v) differs from TV(q, p_0) by at most TV(p_0, p_v).
    """
    return le(1.0 - update_sides.rate(draft, new), 1.0 - update_sides.after_side(draft, old, new).lower)


@theorem(
    "verification.update_ceiling",
    PAPER,
    NEW,
    tight={"draft": [1.0, 0.0], "old": [0.5, 0.5], "new": [0.75, 0.25]},
    ceiling=1.0,
)
def update_ceiling(draft, new, old):
    """α(v) ≤ α(0) + TV(p_0, p_v) on every prefix, whatever the draft.

    Proved with verification.update_floor.
    """
    return le(update_sides.rate(draft, new), update_sides.after_side(draft, old, new).upper)


@theorem("verification.update_own_texts_mean", PAPER, IMPLIED, false=BRANCH, ceiling=float(update_sides.HORIZON))
def update_own_texts_mean(draft_chain, new_chain, old_chain):
    """Σ_t E_v[1 − α(v)] ≤ Σ_t E_0[1 − α(0)] + Σ_t E_0 TV_t, each version on its own texts of T tokens.

    False: see the counterexample. One token that differs leads to texts whose every later token is rejected,
    although the versions agree on each of their prefixes. Instead: verification.update_floor.
    """
    return le(
        update_sides.HORIZON - update_sides.own_texts(draft_chain, new_chain),
        update_sides.HORIZON - update_sides.own_texts_same(draft_chain, old_chain, new_chain),
    )


@theorem("verification.update_divergence", KL, NEW, tight=PAIR, ceiling=1.0)
def update_divergence(old, new):
    """TV(p_0, p_v) ≤ max {TV(P, Q): KL(P ‖ Q) ≤ KL(p_0 ‖ p_v)}, attained on two tokens.

    For A = {p_0 > p_v}: TV = P_0(A) - P_v(A), and KL is at least the divergence kl of these two probabilities a and
    b. kl is convex in (a, b), so a pair is the one with the largest a - b under kl(a, b) ≤ KL if logit a - logit b =
    (a - b)/(b(1 - b)) = s > 0 (Karush-Kuhn-Tucker). The pair b = 1/s - 1/(e^s - 1), a = b + s b(1 - b) satisfies
    this: a's odds are e^s times b's. Its kl is s a - log((e^s - 1)/s). It attains the bound.
    """
    xp, _, p, r = distributions(old=old, new=new)
    return le(distance(xp, p, r), update_sides.largest_side(update_sides.divergence_side(old, new)))


@theorem("vocabulary.target_mass", PART, NEW, tight=field.HALF, ceiling=1.0)
def target_mass(target, draft, support):
    """P(accept) ≤ p(A), the target's mass on the common tokens.

    min(p, q_A) ≤ p on A, and q_A is 0 elsewhere.
    """
    return le(common_acceptance(target, draft, support), mass_side(target, support))


@theorem("vocabulary.renormalised_gain", PART, NEW, tight=VOCABULARY_SURE, ceiling=1.0)
def renormalised_gain(target, draft, support):
    """q(A) P(accept) ≤ Σ_A min(p, q): renormalising multiplies it by at most 1/q(A).

    min(p, q/m) ≤ min(p, q)/m for m = q(A) ≤ 1.
    """
    left = mass_side(draft, support) * common_acceptance(target, draft, support)
    xp, _, p, q = distributions(target=target, draft=draft)
    return le(left, xp.sum(xp.where(support, xp.minimum(p, q), 0.0), axis=-1))


@theorem(
    "vocabulary.change",
    Source("zheng2025tslt", "abstract: the acceptance rate is preserved; by how much it changes"),
    NEW,
    assuming=(field.DRAFTS,),
    tight=VOCABULARY_SURE,
    ceiling=1.0,
    condition=lambda target, draft, support: 4.0,
)
def change(target, draft, support):
    """|Σ_A min(p, q_A) − Σ_v min(p, q)| ≤ 1 − q(A), the mass that is cut off.

    α is 1-Lipschitz in TV of the draft's distribution (verification.overlap), and TV(q, q_A) = 1 - q(A).
    """
    return le(abs(common_acceptance(target, draft, support) - whole(target, draft)), 1.0 - mass_side(draft, support))
