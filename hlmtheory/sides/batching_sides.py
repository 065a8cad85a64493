"""Parts of the sides of the claims of :mod:`hlmtheory.batching`: from arrays to tasks, and back."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL
from hlmtheory.batching import methods
from hlmtheory.batching.planner import Plan, plan
from hlmtheory.serving import Device, ModelShape, Service, Task
from hlmtheory.serving.costs import memory_bytes
from hlmtheory.serving.shapes import MEMORY, POSITIVE_COUNT, SECONDS
from hlmtheory.sides.host import Values, host_side

Side: TypeAlias = Callable[..., Array]

_DOMAINS = {
    **dict.fromkeys(("input_tokens", "output_tokens", "draft_length", "models"), POSITIVE_COUNT),
    "acceptance": UNIT_INTERVAL,
    "devices": SECONDS,
    "memory": MEMORY,
}
_RANK = {"input_tokens": 1, "output_tokens": 1, "models": 2, "devices": 2, "labels": 1}
_side = partial(host_side, _DOMAINS | {"labels": COUNT, "max_labels": POSITIVE_COUNT}, _RANK)


def case(one: Values) -> tuple[list[Task], Service, int]:
    """Tasks, service and draft length of an instance."""
    tasks = [Task(int(i), int(o)) for i, o in zip(one["input_tokens"], one["output_tokens"], strict=True)]
    small, large = (ModelShape(*map(int, row)) for row in one["models"])
    edge, cloud = (Device(*map(float, row)) for row in one["devices"])
    service = Service(small, large, edge, cloud, float(one["acceptance"]), float(one["memory"]))
    return tasks, service, int(one["draft_length"])


def against(of_case: Callable[..., float], dtype: type = float) -> Side:
    """Turn a function of a case and a competitor into a side; ``labels`` (..., K) gives each task's batch."""

    def of(one: Values) -> float:
        return of_case(*case(one), [np.flatnonzero(one["labels"] == batch) for batch in np.unique(one["labels"])])

    return _side(of, *_DOMAINS, "labels", test=dtype is bool)


def side(of_case: Callable[[list[Task], Service, int], float]) -> Side:
    """Turn a function of one case into a side of a claim."""
    return _side(lambda one: of_case(*case(one)), *_DOMAINS)


def planned(method: str, memory_rule: str = "each", **options: Any) -> Side:
    """The latency of a method's plan, by default under (24b)."""

    def latency(tasks: list[Task], service: Service, length: int) -> float:
        return plan(tasks, service, method, draft_lengths=[length], memory_rule=memory_rule, **options).latency

    return side(latency)


def searched(of_plan: Callable[[Plan], float], dtype: type = float) -> Side:
    """Turn a function of the plan by "pareto" into a side; it keeps ``max_labels`` labels of a prefix."""

    def of(one: Values) -> float:
        tasks, service, length = case(one)
        options: Any = {"draft_lengths": [length], "memory_rule": "each", "max_labels": int(one["max_labels"])}
        return of_plan(plan(tasks, service, "pareto", **options))

    return _side(of, *_DOMAINS, "max_labels", test=dtype is bool)


def fits_each(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> bool:
    """Whether every batch meets (24b) with (10)."""
    inputs, outputs = methods.columns(tasks)
    sizes = service.draft.sizes
    needs = [memory_bytes(*sizes, inputs[one].max() + outputs[one].max(), len(one)) for one in batches]
    return bool(max(needs) <= service.memory)
