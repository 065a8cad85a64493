"""Say what must be known before a number is read: identities, what is impossible, mixtures, and too little data."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from validation.acceptance.record import AcceptanceRecord
from validation.acceptance.summary import Summary

LEAST_EXPECTED, RARE, PERMUTATIONS = 5.0, 1e-3, 4999
"""Smallest expected count of a group in a test of homogeneity; probability below which chance is excluded; permutations
of the categories over requests."""
UNLIKE, APART, WIDE = 0.05, 0.05, 0.1
"""Acceptance of a draft unlike its target; distance of two means that is said; half an interval that shows little."""


def sanity(records: Sequence[AcceptanceRecord], summary: Summary, brief: bool = False) -> list[str]:
    """Return what must be known before a number of the summary is read; briefly, without what merely holds."""
    tables = [(record.histogram, record.num_spec_steps) for record in records]
    firsts = [(steps - table.get(0, 0), steps) for table, steps in tables if table is not None]
    sentences = [text for holds, text in (*_identities(records), *_rates(records, summary)) if not (brief and holds)]
    firsts = firsts if len(firsts) == len(records) else []
    sentences += [*_impossible(summary), *by_category(records, firsts), *differing("requests", firsts)]
    each = [1.0 + record.num_accepted_draft_tokens / record.num_spec_steps for record in records]
    mean, pooled = float(np.mean(each)), summary.mean_acceptance_length
    if abs(mean / pooled - 1.0) > APART:
        sentences.append(
            f"requests of many steps accept {'fewer' if mean > pooled else 'more'} drafts: the mean over requests is "
            f"{mean:.3f} tokens a step, over steps {pooled:.3f}, which is what speed follows."
        )
    if summary.depths and (half := (summary.depths[0].high - summary.depths[0].low) / 2.0) > WIDE:
        needed = int(np.ceil(summary.steps * (half / WIDE) ** 2 / 100.0)) * 100
        sentences.append(
            f"{summary.steps:,} steps show little: a first draft is accepted {summary.depths[0].low:.2f} to "
            f"{summary.depths[0].high:.2f} of the time; ±{WIDE:g} takes about {needed:,} steps."
        )
    return sentences


def differing(what: str, groups: Sequence[tuple[int, int]]) -> list[str]:
    """Return a sentence if first drafts, whose steps are independent, are not accepted alike in groups of steps.

    Groups, (accepted, steps) of each, that are too small for the chi-square test are added to one.
    """
    table = np.array([(accepted, steps - accepted) for accepted, steps in groups], dtype=np.float64).reshape(-1, 2)
    if len(table) < 2 or not table.sum(axis=0).all():
        return []
    from scipy.stats import chi2_contingency

    rare = table.sum(axis=0).min() / table.sum()
    small = table.sum(axis=1) * rare < LEAST_EXPECTED
    rest = table[small].sum(axis=0, keepdims=True)
    table = np.concatenate([table[~small], rest[rest.sum(axis=1) * rare >= LEAST_EXPECTED]])
    if len(table) < 2 or (chance := float(chi2_contingency(table, correction=False).pvalue)) >= RARE:
        return []
    low, high = np.quantile(table[:, 0] / table.sum(axis=1), (0.1, 0.9))
    return [
        f"the {what} are a mixture: first drafts are accepted {low:.0%} to {high:.0%} of the time (10% and 90% of the "
        f"{what}), p = {chance:.0e} if all were alike. One rate is of none of them: read them by kind."
    ]


def by_category(records: Sequence[AcceptanceRecord], firsts: Sequence[tuple[int, int]]) -> list[str]:
    """Return whether first drafts, (accepted, steps) by record, differ by category, or by file, more than by request.

    The labels are permuted over requests, so that requests that differ alone show nothing.
    """
    what = "categories" if any(record.category for record in records) else "files"
    labels = [record.category or record.source.partition(", line ")[0] for record in records]
    names, place = np.unique(labels, return_inverse=True)
    table = np.array(firsts, dtype=np.float64).reshape(-1, 2)
    share = table[:, 0].sum() / max(table[:, 1].sum(), 1.0)
    if len(names) in (1, len(records)) or not 0.0 < share < 1.0:
        return differing(what, firsts) if len(names) > 1 else []

    def rates(place: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.divide(*(np.bincount(place, weights=column) for column in table.T))

    def apart(place: NDArray[np.int64]) -> float:
        return float(np.bincount(place, weights=table[:, 1]) @ (rates(place) - share) ** 2)

    rng, observed = np.random.default_rng(0), apart(place) * (1.0 - 1e-12)
    chance = (1 + sum(apart(rng.permutation(place)) >= observed for _ in range(PERMUTATIONS))) / (1 + PERMUTATIONS)
    if chance >= RARE:
        return [f"{what} differ no more than requests do (p = {chance:.2g}, {len(names)} {what})."]
    ranked = sorted(zip(rates(place), names, strict=True), reverse=True)
    listed = ", ".join(f"{rate:.0%} ({kind})" for rate, kind in ranked)
    return [
        f"the {what} are a mixture: first drafts are accepted {listed} of the time, p = {chance:.0e} if requests alone "
        f"differed. One rate is of none of them: read each by itself{' (--only)' if what == 'categories' else ''}."
    ]


def _identities(records: Sequence[AcceptanceRecord]) -> list[tuple[bool, str]]:
    checks, counted = list[tuple[bool, str]](), [record for record in records if record.completion_tokens]
    extra = [(r.completion_tokens or 0) - r.num_spec_steps - r.num_accepted_draft_tokens for r in counted]
    if counted and counted[0].engine == "llama.cpp":
        checks.append((False, "steps are tokens - accepted drafts - 1 (the prompt's pass); nothing confirms them."))
    elif extra:
        holds, low, high = sum(x in (0, 1) for x in extra), min(extra), max(extra)
        text = f"tokens = steps + accepted drafts (+ 1 of the prompt's pass) in {holds:,} of {len(extra):,} answers"
        text += f"; up to {high:,} more, of steps that drafted nothing" if high > 1 else ""
        cut = -low <= max(record.longest or 1 for record in records)
        why = "the last step was cut" if cut else "steps or drafts are counted wrongly"
        text += f"; up to {-low:,} fewer: {why}" if low < 0 else ""
        checks.append((holds == len(extra), f"{text}."))
    full = [(record.longest or 0) * record.num_spec_steps for record in records]
    drafts = [record.num_draft_tokens for record in records]
    if all(full) and None not in drafts:
        lacking = sum(full) - sum(filter(None, drafts))
        fixed = f"{lacking:,} of {sum(full):,} are lacking, so some steps drafted fewer" if lacking else "holds"
        checks.append((not lacking, f"drafts = K x steps: {fixed}."))
    return checks


def _rates(records: Sequence[AcceptanceRecord], summary: Summary) -> list[tuple[bool, str]]:
    drafted, each = [record.num_draft_tokens for record in records], summary.accepted / summary.steps
    total, sentences, places = sum(filter(None, drafted)), list[str](), records[0].accepted_per_position
    if None not in drafted and total > 1.5 * summary.steps and summary.accepted:
        share = f"{summary.accepted / total:.1%} of all drafts, {each:.2f} of {total / summary.steps:.3g} a step"
        sentences.append(f"{share}; it falls as K grows.")
    if len(records) == 1 and places is not None and len(places) > 1 and places[0]:
        sentences += readings([count / summary.steps for count in places], each)
    return [(True, text) for text in sentences]


def readings(rates: Sequence[float], accepted: float | None = None) -> list[str]:
    """Return the accepted drafts a step under each reading of a list of rates by position.

    Survival (of all steps) adds up; conditional rates (given all earlier drafts) add up as products. Of marginal ones
    the first d are all accepted with a probability between Fréchet's bounds, max(0, Σ − d + 1) and the least.
    """
    values = np.asarray(rates, dtype=np.float64)
    low = float(np.maximum(np.cumsum(values) - np.arange(len(values)), 0.0).sum())
    high = float(np.minimum.accumulate(values).sum())
    shown = [*(f"{value:.3f}" for value in values[:8]), *(["..."] if len(values) > 8 else [])]
    listed = f"rates by position ({' '.join(shown)})"
    other = f"{np.cumprod(values).sum():.2f} as conditional rates, {low:.2f} to {high:.2f} as marginal accuracies"
    if accepted is not None:
        return [f"{listed} add up to {accepted:.2f}, the accepted drafts of a step."]
    cliff = list[str]()
    if (zero := int(np.argmin(values > 0))) and not values[zero:].any():
        cliff.append(
            f"a cliff, not a decay, unless few steps were counted: exactly 0 from depth {zero + 1} on, after "
            f"{values[zero - 1]:.3f}: a limit or a defect ends drafts there."
        )
    if (np.diff(values) > 0).any():
        return [f"{listed} rise, so they are not survival; accepted drafts a step: {other}.", *cliff]
    return [
        f"{listed} do not say what they are; accepted drafts a step: {values.sum():.2f} as survival (shares of all "
        f"steps, as vLLM's), {other}. Counts decide: accepted drafts over steps.",
        *cliff,
    ]


def _impossible(summary: Summary) -> list[str]:
    from scipy.special import betaincinv

    steps, texts, depths = summary.steps, list[str](), summary.depths if summary.identified else ()
    first = summary.depths[0].accepted if summary.depths else summary.accepted
    if not summary.copied and (most := float(betaincinv(first + 1, max(steps - first, 1), 0.95))) < UNLIKE:
        texts.append(
            f"impossible for a draft model that resembles its target, at any temperature: {first:,} accepted in "
            f"{steps:,} steps, below {most:.1%} at 95%. Are the drafts those that are verified (or copies, as n-grams)?"
        )
    if depths and all(depth.accepted == depth.examined for depth in depths) and 0.05 ** (1.0 / steps) > 1.0 - UNLIKE:
        texts.append(f"all drafts of {steps:,} steps were accepted: the draft is the target, or nothing is verified.")
    for before, depth in pairwise(depths):
        if depth.accepted == 0 and (1.0 - before.acceptance) ** depth.examined < 0.05:
            sure = (1.0 - before.low) ** depth.examined < RARE
            texts.append(
                f"a cliff, {'not a decay' if sure else 'or chance'}: of {depth.examined:,} drafts at depth "
                f"{depth.depth} none was accepted, after {before.acceptance:.0%} at depth {before.depth}: a limit or a "
                "defect ends drafts there."
            )
        if depth.low > before.high:
            texts.append(
                f"acceptance rises from {before.acceptance:.0%} at depth {before.depth} to {depth.acceptance:.0%} at "
                f"depth {depth.depth}: steps are a mixture of easy and hard places (or drafts copy)."
            )
    return texts
