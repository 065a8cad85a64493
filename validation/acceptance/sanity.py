"""Say what must be known before a number is read: identities, what is impossible, mixtures, and too little data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from validation.acceptance.record import AcceptanceRecord
    from validation.acceptance.summary import Summary

LEAST_EXPECTED = 5.0
"""Smallest expected count of a group in a test of homogeneity."""
RARE = 1e-3
"""A probability below which groups are said to differ."""
UNLIKE = 0.05
"""An acceptance below which a draft model does not resemble its target."""
APART = 0.05
"""A relative distance of two means that is said."""
WIDE = 0.1
"""Half the width of an interval of an acceptance that shows little."""


def differing(what: str, groups: Sequence[tuple[int, int]]) -> list[str]:
    """Return a sentence if the first drafts of groups, (accepted, steps) of each, are not accepted alike.

    First drafts of different steps are compared, since drafts of one step hang together. Groups too small for the
    chi-square test are added to one.
    """
    table = np.array([(accepted, steps - accepted) for accepted, steps in groups if steps], dtype=np.float64)
    if len(table) < 2 or not table.sum(axis=0).all():
        return []
    from scipy.stats import chi2_contingency

    rare = table.sum(axis=0).min() / table.sum()
    small = table.sum(axis=1) * rare < LEAST_EXPECTED
    rest = table[small].sum(axis=0)
    table = np.vstack([table[~small], *([rest] if rest.sum() * rare >= LEAST_EXPECTED else [])])
    if len(table) < 2:
        return []
    found = chi2_contingency(table, correction=False)
    if found.pvalue >= RARE:
        return []
    low, high = np.quantile(table[:, 0] / table.sum(axis=1), (0.1, 0.9))
    return [
        f"the {what} are a mixture: first drafts are accepted {low:.0%} to {high:.0%} of the time (10% and 90% of the "
        f"{what}), p = {found.pvalue:.0e} if all were alike. One rate is of none of them: read them by kind."
    ]


def sanity(records: Sequence[AcceptanceRecord], summary: Summary, brief: bool = False) -> list[str]:
    """Return what must be known before a number of the summary is read; briefly, without what merely holds."""
    groups = [(_first(record), record.num_spec_steps) for record in records]
    firsts = [(first, steps) for first, steps in groups if first is not None]
    return [
        *([] if brief else [*_identities(records), *_positions(records, summary)]),
        *_impossible(summary),
        *differing("requests", firsts if len(firsts) == len(records) else []),
        *_two_means(records, summary),
        *_too_little(summary),
    ]


def _first(record: AcceptanceRecord) -> int | None:
    """Return the steps that accepted their first draft."""
    return None if record.histogram is None else record.num_spec_steps - record.histogram.get(0, 0)


def _identities(records: Sequence[AcceptanceRecord]) -> list[str]:
    said = []
    derived = [record for record in records if record.engine == "llama.cpp" and record.completion_tokens]
    extra = [
        record.completion_tokens - record.num_spec_steps - record.num_accepted_draft_tokens
        for record in records
        if record.completion_tokens and record not in derived
    ]
    if derived:
        said.append(
            f"steps of {len(derived):,} answers are derived, tokens - accepted drafts - 1 (the prompt's pass emits the "
            "first token): no count of the file confirms them, and steps without drafts are among them."
        )
    if extra:
        holds, more = sum(x in (0, 1) for x in extra), [x for x in extra if x > 1]
        text = (
            f"tokens = steps + accepted drafts, + 1 of the prompt's pass: holds in {holds:,} of {len(extra):,} answers"
        )
        if more:
            text += f"; {len(more):,} have {sum(more):,} tokens more, of steps that drafted nothing"
        if fewer := [x for x in extra if x < 0]:
            longest = max((record.longest or 0 for record in records), default=0)
            why = "the last step was cut" if -min(fewer) <= max(longest, 1) else "steps or drafts are counted wrongly"
            text += f"; {len(fewer):,} have up to {-min(fewer):,} fewer: {why}"
        said.append(f"{text}.")
    drafted = [(r.num_draft_tokens, (r.longest or 0) * r.num_spec_steps) for r in records]
    if all(made is not None and full for made, full in drafted):
        lacking = sum(full - (made or 0) for made, full in drafted)
        total = sum(full for _, full in drafted)
        fixed = "holds" if not lacking else f"{lacking:,} of {total:,} are lacking, so some steps drafted fewer"
        said.append(f"drafts = K x steps: {fixed}.")
    return said


def _positions(records: Sequence[AcceptanceRecord], summary: Summary) -> list[str]:
    """Return what rates by position are, and what the rate of all drafts is."""
    drafted = [record.num_draft_tokens for record in records]
    said, total = [], sum(filter(None, drafted))
    each = total / summary.steps
    if None not in drafted and each > 1.5 and summary.accepted:
        rate = summary.accepted / total
        said.append(
            f"{rate:.1%} of all drafts is {summary.accepted / summary.steps:.2f} accepted of {each:.3g} a step. It "
            "falls with the draft length for any draft model; it is not the acceptance of a draft."
        )
    places = [record.accepted_per_position for record in records]
    if len(places) == 1 and places[0] is not None and len(places[0]) > 1 and places[0][0]:
        said += readings([count / summary.steps for count in places[0]], summary.accepted / summary.steps)
    return said


def readings(rates: Sequence[float], accepted: float | None = None) -> list[str]:
    """Return the accepted drafts a step under each reading of a list of rates by position.

    Survival: the share of steps that accept so far, so they add up. Conditional: given that all earlier drafts were
    accepted, so their products add up. Marginal: whatever became of the earlier ones; how these hang together is
    open, and the first d are all accepted with a probability between Fréchet's bounds, max(0, Σ − d + 1) and the least.
    """
    values = np.asarray(rates, dtype=np.float64)
    depths = np.arange(1, len(values) + 1)
    survival, conditional = float(values.sum()), float(np.cumprod(values).sum())
    low = float(np.maximum(np.cumsum(values) - depths + 1.0, 0.0).sum())
    high = float(np.minimum.accumulate(values).sum())
    listed = " ".join(f"{value:.3f}" for value in values[:8]) + (" ..." if len(values) > 8 else "")
    other = f"{conditional:.2f} as conditional rates, {low:.2f} to {high:.2f} as marginal accuracies"
    if accepted is not None:
        return [f"rates by position ({listed}) are survival: their sum is {accepted:.2f} accepted a step, not {other}."]
    if (np.diff(values) > 0).any():
        return [f"rates by position ({listed}) rise, so they are not survival; accepted drafts a step: {other}."]
    return [
        f"rates by position ({listed}) do not say what they are; accepted drafts a step: {survival:.2f} as survival "
        f"(shares of all steps, as vLLM and specdec_bench's joint rates), {other}. Counts decide: accepted over steps."
    ]


def _impossible(summary: Summary) -> list[str]:
    steps, said = summary.steps, []
    if summary.accepted == 0:
        most = 1.0 - 0.05 ** (1.0 / steps)
        if most < UNLIKE:
            said.append(
                f"impossible for a draft model that resembles its target: 0 accepted in {steps:,} steps, below "
                f"{most:.1%} at 95%, at any temperature. Look for other drafts than those verified, another tokenizer "
                "or template, or a verification that rejects."
            )
        return said
    depths = summary.depths if summary.identified else ()
    if depths and all(depth.accepted == depth.examined for depth in depths) and depths[0].examined >= 50:
        said.append(
            f"all drafts of {steps:,} steps were accepted: the draft is the target itself, or nothing is verified."
        )
    for before, depth in pairwise(depths):
        if depth.accepted == 0 and (1.0 - before.low) ** depth.examined < RARE:
            said.append(
                f"a cliff, not a decay: of {depth.examined:,} drafts at depth {depth.depth} none was accepted, after "
                f"{before.acceptance:.0%} at depth {before.depth}. A limit or a defect ends drafts there; a fitted "
                "rate does not describe it."
            )
        if depth.low > before.high:
            said.append(
                f"acceptance rises from {before.acceptance:.0%} at depth {before.depth} to {depth.acceptance:.0%} at "
                f"depth {depth.depth}: steps are a mixture of easy and hard places (or drafts copy), and one rate is "
                "of neither."
            )
    return said


def _two_means(records: Sequence[AcceptanceRecord], summary: Summary) -> list[str]:
    each = [1.0 + record.num_accepted_draft_tokens / record.num_spec_steps for record in records]
    mean = float(np.mean(each))
    if len(each) < 2 or abs(mean / summary.mean_acceptance_length - 1.0) < APART:
        return []
    longer = "fewer" if mean > summary.mean_acceptance_length else "more"
    return [
        f"the mean over requests is {mean:.3f} tokens a step, over steps {summary.mean_acceptance_length:.3f}: "
        f"requests of many steps accept {longer}. Speed follows the second."
    ]


def _too_little(summary: Summary) -> list[str]:
    if not summary.depths:
        return []
    first = summary.depths[0]
    half = (first.high - first.low) / 2.0
    if half <= WIDE:
        return []
    needed = int(np.ceil(summary.steps * (half / WIDE) ** 2 / 100.0)) * 100
    return [
        f"{summary.steps:,} steps show little: a first draft's acceptance is between {first.low:.2f} and "
        f"{first.high:.2f}; ±{WIDE:g} takes about {needed:,} steps."
    ]
