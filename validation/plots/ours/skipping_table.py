"""Compute our Table I: linear fit, thresholds, cost of skipping and guarantees, beside the papers' printed values."""

from typing import Any

from hlmtheory.uncertainty.regression import LinearFit
from validation.decoding.trace_drafts import Tokens, tokens_of
from validation.estimates import NONE, Estimate, told
from validation.plots.common.printed import CU, NUMBERS, U, value
from validation.plots.common.record import Numbers, cell, kept, table
from validation.plots.common.skipping import sample as skipping
from validation.plots.common.skipping.numbers import line_statistics
from validation.trace.reader import Trace

LINES = ("tokens", "bins")

Cells = tuple[str, str, str, str, str]


def _printed(name: str, form: str = "") -> tuple[str, str]:
    found = (NUMBERS.get(f"{paper} {name}") for paper in (CU, U))
    one, other = (NONE if given is None else told(given.value, form) for given in found)
    return one, other


def _fit_rows(fits: dict[str, LinearFit | None]) -> list[Cells]:

    def each(name: str, form: str = ".4f") -> tuple[str, str]:
        cells = []
        for fit in fits.values():
            low, high = (getattr(fit, f"{name}_interval", None) if fit and fit.clusters else None) or (None, None)
            cells.append(NONE if fit is None else cell(Estimate(getattr(fit, name), low, high), form))
        return cells[0], cells[1]

    return [
        ("a", *_printed("slope"), *each("slope")),
        ("b", *_printed("intercept"), *each("intercept")),
        ("R²", *_printed("r_squared"), *each("r_squared")),
        ("mean squared error", *_printed("mse", ".2e"), *each("mse", ".2e")),
        ("Pearson's r", *_printed("correlation"), *each("correlation")),
        ("points fitted", NONE, NONE, *each("points", ",")),
    ]


def _risk_rows(tokens: Tokens, risks: dict[str, skipping.Risks | None]) -> list[Cells]:
    def each(pick: Any) -> tuple[str, str]:
        one, other = (NONE if found is None else pick(found) for found in risks.values())
        return one, other

    delta = cell(skipping.mean(tokens.rejection > 0, tokens.prompt))
    return [
        ("Δ = P(p_d < q_d)", *_printed("non_acceptance"), delta, delta),
        ("risk-averse threshold −b/a", *_printed("averse"), *each(lambda one: told(one.averse))),
        ("risk-prone threshold (Δ − b)/a", *_printed("prone"), *each(lambda one: told(one.prone))),
        ("R, summed over the 21 points", NONE, _printed("risk")[1], *each(lambda one: told(one.discrete))),
        ("its Hölder bound, s = 2", NONE, f"< {_printed('bound')[1]}", *each(lambda one: told(one.discrete_bound))),
        ("R, integrated over the density", _printed("risk")[0], NONE, *each(lambda one: told(one.density))),
        ("its Hölder bound (13), s = 2", f"< {_printed('bound')[0]}", NONE, *each(lambda one: told(one.density_bound))),
        ("exact less R, over the 21 points", NONE, NONE, *each(lambda one: told(one.exact - one.surrogate, "+.4f"))),
    ]


def _skip_rows(tokens: Tokens, risks: dict[str, skipping.Risks | None]) -> list[Cells]:
    def at(name: str, pick: Any, form: str = ".4f") -> tuple[str, str]:
        cells = (NONE if found is None else cell(pick(tokens, getattr(found, name)), form) for found in risks.values())
        one, other = cells
        return one, other

    skipped = [1.0 - value(paper, "skipped") for paper in (CU, U)]
    chosen = f"at {value(CU, 'chosen')}"
    sent = (f"{skipped[0]:.3f} {chosen}, from its skips", f"{skipped[1]:.4f}, from its skips")
    true = f"{value(CU, 'true_skips')} {chosen}"
    wrong = value(CU, "skipped") * (1.0 - value(CU, "true_skips"))
    return [
        ("exact one-step TV, risk-prone", f"{wrong:.3f} {chosen}, by its rates", NONE, *at("prone", skipping.one_step)),
        ("exact one-step TV, risk-averse", "said to be 0", "said to be 0", *at("averse", skipping.one_step)),
        ("transmission rate, risk-prone", *sent, *at("prone", skipping.transmission_rate)),
        ("P(accepted | skipped), risk-prone", true, NONE, *at("prone", skipping.accepted_if_skipped)),
        ("P(skipped | accepted), risk-prone", NONE, NONE, *at("prone", skipping.skipped_if_accepted)),
        ("transmission rate, risk-averse", NONE, NONE, *at("averse", skipping.transmission_rate)),
    ]


def measure_table(trace: Trace, seed: int) -> Numbers:
    tokens = tokens_of(trace, seed)
    fits = {name: skipping.line_of(tokens, binned=name == "bins") for name in LINES}
    risks = {name: skipping.risks_of(tokens, fit) for name, fit in fits.items()}
    prone = {name: found.prone for name, found in risks.items() if found}
    rows = [*_fit_rows(fits), *_risk_rows(tokens, risks), *_skip_rows(tokens, risks)]
    heads = ("", "cu-hlm prints", "u-hlm prints", "ours, tokens", "ours, 21 means")
    return {
        "axes": [],
        "series": [],
        "statistics": line_statistics(tokens)
        | {"exact": {name: kept(skipping.one_step(tokens, at)) for name, at in prone.items()}},
        "tables": [table("Linear fit, thresholds and rejection risk", heads, tuple(rows))],
        "positions_drawn": len(tokens.rows),
    }
