"""Bounds of plans, codecs, queues and draws keep their direction, against feasible plans in fractions, and mpmath."""

import itertools
import math
from unittest.mock import patch

import numpy as np
import pytest
from mpmath import mp

from hlmtheory import codec, policy
from hlmtheory.lossless.ceiling import _of_likeliest
from hlmtheory.lossless.power import smallest_found
from hlmtheory.policy import band

from .oracles import over_its_sum
from .test_bounds_exactly import CASES, F, number, rows, unit


def wide(rng, low, high, *shape):
    """Log-uniform numbers, many of them powers of two, so that ties occur."""
    found = 10.0 ** rng.uniform(low, high, shape)
    return np.where(rng.random(shape) < 0.3, 2.0 ** np.round(np.log2(found)), found)


def ceiling(rng):
    """So few draws outside the likeliest cell have a probability of at most δ."""
    p, error = rows(rng, 1, 3), float(unit(rng, inner=True))
    n = rng.integers(0, 40, (1, 3)) + (np.arange(3) == 0)
    total, exact, error = int(n.sum()), over_its_sum(p[0]), max(error, 1e-290)
    top = max(range(3), key=lambda v: p[0, v])
    missed, x = total - int(n[0, top]), F(_of_likeliest(n * 1.0, p, error)) - (1 - exact[top])
    out, inside = number(x), number(1 - x)
    tail = sum(math.comb(total, j) * out**j * inside ** (total - j) for j in range(missed + 1)) if x < 1 else 0
    return tail <= number(error)


def smallest(rng):
    """At the returned distance the needed number of successes has the wanted probability."""
    n, tests, bets = int(rng.integers(1, 25)), int(rng.integers(1, 4)), wide(rng, -3, 3, int(rng.integers(1, 3)))
    power, event, error = *unit(rng, 2, inner=True).tolist(), float(rng.choice([0.5, 0.9, 0.01]))
    found, a = smallest_found(n, error, tests, power, event, bets), number(event)
    used = [min(number(bet), number(0.9) / a) for bet in bets.tolist()]
    wealth = [max(s * mp.log1p(u * (1 - a)) + (n - s) * mp.log1p(-u * a) for u in used) for s in range(n + 1)]
    enough = [s for s, one in enumerate(wealth) if one >= mp.log(tests * len(bets) / number(error))]
    q = F(event) + F(found)
    return found >= 1.0 - event or sum(math.comb(n, s) * q**s * (1 - q) ** (n - s) for s in enough) >= F(power)


def certificate(rng):
    """2 TV of a row and of what its written levels or counts stand for."""
    row, limit = rows(rng, 1, int(rng.integers(2, 6)))[0], float(rng.choice([1e-3, 0.05, 0.3, 1.0, 2.0]))
    menu, row = codec.CodecMenu(resolutions=(1, 2, 4, 9, 10**6)), row.astype(rng.choice(["float32", "float64"]))
    choice = codec.cheapest_codec(row, limit, menu=menu)
    (draft,) = codec.coded_message(row, choice, token=0).drafts
    units = 2**draft.bits - 1 if draft.kind == "top-k" else int(draft.values.sum()) + (draft.rest or 0)
    made = dict(zip(draft.support.tolist(), (F(int(value), units) for value in draft.values), strict=True))
    others = [v for v in range(len(row)) if v not in made] or [*range(len(row))]
    left = max(1 - sum(made.values()), F(0)) / len(others)
    made = [made.get(v, F(0)) + (left if v in others else 0) for v in range(len(row))]
    exact = sum(abs(x - y / sum(made)) for x, y in zip(over_its_sum(row), made, strict=True))
    return exact <= min(F(float(choice.bias)), F(limit))


def text(rng):
    """No choices within the budget have fewer bits than the bound, and their bias is no larger than said."""
    shape = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    bits, bias = wide(rng, -3, 9, *shape), unit(rng, *shape)
    plans = [*itertools.product(range(shape[1]), repeat=shape[0])]
    totals = [tuple(sum(F(float(one[t, j])) for t, j in enumerate(plan)) for one in (bits, bias)) for plan in plans]
    budget = math.nextafter(float(totals[rng.integers(len(totals))][1]), math.inf)
    found = codec.optimal_codecs(bits, bias, budget)
    own = sum(F(float(bias[t, j])) for t, j in enumerate(found.index.tolist()))
    fewest = min(cost for cost, loss in totals if loss <= F(budget))
    return F(found.lower_bound) <= fewest and own <= F(found.bias) <= F(budget)


def user(rng, most):
    """One user of one row, and all its plans: tokens, seconds without air, bits, risk, server's rounds, drafts."""
    bits, risk, alpha = np.round(wide(rng, 0, 6, 1, 2)), unit(rng, 1, 2), unit(rng, int(rng.integers(1, most + 1)))
    draft, verify, slow, away = (float(wide(rng, *ends)) for ends in ((-6, 0), (-6, 0), (-9, -2), (-3, 0)))
    beta, limit = unit(rng), float(rng.choice([0.0, math.inf, unit(rng), *risk[0]]))
    given = {"rejection": beta, "risk_limit": limit, "skipping": bool(rng.random() < 0.6)}
    keep, plans = 1 - F(float(beta)), [(F(1), F(verify) + F(away), F(0), F(0), 1, 0)]
    if given["skipping"]:
        plans.append((F(1), F(draft), F(0), F(float(beta)), 0, 0))
    for k in range(1, len(alpha) + 1):
        reach = [keep * math.prod(map(F, alpha[1:i].tolist()), start=F(1)) for i in range(1, k + 1)]
        for sent in itertools.product((0, 1), repeat=k):
            air = sum(F(bits[0, j]) for j in sent)
            lost = sum(x * F(risk[0, j]) for x, j in zip([1, *reach], sent, strict=False))
            plans.append((1 + sum(reach), k * F(draft) + F(verify) + F(away), air, lost, 1, k))
    costs = policy.StageCosts(draft, verify, slow, round_trip_s=away)
    return (policy.lower_hulls(bits, risk), costs, alpha), given, plans


def planned(rng):
    """One plan, or two that take turns, so that their risk is at the limit."""
    (hulls, costs, alpha), given, plans = user(rng, 2)
    limit, slow = given["risk_limit"], F(costs.seconds_per_bit)
    found = [(p[0], p[1] + slow * p[2], p[3] - F(limit) * p[0] if limit < math.inf else F(0)) for p in plans]
    pairs = [(x, y) for x in found for y in found if x[2] < 0 < y[2]]
    turns = [(y[2] * x[0] - x[2] * y[0]) / (y[2] * x[1] - x[2] * y[1]) for x, y in pairs]
    best = max([*turns, *(e / t for e, t, over in found if over <= 0)])
    bound = policy.plan_user(hulls, costs, alpha, **given).upper_bound
    return bound == math.inf or F(bound) >= best


def shared(rng, server=None):
    """Two users at shares in eighths; with a server, rates that are cut so that it serves them.

    The curves have points at powers of two, so that the bound is tight at shares of 1/2, 1/4 and 1/8 of equal users.
    """
    users, utility = [user(rng, 1) for _ in range(2)], str(rng.choice(["linear", "log"]))
    users = users[:1] * 2 if rng.random() < 0.5 else users
    weights = wide(rng, -1, 1, 2).tolist()
    given = [policy.BandUser(*a, utility_weight=w, **g) for (a, g, _), w in zip(users, weights, strict=True)]
    with patch.object(band, "_RATIO", 2.0):
        plan = (
            policy.plan_served(given, server, utility=utility) if server else policy.plan_users(given, utility=utility)
        )
    a, b, c = (F(server.pass_s), F(server.token_s), server.batch) if server else (F(0), F(0), 1)
    worth, best = (lambda x: mp.log(number(x))) if utility == "log" else number, -mp.inf

    def rates(one, share):
        (_, costs, _), g, plans = one
        good = [p for p in plans if g["risk_limit"] == math.inf or p[3] <= F(g["risk_limit"]) * p[0]]
        slow = F(costs.seconds_per_bit) / share
        return [(p[0] / (p[1] + slow * p[2]), p[4] * (a / c + b * (p[5] + 1)) / p[0]) for p in good]

    for first in (F(n, 8) for n in range(1, 8)):
        for x, y in itertools.product(rates(users[0], first), rates(users[1], 1 - first)):
            cut = max(x[0] * x[1] + y[0] * y[1], F(1))
            best = max(best, sum(w * worth(z[0] / cut) for w, z in zip(weights, (x, y), strict=True)))
    return number(plan.upper_bound) >= best


def colocated(rng):
    """Lengths that follow how many drafts would be accepted, and lengths that do not."""
    alpha, (draft, pass_s, token) = unit(rng, int(rng.integers(1, 4))), wide(rng, -6, 3, 3).tolist()
    found = policy.colocated_plan(alpha, draft, policy.SharedServer(pass_s, token))
    exact = [*map(F, alpha.tolist()), F(0)]
    chance = [math.prod(exact[:j], start=F(1)) * (1 - exact[j]) for j in range(len(exact))]
    seconds = [k * F(draft) + F(pass_s) + F(token) * (k + 1) for k in range(len(exact))]
    rates = {}
    for ks in itertools.product(range(len(exact)), repeat=len(exact)):  # ks[j] if j drafts would be accepted
        made = sum(x * (min(j, k) + 1) for j, (x, k) in enumerate(zip(chance, ks, strict=True)))
        rates[ks] = made / sum(x * seconds[k] for x, k in zip(chance, ks, strict=True))
    plain = max(rate for ks, rate in rates.items() if len(set(ks)) == 1)
    return F(found.rate) >= plain and F(found.ceiling) >= max(rates.values())


def queue(rng):
    """The bounds on the rates of users, from the responses in fractions."""
    n, batch, lengths = int(rng.integers(1, 5)), int(rng.integers(1, 4)), rng.integers(0, 4, 4)
    away, each, share = wide(rng, -6, 3, n), wide(rng, -6, 3, n), np.minimum(unit(rng, n), 0.999)
    server = policy.SharedServer(*wide(rng, -6, 3, 2).tolist(), batch)
    tokens, kept = sorted((-(lengths[:n] + 1)).tolist()), {"keep_s": each, "keep_share": share}
    found = policy.queue_rates(away, lengths[:n], server, **kept, rounds=1, rng=rng)
    z = [F(a) + F(s) * F(k) / (1 - F(k)) for a, s, k in zip(*(x.tolist() for x in (away, each, share)), strict=True)]
    again = sum(tokens) + (sum(tokens[: batch - 1]) if n > 1 else 0)
    queued = (2 + (n - 2) // batch) * F(server.pass_s) - again * F(server.token_s)
    longest = max(queued, F(server.pass_s) - sum(tokens[:batch]) * F(server.token_s))
    alone = [x + F(server.pass_s) + F(server.token_s) * (int(k) + 1) for x, k in zip(z, lengths, strict=False)]
    most = all(F(x) * y >= 1 for x, y in zip(found.most.tolist(), alone, strict=True))
    return most and all(F(x) * (y + longest) <= 1 for x, y in zip(found.least.tolist(), z, strict=True))


def with_server(rng):
    return shared(rng, policy.SharedServer(*wide(rng, -6, 0, 2).tolist(), int(rng.integers(1, 3))))


CHECKS = (ceiling, smallest, certificate, text, colocated, queue, planned, shared, with_server)


@pytest.mark.parametrize("check", CHECKS)
def test_the_direction_is_kept(check):
    """Two users take a hundred times as long as the other cases."""
    wrong, slow = [], check in (shared, with_server)
    for seed in range(CASES // 100 or 1 if slow else CASES):
        wrong += [] if check(np.random.default_rng([len(check.__name__), seed])) else [seed]
    assert not wrong
