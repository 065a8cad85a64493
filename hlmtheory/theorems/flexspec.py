"""Theorems of flexspec (li2025flexspec): the draft length, Algorithm 2 and the update of a target model.

F and M are the seconds of a round without drafts and of each draft (T_fixed and T_marginal in print), T(K) = F + K M,
and E(K) the mean tokens of a round with K drafts, at most K_max: ETGR(K) = E(K)/T(K), largest at K* (K_n^* in print).
Draft i is accepted with probability α_i given that those before it are, or γ if that is the same for all; τ drafts are.
γ̂ is the paper's exponential mean of τ/K, K̂ the length that is best for it. E(K) counts the server's own token too, as
Algorithm 2 does with 1 + γ̂K; (2) and (11) have E[τ | K] = E(K) - 1 in its place. R is the link's bit/s (R_n), O
(O_header) and b the bits of a header and of a token; F₀ and m₀ are what F and M are without these. Only here: h is
-ln γ, c is h (F/M - 1), and ζ the positive root of e^ζ - 1 - ζ = c. Algorithm 2 writes q for the target model's
distribution, here p; q is the draft's. (2) and (7) to (11) only define the tokens and seconds of a round, and the aim:
they have no claim. The paper prints two results on them; both are refuted. In other files: on III-C the three
``verification.update_*``, in ``ours_rounds``; on skips and messages the five ``policy.user_*``, in ``ours_plans``.
"""

from functools import partial

from hlmtheory._array import arrays, take
from hlmtheory._domains import UNIT_INTERVAL
from hlmtheory._quantities import not_negative, positive
from hlmtheory.claims import CORRECTED, IMPLIED, NEW, PRINTED, Assumption, Source, eq, le, theorem
from hlmtheory.draft_length.optimum import kept, least_kept, surrogate_draft_length
from hlmtheory.draft_length.rates import COST, FACTOR, LENGTH, etgr, etgr_profile
from hlmtheory.draft_length.rounds import misfit, size_one
from hlmtheory.draft_length.tracking import LENGTH as DRAFT_COUNT
from hlmtheory.draft_length.tracking import law_side, linear_in_use, mean_share
from hlmtheory.sides import draft_length_sides
from hlmtheory.sides.host import host_side
from hlmtheory.verification import expected_tokens
from hlmtheory.verification.rule import greedy_output_distribution, total_variation

FLEXSPEC = partial(Source, "li2025flexspec")
PROFILE = ("acceptances", "fixed", "marginal")
side = partial(
    host_side,
    {
        **dict.fromkeys(("acceptance", "acceptances"), UNIT_INTERVAL),
        "rate_bps": positive("give the rate of the link in bit/s"),
        **dict.fromkeys(("slowdown", "rise"), FACTOR),
        **dict.fromkeys(("fixed", "marginal"), COST),
        **dict.fromkeys(("bits_per_token", "header_bits"), not_negative("give a size in bits")),
        "max_draft_length": LENGTH,
    },
    {"acceptances": 1},
)
CASE = {"acceptance": 0.8, "fixed": 0.1, "marginal": 0.02}
LINK = tuple(CASE)
IN_RANGE = Assumption("1 ≤ K ≤ K_max", draft_length_sides.lengths_in_range)
HEADER = {
    "acceptance": 0.8,
    "rate_bps": 1e6,
    "slowdown": 10.0,
    "fixed": 0.02,
    "marginal": 0.0125,
    "bits_per_token": 16.0,
    "header_bits": 320.0,
}
LINKS = tuple(HEADER)


@theorem(
    "draft_length.unimodal",
    FLEXSPEC("(11)"),
    NEW,
    tight={"acceptances": [0.5, 1.0, 0.25], "fixed": 1.0, "marginal": 0.25},
)
def unimodal():
    """max_K ETGR(K) = ETGR at the first K whose successor is no better, whatever the acceptance profile.

    T(K) = F + K M, with F and M the seconds of a round without drafts and of each draft. E(K + 1) - E(K) = Π_{i≤K+1}
    α_i never rises with K, so E is concave. One more draft is better iff Π_{i≤K+1} α_i > M E(K)/T(K). If this fails at
    K, it also fails at K + 1. For let y = Π_{i≤K+1} α_i ≤ M E(K)/T(K) and x = Π_{i≤K+2} α_i ≤ y. The mediant gives
    E(K+1)/T(K+1) = (E(K) + y)/(T(K) + M) ≥ y/M ≥ x/M. If M = 0, then y = 0, so x = 0.
    """
    return eq(
        side(lambda values: float(etgr_profile(*(values[name] for name in PROFILE)).max()), *PROFILE),
        side(draft_length_sides.first_descent, *PROFILE),
    )


@theorem(
    "draft_length.stationary",
    FLEXSPEC("(11)"),
    NEW,
    assuming=(Assumption("0 < γ < 1 and F > M > 0", side(draft_length_sides.interior, *LINK, test=True)),),
    tight=CASE,
    condition=side(draft_length_sides.digits_lost, *LINK),
)
def stationary():
    """with h = −ln γ, c = h (F/M − 1) and ζ > 0 the root of e^ζ − 1 − ζ = c, the relative gain (dE/dK)/E of a draft
    equals its relative cost M/T(K) at K = ζ/h − 1, not rounded.

    With x = K + 1, E is proportional to 1 - e^{-hx} and T(K) = F + K M to x + c/h. At ζ = hx, e^ζ = 1 + ζ + c, so
    h e^{-hx}/(1 - e^{-hx}) = h/(e^ζ - 1) = h/(ζ + c) = 1/(x + c/h): gain and cost are equal.
    """
    return eq(side(draft_length_sides.gain_of_a_draft, *LINK), side(draft_length_sides.cost_of_a_draft, *LINK))


@theorem(
    "draft_length.optimal",
    FLEXSPEC("(11)"),
    NEW,
    assuming=(IN_RANGE,),
    tight={**CASE, "draft_length": 4, "max_draft_length": 16},
)
def optimal():
    """ETGR(K) ≤ ETGR(K*) for every K in 1..K_max, K* the better of the integers next to ζ/h − 1, moved into 1..K_max.

    h = -ln γ and c = h (F/M - 1); ζ > 0 is the root of e^ζ - 1 - ζ = c, if c > 0. Let 0 < γ < 1 and M > 0. E(K)/T(K) is
    proportional to f(x) = (1 - e^{-hx})/(x + c/h), x = K + 1: f' has the sign of 1 + hx + c - e^{hx}, which is concave
    in x and equals c at x = 0. If c ≤ 0, it is negative for x > 0 (slope h - h e^{hx} < 0), so K* = 1. If c > 0, it has
    one zero, at e^ζ - 1 - ζ = c with ζ = hx. f rises up to it and falls after it, so the best integer is next to it, or
    the end of the range that is nearest. At the ends ζ/h - 1 means its limit: ∞ if γ > 0 and F > M, else -1. γ = 0:
    E(K) = 1, and 1/T(K) never rises, so K* = 1. γ = 1: (K + 1)/(F + K M) has a derivative of the sign of F - M, so K* =
    K_max if F > M, else 1. M = 0 < γ: T(K) = F, and E(K) rises, so K* = K_max. For E(K) - 1, as (11) prints, take x = K
    and c = h F/M: the best is next to ζ/h.
    """
    return le(etgr, draft_length_sides.best_rate)


@theorem("draft_length.slower_shortens", FLEXSPEC("below (11), and on Fig. 2"), PRINTED, false=HEADER)
def slower_shortens():
    """a reduced rate forces a smaller K*: K*(R/slowdown) ≤ K*(R).

    False: K* never falls as F/M rises (draft_length.slower_shortens_if), and F/M = (F₀ + O/R)/(m₀ + b/R) is monotone
    in 1/R with the sign of O m₀ - b F₀: it rises as the link slows when O/b > F₀/m₀. Counterexample: a TCP/IP header of
    320 bits and indices of 16 give O/b = 20, and γ = .8, F₀ = 20 ms, m₀ = 12.5 ms. Then K* is 1, 2 and 6 at R = 1
    Mbit/s, R/10 and R/1000; with E(K) - 1 for E(K), as printed, 3, 4 and 8.

    Why E is exact here: print says it twice, under E ≈ γ̂K (see linear_adapts), and on Fig. 2 without an approximation,
    which is refuted here. Fig. 2 is on "weak-signal regimes, where the communication cost dominates". R/1000 is such a
    regime: 336 ms of the link, and 32.5 of F₀ + m₀.

    Scope: it holds where F₀/m₀ ≥ O/b = 20. F₀ is at most a token of Cloud-Only (print's β of T_fixed aside), and m₀ at
    least a draft. At the paper's own times it fails on the Raspberry Pi. On the others it depends on δ_cloud, which is
    not printed.

    On the Raspberry Pi the token takes at most 1,225 ms (Table IV), the draft 145 ms (Table V): F₀/m₀ is at most 8.5,
    so F/M rises as the link slows. K* is a step function of F/M. With F₀ = 1,225 ms and m₀ = 145 ms it first rises
    between 2 and .1 kbit/s, for γ = .5, .6, …, .9; with a smaller F₀ that is just below a step, on a faster link.

    On the others the draft takes at most 12 ms. Let sending take 7 ms of a token. With Llama-2 the token takes 415 ms
    or more (Table III). If δ_cloud is at most 8 ms, F₀/m₀ is (415 - 8 - 7)/(12 + 8) = 20 or more: it holds.

    Over 5G Table VI, which names no device, has shorter tokens: 395 ms with Llama-3, 320 ms with Mixtral. If δ_cloud is
    8 ms, F₀/m₀ is 19.0 with Llama-3 on the iPhone, and 15.3, 16.5 and 18.5 with Mixtral on the iPhone, the Snapdragon
    and the Jetson: it fails. With Mixtral on the iPhone K* rises from 7 to 8 at .69 kbit/s, for γ = .8. There it holds
    if δ_cloud is at most 3.4 ms; with Llama-3, 7.0 ms. Over 4G (485 ms or more) it holds at 8 ms.
    Instead: draft_length.slower_shortens_if.
    """
    return le(
        side(lambda values: float(draft_length_sides.two_links(values)[0]), *LINKS),
        side(lambda values: float(draft_length_sides.two_links(values)[1]), *LINKS),
    )


@theorem(
    "draft_length.slower_shortens_if",
    FLEXSPEC("below (11), from (8)"),
    CORRECTED,
    assuming=(Assumption("O/b ≤ F₀/m₀", draft_length_sides.small_header),),
    tight={**HEADER, "header_bits": 16.0},
)
def slower_shortens_if():
    """K*(R/slowdown) ≤ K*(R) if O/b ≤ F₀/m₀; checked as ETGR, tokens a second, so that ties do not matter.

    F = F₀ + O/R and M = m₀ + b/R. The derivative of F/M in 1/R has the sign of O m₀ -
    b F₀ ≤ 0, so F/M never rises as the link slows. By draft_length.unimodal K* is the first K with γ^{K+1} (F/M + K) ≤
    E(K), or K_max. A K that meets this meets it for every smaller F/M, so K* never rises as F/M falls. (If M = 0 at one
    rate, it is 0 at both, and K* the same.) So the slow link's K* is no longer than the fast one's.
    """
    return le(side(draft_length_sides.rate_of_slow, *LINKS), side(draft_length_sides.rate_of_shorter, *LINKS))


@theorem(
    "draft_length.linear_adapts",
    FLEXSPEC('below (11), with E ≈ γK "for moderate values of K"; where K* shortens, by us'),
    PRINTED,
    assuming=(Assumption("the best draft gets shorter", draft_length_sides.shrinks),),
    false={"acceptance": 0.5, "fixed": 10.0, "marginal": 1.0, "rise": 4.0, "max_draft_length": 3},
)
def linear_adapts():
    """a draft that costs more shortens argmax γK/T(K) by at least 1 wherever it shortens K*.

    False: γK/(F + KM) = γ/(F/K + M) rises in K for every F, γ > 0, so its argmax is K_max for every M, shortened by 0.
    Counterexample, by hand at γ = 1/2 and F = 10, for K = 1, 2 and 3: with M = 1 the exact E(K)/T(K) is 1.5/11, 1.75/12
    and 1.875/13, so K* = 2; with M = 4 it is 1.5/14, 1.75/18 and 1.875/22, so K* = 1. But γK/T(K) is .5/11, 1/12 and
    1.5/13, then .5/14, 1/18 and 1.5/22: largest at K = 3 both times.

    The same holds for every K_max ≥ 2. Print has the remark that slower_shortens refutes, under E ≈ γ̂K "for moderate
    values of K". It lacks "wherever it shortens K*", with which it claims less, and is still false. With print's
    geometric decay model itself, the exact E, the remark can be true, as in this counterexample. Algorithm 2 has 1 + γ̂K
    in place of γ̂K, and can change between 1 and K_max (linear_bonus). With the exact E the best K is known. Instead:
    draft_length.optimal.
    """
    return le(
        side(lambda values: 1.0, *LINK, "rise", "max_draft_length"),
        side(draft_length_sides.surrogate_shortened, *LINK, "rise", "max_draft_length"),
    )


@theorem(
    "draft_length.linear_bonus",
    FLEXSPEC("Algorithm 2"),
    NEW,
    assuming=(IN_RANGE,),
    tight={**CASE, "draft_length": 16, "max_draft_length": 16},
)
def linear_bonus():
    """with E ≈ 1 + γK the best is K_max if γF > M, 1 if less, and every K ties at equality.

    (1 + γK)/(F + KM) has a derivative of the sign of γF - M for every K.
    """
    return le(draft_length_sides.surrogate_rate(bonus=True), draft_length_sides.surrogate_peak(bonus=True))


@theorem(
    "draft_length.linear_optimal",
    FLEXSPEC("Algorithm 2, were its approximation of (11) to lose nothing"),
    IMPLIED,
    false={**CASE, "max_draft_length": 16},
)
def linear_optimal(acceptance, fixed, marginal, max_draft_length):
    """max_K ETGR(K) ≤ ETGR at the length of Algorithm 2, argmax (1 + γK)/T(K).

    False: by linear_bonus Algorithm 2 drafts 1 or K_max, while the best length can lie between (``optimal``). At the
    counterexample it drafts 16 and keeps 62% of the rate of K* = 4, 11.64 of 18.68 tokens a second.
    Instead: draft_length.optimal.
    """
    return le(
        draft_length_sides.best_rate(acceptance, fixed, marginal, max_draft_length),
        etgr(acceptance, surrogate_draft_length(acceptance, fixed, marginal, max_draft_length), fixed, marginal),
    )


@theorem(
    "draft_length.regret",
    FLEXSPEC("Algorithm 2"),
    NEW,
    tight={"acceptance": 0.9, "believed": 0.8, "fixed": 43.20766091346, "marginal": 1.0, "max_draft_length": 40},
)
def regret():
    """a length chosen for γ̂ keeps at least inf_{F/M} ETGR(K̂)/ETGR(K*), the least over the ties of lengths.

    Let x = F/M, and x = ∞ for M = 0. K and K + 1 are equally fast, tie, at x = E(K)/γ^{K+1} − K. K* rises from 1 to
    K_max at ties alone: by one at each if 0 < γ < 1, all at once at x = 1 if γ = 1. If γ = 0, all lengths tie at x
    = ∞ alone, and K* is 1. The same holds for K̂ with γ̂. Between two ties, the ratio of the two rates is a
    quotient of affine functions of x, so it is monotone. Below the first and above the last it is 1. So its infimum
    is its value or limit at a tie, which is the content: the left side compares the ties alone. If γ̂ = 0 < γ, this
    is the limit at x = ∞, E(1)/E(K_max). For γ = .9, γ̂ = .8 and K_max = 40 it is .9126, at x = 43.208, where K̂
    goes from 10 to 11 and K* is 18.
    """
    return le(least_kept, kept)


@theorem("verification.greedy", FLEXSPEC("Algorithm 2"), NEW, tight={"target": [0.75, 0.25], "draft": [0.5, 0.5]})
def greedy(target, draft):
    """TV(law of Algorithm 2, p) = q_a (1 − p_a), a = argmax p: 0 only if p is one-hot or q_a = 0.

    This is at a position with a draft; at the bonus token the law is p. A draft is kept if it is a, else a token is
    drawn from p: law_v = q_a 1{v = a} + (1 - q_a) p_v. So law_v - p_v = q_a (1{v = a} - p_v), which is positive at v =
    a alone, and there q_a (1 - p_a).
    """
    left = total_variation(greedy_output_distribution(target, draft), target)
    xp, p, q = arrays(target=target, draft=draft)
    top = xp.argmax(p, axis=-1, keepdims=True)
    return eq(left, take(xp, q, xp.broadcast_to(top, (*q.shape[:-1], 1)))[..., 0] * (1.0 - xp.max(p, axis=-1)))


@theorem(
    "draft_length.tracker",
    FLEXSPEC("Algorithm 2, argmax over K, were γ̂ the same for every K"),
    IMPLIED,
    false={"acceptance": 0.8, "draft_length": 6, "other_length": 2},
    condition=lambda other_length: 1 + other_length,
)
def tracker(acceptance, other_length, draft_length):
    """E[τ | K′] = K′ γ̂ for any length K′, with γ̂ = E[τ/K] measured at the length K in use.

    False: E[τ/K] = (γ + ... + γ^K)/K falls with K for 0 < γ < 1, so no γ̂ serves two lengths.
    Instead: draft_length.tracker_consistent.
    """
    xp, gamma, other = arrays(acceptance=acceptance, other_length=other_length)
    other = DRAFT_COUNT.check(xp, "other_length", other)
    return eq(expected_tokens(acceptance, other) - 1.0, mean_share(gamma, draft_length) * xp.astype(other, gamma.dtype))


@theorem(
    "draft_length.tracker_in_use",
    FLEXSPEC("Algorithm 2, 1 + γ̂K, and last line"),
    IMPLIED,
    tight={"acceptance": 0.8, "draft_length": 6},
    condition=lambda draft_length: 1 + draft_length,
)
def tracker_in_use():
    """E[τ | K] + 1 = 1 + γ̂K at the length K in use, with γ̂ = E[τ/K] measured there.

    At the K in use E[τ] = K E[τ/K] by definition.
    """
    return eq(expected_tokens, linear_in_use)


@theorem(
    "draft_length.tracker_consistent",
    FLEXSPEC("Algorithm 2, last line, corrected"),
    CORRECTED,
    tight={"acceptance": 0.8, "draft_length": 6},
    condition=lambda draft_length: 1 + draft_length,
)
def tracker_consistent(acceptance, draft_length):
    """E[τ] = γ E[min(τ + 1, K)]: accepted over examined drafts estimates γ, whatever K.

    Draft i is examined if the i - 1 drafts before it were accepted, so min(τ + 1, K) drafts are. Each of these is
    accepted with probability γ given the past (Wald). So τ - γ min(τ + 1, K) are martingale differences.
    """
    left = linear_in_use(acceptance, draft_length) - 1.0
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    j, law = law_side(xp, gamma, DRAFT_COUNT.check(xp, "draft_length", length))
    k = xp.astype(length, gamma.dtype)[..., None]
    return eq(left, gamma * xp.sum(xp.minimum(j + 1.0 + xp.zeros_like(law), k + xp.zeros_like(law)) * law, axis=-1))


@theorem(
    "draft_length.update_storm_printed",
    FLEXSPEC("Table I and III-B, were the whole bandwidth used: the paper says approximately 3.2 GB"),
    IMPLIED,
    assuming=(Assumption("3.15 GB ≤ size ≤ 3.25 GB", lambda size_bytes: abs(size_bytes - 3.2e9) <= 0.05e9),),
    false={"size_bytes": 3.2e9},
)
def update_storm_printed():
    """3.2 GB at the full 10, 50 and 300 Mbit/s take the printed 48, 9.5 and 1.6 minutes, to the printed
    digits: the largest deviation, in halves of a unit of the last digit, is at most 1.

    False: at the full 10 Mbit/s 3.2 GB take 8 · 3.2e9/10e6 s = 42.7 minutes, not 48.
    Instead: draft_length.update_storm.
    """
    return le(misfit, size_one)


@theorem(
    "draft_length.update_storm",
    FLEXSPEC("Table I and III-B, with overhead on the link"),
    IMPLIED,
    assuming=(Assumption("3.5625 GB ≤ size ≤ 3.58125 GB", lambda size_bytes: abs(size_bytes - 3.571875e9) <= 9.375e6),),
    tight={"size_bytes": 3.5625e9},
    condition=lambda size_bytes: 1000.0 + 0.0 * size_bytes,
)
def update_storm():
    """3.5625 to 3.58125 GB, which a link carries for 3.2 GB at a goodput of 89.36 to 89.82% of 10, 50 and 300 Mbit/s,
    take the printed 48, 9.5 and 1.6 minutes, to the printed digits.

    8 · 3.5625e9/10e6 s = 47.5 min is the shortest time that rounds to 48 min, and 8 · 3.58125e9/50e6 s = 9.55 min
    the longest that rounds to 9.5 min. The range of the third row contains these sizes. A goodput of 3.2/3.58125 to
    3.2/3.5625 of the rate makes 3.2 GB take as long as these sizes at the whole rate.
    """
    return le(misfit, size_one)
