"""Estimate what a run of ``hlm validate`` costs, before it starts: positions, disk, memory, CPU time of each step.

The models are timed on a few texts of the run. A term is measured now, or assumed: measured once, elsewhere.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np

import hlmtheory
from validation.claims.check import block_rows, check_trace
from validation.claims.instances import measured as decided_by_models
from validation.claims.order import PROCESS_MEMORY, workers_here
from validation.collection import collect
from validation.models.devices import wait_for, working_memory
from validation.models.pair import Pair
from validation.trace.reader import SyntheticTrace, Trace, TraceWriter, open_trace

MEASURED, ASSUMED = "measured", "assumed"
FEW, MORE, FEWER, TRIAL_S = 1, 16, 3, 20.0
"""New tokens of two trials, whose difference is the time of a step; FEWER if prompts would take TRIAL_S seconds."""
FIGURES_S, FIGURES_V = 226.0, 0.0034
"""CPU seconds of figures and report, and more for each entry of the vocabulary: 240 s at V = 4,096, 395 s at 49,152."""
SIMULATED_S = 85.0
"""CPU seconds of the simulated claims, measured once."""
Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the run: a count of units, the CPU seconds of each, their origin, and the cores used at once."""

    name: str
    unit: str
    count: float
    each_s: float
    origin: str
    source: str
    cores: int = 1

    @property
    def cpu_s(self) -> float:
        return self.count * self.each_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run costs; ``disk`` and ``memory`` (by stage; the peak is the largest) are bytes."""

    positions: int
    batches: int
    vocabulary: int
    disk: int
    memory: dict[str, int]
    workers: int
    steps: tuple[Step, ...]
    remarks: tuple[str, ...] = ()

    @property
    def cpu_s(self) -> float:
        return sum(step.cpu_s for step in self.steps)

    @property
    def wall_s(self) -> float:
        """Return the seconds on idle cores."""
        return sum(step.cpu_s / step.cores for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        steps = [asdict(step) | {"cpu_s": step.cpu_s} for step in self.steps]
        return asdict(self) | {"steps": steps, "cpu_s": self.cpu_s, "wall_s": self.wall_s}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the run: its size, what it computes after the check, and the mean tokens of a text."""

    positions: int
    new_tokens: int
    prompts: int
    figures: bool = True
    all_claims: bool = False
    memory: int | None = None
    length: float | None = None  # without a trial, no text is assumed to end before ``new_tokens``

    @property
    def batch(self) -> int:
        return min(collect.DEFAULT_BATCH, self.prompts)

    @property
    def batches(self) -> int:
        return math.ceil(self.positions / (self.batch * (self.length or self.new_tokens)))

    @property
    def texts(self) -> int:
        return self.batches * self.batch

    @property
    def expected(self) -> int:
        return round(self.texts * (self.length or self.new_tokens))

    def ending(self, texts: Sequence[collect.Text], end_tokens: Sequence[int]) -> Self:
        """Return the same with the mean length of texts that end as often as those of a trial."""
        tokens = sum(len(text.tokens) - text.start for text in texts)
        ends = sum(text.tokens[-1] in end_tokens for text in texts)
        rate = (ends + 0.5) / (tokens + 1.0)
        return replace(self, length=-math.expm1(self.new_tokens * math.log1p(-rate)) / rate)


def cost_of_pair(
    pair: Pair, encoded: Sequence[Sequence[int]], asked: Asked, seed: int, loading_s: float, say: Say
) -> Cost:
    """Return the cost of a run with loaded models, from a trial on the first prompts."""
    with tempfile.TemporaryDirectory(prefix="hlm-cost-") as folder:
        trial, bytes_each, trace, asked = _try_models(pair, encoded, asked, seed, Path(folder), say)
        say("timing the check")
        check_s = _check_s(trace, seed)
    positions, workers = asked.expected, workers_here(pair.vocabulary, asked.memory)
    steps = [
        Step("starting and loading", "pair", 1, loading_s, MEASURED, "Python, its libraries, both models"),
        *trial,
        Step("the check", "positions", positions, check_s, MEASURED, "rows of this V", workers),
    ]
    if asked.all_claims:
        steps.append(Step("the simulated claims", "run", 1, SIMULATED_S, ASSUMED, "a run of SmolLM2", workers))
    if asked.figures:
        seconds, source = FIGURES_S + FIGURES_V * pair.vocabulary, "the built-in pair and SmolLM2, once each"
        steps.append(Step("figures and report", "run", 1, seconds, ASSUMED, source, workers))
    weights = sum(one.numel() * one.element_size() for side in (pair.draft, pair.target) for one in side.parameters())
    needed = working_memory(weights)
    remarks = [f"A text is expected to have {asked.length:.0f} of {asked.new_tokens} tokens, as in the trial."]
    if asked.memory is not None and needed > asked.memory:
        remarks.insert(0, f"{needed / 1e9:.2f} GB are more than the {asked.memory / 1e9:.2f} GB of --memory.")
    return Cost(
        positions=positions,
        batches=asked.batches,
        vocabulary=pair.vocabulary,
        disk=int(positions * bytes_each),
        memory={"both models": needed, "the check": workers * PROCESS_MEMORY},
        workers=workers,
        steps=tuple(steps),
        remarks=tuple(remarks),
    )


def _try_models(
    pair: Pair, encoded: Sequence[Sequence[int]], asked: Asked, seed: int, folder: Path, say: Say
) -> tuple[list[Step], float, Trace, Asked]:
    import torch

    texts = [collect.Text(i, str(i), list(tokens), len(tokens)) for i, tokens in enumerate(encoded[: asked.batch])]
    say("the target model writes a few tokens")
    write = partial(collect.continue_texts, pair, seed=seed, report=lambda text: None)
    write(texts[:1], new_tokens=1)  # warm-up
    prompts_s = _timed(pair, partial(write, texts[:1], new_tokens=1))[0] * len(texts)
    dear = prompts_s > TRIAL_S
    started = [replace(text, tokens=text.tokens[-1:], start=1) for text in texts] if dear else texts
    few, _ = _timed(pair, partial(write, started, new_tokens=FEW))
    more, written = _timed(pair, partial(write, started, new_tokens=min(FEWER if dear else MORE, asked.new_tokens)))
    steps_taken = max(len(text.tokens) - text.start for text in written)
    step_s = max(more - few, 0.0) / max(steps_taken - FEW, 1)
    if not dear:
        prompts_s = max(few - FEW * step_s, 0.0)
    asked = asked.ending(written, pair.end_tokens)
    say("both models read a few texts")
    whole = [_lengthened(text, asked.new_tokens) for text in written]
    rows = max(1, min(collect.SCORED_ROWS, collect.SCORED_VALUES // (asked.new_tokens * pair.vocabulary), len(whole)))
    group = sorted(whole, key=lambda text: len(text.tokens))[-rows:]
    times, logits = {}, {}
    for which in ("draft", "target"):
        read = partial(collect.teacher_forced_logits, pair, which)
        read([_lengthened(text, 1) for text in written[:1]])  # warm-up
        times[which], logits[which] = _timed(pair, partial(read, group))
    count = rows * asked.new_tokens
    store_s, size = _timed(pair, partial(_store, folder / "all", pair, group, logits, count))
    _store(folder / "block", pair, group, logits, min(count, block_rows(pair.vocabulary)))
    cores, batches, wrote, read_by = torch.get_num_threads(), asked.batches, f"{len(texts)} texts", f"{rows} texts"
    steps = [
        ("the target model writes", f"steps of {asked.batch} texts", batches * asked.new_tokens, step_s, wrote),
        ("it reads the prompts", f"batches of {asked.batch}", batches, prompts_s, "1 text" if dear else wrote),
        ("the draft model reads", "texts", asked.texts, times["draft"] / rows, read_by),
        ("the target model reads", "texts", asked.texts, times["target"] / rows, read_by),
    ]
    found = [Step(*step[:4], MEASURED, step[4], cores) for step in steps]
    found.append(Step("storing", "positions", asked.expected, store_s / count, MEASURED, read_by))
    return found, size / count, open_trace(folder / "block"), asked


def _lengthened(text: collect.Text, new_tokens: int) -> collect.Text:
    own = text.tokens[text.start :]
    repeated = (own * -(-new_tokens // len(own)))[:new_tokens]
    return collect.Text(text.prompt_index, text.prompt_id, text.tokens[: text.start] + repeated, text.start)


def _store(folder: Path, pair: Pair, group: Sequence[collect.Text], logits: dict[str, Any], count: int) -> int:
    with TraceWriter(folder, pair.vocabulary) as writer:
        for text, draft, target in zip(group, logits["draft"], logits["target"], strict=True):
            rows = min(len(draft), count - writer.positions)
            if rows <= 0:
                break
            index = np.full(rows, text.prompt_index)
            writer.append(draft[:rows], target[:rows], text.tokens[text.start :][:rows], index, np.arange(rows))
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _check_s(trace: Any, seed: int) -> float:
    claims = decided_by_models(hlmtheory.all_claims())
    check_trace(cast("Trace", SyntheticTrace(16, 64)), seed=seed, claims=claims)  # warm-up: imports
    began = time.process_time()
    check_trace(trace, seed=seed, claims=claims)
    return float((time.process_time() - began) / trace.positions)


def _timed(pair: Pair, work: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds of a call and its value: CPU seconds of all threads, or of a GPU the seconds that pass."""
    clock = time.process_time if pair.device.type == "cpu" else time.perf_counter
    wait_for(pair.device)
    began = clock()
    value = work()
    wait_for(pair.device)
    return clock() - began, value
