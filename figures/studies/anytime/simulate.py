"""Count how often certificates that hold at any time fail, and how soon a certificate comes.

The audit: at each token the draft is skipped, audited and lost with probability π μ_t/(mean β of such a token). Between
two such tokens the wealth of every bet grows and the bound falls, so a run is its losses and the gaps between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import given, read, store
from hlmtheory.skipping.audit import BETS, fewest_tokens_to_certify
from validation.plots.common.record import plain
from validation.plots.ours.anytime import STORED

Row = NDArray[np.float64]

RUNS = 10_000
ERROR = 0.05
RISK = 0.02  # ε
TRUTH = 0.004  # risk of a system that is well below ε
RATES = (0.05, 0.1, 0.2)  # π
TOKENS = 100_000  # of a run
PERIOD = 5_000  # tokens for which a drifting risk is 2ε, and then 0
PART = 500  # runs at a time


@dataclass(frozen=True, slots=True)
class Audit:
    """A system and its audit: the audit probability π, and the mean risk of a token."""

    rate: float
    mean: float
    drifting: bool = False
    spread: bool = False

    def losses(self, rng: np.random.Generator, runs: int, tokens: int) -> tuple[NDArray[np.int64], Row]:
        """Return the tokens with a loss, rising along a run and then beyond its end, and their β: (runs, losses)."""
        chance = self.rate * self.mean * (2.0 if self.spread else 1.0) * (2.0 if self.drifting else 1.0)
        most = chance * tokens
        count = int(most + 8.0 * np.sqrt(most) + 12.0)
        at = np.cumsum(rng.geometric(chance, (runs, count)), axis=-1)
        if self.drifting:  # count the tokens of the periods with a risk alone
            at = at + (at - 1) // PERIOD * PERIOD
        beta = rng.random(at.shape) if self.spread else np.ones(at.shape)
        return at, beta

    def summed(self, at: NDArray[np.int64]) -> Row:
        if not self.drifting:
            return np.asarray(self.mean * at)
        whole, part = np.divmod(at, 2 * PERIOD)
        return 2.0 * self.mean * (whole * PERIOD + np.minimum(part, PERIOD))


def segments(
    audit: Audit, rng: np.random.Generator, runs: int, tokens: int, logarithms: Callable[[Row], Row]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Row]:
    """Return the first and the last token before each further loss, and the summed logarithms of the losses so far."""
    at, beta = audit.losses(rng, runs, tokens)
    edge = np.minimum(at, tokens + 1)
    start = np.concatenate([np.ones((runs, 1), dtype=np.int64), edge], axis=-1)
    last = np.concatenate([edge - 1, np.full((runs, 1), tokens)], axis=-1)
    lost = np.cumsum(logarithms(beta[..., None]), axis=-2)
    return start, last, np.concatenate([np.zeros((runs, 1, lost.shape[-1])), lost], axis=-2)


def first_certificates(audit: Audit, rng: np.random.Generator, runs: int, tokens: int) -> Row:
    """Return the first token after which the risk RISK is certified, or infinity if it never is; shape (runs,)."""
    shares, level = np.asarray(BETS), audit.rate * RISK
    gain = np.log1p(shares * level / (1.0 - level))
    start, last, lost = segments(
        audit, rng, runs, tokens, lambda beta: np.log1p(-shares * (beta - level) / (1.0 - level)) - gain
    )

    def wealth(at: NDArray[np.int64], sums: Row) -> Row:
        return _mixed(sums + gain * at[..., None])

    crossed = (wealth(last, lost) >= -np.log(ERROR)) & (start <= last)
    which = np.argmax(crossed, axis=-1)[:, None]
    low, high = (np.take_along_axis(one, which, axis=-1)[:, 0] for one in (start, last))
    sums = np.take_along_axis(lost, which[..., None], axis=-2)[:, 0]
    while (low < high).any():
        middle = (low + high) // 2
        enough = wealth(middle, sums) >= -np.log(ERROR)
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return np.where(crossed.any(axis=-1), low, np.inf)


def bound_fails(audit: Audit, rng: np.random.Generator, runs: int, tokens: int) -> NDArray[np.bool_]:
    """Return whether the mean risk of the tokens so far is ever above its bound; shape (runs,)."""
    shares = np.asarray(BETS)
    start, last, lost = segments(audit, rng, runs, tokens, lambda beta: np.log1p(-shares * beta))
    evidence = _mixed(lost + shares * (audit.rate * audit.summed(last))[..., None])
    return np.asarray(((evidence > -np.log(ERROR)) & (start <= last)).any(axis=-1))


def _mixed(logarithms: Row) -> Row:
    top = logarithms.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logarithms - top).mean(axis=-1)))


def share(failed: NDArray[np.bool_]) -> dict[str, Any]:
    """Return how often something failed, with a 95% interval by Clopper and Pearson."""
    from scipy.special import betaincinv

    count, runs = int(failed.sum()), len(failed)
    low = 0.0 if count == 0 else float(betaincinv(count, runs - count + 1, 0.025))
    high = 1.0 if count == runs else float(betaincinv(count + 1, runs - count, 0.975))
    return {
        "runs": runs,
        "failed": count,
        "share": plain(count / runs, 4),
        "low": plain(low, 4),
        "high": plain(high, 4),
    }


def in_parts(runs: int, simulate: Callable[[int], Any]) -> Any:
    """Return the results of parts of the runs, one after the other."""
    sizes = [min(PART, runs - begun) for begun in range(0, runs, PART)]
    return np.concatenate([simulate(size) for size in sizes])


FALSE = {
    "constant risk ε, β 0 or 1": {},
    "constant risk ε, β spread": {"spread": True},
    "risk 2ε and 0 in turn, β 0 or 1": {"drifting": True},
}
"""Systems whose mean risk is never below ε, so that every certificate is false."""


def result(seed: int, runs: int, tokens: int = TOKENS) -> dict[str, Any]:
    """Return all simulations, as ``anytime.json`` holds them."""
    false, bounds, needed = [], [], []
    for number, (name, changes) in enumerate(FALSE.items()):
        for rate in RATES:
            audit = Audit(rate, RISK, **changes)
            rng = np.random.default_rng([seed, 0, number, round(100 * rate)])
            first = in_parts(runs, partial(first_certificates, audit, rng, tokens=tokens))
            false.append({"system": name, "audit_probability": rate, **share(np.isfinite(first))})
            rng = np.random.default_rng([seed, 1, number, round(100 * rate)])
            failed = in_parts(runs, partial(bound_fails, audit, rng, tokens=tokens))
            bounds.append({"system": name, "audit_probability": rate, **share(failed)})
    for rate in RATES:
        rng = np.random.default_rng([seed, 2, round(100 * rate)])
        audit = Audit(rate, TRUTH)
        first = in_parts(runs, partial(first_certificates, audit, rng, tokens=tokens))
        tenth, median, ninth = np.quantile(first, [0.1, 0.5, 0.9], method="higher")
        needed.append(
            {
                "audit_probability": rate,
                "runs": runs,
                "never": int(np.isinf(first).sum()),
                "tenth": int(tenth),
                "median": int(median),
                "ninth": int(ninth),
                "fewest": int(np.ceil(float(fewest_tokens_to_certify(rate, RISK, ERROR)))),
            }
        )
    return {
        "seed": seed,
        "error": ERROR,
        "risk": RISK,
        "truth": TRUTH,
        "tokens": tokens,
        "false_certificates": false,
        "bounds": bounds,
        "tokens_to_certify": needed,
    }


def main() -> None:
    """Simulate, and write the result to the file that the table reads."""
    asked = given(__doc__, seed=1, runs=RUNS)
    store(STORED, read(STORED) | result(asked.seed, asked.runs))  # the intervals stay


if __name__ == "__main__":
    main()
