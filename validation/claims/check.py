"""Check all claims on all positions of a trace, in constant memory.

A claim that needs no language model is checked on simulated instances. Positions are read in blocks and checked a few
at a time, so that arrays fit a worker's cache. The number and the timing of the workers do not change a result.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

import hlmtheory
from hlmtheory import truncation
from hlmtheory._remember import HELD, freeze, remembering
from hlmtheory.claims import Claim, Verdict
from hlmtheory.own import Trial
from validation.claims import instances, interval_claims
from validation.claims.instances import measured
from validation.claims.progress import CheckSums, Unfinished, mark_of
from validation.claims.results import Results, Tally, load_results
from validation.collection.intervals import acceptance, certified_sizes
from validation.collection.top_k import Lists, Progress, Rounding
from validation.errors import UserError
from validation.models.devices import cores, keep_freed_memory, memory_errors
from validation.processes import in_threads
from validation.trace.reader import ListChunk, Trace, TraceChunk, probabilities

__all__ = ["BIASES", "Results", "Tally", "check_trace", "load_results"]

LIST_BLOCK = 4096  # maximum positions in a block of top-k lists
BLOCK_ROWS, BLOCK_VALUES = 256, 2**22  # maximum positions in a block, and logits of one model
CACHED_VALUES = 2**18  # probabilities of one model checked at a time
ARRAYS_ALIVE = 32 + HELD  # maximum number of float64 arrays of that size in one claim's check, and remembered
MEMORY = 3 * 2**30  # bytes, for all workers together
SCENARIO_BATCHES = 10
# fmt: off
DEAR: Mapping[str, int] = {
    **dict.fromkeys((
        "channel.capacity", "channel.capacity_jensen", "channel.rayleigh_mean", "channel.rician_mean",
        "channel.rician_outage", "draft_length.adaptive_depths", "policy.user_optimum",
    ), 2),
    **dict.fromkeys((
        "policy.user_bound", "policy.user_limit", "policy.user_rate", "policy.user_risk",
    ), 3),
}
# fmt: on
"""Batches of the simulated claims that take about 0.1 s or more each: as few as hold 60 instances in scope, at least 2.

With all batches they took 60% of the time of all simulated claims. With 60 instances a defect in 5% of them is missed
with a probability of at most 5%. The property tests draw others.
"""
BIASES = (0.01, 0.05, 0.1, 0.2)  # the summary reports the top_k that certifies each

Job = Callable[[], "Part"]
PartsOf = Callable[["Work", tuple[str, ...], int], Iterator["Part"]]


@dataclass(slots=True)
class Part:
    """Result of one job: a tally for each claim, the number of positions, and sums over them."""

    tallies: dict[str, Tally]
    positions: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, verdicts: list[Verdict], positions: int = 0, sums: dict[str, float] | None = None) -> Self:
        part = cls({}, positions, sums or {})
        for verdict in verdicts:
            part.tallies.setdefault(verdict.claim, Tally(verdict.claim)).add(verdict)
        return part


def check_trace(
    trace: Trace,
    *,
    seed: int = 1,
    claims: Mapping[str, Claim] | None = None,
    progress: Progress | None = None,
    kept: Path | None = None,
    stored_rows: bool = False,
    parts: PartsOf | None = None,
) -> Results:
    """Check claims on every position of a trace, and claims that need no trace on simulated instances.

    ``kept`` stores partial results, from which a stopped check continues; the caller removes it. ``stored_rows`` takes
    rows of a trace that knows its rounding as exact. ``parts(work, claims, first)`` yields the parts from number
    ``first`` on, in order, such as :func:`validation.claims.cluster.on_scheduler`; by default this process does.
    """
    claims = hlmtheory.all_claims() if claims is None else claims
    work = Work.of(trace, claims, seed=seed, stored_rows=stored_rows)
    tallies = {
        name: Tally(name, kind="simulated" if name in work.simulated else "measured", reason=work.why.get(name, ""))
        for name in claims
    }
    file = Unfinished(kept, mark_of(trace, claims, work.settings()) if kept else "")
    found = file.read(CheckSums(tallies))
    began = time.perf_counter() - found.seconds
    whole = True
    with memory_errors():
        try:
            for part in (parts or parts_here)(work, tuple(claims), found.parts):
                whole = False
                _add(found, part)
                whole = True
                found.seconds = time.perf_counter() - began
                file.write(found)
                if progress and not part.positions:
                    progress(found.scenes, work.scenes, "checking the simulated claims")
                elif progress:
                    progress(found.positions, trace.positions, "checking the claims")
        finally:
            if whole:  # Ctrl-C may interrupt a part
                file.write(found, now=True)
    empty = [name for name, tally in found.tallies.items() if tally.kind == "simulated" and not tally.in_scope]
    if empty:
        raise UserError(
            f"No simulated instance is in the scope of {', '.join(empty)}; draw others in hlmtheory/arguments.py."
        )
    summary = _covered({name: value / trace.positions for name, value in found.sums.items()})
    return Results(found.tallies, trace.positions, seed, found.seconds, summary)


def tally_of(trial: Trial) -> Tally:
    """Return the counts over the drawn instances of a user's claim."""
    return replace(Part.of(list(trial.verdicts)).tallies[trial.claim.id], kind="simulated")


def check_own(trace: Trace, own: Mapping[str, Trial], seed: int, **options: Any) -> dict[str, Tally]:
    """Return the tally of each claim of a user: measured if the trace serves its arguments, else that of the draws."""
    served = measured({name: trial.claim for name, trial in own.items() if not trial.counterexample})
    found = check_trace(trace, seed=seed, claims=served, **options).tallies if served else {}
    return {name: found.get(name) or tally_of(trial) for name, trial in own.items()}


def _add(found: CheckSums, part: Part) -> None:
    for name, tally in part.tallies.items():
        found.tallies[name].merge(tally)
    for name, value in part.sums.items():
        found.sums[name] = found.sums.get(name, 0.0) + value
    found.parts, found.positions = found.parts + 1, found.positions + part.positions
    found.scenes += part.positions == 0


def _refuse_unserved(measured: Iterable[Claim]) -> None:
    for claim in measured:
        missing = [name for name in claim.takes if name not in (*instances.ROW_ARRAYS, *instances.WINDOW_ARRAYS)]
        if missing:
            raise UserError(
                f"A trace offers no {', '.join(missing)} for {claim.id}, which is no claim of hlmtheory; "
                "check one of hlmtheory.all_claims()."
            )


def block_rows(vocabulary: int) -> int:
    """Return the positions in a block: a power of two, so that blocks align with the chunks of the store."""
    fitting = max(2 * instances.MAX_DRAFT_LENGTH, min(BLOCK_ROWS, BLOCK_VALUES // vocabulary))
    return 1 << (fitting.bit_length() - 1)


def workers_in_memory(vocabulary: int) -> int:
    block = block_rows(vocabulary) * vocabulary * 2 * 2  # float16, two models
    each = block + ARRAYS_ALIVE * 8 * max(CACHED_VALUES, vocabulary)
    return max(1, min(cores(), MEMORY // each - 1))


@dataclass(frozen=True, slots=True)
class Work:
    """The parts of a check in a fixed order: scenario batches, then blocks of the trace."""

    trace: Trace
    simulated: Mapping[str, Claim]
    measured: list[Claim]
    why: Mapping[str, str]
    seed: int
    rounded: Mapping[str, Rounding] | None
    tables: Mapping[str, instances.Scenario]
    batches: int
    rows: int
    stored_rows: bool
    drawn: tuple[tuple[str, int], ...]

    @classmethod
    def of(
        cls,
        trace: Trace,
        claims: Mapping[str, Claim],
        *,
        seed: int,
        stored_rows: bool,
        batches: int | None = None,
        rows: int | None = None,
    ) -> Self:
        """Return the work of a check; refuse a claim that no instance can be built for."""
        keep_freed_memory()
        tables = instances.scenarios()
        simulated = {name: claim for name, claim in claims.items() if name in tables}
        measured = [claim for name, claim in claims.items() if name not in tables]
        _refuse_unserved(measured)
        if stored_rows and interval_claims.holds_lists(trace):
            raise UserError(f"{trace.path} holds top-k lists, which are no rows; leave out --stored-rows.")
        why = interval_claims.reasons(trace, measured, stored_rows)
        batches = SCENARIO_BATCHES if batches is None else batches
        most = {name: min(batches, DEAR.get(name, batches)) for name in simulated}
        drawn = tuple((name, batch) for name in simulated for batch in range(most[name]))
        measured = [claim for claim in measured if claim.id not in why]
        rounded = None if stored_rows else interval_claims.rounding_of(trace)
        rows = rows or _rows(trace)
        return cls(trace, simulated, measured, why, seed, rounded, tables, batches, rows, stored_rows, drawn)

    @property
    def scenes(self) -> int:
        return len(self.drawn)

    def __len__(self) -> int:
        return self.scenes + -(-self.trace.positions // self.rows)

    def settings(self) -> dict[str, Any]:
        """Return what determines the results, beside the trace, the claims and the code."""
        return {"seed": self.seed, "batches": self.batches, "stored_rows": self.stored_rows}

    def job(self, number: int) -> Job:
        """Return one part, still to be computed; its block is read now."""
        if number < self.scenes:
            name, batch = self.drawn[number]
            return partial(
                _check_scenario, self.simulated[name], self.tables[name], instances.scenario_rng(self.seed, name, batch)
            )
        index = number - self.scenes
        rng = np.random.default_rng([self.seed, index])
        rows = self.trace.rows(index * self.rows, self.rows)
        if self.rounded is None:
            return partial(_check_block, TraceChunk(**rows), self.measured, rng)
        if interval_claims.holds_lists(self.trace):
            return partial(_check_lists, ListChunk(**rows), self.trace.vocabulary, self.measured, rng, self.rounded)
        return partial(_check_rounded, TraceChunk(**rows), self.measured, rng, self.rounded)


def _rows(trace: Trace) -> int:
    if not interval_claims.holds_lists(trace):
        return block_rows(trace.vocabulary)
    widths: list[int] = [trace.arrays[f"{name}_tokens"].shape[1] for name in ("draft", "target")]
    return max(16, min(LIST_BLOCK, BLOCK_VALUES // (16 * sum(widths))))


def parts_here(work: Work, claims: tuple[str, ...], first: int) -> Iterator[Part]:
    """Yield the parts from number ``first`` on, in order, computed by threads of this process."""
    return in_threads(map(work.job, range(first, len(work))), workers_in_memory(work.trace.vocabulary))


def _covered(summary: dict[str, float]) -> dict[str, float]:
    """Return the summary with each mean size over the positions that certify one, if the others are known."""
    for bias in BIASES:
        if (share := summary.get(f"covered_for_bias_{bias}")) is not None:
            size = summary.pop(f"size_for_bias_{bias}")
            summary |= {f"size_for_bias_{bias}": size / share} if share else {}
    return summary


def _check_scenario(claim: Claim, scenario: instances.Scenario, rng: np.random.Generator) -> Part:
    return Part.of([claim.check(scenario(rng))])


def _check_block(chunk: TraceChunk, claims: list[Claim], rng: np.random.Generator) -> Part:
    count, vocabulary = chunk.draft_logits.shape
    draws = instances.InstanceDraws.of(rng, count, vocabulary)
    by_row = [claim for claim in claims if not set(claim.takes) & set(instances.WINDOW_ARRAYS)]
    names = {name for claim in by_row for name in claim.takes}
    verdicts: list[Verdict] = []
    acceptance, top = np.empty(count), np.empty(count)
    sizes = np.empty((count, len(BIASES)))
    step = max(1, CACHED_VALUES // vocabulary)
    for start in range(0, count, step):
        part = slice(start, start + step)
        arrays = instances.row_arrays(chunk[part], draws[part], names)
        acceptance[part], top[part] = arrays["acceptance"], arrays["draft"].max(axis=-1)
        freeze(tuple(arrays.values()))
        with remembering():  # the summary and the claims sort the same rows
            sizes[part] = truncation.certified_size(arrays["draft"][:, None, :], BIASES)
            verdicts += [claim.check({name: arrays[name] for name in claim.takes}) for claim in by_row]
    if len(runs := instances.windows(acceptance, chunk)):
        by_window = [claim for claim in claims if claim not in by_row]
        verdicts += [claim.check({"acceptances": runs}) for claim in by_window]
    return Part.of(verdicts, count, _sums(acceptance, top, sizes))


def _check_lists(
    chunk: ListChunk, vocabulary: int, claims: list[Claim], rng: np.random.Generator, rounded: Mapping[str, Rounding]
) -> Part:
    q, p = (chunk.draft_tokens, chunk.draft_log_probabilities), (chunk.target_tokens, chunk.target_log_probabilities)
    lists = Lists(*q, *p, vocabulary, rounded["draft"], rounded["target"])
    rate, sizes = acceptance(lists), certified_sizes(lists, BIASES)
    sums = {"acceptance_low": float(rate.lower.sum()), "acceptance_high": float(rate.upper.sum())}
    for bias, size in zip(BIASES, sizes.T, strict=True):
        sums[f"covered_for_bias_{bias}"] = float(np.count_nonzero(size >= 0))
        sums[f"size_for_bias_{bias}"] = float(size[size >= 0].sum())
    shared = interval_claims.Shared(interval_claims.known_lists(lists, rng))
    return Part.of(interval_claims.check_known(claims, shared), len(chunk.tokens), sums)


def _check_rounded(
    chunk: TraceChunk, claims: list[Claim], rng: np.random.Generator, rounded: Mapping[str, Rounding]
) -> Part:
    verdicts: list[Verdict] = []
    sums: dict[str, float] = {}
    count, vocabulary = chunk.draft_logits.shape
    step = max(1, CACHED_VALUES // vocabulary)
    for start in range(0, count, step):
        part = chunk[start : start + step]
        known = interval_claims.known_rows(part, rounded, rng)
        shared = interval_claims.Shared(known)
        verdicts += interval_claims.check_known(claims, shared)
        draft = probabilities(part.draft_logits)
        found = {"acceptance_low": 1.0 - shared.apart.upper, "acceptance_high": 1.0 - shared.apart.lower}
        # A row is within a TV of this slack of the model's, and 2 Δ_k changes by at most 4 TV.
        slack = np.maximum(known.high_q - known.low_q, 0.0).sum(axis=-1)
        sizes = truncation.certified_size(draft[:, None, :], np.maximum(BIASES - 4.0 * slack[:, None], 1e-12))
        found |= {f"size_for_bias_{bias}": size for bias, size in zip(BIASES, sizes.T, strict=True)}
        for name, values in found.items():
            sums[name] = sums.get(name, 0.0) + float(np.sum(values))
    return Part.of(verdicts, count, sums)


def _sums(acceptance: np.ndarray[Any, Any], top: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> dict[str, float]:
    return {
        "acceptance": float(acceptance.sum()),
        "certain_share": float(np.count_nonzero(top >= 0.9)),
        "uncertain_share": float(np.count_nonzero(top <= 0.5)),
        **{f"size_for_bias_{bias}": float(size) for bias, size in zip(BIASES, sizes.sum(axis=0), strict=True)},
    }
