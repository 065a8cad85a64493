"""The plan of users of one band beside all plans of one part, on small instances: upper bound ≥ best."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import SHELF, given, store
from hlmtheory.policy import BandUser, StageCosts, lower_hulls, plan_users, throughput_shares

Row = NDArray[np.float64]

ROWS, VOCABULARY, LONGEST = 6, 12, 6
SIZES, WIDTHS = (1, 3, 7), (3, 8)
CELLS = 20
FINE = np.arange(1, 2001) / 2000
UTILITIES = ("linear", "log")


@dataclass(frozen=True)
class User:
    """One user of an instance: messages and rejection of each row, acceptances by depth, the most risk of a token."""

    bits: Row
    risk: Row
    rejection: Row
    acceptances: Row
    costs: StageCosts
    limit: float
    weight: float


def messages(draft: Row) -> tuple[Row, Row]:
    """Bits and TV(q, q̂) of the k largest entries at b bits each, the rest spread evenly."""
    order = np.argsort(-draft)
    bits, risk = [], []
    for size, width in product(SIZES, WIDTHS):
        levels = 2**width - 1
        known = np.zeros(VOCABULARY)
        known[order[:size]] = np.floor(draft[order[:size]] * levels) / levels
        known[order[size:]] = (1.0 - known.sum()) / (VOCABULARY - size)
        bits.append(float(size * (width + 4)))
        risk.append(0.5 * float(np.abs(draft - known).sum()))
    return np.asarray(bits), np.asarray(risk)


def draw(rng: np.random.Generator) -> list[User]:
    """Users with drawn rows, times and limits."""
    users = []
    for _ in range(int(rng.integers(1, 4))):
        draft = rng.dirichlet(np.full(VOCABULARY, float(rng.choice([0.1, 0.4, 1.5]))), ROWS)
        target = 0.8 * draft + 0.2 * rng.dirichlet(np.full(VOCABULARY, 0.5), ROWS)
        bits, risk = (np.stack(part) for part in zip(*map(messages, draft), strict=True))
        rejection = 0.5 * np.abs(draft - target).sum(axis=1) * float(rng.uniform(0.3, 2.5))
        costs = StageCosts(
            draft_s=float(np.exp(rng.uniform(-5.5, -4.0))),
            verify_s=float(np.exp(rng.uniform(-4.0, -2.5))),
            seconds_per_bit=float(np.exp(rng.uniform(-11.0, -6.5))),
            round_trip_s=float(rng.choice([0.0, 0.01, 0.05])),
            verify_token_s=float(rng.choice([0.0, 0.001])),
            header_bits=float(rng.choice([0, 32])),
            token_bits=4.0,
        )
        acceptances = np.sort(rng.uniform(0.3, 0.98, LONGEST))[::-1]
        limit = float(np.quantile(risk, rng.uniform(0.05, 0.9)))
        users.append(User(bits, risk, rejection, acceptances, costs, limit, float(rng.choice([0.5, 1.0, 2.0]))))
    return users


def front(bits: Row, risk: Row) -> tuple[Row, Row]:
    """The pairs that no other pair has fewer bits and less risk than, by rising bits."""
    order = np.lexsort((risk, bits))
    bits, risk = bits[order], risk[order]
    better = np.concatenate(([True], risk[1:] < np.minimum.accumulate(risk)[:-1]))
    return bits[better], risk[better]


def sums(bits: Row, risk: Row) -> tuple[Row, Row]:
    """The front of the sums over rows, one message for each row: all combinations."""
    total = np.zeros(1), np.zeros(1)
    for b, r in zip(bits, risk, strict=True):
        total = front((total[0][:, None] + b).ravel(), (total[1][:, None] + r).ravel())
    return total


def options(user: User) -> Row:
    """Tokens, seconds without air time, and bits of a mean round, of the best plan for each K and each set of skips."""
    costs, found = user.costs, []
    found.append((1.0, costs.verify_s + costs.round_trip_s, costs.header_bits))
    later_bits, later_risk = (part / ROWS for part in sums(user.bits, user.risk))
    for skip in product((False, True), repeat=ROWS):
        skips = np.asarray(skip)
        sent = np.mean(~skips)
        first_bits, first_risk = (part / ROWS for part in sums(user.bits[~skips], user.risk[~skips]))
        charged = user.risk.min(axis=1) * (sent > 0)  # of a skipped row's message, where others are sent
        lost = float(np.where(skips, user.rejection + charged, 0.0).mean())
        kept = float(np.where(skips, 0.0, 1.0 - user.rejection).mean())
        for k in range(1, LONGEST + 1):
            # tokens: a skipped one; or the first place, and each further one that is reached, and the bonus
            chain = sum(float(np.prod(user.acceptances[1:place])) for place in range(1, k + 1))
            tokens = 1.0 + kept * chain
            reached = kept * sum(float(np.prod(user.acceptances[1:place])) for place in range(1, k))
            fixed = np.mean(skips) * costs.draft_s + sent * (
                k * costs.draft_s + costs.verify_s + k * costs.verify_token_s + costs.round_trip_s
            )
            room = user.limit * tokens - lost - first_risk
            if k == 1 or sent == 0:
                good, spent = room >= 0, first_bits
            else:
                # the fewest bits of later drafts whose risk fits into what is left
                place = np.searchsorted(-later_risk, -room / reached, side="left")
                good = place < len(later_bits)
                spent = first_bits + sent * (k - 1) * later_bits[np.minimum(place, len(later_bits) - 1)]
            if good.any():
                bits = float(spent[good].min()) + sent * (costs.header_bits + k * costs.token_bits)
                found.append((tokens, float(fixed), bits))
    return np.asarray(found)


def rates(table: Row, slow: float, shares: Row) -> Row:
    """Tokens a second of each option at each share, shape (shares, options)."""
    tokens, fixed, bits = table.T
    with np.errstate(divide="ignore"):
        sent = np.where(bits > 0, bits * slow / np.maximum(shares[:, None], 1e-300), 0.0)
    return np.asarray(tokens / (fixed + sent))


def utility_of(found: Row, weights: Row, utility: str) -> Row:
    """The objective from rates, over the last axis."""
    with np.errstate(divide="ignore"):
        return np.asarray((weights * (np.log(found) if utility == "log" else found)).sum(axis=-1))


def best(users: list[User], utility: str, near: Row) -> tuple[float, float]:
    """The largest utility with shares on a grid of 1/20, and with any shares."""
    weights = np.asarray([user.weight for user in users])
    tables = [options(user) for user in users]
    slow = [user.costs.seconds_per_bit for user in users]
    on_grid = [rates(t, s, np.arange(CELLS + 1) / CELLS).max(axis=1) for t, s in zip(tables, slow, strict=True)]
    parts = [part for part in product(range(CELLS + 1), repeat=len(users)) if sum(part) == CELLS]
    each = np.stack([on_grid[u][[part[u] for part in parts]] for u in range(len(users))], axis=-1)
    grid = float(utility_of(each, weights, utility).max())
    envelopes = []
    for table, s, share in zip(tables, slow, near, strict=True):
        shares = np.concatenate([FINE, [share], np.geomspace(1e-7, 1e-3, 40)])
        envelopes.append(table[np.unique(rates(table, s, shares).argmax(axis=1))])
    chosen = np.asarray(list(product(*envelopes)))  # (combinations, users, 3)
    air = np.maximum(chosen[..., 2] * np.asarray(slow), 1e-12)
    shares = throughput_shares(chosen[..., 0], chosen[..., 1], air, weights, utility=utility)
    found = chosen[..., 0] * shares / (chosen[..., 1] * shares + air)
    alone = [float(rates(t, s, np.asarray([w])).max()) for t, s, w in zip(tables, slow, near, strict=True)]
    at_near = float(utility_of(np.asarray(alone), weights, utility))
    return grid, max(grid, at_near, float(utility_of(found, weights, utility).max()))


def compare(users: list[User], utility: str) -> dict[str, Any]:
    """Upper bound, best and plan of one instance; "log" as the geometric mean of the rates."""
    plan = plan_users(
        [
            BandUser(
                lower_hulls(user.bits, user.risk),
                user.costs,
                user.acceptances,
                rejection=user.rejection,
                risk_limit=user.limit,
                utility_weight=user.weight,
            )
            for user in users
        ],
        utility=utility,
    )
    grid, exact = best(users, utility, plan.shares)
    values = np.asarray([plan.upper_bound, exact, grid, plan.value])
    if utility == "log":
        values = np.exp(values / sum(user.weight for user in users))
    kept = all(one.risk <= user.limit * (1.0 + 1e-12) for one, user in zip(plan.users, users, strict=True))
    names = ("upper_bound", "best", "best_on_grid", "plan")
    return {"users": len(users), "utility": utility, "limits_kept": kept} | dict(
        zip(names, values.tolist(), strict=True)
    )


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """How far the plan is from the best, and the bound above it."""
    loss = np.asarray([1.0 - one["plan"] / one["best"] for one in found])
    beside = np.asarray([1.0 - one["plan"] / one["best_on_grid"] for one in found])
    above = np.asarray([one["upper_bound"] / one["best"] - 1.0 for one in found])
    gap = np.asarray([one["upper_bound"] / one["plan"] - 1.0 for one in found])
    return {
        "instances": len(found),
        "limits_kept": sum(one["limits_kept"] for one in found),
        "bound_below_best": int(np.count_nonzero(above < -1e-9)),
        "plan_above_best": int(np.count_nonzero(loss < -1e-9)),
        "loss_median": float(np.median(loss)),
        "loss_p95": float(np.quantile(loss, 0.95)),
        "loss_largest": float(loss.max()),
        "loss_on_grid_median": float(np.median(beside)),
        "loss_on_grid_largest": float(beside.max()),
        "bound_above_best_median": float(np.median(above)),
        "bound_above_best_p95": float(np.quantile(above, 0.95)),
        "bound_above_best_largest": float(above.max()),
        "gap_median": float(np.median(gap)),
        "gap_p95": float(np.quantile(gap, 0.95)),
        "gap_largest": float(gap.max()),
    }


def main() -> None:
    """Compare, and store the numbers."""
    asked = given(__doc__, instances=200, seed=1)
    found = [
        compare(draw(np.random.default_rng((asked.seed, n))), UTILITIES[n % len(UTILITIES)])
        for n in range(asked.instances)
    ]
    store(SHELF / "policy_bound" / "policy_bound.json", summary(found) | {"each": found})


if __name__ == "__main__":
    main()
