"""Options from an engine's counts of accepted drafts: no rows, so nothing is skipped, quantised or truncated.

A sampled draft needs q_d up, and after a rejection p down. Of a greedy draft, or one that is compared with the target's
own token, the token id is enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.draft_length import acceptance_by_depth
from validation.acceptance.engines import read_acceptance
from validation.acceptance.record import VERIFICATIONS, AcceptanceRecord, Counts, add, marked, refuse_mixture, remarks
from validation.acceptance.settings import LONGER
from validation.acceptance.summary import FEWEST_CLUSTERS, RoundTimes, square, summarise
from validation.arrays import Array
from validation.decoding.methods import rows
from validation.decoding.wire import index_bits
from validation.errors import UserError
from validation.planning.option import Note, Option, exact
from validation.planning.profile import rejection_bits, reply_bits
from validation.planning.rounds import count_table
from validation.planning.split import Split
from validation.printable import counted

LEAST = "Draft lengths varied and only their sum is known: planned is the least acceptance that the counts allow."


@dataclass(frozen=True, slots=True)
class CountsSaid:
    """What an engine's counts add to an answer."""

    tokens: tuple[float, float, float] | None  # of a round of the answer's length, with its interval
    interval: str  # of what it is
    engine: str
    sampled: bool  # whether drafts are drawn, not the likeliest
    rejection: str  # what a rejection sends


def counts_of(evidence: Mapping[str, Any], option: Option, down_bps: float) -> CountsSaid:
    bits = 32 * evidence["vocabulary"]
    sent = f"{bits:,} bits down ({1e3 * bits / down_bps:.3g} ms)"
    return CountsSaid(
        tokens=evidence["tokens"].get(option.draft_length),
        interval="over records" if evidence["records"] >= FEWEST_CLUSTERS else "at any stopping time",
        engine=evidence["engine"],
        sampled=evidence["draft_sampling"] != "greedy" and evidence["verification"] != "match",
        rejection=f"; each rejection sends {sent}, which greedy drafts would not",
    )


def tokens_ratio(evidence: Mapping[str, Any], option: Option, other: Option) -> tuple[float, float] | None:
    """Return the ends of the tokens of a round over those of another length, by their value; None if not known.

    The ratio of a longer to a shorter round rises with every acceptance: its ends are those of the acceptances.
    """
    tokens = {0: (1.0, 1.0, 1.0), **evidence["tokens"]}
    lengths = option.draft_length, other.draft_length
    if evidence["records"] >= FEWEST_CLUSTERS or not tokens.keys() >= {*lengths}:
        return None
    value, *ends = (mine / theirs for mine, theirs in zip(*(tokens[length] for length in lengths), strict=True))
    return min(ends) / value, max(ends) / value


def options_of_records(
    files: Sequence[Path],
    vocabulary: int,
    draft_length: int | None = None,
    drafts: str | None = None,
    verification: str | None = None,
    times: RoundTimes | None = None,
) -> tuple[list[Option], dict[str, Any]]:
    """Return the options that counts of accepted drafts allow, and what the plan says about them."""
    records = _records(files, drafts, verification)
    options, evidence = options_of_counts(records, vocabulary, draft_length, pooled=True)
    read_with = {"draft_length": draft_length, "drafts": drafts, "verification": verification}
    evidence = {"files": [str(file) for file in files]} | evidence | {"read_with": read_with}
    summary = summarise(records, assumed_length=draft_length, times=times)
    evidence["tokens"] = {length.draft_length: (length.tokens, length.low, length.high) for length in summary.lengths}
    evidence["not_told_apart"] = summary.not_told_apart
    notes = _notes(records, _by_ids(records), vocabulary)
    if any(fewest != most for fewest, most in (record.examined(draft_length) for record in records)):
        notes.append(Note(LEAST))
    return options, {"evidence": evidence, "notes": notes}


def options_of_counts(
    records: Sequence[AcceptanceRecord], vocabulary: int, draft_length: int | None = None, *, pooled: bool = False
) -> tuple[list[Option], dict[str, Any]]:
    """Return the options of counts with one way of drafting and one lossless rule, and the evidence."""
    tables = [record.examined(draft_length)[1] for record in records]
    weight = np.array([float(max(record.num_spec_steps + record.num_accepted_draft_tokens, 1)) for record in records])
    if pooled:
        tables, weight = [add(tables)], weight.sum(keepdims=True)
    deepest = max(max(table, default=0) for table in tables)
    if deepest < 1:
        raise UserError(f"{records[0].source}: no step drafted a token, so there is no acceptance to plan with.")
    profile = np.asarray(acceptance_by_depth(square(add(tables), deepest)).acceptances, dtype=np.float64)
    known = int(np.argmax(~np.isfinite(profile))) if not np.isfinite(profile).all() else deepest
    if not known:
        raise UserError(f"{records[0].source}: the first draft was never examined, so there is no acceptance.")
    rates = np.stack([_own(table, deepest, profile)[:known] for table in tables])
    tokens = 1.0 + np.cumsum(np.cumprod(rates, axis=1), axis=1)  # (texts, K)
    width = float(index_bits(vocabulary))

    def table(**each: Any) -> Array:
        return count_table(tokens=weight, **{name: weight * value for name, value in each.items()})

    none = np.zeros(len(tables))
    server = {"passes": 1, "verified": 1, "down_bits": width}
    options = [
        exact(rows.SERVER, "one exchange a token", table(**server, exchanges=1, up_bits=8)),
        Option(rows.DEVICE, "", table(drafts=1, skipped=1), 0, np.inf, none + 1, none + 1),
        exact(rows.STREAM, "no round trips", table(**server)),
    ]
    greedy = records[0].draft_sampling == "greedy"
    by_ids = (rows.GREEDY, "") if greedy else (rows.OURS, "token ids, ") if _by_ids(records) else None
    reply = reply_bits(vocabulary)
    for k in range(1, known + 1):
        rounds = 1.0 / tokens[:, k - 1]
        rejected = rounds * (1.0 - np.prod(rates[:, :k], axis=1))
        alone = {"server_drafts": k * rounds, "passes": rounds, "verified": (k + 1) * rounds, "down_bits": width}
        options.append(exact(rows.OWN_GREEDY if greedy else rows.COLOCATED, f"K = {k}", table(**alone), k))
        shared = {"drafts": k * rounds, "passes": rounds, "exchanges": rounds, "verified": (k + 1) * rounds}
        if by_ids is not None:
            family, words = by_ids
            sent = table(**shared, up_bits=rounds * (16.0 + k * width), down_bits=rounds * reply)
            options.append(exact(family, f"{words}K = {k}", sent, k))
            continue
        row = width + 32.0 * vocabulary
        full = table(**shared, up_bits=rounds * (16.0 + k * row), down_bits=rounds * reply)
        split = table(
            **shared,
            up_bits=rounds * (16.0 + k * (width + 32.0)),
            down_bits=rounds * reply + rejected * rejection_bits(vocabulary),
        )
        sized = (float(vocabulary), float(vocabulary))
        options.append(exact(rows.FIXED, f"K = {k}", full, k, top_k=sized))
        options.append(exact(rows.FLEXSPEC, f"K = {k}", split, k, top_k=(1, 1), codec=0))
        options.append(exact(rows.OURS, f"q_d up, p down, K = {k}", split, k, top_k=(1, 1), codec=0))
    return options, {
        "engine": records[0].engine,
        "records": len(records),
        "reads_again": records[0].reads_again,
        "draft_sampling": records[0].draft_sampling,
        "verification": records[0].verification,
        "steps": int(sum(record.num_spec_steps for record in records)),
        "acceptance_by_depth": profile[:known].tolist(),
        "vocabulary": vocabulary,
    }


def basis_said(evidence: Mapping[str, Any], split: Split, option: Option) -> str:
    """Return what the numbers of a plan rest on: prompts, or counted rounds and their tokens at the plan's length."""
    prompts, steps = split.prompts["test"], evidence.get("steps")
    if steps is None:
        held = counted(prompts, "held-out prompt" if split.enough else "prompt")
        built_in = evidence.get("pair", "").startswith("builtin/")
        return f"{held} of the built-in models (--trace takes yours)" if built_in else held
    basis = f"{counted(steps, 'round')} of up to {counted(len(evidence['acceptance_by_depth']), 'draft')}"
    tokens = evidence.get("tokens", {}).get(option.draft_length)
    if tokens is None:
        return basis
    mean, low, high = tokens
    return f"{basis}: {mean:.2f} tokens a round ({low:.2f} to {high:.2f}); K was chosen on the same counts"


def longest_recorded(option: Option, evidence: Mapping[str, Any]) -> list[str]:
    """Return a note if a plan's draft length is the longest that was recorded."""
    longest = len(evidence["acceptance_by_depth"])
    more = LONGER.format(3 * longest // 2 + 1)
    return [f"K = {longest} is the longest recorded; {more}."] if option.draft_length == longest else []


def _by_ids(records: Sequence[AcceptanceRecord]) -> bool:
    return records[0].draft_sampling == "greedy" or records[0].verification == "match"


def _records(files: Sequence[Path], drafts: str | None, verification: str | None) -> list[AcceptanceRecord]:
    read = read_acceptance(*files).records
    records = [marked(record, drafts=drafts, verification=verification) for record in read]
    refuse_mixture(records)
    if records[0].copied:
        raise UserError(f"{records[0].source}: n-grams need no draft model; for their best K: `hlm acceptance`.")
    rule = records[0].verification
    if rule is not None and VERIFICATIONS.get(rule) is False:
        raise UserError(
            f"{records[0].source}: verification {rule} loses the target's law, so its acceptance is not that of a "
            "lossless plan; give counts of the rule standard, block or match."
        )
    return records


def _notes(records: Sequence[AcceptanceRecord], ids: bool, vocabulary: int) -> list[Note]:
    if ids:
        basis = "greedy" if records[0].draft_sampling == "greedy" else "compared with the target's own token"
        return [Note(f"Drafts are {basis}: their token ids alone are sent, and the target's law is kept.")]
    trusted = (
        f"FlexSpec and ours send {32 * vocabulary:,} bits down after a rejection. The server trusts the q that a "
        "device states: a false one moves the text's law (verification.liar). With a shared seed or --verification "
        "match it does not: a lie costs the device its own acceptance."
    )
    return [*map(Note, remarks(records)), Note(trusted, of_device=True)]


def _own(table: Counts, deepest: int, pooled: Array) -> Array:
    """Return a record's acceptance by depth; the pooled one counts as one more examined draft."""
    steps = square(table, deepest)
    rates = np.empty(deepest)
    for depth in range(deepest):
        long = steps[depth + 1 :]  # rounds with more than ``depth`` drafts
        examined, accepted = long[:, depth:].sum(), long[:, depth + 1 :].sum()
        rates[depth] = (accepted + np.nan_to_num(pooled[depth])) / (examined + 1.0)
    return rates
