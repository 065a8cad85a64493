"""All claims on all positions of a trace, streamed: memory does not grow with the trace.

Every claim is checked on arrays built from what was stored. q and p are the float64 softmax of the stored logits;
what a claim needs beside them (a drawn token, a number k of entries to send, a draft length) is drawn by the seed,
so that a run can be repeated and every k from 0 to V has its chance.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import hlmtheory
from hlmtheory.claims import COARSE, Claim, Status, Verdict
from validation.errors import UserError
from validation.traces import Trace, TraceChunk, probabilities

CHUNK = 256  # positions; at V = 4,096 a float64 row of both models is 64 kB
LONGEST_DRAFT = 8
SIZES_BY_DRAFT = (8, 64, 512)  # entries sent for likely, middling and unlikely drafts

Progress = Callable[[int, int, str], None]


@dataclass(slots=True)
class Tally:
    """What all verdicts on one claim come to."""

    claim: str
    instances: int = 0
    holds: int = 0
    violated: int = 0
    inconclusive: int = 0
    out_of_scope: int = 0
    vacuous: int = 0
    worst_slack: float = math.inf
    tightest: float = -math.inf  # largest lhs/rhs seen where rhs is more than rounding
    broken: dict[str, int] = field(default_factory=dict)

    @property
    def in_scope(self) -> int:
        """Instances that met every assumption."""
        return self.instances - self.out_of_scope

    @property
    def outcome(self) -> str:
        """One word (two for "out of scope") for the report; a refuted claim is expected to fail."""
        if hlmtheory.all_claims()[self.claim].refuted is not None:
            return "refuted"
        if self.violated:
            return "violated"
        if not self.in_scope:
            return "out of scope"
        return "holds" if self.holds else "inconclusive"

    def add(self, verdict: Verdict) -> None:
        """Count one batch."""
        self.instances += verdict.instances
        self.holds += verdict.count(Status.HOLDS)
        self.violated += verdict.count(Status.VIOLATED)
        self.inconclusive += verdict.count(Status.INCONCLUSIVE)
        self.out_of_scope += verdict.count(Status.OUT_OF_SCOPE)
        self.vacuous += int(np.count_nonzero(verdict.vacuous))
        for statement, count in verdict.broken.items():
            self.broken[statement] = self.broken.get(statement, 0) + count
        if verdict.in_scope:
            self.worst_slack = min(self.worst_slack, float(np.nanmin(verdict.slack)))
            known = (verdict.rhs > COARSE) & np.isfinite(verdict.rhs)
            ratios = verdict.lhs[known] / verdict.rhs[known]
            self.tightest = max(self.tightest, float(ratios.max(initial=-math.inf)))


@dataclass(slots=True)
class Results:
    """The tallies of one run, and what the trace is like."""

    tallies: dict[str, Tally]
    positions: int
    seed: int
    seconds: float
    summary: dict[str, float]

    def to_json(self) -> str:
        """The results as text; infinities become null, since JSON has none."""
        plain = asdict(self)
        for tally in plain["tallies"].values():
            for name in ("worst_slack", "tightest"):
                tally[name] = tally[name] if math.isfinite(tally[name]) else None
        return json.dumps(plain, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what :meth:`to_json` wrote."""
        plain = json.loads(text)
        tallies = {}
        for name, fields in plain["tallies"].items():
            fields["worst_slack"] = math.inf if fields["worst_slack"] is None else fields["worst_slack"]
            fields["tightest"] = -math.inf if fields["tightest"] is None else fields["tightest"]
            tallies[name] = Tally(**fields)
        return cls(**{**plain, "tallies": tallies})


def check_trace(
    trace: Trace, *, seed: int = 1, claims: Mapping[str, Claim] | None = None, progress: Progress | None = None
) -> Results:
    """Check claims on every position of a trace.

    Parameters
    ----------
    trace : Trace
    seed : int
        Of the drawn tokens, the sizes k and the draft lengths.
    claims : mapping of str to Claim, optional
        All, if None.
    progress : callable, optional
        Called as ``progress(done, total, text)`` in positions.

    Returns
    -------
    Results

    Raises
    ------
    UserError
        If no instance can be built for a claim, or one was in scope nowhere.
    """
    claims = hlmtheory.all_claims() if claims is None else claims
    tallies = {name: Tally(name) for name in claims}
    sums: dict[str, float] = {}
    began, done = time.perf_counter(), 0
    for count, verdicts, moments in _in_parallel(trace, claims, seed):
        for verdict in verdicts:
            tallies[verdict.claim].add(verdict)
        for name, value in moments.items():
            sums[name] = sums.get(name, 0.0) + value
        done += count
        if progress:
            progress(done, trace.positions, "checking the claims")
    empty = [name for name, tally in tallies.items() if not tally.in_scope]
    if empty:
        raise UserError(f"No instance of this trace is in the scope of {', '.join(empty)}; collect a longer trace.")
    summary = {name: value / trace.positions for name, value in sums.items()}
    return Results(tallies, trace.positions, seed, time.perf_counter() - began, summary)


def _in_parallel(
    trace: Trace, claims: Mapping[str, Claim], seed: int
) -> Iterator[tuple[int, list[Verdict], dict[str, float]]]:
    """Chunks on all cores (numpy releases the lock), a few in flight; results in order, so sums repeat."""
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[Any] = []
        for index, chunk in enumerate(trace.chunks(CHUNK)):
            waiting.append(pool.submit(_check_chunk, chunk, claims, np.random.default_rng([seed, index])))
            if len(waiting) > workers:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def _check_chunk(
    chunk: TraceChunk, claims: Mapping[str, Claim], rng: np.random.Generator
) -> tuple[int, list[Verdict], dict[str, float]]:
    arrays = instance_arrays(chunk, rng)
    verdicts = []
    for claim in claims.values():
        missing = [name for name in claim.takes if name not in arrays]
        if missing:
            raise UserError(f"A trace offers no {', '.join(missing)} for {claim.id}; add it to instance_arrays.")
        instance = {name: arrays[name] for name in claim.takes}
        if all(np.shape(value)[0] for value in instance.values()):
            verdicts.append(claim.check(instance))
    return len(chunk.tokens), verdicts, _moments(arrays)


def instance_arrays(chunk: TraceChunk, rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """Everything a claim may take, for n positions.

    Parameters
    ----------
    chunk : TraceChunk
        n consecutive positions.
    rng : numpy Generator

    Returns
    -------
    dict
        ``draft``, ``target`` (n, V): softmax of the stored logits; ``token`` (n,): drawn from the draft row; ``k``
        (n,): log-uniform on 0..V; ``sizes`` (n, V): fewer entries for likelier drafts; ``acceptance`` (n,),
        ``draft_length`` (n,); ``acceptances`` (m, 8): the rates of 8 consecutive positions of one text.
    """
    draft, target = probabilities(chunk.draft_logits), probabilities(chunk.target_logits)
    count, vocabulary = draft.shape
    likely, middling, unlikely = np.minimum(SIZES_BY_DRAFT, vocabulary)
    acceptance = np.minimum(hlmtheory.acceptance_rate(target, draft), 1.0)
    return {
        "draft": draft,
        "target": target,
        "token": _drawn(draft, rng),
        "k": np.floor((vocabulary + 2.0) ** rng.random(count)).astype(np.int64) - 1,
        "sizes": np.where(draft >= 0.1, likely, np.where(draft >= 0.001, middling, unlikely)),
        "acceptance": acceptance,
        "draft_length": rng.integers(0, LONGEST_DRAFT + 1, count),
        "acceptances": _windows(acceptance, chunk),
    }


def _drawn(rows: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """One token from each row, by the inverse of its distribution function."""
    cumulative = np.cumsum(rows, axis=-1)
    return np.argmax(cumulative > (rng.random(len(rows)) * cumulative[:, -1])[:, None], axis=-1)


def _windows(acceptance: np.ndarray[Any, Any], chunk: TraceChunk) -> np.ndarray[Any, Any]:
    """Runs of LONGEST_DRAFT consecutive positions of one text."""
    if len(acceptance) < LONGEST_DRAFT:
        return np.empty((0, LONGEST_DRAFT))
    rows = np.lib.stride_tricks.sliding_window_view(acceptance, LONGEST_DRAFT)
    last = len(rows)
    steps = chunk.position[LONGEST_DRAFT - 1 :] - chunk.position[:last]
    whole = (steps == LONGEST_DRAFT - 1) & (chunk.prompt_index[LONGEST_DRAFT - 1 :] == chunk.prompt_index[:last])
    return rows[whole]


def _moments(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
    """Sums over the chunk of what the summary averages."""
    top = arrays["draft"].max(axis=-1)
    return {
        "acceptance": float(arrays["acceptance"].sum()),
        "certain_share": float(np.count_nonzero(top >= 0.9)),
        "uncertain_share": float(np.count_nonzero(top <= 0.5)),
    }


def load_results(path: Path) -> Results:
    """Results of an earlier run.

    Raises
    ------
    UserError
        If there are none at ``path``.
    """
    try:
        return Results.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"There are no results at {path}; run `hlm validate` first.") from error
