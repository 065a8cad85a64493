"""The fastest mixture of all plans of few rows by one linear program, which shares nothing with the planner.

A mode is a draft length and a set of skipped rows. Its variables are how often a second such rounds occur, and how
often each row is sent with each message at each place. All candidates are given, not the corners of hulls.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.optimize import linprog

from hlmtheory.policy import StageCosts, lower_hulls, plan_user


@dataclass(frozen=True)
class Case:
    """One user: candidates (N, J), β̂ and weights (N,), α (K,), limits and switches."""

    bits: np.ndarray
    risk: np.ndarray
    rejection: np.ndarray
    weight: np.ndarray
    acceptances: np.ndarray
    costs: StageCosts
    risk_limit: float
    lengths: tuple[int, ...]
    skipping: bool
    bonus: bool

    def over(self, share: float):
        return replace(self, costs=replace(self.costs, seconds_per_bit=self.costs.seconds_per_bit / share))

    def arguments(self):
        names = ("costs", "acceptances", "rejection", "weight", "risk_limit", "skipping", "bonus")
        given = {name: getattr(self, name) for name in names}
        return {"hulls": lower_hulls(self.bits, self.risk), "draft_lengths": self.lengths, **given}

    def planned(self):
        try:
            return plan_user(**self.arguments())
        except ValueError as error:
            return error


def draw(rng: np.random.Generator) -> Case:
    rows, messages, most = (int(n) for n in rng.integers(1, (4, 4, 5)))
    risk = (
        rng.choice([0.0, 0.0625, 0.25], (rows, messages)) if rng.random() < 0.5 else rng.beta(0.5, 2, (rows, messages))
    )
    costs = StageCosts(
        *np.exp(rng.uniform(-7.0, -1.0, 2)),
        np.exp(rng.uniform(-15.0, -7.0)),
        round_trip_s=float(rng.choice([0.0, 0.05])),
        header_bits=float(rng.choice([0.0, 30.0])),
        token_bits=float(rng.choice([0.0, 8.0])),
    )
    lengths = tuple(n for n in range(most + 1) if rng.random() < 0.6) or (most,)
    return Case(
        bits=np.floor(np.exp(rng.uniform(2.0, 10.0, (rows, messages)))),
        risk=risk,
        rejection=rng.beta(0.5, 1.5, rows),
        weight=rng.dirichlet(np.ones(rows)) + 1e-3,
        acceptances=rng.uniform(0.2, 1.0, most),
        costs=costs,
        risk_limit=float(np.exp(rng.uniform(-6.0, -1.0))),
        lengths=lengths,
        skipping=bool(rng.random() < 0.5),
        bonus=bool(rng.random() < 0.8),
    )


def fastest(case: Case, *, charged: bool) -> float | None:
    """Return the most tokens a second of mixtures within the limits; None if none keeps them.

    With ``charged`` a skipped row pays for its message as well as for its β̂; a mode without sent rows never does.
    """
    w, c, s = case.weight / case.weight.sum(), case.costs, case.costs.seconds_per_bit
    rows = len(case.bits)
    tokens, seconds, risk, equal = [], [], [], []  # of each variable; rows of A x = 0

    def variable(token, second, lost):
        for column, value in zip((tokens, seconds, risk), (token, second, lost), strict=True):
            column.append(value)
        return len(tokens) - 1

    def sent(mode, amount, bit_share, risk_share, row):
        """A row's messages at a place: together as often as the mode times ``amount``."""
        own = []
        for bits, lost in zip(case.bits[row], case.risk[row], strict=True):
            own.append(variable(0.0, bit_share * s * bits, risk_share * lost))
        equal.append({mode: -amount, **dict.fromkeys(own, 1.0)})

    for k in case.lengths:
        sets = product((False, True), repeat=rows) if case.skipping and k else [(False,) * rows]
        for skip in sets:
            kept = sum(w[n] * (1.0 - case.rejection[n]) for n in range(rows) if not skip[n])
            share = sum(w[n] for n in range(rows) if not skip[n])
            reach = [kept * float(np.prod(case.acceptances[1:i])) for i in range(1, k + 1)]  # of places 2 to K + 1
            plain = c.header_bits + k * c.token_bits
            mode = variable(
                1.0 + sum(reach if case.bonus else reach[:-1]),
                (1.0 - share) * c.draft_s + share * (c.fixed_time(k) + s * plain),
                sum(w[n] * case.rejection[n] for n in range(rows) if skip[n]),
            )
            for n in range(rows) if k else ():
                if not skip[n]:
                    sent(mode, w[n], 1.0, 1.0, n)
                elif charged and share > 0:
                    sent(mode, w[n], 0.0, 1.0, n)
                for i in range(k - 1) if share > 0 else ():
                    sent(mode, w[n] * share, 1.0, reach[i] / share, n)
    table = np.zeros((len(equal), len(tokens)))
    for n, row in enumerate(equal):
        for place, value in row.items():
            table[n, place] = value
    found = linprog(
        -np.asarray(tokens),
        A_ub=[np.asarray(risk) - case.risk_limit * np.asarray(tokens)],
        b_ub=[0.0],
        A_eq=np.vstack([table, seconds]),
        b_eq=[*np.zeros(len(equal)), 1.0],
    )
    return -found.fun if found.status == 0 else None


def compare(case: Case) -> dict[str, float] | None:
    """Return the bound, the plan, and the best mixtures with both charges; None if nothing keeps the limits."""
    plan, most, best = case.planned(), fastest(case, charged=False), fastest(case, charged=True)
    if isinstance(plan, ValueError):
        return None if best is None else {"refused": best}
    return {"bound": plan.upper_bound, "rate": plan.rate, "most": most or 0.0, "best": best or 0.0}
