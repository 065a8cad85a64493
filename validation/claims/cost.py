"""Estimate what a run of ``hlm validate`` costs, before it starts: positions, disk, memory, CPU time of each step.

The models, where they are on this machine, are timed on a few texts of the run's own prompts, with the functions of the
run. So each time is one measured term times a count. Models that are elsewhere are not downloaded; their passes are
derived from the number of parameters. A term says where it is from:

======== =============================================================================================
measured timed now, on this machine
derived  computed from measured numbers and the shapes of the models
assumed  a constant; measured once on another pair, or a guess that the text states
======== =============================================================================================
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import hlmtheory
from validation.claims.check import block_rows, check_trace
from validation.claims.instances import measured as decided_by_models
from validation.claims.order import PROCESS_MEMORY, workers_here
from validation.collection.collect import (
    DEFAULT_BATCH,
    SCORED_ROWS,
    SCORED_VALUES,
    Text,
    continue_texts,
    teacher_forced_logits,
)
from validation.models.devices import wait_for, working_memory
from validation.models.pair import Pair
from validation.trace.reader import Trace, TraceWriter, open_trace
from validation.trace.synthetic import SyntheticTrace

MEASURED, DERIVED, ASSUMED = "measured", "derived", "assumed"
FEW, MORE = 1, 16
"""New tokens of the two trials, whose difference is the time of a step."""
MATRIX = 1024
FIGURES_S, FIGURES_V = 226.0, 0.0034
"""CPU seconds of all figures and the report: a constant, and more for each entry of the vocabulary.

They join 240 s of the built-in pair (V = 4,096; two minutes on two cores) and 395 s of SmolLM2 (V = 49,152), each
measured once, on other machines.
"""
SIMULATED_S = 85.0
"""CPU seconds of the simulated claims, measured once."""
COMPRESSED = 0.75
"""Bytes on disk of a stored byte, of models that are not timed."""

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the run: a count of units, and the CPU seconds of each unit.

    Attributes
    ----------
    origin : str
        ``measured``, ``derived`` or ``assumed``.
    source : str
        What was timed, computed or assumed.
    cores : int
        Cores that the step uses at once.
    """

    name: str
    unit: str
    count: float
    each_s: float
    origin: str
    source: str
    cores: int = 1

    @property
    def cpu_s(self) -> float:
        """Return the CPU seconds of the step."""
        return self.count * self.each_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run costs.

    Attributes
    ----------
    positions, batches, vocabulary : int
        Expected positions; each batch has 32 prompts, or all.
    disk : int
        Bytes of the trace.
    memory : dict of str to int
        Bytes by stage; the peak is the largest.
    workers : int
        Processes of the check.
    """

    positions: int
    batches: int
    vocabulary: int
    disk: int
    disk_origin: str
    memory: dict[str, int]
    workers: int
    steps: tuple[Step, ...]
    remarks: tuple[str, ...] = ()

    @property
    def cpu_s(self) -> float:
        """Return the CPU seconds of all steps."""
        return sum(step.cpu_s for step in self.steps)

    @property
    def wall_s(self) -> float:
        """Return the seconds on idle cores."""
        return sum(step.cpu_s / step.cores for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        """Return the cost as plain values."""
        steps = [asdict(step) | {"cpu_s": step.cpu_s} for step in self.steps]
        return asdict(self) | {"steps": steps, "cpu_s": self.cpu_s, "wall_s": self.wall_s}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the run: its size, what it computes after the check, and the mean tokens of a text.

    ``length`` is None where the models were not tried: then no text is assumed to end before ``new_tokens``.
    """

    positions: int
    new_tokens: int
    prompts: int
    figures: bool = True
    all_claims: bool = False
    memory: int | None = None
    length: float | None = None

    @property
    def batch(self) -> int:
        """Return the texts of a batch."""
        return min(DEFAULT_BATCH, self.prompts)

    @property
    def batches(self) -> int:
        """Return the batches that give the positions."""
        return math.ceil(self.positions / (self.batch * (self.length or self.new_tokens)))

    @property
    def texts(self) -> int:
        """Return the texts of all batches."""
        return self.batches * self.batch

    @property
    def expected(self) -> int:
        """Return the expected positions of all batches."""
        return round(self.texts * (self.length or self.new_tokens))

    def ending(self, texts: Sequence[Text], end_tokens: Sequence[int]) -> Asked:
        """Return the same with the mean length of texts that end as often as those of a trial.

        A token ends its text with the probability (ends + 1/2)/(tokens + 1).
        """
        tokens = sum(len(text.tokens) - text.start for text in texts)
        ends = sum(text.tokens[-1] in end_tokens for text in texts)
        rate = (ends + 0.5) / (tokens + 1.0)
        return replace(self, length=-math.expm1(self.new_tokens * math.log1p(-rate)) / rate)


@dataclass(frozen=True, slots=True)
class Passes:
    """Steps of the two models, with the bytes that a position takes on disk and where that number is from."""

    steps: tuple[Step, ...]
    bytes_each: float
    origin: str


def cost_of_pair(
    pair: Pair, encoded: Sequence[Sequence[int]], asked: Asked, seed: int, loading_s: float, say: Say
) -> Cost:
    """Return the cost of a run with loaded models, from a trial on the first prompts.

    Parameters
    ----------
    encoded : sequence of list of int
        Tokens of the prompts.
    loading_s : float
        CPU seconds that starting and loading both models took.
    say : callable
        Called with one line before each trial.
    """
    with tempfile.TemporaryDirectory(prefix="hlm-cost-") as folder:
        passes, trace, asked = _try_models(pair, encoded, asked, seed, Path(folder), say)
        say("timing the check")
        check = _check_step(trace, seed, "the run's own rows", MEASURED)
    loading = Step(
        name="starting and loading",
        unit="pair",
        count=1,
        each_s=loading_s,
        origin=MEASURED,
        source="Python, its libraries, both models",
    )
    passes = replace(passes, steps=(loading, *passes.steps))
    weights = [
        sum(one.numel() * one.element_size() for one in model.parameters()) for model in (pair.draft, pair.target)
    ]
    return _cost(asked, pair.vocabulary, passes, check, sum(weights))


def cost_of_shapes(
    parameters: Sequence[int], vocabulary: int, prompt: float, asked: Asked, width: int, why: str
) -> Cost:
    """Return the cost of a run with models that are not loaded.

    Parameters
    ----------
    parameters : sequence of int
        Of the draft and of the target model.
    prompt : float
        Mean tokens of a prompt.
    width : int
        Bytes of a weight.
    why : str
        Why they are not loaded.
    """
    rate, copy = _matrix_rate(), _copy_rate()
    draft, target = parameters
    read = asked.texts * (prompt + asked.new_tokens)
    step_s = max(2 * target * asked.batch / rate, target * width / copy)
    steps = (
        Step(
            name="the target model writes",
            unit=f"steps of {asked.batch} texts",
            count=asked.batches * asked.new_tokens,
            each_s=step_s,
            origin=DERIVED,
            source="2 operations a parameter and token, or one pass over the weights; rates timed here",
            cores=_threads(),
        ),
        Step(
            name="both models read",
            unit="tokens",
            count=read,
            each_s=2 * (draft + target) / rate,
            origin=DERIVED,
            source="2 operations a parameter and token; the rate of a matrix product, timed here",
            cores=_threads(),
        ),
    )
    check = _check_step(SyntheticTrace(block_rows(vocabulary), vocabulary), 1, "random rows of this V", MEASURED)
    passes = Passes(steps, 4 * vocabulary * COMPRESSED, ASSUMED)
    remark = f"{why}, so their passes are derived: real ones may take 1 to 3 times as long (assumed)."
    return _cost(asked, vocabulary, passes, check, width * (draft + target), remarks=(remark,))


def _cost(
    asked: Asked, vocabulary: int, passes: Passes, check: Step, weights: int, remarks: tuple[str, ...] = ()
) -> Cost:
    """Return the cost from the models' steps and the check of one position."""
    positions, workers = asked.expected, workers_here(vocabulary, asked.memory)
    steps = [*passes.steps, _scaled(check, positions, workers)]
    if asked.all_claims:
        steps.append(_constant("the simulated claims", SIMULATED_S, "a run of SmolLM2", workers))
    if asked.figures:
        seconds = FIGURES_S + FIGURES_V * vocabulary
        steps.append(_constant("figures and report", seconds, "the built-in pair and SmolLM2, once each", workers))
    memory = {"both models": working_memory(weights), "the check": workers * PROCESS_MEMORY}
    needed = memory["both models"]
    if asked.memory is not None and needed > asked.memory:
        remarks += (
            f"{needed / 1e9:.2f} GB are more than the {asked.memory / 1e9:.2f} GB of --memory, so the run would be "
            "refused; choose --dtype bfloat16 or smaller models.",
        )
    if asked.length is None:
        remarks += (f"No text is assumed to end before {asked.new_tokens} tokens; texts that do take more batches.",)
    else:
        remarks += (f"A text is expected to have {asked.length:.0f} of {asked.new_tokens} tokens, as in the trial.",)
    return Cost(
        positions=positions,
        batches=asked.batches,
        vocabulary=vocabulary,
        disk=int(positions * passes.bytes_each),
        disk_origin=passes.origin,
        memory=memory,
        workers=workers,
        steps=tuple(steps),
        remarks=remarks,
    )


def _scaled(step: Step, count: float, cores: int) -> Step:
    return replace(step, count=count, cores=cores)


def _constant(name: str, seconds: float, source: str, cores: int) -> Step:
    return Step(name=name, unit="run", count=1, each_s=seconds, origin=ASSUMED, source=source, cores=cores)


# ---------------------------------------------------------------------------------------------- trials


def _try_models(
    pair: Pair, encoded: Sequence[Sequence[int]], asked: Asked, seed: int, folder: Path, say: Say
) -> tuple[Passes, Trace, Asked]:
    """Return the steps of both models, timed on one batch, a trace of a block of their rows, and the texts' length."""
    texts = [Text(i, str(i), list(tokens), len(tokens)) for i, tokens in enumerate(encoded[: asked.batch])]
    say("the target model writes a few tokens")
    continue_texts(pair, texts, 1, seed, _silent)  # warm-up
    few, _ = _timed(pair, partial(continue_texts, pair, texts, FEW, seed, _silent))
    more, written = _timed(pair, partial(continue_texts, pair, texts, min(MORE, asked.new_tokens), seed, _silent))
    steps_taken = max(len(text.tokens) - text.start for text in written)
    step_s = max(more - few, 0.0) / max(steps_taken - FEW, 1)
    first_s = max(few - FEW * step_s, 0.0)
    asked = asked.ending(written, pair.end_tokens)
    say("both models read a few texts")
    whole = [_lengthened(text, asked.new_tokens) for text in written]
    rows = max(1, min(SCORED_ROWS, SCORED_VALUES // (asked.new_tokens * pair.vocabulary), len(whole)))
    group = sorted(whole, key=lambda text: len(text.tokens))[-rows:]
    times, logits = {}, {}
    for which in ("draft", "target"):
        read = partial(teacher_forced_logits, pair, which)
        read(group[:1])  # warm-up
        times[which], logits[which] = _timed(pair, partial(read, group))
    count = rows * asked.new_tokens
    kept = min(count, block_rows(pair.vocabulary))
    store_s, size = _timed(pair, partial(_store, folder / "all", pair, group, logits, count))
    _store(folder / "block", pair, group, logits, kept)
    few_tokens, some_texts = f"{len(texts)} texts of {steps_taken} tokens", f"{rows} texts"
    cores = _threads()
    steps = [
        ("the target model writes", f"steps of {asked.batch} texts", asked.batches * asked.new_tokens, step_s),
        ("it reads the prompts", f"batches of {asked.batch}", asked.batches, first_s),
        ("the draft model reads", "texts", asked.texts, times["draft"] / rows),
        ("the target model reads", "texts", asked.texts, times["target"] / rows),
        ("storing", "positions", asked.expected, store_s / count),
    ]
    sources = (few_tokens, few_tokens, some_texts, some_texts, some_texts)
    found = tuple(
        Step(
            name=name,
            unit=unit,
            count=number,
            each_s=each,
            origin=MEASURED,
            source=source,
            cores=1 if name == "storing" else cores,
        )
        for (name, unit, number, each), source in zip(steps, sources, strict=True)
    )
    return Passes(found, size / count, MEASURED), open_trace(folder / "block"), asked


def _lengthened(text: Text, new_tokens: int) -> Text:
    """Return a text with ``new_tokens`` generated tokens: its own, repeated."""
    own = text.tokens[text.start :]
    repeated = (own * -(-new_tokens // len(own)))[:new_tokens]
    return Text(text.prompt_index, text.prompt_id, text.tokens[: text.start] + repeated, text.start)


def _store(folder: Path, pair: Pair, group: Sequence[Text], logits: dict[str, Any], count: int) -> int:
    """Write the first ``count`` positions of the texts as a trace; return its bytes."""
    import numpy as np

    with TraceWriter(folder, pair.vocabulary) as writer:
        for text, draft, target in zip(group, logits["draft"], logits["target"], strict=True):
            rows = min(len(draft), count - writer.positions)
            if rows <= 0:
                break
            tokens = np.array(text.tokens[text.start :][:rows], dtype=np.int32)
            index = np.full(rows, text.prompt_index, dtype=np.int32)
            writer.append(draft[:rows], target[:rows], tokens, index, np.arange(rows, dtype=np.int32))
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _check_step(trace: Any, seed: int, source: str, origin: str) -> Step:
    """Return the check of one position, timed on one block in this process."""
    claims = decided_by_models(hlmtheory.all_claims())
    check_trace(cast("Trace", SyntheticTrace(16, 64)), seed=seed, claims=claims)  # warm-up: imports
    began = time.process_time()
    check_trace(trace, seed=seed, claims=claims)
    each = (time.process_time() - began) / trace.positions
    what = f"{trace.positions} positions, {source}"
    return Step(name="the check", unit="positions", count=0, each_s=each, origin=origin, source=what)


def _timed(pair: Pair, work: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds of a call and its value: CPU seconds of all threads, or of a GPU the seconds that pass."""
    clock = time.process_time if pair.device.type == "cpu" else time.perf_counter
    wait_for(pair.device)
    began = clock()
    value = work()
    wait_for(pair.device)
    return clock() - began, value


def _silent(text: str) -> None:
    """Report nothing."""


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def _matrix_rate() -> float:
    """Return the operations of a CPU second in a matrix product."""
    import torch

    matrix = torch.ones(MATRIX, MATRIX)
    matrix @ matrix  # warm-up
    began, rounds = time.process_time(), 0
    while time.process_time() - began < 0.3:
        matrix @ matrix
        rounds += 1
    return float(2 * MATRIX**3 * rounds / (time.process_time() - began))


def _copy_rate() -> float:
    """Return the bytes that a CPU second reads in a copy."""
    import torch

    source = torch.ones(2**24)
    began, rounds = time.process_time(), 0
    while time.process_time() - began < 0.3:
        source.clone()
        rounds += 1
    return float(source.nbytes * rounds / (time.process_time() - began))
