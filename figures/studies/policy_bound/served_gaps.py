"""The plan of users of one band and one server beside all plans, on small instances: upper bound ≥ best ≥ plan."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import SHELF, given, store
from hlmtheory.policy import BandUser, SharedServer, StageCosts, lower_hulls, plan_served
from hlmtheory.policy.capacity import server_rates

Row = NDArray[np.float64]
CELLS = {1: 1, 2: 400, 3: 60}
DRAWN = 2000
UTILITIES = ("linear", "log")


def draw(rng: np.random.Generator) -> tuple[list[BandUser], SharedServer]:
    """Return users of one server, of whom three in ten instances are all alike."""
    count = int(rng.integers(1, 4))
    server = SharedServer(
        float(np.exp(rng.uniform(-4.5, -1.0))), float(rng.choice([0.0, 0.002])), int(rng.integers(1, 4))
    )
    users = []
    for _ in range(count):
        bits = np.exp(rng.uniform(3.0, 10.0, (1, 1)))
        costs = StageCosts(
            draft_s=float(np.exp(rng.uniform(-6.0, -2.0))),
            verify_s=server.pass_s,
            seconds_per_bit=float(np.exp(rng.uniform(-17.0, -9.0))),
            round_trip_s=float(rng.choice([0.0, 0.02, 0.1])),
            verify_token_s=server.token_s,
            header_bits=float(rng.choice([0, 32])),
        )
        alpha = rng.uniform(0.2, 0.97, int(rng.integers(1, 6)))
        weight = float(rng.choice([0.5, 1.0, 2.0]))
        users.append(BandUser(lower_hulls(bits, np.zeros((1, 1))), costs, alpha, skipping=False, utility_weight=weight))
    return (users[:1] * count if rng.random() < 0.3 else users), server


def options(user: BandUser, server: SharedServer) -> Row:
    """Return tokens, seconds without air time, air time on the whole band, and seconds of the server for a token."""
    found = []
    for k in range(len(user.acceptances) + 1):
        tokens = 1.0 + float(np.cumprod(user.acceptances[:k]).sum())
        air = (k * float(user.hulls.bits.mean()) + user.costs.header_bits) * user.costs.seconds_per_bit
        found.append((tokens, user.costs.fixed_time(k), air, server.load_s(k) / tokens))
    return np.asarray(found)


def best(users: list[BandUser], server: SharedServer, utility: str, near: Row) -> float:
    """Return the largest utility of all draft lengths, with the shares that are tried."""
    count, cells = len(users), CELLS[len(users)]
    grid = np.asarray([one for one in itertools.product(range(cells + 1), repeat=count) if sum(one) == cells]) / cells
    uneven = np.random.default_rng(0).dirichlet(np.full(count, 0.3), DRAWN)
    shares = np.maximum(np.concatenate([grid, uneven, near[None]]), 1e-9)
    shares /= shares.sum(axis=1, keepdims=True)
    weights = np.asarray([one.utility_weight for one in users])
    most = -math.inf
    for chosen in itertools.product(*(options(one, server) for one in users)):
        tokens, fixed, air, load = np.asarray(chosen).T
        free = tokens / (fixed + air / shares)
        rates = np.asarray(server_rates(free, np.broadcast_to(load, free.shape), weights, utility=utility))
        with np.errstate(divide="ignore"):
            most = max(most, float(((np.log(rates) if utility == "log" else rates) @ weights).max()))
    return most


def compare(seed: int, utility: str) -> dict[str, Any]:
    """Return upper bound, best and plan of one instance; "log" as the geometric mean of the rates."""
    users, server = draw(np.random.default_rng(seed))
    plan = plan_served(users, server, utility=utility)
    values = np.asarray([plan.upper_bound, max(best(users, server, utility, plan.shares), plan.value), plan.value])
    if utility == "log":
        values = np.exp(values / sum(one.utility_weight for one in users))
    named = dict(zip(("upper_bound", "best", "plan"), values.tolist(), strict=True))
    return {"seed": seed, "utility": utility, "users": len(users), "wanted": plan.wanted} | named


def spread(values: list[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the largest."""
    return {
        "median": float(np.median(values)),
        "p95": float(np.quantile(values, 0.95)),
        "largest": float(np.max(values)),
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how far the bound is above the plan, above the best, and the best above the plan."""
    pairs = {"gap": ("upper_bound", "plan"), "bound_above_best": ("upper_bound", "best"), "loss": ("best", "plan")}
    parts: dict[str, Any] = {
        name: spread([one[over] / one[under] - 1.0 for one in found]) for name, (over, under) in pairs.items()
    }
    below = sum(one["upper_bound"] < one["best"] * (1.0 - 1e-9) for one in found)
    return {"instances": len(found), "bound_below_best": int(below)} | parts


def main() -> None:
    """Compare, and store the numbers."""
    asked = given(__doc__, instances=200)
    found = [compare(seed, UTILITIES[seed % 2]) for seed in range(asked.instances)]
    parts = {utility: summary([one for one in found if one["utility"] == utility]) for utility in UTILITIES}
    store(SHELF / "policy_bound" / "served_gaps.json", parts | {"each": found})


if __name__ == "__main__":
    main()
