"""How often intervals of acceptance by depth hold for engines that choose the draft length from past outcomes.

    PYTHONPATH=. python3 figures/studies/acceptance_by_depth/adaptive_engines.py --engines 10000

Run by hand; prints one JSON object. Five kinds of engine, all with the same drafts: the draft at depth d is accepted
with probability α_d, given that those before it were. A share is that of the engines whose 95% interval covers α_d, at
the depth where it is smallest. "checkpoints" looks once, after that many rounds; "ever" looks after each of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import bdtr, betaln

from hlmtheory.draft_length import acceptance_by_depth

DEPTH = 3
CONFIDENCE = 0.95
CHECKPOINTS = (50, 200, 1000)
BUDGET, EARNED = 30.0, 1.6  # drafts at the start, and for each accepted one

Row = np.ndarray[Any, Any]
Rule = Callable[[Row, Row, Row, Row], Row]
"""The draft lengths of the next round from examined and accepted drafts (engines, K), the last lengths and accepted."""


def fixed(examined: Row, accepted: Row, length: Row, last: Row) -> Row:
    """Return the longest length."""
    return np.full(len(last), DEPTH)


def by_rates(examined: Row, accepted: Row, length: Row, last: Row) -> Row:
    """Return the length with the most tokens per time by past rates; a draft takes 0.3 of a verification."""
    rates = (accepted + 0.5) / (examined + 1.0)
    tokens = 1.0 + np.cumsum(np.cumprod(rates, axis=-1), axis=-1)
    return 1 + np.argmax(tokens / (1.0 + 0.3 * np.arange(1, DEPTH + 1)), axis=-1)


def stop_when_low(examined: Row, accepted: Row, length: Row, last: Row) -> Row:
    """Return the lengths up to the first depth from 2 on whose upper Clopper-Pearson limit is below 1/2."""
    low = bdtr(accepted, examined, 0.5) < 0.5 * (1.0 - CONFIDENCE)  # the limit is below 1/2 just then
    low[:, 0] = False
    return np.where(low.any(axis=-1), np.argmax(low, axis=-1), DEPTH)


def by_streaks(examined: Row, accepted: Row, length: Row, last: Row) -> Row:
    """Return one more draft after a round that accepted all, and one after a rejection at the first place."""
    return np.where(last == length, np.minimum(length + 1, DEPTH), np.where(last == 0, 1, length))


def by_budget(examined: Row, accepted: Row, length: Row, last: Row) -> Row:
    """Return what is left of a budget of drafts that accepted drafts refill."""
    left = BUDGET - examined.sum(axis=-1) + EARNED * accepted.sum(axis=-1)
    return np.clip(left, 0, DEPTH).astype(np.int64)


RULES: dict[str, Rule] = {
    "fixed K": fixed,
    "K from past rates": by_rates,
    "stops a depth when its upper limit is below 1/2": stop_when_low,
    "starts and stops by streaks": by_streaks,
    "spends a budget that accepted drafts refill": by_budget,
}


def counts_of(examined: Row, accepted: Row) -> Row:
    """Return tables n[k][i] with these r_d and a_d; only they enter an estimate."""
    table = np.zeros((len(examined), DEPTH + 1, DEPTH + 1), dtype=np.int64)
    for d in range(DEPTH):
        table[:, DEPTH, d] += examined[:, d] - accepted[:, d]
        table[:, d + 1, d + 1] += accepted[:, d] - (examined[:, d + 1] if d + 1 < DEPTH else 0)
    return table


def covered(examined: Row, accepted: Row, truth: Row, method: str) -> Row:
    """Return whether each depth's interval holds, by the library."""
    found = acceptance_by_depth(counts_of(examined, accepted), confidence=CONFIDENCE, method=method)
    return np.asarray((found.low <= truth) & (truth <= found.high))


def inside(examined: Row, accepted: Row, truth: Row) -> Row:
    """Return whether (r + 1) P(Binomial(r, α) = a) > δ at each depth: the anytime interval, by its definition."""
    choose = -betaln(accepted + 1.0, examined - accepted + 1.0)  # of (r + 1) times the binomial coefficient
    log = choose + accepted * np.log(truth) + (examined - accepted) * np.log1p(-truth)
    return np.asarray(log > np.log(1.0 - CONFIDENCE))


def simulate(rule: Rule, engines: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the share of engines whose intervals hold."""
    truth = rng.uniform(0.05, 0.95, (engines, DEPTH))
    truth[:, 1] = 0.5  # where a rule that compares with 1/2 is hardest
    examined, accepted = np.zeros((2, engines, DEPTH), dtype=np.int64)
    length, last = np.ones((2, engines), dtype=np.int64)
    always = np.ones((engines, DEPTH), dtype=bool)
    shares: dict[str, dict[str, float]] = {"exact": {}, "anytime": {}}
    for number in range(1, CHECKPOINTS[-1] + 1):
        length = rule(examined, accepted, length, last)
        passed = np.cumprod(rng.random((engines, DEPTH)) < truth, axis=-1).sum(axis=-1)
        last = np.minimum(passed, length)
        depth = np.arange(DEPTH)
        examined += depth < np.minimum(last + 1, length)[:, None]
        accepted += depth < last[:, None]
        holds = inside(examined, accepted, truth)
        always &= holds
        if number in CHECKPOINTS:
            for method, found in shares.items():
                found[str(number)] = float(covered(examined, accepted, truth, method).mean(axis=0).min())
            if (covered(examined, accepted, truth, "anytime") < holds).any():
                raise AssertionError("the library's interval is narrower than its definition")
    return {"checkpoints": shares, "ever": {"anytime": float(always.mean(axis=0).min())}, "engines": engines}


def main() -> None:
    """Simulate all kinds and print what they give."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=10_000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    found = {name: simulate(rule, given.engines // len(RULES), rng) for name, rule in RULES.items()}
    print(json.dumps({"confidence": CONFIDENCE, "kinds": found}, indent=1))


if __name__ == "__main__":
    main()
