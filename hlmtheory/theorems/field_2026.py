"""Theorems on papers of 2026: lists of accuracies, ensembles, greedy budgets, the target's entropy, shares, lies."""

import heapq
from functools import partial, reduce

import numpy as np

from hlmtheory._array import arrays
from hlmtheory._domains import SIMPLEX, UNIT_INTERVAL
from hlmtheory._quantities import not_negative, positive, whole_from_one
from hlmtheory._simplex import distributions
from hlmtheory.claims import IMPLIED, KNOWN, NEW, Source, eq, le, theorem
from hlmtheory.sides.block_sides import text_laws
from hlmtheory.sides.host import host_side
from hlmtheory.sides.lossy_sides import mixture
from hlmtheory.theorems import cu_hlm
from hlmtheory.verification.misdeclared import bias
from hlmtheory.verification.rule import acceptance_rate, total_variation

FRECHET = Source("frechet1935", "bounds of the probability that all of several events occur")
ENSEMBLE = Source("wang2026diversed", "the static ensemble")
SCHEDULER = Source("cheng2026dspark", "Algorithm 1: drafts are added by survival until the rate falls")
LIGHT = Source("pankratov2026speed", "abstract: E[X] ≤ (μ + μ₂) log P/μ² + O(1)")
SPIN = Source("zheng2026multispin", "abstract: own draft lengths, shares of the band for the largest sum goodput")
LIE = Source("leviathan2023fast", "Algorithm 1, with a device that states q as it likes")
MOST = 12
"""Drafts of a user in the plans that are enumerated."""
DOMAINS = {
    **dict.fromkeys(("context_law", "target"), SIMPLEX),
    **dict.fromkeys(("context_acceptances", "acceptances", "user_acceptances"), UNIT_INTERVAL),
    **dict.fromkeys(("pass_s", "window_s", "draft_each_s", "send_each_s"), positive("give a time in seconds")),
    "rises_s": not_negative("give what each draft adds to the time of a step, in seconds"),
    "draft_count": whole_from_one("give the number of drafts"),
}
USERS = ("user_acceptances", "draft_each_s", "send_each_s")
RANK = {"context_acceptances": 2} | dict.fromkeys(("context_law", "target", "acceptances", "rises_s", *USERS), 1)
side = partial(host_side, DOMAINS, RANK)
CONTEXTS = ("context_law", "context_acceptances")
STEP = ("acceptances", "pass_s", "rises_s")
ROUND = (*USERS, "window_s")
ALL_OR_NONE = {"context_law": [0.5, 0.5], "context_acceptances": [[1.0, 1.0], [0.0, 0.0]]}
ONE_OR_OTHER = {"context_law": [0.5, 0.5], "context_acceptances": [[1.0, 0.0], [0.0, 1.0]]}
STAIRCASE = {"acceptances": [0.5, 0.5], "pass_s": 1.0, "rises_s": [0.5, 0.0]}
"""One draft takes 1.5 times as long for 1.5 tokens; the second one is free."""


def _survival(values):
    return float((values["context_law"] @ np.cumprod(values["context_acceptances"], axis=1)).sum())


def _accuracies(values):
    return values["context_law"] @ values["context_acceptances"]


@theorem("draft_length.marginal_product", FRECHET, IMPLIED, false=ALL_OR_NONE)
def marginal_product():
    """E[accepted drafts] = Σ_k Π_{i≤k} a_i, a_i the accuracy of draft i over all steps.

    False: see the counterexample, where both drafts are right or both are wrong: 1 draft is accepted on average, and
    the sum is 1/2 + 1/4. The product needs a_i among the steps whose earlier drafts are right.
    Instead: verification.tokens.
    """
    return eq(side(_survival, *CONTEXTS), side(lambda values: float(np.cumprod(_accuracies(values)).sum()), *CONTEXTS))


@theorem("draft_length.marginal_least", FRECHET, KNOWN, tight=ONE_OR_OTHER)
def marginal_least():
    """Σ_k (Σ_{i≤k} a_i − k + 1)⁺ ≤ E[accepted drafts], a_i the accuracy of draft i over all steps.

    One of the first k drafts is wrong with probability Σ_{i≤k} (1 - a_i) at most. Attained for all k and any a at once:
    of a circle of length 1 let draft i be wrong on an arc of length 1 - a_i, which begins where that of draft i - 1
    ends. The union of the first k arcs has the length min(1, Σ_{i≤k} (1 - a_i)).
    """

    def least(values):
        total = np.cumsum(1.0 - _accuracies(values))
        return float(np.maximum(1.0 - total, 0.0).sum())

    return le(side(least, *CONTEXTS), side(_survival, *CONTEXTS))


@theorem("draft_length.marginal_most", FRECHET, KNOWN, tight=ALL_OR_NONE)
def marginal_most():
    """E[accepted drafts] ≤ Σ_k min_{i≤k} a_i, a_i the accuracy of draft i over all steps.

    All of the first k drafts are right at most as often as each of them. Attained for all k and any a at once if draft
    i is right exactly where one uniform number is below a_i.
    """
    most = side(lambda values: float(np.minimum.accumulate(_accuracies(values)).sum()), *CONTEXTS)
    return le(side(_survival, *CONTEXTS), most)


@theorem("verification.ensemble", ENSEMBLE, NEW, tight=cu_hlm.HALVES | {"mix": 0.5})
def ensemble(target, draft, mix):
    """1 − TV(q, w p + (1 − w) q) = 1 − w TV(q, p): the acceptance if the ensemble is the target.

    q - w p - (1 - w) q = w (q - p).
    """
    rate = acceptance_rate(mixture(target, draft, mix), draft)
    return eq(rate, 1.0 - arrays(rate=rate, mix=mix)[2] * total_variation(target, draft))


@theorem("verification.ensemble_bias", ENSEMBLE, NEW, tight=cu_hlm.HALVES | {"mix": 0.5}, ceiling=1.0)
def ensemble_bias(target, draft, mix):
    """TV(w p + (1 − w) q, p) = (1 − w) TV(q, p): what that acceptance costs.

    w p + (1 - w) q - p = (1 - w)(q - p). So acceptance and bias lie on the line 1 - TV(q, p) + bias, the best that a
    rule can do (verification.lossy_frontier).
    """
    moved = total_variation(target, mixture(target, draft, mix))
    return eq(moved, (1.0 - arrays(moved=moved, mix=mix)[2]) * total_variation(target, draft))


def _budget(values):
    """Return E(K) and the rates E(K)/T(K), K = 0..D, and where the greedy ascent stops."""
    tokens = 1.0 + np.concatenate([[0.0], np.cumsum(np.cumprod(values["acceptances"]))])
    rates = tokens / (values["pass_s"] + np.concatenate([[0.0], np.cumsum(values["rises_s"])]))
    falls = np.flatnonzero(np.diff(rates) <= 0.0)
    return tokens, rates, int(falls[0]) if len(falls) else len(rates) - 1


@theorem("draft_length.greedy_budget", SCHEDULER, IMPLIED, false=STAIRCASE)
def greedy_budget():
    """the rate of every budget ≤ that of the budget at which one more draft first does not raise it.

    False: see the counterexample. Where the time of a step is a staircase, the first draft on a stair pays for all of
    it: the rate falls or stays, and rises again on the stair. All D + 1 rates are as cheap to compare.
    Instead: draft_length.greedy_loss.
    """
    return le(
        side(lambda values: max(_budget(values)[1]), *STEP), side(lambda values: np.take(*_budget(values)[1:]), *STEP)
    )


@theorem("draft_length.greedy_loss", SCHEDULER, NEW, tight=STAIRCASE)
def greedy_loss():
    """the rate of every budget K ≤ E(D)/E(k + 1) times that of the greedy one, k, for any time that rises with K.

    R(K) = E(K)/T(K) rises up to k. For K > k, T(K) ≥ T(k + 1) ≥ T(k) E(k + 1)/E(k), since R(k + 1) ≤ R(k). So R(K) ≤
    R(k) E(K)/E(k + 1), and E(K) ≤ E(D). Attained if R(k + 1) = R(k) and all further drafts are free. Survival falls,
    so the factor is at most (D + 1)/(k + 2). Drafts of several requests, sorted by survival, have their number as E(0).
    """

    def bound(values):
        tokens, rates, stop = _budget(values)
        return float(rates[stop] * tokens[-1] / tokens[min(stop + 1, len(tokens) - 1)])

    return le(side(lambda values: max(_budget(values)[1]), *STEP), side(bound, *STEP))


@theorem(
    "draft_length.light_horizon",
    LIGHT,
    NEW,
    tight={"targets": [[1.0 - 2.0**-20, 2.0**-20]], "draft_count": 1},
    ratio=1.0 - 2.0**-20,
)
def light_horizon(targets, draft_count):
    """E[accepted of any P drafts, a chain or a tree] ≤ 1 + E[number of prefixes of the text with p(prefix) ≥ 1/P].

    Drafts are prefixes, accepted if the target's text begins so: E[accepted] is the sum of their probabilities, at most
    that of the P likeliest. Those with p ≥ 1/P are in the sum over all such prefixes, which is the mean number that a
    text has; the others, P at most, have less than 1/P each.
    """
    xp, _, rows = distributions(targets=targets)
    count = DOMAINS["draft_count"].check(xp, "draft_count", arrays(targets=targets, draft_count=draft_count)[2])
    prefixes = xp.concat(text_laws(xp, rows)[1:], axis=-1)
    limit = xp.astype(count, rows.dtype)[..., None]
    likeliest = xp.flip(xp.sort(prefixes, axis=-1), axis=-1)
    kept = xp.cumulative_sum(xp.ones_like(likeliest), axis=-1) <= limit
    many = xp.where(prefixes * limit >= 1.0, prefixes, 0.0)
    return le(xp.sum(xp.where(kept, likeliest, 0.0), axis=-1), 1.0 + xp.sum(many, axis=-1))


def _likeliest(values):
    """Return the sum of the P likeliest prefixes of independent tokens of one distribution."""
    count = int(values["draft_count"])
    row = np.sort(values["target"])[::-1][:count]
    waiting, total = [(-row[0], 1.0, 0)], 0.0
    for _ in range(count):
        if not waiting:
            break
        mass, parent, rank = heapq.heappop(waiting)
        total -= mass
        heapq.heappush(waiting, (mass * row[0], -mass, 0))
        if rank + 1 < len(row):
            heapq.heappush(waiting, (-parent * row[rank + 1], parent, rank + 1))
    return float(total)


@theorem(
    "draft_length.light_entropy",
    LIGHT,
    NEW,
    tight={"target": [0.5, 0.5], "draft_count": 62},
    ratio=5.0 / (np.log2(62.0) + 1.0),
)
def light_entropy():
    """E[accepted of any P drafts] ≤ log P/μ + μ₂/μ², μ = Σ p log 1/p, μ₂ = Σ p log² 1/p, if all rows have p's values.

    By light_horizon with b = log P it is at most E[N], N the first n whose surprisal S_n exceeds b, a sum of
    independent X ≥ 0 with the moments μ, μ₂. By Wald μ E[N] = b + r(b), r(b) the mean excess S_N - b. r(b) ≤ μ₂/μ
    (Lorden): to pass a + b takes at most the terms to pass a and, from there, those to pass b, so r(a + b) ≤ r(a) +
    r(b). The area under the excess up to b is half of Σ X² over the N terms less (S_N - b)². So b r(b) ≤ 2 ∫ r ≤ μ₂
    E[N] - r(b)² = (μ₂/μ)(b + r(b)) - r(b)², that is r(b)(b + r(b)) ≤ (μ₂/μ)(b + r(b)).
    """

    def bound(values):
        row = values["target"][values["target"] > 0]
        surprisal = np.maximum(-np.log(row), 0.0)
        mean, second = float(row @ surprisal), float(row @ surprisal**2)
        return (float(np.log(values["draft_count"])) + second / mean) / mean if mean else np.inf

    return le(side(_likeliest, "target", "draft_count"), side(bound, "target", "draft_count"))


def _menus(values):
    """Return the shares that K = 0, 1, ... drafts of each user need to arrive in the window, and its tokens."""
    menus = []
    for rate, draft_s, send_s in zip(*(values[name] for name in USERS), strict=True):
        lengths = np.arange(MOST + 1)
        left = values["window_s"] - lengths * draft_s
        shares = np.where(left > 0, lengths * send_s / np.where(left > 0, left, 1.0), np.inf)
        fits = shares <= 1.0
        menus.append((shares[fits], 1.0 + np.concatenate([[0.0], np.cumsum(rate ** lengths[1:])])[fits]))
    return menus


def _best_plan(values):
    shares, tokens = (reduce(np.add.outer, parts) for parts in zip(*_menus(values), strict=True))
    return float(tokens[shares <= 1.0].max())


def _greedy_plan(values):
    """Return the tokens of the greedy plan, the share that it leaves, and tokens a share of the draft that is next."""
    menus = _menus(values)
    costs, gains = (np.concatenate([np.diff(menu[part]) for menu in menus]) for part in (0, 1))
    order = np.argsort(-gains / costs, kind="stable")
    taken = int(np.sum(np.cumsum(costs[order]) <= 1.0))
    value = len(menus) + gains[order[:taken]].sum()
    price = 0.0 if taken == len(order) else gains[order[taken]] / costs[order[taken]]
    return float(value), 1.0 - float(costs[order[:taken]].sum()), float(price)


@theorem(
    "policy.spin_whole",
    SPIN,
    IMPLIED,
    false={"user_acceptances": [0.9, 0.8], "draft_each_s": [1.0, 1.0], "send_each_s": [0.6, 0.5], "window_s": 2.0},
)
def spin_whole():
    """tokens of any whole draft lengths that arrive in a round ≤ those of drafts added by tokens a share.

    False: see the counterexample. Each user can send one draft, of .6 and .5 of the band. By tokens a share the second
    goes first, .8/.5 > .9/.6, and then the first does not fit. The optimum for real lengths is not whole.
    Instead: policy.spin_loss.
    """
    return le(side(_best_plan, *ROUND), side(lambda values: _greedy_plan(values)[0], *ROUND))


@theorem(
    "policy.spin_loss",
    SPIN,
    NEW,
    tight={"user_acceptances": [0.5], "draft_each_s": [1.0], "send_each_s": [1.0], "window_s": 2.0},
)
def spin_loss():
    """tokens of any whole lengths ≤ those of drafts added by tokens a share, g, plus (1 − Σ w) times the next one's.

    User i needs the share w = K c/(W - K t) for K drafts, which is convex in K, and E(K) = Σ_{j≤K} α^j is concave. So
    its drafts come in order, and at the price ν of the first draft that does not fit the greedy K maximises E - ν w for
    each user: any plan has Σ E ≤ Σ (E - ν w)(greedy) + ν Σ w ≤ g + ν (1 - Σ w(greedy)). So shares reward acceptance. A
    common length fixes Σ E, and the best shares then are those that end all uploads together, whatever α.
    """

    def bound(values):
        value, left, price = _greedy_plan(values)
        return value + left * price

    return le(side(_best_plan, *ROUND), side(bound, *ROUND))


@theorem("verification.liar", LIE, NEW, tight={"target": [0.75, 0.25]}, ceiling=1.0)
def liar(target):
    """TV(law, p) = 1 − min_{p_v > 0} p_v if the device sends that v and states a q with q_v = p_v: each draft is kept.

    β_v = (1 - p_v/q_v)⁺ = 0, so v is always emitted. No law on the target's tokens is farther from p: Σ (law - p)⁺ ≤ Σ
    law_v (1 - p_v). So rejection sampling trusts the device with the whole law, within the target's support. What the
    server can hold against it is the stated q: v comes with probability 1 where q says p_v, and a bet on v
    grows by 1/p_v a draft. Where the server draws the token itself, by match or a shared seed, the law is p whatever is
    sent (shared_seed.invariant), and a lie costs the device its own acceptance.
    """
    xp, _, p = distributions(target=target)
    possible = xp.where(p > 0, p, 2.0)
    least, places = xp.min(possible, axis=-1), xp.cumulative_sum(xp.ones_like(p), axis=-1) - 1.0
    at = lambda index: xp.astype(places == xp.astype(index, p.dtype)[..., None], p.dtype)  # noqa: E731
    sent = at(xp.argmin(possible, axis=-1))
    top = at(xp.argmax(p - 2.0 * sent, axis=-1))
    stated = sent * least[..., None] + top * (1.0 - least)[..., None]
    return eq(bias(p, stated, sent), 1.0 - least)
