"""Our theorems on plans: users, servers, batches, links and draft lengths."""

import math
from functools import partial

import numpy as np

from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError, numbers
from hlmtheory._quantities import checked as policy_checked
from hlmtheory.batching import search
from hlmtheory.channel.fading import Rician, distribution_by_quadrature
from hlmtheory.channel.leak import rounds_leak
from hlmtheory.channel.split import by_mean, downlink_bits, noise, received_bias, received_error, rows_side
from hlmtheory.claims import KNOWN, NEW, SOFTWARE, Assumption, Source, eq, le, theorem
from hlmtheory.draft_length.delay import rates_side, threshold_rate
from hlmtheory.draft_length.rates import COST
from hlmtheory.serving.pipeline import recurrence, stage_pair
from hlmtheory.shared_seed import streamed_rate
from hlmtheory.sides import (
    censored_sides,
    colocated_sides,
    fading_sides,
    goodput_sides,
    leak_sides,
    online_sides,
    user_sides,
)
from hlmtheory.sides.host import Values, host_side
from hlmtheory.sides.served_sides import bound, competing_rates, longest, on_the_band, response
from hlmtheory.theorems import field
from hlmtheory.theorems.field import CHANNEL_side, DRAFT_LENGTH_side, POLICY_side, SERVING_side, SERVING_test, side
from hlmtheory.verification import expected_tokens

TEXT = ("length_law", "target_chain")
FOUR = {"sizes": [10.0, 12.0, 40.0, 90.0], "weights": [5.0, 5.0, 5.0, 1.0], "classes": 2}
MESSAGES = ("sizes", "weights", "classes")
ANSWER = ("target", "draft", "received")
MOVED = {"target": [0.5, 0.25, 0.25], "draft": [0.75, 0.25, 0.0], "received": [0.5, 0.5, 0.0]}
ROW = Source("ning2025dssd", "abstract: the single downlink transmission, if that distribution is truncated")
CUT = {"length_law": [0.0, 0.5, 0.5], "acceptances": [0.5, 0.5], "depth": 2}
LENGTHS = ("length_law", "acceptances", "depth")
SEEN = "some rounds examine depth d"
ONE_OR_THREE = [0.0, 0.5, 0.0, 0.5]
TWO = ("draft_length", "other_length")
FALLS_BY_ONE = Assumption(
    "one token later at most one draft fewer is accepted", field.test(censored_sides.goes_on, "accepted", *TWO)
)
ERRORS = ("acceptances", "errors")
CASE = {"acceptances": [0.8] * 6, "fixed": 0.1, "marginal": 0.02}
DELAY_side = partial(host_side, {"acceptances": UNIT_INTERVAL, "fixed": COST, "marginal": COST}, {"acceptances": 1})
DRAFT_LENGTH_CASE = {
    "acceptances": [0.0],
    "verify_s": 1.0,
    "draft_s": 1.0 - 2.0**-20,
    "rise": 1.0,
    "expected": 0.5,
    "error": 0.5,
}
HELD = Assumption(
    "all intervals hold", online_sides.side(lambda values: online_sides.played(True, values)[2], test=True)
)
DRAFT_LENGTH_TWO = {"luck": [[0.5], [0.5]], "waits": [0.5, 0.5]}
QUEUE = (*field.OWN, "draft_length", "away_s", "users")
LOADS = (*field.OWN, "acceptances", "batch")
ALONE: Values = {
    "tokens": [[2.0]],
    "fixed_s": [[0.5]],
    "plan_bits": [[0.5]],
    "plan_load": [[1.0]],
    "weights": [1.0],
    "parts": [1.0],
    "choice": [0],
    "use": [1.0],
    "band_price": 0.125,
    "server_price": 0.5,
}
"""The whole band gives 2 tokens a second, and they fill the server."""
TABLE = ("tokens", "fixed_s", "plan_bits", "plan_load")
BAND = (*TABLE[:3], "weights")
SERVED_CLAIMS_RANK = {
    **dict.fromkeys(("tokens", "fixed_s", "plan_bits", "plan_load", "away_s"), 2),
    **dict.fromkeys(("weights", "parts", "choice", "use", "draft_lengths"), 1),
}
SERVED_CLAIMS_side = partial(host_side, user_sides.DOMAINS, SERVED_CLAIMS_RANK)
PRICED = (*TABLE, "weights", "band_price", "server_price")
SHARED = (*TABLE, "parts", "choice", "use")
POLICY_SOURCE = Source("zhu2025edgesd", "(26), with a server that all users share")
POLICY_QUEUE = ("away_s", "draft_lengths", "pass_s", "token_s", "batch")
QUEUE_SOURCE = Source("denning1978operational", "bounds on closed networks, with batches")
WAIT = {"away_s": [[0.0], [0.0]], "draft_lengths": [1, 1], "pass_s": 0.5, "token_s": 0.0, "batch": 1}
BY_PLACE = {
    "bits": [[1024.0, 8192.0]],
    "risk": [[0.0625, 0.0]],
    "rejection": [0.5],
    "acceptances": [0.5, 0.5, 0.5],
    "draft_s": 2.0**-10,
    "verify_s": 2.0**-4,
    "seconds_per_bit": 2.0**-20,
    "limit": 0.015625 / 1.875,
}
"""The best plan spends the whole limit on the third place, which a quarter of the rounds reach."""
USER = ("bits", "risk", "rejection", "acceptances", "draft_s", "verify_s", "seconds_per_bit")
OTHER = (*USER, "draft_length", "skips", "first", "later", "mix")
KEEPS = Assumption(
    "the competing plan keeps the limit",
    user_sides.side_side(
        lambda values: user_sides.competitor_side(values)[1] <= values["limit"], *OTHER, "limit", test=True
    ),
)
ONE_ROW = {
    "bits": [[64.0]],
    "risk": [[0.25]],
    "rejection": [0.5],
    "acceptances": [0.5, 0.5],
    "draft_s": 0.25,
    "verify_s": 0.5,
    "seconds_per_bit": 0.0078125,
}
LAW = ("target_rows", "draft_rows", "kind", "draft_length", "draft_s", "verify_s", "seconds_per_bit", "limit")
ONE_POSITION = {
    "target_rows": [[0.75, 0.25]],
    "draft_rows": [[0.375, 0.625]],
    "kind": 2,
    "draft_length": 1,
    "draft_s": 2.0**-6,
    "verify_s": 2.0**-3,
    "seconds_per_bit": 2.0**-13,
    "limit": 0.125,
}
"""Some rounds are a skipped draft; the others skip token 0 and send two drafts, by lattices. All charges are tight."""
POLICY_law_side = partial(host_side, user_sides.DOMAINS, {"target_rows": 2, "draft_rows": 2})
EQUAL = field.CASE | {"target_pass": [1.0, 0.5, 0.0], "draft_pass": [0.0, 0.0, 0.0], "draft_length": 1}
"""E = 1.5, F = S = 1: ten sequences at the load 1.25 if requests arrive at random, five if they arrive evenly."""


@theorem(
    "batching.order",
    Source("johnson1954", "Rule, at each step; edge-sd (20)-(22)"),
    KNOWN,
    tight={"draft_times": [[4.0, 2.0]], "verify_times": [[1.0, 4.0]], "order": [1, 0]},
)
def batching_order(draft_times, verify_times, order):
    """T_inf with Johnson's rule at every step ≤ T_inf with any fixed order.

    At each step, Johnson's rule gives the smallest makespan of two machines among all orders. So the sum of these
    minima is at most the sum for any choice of orders, the same at all steps or not.
    """
    left = search.johnson_latency(*stage_pair("draft_times", draft_times, "verify_times", verify_times)).sum(axis=-1)
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    place = numbers(COUNT, "order", order)
    if not (np.sort(place, axis=-1) == np.arange(d.shape[-1])).all():
        raise DomainError(f"order must name every batch once; got {place.tolist()}; give a permutation of 0..M - 1")
    place = np.broadcast_to(place[..., None, :], d.shape)
    return le(left, recurrence(*(np.take_along_axis(times, place, axis=-1) for times in (d, v))).sum(axis=-1))


@theorem(
    "channel.rician_outage",
    Source("alouini1999capacity", "extends the outage probability to a line of sight"),
    NEW,
    tight={"mean_snr": 10.0, "k_factor": 10.0, "snr": 3.0},
    condition=lambda k_factor: 1.0 + k_factor,
)
def rician_outage(mean_snr, k_factor, snr):
    """P(S ≤ s) = Σ_j Poisson(j; κ) P(Gamma(j + 1) ≤ (1 + κ)s/m), the non-central χ².

    The mixture of Gamma laws has the Bessel density.
    """
    return eq(Rician(mean_snr, k_factor).distribution(snr), distribution_by_quadrature(Rician(mean_snr, k_factor), snr))


@theorem(
    "channel.leak_text",
    field.DEFENCE,
    NEW,
    tight={"length_law": [0.25, 0.25, 0.5], "target_chain": [[0.5, 0.5], [0.5, 0.5]]},
)
def leak_text():
    """H(T) ≤ H(R) + E[R] log₂ m, for R messages of m sizes.

    H(T) = H(R) + H(T | R) since T has its length, and each of R messages has one of m sizes, so H(T | R) ≤ E[R] log
    m. Equal where sizes are uniform and independent.
    """
    return le(side(leak_sides.text_entropy, *TEXT), side(leak_sides.text_bound, *TEXT))


@theorem("channel.leak_rounds", field.DEFENCE, NEW, tight=field.COINS)
def leak_rounds():
    """H(R) ≤ log₂(N − ⌈N/(K + 1)⌉ + 1), the rounds of N tokens, whatever drafts match.

    H(R) ≤ log |range of R|. A round gives 1 to K + 1 tokens, so ⌈N/(K + 1)⌉ ≤ R ≤ N. Equal at N = 2, K = 1 and a
    draft that matches half of the time.
    """
    return le(
        side(leak_sides.rounds_entropy, *field.ROUND),
        side(lambda values: float(rounds_leak(len(values["kept"]), values["draft_length"])), *field.ROUND),
    )


@theorem(
    "channel.leak_classes",
    field.DEFENCE,
    NEW,
    condition=side(leak_sides.roundings, *MESSAGES),
    assuming=(
        Assumption(
            "the competitor has at most m sizes, the largest among them",
            side(leak_sides.competes, *MESSAGES, "tops", test=True),
        ),
    ),
    tight={**FOUR, "tops": [False, True, False, True]},
)
def leak_classes():
    """the least mean of m classes ≤ Σ w s̄/Σ w of any m classes that hold every message.

    In any padding the messages of one class are padded to it, so with the tops given a message is best padded to the
    smallest top at or above it. Then classes are intervals of sizes, and a top between two sizes may be lowered to
    the size below. The best last class begins somewhere, and what is before it is a smaller problem: the recursion
    tries all places.
    """
    return le(side(leak_sides.best_mean, *MESSAGES), side(leak_sides.competing_mean, *MESSAGES, "tops"))


@theorem("channel.downlink", field.SPLIT, NEW, tight={"acceptances": [0.5, 0.5]})
def downlink(acceptances):
    """E[distributions down in a round] = 1 − α_1 ⋯ α_K, α_i = P(accept i | 1..i−1 accepted).

    A row goes down if and only if a draft is rejected, and the first rejected one is draft i with probability α_1 …
    α_{i-1} (1 - α_i). These sum to 1 - α_1 … α_K.
    """
    return eq(CHANNEL_side(rows_side, "acceptances")(acceptances=acceptances), downlink_bits(acceptances, 1.0))


@theorem("channel.downlink_floor", field.SPLIT, NEW, tight={"acceptances": [0.5, 0.5]}, ceiling=1.0)
def downlink_floor():
    """1 − ᾱ^K ≤ E[distributions down in a round], ᾱ the mean of α_i, in rounds with one profile.

    The geometric mean is at most the arithmetic one.
    """
    return le(CHANNEL_side(by_mean, "acceptances"), CHANNEL_side(rows_side, "acceptances"))


@theorem("channel.downlink_truncated", ROW, NEW, tight=MOVED, condition=CHANNEL_side(noise, *ANSWER), ceiling=1.0)
def downlink_truncated():
    """TV(law, p) ≤ TV(p, p̂) if p̂ is sent down and the device draws from (p̂ − q)⁺.

    Let a = (p - q)⁺ and c = (p̂ - q)⁺ with sums T and T̂. law - p = T (c/T̂ - a/T), and the law is min(p, q) + T c/T̂. If T̂
    ≥ T: TV = T Σ (c/T̂ - a/T)⁺ ≤ Σ (c - a)⁺. If T̂ < T: TV = T Σ (a/T - c/T̂)⁺ ≤ Σ (a - c)⁺. Both are at most TV(p, p̂),
    since x ↦ (x - q)⁺ moves no two numbers apart. For T̂ = 0 any token may be drawn: TV ≤ T = TV(q, p) = TV(p, p̂).
    """
    return le(CHANNEL_side(received_bias, *ANSWER), CHANNEL_side(received_error, "target", "received"))


@theorem(
    "draft_length.censored",
    Source(field.KM, "the product-limit estimate, for draft lengths"),
    KNOWN,
    assuming=(Assumption(SEEN, field.test(censored_sides.is_examined, *LENGTHS)),),
    tight=CUT,
)
def censored():
    """Σ_{k≥d} Σ_{i≥d} E n / Σ_{k≥d} Σ_{i≥d−1} E n = α_d if k is independent of what would be accepted.

    i ≥ d iff k ≥ d and L ≥ d, so Σ_{k≥d} Σ_{i≥d} E n = P(k ≥ d, L ≥ d) = G(d) S(d) for independent k and L. In the
    same way the rounds with k ≥ d and i ≥ d - 1 are G(d) S(d - 1). The quotient is α_d.
    """
    return eq(
        DRAFT_LENGTH_side(
            lambda values: censored_sides.estimate_side(
                censored_sides.expected_counts(*censored_sides.law_side(values)), values["depth"]
            ),
            *LENGTHS,
        ),
        DRAFT_LENGTH_side(censored_sides.true_acceptance, *LENGTHS),
    )


@theorem(
    "draft_length.position_floor",
    Source(field.KM, "accepted drafts by position and the mean draft length"),
    NEW,
    assuming=(Assumption(SEEN, field.test(censored_sides.is_examined, *LENGTHS)),),
    tight={"length_law": ONE_OR_THREE, "acceptances": [0.5, 1.0, 0.25], "depth": 3},
    ceiling=1.0,
)
def position_floor():
    """P(i ≥ d)/P(i ≥ d−1) over the largest P(k ≥ d | k ≥ d−1) that the rates and E k allow ≤ α_d.

    α_d = h_d/g_d with h_d = H(d)/H(d - 1). α_e ≤ 1 gives g_e in [h_e, 1], and κ = Σ_d Π_{e≤d} g_e rises in every
    g_e. For a given g_d κ is at most (d - 1) + g_d (K - d + 1), with all others 1, and at least its value with all
    others h_e (g_1 = 1). So g_d is at least the root of the first and at most the root of the second. In between κ
    takes every value, since it is continuous in the other g_e: both ends are attained.
    """
    return le(
        DRAFT_LENGTH_side(censored_sides.position_low, *LENGTHS),
        DRAFT_LENGTH_side(censored_sides.true_acceptance, *LENGTHS),
    )


@theorem(
    "draft_length.mean_floor",
    Source("leviathan2023fast", "(1), for a profile of which only the mean accepted drafts m are known"),
    NEW,
    tight={"acceptances": [0.25, 1.0, 1.0], "draft_length": 3, "other_length": 1},
)
def mean_floor():
    """1 + m min(1, K/k) ≤ E(K), m the mean of the accepted drafts in rounds of k.

    S falls in d and has the sum m over d ≤ k. So over the first K ≤ k its mean is at least m/k, with equality for a
    constant S. Its sum is at most min(m, K), with equality if S is 1 for as long as possible. For K > k the further
    S(d) lie between 0 and S(k) ≤ m/k.
    """
    return le(
        DRAFT_LENGTH_side(censored_sides.mean_low, "acceptances", *TWO),
        DRAFT_LENGTH_side(censored_sides.tokens_at_other, "acceptances", *TWO),
    )


@theorem(
    "draft_length.split",
    Source("leviathan2023fast", "rounds of another length over the same text"),
    NEW,
    assuming=(FALLS_BY_ONE,),
    tight={"accepted": [3, 2, 1, 0, 0], "draft_length": 4, "other_length": 1},
)
def split():
    """rounds of K′ drafts ≤ Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, i of them accepted.

    Rounds of K cut the text into segments of i + 1 tokens, with L ≥ i at the first. Where a round of K′ begins j
    tokens into a segment, L ≥ i - j by the assumption. So it emits at least min(i + 1 - j, K′ + 1) tokens: it ends
    beyond the segment or advances by K′ + 1. So at most ⌈(i + 1)/(K′ + 1)⌉ rounds begin in the segment.
    """
    return le(
        DRAFT_LENGTH_side(
            lambda values: float(len(censored_sides.rounds_side(values, "other_length"))), "accepted", *TWO
        ),
        DRAFT_LENGTH_side(censored_sides.split_rounds, "accepted", *TWO),
    )


@theorem(
    "draft_length.adaptive_depths",
    Source("robbins1970statistical", "the mixture of likelihood ratios, at each depth"),
    NEW,
    tight={"acceptances": [0.4561], "errors": [2 * 0.4561 * (1.0 + 1e-9)]},
    ratio=0.8826616276651047,
    ceiling=1.0,
)
def adaptive_depths():
    """P(∃t, d: P(Binomial(r_d, α_d) = a_d) ≤ δ_d/(r_d + 1)) ≤ Σ_d δ_d for any k_t chosen by past rounds.

    Take the rounds that examine depth d, one after the other. Whether a round examines d is decided by the past, by
    its k and by its drafts before d. Given all that, its outcome at d is Bernoulli(α_d). So for each θ, θ^a (1 -
    θ)^(r - a) / (α_d^a (1 - α_d)^(r - a)) with r = r_d and a = a_d is a nonnegative martingale from 1 over these
    rounds. So is its mean over θ in [0, 1], which is 1/((r + 1) P(Binomial(r, α_d) = a)). By Ville it ever reaches
    1/δ_d with probability at most δ_d, however many rounds examine d. Sum over d.
    """
    return le(
        DRAFT_LENGTH_side(censored_sides.engine_miss, *ERRORS),
        DRAFT_LENGTH_side(lambda values: float(values["errors"].sum()), *ERRORS),
    )


@theorem(
    "draft_length.delay_threshold", Source(field.PAPER, "abstract: a finite delay-monotone threshold"), NEW, tight=CASE
)
def delay_threshold():
    """the best length is the number of K = 0, 1, … with c_K < (F + delay)/M, where c_K = E(K)/S(K + 1) − K.

    K + 1 is better than K iff S(K + 1) T(K) > M E(K), that is x > c_K. S falls and E rises, so c_{K+1} - c_K = E(K +
    1)/S(K + 2) - E(K)/S(K + 1) - 1 ≥ (E(K) + S(K + 1))/S(K + 1) - E(K)/S(K + 1) - 1 = 0. So all K below the number
    of the c_K < x are worse than the next one, and no other is. A delay adds to F.
    """
    return eq(DELAY_side(lambda values: max(rates_side(values)), *CASE), DELAY_side(threshold_rate, *CASE))


@theorem(
    "draft_length.online_regret",
    field.DRAFT_LENGTH_PAPER,
    NEW,
    assuming=(HELD,),
    tight=DRAFT_LENGTH_CASE | DRAFT_LENGTH_TWO,
    ratio=1.0 - 2.0**-20,
)
def online_regret():
    """Σ_t (X* T(K_t) − E(K_t)) ≤ Σ_d W(N_d) + v W(T) for optimistic K_t as long as all intervals hold, that of the mean
    delay too.

    Let U be the upper ends, F⁻ the lower end of the mean delay's interval, and K the choice. If all intervals hold,
    X* ≤ max (1 + Σ U)/(F⁻ + K′M) = R, the rate that K promises. So X* T(K) - E(K) ≤ R T(K) - E(K) = R (F - F⁻) +
    Σ_{d≤K} (U(d) - S(d)). F - F⁻ is at most 2 r of the range of the delay, and R at most the rate at the least delay
    without rejections. U(d) - S(d) ≤ min(1, 2 r(N_d)). In the sum over the rounds, N_d passes 0, 1, .. once each, as
    only rounds with K ≥ d count there.
    """
    return le(
        online_sides.side(lambda values: online_sides.played(True, values)[0]),
        online_sides.side(lambda values: online_sides.bound_side(True, values)),
    )


@theorem(
    "policy.colocated_speed",
    field.SOURCE,
    NEW,
    assuming=(
        field.FAST_SERVER,
        Assumption(
            "K is independent of what would be accepted: no look at the draft model's confidence",
            POLICY_side(colocated_sides.independent_side, "context_law", "context_lengths", test=True),
        ),
    ),
    tight={
        "context_law": [1.0],
        "context_acceptances": [[0.75]],
        "context_lengths": [[0.0, 1.0]],
        "other_s": 0.0,
        "draft_s": 0.25,
        "server_draft_s": 0.25,
        "pass_s": 0.5,
        "token_s": 0.0,
    },
)
def colocated_speed():
    """tokens a second of a device that drafts, sends and waits in turn, loses nothing and draws K independently of what
    would be accepted, which is distributed alike in all rounds, ≤ max over K of E(K)/(K t_s + V(K)), those of a server
    that drafts itself and streams.

    The server repeats the device's rounds: the same drafts, drawn from the same distributions, and the same
    verification. So it emits the same tokens, round by round, in K t_s + V(K) ≤ K t_d + a + V(K) seconds, where a ≥ 0
    is the time of messages, round trip and queue. As rounds are alike and K is independent, rounds of each K give E(K)
    in the mean. So with shares λ_K the rate Σ λ_K E(K)/Σ λ_K (K t_s + V(K)) is a mean of E(K)/(K t_s + V(K)), at most
    the largest of them. If rounds are not alike, a server that repeats the lengths is as fast, but one K may not be: if
    of every seven tokens the drafts of the second and the fourth alone are wrong, t_s = .5 and V(K) = 1, a fair coin
    between K = 1 and 2 gives 1.23 tokens a second, and no single K more than 1.17.
    """
    return le(
        POLICY_side(colocated_sides.device_rate, *field.DEVICE),
        POLICY_side(lambda values: colocated_sides.server_plan(values).rate, *field.POLICY_CONTEXTS[:2], *field.OWN),
    )


@theorem(
    "policy.colocated_speed_looks",
    field.SOURCE,
    NEW,
    assuming=(field.FAST_SERVER,),
    tight=field.SURE_OR_NOT | field.ITS_DEVICE,
)
def colocated_speed_looks():
    """tokens a second of a device that drafts, sends and waits in turn and loses nothing, with any rule for K ≤ those
    of a server that drafts itself, streams, and looks at its draft model as the device does.

    As colocated_speed: the server repeats the rounds, with the same stops, since these depend on the draft model's
    distributions and drafts, which it has too. The rule that is best for its times is no slower.
    """
    return le(
        POLICY_side(colocated_sides.device_rate, *field.DEVICE),
        POLICY_side(colocated_sides.looking_rate, *field.POLICY_CONTEXTS, *field.OWN),
    )


@theorem("policy.colocated_speed_most", field.SOURCE, NEW, tight=field.SURE_OR_NOT)
def colocated_speed_most():
    """tokens a second of a server that drafts at most K tokens and knows what will be accepted ≤ the larger of
    1/(s + s′) and E(K)/((E(K) − 1) t_s + s + s′ E(K)): the most that a look adds to max E(K)/(K t_s + V(K)).

    A round of j ≤ K drafts with n tokens has n - 1 ≤ j. So it takes j t_s + s + s′ (j + 1) ≥ (n - 1) t_s + s + s′ n,
    and a rate is at most f(x) = x/((x - 1) t_s + s + s′ x) at the mean x of n. f is monotone, and 1 ≤ x ≤ E(K) for any
    rule: n - 1 is at most the drafts that would be accepted, distributed alike in all rounds. So the rate is at most
    the larger of f(1) = 1/(s + s′) and f(E(K)). A rule that stops before each rejected draft attains f(E(K)).
    """
    return le(
        POLICY_side(colocated_sides.looking_rate, *field.POLICY_CONTEXTS, *field.OWN),
        POLICY_side(lambda values: colocated_sides.server_plan(values).ceiling, *field.POLICY_CONTEXTS[:2], *field.OWN),
    )


@theorem(
    "policy.colocated_capacity",
    field.SOURCE,
    NEW,
    assuming=(
        Assumption(
            "the server is never idle: users return within (N − 1) V(K)",
            POLICY_side(colocated_sides.never_idle, "draft_length", "away_s", "users", "pass_s", "token_s", test=True),
        ),
    ),
    tight={"server_draft_s": 0.125, "pass_s": 0.5, "token_s": 0.0, "draft_length": 2, "away_s": 0.25, "users": 2},
)
def colocated_capacity():
    """a full server verifies 1 + K t_s/V(K) times as many rounds of K drafts if devices draft them.

    A server that is never idle completes a round in V(K) seconds if devices draft, and in K t_s + V(K) if it drafts;
    both give E(K) tokens in the mean. It is not idle if N users return from their devices within (N - 1) V(K), the
    time in which it verifies the other users' rounds.
    """
    return eq(
        POLICY_side(colocated_sides.simulated_side, *QUEUE),
        POLICY_side(
            lambda values: colocated_sides.at_length(values, int(values["draft_length"])), *field.OWN, "draft_length"
        ),
    )


@theorem(
    "policy.colocated_gain_floor",
    field.SOURCE,
    NEW,
    tight={"server_draft_s": 0.125, "pass_s": 0.5, "token_s": 0.0, "acceptances": [1.0], "batch": 1},
)
def colocated_gain_floor():
    """1 + K t_s/(B σ(K)) ≤ users of a full server if devices draft, over its users if it drafts with its best K.

    Let d(K) = σ/E be the time of the server for a token if devices draft, and e(K) = (σ + K t_s/B)/E if it drafts,
    least at K' and K''. The gain is e(K'')/d(K'). It is at most e(K')/d(K'), since e(K'') is the least e, and at
    least e(K'')/d(K''), since d(K') is the least d. Both are 1 + K t_s/(B σ(K)).
    """
    return le(
        POLICY_side(
            lambda values: colocated_sides.at_length(values, colocated_sides.best_length(values, drafting=True)), *LOADS
        ),
        POLICY_side(colocated_sides.gain_side, *LOADS),
    )


@theorem(
    "policy.colocated_streamed",
    Source("lyu2026distance", "abstract, on pipelining, for a device that never stops drafting"),
    NEW,
    assuming=(Assumption("R ≥ K t", colocated_sides.far_enough),),
    tight={"acceptance": 0.998046875, "draft_time": 0.25 - 2.0**-30, "verify_time": 0.375, "round_trip": 5.25},
    ratio=0.9989834116620351,
    condition=lambda acceptance: 64.0 + 0.0 * acceptance,
)
def colocated_streamed(acceptance, draft_time, verify_time, round_trip):
    """min_K (K t + V)/E(K) ≤ t + (1 − α)(R + V + W) if R ≥ K t, K the server's best length.

    Let ε = 1 - α, K the best length of a server that drafts, D = K t + V, c = εD/(1 - α^{K+1}) its time of a token.
    As one more draft does not help, c ≤ t/α^{K+1}, so εD α^{K+1} ≤ t (1 - α^{K+1}), which is c ≤ t + εD. A device
    that never stops takes t + ε(R + V + W) ≥ t + ε(K t + V) = t + εD a token, if R ≥ K t.
    """
    xp, draft, verify = colocated_sides.checked(draft_time=draft_time, verify_time=verify_time)
    length = colocated_sides.best_side(acceptance, draft, verify)
    return le(
        (xp.astype(length, xp.float64) * draft + verify) / expected_tokens(acceptance, length),
        1.0 / streamed_rate(acceptance, draft_time, round_trip, verify_time).rate,
    )


@theorem(
    "policy.fading_cut",
    Source("oh2025cuhlm", "(5), with a skip if the SNR is low"),
    NEW,
    tight={
        "mean_snr": 10.0,
        "k_factor": 0.0,
        "bits": 1e5,
        "bandwidth_hz": 1e6,
        "server_s": 0.0625,
        "worth_s": 0.1625,
        "cut": 1.0,
    },
    condition=fading_sides.quadrature_side,
)
def fading_cut(mean_snr, k_factor, bits, bandwidth_hz, server_s, worth_s, cut):
    """if a message costs τ + B/(W log₂(1 + SNR)) seconds and a skip χ: mean cost of sending where
    SNR ≥ 2^{B/(W (χ − τ))} − 1, nowhere if χ ≤ τ, ≤ that of any other SNR threshold.

    τ is the server's time, and χ the price of a skip's risk, over the tokens a second of the plan. At each SNR, the
    message's cost, which falls as the SNR rises, is at most χ exactly where χ > τ and W (χ - τ) log₂(1 + SNR) ≥ B, the
    threshold. So it takes the smaller cost at every SNR, and no rule has a smaller mean. Where χ ≤ τ, or near SNR = 0,
    nothing is sent, and the mean is at most χ.
    """
    _, sent, seconds = fading_sides.fading_skip(Rician(mean_snr, k_factor), bits, bandwidth_hz, server_s, worth_s)
    left = seconds + worth_s * (1.0 - sent)
    _, m, k, payload, band, server, worth, low = policy_checked(
        fading_sides.DOMAINS,
        mean_snr=mean_snr,
        k_factor=k_factor,
        bits=bits,
        bandwidth_hz=bandwidth_hz,
        server_s=server_s,
        worth_s=worth_s,
        cut=cut,
    )
    link = Rician(m, k)
    below = link.distribution(low)
    return le(left, payload / band * link.inverse_efficiency(low).value + server * (1.0 - below) + worth * below)


@theorem(
    "policy.band_price",
    Source("zhu2025edgesd", "(26), with draft lengths and messages"),
    NEW,
    tight={name: ALONE[name] for name in (*BAND, "parts", "choice", "band_price")},
)
def band_price():
    """Σ ω X ≤ ν + Σ max_w [ω X*(w) − ν w] for any plans, shares and ν ≥ 0, X* bounded by its chords.

    For ν ≥ 0 and Σ w ≤ 1, Σ ω X ≤ Σ (ω X - ν w) + ν, and each term is at most its largest value over plans and
    shares. X* is bounded by its chords, on which the largest value is known in closed form; for shares below the
    smallest of the curve by the rate there.
    """
    return le(
        SERVED_CLAIMS_side(
            lambda values: float(values["weights"] @ competing_rates(on_the_band(values))), *BAND, "parts", "choice"
        ),
        SERVED_CLAIMS_side(lambda values: bound(on_the_band(values), values["weights"]), *BAND, "band_price"),
    )


@theorem("policy.served_price", POLICY_SOURCE, NEW, tight=ALONE)
def served_price():
    """Σ ω X ≤ ν + ν′ + Σ max_w [ω Y(w) − ν w] for any plans, shares, order of service and ν, ν′ ≥ 0.

    For ν, ν′ ≥ 0, Σ w ≤ 1 and Σ X d ≤ 1, Σ ω X ≤ Σ (ω X - ν′ X d - ν w) + ν + ν′. Each term is X (ω - ν′ d) - ν w with
    X ≤ E/(A + b z): at most ω (E - ν′ σ/ω)⁺/(A + b z) - ν w, since d = σ/E. Of each plan with a positive worth this is
    convex in z, and 0 is; so their maximum Y is below its chords.
    """
    return le(
        SERVED_CLAIMS_side(lambda values: float(values["weights"] @ competing_rates(values)), *SHARED, "weights"),
        SERVED_CLAIMS_side(lambda values: bound(values, values["weights"]), *PRICED),
    )


@theorem("policy.server_response", QUEUE_SOURCE, NEW, tight={**WAIT, "away_s": [[0.0, 0.0], [0.0, 0.0]]})
def server_response():
    """a round's wait and pass ≤ (2 + ⌊(N − 2)/B⌋) s + s′ (Σ (K + 1) + the B − 1 largest K + 1).

    When a round arrives, a pass may run with one other user at least. Of the other N - 2 users each has at most one
    round before it in the queue. So at most ⌊(N - 2)/B⌋ full passes follow before its own. Without a running pass at
    most N - 1 rounds arrived at the same time, and ⌊(N - 1)/B⌋ ≤ 1 + ⌊(N - 2)/B⌋. In the running pass and the full
    ones each user occurs once, and in its own B - 1 others.
    """
    return le(SERVED_CLAIMS_side(response, *POLICY_QUEUE), SERVED_CLAIMS_side(longest, *POLICY_QUEUE))


@theorem(
    "policy.user_bound",
    user_sides.SOURCE,
    NEW,
    assuming=(KEEPS,),
    tight=BY_PLACE | {"draft_length": [3], "skips": [0], "first": [1], "later": [[1], [0]], "mix": 1.0},
)
def user_bound():
    """tokens per second ≤ θ + max_K V_K⁺(θ, μ)/T_K for every mixture of plans, of any skips, lengths and messages by
    row and place, whose risk is at most ρ a token; also if a skip is charged β̂ alone.

    Step 1, one value for rate and risk. Let n, t, r be the mean tokens, seconds and risk of a round, for a mixture of
    plans. If r ≤ ρ n, then n - θ t ≤ n - θ t - μ (r - ρ n) for every μ ≥ 0. The right side is linear in the shares
    λ_K of the rounds with K drafts, so at most Σ λ_K V_K with V_K the largest value at one K; and t ≥ Σ λ_K T_K, with
    T_K the mean of each row's shortest round. So n/t ≤ θ + max V_K⁺/T_K. Step 2, V_K. The value is a sum over rows: a
    skip, or the first draft and the later ones. A later place i costs bits, and μ times its risk where it is reached:
    with R_i = Π_{1<j<i} α_j times the acceptances 1 - β̂ of the rows that are sent. For a set of sent rows, of mean
    acceptance m, the best message of place i is that of the price μ R_i m. So V_K is the largest, over m, of Σ w
    max(skip, send) with these messages. Step 3, m by intervals. The least cost of a row is concave in its acceptance
    k, so it is above its chord between two ends, and its tangents fall towards k: with the messages of m a row pays at
    least what it pays with those of the point nearest to k in an interval around m. So the largest value over the
    intervals is at least V_K. A skip that is charged more than β̂ has less value.
    """
    return le(
        user_sides.side_side(lambda values: user_sides.competitor_side(values)[0], *OTHER),
        user_sides.side_side(
            lambda values: user_sides.rate_and_bound(values, float(values["limit"]))[1], *USER, "limit"
        ),
    )


@theorem(
    "policy.user_optimum",
    user_sides.SOURCE,
    NEW,
    tight=ONE_ROW | {"draft_length": [1], "skips": [1], "first": [0], "later": [[0]], "mix": 1.0},
)
def user_optimum():
    """tokens per second of every plan ≤ that of the plan found, if the risk has no limit.

    Without a limit μ = 0. Dinkelbach: the decisions of V(θ) have n'/t' = θ + V/t' ≥ θ. When θ no longer grows, V = 0,
    and the bound is θ, their rate. (The code stops where the bound is within 1e-9 of θ, or at round 200.)
    """
    return le(
        user_sides.side_side(lambda values: user_sides.competitor_side(values)[0], *OTHER),
        user_sides.side_side(lambda values: user_sides.rate_and_bound(values, math.inf)[0], *USER),
    )


@theorem("policy.user_rate", user_sides.SOURCE, SOFTWARE, tight=ONE_POSITION)
def user_rate():
    """tokens per second of the plan found = the rate that it states, by enumeration of its rounds.

    Each place that is reached emits a token, and the bonus one more. Place 2 is reached with 1 - β of the rows that
    are sent, place i with Π_{1<j<i} α_j times as much. If β̂ = β and α_j is the mean acceptance, this is the law.
    """
    return eq(
        POLICY_law_side(user_sides.lawful_rate, *LAW),
        POLICY_law_side(lambda values: user_sides.lawful_plan(values)[0].rate, *LAW),
    )


@theorem("policy.user_risk", user_sides.SOURCE, NEW, tight=ONE_POSITION, ceiling=1.0)
def user_risk():
    """mean TV(law of a token, p) of the plan found ≤ the risk that it states, if β̂ = β, by enumeration of its rounds.

    The rows of a position have equal hulls, so one message at each place. With A the share of its skipped drafts,
    the token's law is at most Σ q s β + min(1 - A, Δ) from p (``skipping.bill_joint``); each row is charged Δ, and
    β̂ if it is skipped. Without a row that is sent 1 - A is 0. Later places have A = 0. The places that are reached
    add up as in ``skipping.bill_round``, and a mixture is charged the mean of its parts.
    """
    return le(
        POLICY_law_side(user_sides.lawful_distance, *LAW),
        POLICY_law_side(lambda values: user_sides.lawful_plan(values)[0].risk, *LAW),
    )


@theorem("policy.user_limit", user_sides.SOURCE, SOFTWARE, tight=ONE_POSITION)
def user_limit():
    """mean TV(law of a token, p) of the plan found ≤ the limit, if β̂ = β, by enumeration of its rounds.

    Of the decisions that are seen, those that break the limit are never returned. K = 0 keeps every limit.
    """
    return le(
        POLICY_law_side(user_sides.lawful_distance, *LAW), POLICY_law_side(lambda values: float(values["limit"]), *LAW)
    )


@theorem(
    "serving.goodput_crossover",
    Source(field.SMART, "from its batch time"),
    NEW,
    assuming=(
        Assumption(
            "the two goodputs meet at a positive batch", SERVING_test(goodput_sides.crosses, *goodput_sides.ROUND)
        ),
    ),
    tight=field.CASE,
)
def goodput_crossover():
    """at the batch B* = -u/v the goodput with K drafts is that of the target model alone.

    G is affine, G(B) = u + v B, so it is 0 at B* = -u/v alone, where B/T_0 = B E/T_K.
    """
    return eq(
        SERVING_side(goodput_sides.goodput_there, *goodput_sides.ROUND),
        SERVING_side(goodput_sides.alone_there, *goodput_sides.ROUND),
    )


@theorem(
    "serving.goodput_long",
    Source(field.SMART, "from its batch time"),
    NEW,
    assuming=(
        field.AT_ONE,
        Assumption("S_K ≤ E S_0", SERVING_test(goodput_sides.cheap_sequence, *goodput_sides.ROUND)),
    ),
    tight=field.CASE | {"acceptance": 1.0, "draft_pass": [1.0, 0.0, 0.0], "draft_length": 1, "batch_size": 3},
)
def goodput_long():
    """K drafts that pay at batch 1 pay at every batch if S_K ≤ E S_0, as over a long context.

    G(B) = G(1) + v (B - 1), and both terms are 0 or more. With c C large, v/(c C) tends to E - 1 - K c_d/c: over a
    long context drafts pay at every batch if a cached token is cheap for the draft model.
    """
    return le(
        SERVING_side(goodput_sides.drafting_s, *goodput_sides.ROUND, "batch_size"),
        SERVING_side(goodput_sides.as_many_tokens_alone_s, *goodput_sides.ROUND, "batch_size"),
    )


@theorem(
    "serving.load_poisson",
    Source("kelly1979reversibility", "symmetric queues; the batch time of liu2024goodput"),
    NEW,
    assuming=(
        Assumption(
            "load ≤ 0.9 E/S, few sequences: the law can be summed",
            SERVING_test(goodput_sides.summed_side, *goodput_sides.ROUND, "load"),
        ),
    ),
    condition=SERVING_side(goodput_sides.digits_of_the_sum, *goodput_sides.ROUND, "load"),
    tight=EQUAL | {"load": 1.25},
)
def load_poisson():
    """load·(F + S)/(E - load·S) = the mean number of sequences, Σ n π(n), π(n) ∝ Π_{i≤n} load·T(i)/(i E), if requests
    arrive at random (Poisson) and share every round, and an answer takes many rounds (processor sharing).

    Let requests arrive at the rate λ, with G tokens in the mean, load = λG. As an answer takes many rounds, n
    sequences share the rate n E/T(n) evenly, and an arrival joins at once: processor sharing. Then the number in the
    server has the law π(n) ∝ Π_{i≤n} load T(i)/(i E), whatever the law of G (kelly1979reversibility, insensitivity).
    With p = load S/E the factors are p (F/S + i)/i: the number is negative binomial with the mean (F/S + 1) p/(1 -
    p) = load (F + S)/(E - load S); for S = 0 it is Poisson with the mean load F/E.
    """
    return eq(
        SERVING_side(goodput_sides.held, *goodput_sides.ROUND, "load"),
        SERVING_side(goodput_sides.held_by_balance, *goodput_sides.ROUND, "load"),
    )


@theorem(
    "serving.goodput_light",
    Source(field.LATENCY, "the batch by Little's law"),
    NEW,
    assuming=(
        Assumption("drafts pay at batch 1 and lose above B*", SERVING_test(goodput_sides.upper, *goodput_sides.ROUND)),
    ),
    tight=field.CASE | {"mix": 1.0},
    condition=SERVING_side(goodput_sides.digits_near_the_crossing, *goodput_sides.ROUND, "mix"),
)
def goodput_light():
    """up to the load (B* − 1)/T_0(B*) of requests that arrive at random (Poisson), K drafts hold no more sequences in
    the server than no drafts, if an answer takes many rounds (processor sharing).

    With T_K(1) for F + S in both means, and E T_0(B*) = T_K(B*): load (F_K + S_K)/(E - load S_K) ≤ load (F_0 +
    S_0)/(1 - load S_0) is load (F_0 S_K - S_0 F_K) ≤ G(1) = v (1 - B*), linear in the load, and both sides are B* -
    1 at the load (B* - 1)/T_0(B*). By Little's law a token then waits no longer.
    """
    return le(
        SERVING_side(goodput_sides.held_at(1.0, drafting=True), *goodput_sides.ROUND, "mix"),
        SERVING_side(goodput_sides.held_at(1.0, drafting=False), *goodput_sides.ROUND, "mix"),
    )
