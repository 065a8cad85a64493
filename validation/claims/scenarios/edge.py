"""Simulated instances for the claims of serving and batching: edge-sd's models, machines and workload.

Tables I and II of edge-sd (zhu2025edgesd): prompts of 1..512 tokens, answers of 1..2,048, drafts of 1..10 tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.serving import Device, ModelShape, Service

LLAMA_68M = ModelShape(2, 768, 3072)
LLAMA_1B = ModelShape(22, 2048, 5632)
LLAMA_7B = ModelShape(32, 4096, 11008)
LLAMA_13B = ModelShape(40, 5120, 13824)
PAIRS = ((LLAMA_68M, LLAMA_7B), (LLAMA_1B, LLAMA_7B), (LLAMA_1B, LLAMA_13B))
"""Table I: (draft, target) models."""

EDGE = Device(4.11e-13, 0.56e-3)
CLOUD = Device(2.08e-14, 1.28e-2)
MEMORY = 16e9
LONGEST_INPUT, LONGEST_OUTPUT, MAX_DRAFT_LENGTH = 512, 2048, 10
"""Table II."""

SIZE = 8
"""Instances in a batch."""

Instance = dict[str, Any]


def service(pair: int = 1, acceptance: float = 0.8, memory: float = MEMORY) -> Service:
    """Return one of the three model pairs on the two devices."""
    return Service(*PAIRS[pair], EDGE, CLOUD, acceptance, memory)


def _models(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return layers, hidden and feed-forward size of both models, shape (SIZE, 2, 3)."""
    return np.asarray([[model.sizes for model in PAIRS[k]] for k in rng.integers(0, len(PAIRS), SIZE)])


def _flops(rng: np.random.Generator) -> Instance:
    return {
        "model": _models(rng)[:, 1],
        "new_tokens": rng.integers(1, LONGEST_INPUT + 1, SIZE).astype(np.float64),
        "cached_tokens": rng.integers(0, LONGEST_OUTPUT, SIZE).astype(np.float64),
    }


def _memory(rng: np.random.Generator) -> Instance:
    return {
        "model": _models(rng)[:, 0],
        "input_tokens": rng.integers(1, LONGEST_INPUT + 1, SIZE),
        "output_tokens": rng.integers(1, LONGEST_OUTPUT + 1, SIZE),
        "batch_size": rng.integers(1, 101, SIZE),
    }


def _stage(rng: np.random.Generator) -> Instance:
    return {
        "model": _models(rng)[:, 0],
        "device": np.tile([EDGE.c1, EDGE.c2], (SIZE, 1)),
        "acceptance": rng.random(SIZE),
        "draft_length": rng.integers(0, MAX_DRAFT_LENGTH + 1, SIZE),
        "input_tokens": rng.integers(1, LONGEST_INPUT + 1, SIZE),
        "batch_size": rng.integers(1, 31, SIZE),
        "step": rng.integers(1, 200, SIZE),
    }


def _times(rng: np.random.Generator, *shape: int) -> Instance:
    """Return stage times in seconds, as for a batch of about ten tasks."""
    return {name: rng.gamma(2.0, 0.05, (SIZE, *shape)) for name in ("draft_times", "verify_times")}


def _departing(rng: np.random.Generator) -> Instance:
    return {**_times(rng, 6), "active": rng.integers(0, 2, (SIZE, 6))}


def _lines(rng: np.random.Generator) -> Instance:
    """Return stages that start at tens of milliseconds and grow by microseconds per step."""
    scale = np.asarray([1.0, 0.1, 1e-4])
    stages = {name: rng.gamma(2.0, 0.5, (SIZE, 5, 3)) * scale for name in ("draft_stages", "verify_stages")}
    return {**stages, "steps": rng.integers(1, 500, (SIZE, 5))}


def _ordered(rng: np.random.Generator) -> Instance:
    return {**_times(rng, 4, 6), "order": np.argsort(rng.random((SIZE, 6)), axis=-1)}


def _tasks(rng: np.random.Generator, *, one_output: bool = True, count: int = 6) -> Instance:
    """Return tasks and the system that serves them; memory is Table II's, a much smaller one, or unlimited."""
    outputs = rng.integers(1, 257, (SIZE, 1 if one_output else count))
    return {
        "input_tokens": rng.integers(1, LONGEST_INPUT + 1, (SIZE, count)),
        "output_tokens": np.broadcast_to(outputs, (SIZE, count)).copy(),
        "draft_length": rng.integers(1, MAX_DRAFT_LENGTH + 1, SIZE),
        "acceptance": rng.random(SIZE),
        "models": _models(rng),
        "devices": np.tile([[EDGE.c1, EDGE.c2], [CLOUD.c1, CLOUD.c2]], (SIZE, 1, 1)),
        "memory": rng.choice([MEMORY, 2.2e9, math.inf], SIZE),
    }


def _with_runs(rng: np.random.Generator) -> Instance:
    """Return tasks and a competing partition into runs of the tasks sorted by prompt length."""
    instance = _tasks(rng)
    place = np.argsort(np.argsort(instance["input_tokens"], axis=-1, kind="stable"), axis=-1)
    cuts = np.cumsum(rng.integers(0, 2, place.shape), axis=-1)
    return {**instance, "labels": np.take_along_axis(cuts, place, axis=-1)}


def _with_partition(rng: np.random.Generator, *, one_output: bool) -> Instance:
    """Return tasks and an arbitrary competing partition."""
    instance = _tasks(rng, one_output=one_output)
    return {**instance, "labels": rng.integers(0, 4, instance["input_tokens"].shape)}


def _with_one_output(rng: np.random.Generator) -> Instance:
    return _with_partition(rng, one_output=True)


def _with_any_output(rng: np.random.Generator) -> Instance:
    return _with_partition(rng, one_output=False)


def _sharing(rng: np.random.Generator, *, count: int = 6, longest: int = 256) -> Instance:
    """Return tasks with various answer lengths, a memory that may bind, and a competing partition."""
    instance = _tasks(rng, one_output=False, count=count)
    return {
        **instance,
        "output_tokens": np.minimum(instance["output_tokens"], longest),
        "memory": rng.choice([MEMORY, 2.2e9], SIZE),
        "labels": rng.integers(0, 4, (SIZE, count)),
    }


def _sharing_one_output(rng: np.random.Generator) -> Instance:
    """Return four tasks with one answer length, a memory that may bind, and a competing partition."""
    instance = _sharing(rng, count=4)
    return {**instance, "output_tokens": np.repeat(instance["output_tokens"][:, :1], 4, axis=1)}


def _few(rng: np.random.Generator) -> Instance:
    """Return two tasks of at most 8 tokens, so that every schedule can be enumerated."""
    return _sharing(rng, count=2, longest=8)


def _drafts(rng: np.random.Generator) -> Instance:
    return {**_memory(rng), "draft_length": rng.integers(1, MAX_DRAFT_LENGTH + 1, SIZE)}


def _random_steps(rng: np.random.Generator) -> Instance:
    return {
        "output_tokens": rng.integers(1, 257, (SIZE, 8)),
        "acceptance": rng.random(SIZE),
        "draft_length": rng.integers(0, MAX_DRAFT_LENGTH + 1, SIZE),
    }


def _stepwise(rng: np.random.Generator) -> Instance:
    return {**_times(rng, 6, 4), "steps": rng.integers(1, 7, (SIZE, 4))}


INSTANCES: dict[str, Callable[[np.random.Generator], Instance]] = {
    "serving.cost": _flops,
    "serving.memory": _memory,
    "serving.stages": _stage,
    "serving.pipeline": lambda rng: _times(rng, 6),
    "serving.departures": _departing,
    "serving.breakpoints": _lines,
    "serving.memory_peak": _drafts,
    "serving.memory_peak_printed": _drafts,
    "serving.mean_steps": _random_steps,
    "serving.longest_steps": _random_steps,
    "serving.printed_steps": _random_steps,
    "serving.mean_latency": lambda rng: {**_random_steps(rng), "stage": rng.gamma(2.0, 0.05, (SIZE, 3))},
    "serving.free": _stepwise,
    "serving.free_schedule": lambda rng: {**_stepwise(rng), "turns": rng.integers(0, 4, (SIZE, 40))},
    "batching.dp": _tasks,
    "batching.dp_printed_value": _tasks,
    "batching.dp_printed_objective": _with_runs,
    "batching.dp_printed_choice": _tasks,
    "batching.dp_printed_memory": _tasks,
    "batching.dp_printed_packing": _tasks,
    "batching.dp_gap": _with_runs,
    "batching.pareto": _with_runs,
    "batching.pareto_value": _tasks,
    "batching.order": _ordered,
    "batching.order_fixed": lambda rng: _times(rng, 4, 6),
    "batching.contiguous": _with_one_output,
    "batching.contiguous_any_output": _with_any_output,
    "batching.exact": _with_any_output,
    "batching.lower_bound": _with_any_output,
    "batching.draft_count": _tasks,
    "batching.memory_each": _sharing,
    "batching.memory_together": _sharing,
    "batching.exact_waves": _sharing,
    "batching.lower_bound_waves": _sharing,
    "batching.position_bound": _sharing_one_output,
    "batching.facility_bound": _sharing,
    "batching.facility_bound_free": _sharing,
    "batching.free_bound": _sharing,
    "batching.free_no_slower": _sharing,
    "batching.exact_free": _few,
}
"""Generator of a batch of instances, by claim id."""
