"""All claims on all positions of a trace, streamed: memory does not grow with the trace.

A claim is checked on what was measured, arrays built from the stored logits, where these hold all it takes; a claim
that needs no language model is checked on simulated instances, from ``validation/scenarios``. Positions are read in
blocks and checked a few rows at a time, so few that a worker's arrays stay in its cache; neither the number of workers
nor their timing changes a result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

import hlmtheory
from hlmtheory import truncation
from hlmtheory.claims import Claim, Instance, Verdict
from validation.claims.instances import (
    MAX_DRAFT_LENGTH,
    ROW_ARRAYS,
    WINDOW_ARRAYS,
    InstanceDraws,
    Scenario,
    instance_arrays,
    row_arrays,
    scenario_rng,
    scenarios,
    windows,
)
from validation.claims.progress import CheckSums, Unfinished, mark_of
from validation.claims.results import Results, Tally, load_results
from validation.errors import UserError
from validation.models.devices import choose_device, cores, memory_errors
from validation.trace.reader import Trace, TraceChunk

__all__ = ["BIASES", "MAX_DRAFT_LENGTH", "Results", "Tally", "check_trace", "instance_arrays", "load_results"]

BLOCK_ROWS, BLOCK_VALUES = 256, 2**22  # positions read at a time, and logits of one model among them
CACHED_VALUES, GPU_VALUES = 2**17, 2**20  # probabilities of one model that are checked at a time
ARRAYS_ALIVE = 32  # at most, in one claim's check, of as many float64 as there are probabilities
MEMORY = 2**30  # bytes for all workers together
SCENARIO_BATCHES = 10
BIASES = (0.01, 0.05, 0.1)  # of which the summary says how many entries a device has to send

Progress = Callable[[int, int, str], None]
Job = Callable[[], "Part"]


@dataclass(slots=True)
class Part:
    """What one job found: verdicts, and of how many positions which sums."""

    verdicts: list[Verdict]
    positions: int = 0
    sums: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where claims on measured arrays are checked: numpy on the host, or torch on a device."""

    device: str | None = None
    values: int = CACHED_VALUES
    turn: AbstractContextManager[Any] = field(default_factory=nullcontext)  # torch has one queue: one worker at a time

    @classmethod
    def of(cls, device: str) -> Place:
        """``"numpy"``, ``"auto"`` (a GPU or numpy), or a device for :func:`.choose_device`."""
        if device == "numpy":
            return cls()
        where = choose_device(device)
        if device == "auto" and where.type == "cpu":
            return cls()
        return cls(str(where), CACHED_VALUES if where.type == "cpu" else GPU_VALUES, Lock())

    def put(self, arrays: Mapping[str, Any]) -> Instance:
        """The arrays there, of the same types and values."""
        if self.device is None:
            return arrays
        import torch

        return {name: torch.from_numpy(np.ascontiguousarray(a)).to(self.device) for name, a in arrays.items()}


def check_trace(
    trace: Trace,
    *,
    seed: int = 1,
    claims: Mapping[str, Claim] | None = None,
    progress: Progress | None = None,
    device: str = "numpy",
    kept: Path | None = None,
) -> Results:
    """Check claims on every position of a trace, and those that need none on simulated instances.

    Parameters
    ----------
    trace : Trace
    seed : int
        Of the drawn tokens, the sizes k, the draft lengths and the scenarios.
    claims : mapping of str to Claim, optional
        All, if None.
    progress : callable, optional
        Called as ``progress(done, total, text)`` in positions.
    device : str
        Where measured arrays are checked: ``"numpy"`` on the host, or as torch tensors on ``"cpu"``, ``"cuda"``,
        ``"cuda:1"``; ``"auto"`` is a GPU if there is one, else numpy. The instances are the same everywhere;
        simulated ones are checked by numpy on the host.
    kept : Path, optional
        A file for the results so far; a check that was stopped continues from it. The caller removes it.

    Returns
    -------
    Results

    Raises
    ------
    UserError
        If no instance can be built for a claim; a simulated claim that was in scope nowhere, which is a defect of its
        scenario; an unknown device; too little memory. A measured claim that the trace has no instance of, such as
        one on eight positions of a text, is reported as out of scope, with the reason.
    """
    claims = hlmtheory.all_claims() if claims is None else claims
    tables = scenarios()
    simulated = {name: claim for name, claim in claims.items() if name in tables}
    measured = [claim for name, claim in claims.items() if name not in tables]
    _refuse_unserved(measured)
    tallies = {name: Tally(name, kind="simulated" if name in simulated else "measured") for name in claims}
    place = Place.of(device)
    settings = {"seed": seed, "device": place.device, "batches": SCENARIO_BATCHES}
    file = Unfinished(kept, mark_of(trace, claims, settings) if kept else "")
    found = file.read(CheckSums(tallies))
    began = time.perf_counter() - found.seconds
    jobs = islice(_jobs(trace, measured, seed, place, simulated, tables), found.parts, None)
    whole = True
    with memory_errors():
        try:
            for part in _in_order(jobs, _workers(trace.vocabulary)):
                whole = False
                _add(found, part)
                whole = True
                found.seconds = time.perf_counter() - began
                file.write(found)
                if progress and not part.positions:
                    progress(found.scenes, len(simulated) * SCENARIO_BATCHES, "checking the simulated claims")
                elif progress:
                    progress(found.positions, trace.positions, "checking the claims")
        finally:
            if whole:  # Ctrl-C may come in the middle of a part
                file.write(found, now=True)
    _refuse_out_of_scope(found.tallies)
    summary = {name: value / trace.positions for name, value in found.sums.items()}
    return Results(found.tallies, trace.positions, seed, found.seconds, summary)


def _add(found: CheckSums, part: Part) -> None:
    for verdict in part.verdicts:
        found.tallies[verdict.claim].add(verdict)
    for name, value in part.sums.items():
        found.sums[name] = found.sums.get(name, 0.0) + value
    found.parts, found.positions = found.parts + 1, found.positions + part.positions
    found.scenes += part.positions == 0


def _refuse_unserved(measured: Iterable[Claim]) -> None:
    for claim in measured:
        missing = [name for name in claim.takes if name not in (*ROW_ARRAYS, *WINDOW_ARRAYS)]
        if missing:
            raise UserError(
                f"A trace offers no {', '.join(missing)} for {claim.id}, and no scenario serves it; "
                "add it to the INSTANCES of a module of validation/scenarios."
            )


def _refuse_out_of_scope(tallies: Mapping[str, Tally]) -> None:
    empty = [name for name, tally in tallies.items() if tally.kind == "simulated" and not tally.in_scope]
    if empty:
        raise UserError(f"No simulated instance is in the scope of {', '.join(empty)}; fix its scenario.")


def block_rows(vocabulary: int) -> int:
    """Positions in a block: a power of two, so that blocks and the chunks of the store share their borders.

    >>> [block_rows(size) for size in (300, 4096, 32_000, 152_000)]
    [256, 256, 128, 16]
    """
    fitting = max(2 * MAX_DRAFT_LENGTH, min(BLOCK_ROWS, BLOCK_VALUES // vocabulary))
    return 1 << (fitting.bit_length() - 1)


def _workers(vocabulary: int) -> int:
    """As many as there are cores, and memory for."""
    block = block_rows(vocabulary) * vocabulary * 2 * 2  # float16, two models
    each = block + ARRAYS_ALIVE * 8 * max(CACHED_VALUES, vocabulary)
    return max(1, min(cores(), MEMORY // each - 1))


def _jobs(
    trace: Trace,
    measured: list[Claim],
    seed: int,
    place: Place,
    simulated: Mapping[str, Claim],
    tables: Mapping[str, Scenario],
) -> Iterator[Job]:
    """Scenario batches, then blocks of the trace, which are read one by one as workers become free."""
    for name, claim in simulated.items():
        for batch in range(SCENARIO_BATCHES):
            yield partial(_check_scenario, claim, tables[name], scenario_rng(seed, name, batch))
    for index, chunk in enumerate(trace.chunks(block_rows(trace.vocabulary))):
        yield partial(_check_block, chunk, measured, np.random.default_rng([seed, index]), place)


def _in_order(jobs: Iterable[Job], workers: int) -> Iterator[Part]:
    """Jobs on all cores (numpy releases the lock), a few in flight; results in order, so sums repeat.

    Whoever stops before the end, by Ctrl-C for one, does not wait for the jobs in flight.
    """
    pool = ThreadPoolExecutor(workers)
    finished = False
    try:
        waiting: deque[Future[Part]] = deque()
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        finished = True
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)


def _check_scenario(claim: Claim, scenario: Scenario, rng: np.random.Generator) -> Part:
    return Part([claim.check(scenario(rng))])


def _check_block(chunk: TraceChunk, claims: list[Claim], rng: np.random.Generator, place: Place) -> Part:
    """Check the measured claims on one block: a few positions at a time, and windows on the whole block."""
    count, vocabulary = chunk.draft_logits.shape
    draws = InstanceDraws.of(rng, count, vocabulary)
    by_row = [claim for claim in claims if not set(claim.takes) & set(WINDOW_ARRAYS)]
    names = {name for claim in by_row for name in claim.takes}
    verdicts: list[Verdict] = []
    acceptance, top = np.empty(count), np.empty(count)
    sizes = np.empty((count, len(BIASES)))
    step = max(1, place.values // vocabulary)
    for start in range(0, count, step):
        part = slice(start, start + step)
        arrays = row_arrays(chunk[part], draws[part], names)
        acceptance[part], top[part] = arrays["acceptance"], arrays["draft"].max(axis=-1)
        sizes[part] = _sizes(arrays["draft"])
        with place.turn:
            there = place.put({name: arrays[name] for name in names})
            verdicts += [claim.check({name: there[name] for name in claim.takes}) for claim in by_row]
    runs = windows(acceptance, chunk)
    if len(runs):
        by_window = [claim for claim in claims if claim not in by_row]
        verdicts += [claim.check(place.put({"acceptances": runs})) for claim in by_window]
    return Part(verdicts, count, _sums(acceptance, top, sizes))


def _sizes(draft: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Fewest entries whose certificate 2 Δ_k is at most each of BIASES, shape (n, len(BIASES))."""
    return np.stack([truncation.certified_size(draft, bias) for bias in BIASES], axis=-1)


def _sums(acceptance: np.ndarray[Any, Any], top: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> dict[str, float]:
    """Sums over the block of what the summary averages."""
    return {
        "acceptance": float(acceptance.sum()),
        "certain_share": float(np.count_nonzero(top >= 0.9)),
        "uncertain_share": float(np.count_nonzero(top <= 0.5)),
        **{f"size_for_bias_{bias}": float(size) for bias, size in zip(BIASES, sizes.sum(axis=0), strict=True)},
    }
