"""The command ``hlm acceptance``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import click

from validation.acceptance.record import DRAFTS, VERIFICATIONS, AcceptanceRecord, marked, write_records
from validation.acceptance.settings import ENGINES, LONGER, SAMPLED_FAILS, flags, tied_lengths
from validation.cli import acceptance_views as views
from validation.cli.display import open_console
from validation.cli.options import AT_LEAST_0, AT_LEAST_1, FILE, PLACE, DraftsType, GroupedCommand, json_option, option
from validation.cli.run import print_json
from validation.cli.tables import print_table, say
from validation.errors import UserError, naming
from validation.estimates import Estimate, three_digits
from validation.planning.quantities import read_time
from validation.printable import counted
from validation.trace.remote import Place

if TYPE_CHECKING:
    from rich.console import Console

    from validation.acceptance.passes import Passes
    from validation.acceptance.planners import NextN
    from validation.acceptance.reconcile import Reconciliation, Side
    from validation.acceptance.summary import RoundTimes, Summary

_LARGEST_BATCH = 65536
_MOST_TIED = 6  # ranges of batches that a sentence names
of_counts = partial(option, group="Counts")
of_times = partial(option, group="Times")
of_others = partial(option, group="Comparison")
of_output = partial(option, group="Output")


@click.command("acceptance", cls=GroupedCommand)
@click.argument("files", nargs=-1, required=True)
@of_counts("--only", "Read only records whose engine or category contains this word, such as eagle.")
@of_counts(
    "--drafts",
    "How the engine chose its drafts: the most probable token, a draw from q (vLLM's word probabilistic is read too), "
    "or a copy of the text (n-grams). With --reconcile it is of both engines; give it twice for two ways.",
    DraftsType(DRAFTS),
    multiple=True,
)
@of_counts(
    "--verification",
    "How it accepted them; the first three keep the target's distribution. The others are lossy: SGLang's threshold, "
    "Medusa's typical, FLy's, TensorRT-LLM's relaxed; synthetic is prescribed. Twice, as --drafts.",
    click.Choice(list(VERIFICATIONS)),
    multiple=True,
)
@of_counts("--draft-length", "Every step drafted this many tokens (an assumption).", AT_LEAST_1)
@of_times("--verify-time", "A pass of the target: this, and --verify-token-time for each token in it.")
@of_times("--draft-time --server-draft-time", "One pass of the draft model; 0ms for n-grams.")
@of_times("--verify-token-time", "Time that each token in such a pass adds, over all its texts.", default="0us")
@of_times("--draft-token-time", "Time that each sequence adds to the draft's pass.", default="0us")
@of_times("--passes", "A CSV of measured passes instead: batch, width, context, ms and, of both models, model.", FILE)
@of_times("--context", "With --passes: cached tokens of a sequence.  [default: the table's median]", AT_LEAST_0)
@of_times("--rtt", "Round trip of the link, paid once per round.  [default: none]", default="0ms", show_default=False)
@of_times("--batch", "Largest of the schedule.  [default: of --passes, else 1]", click.IntRange(1, _LARGEST_BATCH))
@of_others("--reconcile others", "Another engine's counts: say why the two differ.", multiple=True, metavar="FILE")
@of_others("--laws", "A trace of both models: what each way of drafting and verifying would accept.", PLACE)
@of_others("--sweep", "Rank files by the time of a token; LABEL=FILE names a run, one name repeats.", is_flag=True)
@of_others("--step-time", "With --sweep: the time of a step of each file, with commas.", metavar="40ms,44ms,...")
@of_others("--speed", "With --sweep: measured tokens per second of each file, with commas.", metavar="50/s,60/s,...")
@of_output("--confidence", "Of the intervals.", click.FloatRange(0.0, 1.0, min_open=True, max_open=True), default=0.95)
@of_output("--records", "Write the records here, as AIPerf's JSONL.", FILE)
@of_output("--settings", "Print flags for the best K, and nextn (K) of AIConfigurator.", click.Choice(ENGINES))
@of_output("--synthetic", "Print the acceptance measured here for this engine's simulator.", click.Choice(ENGINES))
@json_option
def acceptance(files: tuple[str, ...], **options: Any) -> None:
    """Print acceptance by depth and the best draft length from an engine's counts of accepted drafts.

    \b
    From a log, or from two scrapes of /metrics and a table of measured passes:
      hlm acceptance server.log --drafts sampled --verification standard \\
          --verify-time 30ms --server-draft-time 3ms
      hlm acceptance before.txt after.txt --drafts sampled \\
          --verification standard --passes passes.csv --settings vllm

    FILES are what vLLM, SGLang, TensorRT-LLM, llama.cpp or a benchmark writes: a log, /metrics (a file or its address;
    of two scrapes the earlier first), or answers with counts (docs/engines.md). The format is recognised.

    The best draft length needs --passes, or --verify-time and --server-draft-time. --reconcile says whether two engines
    accept differently, or only count differently; --laws whether an engine accepts what a trace of its models gives.
    """  # noqa: D301 (click takes the character, not an escape)
    from validation.acceptance.means import read_means
    from validation.acceptance.passes import read_passes

    fitted = None if options["passes"] is None else read_passes(options["passes"])
    if options["context"] is not None and fitted is None:
        raise UserError("--context is of the passes in a table; give --passes with it.")
    times, batch = _times(fitted, options), options["batch"]
    if batch is None:
        batch = 1 if fitted is None else min(max(fitted.target.rest), _LARGEST_BATCH)
    drafts, verification = options["drafts"], options["verification"]
    if (most := max(len(drafts), len(verification))) > (2 if options["others"] else 1):
        raise UserError(f"--drafts and --verification are given {most} times; give each once for each engine.")
    console = open_console(stderr=options["as_json"])
    if options["sweep"]:
        marks = {"drafts": _of_side(drafts, 0), "verification": _of_side(verification, 0)}
        return views.show_sweep(console, files, times, marks, options)
    if options["step_time"] is not None or options["speed"] is not None:
        raise UserError("--step-time and --speed are the times of the files of a sweep; give --sweep with them.")
    means = [one for one in map(read_means, files) if one is not None]
    if not means:
        return _show_counts(console, files, options, fitted, times, batch)
    if len(means) < len(files):
        raise UserError(f"{means[0].source} has means without counts; give it without files of counts.")
    views.show_means(console, means, times, options)


def _read(
    files: Sequence[str], options: dict[str, Any], times: RoundTimes | None, batch: int
) -> tuple[Side, Side | None, list[str]]:
    """Return the counts of an engine and of the one of --reconcile, and what their reader says of the first."""
    from validation.acceptance.engines import read_acceptance
    from validation.acceptance.reconcile import Side
    from validation.acceptance.summary import summarise

    others, confidence = options["others"], options["confidence"]
    drafts, verification = options["drafts"], options["verification"]
    read = read_acceptance(*files)
    found = _of_one_engine(read.records, options["only"])
    second = _of_one_engine(read_acceptance(*others).records, None) if others else []
    found, second = (
        [marked(record, drafts=_of_side(drafts, side), verification=_of_side(verification, side)) for record in records]
        for side, records in enumerate((found, second))
    )
    assumed = _assumed_lengths(found, second, options["draft_length"])
    about: dict[str, Any] = {"times": times, "largest_batch": batch, "left_out": read.left_out}
    first = Side(found, summarise(found, assumed_length=assumed[0], confidence=confidence, **about), assumed[0])
    dropped = {record.source for record in read.records} - {record.source for record in found}
    notes = [note for note in read.notes if not note.startswith(tuple(dropped))]
    if not second:
        return first, None, notes
    other = summarise(second, assumed_length=assumed[1], confidence=confidence)
    return first, Side(second, other, assumed[1]), notes


def _show_counts(
    console: Console, files: Sequence[str], options: Any, fitted: Passes | None, times: RoundTimes | None, batch: int
) -> None:
    from validation.acceptance.planners import acceptance_length, nextn_of
    from validation.acceptance.sanity import sanity

    first, second, notes = _read(files, options, times, batch)
    found, summary, confidence, laws = first.records, first.summary, options["confidence"], options["laws"]
    mean_length = acceptance_length(found, summary, confidence)
    planned = nextn_of(summary, mean_length)
    sane, odd = sanity(found, summary), sanity(found, summary, brief=True)
    agree = f"{'Other checks of the counts hold' if odd else 'The counts are consistent'} (--json lists the checks)."
    compared = None if second is None else _reconciled(first, second, laws, confidence)
    by_law = views.laws_beside(first, laws, confidence) if second is None and laws is not None else None
    if second is not None:
        sane += [f"B: {said}" for said in sanity(second.records, second.summary)]
        odd += [f"B: {said}" for said in sanity(second.records, second.summary, brief=True)]
    if options["records"] is not None:
        with naming(options["records"]):
            write_records(found, options["records"])
    written: dict[str, Any] = {}
    if times is None and second is None and summary.lengths:
        say(console, "For the best draft length give --verify-time and --server-draft-time, or --passes.", style="bold")
    _show_best(console, summary, times, batch)
    if options["settings"] is not None:
        written["settings"] = _show_flags(console, options["settings"], summary)
    say(console, *(() if fitted is None else fitted.sentences()))
    say(console, *(f"Sanity: {said}" for said in odd), *([agree] if len(odd) < len(sane) else []), *notes)
    _show(console, summary, mean_length)
    if options["settings"] is not None or options["synthetic"] is not None:
        _show_planned(console, summary, mean_length, planned)
    if (engine := options["synthetic"]) is not None:
        written["synthetic"] = views.synthetic_of(found, summary, engine, first.assumed_length)
        views.show_synthetic(console, f"for {engine}", written["synthetic"])
    if compared is not None:
        views.show_reconciliation(console, *compared)
    say(console, *(() if by_law is None else by_law["findings"]))
    if options["records"] is not None:
        say(console, str(options["records"]))
    if options["as_json"]:
        more: dict[str, Any] = {"acceptance_length": asdict(mean_length), "nextn": [asdict(one) for one in planned]}
        more |= {} if compared is None else {"reconciliation": views.plain_reconciliation(*compared)}
        more |= {} if by_law is None else {"by_law": by_law}
        print_json(summary.as_json() | more | {"sanity": [*notes, *sane]} | written)


def _of_one_engine(records: Sequence[AcceptanceRecord], only: str | None) -> list[AcceptanceRecord]:
    found = [one for one in records if only is None or only in one.engine or only in (one.category or "")]
    if not found:
        known = ", ".join(sorted({record.engine for record in records}))
        raise UserError(f"No record has an engine or category with {only!r}; the engines are: {known}.")
    if len(engines := sorted({record.engine for record in found})) > 1:
        raise UserError(
            f"The files have records of {len(engines)} engines; their mean has no meaning. Choose one with --only: "
            f"{'; '.join(engines)}."
        )
    return found


def _of_side(given: tuple[str, ...], side: int) -> str | None:
    return given[min(side, len(given) - 1)] if given else None


def _assumed_lengths(
    first: Sequence[AcceptanceRecord], second: Sequence[AcceptanceRecord], length: int | None
) -> tuple[int | None, int | None]:
    """Return the draft length that each engine's records need: of two, those that record it keep theirs."""
    lacks = [
        not all(one.knows_lengths or (one.num_draft_tokens is not None and one.longest) for one in records)
        for records in (first, second)
    ]
    return (length if lacks[0] or not lacks[1] else None), (length if lacks[1] or not lacks[0] else None)


def _reconciled(
    first: Side, second: Side, laws: Place | None, confidence: float
) -> tuple[Reconciliation, dict[str, Estimate]]:
    from validation.acceptance.reconcile import reconcile

    found = reconcile(first, second, confidence)
    if laws is None:
        return found, {}
    from validation.planning.laws import lengths_by_law
    from validation.trace.reader import open_trace

    length = min(filter(None, (first.longest, second.longest)), default=None)
    if length is None:
        raise UserError("Neither side records how many tokens a step drafted; give --draft-length.")
    return found, lengths_by_law(open_trace(laws), length, confidence)


def _times(fitted: Passes | None, given: dict[str, Any]) -> RoundTimes | None:
    from validation.acceptance.summary import RoundTimes

    options = ("verify_time", "verify_token_time", "draft_time", "draft_token_time", "rtt")
    texts = ((f"--{name.replace('_', '-')}", given[name]) for name in options)
    read: list[Any] = [None if text is None else read_time(option, text) for option, text in texts]
    verify_s, token_s, draft_s, each_s, rtt_s = read
    draft = None if draft_s is None else (draft_s, each_s)
    rests: dict[str, Any] = {}
    if fitted is not None:
        if verify_s is not None or token_s:
            raise UserError("--passes has the times of the target model; leave out --verify-time and its tokens'.")
        if (draft is None) == (fitted.draft is None):
            has = "no pass" if fitted.draft is None else "passes"
            wanted = "give it (0ms for n-grams)" if fitted.draft is None else "leave it out"
            raise UserError(f"The table of --passes has {has} of the draft model; --server-draft-time: {wanted}.")
        base, token, cached = fitted.target.plane
        known = fitted.target.context if given["context"] is None else given["context"]
        rests |= {
            "target_rest": fitted.target.beyond_plane,
            "measured_to": fitted.measured_to,
            "linear_from": fitted.linear_from,
        }
        if fitted.draft is not None:
            draft_base, draft_token, draft_cached = fitted.draft.plane
            draft = (draft_base, draft_token)
            rests |= {"draft_cache": draft_cached * known, "draft_rest": fitted.draft.beyond_plane}
        target = base, token, cached * known
    elif (verify_s is None) != (draft_s is None):
        raise UserError("The best draft length needs both --verify-time and --server-draft-time; give both or none.")
    elif verify_s is None:
        return None
    else:
        target = verify_s, token_s, 0.0
    if draft is None or sum(target) + rtt_s == 0:
        raise UserError("A round takes no time; give --verify-time above 0ms.")
    parts = ("verify", "verify_token", "cache", "draft", "draft_token")
    rests |= dict(zip(parts, (*target, *draft), strict=True))
    return RoundTimes(round_trip=rtt_s, **rests)


def _show(console: Console, summary: Summary, length: Estimate) -> None:
    said = f"{summary.engine}: {counted(summary.steps, 'step')} of {counted(summary.requests, 'record')} "
    said += f"accepted {summary.accepted:,} drafts, so a step emitted {length.text('#.3g')} tokens."
    say(console, said, *summary.remarks)
    if summary.left_out:
        first, count = summary.left_out[0], len(summary.left_out)
        what = f"1 answer ({first})" if count == 1 else f"{count:,} answers (the first: {first})"
        say(console, f"Left out: {what}.")
    if not summary.identified:
        say(console, f"The acceptance at each depth is not identified: {summary.reason}.")
    rows = []
    for one in summary.depths:
        rate = "-" if isnan(one.acceptance) else f"{one.acceptance:.3f}"
        rows.append([one.depth, f"{one.examined:,}", f"{one.accepted:,}", rate, f"{one.low:.3f} to {one.high:.3f}"])
    heads = ("depth", "examined", "accepted", "acceptance", "interval")
    print_table(console, "Acceptance of a draft, given that all earlier ones were accepted", heads, rows)
    if summary.lengths:
        print_table(console, "Tokens of a round", *_token_table(summary))
        if _may_copy(summary):
            say(
                console,
                "Tokens at a shorter length assume that its rounds begin at similar places. If drafts copy passages, "
                "as n-grams do, use the next column, which splits the recorded rounds instead: --drafts copied.",
            )
        read = f" Read from: {summary.reason}." if summary.identified else ""
        say(console, f"Intervals: {summary.intervals}.{read}")


def _show_best(console: Console, summary: Summary, times: RoundTimes | None, batch: int) -> None:
    if summary.no_best is not None:
        say(console, f"{summary.no_best}.", style="bold")
    if summary.best is None or times is None:
        return
    say(console, _advice(summary), *_of_yours(summary), *_not_stated(summary), style="bold")
    if not times.by_batch:
        by_batch = "" if summary.schedule else ", and K by batch"
        say(
            console,
            f"Assumes that a pass takes {1e3 * times.alone():.3g} ms at every K{_pays(summary, times)}. For passes "
            f"that grow with K and batch{by_batch}: --verify-token-time or --passes.",
        )
    if times.round_trip:
        say(console, "Messages over the link are not charged: hlm plan --acceptance charges them.")
    say(console, *_crossing(summary, batch), style="bold")
    if summary.schedule and batch > 1:
        written = json.dumps([list(one) for one in summary.schedule])
        measured = None if summary.crossover is None else summary.crossover.measured_to
        beyond = "" if measured is None or batch <= measured else f" (beyond the measured {measured:,} extrapolated)"
        _, last, length = summary.schedule[-1]
        keeps = f" vLLM keeps K = {length} above {last:,}: give --batch your --max-num-seqs." if length else ""
        say(console, f'By batch size: "num_speculative_tokens_per_batch_size": {written}{beyond}.{keeps}')


def _show_flags(console: Console, engine: str, summary: Summary) -> str:
    if summary.best is None:
        needs = "The best draft length needs times; give --passes, or --verify-time and --server-draft-time."
        raise UserError(f"--settings: {summary.no_best}." if summary.no_best else needs)
    sampled = summary.draft_sampling == "sampled"
    written = flags(engine, summary.best, summary.schedule, sampled=sampled)
    merged = ", to merge into the --speculative-config that you serve with (method, model)" if engine == "vllm" else ""
    tied = _tied(summary)
    which = tied if len(summary.not_told_apart_by_batch) < 2 else "the lengths above"
    apart = f" ({which} are not told apart)" if tied else ""
    say(console, f"For {engine}{merged}: {written}{apart}", style="bold")
    if sampled and engine == "vllm":
        say(console, f"Audit it first (hlm audit): {SAMPLED_FAILS}.")
    return written


def _show_planned(console: Console, summary: Summary, length: Estimate, planned: Sequence[NextN]) -> None:
    whom = "For AIConfigurator and AISimulate:"
    if not planned:
        say(console, f"{whom} nextn_accepted = {length + -1.0}, at the engine's nextn.")
    for one in (x for x in planned if x.nextn in (max(summary.counts or [0]), summary.best)):
        which = "best" if one.nextn == summary.best else "as recorded"
        say(console, f"{whom} nextn = {one.nextn}, nextn_accepted = {one.nextn_accepted.text('#.3g')} ({which}).")


def _may_copy(summary: Summary) -> bool:
    """Return whether drafts may be copies although nothing says so; a copy has no q to be drawn from."""
    known = bool(summary.lengths) and summary.lengths[0].same_text is not None
    return known and not summary.copied and summary.draft_sampling is None


def _token_table(summary: Summary) -> tuple[list[str], list[list[str]]]:
    tokens = "tokens, at least" if summary.copied or not summary.identified else "tokens"
    own = [] if summary.copied else [tokens, "interval"]
    split = [tokens] if summary.copied else ["if drafts copy"] if _may_copy(summary) else []
    rows = []
    for here in summary.lengths:
        cells = [] if summary.copied else [f"{here.tokens:.2f}", f"{here.low:.2f} to {here.high:.2f}"]
        cells += [f"{here.same_text:.2f}"] if split else []
        cells += [] if here.tokens_per_second is None else [three_digits(here.tokens_per_second)]
        rows.append([str(here.draft_length), *cells])
    return ["drafts", *own, *split, *([f"tokens/s{_at_batch_1(summary)}"] if summary.best is not None else [])], rows


def _crossing(summary: Summary, batch: int) -> list[str]:
    found = summary.crossover
    if found is None or (found.loses_from is None and batch == 1):
        return []
    beyond = f", beyond the measured {found.measured_to:,}" if found.extrapolated else ""
    low, high = (f"{end:,.0f}" if isfinite(end) else "never" for end in (found.low, found.high))
    if found.loses_from is not None:
        said = f"loses from batch {found.loses_from:,} on{beyond}"
        ends = f"{low} to {high}, by the tokens' intervals"
        if found.measured_to is not None and found.loses_from <= found.measured_to < found.high:
            ends += f"; beyond the measured {found.measured_to:,} extrapolated"
    else:
        said = f"pays at every large batch{beyond}"
        ends = f"by the least tokens of the intervals it loses from {low} on" if low != "never" else ""
    return [f"With these times drafting {said}{f' ({ends})' if ends and not isnan(found.low) else ''}."]


def _pays(summary: Summary, times: RoundTimes) -> str:
    if not summary.best:
        return ""
    tokens = next(length.tokens for length in summary.lengths if length.draft_length == summary.best)
    ratio = times.longest_pass(summary.best, tokens)
    return f" (K = {summary.best} pays until one over {summary.best + 1} tokens takes {ratio:.2f} times as long)"


def _advice(summary: Summary) -> str:
    best, speeds = summary.best or 0, _speeds(summary)
    flag = "; vLLM: num_speculative_tokens" if summary.engine.startswith("vllm") else ""
    said = f"Best K (draft length{flag}) for these times{_at_batch_1(summary)}: {best}"
    alone = f"{three_digits(speeds[0])} tokens/s without drafts"
    if best:
        own = next(one for one in summary.lengths if one.draft_length == best)
        low, high = (three_digits(speeds[best] * end / own.tokens) for end in (own.low, own.high))
        ends = "" if summary.copied else f", from {low} to {high}"
        said += f" ({three_digits(speeds[best])} tokens/s{ends}; {alone})."
        said += f" It is the longest recorded; {LONGER.format(3 * best // 2 + 1)}." if summary.best_is_longest else ""
    else:
        said += f". Drafting does not pay: {alone}."
    if best == 0 and summary.perfect is not None:
        said += f" Even if every draft were accepted, it would be {summary.perfect:.2f} times as fast."
    if summary.best_at_most not in (None, best):
        said += f" By the most accepted drafts that the counts allow it is {summary.best_at_most}."
    if _may_copy(summary) and summary.best_if_copied not in (None, best):
        said += f" If drafts copy passages it is {summary.best_if_copied}: give --drafts copied."
    return said


def _not_stated(summary: Summary) -> list[str]:
    """Return what the best draft length assumes of the engine, and that its rule may lose the target's law."""
    found = []
    if _may_copy(summary) and summary.draft_sampling is None:
        found.append("Assumes that drafts are no copies of the text: say how they were drafted with --drafts.")
    if summary.verification is None:
        found.append("Whether the text keeps the target's law is not known: say the rule with --verification.")
    elif not summary.lossless:
        found.append(f"The text loses the target's law: --verification {summary.verification}.")
    return found


def _of_yours(summary: Summary) -> list[str]:
    tied, best, speeds = _tied(summary), summary.best or 0, _speeds(summary)
    yours = next((k for k, row in (summary.counts or {}).items() if sum(row) >= 0.9 * summary.steps), 0)
    said = []
    if yours not in (0, best) and speeds.get(yours):
        first, last = summary.not_told_apart or (0, -1)
        noise = ", but may not be better" if {yours, best} <= {*range(first, last + 1)} else ""
        more = f"K = {best} gives {speeds[best] / speeds[yours] - 1.0:.1%} more{noise}"
        said.append(f"Your K = {yours}: {three_digits(speeds[yours])} tokens/s; {more}.")
    return [*said, f"{tied} are not told apart by these counts."] if tied else said


def _at_batch_1(summary: Summary) -> str:
    return " at batch 1" if any(last > 1 for _, last, _ in summary.schedule) else ""


def _tied(summary: Summary) -> str:
    """Return the draft lengths that the counts do not tell apart, by batch if they differ; "" if none."""
    if len(summary.not_told_apart_by_batch) < 2:
        return tied_lengths(summary.not_told_apart)
    rows = [row for row in summary.not_told_apart_by_batch if row[2] < row[3]]
    tied = [f"{low} to {high} ({first}{f' to {last}' if last > first else ''})" for first, last, low, high in rows]
    tied = [said.replace("(", "(batch ") if n == 0 else said for n, said in enumerate(tied[:_MOST_TIED])]
    tied += ["others at larger batches (--json)"] if len(rows) > _MOST_TIED else []
    return f"K = {', '.join(tied)}" if tied else ""


def _speeds(summary: Summary) -> dict[int, float]:
    speeds = [summary.alone_per_second, *(one.tokens_per_second for one in summary.lengths)]
    return {k: speed or 0.0 for k, speed in enumerate(speeds)}
