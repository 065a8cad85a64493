"""Measure the numbers of each figure of uncertainty and skipping, as plain values."""

from functools import lru_cache
from typing import Any

import numpy as np

from hlmtheory.uncertainty.regression import LinearFit
from validation.arrays import Index, Row
from validation.decoding import trace_drafts
from validation.decoding.trace_drafts import POINTS, Tokens
from validation.estimates import Estimate
from validation.plots.common.record import Numbers, curve, kept, plain
from validation.plots.common.skipping import sample as samples
from validation.plots.common.style import axis
from validation.plots.common.truncation.looks import say
from validation.trace.reader import Trace

TEMPERATURE = "temperature perturbation"
BASELINE_POSITIONS = 1_500
BUILT_IN = "builtin"
DROPOUT = "MC dropout"
RATES = {
    "transmission": samples.transmission_rate,
    "accepted_if_skipped": samples.accepted_if_skipped,
    "skipped_if_accepted": samples.skipped_if_accepted,
}


def baselines_of(trace: Trace, seed: int) -> tuple[dict[str, tuple[Row, Row, Index]], dict[str, str]]:
    """Return (u, β, prompt) by measure at the same positions and drafts, and why any measure is omitted."""
    if trace.manifest.get("pair", {}).get("name") != BUILT_IN:
        why = "it needs the models, and only the built-in pair is loaded for a figure"
        return {}, {DROPOUT: f"{DROPOUT} is left out: {why}."}
    return _measured_baselines(trace, seed)


@lru_cache(maxsize=2)
def _measured_baselines(trace: Trace, seed: int) -> tuple[dict[str, tuple[Row, Row, Index]], dict[str, str]]:
    from validation.models.pair import load_pair
    from validation.uncertainty.baselines import baseline_measures

    pair, about = load_pair(BUILT_IN), trace.manifest["pair"]
    if (pair.vocabulary, pair.draft_parameters) != (trace.vocabulary, about.get("small_parameters")):
        return {}, {DROPOUT: f"{DROPOUT} is left out: the trace is of another pair that was called built-in."}
    found = baseline_measures(trace, pair, positions=BASELINE_POSITIONS, seed=seed)
    order = np.argsort(found.rows)
    rows, drafts = found.rows[order], found.drafts[order]
    rejection = trace_drafts.rejection_at(trace, rows, drafts)
    prompt = trace_drafts.prompt_of(trace, rows)
    own = trace_drafts.uncertainty_at(trace, rows, drafts, np.random.default_rng([seed, 2]))
    measures = {TEMPERATURE: own, **{name: values[order] for name, values in found.uncertainty.items()}}
    return {name: (u, rejection, prompt) for name, u in measures.items()}, {}


def correlation(uncertainty: Row, rejection: Row) -> float:
    if len(uncertainty) < 2 or not np.ptp(uncertainty) or not np.ptp(rejection):
        return np.nan
    return float(np.corrcoef(uncertainty, rejection)[0, 1])


def measure_baselines(trace: Trace, seed: int) -> Numbers:
    """Measure the mean rejection probability over the uncertainty, for each measure at the same tokens."""
    tokens = trace_drafts.tokens_of(trace, seed)
    baselines, left_out = baselines_of(trace, seed)
    every = (tokens.uncertainty, tokens.rejection, tokens.prompt)
    series = []
    for name, (u, beta, prompt) in (baselines or {TEMPERATURE: every}).items():
        share = np.bincount(np.rint(u * (len(POINTS) - 1)).astype(int), minlength=len(POINTS)) / len(u)
        series.append(
            curve(name, POINTS, samples.bin_means(u, beta, prompt))
            | {"tokens": len(u), "share": plain(share), "pearson_r": plain(correlation(u, beta))}
        )
    known = {one["name"]: one["pearson_r"] for one in series}
    return {
        "axes": [{"x": axis("uncertainty u"), "y": axis("rejection probability β")}],
        "series": series,
        "statistics": {
            "pearson_r": known,
            "pearson_r_of_all": plain(correlation(tokens.uncertainty, tokens.rejection)),
            "tokens": series[0]["tokens"],
            "by_measure": ", ".join(f"{say(r, '.2f')} by {name}" for name, r in known.items()),
            "left_out": left_out,
        },
        "positions_drawn": series[0]["tokens"],
    }


def _line(fit: LinearFit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    fields = ("slope", "intercept", "r_squared", "mse", "correlation")
    found: dict[str, Any] = {name: plain(getattr(fit, name)) for name in fields} | {"points": fit.points}
    for name in ("slope_interval", "intercept_interval"):
        found[name] = plain(getattr(fit, name)) if fit.clusters else None
    return found


def line_statistics(tokens: Tokens) -> dict[str, Any]:
    """Return the fits to tokens and to means, Δ, and the thresholds of each fit."""
    found: dict[str, Any] = {"non_acceptance": kept(samples.mean(tokens.rejection > 0, tokens.prompt))}
    for name, binned in (("tokens", False), ("bins", True)):
        fit = samples.line_of(tokens, binned=binned)
        risks = samples.risks_of(tokens, fit)
        found[name] = {"line": _line(fit), "thresholds": plain([risks.averse, risks.prone]) if risks else None}
    return found


def _relation(tokens: Tokens) -> list[dict[str, Any]]:
    found = [curve("mean at each u", POINTS, samples.bin_means(tokens.uncertainty, tokens.rejection, tokens.prompt))]
    for name, binned in (("fit to the tokens", False), ("fit to the 21 means", True)):
        if (fit := samples.line_of(tokens, binned=binned)) is not None:
            found.append({"name": name, "x": [0.0, 1.0], "mean": plain([fit.intercept, fit.intercept + fit.slope])})
    return found


RELATION = {"x": axis("uncertainty u"), "y": axis("rejection probability β")}
SHARE = {"x": axis("uncertainty u"), "y": axis("share of the drafts")}
DENSITY = {"x": axis("uncertainty u"), "y": axis("probability density")}


def _exhibit(tokens: Tokens, axes: list[Any], series: list[dict[str, Any]], **statistics: Any) -> Numbers:
    found = line_statistics(tokens) | statistics
    return {"axes": axes, "series": series, "statistics": found, "positions_drawn": len(tokens.rows)}


def measure_line(trace: Trace, seed: int) -> Numbers:
    tokens = trace_drafts.tokens_of(trace, seed)
    return _exhibit(tokens, [RELATION], _relation(tokens))


def measure_density(trace: Trace, seed: int) -> Numbers:
    """Measure the distribution of u: the share of the tokens at each u, and the kernel density per step of 0.05."""
    tokens = trace_drafts.tokens_of(trace, seed)
    cells, outside = samples.density_of(tokens)
    centers = plain((np.arange(samples.CELLS) + 0.5) / samples.CELLS, 4)
    density = {"x": centers, "mean": plain(cells * samples.CELLS, 5), "outside": plain(outside)}
    series = [
        {"name": "share of the drafts at each u", "x": plain(POINTS), "mean": plain(tokens.mass)},
        {"name": "density by Gaussian kernels", **density},
    ]
    ends = {"share_at_0": plain(tokens.mass[0]), "share_at_1": plain(tokens.mass[-1])}
    return _exhibit(tokens, [DENSITY, SHARE], series, **ends)


def measure_both(trace: Trace, seed: int) -> Numbers:
    law, relation = measure_density(trace, seed), measure_line(trace, seed)
    return law | {"axes": [SHARE, RELATION], "series": [law["series"][0], *relation["series"]]}


def measure_rates(trace: Trace, seed: int) -> Numbers:
    tokens = trace_drafts.tokens_of(trace, seed)
    names = ("transmission rate", "P(accepted | skipped)", "P(skipped | accepted)")
    rates = zip(names, RATES.values(), strict=True)
    series = [curve(name, POINTS, [rate(tokens, at) for at in POINTS.tolist()]) for name, rate in rates]
    return _exhibit(tokens, [{"x": axis("uncertainty threshold"), "y": axis("rate")}], series)


def measure_transmission(trace: Trace, seed: int) -> Numbers:
    numbers = measure_rates(trace, seed)
    return numbers | {"series": numbers["series"][:1]}


def measure_methods(trace: Trace, seed: int) -> Numbers:
    """Measure the transmission rate and true skip rates of U-HLM with each measure, and of random skipping."""
    tokens = trace_drafts.tokens_of(trace, seed)
    baselines, left_out = baselines_of(trace, seed)
    methods = {}
    if risks := samples.risks_of(tokens, samples.line_of(tokens, binned=True)):
        methods["U-HLM, risk-prone"] = _rates(tokens, risks.prone)
        methods["U-HLM, risk-averse"] = _rates(tokens, risks.averse)
        methods["random, as many sent"] = _random(tokens, methods["U-HLM, risk-prone"]["transmission"].value)
    for name, (u, beta, prompt) in baselines.items():
        none = np.zeros(len(u), np.int64)  # placeholder: tokens and texts are not used
        own = Tokens(none, none, u, beta, np.full(len(u), np.nan), none, prompt, tokens.longest)
        line = samples.fit_of(u, beta, prompt, binned=True)
        if name != TEMPERATURE and (found := samples.risks_of(own, line)):
            methods[f"U-HLM, {name}"] = _rates(own, found.prone)
    series = [
        {"name": name, "threshold": plain(rates["threshold"])}
        | {key: kept(one) for key, one in rates.items() if key != "threshold"}
        for name, rates in methods.items()
    ]
    return _exhibit(tokens, [{"x": axis("method"), "y": axis("rate")}], series, left_out=left_out)


def _rates(tokens: Tokens, threshold: float) -> dict[str, Any]:
    return {"threshold": threshold} | {name: rate(tokens, threshold) for name, rate in RATES.items()}


def _random(tokens: Tokens, sent: float) -> dict[str, Any]:
    accepted = samples.mean(1.0 - tokens.rejection, tokens.prompt) if sent < 1 else Estimate(None)
    skipping = {"accepted_if_skipped": accepted, "skipped_if_accepted": Estimate(1.0 - sent)}
    return {"threshold": np.nan, "transmission": Estimate(sent)} | skipping
