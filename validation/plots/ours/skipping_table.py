"""Compute our Table I: linear fit, thresholds, cost of skipping and guarantees, beside the papers' printed values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory import skipping, uncertainty
from hlmtheory.uncertainty import LinearFit
from validation.decoding.trace_drafts import DRAWS, Tokens, tokens_of
from validation.plots.common.cells import NONE, cell, told
from validation.plots.common.printed import CU, NUMBERS, U, value
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.skipping.line_fit import (
    Risks,
    explained_at_most,
    largest_miss,
    line_of,
    risks_of,
)
from validation.plots.common.skipping.numbers import interval, line_statistics, number
from validation.plots.common.skipping.sample import (
    ClusteredEstimate,
    accepted_if_skipped,
    mean,
    one_step,
    skipped_if_accepted,
    transmission_rate,
)
from validation.trace.reader import Trace, probabilities

EXACT_VALUES = 2_000_000  # number of probabilities for E[u]: 488 positions at V = 4,096
LINES = ("tokens", "bins")


# ------------------------------------------------------------------------------------------- rows of the first table

Cells = tuple[str, str, str, str, str]


def _printed(name: str, form: str = "") -> tuple[str, str]:
    """Return the printed values of cu-hlm and u-hlm as text; a dash if a paper prints none."""
    found = (NUMBERS.get(f"{paper} {name}") for paper in (CU, U))
    one, other = (NONE if given is None else told(given.value, form) for given in found)
    return one, other


def _fit_rows(fits: dict[str, LinearFit | None]) -> list[Cells]:
    """Return the rows of the two fits."""

    def each(name: str, form: str = ".4f") -> tuple[str, str]:
        cells = []
        for fit in fits.values():
            low, high = (getattr(fit, f"{name}_interval", None) if fit and fit.clusters else None) or (None, None)
            cells.append(NONE if fit is None else cell({"value": getattr(fit, name), "low": low, "high": high}, form))
        return cells[0], cells[1]

    return [
        ("a", *_printed("slope"), *each("slope")),
        ("b", *_printed("intercept"), *each("intercept")),
        ("R²", *_printed("r_squared"), *each("r_squared")),
        ("mean squared error", *_printed("mse", ".2e"), *each("mse", ".2e")),
        ("Pearson's r", *_printed("correlation"), *each("correlation")),
        ("points fitted", NONE, NONE, *each("points", ",")),
    ]


def _miss_rows(tokens: Tokens, fits: dict[str, LinearFit | None]) -> list[Cells]:
    """Return the rows that say how far the mean of β is from the lines."""
    misses = []
    for fit in fits.values():
        at, miss = (np.nan, np.nan) if fit is None else largest_miss(tokens, fit)
        misses.append(NONE if fit is None else f"{told(miss, '+.4f')} at u = {at:g}")
    most = told(explained_at_most(tokens))
    return [
        ("largest distance of a mean β from the line", NONE, NONE, misses[0], misses[1]),
        ("most of Var(β) that any function of u explains", NONE, NONE, most, NONE),
    ]


def _risk_rows(tokens: Tokens, risks: dict[str, Risks | None]) -> list[Cells]:
    """Return the rows of the thresholds, of the surrogate R and of its bounds."""

    def each(pick: Any) -> tuple[str, str]:
        one, other = (NONE if found is None else pick(found) for found in risks.values())
        return one, other

    def best(found: tuple[float, float, float, float]) -> str:
        return f"{told(found[2])} at s = {told(found[3], '.3g')}"

    delta = cell(mean(tokens.rejection > 0, tokens.prompt))
    return [
        ("Δ = P(p_d < q_d)", *_printed("non_acceptance"), delta, delta),
        ("risk-averse threshold −b/a", *_printed("averse"), *each(lambda one: told(one.averse))),
        ("risk-prone threshold (Δ − b)/a", *_printed("prone"), *each(lambda one: told(one.prone))),
        ("R, summed over the 21 points", NONE, _printed("risk")[1], *each(lambda one: told(one.discrete[0]))),
        ("its Hölder bound, s = 2", NONE, f"< {_printed('bound')[1]}", *each(lambda one: told(one.discrete[1]))),
        ("its best Hölder bound", NONE, NONE, *each(lambda one: best(one.discrete))),
        ("R, integrated over the density", _printed("risk")[0], NONE, *each(lambda one: told(one.density[0]))),
        ("its Hölder bound (13), s = 2", f"< {_printed('bound')[0]}", NONE, *each(lambda one: told(one.density[1]))),
        ("its best Hölder bound", NONE, NONE, *each(lambda one: best(one.density))),
        ("exact less R, over the 21 points", NONE, NONE, *each(lambda one: told(one.exact - one.surrogate, "+.4f"))),
        ("of which below −b/a", NONE, NONE, *each(lambda one: told(one.below, "+.4f"))),
        ("of which off the line", NONE, NONE, *each(lambda one: told(one.misfit, "+.4f"))),
    ]


def _skip_rows(tokens: Tokens, risks: dict[str, Risks | None], noiseless: dict[str, ClusteredEstimate]) -> list[Cells]:
    """Return the rows that show the effects of skipping at both thresholds."""

    def at(name: str, pick: Any, form: str = ".4f") -> tuple[str, str]:
        cells = (NONE if found is None else cell(pick(tokens, getattr(found, name)), form) for found in risks.values())
        one, other = cells
        return one, other

    skipped = [1.0 - value(paper, "skipped") for paper in (CU, U)]
    exact, of_bins = (cell(noiseless[name]) if name in noiseless else NONE for name in LINES)
    chosen = f"at {value(CU, 'chosen')}"
    wrong = value(CU, "skipped") * (1.0 - value(CU, "true_skips"))
    return [
        (
            "exact one-step TV, risk-prone",
            f"{wrong:.3f} {chosen}, by its rates",
            NONE,
            *at("prone", one_step),
        ),
        ("the same without drawing drafts or u", NONE, NONE, exact, of_bins),
        ("exact one-step TV, risk-averse", "said to be 0", "said to be 0", *at("averse", one_step)),
        (
            "transmission rate, risk-prone",
            f"{skipped[0]:.3f} {chosen}, from its skips",
            f"{skipped[1]:.4f}, from its skips",
            *at("prone", transmission_rate),
        ),
        (
            "P(accepted | skipped), risk-prone",
            f"{value(CU, 'true_skips')} {chosen}",
            NONE,
            *at("prone", accepted_if_skipped),
        ),
        ("P(skipped | accepted), risk-prone", NONE, NONE, *at("prone", skipped_if_accepted)),
        ("transmission rate, risk-averse", NONE, NONE, *at("averse", transmission_rate)),
        ("sum of the one-step TVs of a text, risk-prone", NONE, NONE, *at("prone", text_sum, ".2f")),
        ("sum of the one-step TVs of a text, risk-averse", NONE, NONE, *at("averse", text_sum, ".2f")),
    ]


# ------------------------------------------------------------------------------------------- what skipping costs


def text_sum(tokens: Tokens, threshold: float) -> ClusteredEstimate:
    """Return the mean of Σ_t TV_t over the texts: an upper bound on the TV of whole texts, useful if below 1."""
    lost = tokens.along_texts(tokens.rejection * tokens.skipped(threshold), 0.0)
    return mean(lost.sum(axis=-1), tokens.prompt_of_text)


def without_drawing(
    trace: Trace, tokens: Tokens, thresholds: dict[str, float]
) -> tuple[dict[str, ClusteredEstimate], int]:
    """Return by line the mean of Σ_v q_v s_v β_v, s_v = P(u ≤ u_th) for draft v, and the number of positions used."""
    count = max(1, min(len(tokens.rows), EXACT_VALUES // trace.vocabulary))
    at = np.arange(count) * len(tokens.rows) // count
    found: dict[str, list[Any]] = {name: [] for name in thresholds}
    for part in np.array_split(at, -(-count * trace.vocabulary // 2**18)):
        rows = tokens.rows[part]
        logits, target = (np.array(trace.arrays[name][rows]) for name in ("draft_logits", "target_logits"))
        expected = uncertainty.vocabulary_uncertainty(logits.astype(np.float64))
        q, p = probabilities(logits), probabilities(target)
        for name, threshold in thresholds.items():
            skip = uncertainty.skip_probability(expected, threshold, DRAWS)
            found[name].append(skipping.one_step_risk(p, q, skip))
    return {name: mean(np.concatenate(risks), tokens.prompt[at]) for name, risks in found.items()}, count


# ------------------------------------------------------------------------------------------- all of it


def measure_table(trace: Trace, seed: int) -> Numbers:
    """Measure the linear fits, thresholds, risks and guarantees on a trace."""
    tokens = tokens_of(trace, seed)
    fits = {name: line_of(tokens, binned=name == "bins") for name in LINES}
    risks = {name: risks_of(tokens, fit) for name, fit in fits.items()}
    prone = {name: found.prone for name, found in risks.items() if found}
    noiseless, exact_positions = without_drawing(trace, tokens, prone)
    rows = [
        *_fit_rows(fits),
        *_miss_rows(tokens, fits),
        *_risk_rows(tokens, risks),
        *_skip_rows(tokens, risks, noiseless),
    ]
    heads = ("", "cu-hlm prints", "u-hlm prints", "ours, tokens", "ours, 21 means")
    bounds = {
        name: number(skipping.sequence_risk(tokens.along_texts(tokens.rejection * tokens.skipped(at), 0.0)))
        for name, at in prone.items()
    }
    return {
        "axes": [],
        "series": [],
        "statistics": line_statistics(tokens)
        | {"exact_positions": exact_positions, "sequence_bound": bounds}
        | {"exact": {name: interval(one_step(tokens, at)) for name, at in prone.items()}}
        | {"surrogate": {name: plain(found.surrogate) for name, found in risks.items() if found}},
        "tables": [Table("Linear fit, thresholds and rejection risk", heads, tuple(rows)).plain()],
        "positions_drawn": len(tokens.rows),
    }
