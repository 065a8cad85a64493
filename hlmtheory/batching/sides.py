"""Parts of the sides of the claims of :mod:`hlmtheory.batching`: from arrays to tasks, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature
from typing import Any, TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL, numbers
from hlmtheory.batching import methods
from hlmtheory.batching.planner import plan
from hlmtheory.serving import Device, ModelShape, Service, Task
from hlmtheory.serving.costs import memory_bytes
from hlmtheory.serving.shapes import MEMORY, POSITIVE_COUNT, SECONDS

Side: TypeAlias = Callable[..., Array]

_NAMES = ("input_tokens", "output_tokens", "draft_length", "acceptance", "models", "devices", "memory")


def cases(
    input_tokens: Array,
    output_tokens: Array,
    draft_length: Array,
    acceptance: Array,
    models: Array,
    devices: Array,
    memory: Array,
) -> tuple[tuple[int, ...], Iterator[tuple[tuple[int, ...], list[Task], Service, int]]]:
    """The batch's shape, and each instance as tasks, service and draft length."""
    inputs = numbers(POSITIVE_COUNT, "input_tokens", input_tokens)
    outputs = numbers(POSITIVE_COUNT, "output_tokens", output_tokens)
    length = numbers(POSITIVE_COUNT, "draft_length", draft_length)
    alpha, store = numbers(UNIT_INTERVAL, "acceptance", acceptance), numbers(MEMORY, "memory", memory)
    shapes, machines = numbers(POSITIVE_COUNT, "models", models), numbers(SECONDS, "devices", devices)

    def each() -> Iterator[tuple[tuple[int, ...], list[Task], Service, int]]:
        for place in np.ndindex(length.shape):
            tasks = [Task(int(i), int(o)) for i, o in zip(inputs[place], outputs[place], strict=True)]
            small, large = (ModelShape(*(int(size) for size in row)) for row in shapes[place])
            edge, cloud = (Device(*(float(c) for c in row)) for row in machines[place])
            yield (
                place,
                tasks,
                Service(small, large, edge, cloud, float(alpha[place]), float(store[place])),
                int(length[place]),
            )

    return length.shape, each()


def against(of_case: Callable[..., float], dtype: type = float) -> Side:
    """Turn a function of a case and a competitor into a side; ``labels`` (..., K) gives each task's batch."""
    return _side(of_case, dtype, "labels")


def side(of_case: Callable[[list[Task], Service, int], float]) -> Side:
    """Turn a function of one case into a side of a claim."""
    return _side(of_case, float)


def _side(of_case: Callable[..., Any], dtype: type, *extra: str) -> Side:
    def made(**given: Array) -> Array:
        shape, each = cases(*(given[name] for name in _NAMES))
        label = numbers(COUNT, "labels", given["labels"]) if extra else None
        values: Array = np.empty(shape, dtype=dtype)
        for place, *case in each:
            if label is not None:
                case.append([np.flatnonzero(label[place] == batch) for batch in np.unique(label[place])])
            values[place] = of_case(*case)
        return values

    made.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in (*_NAMES, *extra)])  # type: ignore[attr-defined]
    return made


def planned(method: str, memory_rule: str = "each", **options: Any) -> Side:
    """The latency of a method's plan, by default under (24b)."""

    def latency(tasks: list[Task], service: Service, length: int) -> float:
        return plan(tasks, service, method, draft_lengths=[length], memory_rule=memory_rule, **options).latency

    return side(latency)


def fits_each(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> bool:
    """Whether every batch meets (24b) with (10)."""
    inputs, outputs = methods.columns(tasks)
    sizes = service.draft.sizes
    needs = [memory_bytes(*sizes, inputs[one].max() + outputs[one].max(), len(one)) for one in batches]
    return bool(max(needs) <= service.memory)
