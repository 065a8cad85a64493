"""Compute the table of what a running system can know: certificates of skipping and intervals of the acceptance rate.

The simulated rows are the stored result of an experiment, ``figures/studies/anytime``; this module simulates
nothing. The measured rows audit U-HLM along the texts of a trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import audit_bound, audit_wealth
from hlmtheory.truncation import certified_size, tail_deviation, truncate
from hlmtheory.verification import acceptance_interval, acceptance_rate, decoded_acceptance_rate
from validation.decoding.trace_drafts import Tokens, tokens_of
from validation.plots.common.record import Numbers, Table, plain, sampled
from validation.plots.common.stored import read
from validation.trace.reader import Trace, probabilities

STORED = Path(__file__).with_name("anytime.json")
"""Written by ``figures/studies/anytime/simulate.py``."""

RATES = (0.05, 0.1, 0.2)  # π
THRESHOLDS = (0.1, 0.2, 0.3)  # u_th of U-HLM
RISK, ERROR = 0.02, 0.05  # ε and δ
COINS = 100  # draws of the audits, for the same drafts
CHUNK = 10  # of these at a time
EXAMINED = (100, 1_000, 10_000)
BIAS = 0.1  # of the decoded distributions
SERVED_VALUES = 2 * 10**6  # logits of a model in the sample of decoded distributions: 488 positions at V = 4,096

Row = NDArray[np.float64]


def stored() -> dict[str, Any]:
    """Return the result of the simulations."""
    return read(STORED)


def _share(found: dict[str, Any]) -> str:
    return f"{found['share']:.2%} [{found['low']:.2%}, {found['high']:.2%}]"


def _false_table(found: dict[str, Any]) -> dict[str, Any]:
    """Return how often a certificate was false, or a bound too low."""
    rows = []
    for kind, what in (("false_certificates", "certificate"), ("bounds", "upper bound")):
        for system in dict.fromkeys(one["system"] for one in found[kind]):
            own = {one["audit_probability"]: one for one in found[kind] if one["system"] == system}
            rows.append((what, system, *(_share(own[rate]) for rate in RATES)))
    runs = found["bounds"][0]["runs"]
    title = f"Wrong at some time in {found['tokens']:,} tokens, δ = {found['error']:.0%}, {runs:,} simulated runs"
    return Table(title, ("what", "system", *(f"π = {rate:g}" for rate in RATES)), tuple(rows)).plain()


def _needed_table(found: dict[str, Any]) -> dict[str, Any]:
    """Return how many tokens a certificate takes."""
    title = f"Tokens to certify a risk of {found['risk']:g} where it is {found['truth']:g}, simulated"
    rows = tuple(
        (
            f"{one['audit_probability']:g}",
            f"{one['fewest']:,}",
            f"{one['tenth']:,}",
            f"{one['median']:,}",
            f"{one['ninth']:,}",
            f"{one['never']:,} of {one['runs']:,}",
        )
        for one in found["tokens_to_certify"]
    )
    return Table(title, ("π", "fewest without a loss", "10%", "median", "90%", "never"), rows).plain()


def _interval_table(found: dict[str, Any]) -> dict[str, Any]:
    """Return how often the intervals of the acceptance rate missed."""
    rows = []
    for rates in dict.fromkeys(one["rates"] for one in found["intervals"]):
        own = {one["form"]: _share(one) for one in found["intervals"] if one["rates"] == rates}
        rows.append((rates, f"{found['error']:.0%}", own["constant"], own["varying"]))
    for error in dict.fromkeys(one["error"] for one in found["driven"]):
        own = {one["form"]: f"{one['share']:.2%}, exact" for one in found["driven"] if one["error"] == error}
        drafts = found["driven"][0]["drafts"]
        rows.append((f"driven by the past, {drafts} drafts", f"{error:.0%}", own["constant"], own["varying"]))
    runs = found["intervals"][0]["runs"]
    title = f"Intervals that miss the mean acceptance rate at some time in {found['drafts']:,} drafts, {runs:,} runs"
    return Table(title, ("rates", "δ", "constant form", "varying form"), tuple(rows)).plain()


def _audited(tokens: Tokens, threshold: float, rate: float, seed: int) -> dict[str, Any]:
    """Audit U-HLM along the texts, with COINS draws of the audits."""
    skipped = tokens.skipped(threshold)
    rng = np.random.default_rng([seed, 7, round(100 * threshold), round(100 * rate)])
    first, bound = [], np.nan
    for _ in range(0, COINS, CHUNK):
        losses = tokens.rejection * skipped * (rng.random((CHUNK, len(skipped))) < rate)
        enough = audit_wealth(losses, rate, RISK) >= -np.log(ERROR)
        first.append(np.where(enough.any(axis=-1), 1.0 + enough.argmax(axis=-1), np.inf))
        bound = float(audit_bound(losses[0], rate, ERROR)[-1]) if np.isnan(bound) else bound
    needed = np.concatenate(first)
    median = float(np.quantile(needed, 0.5, method="higher"))
    return {
        "threshold": threshold,
        "audit_probability": rate,
        "skipped": plain(skipped.mean(), 4),
        "sent_for_audit": plain(rate * skipped.mean(), 4),
        "risk": plain((tokens.rejection * skipped).mean(), 4),
        "certified": plain(np.isfinite(needed).mean(), 4),
        "median": int(median) if np.isfinite(median) else None,
        "bound": plain(bound, 4),
    }


def _audit_table(rows: list[dict[str, Any]], tokens: int) -> dict[str, Any]:
    heads = (
        "u_th",
        "π",
        "drafts skipped without audits",
        "of all drafts sent for audits",
        "mean risk met",
        f"certified below {RISK:g}",
        "median tokens",
        "upper bound at the end, of one audit",
    )
    cells = tuple(
        (
            f"{one['threshold']:g}",
            f"{one['audit_probability']:g}",
            f"{one['skipped']:.1%}",
            f"{one['sent_for_audit']:.1%}",
            f"{one['risk']:.4f}",
            f"{one['certified']:.0%} of {COINS} audits",
            "–" if one["median"] is None else f"{one['median']:,}",
            f"{one['bound']:.4f}",
        )
        for one in rows
    )
    return Table(f"Audits of U-HLM along the {tokens:,} tokens of the texts, δ = {ERROR:.0%}", heads, cells).plain()


def _examined(tokens: Tokens, seed: int) -> list[dict[str, Any]]:
    """Examine the drafts one after the other, and return both intervals and the mean acceptance probability."""
    kept = np.random.default_rng([seed, 8]).random(len(tokens.rejection)) >= tokens.rejection
    found = []
    for count in sorted({min(size, len(kept)) for size in (*EXAMINED, len(kept))}):
        accepted = int(kept[:count].sum())
        ends = {
            form: plain(acceptance_interval(accepted, count, ERROR, form=form), 5) for form in ("constant", "varying")
        }
        found.append({"examined": count, "rate": plain(1.0 - tokens.rejection[:count].mean(), 5), **ends})
    return found


def _served(trace: Trace, seed: int) -> dict[str, Any]:
    """Return what the server knows without outcomes, at random positions with q̂ certified for BIAS."""
    low, high, exact, sizes = [], [], [], []
    for draft, target in sampled(trace, max(1, SERVED_VALUES // trace.vocabulary), seed):
        q, p = probabilities(draft), probabilities(target)
        size = np.asarray(certified_size(q, BIAS))
        deviation = np.take_along_axis(np.asarray(tail_deviation(q)), size[:, None], axis=-1)[:, 0]
        ends = decoded_acceptance_rate(p, truncate(q, size), deviation)
        low.append(np.asarray(ends.lower))
        high.append(np.asarray(ends.upper))
        exact.append(np.asarray(acceptance_rate(p, q)))
        sizes.append(size)
    rates = np.concatenate(exact)
    return {
        "positions": len(rates),
        "interval": plain([np.concatenate(part).mean() for part in (low, high)], 5),
        "rate": plain(rates.mean(), 5),
        "mean_size": plain(np.concatenate(sizes).mean(), 4),
    }


def _known_table(examined: list[dict[str, Any]], served: dict[str, Any]) -> dict[str, Any]:
    """Return the intervals of the acceptance rate on the texts."""

    def ends(interval: list[float]) -> str:
        return f"[{interval[0]:.4f}, {interval[1]:.4f}]"

    rows = [
        (f"outcomes of {one['examined']:,} drafts", ends(one["constant"]), ends(one["varying"]), f"{one['rate']:.4f}")
        for one in examined
    ]
    known = f"p and q̂ at {served['positions']:,} positions, mean k = {served['mean_size']:,.0f}"
    rows.append((known, "–", f"{ends(served['interval'])}, certain", f"{served['rate']:.4f}"))
    title = f"Mean acceptance probability on the texts, δ = {ERROR:.0%}; q̂ certified for a Bias of {BIAS:g}"
    return Table(title, ("known", "constant form", "varying form", "true mean"), tuple(rows)).plain()


def measure_table(trace: Trace, seed: int) -> Numbers:
    """Return Table VII of ours: the stored simulations, and audits and intervals along the texts of a trace."""
    tokens, found = tokens_of(trace, seed), stored()
    audits = [_audited(tokens, threshold, rate, seed) for threshold in THRESHOLDS for rate in RATES]
    examined, served = _examined(tokens, seed), _served(trace, seed)
    return {
        "tables": [
            _false_table(found),
            _needed_table(found),
            _interval_table(found),
            _audit_table(audits, len(tokens.rows)),
            _known_table(examined, served),
        ],
        "statistics": {
            "simulated": {name: value for name, value in found.items() if name not in ("command", "commit", "seconds")},
            "audits": audits,
            "examined": examined,
            "served": served,
        },
        "positions_drawn": len(tokens.rows),
    }


def message_table(numbers: Numbers) -> str:
    """Say how soon the risk is certified."""
    simulated = numbers["statistics"]["simulated"]
    tenth = next(one for one in simulated["tokens_to_certify"] if one["audit_probability"] == 0.1)
    return (
        f"With one in ten skipped drafts audited, a median of {tenth['median']:,} tokens certifies a risk of "
        f"{simulated['risk']:g} where it is {simulated['truth']:g}."
    )


def caption_table(numbers: Numbers) -> str:
    """Say what is certified, what an audit costs, and where the textbook interval fails."""
    simulated = numbers["statistics"]["simulated"]
    driven = [one for one in simulated["driven"] if one["form"] == "constant"]
    misses = ", ".join(f"{one['share']:.2%} at δ = {one['error']:.0%}" for one in driven)
    low, high = numbers["statistics"]["served"]["interval"]
    worst = max(one["share"] for one in simulated["false_certificates"])
    return (
        f"A system at the limit is certified falsely in at most {worst:.1%} of the runs, at δ = "
        f"{simulated['error']:.0%}. "
        "The certificate is of the mean one-step total variation of the tokens so far, whatever the risk does; "
        "brackets are 95% intervals by Clopper and Pearson. An audited draft is sent and verified, so a share π of "
        "what skipping saves is paid. The certificate takes one fixed mixture of bets. The drafts on the texts are "
        "drawn once, the audits anew each time; the target model wrote the texts. The constant form may miss a mean "
        f"that is driven by the past: {misses}. What the server computes from p and q̂ needs no outcomes, and is "
        f"{high - low:.3f} wide."
    )
