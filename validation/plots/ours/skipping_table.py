"""Compute our Table I: linear fit, thresholds, cost of skipping and guarantees, beside the papers' printed values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory import skipping, uncertainty
from hlmtheory.uncertainty import LinearFit
from validation.decoding.trace_drafts import DRAWS, POINTS, Row, Tokens, tokens_of
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.skipping.line_fit import (
    Risks,
    explained_at_most,
    largest_miss,
    line_of,
    risks_of,
)
from validation.plots.common.skipping.numbers import interval, line_statistics, number
from validation.plots.common.skipping.printed import CU, PRINTED, U, false_positives, findings, value
from validation.plots.common.skipping.sample import (
    ClusteredEstimate,
    accepted_if_skipped,
    mean,
    one_step,
    skipped_if_accepted,
    transmission_rate,
)
from validation.plots.common.skipping.words import UNDEFINED, shown, with_interval
from validation.trace.reader import Trace, probabilities

EXACT_VALUES = 2_000_000  # number of probabilities for E[u]: 488 positions at V = 4,096
WANTED_RISKS = (value(CU, "bound"), 0.02, 0.05, 0.1)
"""Limits of the mean one-step total variation for the calibration; the first is cu-hlm's bound on R."""
NONE = "–"
LINES = ("tokens", "bins")


def _shown(estimate: ClusteredEstimate, form: str = ".4f") -> str:
    return with_interval(estimate.value, (estimate.low, estimate.high), form)


# ------------------------------------------------------------------------------------------- rows of the first table

Cells = tuple[str, str, str, str, str]


def _printed(name: str, form: str = "") -> tuple[str, str]:
    """Return the printed values of cu-hlm and u-hlm as text; a dash if a paper prints none."""
    found = (PRINTED[paper].get(name) for paper in (CU, U))
    one, other = (NONE if given is None else shown(given.value, form) for given in found)
    return one, other


def _fit_rows(fits: dict[str, LinearFit | None]) -> list[Cells]:
    """Return the rows of the two fits."""

    def each(name: str, form: str = ".4f") -> tuple[str, str]:
        cells = []
        for fit in fits.values():
            ends = getattr(fit, f"{name}_interval", None) if fit is not None and fit.clusters else None
            cells.append(UNDEFINED if fit is None else with_interval(getattr(fit, name), ends, form))
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
        misses.append(UNDEFINED if fit is None else f"{shown(miss, '+.4f')} at u = {at:g}")
    most = shown(explained_at_most(tokens))
    return [
        ("largest distance of a mean β from the line", NONE, NONE, misses[0], misses[1]),
        ("most of Var(β) that any function of u explains", NONE, NONE, most, NONE),
    ]


def _risk_rows(tokens: Tokens, risks: dict[str, Risks | None]) -> list[Cells]:
    """Return the rows of the thresholds, of the surrogate R and of its bounds."""

    def each(pick: Any) -> tuple[str, str]:
        one, other = (UNDEFINED if found is None else pick(found) for found in risks.values())
        return one, other

    def best(found: tuple[float, float, float, float]) -> str:
        return f"{shown(found[2])} at s = {shown(found[3], '.3g')}"

    delta = _shown(mean(tokens.rejection > 0, tokens.prompt))
    return [
        ("Δ = P(p_d < q_d)", *_printed("non_acceptance"), delta, delta),
        ("risk-averse threshold −b/a", *_printed("averse"), *each(lambda one: shown(one.averse))),
        ("risk-prone threshold (Δ − b)/a", *_printed("prone"), *each(lambda one: shown(one.prone))),
        ("R, summed over the 21 points", NONE, _printed("risk")[1], *each(lambda one: shown(one.discrete[0]))),
        ("its Hölder bound, s = 2", NONE, f"< {_printed('bound')[1]}", *each(lambda one: shown(one.discrete[1]))),
        ("its best Hölder bound", NONE, NONE, *each(lambda one: best(one.discrete))),
        ("R, integrated over the density", _printed("risk")[0], NONE, *each(lambda one: shown(one.density[0]))),
        ("its Hölder bound (13), s = 2", f"< {_printed('bound')[0]}", NONE, *each(lambda one: shown(one.density[1]))),
        ("its best Hölder bound", NONE, NONE, *each(lambda one: best(one.density))),
        ("exact less R, over the 21 points", NONE, NONE, *each(lambda one: shown(one.exact - one.surrogate, "+.4f"))),
        ("of which below −b/a", NONE, NONE, *each(lambda one: shown(one.below, "+.4f"))),
        ("of which off the line", NONE, NONE, *each(lambda one: shown(one.misfit, "+.4f"))),
    ]


def _skip_rows(tokens: Tokens, risks: dict[str, Risks | None], noiseless: dict[str, ClusteredEstimate]) -> list[Cells]:
    """Return the rows that show the effects of skipping at both thresholds."""

    def at(name: str, pick: Any, form: str = ".4f") -> tuple[str, str]:
        cells = (
            UNDEFINED if found is None else _shown(pick(tokens, getattr(found, name)), form) for found in risks.values()
        )
        one, other = cells
        return one, other

    skipped = [1.0 - value(paper, "skipped") for paper in (CU, U)]
    exact, of_bins = (_shown(noiseless[name]) if name in noiseless else UNDEFINED for name in LINES)
    chosen = f"at {value(CU, 'chosen')}"
    return [
        (
            "exact one-step TV, risk-prone",
            f"{false_positives():.3f} {chosen}, by its rates",
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


# ------------------------------------------------------------------------------------------- calibration


def calibrated(tokens: Tokens) -> list[dict[str, Any]]:
    """Return thresholds by conformal risk control over some prompts, and their cost on the other prompts.

    The loss of a prompt is the mean of Σ_t TV_t over its texts, divided by the length of the longest text. So it is at
    most 1. Every third prompt is held out.
    """
    filled = tokens.along_texts(tokens.uncertainty, 1.0)
    of_texts = skipping.threshold_losses(filled, tokens.along_texts(tokens.rejection, 0.0), POINTS) / tokens.longest
    prompts = np.arange(tokens.prompt.max() + 1)
    losses = np.stack([of_texts[tokens.prompt_of_text == prompt].mean(axis=0) for prompt in prompts])
    held_out = prompts % 3 == 2
    rows = []
    for risk in WANTED_RISKS:
        count = int(np.count_nonzero(~held_out))
        row: dict[str, Any] = {"risk": risk, "prompts": count, "held_out_prompts": int(np.count_nonzero(held_out))}
        if count + 1 >= 1.0 / risk:
            found = skipping.calibrate_threshold(losses[~held_out], POINTS, risk=risk, bound=1.0)
            row |= _held_out(tokens, losses, held_out, found.threshold)
            row |= {"empirical_risk": plain(found.empirical_risk), "corrected_risk": plain(found.corrected_risk)}
            row["leave_one_out"] = plain(skipping.held_out_risk(losses, risk, 1.0))
        rows.append(row)
    return rows


def _held_out(tokens: Tokens, losses: Row, held_out: Any, threshold: float) -> dict[str, Any]:
    """Return the threshold, and the loss and transmission rate at it on the held-out prompts."""
    column = int(np.searchsorted(POINTS, threshold, side="right")) - 1
    lost = losses[:, column] if column >= 0 else np.zeros(len(losses))
    others = np.flatnonzero(held_out)
    part = held_out[tokens.prompt]
    sent = mean(~tokens.skipped(threshold)[part], tokens.prompt[part])
    return {
        "threshold": plain(threshold) if column >= 0 else None,
        "held_out_risk": interval(mean(lost[others], others)),
        "held_out_sum": number(mean(lost[others], others).value * tokens.longest),
        "held_out_transmission": interval(sent),
    }


def _calibration_table(rows: list[dict[str, Any]], longest: int) -> Table:
    """Return the table of required and reached risk."""
    heads = ("ε", "threshold", "corrected risk", "held out", "all, leave-one-out", "Σ_t TV_t, held out", "sent")
    cells = []
    for row in rows:
        if "leave_one_out" not in row:
            needed = int(np.ceil(1.0 / row["risk"])) - 1
            cells.append((f"{row['risk']:g}", f"needs {needed} prompts, there are {row['prompts']}", *5 * (NONE,)))
            continue
        risk, sent = (
            ClusteredEstimate(*(_real(end) for end in row[f"held_out_{name}"].values())) for name in RISK_AND_SENT
        )
        cells.append(
            (
                f"{row['risk']:g}",
                "skip nothing" if row["threshold"] is None else f"{row['threshold']:g}",
                shown(row["corrected_risk"]),
                _shown(risk),
                shown(row["leave_one_out"]),
                shown(_real(row["held_out_sum"]), ".2f"),
                _shown(sent, ".3f"),
            )
        )
    count, others = rows[0]["prompts"], rows[0]["held_out_prompts"]
    title = (
        f"Thresholds by conformal risk control: Σ_t TV_t / {longest} of a text is at most ε on average over prompts; "
        f"{count} prompts calibrate, {others} are held out"
    )
    return Table(title, heads, tuple(cells))


def _real(value: float | None) -> float:
    return np.nan if value is None else value


RISK_AND_SENT = ("risk", "transmission")


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
    thresholds = calibrated(tokens)
    heads = ("", "cu-hlm prints", "u-hlm prints", "ours, tokens", "ours, 21 means")
    bounds = {
        name: number(skipping.sequence_risk(tokens.along_texts(tokens.rejection * tokens.skipped(at), 0.0)))
        for name, at in prone.items()
    }
    return {
        "axes": [],
        "series": [],
        "statistics": line_statistics(tokens)
        | {"calibrated": thresholds, "exact_positions": exact_positions, "sequence_bound": bounds}
        | {"exact": {name: interval(one_step(tokens, at)) for name, at in prone.items()}}
        | {"surrogate": {name: plain(found.surrogate) for name, found in risks.items() if found}},
        "tables": [
            Table("Linear fit, thresholds and rejection risk", heads, tuple(rows)).plain(),
            _calibration_table(thresholds, tokens.longest).plain(),
            findings().plain(),
        ],
        "positions_drawn": len(tokens.rows),
    }
